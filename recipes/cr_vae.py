"""Train CR-VAE: two views of an image, each a VAE, and a KL between their posteriors.

    python recipes/cr_vae.py                                       # digits, under 3 minutes: kNN 96.7 %
    KERAS_BACKEND=jax python recipes/cr_vae.py --dataset mnist
    python recipes/cr_vae.py --dataset cifar10 --variant paper

Papers: Sinha and Dieng, "Consistency Regularization for Variational Auto-Encoders"; Bizeul, Schoelkopf and Allen, "A
Probabilistic Model behind Self-Supervised Learning" (arXiv 2402.01399).
"""

from sslzoo import networks, training
from sslzoo.methods import CRVAE

# As many views as SimVAE's recipe, two of each image at a time.
SETTINGS = {
    dataset: setup
    | {
        "num_views": 2, "batch_size": 60, "epochs": 100, "learning_rate": 1e-3, "monitor_every": 5,
        "likelihood": "gaussian", "likelihood_variance": 0.01, "consistency_weight": 0.1,
    }
    for dataset, setup in training.SETUPS.items()
}  # fmt: skip
SETTINGS["digits"] |= {"epochs": 300}
for dataset in ("mnist", "fashion_mnist"):  # 14.4 million views
    SETTINGS[dataset] |= {"batch_size": 160, "epochs": 120, "learning_rate": 2e-3}
for dataset in ("cifar10", "cifar100", "svhn_cropped"):  # a million views of 50,000 images
    SETTINGS[dataset] |= {"batch_size": 120, "epochs": 10, "learning_rate": 2e-3}

# zoo: the budget above. paper: as its text says. released: CR-VAE's own default weight (its code does not run as it
# stands). workshop: the earlier version of the SimVAE paper.
PAPER = {
    "network": training.PAPER_NETWORKS, "flip": "vertical", "num_views": 2, "batch_size": 64,
    "epochs": 400, "learning_rate": 8e-5, "schedule": "constant", "adam_epsilon": 1e-8,
}  # fmt: skip
VARIANTS = {
    "zoo": {},
    "paper": PAPER,
    "released": PAPER | {"consistency_weight": 1e-3},
    "workshop": PAPER | {"consistency_weight": 0.01, "likelihood_variance": 1.0},
}

# Percent, from tables 1 and 5 of the SimVAE paper.
PUBLISHED = {
    "mnist": {"mlp": 97.7, "knn": 98.0, "linear": 97.5, "gmm": 96.9},
    "fashion_mnist": {"mlp": 82.6, "knn": 86.4, "linear": 79.7, "gmm": 63.4},
    "cifar10": {"mlp": 36.8, "knn": 28.1, "linear": 26.8, "gmm": 30.3},
}

PAPERS = [
    {
        "title": "Consistency Regularization for Variational Auto-Encoders",
        "url": "https://arxiv.org/abs/2105.14859",
    },
    {
        "title": "A Probabilistic Model behind Self-Supervised Learning",
        "url": "https://arxiv.org/abs/2402.01399",
    },
]


def main(argv=None):
    run = training.Run("cr-vae", SETTINGS, VARIANTS, argv, __doc__, PUBLISHED, PAPERS)
    s = run.settings
    model = CRVAE(
        networks.encoder(s["network"], run.image_shape, s["latent_dim"], posterior=True, seed=run.seed),
        networks.decoder(s["network"], run.image_shape, s["latent_dim"], seed=run.seed + 1),
        run.views(),
        consistency_weight=s["consistency_weight"],
        likelihood=s["likelihood"],
        likelihood_variance=s["likelihood_variance"],
        seed=run.seed,
    )
    run.prepare(model)
    model.fit(run.data(), **run.fit_arguments())
    return run.finish(model)


if __name__ == "__main__":
    training.script(main)
