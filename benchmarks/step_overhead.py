"""What `model.fit` costs beyond the mathematics: a SimVAE step inside `fit` against the same step compiled by hand.

    KERAS_BACKEND=jax python benchmarks/step_overhead.py
    KERAS_BACKEND=tensorflow python benchmarks/step_overhead.py --batch-size 12 --rounds 7

Both sides train the paper's MNIST networks on views made on the device, with Adam, from one array in memory, and start
from the same weights. Rounds alternate between them; the ratio is that of the medians, and should stay below 1.10.
"""

import argparse
import statistics
import time

import keras
import numpy as np
from keras import ops

from sslzoo import data, networks
from sslzoo.methods import SimVAE
from sslzoo.views import Views, policy


def make(num_views):
    model = SimVAE(
        networks.encoder("mlp", (28, 28, 1), 10, posterior=True, seed=0),
        networks.decoder("mlp", (28, 28, 1), 10, seed=1),
        Views(policy("simvae-mnist"), num_views, seed=0),
    )
    model.compile(optimizer=keras.optimizers.Adam(1e-4))
    return model


def inside_fit(model, images, batch_size, steps):
    """Seconds of `steps` steps of `fit`, which is left to set itself up before the clock starts."""
    clock = Clock()
    if keras.backend.backend() == "tensorflow":
        batches = data.pipeline((images, None), "train", batch_size, seed=0, repeat=True)
    else:
        batches = data.Batches(images, None, batch_size, seed=0, repeat=True)
    model.fit(batches, steps_per_epoch=steps + 1, epochs=1, shuffle=False, verbose=0, callbacks=[clock])
    return clock.seconds


class Clock(keras.callbacks.Callback):
    """From the end of the first step, which compiles, to the end of the epoch with its results in hand."""

    def on_train_batch_end(self, batch, logs=None):
        if batch == 0:
            ops.convert_to_numpy(logs["loss"])
            self._began = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        float(logs["loss"])
        self.seconds = time.perf_counter() - self._began


def by_hand(model, images, batch_size, steps):
    """Seconds of `steps` bare steps of the active backend: forward, objective, gradient, Adam; nothing else."""
    step = {"tensorflow": tensorflow_step, "jax": jax_step, "torch": torch_step}[keras.backend.backend()](model)
    order = np.random.default_rng(0).permutation(len(images))
    loss = step(images[order[:batch_size]])
    ops.convert_to_numpy(loss)
    began = time.perf_counter()
    for i in range(1, steps + 1):
        loss = step(images[order[i * batch_size : (i + 1) * batch_size]])
    ops.convert_to_numpy(loss)
    return time.perf_counter() - began


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


def jax_step(model):
    import jax

    model.optimizer.build(model.trainable_variables)

    def loss_of(trainable, state, x):
        outputs, state = model.stateless_call(trainable, state, x, training=True)
        return objective(model, x, outputs), state

    def step(trainable, state, moments, x):
        (loss, state), gradients = jax.value_and_grad(loss_of, has_aux=True)(trainable, state, x)
        trainable, moments = model.optimizer.stateless_apply(moments, gradients, trainable)
        return loss, trainable, state, moments

    step = jax.jit(step, donate_argnums=(0, 1, 2))
    copies = [
        [jax.numpy.array(v.value) for v in group]
        for group in (model.trainable_variables, model.non_trainable_variables, model.optimizer.variables)
    ]

    def run(x):
        loss, *copies[:] = step(*copies, x)
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch-size", type=int, default=32, help="images per step (32)")
    parser.add_argument("--num-views", type=int, default=10)
    parser.add_argument("--steps", type=int, default=50, help="steps per round (50)")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    images = np.random.default_rng(0).integers(0, 256, ((arguments.steps + 2) * arguments.batch_size, 28, 28, 1))
    images = images.astype("uint8")
    model = make(arguments.num_views)
    seconds = {"fit": [], "by hand": []}
    for _ in range(arguments.rounds):
        seconds["by hand"].append(by_hand(model, images, arguments.batch_size, arguments.steps))
        seconds["fit"].append(inside_fit(model, images, arguments.batch_size, arguments.steps))
    views = arguments.steps * arguments.batch_size * arguments.num_views
    for side, times in seconds.items():
        median = statistics.median(times)
        print(f"{side:8s} {1000 * median / arguments.steps:8.2f} ms/step {views / median:10,.0f} views/s")
    ratio = statistics.median(seconds["fit"]) / statistics.median(seconds["by hand"])
    print(f"{keras.backend.backend()}: a step inside fit costs {ratio:.3f} x the step compiled by hand")


if __name__ == "__main__":
    main()
