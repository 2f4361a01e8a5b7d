"""What methods remember between steps: teachers, their moving averages, queues, banks and counters. Each trick once.

State is float32 under every dtype policy, is part of the model's variables (so of every checkpoint), and keeps three
rules that make it equal on TensorFlow, JAX and PyTorch: it is read through a `snapshot`, written once, after it was
used, and its variables are frozen, not its layers (a frozen layer would also switch its batch normalization to moving
statistics).
"""

import collections
import contextlib
import functools
import math
import signal
import threading
from collections.abc import Callable

import keras
import numpy as np
from keras import ops

from sslzoo.errors import InvalidInputError
from sslzoo.networks.initialization import give_weights, undrawn_copy


def variable(model: keras.Model, value: np.ndarray, name: str, trainable: bool = False) -> keras.Variable:
    """A variable of `model` that no dtype policy casts, starting at the array `value`, whose dtype it has."""
    value = np.asarray(value)

    def initial(shape, dtype=None):  # the value goes in through an initializer, so that no backend writes it twice
        return ops.convert_to_tensor(value, dtype=dtype)

    return model.add_weight(
        shape=value.shape, initializer=initial, dtype=str(value.dtype), trainable=trainable, autocast=False, name=name
    )


def counter(model: keras.Model, name: str) -> keras.Variable:
    """A `variable` that counts: int32 (), from 0."""
    return variable(model, np.zeros((), "int32"), name)


def snapshot(variable: keras.Variable):
    """The variable's value as a constant that a later assignment cannot disturb (PyTorch assigns in place)."""
    return ops.stop_gradient(ops.copy(ops.convert_to_tensor(variable)))


def moving_average(variable: keras.Variable, new, momentum: float):
    """What the variable would be after momentum variable + (1 - momentum) new: a tensor, gradients through `new`."""
    return momentum * snapshot(variable) + (1.0 - momentum) * new


def held(variable: keras.Variable, step, steps: int):
    """The variable's value, a constant in the first `steps` training steps; `step` (int scalar) were before this."""
    value = ops.convert_to_tensor(variable)
    return ops.where(step < steps, ops.stop_gradient(value), value) if steps else value


def make_teacher(student: keras.Model) -> keras.Model:
    """A model like the built `student`, with the same weights, that the optimizer of a `Pretrainer` never sees.

    That its variables are moved by hand is a mark of their own: `trainable` is a flag that Keras sets for all variables
    of a model at once.
    """
    if not getattr(student, "built", False):
        raise InvalidInputError(f"A teacher is made of a built model. Received: student={student!r}")
    half = {keras.backend.standardize_dtype(weight.dtype) for weight in student.weights} & {"bfloat16", "float16"}
    if half:
        raise InvalidInputError(
            "A teacher's steps of one part in a hundred or a thousand are rounded away in half precision: expected a "
            'student of float32 variables, as the dtype policies "mixed_bfloat16" and "mixed_float16" make them. '
            f"Received: student={student.name!r} with variables of {', '.join(sorted(half))}"
        )
    teacher = undrawn_copy(student)
    give_weights(teacher, student.get_weights())
    for layer in teacher._flatten_layers():
        layer.activity_regularizer = None  # a penalty of what nobody trains
    # By what a layer made them for: `trainable` also says no of frozen weights, which may be loaded later.
    learned = {id(weight) for layer in student._flatten_layers() for weight in layer._trainable_variables}
    for weight, of_student in zip(teacher.weights, student.weights):
        weight.trainable = False
        weight.moved_by_hand, weight.is_learned = True, id(of_student) in learned
    return teacher


def freeze_alike(teacher: keras.Model, student: keras.Model) -> None:
    """Freezes those layers of a teacher (`make_teacher`) that are frozen in the student, and no others.

    A frozen batch normalization takes its moving statistics, and a teacher must normalize as its student does.
    """
    if len(teacher.weights) != len(student.weights):
        raise InvalidInputError(
            "A teacher has the variables of its student: change the network (LoRA, say) before the method is made. "
            f"Received: {len(student.weights)} variables of the student, {len(teacher.weights)} of the teacher"
        )
    for layer, of_student in zip(teacher._flatten_layers(), student._flatten_layers()):  # a model before its layers
        if layer.trainable != of_student.trainable:
            layer.trainable = of_student.trainable
    for weight in teacher.weights:  # which Keras sets with their layers
        weight.trainable = False


def is_moved_by_hand(variable: keras.Variable) -> bool:
    """Whether a variable is a teacher's, whatever its `trainable` says."""
    return getattr(variable, "moved_by_hand", False)


def ema_update(teacher: keras.Model, student: keras.Model, momentum, first=None) -> None:
    """teacher <- momentum teacher + (1 - momentum) student, for what the student learns by gradient, or would unfrozen;
    the teacher is one of `make_teacher`.

    Statistics of batch normalization are the teacher's own, gathered from what it sees; where `first`, a bool scalar
    tensor or None, it takes over the student's.
    """
    for old, new in zip(teacher.weights, student.weights):
        value = ops.stop_gradient(ops.convert_to_tensor(new))
        if old.is_learned:
            old.assign(moving_average(old, ops.cast(value, old.dtype), ops.cast(momentum, old.dtype)))
        elif first is not None:
            old.assign(ops.where(first, value, snapshot(old)))


def input_gradient(model: keras.Layer, function: Callable, x):
    """d sum(function(x)) / dx as a constant: what a Langevin step ascends, and what separates outliers.

    Keras has no such operation, so the three backends part here. Whatever `function` writes
    (statistics of batch normalization, states of random generators) is thrown away, and the model's variables are
    constants inside, so that a training step around it neither differentiates nor remembers the way to the gradient.
    For a gradient of each row on its own `function` must call networks with `training=False`.
    """
    x = ops.convert_to_tensor(x)

    def total(x):
        # The values are read outside the inner scope, which would otherwise hide those of a scope around it (JAX).
        with keras.StatelessScope(values):
            return ops.sum(function(x))

    values = [(variable, ops.stop_gradient(variable.value)) for variable in model.variables]
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(x)
            y = total(x)
        return tf.stop_gradient(tape.gradient(y, x, unconnected_gradients="zero"))
    if backend == "jax":
        import jax

        return jax.lax.stop_gradient(jax.grad(total)(x))
    import torch

    with torch.enable_grad():  # `evaluate` and `predict` run without
        leaf = x.detach().requires_grad_(True)
        y = total(leaf)
        if not y.requires_grad:  # it does not depend on x
            return torch.zeros_like(x)
        (slope,) = torch.autograd.grad(y, leaf)  # `backward` would fill every `.grad`
    return slope


def without_gradients() -> contextlib.AbstractContextManager:
    """Inside, what a model computes eagerly keeps nothing for gradients; PyTorch would hold all activations of it."""
    if keras.backend.backend() != "torch":
        return contextlib.nullcontext()
    import torch

    return torch.no_grad()


def rising_momentum(start: float, step, total_steps: int | None):
    """A teacher's momentum that rises from `start` to 1 in `total_steps`, or stays (None): float32 scalar tensor.

    1 - (1 - start) (cos(pi step / total_steps) + 1) / 2, as in BYOL (Grill et al.), section 3.2, and DINO.
    """
    if total_steps is None:
        return ops.convert_to_tensor(start, dtype="float32")
    done = ops.minimum(ops.cast(step, "float32") / total_steps, 1.0)
    return 1.0 - (1.0 - start) * 0.5 * (ops.cos(math.pi * done) + 1.0)


def forget(optimizer: "keras.optimizers.Optimizer | None", variables) -> None:
    """Clears what an optimizer remembers of variables (momentum and the like), because they were set anew; its averages
    of weights begin at what they are now.
    """
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # that of mixed_float16 scales losses around it
    if optimizer is None or not optimizer.built:
        return
    anew = {id(variable) for variable in variables}
    owners, seen = collections.defaultdict(list), collections.Counter()
    for variable in optimizer._trainable_variables:
        owners[variable.path.replace("/", "_") + "_"].append(variable)
    for memory in optimizer.variables:
        # Keras names what it remembers of a variable after its path; paths may repeat, and then come in this order.
        start = max((start for start in owners if memory.name.startswith(start)), key=len, default=None)
        owner = owners[start][seen[memory.name] :][:1] if start else []
        seen[memory.name] += 1
        if owner and id(owner[0]) in anew:
            memory.assign(owner[0] if memory.name == f"{start}average" else np.zeros(memory.shape))


def enqueue(queue: keras.Variable, pointer: keras.Variable, rows) -> None:
    """Writes rows (B, D) over the oldest of a ring buffer (K, D), B <= K, and moves its int32 pointer () on.

    Raises:
        InvalidInputError: more rows than the queue holds.
    """
    if rows.shape[0] is not None and rows.shape[0] > queue.shape[0]:
        raise InvalidInputError(
            f"A queue of {queue.shape[0]} rows takes at most that many at once. Received: {rows.shape[0]} rows"
        )
    count = ops.shape(rows)[0]
    first = ops.copy(ops.convert_to_tensor(pointer))
    slots = (first + ops.arange(count, dtype="int32")) % queue.shape[0]
    queue.assign(ops.scatter_update(snapshot(queue), slots[:, None], ops.stop_gradient(rows)))
    pointer.assign((first + ops.cast(count, "int32")) % queue.shape[0])


def refresh_rows(bank: keras.Variable, index, rows, momentum: float) -> None:
    """bank[i] <- unit(momentum bank[i] + (1 - momentum) row), for the images i of a batch.

    An image that stands in the batch more than once takes its last row. It is that row which all of its writes carry,
    so that it does not matter in which order a backend makes them. If any index is outside the bank, nothing is
    written at all.

    Args:
        bank: float variable (N, D) of unit rows.
        index: int tensor (B,), which rows.
        rows: float tensor (B, D), of length 1.
        momentum: float in [0, 1].
    """
    index, rows = ops.cast(index, "int32"), ops.stop_gradient(rows)
    known = ops.all(ops.logical_and(index >= 0, index < bank.shape[0]))
    index = ops.where(known, index, 0)
    places = ops.arange(ops.shape(index)[0], dtype="int32")
    last = ops.max(ops.where(index[:, None] == index[None, :], places[None, :], 0), axis=1)
    before = snapshot(bank)
    old = ops.take(before, index, axis=0)
    mixed = momentum * old + (1.0 - momentum) * ops.take(rows, last, axis=0)
    lengths = ops.sqrt(ops.sum(ops.square(mixed), axis=1, keepdims=True))
    new = ops.where(ops.logical_and(known, lengths > 1e-12), mixed / ops.maximum(lengths, 1e-12), old)
    bank.assign(ops.scatter_update(before, index[:, None], new))


def giving_back(model: keras.Model, function: Callable, groups: str) -> Callable:
    """A step of Keras' trainer that leaves a model its variables where it raises, or is interrupted.

    Under JAX the trainer takes their values from them, hands them to the step, and forgets them if that raises: all
    weights would be lost to a batch of the wrong size. What was computed with already is gone all the same; so Ctrl-C,
    where it means KeyboardInterrupt, waits for the step, whose result the model gets. A second one does not wait.

    Args:
        model: whose step it is. function: (state, data) -> what comes of a step.
        groups: the kinds of variables in the state, in its order: "trainable non_trainable metrics".
    """
    if keras.backend.backend() != "jax":
        return function

    def give(state):
        for kind, values in zip(groups.split(), state):
            variables = model.optimizer.variables if kind == "optimizer" else getattr(model, f"{kind}_variables")
            for variable, value in zip(variables, values):
                if not value.is_deleted():
                    variable.assign(value)

    @functools.wraps(function)
    def step(state, data):
        with _waiting() as interrupted:
            try:
                result, after = function(state, data)
            except BaseException:
                give(state)
                raise
        if interrupted:
            give(after)
            model._jax_state_synced = True  # what the trainer would bring back is older
            raise KeyboardInterrupt
        return result, after

    return step


@contextlib.contextmanager
def _waiting():
    """Inside, the first Ctrl-C that would raise KeyboardInterrupt is added to the list that this gives instead."""
    came, usual = [], signal.default_int_handler
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is not usual:
        yield came
        return

    def note(*_):
        came.append(signal.SIGINT)
        signal.signal(signal.SIGINT, usual)

    signal.signal(signal.SIGINT, note)
    try:
        yield came
    finally:
        signal.signal(signal.SIGINT, usual)
