"""Train W-MSE: views agree after whitening, which leaves embeddings no room to collapse.

    python recipes/wmse.py                                          # digits
    KERAS_BACKEND=jax python recipes/wmse.py --dataset mnist        # `wmse-mnist`
    python recipes/wmse.py --dataset cifar10 --variant paper
    python recipes/wmse.py --dataset cifar10 --variant strong       # to compare with other libraries' tables

Papers: Ermolov et al., "Whitening for Self-Supervised Representation Learning" (arXiv 2007.06346); networks and views
of Bizeul, Schoelkopf and Allen, "A Probabilistic Model behind Self-Supervised Learning" (arXiv 2402.01399).
"""

from sslzoo import training
from sslzoo.methods import WMSE
from sslzoo.training import PAPER, STRONG

SETTINGS = {"head": None, "whitening_size": None, "iterations": 1}

# paper: the protocol of the SimVAE paper, which does not train this method. strong: as solo-learn trains it, less its
# weight decay of 1e-6; it reports 88.7 % (online probe) after 1000 epochs.
VARIANTS = {
    "paper": PAPER | {"learning_rate": 1e-4},
    "strong": STRONG | {
        "policy_changes": {"crop": {"scale": (0.2, 1.0)}, "blur": None},
        "head": (1024, 64), "whitening_size": 128, "learning_rate": 2e-3,
    },
}


def main(argv=None):
    run = training.Run("wmse", SETTINGS, VARIANTS, argv, __doc__)
    encoder = run.encoder()
    options = run.options("whitening_size", "iterations")
    model = WMSE(encoder, run.projector(encoder), run.views(), **options, seed=run.seed)
    run.prepare(model)
    model.fit(run.data(), **run.fit_arguments())
    return run.finish(model)


if __name__ == "__main__":
    training.script(main)
