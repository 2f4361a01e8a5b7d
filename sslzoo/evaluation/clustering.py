"""How well a Gaussian mixture, fitted without labels, finds the classes: Hungarian accuracy, NMI and ARI.

After the SimVAE papers (arXiv:2402.01399, A.7.2): scikit-learn's `GaussianMixture` with full covariances and as many
components as classes, fitted on the train features; the best of 200 (text) or 20 (released code) restarts by its bound
on the likelihood. Chance decides which restart is best, so the range of accuracies over all belongs beside it.

The headline figures are computed over the whole test set. The released code averages over mini-batches instead, which
lifts the level of guessing from 11 % accuracy and 0 % NMI to 29 % and 31 % (10 classes, batches of 64);
`minibatch_scores` gives those figures, for comparison with the papers' tables only.
"""

import dataclasses
import os
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from scipy.optimize import linear_sum_assignment
from threadpoolctl import threadpool_limits

from sslzoo import checks
from sslzoo.data.labels import check_labels
from sslzoo.errors import InvalidInputError
from sslzoo.evaluation.features import check_features, moments

RIDGES = (1e-6, 1e-4, 1e-2)  # added to variances: scikit-learn's, and what degenerate features need
MOST_ROWS, MOST_DIMENSIONS = 10_000, 32
TOLERANCE, MOST_STEPS = 1e-4, 1000
_THREADS = 2


def hungarian_accuracy(labels: np.ndarray, clusters: np.ndarray) -> float:
    """Accuracy in 0..1 of clusters (M,) of classes (M,) under their best one-to-one match.

    Rows of clusters left without a class count as wrong.

    Args:
        labels, clusters: integers (M,).

    Raises:
        InvalidInputError: anything else, or of different lengths.
    """
    from sklearn.metrics.cluster import contingency_matrix

    labels, clusters = _pair(labels, clusters)
    table = contingency_matrix(labels, clusters)
    return float(table[linear_sum_assignment(table, maximize=True)].sum() / table.sum())


def scores(labels: np.ndarray, clusters: np.ndarray) -> dict[str, float]:
    """Agreement of a clustering with classes, over all rows at once.

    Returns:
        dict: `accuracy` (Hungarian, 0..1), `nmi` (mutual information over the mean of both entropies, 0..1) and `ari`
        (Hubert and Arabie's adjusted Rand index, at most 1, 0 in expectation for guessing).

    Raises:
        InvalidInputError: as `hungarian_accuracy`.
    """
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    labels, clusters = _pair(labels, clusters)
    return {
        "accuracy": hungarian_accuracy(labels, clusters),
        "nmi": float(normalized_mutual_info_score(labels, clusters)),
        "ari": float(adjusted_rand_score(labels, clusters)),
    }


def _pair(labels, clusters):
    """Both as integers (M,)."""
    labels = check_labels(labels, len(labels), negative=True)
    return labels, check_labels(clusters, len(labels), "clusters", negative=True)


def minibatch_scores(labels: np.ndarray, clusters: np.ndarray, batch_size: int = 64, seed: int = 0) -> dict[str, float]:
    """`scores` of each batch on its own, averaged: what the SimVAE (64) and GEDI (100) tables appear to print.

    The smaller the batch, the higher the score of pure guessing, so these figures compare only with others of the same
    batch size and number of classes.

    Args:
        labels: int array (M,).
        clusters: int array (M,).
        batch_size: int. Rows are shuffled first; those left over after the last full batch are not used. With fewer
            rows than this, all rows are one batch.
        seed: int, of the shuffling.

    Returns:
        dict with the keys of `scores`.

    Raises:
        InvalidInputError: as `hungarian_accuracy`; a batch size or seed out of its range.
    """
    checks.count(batch_size=batch_size)
    checks.seed(needed=True, seed=seed)
    labels, clusters = _pair(labels, clusters)
    order = np.random.default_rng(seed).permutation(len(labels))
    batches = (
        [order] if len(order) < batch_size else order[: len(order) // batch_size * batch_size].reshape(-1, batch_size)
    )
    batch_scores = [scores(labels[rows], clusters[rows]) for rows in batches]
    return {name: float(np.mean([one[name] for one in batch_scores])) for name in batch_scores[0]}


@dataclasses.dataclass(frozen=True)
class Mixture:
    """A Gaussian mixture of standardized features, and what it was fitted by.

    Attributes:
        bound: float, log-likelihood a row of all train features, in the space that it was fitted in.
        steps: int, of expectation-maximization.
        converged: bool, whether they came to an end.
        ridge: float, on the covariances.
        rows: int, that it was fitted to.
        dimensions: int, of the space that it was fitted in.
    """

    bound: float
    steps: int
    converged: bool
    ridge: float
    rows: int
    dimensions: int
    _space: object
    _model: object

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Component of each row: float array (M, L) -> int array (M,)."""
        return self._model.predict(self._space(check_features(features)))


def fit_mixtures(features: np.ndarray, components: int, restarts: int = 20, seed: int = 0) -> list[Mixture]:
    """Fits scikit-learn's Gaussian mixture with full covariances from several starts, each by k-means of its own.

    Features are standardized; of more than 32, the 32 principal components are fitted. Of more than 10,000 rows, as
    many are taken at random. Both leave the clusters as they are, in a tenth of the time and less; which restart is the
    likeliest, all rows decide. A fit ends where its bound rises by less than 1e-4 a step.

    The ridge on the covariances (`reg_covar`) is scikit-learn's 1e-6, and raised in steps where scikit-learn refuses
    degenerate features.

    Example:
        import numpy as np
        from sslzoo.evaluation import clustering

        features = np.random.default_rng(0).normal(size=(90, 4))
        [round(mixture.bound, 2) for mixture in clustering.fit_mixtures(features, 3, restarts=2)]  # best first

    Args:
        features: float array (N, L), finite.
        components: int, at most N.
        restarts: int, at least 1.
        seed: int, of the starts and of the rows.

    Returns:
        list of `Mixture`, one a restart, the highest bound first.

    Raises:
        InvalidInputError: fewer rows than components, no ridge helps, or a number or seed out of range.
    """
    from sklearn.exceptions import ConvergenceWarning

    checks.count(components=components, restarts=restarts)
    checks.seed(needed=True, seed=seed)
    features = check_features(features)
    if len(features) < components:
        raise InvalidInputError(
            f"A mixture of {components} Gaussians needs at least as many train rows. Received: {len(features)} rows"
        )
    random = np.random.default_rng(seed)
    some = features[np.sort(random.permutation(len(features))[: max(MOST_ROWS, components)])]
    starts = [int(start) for start in random.integers(0, 2**31, restarts)]
    # A thread per restart, not per product: on a busy machine, products of this shape take longer with two. Filters of
    # warnings are the process's: set around the threads, not in them, they are what they were before.
    with (
        warnings.catch_warnings(),
        threadpool_limits(1),
        ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as pool,
    ):
        warnings.simplefilter("ignore", ConvergenceWarning)  # `converged` says so
        space = _space(some)
        rows = space(some)
        models = list(pool.map(lambda start: _fitted(rows, components, start), starts))
        everything = rows if len(some) == len(features) else space(features)
        bounds = list(pool.map(lambda model: float(model.score(everything)), models))
    mixtures = [
        Mixture(bound, model.n_iter_, model.converged_, model.reg_covar, *rows.shape, space, model)
        for bound, model in zip(bounds, models)
    ]
    return sorted(mixtures, key=lambda mixture: -mixture.bound)


def _space(features):
    """The map of rows to where mixtures are fitted: standardized, and turned to few principal components if many."""
    mean, deviation = moments(features)
    standardized = (features - mean) / deviation
    if features.shape[1] <= MOST_DIMENSIONS:
        return lambda rows: (rows - mean) / deviation
    _, axes = np.linalg.eigh(standardized.T @ standardized)  # those of the largest variance stand last
    axes = axes[:, -MOST_DIMENSIONS:]
    return lambda rows: (rows - mean) / deviation @ axes


def _fitted(rows, components, start):
    from sklearn.mixture import GaussianMixture

    for ridge in RIDGES:
        mixture = GaussianMixture(components, tol=TOLERANCE, max_iter=MOST_STEPS, reg_covar=ridge, random_state=start)
        try:
            return mixture.fit(rows)
        except ValueError as error:
            reason = error
    raise InvalidInputError(
        "The Gaussian mixture could not be fitted: expected features whose clusters have a finite covariance "
        f"({reason}). Received: {len(rows):,} rows of {rows.shape[1]} dimensions, ridges up to {RIDGES[-1]:g}"
    ) from reason
