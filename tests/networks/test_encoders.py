"""Encoders: sizes against the papers' tables, constants that Keras would set otherwise, and what refuses to fit."""

import json

import keras
import numpy as np
import pytest
from keras import ops

from sslzoo import networks
from sslzoo.errors import InvalidInputError, UnknownNameError

SMALL = {
    "mlp": {"widths": (12, 10)},
    "mlp-released": {"widths": (12, 10)},
    "mlp-small": {},
    "convnet": {},
    "resnet18-simvae": {},
    "resnet18-simvae-paper": {},
    "resnet18": {},
    "airnet": {"widths": (8, 8, 12)},
    "resnet8-gedi": {"width": 8},
    "resnet18-photo": {},
    "resnet50": {},
    "vit-tiny": {"depth": 1},
    "vit-small": {"depth": 1},
}


def trainable(model):
    return sum(int(np.prod(w.shape)) for w in model.trainable_weights)


def modules(config):
    """Every module that a serialized model asks Keras to import."""
    if isinstance(config, dict):
        found = {config["module"]} if isinstance(config.get("module"), str) else set()
        return found.union(*map(modules, config.values()))
    return set().union(*map(modules, config)) if isinstance(config, list) else set()


def test_every_encoder_is_tested_here():
    assert set(SMALL) == set(networks.ENCODERS)


@pytest.mark.parametrize(
    "name, shape, latent, options, expected",
    [
        ("mlp", (28, 28, 1), 10, {}, 785 * 500 + 501 * 500 + 501 * 2000 + 2001 * 20),
        ("mlp-released", (28, 28, 1), 10, {}, 785 * 2000 + 2001 * 500 + 501 * 500 + 501 * 20),
        ("mlp-small", (8, 8, 1), 10, {}, 65 * 128 + 129 * 64 + 65 * 20),
        # Convolutions without bias, two numbers a channel for each normalization, two heads on 4 x 4 x 128.
        ("convnet", (32, 32, 3), 64, {}, 16 * (3 * 32 + 32 * 64 + 64 * 128) + 9 * 128**2 + 2 * 352 + 2049 * 128),
        # The released networks, counted in PyTorch with the released code's layers.
        ("resnet18-simvae", (32, 32, 3), 64, {}, 969_920),
        ("resnet18-simvae", (64, 64, 3), 64, {}, 1_757_632),
        # Table 4: convolutions, 1x1 shortcuts, two numbers a channel for each normalization, two heads on 4096.
        (
            "resnet18-simvae-paper",
            (64, 64, 3),
            64,
            {},
            16 * 48
            + 32
            + sum(o * 9 * (i + o) + o * i + 6 * o for i, o in ((16, 32), (32, 64), (64, 128), (128, 256)))
            + 4097 * 128,
        ),
        ("resnet18", (32, 32, 3), None, {}, 11_168_832),
        ("airnet", (32, 32, 3), None, {}, 826_680),
        # torchvision's without their last layers.
        ("resnet18-photo", (224, 224, 3), None, {}, 11_176_512),
        ("resnet50", (224, 224, 3), None, {}, 23_508_032),
        # DeiT-Ti's 5,717,416 without its class token and classifier: 192 more for its place, 193 a class.
        ("vit-tiny", (224, 224, 3), None, {}, 5_717_416 - 2 * 192 - 193 * 1000),
        ("resnet8-gedi", (32, 32, 3), None, {}, 1_037_184),
        ("resnet8-gedi", (32, 32, 3), None, {"width": 256}, 4_138_752),
    ],
)
def test_parameters_are_those_of_the_papers(name, shape, latent, options, expected):
    assert trainable(networks.encoder(name, shape, latent, posterior=latent is not None, **options)) == expected


@pytest.mark.parametrize("name", SMALL)
def test_outputs_gradients_and_portability(name):
    """One posterior encoder of each kind: shapes, layer names, every weight learns, nothing but core Keras inside."""
    model = networks.encoder(name, (16, 16, 3), 5, posterior=True, seed=0, **SMALL[name])
    assert model.output_names == ["mean", "log_var"]
    assert [output.shape for output in model.outputs] == [(None, 5), (None, 5)]
    assert isinstance(model.get_layer("mean"), keras.layers.Dense)
    assert all(layer.supports_jit for layer in model.layers)  # one that does not would un-jit a whole method
    config = json.loads(model.to_json())
    assert all(module == "keras" or module.startswith("keras.") for module in modules(config)), modules(config)

    views = np.random.default_rng(0).random((6, 16, 16, 3), "float32")
    before = [ops.convert_to_numpy(w) for w in model.trainable_weights]
    model.compile(keras.optimizers.SGD(0.1), loss="mse", run_eagerly=keras.backend.backend() != "jax")
    target = np.random.default_rng(1).normal(size=(6, 5)).astype("float32")
    assert np.isfinite(model.train_on_batch(views, [target, target])).all()
    still = [w.path for w, old in zip(model.trainable_weights, before) if np.array_equal(ops.convert_to_numpy(w), old)]
    # A bias that batch normalization takes away again has no gradient; the released code has one there. Nor has what
    # adds the same to all scores of a query.
    assert [path for path in still if path not in ("stem_conv/bias", "block1_attention/key/bias")] == []


@pytest.mark.parametrize("name", SMALL)
def test_normalisation_and_slopes_are_not_keras_defaults(name):
    model = networks.encoder(name, (16, 16, 3), 5, **SMALL[name])
    norms = [layer for layer in model.layers if isinstance(layer, keras.layers.BatchNormalization)]
    assert {(layer.epsilon, layer.momentum) for layer in norms} <= {(1e-5, 0.9)}
    assert bool(norms) == name.startswith(("airnet", "convnet", "resnet18", "resnet50"))
    leaky = [layer for layer in model.layers if isinstance(layer, keras.layers.LeakyReLU)]
    assert [layer.negative_slope for layer in leaky] == pytest.approx([0.2] * (8 if name == "resnet8-gedi" else 0))


def test_features_without_a_head():
    assert networks.encoder("resnet18", (8, 8, 1), None).output_shape == (None, 512)
    assert networks.encoder("resnet8-gedi", (8, 12, 3), None, width=6).output_shape == (None, 6)


@pytest.mark.parametrize("height, rows", [(8, 1), (28, 3), (32, 4), (33, 4)])
def test_convnet_halves_three_times(height, rows):
    model = networks.encoder("convnet", (height, 32, 3), 6)
    assert model.get_layer("relu4").output.shape == (None, rows, 4, 128)


def test_single_output_is_a_linear_layer_named_latent():
    model = networks.encoder("mlp-small", (8, 8, 1), 7)
    assert model.output_names == ["latent"] and model.output_shape == (None, 7)
    assert model.get_layer("latent").activation is keras.activations.linear


def test_mlp_equals_numpy():
    model = networks.encoder("mlp", (3, 2), 4, widths=(6, 5), seed=3)
    x = np.random.default_rng(0).normal(size=(7, 3, 2))
    h = x.reshape(7, 6)
    for name in ("fc1", "fc2", "latent"):
        kernel, bias = (w.astype("float64") for w in model.get_layer(name).get_weights())
        h = h @ kernel + bias
        h = h if name == "latent" else np.maximum(h, 0)
    np.testing.assert_allclose(ops.convert_to_numpy(model(x.astype("float32"))), h, atol=1e-6)


def gedi_reference(model, x):
    """Table 8 of the GEDI paper in float64, straight from its rows."""

    def conv(h, name):
        kernel, bias = (w.astype("float64") for w in model.get_layer(name).get_weights())
        reach = kernel.shape[0] // 2
        padded = np.pad(h, ((0, 0), (reach, reach), (reach, reach), (0, 0)))
        out = np.zeros((*h.shape[:3], kernel.shape[3])) + bias
        for i, j in np.ndindex(kernel.shape[:2]):
            out += padded[:, i : i + h.shape[1], j : j + h.shape[2]] @ kernel[i, j]
        return out

    def leaky(h):
        return np.where(h > 0, h, 0.2 * h)

    def halve(h):
        return h.reshape(len(h), h.shape[1] // 2, 2, h.shape[2] // 2, 2, -1).mean((2, 4))

    h = halve(conv(leaky(conv(x, "block1_conv1")), "block1_conv2")) + conv(halve(x), "block1_shortcut")
    for block in ("block2", "block3", "block4"):
        residual = conv(leaky(conv(leaky(h), f"{block}_conv1")), f"{block}_conv2")
        h = halve(residual) + halve(h) if block == "block2" else residual + h
    return leaky(h).mean((1, 2))


def test_resnet8_gedi_equals_numpy():
    model = networks.encoder("resnet8-gedi", (8, 12, 3), None, width=5, seed=0)
    for weight in model.weights:
        if weight.name == "bias":
            weight.assign(np.random.default_rng(1).normal(size=weight.shape))
    x = np.random.default_rng(0).normal(size=(2, 8, 12, 3))
    np.testing.assert_allclose(
        ops.convert_to_numpy(model(x.astype("float32"))), gedi_reference(model, x), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("name, latent_dim", [("mlp-small", 5), ("resnet18-simvae", 5), ("resnet8-gedi", None)])
def test_mixed_bfloat16(name, latent_dim):
    """Variables stay float32, and so does what a loss compares; results stay near those of float32."""
    arguments = (name, (16, 16, 3), latent_dim)
    views = np.random.default_rng(0).random((4, 16, 16, 3), "float32")
    full = networks.encoder(*arguments, seed=1, **SMALL[name]).predict_on_batch(views)
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = networks.encoder(*arguments, seed=1, **SMALL[name])
        assert {str(w.dtype) for w in model.weights} == {"float32"}
        mixed = model.predict_on_batch(views)
    finally:
        keras.config.set_dtype_policy(before)
    assert model.outputs[0].dtype == mixed.dtype == "float32"
    assert {layer.compute_dtype for layer in model.layers[1:-1]} == {"bfloat16"}
    assert 0 < np.abs(mixed - full).max() < 0.05 * max(1.0, np.abs(full).max())


@pytest.fixture
def channels_first():
    before = keras.config.image_data_format()
    keras.config.set_image_data_format("channels_first")
    yield
    keras.config.set_image_data_format(before)


def test_channels_come_last_whatever_keras_is_set_to(channels_first):
    assert [
        networks.encoder("resnet18", (8, 8, 3), None).get_layer("stage2_block1_conv1").output.shape,
        networks.encoder("resnet8-gedi", (8, 8, 3), None, width=6).get_layer("block1_pool").output.shape,
        networks.encoder("resnet18-simvae", (32, 32, 3), 4).get_layer("pool").output.shape,
        networks.encoder("vit-tiny", (8, 8, 3), 4, depth=1).get_layer("features").output.shape,  # not tokens
        networks.encoder("vit-small", (8, 8, 3), None, depth=1).output.shape,
    ] == [(None, 4, 4, 128), (None, 4, 4, 6), (None, 15, 15, 64), (None, 192), (None, 384)]


@pytest.mark.parametrize("name", ["keras:VGG16", "keras:ConvNeXtTiny", "keras_hub:resnet_18_imagenet"])
def test_networks_that_keras_would_build_channels_first_are_refused(name, channels_first):
    with pytest.raises(InvalidInputError, match=rf"set_image_data_format.*'channels_first', name='{name}'"):
        networks.backbone(name, (64, 64, 3))


def test_released_stem_changes_with_the_image_size():
    small = networks.encoder("resnet18-simvae", (32, 32, 3), 4)
    large = networks.encoder("resnet18-simvae", (64, 64, 3), 4)
    assert [w.shape for w in small.get_layer("stem_conv").weights] == [(3, 3, 3, 64), (64,)]
    assert [w.shape for w in large.get_layer("stem_conv").weights] == [(4, 4, 3, 64)]
    assert small.get_layer("flatten").output.shape == (None, 2048)
    assert large.get_layer("flatten").output.shape == (None, 8192)


def test_unknown_name_suggests_near_ones():
    with pytest.raises(UnknownNameError, match=r"resnet18.*Received: encoder='resnet-18'"):
        networks.encoder("resnet-18", (32, 32, 3), 64)


@pytest.mark.parametrize(
    "arguments, options, message",
    [
        (("mlp", (28, 28, 1), None), {}, "needs a latent_dim"),
        (("resnet18", (32, 32, 3), None), {"posterior": True}, "posterior needs a latent_dim"),
        (("mlp", (28, 28, 1), 0), {}, "latent_dim must be an integer >= 1"),
        (("mlp", (28, 28, 1), 2.5), {}, "latent_dim must be an integer >= 1"),
        (("mlp", (28, None, 1), 2), {}, "input_shape must be"),
        (("mlp", 784, 2), {}, "input_shape must be"),
        (("mlp", (), 2), {}, "input_shape must be"),
        (("resnet18", (32, 32), 2), {}, r"\(height, width, channels\)"),
        (("resnet18", (4, 4, 3), 2), {}, "at least 8x8"),
        (("convnet", (32, 7, 3), 2), {}, "at least 8x8"),
        (("resnet8-gedi", (30, 32, 3), None), {}, "divisible by 4"),
        (("resnet8-gedi", (32, 32, 3), None), {"widths": (3,)}, "has the options width. Received: widths"),
        (("resnet18", (32, 32, 3), None), {"width": 3}, "has no options"),
        (("mlp", (8, 8, 1), 2), {"widths": 64}, "widths must be a tuple"),
        (("mlp", (8, 8, 1), 2), {"widths": (64, 0)}, "widths must be a tuple of positive integers"),
        (("mlp", (8, 8, 1), 2), {"seed": -1}, "seed must be an integer from 0 to"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, options, message):
    with pytest.raises(InvalidInputError, match=message):
        networks.encoder(*arguments, **options)
