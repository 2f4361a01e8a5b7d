"""Train SimCLR: two views of an image find each other among all views of the batch.

    python recipes/simclr.py                                          # digits
    KERAS_BACKEND=jax python recipes/simclr.py --dataset mnist        # `simclr-mnist`
    KERAS_BACKEND=tensorflow python recipes/simclr.py --dataset cifar10 --precision mixed_bfloat16
                                                                      # `simclr-cifar10`: kNN 72.9 % (k = 10, cosine)
    python recipes/simclr.py --dataset cifar10 --variant paper
    python recipes/simclr.py --dataset cifar10 --variant strong       # to compare with other libraries' tables

Papers: Chen et al., "A Simple Framework for Contrastive Learning of Visual Representations" (arXiv 2002.05709);
Bizeul, Schoelkopf and Allen, "A Probabilistic Model behind Self-Supervised Learning" (arXiv 2402.01399).
"""

from sslzoo import training
from sslzoo.methods import SimCLR
from sslzoo.training import AIRNET, PAPER, STRONG, Per

# Zoo and paper: the loss sees the representation itself. Temperatures: 0.7 is the paper's; in 64 numbers per image
# a far lower one is better by every measure, in ten by neighbors alone (docs/choices.md).
SETTINGS = {
    "batch_size": Per(128, cifar10=256, cifar100=256, svhn_cropped=256),
    "learning_rate": Per(1e-3, cifar10=4e-3, cifar100=4e-3, svhn_cropped=4e-3),
    "head": None, "temperature": Per(0.7, color=0.05),
}

# paper: the SimVAE paper's tables. strong: as solo-learn trains it; lightly reports 84.8 % (kNN of 200, best epoch)
# after 200 epochs, solo-learn 90.7 % (online probe) after 1000.
VARIANTS = {
    "zoo": AIRNET | {"temperature": 0.1},
    "paper": PAPER | {"temperature": 0.7},
    "strong": STRONG | {
        "head": (2048, 256), "head_options": {"batch_norm": False}, "temperature": 0.2,
        "optimizer": "lars", "learning_rate": 0.4, "weight_decay": 1e-4,
    },
}

# Percent, from tables 1 and 5 of the SimVAE paper; clusters of CIFAR-10 from its workshop version (that column of the
# later table is shifted by a row).
PUBLISHED = {
    "mnist": {"mlp": 97.2, "knn": 97.2, "linear": 96.8, "gmm": 83.7},
    "fashion_mnist": {"mlp": 74.9, "knn": 76.0, "linear": 73.0, "gmm": 53.6},
    "cifar10": {"mlp": 67.4, "knn": 64.0, "linear": 65.4, "gmm": 49.8},
}


def main(argv=None):
    run = training.Run("simclr", SETTINGS, VARIANTS, argv, __doc__, PUBLISHED)
    encoder = run.encoder()
    model = SimCLR(encoder, run.projector(encoder), run.views(), **run.options("temperature"))
    run.prepare(model)
    model.fit(run.data(), **run.fit_arguments())
    return run.finish(model)


if __name__ == "__main__":
    training.script(main)
