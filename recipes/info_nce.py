"""Train InfoNCE: the second view of an image is told from those of other images, by a critic that is a prior.

    python recipes/info_nce.py                                        # digits: kNN 93.9 %
    python recipes/info_nce.py --variant linear                       # z^T W z' instead of a Gaussian: 94.4 %
    KERAS_BACKEND=jax python recipes/info_nce.py --dataset mnist
    python recipes/info_nce.py --dataset cifar10 --variant paper

Paper: "InfoNCE is a variational autoencoder" (arXiv 2107.02495), which trains on a video (`examples/moving_balls.py`)
and prints no figures for these data sets.
"""

from sslzoo import training
from sslzoo.methods import InfoNCE
from sslzoo.networks import GaussianCritic

# batch_size counts images: the networks see num_views times as many. length_scale is where L starts; it is learned.
SETTINGS = {
    dataset: setup
    | {
        "num_views": 2, "batch_size": 128, "epochs": 120, "learning_rate": 1e-3,
        "head": None, "critic": "gaussian", "length_scale": 1.0, "symmetric": False,
    }
    for dataset, setup in training.SETUPS.items()
}  # fmt: skip
SETTINGS["digits"] |= {"epochs": 300, "monitor_every": 10}
for dataset in ("mnist", "fashion_mnist"):  # 14.4 million views, as SimVAE's
    SETTINGS[dataset] |= {"monitor_every": 5}

# zoo: the Gaussian prior. linear: the critic of the original InfoNCE. paper: the Gaussian prior under the networks and
# the budget of the SimVAE paper's SimCLR ("A Probabilistic Model behind Self-Supervised Learning").
VARIANTS = {
    "zoo": {},
    "linear": {"critic": "bilinear", "length_scale": None},
    "paper": {
        "network": training.PAPER_NETWORKS, "flip": "vertical", "epochs": 600,
        "learning_rate": 8e-5, "schedule": "constant", "adam_epsilon": 1e-8,
    },
}  # fmt: skip

PAPERS = [{"title": "InfoNCE is a variational autoencoder", "url": "https://arxiv.org/abs/2107.02495"}]


def main(argv=None):
    run = training.Run("info-nce", SETTINGS, VARIANTS, argv, __doc__, papers=PAPERS)
    s = run.settings
    encoder = run.encoder()
    model = InfoNCE(
        encoder,
        run.projector(encoder),
        run.views(),
        critic=GaussianCritic(s["length_scale"]) if s["critic"] == "gaussian" else "bilinear",
        symmetric=s["symmetric"],
    )
    run.prepare(model)
    model.fit(run.data(), **run.fit_arguments())
    return run.finish(model)


if __name__ == "__main__":
    training.script(main)
