"""Convolutions and pooling that copy nothing under PyTorch are Keras' own: values, gradients, and what is saved."""

import keras
import numpy as np
import oracle
import pytest
from keras import ops

from sslzoo import networks
from sslzoo.networks import blocks, convolution

CONVOLUTIONS = [
    {"kernel_size": 3, "padding": "same"},
    {"kernel_size": 4, "padding": "same", "strides": 2, "activation": "relu"},
    {"kernel_size": (2, 3), "strides": 2, "use_bias": False},
    {"kernel_size": 3, "padding": "same", "dilation_rate": 2},
    {"kernel_size": 3, "groups": 2, "strides": (1, 2)},
]
POOLS = [{"pool_size": 2}, {"pool_size": 3, "strides": 2, "padding": "same"}, {"pool_size": (1, 2)}]
CASES = [("Conv2D", {"filters": 6} | options) for options in CONVOLUTIONS]
CASES += [(name, options) for name in ("MaxPooling2D", "AveragePooling2D") for options in POOLS]


@pytest.mark.parametrize("name, options", CASES)
def test_values_and_gradients_are_keras_own(name, options):
    pair = [getattr(module, name)(**options, data_format="channels_last") for module in (convolution, keras.layers)]
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 7, 8, 4)).astype("float32")
    shapes = [tuple(layer(x).shape) for layer in pair]
    weights = [rng.normal(size=weight.shape).astype("float32") for weight in pair[0].weights]
    direction = rng.normal(size=shapes[1]).astype("float32")

    def projection(layer):
        def of(x, *weights):
            return ops.sum(layer.stateless_call(weights, [], x)[0] * ops.convert_to_tensor(direction))

        return of

    assert shapes[0] == shapes[1]
    for layer in pair:
        layer.set_weights(weights)
    ours, theirs = (ops.convert_to_numpy(layer(x)) for layer in pair)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
    for one, other in zip(*(oracle.gradient(projection(layer), x, *weights) for layer in pair), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-4)


def test_equal_maxima_have_their_window_s_gradient_in_all():
    x = np.zeros((1, 5, 4, 1), "float32")
    x[0, :2, 2:, 0] = [[3, 1], [2, 3]]
    layer = convolution.MaxPooling2D(2, data_format="channels_last")
    (gradient,) = oracle.gradient(lambda x: ops.sum(layer(x)), x)
    windows = gradient[0, :4, :, 0].reshape(2, 2, 2, 2).sum((1, 3))
    np.testing.assert_allclose(windows, 1, rtol=1e-6)
    assert gradient[0, 0, 3, 0] == gradient[0, 1, 2, 0] == 0 and not gradient[0, 4].any()


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="others' kernels are their own")
def test_a_nan_is_pooled_to_a_nan():
    x = np.zeros((1, 4, 4, 1), "float32")
    x[0, 1, 2, 0] = np.nan
    pooled = ops.convert_to_numpy(convolution.MaxPooling2D(2, data_format="channels_last")(x))
    np.testing.assert_array_equal(np.isnan(pooled[0, ..., 0]), [[False, True], [False, False]])


@pytest.mark.parametrize("size", [1, 3, 4, 7])
def test_transposed_ones_have_keras_own_gradients(size):
    image = keras.Input((4, 5, 3))
    model = keras.Model(image, blocks.conv_up(image, 2, size, "up", use_bias=True))
    copied = keras.Model.from_config(model.get_config())  # its layers are Keras' own
    rng = np.random.default_rng(size)
    given = [rng.normal(size=shape).astype("float32") for shape in ((2, 4, 5, 3), (size, size, 2, 3), (2,))]
    direction = rng.normal(size=(2, 8, 10, 2)).astype("float32")

    def projection(model):
        return lambda x, *weights: ops.sum(model.stateless_call(weights, [], x)[0] * ops.convert_to_tensor(direction))

    for one, other in zip(*(oracle.gradient(projection(each), *given) for each in (model, copied)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-4)


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="Keras copies images under PyTorch alone")
@pytest.mark.parametrize("order", ["channels last", "columns last"])
@pytest.mark.parametrize("name", ["convnet", "airnet", "resnet18"])
def test_pytorch_copies_no_images(name, order):
    """But for those that lie otherwise in memory, as augmentation leaves them: once, before the first layer."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Copies(TorchDispatchMode):
        shapes = []

        def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
            if function.overloadpacket in (torch.ops.aten.clone, torch.ops.aten.copy_):
                self.shapes.append(tuple(arguments[0].shape))
            return function(*arguments, **(keywords or {}))

    network = networks.encoder(name, (16, 16, 3), 4, seed=0)
    views = torch.rand(7, 16, 16, 3) if order == "channels last" else torch.rand(7, 16, 3, 16).mT
    with Copies() as copies:
        network(views, training=True).sum().backward()
    copied = [shape for shape in copies.shapes if len(shape) == 4 and shape[0] == 7]
    assert copied == ([] if order == "channels last" else [(7, 16, 16, 3)])


def test_networks_save_keras_own_classes(tmp_path):
    network = networks.encoder("resnet8-gedi", (8, 8, 3), 4, seed=0, width=4)
    assert {type(layer) for layer in network.layers if "conv" in layer.name} == {convolution.Conv2D}
    network.save(tmp_path / "network.keras")
    again = keras.models.load_model(tmp_path / "network.keras")
    assert all(type(layer).__module__.startswith("keras.src") for layer in again.layers)
    x = np.random.default_rng(0).uniform(size=(4, 8, 8, 3)).astype("float32")
    np.testing.assert_allclose(*(ops.convert_to_numpy(model(x)) for model in (again, network)), atol=1e-5)
