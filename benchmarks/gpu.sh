#!/usr/bin/env bash
# A quarter of an hour of a lent GPU, prepared so that none of it is lost.
#
#   bash benchmarks/gpu.sh pack [NAME...]   # here: gpu_kit/: code, three wheels, CIFAR-10, other sets; under 64 MiB
#   bash gpu_kit/gpu.sh measure             # there, first call: machine, digits, throughput, views, profile
#   bash gpu_kit/gpu.sh train JOBS SECONDS  # there, second call: the recipes of a file, side by side
#   bash benchmarks/gpu.sh --rehearse       # here: both calls at small size on this CPU, Python 3.12, without network
#
# The machine needs Linux, Python 3.12 with JAX, PyTorch, NumPy, SciPy, scikit-learn, Pillow, Matplotlib, h5py and
# huggingface-hub; no Keras, no network. What comes out lies in $OUT (gpu_out), in few files: measure.txt, results.json
# (a row a line), profile.json and archives of models. `python benchmarks/gpu.py table results.json` makes a table.
# A line of JOBS is "NAME: COMMAND"; the one program runs in the code's folder and writes to $RUNS/NAME. With
# --max-minutes the rate falls in the time there is; the first minute or two go into compilation:
#
#   simclr: python3 recipes/simclr.py --dataset cifar10 --precision mixed_bfloat16 --max-minutes 6 --out $RUNS/simclr
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}

pack() {
    local root kit name
    root=$(dirname "$here") && kit=$root/gpu_kit
    rm -rf "$kit" && mkdir -p "$kit/wheels"
    "$python" -m pip download -q --no-deps --only-binary=:all: --python-version 3.12 \
        --platform manylinux_2_28_x86_64 -d "$kit/wheels" keras namex optree || exit 1
    "$python" "$here/gpu.py" pack "$kit/images.npz" ${TFDS_DATA_DIR:+--data-dir "$TFDS_DATA_DIR"} || exit 1
    for name in "$@"; do # gray images weigh as much raw as encoded
        (cd "$root" && "$python" -m sslzoo.data "$name" -o "$kit/$name.npz") || exit 1
    done
    (cd "$root" && git ls-files -z sslzoo recipes benchmarks weights_manifest.json pyproject.toml README.md |
        tar czf "$kit/code.tar.gz" --null -T -) || exit 1
    cp "$here/gpu.sh" "$kit/gpu.sh"
    du -sh --apparent-size "$kit"/*
    if [ "$(du -s --apparent-size -k "$kit" | cut -f1)" -gt $((64 * 1024)) ]; then
        echo "The kit must be under 64 MiB. Received: $(du -sh --apparent-size "$kit" | cut -f1)" >&2
        exit 1
    fi
}

unpack() { # into a folder of its own; sets $work and $OUT
    OUT=${OUT:-$PWD/gpu_out} && work=${WORK:-$(mktemp -d)/sslzoo}
    mkdir -p "$OUT" "$work"
    if [ ! -e "$work/cifar10.npz" ]; then
        "$python" -m pip install -q --no-index --no-deps --target "$work/site" "$here"/wheels/*.whl || exit 1
        tar xzf "$here/code.tar.gz" -C "$work" || exit 1
        PYTHONPATH=$work/site "$python" "$work/benchmarks/gpu.py" unpack "$here/images.npz" "$work/cifar10.npz" \
            ${SMALL:+--limit 512} || exit 1
        for set in "$here"/*.npz; do # all that were packed
            [ "${set##*/}" = images.npz ] || ln -sf "$set" "$work/"
        done
    fi
    export TFDS_DATA_DIR=$work RUNS=$work/runs # where the sets are known by their names
    export PYTHONPATH=$work:$work/site:$work/benchmarks PYTHONUNBUFFERED=1 KERAS_BACKEND=jax
    export JAX_COMPILATION_CACHE_DIR=$work/cache XLA_PYTHON_CLIENT_PREALLOCATE=false
    cd "$work" || exit 1
}

step() { # step NAME SECONDS COMMAND...: its output goes to $OUT/measure.txt; a step that fails does not stop the next
    local name=$1 limit=$2 began=$SECONDS said code
    shift 2
    echo "== $name: $*" | tee -a "$OUT/measure.txt"
    said=$(timeout "$((limit * ${SLOWER:-1}))" "$@" 2>&1)
    code=$?
    echo "$said" >>"$OUT/measure.txt"
    echo "   rc $code, $((SECONDS - began)) s: $(grep -v '^$' <<<"$said" | tail -n 1 | cut -c1-160)"
}

check() {
    "$python" - <<'PY'
import os, sys, jax, keras, numpy, torch
print("python", sys.version.split()[0], "jax", jax.__version__, "torch", torch.__version__, "numpy", numpy.__version__,
      "keras", keras.__version__)
print("jax:", jax.devices(), "torch:", torch.cuda.is_available() and torch.cuda.get_device_name())
if not os.environ.get("SMALL") and jax.devices()[0].platform == "cpu":
    sys.exit("JAX must see a GPU. Received: " + str(jax.devices()))
PY
}

measure() {
    unpack
    local size=512 steps=4 rounds=3 fuse=32 views=(32 224) batch=256 peers=(scan torch)
    [ -n "${SMALL:-}" ] && size=2 steps=1 rounds=1 fuse=1 views=(32 96) batch=2 peers=(scan)
    command -v nvidia-smi >/dev/null && nvidia-smi >>"$OUT/measure.txt"
    check || exit 1
    local json=(--json "$OUT/results.json") of=(--batch-size $size --steps $steps --rounds $rounds)
    step throughput 180 "$python" benchmarks/throughput.py --network resnet18 "${of[@]}" --fuse-steps $fuse \
        --precision mixed_bfloat16 --peers "${peers[@]}" "${json[@]}"
    step airnet 120 "$python" benchmarks/throughput.py --network airnet "${of[@]}" --fuse-steps $fuse \
        --precision mixed_bfloat16 "${json[@]}"
    KERAS_BACKEND=torch step torch 60 "$python" benchmarks/throughput.py --network resnet18 "${of[@]}" \
        --precision mixed_bfloat16 "${json[@]}"
    for side in "${views[@]}"; do
        step "views-$side" 60 "$python" benchmarks/views.py --policies simclr-cifar10 --image-size "$side" \
            --batch-size $batch --num-views 2 --only device "${json[@]}"
    done
    step digits 90 "$python" recipes/simclr.py --epochs 20 --protocols knn --out "$work/digits"
    step profile 60 "$python" benchmarks/gpu.py profile "$OUT/profile.json" --batch-size $size ${SMALL:+--steps 1}
    "$python" benchmarks/gpu.py table "$OUT/results.json"
}

train() {
    local jobs
    jobs=$(realpath "$1")
    unpack
    check || exit 1
    "$python" benchmarks/gpu.py train "$jobs" "$RUNS" "$OUT" --seconds "$2" --workers "${WORKERS:-3}"
}

rehearse() {
    local place began=$SECONDS
    place=$(mktemp -d)
    pack
    echo "== pack: $((SECONDS - began)) s" && began=$SECONDS
    ${PYTHON312:-python3.12} -m venv "$place/venv" || exit 1
    python=$place/venv/bin/python
    "$python" -m pip install -q torch==2.13.0 jax numpy scipy scikit-learn pillow matplotlib h5py huggingface-hub \
        threadpoolctl ml-dtypes absl-py rich packaging || exit 1
    echo "== a fresh environment: $((SECONDS - began)) s"
    local alone=() # no network, where a user may ask for that
    unshare -rn true 2>/dev/null && alone=(unshare -rn)
    echo "simclr: $python recipes/simclr.py --dataset cifar10 --limit 64 --epochs 1 --batch-size 16 --float16" \
        "--precision mixed_bfloat16 --protocols knn linear --out \$RUNS/simclr" >"$place/jobs.txt"
    for call in measure "train $place/jobs.txt 300"; do
        (cd "$place" && PYTHON=$python SMALL=1 SLOWER=6 OUT=$place/out WORK=$place/work \
            "${alone[@]}" bash "$(dirname "$here")/gpu_kit/gpu.sh" $call)
    done
    grep -E "Error|Traceback" "$place"/out/measure.txt
    ls -l "$place/out"
}

case ${1:-} in
pack | measure | train) "$@" ;;
--rehearse) rehearse ;;
*) sed -n '2,18s/^# \{0,1\}//p' "$0" && exit 2 ;;
esac
