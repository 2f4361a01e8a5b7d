"""What our convolutions and pooling save: gradients of a network, against the same network of Keras' own layers.

    KERAS_BACKEND=jax python benchmarks/layers.py
    KERAS_BACKEND=torch python benchmarks/layers.py airnet resnet18 --precision mixed_bfloat16

The reference is made from the network's config, which names Keras' classes, as a saved model does. The two take turns;
medians are of processor time of all threads, which other work changes little; on a GPU of wall time.
"""

import argparse

import keras
import numpy as np
from keras import ops
from views import clock

from sslzoo import networks


def gradients(network, images):
    """A function that computes the gradients of the mean square of all features, once."""
    weights = [weight.value for weight in network.trainable_variables]
    rest = [weight.value for weight in network.non_trainable_variables]

    def loss(weights, images):
        features, _ = network.stateless_call(weights, rest, images, training=True)
        return ops.mean(ops.square(ops.cast(features, "float32")))

    if keras.backend.backend() == "jax":
        import jax

        program = jax.jit(jax.grad(loss))
        return lambda: jax.block_until_ready(program(weights, images))
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        @tf.function
        def step():
            with tf.GradientTape() as tape:
                value = loss(network.trainable_variables, images)
            return tape.gradient(value, network.trainable_variables)

        return step
    import torch

    return lambda: torch.autograd.grad(loss(weights, images), weights)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("networks", nargs="*", default=["airnet", "convnet"], help="of networks.encoder (airnet convnet)")
    add("--side", type=int, default=24, help="of the images, in pixels (24)")
    add("--batch-size", type=int, default=128, help="images (128)")
    add("--rounds", type=int, default=7, help="of which medians are taken (7)")
    add("--precision", default="float32", help="dtype policy (float32)")
    options = parser.parse_args(argv)
    keras.config.set_dtype_policy(options.precision)
    now, shape = clock(), (options.side, options.side, 3)
    images = ops.convert_to_tensor(np.random.default_rng(0).random((options.batch_size, *shape), "float32"))
    print(f"{keras.backend.backend()}, {options.precision}, {options.batch_size} images of {options.side} pixels")
    for name in options.networks:
        ours = networks.encoder(name, shape, None if name.startswith(("airnet", "resnet")) else 64, seed=0)
        theirs = keras.Model.from_config(ours.get_config())
        theirs.set_weights(ours.get_weights())
        steps, spent = [gradients(network, images) for network in (ours, theirs)], [[], []]
        for _ in range(1 + options.rounds):  # the first compiles
            for step, seconds in zip(steps, spent):
                began = now()
                for gradient in step():
                    ops.convert_to_numpy(gradient)  # which waits for it
                seconds.append(now() - began)
        ours, theirs = (float(np.median(seconds[1:])) for seconds in spent)
        print(f"{name}: {ours / theirs:.2f} x, {ours:.3f} s against {theirs:.3f} s")


if __name__ == "__main__":
    main()
