"""What `gpu.sh` needs beside shell: images in little space, jobs side by side, a profile, a table of what it measured.

    python benchmarks/gpu.py pack images.npz               # CIFAR-10 as TFDS has it: encoded files, once deflated
    python benchmarks/gpu.py unpack images.npz cifar10.npz # ... as sslzoo reads it
    python benchmarks/gpu.py train jobs.txt runs out --seconds 500 --workers 3
    KERAS_BACKEND=jax python benchmarks/gpu.py profile profile.json --batch-size 512
    python benchmarks/gpu.py table results.json            # Markdown

Encoded files of one camera share their headers, so that deflating all of them at once makes them a third (JPEG); files
of the original images (PNG) hardly shrink, and are then more than a kit may weigh.
"""

import argparse
import glob
import gzip
import io
import json
import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

SPLITS = ("train", "test")
LAST = 120  # seconds, of a recipe from its start to a model that is worth measuring


def pack(path, data_dir=None):
    """Writes the encoded images and labels of CIFAR-10 out of TFDS' files."""
    import tensorflow_datasets as tfds

    builder, arrays = tfds.builder("cifar10", data_dir=data_dir), {}
    for split in SPLITS:
        encoded = builder.as_dataset(split=split, decoders={"image": tfds.decode.SkipDecoding()})
        files, labels = zip(*((example["image"], example["label"]) for example in tfds.as_numpy(encoded)))
        arrays[f"{split}_files"] = np.frombuffer(b"".join(files), "uint8")
        arrays[f"{split}_sizes"] = np.array([len(file) for file in files], "int32")
        arrays[f"{split}_labels"] = np.array(labels, "int64")
    np.savez_compressed(path, **arrays)
    print(f"{path}: {Path(path).stat().st_size / 2**20:.1f} MiB")


def unpack(path, out, limit=None):
    """Writes `<split>_images` (N, 32, 32, 3) uint8 and `<split>_labels`, as `sslzoo.data.load` reads them."""
    from PIL import Image

    arrays = {}
    with np.load(path) as packed:
        for split in SPLITS:
            ends = np.cumsum(packed[f"{split}_sizes"])[:limit]
            files = packed[f"{split}_files"].tobytes()
            starts = [0, *ends[:-1]]
            arrays[f"{split}_images"] = np.stack(
                [
                    np.asarray(Image.open(io.BytesIO(files[start:end])).convert("RGB"))
                    for start, end in zip(starts, ends)
                ]
            )
            arrays[f"{split}_labels"] = packed[f"{split}_labels"][:limit]
    np.savez(out, **arrays)
    print(", ".join(f"{name} {array.shape}" for name, array in arrays.items()))


def train(jobs, runs, out, seconds, workers):
    """Runs the lines of `jobs`, "NAME: COMMAND", side by side, and packs what each writes to `runs`/NAME into `out`.

    Lines begin in their order, as many at a time as there are workers: few, for processes take turns on a card. None
    begins in the last `LAST` seconds; what still runs at the end is asked to stop (a recipe then measures and saves),
    and killed half a minute later. Of a model, all is packed; of a run, its history.csv. Logs are packed too; an
    archive is of 15 MiB at most.
    """
    began, waiting, running = time.monotonic(), [], {}
    for line in Path(jobs).read_text("utf-8").splitlines():
        name, _, command = line.partition(": ")
        if command and not line.startswith("#"):
            waiting.append((name, command))
    logs = Path(out, "logs")
    logs.mkdir(parents=True, exist_ok=True)
    asked = False
    while running or waiting:
        now = time.monotonic() - began
        while waiting and len(running) < workers and now < seconds - LAST:
            name, command = waiting.pop(0)
            with open(logs / f"{name}.txt", "w") as log:
                # `exec env`: a signal to the group reaches the program alone, and its code is not the shell's.
                process = subprocess.Popen(f"exec env {command}", shell=True, stdout=log, stderr=log, process_group=0)
            running[name] = process, now
        for name, (process, start) in list(running.items()):
            if process.poll() is not None:
                print(f"{now:5.0f} s: {name} ended with {process.returncode} after {now - start:.0f} s", flush=True)
                del running[name]
            elif now > seconds + 30:
                os.killpg(process.pid, signal.SIGKILL)
        if now >= seconds - LAST and waiting:
            print(f"{now:5.0f} s: not begun: {', '.join(name for name, _ in waiting)}", flush=True)
            waiting.clear()
        if now > seconds and not asked:
            asked = True
            for process, _ in running.values():
                os.killpg(process.pid, signal.SIGTERM)
        time.sleep(0.2)
    kept = [Path(jobs), *logs.iterdir(), *Path(runs).glob("*/history.csv")]
    for model in Path(runs).glob("*/*/config.json"):
        kept += (file for file in sorted(model.parent.rglob("*")) if file.is_file())
    volumes, size = [[]], 0
    for file in kept:
        if size + file.stat().st_size > 15 * 2**20:
            volumes.append([])
            size = 0
        volumes[-1].append(file)
        size += file.stat().st_size
    for number, files in enumerate(volumes):
        with tarfile.open(Path(out, f"runs-{number}.tar.gz"), "w:gz", compresslevel=1) as archive:
            for file in files:
                archive.add(file, file.relative_to(runs) if file.is_relative_to(runs) else Path("logs", file.name))
    shutil.rmtree(logs)


def profile(path, options):
    """Writes the operations that twenty steps of SimCLR on a ResNet-18 spend most time in, by JAX's own trace."""
    import jax
    import throughput

    options.method, options.network, options.images, options.latent_dim = "simclr", "resnet18", "cifar10", 64
    options.num_views, options.fuse_steps = 2, 1
    throughput.keras.config.set_dtype_policy(options.precision)
    images, views = throughput.inputs(options)
    model = throughput.make(options, views)
    fit = {"batch_size": options.batch_size, "epochs": 1, "verbose": 0}
    model.fit(images, **fit)  # compiles
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            model.fit(images, **fit)
        (trace,) = glob.glob(f"{folder}/**/*.trace.json.gz", recursive=True)
        with gzip.open(trace) as file:
            events = json.load(file)["traceEvents"]
    lanes = {event["pid"]: event["args"]["name"] for event in events if event.get("name") == "process_name"}
    on_device = [event for event in events if "dur" in event and "/device:" in lanes.get(event["pid"], "")]
    times = Counter()
    for event in on_device or [event for event in events if "dur" in event]:  # a CPU has no lane of its own
        times[event["name"].split(".")[0]] += event["dur"]
    total = sum(times.values())
    top = [{"operation": name, "share": round(micro / total, 4)} for name, micro in times.most_common(25)]
    Path(path).write_text(json.dumps({"device": throughput.device(), "microseconds": total, "top": top}, indent=1))
    print("\n".join(f"{row['share']:7.1%}  {row['operation']}" for row in top))


def table(path):
    """Prints the rows of `--json` files as one Markdown table."""
    rows = [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]
    print("| what | device | backend | precision | batch x views | views/s | ms a step |")
    print("|---|---|---|---|---|---:|---:|")
    for row in rows:
        size = f"{row['batch_size']} x {row['num_views']}" + (f", {row['side']} px" if "side" in row else "")
        milliseconds = f"{row['milliseconds']:.2f}" if "milliseconds" in row else ""
        print(
            f"| {row['what']} | {row['device']} | {row['backend']} | {row['precision']} | {size} "
            f"| {row['views_per_second']:,.0f} | {milliseconds} |"
        )


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    files = {"pack": "file", "unpack": "file out", "train": "file runs out", "profile": "file", "table": "file"}
    for verb, words in files.items():
        add = verbs.add_parser(verb).add_argument
        for word in words.split():
            add(word)
        if verb == "pack":
            add("--data-dir", help="TFDS folder")
        if verb == "unpack":
            add("--limit", type=int, help="images of each split")
        if verb == "train":
            add("--seconds", type=float, default=500)
            add("--workers", type=int, default=3)
        if verb == "profile":
            add("--batch-size", type=int, default=512)
            add("--steps", type=int, default=19, help="and one more")
            add("--precision", default="mixed_bfloat16")
    options = parser.parse_args(argv)
    if options.verb == "pack":
        pack(options.file, options.data_dir)
    elif options.verb == "unpack":
        unpack(options.file, options.out, options.limit)
    elif options.verb == "train":
        train(options.file, options.runs, options.out, options.seconds, options.workers)
    elif options.verb == "profile":
        profile(options.file, options)
    else:
        table(options.file)


if __name__ == "__main__":
    main()
