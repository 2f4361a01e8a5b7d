"""What is cut out of composed models: the network behind the preprocessing, a decoder's logits, other precisions."""

import keras
import numpy as np
import pytest

import sslzoo
from sslzoo import methods, networks
from sslzoo.errors import InvalidInputError
from sslzoo.networks import composition, initialize
from sslzoo.views import Views


def images(n=6, shape=(28, 28, 1), seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, *shape)).astype("uint8")


def array(tensor):
    return keras.ops.convert_to_numpy(tensor)


@pytest.mark.parametrize("name", ["simvae-mnist", "simclr-mnist"])
def test_the_network_of_a_committed_model_is_the_encoder_behind_its_views(name):
    encoder, network = sslzoo.load(name), sslzoo.load(name, part="network")
    views = Views("simvae-mnist", 2, seed=0)
    np.testing.assert_array_equal(array(network(views.prepare(images()))), array(encoder(images().astype("float32"))))
    assert network.layers[1].name == "flatten" and network.count_params() == encoder.count_params()


@pytest.mark.parametrize("steps", [[], [keras.layers.Rescaling(2.0, -1.0)]], ids=["none", "a layer of Keras"])
def test_a_composed_model_says_itself_where_preprocessing_ends(steps):
    views = Views(steps, 2, seed=0)
    network = networks.encoder("mlp-small", (8, 8, 1), 4, seed=1)
    model = networks.compose(views.preprocessor((8, 8, 1)), network)
    assert composition.preprocessing_end(model) == composition.PREPROCESSED
    x = images(shape=(8, 8, 1))
    cut = networks.without_preprocessing(model)
    np.testing.assert_allclose(array(cut(views.prepare(x))), array(model(x.astype("float32"))), atol=1e-6)
    assert [w.shape for w in cut.weights] == [w.shape for w in network.weights]
    cut.set_weights([w * 0 for w in cut.get_weights()])  # copies: the model keeps its own
    assert np.abs(array(model(x.astype("float32")))).max() > 0


def test_a_head_behind_a_composed_encoder_does_not_move_the_mark():
    views = Views([], 2, seed=0)
    encoder = networks.compose(views.preprocessor((8, 8, 1)), networks.encoder("mlp-small", (8, 8, 1), 4, seed=1))
    both = networks.compose(encoder, networks.projector(4, (8, 6), seed=2))
    assert [layer.name for layer in both.layers].count(composition.PREPROCESSED) == 1
    assert composition.preprocessing(both).output_shape == (None, 8, 8, 1)


def test_a_model_that_does_not_say_where_its_preprocessing_ends_is_refused():
    with pytest.raises(InvalidInputError, match="where its preprocessing ends"):
        networks.without_preprocessing(networks.encoder("mlp-small", (8, 8, 1), 4))


def test_an_encoder_that_would_scale_images_again_is_refused_with_the_cure():
    views = Views("simvae-digits", 2, seed=0)
    composed = networks.compose(views.preprocessor((8, 8, 1)), networks.encoder("mlp-small", (8, 8, 1), 4, seed=1))
    inside = keras.Sequential([keras.Input((8, 8, 1)), composed, keras.layers.Dense(3)])
    for encoder in (composed, inside):
        with pytest.raises(InvalidInputError, match='part="network"'):
            methods.SimCLR(encoder, views=views)
        methods.SimCLR(encoder)  # of views made elsewhere nothing is known
    methods.SimCLR(networks.without_preprocessing(composed), views=views)
    methods.SimCLR(composed, views=Views([keras.layers.Rescaling(255.0)], 2, seed=0))  # views in 0..255, as it takes


def test_fit_warns_of_raw_images_in_the_unit_range():
    model = methods.SimCLR(networks.encoder("mlp-small", (8, 8, 1), 4), views=Views("simvae-digits", 2, seed=0))
    model.compile(optimizer=keras.optimizers.SGD(1e-3))
    with pytest.warns(UserWarning, match="values 0..255"):
        model.fit(images(shape=(8, 8, 1)) / 255.0, batch_size=3, verbose=0)


@pytest.mark.parametrize("dtype", ["float16", "mixed_bfloat16"])
def test_half_precision_keeps_the_preprocessing_in_float32(dtype):
    """The step of a threshold multiplies by 2**64, which float16 does not hold."""
    exact = sslzoo.load("simvae-mnist").predict(images(), verbose=0)
    model = sslzoo.load("simvae-mnist", dtype=dtype)
    found = model.predict(images(), verbose=0).astype("float32")
    assert 0 < np.abs(found - exact).max() < (5e-3 if dtype == "float16" else 5e-2) * np.abs(exact).max()
    assert {w.dtype for w in model.weights} == {"float16" if dtype == "float16" else "float32"}


def test_logits_of_a_published_decoder():
    decoder = sslzoo.load("simvae-digits", part="decoder")
    z = np.random.default_rng(0).normal(size=(3, 10)).astype("float32")
    np.testing.assert_allclose(
        array(keras.ops.sigmoid(composition.logits(decoder)(z))), decoder.predict(z, verbose=0), atol=1e-6
    )
    latent = keras.Input((2,))
    with pytest.raises(InvalidInputError, match="end in a sigmoid"):
        composition.logits(initialize(keras.Model(latent, keras.layers.Dense(3)(latent)), 0))
