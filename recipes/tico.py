"""Train TiCo: views agree, off the directions that embeddings have taken too often.

    python recipes/tico.py                                          # digits
    KERAS_BACKEND=jax python recipes/tico.py --dataset mnist
    python recipes/tico.py --dataset cifar10 --variant strong       # to compare with other libraries' tables

Paper: Zhu et al., "TiCo: Transformation Invariance and Covariance Contrast for Self-Supervised Visual Representation
Learning" (arXiv 2206.10698).
"""

from sslzoo import training
from sslzoo.methods import TiCo
from sslzoo.training import STRONG

SETTINGS = {"head": None, "contrast_weight": 8.0, "memory": 0.9, "momentum": 0.99}

# strong: the paper's head under the other benchmarks' views and budget; no library reports a number.
VARIANTS = {
    "strong": STRONG | {
        "head": (4096, 256), "contrast_weight": 8.0, "memory": 0.9, "momentum": 0.99,
        "optimizer": "lars", "learning_rate": 0.3, "weight_decay": 1e-4,
    },
}


def main(argv=None):
    run = training.Run("tico", SETTINGS, VARIANTS, argv, __doc__)
    encoder = run.encoder()
    options = run.options("contrast_weight", "memory", "momentum")
    model = TiCo(encoder, run.projector(encoder), run.views(), **options)
    run.prepare(model)
    model.fit(run.data(), **run.fit_arguments())
    return run.finish(model)


if __name__ == "__main__":
    training.script(main)
