"""Backbones from elsewhere: what Keras computes with its own preprocessing, on views, out of core layers."""

import sys
import types

import keras
import numpy as np
import pytest
from keras import layers, ops

from sslzoo import methods, networks
from sslzoo.errors import InvalidInputError, MissingDataError, UnknownNameError
from sslzoo.networks import backbones
from sslzoo.views import Views
from sslzoo.zoo.reading import read


def views(*shape, seed=0):
    return np.random.default_rng(seed).uniform(size=shape).astype("float32")


def array(tensor):
    return ops.convert_to_numpy(tensor)


@pytest.mark.parametrize(
    "name, module, options",
    [
        ("MobileNet", "mobilenet", {"alpha": 0.25}),  # -1..1, by a function
        ("MobileNetV3Small", "mobilenet_v3", {"alpha": 0.75}),  # -1..1, by a layer
        ("VGG16", "vgg16", {}),  # blue, green, red without their means, by a function
        pytest.param(
            "EfficientNetV2B0", "efficientnet_v2", {}, marks=pytest.mark.slow
        ),  # mean and deviation, by layers
        pytest.param("EfficientNetV2S", "efficientnet_v2", {}, marks=pytest.mark.slow),  # 1 / 128, by a layer
        pytest.param("ConvNeXtTiny", "convnext", {}, marks=pytest.mark.slow),  # a private layer of its own
        pytest.param("InceptionResNetV2", "inception_resnet_v2", {}, marks=pytest.mark.slow),  # another one
    ],
)
def test_views_give_what_raw_images_give_in_keras(name, module, options, tmp_path):
    shape = (75, 75, 3)
    arguments = {"include_top": False, "input_shape": shape, "pooling": "avg", **options}
    theirs = getattr(keras.applications, name)(weights=None, **arguments)
    theirs.save_weights(tmp_path / "own.weights.h5")
    ours = networks.backbone(f"keras:{name}", shape, str(tmp_path / "own.weights.h5"), **options)
    raw = np.random.default_rng(0).integers(0, 256, (2, *shape)).astype("float32")
    prepared = getattr(keras.applications, module).preprocess_input(raw.copy())
    expected = array(theirs(prepared, training=False))
    np.testing.assert_allclose(array(ours(raw / 255)), expected, atol=1e-5 * np.abs(expected).max())


def test_every_family_has_its_numbers():
    families = {name: backbones._normalization(name) for name in backbones.APPLICATIONS}
    caffe = {name for name, numbers in families.items() if numbers is backbones._CAFFE}
    assert caffe == {"ResNet50", "ResNet101", "ResNet152", "VGG16", "VGG19"}
    assert families["EfficientNetB0"] is families["DenseNet121"] is backbones._TORCH
    assert families["ResNet50V2"] is families["NASNetMobile"] is families["Xception"] is backbones._SIGNED


def test_it_is_composed_read_back_and_cropped_small(tmp_path):
    network = networks.backbone("keras:MobileNet", (None, None, 3), alpha=0.25, seed=0)
    assert networks.at_size(network, (40, 48))(views(2, 40, 48, 3)).shape == (2, 256)
    model = networks.compose(Views("simclr-cifar10", 2).preprocessor((64, 64, 3)), network)
    model.save(tmp_path / "model.keras")
    again, raw = read(tmp_path / "model.keras"), 255 * views(2, 64, 64, 3)
    np.testing.assert_array_equal(array(again(raw)), array(model(raw)))
    np.testing.assert_allclose(array(network(raw / 255)), array(model(raw)), atol=1e-5)


def test_random_weights_are_those_of_the_seed_on_every_backend():
    network = networks.backbone("keras:MobileNet", (32, 32, 3), alpha=0.25, seed=1)
    first = [network.get_layer(name).get_weights()[0].flat[0] for name in ("conv1", "conv_dw_1", "conv_pw_1")]
    np.testing.assert_allclose(first, [0.005820566, -0.5660655, -0.10517485], rtol=1e-5)


def test_gray_images_give_what_they_gave_as_color_ones(tmp_path):
    options = {"alpha": 0.25}
    color = keras.applications.MobileNet(include_top=False, weights=None, input_shape=(32, 32, 3), alpha=0.25)
    color.save_weights(tmp_path / "own.weights.h5")
    weights = str(tmp_path / "own.weights.h5")
    three, one, seven = (networks.backbone("keras:MobileNet", (32, 32, n), weights, **options) for n in (3, 1, 7))
    x = views(2, 32, 32, 1)
    np.testing.assert_allclose(array(one(x)), array(three(x.repeat(3, -1))), atol=1e-6)
    first = three.get_layer("conv1").get_weights()[0]
    turned = first[:, :, [0, 1, 2, 0, 1, 2, 0]] * (3 / 7)
    np.testing.assert_allclose(seven.get_layer("conv1").get_weights()[0], turned, rtol=1e-6)
    assert "sum" in backbones.widening(1) and "3/7" in backbones.widening(7) and backbones.widening(3) is None


def test_what_the_policy_took_out_is_put_back():
    mean, std = (0.1, 0.2, 0.3), (0.5, 0.6, 0.7)
    plain = networks.backbone("keras:VGG16", (32, 32, 3), seed=0)
    normalized = networks.backbone("keras:VGG16", (32, 32, 3), seed=0, normalized=(mean, std))
    x = views(2, 32, 32, 3)
    theirs = ((x - np.array(mean)) / np.array(std)).astype("float32")
    np.testing.assert_allclose(array(normalized(theirs)), array(plain(x)), rtol=1e-4, atol=1e-5)


def test_an_encoder_puts_its_head_on_top():
    network = networks.encoder("keras:MobileNet", (32, 32, 3), 5, posterior=True, seed=0, alpha=0.25)
    assert network.output_names == ["mean", "log_var"] and network.name == "mobilenet"
    assert networks.encoder("keras:MobileNet", (32, 32, 3), None, alpha=0.25).output_shape == (None, 256)


def test_mixed_precision_ends_in_float32():
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        network = networks.backbone("keras:MobileNet", (32, 32, 3), alpha=0.25)
    finally:
        keras.config.set_dtype_policy("float32")
    assert network.get_layer("conv1").compute_dtype == "bfloat16" and network.outputs[0].dtype == "float32"


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["mixed_bfloat16", "mixed_float16"])
def test_photographs_of_224_pixels_train_in_mixed_precision(precision):
    """A step by `fit`, scaled where float16 needs it: the loss of float32, and weights that are finite and moved."""
    images = np.random.default_rng(0).integers(0, 256, (4, 224, 224, 3)).astype("uint8")
    losses = {}
    for policy in ("float32", precision):
        keras.config.set_dtype_policy(policy)
        try:
            encoder = networks.backbone("keras:MobileNet", (224, 224, 3), alpha=0.25, seed=0)
            model = methods.SimCLR(encoder, views=Views("photos", 2, seed=0), temperature=0.5)
            model.compile(keras.optimizers.SGD(0.01))
            before = encoder.get_weights()
            fitted = model.fit(images, batch_size=4, epochs=6, verbose=0, shuffle=False)  # float16 may pass over a few
            losses[policy] = fitted.history["loss"][0]
        finally:
            keras.config.set_dtype_policy("float32")
    after = encoder.get_weights()
    assert losses[precision] == pytest.approx(losses["float32"], rel=0.02)
    assert all(np.isfinite(value).all() for value in after)
    assert not np.array_equal(before[0], after[0])


# ------------------------------------------------------------------ functions of one's own, and KerasHub


def tiny(input_shape, width=4):
    images = keras.Input(input_shape)
    x = layers.GlobalAveragePooling2D()(layers.Conv2D(width, 3)(images))
    return keras.Model(images, x)


def maps(input_shape):
    images = keras.Input(input_shape)
    return keras.Model(images, layers.Conv2D(2, 3)(images))


class Doubled(layers.Layer):
    def call(self, x):
        return 2 * x


def private(input_shape):
    images = keras.Input(input_shape)
    return keras.Model(images, layers.Flatten()(Doubled()(images)))


def test_a_function_of_ones_own():
    assert networks.backbone(f"{__name__}:tiny", (8, 8, 5), width=6).output_shape == (None, 6)


class FakeBackbone:
    @staticmethod
    def from_preset(name, load_weights, image_shape):
        model = tiny(image_shape)
        return keras.Model(model.input, model.layers[1].output)


class FakeConverter:
    scale, offset = [1 / 51] * 3, [-2.0] * 3

    @classmethod
    def from_preset(cls, name):
        return cls


def test_a_backbone_of_keras_hub(monkeypatch):
    """Its converter takes 0..255; the maps are averaged."""
    hub = types.ModuleType("keras_hub")
    hub.models = types.SimpleNamespace(Backbone=FakeBackbone)
    hub.layers = types.SimpleNamespace(ImageConverter=FakeConverter)
    monkeypatch.setitem(sys.modules, "keras_hub", hub)
    network = networks.backbone("keras_hub:some_preset", (8, 8, 3), "preset")
    x = views(2, 8, 8, 3)
    inner = keras.Model(network.layers[1].output, network.output)
    np.testing.assert_allclose(array(network(x)), array(inner(x * 255 / 51 - 2)), atol=1e-5)


def test_a_preset_that_keras_hub_does_not_have(monkeypatch):
    def unknown(name, **options):
        raise ValueError("Unknown preset identifier.\nA list of them.")

    backbone = types.SimpleNamespace(from_preset=unknown)
    hub = types.SimpleNamespace(models=types.SimpleNamespace(Backbone=backbone))
    monkeypatch.setitem(sys.modules, "keras_hub", hub)
    with pytest.raises(MissingDataError, match=r"\(Unknown preset identifier\.\); .*Received: name='keras_hub:vit'"):
        networks.backbone("keras_hub:vit", (8, 8, 3))


def test_keras_hub_is_asked_for_by_name(monkeypatch):
    monkeypatch.setitem(sys.modules, "keras_hub", None)
    with pytest.raises(ImportError, match="pip install keras-hub"):
        networks.backbone("keras_hub:resnet_50_imagenet", (32, 32, 3))


def test_a_module_in_the_current_folder_is_found_and_one_that_is_not_is_named(tmp_path, monkeypatch):
    lines = ["import keras", "def tower(shape):", "    images = keras.Input(shape)"]
    lines += ["    return keras.Model(images, keras.layers.GlobalAveragePooling2D()(images))"]
    (tmp_path / "tower_of_mine.py").write_text("\n".join(lines))
    (tmp_path / "needs_more.py").write_text("import no_such_library")
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    assert networks.backbone("tower_of_mine:tower", (8, 8, 3)).output_shape == (None, 3)
    with pytest.raises(InvalidInputError, match=r"No module tower in the current folder.*Received: name='tower:mine'"):
        networks.backbone("tower:mine", (8, 8, 3))
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        networks.backbone("needs_more:tower", (8, 8, 3))
    assert sys.path == before


@pytest.mark.parametrize(
    "name, options, error, message",
    [
        ("keras:ResNet5", {}, UnknownNameError, "ResNet50"),
        ("keras:MobileNet", {"alfa": 1}, UnknownNameError, "alpha"),
        ("keras:InceptionV3", {}, InvalidInputError, "refuses to build"),
        ("keras:MobileNet", {"pooling": "sum"}, UnknownNameError, "pooling"),
        ("resnet", {}, InvalidInputError, "package.module:function"),
        (f"{__name__}:nothing", {}, InvalidInputError, "a function in the module"),
        (f"{__name__}:maps", {}, InvalidInputError, "pool its maps"),
        (f"{__name__}:private", {}, InvalidInputError, "core Keras layers"),
    ],
)
def test_what_cannot_be_built_or_published_is_refused(name, options, error, message):
    with pytest.raises(error, match=message):
        networks.backbone(name, (32, 32, 3), **options)


def test_weights_that_cannot_be_had(monkeypatch):
    def offline(**arguments):
        raise Exception("URL fetch failure")  # Keras' own type

    monkeypatch.setattr(keras.applications, "MobileNet", offline)
    with pytest.raises(MissingDataError, match=r"could not be downloaded.*Received: weights='imagenet'"):
        networks.backbone("keras:MobileNet", (32, 32, 3), "imagenet")
