"""Train DeepCluster: k-means on all features gives the labels that augmented views are classified by.

    python recipes/deepcluster.py                                     # digits, about a minute: kNN 93.6 %
    KERAS_BACKEND=jax python recipes/deepcluster.py --dataset mnist
    python recipes/deepcluster.py --dataset cifar10 --variant paper
    python recipes/deepcluster.py --dataset cifar10 --variant strong

Papers: Caron et al., "Deep Clustering for Unsupervised Learning of Visual Features" (arXiv 1807.05520); Bizeul,
Schoelkopf and Allen, "A Probabilistic Model behind Self-Supervised Learning" (arXiv 2402.01399), in section 3.3.
"""

from sslzoo import training
from sslzoo.callbacks import Recluster
from sslzoo.methods import DeepCluster
from sslzoo.training import AIRNET, PAPER, STRONG, Per

# recluster_every counts epochs: the classifier starts anew each time and needs a hundred steps or more to learn, which
# are many epochs of a small data set; and a rate that does not fall, or the last classifiers learn nothing.
SETTINGS = {
    "learning_rate": Per(1e-3, digits=2e-3), "schedule": "constant",
    "clusters": 100, "recluster_every": Per(1, digits=10),
}

# paper: networks, views and optimizer of the SimVAE paper's tables, whose section 3.3 discusses this method and does
# not train it; one view, as in the original. strong: networks and views of the CIFAR-10 benchmarks, rate and decay of
# the original; no library reports a number for it there (solo-learn's 88.9 % is DeepCluster-v2's, another method).
VARIANTS = {
    "zoo": AIRNET | {"head": None},
    "paper": PAPER | {"num_views": 1},
    "strong": STRONG | {
        "num_views": 1, "clusters": 1000, "optimizer": "sgd", "learning_rate": 0.05, "weight_decay": 1e-5,
    },
}


def main(argv=None):
    run = training.Run("deepcluster", SETTINGS, VARIANTS, argv, __doc__)
    s = run.settings
    model = DeepCluster(run.encoder(), len(run.images), s["clusters"], run.views(), seed=run.seed)
    recluster = Recluster(run.images, s["recluster_every"])
    run.prepare(model)
    model.fit(run.data(), **run.fit_arguments([recluster]))
    return run.finish(model)


if __name__ == "__main__":
    training.script(main)
