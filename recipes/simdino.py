"""Train SimDINO: a student meets its teacher, and a coding rate keeps the batch wide.

    python recipes/simdino.py                                          # digits
    KERAS_BACKEND=jax python recipes/simdino.py --dataset mnist
    python recipes/simdino.py --dataset cifar10 --variant strong       # to compare with other libraries' tables

Paper: Wu et al., "Simplifying DINO via Coding Rate Regularization" (arXiv 2502.10385).
"""

from sslzoo import training
from sslzoo.methods import SimDINO
from sslzoo.training import STRONG, Per

# local_views: beside the num_views, of the same size, that show local_scale of the image. rate_weight: the paper's 1 is
# of 256 coordinates; among ten it holds the views of an image apart (docs/choices.md).
SETTINGS = {
    "head": None, "rate_weight": Per(1.0, mnist=0.03, fashion_mnist=0.03), "epsilon": 0.5, "momentum": 0.99,
    "local_views": 2, "local_scale": (0.2, 0.5),
}

# strong: the paper's head under the other benchmarks' views and budget; no library reports a number.
VARIANTS = {
    "strong": STRONG | {
        "head": (2048, 2048, 256), "rate_weight": 1.0, "momentum": 0.996, "local_views": 0,
        "optimizer": "lars", "learning_rate": 0.3, "weight_decay": 1e-4,
    },
}


def main(argv=None):
    run = training.Run("simdino", SETTINGS, VARIANTS, argv, __doc__)
    encoder = run.encoder()
    steps = run.optimizer_steps(run.settings["epochs"])
    options = run.options("rate_weight", "epsilon", "momentum")
    model = SimDINO(encoder, run.projector(encoder), run.views(), run.local_views(), **options, total_steps=steps)
    run.prepare(model)
    model.fit(run.data(), **run.fit_arguments())
    return run.finish(model)


if __name__ == "__main__":
    training.script(main)
