"""Train DCL: SimCLR with the positive taken out of the negatives.

    KERAS_BACKEND=jax python recipes/dcl.py                        # digits: kNN of 10 93.3 %, linear probe 92.2 %
    KERAS_BACKEND=jax python recipes/dcl.py --dataset mnist
    python recipes/dcl.py --set sigma=0.5                          # weighted: DCLW
    python recipes/dcl.py --dataset cifar10 --variant strong       # to compare with other libraries' tables

Paper: Yeh et al., "Decoupled Contrastive Learning" (arXiv 2110.06848).
"""

from sslzoo import training
from sslzoo.methods import DCL
from sslzoo.training import AIRNET, STRONG, Per

# Zoo: the loss sees the representation itself, at the temperatures of SimCLR's recipe.
SETTINGS = {
    "batch_size": Per(128, cifar10=256, cifar100=256, svhn_cropped=256),
    "head": None, "sigma": None,
    "temperature": Per(0.7, color=0.05),
}

# strong: SimCLR's, at lightly's temperature for DCL.
VARIANTS = {
    "zoo": AIRNET | {"temperature": 0.1},
    "strong": STRONG | {
        "head": (2048, 256), "head_options": {"batch_norm": False}, "temperature": 0.1,
        "optimizer": "lars", "learning_rate": 0.4, "weight_decay": 1e-4,
    },
}


def main(argv=None):
    run = training.Run("dcl", SETTINGS, VARIANTS, argv, __doc__)
    encoder = run.encoder()
    model = DCL(encoder, run.projector(encoder), run.views(), **run.options("temperature", "sigma"))
    run.prepare(model)
    model.fit(run.data(), **run.fit_arguments())
    return run.finish(model)


if __name__ == "__main__":
    training.script(main)
