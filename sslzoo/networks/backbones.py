"""Backbones from elsewhere by name: networks of `keras.applications`, of KerasHub, and of a function of one's own.

What comes out consists of Keras' core layers, as the networks of this package do: it can be trained, published and
loaded like them.
"""

import importlib
import inspect
import os
import re
import sys

import keras
import numpy as np
from keras import layers

from sslzoo import checks
from sslzoo.errors import BackendError, InvalidInputError, MissingDataError, choose
from sslzoo.networks import blocks
from sslzoo.networks.composition import Copies, as_functional, check_published
from sslzoo.networks.convolution import Conv2D
from sslzoo.networks.initialization import initialize
from sslzoo.networks.normalization import BatchNormalization

# (mean, standard deviation) of red, green and blue, of values in 0..1, that the weights of a family expect to be taken
# out. Those after Caffe take blue, green, red: their first kernels are turned round instead.
_CAFFE = (123.68 / 255, 116.779 / 255, 103.939 / 255), (1 / 255,) * 3
_TORCH = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_SIGNED = (0.5,) * 3, (0.5,) * 3
_FAMILIES = {
    r"(ResNet|VGG)\d+": _CAFFE,
    r"(DenseNet|EfficientNetB|EfficientNetV2B|ConvNeXt).*": _TORCH,
    r"EfficientNetV2[SML]": ((128 / 255,) * 3, (128 / 255,) * 3),
}
APPLICATIONS = [name for name, made in vars(keras.applications).items() if inspect.isfunction(made)]


def backbone(
    name: str,
    input_shape: tuple[int, ...],
    weights: str | None = None,
    *,
    normalized: tuple = (0.0, 1.0),
    pooling: str = "avg",
    seed: int | None = None,
    **options,
) -> keras.Model:
    """Builds a network from elsewhere: views in, features out.

    A supervised network subtracts the mean of its own training images; that is the first layer here, so views stay in
    0..1 (or in what `normalized` says) whatever the family.

    Example:
        network = networks.backbone("keras:MobileNetV3Small", (64, 64, 3), alpha=0.75, seed=0)
        network(np.zeros((2, 64, 64, 3), "float32")).shape  # (2, 432)

    Args:
        name: str, one of
            "keras:NAME": a constructor of `keras.applications`, such as "keras:ResNet50";
            "keras_hub:PRESET": a backbone of KerasHub by its preset (`pip install keras-hub`);
            "package.module:function": a function (input_shape, **options) -> built Keras model, which takes views as
            they are.
        input_shape: (H, W, C) of a view, or (None, None, C) for networks that take any size.
        weights: None for random ones; of "keras:" also "imagenet" (Keras' cache, or a download) or the path of a
            `.weights.h5` file; of "keras_hub:" anything else takes those of the preset; a function is handed it.
            With another number of channels than three the first kernels are widened, as `widening` says.
        normalized: (mean, std), numbers or one per channel, that the views' policy takes out of values in 0..1.
        pooling: "avg" or "max", over positions.
        seed: int >= 0, of random initial weights (`networks.initialize`); a function draws its own.
        **options: of the constructor, such as `alpha`.

    Returns:
        Functional `keras.Model` of core layers: float (B, *input_shape) -> float32 (B, L). Its batch normalization has
        momentum 0.9, as all in this package.

    Raises:
        UnknownNameError: no such constructor or option.
        InvalidInputError: a shape, an option or layers that do not fit; Keras' image format is not channels last,
            though its own networks or KerasHub's are asked for.
        MissingDataError: weights that could not be had.
        BackendError: KerasHub is not installed.
        ImportError: the module is not there.
    """
    shape = checks.shape(3, open_sides=True, input_shape=input_shape)
    choose("pooling", pooling, ("avg", "max"))
    kind, _, which = name.partition(":")
    if kind in ("keras", "keras_hub"):
        check_channels_last(name)
    if kind == "keras":
        source, (mean, std) = _application(which, shape, weights, pooling, options), _normalization(which)
        is_reversed = weights is not None and mean is _CAFFE[0]
    elif kind == "keras_hub":
        source, mean, std = _preset(which, shape, weights, pooling, options)
        is_reversed = False
    else:
        return _functions(kind, which, shape, weights, options)
    images = keras.Input(shape, name="views")
    x = _renormalized(images, normalized, mean, std)
    copies = _CoreCopies(shape[-1], is_reversed)
    outputs = copies.replay(source, x)
    if len(outputs) != 1:
        raise InvalidInputError(f"A backbone must have one output. Received: name={name!r} with {len(outputs)}")
    features = layers.Activation("linear", dtype=blocks.output_dtype(), name=copies.unused("features"))(outputs[0])
    network = keras.Model(images, features, name=re.sub(r"\W+", "-", which).strip("-").lower())
    return initialize(network, seed) if weights is None else network


def check_channels_last(name: str) -> None:
    """Raise InvalidInputError where Keras would build a network by that name for images (B, C, H, W)."""
    if (order := keras.config.image_data_format()) != "channels_last":
        raise InvalidInputError(
            "Keras builds its networks for images (batch, height, width, channels), as all here are, after "
            f'keras.config.set_image_data_format("channels_last"). Received: image_data_format={order!r}, name={name!r}'
        )


def widening(channels: int) -> str | None:
    """What was done to weights made for red, green and blue; None for three channels."""
    if channels == 3:
        return None
    how = "the sum of its three kernels" if channels == 1 else f"3/{channels} of its kernels in turn"
    return f"Its first layer was trained on three channels, and begins on {channels} with {how}."


def _widened(kernel, channels):
    """A first kernel (h, w, 3, F) for another number of channels; gray images give what they gave as color ones."""
    if channels == 1:
        return kernel.sum(axis=2, keepdims=True)
    turns = [channel % 3 for channel in range(channels)]
    return kernel if channels == 3 else kernel[:, :, turns] * (3 / channels)


def _normalization(which):
    return next((numbers for family, numbers in _FAMILIES.items() if re.fullmatch(family, which)), _SIGNED)


def _renormalized(images, normalized, mean, std):
    """Views, whose policy took `normalized` out of them, as a network expects them that was trained with mean, std."""
    channels = images.shape[-1]
    if channels != 3:
        mean, std = np.mean(mean), np.mean(std)
    ours, spread, mean, std = (np.broadcast_to(np.float64(x), channels) for x in (*normalized, mean, std))
    scale, offset = spread / std, (ours - mean) / std
    return layers.Rescaling(scale.tolist(), offset.tolist(), dtype="float32", name="own_range")(images)


class _CoreCopies(Copies):
    """Copies of a network's layers, without preprocessing of its own and with core layers for what is private to Keras.

    Args:
        channels: int, of the images.
        is_reversed: whether the weights are for blue, green, red.
    """

    def __init__(self, channels, is_reversed):
        super().__init__({"views", "own_range"}, keras.config.dtype_policy())
        self.channels, self.is_reversed, self.stem = channels, is_reversed, None

    def apply(self, operation, *args, **kwargs):
        if self.stem is None and isinstance(operation, (layers.Rescaling, layers.Normalization)):
            return args[0]
        if type(operation).__name__ == "CustomScaleLayer":  # of InceptionResNetV2
            shortcut, branch = args[0]
            branch = layers.Rescaling(operation.scale, name=self.unused(f"{operation.name}_scale"))(branch)
            return layers.Add(name=self.unused(operation.name))([shortcut, branch])
        return super().apply(operation, *args, **kwargs)

    def copy(self, operation, config):
        if type(operation) is layers.BatchNormalization:
            # Keras' 0.99 and 0.999 remember a thousand steps, which is more than a short training has.
            return BatchNormalization.from_config(config | {"momentum": 0.9})
        if type(operation) is layers.Conv2D:
            return Conv2D.from_config(config)
        if type(operation) is layers.DepthwiseConv2D:
            # Keras draws as if each output saw all channels: so small that what comes out is nearly the same for all.
            start = keras.initializers.RandomNormal(stddev=float(np.sqrt(2 / np.prod(operation.kernel_size))))
            config["depthwise_initializer"] = start
        if type(operation).__name__ == "LayerScale":  # of ConvNeXt: a factor for each channel
            start, width = keras.initializers.Constant(operation.init_values), operation.projection_dim
            options = {"kernel_initializer": start, "name": config["name"], "dtype": config["dtype"]}
            return layers.EinsumDense("abcd,d->abcd", (None, None, width), **options)
        return super().copy(operation, config)

    def fill(self, copy, weights):
        if self.stem is None:
            self.stem = copy
            kernel = weights[0][:, :, ::-1] if self.is_reversed else weights[0]
            weights = [_widened(kernel, self.channels), *weights[1:]]
        super().fill(copy, weights)


def _application(which, shape, weights, pooling, options):
    """A network of `keras.applications` for three channels."""
    constructor = getattr(keras.applications, choose("network of keras.applications", which, APPLICATIONS))
    known = {"include_top", "weights", "input_tensor", "input_shape", "pooling", "classes", "classifier_activation"}
    for option in options:
        choose(f"option of {which}", option, set(inspect.signature(constructor).parameters) - known - {"name"})
    try:
        return constructor(include_top=False, weights=weights, input_shape=(*shape[:2], 3), pooling=pooling, **options)
    except (ValueError, TypeError) as error:
        received = f"Received: name='keras:{which}', input_shape={shape}, weights={weights!r}"
        raise InvalidInputError(f"Keras refuses to build this network: {error}. {received}") from error
    except Exception as error:  # what a download can end in
        raise MissingDataError(
            f"The weights are not in Keras' cache, and could not be downloaded ({error}). Where there is a network, "
            f"keras.applications.{which}() fetches them to ~/.keras/models. Received: weights={weights!r}"
        ) from error


def _preset(which, shape, weights, pooling, options):
    """A backbone of KerasHub up to its features, and the (mean, std) of values in 0..1 that it takes out."""
    try:
        import keras_hub
    except ImportError as error:
        raise BackendError(
            f"Networks of KerasHub take pip install keras-hub; importing it failed ({error}). "
            f"Received: name='keras_hub:{which}'"
        ) from error
    options = {"image_shape": (*shape[:2], 3), **options}
    try:
        source = keras_hub.models.Backbone.from_preset(which, load_weights=weights is not None, **options)
    except Exception as error:  # of KerasHub, of the hosts it asks, of what was written there
        raise MissingDataError(
            f"KerasHub gives no backbone by that preset ({str(error).partition(chr(10))[0]}); a folder is ./FOLDER. "
            f"Received: name='keras_hub:{which}'"
        ) from error
    try:
        converter = keras_hub.layers.ImageConverter.from_preset(which)
        scale, offset = converter.scale or 1.0, converter.offset or 0.0
    except (ValueError, FileNotFoundError):  # a preset without preprocessing
        scale, offset = 1 / 255, 0.0
    scale, offset = np.float64(scale) * 255, np.float64(offset)
    x = source.output
    if isinstance(x, dict) or len(x.shape) not in (3, 4):
        raise InvalidInputError(f"Expected a backbone of images. Received: name='keras_hub:{which}' -> {x}")
    kind = {"avg": "GlobalAveragePooling", "max": "GlobalMaxPooling"}[pooling] + f"{len(x.shape) - 2}D"
    pooled = getattr(layers, kind)(name="pooled")(x)
    return keras.Model(source.input, pooled, name=source.name), -offset / scale, 1 / scale


def _functions(module, function, shape, weights, options):
    """What a function of one's own makes."""
    if not function:
        raise InvalidInputError(
            "A backbone is named 'keras:NAME', 'keras_hub:PRESET' or 'package.module:function'. "
            f"Received: name={module!r}"
        )
    here = os.getcwd()  # where a program's path does not begin: that is its own folder
    is_new = here not in sys.path
    sys.path += [here] * is_new
    try:
        made = getattr(importlib.import_module(module), function, None)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):
            raise
        raise InvalidInputError(
            f"No module {error.name} in the current folder or on PYTHONPATH. Received: name='{module}:{function}'"
        ) from None
    finally:
        if is_new:
            sys.path.remove(here)
    if not callable(made):
        raise InvalidInputError(f"Expected a function in the module {module}. Received: name='{module}:{function}'")
    network = made(shape, **({} if weights is None else {"weights": weights}), **options)
    network = check_published(as_functional("backbone", network))
    if len(network.outputs) != 1 or len(network.output_shape) != 2 or network.output_shape[-1] is None:
        raise InvalidInputError(
            "A backbone must have one output (batch, features); pool its maps, as by GlobalAveragePooling2D. "
            f"Received: name='{module}:{function}' -> {network.output_shape}"
        )
    return network
