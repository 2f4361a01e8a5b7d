"""Accuracy of the k nearest neighbors among frozen features."""

import numpy as np

from sslzoo.evaluation import neighbors
from sslzoo.evaluation.protocols.protocol import Number, Protocol, Result

COSINE_K, WEIGHTED_K, TEMPERATURE = 10, 200, 0.1
EUCLIDEAN_K = 15  # at most: SimVAE papers, A.7.2


class KNN(Protocol):
    """k = 10 cosine; k = 200 cosine, votes weighted exp(s / 0.1); k = 10 cosine of features less their mean over the
    train images, for an encoder whose loss leaves the origin free; Euclidean k = 1..15, and the best of them on test.
    """

    name, title = "knn", "kNN"
    needs = ("features", "labels")

    def check(self, subject):
        subject.check_shared_classes()

    def run(self, subject):
        train, labels, test, truth = subject.splits()
        classes, progress = subject.num_classes, subject.progress(self.title)
        weighted_k, k, euclidean_k = (min(wanted, len(train)) for wanted in (WEIGHTED_K, COSINE_K, EUCLIDEAN_K))
        progress(0, 2)
        indices, similarities = neighbors.nearest(train, test, weighted_k, "cosine")
        near = labels[indices]
        majority = neighbors.vote(near[:, :k], classes)[:, -1]
        weighted = neighbors.vote(near, classes, np.exp((similarities - 1) / TEMPERATURE))[:, -1]
        middle = train.mean(axis=0, dtype=np.float64)
        indices, _ = neighbors.nearest(train - middle, test - middle, k, "cosine")
        centered = neighbors.vote(labels[indices], classes)[:, -1]
        progress(1, 2)
        indices, _ = neighbors.nearest(train, test, euclidean_k, "euclidean")
        by_k = np.mean(neighbors.vote(labels[indices], classes) == truth[:, None], axis=0)
        best = int(by_k.argmax())
        progress(2, 2)

        def number(value, label, note, **options):
            return Number(float(value), label, note, subject.majority, **options)

        weights = f"votes weighted exp(similarity / {TEMPERATURE})"
        by_test = f"best of k = 1..{euclidean_k} on test, as in the SimVAE papers: {best + 1}"
        numbers = {
            f"cosine_k{COSINE_K}_accuracy": number(np.mean(majority == truth), f"cosine, k = {k}", "majority vote"),
            f"cosine_k{WEIGHTED_K}_accuracy": number(np.mean(weighted == truth), f"cosine, k = {weighted_k}", weights),
            f"centered_k{COSINE_K}_accuracy": number(
                np.mean(centered == truth),
                f"centered cosine, k = {k}",
                "majority vote; less the mean of train features",
            ),
            "euclidean_best_accuracy": number(by_k[best], "Euclidean, best k", by_test),
        }
        for j, accuracy in enumerate(by_k, 1):
            numbers[f"euclidean_k{j}_accuracy"] = number(accuracy, f"Euclidean, k = {j}", "majority vote", shown=False)
        settings = {
            "bank": "all train features",
            "cosine": {"k": k, "votes": "uniform"},
            "cosine weighted": {"k": weighted_k, "votes": "exp(similarity / T)", "T": TEMPERATURE},
            "centered cosine": {"k": k, "votes": "uniform"},
            "euclidean": {"k": [1, euclidean_k], "votes": "uniform"},
        }
        return Result(numbers, settings, _remarks(len(train)), predictions=majority)


def _remarks(rows):
    if rows >= WEIGHTED_K:
        return []
    cut = " and ".join(str(wanted) for wanted in (COSINE_K, EUCLIDEAN_K, WEIGHTED_K) if wanted > rows)
    remark = f"kNN: k is at most {rows}, the number of train rows, where the protocol says {cut}."
    if rows <= COSINE_K:
        remark += f" With k = {rows} all train rows vote, so every test row gets the commonest class."
    return [remark]
