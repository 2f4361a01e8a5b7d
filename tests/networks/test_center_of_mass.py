"""Centers of mass in closed form, and the encoder that ends in them."""

import json
import math

import keras
import numpy as np
import pytest
from keras import ops
from oracle import check

from sslzoo.data import moving_balls
from sslzoo.errors import InvalidInputError
from sslzoo.networks import center_of_mass_encoder
from sslzoo.networks.center_of_mass import center_of_mass
from sslzoo.networks.composition import compose
from sslzoo.zoo import reading


def to_numpy(tensor):
    return ops.convert_to_numpy(tensor)


def in_pixels(centers, size):
    """From -1..1 between the edges to pixels, the center of the first of which is 0."""
    return (to_numpy(centers).astype("float64") + 1) * size / 2 - 0.5


def disc(x, y, size=256, diameter=32):
    rows, columns = np.mgrid[:size, :size]
    return (np.hypot(columns - x, rows - y) <= diameter / 2).astype("float32")[None, :, :, None]


def reference(maps):
    height, width = maps.shape[1:3]
    rows, columns = np.mgrid[:height, :width]
    centers = []
    for image in maps:
        for k in range(maps.shape[-1]):
            mass = image[..., k] / image[..., k].sum()
            centers += [((2 * columns + 1) / width - 1) * mass, ((2 * rows + 1) / height - 1) * mass]
    return np.array([c.sum() for c in centers]).reshape(len(maps), -1)


def test_one_disc_lies_exactly_where_it_is():
    np.testing.assert_allclose(in_pixels(center_of_mass(disc(100, 60)), 256), [[100, 60]], atol=1e-4)


def test_a_background_of_one_half_hides_the_disc():
    """Why training stands still at first: the ball is 1.2 % of the pixels."""
    half = 0.5 + 0.5 * disc(100, 60)
    np.testing.assert_allclose(in_pixels(center_of_mass(half), 256), [[127.2, 126.7]], atol=0.06)


def test_values_and_gradients_equal_a_float64_reference_on_images_that_are_not_square():
    rng = np.random.default_rng(0)
    maps, weights = rng.uniform(0.1, 1, (2, 4, 7, 3)), rng.normal(size=(2, 6)).astype("float32")
    check(lambda m: ops.sum(ops.multiply(weights, center_of_mass(m))), lambda m: (weights * reference(m)).sum(), maps)


def test_corners_scale_and_resolution():
    corner = np.zeros((1, 8, 8, 1), "float32")
    corner[0, 0, 7] = 1.0  # top right
    np.testing.assert_allclose(to_numpy(center_of_mass(corner)), [[7 / 8, -7 / 8]], atol=1e-6)
    maps = np.random.default_rng(0).uniform(size=(2, 8, 8, 2)).astype("float32")
    centers = to_numpy(center_of_mass(maps))
    np.testing.assert_allclose(to_numpy(center_of_mass(1e-6 * maps)), centers, atol=1e-5)
    finer = maps.repeat(2, axis=1).repeat(3, axis=2)
    np.testing.assert_allclose(to_numpy(center_of_mass(finer)), centers, atol=1e-6)


def test_an_empty_map_has_its_center_in_the_middle():
    np.testing.assert_array_equal(to_numpy(center_of_mass(np.zeros((1, 4, 4, 2), "float32"))), np.zeros((1, 4)))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_of_half_precision_maps_are_taken_in_float32(dtype):
    """65536 pixels of 1.0: the sum is beyond float16, and beyond what bfloat16 can count to."""
    maps = ops.cast(np.ones((1, 256, 256, 1), "float32"), dtype)
    centers = center_of_mass(maps)
    assert keras.backend.standardize_dtype(centers.dtype) == "float32"
    np.testing.assert_allclose(to_numpy(centers), [[0, 0]], atol=1e-5)


def test_the_encoder_is_that_of_the_paper():
    model = center_of_mass_encoder((16, 12, 3), seed=0)
    assert model.output_shape == (None, 6)
    assert [tuple(model.get_layer(name).kernel.shape) for name in ("conv1", "conv2")] == [(3, 3, 3, 6), (3, 3, 6, 3)]
    assert model.get_layer("maps").output.shape == (None, 16, 12, 3)
    norms = [model.get_layer(name) for name in ("bn1", "bn2")]
    assert {(norm.epsilon, norm.momentum) for norm in norms} == {(1e-5, 0.9)}
    assert all(layer.supports_jit for layer in model.layers if isinstance(layer, keras.Layer))


def test_the_encoder_equals_its_layers():
    model = center_of_mass_encoder((8, 8, 3), maps=2, hidden=4, seed=0)
    images = np.random.default_rng(0).random((3, 8, 8, 3), "float32")
    maps = to_numpy(keras.Model(model.inputs, model.get_layer("maps").output).predict(images, verbose=0))
    assert maps.shape == (3, 8, 8, 2) and maps.min() > 0 and maps.max() < 1
    np.testing.assert_allclose(to_numpy(model(images)), reference(maps.astype("float64")), atol=1e-5)


def test_a_map_that_sees_one_color_follows_that_ball():
    """Weights set by hand: the network can do what the paper asks of it."""
    images, positions = moving_balls.moving_balls(6, 128, seed=1)
    model = center_of_mass_encoder((128, 128, 3), maps=3, hidden=6, seed=0)
    background, colors = (np.array(c) / 255.0 for c in (moving_balls.BACKGROUND, moving_balls.COLORS))
    kernel = np.zeros((3, 3, 3, 6))
    kernel[1, 1, :, :3] = np.linalg.inv(colors - background)  # color of ball k, without the background -> e_k
    kernel[1, 1, :, 3:] = kernel[1, 1, :, :3]
    pick = np.zeros((3, 3, 6, 3))
    pick[1, 1, :3] = np.eye(3)
    model.get_layer("conv1").kernel.assign(kernel)
    model.get_layer("bn1").beta.assign(np.r_[-(background @ kernel[1, 1])[:3] - 0.5, 0, 0, 0])
    model.get_layer("conv2").kernel.assign(pick)
    model.get_layer("bn2").gamma.assign(np.full(3, 100.0))
    model.get_layer("bn2").beta.assign(np.full(3, -25.0))
    found = in_pixels(model(images.astype("float32") / 255), 128).reshape(6, 3, 2)
    np.testing.assert_allclose(found, positions, atol=0.2)


def test_the_encoder_is_portable_and_survives_writing(tmp_path):
    """Core Keras alone in the file: raw pixels in, after a rescaling, and the same numbers when read back."""
    model = center_of_mass_encoder((8, 8, 3), seed=0)
    assert "sslzoo" not in json.dumps(json.loads(model.to_json()))
    rescaling = keras.Sequential([keras.Input((8, 8, 3)), keras.layers.Rescaling(1 / 255)])
    whole = compose(rescaling, model)
    images = np.random.default_rng(0).integers(0, 256, (3, 8, 8, 3), dtype="uint8")
    expected = to_numpy(model(images.astype("float32") / 255))
    np.testing.assert_allclose(to_numpy(whole(images)), expected, atol=1e-5)
    whole.save(tmp_path / "encoder.keras")
    np.testing.assert_allclose(to_numpy(reading.read(tmp_path / "encoder.keras")(images)), expected, atol=1e-5)


def test_a_seed_fixes_the_weights():
    first, again, other = (center_of_mass_encoder((8, 8, 3), seed=seed) for seed in (1, 1, 2))
    for a, b in zip(first.get_weights(), again.get_weights()):
        np.testing.assert_array_equal(a, b)
    assert np.abs(first.get_weights()[0] - other.get_weights()[0]).max() > 0.1
    spread = np.std(center_of_mass_encoder((8, 8, 3), hidden=400, seed=0).get_weights()[0])
    assert spread == pytest.approx(math.sqrt(2 / (9 * 400)), rel=0.05)  # He normal, fan out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((8, 8),), "input_shape must be \\(height, width, channels\\)"),
        (((8, 8, 3), 0), "maps must be an integer >= 1. Received: maps=0"),
        (((8, 8, 3), 3, -1), "hidden must be an integer >= 1. Received: hidden=-1"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        center_of_mass_encoder(*arguments)
