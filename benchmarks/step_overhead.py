"""What `model.fit` costs beyond the mathematics: a SimVAE step inside `fit` against the same step compiled by hand.

    KERAS_BACKEND=jax python benchmarks/step_overhead.py
    KERAS_BACKEND=tensorflow python benchmarks/step_overhead.py --batch-size 12 --rounds 7
    KERAS_BACKEND=jax python benchmarks/step_overhead.py --fuse-steps 10

Both sides train the paper's MNIST networks on views made on the device, with Adam, from one array in memory, and start
from the same weights. Rounds alternate between them; the ratio is that of the medians, and should stay below 1.10.
With `--fuse-steps K` (JAX) both make K steps one program, by hand in a bare `lax.scan`: below 1.05.

Time is wall time, and beside it processor time, all threads counted, which other work on the machine changes little.
"""

import argparse
import time

import keras
import numpy as np
from keras import ops

from sslzoo import data, networks
from sslzoo.methods import SimVAE
from sslzoo.views import Views, policy


def make(num_views, fused):
    model = SimVAE(
        networks.encoder("mlp", (28, 28, 1), 10, posterior=True, seed=0),
        networks.decoder("mlp", (28, 28, 1), 10, seed=1),
        Views(policy("simvae-mnist"), num_views, seed=0),
    )
    model.compile(optimizer=keras.optimizers.Adam(1e-4), steps_per_execution=fused)
    return model


def inside_fit(model, images, batch_size, steps, fused):
    """Seconds, of wall and of processor, of `steps` steps of `fit`, which is left to set itself up before."""
    clock = Clock()
    if keras.backend.backend() == "tensorflow":
        batches = data.pipeline((images, None), "train", batch_size, seed=0, repeat=True)
    else:
        batches = data.Batches(images, None, batch_size, seed=0, repeat=True, steps_per_execution=fused)
    model.fit(batches, steps_per_epoch=steps + fused, epochs=1, shuffle=False, verbose=0, callbacks=[clock])
    return clock.seconds * steps


def now():
    return np.array([time.perf_counter(), time.process_time()])


class Clock(keras.callbacks.Callback):
    """Wall and processor seconds of a step, from the end of the first program, which is compiled there, to the end of
    the epoch with its results in hand."""

    def on_train_begin(self, logs=None):
        self._began = None

    def on_train_batch_end(self, batch, logs=None):
        if self._began is None:
            float(logs["loss"])
            self._began, self._first = now(), batch + 1

    def on_epoch_end(self, epoch, logs=None):
        float(logs["loss"])
        self.seconds = (now() - self._began) / (self.params["steps"] - self._first)


def by_hand(model, images, batch_size, steps, fused):
    """Seconds of `steps` bare steps of the active backend: forward, objective, gradient, Adam; nothing else."""
    if fused > 1:
        step = jax_step(model, scanned=True)
    else:
        step = {"tensorflow": tensorflow_step, "jax": jax_step, "torch": torch_step}[keras.backend.backend()](model)
    order = np.random.default_rng(0).permutation(len(images))

    def batch(i):
        rows = order[i * batch_size : (i + fused) * batch_size]
        return images[rows.reshape(fused, batch_size) if fused > 1 else rows]

    loss = step(batch(0))
    ops.convert_to_numpy(loss)
    began = now()
    for i in range(fused, steps + fused, fused):
        loss = step(batch(i))
    ops.convert_to_numpy(loss)
    return now() - began


def objective(model, x, outputs):
    return sum(model.objective(x, outputs, True).values())


def tensorflow_step(model):
    import tensorflow as tf

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = objective(model, x, model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        model.optimizer.apply(gradients, model.trainable_variables)
        return loss

    return lambda x: step(tf.convert_to_tensor(x))


def jax_step(model, scanned=False):
    import jax

    model.optimizer.build(model.trainable_variables)

    def loss_of(trainable, state, x):
        outputs, state = model.stateless_call(trainable, state, x, training=True)
        return objective(model, x, outputs), state

    def step(everything, x):
        trainable, state, moments = everything
        (loss, state), gradients = jax.value_and_grad(loss_of, has_aux=True)(trainable, state, x)
        trainable, moments = model.optimizer.stateless_apply(moments, gradients, trainable)
        return (trainable, state, moments), loss

    def steps(everything, x):
        everything, losses = jax.lax.scan(step, everything, x)
        return everything, losses[-1]

    program = jax.jit(steps if scanned else step, donate_argnums=0)
    groups = model.trainable_variables, model.non_trainable_variables, model.optimizer.variables
    everything = tuple([jax.numpy.array(v.value) for v in group] for group in groups)

    def run(x):
        nonlocal everything
        everything, loss = program(everything, x)
        return loss

    return run


def torch_step(model):
    import torch

    def step(x):
        loss = objective(model, x, model(ops.convert_to_tensor(x), training=True))
        model.zero_grad()
        loss.backward()
        variables = model.trainable_variables
        with torch.no_grad():
            model.optimizer.apply([v.value.grad for v in variables], variables)
        return loss.detach()

    return step


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch-size", type=int, default=32, help="images per step (32)")
    parser.add_argument("--num-views", type=int, default=10)
    parser.add_argument("--steps", type=int, default=50, help="steps per round (50)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--fuse-steps", type=int, default=1, metavar="K", help="steps in one program, JAX only (1)")
    arguments = parser.parse_args(argv)
    for name, value in vars(arguments).items():
        if value < 1:
            parser.error(f"--{name.replace('_', '-')} must be greater than 0. Received: {value}")
    fused = arguments.fuse_steps
    if fused > 1 and keras.backend.backend() != "jax":
        parser.error(f"--fuse-steps needs KERAS_BACKEND=jax. Received: {keras.backend.backend()}")
    steps = max(1, arguments.steps // fused) * fused
    images = np.random.default_rng(0).integers(0, 256, ((steps + fused) * arguments.batch_size, 28, 28, 1), "uint8")
    model = make(arguments.num_views, fused)
    model.views(images[:1], training=False)  # builds it
    seconds = {"fit": [], "by hand": []}
    for _ in range(arguments.rounds):
        for side, measure in (("by hand", by_hand), ("fit", inside_fit)):
            seconds[side].append(measure(model, images, arguments.batch_size, steps, fused))
    median = {side: np.median(times, axis=0) for side, times in seconds.items()}
    for side, (wall, processor) in median.items():
        print(
            f"{side:8s} {1000 * wall / steps:8.2f} ms/step {1000 * processor / steps:8.2f} CPU-ms/step "
            f"{steps * arguments.batch_size * arguments.num_views / wall:10,.0f} views/s"
        )
    wall, processor = median["fit"] / median["by hand"]
    print(
        f"{keras.backend.backend()}: a step inside fit, {fused} in a program, costs {wall:.3f} x the step compiled by "
        f"hand in wall time, {processor:.3f} x in processor time"
    )


if __name__ == "__main__":
    main()
