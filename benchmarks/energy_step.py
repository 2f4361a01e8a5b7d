"""What a GEDI step costs beyond its parts: 20 gradients by the images, and one training step on as many images.

    KERAS_BACKEND=jax python benchmarks/energy_step.py
    KERAS_BACKEND=tensorflow python benchmarks/energy_step.py --size 28 --channels 1 --width 16 --rounds 5

Three compiled programs on one network take turns: the training step of GEDI; the chain of input gradients alone, from
images in memory; and the training step of GEDI without chains, on a view more for each image in place of the sample.
The ratio is that of the medians of the first and of the sum of the other two, and should stay below 1.15: what the
replay buffer, the random numbers and the compiler's way with the whole add. It is that of processor time, all threads
counted, which other work on the machine changes little; that of wall time stands beside it.
"""

import argparse
import time

import keras
import numpy as np
from keras import ops

from sslzoo import networks
from sslzoo.methods import GEDI
from sslzoo.methods.compiled import Compiled
from sslzoo.methods.energy_model import langevin


def make(arguments, **settings):
    shape = (arguments.size, arguments.size, arguments.channels)
    encoder = networks.encoder("resnet8-gedi", shape, None, seed=0, width=arguments.width)
    head = networks.projector(arguments.width, (2 * arguments.width, arguments.width), batch_norm=False, seed=1)
    model = GEDI(encoder, 10, head, sgld_steps=arguments.steps, **settings)
    model.compile(optimizer=keras.optimizers.Adam(1e-4))
    return model


def now():
    return np.array([time.process_time(), time.perf_counter()])


def clock(function):
    """Seconds of a call, of processor and of wall, results in hand."""
    began = now()
    for result in keras.tree.flatten(function()):
        np.asarray(ops.convert_to_numpy(result))
    return now() - began


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=32, help="pixels of a side (32)")
    parser.add_argument("--channels", type=int, default=3)
    parser.add_argument("--width", type=int, default=32, help="channels of the network (32; the paper has 128)")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--steps", type=int, default=20, help="Langevin steps (20)")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args(argv)

    rng = np.random.default_rng(0)
    shape = (arguments.batch_size, 3, arguments.size, arguments.size, arguments.channels)
    views = rng.uniform(-1, 1, shape).astype("float32")
    whole, without = make(arguments), make(arguments, generative_weight=0.0)
    draws = rng.standard_normal((arguments.batch_size, arguments.steps, *shape[2:]), "float32")
    density = whole.log_density_of_views
    chains = Compiled(whole, lambda given: langevin(whole, density, given["x"], ops.swapaxes(given["draws"], 0, 1)))

    programs = {
        "GEDI step": lambda: whole.train_on_batch(views[:, :2]),
        "input gradients": lambda: chains.predict_on_batch({"x": views[:, 0], "draws": draws}),
        "training step": lambda: without.train_on_batch(views),
    }
    seconds = {name: [] for name in programs}
    for turn in range(arguments.rounds + 1):
        for name, program in programs.items():
            spent = clock(program)
            if turn:  # the first compiles
                seconds[name].append(spent)
    medians = {name: np.median(times, axis=0) for name, times in seconds.items()}
    for name, (processor, wall) in medians.items():
        print(f"{name:16s} {1000 * processor:9.1f} ms of processor {1000 * wall:9.1f} ms")
    processor, wall = medians["GEDI step"] / (medians["input gradients"] + medians["training step"])
    print(f"{keras.backend.backend()}: a GEDI step costs {processor:.3f} x its parts, {wall:.3f} x in wall time")


if __name__ == "__main__":
    main()
