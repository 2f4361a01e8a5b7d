"""Decoders by name: latents in, image logits out.

Each is a plain Functional model of core Keras layers. The image mean is the sigmoid of the logits: SimVAE's released
code ends every decoder in a sigmoid (the paper is silent), which the methods apply themselves, so that a Bernoulli
likelihood can be computed from logits.
"""

import math

import keras
from keras import layers

from sslzoo import checks
from sslzoo.errors import InvalidInputError, choose
from sslzoo.networks import blocks
from sslzoo.networks.blocks import batch_norm, conv, conv_up, relu
from sslzoo.networks.initialization import initialize


def decoder(
    name: str, output_shape: tuple[int, ...], latent_dim: int, seed: int | None = None, **options
) -> keras.Model:
    """Builds a decoder, the counterpart of the encoder of the same name.

    Example:
        network = networks.decoder("mlp-small", (8, 8, 1), 10, seed=0)
        latents = np.random.default_rng(0).normal(size=(2, 10)).astype("float32")
        network(latents).shape  # (2, 8, 8, 1), logits

    Args:
        name: str, one of
            "mlp": 2000-500-500, ReLU, as printed in the SimVAE paper;
            "mlp-released": 500-500-2000, as in the paper's released code;
            "mlp-small": 64-128, for 8x8 digits and tests;
            "airnet", "convnet": four convolutions, as wide as the encoder of that name;
            "resnet18-simvae": the transposed ResNet of SimVAE's released code;
            "resnet18-simvae-paper": the one of the paper's Table 4.
        output_shape: tuple, shape of one image without the batch: (H, W, C), or of any rank >= 1 for the MLPs. H and W
            are multiples of 16 for the residual decoders, of 8 for "airnet" and "convnet".
        latent_dim: int, size L of the latent.
        seed: int >= 0 or None, of the initial weights, as in `networks.encoder`.
        **options: `widths` (tuple of int) of the MLPs.

    Returns:
        Functional `keras.Model` named `name`: float (B, L) -> logits (B, *output_shape), before any sigmoid.

    Raises:
        UnknownNameError: no such decoder.
        InvalidInputError: a shape, size or option that does not fit the network.
    """
    builder = DECODERS[choose("decoder", name, DECODERS)]
    output_shape = checks.shape(output_shape=output_shape, rank=None if name in blocks.MLPS else 3)
    latent_dim = checks.count(latent_dim=latent_dim)
    blocks.check_options("decoder", name, builder, options)
    latent = keras.Input((latent_dim,), name="latent")
    return initialize(keras.Model(latent, builder(latent, output_shape, **options), name=name), seed)


def mlp(z, output_shape, *, widths=(2000, 500, 500)):
    """Table 3(b) of "A Probabilistic Model behind Self-Supervised Learning": L-2000-500-500-D, ReLU.

    The released code turns the widths round (`mlp_released`). Initialization is Keras' (Glorot uniform, zero bias).
    """
    return _dense(z, output_shape, widths, None)


def mlp_released(z, output_shape, *, widths=(500, 500, 2000)):
    """The MLP of SimVAE's released code: L-500-500-2000-D, with PyTorch's initial weights."""
    return _dense(z, output_shape, widths, blocks.pytorch_default)


def mlp_small(z, output_shape, *, widths=(64, 128)):
    """L-64-128-D: not from a paper; right for 8x8 digits."""
    return mlp(z, output_shape, widths=widths)


def airnet(z, output_shape):
    """`convnet` as wide as the encoder "airnet": 192, 128 and 64. 1,059,587 parameters for 32x32 and 64 latents."""
    return _convolutions("airnet", z, output_shape, (192, 128, 64))


def convnet(z, output_shape):
    """The mirror of the encoder of that name: not from a paper.

    | layer | 32x32 | |
    |---|---|---|
    | fc | 4x4, 128 | dense |
    | conv1, BN, ReLU | 4x4, 128 | 3x3 |
    | conv2, BN, ReLU | 8x8, 64 | transposed 4x4, stride 2 |
    | conv3, BN, ReLU | 16x16, 32 | transposed 4x4, stride 2 |
    | logits | 32x32, C | transposed 4x4, stride 2, with bias |

    446,403 parameters for 32x32 color images and 64 latents. A kernel of 4 at stride 2 meets every pixel equally
    often, so that it leaves no chequerboard in the images.
    """
    return _convolutions("convnet", z, output_shape, (128, 64, 32))


def resnet18_simvae(z, output_shape):
    """The "ResNet18" decoder of SimVAE's released code, for 32x32 (CIFAR-10) and 64x64 (CelebA) images.

    | layer | 32x32 | 64x64 | |
    |---|---|---|---|
    | seed | 2x2, 512 | 4x4, 512 | dense |
    | stage1 | 4x4, 256 | 8x8, 256 | plain block of 512, then upsampling block |
    | stage2 | 8x8, 128 | 16x16, 128 | plain block of 256, then upsampling block |
    | stage3 | 16x16, 64 | 32x32, 64 | plain block of 128, then upsampling block |
    | stage4 | 16x16, 64 | 32x32, 64 | two plain blocks |
    | logits | 32x32, C | 64x64, C | transposed 7x7, stride 2, with bias |

    A plain block is conv3-BN-ReLU-conv3-BN-ReLU without a shortcut; an upsampling block has a transposed 3x3 of stride
    2 first, and a transposed 1x1 of stride 2 with batch normalization as shortcut. Stride-1 convolutions are transposed
    in that code, which is the same family of maps (the kernel is turned round). Initial weights are PyTorch's own, as
    there: its "fan in" of a transposed kernel counts the outputs.
    """
    height, width, channels = _parts("resnet18-simvae", output_shape, 4)
    x = _seed(z, (height, width, 512), blocks.pytorch_default(z.shape[-1]))
    for stage, filters in enumerate((256, 128, 64), 1):
        x = _plain_block(x, 2 * filters, f"stage{stage}_block1")
        x = _up_block(x, filters, f"stage{stage}_block2", _transposed_default)
    x = _plain_block(x, 64, "stage4_block1")
    x = _plain_block(x, 64, "stage4_block2")
    return conv_up(x, channels, 7, "logits", use_bias=True, **blocks.pytorch_default(channels * 49))


def resnet18_simvae_paper(z, output_shape):
    """Table 4(b) of "A Probabilistic Model behind Self-Supervised Learning", whose sizes are those of 64x64 images.

    | layer | 64x64 | 32x32 | |
    |---|---|---|---|
    | fc | 4x4, 256 | 2x2, 256 | dense |
    | conv1 | 8x8, 128 | 4x4, 128 | transposed 3x3 of stride 2, 3x3 |
    | conv2 | 16x16, 64 | 8x8, 64 | the same |
    | conv3 | 32x32, 32 | 16x16, 32 | the same |
    | conv4 | 64x64, 16 | 32x32, 16 | the same |
    | logits | 64x64, C | 32x32, C | 5x5, stride 1 |

    Batch normalization, ReLU and shortcuts are not printed; they are those of the encoder's blocks, upside down.
    """
    height, width, channels = _parts("resnet18-simvae-paper", output_shape, 4)
    x = _seed(z, (height, width, 256), {})
    for stage, filters in enumerate((128, 64, 32, 16), 1):
        x = _up_block(x, filters, f"conv{stage}", lambda *_: {})
    return conv(x, channels, 5, "logits", use_bias=True, kernel_initializer="glorot_uniform")


def _convolutions(name, z, output_shape, widths):
    height, width, channels = _parts(name, output_shape, 3)
    x = _seed(z, (height, width, widths[0]), {})
    x = relu(batch_norm(conv(x, widths[0], 3, "conv1"), "bn1"), "relu1")
    for index, filters in enumerate(widths[1:], 2):
        x = relu(batch_norm(conv_up(x, filters, 4, f"conv{index}"), f"bn{index}"), f"relu{index}")
    return conv_up(x, channels, 4, "logits", use_bias=True, kernel_initializer="glorot_uniform")


def _dense(z, output_shape, widths, initializer):
    x = blocks.dense_stack(z, checks.widths(widths=widths), "fc", initializer)
    options = initializer(x.shape[-1]) if initializer else {}
    x = blocks.dense(x, math.prod(output_shape), "pixels", **options)
    return layers.Reshape(output_shape, name="logits")(x)


def _parts(name, output_shape, doublings):
    """Height and width before so many doublings, and channels."""
    height, width, channels = output_shape
    whole = 2**doublings
    if height % whole or width % whole:
        times = {3: "three", 4: "four"}[doublings]
        raise InvalidInputError(
            f"decoder {name!r} doubles the side {times} times and needs height and width divisible by {whole}. "
            f"Received: output_shape={output_shape}"
        )
    return height // whole, width // whole, channels


def _seed(z, shape, options):
    return layers.Reshape(shape, name="seed")(blocks.dense(z, math.prod(shape), "fc", **options))


def _transposed_default(filters, size):
    options = blocks.pytorch_default(filters * size * size)
    return {"kernel_initializer": options["kernel_initializer"]}


def _plain_block(x, filters, name):
    for index in (1, 2):
        options = _transposed_default(filters, 3)
        x = conv(x, filters, 3, f"{name}_conv{index}", **options)
        x = relu(batch_norm(x, f"{name}_bn{index}"), f"{name}_relu{index}")
    return x


def _up_block(x, filters, name, initializer):
    """Transposed conv3 of stride 2-BN-ReLU-conv3-BN, plus transposed 1x1 of stride 2-BN, ReLU."""
    shortcut = conv_up(x, filters, 1, f"{name}_shortcut", **initializer(filters, 1))
    shortcut = batch_norm(shortcut, f"{name}_shortcut_bn")
    x = conv_up(x, filters, 3, f"{name}_conv1", **initializer(filters, 3))
    x = relu(batch_norm(x, f"{name}_bn1"), f"{name}_relu1")
    x = batch_norm(conv(x, filters, 3, f"{name}_conv2", **initializer(filters, 3)), f"{name}_bn2")
    return relu(layers.Add(name=f"{name}_add")([x, shortcut]), f"{name}_relu2")


DECODERS = {
    "airnet": airnet,
    "mlp": mlp,
    "mlp-released": mlp_released,
    "mlp-small": mlp_small,
    "convnet": convnet,
    "resnet18-simvae": resnet18_simvae,
    "resnet18-simvae-paper": resnet18_simvae_paper,
}
