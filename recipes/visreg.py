"""Train VISReg: views of an image lie together; scale, shape and center of all embeddings are those of N(0, I).

    python recipes/visreg.py                                          # digits
    KERAS_BACKEND=jax python recipes/visreg.py --dataset mnist
    python recipes/visreg.py --dataset cifar10 --variant strong       # to compare with other libraries' tables

Paper: "Variance-Invariance-Sketching Regularization" (arXiv 2606.02572).
"""

from sslzoo import training
from sslzoo.methods import VISReg
from sslzoo.training import AIRNET, STRONG, Per

# local_views: beside the num_views, which alone make the center, of the same size, that show local_scale of the image.
SETTINGS = {
    "num_views": 4, "batch_size": 64, "head": None, "weight": 0.6, "slices": Per(256, cifar10=1024),
    "local_views": 0, "local_scale": (0.05, 0.3),
}

# strong: as EB-JEPA trains LeJEPA on CIFAR-10; no library reports a number for VISReg there.
VARIANTS = {
    "zoo": AIRNET | {"batch_size": 128},
    "strong": STRONG | {
        "policy_changes": {"crop": {"scale": (0.2, 1.0)}, "blur": None},
        "head": (2048, 2048, 128), "epochs": 300, "weight": 0.6,
        "optimizer": "lars", "learning_rate": 0.3, "weight_decay": 1e-4,
    },
}


def main(argv=None):
    run = training.Run("visreg", SETTINGS, VARIANTS, argv, __doc__)
    encoder = run.encoder()
    options = run.options("weight", "slices")
    model = VISReg(encoder, run.projector(encoder), run.views(), run.local_views(), **options, seed=run.seed)
    run.prepare(model)
    model.fit(run.data(), **run.fit_arguments())
    return run.finish(model)


if __name__ == "__main__":
    training.script(main)
