"""How well a Gaussian mixture, fitted without labels, finds the classes."""

import dataclasses

import numpy as np

from sslzoo.evaluation import clustering
from sslzoo.evaluation.protocols.protocol import Number, Protocol, Result

MINIBATCH = 64
GUESSES = 10_000  # labels, about, that are shuffled for what guessing scores: of a few, again and again


@dataclasses.dataclass
class GMM(Protocol):
    """Full covariances, a component a class, standardized features (32 principal components of more, 10,000 rows of
    more): Hungarian accuracy, NMI and ARI over the whole test set of the restart with the highest likelihood bound, the
    lowest and highest accuracy of all restarts; and the same averaged over batches of 64, as the papers' tables appear
    to be.

    Args:
        gmm_restarts: int. The papers' text has 200, their code 20.
    """

    name, title = "gmm", "GMM"
    needs = ("features", "labels")

    gmm_restarts: int = 20

    def run(self, subject):
        components = len(np.unique(subject.train_classes))
        progress, restarts = subject.progress(self.title), self.gmm_restarts
        progress(0, 1)
        mixtures = clustering.fit_mixtures(subject.train_features, components, restarts, subject.seed)
        progress(1, 1)
        truth = subject.test_classes
        found = [mixture.predict(subject.test_features) for mixture in mixtures]
        accuracies = [clustering.hungarian_accuracy(truth, clusters) for clusters in found]
        whole, batches = beside_chance(truth, found[0], MINIBATCH, subject.seed)
        matching, averaged = "Hungarian matching, whole test set", "mean over batches, as in the papers' tables"
        likeliest = f"the likeliest of {restarts} restarts"
        labels = {
            "accuracy": ("accuracy", f"{matching}; {likeliest}"),
            "nmi": ("NMI", f"normalized mutual information, whole test set; {likeliest}"),
            "ari": ("ARI", f"adjusted Rand index, whole test set; {likeliest}"),
        }
        numbers = {metric: Number(whole[metric][0], *words, whole[metric][1]) for metric, words in labels.items()}
        spread = f"{matching}; of {restarts} restarts, whatever their likelihood"
        for metric, words, extreme in (("lowest", "lowest accuracy", min), ("highest", "highest accuracy", max)):
            numbers[f"{metric}_accuracy"] = Number(extreme(accuracies), words, spread, whole["accuracy"][1])
        for metric, (label, _) in labels.items():
            value, chance = batches[metric]
            label += f", batches of {MINIBATCH}"
            numbers[f"minibatch{MINIBATCH}_{metric}"] = Number(value, label, averaged, chance)
        settings = {"model": "GaussianMixture", "covariance": "full", "components": components}
        settings |= {"restarts": restarts, "start": "k-means", "tolerance": clustering.TOLERANCE}
        settings |= {"features": "standardized", "dimensions": mixtures[0].dimensions}
        settings |= {"fitted on": f"{mixtures[0].rows:,} train features", "minibatch": MINIBATCH}
        return Result(numbers, settings, _remarks(mixtures[0]))


def beside_chance(labels, clusters, minibatch, seed):
    """Scores over all rows and over mini-batches: two dicts, metric -> (value, what guessing scores, by experiment).

    Guessing is the mean over labels that are shuffled, more often the fewer they are.
    """
    random = np.random.default_rng(seed)
    shuffled = [random.permutation(labels) for _ in range(max(1, GUESSES // len(labels)))]

    def beside(score):
        guesses = [score(some, clusters) for some in shuffled]
        own = score(labels, clusters)
        return {metric: (value, float(np.mean([guess[metric] for guess in guesses]))) for metric, value in own.items()}

    return beside(clustering.scores), beside(lambda *rows: clustering.minibatch_scores(*rows, minibatch, seed))


def _remarks(mixture):
    remarks, usual = [], clustering.RIDGES[0]
    if mixture.ridge > usual:
        remarks.append(
            f"GMM: the ridge on the covariances is {mixture.ridge:.2g} instead of {usual:g}, without which it has no "
            "solution: the features are degenerate."
        )
    if not mixture.converged:
        remarks.append(f"GMM: the likeliest restart had not converged after {mixture.steps} steps.")
    return remarks
