"""The three backends side by side on this machine: processor seconds per 1,000 views, for views and for training steps.

    python benchmarks/backends.py
    python benchmarks/backends.py --backends jax tensorflow --rounds 5
    python benchmarks/backends.py --only airnet --steps 1    # ... and what an hour buys on CIFAR-10

Each backend runs in a process of its own, after the other, on one core where the system lets it choose. Views are those
of `Views` alone; a step is one of `fit`, from raw images to new weights, views included, of SimVAE and SimCLR with
networks of the trained zoo, in float32 and in mixed_bfloat16 (which a CPU without instructions for it only emulates).
What an hour buys follows from the steps of SimCLR: epochs of 50,000 images, two views of each. Processor time of all
threads, medians of rounds: other work on the machine changes it little. On a GPU wall time takes its place, and the
table says so.
"""

import argparse
import importlib.util
import itertools
import json
import os
import subprocess
import sys

POLICIES = ("simvae-mnist", "simvae-cifar10", "simclr-cifar10")
# Name of a line: network, shape of images, policy, side of views, latents, images a step, views of each.
STEPS = {
    "SimVAE mlp, 28x28x1": ("mlp", (28, 28, 1), "simvae-mnist", None, 10, 32, 10),
    "SimVAE convnet, 32x32x3": ("convnet", (32, 32, 3), "simvae-cifar10", None, 64, 24, 10),
    "SimCLR airnet, 24x24x3": ("airnet", (32, 32, 3), "simclr-cifar10", 24, None, 32, 2),
}
PRECISIONS = ("float32", "mixed_bfloat16")


def figures(rounds, steps, only=""):
    """{line: seconds per 1,000 views} of the backend that is set, and the clock they are of."""
    import keras
    import numpy as np
    from views import clock, device_step, image_shape, on_gpu

    from sslzoo import data
    from sslzoo.views import Views

    now = clock()
    random = np.random.default_rng(0)
    found = {}
    for policy in [policy for policy in POLICIES if only in f"views {policy}"]:
        images = random.integers(0, 256, (64, *image_shape(policy)), "uint8")
        step = device_step(Views(policy, 4, seed=0), images)
        step()
        found[f"views {policy}"] = _median(lambda step=step: [step() for _ in range(4)], 4 * 256, rounds, now)
    for name, precision in itertools.product([name for name in STEPS if only in name], PRECISIONS):
        network, shape, policy, side, latents, batch, views = STEPS[name]
        keras.config.set_dtype_policy(precision)
        seen = shape if side is None else (side, side, shape[-1])
        model = _model(network, seen, Views(policy, views, size=side, seed=0), latents)
        images = random.integers(0, 256, (batch * steps, *shape), "uint8")
        batches = data.Batches(images, None, batch, seed=0)

        def train(model=model, batches=batches):
            model.fit(batches, epochs=1, shuffle=False, verbose=0)

        train()
        found[f"{name}, {precision}"] = _median(train, batch * views * steps, rounds, now)
    return {"clock": "wall" if on_gpu() else "processor", "seconds": found}


def _model(network, shape, views, latents):
    import keras

    from sslzoo import networks
    from sslzoo.methods import SimCLR, SimVAE

    encoder = networks.encoder(network, shape, latents, posterior=latents is not None, seed=0)
    if latents is None:
        model = SimCLR(encoder, networks.projector(encoder.output_shape[-1], (512, 128), seed=1), views)
    else:
        model = SimVAE(encoder, networks.decoder(network, shape, latents, seed=1), views)
    model.compile(optimizer=keras.optimizers.Adam(1e-3))
    return model


def _median(action, views, rounds, clock):
    """Seconds per 1,000 views."""
    seconds = []
    for _ in range(rounds):
        began = clock()
        action()
        seconds.append(1000 * (clock() - began) / views)
    return sorted(seconds)[len(seconds) // 2]


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    installed = [name for name in ("jax", "tensorflow", "torch") if importlib.util.find_spec(name)]
    parser.add_argument("--backends", nargs="+", choices=installed, default=installed)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4, help="training steps of a round (4)")
    parser.add_argument("--of-this-backend", action="store_true", help="print the figures of KERAS_BACKEND as JSON")
    parser.add_argument("--only", default="", metavar="TEXT", help="lines with this in their name")
    options = parser.parse_args(argv)
    if not any(options.only in line for line in (*STEPS, *(f"views {policy}" for policy in POLICIES))):
        parser.error(f"No line has this in its name. Received: --only {options.only}")
    from views import limit_cores

    limit_cores(1)
    if options.of_this_backend:
        print(json.dumps(figures(options.rounds, options.steps, options.only)))
        return
    measured = {}
    for backend in options.backends:
        words = [sys.executable, __file__, "--of-this-backend"]
        words += ["--rounds", str(options.rounds), "--steps", str(options.steps), "--only", options.only]
        done = subprocess.run(words, env={**os.environ, "KERAS_BACKEND": backend}, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(done.returncode)
        measured[backend] = json.loads(done.stdout.splitlines()[-1])
    clock = measured[options.backends[0]]["clock"]
    table(f"{clock} seconds per 1,000 views", measured, lambda seconds: f"{seconds:.3f}")
    hours = {
        backend: {"seconds": {line: each for line, each in found["seconds"].items() if line.startswith("SimCLR")}}
        for backend, found in measured.items()
    }
    if any(found["seconds"] for found in hours.values()):
        print()
        table(f"epochs of CIFAR-10 in an hour ({clock})", hours, lambda seconds: f"{3600 / (100 * seconds):.2g}")


def table(title, measured, words):
    """Prints lines by backends; `words` makes a cell of the seconds of 1,000 views."""
    print(f"| {title} | {' | '.join(measured)} |")
    print(f"|---|{'---:|' * len(measured)}")
    for line in next(iter(measured.values()))["seconds"]:
        print(f"| {line} | {' | '.join(words(found['seconds'][line]) for found in measured.values())} |")


if __name__ == "__main__":
    main()
