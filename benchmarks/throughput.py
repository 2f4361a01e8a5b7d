"""Images per second of training: `fit` with views made on the device, beside the same step on views made beforehand.

    KERAS_BACKEND=jax python benchmarks/throughput.py            # SimCLR, ResNet-18, 512 CIFAR-10 images
    KERAS_BACKEND=jax python benchmarks/throughput.py --precision mixed_bfloat16 --fuse-steps 8
    KERAS_BACKEND=jax python benchmarks/throughput.py --method simvae --network mlp --images mnist --batch-size 32 \\
        --num-views 10 --fuse-steps 64
    python benchmarks/throughput.py --network convnet --batch-size 16 --steps 4 --growth 8 16 32     # small, on a CPU

Random images from one array in memory go through `model.fit`; the reference is the same model on ready-made views, so
that its share of the time is the networks' own: what is left over is views and loader. Rounds of the two alternate,
medians are printed: wall time, and processor time of all threads, which other work changes little. TFLOP/s are XLA's
count of the reference step over its time (JAX); memory is the device's peak where it tells. `--growth` repeats the
measurement at other batch sizes.
"""

import argparse
import time

import keras
import numpy as np

from sslzoo import data, networks
from sslzoo.methods import SimCLR, SimVAE
from sslzoo.methods.pretrainer import fuses_its_steps
from sslzoo.views import Views

SHAPES = {"cifar10": ((32, 32, 3), 50_000), "mnist": ((28, 28, 1), 60_000)}
POLICIES = {("simclr", "cifar10"): "simclr-cifar10", ("simvae", "cifar10"): "simvae-cifar10"}


def make(options, views):
    shape, _ = SHAPES[options.images]
    latent = None if options.network.startswith("resnet18") else 64
    if options.method == "simvae":
        latent = latent or 64
        encoder = networks.encoder(options.network, shape, latent, posterior=True, seed=0)
        model = SimVAE(encoder, networks.decoder(options.network, shape, latent, seed=1), views)
    else:
        encoder = networks.encoder(options.network, shape, latent, seed=0)
        model = SimCLR(encoder, projector=networks.projector(encoder.output_shape[-1], (512, 128), seed=1), views=views)
    model.compile(optimizer=keras.optimizers.SGD(0.01, momentum=0.9), steps_per_execution=options.fuse_steps)
    return model


class Clock(keras.callbacks.Callback):
    """Wall and processor seconds, and steps, from the end of the first program to the end of the epoch."""

    def on_train_begin(self, logs=None):
        self._began = None

    def on_train_batch_end(self, batch, logs=None):
        if self._began is None:
            float(logs["loss"])
            self._began, self._first = now(), batch + 1

    def on_epoch_end(self, epoch, logs=None):
        float(logs["loss"])
        self.seconds = (now() - self._began) / (self.params["steps"] - self._first)


def now():
    return np.array([time.perf_counter(), time.process_time()])


def step_seconds(model, images, options):
    """Wall and processor seconds of a step inside `fit`."""
    fused, clock = options.fuse_steps, Clock()
    ours = fused > 1 and fuses_its_steps()
    # Stacks need an endless stream; where Keras fuses, an epoch of whole programs does.
    batches = data.Batches(
        images, None, options.batch_size, seed=0, repeat=ours, steps_per_execution=fused if ours else 1
    )
    steps = {"steps_per_epoch": len(batches)} if ours else {}
    model.fit(batches, epochs=1, shuffle=False, verbose=0, callbacks=[clock], **steps)
    return clock.seconds


def flops(model, views):
    """XLA's count for one training step on ready-made views; None under other backends."""
    if keras.backend.backend() != "jax":
        return None
    import jax

    groups = model.trainable_variables, model.non_trainable_variables, model.optimizer.variables
    state = tuple([variable.value for variable in group] for group in (*groups, model.metrics_variables))
    cost = jax.jit(model.train_step).lower(state, (views,)).cost_analysis()
    return cost.get("flops") if cost else None


def memory():
    """Peak bytes of the device, or None."""
    if keras.backend.backend() == "jax":
        import jax

        return (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use")
    if keras.backend.backend() == "torch":
        import torch

        return torch.cuda.max_memory_allocated() if torch.cuda.is_available() else None
    return None


def measure(options):
    shape, epoch = SHAPES[options.images]
    count = options.batch_size * (options.steps + 1) * options.fuse_steps
    images = np.random.default_rng(0).integers(0, 256, (count, *shape), "uint8")
    policy = POLICIES.get((options.method, options.images), f"simvae-{options.images}")
    views = Views(policy, options.num_views, seed=0)
    whole, alone = make(options, views), make(options, views)
    chunk = options.batch_size
    ready = [keras.ops.convert_to_numpy(views(images[i : i + chunk], training=True)) for i in range(0, count, chunk)]
    ready = np.concatenate(ready)
    seconds = {"fit": [], "step alone": []}
    for _ in range(options.rounds):
        seconds["step alone"].append(step_on_views(alone, ready, options))
        seconds["fit"].append(step_seconds(whole, images, options))
    median = {side: np.median(times, axis=0) for side, times in seconds.items()}
    for side, (wall, processor) in median.items():
        rate = options.batch_size / wall
        print(
            f"{side:10} batch {options.batch_size:5} x {options.num_views}: {rate:10,.0f} images/s "
            f"{epoch / rate:9.1f} s/epoch {1000 * wall:9.2f} ms/step {1000 * processor:9.2f} CPU-ms/step"
        )
    wall, processor = median["step alone"] / median["fit"]
    print(f"share of the step alone: {wall:.1%} of wall time, {processor:.1%} of processor time")
    if count := flops(alone, ready[: options.batch_size]):
        print(f"{count / median['step alone'][0] / 1e12:.3f} TFLOP/s at {count / 1e9:.2f} GFLOP a step")
    if peak := memory():
        print(f"{peak / 2**30:.2f} GiB at the peak")


def step_on_views(model, ready, options):
    """As `step_seconds`, of views that were made beforehand."""
    clock = Clock()
    model.fit(ready, batch_size=options.batch_size, epochs=1, shuffle=False, verbose=0, callbacks=[clock])
    return clock.seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--method", choices=("simclr", "simvae"), default="simclr")
    add("--network", default="resnet18", help="name of an encoder (resnet18)")
    add("--images", choices=tuple(SHAPES), default="cifar10")
    add("--batch-size", type=int, default=512, help="images per step (512)")
    add("--num-views", type=int, default=2)
    add("--precision", choices=("float32", "mixed_bfloat16"), default="float32")
    add("--fuse-steps", type=int, default=1, metavar="K", help="steps in one program (1)")
    add("--steps", type=int, default=20, help="programs per round (20)")
    add("--rounds", type=int, default=3)
    add("--growth", type=int, nargs="+", metavar="BATCH", help="measure at these batch sizes instead")
    options = parser.parse_args()
    keras.config.set_dtype_policy(options.precision)
    print(f"{options.method}, {options.network}, {options.images}, {options.precision}, {keras.backend.backend()}")
    for batch_size in options.growth or [options.batch_size]:
        options.batch_size = batch_size
        measure(options)


if __name__ == "__main__":
    main()
