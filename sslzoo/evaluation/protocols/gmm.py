"""How well a Gaussian mixture, fitted without labels, finds the classes."""

import dataclasses
from typing import ClassVar

import numpy as np

from sslzoo.evaluation import clustering
from sslzoo.evaluation.number import Number
from sslzoo.evaluation.protocols.protocol import Protocol, Result

MINIBATCH = 64


@dataclasses.dataclass
class GMM(Protocol):
    """Full covariances, a component a class: Hungarian accuracy, NMI and ARI over the whole test set; and the same
    averaged over batches of 64, as the papers' tables appear to be.

    Args:
        gmm_restarts: int. The papers' text has 200, their code 20.
    """

    name: ClassVar[str] = "gmm"
    title: ClassVar[str] = "GMM"
    needs: ClassVar[tuple[str, ...]] = ("features", "labels")

    gmm_restarts: int = 20

    def run(self, subject):
        components = len(np.unique(subject.train_classes))
        mixture = clustering.fit_gmm(
            subject.train_features, components, self.gmm_restarts, subject.seed, subject.progress(self.title)
        )
        clusters = mixture.predict(np.asarray(subject.test_features, np.float64))
        names = {"accuracy": "accuracy", "nmi": "NMI", "ari": "ARI"}
        notes = {
            "accuracy": f"Hungarian matching, whole test set; restarts: {self.gmm_restarts}",
            "nmi": "normalised mutual information, whole test set",
            "ari": "adjusted Rand index, whole test set",
        }
        by_batch = "mean over batches, as in the papers' tables"
        whole, batches = numbers_beside_chance(subject.test_classes, clusters, MINIBATCH, subject.seed)
        numbers = {m: Number(whole[m][0], names[m], notes[m], whole[m][1]) for m in names}
        for m in names:
            value, chance = batches[m]
            label = f"{names[m]}, batches of {MINIBATCH}"
            numbers[f"minibatch{MINIBATCH}_{m}"] = Number(value, label, by_batch, chance)
        settings = {
            "model": "GaussianMixture",
            "covariance": "full",
            "components": components,
            "restarts": self.gmm_restarts,
            "max_iter": mixture.max_iter,
            "fitted on": "train features",
            "minibatch": MINIBATCH,
        }
        return Result(numbers, settings, _remarks(mixture))


def numbers_beside_chance(labels, clusters, minibatch, seed):
    """Scores over all rows and over mini-batches: two dicts, metric -> (value, what guessing scores, by experiment)."""
    shuffled = np.random.default_rng(seed).permutation(labels)
    whole = [clustering.scores(some, clusters) for some in (labels, shuffled)]
    batches = [clustering.minibatch_scores(some, clusters, minibatch, seed) for some in (labels, shuffled)]
    return [{metric: (value[metric], chance[metric]) for metric in value} for value, chance in (whole, batches)]


def _remarks(mixture):
    remarks, ridge = [], mixture.reg_covar
    if ridge > clustering.RIDGE:
        remarks.append(
            f"GMM: the covariances needed a ridge of {ridge:.2g} instead of {clustering.RIDGE:g}; the features are "
            "nearly degenerate."
        )
    if ridge < clustering.RIDGE:
        remarks.append(
            f"GMM: the ridge of the covariances is {ridge:.2g}, a millionth of the features' variance, instead of "
            f"{clustering.RIDGE:g}, which would blur features this small."
        )
    if not mixture.converged_:
        remarks.append(f"GMM: the best restart had not converged after {mixture.max_iter} iterations.")
    return remarks
