"""Fused batch normalization is Keras' own to rounding: values, gradients, statistics, and what is saved."""

import json

import keras
import numpy as np
import oracle
import pytest
from keras import ops

from sslzoo import networks
from sslzoo.networks.normalization import KERNELS, BatchNormalization

SHAPES = [(6, 5, 4, 3), (40, 7)]
OPTIONS = [{}, {"center": False, "scale": False}, {"momentum": 0.5, "epsilon": 1e-3}]


def array(tensor):
    return ops.convert_to_numpy(ops.cast(tensor, "float32"))


def pair(shape, dtype="float32", **options):
    """A fused layer and Keras' layer of the same weights, none of them at its start."""
    options = {"momentum": 0.9, "epsilon": 1e-5, "dtype": dtype} | options
    layers = BatchNormalization(**options), keras.layers.BatchNormalization(**options)
    rng = np.random.default_rng(0)
    for layer in layers:
        layer.build(shape)
    values = [rng.uniform(0.5, 2.0, weight.shape) for weight in layers[0].weights]
    for layer in layers:
        layer.set_weights(values)
    return layers


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("shape", SHAPES)
def test_values_statistics_and_gradients_are_those_of_float64(shape, options):
    layer, _ = pair(shape, **options)
    rng = np.random.default_rng(1)
    x = rng.normal(2.0, 3.0, shape)
    weights = {weight.name: np.array(array(weight), "float64") for weight in layer.weights}
    axes = tuple(range(len(shape) - 1))
    mean, variance = x.mean(axes), x.var(axes)
    scale, offset = weights.get("gamma", 1.0), weights.get("beta", 0.0)
    deviation = np.sqrt(variance + layer.epsilon)
    normalized = (x - mean) / deviation
    np.testing.assert_allclose(array(layer(x, training=True)), normalized * scale + offset, atol=2e-5)
    for name, batch in (("moving_mean", mean), ("moving_variance", variance)):
        expected = layer.momentum * weights[name] + (1 - layer.momentum) * batch
        np.testing.assert_allclose(array(getattr(layer, name)), expected, rtol=2e-6)
    # Of sum(direction * y): Ioffe and Szegedy, section 3, with the batch's mean and variance differentiated.
    direction = rng.normal(size=shape)
    g = direction * scale
    expected = [(g - g.mean(axes) - normalized * (g * normalized).mean(axes)) / deviation]
    expected += [(direction * normalized).sum(axes)] if layer.scale else []
    expected += [direction.sum(axes)] if layer.center else []
    state = [array(weight) for weight in layer.non_trainable_variables]

    def projection(x, *trainable, layer=layer):
        y, _ = layer.stateless_call(trainable, [ops.convert_to_tensor(value) for value in state], x, training=True)
        return ops.sum(ops.convert_to_tensor(direction, "float32") * y)

    given = [x.astype("float32"), *(array(weight) for weight in layer.trainable_variables)]
    for gradient, right in zip(oracle.gradient(projection, *given), expected, strict=True):
        np.testing.assert_allclose(gradient, right, atol=1e-4)


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16", "float64"])
def test_other_precisions_are_keras_own_to_their_rounding(dtype):
    layer, own = pair(SHAPES[0], dtype)
    x = np.random.default_rng(1).normal(2.0, 3.0, SHAPES[0])
    y, expected = layer(x, training=True), own(x, training=True)
    assert y.dtype == expected.dtype
    np.testing.assert_allclose(
        array(y), array(expected), atol={"mixed_bfloat16": 4e-2, "mixed_float16": 4e-3}.get(dtype, 1e-6)
    )
    for ours, theirs in zip(layer.weights, own.weights):
        np.testing.assert_allclose(array(ours), array(theirs), rtol=1e-2 if dtype.startswith("mixed") else 1e-6)


@pytest.mark.parametrize("shape", [(1, 7), (1, 1, 1, 3)])
def test_several_steps_of_one_row_are_keras_own(shape):
    layer, own = pair(shape)
    for step in range(3):
        x = np.random.default_rng(step).normal(size=shape)
        np.testing.assert_allclose(array(layer(x, training=True)), array(own(x, training=True)), atol=1e-4)
    for ours, theirs in zip(layer.weights, own.weights):
        np.testing.assert_allclose(array(ours), array(theirs), atol=1e-5)


def test_evaluation_a_frozen_layer_and_a_mask_are_keras_own():
    layer, own = pair((4, 6, 3), axis=-1)
    x = np.random.default_rng(1).normal(size=(4, 6, 3))
    mask = np.arange(6)[None] < np.array([6, 3, 1, 2])[:, None]
    for how in ({"training": False}, {"training": True, "mask": mask}, {"training": True}):
        np.testing.assert_allclose(array(layer(x, **how)), array(own(x, **how)), atol=1e-6)
    layer, own = pair(SHAPES[0])
    layer.trainable = own.trainable = False
    x = np.random.default_rng(1).normal(size=SHAPES[0])
    np.testing.assert_allclose(array(layer(x, training=True)), array(own(x, training=True)), atol=1e-6)
    np.testing.assert_array_equal(array(layer.moving_mean), array(own.moving_mean))


@pytest.mark.skipif(keras.backend.backend() not in KERNELS, reason="XLA fuses Keras' own operations")
def test_training_runs_the_kernel(monkeypatch):
    calls = []
    kernel = KERNELS[keras.backend.backend()]
    monkeypatch.setitem(KERNELS, keras.backend.backend(), lambda *given: calls.append(given) or kernel(*given))
    network = networks.encoder("convnet", (16, 16, 3), 4)
    network(np.zeros((4, 16, 16, 3), "float32"), training=True)
    assert len(calls) == 4
    network(np.zeros((4, 16, 16, 3), "float32"), training=False)
    assert len(calls) == 4


def test_a_saved_network_holds_keras_own_layer(tmp_path):
    network = networks.encoder("convnet", (16, 16, 3), 4, seed=0)
    classes = {layer["module"] for layer in json.loads(network.to_json())["config"]["layers"]}
    assert classes == {"keras.layers"}
    network.save(tmp_path / "network.keras")
    again = keras.models.load_model(tmp_path / "network.keras")
    kinds = {type(layer) for layer in again.layers if "bn" in layer.name}
    assert kinds == {keras.layers.BatchNormalization}
    x = np.random.default_rng(0).uniform(size=(4, 16, 16, 3)).astype("float32")
    np.testing.assert_allclose(array(again(x)), array(network(x)), atol=1e-6)
