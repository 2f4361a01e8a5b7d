"""Train LeJEPA: views of an image lie together, and all embeddings look like samples of N(0, I).

    python recipes/lejepa.py                                          # digits
    KERAS_BACKEND=jax python recipes/lejepa.py --dataset mnist
    python recipes/lejepa.py --dataset cifar10 --variant strong       # to compare with other libraries' tables

Paper: Balestriero and LeCun, "LeJEPA: Provable and Scalable Self-Supervised Learning Without the Heuristics" (arXiv
2511.08544).
"""

from sslzoo import training
from sslzoo.methods import LeJEPA
from sslzoo.training import AIRNET, STRONG, Per

# local_views: beside the num_views, which alone make the center, of local_size pixels (None: that of the images), that
# show local_scale of the image.
SETTINGS = {
    "num_views": 4, "batch_size": 64, "head": None, "slices": Per(256, cifar10=1024),
    "weight": Per(0.05, mnist=0.01),  # the best on MNIST turns with the number of views: docs/choices.md
    "local_views": 0, "local_size": None, "local_scale": (0.05, 0.3),
}

# strong: as EB-JEPA trains it, which reports 91.0 % (linear, read on test images) after 300 epochs; here every view is
# made by one policy, SimCLR's without blur.
VARIANTS = {
    "zoo": AIRNET | {"batch_size": 128},
    "strong": STRONG | {
        "policy_changes": {"crop": {"scale": (0.2, 1.0)}, "blur": None},
        "head": (2048, 2048, 128), "epochs": 300, "weight": 0.05,
        "optimizer": "lars", "learning_rate": 0.3, "weight_decay": 1e-4,
    },
}


def main(argv=None):
    run = training.Run("lejepa", SETTINGS, VARIANTS, argv, __doc__)
    encoder = run.encoder()
    options = run.options("weight", "slices")
    model = LeJEPA(encoder, run.projector(encoder), run.views(), run.local_views(), **options, seed=run.seed)
    run.prepare(model)
    model.fit(run.data(), **run.fit_arguments())
    return run.finish(model)


if __name__ == "__main__":
    training.script(main)
