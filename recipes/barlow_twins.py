"""Train Barlow Twins: the cross-correlation of two views is to be the identity.

    python recipes/barlow_twins.py                                          # digits
    KERAS_BACKEND=jax python recipes/barlow_twins.py --dataset mnist        # `barlow-twins-mnist`
    python recipes/barlow_twins.py --dataset cifar10 --variant paper
    python recipes/barlow_twins.py --dataset cifar10 --variant strong       # to compare with other libraries' tables

Papers: Zbontar et al., "Barlow Twins: Self-Supervised Learning via Redundancy Reduction" (arXiv 2103.03230); networks
and views of Bizeul, Schoelkopf and Allen, "A Probabilistic Model behind Self-Supervised Learning" (arXiv 2402.01399).
"""

from sslzoo import training
from sslzoo.methods import BarlowTwins
from sslzoo.training import PAPER, STRONG, Per

# A weight of 0.0051 is for 64 coordinates and more, each with as many partners; ten need a higher one (chosen by
# held-out images of digits).
SETTINGS = {
    "head": None, "scale": 1.0,
    "off_diagonal_weight": Per(0.0051, digits=0.05, mnist=0.05, fashion_mnist=0.05, gray_images=0.05),
}

# paper: the protocol of the SimVAE paper, which does not train this method. strong: as solo-learn trains it, but for
# solarizing both views at 0.1 in place of one at 0.2; lightly reports 84.2 % (kNN of 200, best epoch, 128 images a
# step) after 200 epochs, solo-learn 92.1 % (online probe) after 1000.
VARIANTS = {
    "paper": PAPER | {"learning_rate": 1e-4},
    "strong": STRONG | {
        "policy_changes": {
            "jitter": {"brightness": 0.4, "contrast": 0.4, "saturation": 0.2, "hue": 0.1},
            "blur": None, "solarize": 0.1,
        },
        "head": (2048, 2048, 2048), "off_diagonal_weight": 0.0051, "scale": 0.1,
        "optimizer": "lars", "learning_rate": 0.3, "weight_decay": 1e-4,
    },
}


def main(argv=None):
    run = training.Run("barlow-twins", SETTINGS, VARIANTS, argv, __doc__)
    encoder = run.encoder()
    model = BarlowTwins(encoder, run.projector(encoder), run.views(), **run.options("off_diagonal_weight", "scale"))
    run.prepare(model)
    model.fit(run.data(), **run.fit_arguments())
    return run.finish(model)


if __name__ == "__main__":
    training.script(main)
