"""Train local aggregation: a view is drawn to the images that its own image clusters with.

    python recipes/local_aggregation.py                                   # digits
    KERAS_BACKEND=jax python recipes/local_aggregation.py --dataset mnist
    python recipes/local_aggregation.py --dataset cifar10 --variant mi    # as its paper trains it

Papers: Zhuang, Zhai and Yamins, "Local Aggregation for Unsupervised Learning of Visual Embeddings" (arXiv 1903.12355);
Wu et al., "On Mutual Information in Contrastive Learning for Visual Representations" (arXiv 2005.13149).
"""

from sslzoo import training
from sslzoo.callbacks import ClusterBank
from sslzoo.methods import LocalAggregation
from sslzoo.training import AIRNET, MI, PAPER, Per

# Zoo and paper: the loss sees the representation itself. Views and fill_bank: as in annulus.py. warm: the share of the
# training that is instance discrimination with all images, without clusters (10 epochs of the paper's on ImageNet).
# cluster_every counts epochs.
SETTINGS = {
    "views_per_image": Per(mnist=48, fashion_mnist=48), "num_views": 1, "head": None, "fill_bank": True,
    "neighbors": Per(4096, digits=256), "warm": 0.1,
    "clusters": Per(300, digits=50), "clusterings": 10, "cluster_every": Per(1, digits=20),
    "temperature": Per(0.2, color=0.05), "momentum": 0.5,
}

# paper: networks, views and optimizer of the SimVAE paper's tables, which lack this method. mi: those of its own paper.
VARIANTS = {
    "zoo": AIRNET | {"temperature": 0.1},
    "paper": PAPER,
    "mi": MI,
}

# Percent, from table 2 of the paper: logistic regression on views of CIFAR-10.
PUBLISHED = {"cifar10": {"views": 81.8}}


def main(argv=None):
    run = training.Run("local-aggregation", SETTINGS, VARIANTS, argv, __doc__, PUBLISHED)
    encoder, s = run.encoder(), run.settings
    warm = max(1, round(s["warm"] * s["epochs"]))
    options = run.options("neighbors", "clusters", "clusterings", "temperature", "momentum")
    model = LocalAggregation(
        encoder, len(run.images), run.projector(encoder), run.views(),
        anneal_steps=run.optimizer_steps(warm), curve="step", seed=run.seed, **options,
    )
    recluster = ClusterBank(s["cluster_every"], start=warm)
    if s["fill_bank"] and not run.folder.resumes:
        model.fill_bank(run.images)
    run.prepare(model)
    model.fit(run.data(), **run.fit_arguments([recluster]))
    return run.finish(model)


if __name__ == "__main__":
    training.script(main)
