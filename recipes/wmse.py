"""Train W-MSE: views agree after whitening, which leaves embeddings no room to collapse.

    python recipes/wmse.py                                          # digits
    KERAS_BACKEND=jax python recipes/wmse.py --dataset mnist        # `wmse-mnist`
    python recipes/wmse.py --dataset cifar10 --variant paper
    python recipes/wmse.py --dataset cifar10 --variant strong       # to hold against other libraries' tables

Papers: Ermolov et al., "Whitening for Self-Supervised Representation Learning" (arXiv 2007.06346); networks and views
of Bizeul, Schoelkopf and Allen, "A Probabilistic Model behind Self-Supervised Learning" (arXiv 2402.01399).
"""

from sslzoo import training
from sslzoo.methods import WMSE

# batch_size counts images: the networks see num_views times as many.
SETTINGS = {
    dataset: setup
    | {
        "num_views": 2, "batch_size": 128, "epochs": 120, "learning_rate": 1e-3,
        "head": None, "whitening_size": None, "iterations": 1,
    }
    for dataset, setup in training.SETUPS.items()
}  # fmt: skip
SETTINGS["digits"] |= {"epochs": 300, "monitor_every": 10}
for dataset in ("mnist", "fashion_mnist"):  # 14.4 million views, as SimVAE's
    SETTINGS[dataset] |= {"monitor_every": 5}

# What differs from SimCLR's views in the variant strong.
STRONG_VIEWS = {
    "crop": {"scale": (0.2, 1.0)},
    "blur": None,
}

# zoo: the budget above. paper: the protocol of the SimVAE paper, which does not train this method. strong: as
# solo-learn trains it, less its weight decay of 1e-6; it reports 88.7 % (online probe) after 1000 epochs.
VARIANTS = {
    "zoo": {},
    "paper": {
        "network": training.PAPER_NETWORKS, "flip": "vertical", "epochs": 600,
        "learning_rate": 1e-4, "schedule": "constant", "adam_epsilon": 1e-8,
    },
    "strong": training.STRONG
    | {
        "policy_changes": {dataset: STRONG_VIEWS for dataset in training.STRONG["only"]},
        "head": (1024, 64), "whitening_size": 128, "learning_rate": 2e-3,
    },
}  # fmt: skip

PAPERS = [
    {
        "title": "Whitening for Self-Supervised Representation Learning",
        "url": "https://arxiv.org/abs/2007.06346",
    },
    {
        "title": "A Probabilistic Model behind Self-Supervised Learning",
        "url": "https://arxiv.org/abs/2402.01399",
    },
]


def main(argv=None):
    run = training.Run("wmse", SETTINGS, VARIANTS, argv, __doc__, papers=PAPERS)
    s = run.settings
    encoder = run.encoder()
    model = WMSE(
        encoder,
        run.projector(encoder),
        run.views(),
        whitening_size=s["whitening_size"],
        iterations=s["iterations"],
        seed=run.seed,
    )
    run.prepare(model)
    model.fit(run.data(), **run.fit_arguments())
    return run.finish(model)


if __name__ == "__main__":
    training.script(main)
