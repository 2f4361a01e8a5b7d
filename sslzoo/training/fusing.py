"""How many training steps make one program."""

import time

import keras
from keras import ops

from sslzoo.methods.fusing import is_slow_in_a_loop
from sslzoo.methods.pretrainer import Pretrainer

PROGRAM_SECONDS = 0.5  # more gains nothing, and keeps Ctrl-C and --max-minutes waiting
STACK_BYTES = 2**28  # of the batches of one program
FEW_STEPS = 1000  # of a run: measuring compiles a step, which so few do not pay back


def choose(model: Pretrainer, batch, steps_per_epoch: int, epochs: int) -> int:
    """Steps per program for a run under JAX, from the time that one step takes; 1 under other backends.

    TensorFlow rounds otherwise inside its loop, so that a run which measures another number when it is resumed would
    not end in the same weights: there only `--fuse-steps` fuses.

    Args:
        model: compiled method. Nothing of it moves.
        batch: one batch as `model.fit` takes it, (x,).
        steps_per_epoch, epochs: of the run.
    """
    if keras.backend.backend() != "jax" or steps_per_epoch * epochs < FEW_STEPS or is_slow_in_a_loop(model):
        return 1
    size = sum(array.nbytes for array in keras.tree.flatten(batch))
    return fitting(PROGRAM_SECONDS / step_seconds(model, batch), STACK_BYTES // size, steps_per_epoch)


def fitting(most: float, storable: int, steps_per_epoch: int) -> int:
    """At most so many steps, and as many as divide the epoch where half of that do: a rest is one more program."""
    most = max(1, int(min(most, storable, steps_per_epoch)))
    return next((k for k in range(most, most // 2, -1) if steps_per_epoch % k == 0), most)


def build(model: Pretrainer, batch) -> None:
    """Builds what is left to build on one batch: Keras would take the first stack of several for one."""
    spec = keras.tree.map_structure(lambda array: keras.KerasTensor(array.shape, str(array.dtype)), batch[0])
    model.compute_output_spec(spec, training=False)


def step_seconds(model: Pretrainer, batch) -> float:
    """Seconds of one training step under JAX, the fastest of three, on copies of the variables."""
    model.optimizer.build(model.trainable_variables)
    groups = model.trainable_variables, model.non_trainable_variables, model.optimizer.variables
    state = tuple([ops.copy(variable.value) for variable in group] for group in (*groups, model.metrics_variables))
    model.make_train_function()
    seconds = []
    for _ in range(4):  # the first compiles
        began = time.perf_counter()
        logs, state = model.train_function(state, iter([batch]))
        float(logs["loss"])
        seconds.append(time.perf_counter() - began)
    return min(seconds[1:])
