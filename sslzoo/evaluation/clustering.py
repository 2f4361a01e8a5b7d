"""How well a Gaussian mixture, fitted without labels, finds the classes: Hungarian accuracy, NMI and ARI.

Protocol of the SimVAE papers (arXiv:2402.01399, A.7.2): scikit-learn's `GaussianMixture` with full covariances and as
many components as classes, fitted on the train features; the best of 200 (text) or 20 (released code) restarts.

The headline figures are computed over the whole test set. The released code averages over mini-batches instead, which
lifts the level of guessing from 11 % accuracy and 0 % NMI to 29 % and 31 % (10 classes, batches of 64);
`minibatch_scores` gives those figures, for comparison with the papers' tables only.
"""

import warnings

import numpy as np
from scipy.optimize import linear_sum_assignment
from threadpoolctl import threadpool_limits

from sslzoo import checks
from sslzoo.errors import InvalidInputError
from sslzoo.evaluation.features import check_features

RIDGE = 1e-6  # scikit-learn's, added to variances


def hungarian_accuracy(labels: np.ndarray, clusters: np.ndarray) -> float:
    """Accuracy in 0..1 of clusters (M,) of classes (M,) under their best one-to-one match.

    Rows of clusters left without a class count as wrong.
    """
    from sklearn.metrics.cluster import contingency_matrix

    table = contingency_matrix(labels, clusters)
    return float(table[linear_sum_assignment(table, maximize=True)].sum() / table.sum())


def scores(labels: np.ndarray, clusters: np.ndarray) -> dict[str, float]:
    """Agreement of a clustering with classes, over all rows at once.

    Returns:
        dict: `accuracy` (Hungarian, 0..1), `nmi` (mutual information over the mean of both entropies, 0..1) and `ari`
        (Hubert and Arabie's adjusted Rand index, at most 1, 0 in expectation for guessing).
    """
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    return {
        "accuracy": hungarian_accuracy(labels, clusters),
        "nmi": float(normalized_mutual_info_score(labels, clusters)),
        "ari": float(adjusted_rand_score(labels, clusters)),
    }


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
    """
    checks.count(batch_size=batch_size)
    checks.seed(needed=True, seed=seed)
    order = np.random.default_rng(seed).permutation(len(labels))
    batches = (
        [order] if len(order) < batch_size else order[: len(order) // batch_size * batch_size].reshape(-1, batch_size)
    )
    batch_scores = [scores(labels[rows], clusters[rows]) for rows in batches]
    return {name: float(np.mean([one[name] for one in batch_scores])) for name in batch_scores[0]}


def fit_gmm(features: np.ndarray, components: int, restarts: int = 20, seed: int = 0):
    """Fit scikit-learn's Gaussian mixture with full covariances; the restart with the highest likelihood bound wins.

    The ridge on the covariances (`reg_covar`) is scikit-learn's 1e-6; of features of a variance below 1e-3, which it
    would blur, a millionth of their variance; and raised in steps where scikit-learn refuses degenerate features.

    Args:
        features: float array (N, L), finite.
        components: int, at most N.
        restarts: int, at least 1.
        seed: int.

    Returns:
        The fitted `GaussianMixture`.

    Raises:
        InvalidInputError: fewer rows than components, no ridge helps, or a number or seed out of range.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    checks.count(components=components, restarts=restarts)
    checks.seed(needed=True, seed=seed)
    features = check_features(features)
    if len(features) < components:
        raise InvalidInputError(
            f"A mixture of {components} Gaussians needs at least as many train rows. Received: {len(features)} rows"
        )
    variance = float(features.var(axis=0).mean())
    ridges = [RIDGE, *(share * variance for share in (1e-6, 1e-4, 1e-2) if share * variance > RIDGE)]
    if 1e-12 * float(np.mean(features**2)) < variance < 1000 * RIDGE:  # small, not collapsed
        ridges = [1e-6 * variance, *ridges]
    for ridge in ridges:
        mixture = GaussianMixture(components, n_init=restarts, reg_covar=ridge, random_state=seed)
        try:
            # One thread: on a busy machine, products of this shape take several times longer with two.
            with warnings.catch_warnings(), threadpool_limits(1):
                warnings.simplefilter("ignore", ConvergenceWarning)  # 100 iterations are the protocol
                return mixture.fit(features)
        except ValueError as error:
            reason = error
    raise InvalidInputError(
        "The Gaussian mixture could not be fitted: expected features whose clusters have a finite covariance "
        f"({reason}). Received: features of mean variance {variance:.3g}, ridges up to {ridges[-1]:.3g}"
    ) from reason
