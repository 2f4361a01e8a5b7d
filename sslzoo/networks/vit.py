"""A vision transformer of Keras' core layers that takes images of any size."""

import math

import numpy as np
from keras import initializers, layers, ops

from sslzoo import checks
from sslzoo.errors import InvalidInputError
from sslzoo.networks import blocks
from sslzoo.networks.convolution import Conv2D

LARGEST_GRID = 14  # positions along a side that are learned where the size of images is open: 224 / 16


def vit(x, *, patch_size=None, width=192, depth=12, heads=3):
    """ViT (Dosovitskiy et al., arXiv 2010.11929) with the mean over patches for its features.

    | layer | 224x224 | |
    |---|---|---|
    | patches | 14x14, D | convolution of the size and stride of a patch |
    | positions | 196, D | learned, added |
    | block1 ... block12 | 196, D | x + attention(LN(x)), then x + MLP(LN(x)), of 4 D hidden units, GELU |
    | features | D | LN, mean over patches |

    The mean stands for the class token, as in "Better plain ViT baselines for ImageNet-1k" (arXiv 2205.01580): small
    crops and large ones are averaged alike. Positions are learned on a grid and read between its points, linearly, for
    images of another size. Initial weights: normal of 0.02 for positions, else Glorot uniform.

    "vit-tiny": D = 192, 3 heads, 5.5 million parameters; "vit-small": D = 384, 6 heads, 21.6 million.
    """
    height, breadth = x.shape[1:3]
    side = min(height or 224, breadth or 224)
    if patch_size is None:
        patch_size = 4 if side <= 48 else 8 if side <= 128 else 16
    checks.count(patch_size=patch_size, width=width, depth=depth, heads=heads)
    if side < patch_size or width % heads:
        raise InvalidInputError(
            "A vision transformer needs images of at least one patch, and a width that its heads divide. "
            f"Received: input_shape={tuple(x.shape[1:])}, patch_size={patch_size}, width={width}, heads={heads}"
        )
    grid = max(1, side // patch_size) if height and breadth else LARGEST_GRID
    patches = Conv2D(width, patch_size, patch_size, name="patches", **blocks.CHANNELS_LAST)
    x = blocks.apply(patches, x)
    x = ops.add(x, positions(x, grid))
    x = layers.Reshape((-1, width), name="tokens")(x)
    for block in range(1, depth + 1):
        x = _block(x, width, heads, f"block{block}")
    x = _normalized(x, "norm")
    return layers.GlobalAveragePooling1D(name="features", dtype=blocks.output_dtype(), **blocks.CHANNELS_LAST)(x)


def vit_small(x, *, patch_size=None, width=384, depth=12, heads=6):
    """`vit` of twice the width."""
    return vit(x, patch_size=patch_size, width=width, depth=depth, heads=heads)


def positions(maps, grid):
    """What the places of maps (B, h, w, D) are known by: (1, h, w, D), learned on a grid and linear between its points.

    A place has a weight for each of the grid's points, of which four at most are not 0. A dense layer whose kernel
    holds the numbers of all points then is the interpolation, and a core layer.
    """
    rows = ops.repeat(_weights(maps, 1, grid), grid, axis=-1)
    columns = ops.tile(_weights(maps, 2, grid), (1, 1, 1, grid))
    normal = initializers.RandomNormal(stddev=0.02)
    return blocks.dense(rows * columns, maps.shape[-1], "positions", use_bias=False, kernel_initializer=normal)


def _weights(maps, axis, grid):
    """Weight of each of `grid` points for each place along an axis: (1, h, 1, grid) or (1, 1, w, grid)."""
    others = tuple({0, 1, 2, 3} - {axis})
    ones = ops.max(ops.ones_like(ops.cast(maps, "float32")), axis=others, keepdims=True)
    places = (ops.cumsum(ones, axis=axis) - 0.5) / ops.sum(ones, axis=axis, keepdims=True) * grid - 0.5
    distances = ops.abs(ops.clip(places, 0, grid - 1) - np.arange(grid, dtype="float32"))
    return ops.relu(1 - distances)


def _block(x, width, heads, name):
    uniform = initializers.RandomUniform(-math.sqrt(3 / width), math.sqrt(3 / width))  # Glorot's of width to width
    attention = layers.MultiHeadAttention(heads, width // heads, kernel_initializer=uniform, name=f"{name}_attention")
    y = _normalized(x, f"{name}_norm1")
    x = layers.Add(name=f"{name}_attended")([x, blocks.apply(attention, y, y)])
    y = blocks.dense(_normalized(x, f"{name}_norm2"), 4 * width, f"{name}_dense1", activation="gelu")
    return layers.Add(name=f"{name}_added")([x, blocks.dense(y, width, f"{name}_dense2")])


def _normalized(x, name):
    return layers.LayerNormalization(epsilon=1e-6, name=name)(x)
