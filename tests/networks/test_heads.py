"""Projection heads: layers as the methods' papers have them."""

import keras
import numpy as np
import pytest
from keras import ops

from sslzoo import networks
from sslzoo.errors import InvalidInputError


def weights(model):
    return [(w.path.split("/")[-2], w.name) for w in model.trainable_weights]


def test_hidden_layers_are_normalised_and_the_output_is_linear():
    model = networks.projector(6, (8, 4), seed=0)
    assert weights(model) == [
        ("fc1", "kernel"),
        ("bn1", "gamma"),
        ("bn1", "beta"),
        ("projection", "kernel"),
        ("projection", "bias"),
    ]
    x = np.random.default_rng(0).normal(size=(5, 6))
    h = x @ model.get_layer("fc1").get_weights()[0]
    h = np.maximum(h / np.sqrt(1 + 1e-5), 0)  # fresh moving statistics are 0 and 1
    expected = h @ model.get_layer("projection").get_weights()[0]
    np.testing.assert_allclose(ops.convert_to_numpy(model(x.astype("float32"))), expected, atol=1e-5)


def test_options():
    plain = networks.projector(6, (8, 4), batch_norm=False)
    assert weights(plain) == [("fc1", "kernel"), ("fc1", "bias"), ("projection", "kernel"), ("projection", "bias")]
    barlow = networks.projector(6, (8, 8, 8), output_bias=False)
    assert weights(barlow)[-1] == ("projection", "kernel")
    simclr = networks.projector(6, (8, 4), output_batch_norm=True, name="head")
    assert weights(simclr)[-1] == ("projection", "kernel") and simclr.name == "head"
    out = ops.convert_to_numpy(simclr(np.random.default_rng(0).normal(size=(64, 6)), training=True))
    np.testing.assert_allclose([out.mean(0), out.std(0)], [[0] * 4, [1] * 4], atol=1e-3)
    norms = [layer for layer in simclr.layers if isinstance(layer, keras.layers.BatchNormalization)]
    assert {(layer.epsilon, layer.momentum) for layer in norms} == {(1e-5, 0.9)}


@pytest.mark.parametrize("normalized", [False, True])
def test_what_a_loss_compares_is_no_half_precision(normalized):
    """In bfloat16 two views whose projections differ by less than 0.4 % would be one and the same."""
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = networks.projector(6, (8, 4), output_batch_norm=normalized, seed=0)
    finally:
        keras.config.set_dtype_policy("float32")
    assert model.get_layer("fc1").compute_dtype == "bfloat16" and model.outputs[0].dtype == "float32"
    features = np.random.default_rng(0).normal(size=(64, 6)).astype("float32")
    out = ops.convert_to_numpy(model(features, training=True))
    rounded = ops.convert_to_numpy(ops.cast(ops.cast(out, "bfloat16"), "float32"))
    assert out.dtype == np.float32 and (out != rounded).mean() > 0.9


def test_predictor_maps_a_projection_to_its_own_size():
    model = networks.predictor(4, hidden=16)
    assert (model.input_shape, model.output_shape) == ((None, 4), (None, 4))
    assert model.get_layer("fc1").units == 16


@pytest.mark.parametrize("arguments", [(0, (4,)), (6, ()), (6, (4, 0)), (6, 4), ("6", (4,))])
def test_what_does_not_fit_is_refused(arguments):
    with pytest.raises(InvalidInputError, match=r"integer.*Received"):
        networks.projector(*arguments)
