"""k-means of features, made outside the training step: what DeepCluster takes for labels."""

import warnings

import numpy as np

from sslzoo.errors import TrainingError

ROUNDING = 1e-6  # of the largest feature: a principal component that spreads less holds rounding errors alone


def whiten_and_normalize(features: np.ndarray, most: int, seed: int) -> np.ndarray:
    """Features (N, L) reduced to at most `most` principal components, whitened, and set to length 1: float (N, K)."""
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import normalize

    with np.errstate(invalid="ignore"):  # shares of the variance, 0 / 0 where features are all equal
        pca = PCA(min(most, *features.shape), random_state=seed).fit(features)
    spread = np.sqrt(pca.explained_variance_)
    real = spread > ROUNDING * np.abs(features).max()
    if not real.any():
        return np.zeros((len(features), 1))
    return normalize(pca.transform(features)[:, real] / spread[real])


def kmeans_labels(features: np.ndarray, clusters: int, whitened_dim: int, seed: int) -> np.ndarray:
    """Clusters of whitened features of unit length, by scikit-learn: 20 iterations from one k-means++ start.

    A cluster that empties on the way is restarted at the image farthest from its centre; with fewer different images
    than clusters, the last ones stay unused.

    Args:
        features: array (N, L).
        clusters: int, K <= N.
        whitened_dim: int >= 1, principal components kept at most.
        seed: int.

    Returns:
        int32 array (N,), 0..clusters - 1.

    Raises:
        TrainingError: features are not finite.
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    if not np.isfinite(features).all():
        raise TrainingError("Features must be finite to be clustered. Received: features with NaN or infinite values")
    points = whiten_and_normalize(np.asarray(features, "float64"), whitened_dim, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of unused clusters, which the caller counts
        return KMeans(clusters, n_init=1, max_iter=20, random_state=seed).fit_predict(points).astype("int32")
