"""Train InfoNCE: the second view of an image is distinguished from those of other images, by a critic that is a prior.

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
from sslzoo.training import PAPER

# length_scale is where L starts; it is learned.
SETTINGS = {"head": None, "critic": "gaussian", "length_scale": 1.0, "symmetric": False}

# zoo: the Gaussian prior. linear: the critic of the original InfoNCE. paper: the Gaussian prior under the networks and
# the budget of the SimVAE paper's SimCLR.
VARIANTS = {
    "linear": training.Variant({"critic": "bilinear", "length_scale": None}),
    "paper": PAPER,
}


def main(argv=None):
    run = training.Run("info-nce", SETTINGS, VARIANTS, argv, __doc__)
    s = run.settings
    encoder = run.encoder()
    critic = GaussianCritic(s["length_scale"]) if s["critic"] == "gaussian" else s["critic"]
    model = InfoNCE(encoder, run.projector(encoder), run.views(), critic=critic, symmetric=s["symmetric"])
    run.prepare(model)
    model.fit(run.data(), **run.fit_arguments())
    return run.finish(model)


if __name__ == "__main__":
    training.script(main)
