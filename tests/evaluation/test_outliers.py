"""Outlier scores against closed forms and differences."""

import keras
import numpy as np
import pytest
from keras import ops

from sslzoo.errors import InvalidInputError
from sslzoo.evaluation import outliers
from sslzoo.networks import initialize


def network(outputs=3, activation=None, seed=0):
    images = keras.Input((4, 4, 1))
    x = keras.layers.Flatten()(keras.layers.Rescaling(1 / 127.5, -1.0)(images))
    if activation:
        x = keras.layers.Dense(6, activation=activation)(keras.layers.BatchNormalization()(x))
    return initialize(keras.Model(images, keras.layers.Dense(outputs)(x)), seed)


def images(n=7, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, 4, 4, 1)).astype("uint8")


def test_the_slope_of_a_linear_density_is_its_weights():
    model = network(outputs=1)
    kernel = ops.convert_to_numpy(model.layers[-1].kernel)
    expected = -np.linalg.norm(kernel) / 127.5
    np.testing.assert_allclose(outliers.scores(model, images()), np.full(7, expected), rtol=1e-5)


def test_scores_equal_differences_of_the_density():
    model, x = network(activation="tanh"), images(3).astype("float64")

    def f(x):
        logits = model.predict(x.astype("float32"), verbose=0).astype("float64")
        return np.log(np.exp(logits).sum(1))

    slopes = np.zeros((3, 16))
    for pixel in range(16):
        step = np.zeros(16)
        step[pixel] = 2.0
        step = step.reshape(4, 4, 1)
        slopes[:, pixel] = (f(x + step) - f(x - step)) / 4
    np.testing.assert_allclose(outliers.scores(model, x, noise=0), -np.linalg.norm(slopes, axis=1), rtol=2e-3)


def test_batches_do_not_matter_and_noise_is_repeatable():
    model, x = network(activation="tanh"), images(7)
    whole = outliers.scores(model, x, batch_size=7)
    np.testing.assert_allclose(outliers.scores(model, x, batch_size=3), whole, rtol=1e-5)
    assert not np.allclose(outliers.scores(model, x, seed=1), whole, rtol=1e-5)
    clean = outliers.scores(model, x, noise=0.0)
    assert 0 < np.abs(clean - whole).max() < 0.2 * np.abs(clean).max()


@pytest.mark.parametrize("high", [255, 4095])
def test_noise_is_on_the_scale_of_minus_one_to_one(monkeypatch, high):
    seen = []
    monkeypatch.setattr(outliers, "run", lambda compiled, x, batch_size: [seen.append(x) or np.ones_like(x)])
    inputs = keras.Input((4, 4, 1))
    unit = keras.layers.Rescaling(1 / high, name="unit_range")(inputs)
    outliers.scores(keras.Model(inputs, keras.layers.Flatten()(unit)), np.full((500, 4, 4, 1), high // 2), noise=0.03)
    assert seen[0].std() == pytest.approx(0.03 * high / 2, rel=0.05)


def test_scoring_leaves_the_network_alone():
    model = network(activation="relu")
    before = [ops.convert_to_numpy(v) for v in model.variables]
    outliers.scores(model, images())
    for old, new in zip(before, model.variables):
        np.testing.assert_array_equal(old, ops.convert_to_numpy(new))


def test_auroc_is_the_chance_that_inside_scores_higher():
    assert outliers.auroc(np.array([3.0, 4.0]), np.array([1.0, 2.0])) == 1.0
    assert outliers.auroc(np.array([1.0, 2.0]), np.array([3.0, 4.0])) == 0.0  # inverted, and told so
    assert outliers.auroc(np.zeros(5), np.zeros(4)) == 0.5
    inside, outside = np.array([0.0, 2.0, 3.0]), np.array([1.0, 2.0])
    wins = np.mean([(a > b) + 0.5 * (a == b) for a in inside for b in outside])
    assert outliers.auroc(inside, outside) == pytest.approx(wins)


def test_slopes_find_images_on_the_steep_side():
    """f = log(exp(0) + exp(w.x)) is flat where w.x is low and steep where it is high."""
    model = network(outputs=2)
    kernel = np.zeros((16, 2), "float32")
    kernel[:, 1] = 0.5
    model.layers[-1].set_weights([kernel, np.zeros(2)])
    dark, bright = np.full((9, 4, 4, 1), 60, "uint8"), np.full((8, 4, 4, 1), 200, "uint8")
    inside = outliers.scores(model, dark)
    assert outliers.auroc(inside, outliers.scores(model, bright)) == 1.0
    assert 0.2 < outliers.auroc(inside, outliers.scores(model, dark, seed=1)) < 0.8


def test_images_and_networks_that_do_not_fit_are_refused():
    with pytest.raises(InvalidInputError, match=r"must fit the encoder's input.*\(7, 5, 5, 1\)"):
        outliers.scores(network(), np.zeros((7, 5, 5, 1)))
    broken = images().astype("float32")
    broken[2, 0] = np.nan
    with pytest.raises(InvalidInputError, match=r"images must be finite.*Received: 1 of 7 rows"):
        outliers.scores(network(), broken)
    maps = keras.Sequential([keras.Input((4, 4, 1)), keras.layers.Conv2D(2, 3)])
    with pytest.raises(InvalidInputError, match=r"one output \(B, K\)"):
        outliers.scores(maps, images())
    with pytest.raises(InvalidInputError, match="noise must be a number >= 0"):
        outliers.scores(network(), images(), noise=-1.0)
