"""How well a Gaussian mixture, fitted without labels, finds the classes."""

import dataclasses

import numpy as np

from sslzoo.evaluation import clustering
from sslzoo.evaluation.protocols.protocol import Number, Protocol, Result

MINIBATCH = 64


@dataclasses.dataclass
class GMM(Protocol):
    """Full covariances, a component a class: Hungarian accuracy, NMI and ARI over the whole test set; and the same
    averaged over batches of 64, as the papers' tables appear to be.

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
        mixture = clustering.fit_gmm(subject.train_features, components, restarts, subject.seed)
        progress(1, 1)
        clusters = mixture.predict(np.asarray(subject.test_features, np.float64))
        whole, batches = beside_chance(subject.test_classes, clusters, MINIBATCH, subject.seed)
        matching, averaged = "Hungarian matching, whole test set", "mean over batches, as in the papers' tables"
        labels = {
            "accuracy": ("accuracy", f"{matching}; restarts: {restarts}"),
            "nmi": ("NMI", "normalised mutual information, whole test set"),
            "ari": ("ARI", "adjusted Rand index, whole test set"),
        }
        numbers = {metric: Number(whole[metric][0], *words, whole[metric][1]) for metric, words in labels.items()}
        for metric, (label, _) in labels.items():
            value, chance = batches[metric]
            label += f", batches of {MINIBATCH}"
            numbers[f"minibatch{MINIBATCH}_{metric}"] = Number(value, label, averaged, chance)
        settings = {"model": "GaussianMixture", "covariance": "full", "components": components}
        settings |= {"restarts": restarts, "max_iter": mixture.max_iter}
        settings |= {"fitted on": "train features", "minibatch": MINIBATCH}
        return Result(numbers, settings, _remarks(mixture))


def beside_chance(labels, clusters, minibatch, seed):
    """Scores over all rows and over mini-batches: two dicts, metric -> (value, what guessing scores, by experiment)."""
    shuffled = np.random.default_rng(seed).permutation(labels)
    whole = [clustering.scores(some, clusters) for some in (labels, shuffled)]
    batches = [clustering.minibatch_scores(some, clusters, minibatch, seed) for some in (labels, shuffled)]
    return [{metric: (value[metric], chance[metric]) for metric in value} for value, chance in (whole, batches)]


def _remarks(mixture):
    remarks, ridge, usual = [], f"GMM: the ridge on the covariances is {mixture.reg_covar:.2g}", clustering.RIDGE
    if mixture.reg_covar > usual:
        remarks.append(f"{ridge} instead of {usual:g}, without which it has no solution: the features are degenerate.")
    if mixture.reg_covar < usual:
        remarks.append(f"{ridge}, a millionth of the features' variance: {usual:g} would blur features so small.")
    if not mixture.converged_:
        remarks.append(f"GMM: the best restart had not converged after {mixture.max_iter} iterations.")
    return remarks
