"""Decoders: sizes, the transposed convolutions against NumPy, and what refuses to fit."""

import keras
import numpy as np
import pytest
from keras import ops

from sslzoo import networks
from sslzoo.errors import InvalidInputError, UnknownNameError
from sslzoo.networks import blocks
from sslzoo.networks import transposed as hastened


def trainable(model):
    return sum(int(np.prod(w.shape)) for w in model.trainable_weights)


def test_every_decoder_has_an_encoder():
    assert set(networks.DECODERS) <= set(networks.ENCODERS)


@pytest.mark.parametrize(
    "name, shape, latent, expected",
    [
        ("mlp", (28, 28, 1), 10, 11 * 2000 + 2001 * 500 + 501 * 500 + 501 * 784),
        ("mlp-released", (28, 28, 1), 10, 11 * 500 + 501 * 500 + 501 * 2000 + 2001 * 784),
        ("mlp-small", (8, 8, 1), 10, 11 * 64 + 65 * 128 + 129 * 64),
        # Dense, convolutions without bias, two numbers a channel for each normalization, and a bias for each color.
        (
            "convnet",
            (32, 32, 3),
            64,
            65 * 2048 + 9 * 128**2 + 16 * (128 * 64 + 64 * 32 + 32 * 3) + 2 * (128 + 64 + 32) + 3,
        ),
        (
            "airnet",
            (32, 32, 3),
            64,
            65 * 3072 + 9 * 192**2 + 16 * (192 * 128 + 128 * 64 + 64 * 3) + 2 * (192 + 128 + 64) + 3,
        ),
        # The released networks, counted in PyTorch with the released code's layers.
        ("resnet18-simvae", (32, 32, 3), 64, 8_984_387),
        ("resnet18-simvae", (64, 64, 3), 64, 9_383_747),
        # Table 4: dense, convolutions, 1x1 shortcuts, two numbers a channel for each normalization, 5x5 with bias.
        (
            "resnet18-simvae-paper",
            (64, 64, 3),
            64,
            65 * 4096
            + sum(o * 9 * (i + o) + o * i + 6 * o for i, o in ((256, 128), (128, 64), (64, 32), (32, 16)))
            + 25 * 16 * 3
            + 3,
        ),
    ],
)
def test_parameters_are_those_of_the_papers(name, shape, latent, expected):
    model = networks.decoder(name, shape, latent)
    assert trainable(model) == expected
    assert model.input_shape == (None, latent) and model.output_shape == (None, *shape)


@pytest.mark.parametrize("name", networks.DECODERS)
def test_every_weight_learns(name):
    shape = (4, 6, 2) if name.startswith("mlp") else (16, 32, 2)
    model = networks.decoder(name, shape, 5, seed=0)
    assert all(layer.supports_jit for layer in model.layers)
    norms = [layer for layer in model.layers if isinstance(layer, keras.layers.BatchNormalization)]
    assert {(layer.epsilon, layer.momentum) for layer in norms} <= {(1e-5, 0.9)}
    before = [ops.convert_to_numpy(w) for w in model.trainable_weights]
    model.compile(keras.optimizers.SGD(1.0), loss="mse", run_eagerly=keras.backend.backend() != "jax")
    rng = np.random.default_rng(0)
    z, target = rng.normal(size=(4, 5)).astype("float32"), rng.normal(size=(4, *shape)).astype("float32")
    assert np.isfinite(model.train_on_batch(z, target))
    still = [w.path for w, old in zip(model.trainable_weights, before) if np.array_equal(ops.convert_to_numpy(w), old)]
    # Batch normalization takes a dense bias away only in part (it differs by position), so none may stand still.
    assert still == []


def transposed(x, kernel, bias, stride, padding, output_padding):
    """Transposed convolution as PyTorch defines it: scatter every input pixel's kernel, then cut the padding."""
    batch, height, width, _ = x.shape
    size, _, filters, _ = kernel.shape
    full = np.zeros((batch, (height - 1) * stride + size + 1, (width - 1) * stride + size + 1, filters))
    for i, j in np.ndindex(height, width):
        patch = np.einsum("bc,hwfc->bhwf", x[:, i, j], kernel)
        full[:, i * stride : i * stride + size, j * stride : j * stride + size] += patch
    rows = (height - 1) * stride - 2 * padding + size + output_padding
    columns = (width - 1) * stride - 2 * padding + size + output_padding
    return full[:, padding : padding + rows, padding : padding + columns] + bias


@pytest.mark.parametrize("size", [1, 3, 4, 7])
def test_conv_up_is_pytorchs_transposed_convolution(size):
    image = keras.Input((4, 5, 3))
    model = keras.Model(image, blocks.conv_up(image, 2, size, "up", use_bias=True))
    rng = np.random.default_rng(0)
    kernel, bias = rng.normal(size=(size, size, 2, 3)), rng.normal(size=2)
    model.get_layer("up").set_weights([kernel, bias])
    x = rng.normal(size=(2, 4, 5, 3))
    expected = transposed(x, kernel, bias, stride=2, padding=(size - 1) // 2, output_padding=size % 2)
    assert expected.shape == (2, 8, 10, 2) == (2, *model.output_shape[1:])
    np.testing.assert_allclose(ops.convert_to_numpy(model(x.astype("float32"))), expected, atol=2e-5)


@pytest.mark.parametrize("size, side", [(3, 6), (3, 7), (1, 6), (4, 6), (4, 7)])
def test_strided_conv_pads_both_sides(size, side):
    """Keras' "same" would pad an even image on one side only."""
    image = keras.Input((side, side, 2))
    model = keras.Model(image, blocks.conv(image, 3, size, "down", stride=2))
    rng = np.random.default_rng(0)
    kernel, x = rng.normal(size=(size, size, 2, 3)), rng.normal(size=(2, side, side, 2))
    model.get_layer("down").set_weights([kernel])
    reach = (size - 1) // 2
    padded = np.pad(x, ((0, 0), (reach, reach), (reach, reach), (0, 0)))
    out = (side + 2 * reach - size) // 2 + 1
    expected = np.zeros((2, out, out, 3))
    for i, j in np.ndindex(out, out):
        window = padded[:, 2 * i : 2 * i + size, 2 * j : 2 * j + size]
        expected[:, i, j] = np.einsum("bhwc,hwcf->bf", window, kernel)
    np.testing.assert_allclose(ops.convert_to_numpy(model(x.astype("float32"))), expected, atol=1e-5)


def test_logits_are_not_squashed():
    model = networks.decoder("mlp-small", (8, 8, 1), 3, seed=0)
    logits = ops.convert_to_numpy(model(100.0 * np.eye(3, dtype="float32")))
    assert logits.min() < -1 and logits.max() > 2


def test_unknown_name_suggests_near_ones():
    with pytest.raises(UnknownNameError, match=r"Did you mean.*resnet18-simvae.*Received: decoder='resnet18'"):
        networks.decoder("resnet18", (32, 32, 3), 64)


@pytest.mark.parametrize(
    "arguments, options, message",
    [
        (("mlp", (28, 28, 1), None), {}, "latent_dim must be an integer >= 1"),
        (("mlp", (28, 28, -1), 4), {}, "output_shape must be"),
        (("resnet18-simvae", (28, 28, 1), 4), {}, r"divisible by 16. Received: output_shape=\(28, 28, 1\)"),
        (("resnet18-simvae-paper", (32, 20, 3), 4), {}, "divisible by 16"),
        (("convnet", (28, 32, 3), 4), {}, r"three times .* divisible by 8. Received: output_shape=\(28, 32, 3\)"),
        (("resnet18-simvae", (32, 32), 4), {}, r"\(height, width, channels\)"),
        (("resnet18-simvae", (32, 32, 3), 4), {"widths": (3,)}, "has no options"),
        (("mlp", (8, 8, 1), 2), {"widths": ()}, "widths must be a tuple"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, options, message):
    with pytest.raises(InvalidInputError, match=message):
        networks.decoder(*arguments, **options)


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="the other backends differentiate these fast themselves")
@pytest.mark.parametrize("size", [1, 3, 4, 7])
def test_the_fast_gradient_is_the_gradient(size):
    import jax

    random = np.random.default_rng(size)
    images, kernel, slope = (
        random.normal(size=shape).astype("float32")
        for shape in ((2, 5, 6, 3), (size, size, 4, 3), (2, max(10, 8 + size), max(12, 10 + size), 4))
    )
    expected, back = jax.vjp(hastened._double, images, kernel)
    result, fast_back = jax.vjp(hastened._with_fast_gradient(), images, kernel)
    np.testing.assert_array_equal(result, expected)
    for one, other in zip(fast_back(slope), back(slope)):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_transposed_layers_stay_keras_own():
    decoder = networks.decoder("convnet", (16, 16, 3), 5, seed=0)
    copied = keras.Model.from_config(decoder.get_config())
    copied.set_weights(decoder.get_weights())
    layers = [layer for layer in copied.layers if "Transpose" in type(layer).__name__]
    assert len(layers) == 3 and {type(layer) for layer in layers} == {keras.layers.Conv2DTranspose}
    assert all("call" not in vars(layer) for layer in layers)
    z = np.random.default_rng(0).normal(size=(4, 5)).astype("float32")
    one, other = (ops.convert_to_numpy(model(z)) for model in (decoder, copied))
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
