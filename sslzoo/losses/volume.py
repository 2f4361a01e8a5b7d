"""Objectives on spectra: embeddings of all images fill a volume, those of one image's views lie together.

What pushes images apart is a function of the singular values of the batch: the coding rate (log-volume), the nuclear
norm of the centroids, the entropy of a normalized spectrum, or directions that a covariance has seen too often. Terms
are unweighted, float32 scalars, to be minimized; inputs of any float dtype are taken to float32 first.

References:
    EMP-SSL: Tong, Chen, Ma and LeCun, "EMP-SSL: Towards Self-Supervised Learning in One Training Epoch" (arXiv
        2304.03977), eq. 2-4.
    MMCR: Yerxa, Kuang, Simoncelli and Chung, "Learning Efficient Coding of Natural Images with Maximum Manifold
        Capacity Representations" (arXiv 2303.03307), eq. 4.
    FroSSL: Skean, Dhakal, Jacobs and Giraldo, "FroSSL: Frobenius Norm Minimization for Efficient Multiview
        Self-Supervised Learning" (arXiv 2310.02903), eq. 6.
    TiCo: Zhu, Moraes, Karakulak, Sobol, Canziani and LeCun, "TiCo: Transformation Invariance and Covariance Contrast
        for Self-Supervised Visual Representation Learning" (arXiv 2206.10698), eq. 1-3.
    Coding rate: Ma, Derksen, Hong and Wright, "Segmentation of Multivariate Mixed Data via Lossy Data Coding"; as the
        regularizer of SimDINO: Wu et al., "Simplifying DINO via Coding Rate Regularization" (arXiv 2502.10385).
"""

from keras import ops

from sslzoo import checks
from sslzoo.errors import InvalidInputError
from sslzoo.losses.decorrelation import log_determinant
from sslzoo.losses.tensors import check_pairs, float32, grouped, static_shape, unit


def coding_rate(z, epsilon: float):
    """Lossy coding rate of embeddings: 1/2 log det(I + D / (B epsilon^2) Z^T Z), in nats.

    Example:
        z = np.random.default_rng(0).normal(size=(32, 4, 8))
        nats = losses.coding_rate(z[:, 0], epsilon=0.5)

    Args:
        z: float tensor (..., B, D), embeddings, of unit length as a rule.
        epsilon: float > 0, the allowed distortion.

    Returns:
        Float32 tensor (...), >= 0: 0 where all are 0, the larger the more directions they fill. For B unit vectors that
        are all alike: 1/2 log(1 + D / epsilon^2).
    """
    checks.positive(epsilon=epsilon)
    z = float32(z)
    shape = static_shape(z)
    if len(shape) < 2:
        raise InvalidInputError(f"z must have shape (..., batch, features). Received: z.shape={shape}")
    count = ops.cast(ops.shape(z)[-2], "float32")
    gram = _smaller_gram(z) * (shape[-1] / epsilon**2) / count
    return 0.5 * log_determinant(gram, 1.0)


def emp_ssl_terms(z, epsilon: float = 0.2**0.5) -> dict:
    """The two terms of EMP-SSL, over any number of patches (views) of each image.

    coding_rate = -mean over views of `coding_rate` of the batch
    alignment   = -mean over images and views of cos(z_v, mean over views of z)

    The released code writes 0.2 for epsilon^2. lightly's version adds the coding rate, by which embeddings collapse;
    here it is subtracted, as in the paper.

    Example:
        z = np.random.default_rng(0).normal(size=(32, 4, 8))
        terms = losses.emp_ssl_terms(z)

    Args:
        z: float tensor (B, J, D), embeddings of J views; normalized here.
        epsilon: float > 0.

    Returns:
        dict of float32 scalars: "coding_rate" <= 0 (push) and "alignment" in [-1, 0] (pull), -1 with one view.
    """
    z = unit(grouped(z))
    center = ops.mean(z, axis=1, keepdims=True)
    return {
        "coding_rate": -ops.mean(coding_rate(ops.swapaxes(z, 0, 1), epsilon)),
        "alignment": -ops.mean(ops.sum(z * unit(center), axis=-1)),
    }


def mmcr_terms(z) -> dict:
    """The two nuclear norms of MMCR: of the centroids of all images, and of each image's views.

    centroids = -|C|_*,  C (B, D) the mean over views of normalized embeddings
    manifolds = mean over images of |Z_i|_*,  Z_i (J, D) its normalized views

    Example:
        z = np.random.default_rng(0).normal(size=(32, 4, 8))
        terms = losses.mmcr_terms(z)

    Args:
        z: float tensor (B, J, D), embeddings of J views; normalized here.

    Returns:
        dict of float32 scalars: "centroids" <= 0 and "manifolds" >= 0, sqrt(J) where views agree. Centroids are as
        long as views agree and as spread as their number allows, so that "centroids" both pulls and pushes: its least
        value, where views agree and centroids are orthogonal (B <= D), is -B.
    """
    z = unit(grouped(z))
    return {"centroids": -_nuclear_norm(ops.mean(z, axis=1)), "manifolds": ops.mean(_nuclear_norm(z))}


def frossl_terms(z) -> dict:
    """The two terms of FroSSL.

    spectrum   = sum over views of 2 log |K_v / trace K_v|_F,  K_v = Z_v^T Z_v, or Z_v Z_v^T, whose spectrum is the same
    invariance = sum over views of J D mean (z_v - mean over views of z)^2

    Each coordinate of a view is normalized over the batch first, and the trace is held constant, as in the released
    code.

    Example:
        z = np.random.default_rng(0).normal(size=(32, 4, 8))
        terms = losses.frossl_terms(z)

    Args:
        z: float tensor (B, J, D), embeddings of J views.

    Returns:
        dict of float32 scalars: "spectrum" (push), from -J log min(B, D) where all directions are used alike to 0 where
        one is, and "invariance" >= 0 (pull).
    """
    z = unit(grouped(z), axis=0)
    _, views, size = static_shape(z)
    by_view = ops.swapaxes(z, 0, 1)
    gram = _smaller_gram(by_view)
    trace = ops.stop_gradient(ops.trace(gram, axis1=-2, axis2=-1))
    # Where all is 0 the norm would have no logarithm: it counts as one direction, as any other collapse.
    alive = trace > 0
    squared = ops.sum(ops.square(gram / ops.where(alive, trace, 1.0)[:, None, None]), axis=(-2, -1))
    squared = ops.where(alive, squared, 1.0)
    distance = ops.mean(ops.square(z - ops.mean(z, axis=1, keepdims=True)), axis=(0, 2))
    return {"spectrum": ops.sum(ops.log(squared)), "invariance": views * size * ops.sum(distance)}


def tico_terms(z_a, z_b, covariance) -> dict:
    """The two terms of TiCo.

    invariance = 1 - mean cos(z_a, z_b)
    contrast   = mean of z_a^T C z_a

    Example:
        z = np.random.default_rng(0).normal(size=(32, 4, 8))
        terms = losses.tico_terms(z[:, 0], z[:, 1], covariance=np.eye(8) / 8)

    Args:
        z_a, z_b: float tensors (B, D), embeddings of two views; normalized here.
        covariance: float tensor (D, D), C, the moving average of Z_a^T Z_a / B, this batch included.

    Returns:
        dict of float32 scalars: "invariance" in [0, 2] (pull) and "contrast" in [0, 1] (push): how often the directions
        of this batch were seen before.
    """
    check_pairs(z_a=float32(z_a), z_b=float32(z_b))
    z_a, z_b, covariance = unit(z_a), unit(z_b), float32(covariance)
    size = z_a.shape[1]
    if static_shape(covariance) != (size, size):
        raise InvalidInputError(
            f"covariance must have shape ({size}, {size}). Received: covariance.shape={static_shape(covariance)}"
        )
    return {
        "invariance": 1.0 - ops.mean(ops.sum(z_a * z_b, axis=1)),
        "contrast": ops.mean(ops.sum(ops.matmul(z_a, covariance) * z_a, axis=1)),
    }


def _smaller_gram(z):
    """Z^T Z or Z Z^T, the smaller: they have the same spectrum but for zeros."""
    rows, size = static_shape(z)[-2:]
    turned = ops.swapaxes(z, -2, -1)
    return ops.matmul(z, turned) if rows is not None and rows < size else ops.matmul(turned, z)


def _nuclear_norm(matrix):
    """Sum of the singular values of matrices (..., M, N): float32 (...)."""
    return ops.sum(ops.svd(matrix, compute_uv=False), axis=-1)
