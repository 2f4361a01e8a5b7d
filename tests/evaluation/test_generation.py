"""Decoders measured: Fréchet distances and likelihoods against closed forms, classes, decoders for those without."""

import shutil
import tracemalloc
from pathlib import Path

import keras
import numpy as np
import pytest
from scipy.linalg import sqrtm
from scipy.stats import multivariate_normal

import sslzoo
from sslzoo import networks
from sslzoo.data import StreamedImages, catalogue
from sslzoo.errors import ArtifactError, HubError, IntegrityError, InvalidInputError, MissingDataError, UnknownNameError
from sslzoo.evaluation import evaluate, generation, outliers
from sslzoo.evaluation.generation import ClassGaussians, Extractor, frechet, frechet_distance
from sslzoo.evaluation.protocols import REGISTRY
from sslzoo.evaluation.protocols import outliers as protocol_of_outliers
from sslzoo.evaluation.protocols.outliers import OUTSIDE, Outliers
from sslzoo.evaluation.subject import Subject, likelihood_of
from sslzoo.methods import GEDI
from sslzoo.networks import composition
from sslzoo.views import Views


def covariance(size, seed):
    root = np.random.default_rng(seed).normal(size=(size, size))
    return root @ root.T / size


# ---------------------------------------------------------------------- Fréchet distance


def test_frechet_distance_has_the_closed_forms():
    a, b, m = covariance(5, 0), covariance(5, 1), np.arange(5.0)
    assert frechet_distance(m, a, m, a) == pytest.approx(0, abs=1e-9)
    assert frechet_distance(m, a, m + 2, a) == pytest.approx(20)
    # Commuting covariances: sum of (sigma - sigma')^2.
    assert frechet_distance(m, np.diag([1.0, 4, 9, 16, 0]), m, np.diag([4.0, 4, 1, 0, 0])) == pytest.approx(1 + 4 + 16)
    assert frechet_distance([0.0], [[4.0]], [3.0], [[1.0]]) == pytest.approx(9 + 1)
    naive = np.sum((m - 1) ** 2) + np.trace(a + b - 2 * np.real(sqrtm(a @ b)))
    found = frechet_distance(m, a, np.ones(5), b)
    assert found == pytest.approx(naive, rel=1e-9) and found == pytest.approx(frechet_distance(np.ones(5), b, m, a))
    turn, _ = np.linalg.qr(np.random.default_rng(2).normal(size=(5, 5)))
    turned = frechet_distance(turn @ m, turn @ a @ turn.T, turn @ np.ones(5), turn @ b @ turn.T)
    assert turned == pytest.approx(found)
    singular = np.outer(m, m)  # where a root of the product would turn complex
    assert np.isfinite(frechet_distance(m, singular, m, a))


def test_frechet_of_rows():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(50, 3))
    assert frechet(rows, rows[::-1]) == pytest.approx(0, abs=1e-9)
    assert frechet(rows, rows + np.array([1, 0, 2])) == pytest.approx(5)
    assert frechet(rows, 3 * (rows - rows.mean(0)) + rows.mean(0)) == pytest.approx(4 * np.trace(np.cov(rows.T)))
    assert frechet(rows[:, :1], rows[:, 1:2]) >= 0
    with pytest.raises(InvalidInputError, match="two rows"):
        frechet(rows[:1], rows)


def test_an_extractor_says_whose_distance_it_is(monkeypatch):
    pixels = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Flatten()], name="pixels")
    extractor = Extractor.of(pixels)
    assert extractor.metric == "frechet_pixels" and "pixels" in extractor.described
    assert extractor(np.zeros((3, 16, 16, 3), "uint8")).shape == (3, 64)  # of any size and color

    class Inception:
        def __new__(cls, include_top, pooling, weights):
            assert (include_top, pooling, weights) == (False, "avg", "imagenet")
            return keras.Sequential([keras.Input((None, None, 3)), keras.layers.GlobalAveragePooling2D()])

    monkeypatch.setattr(keras.applications, "InceptionV3", Inception)
    inception = Extractor.of("inception")
    assert inception.metric == "fid" and "299" in inception.described
    found = inception(np.full((2, 8, 8, 1), 255, "uint8"))  # gray becomes color, 0..255 becomes -1..1
    np.testing.assert_allclose(found, np.ones((2, 3)), atol=1e-5)

    def refused(**_):
        raise OSError("no route to host")

    monkeypatch.setattr(keras.applications, "InceptionV3", refused)
    with pytest.raises(MissingDataError, match=r"no route to host.*another extractor"):
        Extractor.of("inception")


# ---------------------------------------------------------------------- classes


def test_class_gaussians_are_maximum_likelihood_and_sample_themselves():
    rng = np.random.default_rng(0)
    labels = np.repeat([3, 7], [400, 600])
    rows = rng.multivariate_normal([0, 0], [[2, 0.9], [0.9, 1]], 1000) + 5 * labels[:, None]
    gaussians = ClassGaussians.fit(rows, labels)
    assert gaussians.classes.tolist() == [3, 7]
    np.testing.assert_allclose(gaussians.means[0], rows[:400].mean(0))
    np.testing.assert_allclose(gaussians.covariances[1], np.cov(rows[400:].T, ddof=0), atol=2e-6)
    drawn = gaussians.sample(np.repeat([7, 3], 20000), seed=1)
    np.testing.assert_allclose(drawn[:20000].mean(0), gaussians.means[1], atol=0.05)
    np.testing.assert_allclose(np.cov(drawn[20000:].T), gaussians.covariances[0], atol=0.08)
    np.testing.assert_array_equal(drawn, gaussians.sample(np.repeat([7, 3], 20000), seed=1))
    assert np.isfinite(ClassGaussians.fit(rows[:2], [0, 1]).sample([0, 1])).all()  # one image of a class
    flat = np.outer(rng.normal(size=60), 1e6 * np.ones(16))  # so large that a ridge of 1e-6 is lost in rounding
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.cholesky(ClassGaussians.fit(flat, np.arange(60) % 2).covariances)
    drawn = ClassGaussians.fit(flat, np.arange(60) % 2).sample(np.repeat([0, 1], 1000))
    assert np.isfinite(drawn).all() and np.ptp(drawn, axis=1).max() < 1e-3 * drawn.std()
    with pytest.raises(InvalidInputError, match="must be among"):
        gaussians.sample([4])
    with pytest.raises(InvalidInputError, match="one label for each row"):
        ClassGaussians.fit(rows, labels[:5])


# ---------------------------------------------------------------------- likelihood


@pytest.fixture(scope="module")
def linear_gaussian():
    """x = W z + noise, z ~ N(0, t I): p(x) and p(z | x) are known."""
    rng = np.random.default_rng(0)
    w, variance, prior = rng.normal(size=(6, 2)), 0.5, 1.7
    x = rng.normal(size=(5, 6)) * 2
    exact = multivariate_normal(np.zeros(6), prior * w @ w.T + variance * np.eye(6)).logpdf(x)
    return x, w, variance, prior, exact


def test_likelihood_is_exact_at_the_true_posterior(linear_gaussian):
    """A diagonal posterior is the true one where the columns of W are orthogonal: one sample is then enough."""
    x, w, variance, prior, _ = linear_gaussian
    w = np.linalg.qr(w)[0] * [2.0, 0.7]
    exact = multivariate_normal(np.zeros(6), prior * w @ w.T + variance * np.eye(6)).logpdf(x)
    posterior = 1 / ((w**2).sum(0) / variance + 1 / prior)
    mean, log_var = (x @ w) / variance * posterior, np.tile(np.log(posterior), (5, 1))
    for samples in (1, 7):
        found = generation.log_likelihood(x, mean, log_var, lambda z: z @ w.T, samples, variance, prior)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, exact, rtol=1e-10)


def test_likelihood_rises_to_the_exact_one_with_samples(linear_gaussian):
    x, w, variance, prior, exact = linear_gaussian
    true = np.linalg.inv(w.T @ w / variance + np.eye(2) / prior)
    mean = x @ w @ true / variance + 0.2  # a wrong posterior: shifted, wide, without correlation
    log_var = np.log(np.tile(2 * np.diag(true), (5, 1)))
    gaps = []
    for samples in (1, 10, 100, 20000):
        draws = [
            generation.log_likelihood(x, mean, log_var, lambda z: z @ w.T, samples, variance, prior, seed=seed)
            for seed in range(40 if samples < 1000 else 1)
        ]
        gaps.append(np.mean(exact - np.mean(draws, axis=0)))
    assert gaps[0] > gaps[1] > gaps[2] > 0 and gaps[0] > 0.3
    assert abs(gaps[3]) < 0.02


def test_likelihood_does_not_depend_on_how_images_are_held(linear_gaussian, monkeypatch):
    x, w, variance, prior, _ = linear_gaussian
    mean, log_var = np.zeros((5, 2)), np.zeros((5, 2))
    whole = generation.log_likelihood(x, mean, log_var, lambda z: z @ w.T, 8, variance, prior)
    monkeypatch.setattr(generation, "_PIXELS", 6 * 8 * 2)  # two images at a time
    parts = generation.log_likelihood(x.reshape(5, 2, 3), mean, log_var, lambda z: z @ w.T, 8, variance, prior)
    np.testing.assert_allclose(whole, parts, rtol=1e-12)


def test_bernoulli_likelihood_by_hand():
    x = np.array([[1.0, 0, 0.25]])
    made = np.array([0.9, 0.2, 0.5])
    mean, log_var = np.zeros((1, 2)), np.zeros((1, 2))  # the prior itself, so that only pixels count
    found = generation.log_likelihood(x, mean, log_var, lambda z: np.tile(made, (len(z), 1)), 3, likelihood="bernoulli")
    assert found[0] == pytest.approx(np.log(0.9) + np.log(0.8) + np.log(0.5))
    with pytest.raises(InvalidInputError, match="samples"):
        generation.log_likelihood(x, mean, log_var, lambda z: z, 0)


def test_what_a_likelihood_takes_from_settings():
    likelihood = likelihood_of
    assert likelihood({"network": "mlp"}) == {"network": "mlp"}
    vae = likelihood({"likelihood": "gaussian", "likelihood_variance": 0.01})
    assert vae["prior_variance"] == 1 and not vae["uniform_centers"]
    simvae = likelihood({"likelihood_variance": 0.01, "prior_variance": 0.15, "center_variance": None})
    assert simvae["prior_variance"] == 1.15 and simvae["uniform_centers"]
    centered = likelihood({"likelihood_variance": 0.01, "prior_variance": 0.15, "center_variance": 2.0})
    assert centered["prior_variance"] == 2.15 and not centered["uniform_centers"]


# ---------------------------------------------------------------------- decoders


def test_a_fitted_decoder_gives_back_what_features_hold():
    rng = np.random.default_rng(0)
    latents = rng.normal(size=(300, 2)).astype("float32") * 50 + 9  # features of any scale
    patterns = rng.normal(size=(2, 8, 8, 1))
    seen = 1 / (1 + np.exp(-np.einsum("nl,lhwc->nhwc", (latents - 9) / 50, patterns)))
    decoder = generation.fit_decoder(latents, seen, "mlp-small", epochs=6, learning_rate=0.01)
    assert decoder.output_shape == (None, 8, 8, 1)
    made = generation.decoded(decoder, latents, batch_size=150)
    assert made.shape == seen.shape and 0 <= made.min() <= made.max() <= 1
    spread = np.mean((seen - seen.mean(0)) ** 2)
    assert np.mean((made - seen) ** 2) < 0.3 * spread
    with pytest.raises(InvalidInputError, match="two rows"):
        generation.fit_decoder(latents[:1], seen[:1])


def test_what_a_network_sees_is_what_a_decoder_rebuilds():
    encoder = sslzoo.load("simvae-digits")
    images, _ = sslzoo.data.load("digits", "test")
    np.testing.assert_allclose(generation.as_seen(encoder, images[:5]), images[:5] / 255.0, atol=1e-6)
    plain = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Flatten()])
    np.testing.assert_allclose(generation.as_seen(plain, images[:5]), images[:5] / 255.0, atol=1e-6)
    given = images[:5].astype("float32")
    np.testing.assert_allclose(generation.as_seen(plain, given), images[:5] / 255.0, atol=1e-6)
    np.testing.assert_array_equal(given, images[:5])


def test_images_that_a_decoder_is_fitted_to_are_copied_once_at_most():
    """As float32, a whole train set; what goes through preprocessing a batch at a time."""
    images, asked = np.random.default_rng(0).integers(0, 256, (1100, 16, 16, 1), "uint8"), []

    class InFiles(StreamedImages):
        def __getitem__(self, rows):
            asked.append(np.arange(len(self))[rows].size)
            return super().__getitem__(rows)

    in_files = InFiles(range(1100), lambda row: images[row], images.shape[1:])
    scale = keras.Sequential([keras.Input((16, 16, 1)), keras.layers.Rescaling(1 / 255, name="unit_range")])
    plain = keras.Sequential([keras.Input((16, 16, 1)), keras.layers.Flatten()])
    seen = generation.as_seen(composition.compose(scale, plain), in_files)
    np.testing.assert_allclose(seen, images / 255.0, atol=1e-6)
    assert asked == [500, 500, 100]
    tracemalloc.start()
    seen = generation.as_seen(plain, images)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 1.1 * seen.nbytes
    np.testing.assert_array_equal(generation.as_seen(plain, in_files), seen)


# ---------------------------------------------------------------------- all of it

BUDGET = {
    "style_images": (60, 30),
    "reconstruction_images": 40,
    "frechet_images": 40,
    "likelihood_images": 6,
    "likelihood_samples": 4,
    "outlier_images": 20,
    "decoder_epochs": 1,
}


def budget(*protocols):
    """What of it these protocols take."""
    return {
        name: value for name, value in BUDGET.items() if any(name in REGISTRY[each].options() for each in protocols)
    }


@pytest.fixture
def no_inception(monkeypatch):
    def refused(**_):
        raise OSError("no network")

    monkeypatch.setattr(keras.applications, "InceptionV3", refused)


def test_the_likelihood_of_a_model_is_by_the_variances_of_its_settings():
    report = evaluate("simvae-digits", "digits", "likelihood", likelihood_images=5, likelihood_samples=3)
    images = sslzoo.data.load("digits", "test")[0][:5]
    posterior, decoder = (sslzoo.load("simvae-digits", part) for part in ("posterior", "decoder"))
    found = generation.log_likelihood(
        images / np.float32(255),
        *posterior.predict(images, verbose=0),
        lambda z: decoder.predict(z, verbose=0),
        samples=3,
        likelihood_variance=0.01,
        prior_variance=1.15,
    )
    assert report["likelihood"]["nll"] == pytest.approx(-found.mean(), rel=1e-4)


@pytest.mark.slow
def test_all_protocols_of_a_model_of_the_zoo(tmp_path, no_inception):
    noise = np.random.default_rng(0).integers(0, 256, (40, 8, 8, 1)).astype("uint8")
    report = sslzoo.evaluate(
        "simvae-digits",
        "digits",
        "all",
        epochs=1,
        gmm_restarts=1,
        max_train=200,
        **BUDGET,
        extractor="simclr-digits",
        outside={"noise": noise},
        pictures=tmp_path / "pictures",
    )
    assert set(report) == {*sslzoo.evaluation.ALL_PROTOCOLS} - {"attributes"}
    reconstruction = report.numbers["reconstruction"]["mse"]
    assert 0 < reconstruction.value < 0.4 * reconstruction.chance and reconstruction.unit == ""
    assert list(report["generation"]) == ["frechet_simclr-digits"]  # not to be taken for FID
    assert report.numbers["likelihood"]["nll"].unit == "nats" and np.isfinite(report["likelihood"]["nll"])
    assert report["outliers"]["noise_auroc"] > 0.9
    assert sum(map(sum, report.confusion["mlp"])) == 360
    said = " ".join(report.remarks)
    assert "Not measured, attributes" in said and "variance 1 instead" in said
    assert sslzoo.evaluation.Report.from_json(report.to_json()) == report
    assert "nats" in str(report) and "nats" in report.to_markdown()
    units = {metric["name"]: metric.get("unit", "%") for metric in report.metrics()}
    assert units["likelihood.nll"] == "nats" and units["reconstruction.mse"] == "" and units["style.kept"] == "%"
    drawn = {path.name for path in (tmp_path / "pictures").iterdir()}
    assert drawn == {
        "confusion_linear.png",
        "confusion_mlp.png",
        "neighbors.png",
        "embedding.png",
        "reconstructions.png",
        "classes.png",
    }


def test_an_encoder_without_decoder_gets_one_and_says_so():
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (60, 8, 8, 1)).astype("uint8"), np.arange(60) % 2
    pixels = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Flatten()], name="pixels")
    splits = ((images[:40], labels[:40]), (images[40:], labels[40:]))
    judge = keras.Sequential([keras.Input((4, 4, 3)), keras.layers.Flatten()], name="judge")
    report = sslzoo.evaluate(
        pixels, splits, ("reconstruction", "generation"), extractor=judge, **budget("reconstruction", "generation")
    )
    assert list(report["reconstruction"]) == ["adhoc_mse"]
    assert list(report["generation"]) == ["frechet_judge"]
    note = report.numbers["generation"]["frechet_judge"].note
    assert "features of judge; both converted from gray to color, resized to 4 x 4 pixels" in note
    with pytest.raises(InvalidInputError, match="takes a posterior"):
        sslzoo.evaluate(pixels, splits, "likelihood")
    with pytest.raises(UnknownNameError, match="style_images"):
        sslzoo.evaluate(pixels, splits, "style", style_image=(3, 3))


class Unrun(keras.layers.Layer):
    """An encoder of which nothing may be measured."""

    def call(self, images):
        raise AssertionError("ran")


def unrun():
    encoder = Unrun(name="unrun")
    encoder.built = True
    return encoder


SPLITS = tuple((np.arange(rows * 64).reshape(rows, 8, 8, 1).astype("uint8"), np.arange(rows) % 2) for rows in (40, 20))


@pytest.mark.parametrize(
    "words, error, message",
    [
        ({"protocols": ("knn", "likelihood")}, InvalidInputError, "takes a posterior"),
        ({"protocols": ("knn", "outliers")}, InvalidInputError, "another data set"),
        ({"protocols": ("knn", "attributes")}, InvalidInputError, r"labels \(N, A\)"),
        ({"protocols": ("knn", "generation")}, MissingDataError, "no network.*another extractor"),
        ({"protocols": ("knn", "generation"), "extractor": "simclr-mnits"}, UnknownNameError, "'simclr-mnist'"),
        ({"protocols": "all", "extractor": "simclr-mnits"}, UnknownNameError, "'simclr-mnist'"),
        ({"protocols": ("knn", "outliers"), "outside": ["none.npz"]}, MissingDataError, r"none\.npz"),
        ({"protocols": "all", "outside": ["none.npz"]}, MissingDataError, r"none\.npz"),
    ],
)
def test_what_is_not_there_is_told_before_anything_is_measured(no_inception, words, error, message):
    with pytest.raises(error, match=message):
        sslzoo.evaluate(unrun(), SPLITS, **words)


def test_of_all_what_cannot_be_had_is_left_out_with_a_remark(no_inception, monkeypatch):
    pixels = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Flatten()], name="pixels")
    quick = {"epochs": 1, "gmm_restarts": 1, **BUDGET}
    report = sslzoo.evaluate(pixels, SPLITS, "all", **quick)
    assert set(report) == {"linear", "mlp", "knn", "gmm", "few_shot", "style", "reconstruction"}
    said = " ".join(report.remarks)
    for name in ("generation: FID takes the weights", "likelihood: A", "outliers: Outliers", "attributes: Attributes"):
        assert f"Not measured, {name}" in said
    out_of_reach = {}, {"decoder": HubError("No such luck")}, {}
    monkeypatch.setitem(evaluate.__globals__, "belongings", lambda *_: out_of_reach)
    report = sslzoo.evaluate(pixels, SPLITS, "all", **quick)
    assert "reconstruction" not in report  # a decoder there is, though not here: no other takes its place
    assert "Not measured, reconstruction, generation, likelihood: No such luck." in report.remarks
    with pytest.raises(HubError, match="No such luck"):
        sslzoo.evaluate(unrun(), SPLITS, ("knn", "reconstruction"))


def test_no_encoder_is_judged_in_its_own_features(no_inception):
    few = {**budget("generation"), "max_train": 100}
    own = {"extractor": "simclr-digits"}
    for encoder in ("simclr-digits", sslzoo.load("simclr-digits", name="another")):
        with pytest.raises(InvalidInputError, match=r"own features.*Received: extractor=.*simclr-digits"):
            sslzoo.evaluate(encoder, "digits", "generation", **few, **own)
    report = sslzoo.evaluate("simclr-digits", "digits", ("knn", "generation"), strict=False, **few)
    assert list(report) == ["knn"] and "Not measured, generation: FID takes" in " ".join(report.remarks)


@pytest.fixture
def folder(tmp_path):
    """A copy of an entry with a decoder and a posterior."""
    return Path(shutil.copytree(Path(sslzoo.__file__).parents[1] / "weights" / "simvae-digits", tmp_path / "mine"))


def test_a_damaged_decoder_is_refused_and_no_other_takes_its_place(folder):
    weights = folder / "decoder" / "model.weights.h5"
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    for asked, options in (("reconstruction", budget("reconstruction")), ("all", BUDGET)):
        with pytest.raises(IntegrityError, match=r"decoder/model\.weights\.h5 is not the file"):
            sslzoo.evaluate(folder, "digits", asked, **options)
    weights.unlink()
    with pytest.raises(ArtifactError, match=r"Expected a readable file .*decoder.model\.weights\.h5"):
        sslzoo.evaluate(folder, "digits", "reconstruction", **budget("reconstruction"))


def test_a_decoder_that_is_not_there_is_done_without(folder, tmp_path):
    encoder = sslzoo.load(folder)
    shutil.rmtree(folder / "decoder")
    encoder.save(tmp_path / "alone.keras")
    for where in (folder, tmp_path / "alone.keras"):
        report = sslzoo.evaluate(where, "digits", "reconstruction", **budget("reconstruction"), max_train=100)
        assert list(report["reconstruction"]) == ["adhoc_mse"]


def test_some_of_many_images_are_of_all_classes():
    """A folder is read class by class; the first of a known data set are what published numbers are of."""
    (images, labels), (test_images, test_labels) = (sslzoo.data.load("digits", split) for split in ("train", "test"))
    order, own = np.argsort(test_labels, kind="stable"), np.argsort(labels, kind="stable")
    ordered = (images[own], labels[own]), (test_images[order], test_labels[order])
    budget = {"likelihood_images": 36, "likelihood_samples": 2, "reconstruction_images": 36, "outlier_images": 36}
    protocols, outside = ("likelihood", "reconstruction", "outliers"), {"dark": test_images[order] // 2}
    few, whole = (
        sslzoo.evaluate("simvae-digits", data, protocols, outside=outside, **budget | more)
        for data, more in ((ordered, {}), ("digits", dict.fromkeys(budget, 360) | {"likelihood_samples": 2}))
    )
    for protocol, metric, near in (("likelihood", "nll", 4), ("reconstruction", "mse", 0.002)):
        assert few[protocol][metric] == pytest.approx(whole[protocol][metric], abs=near), protocol
    assert few["outliers"]["dark_auroc"] == pytest.approx(whole["outliers"]["dark_auroc"], abs=0.1)
    subject = Subject(None, "digits", images, labels, test_images, test_labels)
    assert subject.some(9, 3).tolist() == [0, 4, 8] and subject.some(3, 9).tolist() == [0, 1, 2]
    subject.in_no_order = True
    assert subject.some(9, 3).tolist() == [0, 1, 2]


def test_a_sorted_test_set_beside_a_known_one_is_spread_over_its_classes():
    images, labels = sslzoo.data.load("digits", "test")
    order = np.argsort(labels, kind="stable")
    options = {"reconstruction_images": 36}
    own, sorted_by_class = (
        sslzoo.evaluate("simvae-digits", "digits", "reconstruction", test=test, **options)["reconstruction"]["mse"]
        for test in ((images, labels), (images[order], labels[order]))
    )
    zeros = sslzoo.evaluate("simvae-digits", "digits", "reconstruction", test=(images[order][:36], labels[order][:36]))
    assert abs(sorted_by_class - own) < 0.5 * abs(zeros["reconstruction"]["mse"] - own)


def test_images_of_many_channels_have_no_distance_and_are_told_early():
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (60, 8, 8, 4)).astype("uint8"), np.arange(60) % 2
    pixels = keras.Sequential([keras.Input((8, 8, 4)), keras.layers.Flatten()], name="pixels")
    judge = keras.Sequential([keras.Input((4, 4, 3)), keras.layers.Flatten()], name="judge")
    splits = (images[:40], labels[:40]), (images[40:], labels[40:])
    with pytest.raises(InvalidInputError, match=r"images of 1 or 3 channels. Received: 4 channels"):
        sslzoo.evaluate(pixels, splits, "generation", extractor=judge, **budget("generation"))


def test_images_of_another_range_are_judged_as_the_same_images():
    """The extractor takes 0..255, whatever the encoder takes."""
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (60, 8, 8, 1)).astype("uint8"), np.arange(60) % 2
    judge = keras.Sequential([keras.Input((4, 4, 3)), keras.layers.Flatten()], name="judge")

    def distance(scale):
        unit = keras.layers.Rescaling(1 / (255 * scale), name="unit_range")
        inputs = keras.Input((8, 8, 1))
        encoder = keras.Model(inputs, keras.layers.Flatten()(unit(inputs)), name="pixels")
        splits = [(images[rows] * np.float32(scale), labels[rows]) for rows in (slice(40), slice(40, 60))]
        report = sslzoo.evaluate(encoder, splits, "generation", extractor=judge, **budget("generation"))
        return report["generation"]["frechet_judge"]

    assert distance(16) == pytest.approx(distance(1), rel=1e-3)


@pytest.mark.parametrize("high", [255, 4095])
def test_an_extractor_of_another_range_sees_the_same_images(high):
    inputs = keras.Input((4, 4, 1))
    unit = keras.layers.Rescaling(1 / high, name="unit_range")(inputs)
    extractor = Extractor.of(keras.Model(inputs, keras.layers.Flatten()(unit), name="judge"))
    images = np.random.default_rng(0).integers(0, 256, (5, 4, 4, 1)).astype("uint8")
    np.testing.assert_allclose(extractor(images), images.reshape(5, -1) / 255, atol=1e-5)


def pixels_and_splits():
    """An encoder that gives pixels, and images of which those for tests are brighter."""
    rng = np.random.default_rng(0)
    train, test = rng.integers(0, 100, (40, 4, 4, 1)), rng.integers(80, 256, (30, 4, 4, 1))
    encoder = keras.Sequential([keras.Input((4, 4, 1)), keras.layers.Flatten()], name="pixels")
    return encoder, [(images.astype("uint8"), np.arange(len(images)) % 2) for images in (train, test)]


def test_the_distance_of_generated_images_is_that_of_their_pixels_to_test_images(monkeypatch):
    encoder, splits = pixels_and_splits()
    images, given = splits[1][0], np.random.default_rng(1).uniform(size=(30, 4, 4, 1)).astype("float32")
    double = [keras.Input((4, 4, 1)), keras.layers.Rescaling(2.0), keras.layers.Flatten()]
    judge = keras.Sequential(double, name="judge")

    def distance(made):
        monkeypatch.setattr(Subject, "decoder", lambda *_: (None, True))
        monkeypatch.setattr(generation, "decoded", lambda decoder, latents: made[: len(latents)])
        report = sslzoo.evaluate(encoder, splits, "generation", extractor=judge, frechet_images=30)
        return report["generation"]["frechet_judge"]

    rows = [2.0 * x.reshape(30, -1) for x in (images, 255 * given)]
    assert distance(given) == pytest.approx(frechet(*rows), rel=1e-3)
    assert distance(images / np.float32(255)) == pytest.approx(0, abs=1e-2 * frechet(*rows))


def test_a_rebuilt_image_errs_by_its_squares_and_chance_is_the_mean_of_train_images(monkeypatch):
    encoder, ((train, _), (test, _)) = pixels_and_splits()
    monkeypatch.setattr(Subject, "decoder", lambda *_: (None, True))
    monkeypatch.setattr(generation, "decoded", lambda decoder, rows: np.full((len(rows), 4, 4, 1), 0.25, "float32"))
    report = sslzoo.evaluate(encoder, ((train, None), (test, None)), "reconstruction")
    number = report.numbers["reconstruction"]["adhoc_mse"]
    assert number.value == pytest.approx(np.mean((test / 255 - 0.25) ** 2), rel=1e-5)
    assert number.chance == pytest.approx(np.mean((test / 255 - (train / 255).mean(axis=0)) ** 2), rel=1e-5)


def test_outliers_are_told_by_the_farthest_of_the_nearest_train_images(monkeypatch):
    """Each image from outside has a twin in the train set, which its nearest neighbor is."""
    monkeypatch.setattr(protocol_of_outliers, "K", 5)
    encoder, ((train, _), (test, _)) = pixels_and_splits()
    outside = np.random.default_rng(2).integers(0, 256, (20, 4, 4, 1)).astype("uint8")
    train = np.concatenate([train, outside, test[:, ::-1], test[:, :, ::-1]])
    report = sslzoo.evaluate(encoder, ((train, None), (test, None)), "outliers", outside={"others": outside})
    rows = [x.reshape(len(x), -1).astype("float64") for x in (train, test, outside)]
    rows = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in rows]
    fifth, first = (outliers.auroc(*(np.sort(each @ rows[0].T, axis=1)[:, -k] for each in rows[1:])) for k in (5, 1))
    assert report["outliers"]["others_auroc"] == pytest.approx(fifth, abs=1e-6) and abs(fifth - first) > 0.1


def test_the_best_epoch_of_a_fitted_decoder_is_kept(monkeypatch):
    errors, kept = iter([3.0, 1.0, 2.0]), []
    rows = np.random.default_rng(0).normal(size=(40, 2))

    def decoded(model, latents, batch_size=500):
        kept.append(model.get_weights())
        return np.full((len(latents), 8, 8, 1), np.sqrt(next(errors)))

    monkeypatch.setattr(generation, "decoded", decoded)
    decoder = generation.fit_decoder(rows, np.zeros((40, 8, 8, 1)), "mlp-small", epochs=3)
    for ours, theirs in zip(decoder.get_weights(), kept[1], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert not np.array_equal(kept[1][0], kept[2][0])


def test_outside_sets_of_one_name_are_refused(tmp_path):
    for folder in ("a", "b"):
        np.savez(tmp_path / f"{folder}.npz", x_train=np.zeros((4, 8, 8, 1), "uint8"))
    places = [tmp_path / "a.npz", tmp_path / "b" / "a.npz"]
    with pytest.raises(InvalidInputError, match=r"different names.*a\.npz.*a\.npz"):
        sslzoo.evaluate("simclr-digits", "digits", "outliers", outside=places)


def test_images_under_a_key_that_is_a_known_name_are_spread():
    images, labels = sslzoo.data.load("digits", "test")
    subject = Subject(None, "digits", images, labels, images, labels)
    sorted_by_class = np.repeat(np.arange(10, dtype="uint8"), 30)[:, None, None, None] * np.ones((1, 8, 8, 1), "uint8")
    outliers = Outliers(outside={"cifar10": sorted_by_class}, outlier_images=20)
    outliers.check(subject)
    (chosen,) = outliers._others.values()
    assert len(chosen) == 20 and set(chosen[:, 0, 0, 0]) == set(range(10))


def test_sets_that_outliers_are_taken_from_are_looked_for_by_name(tmp_path):
    for dataset, others in OUTSIDE.items():
        assert dataset not in others and {dataset, *others} <= set(catalogue.KNOWN)
    assert set(OUTSIDE) == set(catalogue.KNOWN)
    with pytest.raises(InvalidInputError, match=r"none of fashion_mnist, cifar10 is prepared here.*outside=None"):
        sslzoo.evaluate("simclr-digits", "digits", "outliers", tmp_path)


def test_an_encoder_that_thresholds_its_pixels_has_no_slope_to_tell_outliers_by():
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 2, (60, 8, 8, 1)) * np.uint8(255), np.arange(60) % 2
    splits, outside = ((images[:40], labels[:40]), (images[40:], labels[40:])), {"gray": np.full_like(images, 100)}
    steep = [keras.layers.Rescaling(1.0, -127.5), keras.layers.ReLU(max_value=1.0), keras.layers.Flatten()]
    report = sslzoo.evaluate(keras.Sequential([keras.Input((8, 8, 1)), *steep]), splits, "outliers", outside=outside)
    assert list(report["outliers"]) == ["gray_auroc"] and "slope" in " ".join(report.remarks)
    plain = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Rescaling(1 / 255), keras.layers.Flatten()])
    report = sslzoo.evaluate(plain, splits, "outliers", outside=outside)
    assert list(report["outliers"]) == ["gray_auroc", "gray_slope_auroc"]


def test_a_head_is_what_outliers_are_told_by_where_there_is_one():
    """A density in which slopes mean something: that of the loss. Neighbors are those of the features as ever."""
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (60, 8, 8, 1)).astype("uint8"), np.arange(60) % 2
    splits, outside = ((images[:40], labels[:40]), (images[40:], labels[40:])), {"dark": images // 8}
    encoder = networks.encoder("mlp-small", (8, 8, 1), 4, seed=0)
    model = GEDI(encoder, 3, views=Views("gedi-mnist", 1), buffer_size=4, sgld_steps=1)
    report = sslzoo.evaluate(model, splits, "outliers", outside=outside, seed=2)
    parts = model.parts((8, 8, 1))
    ours, theirs = (
        outliers.scores(parts["projection"], some, seed=seed) for some, seed in ((images[40:], 2), (outside["dark"], 3))
    )
    expected = outliers.auroc(ours, theirs)
    assert report["outliers"]["dark_slope_auroc"] == pytest.approx(expected)
    assert "outputs of the head" in report.numbers["outliers"]["dark_slope_auroc"].note
    plain = sslzoo.evaluate(parts["encoder"], splits, "outliers", outside=outside, seed=2)
    assert "of the features" in plain.numbers["outliers"]["dark_slope_auroc"].note
    assert plain["outliers"]["dark_auroc"] == report["outliers"]["dark_auroc"]


def test_attributes_and_tasks_of_celeba():
    rng = np.random.default_rng(0)
    attributes = rng.integers(0, 2, (600, 40))
    images = rng.integers(0, 20, (600, 4, 4, 3)) + 150 * attributes[:, 20, None, None, None]  # only "Male" shows
    encoder = keras.Sequential([keras.Input((4, 4, 3)), keras.layers.Rescaling(1 / 20), keras.layers.Flatten()])
    images = images.astype("uint8")
    splits = ((images[:400], attributes[:400]), (images[400:], attributes[400:]))
    report = sslzoo.evaluate(encoder, splits, ("attributes", "linear"), epochs=30)
    each = report["attributes"]
    assert each["Male_accuracy"] > 0.9 and len(report.protocols["attributes"]["attributes"]) == 20
    assert each["Male_balanced_accuracy"] > 0.9 and each["balanced_accuracy"] < 0.65
    assert report.protocols["attributes"]["passes"] == report.protocols["linear"]["passes"] == 118  # few images
    signed = ((images[:400], 2 * attributes[:400] - 1), (images[400:], 2 * attributes[400:] - 1))
    with pytest.raises(InvalidInputError, match=r"of 0 and 1; of -1 and 1 pass `labels > 0`.*Received: values -1, 1"):
        sslzoo.evaluate(encoder, signed, "attributes")
    hair = sslzoo.evaluate(encoder, splits, "linear", attribute="hair", epochs=1)
    assert hair.data["attribute"] == "hair" and hair.data["train"] < 400
    assert "linear.balanced_accuracy" in [metric["name"] for metric in hair.metrics()]


@pytest.mark.parametrize(
    ("protocols", "options", "told"),
    [
        ("knn", {"epochs": 3}, "for the protocols linear, mlp, attributes, not for knn. Received: epochs=3"),
        ("knn", {"extractor": "nope"}, r"generation, not for knn.*Received: extractor='nope'"),
        (("knn", "generation"), {"outside": ["mnist"]}, r"outliers, not for knn, gen.*Received: outside=\['mnist'\]"),
    ],
)
def test_what_no_protocol_takes_is_not_passed_over(protocols, options, told):
    with pytest.raises(InvalidInputError, match=told):
        sslzoo.evaluate("simclr-digits", "digits", protocols, **options)
