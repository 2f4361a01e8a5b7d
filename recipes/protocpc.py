"""Train ProtoCPC: a student names, among all prototypes, the one that its slow copy saw in another view.

    python recipes/protocpc.py                                        # digits, about a minute: kNN 93.1 %
    KERAS_BACKEND=jax python recipes/protocpc.py --dataset mnist
    python recipes/protocpc.py --dataset cifar10 --variant paper
    python recipes/protocpc.py --dataset cifar10 --variant strong

Papers: Lee, "Representation Distillation by Prototypical Contrastive Predictive Coding" (ICLR 2022); Sansone and
Manhaeve, "Unifying Self-Supervised Clustering and Energy-Based Models" (GEDI, arXiv 2401.00873), appendix H;
Bizeul, Schoelkopf and Allen, "A Probabilistic Model behind Self-Supervised Learning" (arXiv 2402.01399).
"""

from sslzoo import training
from sslzoo.methods import ProtoCPC
from sslzoo.training import PAPER, STRONG

SETTINGS = {
    "head": None, "prototypes": 100, "temperature": 0.1, "teacher_temperature": 0.04,
    "momentum": 0.99, "prior_momentum": 0.9,
}

# paper: networks, views and optimizer of the SimVAE paper's tables, which have no row for ProtoCPC; nor has the GEDI
# paper, which derives the objective. strong: networks and views of the CIFAR-10 benchmarks, with the rate of SwAV
# there; no library reports a number for it.
VARIANTS = {
    "paper": PAPER | {"momentum": 0.996},
    "strong": STRONG | {
        "head": (2048, 128), "prototypes": 3000, "momentum": 0.996,
        "optimizer": "lars", "learning_rate": 0.6, "weight_decay": 1e-6,
    },
}


def main(argv=None):
    run = training.Run("protocpc", SETTINGS, VARIANTS, argv, __doc__)
    encoder = run.encoder()
    model = ProtoCPC(
        encoder,
        run.settings["prototypes"],
        run.projector(encoder),
        run.views(),
        **run.options("temperature", "teacher_temperature", "momentum", "prior_momentum"),
        seed=run.seed,
    )
    run.prepare(model)
    model.fit(run.data(), **run.fit_arguments())
    return run.finish(model)


if __name__ == "__main__":
    training.script(main)
