"""Every method with a network of keras.applications; those of small crops with a transformer, on each backend."""

import contract
import keras
import numpy as np
import pytest
from keras import ops

from sslzoo import methods, networks
from sslzoo.errors import InvalidInputError
from sslzoo.views import Views
from sslzoo.zoo.reading import read

SHAPE = (64, 64, 3)


def images(count=24, shape=SHAPE):
    coarse = np.random.default_rng(0).uniform(0, 256, size=(count, 8, 8, shape[-1]))
    return coarse.repeat(shape[0] // 8, axis=1).repeat(shape[1] // 8, axis=2).astype("uint8")


def mobilenet(seed=1, posterior=False):
    return networks.encoder("keras:MobileNet", SHAPE, contract.LATENT, posterior, seed=seed, alpha=0.25)


@pytest.mark.parametrize("fused", [1, 2] if keras.backend.backend() == "jax" else [1])
def test_what_layers_add_to_the_loss_counts(fused):
    image = keras.Input((8, 8, 3))
    regularized = {"kernel_regularizer": keras.regularizers.L2(0.5), "activity_regularizer": keras.regularizers.L2(0.1)}
    dense = keras.layers.Dense(4, **regularized)
    encoder = keras.Model(image, dense(keras.layers.Flatten()(image)))
    model = methods.SimCLR(encoder, views=contract.Flips(2))
    model.compile(keras.optimizers.SGD(0.0), steps_per_execution=fused)
    x = images(8, (8, 8, 3))
    history = model.fit(np.concatenate([x, x]), batch_size=8, epochs=2, shuffle=False, verbose=0).history
    features = ops.convert_to_numpy(encoder(ops.reshape(model.views(x), (16, 8, 8, 3)))).astype("float64")
    kernel = ops.convert_to_numpy(dense.kernel).astype("float64")
    added = 0.5 * (kernel**2).sum() + 0.1 * (features**2).sum() / 16
    logs = model.evaluate(x, batch_size=8, verbose=0, return_dict=True)
    for loss, terms in ((logs["loss"], logs), *((loss, logs) for loss in history["loss"])):
        assert loss - sum(terms[term] for term in model.terms) == pytest.approx(added, rel=1e-4)


@pytest.mark.slow
@pytest.mark.skipif(keras.backend.backend() != "torch", reason="which needs no time to compile large programs")
@pytest.mark.parametrize(  # every way in which a method treats its encoder
    "name",
    ["vae", "simclr", "moco", "byol", "dino", "swav", "ball", "cmc", "deepcluster", "gedi", "ebclr", "wmse", "lejepa"],
)
def test_a_backbone_of_keras_is_trained_and_published(name, monkeypatch, tmp_path):
    monkeypatch.setattr(contract, "IMAGE_SHAPE", SHAPE)
    monkeypatch.setattr(contract, "plain_encoder", mobilenet)
    monkeypatch.setattr(contract, "posterior_encoder", lambda: mobilenet(posterior=True))
    num_views, make = contract.CASES[name]
    model = make(contract.Flips(num_views))
    model.compile(keras.optimizers.Adam(1e-3))
    x = images(48)
    given = {"images": x, "index": np.arange(48, dtype="int32")} if model.indexed else x
    history = model.fit(given, batch_size=24, shuffle=False, verbose=0).history
    assert np.isfinite(history["loss"]).all()
    encoder = model.parts(SHAPE)["encoder"]
    encoder.save(tmp_path / "encoder.keras")
    found = read(tmp_path / "encoder.keras")(x[:4].astype("float32"), training=False)
    expected = model.representation(model.prepare(x[:4]), training=False)
    if not isinstance(model, methods.CMC):  # whose encoder is two
        np.testing.assert_allclose(*map(ops.convert_to_numpy, (found, expected)), atol=1e-4)


class Subclassed(keras.Model):
    """As PyTorch's users write networks."""

    def __init__(self, units=contract.LATENT):
        super().__init__()
        self.flat, self.dense = keras.layers.Flatten(), keras.layers.Dense(units)
        self.norm = keras.layers.BatchNormalization(momentum=0.5)

    def call(self, images, training=False):
        return self.norm(self.dense(self.flat(images)), training=training)


def subclassed(shape=contract.IMAGE_SHAPE, **options):
    network = Subclassed(**options)
    network(np.zeros((2, *shape), "float32"))
    return network


REFUSED = r"must be a built Functional or Sequential model; of a subclass take .*network\.call.* Received: "


@pytest.mark.parametrize("name", methods.METHODS)
def test_a_subclass_of_model_is_refused_by_every_method(name, monkeypatch):
    for encoder in ("plain_encoder", "posterior_encoder"):
        monkeypatch.setattr(contract, encoder, lambda *seed: subclassed())
    num_views, make = contract.CASES[name]
    with pytest.raises(InvalidInputError, match=f"(encoder|lightness) {REFUSED}"):
        make(contract.Flips(num_views))


def test_subclasses_as_heads_and_decoders_are_refused():
    network, head = contract.plain_encoder(), subclassed((contract.LATENT,), units=6)
    with pytest.raises(InvalidInputError, match=f"projector {REFUSED}"):
        methods.SimCLR(network, projector=head)
    with pytest.raises(InvalidInputError, match=f"predictor {REFUSED}"):
        methods.SimSiam(network, contract.head(), head)
    with pytest.raises(InvalidInputError, match=f"decoder {REFUSED}"):
        methods.VAE(contract.posterior_encoder(), head)


def test_what_the_refusal_of_a_subclass_names_trains_and_is_published():
    network, given = subclassed(), keras.Input(contract.IMAGE_SHAPE)
    model = methods.MoCo(keras.Model(given, network.call(given)), views=contract.Flips(2), queue_size=16)
    model.compile("sgd")
    before = network.norm.get_weights()
    model.fit(images(16, contract.IMAGE_SHAPE), batch_size=8, verbose=0)
    assert all(np.abs(old - new).max() > 0 for old, new in zip(before, network.norm.get_weights()))
    assert model.parts(contract.IMAGE_SHAPE)["encoder"].output_shape == (None, contract.LATENT)


def test_an_encoder_built_by_its_first_call_is_published_for_any_batch():
    layers = [keras.layers.Flatten(), keras.layers.Dense(contract.LATENT), keras.layers.BatchNormalization()]
    network, head = keras.Sequential(layers), keras.Sequential([keras.layers.Dense(6)])
    head(network(np.zeros((8, *contract.IMAGE_SHAPE), "float32")))
    model = methods.MoCo(network, head, views=contract.Flips(2), queue_size=32)
    model.compile("sgd")
    x = images(24, contract.IMAGE_SHAPE)
    for size in (12, 6):
        model.fit(x, batch_size=size, verbose=0)
    parts = model.parts(contract.IMAGE_SHAPE)
    assert all(part.input_shape[0] is part.output_shape[0] is None for part in parts.values())
    found, expected = parts["encoder"](x[:3].astype("float32")), network(x[:3] / 255)
    np.testing.assert_allclose(*map(ops.convert_to_numpy, (found, expected)), rtol=1e-4, atol=1e-5)


def crops(shape=(32, 32, 3)):
    """Two views of the images' own size, and two of half of it."""
    return Views("photos", 2, size=shape[:2], seed=0), Views("photos", 2, size=(16, 16), seed=1)


@pytest.mark.parametrize(
    "method, options",
    [
        ("swav", {"prototypes": 6}),
        pytest.param("dino", {"prototypes": 6}, marks=pytest.mark.slow),
        pytest.param("lejepa", {}, marks=pytest.mark.slow),
    ],
)
def test_a_transformer_takes_small_crops(method, options, tmp_path):
    shape = (32, 32, 3)
    network = networks.encoder("vit-tiny", shape, None, seed=0, depth=1)
    head = networks.projector(192, (16, 8), seed=1)
    views, local_views = crops()
    make = methods.METHODS[method]
    model = make(network, projector=head, views=views, local_views=local_views, seed=0, **options)
    model.compile(keras.optimizers.Adam(1e-3))
    before = network.get_layer("positions").get_weights()[0]
    history = model.fit(images(24, shape), batch_size=12, shuffle=False, verbose=0).history
    assert np.isfinite(history["loss"]).all()
    assert np.abs(network.get_layer("positions").get_weights()[0] - before).max() > 0
    model.parts(shape)["encoder"].save(tmp_path / "encoder.keras")
    assert read(tmp_path / "encoder.keras").output_shape == (None, 192)
