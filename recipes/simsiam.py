"""Train SimSiam: each view of an image predicts the embedding of the other, which is held constant.

    KERAS_BACKEND=jax python recipes/simsiam.py                        # digits, a minute of processor time: kNN 91.4 %
    KERAS_BACKEND=jax python recipes/simsiam.py --dataset mnist
    python recipes/simsiam.py --dataset cifar10 --variant strong       # to compare with other libraries' tables

Paper: Chen and He, "Exploring Simple Siamese Representation Learning" (arXiv 2011.10566).
"""

from sslzoo import training
from sslzoo.methods import SimSiam
from sslzoo.training import AIRNET, STRONG, Per

# On MNIST as FastSiam, which learns from more views in the same way, has it: docs/choices.md.
SETTINGS = {
    "head": Per((256, 64), mnist=(512, 512), fashion_mnist=(512, 512)), "head_options": {"output_batch_norm": True},
    "predictor": Per(32, mnist=2048, fashion_mnist=2048),
    "learning_rate": Per(1e-3, mnist=3e-4, fashion_mnist=3e-4),
    "weight_decay": Per(0.0, mnist=5e-4, fashion_mnist=5e-4),
}

# strong: as solo-learn trains it, which reports 90.5 % (online probe) after 1000 epochs; lightly has 81.9 % (kNN of
# 200, best epoch) after 200. solo-learn keeps the predictor's rate constant; here it decays, too.
VARIANTS = {
    "zoo": AIRNET | {"predictor": 512},
    "strong": STRONG | {
        "policy_changes": {"jitter": {"brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1}},
        "head": (2048, 2048, 2048), "predictor": 512,
        "optimizer": "sgd", "learning_rate": 0.5, "weight_decay": 1e-5,
    },
}


def main(argv=None):
    run = training.Run("simsiam", SETTINGS, VARIANTS, argv, __doc__)
    encoder = run.encoder()
    projector = run.projector(encoder)
    model = SimSiam(encoder, projector, run.predictor(projector or encoder), run.views())
    run.prepare(model)
    model.fit(run.data(), **run.fit_arguments())
    return run.finish(model)


if __name__ == "__main__":
    training.script(main)
