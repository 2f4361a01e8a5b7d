"""Encoders of deep images: they say what values they take, and the rest of the package believes them."""

import csv

import keras
import numpy as np
import pytest

import sslzoo
from sslzoo import networks
from sslzoo.errors import InvalidInputError
from sslzoo.evaluation import check_views, features, generation
from sslzoo.methods import SimCLR
from sslzoo.networks import composition
from sslzoo.training import Run
from sslzoo.views import Views
from sslzoo.zoo.results import read_results


def bands(count, seed=0):
    """Four bands of a sensor of 12 bits, in two classes of which each is brighter in two of them."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, count)
    bright = np.where(labels[:, None] == [0, 1, 0, 1], 2500, 900)[:, None, None]
    return (bright + rng.normal(0, 200, (count, 16, 16, 4))).clip(0, 4095).astype("uint16"), labels


@pytest.mark.slow
def test_bands_are_trained_on_published_read_and_evaluated(tmp_path, capsys):
    (images, labels), (test_images, test_labels) = bands(96), bands(40, 1)
    arrays = {"train_images": images, "train_labels": labels, "test_images": test_images, "test_labels": test_labels}
    np.savez(tmp_path / "bands.npz", **arrays)
    command = f"--dataset {tmp_path}/bands.npz --network vit-tiny --set network_options={{'depth':1}} --epochs 2 "
    command += f"--batch-size 32 --protocols knn gmm style --out {tmp_path}/out --name bands"
    run = Run("simclr", {"head": None, "temperature": 0.5}, argv=command.split())
    assert run.settings["policy"] == "channels" and run.settings["latent_dim"] is None
    model = SimCLR(run.encoder(), None, run.views(), temperature=0.5)
    run.prepare(model)
    model.fit(run.data(), **run.fit_arguments())
    folder = run.finish(model)
    low, high = sslzoo.data.value_range(images)
    results = read_results(folder)
    np.testing.assert_allclose(results["input_range"], [low, high], rtol=1e-5)
    assert f"values {low:g}..{high:g}" in (folder / "README.md").read_text()
    assert any("are 0 and 1 to the network" in remark for remark in results["remarks"])
    encoder = sslzoo.load(folder)
    np.testing.assert_allclose(composition.input_range(encoder), (low, high), rtol=1e-5)
    report = sslzoo.evaluate(encoder, str(tmp_path / "bands.npz"), ("knn",))
    assert max(report["knn"].values()) > 0.9
    with open(tmp_path / "out" / "history.csv") as file:
        assert len(list(csv.DictReader(file))) == 2
    seen = generation.as_seen(encoder, test_images[:4])
    np.testing.assert_allclose(seen, ((test_images[:4] - low) / (high - low)).clip(0, 1), atol=1e-4)


def test_the_brightest_and_darkest_values_may_lie_beyond_a_range_that_was_read_off_images(tmp_path):
    """One hot pixel in a thousand is beyond the percentiles: it is cut off, and no image is refused for it."""
    images = np.random.default_rng(0).normal(2000, 600, (24, 8, 8, 1)).clip(0, 9000).round().astype("uint16")
    low, high = sslzoo.data.value_range(images)
    assert images.min() < low and images.max() > high
    views = Views("channels", 2, seed=0, value_range=(low, high))
    model = SimCLR(networks.encoder("mlp-small", (8, 8, 1), 4, seed=0), views=views, temperature=0.5)
    model.compile("sgd")
    model.fit(images, batch_size=12, verbose=0)
    encoder = composition.compose(views.preprocessor((8, 8, 1)), model.encoder)
    np.testing.assert_allclose(composition.input_range(encoder), (low, high), rtol=1e-5)
    assert features(encoder, images).shape == (24, 4)
    assert check_views(images, "channels", 2, value_range=(low, high)).measures["clipped"] < 0.05
    standardized = (images - images.mean()) / images.std()
    for call in (
        lambda: model.fit(standardized, batch_size=12, verbose=0),
        lambda: features(encoder, standardized),
        lambda: check_views(standardized, "channels", 2, value_range=(low, high)),
        lambda: features(encoder, images.astype("float32") * 16),
    ):
        with pytest.raises(InvalidInputError, match=r"images must be values 43\.8.*: undo what"):
            call()


def test_an_encoder_of_pictures_refuses_what_lies_beyond():
    encoder = sslzoo.load("simvae-digits")
    with pytest.raises(InvalidInputError, match=r"values 0..255: undo .* Received: images in 0..4000"):
        features(encoder, np.linspace(0, 4000, 128).reshape(2, 8, 8, 1))


@pytest.mark.parametrize("low, high", [(0, 4000), (-1, 1), (-3, 3), (0, 1e30)])
def test_embed_refuses_what_lies_beyond_too(low, high, tmp_path):
    images = np.linspace(low, high, 256, dtype="float32").reshape(4, 8, 8, 1)
    with pytest.raises(InvalidInputError, match=r"values 0..255: undo"):
        sslzoo.embed("simvae-digits", images)
    tifffile = pytest.importorskip("tifffile")
    for index, image in enumerate(images):
        tifffile.imwrite(tmp_path / f"{index}.tif", image[..., 0])
    with pytest.raises(InvalidInputError, match=r"values 0..255: undo"):
        sslzoo.embed("simvae-digits", tmp_path)


def test_floats_from_0_to_1_in_files_are_refused_as_those_of_arrays(tmp_path):
    tifffile = pytest.importorskip("tifffile")
    for n, image in enumerate(np.random.default_rng(0).random((6, 8, 8), "float32")):
        tifffile.imwrite(tmp_path / f"{n}.tif", image)
    with pytest.raises(InvalidInputError, match=r"all look black.*pass images \* 255"):
        sslzoo.embed("simclr-digits", tmp_path)


@pytest.mark.parametrize("stream", [False, True])
def test_floats_from_0_to_1_in_files_are_refused_before_training_as_well(stream, tmp_path):
    tifffile = pytest.importorskip("tifffile")
    for n, image in enumerate(np.random.default_rng(0).random((6, 8, 8), "float32")):
        tifffile.imwrite(tmp_path / f"{n}.tif", image)
    with pytest.raises(InvalidInputError, match=r"look scaled to 0..1; multiply them by 255"):
        sslzoo.data.value_range(sslzoo.data.load(tmp_path, "train", stream=stream)[0])


def test_images_that_are_enlarged_stay_in_their_range():
    images = np.random.default_rng(0).choice([0.0, 255.0], (4, 5, 7, 1)).astype("float32")
    assert sslzoo.embed("simvae-digits", images).features.shape == (4, 10)


def test_values_beyond_a_range_are_cut_off_in_training_and_in_what_is_published():
    images = np.array([0, 100, 1000], "uint16")[:, None, None, None] * np.ones((1, 64, 64, 1), "uint16")
    views = Views("xray", 2, seed=0, value_range=(50, 150))
    for seen in (views(images, training=True), views.prepare(images), views.preprocessor((64, 64, 1))(images * 1.0)):
        seen = keras.ops.convert_to_numpy(seen)
        assert seen.min() >= 0 and seen.max() == pytest.approx(1, abs=1e-6)
    encoder = composition.compose(views.preprocessor((64, 64, 1)), networks.encoder("mlp-small", (64, 64, 1), 4))
    assert composition.input_range(encoder) == pytest.approx((50, 150))
    network = composition.without_preprocessing(encoder)
    np.testing.assert_allclose(features(encoder, images), network.predict(views.prepare(images), verbose=0), atol=1e-5)


def test_floats_far_below_255_have_a_range_of_their_own():
    reflectances = np.random.default_rng(0).uniform(0.05, 0.4, (20, 16, 16, 12)).astype("float32")
    reflectances[3, 2, 1, 0] = 3.0  # a cloud
    low, high = sslzoo.data.value_range(reflectances)
    assert 0.05 < low < 0.06 and 0.39 < high < 0.41
    assert sslzoo.data.value_range(np.full((2, 8, 8, 1), 200.0)) == (0, 255)
    dots = np.zeros((20, 64, 64, 1), "float32")
    dots[:, 5, 5] = 250  # fewer than one value in a thousand
    assert sslzoo.data.value_range(dots) == (0, 255)


@pytest.mark.parametrize("factor, said", [(1, None), (16, "nine in ten of these lie beyond"), (1 / 500, "look black")])
def test_images_of_other_values_than_an_encoder_was_trained_on_get_a_remark(factor, said):
    images, _ = bands(20)
    span = sslzoo.data.value_range(images)
    views = Views("channels", 2, seed=0, value_range=span)
    encoder = composition.compose(views.preprocessor((16, 16, 4)), networks.encoder("mlp-small", (16, 16, 4), 4))
    remarks = sslzoo.embed(encoder, (images - span[0]).clip(0) * factor + span[0]).remarks
    assert len(remarks) == bool(said) and all(said in remark for remark in remarks)
