"""Evaluation of representations: probes, neighbors and clusters on the features of a frozen encoder.

    report = sslzoo.evaluate(encoder, "mnist")
    print(report)

`sslzoo.evaluation.pictures` draws reconstructions, samples, embeddings and training curves;
`sslzoo.evaluation.style` measures what features say of how an image was changed, without labels;
`sslzoo.evaluation.generation` has reconstructions, classes, likelihoods and Fréchet distances of decoders;
`sslzoo.evaluation.measures` has measures of features without labels;
`sslzoo.evaluation.outliers` recognizes images of other sets by the slope of a density.
"""

import sslzoo.backend  # noqa: F401 - before Keras
from sslzoo.evaluation import generation, measures, style
from sslzoo.evaluation.clustering import fit_mixtures, hungarian_accuracy, minibatch_scores, scores
from sslzoo.evaluation.embedding import Embedding, embed
from sslzoo.evaluation.evaluate import ALL_PROTOCOLS, PROTOCOLS, evaluate, evaluate_features
from sslzoo.evaluation.features import TorchEncoder, features, weights_sha256
from sslzoo.evaluation.generation import ClassGaussians, Extractor, frechet_distance
from sslzoo.evaluation.logistic import LogisticFit, fit_logistic
from sslzoo.evaluation.neighbors import knn_accuracy, nearest
from sslzoo.evaluation.probes import ProbeResult, balanced_accuracy, train_probe, train_probe_on_views
from sslzoo.evaluation.protocols import Number
from sslzoo.evaluation.report import Report
from sslzoo.evaluation.search import Match, page, read_features, search
from sslzoo.evaluation.view_check import ViewCheck, check_views

__all__ = [
    "ALL_PROTOCOLS",
    "PROTOCOLS",
    "ClassGaussians",
    "Embedding",
    "Extractor",
    "LogisticFit",
    "Match",
    "Number",
    "ProbeResult",
    "Report",
    "TorchEncoder",
    "ViewCheck",
    "balanced_accuracy",
    "check_views",
    "embed",
    "evaluate",
    "evaluate_features",
    "features",
    "fit_logistic",
    "fit_mixtures",
    "frechet_distance",
    "generation",
    "hungarian_accuracy",
    "knn_accuracy",
    "measures",
    "minibatch_scores",
    "nearest",
    "page",
    "read_features",
    "scores",
    "search",
    "style",
    "train_probe",
    "train_probe_on_views",
    "weights_sha256",
]
