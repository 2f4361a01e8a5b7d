"""The style probe: what it draws, what it applies, its regressions against their formulas, and what it tells apart."""

import keras
import numpy as np
import pytest
from sklearn.metrics import r2_score

import sslzoo
from sslzoo import data
from sslzoo.errors import InvalidInputError
from sslzoo.evaluation import style


def test_styles_are_in_their_ranges_and_a_function_of_the_seed():
    styles = style.draw(4000, color=True, seed=3)
    again, other = style.draw(4000, color=True, seed=3), style.draw(4000, color=True, seed=4)
    for name, amounts in styles.items():
        assert amounts.dtype == np.float64
        np.testing.assert_array_equal(amounts, again[name])
        assert not np.array_equal(amounts, other[name])
    assert set(np.unique(styles["flip"])) == {-1, 1} and abs(styles["flip"].mean()) < 0.06
    side = styles["size"]
    assert (side**2).min() >= 0.4 and side.max() <= 1
    assert abs(np.mean(side**2) - 0.7) < 0.01  # the area is uniform
    assert (styles["position"] - side / 2).min() >= 0 and (styles["position"] + side / 2).max() <= 1 + 1e-12
    assert np.abs(styles["hue"]).max() <= 0.2 and 0.2 <= styles["brightness"].min() <= styles["brightness"].max() <= 1.8
    assert set(style.draw(2, color=False)) == {"flip", "position", "size"}


def plain(count, color=True):
    """Styles that leave images as they are."""
    styles = {"flip": -np.ones((count, 1)), "position": np.full((count, 2), 0.5), "size": np.ones((count, 1))}
    return styles | ({"hue": np.zeros((count, 1)), "brightness": np.ones((count, 1))} if color else {})


def test_applied_is_what_the_style_says():
    images = np.random.default_rng(0).integers(0, 256, (3, 8, 6, 3)).astype("uint8")
    np.testing.assert_allclose(style.apply(images, plain(3)), images, atol=2e-3)
    upside_down = plain(3) | {"flip": np.array([[1.0], [-1], [1]])}
    expected = np.stack([images[0, ::-1], images[1], images[2, ::-1]])
    np.testing.assert_allclose(style.apply(images, upside_down), expected, atol=2e-3)
    darker = plain(3) | {"brightness": np.array([[0.5], [1], [0.25]])}
    expected = images * np.array([0.5, 1, 0.25])[:, None, None, None]
    np.testing.assert_allclose(style.apply(images, darker), expected, atol=2e-3)
    # A turn by a third of the circle takes red to green, green to blue, blue to red.
    turned = style.apply(images, plain(3) | {"hue": np.full((3, 1), 1 / 3)})
    np.testing.assert_allclose(turned, images[..., [2, 0, 1]], atol=2e-2)


def test_a_crop_is_a_crop():
    """The upper left quarter, twice as large: what slicing and resizing gives."""
    images = np.random.default_rng(1).integers(0, 256, (2, 8, 8, 1)).astype("uint8")
    styles = plain(2, color=False) | {"size": np.full((2, 1), 0.5), "position": np.full((2, 2), 0.25)}
    found = style.apply(images, styles)
    assert found.shape == (2, 8, 8, 1)
    sliced = keras.ops.image.resize(images[:, :4, :4].astype("float32"), (8, 8), data_format="channels_last")
    inner = np.s_[:, :7, :7]  # the last row and column reach across the edge of the box, which is inside a pixel here
    np.testing.assert_allclose(found[inner], keras.ops.convert_to_numpy(sliced)[inner], atol=1e-2)


def test_linear_ridge_is_the_least_squares_solution():
    rng = np.random.default_rng(0)
    x, new = rng.normal(size=(40, 3)) + 5, rng.normal(size=(7, 3)) + 5
    weights = rng.normal(size=(3, 2))
    np.testing.assert_allclose(
        style.linear_ridge(x, x @ weights + 2, new, ridge=1e-12), new @ weights + 2, rtol=1e-8, atol=1e-8
    )
    y, ridge = rng.normal(size=(40, 2)), 0.3
    augmented = np.vstack([x - x.mean(0), np.sqrt(40 * ridge * (x.var(0).mean())) * np.eye(3)])
    expected, *_ = np.linalg.lstsq(augmented, np.vstack([y - y.mean(0), np.zeros((3, 2))]), rcond=None)
    expected = (new - x.mean(0)) @ expected + y.mean(0)
    np.testing.assert_allclose(style.linear_ridge(x, y, new, ridge), expected, rtol=1e-9)


def test_kernel_ridge_against_its_formula():
    rng = np.random.default_rng(0)
    x, y, new = rng.normal(size=(30, 4)), rng.normal(size=(30, 2)), rng.normal(size=(5, 4))
    squared = ((x[:, None] - x[None]) ** 2).sum(-1)
    width = np.median(squared[np.triu_indices(30, 1)])
    gram = np.exp(-squared / (2 * width)) + 0.1 * np.eye(30)
    across = np.exp(-((new[:, None] - x[None]) ** 2).sum(-1) / (2 * width))
    expected = y.mean(0) + across @ np.linalg.solve(gram, y - y.mean(0))
    found = style.kernel_ridge(x, y, new, ridges=(0.1,))
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    # Invariant to where features lie, how large they are and which way they are turned.
    turn, _ = np.linalg.qr(rng.normal(size=(4, 4)))
    moved = style.kernel_ridge(9 * x @ turn + 4, y, 9 * new @ turn + 4, ridges=(0.1,))
    np.testing.assert_allclose(moved, found, rtol=1e-7)


def test_each_target_has_the_ridge_that_suits_it():
    rng = np.random.default_rng(0)
    x, new = rng.uniform(-1, 1, (200, 1)), np.linspace(-0.9, 0.9, 50)[:, None]
    noise = rng.normal(size=(200, 1))
    found = style.kernel_ridge(x, np.hstack([np.sin(6 * x), noise]), new)
    assert r2_score(np.sin(6 * new), found[:, :1]) > 0.98  # takes the least ridge
    assert found[:, 1].std() < 0.3  # takes the largest: there is nothing to learn
    assert not np.isnan(style.kernel_ridge(np.ones((9, 2)), rng.normal(size=(9, 1)), np.ones((3, 2)))).any()


def pictures(rows, seed):
    """A bright spot in a dark image: it shows where the crop was and which way is up."""
    images = np.full((rows, 8, 8, 3), 20, np.uint8)
    images[:, 2:4, 3:5] = [200, 120, 60]
    return images + np.random.default_rng(seed).integers(0, 8, images.shape).astype("uint8")


def test_pixels_keep_style_and_a_constant_keeps_none():
    train, test = pictures(400, 0), pictures(200, 1)
    pixels = keras.Sequential([keras.Input((8, 8, 3)), keras.layers.Flatten()])
    kept = style.scores(pixels, train, test)
    assert list(kept)[:6] == ["kept", "flip_accuracy", "position_r2", "size_r2", "hue_r2", "brightness_r2"]
    assert kept["flip_accuracy"] > 0.85 and kept["brightness_r2"] > 0.9 and kept["kept"] > 0.6
    assert kept == style.scores(pixels, train, test)
    parts = [kept[f"{n}_r2"] for n in ("position", "size", "hue", "brightness")]  # no views turn images upside down
    assert kept["kept"] == pytest.approx(np.mean(np.clip(parts, 0, None)))

    brightness = keras.Sequential([keras.Input((8, 8, 3)), keras.layers.GlobalAveragePooling2D()])
    seen = style.scores(brightness, train, test)
    assert seen["brightness_r2"] > 0.5 > seen["position_r2"] + 0.3  # a mean over the image has no place

    nothing = keras.Sequential([keras.Input((8, 8, 3)), keras.layers.Rescaling(0.0), keras.layers.Flatten()])
    none = style.scores(nothing, train, test)
    assert none["kept"] < 0.08 and abs(none["position_r2"]) < 0.05
    with pytest.raises(InvalidInputError, match="at least 8 train"):
        sslzoo.evaluate(pixels, ((train[:7], None), (test, None)), "style")


def test_of_images_in_files_only_the_chosen_are_read():
    train, test, read = pictures(300, 0), pictures(200, 1), []

    def in_files(images):
        return data.StreamedImages(range(len(images)), lambda row: read.append(row) or images[row], images.shape[1:])

    pixels = keras.Sequential([keras.Input((8, 8, 3)), keras.layers.Flatten()])
    scores = style.scores(pixels, in_files(train), in_files(test), most=(40, 20))
    assert len(read) == 60
    assert scores == style.scores(pixels, train, test, most=(40, 20))


def test_images_that_are_sorted_by_class_are_judged_as_in_any_order(monkeypatch):
    monkeypatch.setattr(style, "features", lambda encoder, images, batch_size: images.reshape(len(images), -1) / 255.0)
    grounds = np.random.default_rng(9).integers(0, 160, (10, 8, 8, 1))

    def sets(count, seed):
        images = grounds[np.arange(count) * 10 // count].copy()
        images[:, 2:4, 3:5] = 240
        return (images + np.random.default_rng(seed).integers(0, 8, images.shape)).astype("uint8")

    train, test = sets(240, 0), sets(120, 1)
    mixed = train[np.random.default_rng(3).permutation(240)]
    by_class, anyhow = (style.scores(None, images, test)["position_r2"] for images in (train, mixed))
    assert by_class == pytest.approx(anyhow, abs=0.04)
    assert style.scores(None, train, test, in_no_order=True)["position_r2"] < anyhow - 0.06  # as the ridge is chosen


def test_in_a_report():
    train, test = pictures(60, 0)[..., :1], pictures(30, 1)[..., :1]
    splits = ((train, np.arange(60) % 2), (test, np.arange(30) % 2))
    pixels = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Flatten()])
    report = sslzoo.evaluate(pixels, splits, "style")
    assert list(report) == ["style"] and report.headline == {"style": report["style"]["kept"]}
    assert "hue_r2" not in report["style"] and report.protocols["style"]["train"] == 60
    assert [metric["name"] for metric in report.metrics()] == [
        "style.kept",
        "style.flip_accuracy",
        "style.position_r2",
        "style.size_r2",
    ]
    assert report["style"] == sslzoo.evaluate(pixels, splits, ("style",))["style"]
    assert report["style"] != sslzoo.evaluate(pixels, splits, ("style",), seed=1)["style"]
    with pytest.raises(InvalidInputError, match="style_images"):
        sslzoo.evaluate(pixels, splits, "style", style_images=3)
