"""Several batches whose gradients make one step of the optimizer: what methods count, and how fast teachers move."""

import keras
import numpy as np
import pytest
from contract import CASES, Flips, images
from keras import ops

from sslzoo import methods

BATCHES = 12


class Record(keras.callbacks.Callback):
    """The value of variables after every batch."""

    def __init__(self, **variables):
        super().__init__()
        self.variables, self.values = variables, {name: [] for name in variables}

    def on_train_batch_end(self, batch, logs=None):
        if keras.backend.backend() == "jax":
            self.model.jax_state_sync()
        for name, variable in self.variables.items():
            self.values[name].append(ops.convert_to_numpy(variable).astype("float64"))


def fit(model, accumulated, record):
    model.compile(keras.optimizers.SGD(0.05, gradient_accumulation_steps=accumulated))
    model.fit(images(4 * BATCHES), batch_size=4, epochs=1, shuffle=False, verbose=0, callbacks=[record])
    return {name: np.stack(values) for name, values in record.values.items()}


@pytest.mark.parametrize("name", ["moco", "tico", "protocpc", "dino"])
def test_a_teacher_moves_once_a_step(name):
    num_views, make = CASES[name]
    model, many = make(Flips(num_views)), 4
    student, teacher = (network.get_layer("latent").kernel for network in (model.encoder, model.teacher_encoder))
    before = ops.convert_to_numpy(student).astype("float64")
    values = fit(model, many, Record(student=student, teacher=teacher))
    students = [before, *values["student"][many - 1 :: many]]
    assert np.abs(students[1] - before).max() > 1e-5
    expected = before
    for step, row in enumerate(values["teacher"][many - 1 :: many]):
        expected = model.momentum * expected + (1.0 - model.momentum) * students[step]
        np.testing.assert_allclose(row, expected, rtol=1e-5, atol=1e-6)


def test_prototypes_stay_for_steps_not_for_batches():
    model = methods.SwAV(CASES["swav"][1](Flips(2)).encoder, 5, views=Flips(2), freeze_prototypes=2, temperature=0.5)
    kernel = model.prototype_head.weights[0]
    values = fit(model, 3, Record(kernel=kernel))["kernel"]
    moved = np.abs(np.diff(values, axis=0)).max(axis=(1, 2)) > 1e-5
    assert moved.nonzero()[0].tolist() == [7, 10]  # by the third step of three batches, and the fourth
    assert model.batches_per_step == 3 and int(model.steps_taken()) == 4


def test_losses_scaled_for_float16_leave_the_steps_of_an_optimizer_alone():
    model = CASES["byol"][1](Flips(2))
    adam = keras.optimizers.Adam(gradient_accumulation_steps=4)
    model.compile(keras.optimizers.LossScaleOptimizer(adam))
    assert model.batches_per_step == 4


def test_a_schedule_of_momentum_ends_with_its_steps():
    num_views, make = CASES["byol"]
    model = make(Flips(num_views))
    assert model.total_steps == 8
    fit(model, 6, Record())
    assert int(model.step) == BATCHES and int(model.steps_taken()) == 2
