"""Train ProtoCPC: a student names, among all prototypes, the one that its slow copy saw in another view.

    python recipes/protocpc.py                                        # digits, about a minute: kNN 93.1 %
    KERAS_BACKEND=jax python recipes/protocpc.py --dataset mnist
    python recipes/protocpc.py --dataset cifar10 --variant paper
    python recipes/protocpc.py --dataset cifar10 --variant strong

Papers: Lee, "Representation Distillation by Prototypical Contrastive Predictive Coding" (ICLR 2022); Sansone and
Manhaeve, "Unifying Self-Supervised Clustering and Energy-Based Models" (GEDI, arXiv 2212.13425), appendix H;
Bizeul, Schoelkopf and Allen, "A Probabilistic Model behind Self-Supervised Learning" (arXiv 2402.01399).
"""

from sslzoo import training
from sslzoo.methods import ProtoCPC

# batch_size counts images: the networks see num_views times as many, and the teacher as many again.
SETTINGS = {
    dataset: setup
    | {
        "num_views": 2, "batch_size": 128, "epochs": 120, "learning_rate": 1e-3,
        "head": None, "prototypes": 100, "temperature": 0.1, "teacher_temperature": 0.04,
        "momentum": 0.99, "prior_momentum": 0.9,
    }
    for dataset, setup in training.SETUPS.items()
}  # fmt: skip
SETTINGS["digits"] |= {"epochs": 300, "monitor_every": 10}

# zoo: the budget above. paper: networks, views and optimiser of the SimVAE paper's tables, which have no row for
# ProtoCPC; nor has the GEDI paper, which derives the objective. strong: networks and views of the CIFAR-10 benchmarks,
# with the rate of SwAV there; no library reports a number for it.
VARIANTS = {
    "zoo": {},
    "paper": {
        "network": training.PAPER_NETWORKS, "flip": "vertical", "epochs": 600, "momentum": 0.996,
        "learning_rate": 8e-5, "schedule": "constant", "adam_epsilon": 1e-8,
    },
    "strong": training.STRONG
    | {
        "head": (2048, 128), "prototypes": 3000, "momentum": 0.996,
        "optimizer": "lars", "learning_rate": 0.6, "weight_decay": 1e-6,
    },
}  # fmt: skip

PAPERS = [
    {
        "title": "Representation Distillation by Prototypical Contrastive Predictive Coding",
        "url": "https://openreview.net/forum?id=8la28hZOwug",
    },
    {
        "title": "Unifying Self-Supervised Clustering and Energy-Based Models",
        "url": "https://arxiv.org/abs/2212.13425",
    },
]


def main(argv=None):
    run = training.Run("protocpc", SETTINGS, VARIANTS, argv, __doc__, papers=PAPERS)
    s = run.settings
    encoder = run.encoder()
    model = ProtoCPC(
        encoder,
        s["prototypes"],
        run.projector(encoder),
        run.views(),
        temperature=s["temperature"],
        teacher_temperature=s["teacher_temperature"],
        momentum=s["momentum"],
        prior_momentum=s["prior_momentum"],
        seed=run.seed,
    )
    run.prepare(model)
    model.fit(run.data(), **run.fit_arguments())
    return run.finish(model)


if __name__ == "__main__":
    training.script(main)
