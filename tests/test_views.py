"""Views: who draws what from which seed, on the device and in tf.data; policies; what networks see at evaluation."""

import json
import os
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import keras
import numpy as np
import pytest
import scipy.stats
from keras import ops

import sslzoo
from sslzoo import augment, methods, networks
from sslzoo.errors import InvalidInputError, UnknownNameError
from sslzoo.networks import composition
from sslzoo.views import POLICIES, Views, policy

# Each kind of row once: celeba has the row of cifar10, cifar100 that of cifar10, and gedi-toy takes points.
IMAGE_POLICIES = [name for name in POLICIES if name not in ("simvae-celeba", "gedi-cifar100", "gedi-toy")]
RANGES = {"gedi": (-1.0, 1.0), "ebclr": (-1.0, 1.0), "mi": (-2.2, 2.7)}


def array(x):
    return ops.convert_to_numpy(x)


def compiled(function):
    """Under JAX one program instead of hundreds of small ones; elsewhere eager is the quicker way."""
    if keras.backend.backend() == "jax":
        import jax

        return jax.jit(function, compiler_options={"xla_backend_optimization_level": 0})
    return function


def make(views, images, *seed):
    return array(compiled(lambda x, s: views(x, training=True, seed=s))(ops.convert_to_tensor(images), seed or (0, 0)))


def raw_images(count, name="", size=None):
    channels = 1 if "mnist" in name or "digits" in name else 3
    size = size or (8 if "digits" in name else 12)
    return np.random.default_rng(0).integers(0, 256, (count, size, size, channels)).astype("uint8")


# ----------------------------------------------------------------------------------------------------------------------
# Policies


@pytest.mark.parametrize("name", IMAGE_POLICIES)
def test_named_policy(name):
    images = np.repeat(raw_images(1, name, size=8 if "digits" in name else 16), 4, axis=0)
    views = Views(name, 3, seed=0)
    out = make(views, images)
    assert out.shape == (4, 3, *images.shape[1:]) and out.dtype == "float32"
    low, high = RANGES.get(name.split("-")[0], (0.0, 1.0))
    margin = 1.2 if name.startswith(("gedi", "ebclr")) else 1e-5  # noise
    assert low - margin < out.min() and out.max() < high + margin
    assert len(np.unique(out.reshape(12, -1), axis=0)) == 12, "twelve views of one image, all different"
    if name == "simvae-mnist":
        assert set(np.unique(out)) == {0.0, 1.0}

    prepared = array(views.prepare(images))
    assert prepared.shape == images.shape
    preprocessor = views.preprocessor(images.shape[1:])
    assert {type(layer).__module__.split(".")[0] for layer in preprocessor.layers} == {"keras"}
    np.testing.assert_allclose(array(preprocessor(images.astype("float32"))), prepared, atol=1e-6)


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="others take arrays of NumPy beside tensors")
@pytest.mark.parametrize("name", IMAGE_POLICIES)
def test_views_are_made_where_the_images_are(name, monkeypatch):
    """A tensor that meets an array of NumPy is asked for its values, which one on a GPU refuses."""
    import torch

    def refuse(tensor, *_):
        raise TypeError("can't convert cuda:0 device type tensor to numpy")

    images = torch.from_numpy(raw_images(2, name, size=8 if "digits" in name else 16))
    views = Views(name, 2, seed=0)
    monkeypatch.setattr(torch.Tensor, "__array__", refuse)
    assert views(images, training=True).shape == (2, 2, *images.shape[1:])


def steps_of(name, **changes):
    return {type(step).__name__: step for step in policy(name, **changes)}


def test_policies_hold_the_numbers_of_the_papers():
    for name, scale in [("mnist", 0.4), ("fashion-mnist", 0.4), ("cifar10", 0.6), ("celeba", 0.6)]:  # SimVAE, table 2
        steps = steps_of(f"simvae-{name}", flip="vertical")
        crop = steps["RandomResizedCrop"]
        assert (crop.scale, crop.ratio, steps["VerticalFlip"].probability) == ((scale, 1.0), (0.75, 1.3), 0.5)
        assert ("Threshold" in steps) == (name == "mnist")
        assert ("ColorJitter" in steps) == (name in ("cifar10", "celeba"))
    jitter = steps["ColorJitter"]
    assert jitter.brightness == jitter.contrast == jitter.saturation == pytest.approx((0.2, 1.8))
    assert (jitter.hue, jitter.probability) == ((-0.2, 0.2), 0.8)

    for name, noise, flips in [("svhn", 0.03, 0), ("cifar10", 0.03, 1), ("cifar100", 0.03, 1), ("mnist", 0.2, 0)]:
        steps = steps_of(f"gedi-{name}")  # GEDI, table 9
        assert (steps["ColorJitter"].probability, steps["Grayscale"].probability) == (0.1, 0.1)
        assert list(steps)[-2:] == ["Normalize", "GaussianNoise"] and steps["GaussianNoise"].stddev == noise
        assert ("HorizontalFlip" in steps) == bool(flips) and steps["RandomShift"].pixels == 4
    assert steps_of("gedi-toy")["GaussianNoise"].stddev == 0.03

    steps = steps_of("mi-cifar10")  # MI, B.3
    assert steps["RandomResizedCrop"].scale == (0.2, 1.0) and steps["Grayscale"].probability == 0.2
    assert steps["ColorJitter"].hue == (-0.4, 0.4) and steps["ColorJitter"].probability == 1.0
    assert steps["Normalize"].mean == (0.485, 0.456, 0.406) and steps["HorizontalFlip"].probability == 0.5
    assert steps["Normalize"].std == (0.229, 0.224, 0.225)
    jitter = steps["ColorJitter"]
    assert jitter.brightness == jitter.contrast == jitter.saturation == pytest.approx((0.6, 1.4))
    steps = steps_of("mi-cifar10-lab")
    assert list(steps) == ["RandomResizedCrop", "HorizontalFlip", "ColorJitter", "Lab"]
    assert steps["RandomResizedCrop"].scale == (0.2, 1.0) and steps["ColorJitter"].hue == (-0.4, 0.4)

    for name, kernel, blurred in [("simclr-cifar10", 13, 0.5), ("ebclr-cifar10", 3, 1.0)]:  # solo-learn, EBCLR's code
        steps = steps_of(name)
        assert steps["RandomResizedCrop"].scale == (0.08, 1.0) and steps["Grayscale"].probability == 0.2
        assert steps["ColorJitter"].saturation == pytest.approx((0.2, 1.8)) and steps["ColorJitter"].probability == 0.8
        blur = steps["GaussianBlur"]
        assert (blur.kernel_size, blur.sigma, blur.probability) == (kernel, (0.1, 2.0), blurred)
    for name in ("ebclr-cifar10", "ebclr-mnist"):
        assert steps_of(name)["GaussianNoise"].stddev == 0.03 and steps_of(name)["Normalize"].mean == 0.5


@pytest.mark.parametrize("name", sorted({"simvae-digits", "simvae-mnist", "simvae-cifar10"}))
def test_a_policy_is_what_the_model_of_its_name_was_trained_with(name):
    results = Path(sslzoo.__file__).parent.parent / "weights" / name / "results.json"
    settings = json.loads(results.read_text())["settings"]
    assert settings["policy"] == name and not settings.get("policy_changes")
    assert POLICIES[name]["flip"] == settings["flip"]


def test_policy_changes():
    assert list(steps_of("simvae-mnist")) == ["RandomResizedCrop", "Threshold"]
    assert "VerticalFlip" in steps_of("simvae-mnist", flip="vertical")
    assert "HorizontalFlip" in steps_of("simvae-mnist", flip="horizontal")
    assert {"HorizontalFlip", "VerticalFlip"} < set(steps_of("simvae-mnist", flip="both"))
    crop = steps_of("simvae-mnist", crop={"scale": (0.7, 0.9)})["RandomResizedCrop"]
    assert (crop.scale, crop.ratio) == ((0.7, 0.9), (0.75, 1.3))
    assert "GaussianBlur" not in steps_of("simclr-cifar10", blur=None)
    assert steps_of("simclr-cifar10", solarize=0.1)["Solarize"].probability == 0.1
    assert policy("simvae-mnist", size=14)[0].size == (14, 14)
    assert policy("gedi-mnist", size=14)[0].size == (14, 14) and "Resize" in steps_of("gedi-mnist", size=14)
    assert POLICIES["simvae-mnist"]["crop"]["scale"] == (0.4, 1.0), "the table itself stays"


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: policy("simvae-mnits"), "Did you mean 'simvae-mnist'"),
        (lambda: Views("simclr-cifar", 2), "Did you mean 'simclr-cifar10'"),
        (lambda: policy("simvae-mnist", blurr=1), "step of simvae-mnist"),
        (lambda: policy("simvae-mnist", flip="horizontl"), "Did you mean 'horizontal'"),
        (lambda: policy("simvae-mnist", crop={"scal": (0.5, 1.0)}), "Did you mean 'scale'"),
        (lambda: policy("channels", blur={"kernal_size": 3}), "Did you mean 'kernel_size'"),
    ],
)
def test_unknown_names(call, message):
    with pytest.raises(UnknownNameError, match=message):
        call()


# ----------------------------------------------------------------------------------------------------------------------
# Randomness


def test_every_image_and_every_view_draws_its_own():
    # A bright left half tells which way a view was flipped, also after a small shift.
    images = np.zeros((300, 8, 8, 1), "uint8")
    images[:, :, :4] = 255
    for steps in ([augment.HorizontalFlip(0.3)], [augment.RandomShift(1), augment.HorizontalFlip(0.3)]):
        out = make(Views(steps, 10), images)
        flipped = out[..., 4:, 0].sum(axis=(2, 3)) > out[..., :4, 0].sum(axis=(2, 3))  # (300, 10)
        assert abs(flipped.mean() - 0.3) < 0.03
        # Independent draws: the number of flipped views per image, and of flipped images per view, are binomial.
        assert abs(flipped.sum(axis=1).var() - 10 * 0.21) < 0.5
        assert abs(flipped.sum(axis=0) - 90).max() < 40
        assert len(np.unique(flipped, axis=0)) > 100


def test_crop_area_of_views_follows_the_policy():
    # The mean of a linear ramp in a crop is the ramp at the center, its slope the width of the crop.
    ramp = np.broadcast_to(np.arange(32, dtype="float32")[None, None, :, None], (200, 32, 32, 1))
    out = make(Views([augment.RandomResizedCrop(scale=(0.4, 1.0), ratio=(0.75, 1.3))], 8), ramp) * 255
    width = (out[:, :, 16, 20, 0] - out[:, :, 16, 12, 0]).ravel() / 8 * 32
    tall = np.swapaxes(ramp, 1, 2)
    out = make(Views([augment.RandomResizedCrop(scale=(0.4, 1.0), ratio=(0.75, 1.3))], 8), tall) * 255
    height = (out[:, :, 20, 16, 0] - out[:, :, 12, 16, 0]).ravel() / 8 * 32
    area = width * height / 32**2  # same seed, so the same boxes
    rng = np.random.default_rng(0)
    fraction, ratio = rng.uniform(0.4, 1.0, 50_000), np.exp(rng.uniform(*np.log((0.75, 1.3)), 50_000))
    height, width = np.round(32 * np.sqrt(fraction / ratio)), np.round(32 * np.sqrt(fraction * ratio))
    expected = (height * width / 32**2)[(height <= 32) & (width <= 32)]  # a box that does not fit is drawn again
    assert scipy.stats.ks_2samp(np.round(area, 4), np.round(expected, 4)).statistic < 0.05


def test_crops_and_flips_merged_with_the_first_step_are_those_made_apart():
    images = raw_images(3)
    flips = [augment.HorizontalFlip(), augment.VerticalFlip()]
    for first in (augment.RandomResizedCrop((7, 9)), augment.RandomShift(2)):
        merged = make(Views([first, *flips], 5), images)
        apart = make(Views([augment.Normalize(0.0, 1.0), first, *flips], 5), images)
        np.testing.assert_allclose(merged, apart, atol=1e-6)


def test_state_moves_in_training_only_and_a_seed_repeats_it():
    images = raw_images(4)
    views, twin, other = (Views([augment.HorizontalFlip(), augment.Solarize(0.3, 0.5)], 6, seed=s) for s in (7, 7, 8))
    calls = [array(views(images, training=True)) for _ in range(2)]
    assert array(views.generator.state).tolist() == [7, 2]
    assert [array(v).tolist() for v in views.variables] == [[7, 2]]
    assert not np.array_equal(*calls)
    for expected in calls:
        assert np.array_equal(array(twin(images)), expected)
    assert not np.array_equal(array(other(images, training=True)), calls[0])

    rest = array(views(images, training=False))
    views.prepare(images)
    explicit = array(views(images, training=True, seed=(7, 0)))
    assert array(views.generator.state).tolist() == [7, 2]
    assert np.array_equal(explicit, calls[0]), "a call without seed draws from (seed, number of the call)"
    np.testing.assert_allclose(rest, np.repeat(images[:, None] / 255, 6, axis=1), atol=1e-6)


def test_inside_a_model_the_mode_comes_from_the_model():
    class Wrapped(keras.Model):
        def __init__(self):
            super().__init__()
            self.views = Views([augment.HorizontalFlip()], 4, seed=0)

        def call(self, images, training=None):
            return self.views(images)

    model, images = Wrapped(), raw_images(8)
    assert np.ptp(array(model(images, training=False)), axis=1).max() == 0
    assert np.ptp(array(model(images, training=True)), axis=1).max() > 0


def test_views_train_inside_a_compiled_model():
    class Mean(keras.Model):
        """Learns one number, the mean pixel of the views, and remembers the views of its last step."""

        def __init__(self):
            super().__init__()
            self.views = Views("simvae-digits", 2, seed=3)
            self.value = self.add_weight(name="value")
            self.seen = self.add_weight(name="seen", shape=(2,), trainable=False)

        def call(self, images, training=False):
            return self.views(images, training=training)

        def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
            self.seen.assign(ops.concatenate([self.seen[1:], ops.mean(y_pred)[None]]))
            return ops.mean(ops.square(y_pred - self.value))

    model, images = Mean(), raw_images(16, "digits")
    model.compile("sgd", jit_compile="auto")
    model.fit(images, batch_size=8, epochs=2, verbose=0)
    assert model.jit_compile == (keras.backend.backend() == "jax")
    assert array(model.views.generator.state).tolist() == [3, 4]
    assert len(set(array(model.seen).tolist())) == 2
    model.evaluate(images, verbose=0)
    assert array(model.views.generator.state).tolist() == [3, 4]


# ----------------------------------------------------------------------------------------------------------------------
# tf.data


@pytest.fixture
def tf():
    return pytest.importorskip("tensorflow")


def rows(dataset):
    return np.concatenate([np.asarray(batch) for batch in dataset])


def test_tf_data_is_repeatable_and_resumable(tf):
    images, views = raw_images(24), Views("simvae-cifar10", 3, seed=0)
    source = tf.data.Dataset.from_tensor_slices(images).batch(4, drop_remainder=True).enumerate()

    def pipeline(epoch, start=0):
        mapped = source.skip(start).map(
            lambda i, x: views(x, training=True, seed=(epoch, i)), num_parallel_calls=tf.data.AUTOTUNE
        )
        assert mapped.element_spec.shape.as_list() == [4, 3, 12, 12, 3]
        return rows(mapped)

    state = array(views.generator.state).tolist()
    first = pipeline(0)
    assert first.dtype == "float32" and len(np.unique(first.reshape(72, -1), axis=0)) == 72
    assert np.array_equal(pipeline(0), first)
    assert np.array_equal(pipeline(0, start=2), first[8:])
    assert not np.isclose(pipeline(1), first).all(axis=(1, 2, 3, 4)).any()
    assert array(views.generator.state).tolist() == state
    if keras.backend.backend() == "tensorflow":
        eager = array(views(images[:4], training=True, seed=(0, 0)))
        np.testing.assert_allclose(eager, first[:4], atol=1e-5)


def test_tf_data_without_a_seed_moves_on(tf):
    images = np.repeat(raw_images(1), 6, axis=0)
    for dataset in (
        tf.data.Dataset.from_tensor_slices(images).batch(2).map(Views([augment.GaussianNoise(0.1)], 2, seed=1)),
        tf.data.Dataset.from_tensor_slices(images).map(Views([augment.GaussianNoise(0.1)], 2, seed=1)).batch(2),
    ):
        out = rows(dataset)
        assert out.shape == (6, 2, 12, 12, 3)
        assert len(np.unique(out.reshape(12, -1), axis=0)) == 12


def test_tf_data_makes_single_views(tf):
    images, views = raw_images(3, "mnist"), Views("simvae-mnist", 2)
    out = rows(tf.data.Dataset.from_tensor_slices(images).map(views.prepare).batch(3))
    assert np.array_equal(out, array(views.prepare(images)))
    alone = array(views.prepare(images[0]))
    assert np.array_equal(alone, out[0])


def test_tf_data_wants_known_shapes(tf):
    dataset = tf.data.Dataset.from_generator(
        lambda: iter(raw_images(2)), output_signature=tf.TensorSpec((None, None, 3), "uint8")
    )
    with pytest.raises(Exception, match="H, W and C known"):
        dataset.map(Views("simvae-cifar10", 2))


# ----------------------------------------------------------------------------------------------------------------------
# Other layers as steps


def test_keras_layers_draw_from_the_seed_of_the_views(tf):
    images = np.repeat(raw_images(1), 6, axis=0)
    steps = [
        keras.layers.RandomFlip("horizontal"),
        keras.layers.RandomColorJitter((0, 1), brightness_factor=0.2, contrast_factor=0.2),
        keras.layers.Resizing(6, 5),
    ]
    views = Views(steps, 2, seed=0)
    states = [array(v).tolist() for v in views.variables]
    first, second, again = (array(views(images, training=True, seed=(0, b))) for b in (0, 1, 0))
    assert first.shape == (6, 2, 6, 5, 3) == (6, *views.compute_output_shape((6, 12, 12, 3))[1:])
    assert len(np.unique(first.reshape(12, -1).round(5), axis=0)) == 12
    assert np.array_equal(first, again) and not np.array_equal(first, second)
    assert [array(v).tolist() for v in views.variables] == states
    dataset = tf.data.Dataset.from_tensor_slices(images).batch(3).enumerate()
    dataset = dataset.map(lambda i, x: views(x, training=True, seed=(0, i)))
    assert np.array_equal(rows(dataset), rows(dataset))
    np.testing.assert_allclose(
        array(views.preprocessor((12, 12, 3))(images.astype("float32"))), array(views.prepare(images)), atol=1e-6
    )


def test_a_step_that_cannot_be_compiled_is_named():
    with pytest.warns(UserWarning, match=r"\['turn'\] do not support compilation"):
        Views([augment.RandomApply(keras.layers.RandomRotation(0.1), 0.5, name="turn")], 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in POLICIES:
            Views(name, 2)


def test_layers_of_the_active_backend_stay_out_of_other_graphs(tf):
    views = Views([keras.layers.GaussianNoise(0.1)], 2)
    assert np.ptp(array(views(raw_images(2), training=True)), axis=1).max() > 0
    dataset = tf.data.Dataset.from_tensor_slices(raw_images(2)).batch(2)
    if keras.backend.backend() == "tensorflow":
        assert rows(dataset.map(views)).shape == (2, 2, 12, 12, 3)
    else:
        with pytest.raises(Exception, match="only inside a model"):
            dataset.map(views)


def test_keras_cv_layers(tf):
    keras_cv = pytest.importorskip("keras_cv")
    images = np.repeat(raw_images(1), 4, axis=0)
    views = Views([augment.RandomResizedCrop(), keras_cv.layers.RandomBrightness(0.3, value_range=(0, 1))], 2)
    out = rows(tf.data.Dataset.from_tensor_slices(images).batch(4).map(views))
    assert out.shape == (4, 2, 12, 12, 3) and len(np.unique(out.reshape(8, -1).round(4), axis=0)) == 8
    np.testing.assert_allclose(array(views.prepare(images)), images / 255, atol=1e-6)
    assert [layer.name for layer in views.preprocessor((12, 12, 3)).layers] == ["images", "unit_range"]
    if keras.backend.backend() == "tensorflow":
        assert views(images, training=True).shape == (4, 2, 12, 12, 3)
        with pytest.warns(UserWarning, match="generators of their own"):
            views(images, training=True, seed=0)
    else:
        with pytest.raises(InvalidInputError, match="TensorFlow around a KerasCV layer"):
            views(images, training=True)


# ----------------------------------------------------------------------------------------------------------------------
# Shapes, precision, configuration


def test_size():
    images = raw_images(2)
    for steps in (
        "simvae-cifar10",
        "gedi-svhn",
        [],
        policy("simvae-cifar10", size=(6, 5)),
        [augment.RandomResizedCrop()],
    ):
        views = Views(steps, 2, size=(6, 5))
        assert array(views.prepare(images)).shape == (2, 6, 5, 3)
        assert views.compute_output_shape((None, 12, 12, 3)) == (None, 2, 6, 5, 3)
        expected = ops.image.resize(ops.convert_to_tensor(images / np.float32(255)), (6, 5), antialias=True)
        if steps != "gedi-svhn":
            np.testing.assert_allclose(array(views.prepare(images)), array(expected), atol=1e-6)
        np.testing.assert_allclose(
            array(views.preprocessor((12, 12, 3))(images.astype("float32"))), array(views.prepare(images)), atol=1e-5
        )
    with pytest.raises(InvalidInputError, match=r"Received: size=\(8, 8\)"):
        Views([augment.RandomResizedCrop(6)], 2, size=8)


def test_symbolic_images():
    views = Views("simvae-cifar10", 3, size=10)
    inputs = keras.Input((12, 12, 3), dtype="uint8")
    outputs = views(inputs)
    assert outputs.shape == (None, 3, 10, 10, 3) and outputs.dtype == "float32"
    model = keras.Model(inputs, outputs)
    assert array(model(raw_images(2), training=False)).shape == (2, 3, 10, 10, 3)
    assert Views("gedi-toy", 3)(keras.Input((2,))).shape == (None, 3, 2)


def test_raw_values_of_any_number_type():
    views, images = Views([], 2), raw_images(2)
    expected = np.repeat((images / 255)[:, None], 2, axis=1)
    for dtype in ("uint8", "int32", "float16", "float32", "float64"):
        np.testing.assert_allclose(array(views(images.astype(dtype), training=True)), expected, atol=1e-6)
    np.testing.assert_allclose(array(views(images.tolist(), training=False)), expected, atol=1e-6)


def test_mixed_precision_leaves_views_in_float32():
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        views = Views("simvae-digits", 2)
        images = raw_images(2, "digits")
        out, prepared = views(images, training=True), views.prepare(images)
        preprocessed = views.preprocessor((8, 8, 1))(images.astype("float32"))
    finally:
        keras.config.set_dtype_policy("float32")
    assert {keras.backend.standardize_dtype(x.dtype) for x in (out, prepared, preprocessed)} == {"float32"}
    np.testing.assert_allclose(array(preprocessed), images / 255, atol=1e-6)


@pytest.mark.parametrize(
    "make_views",
    [
        lambda: Views("simclr-cifar10", 3, size=10, seed=4),
        lambda: Views(policy("mi-cifar10", flip=None), 2, seed=4),
        lambda: Views([augment.RandomApply(augment.Solarize(), 0.3), keras.layers.RandomFlip()], 2, size=10, seed=4),
    ],
)
def test_config_makes_the_same_views(make_views):
    views = make_views()
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(views)))
    assert config["registered_name"] == "sslzoo>Views"
    twin = keras.saving.deserialize_keras_object(config)
    assert twin.get_config() == views.get_config()
    assert [type(step) for step in twin.steps] == [type(step) for step in views.steps]
    assert array(twin.generator.state).tolist() == [4, 0]


@keras.saving.register_keras_serializable("sslzoo_tests")
class Digits(Views):
    """Chooses the policy itself, and hands up what it does not know."""

    def __init__(self, num_views=2, **kwargs):
        super().__init__("simvae-digits", num_views, **kwargs)


@keras.saving.register_keras_serializable("sslzoo_tests")
class Fade(augment.ImageTransform):
    def __init__(self, strength=0.5, **kwargs):
        super().__init__(**kwargs)
        self.strength = strength


def test_subclasses_that_hand_up_arguments_are_made_again_with_them():
    made = Digits.from_config(Digits(3, size=6, seed=5, value_range=(0, 16)).get_config())
    assert (made.num_views, made.size, made.seed, made.value_range, made.policy) == (
        3,
        (6, 6),
        5,
        (0, 16),
        "simvae-digits",
    )
    made = Fade.from_config(Fade(0.3, seed=7, name="fade").get_config())
    assert (made.strength, made.seed, made.name) == (0.3, 7, "fade")


def test_threads_share_layers_of_keras():
    moved, images = Views([keras.layers.RandomTranslation(0.3, 0.3), keras.layers.RandomFlip()], 2), raw_images(4)

    def of(seed):
        return array(moved(images, training=True, seed=seed))

    alone = [of(seed) for seed in range(40)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            together = list(threads.map(of, range(40)))
    finally:
        sys.setswitchinterval(interval)
    np.testing.assert_array_equal(together, alone)


def test_points_are_views_in_their_own_units():
    points = np.float32([[-1.5, 0.5], [2.0, 3.0]])
    out = make(Views("gedi-toy", 400), points)
    assert out.shape == (2, 400, 2)
    np.testing.assert_allclose(out.mean(axis=1), points, atol=0.01)
    np.testing.assert_allclose(out.std(axis=1), 0.03, atol=0.005)
    np.testing.assert_allclose(array(Views("gedi-toy", 2).prepare(points)), points)


# ----------------------------------------------------------------------------------------------------------------------
# What is saved


@pytest.mark.slow
def test_preprocessors_load_without_this_package(tmp_path):
    expected = {}
    for name, size in [("simvae-mnist", 6), ("mi-cifar10", None), ("gedi-svhn", (9, 7))]:
        views, images = Views(name, 2, size=size), raw_images(5, name)
        views.preprocessor(images.shape[1:]).save(tmp_path / f"{name}.keras")
        np.savez(tmp_path / f"{name}.npz", images=images.astype("float32"), prepared=array(views.prepare(images)))
        expected[name] = images.shape
    script = f"""
import sys, keras, numpy as np
for name in {list(expected)}:
    model = keras.saving.load_model(name + ".keras", safe_mode=True)
    data = np.load(name + ".npz")
    np.testing.assert_allclose(keras.ops.convert_to_numpy(model(data["images"])), data["prepared"], atol=1e-5)
assert not any(module.startswith("sslzoo") for module in sys.modules)
print("loaded")
"""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    run = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert run.stdout.strip().endswith("loaded"), run.stderr


def test_threshold_of_the_preprocessor_is_exact():
    half = np.float32(127.5)
    values = np.float32(
        [0, np.nextafter(half, np.float32(0)), half, np.nextafter(half, np.float32(255)), 255, 127, 128]
    )
    views = Views([augment.Threshold(0.5)], 2)
    images = values.reshape(1, 1, -1, 1)
    ours = array(views.preprocessor((1, 7, 1))(images)).ravel()
    assert set(ours) == {0.0, 1.0}
    assert np.array_equal(ours, array(views.prepare(images)).ravel())
    assert ours[[0, 4, 5, 6]].tolist() == [0, 1, 0, 1]


def test_two_steps_of_a_kind_can_be_saved():
    views = Views([augment.Normalize(0.5, 0.5), augment.Normalize((0.1, 0.2, 0.3), 2.0)], 2)
    images = raw_images(2)
    np.testing.assert_allclose(
        array(views.preprocessor((12, 12, 3))(images.astype("float32"))), array(views.prepare(images)), atol=1e-6
    )


def test_what_needs_your_own_code_cannot_be_saved():
    class Invert(keras.Layer):
        def call(self, images):
            return 1 - images

        def compute_output_shape(self, input_shape):
            return input_shape

    views = Views([Invert()], 2)
    np.testing.assert_allclose(array(views.prepare(raw_images(2))), 1 - raw_images(2) / 255, atol=1e-6)
    with pytest.raises(InvalidInputError, match="saved models"):
        views.preprocessor((12, 12, 3))


# ----------------------------------------------------------------------------------------------------------------------
# Wrong input


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: Views("simvae-mnist", 0), "Received: num_views=0"),
        (lambda: Views("simvae-mnist", 2.0), "Received: num_views=2.0"),
        (lambda: Views(3, 2), "Received: policy=3"),
        (lambda: Views([lambda x: x], 2), "list of Keras layers"),
        (lambda: Views("simvae-mnist", 2, size=(1, 2, 3)), "Received: size="),
        (lambda: Views("simvae-mnist", 2, seed=-1), "Received: seed=-1"),
        (lambda: policy("simvae-mnist", crop=0.4), "Received: crop=0.4"),
        (lambda: policy("channels", blur=True), "Received: blur=True"),
        (lambda: Views([keras.layers.RandomCrop(24, 24)], 2), "at the same place"),
        (lambda: Views([keras.Sequential([keras.layers.RandomCrop(24, 24)])], 2), "at the same place"),
        (lambda: augment.RandomApply(keras.layers.RandomCrop(24, 24)), "at the same place"),
        (lambda: policy("simvae-mnist", crop={"scale": (0.4, 1.4)}), "Received: scale="),
        (lambda: Views("simvae-mnist", 2).preprocessor((28, 28)), "Received: image_shape="),
        (lambda: Views("mi-cifar10", 2).preprocessor((28, 28, 1)), "3 channels"),
    ],
)
def test_wrong_arguments(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()


@pytest.mark.parametrize(
    "name, images, message",
    [
        ("simvae-mnist", np.zeros((28, 28), "uint8"), r"images \(B, H, W, C\).*images.shape=\(28, 28\)"),
        ("simvae-mnist", np.zeros((10, 28, 28), "uint8"), "C <= 4"),
        ("simvae-mnist", np.zeros((1, 2, 28, 28, 1), "uint8"), r"images \(B, H, W, C\)"),
        ("simvae-mnist", np.zeros((1, 28, 28, 1), "bool"), "dtype=bool"),
        ("simvae-mnist", np.zeros((1, 28, 28, 1), "complex64"), "dtype=complex64"),
        ("simvae-mnist", np.full((1, 28, 28, 1), "a"), "dtype=<U1"),
        ("simvae-cifar10", np.zeros((1, 32, 32, 4), "uint8"), "1 .gray. or 3 .RGB. channels"),
        ("gedi-svhn", np.zeros((1, 4, 4, 3), "uint8"), "sides above 4"),
    ],
)
def test_wrong_images(name, images, message):
    with pytest.raises(InvalidInputError, match=message):
        Views(name, 2)(images, training=True)


def test_evaluation_can_see_larger_images_than_training():
    images = np.random.default_rng(0).integers(0, 256, (3, 32, 32, 3)).astype("uint8")
    views = Views("simclr-cifar10", 2, size=24, eval_size=32, seed=0)
    again = Views.from_config(views.get_config())
    listed = Views(policy("simclr-cifar10"), 2, size=24, eval_size=32, seed=0)
    for made in (views, again, listed, Views.from_config(listed.get_config())):
        assert made(images, training=True).shape == (3, 2, 24, 24, 3)
        assert made(images, training=False).shape == (3, 2, 32, 32, 3)
        np.testing.assert_allclose(array(made.prepare(images)), images / 255, atol=1e-6)
    preprocessor = views.preprocessor((32, 32, 3))
    np.testing.assert_allclose(array(preprocessor(images.astype("float32"))), images / 255, atol=1e-6)
    smaller = Views("simclr-cifar10", 2, size=24, eval_size=16, seed=0)
    assert smaller.prepare(images).shape == (3, 16, 16, 3)
    resized = Views([augment.Resize(40), augment.RandomResizedCrop()], 2, size=24, eval_size=48, seed=0)
    assert resized(images, training=True).shape == (3, 2, 24, 24, 3) and resized.prepare(images).shape == (3, 48, 48, 3)


def test_a_symbolic_call_says_the_shape_of_the_real_one():
    images = np.random.default_rng(0).integers(0, 256, (3, 28, 28, 1)).astype("uint8")
    inputs = keras.Input((28, 28, 1), dtype="uint8")
    for size, eval_size, training, count, side in (
        (None, None, None, 3, 28),
        (24, None, True, None, 24),
        (24, 32, True, None, 24),
        (24, 32, False, 1, 32),
        (24, 32, None, None, None),
    ):
        views = Views("simvae-mnist", 10, size=size, eval_size=eval_size, seed=0)
        outputs = views(inputs, training=training, num_views=count)
        assert outputs.shape == (None, count or 10, side, side, 1)
        made = keras.Model(inputs, outputs)(images, training=training)
        assert made.shape == (3, count or 10, side or 24, side or 24, 1)  # None means training


def test_a_network_of_any_size_trains_on_small_views_and_is_published_at_the_images_own():
    images = np.random.default_rng(0).integers(0, 256, (8, 32, 32, 3)).astype("uint8")
    network = networks.encoder("airnet", (None, None, 3), None, seed=0)
    model = methods.SimCLR(network, views=Views("simclr-cifar10", 2, size=24, eval_size=32, seed=0))
    model.compile("adam")
    model.fit(images, batch_size=4, verbose=0)
    encoder = model.parts((32, 32, 3))["encoder"]
    assert encoder.input_shape == (None, 32, 32, 3) and encoder.output_shape == (None, 192)
    expected = network(images.astype("float32") / 255, training=False)
    np.testing.assert_allclose(array(encoder(images.astype("float32"))), array(expected), atol=1e-5)


# ----------------------------------------------------------------------------------------------------------------------
# By domain, and beyond 8 bits


def test_domain_policies_hold_what_they_say():
    assert "QuarterTurn" in steps_of("satellite") and steps_of("satellite")["ColorJitter"].hue == (0.0, 0.0)
    assert "QuarterTurn" in steps_of("microscopy") and "GaussianBlur" in steps_of("microscopy")
    assert steps_of("xray")["Rotation"].degrees == 10 and not any("Flip" in step for step in steps_of("xray"))
    assert not any(step.color for step in policy("channels"))


def test_any_channels_and_a_range_of_their_own():
    images = np.random.default_rng(0).integers(400, 4000, (3, 16, 16, 5)).astype("uint16")
    views = Views("channels", 2, seed=0, value_range=(400, 4000))
    prepared = array(views.prepare(images))
    np.testing.assert_allclose(prepared, (images - 400.0) / 3600, atol=1e-6)
    assert make(views, images).shape == (3, 2, 16, 16, 5)
    preprocessor = views.preprocessor((16, 16, 5))
    np.testing.assert_allclose(array(preprocessor(images.astype("float32"))), prepared, atol=1e-6)
    assert composition.input_range(preprocessor) == (400, 4000)
    assert Views.from_config(views.get_config()).value_range == (400, 4000)
    with pytest.raises(InvalidInputError, match="value_range"):
        Views([], 2, value_range=(3, 3))


def test_a_step_of_ones_own_that_no_core_layer_does_is_not_left_out_on_the_quiet():
    class Square(augment.PointwiseTransform):
        random = False

        def transform_images(self, images, transformation, training=True):
            return images**2

        def inference(self, images):
            return images**2

    views = Views([Square()], 2)
    with pytest.raises(InvalidInputError, match=r"deterministic core Keras layers.*Square"):
        views.preprocessor((8, 8, 1))
