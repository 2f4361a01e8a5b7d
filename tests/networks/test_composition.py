"""Networks at another size: the same layers, or a refusal."""

import keras
import numpy as np
import pytest
from keras import ops

from sslzoo import networks
from sslzoo.downstream.classifier import Classifier
from sslzoo.errors import InvalidInputError
from sslzoo.networks import composition
from sslzoo.views import Views


def convolutional():
    x = images = keras.Input((8, 8, 1))
    x = keras.layers.BatchNormalization()(keras.layers.Conv2D(3, 3, padding="same", name="conv")(x))
    return keras.Model(images, keras.layers.GlobalAveragePooling2D()(x), name="encoder")


def test_the_layers_are_shared_and_the_own_size_is_the_network_itself():
    network = convolutional()
    small = networks.at_size(network, (4, 6))
    assert small.input_shape == (None, 4, 6, 1) and small.output_shape == network.output_shape
    assert [id(weight) for weight in small.weights] == [id(weight) for weight in network.weights]
    crop = np.random.default_rng(0).normal(size=(2, 4, 6, 1)).astype("float32")
    maps = network.get_layer("conv")(crop)
    expected = np.mean(ops.convert_to_numpy(maps), axis=(1, 2)) / np.sqrt(1.001)  # Keras' own epsilon
    np.testing.assert_allclose(ops.convert_to_numpy(small(crop, training=False)), expected, rtol=1e-5, atol=1e-6)
    assert networks.at_size(network, (8, 8)) is network


def test_layers_that_cannot_are_refused():
    flat = networks.encoder("mlp-small", (8, 8, 1), 4)
    with pytest.raises(InvalidInputError, match=r"takes \(8, 8, 1\) only.*Received: size=\(4, 4\)"):
        networks.at_size(flat, (4, 4))
    images = keras.Input((8, 8, 1))
    maps = keras.Model(images, keras.layers.Flatten()(keras.layers.Conv2D(2, 3)(images)))
    with pytest.raises(InvalidInputError, match=r"it would give \(None, 8\).*Received: size=\(4, 4\)"):
        networks.at_size(maps, (4, 4))


def built_by_a_call(*layers, batch=8, shape=(8, 8, 1)):
    """As users write them: without `keras.Input`, so that Keras remembers the batch of the first call."""
    network = keras.Sequential(layers or [keras.layers.Flatten(), keras.layers.Dense(4)], name="encoder")
    network(np.zeros((batch, *shape), "float32"))
    assert network.input_shape[0] == batch
    return network


def of_one_batch():
    images = keras.Input(batch_shape=(8, 8, 8, 1), name="images")
    return keras.Model(images, keras.layers.Dense(4)(keras.layers.Flatten()(images)) * 2.0, name="encoder")


@pytest.mark.parametrize("make", [built_by_a_call, of_one_batch, lambda: built_by_a_call(built_by_a_call())])
def test_the_size_of_a_first_batch_is_forgotten(make):
    network = make()
    opened = composition.as_network("network", network)
    assert opened.input_shape[0] is opened.output_shape[0] is None and opened.name == network.name
    assert [id(weight) for weight in opened.weights] == [id(weight) for weight in network.weights]
    assert composition.as_network("network", opened) is opened
    whole = networks.compose(Views("simvae-digits", 2).preprocessor((8, 8, 1)), network)
    assert whole.input_shape == (None, 8, 8, 1) and whole.output_shape == (None, 4)
    views = np.random.default_rng(0).uniform(size=(3, 8, 8, 1)).astype("float32")
    found, expected = map(ops.convert_to_numpy, (whole(views * 255), opened(views)))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_a_network_for_one_size_of_batch_is_refused():
    images = keras.Input(batch_shape=(8, 4))
    folded = keras.Model(images, ops.reshape(images, (8, 2, 2)), name="folded")
    with pytest.raises(InvalidInputError, match=r"network must take batches of any size\. Received: network='folded'"):
        composition.as_network("network", folded)


class Halved(keras.layers.Layer):
    def call(self, x):
        return x / 2


def test_networks_that_do_not_fit_or_have_other_layers_are_refused():
    preprocessor = Views("simvae-digits", 2).preprocessor((8, 8, 1))
    with pytest.raises(InvalidInputError, match="must give what the network takes"):
        networks.compose(preprocessor, networks.encoder("mlp-small", (9, 8, 1), 4))
    images = keras.Input((8, 8, 1))
    private = keras.Model(images, keras.layers.Flatten()(Halved()(images)))
    with pytest.raises(InvalidInputError, match=r"consists of core Keras layers.*Halved"):
        networks.compose(preprocessor, private)


@pytest.mark.parametrize(
    "layer", [keras.layers.Rescaling(1 / 255), keras.layers.Normalization(mean=120.0, variance=3600.0)]
)
def test_a_network_that_scales_again_is_noticed(layer):
    images = keras.Input((8, 8, 1))
    network = keras.Model(images, keras.layers.Flatten()(layer(images)))
    assert composition.scales_twice(network, Views([], 2))
    assert composition.scales_twice(keras.Sequential([keras.Input((8, 8, 1)), network]), Views([], 2))
    assert not composition.scales_twice(network, Views([keras.layers.Rescaling(255.0)], 2))
    ours = networks.backbone("keras:VGG16", (32, 32, 3), seed=0)
    assert not composition.scales_twice(ours, Views([], 2))


def test_what_is_published_ends_in_float32_under_any_policy():
    """Half precision knows no probability between 0.996 and 1: a likelihood came out twice as large."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        decoder = networks.decoder("mlp-small", (8, 8, 1), 4, seed=0)
        assert networks.compose(None, decoder, activation="sigmoid").outputs[0].dtype == "float32"
        encoder = networks.encoder("mlp-small", (8, 8, 1), 4, seed=0)
        made = Classifier(encoder, 3)
        assert {made.model.outputs[0].dtype, made.training.outputs[0].dtype} == {"float32"}
    finally:
        keras.config.set_dtype_policy(before)


def test_a_network_goes_on_in_the_policy_that_it_is_given():
    """What is published says float32 layer by layer, so a run in mixed precision trained half of its network in it."""
    encoder = networks.encoder("mlp-small", (8, 8, 1), 4, seed=0)
    whole = networks.compose(Views("simvae-digits", 2).preprocessor((8, 8, 1)), encoder)
    mixed = composition.without_preprocessing(whole, keras.dtype_policies.get("mixed_bfloat16"))
    kinds = [layer.compute_dtype for layer in mixed.layers if layer.weights]
    assert kinds[:-1] == ["bfloat16"] * (len(kinds) - 1) and kinds[-1] == "float32"
    assert mixed.outputs[0].dtype == "float32" and all(w.dtype == "float32" for w in mixed.weights)


def _one_of_two(x):
    low, high = (keras.layers.Dense(3, name=name)(x) for name in ("low", "high"))
    y = keras.Input(x.shape[1:])
    return [keras.Model(x, [low, high], name="two")(y)[1]], y


def _shared_last(x):
    last = keras.layers.Activation("linear", name="last")
    return [last(keras.layers.Dense(3, name=name)(x)) for name in ("mean", "log_var")], x


def _nested_twice(x):
    head = keras.Sequential([keras.Input((5,)), keras.layers.Dense(3)], name="head")
    return [head(keras.layers.Dense(5, name=name)(x)) for name in ("first", "second")], x


def _swapped(x):
    a = keras.Input(x.shape[1:])
    pair = keras.Model(a, [keras.layers.Dense(size, name=f"of_{size}")(a) for size in (3, 2)], name="pair")
    first, second = pair(x)
    return [second, first], x


def _states_of_a_recurrent_layer(x):
    rows, state = keras.layers.GRU(3, return_sequences=True, return_state=True)(keras.layers.Reshape((2, 2))(x))
    return [state, rows], x


def _the_input_itself(x):
    return [keras.layers.Dense(3)(x), x], x


@pytest.mark.parametrize(
    "make", [_one_of_two, _shared_last, _nested_twice, _swapped, _states_of_a_recurrent_layer, _the_input_itself]
)
def test_outputs_are_those_of_the_same_call_of_a_layer(make):
    """Copies went by names: of a layer with two outputs, or called twice, another output was published."""
    outputs, inputs = make(keras.Input((4,)))
    network = keras.Model(inputs, outputs)
    batch = np.random.default_rng(0).normal(size=(6, 4)).astype("float32")
    copy = networks.compose(None, network)
    for expected, found in zip(*(keras.tree.flatten(model(batch)) for model in (network, copy)), strict=True):
        np.testing.assert_allclose(ops.convert_to_numpy(found), ops.convert_to_numpy(expected), atol=1e-6)


@pytest.mark.parametrize("called", [False, True])
def test_a_network_called_with_training_is_published_so(called):
    """Keras' guide to transfer learning calls `base(x, training=False)`: it trained, and was refused only then."""
    x = keras.Input((4,))
    base = keras.Model(x, keras.layers.BatchNormalization()(keras.layers.Dense(5)(x)), name="base")
    y = keras.Input((4,))
    network = keras.Model(y, keras.layers.Dense(3)(base(y, training=called)))
    batch = np.random.default_rng(0).normal(3, 2, (16, 4)).astype("float32")
    copy = networks.compose(None, network)
    for training in (None, False, True):
        expected, found = (ops.convert_to_numpy(model(batch, training=training)) for model in (network, copy))
        np.testing.assert_allclose(found, expected, atol=1e-5, err_msg=str(training))


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize(
    "wrapped",
    [
        lambda: keras.layers.SpectralNormalization(keras.layers.Conv2D(2, 3)),
        lambda: keras.layers.TimeDistributed(keras.layers.Dense(2)),
        lambda: keras.layers.TimeDistributed(keras.layers.Bidirectional(keras.layers.GRU(2)), dtype="float32"),
    ],
)
def test_layers_in_layers_end_in_float32_too(wrapped, policy):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        x = keras.Input((6, 6, 1))
        network = keras.Model(x, keras.layers.Flatten()(wrapped()(x)))
    finally:
        keras.config.set_dtype_policy(before)
    copy = networks.compose(None, network)
    kinds = {layer.name: layer.compute_dtype for layer in copy._flatten_layers() if layer.weights}
    assert len(kinds) > 1 and set(kinds.values()) == {"float32"}, kinds


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "float32"])
def test_a_network_in_a_layer_takes_a_policy_too(policy):
    x = keras.Input((6, 6, 1))
    row = keras.Sequential([keras.Input((6, 1)), keras.layers.Flatten(), keras.layers.Dense(3)])
    rows = keras.Model(x, keras.layers.Flatten()(keras.layers.TimeDistributed(row)(x)))
    whole = networks.compose(Views("simvae-digits", 2).preprocessor((6, 6, 1)), rows)
    again = composition.without_preprocessing(whole, keras.dtype_policies.get(policy))
    [kind] = {layer.dtype_policy.name for layer in again._flatten_layers() if isinstance(layer, keras.layers.Dense)}
    assert kind == policy
