"""Features and data of odd scale, kind and number: the same answers, or a refusal before any work."""

import json

import keras
import numpy as np
import pytest

import sslzoo
from sslzoo import evaluation, files
from sslzoo.downstream import exploring
from sslzoo.errors import InvalidInputError
from sslzoo.evaluation import pictures
from sslzoo.evaluation.measures import equal_rows


@pytest.fixture(scope="module")
def clusters():
    """600 rows of five features, three of which tell three classes apart: train and test pairs."""
    rng, labels = np.random.default_rng(0), np.arange(600) % 3
    rows = 0.4 * rng.normal(size=(600, 5))
    rows[:, :3] += 1.5 * np.eye(3)[labels]
    return (rows[:400], labels[:400]), (rows[400:], labels[400:])


@pytest.fixture(scope="module")
def pixels():
    return keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Flatten()], name="pixels")


@pytest.fixture(scope="module")
def digits():
    return sslzoo.data.load("digits", "train"), sslzoo.data.load("digits", "test")


def test_an_offset_hides_no_feature_that_differs(clusters):
    (train, labels), (test, truth) = clusters
    moved = [(rows + 1e6).astype("float32") for rows in (train, test)]
    found = evaluation.evaluate_features(
        (moved[0], labels), (moved[1], truth), ("linear", "gmm"), gmm_restarts=1, epochs=1
    )
    assert found.headline["linear"] > 0.97 and found.headline["gmm"] > 0.97


@pytest.mark.parametrize("scale", [2.0**-100, 2.0**-27, 2.0**63])
def test_maps_do_not_depend_on_the_scale_of_features(clusters, scale, tmp_path, monkeypatch):
    (rows, _), _ = clusters
    monkeypatch.setattr(exploring, "MOST_PLACED", 100)
    expected, _ = exploring._points(rows, 0)
    np.testing.assert_allclose(exploring._points(rows * scale, 0)[0], expected, atol=1e-6)
    assert pictures.embedding(rows[:50] * scale, None, tmp_path / "map.png").is_file()


def test_numbers_of_numpy_are_written(pixels, digits, tmp_path):
    report = sslzoo.evaluate(pixels, digits, "linear", seed=np.int64(1), epochs=np.int32(1), max_train=np.int64(100))
    assert evaluation.Report.from_json(report.save(tmp_path / "report.json").read_text()).seeds == [1]
    compared = sslzoo.compare({"a": pixels, "b": pixels}, digits, protocols="knn", seed=np.int64(1))
    assert json.loads(compared.to_json())["seed"] == 1
    with pytest.raises(TypeError, match="Expected what JSON holds"):
        json.dumps({"a": object()}, default=files.plain)


def test_a_distance_of_one_image_is_refused_first(pixels, digits):
    (train, labels), (test, truth) = digits
    few = (train[:60], labels[:60]), (test[:1], truth[:1])
    with pytest.raises(InvalidInputError, match="at least 2 test images"):  # before any is measured
        sslzoo.evaluate(pixels, few, "all", extractor="simclr-digits", epochs=1, gmm_restarts=1)


def test_style_images_are_as_many_as_its_regressions_need(pixels, digits):
    for numbers in ((100, 1), (1, 100)):
        with pytest.raises(InvalidInputError, match="style_images must be an integer >="):
            sslzoo.evaluate(pixels, digits, "style", style_images=numbers)


def test_lists_of_images_are_arrays(pixels, digits):
    listed = [(list(images), list(labels)) for images, labels in digits]
    for options in ({"max_train": 100}, {"protocols": "style", "style_images": (200, 50)}):
        options = {"protocols": "knn"} | options
        assert (
            sslzoo.evaluate(pixels, listed, **options).headline == sslzoo.evaluate(pixels, digits, **options).headline
        )


def test_attributes_may_exclude_each_other_and_one_hot_rows_are_no_attributes(pixels, digits):
    pairs = [(images, np.stack([labels > 4, labels <= 4], axis=1).astype(int)) for images, labels in digits]
    assert sslzoo.evaluate(pixels, pairs, "knn", attribute=1).headline["knn"] > 0.9
    with pytest.raises(InvalidInputError, match="of one-hot rows, take"):
        sslzoo.evaluate(pixels, pairs, "knn")


def test_all_protocols_of_features(clusters):
    report = evaluation.evaluate_features(*clusters, "all", epochs=1, gmm_restarts=1)
    assert {"knn", "linear", "mlp", "gmm", "few_shot"} <= {*report}


def test_comparisons_of_one_class_are_refused_and_a_limit_is_noted(pixels, digits):
    with pytest.raises(InvalidInputError, match="at least 2 classes"):
        sslzoo.compare({"a": pixels, "b": pixels}, digits, max_train=1)
    features = tuple(evaluation.features(pixels, images) for images, _ in digits)
    found = sslzoo.compare({"a": features, "b": pixels}, digits, protocols="knn", max_train=100)
    assert [remark[:3] for remark in found.remarks if "1,437" in remark] == ["100"]  # of both, and said once


def test_probes_take_rows_and_labels_that_fit(clusters):
    (rows, labels), (test, truth) = clusters
    with pytest.raises(InvalidInputError, match="the same length"):
        evaluation.fit_logistic(rows, labels, test[:, :1], truth)
    with pytest.raises(InvalidInputError, match="at least 2 classes"):
        evaluation.fit_logistic(rows, 0 * labels, test, truth)
    for given, message in {
        (1, 0, 0): "train features must be finite",
        (0, 1, 0): "integers >= 0",
        (0, 0, 1): "below num_classes=3",
    }.items():
        nan, below, above = given
        with pytest.raises(InvalidInputError, match=message):
            evaluation.train_probe(rows / (1 - nan), labels - below, test, truth + above, 3, epochs=1)
    column = evaluation.train_probe(rows, labels[:, None], test, truth[:, None], 3, epochs=2)
    flat = evaluation.train_probe(rows, labels, test, truth, 3, epochs=2)
    np.testing.assert_array_equal(column.accuracies, flat.accuracies)
    evaluation.train_probe(rows, labels == 1, test, truth == 1, 2, epochs=1)


def test_confusion_of_many_classes_names_them(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(pictures, "save_figure", lambda figure, path: seen.append(figure))
    pictures.confusion(np.eye(25), tmp_path / "c.png", names=range(100, 125))
    marks = [label.get_text() for label in seen[0].axes[0].get_xticklabels()]
    assert marks == [str(name) for name in range(100, 125, 2)]
    with pytest.raises(InvalidInputError, match="one for each class, 3"):
        pictures.confusion(np.eye(3), tmp_path / "d.png", names=["a", "b"])


def test_health_of_features_with_an_offset_of_few_rows_and_beside_an_outlier():
    rng = np.random.default_rng(0)
    offset = sslzoo.diagnose(rng.normal(size=(500, 16)) + 100)
    assert offset.healthy and "narrow cone" in str(offset)
    assert not any("collapsed" in sslzoo.diagnose(rows).verdict for rows in rng.normal(size=(20, 2, 10)))
    beside = np.concatenate([rng.normal(size=(99, 8)), np.full((1, 8), 1e7)]).astype("float32")
    assert equal_rows(beside) == 0.0 and equal_rows(np.repeat(beside, 2, axis=0)) == 1.0


def test_measures_of_rows_that_do_not_belong_together_are_refused():
    labels = np.arange(9) % 3
    for measure in (evaluation.hungarian_accuracy, evaluation.scores, evaluation.minibatch_scores):
        with pytest.raises(InvalidInputError, match="one label for each row of the 9"):
            measure(labels, labels[:5])
    with pytest.raises(InvalidInputError, match="predictions must be"):
        evaluation.balanced_accuracy(labels, labels[:5])
    with pytest.raises(InvalidInputError, match=r"means \(L,\) and covariances \(L, L\)"):
        evaluation.frechet_distance(np.zeros(3), np.eye(3), np.zeros(2), np.eye(2))


def test_floats_of_which_the_first_are_dark_are_embedded(pixels):
    images = np.random.default_rng(0).uniform(0, 255, (12, 8, 8, 1)).astype("float32")
    images[:8] = 1.5
    assert sslzoo.embed(pixels, images, batch_size=4).shape == (12, 64)


def test_a_title_is_not_the_place_of_the_data(tmp_path):
    page = sslzoo.explore(
        evaluation.Embedding(np.random.default_rng(0).normal(size=(20, 3))), tmp_path / "m.html", title="__DATA__"
    )
    assert "<title>__DATA__" in page.read_text()
