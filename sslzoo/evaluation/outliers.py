"""Outliers by the slope of a density: where log p(x) changes fast with x, x is not from where the data lies.

    head = sslzoo.load("gedi-mnist", "projection")               # logits of raw images
    auroc(scores(head, digits), scores(head, garments))

A network of K outputs t is read as a density of its inputs, f(x) = log sum_k exp t_k(x) = log p(x) + constant, and the
score of an image is -|df/dx|: JEM's "approximate mass". The constant drops out, and so, in the AUROC, does the unit of
the pixels. It is a heuristic with a known blind spot, smooth images: a network trained on CIFAR-10 may find the plain
backgrounds of SVHN more typical than its own data, and the AUROC falls below one half. It is given as it is.

Reference:
    Grathwohl et al., "Your Classifier is Secretly an Energy Based Model and You Should Treat it Like One", section 5.3.
    Protocol: Sansone and Manhaeve (GEDI, arXiv 2401.00873), tables 5, 11 and 12.
"""

import keras
import numpy as np

from sslzoo import checks
from sslzoo.errors import InvalidInputError
from sslzoo.evaluation.features import check_finite, check_images, run
from sslzoo.losses import log_density
from sslzoo.methods.compiled import Compiled
from sslzoo.methods.state import input_gradient
from sslzoo.networks.composition import input_range

TEST_NOISE = 0.03  # standard deviation, on images in [-1, 1]


def scores(
    network: keras.Model, images: np.ndarray, noise: float = TEST_NOISE, seed: int = 0, batch_size: int = 100
) -> np.ndarray:
    """-|df/dx| over the whole image: the higher, the more typical of what the network was trained on.

    Args:
        network: Keras model, raw images (B, H, W, C), 0..255, -> (B, K): `sslzoo.load(name, "projection")`, or any
            encoder, whose K features are then read as logits.
        images: array (N, H, W, C), values 0..255.
        noise: float >= 0, standard deviation of Gaussian noise on the images, which energy models are trained with, on
            the scale where images span -1 to 1 (of 255, it is 127.5 times that). 0.03 in the paper.
        seed: int, of the noise, which NumPy draws for all images in their order.
        batch_size: int >= 1.

    Returns:
        float64 array (N,), <= 0, per unit of a pixel's 0..255.

    Raises:
        InvalidInputError: images that do not fit the network or are not finite, or a network of another output.
    """
    check_images(network, images)
    checks.count(batch_size=batch_size)
    checks.number(0, noise=noise)
    checks.seed(needed=True, seed=seed)
    images = np.asarray(images, np.float32)
    check_finite(images.reshape(len(images), -1), "images")
    drawn = np.random.default_rng(seed).standard_normal(images.shape, "float32")
    compiled = Compiled(network, lambda x: input_gradient(network, lambda x: _density(network, x), x))
    low, high = input_range(network)
    [slopes] = run(compiled, images + np.float32((high - low) / 2 * noise) * drawn, batch_size)
    typical = -np.linalg.norm(slopes.reshape(len(images), -1).astype(np.float64), axis=1)
    check_finite(typical[:, None], "scores")
    return typical


def auroc(inside: np.ndarray, outside: np.ndarray) -> float:
    """How often an image from inside the distribution scores higher than one from outside, ties counted half.

    0.5 is guessing. Below it the score is inverted; it is not turned round.
    """
    from sklearn.metrics import roc_auc_score

    known = np.concatenate([np.ones(len(inside)), np.zeros(len(outside))])
    return float(roc_auc_score(known, np.concatenate([inside, outside])))


def _density(network, images):
    """f, the log-sum-exp of what the network gives."""
    outputs = network(images, training=False)
    shapes = [tuple(output.shape) for output in keras.tree.flatten(outputs)]
    if len(shapes) != 1 or len(shapes[0]) != 2:
        raise InvalidInputError(
            f"network must have one output (B, K), logits or features. Received: outputs of shapes {shapes}"
        )
    return log_density(outputs)
