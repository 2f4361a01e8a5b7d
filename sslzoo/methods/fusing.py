"""Several training steps as one program under JAX, until Keras 3.16, which does so itself, is the least version.

Before it `compile(steps_per_execution=K)` calls one compiled step K times.
"""

import itertools
import math

import keras
import numpy as np
from keras import ops

from sslzoo.data import Stacked
from sslzoo.errors import InvalidInputError
from sslzoo.methods.inputs import refuse_weights


def fuses_its_steps():
    """Whether `steps_per_execution` is made one program here: Keras 3.16 does so itself, TensorFlow has its loop."""
    version = tuple(int(number) for number in keras.__version__.split(".")[:2])
    return keras.backend.backend() == "jax" and version < (3, 16)


def refuse_parts_of_batches():
    """Under PyTorch Keras wraps a model in DistributedDataParallel, whose loss sees what its process was given."""
    import torch

    group = torch.distributed
    count = group.get_world_size() if group.is_available() and group.is_initialized() else 1
    if count > 1 or keras.distribution.distribution() is not None:
        raise InvalidInputError(
            "Under PyTorch Keras hands each process a part of the batch, and losses would compare the images of that "
            "part alone: other negatives and statistics than on one device. KERAS_BACKEND=jax trains on several "
            f"devices and in several processes. Received: {count} process{'es' * (count > 1)}, "
            f"distribution={keras.distribution.distribution()}"
        )


def refuse_replicas(model):
    """Under TensorFlow each replica of a strategy calls `compute_loss` with its own part of a batch."""
    if keras.backend.backend() == "tensorflow" and (count := model.distribute_strategy.num_replicas_in_sync) > 1:
        raise InvalidInputError(
            "Under TensorFlow a strategy hands each replica a part of the batch, and losses would compare the images "
            "of that part alone: other negatives and statistics than on one device. KERAS_BACKEND=jax trains on "
            f"several devices. Received: strategy={type(model.distribute_strategy).__name__} of {count} replicas"
        )


def is_slow_in_a_loop(model):
    """Whether XLA computes a step ten times slower inside a loop than alone: convolutions on a CPU."""
    import jax

    convolutions = keras.layers.Conv2D, keras.layers.Conv2DTranspose, keras.layers.DepthwiseConv2D
    is_convolutional = any(isinstance(layer, convolutions) for layer in model._flatten_layers())
    return is_convolutional and jax.default_backend() == "cpu"


def program_sizes(steps_per_epoch, steps_per_execution):
    """Steps of one program after another, without end: the last of an epoch takes what is left of it.

    Of data that end with an epoch (`steps_per_epoch` of None) there are no more batches then.
    """
    while True:
        for done in range(0, steps_per_epoch or 1, steps_per_execution):
            yield min(steps_per_execution, (steps_per_epoch or math.inf) - done)


def fused_steps(model):
    """(state, iterator) -> (logs, state), as Keras' trainer calls it: up to K steps of the model in one program."""
    import jax

    def program(state, x, y):
        def step(state, batch):
            logs, state = model.train_step(state, batch)
            return state, logs

        steps_first = jax.tree.map(lambda stack: jax.numpy.swapaxes(stack, 0, 1), (x, y))
        state, logs = jax.lax.scan(step, state, steps_first)
        return jax.tree.map(lambda log: log[-1], logs), state

    shardings = None
    if keras.distribution.distribution() is not None:
        groups = model.trainable_variables, model.non_trainable_variables
        groups = *groups, model.optimizer.variables, model.metrics_variables
        shardings = None, tuple([variable.value.sharding for variable in group] for group in groups)
    program = jax.jit(program, donate_argnums=0, out_shardings=shardings)
    ahead = None, None  # (iterator, what it gave ahead)

    def run(state, iterator):
        nonlocal ahead
        batch = ahead[1] if ahead[0] is iterator else None
        batch = next(iterator) if batch is None else batch
        if isinstance(batch, Stacked):
            logs, state = program(state, *batch)
            # Keras reads the logs next, which waits for the device: the stack that comes next is made while it works.
            try:
                ahead = iterator, next(iterator, None)
            except BaseException:  # Keras brings back the state it knows, whose arrays the program has taken
                kinds = "trainable", "non_trainable", "optimizer", "metrics"
                model._jax_state = {f"{kind}_variables": values for kind, values in zip(kinds, state)}
                raise
            return logs, state
        batches = [batch, *itertools.islice(iterator, next(model.program_sizes) - 1)]
        for _, alike in itertools.groupby(batches, key=lambda batch: keras.tree.map_structure(np.shape, batch)):
            logs, state = program(state, *_stack(list(alike)))
        return logs, state

    return run


def _stack(batches):
    """Batches of one shape as one (x, y), stacked as `data.Batches` would have."""
    batches = [keras.utils.unpack_x_y_sample_weight(batch) for batch in batches]
    refuse_weights(batches[0][2])
    stack = np.stack if isinstance(keras.tree.flatten(batches[0])[0], np.ndarray) else ops.stack
    pairs = [(x, y) for x, y, _ in batches]
    return keras.tree.map_structure(lambda *arrays: None if arrays[0] is None else stack(arrays, axis=1), *pairs)
