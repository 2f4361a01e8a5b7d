"""Train ball discrimination: a view finds its image among those that look most like it.

    python recipes/ball.py                                      # digits
    KERAS_BACKEND=jax python recipes/ball.py --dataset mnist
    python recipes/ball.py --dataset cifar10 --variant mi       # as its paper trains it
    python recipes/ball.py --variant plus                       # BALL+: the ball shrinks from all images

Paper: Wu et al., "On Mutual Information in Contrastive Learning for Visual Representations" (arXiv 2005.13149).
"""

from sslzoo import training
from sslzoo.methods import Ball
from sslzoo.training import AIRNET, MI, PAPER, Per, Variant

# Zoo and paper: the loss sees the representation itself. Fewer views of MNIST and FashionMNIST than other methods have:
# each step compares its views with all 60,000 images. fill_bank: as in instance_discrimination.py. shrinking: the share
# of the training in which the ball shrinks from all images to `neighbors`.
SETTINGS = {
    "views_per_image": Per(mnist=30, fashion_mnist=30), "num_views": 1, "head": None, "fill_bank": True,
    "neighbors": Per(4096, digits=256), "shrinking": 0.0, "temperature": Per(0.2, color=0.05), "momentum": 0.5,
}

# paper: networks, views and optimizer of the SimVAE paper's tables, which lack this method. mi: those of its own paper.
# plus: down to a tenth of the images in half of the training, as the authors' later code has it.
VARIANTS = {
    "zoo": AIRNET | {"temperature": 0.1},
    "paper": PAPER,
    "mi": MI,
    "plus": Variant({"shrinking": 0.5, "neighbors": Per(6000, digits=144, cifar10=5000, cifar100=5000)}),
}

# Percent, from table 2 of the paper: logistic regression on views of CIFAR-10.
PUBLISHED = {"cifar10": {"views": 81.4}}


def main(argv=None):
    run = training.Run("ball", SETTINGS, VARIANTS, argv, __doc__, PUBLISHED)
    encoder, s = run.encoder(), run.settings
    steps = run.optimizer_steps(s["shrinking"] * s["epochs"])
    options = run.options("neighbors", "temperature", "momentum")
    model = Ball(
        encoder, len(run.images), run.projector(encoder), run.views(), anneal_steps=steps, seed=run.seed, **options
    )
    if s["fill_bank"] and not run.folder.resumes:
        model.fill_bank(run.images)
    run.prepare(model)
    model.fit(run.data(), **run.fit_arguments())
    return run.finish(model)


if __name__ == "__main__":
    training.script(main)
