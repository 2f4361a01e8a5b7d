"""What a handful of labels a class is enough for, on frozen features."""

import numpy as np
from threadpoolctl import threadpool_limits

from sslzoo.evaluation.features import moments
from sslzoo.evaluation.protocols.protocol import Number, Protocol, Result

LABELS, DRAWS = (1, 4, 16, 64), 10


class FewShot(Protocol):
    """Logistic regression on 1, 4, 16 and 64 labeled images of each class, the mean over ten draws of them.

    Features are standardized by all train images, which takes no label; the penalty is C = 1.
    """

    name, title = "few_shot", "few labels"
    needs = ("features", "labels")

    def check(self, subject):
        subject.check_shared_classes()

    def run(self, subject):
        train, labels, test, truth = subject.splits()
        mean, deviation = moments(train)
        train, test = (train - mean) / deviation, (test - mean) / deviation
        present, rarest = np.unique(labels), int(np.unique(labels, return_counts=True)[1].min())
        sizes = [size for size in LABELS if size <= rarest]
        progress, numbers = subject.progress(self.title), {}
        for size in sizes:
            shares = []
            for number in range(DRAWS):
                rows = draw(labels, present, size, [subject.seed, size, number])
                shares.append(float(np.mean(fit(train[rows], labels[rows]).predict(test) == truth)))
                progress(sizes.index(size) * DRAWS + number + 1, len(sizes) * DRAWS)
            spread = float(np.std(shares, ddof=1))
            note = f"mean of {DRAWS} draws, which deviate by {100 * spread:.2f}"
            label = f"{size} label{'s' * (size > 1)} a class"
            numbers[f"accuracy_{size}"] = Number(float(np.mean(shares)), label, note, 1 / len(present))
            numbers[f"deviation_{size}"] = Number(spread, f"{label}, standard deviation", note, shown=False)
        left_out = [str(size) for size in LABELS if size > rarest]
        remark = (
            f"Few labels: the smallest class has {rarest:,} train images, so {' and '.join(left_out)} were left out."
        )
        settings = {"labels": sizes, "draws": DRAWS, "penalty": "l2, C = 1", "features": "standardized by train images"}
        return Result(numbers, settings, [remark] if left_out else [])


def draw(labels: np.ndarray, classes: np.ndarray, size: int, seed: list[int]) -> np.ndarray:
    """Rows of `size` images of each class, drawn at random without repetition."""
    random = np.random.default_rng(seed)
    return np.concatenate([random.choice(np.flatnonzero(labels == label), size, replace=False) for label in classes])


def fit(rows: np.ndarray, labels: np.ndarray):
    """Logistic regression in float64: least summed cross-entropy plus half the squared norm of the kernel."""
    from sklearn.linear_model import LogisticRegression

    with threadpool_limits(1):  # on a busy machine many threads take thirty times as long for so few rows
        return LogisticRegression(C=1.0, tol=1e-6, max_iter=2000).fit(rows, labels)
