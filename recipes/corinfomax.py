"""Train CorInfoMax: views agree, while the covariance of the embeddings has as large a determinant as it can.

    python recipes/corinfomax.py                                          # digits
    KERAS_BACKEND=jax python recipes/corinfomax.py --dataset mnist        # `corinfomax-mnist`
    python recipes/corinfomax.py --dataset cifar10 --variant paper
    python recipes/corinfomax.py --dataset cifar10 --variant strong       # to compare with other libraries' tables

Papers: Ozsoy et al., "Self-Supervised Learning with an Information Maximization Criterion" (arXiv 2209.07999); networks
and views of Bizeul, Schoelkopf and Allen, "A Probabilistic Model behind Self-Supervised Learning" (arXiv 2402.01399).
"""

from sslzoo import training
from sslzoo.methods import CorInfoMax
from sslzoo.training import PAPER, STRONG, Per

# The invariance is a mean over coordinates, so its weight goes with their number: the authors' 250 is for 64 of them.
SETTINGS = {
    "head": None, "invariance_weight": Per(256.0, digits=40.0, mnist=40.0, fashion_mnist=40.0, gray_images=40.0),
    "regularizer": 1e-6, "momentum": 0.01, "normalize": True,
}

# paper: the protocol of the SimVAE paper, which does not train this method. strong: the authors' own CIFAR-10 run, but
# for one policy for both views, between their two (blur 1 and 0.1, solarize 0 and 0.2); they report 93.2 % (linear)
# after 1000 epochs.
VARIANTS = {
    "paper": PAPER | {"learning_rate": 1e-4},
    "strong": STRONG | {
        "policy_changes": {
            "jitter": {"brightness": 0.4, "contrast": 0.4, "saturation": 0.2, "hue": 0.1}, "solarize": 0.1,
        },
        "head": (2048, 2048, 64), "invariance_weight": 250.0, "batch_size": 512,
        "optimizer": "sgd", "learning_rate": 0.5, "weight_decay": 1e-4,
    },
}


def main(argv=None):
    run = training.Run("corinfomax", SETTINGS, VARIANTS, argv, __doc__)
    encoder = run.encoder()
    options = run.options("invariance_weight", "regularizer", "momentum", "normalize")
    model = CorInfoMax(encoder, run.projector(encoder), run.views(), **options)
    run.prepare(model)
    model.fit(run.data(), **run.fit_arguments())
    return run.finish(model)


if __name__ == "__main__":
    training.script(main)
