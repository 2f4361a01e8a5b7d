"""Queues and teachers against plain NumPy, and the traps that each backend has for them."""

import keras
import numpy as np
import pytest
from contract import CASES, Flips, images
from keras import ops

from sslzoo import networks
from sslzoo.errors import InvalidInputError
from sslzoo.methods import state
from sslzoo.networks.composition import compose
from sslzoo.networks.initialization import unit_rows


class Memory(keras.Model):
    """A model with a queue and nothing else."""

    def __init__(self, queue):
        super().__init__()
        self.queue = state.variable(self, queue, "queue")
        self.pointer = state.variable(self, np.int32(0), "pointer")


def numbered(rows, start=0, size=2):
    return np.repeat(np.arange(start, start + rows, dtype="float32")[:, None], size, axis=1)


def array(tensor):
    return ops.convert_to_numpy(tensor)


def test_queue_is_a_ring_whatever_the_batch():
    memory, expected = Memory(np.full((7, 2), -1.0, "float32")), np.full((7, 2), -1.0)
    pointer = 0
    for start, rows in ((0, 3), (10, 3), (20, 3), (30, 7), (40, 1)):
        batch = numbered(rows, start)
        state.enqueue(memory.queue, memory.pointer, ops.convert_to_tensor(batch))
        for row in batch:
            expected[pointer] = row
            pointer = (pointer + 1) % 7
        np.testing.assert_array_equal(array(memory.queue), expected)
        assert int(array(memory.pointer)) == pointer


def test_queue_refuses_a_batch_larger_than_itself():
    memory = Memory(np.zeros((4, 2), "float32"))
    with pytest.raises(InvalidInputError, match="Received: 5 rows"):
        state.enqueue(memory.queue, memory.pointer, ops.zeros((5, 2)))
    assert int(array(memory.pointer)) == 0


def test_a_snapshot_survives_what_is_written_afterwards():
    memory = Memory(np.zeros((4, 2), "float32"))
    before = state.snapshot(memory.queue)
    state.enqueue(memory.queue, memory.pointer, ops.ones((2, 2)))
    np.testing.assert_array_equal(array(before), 0.0)


def test_state_is_float32_under_bfloat16_and_never_trained():
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        memory = Memory(np.zeros((4, 2), "float32"))
    finally:
        keras.config.set_dtype_policy("float32")
    assert keras.backend.standardize_dtype(memory.queue.dtype) == "float32"
    assert keras.backend.standardize_dtype(memory.pointer.dtype) == "int32"
    assert not memory.trainable_variables and len(memory.non_trainable_variables) == 2


def test_unit_rows_lie_on_the_sphere_and_repeat():
    rows = unit_rows(50, 3, seed=4)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, rtol=1e-6)
    np.testing.assert_array_equal(rows, unit_rows(50, 3, seed=4))
    assert np.abs(rows.mean(axis=0)).max() < 0.3


def head():
    return networks.projector(3, (5, 2), seed=1)


def test_teacher_starts_equal_is_frozen_and_keeps_batch_statistics_of_its_own():
    student = head()
    teacher = state.make_teacher(student)
    assert not teacher.trainable_variables
    for ours, theirs in zip(teacher.weights, student.weights):
        assert ours is not theirs
        np.testing.assert_array_equal(array(ours), array(theirs))
    x = np.random.default_rng(0).normal(size=(8, 3)).astype("float32")
    # frozen variables, not layers: batch normalization still takes the batch's own statistics
    np.testing.assert_allclose(array(teacher(x, training=True)), array(student(x, training=True)), atol=1e-6)


def test_a_teacher_normalizes_as_its_student_and_shares_layers_as_it_does():
    """`Normalization` keeps beside its weights what it makes of them, which `set_weights` does not renew."""
    random = np.random.default_rng(0)
    adapted, shared = keras.layers.Normalization(), keras.layers.Dense(2, activity_regularizer="l2")
    adapted.adapt(random.normal(3, 2, (64, 3)).astype("float32"))
    inner = keras.Input((3,))
    parts = [keras.Model(inner, shared(inner) * scale) for scale in (1.0, 2.0)]
    inputs = keras.Input((3,))
    x = adapted(inputs)
    student = keras.Model(inputs, keras.layers.Concatenate()([part(x) for part in parts]))
    teacher = state.make_teacher(student)
    rows = random.normal(3, 2, (8, 3)).astype("float32")
    np.testing.assert_allclose(array(teacher(rows)), array(student(rows)), atol=1e-6)
    assert len(teacher.weights) == len(student.weights) and not teacher.losses and student.losses
    published = compose(None, student)
    np.testing.assert_allclose(array(published(rows)), array(student(rows)), atol=1e-6)


class Scaled(keras.layers.Layer):
    """A layer of the user's own, not registered with Keras, which says what its initializer is."""

    def __init__(self, initializer="ones", **kwargs):
        super().__init__(**kwargs)
        self.scale_initializer = keras.initializers.get(initializer)

    def build(self, shape):
        self.scale = self.add_weight((shape[-1],), initializer=self.scale_initializer, name="scale")

    def call(self, x):
        return x * self.scale

    def get_config(self):
        return {**super().get_config(), "initializer": self.scale_initializer}


def students():
    """Functional, Sequential, and one with a model, an operation and a layer of layers inside."""
    x = inputs = keras.Input((3,))
    x = ops.sin(keras.Sequential([keras.Input((3,)), keras.layers.Dense(4)], name="inner")(x))
    x = Scaled(name="scaled")(keras.layers.Reshape((2, 2))(x))
    x = keras.layers.MultiHeadAttention(1, 2, kernel_initializer="he_normal", name="attention")(x, x)
    outputs = keras.layers.Dense(2)(keras.layers.Flatten()(x))
    sequential = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4), keras.layers.BatchNormalization()])
    return {"functional": head(), "sequential": sequential, "nested": keras.Model(inputs, outputs)}


@pytest.mark.parametrize("kind", ["functional", "sequential", "nested"])
def test_a_teacher_is_made_without_drawing_anything(kind, monkeypatch):
    """Values that the student's replace at once cost a compilation each under JAX; the teacher's layers say as ever
    how they would have been initialized."""
    student = students()[kind]
    monkeypatch.setattr(keras.initializers.VarianceScaling, "__call__", lambda *args, **kwargs: 1 / 0)
    teacher = state.make_teacher(student)
    assert type(teacher) is type(student)
    assert [w.path for w in teacher.weights] == [w.path for w in student.weights]
    for ours, theirs in zip(teacher.weights, student.weights):
        np.testing.assert_array_equal(array(ours), array(theirs))
    x = np.random.default_rng(0).normal(size=(8, 3)).astype("float32")
    np.testing.assert_allclose(array(teacher(x)), array(student(x)), atol=1e-6)
    if kind == "nested":
        assert teacher.get_layer("attention").get_config() == student.get_layer("attention").get_config()
    else:
        assert teacher.to_json() == student.to_json()


def test_momentum_rises_along_half_a_cosine_and_stays():
    found = [float(state.rising_momentum(0.9, np.int32(step), 100)) for step in (0, 50, 100, 500)]
    np.testing.assert_allclose(found, [0.9, 0.95, 1.0, 1.0], atol=1e-6)
    assert float(state.rising_momentum(0.9, np.int32(7), None)) == pytest.approx(0.9)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_an_optimizer_forgets_the_variables_named_and_no_others(optimizer):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, name="fc"), keras.layers.Dense(2, name="fc2")])
    arguments = {"momentum": 0.9} if optimizer == "sgd" else {}
    model.compile(optimizer=keras.optimizers.get({"class_name": optimizer, "config": arguments}), loss="mse")
    rng = np.random.default_rng(0)
    model.fit(rng.normal(size=(8, 3)), rng.normal(size=(8, 2)), verbose=0)
    before = {memory.path: array(memory) for memory in model.optimizer.variables}
    state.forget(model.optimizer, model.get_layer("fc").weights)
    forgotten = {path for path in before if "_fc_" in path}
    assert len(forgotten) == (2 if optimizer == "sgd" else 4) < len(before) - 2
    for memory in model.optimizer.variables:
        expected = 0 * before[memory.path] if memory.path in forgotten else before[memory.path]
        np.testing.assert_array_equal(array(memory), expected)
    state.forget(None, model.weights)


def test_averages_of_weights_set_anew_begin_at_them_and_a_namesake_keeps_its_own():
    inner = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, name="fc")], name="same")
    model = keras.Sequential([keras.Input((3,)), inner, keras.layers.Dense(2, name="fc")], name="same")
    assert inner.layers[0].kernel.path == model.layers[1].kernel.path
    model.compile(keras.optimizers.Adam(1e-2, use_ema=True), loss="mse")
    rng = np.random.default_rng(0)
    model.fit(rng.normal(size=(8, 3)), rng.normal(size=(8, 2)), verbose=0)
    before = [array(memory) for memory in model.optimizer.variables]
    model.layers[1].kernel.assign(np.full((4, 2), 7.0))
    state.forget(model.optimizer, [model.layers[1].kernel])
    changed = [
        memory for memory, old in zip(model.optimizer.variables, before) if not np.array_equal(array(memory), old)
    ]
    assert [tuple(memory.shape) for memory in changed] == 3 * [(4, 2)]
    for memory in changed:
        np.testing.assert_array_equal(array(memory), 7.0 if memory.path.endswith("average") else 0.0)


@pytest.mark.parametrize("momentum", [0.0, 0.9, 1.0])
def test_ema_moves_parameters_and_leaves_statistics(momentum):
    student, teacher = head(), state.make_teacher(head())
    rng = np.random.default_rng(0)
    for weight in student.weights:
        weight.assign(rng.normal(size=weight.shape))
    old = [array(weight) for weight in teacher.weights]
    state.ema_update(teacher, student, momentum)
    for before, weight, new in zip(old, teacher.weights, student.weights):
        expected = momentum * before + (1 - momentum) * array(new) if new.trainable else before
        np.testing.assert_allclose(array(weight), expected, atol=1e-6, err_msg=weight.path)
    assert any(not weight.trainable for weight in student.weights)  # so that statistics were among them


def test_teacher_of_something_unbuilt_is_refused():
    with pytest.raises(InvalidInputError, match="built model"):
        state.make_teacher(keras.Sequential([keras.layers.Dense(2)]))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_teacher_of_something_in_half_precision_is_refused(dtype):
    """Its steps would be rounded away, and it would never move."""
    student = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, dtype=dtype)])
    with pytest.raises(InvalidInputError, match=f"mixed_{dtype}.*Received: .*variables of {dtype}"):
        state.make_teacher(student)
    mixed = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, dtype=f"mixed_{dtype}")])
    assert {weight.dtype for weight in state.make_teacher(mixed).weights} == {"float32"}


# ---------------------------------------------------------------- banks


def refreshed(bank, index, rows, momentum):
    """One row after the other, in float64."""
    bank, old = bank.astype("float64"), bank.astype("float64")
    for i, row in zip(index, rows.astype("float64")):
        mixed = momentum * old[i] + (1 - momentum) * row
        bank[i] = mixed / np.linalg.norm(mixed)
    return bank


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("index", [[3, 0, 6], [2, 5, 2, 2, 0, 5]])  # the second with images that come again
def test_a_bank_takes_the_last_row_of_each_image(index, momentum):
    start, rows = unit_rows(7, 3, 0), unit_rows(len(index), 3, 1)
    memory = Memory(start)
    state.refresh_rows(memory.queue, ops.convert_to_tensor(index), ops.convert_to_tensor(rows), momentum)
    found = array(memory.queue)
    np.testing.assert_allclose(found, refreshed(start, index, rows, momentum), atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, rtol=1e-6)
    untouched = [i for i in range(7) if i not in index]
    np.testing.assert_array_equal(found[untouched], start[untouched])


@pytest.mark.parametrize("outside", [-1, 7])
def test_a_bank_takes_nothing_of_a_batch_with_an_image_that_it_does_not_know(outside):
    start, rows = unit_rows(7, 3, 0), unit_rows(3, 3, 1)
    memory = Memory(start)
    state.refresh_rows(memory.queue, ops.convert_to_tensor([2, outside, 0]), ops.convert_to_tensor(rows), 0.5)
    np.testing.assert_array_equal(array(memory.queue), start)


def test_opposite_vectors_leave_a_row_as_it_was():
    memory = Memory(np.array([[0.6, 0.8], [1.0, 0.0]], "float32"))
    state.refresh_rows(memory.queue, ops.convert_to_tensor([0]), -ops.convert_to_tensor([[0.6, 0.8]]), 0.5)
    np.testing.assert_array_equal(array(memory.queue), [[np.float32(0.6), np.float32(0.8)], [1, 0]])


# ---------------------------------------------------------------- input gradients


def normalized(seed=0, dropout=0.5):
    """A model with batch normalization and dropout: both write state when they train."""
    x = inputs = keras.Input((3,))
    x = keras.layers.BatchNormalization(momentum=0.5)(keras.layers.Dense(4, activation="tanh")(x))
    x = keras.layers.Dropout(dropout, seed=1)(x)
    return networks.initialize(keras.Model(inputs, keras.layers.Dense(2)(x)), seed)


def points(rows=5, seed=0):
    return np.random.default_rng(seed).normal(size=(rows, 3)).astype("float32")


def test_the_gradient_of_a_quadratic_is_minus_x():
    x = points()
    found = state.input_gradient(normalized(), lambda t: -0.5 * ops.sum(t**2, axis=1), x)
    np.testing.assert_allclose(array(found), -x, rtol=1e-6)


def test_input_gradient_of_a_network_equals_differences():
    model, x = normalized(), points().astype("float64")
    found = array(state.input_gradient(model, lambda t: ops.logsumexp(model(t, training=False), axis=1), points()))

    def value(x):
        return array(ops.logsumexp(model(x.astype("float32"), training=False), axis=1)).astype("float64")

    for column in range(3):
        step = np.zeros(3)
        step[column] = 1e-2
        slope = (value(x + step) - value(x - step)) / 2e-2
        np.testing.assert_allclose(found[:, column], slope, atol=2e-3)


def test_a_function_that_ignores_its_input_has_gradient_zero():
    found = state.input_gradient(normalized(), lambda t: ops.ones((5,)), points())
    np.testing.assert_array_equal(array(found), 0.0)


def test_input_gradient_leaves_no_trace_even_of_layers_in_training():
    model = normalized()
    before = [array(v) for v in model.variables]
    state.input_gradient(model, lambda t: model(t, training=True), points())
    for old, new in zip(before, model.variables):
        np.testing.assert_array_equal(old, array(new), err_msg=new.path)


class Ascent(keras.Model):
    """Trains -mean f(x + df/dx), or -mean f(x): the input gradient is to be a constant inside a training step.

    f is the network in inference mode; its input gradient may be taken in training mode, `inside`.
    """

    def __init__(self, network, inside):
        super().__init__()
        self.network, self.inside, self.built = network, inside, True

    def call(self, x, training=False):
        if self.inside is not None:
            x = x + state.input_gradient(self, lambda t: self.network(t, training=self.inside), x)
        return self.network(x, training=False)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return -ops.mean(y_pred)


@pytest.mark.parametrize("inside", [True, False])
def test_inside_a_compiled_training_step_it_is_a_constant_and_leaves_statistics_alone(inside):
    """The step equals one by hand on the moved points: nothing of the way to them was differentiated."""
    model, twin, x = Ascent(normalized(dropout=0.0), inside), normalized(dropout=0.0), points(8)
    moved = x + array(state.input_gradient(twin, lambda t: twin(t, training=inside), x))
    model.compile(keras.optimizers.SGD(0.1))
    model.fit(x, batch_size=8, verbose=0)
    expected = Ascent(twin, None)
    expected.compile(keras.optimizers.SGD(0.1))
    expected.fit(moved, batch_size=8, verbose=0)
    for ours, theirs, start in zip(model.network.weights, twin.weights, normalized(dropout=0.0).weights):
        np.testing.assert_allclose(array(ours), array(theirs), atol=1e-6, err_msg=ours.path)
        assert np.array_equal(array(ours), array(start)) == (not ours.trainable), ours.path


def test_a_teacher_whose_student_was_given_other_variables_is_refused():
    model = CASES["byol"][1](Flips(2))
    model.encoder.layers[-1].enable_lora(2)
    model.compile("sgd")
    with pytest.raises(InvalidInputError, match="A teacher has the variables of its student"):
        model.fit(images(8), batch_size=8, verbose=0)
