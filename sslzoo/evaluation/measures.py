"""What features show of themselves, without labels: spread, directions in use, agreement of views.

Plain NumPy in float64; all raise `InvalidInputError` where features are not finite arrays of the shapes they say.
`sslzoo.callbacks.Health` looks at some of them while a model trains, `sslzoo.diagnose` at all of a trained encoder.
"""

import numpy as np

from sslzoo.errors import InvalidInputError
from sslzoo.evaluation.features import normalized

LIDAR_RIDGE = 1e-4  # of the paper, on the covariance of views
DEAD, REPEATED = 1e-4, 0.999
_BLOCK = 256  # rows whose distances to all others are held at a time


def feature_std(features: np.ndarray) -> float:
    """Spread of directions: standard deviation of each coordinate of the unit rows, mean over coordinates, x sqrt(D).

    The factor makes the scale one for all sizes: a coordinate of rows spread evenly over the sphere deviates by
    1 / sqrt(D), which is 1 here; rows that point the same way give 0.

    Args:
        features: array (N, D), finite. A zero row stays zero.

    Returns:
        float in 0..1.

    Reference:
        Chen and He, "Exploring Simple Siamese Representation Learning", section 4.1.
    """
    rows = normalized(_matrix(features, "features"))
    return float(rows.std(axis=0).mean() * np.sqrt(rows.shape[1]))


def effective_rank(features: np.ndarray) -> float:
    """RankMe: how many directions the rows use, the exponential of the entropy of the normalized singular values.

    Rows are not centered, as in the paper: a large common offset is one direction that all rows share.

    Args:
        features: array (N, D), finite.

    Returns:
        float between 1 and min(N, D); 0 where all rows are zero. Off by less than 1e-3, since the singular values come
        from the smaller Gram matrix, which is the one quick way for wide heads.

    Reference:
        Garrido et al., "RankMe: Assessing the Downstream Performance of Pretrained Self-Supervised Representations by
        Their Rank", eq. 1, without its 1e-7.
    """
    rows = _matrix(features, "features")
    largest = np.abs(rows).max()
    if not largest:
        return 0.0
    rows = rows / largest
    gram = rows @ rows.T if rows.shape[0] < rows.shape[1] else rows.T @ rows
    values = np.sqrt(np.maximum(np.linalg.eigvalsh(gram), 0))
    return _perplexity(values / values.sum())


def alignment(first: np.ndarray, second: np.ndarray) -> float:
    """Mean squared distance of the unit rows of two views of the same images; 0 where the views agree.

    Args:
        first, second: arrays (N, D), finite; row i of both is the same image.

    Returns:
        float in 0..4.

    Reference:
        Wang and Isola, "Understanding Contrastive Representation Learning through Alignment and Uniformity on the
        Hypersphere", eq. 5 with alpha = 2.
    """
    first, second = _matrix(first, "first"), _matrix(second, "second")
    if first.shape != second.shape:
        raise InvalidInputError(
            f"first and second must have one shape. Received: first.shape={first.shape}, second.shape={second.shape}"
        )
    return float(((normalized(first) - normalized(second)) ** 2).sum(axis=1).mean())


def distance(features: np.ndarray) -> float:
    """Mean squared distance of the unit rows of different images, to be compared with `alignment`.

    Args:
        features: array (N, D), finite, N >= 2.

    Returns:
        float in 0..4; near 2 for rows spread evenly over a sphere.
    """
    rows = normalized(_matrix(features, "features", least=2))
    return float(2 * len(rows) / (len(rows) - 1) * ((rows - rows.mean(axis=0)) ** 2).sum(axis=1).mean())


def uniformity(features: np.ndarray, t: float = 2.0) -> float:
    """Log of the mean Gaussian potential exp(-t |x - y|^2) over all pairs of unit rows; lower is more even.

    Args:
        features: array (N, D), finite, N >= 2.
        t: float > 0.

    Returns:
        float in -4 t..0: 0 where all rows point the same way, near -2 t for rows spread evenly over a sphere of many
        dimensions.

    Reference:
        Wang and Isola, eq. 6, without the pairs of a row with itself.
    """
    rows = normalized(_matrix(features, "features", least=2))
    squares = (rows**2).sum(axis=1)
    total = 0.0
    for start in range(0, len(rows), _BLOCK):  # each pair once: of a row with those after it
        some, after = slice(start, start + _BLOCK), slice(start, None)
        distances = np.maximum(squares[some, None] + squares[after] - 2 * rows[some] @ rows[after].T, 0)
        total += np.triu(np.exp(-t * distances), 1).sum()
    return float(np.log(total / (len(rows) * (len(rows) - 1) / 2)))


def mean_cosine(features: np.ndarray) -> float:
    """Mean cosine of the angle between different images: 1 where all point the same way (a cone), 0 in every direction.

    Args:
        features: array (N, D), finite, N >= 2. A zero row has cosine 0 to all.

    Returns:
        float in -1 / (N - 1)..1.
    """
    rows = normalized(_matrix(features, "features", least=2))
    total = rows.sum(axis=0)
    return float((total @ total - np.sum(rows**2)) / (len(rows) * (len(rows) - 1)))


def alpha_req(features: np.ndarray) -> float:
    """Alpha-ReQ: how fast the variance falls along the principal components, the exponent of j^-alpha.

    A line through log variance against log j, each point weighted 1 / j as in the paper's code, over all components
    above rounding (the paper's first hundreds, of which small encoders have none).

    Args:
        features: array (N, D), finite, N >= 2.

    Returns:
        float: 0 for equal variance in all directions, the larger the fewer count; infinite where only one or none has
        any. The paper finds the best encoders near 1.

    Reference:
        Agrawal et al., "alpha-ReQ: Assessing Representation Quality in Self-Supervised Learning by measuring
        eigenspectrum decay", section 3.
    """
    rows = _matrix(features, "features", least=2)
    variances = np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False) ** 2
    # Relative to the size of the features: what float32 cannot hold is no variance.
    variances = variances[variances > 1e-12 * max(np.sum(rows**2), 1e-300)]
    if len(variances) < 2:
        return float("inf")
    place = np.arange(1, len(variances) + 1)
    x, y, weights = np.log(place), np.log(variances), 1 / place
    x = x - np.average(x, weights=weights)
    return float(-np.sum(weights * x * y) / np.sum(weights * x**2) + 0.0)


def lidar(views: np.ndarray) -> float:
    """LiDAR: how many directions separate images beyond what views of one image differ by.

    The effective rank of W^-1/2 B W^-1/2, with B the covariance of the images' mean features and W that of views around
    them, as in linear discriminant analysis with every image a class. Features are divided by their root mean square
    deviation first, so that the ridge on W (1e-4, the paper's) means the same for all encoders.

    Args:
        views: array (N, J, D) of N images, J >= 2 views of each, finite. The paper takes 1,000 images, 10 views.

    Returns:
        float between 1 and min(N - 1, D); 0 where all images have the same mean.

    Reference:
        Thilak et al., "LiDAR: Sensing Linear Probing Performance in Joint Embedding SSL Architectures", section 4,
        without its 1e-7.
    """
    views = np.asarray(views, np.float64)
    if views.ndim != 3 or views.shape[0] < 2 or views.shape[1] < 2 or not views.shape[2]:
        raise InvalidInputError(
            "views must be an array (N, J, D) of at least 2 images and 2 views of each. "
            f"Received: views.shape={views.shape}"
        )
    rows = _matrix(views.reshape(-1, views.shape[2]), "views")
    deviation = np.sqrt(np.mean(np.sum((rows - rows.mean(axis=0)) ** 2, axis=1)))
    if deviation <= 1e-12 * np.abs(rows).max():
        return 0.0
    views = views / deviation
    means = views.mean(axis=1)
    around = (views - means[:, None]).reshape(-1, views.shape[2])
    within = around.T @ around / len(around) + LIDAR_RIDGE * np.eye(views.shape[2])
    centered = means - means.mean(axis=0)
    # The eigenvalues of W^-1/2 B W^-1/2 are the squared singular values of the means whitened by W.
    whitened = np.linalg.solve(np.linalg.cholesky(within), centered.T)
    values = np.linalg.svd(whitened, compute_uv=False) ** 2
    return _perplexity(values / values.sum()) if values.sum() > 0 else 0.0


def dead_features(features: np.ndarray) -> np.ndarray:
    """Numbers of the features that hardly change: their deviation is below 1e-4 of the largest, or mere rounding.

    Args:
        features: array (N, D), finite, N >= 2.

    Returns:
        int array of at most D columns.
    """
    rows = _matrix(features, "features", least=2)
    deviations = rows.std(axis=0)
    rounding = 1e-6 * np.abs(rows).max(axis=0)
    return np.flatnonzero(deviations <= np.maximum(DEAD * deviations.max(), rounding))


def repeated_features(features: np.ndarray) -> np.ndarray:
    """Numbers of the features that say what an earlier one says: their correlation is beyond 0.999, of either sign.

    Args:
        features: array (N, D), finite, N >= 2. Dead ones are not counted.

    Returns:
        int array of at most D columns.
    """
    rows = _matrix(features, "features", least=2)
    alive = np.setdiff1d(np.arange(rows.shape[1]), dead_features(rows))
    standard = rows[:, alive] - rows[:, alive].mean(axis=0)
    standard = standard / np.linalg.norm(standard, axis=0)
    alike = np.abs(standard.T @ standard) > REPEATED
    return alive[np.triu(alike, 1).any(axis=0)]


def equal_rows(features: np.ndarray) -> float:
    """Share of the images whose features another image has too, to six digits of the median row's largest: 0 where
    all differ.

    Args:
        features: array (N, D), finite, N >= 2.
    """
    rows = _matrix(features, "features", least=2)
    rounded = np.round(rows / (np.median(np.abs(rows).max(axis=1)) or 1.0), 6) + 0.0  # no minus zero
    _, place, counts = np.unique(rounded, axis=0, return_inverse=True, return_counts=True)
    return float(np.mean(counts[place.reshape(-1)] > 1))


def prototype_use(probabilities: np.ndarray) -> float:
    """Share of K prototypes in use: perplexity of the mean assignment, over K.

    Args:
        probabilities: array (N, K), assignments of N views, rows that sum to 1. One-hot rows can use N prototypes only.

    Returns:
        float in 1 / K..1: 1 where all prototypes have the same share, 1 / K where one has everything.
    """
    return prototypes_used(probabilities) / np.shape(probabilities)[1]


def prototypes_used(probabilities: np.ndarray) -> float:
    """Perplexity of the mean assignment, 1..K: as many prototypes of equal share say as much. See `prototype_use`."""
    rows = _matrix(probabilities, "probabilities")
    sums = rows.sum(axis=1)
    if rows.min() < 0 or not np.allclose(sums, 1, atol=0.02):  # bfloat16 has 8 bits
        raise InvalidInputError(
            "probabilities must be rows of numbers >= 0 that sum to 1. "
            f"Received: smallest entry {rows.min():g}, sums of rows {sums.min():g}..{sums.max():g}"
        )
    mean = rows.mean(axis=0)
    return _perplexity(mean / mean.sum())


def _matrix(array, name, least=1):
    rows = np.asarray(array, np.float64)
    if rows.ndim != 2 or rows.shape[0] < least or not rows.shape[1]:
        raise InvalidInputError(
            f"{name} must be an array (N, D) with N >= {least}, D >= 1. Received: {name}.shape={rows.shape}"
        )
    if not np.isfinite(rows).all():
        raise InvalidInputError(f"{name} must be finite. Received: {name} with NaN or infinite values")
    return rows


def _perplexity(shares):
    some = shares[shares > 0]
    return float(np.exp(-(some * np.log(some)).sum()))
