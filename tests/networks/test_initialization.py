"""Initial weights from NumPy: the same everywhere, and of the distribution that the layer asks for."""

import keras
import numpy as np
import pytest
from keras import initializers, layers

from sslzoo import networks
from sslzoo.errors import InvalidInputError


def dense(initializer, units=400, inputs=300, bias="zeros"):
    x = keras.Input((inputs,))
    return keras.Model(x, layers.Dense(units, kernel_initializer=initializer, bias_initializer=bias, name="layer")(x))


def drawn(model):
    return networks.initialize(model, 0).get_layer("layer").get_weights()[0]


def test_weights_are_equal_on_every_backend():
    """Numbers written down once; the run of this test under each backend holds that backend to them."""
    model = networks.encoder("resnet8-gedi", (8, 8, 3), 4, width=8, seed=7)
    kernel, bias = model.get_layer("block1_conv2").get_weights()
    assert (np.abs(kernel).sum(), bias.sum()) == pytest.approx((82.49121, 0.0), abs=1e-4)
    head = model.get_layer("latent").get_weights()[0]
    assert head[0, :3] == pytest.approx([0.3870531, 0.664203, 0.4136072], abs=1e-6)


def test_a_seed_repeats_and_another_does_not():
    first, again, other = (networks.encoder("mlp-small", (8, 8, 1), 4, seed=s).get_weights() for s in (5, 5, 6))
    assert all(np.array_equal(a, b) for a, b in zip(first, again))
    assert not any(np.array_equal(a, b) for a, b in zip(first, other) if a.ndim == 2)


def test_without_a_seed_keras_global_seed_decides():
    def first():
        return networks.encoder("mlp-small", (8, 8, 1), 4).get_weights()[0]

    keras.utils.set_random_seed(3)
    drawn_first, drawn_second = first(), first()
    assert not np.array_equal(drawn_first, drawn_second)
    keras.utils.set_random_seed(3)
    np.testing.assert_array_equal(first(), drawn_first)


def test_no_two_weights_share_their_numbers():
    kernels = networks.projector(32, (32, 32, 32), batch_norm=False, seed=0).get_weights()[::2]
    assert np.abs(np.corrcoef([k.ravel() for k in kernels]) - np.eye(3)).max() < 0.15


def test_another_head_leaves_the_trunk_alone():
    plain = networks.encoder("mlp-small", (8, 8, 1), 4, seed=1)
    posterior = networks.encoder("mlp-small", (8, 8, 1), 9, posterior=True, seed=1)
    for name in ("fc1", "fc2"):
        np.testing.assert_array_equal(
            plain.get_layer(name).get_weights()[0], posterior.get_layer(name).get_weights()[0]
        )


def test_moving_statistics_are_reset():
    model = networks.projector(4, (8, 2), seed=0)
    model.get_layer("bn1").set_weights([np.full(8, v, "float32") for v in (2, 3, 4, 5)])
    networks.initialize(model, 0)
    np.testing.assert_array_equal(np.stack(model.get_layer("bn1").get_weights()), np.repeat([[1], [0], [0], [1]], 8, 1))


@pytest.mark.parametrize(
    "initializer, mean, stddev, reach",
    [
        (initializers.GlorotUniform(), 0, (2 / 700) ** 0.5, (6 / 700) ** 0.5),
        (initializers.LecunUniform(), 0, 300**-0.5, (3 / 300) ** 0.5),
        (initializers.HeNormal(), 0, (2 / 300) ** 0.5, (2 / 300) ** 0.5 * 2 / 0.8796257),
        (initializers.GlorotNormal(), 0, (2 / 700) ** 0.5, (2 / 700) ** 0.5 * 2 / 0.8796257),
        (initializers.VarianceScaling(2.0, "fan_out", "untruncated_normal"), 0, (2 / 400) ** 0.5, None),
        (initializers.RandomUniform(-0.2, 0.4), 0.1, 0.3 / 3**0.5, 0.3),
        (initializers.RandomNormal(0.5, 0.1), 0.5, 0.1, None),
        (initializers.TruncatedNormal(0.5, 0.1), 0.5, 0.08796257, 0.2),
        (initializers.Constant(0.3), 0.3, 0, 0),
        (initializers.Ones(), 1, 0, 0),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, initializers.Initializer) else "",
)
def test_distribution_is_the_one_asked_for(initializer, mean, stddev, reach):
    """Mean, spread and reach of 120,000 numbers; Keras' own draw has the same mean and spread."""
    model = dense(initializer)
    for values in (model.get_layer("layer").get_weights()[0], drawn(model)):
        assert values.mean() == pytest.approx(mean, abs=0.02 * stddev + 1e-7)
        assert values.std() == pytest.approx(stddev, rel=0.01, abs=1e-7)
    distance = np.abs(drawn(model) - mean).max()
    if reach is None:  # 120,000 normal numbers go beyond four standard deviations
        assert 3.9 * stddev < distance < 6 * stddev
    else:
        assert 0.995 * reach - 1e-7 <= distance <= reach + 1e-6


def test_convolution_fans():
    image = keras.Input((8, 8, 16))
    out = layers.Conv2D(64, 3, kernel_initializer=initializers.VarianceScaling(2.0, "fan_out", "untruncated_normal"))
    model = networks.initialize(keras.Model(image, out(image)), 0)
    assert model.layers[-1].get_weights()[0].std() == pytest.approx(np.sqrt(2 / (64 * 9)), rel=0.03)


def test_shared_and_nested_layers_are_drawn_once():
    x = keras.Input((6,))
    shared = layers.Dense(6, name="shared")
    inner = keras.Model(x, shared(shared(x)))
    y = keras.Input((6,))
    model = networks.initialize(keras.Model(y, layers.Dense(2, name="top")(inner(y))), 3)
    assert len(model.weights) == 4
    kernel = shared.get_weights()[0]
    networks.initialize(model, 3)
    np.testing.assert_array_equal(shared.get_weights()[0], kernel)


@pytest.mark.parametrize("units", [3, 40])
def test_orthogonal_rows_or_columns(units):
    x = keras.Input((12,))
    model = keras.Model(x, layers.Dense(units, kernel_initializer=initializers.Orthogonal(gain=2.0))(x))
    kernel = networks.initialize(model, 0).get_weights()[0]
    gram = kernel.T @ kernel if units < 12 else kernel @ kernel.T
    np.testing.assert_allclose(gram, 4.0 * np.eye(len(gram)), atol=1e-5)
    assert not np.array_equal(kernel, networks.initialize(model, 1).get_weights()[0])


def test_recurrent_layers_are_drawn():
    x = keras.Input((5, 4))
    model = networks.initialize(keras.Model(x, layers.GRU(6)(x)), 0)
    kernel, recurrent, bias = model.get_weights()
    np.testing.assert_allclose(recurrent @ recurrent.T, np.eye(6), atol=1e-5)
    assert np.ptp(kernel) > 0 and not bias.any()


def test_measured_statistics_stay_and_other_layers_are_drawn_as_without_them():
    x = keras.Input((4,))
    scaled = layers.Normalization()
    scaled.adapt(np.random.default_rng(0).normal(7, 3, (50, 4)).astype("float32"))
    model = networks.initialize(keras.Model(x, layers.Dense(3)(scaled(x))), 0)
    assert model.get_weights()[0].mean() == pytest.approx(7, abs=1)
    assert np.ptp(model.get_weights()[-2]) > 0


def test_an_unknown_initialiser_is_refused_and_nothing_changes():
    x = keras.Input((4,))
    h = layers.Dense(4, name="first")(x)
    model = keras.Model(x, layers.Dense(4, kernel_initializer="identity")(h))
    before = model.get_weights()
    with pytest.raises(InvalidInputError, match="Received: initializer=Identity of layer='dense"):
        networks.initialize(model, 0)
    assert all(np.array_equal(a, b) for a, b in zip(before, model.get_weights()))


def test_a_weight_without_an_initialiser_is_refused():
    x = keras.Input((4, 4))
    model = keras.Model(x, layers.SpectralNormalization(layers.Dense(3))(x))
    with pytest.raises(InvalidInputError, match="Received: layer="):
        networks.initialize(model, 0)


@pytest.mark.parametrize("seed", [-1, 1.5, "0", True])
def test_seed_must_be_a_whole_number(seed):
    with pytest.raises(InvalidInputError, match="seed must be an integer from 0 to"):
        networks.initialize(dense("zeros"), seed)


def test_an_unbuilt_model_is_refused():
    with pytest.raises(InvalidInputError, match="needs a built model"):
        networks.initialize(keras.Sequential([layers.Dense(2)]), 0)


# ---------------------------------------------------------------- standardize


def outputs_of(model, name, batch):
    """What a layer gives before its activation, from its weights, in float64; dense layers only."""
    layer = model.get_layer(name)
    seen = keras.ops.convert_to_numpy(keras.Model(model.inputs, layer.input)(batch)).astype("float64")
    kernel, bias = layer.get_weights()
    return seen @ kernel + bias


def test_standardized_layers_start_with_mean_0_and_variance_1():
    encoder = networks.encoder("mlp-small", (6, 6, 1), 5, seed=0)
    images = np.random.default_rng(0).uniform(-1, -0.8, (200, 6, 6, 1)).astype("float32")
    before = keras.ops.convert_to_numpy(encoder(images))
    assert before.std(0).mean() < 0.1 * np.abs(before.mean(0)).mean()  # nearly one output for all images
    assert networks.standardize(encoder, images) is encoder
    for name in ("fc1", "fc2", "latent"):
        found = outputs_of(encoder, name, images)
        np.testing.assert_allclose(found.mean(0), 0, atol=2e-4)
        np.testing.assert_allclose(found.std(0), 1, rtol=2e-3)
    assert encoder.get_layer("fc1").activation is keras.activations.relu


def test_standardize_goes_through_convolutions_shortcuts_and_nested_models():
    images = np.random.default_rng(0).uniform(-1, 0, (50, 8, 8, 1)).astype("float32")
    x = keras.Input((8, 8, 1))
    trunk = networks.encoder("resnet8-gedi", (8, 8, 1), None, seed=0, width=6)
    names = ("block1_conv1", "block1_shortcut", "block4_conv2")
    inside = keras.Model(trunk.inputs, [trunk.get_layer(name).output for name in names])
    model = keras.Model(x, layers.Dense(3, use_bias=False, name="top")(trunk(x)))
    networks.standardize(model, images)
    for found in map(keras.ops.convert_to_numpy, inside(images)):
        np.testing.assert_allclose(found.mean((0, 1, 2)), 0, atol=2e-4)
        np.testing.assert_allclose(found.std((0, 1, 2)), 1, rtol=2e-3)
    np.testing.assert_allclose(keras.ops.convert_to_numpy(model(images)).std(0), 1, rtol=2e-3)


def test_a_constant_unit_is_centered_and_keeps_its_kernel():
    x = keras.Input((3,))
    model = keras.Model(x, layers.Dense(2, bias_initializer="ones", name="top")(x))
    kernel = model.get_layer("top").get_weights()[0]
    networks.standardize(model, np.ones((4, 3), "float32"))
    np.testing.assert_array_equal(model.get_layer("top").get_weights()[0], kernel)
    np.testing.assert_allclose(keras.ops.convert_to_numpy(model(np.ones((1, 3), "float32"))), 0, atol=1e-6)


def test_standardize_refuses_what_it_cannot_look_into():
    with pytest.raises(InvalidInputError, match="Functional model and two inputs"):
        networks.standardize(keras.Sequential([layers.Dense(2)]), np.zeros((4, 3), "float32"))
    with pytest.raises(InvalidInputError, match="batch of 1"):
        networks.standardize(networks.encoder("mlp-small", (6, 6, 1), 5), np.zeros((1, 6, 6, 1), "float32"))
