"""Pieces that encoders and decoders share, with the constants of the papers' PyTorch code rather than Keras' defaults.

Batch normalization has epsilon 1e-5 and momentum 0.9 (PyTorch's "0.1"). Strided convolutions pad explicitly by one on
each side ("same" in Keras pads one side only at stride 2, if the size is odd) and transposed ones crop what that
padding removes. Images are (B, H, W, C) whatever `keras.config.image_data_format` says.
"""

import math

import keras
from keras import initializers, layers

from sslzoo.errors import InvalidInputError
from sslzoo.networks.convolution import Conv2D
from sslzoo.networks.initialization import defer, restore
from sslzoo.networks.normalization import BatchNormalization
from sslzoo.networks.transposed import hasten

MLPS = ("mlp", "mlp-released", "mlp-small")  # encoders and decoders without convolutions, of images of any rank

CHANNELS_LAST = {"data_format": "channels_last"}

# He et al., "Delving Deep into Rectifiers", eq. 14: what every PyTorch ResNet starts from ("kaiming_normal, fan_out").
HE_NORMAL = {"scale": 2.0, "mode": "fan_out", "distribution": "untruncated_normal"}


def he_normal():
    return initializers.VarianceScaling(**HE_NORMAL)


def pytorch_default(fan_in):
    """Initializers of `torch.nn.Linear` and convolutions: kernel and bias uniform within 1 / sqrt(fan_in)."""
    limit = 1.0 / math.sqrt(fan_in)
    return {
        "kernel_initializer": initializers.RandomUniform(-limit, limit),
        "bias_initializer": initializers.RandomUniform(-limit, limit),
    }


def apply(layer, *args, **kwargs):
    """Calls a new layer, leaving its weights at zero for `networks.initialize`, or whoever knows better, to set."""
    result = defer(layer)(*args, **kwargs)
    restore(layer)
    return result


def dense(x, units, name, **options):
    return apply(layers.Dense(units, name=name, **options), x)


def output_dtype():
    """float32 under mixed precision, for layers whose output a loss compares; else what the policy computes in.

    In bfloat16, whose numbers are 0.4 % apart, views of an image that differ by less are one and the same.
    """
    return keras.config.dtype_policy().variable_dtype


def batch_norm(x, name, **options):
    return BatchNormalization(momentum=0.9, epsilon=1e-5, name=name, **options)(x)


def relu(x, name):
    return layers.ReLU(name=name)(x)


def pad(x, padding, name):
    return layers.ZeroPadding2D(padding, name=name, **CHANNELS_LAST)(x)


def conv(x, filters, size, name, stride=1, use_bias=False, **options):
    """Convolution padded by (size - 1) // 2 on each side, as that `padding` in PyTorch; `size` is odd at stride 1."""
    # Where it halves evenly, that padding is Keras' "same" too: then no larger image is made, nor convolved.
    halves = stride == 2 and size % 2 == 0 and all(side and side % 2 == 0 for side in x.shape[1:3])
    same = stride == 1 or halves
    if not same and size > 1:
        x = pad(x, (size - 1) // 2, f"{name}_pad")
    options.setdefault("kernel_initializer", he_normal())
    padding = "same" if same else "valid"
    layer = Conv2D(filters, size, stride, padding, use_bias=use_bias, name=name, **CHANNELS_LAST, **options)
    return apply(layer, x)


def conv_up(x, filters, size, name, use_bias=False, **options):
    """Transposed convolution that doubles the image: `stride=2, padding=(size - 1) // 2, output_padding=size % 2`."""
    options.setdefault("kernel_initializer", he_normal())
    # Of an even size Keras cuts as much on either side. TensorFlow on a CPU takes long to differentiate a crop: a fifth
    # of a step of `simvae-cifar10`.
    padding = "same" if size % 2 == 0 else "valid"
    layer = layers.Conv2DTranspose(filters, size, 2, padding, use_bias=use_bias, name=name, **CHANNELS_LAST, **options)
    x = apply(hasten(layer), x)
    if padding == "same" or size == 1:  # of size 1 nothing overlaps: Keras already fills up to twice the side
        return x
    cut = ((size - 1) // 2, size // 2 - 1)
    return layers.Cropping2D((cut, cut), name=f"{name}_crop", **CHANNELS_LAST)(x)


def basic_block(x, filters, name, stride=1, project=None):
    """conv3-BN-ReLU-conv3-BN, plus shortcut, ReLU ("basic block" of He et al., "Deep Residual Learning", fig. 5 left).

    The shortcut is a 1x1 convolution with batch normalization where the shape changes (option B of that paper), or
    where `project` says so.
    """
    if project is None:
        project = stride > 1 or x.shape[-1] != filters
    shortcut = x
    x = relu(batch_norm(conv(x, filters, 3, f"{name}_conv1", stride), f"{name}_bn1"), f"{name}_relu1")
    x = batch_norm(conv(x, filters, 3, f"{name}_conv2"), f"{name}_bn2")
    if project:
        shortcut = batch_norm(conv(shortcut, filters, 1, f"{name}_shortcut", stride), f"{name}_shortcut_bn")
    return relu(layers.Add(name=f"{name}_add")([x, shortcut]), f"{name}_relu2")


def bottleneck(x, filters, name, stride=1):
    """conv1-BN-ReLU-conv3-BN-ReLU-conv1-BN, plus shortcut, ReLU, to four times `filters` (figure 5, right)."""
    shortcut = x
    x = relu(batch_norm(conv(x, filters, 1, f"{name}_conv1"), f"{name}_bn1"), f"{name}_relu1")
    x = relu(batch_norm(conv(x, filters, 3, f"{name}_conv2", stride), f"{name}_bn2"), f"{name}_relu2")
    x = batch_norm(conv(x, 4 * filters, 1, f"{name}_conv3"), f"{name}_bn3")
    if stride > 1 or shortcut.shape[-1] != 4 * filters:
        shortcut = conv(shortcut, 4 * filters, 1, f"{name}_shortcut", stride)
        shortcut = batch_norm(shortcut, f"{name}_shortcut_bn")
    return relu(layers.Add(name=f"{name}_add")([x, shortcut]), f"{name}_relu3")


def dense_stack(x, widths, name, initializer=None):
    """Dense-ReLU layers; `initializer` maps the width of a layer's input to keyword arguments of `Dense`."""
    for index, width in enumerate(widths, 1):
        options = initializer(x.shape[-1]) if initializer else {}
        x = dense(x, width, f"{name}{index}", activation="relu", **options)
    return x


def check_options(kind, name, builder, options):
    """Raise unless every key of `options` is a keyword-only argument of `builder`."""
    known = sorted(builder.__kwdefaults__ or {})
    for option in options:
        if option not in known:
            has = f"has the options {', '.join(known)}" if known else "has no options"
            raise InvalidInputError(f"{kind} {name!r} {has}. Received: {option}={options[option]!r}")
