"""evaluate and features: from an encoder and images to numbers, and what is refused on the way."""

import shutil

import keras
import numpy as np
import pytest
from keras import ops
from PIL import Image
from sklearn.datasets import load_digits

import sslzoo
from sslzoo import cli
from sslzoo.errors import InvalidInputError, UnknownNameError
from sslzoo.evaluation import (
    PROTOCOLS,
    Report,
    datasets,
    evaluate,
    evaluate_features,
    features,
    fit_logistic,
    knn_accuracy,
    pictures,
    probes,
    scores,
    train_probe,
    weights_sha256,
)
from sslzoo.evaluation.clustering import fit_mixtures
from sslzoo.evaluation.probes import train_probe_on_views
from sslzoo.evaluation.protocols import REGISTRY
from sslzoo.evaluation.protocols import views as views_protocol
from sslzoo.evaluation.protocols.gmm import beside_chance
from sslzoo.methods import SimCLR
from sslzoo.views import Views

FAST = {"epochs": 2, "gmm_restarts": 1}


def images_and_labels(rows=120, classes=3, seed=0):
    """Images whose brightness tells the class."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, rows)
    images = random.integers(0, 40, (rows, 6, 5, 1)) + 200 // classes * labels[:, None, None, None]
    return images.astype("uint8"), labels


def make_encoder(width=4, name="small"):
    keras.utils.set_random_seed(0)
    return keras.Sequential(
        [
            keras.Input((6, 5, 1)),
            keras.layers.Rescaling(1 / 25),
            keras.layers.Flatten(),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(width),
        ],
        name=name,
    )


@pytest.fixture(scope="module")
def encoder():
    return make_encoder()


@pytest.fixture(scope="module")
def data():
    return images_and_labels(), images_and_labels(60, seed=1)


@keras.saving.register_keras_serializable("sslzoo-tests")
class Counting(keras.layers.Layer):
    """Writes to its state at every call, whatever `training` says."""

    def build(self, shape):
        self.count = self.add_weight(shape=(), initializer="zeros", trainable=False, name="count")

    def call(self, x):
        self.count.assign_add(1.0)
        return ops.reshape(x, (ops.shape(x)[0], -1))[:, :3] + 0.0 * self.count


# ---------------------------------------------------------------------- features


def test_features_are_those_of_inference(encoder, data):
    """Batch normalization by its statistics, no dropout, every image its own row, whatever the batch size."""
    (images, _), _ = data
    expected = ops.convert_to_numpy(encoder(images.astype("float32"), training=False))
    for batch_size in (500, 120, 50, 7):
        found = features(encoder, images, batch_size=batch_size)
        assert found.dtype == np.float32 and found.shape == (120, 4)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(features(encoder, images.astype("float64")), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(features(encoder, images[:1]), expected[:1], rtol=1e-5, atol=1e-5)


def test_features_of_layers_and_subclassed_models(data):
    (images, _), _ = data
    found = features(keras.layers.Flatten(), images, batch_size=50)
    np.testing.assert_array_equal(found, images.reshape(120, -1))

    class Mean:
        def call(self, x, training=True):
            return ops.mean(x, axis=(1, 2)) * (0.0 if training else 1.0)

    class Model(Mean, keras.Model):
        pass

    class Layer(Mean, keras.layers.Layer):
        pass

    for encoder in (Model(), Layer()):
        np.testing.assert_allclose(features(encoder, images), images.mean(axis=(1, 2)), rtol=1e-5)


def test_half_precision_features_become_float32(data):
    (images, _), _ = data
    half = keras.Sequential([keras.Input((6, 5, 1)), keras.layers.GlobalAveragePooling2D(dtype="bfloat16")])
    found = features(half, images)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, images.mean(axis=(1, 2)), rtol=0.02)


def test_progress_of_features(encoder, data):
    (images, _), _ = data
    seen = []
    features(encoder, images, batch_size=50, progress=lambda *now: seen.append(now))
    assert seen == [(50, 120), (100, 120), (120, 120)]


def test_hash_covers_weights_and_statistics():
    encoder = make_encoder()
    before = weights_sha256(encoder)
    assert len(before) == 64 and before == weights_sha256(encoder) == weights_sha256(make_encoder())
    statistics = next(w for w in encoder.non_trainable_weights if w.name == "moving_mean")
    kept = ops.convert_to_numpy(statistics)
    statistics.assign(kept + 1e-6)
    assert weights_sha256(encoder) != before
    statistics.assign(kept)
    assert weights_sha256(encoder) == before


@pytest.mark.parametrize(
    "images,message",
    [
        (np.zeros((4, 6, 5)), "(N, H, W, C)"),
        (np.zeros((0, 6, 5, 1)), "at least one image"),
        (np.zeros((4, 6, 5, 3)), "fit the encoder's input"),
        (np.full((4, 6, 5, 1), "x"), "dtype"),
    ],
)
def test_images_that_do_not_fit_are_refused(encoder, images, message):
    with pytest.raises(InvalidInputError) as caught:
        features(encoder, images)
    assert message in str(caught.value) and "Received" in str(caught.value)


def test_encoders_that_do_not_fit_are_refused(data):
    (images, _), _ = data
    inputs = keras.Input((6, 5, 1))
    flat = keras.layers.Flatten()(inputs)
    with pytest.raises(InvalidInputError, match="2 outputs"):
        features(keras.Model(inputs, [flat, flat]), images)
    with pytest.raises(InvalidInputError, match="one row of features per image"):
        features(keras.Model(inputs, keras.layers.Conv2D(2, 3)(inputs)), images)
    with pytest.raises(InvalidInputError, match="type function"):
        features(lambda x: x, images)
    with pytest.raises(InvalidInputError, match="batch_size=0"):
        features(make_encoder(), images, batch_size=0)


def test_features_that_are_not_finite_are_counted(data):
    (images, _), _ = data
    inputs = keras.Input((6, 5, 1))
    flat = keras.layers.Flatten()(inputs)
    encoder = keras.Model(inputs, ops.log(flat - 30.0))  # the darkest images give NaN
    broken = int((images.reshape(120, -1) <= 30).any(axis=1).sum())
    assert 0 < broken < 120
    with pytest.raises(InvalidInputError, match=f"Received: {broken} of 120 rows"):
        features(encoder, images)


# ---------------------------------------------------------------------- evaluate


def test_all_protocols(encoder, data):
    report = evaluate(encoder, data, epochs=5, gmm_restarts=2, seed=7)
    assert isinstance(report, Report) and tuple(report) == PROTOCOLS
    assert report.encoder == "small" and report.seeds == [7]
    expected = {"name": "arrays", "train": 120, "test": 60, "features": 4, "classes": 3, "attribute": None}
    assert report.data == expected
    assert set(report.seconds) == {"features", *PROTOCOLS}
    assert report["knn"]["euclidean_best_accuracy"] > 0.95
    assert report["gmm"]["accuracy"] > 0.6
    assert report["linear"]["best_accuracy"] >= report["linear"]["accuracy"]
    assert Report.from_json(report.to_json()) == report
    assert len(str(report).splitlines()) > 15
    assert "predictions" not in report.to_dict()  # results.json of a model stays small
    for protocol, answers in report.predictions.items():  # of knn and the probes
        assert np.mean(np.array(answers) == data[1][1]) == pytest.approx(report.headline[protocol])
    assert {"knn", "linear"} <= set(report.predictions)

    rows = [features(encoder, images) for images, _ in data]
    split = rows[0], data[0][1], rows[1], data[1][1]
    assert report["knn"]["cosine_k10_accuracy"] == knn_accuracy(*split, k=10, metric="cosine")
    assert report["knn"]["cosine_k200_accuracy"] == knn_accuracy(*split, k=120, metric="cosine", temperature=0.1)
    for protocol, hidden in (("linear", None), ("mlp", 4)):  # an epoch has as many steps as one of MNIST
        probe = train_probe(*split, 3, hidden=hidden, epochs=5, seed=7, passes=469)
        assert report[protocol]["accuracy"] == probe.accuracies[-1]
        assert report[protocol]["best_accuracy"] == probe.accuracies.max()
    fitted = fit_logistic(*split, seed=7)
    assert report.headline["linear"] == report["linear"]["converged_accuracy"] == fitted.accuracy
    mixtures = fit_mixtures(rows[0], 3, restarts=2, seed=7)
    found = [scores(data[1][1], mixture.predict(rows[1])) for mixture in mixtures]
    assert {name: report["gmm"][name] for name in found[0]} == found[0]
    accuracies = [each["accuracy"] for each in found]
    assert report["gmm"]["lowest_accuracy"] == min(accuracies)
    assert report["gmm"]["highest_accuracy"] == max(accuracies)
    centered = [side - rows[0].mean(axis=0, dtype="float64") for side in rows]
    by_centered = knn_accuracy(centered[0], data[0][1], centered[1], data[1][1], k=10, metric="cosine")
    assert report["knn"]["centered_k10_accuracy"] == by_centered
    by_k = [knn_accuracy(*split, k=k) for k in range(1, 16)]
    assert [report["knn"][f"euclidean_k{k}_accuracy"] for k in range(1, 16)] == by_k
    assert report["knn"]["euclidean_best_accuracy"] == max(by_k)
    assert report.numbers["knn"]["euclidean_best_accuracy"].note.endswith(f": {1 + int(np.argmax(by_k))}")
    assert report.protocols["mlp"]["layers"] == [4, 4, 3] and report.protocols["linear"]["layers"] == [4, 3]
    majority = np.mean(data[1][1] == np.bincount(data[0][1]).argmax())
    assert report.numbers["linear"]["accuracy"].chance == majority
    assert any("k is at most 120" in remark for remark in report.remarks)


def test_report_is_repeatable_by_seed(encoder, data):
    one, same, other = (evaluate(encoder, data, seed=seed, **FAST).flat() for seed in (0, 0, 1))
    assert one == same
    assert one != other


def test_encoder_is_proved_frozen(encoder, data):
    report = evaluate(encoder, data, "knn")
    assert report.frozen == [{"before": weights_sha256(encoder), "after": weights_sha256(encoder)}]


@pytest.mark.parametrize("as_model", [True, False], ids=["model", "layer"])
def test_encoder_that_changes_is_refused(data, as_model):
    encoder = keras.Sequential([keras.Input((6, 5, 1)), Counting()], name="counting") if as_model else Counting()
    with pytest.raises(InvalidInputError, match="must stay frozen") as caught:
        evaluate(encoder, data, "knn")
    assert encoder.name in str(caught.value)


def test_an_encoder_without_weights_yet_is_built_first(data):
    encoder = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(3)])
    report = evaluate(encoder, data, "knn")
    assert report.data["features"] == 3 and report.frozen[0]["after"] == weights_sha256(encoder)


def test_encoder_may_be_a_name(encoder, data, monkeypatch, tmp_path):
    monkeypatch.setenv("SSLZOO_WEIGHTS", str(tmp_path))
    folder = sslzoo.publishing.write(tmp_path / "small-digits", encoder)
    reports = [evaluate(given, data, "knn") for given in ("small-digits", folder, encoder)]
    assert len({report.frozen[0]["after"] for report in reports}) == 1


def test_evaluate_is_a_public_name():
    assert sslzoo.evaluate is evaluate


def test_names_and_files_of_data_sets(tmp_path):
    encoder = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Rescaling(1 / 255), keras.layers.Flatten()])
    report = evaluate(encoder, "digits", ("knn",))
    assert report.data["name"] == "digits" and report.data["classes"] == 10
    assert report["knn"]["euclidean_best_accuracy"] > 0.96  # raw pixels of digits

    raw = load_digits()
    images, labels = (raw.images * 255 / 16).astype("uint8")[..., None], raw.target
    np.savez(
        tmp_path / "mine.npz",
        train_images=images[:300],
        train_labels=labels[:300],
        test_images=images[300:400],
        test_labels=labels[300:400],
    )
    split = (images[:300], labels[:300]), (images[300:400], labels[300:400])
    from_file = evaluate(encoder, tmp_path / "mine.npz", "knn")
    assert from_file.data["name"] == "mine"
    assert from_file["knn"] == evaluate(encoder, split, "knn")["knn"]
    # Another test set, by name and as arrays; then `dataset` may be the training pair alone.
    assert evaluate(encoder, split[0], "knn", test=split[1])["knn"] == from_file["knn"]
    elsewhere = evaluate(encoder, split[0], "knn", test="digits")
    assert elsewhere.data["test"] == 360 and elsewhere.data["name"] == "arrays (tested on digits)"


def test_attributes(encoder, data):
    """Labels (N, A): one column is the task, found by number, or by name where they are CelebA's 40."""
    (images, labels), (test_images, test_labels) = data
    random = np.random.default_rng(0)

    def attributes(labels):
        columns = random.integers(0, 2, (len(labels), 40))
        columns[:, 20] = labels > 0  # "Male"
        return columns

    split = (images, attributes(labels)), (test_images, attributes(test_labels))
    named = evaluate(encoder, split, ("linear", "knn"), epochs=30)
    assert named.data["attribute"] == "Male" and named.data["classes"] == 2
    assert evaluate(encoder, split, ("linear", "knn"), epochs=30, attribute=20).flat() == named.flat()
    assert named["knn"]["euclidean_best_accuracy"] > 0.95
    assert named.numbers["linear"]["balanced_accuracy"].shown
    assert named.numbers["linear"]["balanced_accuracy"].chance == 0.5
    assert named.protocols["linear"]["loss"] == "binary cross-entropy"
    noise = evaluate(encoder, split, "knn", attribute="Bald")["knn"]["cosine_k10_accuracy"]
    assert 0.25 < noise < 0.75
    with pytest.raises(UnknownNameError, match="Did you mean 'Male'"):
        evaluate(encoder, split, attribute="male")
    with pytest.raises(InvalidInputError, match="attribute=40"):
        evaluate(encoder, split, attribute=40)
    few = (images, split[0][1][:, :3]), (test_images, split[1][1][:, :3])
    with pytest.raises(InvalidInputError, match=r"one class an image.*the number of its column"):
        evaluate(encoder, few)
    assert evaluate(encoder, few, "knn", attribute=1).data["attribute"] == 1
    with pytest.raises(InvalidInputError, match="these are classes"):
        evaluate(encoder, data, "knn", attribute="Male")
    with pytest.raises(InvalidInputError, match="rows of one length"):
        evaluate(encoder, ((images[:2], [[1, 0], [1]]), (images[:2], [[1], [0]])), "knn")


def test_several_labels_an_image_are_refused_or_left_out(encoder, data, tmp_path, capsys):
    """In one sentence by whatever takes classes; (N, 1) is (N,)."""
    (images, labels), _ = data
    several = np.stack([labels > 0, labels > 1], axis=1).astype(int)
    for taking in (
        lambda pairs: evaluate(encoder, pairs, "knn"),
        lambda pairs: sslzoo.finetune(encoder, pairs, mode="probe", scratch=False),
        lambda pairs: sslzoo.compare({"a": encoder, "b": encoder}, pairs, protocols="knn"),
    ):
        with pytest.raises(InvalidInputError, match=r"one class an image.*--attribute"):
            taking(((images, several), (images, several)))
        assert taking(((images, labels[:, None]), (images, labels[:, None])))
    np.savez(tmp_path / "several.npz", images=images, labels=several)
    embedding = sslzoo.embed(encoder, tmp_path / "several.npz")
    assert embedding.labels is None and "left out" in embedding.remarks[-1] and embedding.checked()
    np.savez(tmp_path / "both.npz", x_train=images, y_train=several, x_test=images, y_test=several)
    encoder.save(tmp_path / "encoder.keras")
    words = ["evaluate", str(tmp_path / "encoder.keras"), "--dataset", str(tmp_path / "both.npz"), "--protocols", "knn"]
    assert cli.main([*words, "--attribute", "1"]) == 0 and "attribute 1" in capsys.readouterr().out.lower()
    assert cli.main(words) == 2 and "one class an image" in " ".join(capsys.readouterr().err.split())


def test_max_train_takes_a_random_part(encoder, data):
    report = evaluate(encoder, data, "knn", max_train=50)
    assert report.data["train"] == 50 and report.data["test"] == 60
    assert any("50 of 120" in remark for remark in report.remarks)
    assert evaluate(encoder, data, "knn", max_train=1000).remarks == evaluate(encoder, data, "knn").remarks


def test_progress_reaches_every_protocol(encoder, data):
    seen = []
    evaluate(encoder, data, progress=lambda what, done, total: seen.append((what, done == total)), **FAST)
    finished = [what for what, done in seen if done]
    assert finished == ["features", "features", "linear probe", "MLP probe", "kNN", "GMM"]


def test_the_probe_on_views_is_trained_on_new_ones_and_shows_its_progress(monkeypatch):
    images, labels = load_digits(return_X_y=True)
    images = (images.reshape(-1, 8, 8, 1) * 15).astype("uint8")
    data = (images[:600], labels[:600]), (images[600:900], labels[600:900])
    network = sslzoo.networks.encoder("mlp-small", (8, 8, 1), 16, seed=0)
    seen, model = [], SimCLR(network, views=Views("simvae-digits", 2, seed=0))
    encoder, options = model.parts((8, 8, 1))["encoder"], {"method": model, "views_epochs": 2}
    draws = []

    def spy(draw, *arguments, **settings):
        draws.extend(draw(epoch) for epoch in range(2))
        return train_probe_on_views(draw, *arguments, **settings)

    monkeypatch.setattr(views_protocol, "train_probe_on_views", spy)
    evaluate(encoder, data, "views", progress=lambda *now: seen.append(now), **options)
    plain = features(encoder, images[:600])
    for one, other in ((*draws,), (draws[0], plain)):  # of views, and of new ones
        assert np.mean(np.abs(one - other)) > 0.1 * np.std(plain)
    assert seen[-2:] == [("linear probe on views", 1, 2), ("linear probe on views", 2, 2)]


def test_progress_is_shown_when_asked_for(encoder, data, capsys):
    evaluate(encoder, data, "knn", progress=True)
    shown = capsys.readouterr()
    assert "kNN: 1 of 2" in shown.err and not shown.out
    evaluate(encoder, data, "knn")
    assert not capsys.readouterr().err  # not a terminal


def test_floats_of_at_most_one_get_a_remark(encoder, data):
    scaled = [(images / 255, labels) for images, labels in data]
    assert "0..255" in evaluate(encoder, tuple(scaled), "knn").remarks[0]


def test_a_protocol_that_does_not_apply_raises_or_is_left_out_with_a_remark(encoder, data):
    both = {"protocols": ["knn", "outliers"]}
    with pytest.raises(InvalidInputError, match="Outliers take another data set"):
        evaluate(encoder, data, **both)
    report = evaluate(encoder, data, **both, strict=False)
    assert set(report.numbers) == {"knn"}
    assert any(remark.startswith("Not measured, outliers: Outliers take") for remark in report.remarks)


@pytest.mark.parametrize("error", [MemoryError("no room\n" * 500), ValueError("boom")])
def test_what_one_protocol_stumbles_over_takes_no_other_with_it(encoder, data, error, monkeypatch):
    def fail(*_):
        raise error

    monkeypatch.setattr(REGISTRY["gmm"], "run", fail)
    report = evaluate(encoder, data, ("gmm", "knn"), strict=False)
    assert list(report) == ["knn"]
    (told,) = (remark for remark in report.remarks if remark.startswith("Not measured, GMM"))
    assert type(error).__name__ in told and len(told) < 600
    with pytest.raises(type(error)):
        evaluate(encoder, data, ("gmm", "knn"))


def test_many_classes_have_no_table_of_confusions():
    labels = np.arange(202) % 101
    assert probes.confusion(labels, labels, 101) is None
    assert probes.confusion(labels % 100, labels % 100, 100)[3][3] > 0


def test_guessing_by_class_is_among_the_classes_of_training():
    """Of 4 classes that the probe knows, 2 are tested, and 1 that it does not know."""
    rows = np.random.default_rng(0).normal(size=(60, 4)).astype("float32")
    report = evaluate_features((rows[:40], np.arange(40) % 4), (rows[40:59], [0, 1, 9] * 6 + [0]), "linear", epochs=1)
    assert report.numbers["linear"]["balanced_accuracy"].chance == pytest.approx(2 / 3 / 4)


@pytest.mark.parametrize(
    "change,error,message",
    [
        ({"protocols": ("linear", "knnn")}, UnknownNameError, "Did you mean 'knn'"),
        ({"protocols": ()}, InvalidInputError, "at least one protocol"),
        ({"epochs": 0}, InvalidInputError, "epochs=0"),
        ({"gmm_restarts": 0}, InvalidInputError, "gmm_restarts=0"),
        ({"max_train": 0}, InvalidInputError, "max_train=0"),
        ({"hidden": 0}, InvalidInputError, "hidden=0"),
        ({"dataset": np.zeros((3, 6, 5, 1))}, InvalidInputError, "type ndarray"),
        ({"dataset": "dgits"}, UnknownNameError, "digits"),
        ({"test": 3}, InvalidInputError, "type int"),
        ({"encoder": 3}, InvalidInputError, "type int"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else None,
)
def test_bad_settings_are_refused(encoder, data, change, error, message):
    with pytest.raises(error, match=message):
        evaluate(**{"encoder": encoder, "dataset": data, **change})


@pytest.mark.parametrize(
    "labels,message",
    [
        (None, "have no labels"),
        (np.zeros(119, int), r"119,"),
        (np.zeros((120, 2, 2), int), "shape"),
        (np.linspace(0, 1, 120), "integers"),
        (np.full(120, 4), r"2 classes. Received: 1 class, \[4\]"),
    ],
    ids=["none", "count", "rank", "dtype", "one class"],
)
def test_bad_labels_are_refused_before_the_encoder_runs(data, labels, message):
    class Explosive(keras.layers.Layer):
        def call(self, x):
            raise AssertionError("ran")

    (images, _), test = data
    with pytest.raises(InvalidInputError, match=message):
        evaluate(Explosive(), ((images, labels), test))


def test_labels_need_not_be_contiguous_nor_all_in_the_test_set(encoder, data):
    (images, labels), (test_images, test_labels) = data
    renamed = np.array([5, 1000, 7])
    report = evaluate(encoder, ((images, renamed[labels]), (test_images, renamed[test_labels])), "knn")
    order = np.argsort(np.argsort(renamed))  # equal votes go to the smallest label, so compare with names of that order
    expected = evaluate(encoder, ((images, order[labels]), (test_images, order[test_labels])), "knn")
    assert report.flat() == expected.flat()
    unseen = test_labels.copy()
    unseen[:6] = 99  # a class that training never saw can only be missed
    report = evaluate(encoder, ((images, labels), (test_images, unseen)), **FAST)
    assert report.data["classes"] == 4
    told = "6 of 60 test images are of classes without train images (99): probes and neighbors can only miss them."
    assert told in report.remarks
    assert not any("without train images" in remark for remark in evaluate(encoder, data, **FAST).remarks)


@pytest.mark.parametrize("protocols", ["linear", "mlp", ("gmm", "knn"), "all"])
def test_test_labels_of_no_train_class_are_refused(encoder, data, protocols):
    (images, labels), (test_images, test_labels) = data
    with pytest.raises(InvalidInputError, match=r"train labels 0, 1, 2, test labels 10, 11, 12$"):
        evaluate(encoder, ((images, labels), (test_images, test_labels + 10)), protocols)
    rows = [(some.reshape(len(some), -1), of) for some, of in ((images, labels), (test_images, test_labels + 10))]
    with pytest.raises(InvalidInputError, match="must be among the classes"):
        evaluate_features(*rows, PROTOCOLS if protocols == "all" else protocols)
    evaluate_features(*rows, "gmm", gmm_restarts=1)  # clusters have no names


def test_without_labels_only_what_needs_them_is_refused(encoder, data, tmp_path):
    (images, labels), (test_images, _) = data
    np.savez(tmp_path / "mine.npz", train_images=images, test_images=test_images)
    report = evaluate(encoder, tmp_path / "mine.npz", "style", pictures=tmp_path / "drawn", max_train=100)
    assert list(report) == ["style"] and report.data["classes"] is None and "features, no labels, seed 0" in str(report)
    assert Report.from_json(report.to_json()) == report
    assert {path.name for path in (tmp_path / "drawn").iterdir()} == {"neighbors.png", "embedding.png"}
    same = evaluate(encoder, ((images, labels), (test_images, None)), "style", max_train=100)
    assert same["style"] == report["style"]
    report = evaluate(encoder, tmp_path / "mine.npz", "all", decoder_epochs=1)
    assert set(report) == {"style", "reconstruction"}
    names = "linear probe, MLP probe, kNN, GMM, few labels, generation, attributes"
    assert f"Not measured, {names}: The train images have no labels." in report.remarks
    with pytest.raises(InvalidInputError, match=r"The test images have no labels\. Received: test labels=None"):
        evaluate(encoder, ((images, labels), (test_images, None)), ("style", "knn", "generation"))
    with pytest.raises(InvalidInputError, match="no labels"):
        evaluate(encoder, tmp_path / "mine.npz", strict=False)  # nothing would be left


def test_one_class_is_enough_where_classes_do_not_count(encoder, data):
    (images, labels), (test_images, test_labels) = data
    report = evaluate(encoder, ((images, 0 * labels), (test_images, 0 * test_labels)), "style")
    assert list(report) == ["style"] and report.data["classes"] == 1


# ---------------------------------------------------------------------- features alone


def test_guessing_clusters_of_few_images_is_a_mean_over_many_guesses():
    labels = np.arange(36) % 3
    clusters = np.random.default_rng(0).permutation(labels)
    chances = [dict(beside_chance(labels, clusters, 18, seed)[0]) for seed in range(4)]
    assert all(abs(chance["ari"][1]) < 0.01 for chance in chances)
    assert np.ptp([chance["nmi"][1] for chance in chances]) < 0.01


def test_random_features_score_chance_everywhere():
    """Nothing to find: every accuracy is at the level the report calls chance."""
    random = np.random.default_rng(0)
    train = random.normal(size=(1500, 6)), random.integers(0, 10, 1500)
    test = random.normal(size=(1500, 6)), random.integers(0, 10, 1500)
    report = evaluate_features(train, test, epochs=4, gmm_restarts=1)
    for protocol, metrics in report.numbers.items():
        for metric, number in metrics.items():
            assert abs(number.value - number.chance) < 0.035, (protocol, metric)
    assert report["gmm"]["minibatch64_nmi"] > 0.2 > report["gmm"]["nmi"]
    assert not report.frozen


def test_collapsed_features_get_a_remark_and_no_crash():
    labels = np.arange(300) % 3
    constant = np.full((300, 4), 0.1, "float32")
    report = evaluate_features((constant, labels), (constant[:90], labels[:90]), **FAST)
    assert "collapsed" in report.remarks[0]
    assert all(abs(value - 1 / 3) < 1e-6 for value in report.headline.values())
    half = np.hstack([constant[:, :3], np.random.default_rng(0).normal(size=(300, 1))])
    assert "3 of 4 features are constant" in evaluate_features((half, labels), (half, labels), "knn").remarks[0]


def test_features_too_small_or_far_for_probes_get_a_remark():
    random = np.random.default_rng(0)
    labels = np.arange(300) % 3
    rows = random.normal(size=(3, 4))[labels] + 0.1 * random.normal(size=(300, 4))
    tiny = evaluate_features((rows * 1e-4, labels), (rows[:90] * 1e-4, labels[:90]), "linear", epochs=2)
    assert "may have hardly moved from guessing" in tiny.remarks[0]
    far = evaluate_features((rows + 1e4, labels), (rows[:90] + 1e4, labels[:90]), "linear", epochs=2)
    assert "lie up to 1e+04 from 0" in far.remarks[0] and far.flat()["linear.converged_accuracy"] > 0.95
    assert not evaluate_features((rows, labels), (rows[:90], labels[:90]), "linear", epochs=2).remarks
    neighbors = evaluate_features((rows * 1e-4, labels), (rows[:90] * 1e-4, labels[:90]), "knn")
    assert not neighbors.remarks


@pytest.mark.parametrize(
    "train,message",
    [
        ((np.zeros((4, 2, 2)), np.arange(4)), "(N, L)"),
        ((np.zeros((0, 2)), np.arange(0)), "(N, L)"),
        ((np.zeros((4, 2)), np.arange(5)), "(5,)"),
        ((np.zeros((4, 2)), np.zeros((4, 2), int)), "(N,)"),
        ((np.zeros((4, 2)), None), "need labels"),
        ((np.array([[0.0], [np.inf], [np.nan], [1.0]]), np.arange(4)), "2 of 4 rows"),
    ],
)
def test_bad_features_are_refused(train, message):
    with pytest.raises(InvalidInputError) as caught:
        evaluate_features(train, (np.zeros((4, 2)), np.arange(4)))
    assert message in str(caught.value)


def frame(rows):
    return pytest.importorskip("pandas").DataFrame(rows)


def tensor(rows, **options):
    return pytest.importorskip("torch").tensor(rows, **options)


def half(rows):
    torch = pytest.importorskip("torch")
    return torch.tensor(rows, dtype=torch.bfloat16)


@pytest.mark.parametrize(
    "kind",
    [frame, lambda rows: tensor(rows, requires_grad=True), half, np.ndarray.tolist],
    ids=["frame", "grad", "half", "list"],
)
def test_features_may_come_in_any_form(kind):
    rows = np.round(np.random.default_rng(0).normal(size=(30, 4)) * 8) / 8  # which bfloat16 holds
    labels = np.arange(30) % 3
    expected = evaluate_features((rows, labels), (rows, labels), "knn").flat()
    assert evaluate_features((kind(rows), labels), (kind(rows), labels[:, None]), "knn").flat() == expected
    assert knn_accuracy(kind(rows), labels[:, None], kind(rows), labels, 1) == 1


@pytest.mark.parametrize(
    "labels,message",
    [
        (np.array([0, 1, 2, np.nan]), "NaN is no class"),
        (np.array([0.0, 1, 2, 1]), r'astype\("int64"\)'),
        (np.array(["a", "b", "c", "a"]), "return_inverse=True"),
        (np.eye(4), r"argmax\(axis=1\)"),
        (np.arange(3), "one label for each row of the 4"),
        (np.array([0, 1, -1, 1]), r"integers >= 0, as -1 often says that there is none"),
    ],
)
def test_labels_that_do_not_fit_get_their_cure_everywhere(labels, message):
    rows, right = np.arange(8.0).reshape(4, 2), np.arange(4) % 2
    with pytest.raises(InvalidInputError, match=message):
        evaluate_features((rows, labels), (rows, right), "knn")
    with pytest.raises(InvalidInputError, match=message):
        knn_accuracy(rows, right, rows, labels, 1)


def test_protocols_outside_their_range_say_so():
    random = np.random.default_rng(0)
    rows, labels = random.normal(size=(90, 4)) + 8 * np.eye(4)[np.arange(90) % 3], np.arange(90) % 3
    few = evaluate_features((rows[:6], labels[:6]), (rows, labels), "knn")
    assert any("protocol says 10 and 15 and 200. With k = 6 all train rows vote" in remark for remark in few.remarks)
    whole = evaluate_features((rows, labels), (rows, labels), "gmm", gmm_restarts=3)
    tiny = evaluate_features((1e-5 * rows, labels), (1e-5 * rows, labels), "gmm", gmm_restarts=3)
    assert tiny["gmm"]["accuracy"] == whole["gmm"]["accuracy"] == 1 and not whole.remarks + tiny.remarks
    huge = 1e30 * rows, labels
    with pytest.raises(InvalidInputError, match=r"overflow: divide them .*Received: features up to"):
        evaluate_features(huge, huge, "linear", epochs=2)


def test_an_option_of_no_protocol_is_refused_with_the_nearest_name(encoder, data):
    with pytest.raises(UnknownNameError, match="Did you mean 'gmm_restarts'"):
        evaluate(encoder, data, gmm_restart=3)
    with pytest.raises(UnknownNameError, match="Did you mean 'epochs'"):
        evaluate_features((np.eye(4), np.arange(4)), (np.eye(4), np.arange(4)), epoch=3)


def test_every_protocol_declares_what_evaluate_needs_to_know():
    for name, protocol in REGISTRY.items():
        assert protocol.name == name and protocol.title and protocol.__doc__
        assert set(protocol.needs) <= {"features", "labels", "method"} and set(protocol.inputs) <= set(
            protocol.options()
        )
        assert set(protocol.parts) <= {"decoder", "posterior", "projection"}


def test_widths_of_both_splits_must_agree():
    with pytest.raises(InvalidInputError, match="same number of features"):
        evaluate_features((np.zeros((4, 2)), np.arange(4)), (np.zeros((4, 3)), np.arange(4)), "linear")


# ---------------------------------------------------------------------- folders


def folders(root):
    """120 files in folders "a", "b" and "c"."""
    images, labels = images_and_labels()
    for row, (image, label) in enumerate(zip(images, labels)):
        (root / "abc"[label]).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image[..., 0]).save(root / "abc"[label] / f"{row}.png")
    return np.bincount(labels)


def test_folders_in_a_folder_are_classes_and_a_fifth_is_held_out(encoder, tmp_path, monkeypatch):
    sizes, drawn = folders(tmp_path / "sorted"), []
    monkeypatch.setattr(pictures, "embedding", lambda *_, names: drawn.append(names))
    report = evaluate(encoder, tmp_path / "sorted", "knn", pictures=tmp_path / "pictures")
    assert drawn == [["a", "b", "c"]]
    held_out = np.maximum(1, np.round(0.2 * sizes)).sum()
    assert report.data["test"] == held_out and report.data["train"] == 120 - held_out and report.data["classes"] == 3
    assert any("the 3 folders are classes, and 20% of each class are test images" in each for each in report.remarks)
    said = evaluate(encoder, tmp_path / "sorted", "knn", labels="folders", test_share=0.2)
    assert said["knn"] == report["knn"] and not any("folders are classes" in each for each in said.remarks)
    listed = sslzoo.data.ImageFolder(tmp_path / "sorted", "folders")
    assert (
        sslzoo.data.class_names(tmp_path / "sorted", np.array([2, 0, 0]))
        == ["a", "c"]
        == sslzoo.data.class_names(listed, np.array([0, 2]))
    )
    assert sslzoo.data.splits(listed) == sslzoo.data.splits(tmp_path / "sorted")
    half = evaluate(encoder, tmp_path / "sorted", "knn", labels="folders", test_share=0.5)
    assert half.data["test"] > 2 * held_out
    unsaid = evaluate(encoder, tmp_path / "sorted", "knn", test_share=0.5)
    assert unsaid["knn"] == half["knn"] and any("50% of each class" in each for each in unsaid.remarks)

    folders(tmp_path / "loose")
    Image.fromarray(np.zeros((6, 5), "uint8")).save(tmp_path / "loose" / "beside.png")
    with pytest.raises(UnknownNameError, match=r"no test images: .* classes.*Received: split='test'"):
        evaluate(encoder, tmp_path / "loose", "knn")


def test_classes_of_another_folder_are_told_by_their_names(encoder, tmp_path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    folders(ours / "train")
    folders(theirs / "test")
    shutil.rmtree(theirs / "test" / "a")  # "b" and "c" would be 0 and 1 there
    _, (_, train), (_, test), _ = datasets.read(ours, theirs, None, (6, 5, 1))
    assert set(train) == {0, 1, 2} and set(test) == {1, 2}
    (theirs / "test" / "b").rename(theirs / "test" / "d")
    with pytest.raises(InvalidInputError, match=r"Classes of `test` must be some of a, b, c\. .* with d"):
        evaluate(encoder, ours, "knn", test=theirs)
