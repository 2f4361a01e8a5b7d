"""Images per second of training: `fit` with views made on the device, beside the same step on views made beforehand.

    KERAS_BACKEND=jax python benchmarks/throughput.py            # SimCLR, ResNet-18, 512 CIFAR-10 images
    KERAS_BACKEND=jax python benchmarks/throughput.py --precision float32 mixed_bfloat16 --peers torch lightly
    KERAS_BACKEND=jax python benchmarks/throughput.py --method simvae --network mlp --images mnist --batch-size 32 \\
        --num-views 10 --fuse-steps 64 --peers scan torch
    KERAS_BACKEND=jax python benchmarks/throughput.py --growth batch 128 256 512 1024 2048 4096 8192
    KERAS_BACKEND=jax python benchmarks/throughput.py --growth queue 4096 65536     # MoCo; bank: InstDisc
    python benchmarks/throughput.py --network convnet --batch-size 16 --steps 4 --peers torch        # small, on a CPU

Random images from one array in memory go through `model.fit`; the reference is the same model on ready-made views, so
that its share of the time is the networks' own: what is left over is views and loader (beyond 100 %, views cost less to
make than to bring to the device). Rounds of the two alternate,
medians are printed: wall time, and processor time of all threads, which other work changes little. After them come the
peers, each beside the side it is held against: `scan`, the same mathematics in a bare `lax.scan` (JAX); `torch`, the
same step on ready-made views in plain PyTorch, and `lightly` with its own transforms and loader, if that is installed
(both in `peers.py`, in a process of its own).

TFLOP/s are XLA's count of the reference step (JAX; PyTorch's own under PyTorch) over its time, and beside it the peak
of devices that are known. Memory is the device's peak; on a CPU the process' largest so far. `--growth` measures the
step alone at several sizes of one thing, and the cost of each beside the first.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
from step_overhead import Clock, by_hand

from sslzoo import data, methods, networks
from sslzoo.callbacks.memory import peak_memory
from sslzoo.methods.pretrainer import fuses_its_steps
from sslzoo.views import Views

SHAPES = {"cifar10": ((32, 32, 3), 50_000), "mnist": ((28, 28, 1), 60_000)}
POLICIES = {("simvae", "mnist"): "simvae-mnist", ("simvae", "cifar10"): "simvae-cifar10"}
# Dense TFLOP/s of NVIDIA's data sheets; float32 is multiplied in TF32 there.
PEAKS = {
    "H200": {"float32": 494, "mixed_bfloat16": 989},
    "H100": {"float32": 494, "mixed_bfloat16": 989},
    "A100": {"float32": 156, "mixed_bfloat16": 312},
    "L4": {"float32": 60, "mixed_bfloat16": 121},
}
GROWTH = {"batch": "simclr", "devices": "simclr", "queue": "moco", "bank": "instance-discrimination"}


def make(options, views, size=None):
    """The model; `size` is that of its queue or bank."""
    shape, _ = SHAPES[options.images]
    latent = None if options.network.startswith("resnet18") else options.latent_dim
    variational = options.method == "simvae"
    latent = options.latent_dim if variational else latent
    encoder = networks.encoder(options.network, shape, latent, posterior=variational, seed=0)
    if variational:
        decoder = networks.decoder(options.network, shape, latent, seed=1)
        model = methods.SimVAE(encoder, decoder, views)
    else:
        head = networks.projector(encoder.output_shape[-1], (512, 128), seed=1)
        if options.method == "moco":
            model = methods.MoCo(encoder, head, views, queue_size=size)
        elif options.method == "instance-discrimination":
            model = methods.InstanceDiscrimination(encoder, size, head, views, negatives=None)
        else:
            model = methods.SimCLR(encoder, head, views)
    model.compile(optimizer=keras.optimizers.SGD(0.01, momentum=0.9), steps_per_execution=options.fuse_steps)
    return model


def in_fit(model, images, options):
    """Wall and processor seconds of a step inside `fit`, views included."""
    fused, clock = options.fuse_steps, Clock()
    ours = fused > 1 and fuses_its_steps()
    # Stacks need an endless stream; where Keras fuses, an epoch of whole programs does.
    batches = data.Batches(
        images, None, options.batch_size, seed=0, repeat=ours, steps_per_execution=fused if ours else 1
    )
    steps = {"steps_per_epoch": len(batches)} if ours else {}
    model.fit(batches, epochs=1, shuffle=False, verbose=0, callbacks=[clock], **steps)
    return clock.seconds


def alone(model, ready, options):
    """As `in_fit`, of views that were made beforehand."""
    clock, size, fused = Clock(), options.batch_size, options.fuse_steps
    how = {"epochs": 1, "shuffle": False, "verbose": 0, "callbacks": [clock]}
    if model.indexed:
        ready = {"images": ready, "index": np.arange(len(ready), dtype="int32") % model.num_images}
    if fused > 1 and fuses_its_steps():  # stacked beforehand too, as the batches of `fit` come
        programs = ready.reshape(-1, fused, size, *ready.shape[1:])
        stacks = (data.Stacked(np.swapaxes(steps, 0, 1)) for steps in programs)
        model.fit(stacks, steps_per_epoch=fused * len(programs), **how)
    else:
        model.fit(ready, batch_size=size, **how)
    return clock.seconds


def inputs(options):
    """Raw images of a round, and a layer that makes their views."""
    shape, _ = SHAPES[options.images]
    count = options.batch_size * (options.steps + 1) * options.fuse_steps
    images = np.random.default_rng(0).integers(0, 256, (count, *shape), "uint8")
    policy = POLICIES.get((options.method, options.images), "simclr-cifar10" if shape[-1] == 3 else "simvae-mnist")
    return images, Views(policy, options.num_views, seed=0)


def made(views, images, size):
    """Their views, float32 (N, J, H, W, C), made a batch at a time."""
    parts = [views(images[i : i + size], training=True) for i in range(0, len(images), size)]
    return np.concatenate([keras.ops.convert_to_numpy(part) for part in parts])


# ---------------------------------------------------------------- what the device says


def flops(model, views):
    """Floating-point operations of a training step on ready-made views, as the framework counts them, or None."""
    if keras.backend.backend() == "jax":
        import jax

        groups = model.trainable_variables, model.non_trainable_variables, model.optimizer.variables
        state = tuple([variable.value for variable in group] for group in (*groups, model.metrics_variables))
        cost = jax.jit(model.train_step).lower(state, (views,)).cost_analysis()
        return cost.get("flops") if cost else None
    if keras.backend.backend() == "torch":
        from torch.utils.flop_counter import FlopCounterMode

        with FlopCounterMode(display=False) as counter:
            model.train_step((keras.ops.convert_to_tensor(views),))
        return counter.get_total_flops()
    return None


def device():
    """Name of the accelerator, or "cpu"."""
    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        return jax.devices()[0].device_kind
    if backend == "torch":
        import torch

        return torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    import tensorflow as tf

    found = tf.config.list_physical_devices("GPU")
    return tf.config.experimental.get_device_details(found[0]).get("device_name", "GPU") if found else "cpu"


def usable_devices():
    """What a batch can be shared out to: under JAX all there are."""
    return keras.distribution.list_devices() if keras.backend.backend() == "jax" else [device()]


# ---------------------------------------------------------------- what is printed


def line(side, seconds, options):
    wall, processor = seconds
    rate = options.batch_size / wall
    if options.json:
        row = {
            "what": f"{options.method} {options.network} {side}",
            "device": device(),
            "backend": side if side in ("torch", "lightly") else keras.backend.backend(),  # peers bring their own
            "precision": keras.config.dtype_policy().name,
            "batch_size": options.batch_size,
            "num_views": options.num_views,
            "views_per_second": rate * options.num_views,
            "milliseconds": 1000 * wall,
        }
        with open(options.json, "a") as file:
            file.write(json.dumps(row) + "\n")
    epoch = SHAPES[options.images][1] / rate
    print(
        f"{side:10} batch {options.batch_size:5} x {options.num_views}: {rate:10,.0f} images/s {epoch:9.1f} s/epoch "
        f"{rate * options.num_views:10,.0f} views/s {1000 * wall:9.2f} ms/step {1000 * processor:9.2f} CPU-ms/step",
        flush=True,
    )


def beside(what, seconds, reference, of):
    wall, processor = seconds / reference
    print(f"{what} takes {wall:.3f} x {of} in wall time, {processor:.3f} x in processor time", flush=True)


def measure(options, precision):
    """Both sides at one precision, and what there is to say of them. Returns {side: seconds}."""
    keras.config.set_dtype_policy(precision)
    images, views = inputs(options)
    whole, bare = make(options, views), make(options, views)
    ready = made(views, images, options.batch_size)
    rounds, others = {"step alone": [], "fit": []}, [peer for peer in options.peers if peer != "scan"]
    if keras.backend.backend() == "torch" and "torch" in others:
        others.remove("torch")
        rounds["torch"], plain = [], in_turn(options, precision, whole)
    for _ in range(options.rounds):
        rounds["step alone"].append(alone(bare, ready, options))
        if "torch" in rounds:
            rounds["torch"].append(plain())
        rounds["fit"].append(in_fit(whole, images, options))
    median = {side: np.median(times, axis=0) for side, times in rounds.items()}
    for side, seconds in median.items():
        line(side, seconds, options)
    wall, processor = median["step alone"] / median["fit"]
    print(f"share of the step alone: {wall:.1%} of wall time, {processor:.1%} of processor time")
    if count := flops(bare, ready[: options.batch_size]):
        reached = count / median["step alone"][0] / 1e12
        peak = next((row[precision] for name, row in PEAKS.items() if name in device()), None)
        print(
            f"{reached:.3f} TFLOP/s at {count / 1e9:.2f} GFLOP a step on {device()}"
            + (f", {reached / peak:.1%} of its {peak} TFLOP/s" if peak else ", whose peak is not known here")
        )
    print(f"{peak_memory()[0] / 2**30:.2f} GiB at the peak", flush=True)
    if "scan" in options.peers:
        median["scan"] = bare_scan(whole, images, options)
        line("scan", median["scan"], options)
        beside("fit", median["fit"], median["scan"], "the bare lax.scan")
    if "torch" in rounds:
        beside("torch", median["torch"], median["step alone"], "our step alone")
    for peer in others:
        seconds = of_peer(peer, options, precision, whole)
        if seconds is None:
            continue
        line(peer, seconds, options)
        side = "step alone" if peer == "torch" else "fit"
        beside(peer, seconds, median[side], f"our {side}")
    return median


def in_turn(options, precision, ours):
    """Plain PyTorch's step in this process: () -> wall and processor seconds."""
    import peers

    seconds, parameters = peers.clocked("torch", argparse.Namespace(**vars(options) | {"precision": precision}))
    check_peer(parameters, ours)
    return seconds


def bare_scan(model, images, options):
    """Wall and processor seconds of a step by hand, K steps in one `lax.scan`, views included."""
    steps, fused = options.steps * options.fuse_steps, options.fuse_steps
    times = [by_hand(model, images, options.batch_size, steps, fused) / steps for _ in range(options.rounds)]
    return np.median(times, axis=0)


def of_peer(peer, options, precision, ours):
    """Wall and processor seconds of a peer's step, from a process of its own; None if it cannot run here."""
    words = [sys.executable, str(Path(__file__).with_name("peers.py")), peer, "--precision", precision]
    for name in ("method", "network", "images", "batch_size", "num_views", "latent_dim", "steps"):
        words += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": threads()})
    if done.returncode:
        print(f"{peer}: not measured ({(['', *done.stderr.split(chr(10))])[-2]})")
        return None
    found = json.loads(done.stdout.splitlines()[-1])
    if peer == "torch":
        check_peer(found["parameters"], ours)
    return np.array([found["wall"], found["processor"]])


def check_peer(parameters, ours):
    if parameters != (own := trained_numbers(ours)):
        sys.exit(f"torch: another network, of {parameters:,} parameters; ours has {own:,}")


def threads():
    return os.environ.get("OMP_NUM_THREADS", str(os.cpu_count()))


def trained_numbers(model):
    return sum(int(np.prod(variable.shape)) for variable in model.trainable_variables)


def grow(options):
    """The step alone at several sizes of one thing."""
    what, sizes = options.growth[0], [int(size) for size in options.growth[1:]]
    options.fuse_steps = 1
    keras.config.set_dtype_policy(options.precision[0])
    options.method, options.num_views = GROWTH[what], 2
    first = None
    for size in sizes:
        if what == "batch":
            options.batch_size = size
        if what == "devices" and size > 1:
            keras.distribution.set_distribution(keras.distribution.DataParallel(devices=usable_devices()[:size]))
        images, views = inputs(options)
        if what == "bank":
            views.num_views = options.num_views = 1
        model = make(options, views, size)
        ready = made(views, images[: options.batch_size], options.batch_size)
        ready = np.resize(ready, (len(images), *ready.shape[1:]))
        alone(model, ready, options)  # what a process does once must not be the first size's
        seconds = np.median([alone(model, ready, options) for _ in range(options.rounds)], axis=0)
        keras.distribution.set_distribution(None)
        line(f"{what} {size}", seconds, options)
        first = seconds if first is None else first
        beside(f"{what} {size}", seconds, first, f"{what} {sizes[0]}")


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--method", choices=("simclr", "simvae"), default="simclr")
    add("--network", default="resnet18", help="name of an encoder (resnet18)")
    add("--latent-dim", type=int, default=64, help="of networks that have no features of their own (64)")
    add("--images", choices=tuple(SHAPES), default="cifar10")
    add("--batch-size", type=int, default=512, help="images per step (512)")
    add("--num-views", type=int, default=2)
    add("--precision", nargs="+", choices=("float32", "mixed_bfloat16"), default=["float32"])
    add("--fuse-steps", type=int, default=1, metavar="K", help="steps in one program (1)")
    add("--steps", type=int, default=20, help="programs per round (20)")
    add("--rounds", type=int, default=3)
    add("--peers", nargs="+", choices=("scan", "torch", "lightly"), default=[])
    add("--growth", nargs="+", metavar="WHAT SIZE", help=f"{', '.join(GROWTH)}, and its sizes")
    add("--json", metavar="FILE", help="add each line printed to this file too, as an object a line")
    options = parser.parse_args(argv)
    for name in ("latent_dim", "batch_size", "num_views", "fuse_steps", "steps", "rounds"):
        if (value := getattr(options, name)) < 1:
            parser.error(f"--{name.replace('_', '-')} must be greater than 0. Received: {value}")
    if options.fuse_steps > 1 and keras.backend.backend() == "torch":
        parser.error(f"PyTorch has no program of several steps. Received: --fuse-steps {options.fuse_steps}")
    if "scan" in options.peers and keras.backend.backend() != "jax":
        parser.error(f"--peers scan needs KERAS_BACKEND=jax. Received: {keras.backend.backend()}")
    if "lightly" in options.peers and options.method != "simclr":
        parser.error(f"--peers lightly needs --method simclr. Received: {options.method}")
    grown = options.growth
    if grown and (
        grown[0] not in GROWTH or len(grown) == 1 or not all(size.isdecimal() and int(size) for size in grown[1:])
    ):
        parser.error(f"--growth takes one of {', '.join(GROWTH)}, and sizes. Received: {' '.join(grown)}")
    if grown and grown[0] == "devices":
        there, most = len(usable_devices()), max(map(int, grown[1:]))
        if most > there:
            parser.error(f"--growth devices takes at most the {there} of this machine. Received: {most}")
        if odd := [size for size in grown[1:] if options.batch_size % int(size)]:
            parser.error(
                f"--batch-size must be a multiple of the devices. Received: {options.batch_size} on {' '.join(odd)}"
            )
    print(f"{options.method}, {options.network}, {options.images}, {keras.backend.backend()}, {device()}")
    if grown:
        grow(options)
        return
    first = None
    for precision in options.precision:
        print(f"{precision}:")
        median = measure(options, precision)
        if first is not None:
            beside(precision, median["step alone"], first["step alone"], f"the step alone in {options.precision[0]}")
        first = first or median


if __name__ == "__main__":
    main()
