"""Encoders by name: what `Views` makes in, representations (or posteriors) out.

Each is a plain Functional model of core Keras layers. Layer tables stand with the builder of each network; where a
paper's table and its released code disagree, both are here under their own names.
"""

import keras
from keras import initializers, layers

from sslzoo import checks
from sslzoo.errors import InvalidInputError, choose
from sslzoo.networks import blocks
from sslzoo.networks.backbones import backbone
from sslzoo.networks.blocks import basic_block, batch_norm, conv, relu
from sslzoo.networks.convolution import AveragePooling2D, Conv2D, MaxPooling2D
from sslzoo.networks.initialization import initialize
from sslzoo.networks.vit import vit, vit_small


def encoder(
    name: str,
    input_shape: tuple[int, ...],
    latent_dim: int | None,
    posterior: bool = False,
    seed: int | None = None,
    **options,
) -> keras.Model:
    """Builds an encoder.

    Example:
        network = networks.encoder("resnet18", (32, 32, 3), 64, seed=0)
        views = np.random.default_rng(0).uniform(size=(2, 32, 32, 3)).astype("float32")
        network(views).shape  # (2, 64)

    Args:
        name: str, one of
            "mlp": 500-500-2000, ReLU, as printed in the SimVAE paper (MNIST, FashionMNIST); flattens any input;
            "mlp-released": 2000-500-500, its mirror, as in the paper's released code;
            "mlp-small": 128-64, for 8x8 digits and tests;
            "convnet": four convolutions, for color images on a CPU (CIFAR-10);
            "resnet18-simvae": the small ResNet of SimVAE's released code (CIFAR-10, CelebA);
            "resnet18-simvae-paper": the one of the paper's Table 4;
            "resnet18": the standard ResNet-18 for small images: 3x3 stem, no max-pooling, 512 features;
            "airnet": six convolutions that pool early, for color images in CPU hours (CIFAR-10);
            "resnet8-gedi": GEDI's (and VERA's) eight 3x3 convolutions without batch normalization, `width` features;
            "resnet18-photo", "resnet50": the standard ones for photographs, 7x7 stem and pooling;
            "vit-tiny", "vit-small": vision transformers (`sslzoo.networks.vit`);
            or a name that `backbone` takes ("keras:ResNet50").
        input_shape: tuple, shape of one view without the batch: (H, W, C), or of any rank >= 1 for the MLPs.
            (None, None, C) makes networks that end in a mean over positions ("airnet", ResNets, transformers) take any
            size.
        latent_dim: int, size L of the representation; a linear layer named "latent" makes it. None leaves that layer
            out where the features themselves serve as representation ("airnet": 192, "resnet18": 512, "resnet8-gedi":
            `width`, "resnet18-photo": 512, "resnet50": 2048, "vit-tiny": 192, "vit-small": 384, all of `backbone`).
        posterior: bool. With True the outputs are [mean, log_var], (B, L) each, of a diagonal Gaussian posterior, from
            linear layers of those names; log_var is not clipped.
        seed: int >= 0, of the initial weights, which NumPy draws: equal on every backend (`networks.initialize`).
            None takes one from Python's `random`, which `keras.utils.set_random_seed` seeds.
        **options: `widths` (tuple of int) of the MLPs and "airnet", `width` (int) of "resnet8-gedi", `patch_size` and
            `depth` of transformers; `weights` and others of `backbone`.

    Returns:
        Functional `keras.Model` named `name`: float (B, *input_shape) -> (B, L), or [mean, log_var].

    Raises:
        UnknownNameError: no such encoder.
        InvalidInputError: a shape, size or option that does not fit the network.
    """
    if ":" not in str(name):
        choose("encoder", name, ENCODERS)
    if latent_dim is not None:
        latent_dim = checks.count(latent_dim=latent_dim)
    elif posterior or not gives_features(name):
        which = "a posterior" if posterior else f"encoder {name!r}"
        raise InvalidInputError(f"{which} needs a latent_dim, a positive integer. Received: latent_dim=None")
    if ":" in name:
        trunk = backbone(name, input_shape, seed=seed, **options)
        images, features, name = trunk.input, trunk.output, trunk.name
    else:
        builder = ENCODERS[name]
        rank = None if name in blocks.MLPS else 3
        images = keras.Input(checks.shape(rank, open_sides=name in ANY_SIZE, input_shape=input_shape), name="views")
        blocks.check_options("encoder", name, builder, options)
        trunk, features = None, builder(images, **options)
    start = (blocks.pytorch_default(features.shape[-1]) if name in _RELEASED else {}) | {"dtype": blocks.output_dtype()}
    if posterior:
        outputs = [blocks.dense(features, latent_dim, output, **start) for output in ("mean", "log_var")]
    elif latent_dim is not None:
        outputs = blocks.dense(features, latent_dim, "latent", **start)
    else:
        outputs = features
    if trunk is None:
        return initialize(keras.Model(images, outputs, name=name), seed)
    if outputs is not features:
        initialize(keras.Model(features, outputs), seed)
    return keras.Model(images, outputs, name=name)


def gives_features(name: str) -> bool:
    """Whether the features of a network serve as its representation, without a layer "latent"."""
    return name in FEATURE_ENCODERS or ":" in name


def takes_any_size(name: str) -> bool:
    """Whether a network can be built for images of any side, with an `input_shape` of (None, None, C)."""
    return name in ANY_SIZE or ":" in name


def on_part(
    network: keras.Model,
    image_shape: tuple[int, int, int],
    rows: tuple[int, int] | None = None,
    channels: tuple[int, int] | None = None,
) -> keras.Model:
    """A network that takes whole images and looks at a part of them, such as the lightness of Lab images.

    Example:
        lightness = networks.on_part(networks.encoder("mlp-small", (8, 8, 1), 10), (8, 8, 3), channels=(0, 1))
        lightness(np.zeros((4, 8, 8, 3), "float32")).shape  # (4, 10)

    Args:
        network: built model of images of the size of that part.
        image_shape: tuple (H, W, C) of the images; H and W may be None, for all sizes, where no rows are named.
        rows, channels: (first, last), it sees first, ..., last - 1; None for all.

    Returns:
        Functional `keras.Model` (N, H, W, C) -> what the network gives, of the network's layers and name.

    Raises:
        InvalidInputError: a part that images do not have, or not what the network takes.
    """
    height, width, depth = image_shape = checks.shape(3, open_sides=rows is None, image_shape=image_shape)
    (top, bottom), (first, last) = rows or (0, height), channels or (0, depth)
    part = (bottom - top if rows else height, width, last - first)
    inside = (rows is None or 0 <= top < bottom <= height) and 0 <= first < last <= depth
    if not getattr(network, "built", False) or not inside or tuple(network.input_shape[1:]) != part:
        raise InvalidInputError(
            "network must be built for a part of the images, which rows and channels name as (first, last). "
            f"Received: network of {getattr(network, 'input_shape', None)}, image_shape={image_shape}, rows={rows}, "
            f"channels={channels}"
        )
    x = images = keras.Input(image_shape, name="views")
    if rows is not None:
        x = layers.Cropping2D(((top, height - bottom), (0, 0)), name="rows", **blocks.CHANNELS_LAST)(x)
    if channels is not None:
        # Cropping2D crops the last two axes of what it takes for channels-first images: here the last one alone.
        x = layers.Cropping2D(((0, 0), (first, depth - last)), data_format="channels_first", name="channels")(x)
    return keras.Model(images, network(x), name=network.name)


def mlp(x, *, widths=(500, 500, 2000)):
    """Table 3(a) of "A Probabilistic Model behind Self-Supervised Learning": D-500-500-2000-L, ReLU.

    | layer | output | |
    |---|---|---|
    | fc1 | 500 | ReLU |
    | fc2 | 500 | ReLU |
    | fc3 | 2000 | ReLU |
    | head | L (or L and L) | linear |

    The released code turns the widths round (`mlp_released`). Initialization, on which the paper is silent, is Keras'
    (Glorot uniform, zero bias).
    """
    return blocks.dense_stack(_flat(x), checks.widths(widths=widths), "fc")


def mlp_released(x, *, widths=(2000, 500, 500)):
    """The MLP of SimVAE's released code: D-2000-500-500-L, the mirror of the printed one, with PyTorch's initial
    weights (kernel and bias uniform within 1 / sqrt(inputs))."""
    return blocks.dense_stack(_flat(x), checks.widths(widths=widths), "fc", blocks.pytorch_default)


def mlp_small(x, *, widths=(128, 64)):
    """D-128-64-L: not from a paper; right for 8x8 digits."""
    return mlp(x, widths=widths)


def convnet(x):
    """Four convolutions and no pooling: not from a paper; what a CPU trains on natural images within half an hour.

    | layer | 32x32 | |
    |---|---|---|
    | conv1, BN, ReLU | 16x16, 32 | 4x4, stride 2, pad 1 |
    | conv2, BN, ReLU | 8x8, 64 | 4x4, stride 2, pad 1 |
    | conv3, BN, ReLU | 4x4, 128 | 4x4, stride 2, pad 1 |
    | conv4, BN, ReLU | 4x4, 128 | 3x3 |
    | flatten | 2048 | |

    444,672 parameters with 64 linear outputs, 575,808 with a posterior of 64. Initial weights He normal (fan out). A
    side that is odd loses a pixel when it is halved.
    """
    _check_side("convnet", x, 8)
    for index, (filters, size, stride) in enumerate(((32, 4, 2), (64, 4, 2), (128, 4, 2), (128, 3, 1)), 1):
        x = relu(batch_norm(conv(x, filters, size, f"conv{index}", stride), f"bn{index}"), f"relu{index}")
    return _flat(x)


def resnet18_simvae(x):
    """The "ResNet18" of SimVAE's released code, for 32x32 (CIFAR-10) and 64x64 (CelebA) images.

    | layer | 32x32 | 64x64 | |
    |---|---|---|---|
    | stem_conv | 30x30, 64 | 61x61, 64 | up to 32 px: 3x3 with bias; above: 4x4 without; neither pads |
    | stem_bn, ReLU, stem_pool | 15x15, 64 | 31x31, 64 | max 3x3, stride 2, pad 1 |
    | stage1 | 15x15, 32 | 31x31, 32 | 2 basic blocks |
    | stage2 | 8x8, 64 | 16x16, 64 | 2 basic blocks, the first with stride 2 |
    | stage3 | 4x4, 128 | 8x8, 128 | 2 basic blocks, the first with stride 2 |
    | flatten | 2048 | 8192 | |

    The first block of every stage has a 1x1 shortcut with batch normalization. A fourth stage (256) exists in that code
    but is cut off before use. Initial weights as there: He normal (fan out), the stem and the head PyTorch's own.
    """
    _check_side("resnet18-simvae", x, 8)
    small = max(x.shape[1:3]) <= 32
    size = 3 if small else 4
    options = blocks.pytorch_default(size * size * x.shape[-1])
    stem = Conv2D(64, size, padding="valid", use_bias=small, name="stem_conv", **blocks.CHANNELS_LAST, **options)
    x = _pool(relu(batch_norm(blocks.apply(stem, x), "stem_bn"), "stem_relu"))
    for stage, (filters, stride) in enumerate(((32, 1), (64, 2), (128, 2)), 1):
        x = basic_block(x, filters, f"stage{stage}_block1", stride, project=True)
        x = basic_block(x, filters, f"stage{stage}_block2")
    return _flat(x)


def resnet18_simvae_paper(x):
    """Table 4(a) of "A Probabilistic Model behind Self-Supervised Learning", whose sizes are those of 64x64 images.

    | layer | 64x64 | 32x32 | |
    |---|---|---|---|
    | conv1, BN, ReLU | 64x64, 16 | 32x32, 16 | 4x4, stride 1, padded to keep the size |
    | pool | 32x32, 16 | 16x16, 16 | max 3x3, stride 2, pad 1 |
    | conv2 | 32x32, 32 | 16x16, 32 | two 3x3 |
    | conv3 | 16x16, 64 | 8x8, 64 | two 3x3, the first with stride 2 |
    | conv4 | 8x8, 128 | 4x4, 128 | two 3x3, the first with stride 2 |
    | conv5 | 4x4, 256 | 2x2, 256 | two 3x3, the first with stride 2 |
    | flatten | 4096 | 1024 | |

    Printed are two convolutions a stage, that is one basic block (a ResNet-18 has two blocks); shortcuts are not
    printed but are what makes it a ResNet. The released code is another network (`resnet18_simvae`).
    """
    _check_side("resnet18-simvae-paper", x, 8)
    x = blocks.pad(x, ((1, 2), (1, 2)), "conv1_pad")
    stem = Conv2D(16, 4, use_bias=False, name="conv1", kernel_initializer=blocks.he_normal(), **blocks.CHANNELS_LAST)
    x = _pool(relu(batch_norm(blocks.apply(stem, x), "conv1_bn"), "conv1_relu"))
    for stage, (filters, stride) in enumerate(((32, 1), (64, 2), (128, 2), (256, 2)), 2):
        x = basic_block(x, filters, f"conv{stage}", stride)
    return _flat(x)


def resnet18(x):
    """ResNet-18 for small images (He et al., "Deep Residual Learning", with the stem of their CIFAR networks).

    | layer | 32x32 | |
    |---|---|---|
    | stem_conv, BN, ReLU | 32x32, 64 | 3x3, no max-pooling |
    | stage1 | 32x32, 64 | 2 basic blocks |
    | stage2 | 16x16, 128 | 2 basic blocks, the first with stride 2 |
    | stage3 | 8x8, 256 | 2 basic blocks, the first with stride 2 |
    | stage4 | 4x4, 512 | 2 basic blocks, the first with stride 2 |
    | features | 512 | mean over positions |

    11,168,832 trainable parameters for three channels. Initial weights He normal (fan out), as in torchvision.
    """
    _check_side("resnet18", x, 8)
    x = relu(batch_norm(conv(x, 64, 3, "stem_conv"), "stem_bn"), "stem_relu")
    return _stages(x, basic_block, (2, 2, 2, 2))


def resnet18_photo(x):
    """ResNet-18 for photographs (He et al., "Deep Residual Learning", table 1).

    | layer | 224x224 | |
    |---|---|---|
    | stem_conv, BN, ReLU | 112x112, 64 | 7x7, stride 2 |
    | pool | 56x56, 64 | max 3x3, stride 2 |
    | stage1 ... stage4 | 7x7, 512 | as in "resnet18" |
    | features | 512 | mean over positions |

    11,176,512 trainable parameters for three channels, as in torchvision without its last layer.
    """
    return _stages(_photo_stem("resnet18-photo", x), basic_block, (2, 2, 2, 2))


def resnet50(x):
    """ResNet-50 (He et al., table 1): the stem of `resnet18_photo`, then 3, 4, 6, 3 bottleneck blocks, 2048 features.

    Blocks halve images in their 3x3 convolution, not in the 1x1 before it, as in torchvision. 23,508,032 trainable
    parameters for three channels.
    """
    return _stages(_photo_stem("resnet50", x), blocks.bottleneck, (3, 4, 6, 3))


def _photo_stem(name, x):
    _check_side(name, x, 16)
    return _pool(relu(batch_norm(conv(x, 64, 7, "stem_conv", 2), "stem_bn"), "stem_relu"))


def _stages(x, block, depths):
    """Stages of 64, 128, 256 and 512 filters, each but the first beginning with stride 2; the mean over positions."""
    for stage, (filters, depth) in enumerate(zip((64, 128, 256, 512), depths), 1):
        for place in range(1, depth + 1):
            stride = 2 if stage > 1 and place == 1 else 1
            x = block(x, filters, f"stage{stage}_block{place}", stride)
    return _mean(x)


def airnet(x, *, widths=(64, 128, 192)):
    """The network of the airbench speed runs (Jordan, arXiv 2404.00498), narrower and with an ordinary stem.

    | layer | 32x32 | 24x24 | |
    |---|---|---|---|
    | stem_conv, ReLU | 31x31, 24 | 23x23, 24 | 2x2 with bias, no padding |
    | block1 | 15x15, 64 | 11x11, 64 | 3x3, max-pooling 2x2, BN, ReLU, 3x3, BN, ReLU |
    | block2 | 7x7, 128 | 5x5, 128 | the same |
    | block3 | 3x3, 192 | 2x2, 192 | the same |
    | features | 192 | 192 | mean over positions |

    826,680 trainable parameters for three channels. It is narrow where images are large, and normalizes after pooling,
    so that most of a step is convolution. Initial weights He normal (fan out), those of the stem Keras' own.
    """
    _check_side("airnet", x, 2 ** len(widths) + 1)
    stem = Conv2D(24, 2, padding="valid", name="stem_conv", **blocks.CHANNELS_LAST)
    x = relu(blocks.apply(stem, x), "stem_relu")
    for block, filters in enumerate(checks.widths(widths=widths), 1):
        x = conv(x, filters, 3, f"block{block}_conv1")
        x = MaxPooling2D(2, name=f"block{block}_pool", **blocks.CHANNELS_LAST)(x)
        x = relu(batch_norm(x, f"block{block}_bn1"), f"block{block}_relu1")
        x = conv(x, filters, 3, f"block{block}_conv2")
        x = relu(batch_norm(x, f"block{block}_bn2"), f"block{block}_relu2")
    return _mean(x)


def resnet8_gedi(x, *, width=128):
    """Table 8 of the GEDI paper (arXiv 2401.00873), the ResNet of VERA: eight 3x3 convolutions, no normalization.

    | layer | 32x32 | |
    |---|---|---|
    | block1 | 16x16, F | conv3, LeakyReLU, conv3, mean 2x2; plus shortcut: mean 2x2, 1x1 conv |
    | block2 | 8x8, F | LeakyReLU, conv3, LeakyReLU, conv3, mean 2x2; plus shortcut: mean 2x2 |
    | block3, block4 | 8x8, F | LeakyReLU, conv3, LeakyReLU, conv3; plus identity |
    | features | F | LeakyReLU, mean over positions |

    F = `width`: 128 for SVHN and CIFAR-10 (1,037,184 parameters), 256 for CIFAR-100 (4,138,752). All convolutions have
    a bias; LeakyReLU has slope 0.2. Table 8 prints the sum for block 1 only and no LeakyReLU before the last mean;
    VERA's code has both, and the paper's parameter counts fit either reading. Initial weights as in VERA: Glorot
    uniform times sqrt(2), times 1 for the very first convolution; zero biases.
    """
    width = checks.count(width=width)
    height, breadth = x.shape[1:3]
    if height % 4 or breadth % 4:
        raise InvalidInputError(
            "encoder 'resnet8-gedi' halves images twice and needs height and width divisible by 4. "
            f"Received: input_shape={tuple(x.shape[1:])}"
        )

    def convolve(x, size, name, scale=2.0):  # scale = gain squared
        glorot = initializers.VarianceScaling(scale, "fan_avg", "uniform")
        return conv(x, width, size, name, use_bias=True, kernel_initializer=glorot)

    def leaky(x, name):
        return layers.LeakyReLU(negative_slope=0.2, name=name)(x)

    def halve(x, name):
        return AveragePooling2D(2, name=name, **blocks.CHANNELS_LAST)(x)

    shortcut = convolve(halve(x, "block1_shortcut_pool"), 1, "block1_shortcut")
    x = leaky(convolve(x, 3, "block1_conv1", scale=1.0), "block1_relu")
    x = halve(convolve(x, 3, "block1_conv2"), "block1_pool")
    x = layers.Add(name="block1_add")([x, shortcut])
    for block in ("block2", "block3", "block4"):
        shortcut = x
        x = convolve(leaky(x, f"{block}_relu1"), 3, f"{block}_conv1")
        x = convolve(leaky(x, f"{block}_relu2"), 3, f"{block}_conv2")
        if block == "block2":
            x, shortcut = halve(x, "block2_pool"), halve(shortcut, "block2_shortcut_pool")
        x = layers.Add(name=f"{block}_add")([x, shortcut])
    return _mean(leaky(x, "relu"))


def _flat(x):
    return layers.Flatten(name="flatten", **blocks.CHANNELS_LAST)(x)


def _mean(x):
    return layers.GlobalAveragePooling2D(name="features", dtype=blocks.output_dtype(), **blocks.CHANNELS_LAST)(x)


def _pool(x):
    """Max 3x3, stride 2, pad 1. It follows a ReLU, so padding with zeros equals PyTorch's padding with -inf."""
    return MaxPooling2D(3, 2, "valid", name="pool", **blocks.CHANNELS_LAST)(blocks.pad(x, 1, "pool_pad"))


def _check_side(name, x, least):
    if min(side or least for side in x.shape[1:3]) < least:
        raise InvalidInputError(
            f"encoder {name!r} needs images of at least {least}x{least}. Received: input_shape={tuple(x.shape[1:])}"
        )


ENCODERS = {
    "mlp": mlp,
    "mlp-released": mlp_released,
    "mlp-small": mlp_small,
    "convnet": convnet,
    "resnet18-simvae": resnet18_simvae,
    "resnet18-simvae-paper": resnet18_simvae_paper,
    "resnet18": resnet18,
    "airnet": airnet,
    "resnet8-gedi": resnet8_gedi,
    "resnet18-photo": resnet18_photo,
    "resnet50": resnet50,
    "vit-tiny": vit,
    "vit-small": vit_small,
}
ANY_SIZE = {"airnet", "resnet18", "resnet18-photo", "resnet50", "vit-tiny", "vit-small"}
FEATURE_ENCODERS = ANY_SIZE | {"resnet8-gedi"}
_RELEASED = {"mlp-released", "resnet18-simvae"}  # of SimVAE's released code, whose last layer starts as PyTorch's
