"""The vision transformer: places on a grid and between, attention against NumPy, and any size."""

import math

import keras
import numpy as np
import pytest
from keras import ops

from sslzoo import networks
from sslzoo.errors import InvalidInputError
from sslzoo.zoo.reading import read


def views(*shape):
    return np.random.default_rng(0).uniform(size=shape).astype("float32")


def array(tensor):
    return ops.convert_to_numpy(tensor)


def small(shape=(32, 32, 3), **options):
    return networks.encoder("vit-tiny", shape, None, seed=0, **{"depth": 1, **options})


def places(network, x):
    return array(keras.Model(network.input, network.get_layer("positions").output)(x))


def test_places_are_the_learned_ones_on_the_grid_and_linear_between_its_points():
    network = small((None, None, 3), patch_size=4)
    table = network.get_layer("positions").get_weights()[0].reshape(14, 14, 192).astype("float64")
    assert table.std() == pytest.approx(0.02, rel=0.02)
    np.testing.assert_allclose(places(network, views(2, 56, 56, 3))[0], table, atol=1e-6)
    found = places(network, views(1, 28, 80, 3))[0]
    rows = 2 * np.arange(7) + 0.5  # centers of seven places on fourteen
    columns = np.clip((np.arange(20) + 0.5) / 20 * 14 - 0.5, 0, 13)
    expected = [[bilinear(table, row, column) for column in columns] for row in rows]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def bilinear(table, row, column):
    top, left = min(int(row), 12), min(int(column), 12)
    down, right = row - top, column - left
    upper = (1 - right) * table[top, left] + right * table[top, left + 1]
    lower = (1 - right) * table[top + 1, left] + right * table[top + 1, left + 1]
    return (1 - down) * upper + down * lower


def reference(network, x):
    """`vit` of one block in float64, straight from its table."""
    weights = {layer.name: [w.astype("float64") for w in layer.get_weights()] for layer in network.layers}

    def dense(h, name):
        return h @ weights[name][0] + weights[name][1]

    def norm(h, name):
        h = (h - h.mean(-1, keepdims=True)) / np.sqrt(h.var(-1, keepdims=True) + 1e-6)
        return h * weights[name][0] + weights[name][1]

    n, size = len(x), 4
    side = x.shape[1] // size
    patches = x.reshape(n, side, size, side, size, 3).transpose(0, 1, 3, 2, 4, 5).reshape(n, side * side, -1)
    kernel, bias = weights["patches"]
    h = patches @ kernel.reshape(-1, 192) + bias + weights["positions"][0]
    y = norm(h, "block1_norm1")
    q, qb, k, kb, v, vb, o, ob = weights["block1_attention"]
    query, key, value = (np.einsum("bnd,dhe->bhne", y, w) + b[:, None] for w, b in ((q, qb), (k, kb), (v, vb)))
    scores = query @ key.transpose(0, 1, 3, 2) / 8  # the root of 64
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    attended = scores / scores.sum(-1, keepdims=True) @ value
    h = h + np.einsum("bhne,hed->bnd", attended, o) + ob
    y = dense(norm(h, "block1_norm2"), "block1_dense1")
    y = y * (1 + np.vectorize(math.erf)(y / math.sqrt(2))) / 2
    return norm(h + dense(y, "block1_dense2"), "norm").mean(1)


def test_it_equals_numpy():
    network, x = small(), views(2, 32, 32, 3)
    np.testing.assert_allclose(array(network(x)), reference(network, x.astype("float64")), atol=2e-5)


def test_initial_weights_are_the_same_on_every_backend():
    features = array(networks.encoder("vit-tiny", (32, 32, 3), None, seed=0, depth=2)(views(2, 32, 32, 3)))
    np.testing.assert_allclose(features[0, :3], [-0.467817, -0.4572, 0.483724], atol=1e-5)
    kernel = small().get_layer("block1_attention").get_weights()[0]
    assert np.abs(kernel).max() == pytest.approx(math.sqrt(3 / 192), rel=0.01)


@pytest.mark.parametrize("side, patch", [(32, 4), (96, 8), (224, 16), (None, 16)])
def test_patches_grow_with_images(side, patch):
    assert small((side, side, 3)).get_layer("patches").kernel_size == (patch, patch)


def test_any_size_after_reading_it_back(tmp_path):
    network = small((None, None, 5), patch_size=8)
    model = networks.compose(None, network)
    model.save(tmp_path / "vit.keras")
    again = read(tmp_path / "vit.keras")
    for side in (16, 40):
        x = views(2, side, side + 8, 5)
        np.testing.assert_array_equal(array(again(x)), array(network(x)))


@pytest.mark.parametrize("options", [{"patch_size": 0}, {"patch_size": 64}, {"width": 100}])
def test_what_does_not_fit_is_refused(options):
    with pytest.raises(InvalidInputError, match="Received:"):
        small(**options)
