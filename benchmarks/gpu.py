"""What `gpu.sh` needs beside shell: the images in little space, a profile, and the table of what it measured.

    python benchmarks/gpu.py pack images.npz               # CIFAR-10 as TFDS has it: encoded files, once deflated
    python benchmarks/gpu.py unpack images.npz cifar10.npz # ... as sslzoo reads it
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
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

SPLITS = ("train", "test")


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
    for verb, words in (("pack", ["file"]), ("unpack", ["file", "out"]), ("profile", ["file"]), ("table", ["file"])):
        add = verbs.add_parser(verb).add_argument
        for word in words:
            add(word)
        if verb == "pack":
            add("--data-dir", help="TFDS folder")
        if verb == "unpack":
            add("--limit", type=int, help="images of each split")
        if verb == "profile":
            add("--batch-size", type=int, default=512)
            add("--steps", type=int, default=19, help="and one more")
            add("--precision", default="mixed_bfloat16")
    options = parser.parse_args(argv)
    if options.verb == "pack":
        pack(options.file, options.data_dir)
    elif options.verb == "unpack":
        unpack(options.file, options.out, options.limit)
    elif options.verb == "profile":
        profile(options.file, options)
    else:
        table(options.file)


if __name__ == "__main__":
    main()
