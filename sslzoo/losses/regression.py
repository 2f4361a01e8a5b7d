"""Regression of one view's embedding onto the other's, by direction alone: losses without negatives.

Constant vectors are an optimum of each: what keeps a method away from them is not in the loss, but in whose gradients
are stopped, and that is the caller's to do. Inputs of any float dtype are taken to float32 first; losses are float32
scalars.

References:
    BYOL: Grill et al., "Bootstrap Your Own Latent", eq. 2.
    SimSiam: Chen and He, "Exploring Simple Siamese Representation Learning", eq. 1.
"""

from keras import ops

from sslzoo.losses.tensors import check_pairs, unit


def negative_cosine(prediction, target):
    """SimSiam's D: minus the mean cosine similarity of rows.

    Example:
        prediction, target = np.random.default_rng(0).normal(size=(2, 32, 8))
        losses.negative_cosine(prediction, target)

    Args:
        prediction, target: float tensors (B, D); normalized here. A row of zeros has a cosine of 0 with any other, and
            no gradient.

    Returns:
        Float32 scalar in [-1, 1], -1 where all directions agree.
    """
    prediction, target = unit(prediction), unit(target)
    check_pairs(prediction=prediction, target=target)
    return -ops.mean(ops.sum(prediction * target, axis=1))


def normalized_regression(prediction, target):
    """BYOL's loss of one direction: mean squared distance of normalized rows, which is 2 - 2 cosine.

    Example:
        prediction, target = np.random.default_rng(0).normal(size=(2, 32, 8))
        losses.normalized_regression(prediction, target)

    Args:
        prediction, target: float tensors (B, D); normalized here, rows of zeros as in `negative_cosine`.

    Returns:
        Float32 scalar in [0, 4], 0 where all directions agree.
    """
    return 2.0 + 2.0 * negative_cosine(prediction, target)
