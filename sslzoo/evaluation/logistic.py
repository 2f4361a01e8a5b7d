"""Logistic regression of frozen features, trained to its end: what a linear probe by Adam comes near in time.

Features are standardized, so their scale decides nothing; L-BFGS (scikit-learn's) runs until no component of the
gradient exceeds 1e-4, scikit-learn's own tolerance. At a hundredth of it, after two to three times the steps,
accuracies differed by up to 0.1 percentage points, or by one image of 360; so much does another processor's rounding.
How strongly weights are held to 0 is chosen on a tenth of the train rows, which then train too; of fewer than a
thousand, of which a tenth counts too few hits, by cross-validation.
"""

import warnings
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from sslzoo import checks
from sslzoo.data.labels import check_labels
from sslzoo.errors import InvalidInputError
from sslzoo.evaluation.features import blas_threads, check_features, moments

INVERSE_PENALTIES = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)  # scikit-learn's C
TOLERANCE, MOST_STEPS = 1e-4, 2000
_MOST_ROWS = 20_000  # that the strength is chosen with
_FEW_ROWS = 1000  # below them all are held out once, a fifth at a time, and judged by their probabilities
_LEAST_ROWS = 50  # below them C is 1


@dataclass(frozen=True)
class LogisticFit:
    """What `fit_logistic` gave.

    Example:
        import numpy as np
        from sslzoo import evaluation

        labels = np.arange(60) % 3
        features = np.random.default_rng(0).normal(size=(60, 4)) + np.eye(3, 4)[labels]
        fitted = evaluation.fit_logistic(features[:40], labels[:40], features[40:], labels[40:])
        isinstance(fitted, evaluation.LogisticFit), fitted.predictions.shape  # True, (20,)

    Attributes:
        accuracy: float, share of the test rows that are right.
        predictions: int array (M,), class of each test row.
        inverse_penalty: float, scikit-learn's C, as it was chosen.
        steps: int, of L-BFGS.
        converged: bool, whether it came to its end.
    """

    accuracy: float
    predictions: np.ndarray
    inverse_penalty: float
    steps: int
    converged: bool


def fit_logistic(
    train_features: np.ndarray,
    train_labels: np.ndarray,
    test_features: np.ndarray,
    test_labels: np.ndarray,
    seed: int = 0,
) -> LogisticFit:
    """Fits logistic regression to standardized features and scores it on test features.

    Example:
        import numpy as np
        from sslzoo import evaluation

        rng = np.random.default_rng(0)
        labels = np.arange(60) % 3
        features = rng.normal(size=(60, 4)) + np.eye(3, 4)[labels]
        evaluation.fit_logistic(features[:40], labels[:40], features[40:], labels[40:]).accuracy

    Args:
        train_features, test_features: float arrays (N, L) and (M, L), finite.
        train_labels, test_labels: int arrays (N,) and (M,); at least two classes of train rows.
        seed: int, of which train rows the strength is chosen on.

    Raises:
        InvalidInputError: shapes do not fit, or a value is not finite.
    """
    checks.seed(needed=True, seed=seed)
    rows = check_features(train_features, "train features")
    test_rows = check_features(test_features, "test features")
    labels = check_labels(train_labels, len(rows), "train labels")
    truth = check_labels(test_labels, len(test_rows), "test labels")
    if rows.shape[1] != test_rows.shape[1] or len(np.unique(labels)) < 2:
        raise InvalidInputError(
            "Train and test features must have the same length, and train labels at least 2 classes. "
            f"Received: {rows.shape[1]} and {test_rows.shape[1]} features, {len(np.unique(labels))} classes"
        )
    mean, deviation = moments(rows)
    rows, test_rows = ((each - mean) / deviation for each in (rows, test_rows))
    with threadpool_limits(blas_threads(rows.shape[1]), user_api="blas"):
        inverse_penalty = _chosen(rows, labels, np.random.default_rng(seed))
        model = _fit(rows, labels, inverse_penalty)
        predictions = model.predict(test_rows)
    steps = int(model.n_iter_.max())
    accuracy = float(np.mean(predictions == truth))
    return LogisticFit(accuracy, predictions, inverse_penalty, steps, steps < MOST_STEPS)


def _chosen(rows, labels, random):
    """The C with the most held-out rows right, the smallest of several: the model that is held tightest."""
    if _LEAST_ROWS <= len(rows) < _FEW_ROWS:
        return _cross_validated(rows, labels, random)
    held, kept = np.split(random.permutation(len(rows)), [len(rows) // 10])
    kept = kept[:_MOST_ROWS]
    if len(rows) < _LEAST_ROWS or len(np.unique(labels[kept])) < 2:
        return 1.0
    right = [_fit(rows[kept], labels[kept], each).score(rows[held], labels[held]) for each in INVERSE_PENALTIES]
    return INVERSE_PENALTIES[int(np.argmax(right))]


def _cross_validated(rows, labels, random):
    """The C with the least cross-entropy of held-out rows, in five folds of equal classes, the smallest of several."""
    order = random.permutation(len(rows))
    folds = np.empty(len(rows), int)
    folds[order[np.argsort(labels[order], kind="stable")]] = np.arange(len(rows)) % 5
    losses = np.zeros(len(INVERSE_PENALTIES))
    for fold in range(5):
        kept = folds != fold
        held = ~kept & np.isin(labels, labels[kept])  # a class of one image is unknown without it
        if len(np.unique(labels[kept])) < 2 or not held.any():
            continue
        for place, each in enumerate(INVERSE_PENALTIES):
            model = _fit(rows[kept], labels[kept], each)
            logs = model.predict_log_proba(rows[held])
            losses[place] -= logs[np.arange(len(logs)), np.searchsorted(model.classes_, labels[held])].sum()
    return INVERSE_PENALTIES[int(np.argmin(losses))] if losses.any() else 1.0


def _fit(rows, labels, inverse_penalty):
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # `converged` says so
        return LogisticRegression(C=inverse_penalty, tol=TOLERANCE, max_iter=MOST_STEPS).fit(rows, labels)
