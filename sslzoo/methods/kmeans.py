"""k-means made outside the training step: what DeepCluster takes for labels, and the clusters of a memory bank."""

import warnings

import keras
import numpy as np

from sslzoo import checks
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

    With fewer different images than clusters, the last ones stay unused. Features are (N, L), of whose principal
    components at most `whitened_dim` count; labels are int32 (N,).

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


def mini_batch_kmeans(rows: np.ndarray, clusters: int, seed: int) -> np.ndarray:
    """The cluster of each row by quick k-means, for a bank that is clustered often: int32 (N,)."""
    from sklearn.cluster import MiniBatchKMeans

    model = MiniBatchKMeans(clusters, n_init=1, max_iter=20, batch_size=4096, random_state=seed)
    return model.fit_predict(rows).astype("int32")


class Clusters(keras.callbacks.Callback):
    """Base of callbacks that cluster anew before epochs start, start + every, ..., and log what they did.

    Which epochs do so, and with what random numbers, depends on the epoch alone: a run resumed from a checkpoint has
    the clusters it would have had.
    """

    logged: tuple[str, ...] = ()

    def __init__(self, every: int = 1, start: int = 0):
        super().__init__()
        self.every = checks.count(every=every)
        self.start = checks.count(0, start=start)
        self._logs = {}

    def cluster(self, epoch: int) -> dict[str, float]:
        """Makes the clusters; what the logs have of them, by the names in `logged`."""
        raise NotImplementedError

    def resume(self, rows):
        """Takes up what a run had logged before it was interrupted, from the rows of its history."""
        last = rows[-1] if rows else {}
        self._logs = {key: last[key] for key in self.logged if key in last}

    def on_epoch_begin(self, epoch, logs=None):
        if epoch >= self.start and (epoch - self.start) % self.every == 0:
            # Under JAX, asking for `self.model` brings its variables up to date, and what is assigned to them before
            # the first step of the epoch is what that step starts from.
            self._logs = self.cluster(epoch)

    def on_epoch_end(self, epoch, logs=None):
        if logs is not None:
            logs.update(self._logs)
