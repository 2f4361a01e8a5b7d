"""Transforms against references in NumPy, colorsys, SciPy and Pillow, and draws against the distributions they name."""

import colorsys
import itertools
import json
import math
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import scipy.ndimage
import scipy.stats
from keras import ops
from PIL import Image, ImageEnhance

from sslzoo import augment
from sslzoo.augment import rotation
from sslzoo.augment.transform import Stream
from sslzoo.errors import InvalidInputError


def array(x):
    return ops.convert_to_numpy(x)


def compiled(function):
    """Under JAX one program instead of a hundred small ones; elsewhere eager is the quicker way."""
    if keras.backend.backend() == "jax":
        import jax

        return jax.jit(function, compiler_options={"xla_backend_optimization_level": 0})
    return function


def run(step, images, seed=0):
    return array(compiled(lambda x, s: step(x, training=True, seed=s))(ops.convert_to_tensor(images), seed))


def transform(step, images, **given):
    """`transform_images` with the draws that are `given`."""
    return array(compiled(step.transform_images)(ops.convert_to_tensor(images), tensors(**given)))


def draws(step, images_shape, seed=0, **kwargs):
    images = ops.zeros(images_shape, dtype="float32")
    draw = compiled(lambda s: step.get_random_transformation(images, seed=step.stream(s), **kwargs))
    return {name: array(value) for name, value in draw(seed).items()}


def pictures(*shape, seed=0):
    return np.random.default_rng(seed).uniform(0, 1, shape).astype("float32")


def tensors(**values):
    return {name: ops.convert_to_tensor(np.asarray(value, "float32")) for name, value in values.items()}


# ----------------------------------------------------------------------------------------------------------------------
# Crops and shifts


def box_draws(boxes):
    return dict(zip(("top", "left", "height", "width"), zip(*boxes)))


BOXES = [(0, 0, 12, 10), (3, 1, 7, 9), (11, 9, 1, 1), (2, 0, 5, 10), (0, 3, 12, 2)]  # top, left, height, width


@pytest.mark.parametrize("size", [(12, 10), (5, 4), (20, 33)])
@pytest.mark.parametrize("channels", [1, 3])
def test_crop_equals_slice_then_resize(size, channels):
    images = pictures(len(BOXES), 12, 10, channels)
    ours = transform(augment.RandomResizedCrop(size), images, **box_draws(BOXES))
    for image, (top, left, height, width), crop in zip(images, BOXES, ours):
        part = image[top : top + height, left : left + width]
        if channels == 3:
            np.testing.assert_allclose(crop, array(ops.image.resize(part, size, antialias=True)), atol=1e-5)
        for channel in range(channels):
            pillow = Image.fromarray(np.ascontiguousarray(part[..., channel])).resize(size[::-1], Image.BILINEAR)
            np.testing.assert_allclose(crop[..., channel], np.asarray(pillow), atol=1e-5)


def test_crop_makes_views_of_one_image_side_by_side():
    images = pictures(len(BOXES), 12, 10, 3)
    crop, boxes = augment.RandomResizedCrop((5, 4)), box_draws(BOXES + BOXES[::-1])
    together = transform(crop, images, **boxes)
    apart = transform(crop, np.repeat(images, 2, axis=0), **boxes)
    np.testing.assert_allclose(together, apart, atol=1e-6)


def torchvision_boxes(rng, count, height, width, scale, ratio):
    """`RandomResizedCrop.get_params` of torchvision, in its own words: one image at a time, float64."""
    boxes = []
    for _ in range(count):
        for _ in range(10):
            area = rng.uniform(*scale) * height * width
            aspect = math.exp(rng.uniform(*np.log(ratio)))
            w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
            if 0 < w <= width and 0 < h <= height:
                boxes.append((rng.integers(0, height - h + 1), rng.integers(0, width - w + 1), h, w))
                break
        else:
            raise AssertionError("no fallback in this test")
    return np.array(boxes)


def test_boxes_are_distributed_as_torchvision_draws_them():
    count, height, width = 20_000, 28, 32
    crop = augment.RandomResizedCrop(scale=(0.2, 1.0), ratio=(0.75, 1.3))
    box = draws(crop, (1, height, width, 1), count=count)
    ours = np.stack([box[name] for name in ("top", "left", "height", "width")], axis=1)
    assert np.array_equal(ours, np.round(ours))
    ours = ours.astype("int64")  # float32 ratios would break ties with the reference
    assert (ours >= [0, 0, 1, 1]).all()
    assert (ours[:, :2] + ours[:, 2:] <= [height, width]).all()
    assert (ours[:, 0] == 0).any() and (ours[:, 0] + ours[:, 2] == height).any()

    theirs = torchvision_boxes(np.random.default_rng(0), count, height, width, (0.2, 1.0), (0.75, 1.3))
    for name, statistic in {
        "area": lambda b: b[:, 2] * b[:, 3] / (height * width),
        "log ratio": lambda b: np.log(b[:, 3] / b[:, 2]),
        "center y": lambda b: b[:, 0] + b[:, 2] / 2,
        "center x": lambda b: b[:, 1] + b[:, 3] / 2,
    }.items():
        distance = scipy.stats.ks_2samp(statistic(ours), statistic(theirs)).statistic
        assert distance < 0.02, name  # 1.63 sqrt(2 / 20,000) = 0.016 is the 1% quantile


@pytest.mark.parametrize(
    "shape, expected", [((4, 64), (0, 29, 4, 5)), ((64, 4), (29, 0, 5, 4)), ((30, 32), (0, 0, 30, 32))]
)
def test_crop_falls_back_to_the_central_box(shape, expected):
    # At scale 1 a box fits only if it has the shape of the image, which the first two ratio ranges exclude.
    ratio = (0.8, 1.2) if shape != (30, 32) else (1.0666, 1.0667)
    crop = augment.RandomResizedCrop(scale=(1.0, 1.0), ratio=ratio)
    box = draws(crop, (5, *shape, 1))
    assert {tuple(row) for row in np.stack([box[n] for n in ("top", "left", "height", "width")], 1)} == {expected}


def test_crop_between_pixels_is_bilinear():
    image = (
        np.arange(8, dtype="float32")[:, None] + 10 * np.arange(6, dtype="float32")[None]
    )  # a plane: interpolation exact
    box = {"top": [1.25], "left": [0.5], "height": [4.5], "width": [3.6]}
    ours = transform(augment.RandomResizedCrop((6, 6), whole_pixels=False), image[None, ..., None], **box)[0, ..., 0]
    rows = 1.25 + (np.arange(6) + 0.5) * 4.5 / 6 - 0.5
    columns = 0.5 + (np.arange(6) + 0.5) * 3.6 / 6 - 0.5
    np.testing.assert_allclose(ours, rows[:, None] + 10 * columns[None], atol=1e-4)

    crop = augment.RandomResizedCrop(scale=(0.6, 1.0), whole_pixels=False)
    drawn = draws(crop, (1, 8, 8, 1), count=3000)
    for start, extent in (("top", "height"), ("left", "width")):
        assert drawn[start].min() >= 0 and (drawn[start] + drawn[extent]).max() <= 8 + 1e-5
        assert len(np.unique(drawn[extent])) > 2900
    assert drawn["height"].min() * drawn["width"].min() > 0.4 * 64


def test_shift_equals_pad_then_slice():
    shifts = list(itertools.product((-2, 0, 2), (-1, 0, 2)))
    images = pictures(len(shifts), 5, 6, 3)
    down, right = zip(*shifts)
    ours = transform(augment.RandomShift(2), images, down=down, right=right)
    for image, y, x, moved in zip(images, down, right, ours):
        padded = np.pad(image, ((2, 2), (2, 2), (0, 0)), mode="reflect")
        np.testing.assert_allclose(moved, padded[2 - y : 7 - y, 2 - x : 8 - x], atol=1e-6)


def test_shifts_are_uniform():
    shifts = draws(augment.RandomShift(2), (1, 8, 8, 1), count=5000)
    for name in ("down", "right"):
        values, counts = np.unique(shifts[name], return_counts=True)
        assert values.tolist() == [-2, -1, 0, 1, 2]
        assert scipy.stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("layer, axis", [(augment.HorizontalFlip, 2), (augment.VerticalFlip, 1)])
def test_flip(layer, axis):
    images = pictures(2000, 2, 3, 1)
    assert np.array_equal(run(layer(1.0), images), np.flip(images, axis))
    assert np.array_equal(run(layer(0.0), images), images)
    flipped = (run(layer(0.3), images) != images).any(axis=(1, 2, 3))
    assert abs(flipped.mean() - 0.3) < 0.04


def test_quarter_turns_are_those_of_numpy_each_as_likely():
    images = pictures(4, 6, 6, 2)
    out = transform(augment.QuarterTurn(), images, quarters=np.arange(4))
    np.testing.assert_array_equal(out, [np.rot90(image, turns) for turns, image in enumerate(images)])
    quarters = draws(augment.QuarterTurn(), (4000, 4, 4, 1))["quarters"]
    assert scipy.stats.chisquare(np.unique(quarters, return_counts=True)[1]).pvalue > 1e-3


@pytest.mark.parametrize("size", [(9, 9), (6, 11)])
def test_rotation_is_linear_between_pixels_and_reflects_the_border(size):
    images, angles = pictures(5, *size, 3), np.radians([0.0, 10.0, -33.0, 90.0, 180.0])
    out = transform(augment.Rotation(180.0), images, angle=angles)
    np.testing.assert_array_equal(out[0], images[0])
    middle = (np.array(size) - 1) / 2
    for image, angle, turned in zip(images.astype("float64"), angles, out):
        down, right = np.indices(size) - middle[:, None, None]
        places = np.cos(angle) * np.stack([down, right]) + np.sin(angle) * np.stack([right, -down])
        places = places + middle[:, None, None]
        expected = [
            scipy.ndimage.map_coordinates(plane, places, order=1, mode="mirror") for plane in image.T.swapaxes(1, 2)
        ]
        np.testing.assert_allclose(turned, np.stack(expected, axis=-1), atol=2e-6)
    if size[0] == size[1]:
        np.testing.assert_allclose(out[3], np.rot90(images[3]), atol=2e-6)


def test_rotations_are_uniform():
    angle = draws(augment.Rotation(30.0), (4000, 4, 4, 1))["angle"]
    assert scipy.stats.kstest(angle, scipy.stats.uniform(-np.pi / 6, np.pi / 3).cdf).pvalue > 1e-3


def test_blur_equals_the_truncated_gaussian():
    sigmas = [0.1, 0.7, 2.0]
    images = pictures(4, 9, 7, 3)
    ours = transform(augment.GaussianBlur(7), images, sigma=[*sigmas, 0.0])
    for image, sigma, blurred in zip(images.astype("float64"), sigmas, ours):
        kernel = np.exp(-0.5 * (np.arange(-3, 4) / sigma) ** 2)
        kernel /= kernel.sum()
        for axis in (0, 1):
            image = scipy.ndimage.correlate1d(image, kernel, axis=axis, mode="mirror")
        np.testing.assert_allclose(blurred, image, atol=2e-6)
    np.testing.assert_allclose(ours[3], images[3], atol=1e-7)


def test_blur_draws_a_width_for_each_image():
    blur = augment.GaussianBlur(3, sigma=(0.5, 1.5), probability=0.4)
    sigma = draws(blur, (4000, 4, 4, 1))["sigma"]
    assert abs((sigma > 0).mean() - 0.4) < 0.03
    drawn = sigma[sigma > 0]
    assert len(np.unique(drawn)) > 0.99 * len(drawn)
    assert scipy.stats.kstest(drawn, "uniform", (0.5, 1.0)).pvalue > 1e-3


# ----------------------------------------------------------------------------------------------------------------------
# Color


def reference_jitter(image, factors, order):
    """torchvision's ColorJitter on one float64 RGB image; `factors` by name, `order` the names from first to last."""

    def gray(x):
        return x @ np.array([0.299, 0.587, 0.114])

    for name in order:
        factor = factors[name]
        if name == "brightness":
            image = image * factor
        elif name == "contrast":
            image = factor * image + (1 - factor) * gray(image).mean()
        elif name == "saturation":
            image = factor * image + (1 - factor) * gray(image)[..., None]
        else:
            hsv = np.array([colorsys.rgb_to_hsv(*pixel) for pixel in image.reshape(-1, 3)])
            hsv[:, 0] = (hsv[:, 0] + factor) % 1.0
            image = np.array([colorsys.hsv_to_rgb(*pixel) for pixel in hsv]).reshape(image.shape)
        image = np.clip(image, 0, 1)
    return image


def test_jitter_in_each_of_the_24_orders():
    names = ("brightness", "contrast", "saturation", "hue")
    orders = list(itertools.permutations(names))
    rng = np.random.default_rng(1)
    images = pictures(24, 5, 4, 3, seed=1)
    images[:, 0, 0] = 0.5  # no hue
    images[:, 0, 1] = 0.0
    images[:, 0, 2] = (1.0, 0.0, 0.0)
    factors = {name: rng.uniform(0.2, 1.8, 24) for name in names[:3]} | {"hue": rng.uniform(-0.5, 0.5, 24)}
    place = np.array([[order.index(name) for name in names] for order in orders])
    jitter = augment.ColorJitter(0.8, 0.8, 0.8, 0.5)
    ours = transform(jitter, images, order=place, **factors)
    for i, order in enumerate(orders):
        single = {name: factors[name][i] for name in names}
        expected = reference_jitter(images[i].astype("float64"), single, order)
        np.testing.assert_allclose(ours[i], expected, atol=1e-5, err_msg=str(order))
    # The orders are not all one: the reference itself tells them apart.
    assert (
        np.abs(
            ours[0] - reference_jitter(images[0].astype("float64"), {n: factors[n][0] for n in names}, orders[-1])
        ).max()
        > 0.01
    )


def test_hue_equals_colorsys():
    turns = [-0.5, -0.3, -1 / 6, 0.0, 0.1, 1 / 3, 0.5]
    images = pictures(len(turns), 6, 6, 3, seed=2)
    images[:, 0] = [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (0, 1, 1), (1, 0, 1)]
    ours = transform(augment.ColorJitter(hue=0.5), images, order=np.zeros((len(turns), 4)), hue=turns)
    for image, turn, turned in zip(images.astype("float64"), turns, ours):
        np.testing.assert_allclose(turned, reference_jitter(image, {"hue": turn}, ["hue"]), atol=2e-6)


@pytest.mark.parametrize(
    "name, kind", [("brightness", "Brightness"), ("contrast", "Contrast"), ("saturation", "Color")]
)
def test_jitter_means_what_pillow_means(name, kind):
    factors = [0.0, 0.4, 1.0, 1.7]
    image = np.random.default_rng(0).integers(0, 256, (6, 5, 3)).astype("uint8")
    images = np.repeat(image[None] / np.float32(255), len(factors), axis=0)
    ours = transform(augment.ColorJitter(**{name: 1.0}), images, **{"order": np.zeros((4, 4)), name: factors})
    for factor, changed in zip(factors, ours):
        pillow = np.asarray(getattr(ImageEnhance, kind)(Image.fromarray(image)).enhance(factor)) / 255
        np.testing.assert_allclose(changed, pillow, atol=2.1 / 255)  # Pillow rounds to whole numbers on the way


def test_jitter_applies_each_operation_once_when_draws_tie():
    images = pictures(1, 3, 3, 3)
    factors = {"brightness": 0.9, "contrast": 0.8, "saturation": 0.7, "hue": 0.2}
    given = {name: [factor] for name, factor in factors.items()}
    ours = transform(augment.ColorJitter(0.5, 0.5, 0.5, 0.5), images, order=np.full((1, 4), 0.5), **given)
    order = ("hue", "brightness", "contrast", "saturation")
    np.testing.assert_allclose(ours[0], reference_jitter(images[0].astype("float64"), factors, order), atol=1e-5)


def test_gray_images_have_no_saturation_or_hue():
    images = pictures(4, 5, 5, 1)
    assert np.array_equal(run(augment.ColorJitter(saturation=0.9, hue=0.5), images), images)
    ours = run(augment.ColorJitter(contrast=(0.5, 0.5)), images)
    mean = images.mean(axis=(1, 2, 3), keepdims=True)
    np.testing.assert_allclose(ours, 0.5 * images + 0.5 * mean, atol=1e-6)


def test_jitter_draws():
    jitter = augment.ColorJitter(0.4, 1.5, (0.9, 1.0), 0.1, probability=0.7)
    drawn = draws(jitter, (6000, 2, 2, 3))
    jittered = drawn["hue"] != 0
    assert abs(jittered.mean() - 0.7) < 0.03
    for name, low, high in [
        ("brightness", 0.6, 1.4),
        ("contrast", 0.0, 2.5),
        ("saturation", 0.9, 1.0),
        ("hue", -0.1, 0.1),
    ]:
        assert scipy.stats.kstest(drawn[name][jittered], "uniform", (low, high - low)).pvalue > 1e-3, name
        assert (drawn[name][~jittered] == (0 if name == "hue" else 1)).all()
    _, counts = np.unique(np.argsort(drawn["order"], axis=1), axis=0, return_counts=True)
    assert len(counts) == 24 and scipy.stats.chisquare(counts).pvalue > 1e-3


def test_grayscale():
    image = np.random.default_rng(0).integers(0, 256, (6, 5, 3)).astype("uint8")
    pillow = np.asarray(Image.fromarray(image).convert("L")) / 255
    ours = run(augment.Grayscale(1.0), image[None] / np.float32(255))[0]
    np.testing.assert_allclose(ours, np.repeat(pillow[..., None], 3, -1), atol=1 / 255)
    images = pictures(2000, 2, 2, 3)
    turned = np.ptp(run(augment.Grayscale(0.2), images), axis=-1).max(axis=(1, 2)) < 1e-6
    assert abs(turned.mean() - 0.2) < 0.03
    assert np.array_equal(run(augment.Grayscale(1.0), images[..., :1]), images[..., :1])


def test_solarize():
    images = np.float32([0.1, 0.5, 0.9]).reshape(1, 1, 3, 1)
    ours = run(augment.Solarize(0.5), images)
    np.testing.assert_allclose(ours.ravel(), [0.1, 0.5, 0.1], atol=1e-7)
    assert np.array_equal(run(augment.Solarize(0.4, probability=0.0), images), images)


# ----------------------------------------------------------------------------------------------------------------------
# Values


def test_threshold_is_strictly_above():
    values = np.float32(
        [0.0, np.nextafter(np.float32(0.5), np.float32(0)), 0.5, np.nextafter(np.float32(0.5), np.float32(1)), 1]
    )
    assert array(augment.Threshold(0.5)(values[None])).tolist() == [[0, 0, 0, 1, 1]]


def test_normalize():
    images = pictures(2, 3, 3, 3)
    mean, std = (0.4, 0.5, 0.6), (0.1, 0.2, 0.3)
    np.testing.assert_allclose(array(augment.Normalize(mean, std)(images)), (images - mean) / std, atol=1e-5)
    np.testing.assert_allclose(array(augment.Normalize(0.5, 0.5)(images)), 2 * images - 1, atol=1e-6)


def test_normalize_as_a_layer_takes_channels_last_whatever_keras_is_set_to():
    images, before = pictures(2, 4, 5, 3), keras.config.image_data_format()
    expected = array(augment.Normalize((0.1, 0.2, 0.3), 0.5)(images))
    keras.config.set_image_data_format("channels_first")
    try:
        (layer,) = augment.Normalize((0.1, 0.2, 0.3), 0.5).core_layers(images.shape[1:], "normalize")
        np.testing.assert_allclose(array(layer(images)), expected, atol=1e-5)
    finally:
        keras.config.set_image_data_format(before)


def test_noise():
    images = np.zeros((50, 20, 20, 1), "float32")
    noise = run(augment.GaussianNoise(0.3), images)
    assert scipy.stats.kstest(noise.ravel() / 0.3, "norm").pvalue > 1e-3
    points = run(augment.GaussianNoise(0.3), np.zeros((5, 2), "float32"))
    assert points.shape == (5, 2) and np.unique(points).size == 10


def test_random_apply_mixes_whole_images():
    images = pictures(2000, 2, 2, 3)
    apply = augment.RandomApply(augment.Solarize(0.0), 0.3)
    out = run(apply, images)
    changed = np.isclose(out, 1 - images, atol=1e-6).all(axis=(1, 2, 3))
    assert np.array_equal(out[~changed], images[~changed])
    assert abs(changed.mean() - 0.3) < 0.04
    assert np.array_equal(array(apply(images, training=False)), images)


def test_random_apply_takes_keras_layers():
    images = pictures(500, 3, 4, 1)
    out = run(augment.RandomApply(keras.layers.RandomFlip("horizontal"), 0.5), images)
    flipped = (out == images[:, :, ::-1]).all(axis=(1, 2, 3))
    assert (flipped | (out == images).all(axis=(1, 2, 3))).all()
    assert abs(flipped.mean() - 0.25) < 0.08


def test_random_apply_refuses_another_shape():
    with pytest.raises(InvalidInputError, match="keeps the shape"):
        run(augment.RandomApply(augment.RandomResizedCrop(4)), pictures(1, 8, 8, 3))


# ----------------------------------------------------------------------------------------------------------------------
# What all transforms share


STEPS = {
    "crop": lambda **k: augment.RandomResizedCrop((7, 6), (0.3, 0.9), (0.7, 1.2), **k),
    "zoom": lambda **k: augment.RandomResizedCrop(whole_pixels=False, **k),
    "shift": lambda **k: augment.RandomShift(2, **k),
    "horizontal": lambda **k: augment.HorizontalFlip(0.4, **k),
    "vertical": lambda **k: augment.VerticalFlip(0.4, **k),
    "turn": lambda **k: augment.QuarterTurn(**k),
    "rotation": lambda **k: augment.Rotation(30.0, **k),
    "jitter": lambda **k: augment.ColorJitter(0.4, (0.5, 1.1), 0.2, 0.1, 0.9, **k),
    "gray": lambda **k: augment.Grayscale(0.5, **k),
    "blur": lambda **k: augment.GaussianBlur(5, (0.5, 1.0), 0.9, **k),
    "solarize": lambda **k: augment.Solarize(0.3, 0.5, **k),
    "noise": lambda **k: augment.GaussianNoise(0.1, **k),
    "apply": lambda **k: augment.RandomApply(augment.ColorJitter(0.4), 0.5, **k),
}
DETERMINISTIC = {
    "resize": lambda: augment.Resize((4, 5)),
    "threshold": lambda: augment.Threshold(0.4),
    "normalize": lambda: augment.Normalize((0.1, 0.2, 0.3), 0.5),
}


@pytest.mark.parametrize("name", STEPS)
def test_each_image_has_its_own_draw_and_a_seed_repeats_it(name):
    images = np.repeat(pictures(1, 8, 8, 3), 12, axis=0)
    step = STEPS[name]()
    call = compiled(lambda x, a, b: step(x, training=True, seed=(a, b)))
    first, second, again = (array(call(ops.convert_to_tensor(images), 1, b)) for b in (0, 1, 0))
    assert first.dtype == "float32"
    assert step(keras.Input((8, 8, 3))).shape == (None, *first.shape[1:])
    assert len(np.unique(first.round(5), axis=0)) >= 2
    assert not np.array_equal(first, second)
    assert np.array_equal(first, again)
    assert len(np.unique(array(step(images, training=False)), axis=0)) == 1
    assert step.supports_jit


@pytest.mark.parametrize("step", [augment.HorizontalFlip, lambda **k: augment.GaussianNoise(0.1, **k)])
def test_a_step_on_its_own_keeps_a_random_state(step):
    images = pictures(64, 2, 2, 1)
    step, twin = step(seed=5), step(seed=5)
    calls = [array(step(images)) for _ in range(3)]  # training by default, as in Keras' augmentation layers
    assert not np.array_equal(calls[0], calls[1])
    for expected in calls:
        assert np.array_equal(array(twin(images, training=True)), expected)
    state = array(step.generator.state).tolist()
    assert state == [5, 3]
    assert np.array_equal(array(step(images, training=False)), images)
    step(images, training=True, seed=1)
    assert array(step.generator.state).tolist() == state


@pytest.mark.parametrize("name", [*STEPS, *DETERMINISTIC])
def test_config_makes_the_same_layer(name):
    step = STEPS[name](seed=3) if name in STEPS else DETERMINISTIC[name]()
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(step)))
    assert config["registered_name"].startswith("sslzoo>")
    twin = keras.saving.deserialize_keras_object(config)
    assert type(twin) is type(step) and twin.get_config() == step.get_config()


def test_one_image_is_a_batch_of_one():
    image = pictures(8, 8, 3)
    crop = augment.RandomResizedCrop(4, seed=0)
    assert np.array_equal(run(crop, image), run(crop, image[None])[0])


def test_values_stay_float32_under_mixed_precision():
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        out = augment.GaussianBlur(3)(pictures(2, 8, 8, 3), training=True)
    finally:
        keras.config.set_dtype_policy("float32")
    assert keras.backend.standardize_dtype(out.dtype) == "float32"


def test_seeds_that_are_close_give_unrelated_draws():
    layer = augment.GaussianNoise(1.0)
    images = np.zeros((1, 32, 32, 1), "float32")
    seeds = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (0, 2)]
    noise = np.stack([array(layer(images, training=True, seed=seed)).ravel() for seed in seeds])
    correlation = np.corrcoef(noise) - np.eye(len(seeds))
    assert np.abs(correlation).max() < 0.15  # 1,024 numbers: 0.15 is nearly five standard deviations
    stream = layer.stream(0)
    draws = np.stack([array(keras.random.normal((1024,), seed=stream)) for _ in range(5)])
    assert np.abs(np.corrcoef(draws) - np.eye(5)).max() < 0.15


def test_a_seed_may_be_a_tensor():
    layer = augment.GaussianNoise(1.0)
    images = np.zeros((1, 4), "float32")
    expected = array(layer(images, training=True, seed=(3, 4)))
    for seed in (
        ops.convert_to_tensor([3, 4]),
        np.array([3, 4]),
        (3, np.int64(4)),
        (ops.convert_to_tensor(3), 4),
        [3, 4],
    ):
        assert np.array_equal(array(layer(images, training=True, seed=seed)), expected)
    assert np.array_equal(array(layer(images, training=True, seed=3)), array(layer(images, training=True, seed=(3, 0))))


# ----------------------------------------------------------------------------------------------------------------------
# Wrong input


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: augment.RandomResizedCrop(scale=(0.0, 1.0)), "scale"),
        (lambda: augment.RandomResizedCrop(scale=(0.5, 1.2)), "scale"),
        (lambda: augment.RandomResizedCrop(scale=(0.9, 0.2)), "scale"),
        (lambda: augment.RandomResizedCrop(scale=0.4), "scale"),
        (lambda: augment.RandomResizedCrop(ratio=(0.0, 1.0)), "ratio"),
        (lambda: augment.RandomResizedCrop(size=0), "size"),
        (lambda: augment.RandomResizedCrop(size=(8, 8, 3)), "size"),
        (lambda: augment.Resize(None), "size"),
        (lambda: augment.RandomShift(0), "pixels"),
        (lambda: augment.HorizontalFlip(1.5), "probability"),
        (lambda: augment.VerticalFlip("often"), "probability"),
        (lambda: augment.Rotation(181.0), "degrees"),
        (lambda: augment.ColorJitter(brightness=-0.1), "brightness"),
        (lambda: augment.ColorJitter(contrast=(1.0, 0.5)), "contrast"),
        (lambda: augment.ColorJitter(hue=0.6), "hue"),
        (lambda: augment.GaussianBlur(4), "kernel_size"),
        (lambda: augment.GaussianBlur(3, sigma=(0.0, 1.0)), "sigma"),
        (lambda: augment.GaussianNoise(-1.0), "stddev"),
        (lambda: augment.Threshold(0.0), "value"),
        (lambda: augment.Normalize(0.5, 0.0), "std"),
        (lambda: augment.Normalize("gray", 1.0), "mean"),
        (lambda: augment.RandomApply(lambda x: x), "step"),
        (lambda: augment.Grayscale(0.5, seed=-1), "seed"),
        (lambda: augment.Grayscale(0.5, seed=2**31), "seed"),
        (lambda: augment.Grayscale(0.5, seed=0.5), "seed"),
    ],
)
def test_wrong_arguments(make, message):
    with pytest.raises(InvalidInputError, match=f"{message} must be.*Received: {message}="):
        make()


@pytest.mark.parametrize(
    "step, shape, message",
    [
        (augment.ColorJitter(0.4), (2, 8, 8, 4), "1 .gray. or 3 .RGB. channels"),
        (augment.Grayscale(), (2, 8, 8, 2), "1 .gray. or 3 .RGB. channels"),
        (augment.HorizontalFlip(), (2, 8), "images .B, H, W, C."),
        (augment.QuarterTurn(), (2, 8, 6, 1), "square images"),
        (augment.RandomShift(4), (2, 4, 8, 1), "sides above 4"),
        (augment.GaussianBlur(9), (2, 8, 4, 1), "sides above 4"),
        (augment.Normalize((0.1, 0.2), 1.0), (2, 8, 8, 3), "2 channels"),
    ],
)
def test_wrong_images(step, shape, message):
    with pytest.raises(InvalidInputError, match=message):
        step(np.zeros(shape, "float32"), training=True)


@pytest.mark.parametrize("seed", [-1, 1.0, "one", (1, 2, 3), (1.0, 2), True])
def test_wrong_seeds(seed):
    with pytest.raises(InvalidInputError, match="seed"):
        augment.HorizontalFlip()(np.zeros((1, 2, 2, 1), "float32"), training=True, seed=seed)


# ----------------------------------------------------------------------------------------------------------------------
# Lab

# sRGB color -> L*a*b* under D65, as published in tables of color converters (Lindbloom's, to two decimals).
LAB = {
    (0, 0, 0): (0.0, 0.0, 0.0),
    (255, 255, 255): (100.0, 0.0, 0.0),
    (255, 0, 0): (53.24, 80.09, 67.20),
    (0, 255, 0): (87.73, -86.18, 83.18),
    (0, 0, 255): (32.30, 79.19, -107.86),
    (255, 255, 0): (97.14, -21.55, 94.48),
    (0, 255, 255): (91.11, -48.09, -14.13),
    (255, 0, 255): (60.32, 98.23, -60.82),
    (128, 128, 128): (53.59, 0.0, 0.0),
}


def test_lab_equals_published_colors():
    colors = np.array(list(LAB), "float32").reshape(1, 3, 3, 3) / 255
    found = array(augment.Lab(scaled=False)(colors)).reshape(-1, 3)
    np.testing.assert_allclose(found, list(LAB.values()), atol=0.02)


def test_scaled_lab_fills_minus_one_to_one_over_all_colors():
    levels = np.linspace(0, 1, 18, dtype="float32")
    cube = np.stack(np.meshgrid(levels, levels, levels), axis=-1).reshape(1, 18 * 18, 18, 3)
    plain, scaled = (array(augment.Lab(scaled=flag)(cube)).reshape(-1, 3) for flag in (False, True))
    np.testing.assert_allclose(scaled.min(axis=0), -1, atol=1e-3)
    np.testing.assert_allclose(scaled.max(axis=0), 1, atol=1e-3)
    np.testing.assert_allclose(scaled, (plain - [50, 6.025, -6.6895]) / [50, 92.208, 101.1675], rtol=1e-4, atol=1e-5)


def test_lab_of_gray_has_no_color_and_grows_with_it():
    gray = np.repeat(np.linspace(0, 1, 64, dtype="float32").reshape(1, 8, 8, 1), 3, axis=-1)
    found = array(augment.Lab(scaled=False)(gray)).reshape(-1, 3)
    assert (np.diff(found[:, 0]) > 0).all() and np.abs(found[:, 1:]).max() < 0.02


def test_lab_has_finite_gradients_everywhere():
    from oracle import gradient

    for colors in (np.zeros((1, 2, 2, 3), "float32"), np.full((1, 2, 2, 3), 0.04045, "float32"), pictures(1, 2, 2, 3)):
        (slope,) = gradient(lambda x: ops.sum(ops.square(augment.Lab()(x))), colors)
        assert np.isfinite(slope).all() and np.abs(slope).max() > 0


def test_lab_wants_colors():
    with pytest.raises(InvalidInputError, match=r"RGB, of 3 channels. Received: images.shape=\(2, 4, 4, 1\)"):
        augment.Lab()(pictures(2, 4, 4, 1))


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="whose generators take a number")
def test_a_stream_fetches_its_seed_from_a_gpu_once():
    import torch

    pair, fetched = torch.tensor([5, 7], dtype=torch.int32), []

    class OnGPU:
        device = SimpleNamespace(type="cuda")

        def cpu(self):
            fetched.append(self)
            return pair

    near, far = Stream(pair, keras.src.backend), Stream(OnGPU(), keras.src.backend)
    assert [near.next().tolist() for _ in range(3)] == [far.next().tolist() for _ in range(3)]
    assert len(fetched) == 1


def test_an_oblong_image_turned_by_any_angle_is_reflected_as_often_as_it_takes():
    image = np.random.default_rng(0).uniform(size=(1, 8, 40, 1)).astype("float32")
    places = np.linspace(-3.0, 3.0, 41)[:, None] * 39 / 3
    found = ops.convert_to_numpy(rotation._reflected(ops, ops.convert_to_tensor(places, "float32"), 8))
    inside = np.interp(found[:, 0], np.arange(8), image[0, :, 0, 0])
    rows = scipy.ndimage.map_coordinates(image[0, :, 0, 0], places.T, order=1, mode="mirror")
    np.testing.assert_allclose(inside, rows, atol=1e-5)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: augment.Flip(1.0), "Use HorizontalFlip or VerticalFlip. Received: Flip"),
        (lambda: augment.ColorJitter(brightness=math.inf), "brightness"),
        (lambda: augment.ColorJitter(contrast=math.inf), "contrast"),
        (lambda: augment.Normalize((0.5, 0.5, 0.5), (0.5, 0.5)), r"as many channels. Received: mean=\(0.5, 0.5, 0.5\)"),
    ],
)
def test_transforms_that_would_do_nothing_or_harm_are_refused(build, message):
    with pytest.raises(InvalidInputError, match=message):
        build()
