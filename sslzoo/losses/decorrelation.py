"""Objectives without negatives: views of an image agree, and the coordinates of the embedding spread and decorrelate.

Statistics are those of a batch of embeddings (B, D), each view by itself. `*_terms` returns the parts of an objective
by name, unweighted; `invariance` is the one that pulls the views of an image together, the others keep the embeddings
from collapsing to a point or to few dimensions. Inputs of any float dtype are taken to float32 first; terms are
float32 scalars, to be minimized.

References:
    VICReg: Bardes, Ponce and LeCun, "VICReg: Variance-Invariance-Covariance Regularization for Self-Supervised
        Learning", eq. 1-6.
    Barlow Twins: Zbontar et al., "Barlow Twins: Self-Supervised Learning via Redundancy Reduction", eq. 1 and 2.
    CorInfoMax: Ozsoy et al., "Self-Supervised Learning with an Information Maximization Criterion", eq. 6.
    W-MSE: Ermolov et al., "Whitening for Self-Supervised Representation Learning", section 3.
    All four as lower bounds of a likelihood: the GEDI paper (arXiv 2401.00873), section 2.2 and appendix I.
"""

from keras import ops

from sslzoo.errors import InvalidInputError
from sslzoo.losses.tensors import check_pairs, check_positive, float32, unit

# Times D: added to the diagonal of a correlation matrix (D, D) before it is factorized. Float32 rounds its eigenvalues
# by up to about 1e-7 D, so a singular one would come out indefinite; a quarter of this still failed at times.
ROUNDING = 4e-7
# Variance below which there is nothing to whiten: a constant batch stays finite.
SMALLEST_VARIANCE = 1e-10


def vicreg_terms(z_a, z_b):
    """The three terms of VICReg, with the constants of its released code.

    invariance = |z_a - z_b|^2 / (B D)
    variance   = mean over both views and D coordinates of relu(1 - sqrt(Var + 1e-4))
    covariance = sum over both views of sum_{i != j} Cov_ij^2 / D

    Var and Cov divide by B - 1. The paper's equations sum the variance over the views, twice this value, and leave the
    invariance undivided by D.

    Example:
        z_a, z_b = np.random.default_rng(0).normal(size=(2, 32, 8))
        losses.vicreg_terms(z_a, z_b)

    Args:
        z_a, z_b: float tensors (B, D), embeddings of two views, B >= 2.

    Returns:
        dict of float32 scalars >= 0: "invariance" (pull), "variance" and "covariance" (push). Each is unchanged by a
        shift of both views, by permuting images, coordinates, or the two views. Equal embeddings of all images score
        a variance of 0.99.
    """
    z_a, z_b = _pair(z_a, z_b)
    covariances = [covariance(z, sample=True) for z in (z_a, z_b)]
    # The small constant keeps the gradient of the root finite where an embedding has no variance.
    deviations = [ops.sqrt(ops.diagonal(c) + 1e-4) for c in covariances]
    size = z_a.shape[1]
    return {
        "invariance": ops.mean(ops.square(z_a - z_b)),
        "variance": sum(ops.mean(ops.relu(1.0 - d)) for d in deviations) / 2.0,
        "covariance": sum(_off_diagonal_squares(c) for c in covariances) / size,
    }


def barlow_twins_terms(z_a, z_b):
    """The two sums of Barlow Twins over the cross-correlation matrix c of two views.

    c = z_a^T z_b / B, each view centered and divided by sqrt(Var + 1e-5) with Var over B, as a batch normalization
    without learned scale does.

    Example:
        z_a, z_b = np.random.default_rng(0).normal(size=(2, 32, 8))
        losses.barlow_twins_terms(z_a, z_b)

    Args:
        z_a, z_b: float tensors (B, D), embeddings of two views, B >= 2.

    Returns:
        dict of float32 scalars >= 0: "invariance" = sum_i (c_ii - 1)^2 (pull), "redundancy" = sum_{i != j} c_ij^2
        (push). Unchanged by scaling or shifting a coordinate, up to the 1e-5. Equal embeddings of all images score an
        invariance of D: a coordinate without variance correlates with nothing.
    """
    z_a, z_b = (_standardize(z) for z in _pair(z_a, z_b))
    correlation = ops.matmul(ops.transpose(z_a), z_b) / ops.cast(ops.shape(z_a)[0], "float32")
    return {
        "invariance": ops.sum(ops.square(ops.diagonal(correlation) - 1.0)),
        "redundancy": _off_diagonal_squares(correlation),
    }


def barlow_twins(z_a, z_b, off_diagonal_weight: float = 0.0051):
    """Barlow Twins: sum_i (c_ii - 1)^2 + off_diagonal_weight sum_{i != j} c_ij^2.

    Appendix I of the GEDI paper writes |C * Lambda - I|^2, which would square the weight; the original is followed.

    Example:
        z_a, z_b = np.random.default_rng(0).normal(size=(2, 32, 8))
        losses.barlow_twins(z_a, z_b)

    Args:
        z_a, z_b: float tensors (B, D), embeddings of two views, B >= 2.
        off_diagonal_weight: float >= 0, the paper's lambda.

    Returns:
        Float32 scalar >= 0; see `barlow_twins_terms`.
    """
    terms = barlow_twins_terms(z_a, z_b)
    return terms["invariance"] + off_diagonal_weight * terms["redundancy"]


def corinfomax_terms(z_a, z_b, regularizer: float = 1e-6, covariances=None):
    """The two terms of CorInfoMax, with the constants of its released code.

    invariance      = |z_a - z_b|^2 / (B D)
    log_determinant = -(log det(C_a + regularizer I) + log det(C_b + regularizer I)) / D

    C is the covariance of a view over B. GEDI's form, -log det(sum_i (z_i - z_bar)(z_i - z_bar)^T + beta I) of one
    view + gamma sum_i |z_a - z_b|^2, is this one, up to its scale and a constant: the invariance weighted by gamma B,
    twice that where both views count, and a regularizer of beta / B.

    Example:
        z_a, z_b = np.random.default_rng(0).normal(size=(2, 32, 8))
        losses.corinfomax_terms(z_a, z_b)

    Args:
        z_a, z_b: float tensors (B, D), embeddings of two views, B >= 2.
        regularizer: float > 0. Bounds the loss from above where embeddings collapse: -2 log(regularizer) at a point.
        covariances: float32 tensor (2, D, D), estimates to use instead of the views' covariances in this batch.

    Returns:
        dict of float32 scalars: "invariance" >= 0 (pull), "log_determinant" (push) of any sign: minus twice the
        entropy per coordinate of two Gaussians, up to a constant, so it has no lower bound unless embeddings are
        bounded (by normalizing them).
    """
    check_positive(regularizer=regularizer)
    z_a, z_b = _pair(z_a, z_b)
    if covariances is None:
        covariances = covariance(ops.stack([z_a, z_b]))
    covariances = float32(covariances)
    size = z_a.shape[1]
    return {
        "invariance": ops.mean(ops.square(z_a - z_b)),
        "log_determinant": -ops.sum(log_determinant(covariances, regularizer)) / size,
    }


def w_mse(z, normalize: bool = True):
    """W-MSE: the distance between views whose embeddings were whitened, so that they cannot collapse.

    Example:
        z = np.random.default_rng(0).normal(size=(32, 2, 8))  # two views of each image
        losses.w_mse(z)

    Args:
        z: float tensor (..., B, J, D), embeddings of J >= 2 views of B > D images; leading axes hold further batches,
            each whitened by itself.
        normalize: bool. True: whitened embeddings are taken to unit length, mean over images and pairs of views of
            2 - 2 cos. False: their mean squared difference, per coordinate.

    Returns:
        Float32 scalar in [0, 4], or >= 0 without `normalize`. Unchanged by shifting and scaling the coordinates, and
        by adding to one any multiple of those before it. With `normalize`, embeddings without any variance score 2, as
        views that agree in nothing do.
    """
    z = float32(z)
    shape = tuple(z.shape)
    if len(shape) < 3 or shape[-2] < 2:
        raise InvalidInputError(
            f"z must have shape (..., batch, views, features) with at least 2 views. Received: z.shape={shape}"
        )
    views = shape[-2]
    white = ops.swapaxes(whiten(ops.swapaxes(z, -3, -2)), -3, -2)
    if normalize:
        white = unit(white)
    # Sums over pairs without a loop over pairs: |sum_j u_j|^2 = sum_j |u_j|^2 + 2 sum_{i < j} u_i u_j.
    squares = ops.sum(ops.square(white), axis=(-2, -1))
    total = ops.sum(ops.square(ops.sum(white, axis=-2)), axis=-1)
    product = ops.mean(total - squares) / (views * (views - 1))
    if normalize:
        return 2.0 - 2.0 * product
    return 2.0 * (ops.mean(squares) / views - product) / shape[-1]


def whiten(z):
    """Embeddings with the covariance taken out: W (z - mean) with W = L^-1, where L L^T is their covariance over B - 1.

    The triangular factor whitens the first coordinate by itself, and each next one after removing those before it.

    Example:
        z = np.random.default_rng(0).normal(size=(32, 8))
        losses.whiten(z)  # covariance over B - 1: the identity

    Args:
        z: float tensor (..., B, D), B > D: fewer embeddings span fewer directions than there are to whiten.

    Returns:
        Float32 tensor like `z`, of mean 0 and covariance I; less than I in directions in which the coordinates cancel
        to about 4e-7 D of their variance or less, of which float32 knows nothing.
    """
    z = float32(z)
    shape = tuple(z.shape)
    if len(shape) < 2:
        raise InvalidInputError(f"z must have shape (..., batch, features). Received: z.shape={shape}")
    if shape[-2] is not None and shape[-2] <= shape[-1]:
        raise InvalidInputError(
            f"Whitening {shape[-1]} features takes a batch of more than {shape[-1]} embeddings; use a larger batch or "
            f"a projector of smaller output. Received: batch={shape[-2]}, features={shape[-1]}"
        )
    centered = z - ops.mean(z, axis=-2, keepdims=True)
    factor = _cholesky(covariance(z, sample=True), SMALLEST_VARIANCE)
    return ops.swapaxes(ops.solve_triangular(factor, ops.swapaxes(centered, -2, -1), lower=True), -2, -1)


def covariance(z, sample: bool = False, mean=None):
    """Covariance matrix of embeddings.

    Args:
        z: float32 tensor (..., B, D).
        sample: bool. True: divide by B - 1. False: divide by B.
        mean: float32 tensor (..., 1, D) to measure from, or None for the embeddings' own mean.

    Returns:
        Float32 tensor (..., D, D). Gradients flow through the mean as well.
    """
    centered = z - (ops.mean(z, axis=-2, keepdims=True) if mean is None else mean)
    count = ops.cast(ops.shape(z)[-2], "float32")
    if sample:
        count = ops.maximum(count - 1.0, 1.0)  # a batch of one that only shows at run time has no variance, not NaN
    return ops.matmul(ops.swapaxes(centered, -2, -1), centered) / count


def log_determinant(matrix, regularizer: float):
    """log det(matrix + regularizer I) of covariance matrices (..., D, D): float32 (...,), of any rank."""
    diagonal = ops.diagonal(_cholesky(matrix, regularizer), axis1=-2, axis2=-1)
    return 2.0 * ops.sum(ops.log(diagonal), axis=-1)


def _cholesky(matrix, regularizer):
    """Lower triangular factor of matrix (..., D, D) + regularizer I, of any rank and scale.

    By way of the correlation matrix, so that what rounding asks for is added to each coordinate in its own units. Of a
    matrix that is not finite, NaN: TensorFlow and PyTorch would raise errors of their own.
    """
    size = matrix.shape[-1]
    identity = ops.eye(size, dtype="float32")
    matrix = matrix + regularizer * identity
    scale = ops.sqrt(ops.diagonal(matrix, axis1=-2, axis2=-1))[..., None]
    correlation = matrix / (scale * ops.swapaxes(scale, -2, -1))
    correlation = correlation + ROUNDING * size * identity
    finite = ops.all(ops.isfinite(correlation), axis=(-2, -1), keepdims=True)
    factor = ops.cholesky(ops.where(finite, correlation, identity))
    return scale * ops.where(finite, factor, float("nan"))


def _standardize(z):
    centered = z - ops.mean(z, axis=0)
    return centered * ops.rsqrt(ops.mean(ops.square(centered), axis=0) + 1e-5)


def _off_diagonal_squares(matrix):
    # Masked rather than subtracted: the diagonal may be a thousand times all else, and float32 would lose the rest.
    return ops.sum(ops.square(matrix * (1.0 - ops.eye(matrix.shape[-1], dtype="float32"))))


def _pair(z_a, z_b):
    """Two embeddings as float32, once they were found to have one shape (B, D) with B >= 2."""
    z_a, z_b = float32(z_a), float32(z_b)
    check_pairs(least=2, z_a=z_a, z_b=z_b)
    return z_a, z_b
