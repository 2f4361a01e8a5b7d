"""What XLA makes of training: the programs compiled, and what stands in the one that trains. It takes no times.

    KERAS_BACKEND=jax python benchmarks/program.py
    KERAS_BACKEND=jax python benchmarks/program.py --network airnet --precision mixed_bfloat16 --fuse-steps 4

SimCLR trains for two epochs, as a recipe does, in a process whose programs XLA writes down (`--xla_dump_to`); the
largest with a loop is the one that trains. Counted in it, after optimization:

    loops of steps        `while` of as many turns as there are fused steps: one
    other loops           those of random numbers, which a GPU draws without
    kernels               fusions, calls of libraries, dots and convolutions: what a device is asked to start
    transposes            of arrays of four axes, a kernel each; and those in a fusion, where they are another order of
                          reading
    copies                of such arrays, a kernel each
    donated               arrays whose memory the program gives back updated, of all it takes
    bytes                 of the batches that go to the device in an epoch
"""

import argparse
import glob
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path


def train(options):
    import keras
    import numpy as np

    from sslzoo import data, methods, networks
    from sslzoo.methods.fusing import fuses_its_steps
    from sslzoo.training import fusing
    from sslzoo.views import Views

    keras.config.set_dtype_policy(options.precision)
    shape = (options.image_size, options.image_size, 3)
    images = np.random.default_rng(0).integers(0, 256, (options.images, *shape), "uint8")
    encoder = networks.encoder(options.network, shape, None if options.network in ("airnet", "resnet18") else 64)
    head = networks.projector(encoder.output_shape[-1], (512, 128), seed=1)
    model = methods.SimCLR(encoder, head, Views("simclr-cifar10", 2, seed=0))
    model.compile(keras.optimizers.SGD(0.01, momentum=0.9), steps_per_execution=options.fuse_steps)
    fused = options.fuse_steps if fuses_its_steps() else 1
    fusing.build(model, (images[:2],))
    batches = data.Batches(images, None, options.batch_size, seed=0, repeat=fused > 1, steps_per_execution=fused)
    model.fit(batches, epochs=2, steps_per_epoch=len(batches), shuffle=False, verbose=0)
    print(sum(array.nbytes for batch in batches for array in keras.tree.flatten(batch) if array is not None))


def computations(text):
    """Name -> lines, of each computation of an HLO module."""
    found, name = {}, None
    for line in text.splitlines():
        if match := re.match(r"(?:ENTRY )?%?([\w.\-]+) .*\{$", line):
            name = match[1]
            found[name] = []
        elif line == "}":
            name = None
        elif name:
            found[name].append(line.strip())
    return found


def counts(text, steps):
    """What is counted in one module, of so many steps."""
    bodies = computations(text)
    fused = {
        name for body in bodies.values() for line in body for name in re.findall(r" fusion\(.*calls=%?([\w.\-]+)", line)
    }
    inside = [line for name, body in bodies.items() for line in body if name in fused]
    alone = [line for name, body in bodies.items() for line in body if name not in fused]
    kinds = Counter(match[1] for line in alone if (match := re.search(r" = .*? ([a-z][a-z\-]*)\(", line)))
    four = r"= \w+\[\d+,\d+,\d+,\d+\]\S* {}\("
    of_steps = sum(" while(" in line and f'"known_trip_count":{{"n":"{steps}"}}' in line for line in alone)
    header = text.split("\n", 1)[0]
    aliases = header.split("input_output_alias={", 1)[-1].split("entry_computation_layout", 1)[0]
    return {
        "loops of steps": of_steps,
        "other loops": kinds["while"] - of_steps,
        "kernels": sum(kinds[kind] for kind in ("fusion", "custom-call", "dot", "convolution", "call")),
        "transposes of four axes": sum(bool(re.search(four.format("transpose"), line)) for line in alone),
        "such transposes inside fusions": sum(bool(re.search(four.format("transpose"), line)) for line in inside),
        "copies of four axes": sum(bool(re.search(four.format("copy"), line)) for line in alone),
        "donated arrays": aliases.count("-alias)"),
        "arrays taken": len(re.findall(r"= \S+ parameter\(\d+\)", "\n".join(bodies.get(entry(text), [])))),
    }


def entry(text):
    match = re.search(r"^ENTRY %?([\w.\-]+) ", text, re.M)
    return match[1] if match else ""


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--network", default="convnet")
    add("--image-size", type=int, default=32)
    add("--batch-size", type=int, default=16)
    add("--images", type=int, default=256)
    add("--fuse-steps", type=int, default=4)
    add("--precision", choices=("float32", "mixed_bfloat16"), default="float32")
    add("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.inside:
        train(options)
        return
    if os.environ.get("KERAS_BACKEND") != "jax":
        parser.error(f"XLA's programs need KERAS_BACKEND=jax. Received: {os.environ.get('KERAS_BACKEND')}")
    with tempfile.TemporaryDirectory() as folder:
        flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_dump_to={folder} --xla_dump_hlo_as_text"
        words = [sys.executable, __file__, "--inside", *(argv if argv is not None else sys.argv[1:])]
        done = subprocess.run(words, env={**os.environ, "XLA_FLAGS": flags}, capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr[-2000:])
        texts = [Path(path).read_text() for path in glob.glob(f"{folder}/*after_optimizations.txt")]
    training = max((text for text in texts if " while(" in text), key=len, default=max(texts, key=len))
    print(f"{'programs compiled':40}{len(texts):>12,}")
    print(f"{'of them of more than a hundred lines':40}{sum(text.count(chr(10)) > 100 for text in texts):>12,}")
    for name, count in counts(training, options.fuse_steps).items():
        print(f"{name:40}{count:>12,}")
    print(f"{'bytes an epoch':40}{int(done.stdout.split()[-1]):>12,}")


if __name__ == "__main__":
    main()
