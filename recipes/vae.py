"""Train a VAE on augmented single views: the generative baseline of the SimVAE tables.

    python recipes/vae.py                                          # digits, under 3 minutes: kNN 51.9 % (collapses)
    KERAS_BACKEND=jax python recipes/vae.py --dataset mnist        # `vae-mnist`, 40 minutes: kNN 90.6 %
    python recipes/vae.py --dataset cifar10 --variant paper

Papers: Kingma and Welling, "Auto-Encoding Variational Bayes"; Bizeul, Schoelkopf and Allen, "A Probabilistic Model
behind Self-Supervised Learning" (arXiv 2402.01399).
"""

from sslzoo import networks, training
from sslzoo.methods import VAE

# Ten times SimVAE's images and epochs at one view each: the same number of views, in batches of the same size.
SETTINGS = {
    dataset: setup
    | {
        "num_views": 1, "batch_size": 120, "epochs": 200, "learning_rate": 1e-3, "monitor_every": 10,
        "likelihood": "gaussian", "likelihood_variance": 1.0,
    }
    for dataset, setup in training.SETUPS.items()
}  # fmt: skip
SETTINGS["digits"] |= {"epochs": 600}
for dataset in ("mnist", "fashion_mnist"):  # 14.4 million views
    SETTINGS[dataset] |= {"batch_size": 320, "epochs": 240, "learning_rate": 2e-3}
for dataset in ("cifar10", "cifar100", "svhn_cropped"):  # a million views of 50,000 images
    SETTINGS[dataset] |= {"batch_size": 240, "epochs": 20, "learning_rate": 2e-3}

# zoo: the budget above. paper: as its text says. released: the authors' code. workshop: the earlier version.
PAPER = {
    "network": training.PAPER_NETWORKS, "flip": "vertical", "num_views": 1, "batch_size": 128,
    "epochs": 400, "learning_rate": 8e-5, "schedule": "constant", "adam_epsilon": 1e-8,
}  # fmt: skip
VARIANTS = {
    "zoo": {},
    "paper": PAPER,
    "released": PAPER
    | {
        "network": training.RELEASED_NETWORKS,
        "likelihood": {"mnist": "bernoulli", "fashion_mnist": "bernoulli"}, "likelihood_variance": 0.01005,
        "adam_epsilon": 1e-4 / 128,  # the code's 1e-4 belongs to a loss summed over its 128 images
    },
    "workshop": PAPER,
}  # fmt: skip

# Percent, from tables 1 and 5 of the SimVAE paper.
PUBLISHED = {
    "mnist": {"mlp": 97.8, "knn": 98.0, "linear": 97.2, "gmm": 96.3},
    "fashion_mnist": {"mlp": 80.2, "knn": 83.7, "linear": 79.0, "gmm": 57.9},
    "cifar10": {"mlp": 30.3, "knn": 25.6, "linear": 24.7, "gmm": 23.4},
}

PAPERS = [
    {
        "title": "Auto-Encoding Variational Bayes",
        "url": "https://arxiv.org/abs/1312.6114",
    },
    {
        "title": "A Probabilistic Model behind Self-Supervised Learning",
        "url": "https://arxiv.org/abs/2402.01399",
    },
]


def main(argv=None):
    run = training.Run("vae", SETTINGS, VARIANTS, argv, __doc__, PUBLISHED, PAPERS)
    s = run.settings
    model = VAE(
        networks.encoder(s["network"], run.image_shape, s["latent_dim"], posterior=True, seed=run.seed),
        networks.decoder(s["network"], run.image_shape, s["latent_dim"], seed=run.seed + 1),
        run.views(),
        likelihood=s["likelihood"],
        likelihood_variance=s["likelihood_variance"],
        seed=run.seed,
    )
    run.prepare(model)
    model.fit(run.data(), **run.fit_arguments())
    return run.finish(model)


if __name__ == "__main__":
    training.script(main)
