"""Layers frozen or freed after a method was made: the teacher normalizes as the student does, and is never trained."""

import contract
import keras
import numpy as np
import pytest

FREE, PARTLY, FROZEN = (), ("norm",), ("hidden", "norm", "latent")


def freeze(model, names):
    """Its layers of those names alone; under TensorFlow a model that is trainable already hands `True` to no layer."""
    model.trainable = names != FROZEN
    for layer in model.layers:
        layer.trainable = names != FROZEN and layer.name not in names
    return model


def made(name, names, monkeypatch):
    plain = contract.plain_encoder
    with monkeypatch.context() as patch:
        patch.setattr(contract, "plain_encoder", lambda *seed: freeze(plain(*seed), names))
        num_views, make = contract.CASES[name]
        return make(contract.Flips(num_views))


def trained(model):
    model.compile(keras.optimizers.SGD(0.1))
    images = np.random.default_rng(0).integers(0, 256, (24, *contract.IMAGE_SHAPE)).astype("uint8")
    model.fit(images, batch_size=12, epochs=2, shuffle=False, verbose=0)
    return model


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("moco", FROZEN, FREE),
        ("moco", FREE, FROZEN),
        ("moco", FREE, PARTLY),
        ("moco", FROZEN, PARTLY),
        *[(name, PARTLY, FREE) for name in ("byol", "dino", "simdino", "protocpc", "tico")],
    ],
)
def test_a_teacher_is_frozen_where_its_student_is_now(name, before, after, monkeypatch):
    changed, expected = made(name, before, monkeypatch), made(name, after, monkeypatch)
    freeze(changed.encoder, after)
    for model in (changed, expected):
        trained(model)
    ids = {id(variable) for variable in changed.trainable_variables}
    assert not any(id(weight) in ids for weight in changed.teacher_encoder.weights)
    assert len(ids) == len(expected.trainable_variables)
    for ours, theirs in zip(changed.get_weights(), expected.get_weights()):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_a_student_that_is_freed_between_two_fits_frees_its_teacher(monkeypatch):
    model = trained(made("moco", FROZEN, monkeypatch))
    norm = model.teacher_encoder.get_layer("norm")
    before = [np.array(weight) for weight in norm.get_weights()[2:]]
    np.testing.assert_array_equal(before, [np.zeros(12), np.ones(12)])  # no step moved its statistics
    model.encoder.trainable = True
    trained(model)
    assert all(np.abs(new - old).max() > 0 for new, old in zip(norm.get_weights()[2:], before))
    model.trainable = True  # sets what Keras calls trainable in teachers, too
    learned = {id(variable) for variable in trained(model).trainable_variables}
    assert not any(id(weight) in learned for weight in model.teacher_encoder.weights)
