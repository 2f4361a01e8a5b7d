"""An encoder whose representation is a list of places: the centers of mass of a few feature maps."""

import keras
import numpy as np
from keras import layers, ops

from sslzoo import checks
from sslzoo.networks import blocks
from sslzoo.networks.initialization import initialize

EMPTY = 1e-30  # a map whose values sum to less has no center


def center_of_mass(maps):
    """Centers of mass of feature maps.

    Coordinates run from -1 to 1 between the edges of the image, whatever its resolution: the center of pixel i of n
    lies at (2 i + 1) / n - 1.

    Args:
        maps: float tensor (B, H, W, K), >= 0. Sums are taken in float32.

    Returns:
        Float32 tensor (B, 2 K): x_1, y_1, x_2, y_2 ..., x to the right and y down. A map of zeros gives 0, 0.
    """
    height, width = maps.shape[1:3]
    maps = ops.cast(maps, "float32")
    # Marginals first: the sum over one axis, normalized, averages the coordinates of the other.
    over_x, over_y = ops.sum(maps, axis=1), ops.sum(maps, axis=2)
    total = ops.maximum(ops.sum(over_x, axis=1), EMPTY)
    x = ops.sum(ops.multiply(over_x, _coordinates(width)), axis=1) / total
    y = ops.sum(ops.multiply(over_y, _coordinates(height)), axis=1) / total
    return ops.reshape(ops.stack([x, y], axis=2), (-1, 2 * maps.shape[-1]))


def center_of_mass_encoder(
    input_shape: tuple[int, int, int], maps: int = 3, hidden: int = 6, seed: int | None = None
) -> keras.Model:
    """The encoder of the moving balls: two convolutions, and the center of mass of each map they end in.

    | layer | output | |
    |---|---|---|
    | conv1, bn1, ReLU | H x W, hidden | 3x3, padded to keep the size |
    | conv2, bn2, sigmoid ("maps") | H x W, maps | 3x3, padded to keep the size |
    | centers of mass | 2 maps | x and y of each map, from -1 to 1 (`center_of_mass`) |

    Sigmoids start around 1/2, so at first the background, which is nearly all of the image, outweighs what moves in
    it: centers differ by a hundredth and the loss stands still until bn2 has learned to darken the background.

    Example:
        network = networks.center_of_mass_encoder((16, 16, 1), maps=2)
        network(np.zeros((4, 16, 16, 1), "float32")).shape  # (4, 4): x and y of two maps

    Args:
        input_shape: tuple (H, W, C) of an image.
        maps: int, K, how many things to locate.
        hidden: int, channels of the first convolution.
        seed: int >= 0 or None, of the initial weights, as in `networks.encoder`.

    Returns:
        Functional `keras.Model` of core layers: float (B, H, W, C), values in [0, 1] -> (B, 2 K) in [-1, 1].

    Raises:
        InvalidInputError: a shape or size that is not of positive integers.

    Reference:
        "InfoNCE is a variational autoencoder", section 4 and figure 2.
    """
    images = keras.Input(checks.shape(input_shape=input_shape, rank=3), name="views")
    maps, hidden = checks.count(maps=maps), checks.count(hidden=hidden)
    x = blocks.conv(images, hidden, 3, "conv1")
    x = blocks.relu(blocks.batch_norm(x, "bn1"), "relu1")
    x = blocks.conv(x, maps, 3, "conv2")
    x = layers.Activation("sigmoid", name="maps")(blocks.batch_norm(x, "bn2"))
    return initialize(keras.Model(images, center_of_mass(x), name="center_of_mass"), seed)


def _coordinates(n):
    """Centers of n pixels in a row, a column (n, 1)."""
    return ((2 * np.arange(n, dtype="float32") + 1) / n - 1)[:, None]
