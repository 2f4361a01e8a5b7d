"""Train annulus discrimination: a view is distinguished from images that look like it, but not from those too like it.

    python recipes/annulus.py                                   # digits
    KERAS_BACKEND=jax python recipes/annulus.py --dataset mnist
    python recipes/annulus.py --dataset cifar10 --variant mi    # as its paper trains it
    python recipes/annulus.py --variant plus                    # ANN+: both radii shrink

Paper: Wu et al., "On Mutual Information in Contrastive Learning for Visual Representations" (arXiv 2005.13149).
"""

from sslzoo import training
from sslzoo.callbacks import ClusterBank
from sslzoo.methods import Annulus
from sslzoo.training import AIRNET, MI, PAPER, Per, Variant

# Zoo and paper: the loss sees the representation itself. Fewer views of MNIST and FashionMNIST than other methods have:
# each step compares its views with all 60,000 images. fill_bank: as in instance_discrimination.py. shrinking: the share
# of the training in which the ball shrinks from all images to `neighbors`. cluster_every counts epochs.
SETTINGS = {
    "views_per_image": Per(mnist=30, fashion_mnist=30), "num_views": 1, "head": None, "fill_bank": True,
    "neighbors": Per(4096, digits=256), "shrinking": 0.0, "inner": None,
    "clusters": Per(300, digits=50), "clusterings": 10, "cluster_every": Per(1, digits=20),
    "temperature": Per(0.2, color=0.05), "momentum": 0.5,
}

# paper: networks, views and optimizer of the SimVAE paper's tables, which lack this method. mi: those of its own paper.
# plus: the ball shrinks to a tenth of the images in half of the training, and its inner tenth is left out instead of
# clusters, as the authors' later code has it.
VARIANTS = {
    "zoo": AIRNET | {"temperature": 0.1},
    "paper": PAPER,
    "mi": MI,
    "plus": Variant({
        "shrinking": 0.5, "neighbors": Per(6000, digits=144, cifar10=5000, cifar100=5000),
        "clusters": None, "inner": 0.1,
    }),
}

# Percent, from table 2 of the paper: logistic regression on views of CIFAR-10.
PUBLISHED = {"cifar10": {"views": 81.4}}


def main(argv=None):
    run = training.Run("annulus", SETTINGS, VARIANTS, argv, __doc__, PUBLISHED)
    encoder, s = run.encoder(), run.settings
    steps = run.optimizer_steps(s["shrinking"] * s["epochs"])
    options = run.options("neighbors", "inner", "clusters", "clusterings", "temperature", "momentum")
    model = Annulus(
        encoder, len(run.images), run.projector(encoder), run.views(), anneal_steps=steps, seed=run.seed, **options
    )
    if s["fill_bank"] and not run.folder.resumes:
        model.fill_bank(run.images)
    run.prepare(model)
    clusters = [ClusterBank(s["cluster_every"])] if s["clusters"] else []
    model.fit(run.data(), **run.fit_arguments(clusters))
    return run.finish(model)


if __name__ == "__main__":
    training.script(main)
