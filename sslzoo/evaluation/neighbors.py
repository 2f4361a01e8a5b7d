"""k-nearest-neighbor accuracy of features: the protocols that "kNN accuracy" stands for, each under its own name.

    SimVAE papers (arXiv:2402.01399, A.7.2)    Euclidean, majority vote, the best of k = 1..15
    k = 10                                     cosine, majority vote
    MoCo demo, lightly, DINO and others        cosine, k = 200, votes weighted exp(similarity / 0.1)
                                               (Wu et al., arXiv:1805.01978, section 3.4)

Distances are computed in float64, a block of queries at a time, against all rows of the bank: nothing is approximated.
"""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from threadpoolctl import threadpool_limits

from sslzoo import checks
from sslzoo.data.labels import check_labels
from sslzoo.errors import InvalidInputError, choose
from sslzoo.evaluation.features import check_features, normalized

METRICS = ("cosine", "euclidean")
_BLOCK_BYTES = 32 * 2**20  # of similarities held at a time by each of at most
_THREADS = 4


def knn_accuracy(
    train_features: np.ndarray,
    train_labels: np.ndarray,
    test_features: np.ndarray,
    test_labels: np.ndarray,
    k: int = 10,
    metric: str = "euclidean",
    temperature: float | None = None,
) -> float:
    """Share of the test rows whose k nearest train rows vote for the right class.

    Rows at equal distance are taken in the order of the bank, and of classes with equal votes the smallest wins (as in
    scikit-learn).

    Args:
        train_features, train_labels: float array (N, L), the bank, and int array (N,).
        test_features, test_labels: float array (M, L), int array (M,).
        k: int in 1..N, number of neighbors.
        metric: "euclidean" or "cosine".
        temperature: float > 0. Weighs a vote by exp(cosine similarity / temperature); None counts every vote once.

    Returns:
        float, accuracy in 0..1.

    Raises:
        InvalidInputError: shapes do not fit, a value is not finite, `k` is out of range, or a temperature comes with
            the Euclidean metric.
        UnknownNameError: `metric` is none of the two.
    """
    if temperature is not None and (metric != "cosine" or not temperature > 0):
        raise InvalidInputError(
            "`temperature` must be greater than 0 and needs metric='cosine'. "
            f"Received: temperature={temperature}, metric={metric!r}"
        )
    train_labels = check_labels(train_labels, len(train_features), "train labels")
    test_labels = check_labels(test_labels, len(test_features), "test labels")
    classes, train_classes = np.unique(train_labels, return_inverse=True)
    indices, similarities = nearest(train_features, test_features, k, metric)
    weights = None if temperature is None else np.exp((similarities - similarities[:, :1]) / temperature)
    predictions = classes[vote(train_classes[indices], len(classes), weights)[:, -1]]
    return float(np.mean(predictions == test_labels))


def nearest(
    train_features: np.ndarray, test_features: np.ndarray, k: int, metric: str = "euclidean"
) -> tuple[np.ndarray, np.ndarray]:
    """Find the k nearest train rows of every test row.

    Args:
        train_features, test_features: float arrays (N, L) and (M, L), finite.
        k: int in 1..N.
        metric: "euclidean", or "cosine" (a row of zeros is at similarity 0 to everything).

    Returns:
        indices: int array (M, k), nearest first; rows at equal distance in the order of the bank.
        similarities: float64 array (M, k): cosine similarity, or minus half the squared Euclidean distance.

    Raises:
        InvalidInputError: shapes do not fit, a value is not finite, or `k` is out of range.
        UnknownNameError: `metric` is none of the two.
    """
    choose("metric", metric, METRICS)
    bank, queries = check_features(train_features, "train features"), check_features(test_features, "test features")
    if bank.shape[1] != queries.shape[1]:
        raise InvalidInputError(
            "Features must be two arrays (rows, L) of the same L. "
            f"Received: train features of shape {bank.shape}, test features of shape {queries.shape}"
        )
    if not checks.is_integer(k) or not 1 <= k <= len(bank):
        raise InvalidInputError(f"`k` must lie in 1..{len(bank)}, the number of train rows. Received: k={k}")

    # Either metric is one product with the bank: s(q, x) = q.x of unit rows, or q.x - |x|^2/2 - |q|^2/2 = -|q - x|^2/2.
    if metric == "cosine":
        bank, queries = normalized(bank), normalized(queries)
        offset, shift = 0.0, np.zeros(len(queries))
    else:
        # Distances do not depend on the origin, their rounding does. One of the rows (not the mean) keeps ties exact.
        bank, queries = bank - bank[0], queries - bank[0]
        offset, shift = -0.5 * np.sum(bank**2, axis=1), -0.5 * np.sum(queries**2, axis=1)

    indices = np.empty((len(queries), k), np.int64)
    similarities = np.empty((len(queries), k))
    rows = max(1, _BLOCK_BYTES // (8 * len(bank)))
    groups = min(len(bank), 4 * k)

    def search(start):
        block = queries[start : start + rows] @ bank.T
        block += offset
        # The k-th largest of at least k maxima of groups of rows is no larger than the k-th largest of all rows: what
        # lies below it need not be sorted.
        maxima = block[:, : groups * (len(bank) // groups)].reshape(len(block), groups, -1).max(axis=2)
        bounds = np.partition(maxima, groups - k, axis=1)[:, groups - k]
        for i, (row, bound) in enumerate(zip(block, bounds), start):
            near = np.flatnonzero(row >= bound)
            chosen = near[np.argsort(-row[near], kind="stable")[:k]]
            indices[i], similarities[i] = chosen, row[chosen] + shift[i]

    # A thread per block, not per product: BLAS threads that wait for a busy core cost up to ten times the work itself.
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as pool:
        list(pool.map(search, range(0, len(queries), rows)))
    return indices, similarities


def vote(neighbor_classes: np.ndarray, num_classes: int, weights: np.ndarray | None = None) -> np.ndarray:
    """Class that the first 1, 2, ..., k neighbors vote for.

    Args:
        neighbor_classes: int array (M, k), values 0..num_classes - 1, nearest first.
        num_classes: int.
        weights: float array (M, k), the weight of each vote, or None for 1.

    Returns:
        int array (M, k): column j holds the class with the most votes among the first j + 1 neighbors, the smallest of
        several with equally many.
    """
    rows, k = neighbor_classes.shape
    votes = np.zeros((rows, num_classes))
    winners = np.empty((rows, k), np.int64)
    every = np.arange(rows)
    for j in range(k):
        votes[every, neighbor_classes[:, j]] += 1 if weights is None else weights[:, j]
        winners[:, j] = votes.argmax(axis=1)
    return winners
