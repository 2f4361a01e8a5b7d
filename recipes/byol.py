"""Train BYOL: each view of an image predicts what a slow copy of the encoder makes of the other.

    KERAS_BACKEND=jax python recipes/byol.py                        # digits, a minute of processor time: kNN 94.4 %
    KERAS_BACKEND=jax python recipes/byol.py --dataset mnist
    python recipes/byol.py --dataset cifar10 --variant strong       # to compare with other libraries' tables

Paper: Grill et al., "Bootstrap Your Own Latent: A New Approach to Self-Supervised Learning" (arXiv 2006.07733).
"""

from sslzoo import training
from sslzoo.methods import BYOL
from sslzoo.training import AIRNET, STRONG, Per

# On MNIST as FastSiam has it, with a quicker teacher: docs/choices.md.
SETTINGS = {
    "head": Per((256, 64), mnist=(512, 512), fashion_mnist=(512, 512)),
    "predictor": Per(256, mnist=2048, fashion_mnist=2048), "momentum": Per(0.99, mnist=0.9, fashion_mnist=0.9),
    "learning_rate": Per(1e-3, mnist=3e-4, fashion_mnist=3e-4),
    "weight_decay": Per(0.0, mnist=5e-4, fashion_mnist=5e-4),
}

# strong: as solo-learn trains it, which reports 92.6 % (online probe) after 1000 epochs; lightly has 86.8 % (kNN of
# 200, best epoch) after 200, by SGD. There, only the second view of an image is ever solarized, with probability 0.2;
# here either may be, with half of that.
VARIANTS = {
    "zoo": AIRNET | {"predictor": 512, "momentum": 0.95, "weight_decay": 0.1},
    "strong": STRONG | {
        "policy_changes": {
            "jitter": {"brightness": 0.4, "contrast": 0.4, "saturation": 0.2, "hue": 0.1},
            "blur": None, "solarize": 0.1,
        },
        "head": (4096, 256), "predictor": 4096, "momentum": 0.99,
        "optimizer": "lars", "learning_rate": 1.0, "weight_decay": 1e-5,
    },
}


def main(argv=None):
    run = training.Run("byol", SETTINGS, VARIANTS, argv, __doc__)
    encoder = run.encoder()
    projector = run.projector(encoder)
    steps = run.optimizer_steps(run.settings["epochs"])
    model = BYOL(
        encoder,
        projector,
        run.predictor(projector or encoder),
        run.views(),
        **run.options("momentum"),
        total_steps=steps,
    )
    run.prepare(model)
    model.fit(run.data(), **run.fit_arguments())
    return run.finish(model)


if __name__ == "__main__":
    training.script(main)
