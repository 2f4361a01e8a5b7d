"""Comparisons: intervals and tests against their definitions, pairs against a count by hand, bad input before work."""

import json
import math

import keras
import numpy as np
import pytest
from PIL import Image

import sslzoo
from sslzoo.downstream import comparison
from sslzoo.errors import InvalidInputError, UnknownNameError

rng = np.random.default_rng(0)
LABELS = np.arange(150) % 3
TRAIN, TEST = LABELS[:100], LABELS[100:]


def features(noise, seed=0):
    rows = np.eye(3, 5)[LABELS] + noise * np.random.default_rng(seed).normal(size=(150, 5))
    return rows[:100], rows[100:]


# ---------------------------------------------------------------- statistics


def test_wilson_bounds_the_shares_that_are_not_contradicted():
    low, high = comparison.wilson(94, 100)
    for share in (low, high):  # where the count is 1.96 standard errors off
        assert abs(0.94 - share) == pytest.approx(1.959964 * math.sqrt(share * (1 - share) / 100), rel=1e-5)
    assert comparison.wilson(0, 10)[0] == 0 and comparison.wilson(10, 10)[1] == 1


def test_mcnemar_is_a_sign_test():
    tails = sum(math.comb(15, k) for k in range(4)) / 2**15
    assert comparison.mcnemar(12, 3) == pytest.approx(2 * tails)
    assert comparison.mcnemar(3, 12) == comparison.mcnemar(12, 3)
    assert comparison.mcnemar(7, 7) == comparison.mcnemar(0, 0) == 1
    assert comparison.mcnemar(0, 6) == pytest.approx(2 / 2**6)


def test_holm_steps_down():
    adjusted = comparison.holm([0.04, 0.01, 0.03, 0.005])
    assert adjusted == pytest.approx([0.06, 0.03, 0.06, 0.02])
    assert comparison.holm([0.9, 0.8]).tolist() == [1, 1]
    assert comparison.holm([0.02]).tolist() == [0.02]


def test_the_interval_of_a_difference_is_agresti_and_min_s():
    """By hand: 30.5 and 12.5 of 102; the difference 18 / 102, its variance (43 / 102 - (18 / 102)^2) / 102."""
    low, high = comparison.paired_interval(30, 12, 100)
    assert (low + high) / 2 == pytest.approx(18 / 102)
    assert (high - low) / 2 == pytest.approx(1.959964 * ((43 / 102 - (18 / 102) ** 2) / 102) ** 0.5)
    assert comparison.paired_interval(12, 30, 100) == pytest.approx((-high, -low))
    assert comparison.paired_interval(5, 0, 5)[1] == 1


def test_an_interval_has_width_where_no_image_tells_encoders_apart():
    low, high = comparison.paired_interval(0, 0, 20)
    assert low == -high and 0.05 < high < 0.15
    low, high = comparison.paired_interval(4, 0, 100)  # McNemar's p is 0.125
    assert low < 0 < high


@pytest.mark.parametrize(("first", "second"), [(0.005, 0), (0.01, 0), (0.01, 0.002), (0.03, 0.03), (0.2, 0.1)])
def test_intervals_cover_differences_as_often_as_they_say(first, second):
    drawn = np.random.default_rng(0).multinomial(360, [first, second, 1 - first - second], 2000)
    intervals = np.array([comparison.paired_interval(a, b, 360) for a, b, _ in drawn.tolist()])
    assert np.mean((intervals[:, 0] <= first - second) & (first - second <= intervals[:, 1])) > 0.935


# ---------------------------------------------------------------- comparisons


def test_pairs_are_counted_image_by_image():
    named = {"good": features(0.1), "fair": features(0.15, 1), "blind": features(50)}
    found = sslzoo.compare(named, (TRAIN, TEST))
    assert len(found.accuracies) == 6 and len(found.pairs) == 6 and (found.train, found.test) == (100, 50)
    for pair in found.pairs:
        first, second = (
            np.array(found.predictions[name][pair.protocol]) == found.labels for name in (pair.first, pair.second)
        )
        assert pair.only_first == np.sum(first & ~second) and pair.only_second == np.sum(second & ~first)
        assert pair.difference == pytest.approx(first.mean() - second.mean())
        assert pair.low <= pair.difference <= pair.high
        assert pair.p == comparison.mcnemar(pair.only_first, pair.only_second) <= pair.adjusted
    assert [pair.adjusted for pair in found.pairs] == pytest.approx(comparison.holm([pair.p for pair in found.pairs]))
    differ = {(pair.first, pair.second) for pair in found.pairs if pair.differs}
    assert ("good", "blind") in differ and ("good", "fair") not in differ
    # kNN as the package has it elsewhere.
    train, test = named["fair"]
    knn = next(each for each in found.accuracies if (each.encoder, each.protocol) == ("fair", "knn"))
    assert knn.value == sslzoo.evaluation.knn_accuracy(train, TRAIN, test, TEST, 10, "cosine")
    assert (knn.low, knn.high) == comparison.wilson(knn.right, 50)


def test_it_is_a_table_a_picture_and_json(tmp_path):
    found = sslzoo.compare({"a": features(0.1), "b": features(50)}, (TRAIN, TEST), protocols="knn")
    text = str(found)
    assert "a - b" in text and "differ" in text and "Holm" in text and "logistic" not in text
    record = json.loads(found.to_json())
    assert record["pairs"][0]["first"] == "a" and len(record["predictions"]["b"]["knn"]) == 50
    assert "1 of 1 pairs differ" in repr(found)
    found.save(tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "comparison.json",
        "comparison.txt",
        "comparison.png",
    }
    with Image.open(tmp_path / "out" / "comparison.png") as picture:
        assert np.asarray(picture.convert("L")).std() > 10


def test_encoders_of_images_and_their_features_answer_alike():
    images = rng.integers(0, 256, (150, 4, 4, 1)).astype("uint8")
    images[np.arange(150), LABELS, 0, 0] = 255
    pixels = keras.Sequential([keras.Input((4, 4, 1)), keras.layers.Flatten()], name="pixels")
    flat = images.reshape(150, -1).astype("float32")
    named = {"model": pixels, "function": lambda batch: batch.reshape(len(batch), -1), "rows": (flat[:100], flat[100:])}
    dataset = ((images[:100], TRAIN), (images[100:], TEST))
    found = sslzoo.compare(named, dataset, max_train=60)
    assert found.train == 60 and any("60 of 100 train images" in remark for remark in found.remarks)
    for protocol in ("knn", "logistic"):
        answers = [found.predictions[name][protocol] for name in named]
        assert answers[0] == answers[1] == answers[2]


def test_a_scale_is_for_encoders_that_do_not_scale_images_themselves():
    images = rng.integers(0, 256, (150, 4, 4, 1)).astype("uint8")
    pixels = keras.Sequential([keras.Input((4, 4, 1)), keras.layers.Flatten()], name="pixels")
    named = {"model": pixels, "function": lambda batch: np.minimum(batch, 1).reshape(len(batch), -1)}
    dataset = ((images[:100], TRAIN), (images[100:], TEST))
    for scale, alike in ((1 / 255, True), (None, False)):
        answers = sslzoo.compare(named, dataset, protocols="knn", scale=scale).predictions
        assert (answers["model"] == answers["function"]) == alike
    with pytest.raises(InvalidInputError, match=r"all of these encoders scale images themselves.*scale=2"):
        sslzoo.compare({"one": pixels, "two": pixels}, dataset, scale=2.0)


def test_names_of_the_zoo(tmp_path):
    found = sslzoo.compare(["simclr-digits", "simvae-digits"], "digits", protocols="knn")
    (pair,) = found.pairs
    assert (pair.first, pair.second, found.test) == ("simclr-digits", "simvae-digits", 360)
    shares = [each.value for each in found.accuracies]
    published = [sslzoo.info(name)["metrics"] for name in ("simclr-digits", "simvae-digits")]
    cards = [next(m["value"] for m in metrics if m["name"] == "knn.cosine_k10_accuracy") for metrics in published]
    assert 100 * np.array(shares) == pytest.approx(cards, abs=0.3)


def with_nan():
    train, test = features(1)
    return train * np.where(np.arange(100) == 3, np.nan, 1)[:, None], test


@pytest.mark.parametrize(
    ("encoders", "options", "message"),
    [
        ([features(1)], {}, "at least two. Received: 1 encoder"),
        ("simclr-digits", {}, "a list of at least two"),
        (["simclr-digits", "simclr-digits"], {}, "different names"),
        ({"a": features(1), "b": (features(1)[0][:90], features(1)[1])}, {}, "b must have a row for each of 100 train"),
        ({"a": features(1), "b": (features(1)[0], features(1)[1][:, :2])}, {}, "of the same L"),
        ({"a": features(1), "b": with_nan()}, {}, "train features of b must be finite"),
        ({"a": features(1), "b": features(2)}, {"max_train": 0}, "max_train must be"),
        ({"a": features(1), "b": features(2)}, {"protocols": ()}, r"protocols=\(\)"),
        ({"a": features(1), "b": 3}, {}, "encoder of type int"),
    ],
)
def test_what_cannot_be_compared_is_refused(encoders, options, message):
    with pytest.raises(InvalidInputError, match=message):
        sslzoo.compare(encoders, (TRAIN, TEST), **options)


def test_unknown_names_are_told_before_work(monkeypatch):
    monkeypatch.setattr(comparison, "features_of", None)
    with pytest.raises(UnknownNameError, match=r"Unknown protocol\. Did you mean 'knn'"):
        sslzoo.compare(["simclr-digits", "simvae-digits"], "digits", protocols="kn")
    with pytest.raises(UnknownNameError, match="simclr-digits"):
        sslzoo.compare(["simvae-digits", "simclr-digit"], "digits")
    with pytest.raises(InvalidInputError, match="must hold at least 2 classes"):
        sslzoo.compare({"a": features(1), "b": features(2)}, (0 * TRAIN, 0 * TEST))


def test_labels_of_photographs_of_several_sizes_are_read_at_the_size_asked_for(tmp_path):
    for split, count in (("train", 12), ("test", 6)):
        for number in range(count):
            (tmp_path / split / "ab"[number % 2]).mkdir(parents=True, exist_ok=True)
            image = Image.new("RGB", (20 + number, 24), (number, 0, 0))
            image.save(tmp_path / split / "ab"[number % 2] / f"{number}.png")
    pairs = {name: (rng.normal(size=(12, 4)), rng.normal(size=(6, 4))) for name in "xy"}
    assert "x - y" in str(sslzoo.compare(pairs, tmp_path, image_size=16))
