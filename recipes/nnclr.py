"""Train NNCLR: the positive of a view is the nearest recent neighbor of the other view.

    python recipes/nnclr.py                                          # digits
    KERAS_BACKEND=jax python recipes/nnclr.py --dataset mnist
    python recipes/nnclr.py --dataset cifar10 --variant strong       # to compare with other libraries' tables

Paper: Dwibedi et al., "With a Little Help from My Friends: Nearest-Neighbor Contrastive Learning of Visual
Representations" (arXiv 2104.14548).
"""

from sslzoo import training
from sslzoo.methods import NNCLR
from sslzoo.training import AIRNET, STRONG, Per

# A queue holds an eighth of the images at most.
SETTINGS = {
    "batch_size": Per(128, digits=32), "head": (256, 64), "predictor": 256,
    "queue_size": Per(4096, digits=128, gray_images=512, color_images=512), "temperature": 0.1,
}

# strong: as lightly trains it, which reports 81.5 % (kNN of 200, best epoch) after 200 epochs of 512 images, 89.2 after
# 800.
VARIANTS = {
    "zoo": AIRNET | {"predictor": 512},
    "strong": STRONG | {
        "batch_size": 512, "head": (2048, 2048, 256), "predictor": 4096, "queue_size": 4096, "temperature": 0.1,
        "optimizer": "sgd", "learning_rate": 0.06, "weight_decay": 5e-4,
    },
}


def main(argv=None):
    run = training.Run("nnclr", SETTINGS, VARIANTS, argv, __doc__)
    encoder = run.encoder()
    projector = run.projector(encoder)
    model = NNCLR(
        encoder,
        projector,
        run.predictor(projector or encoder),
        run.views(),
        **run.options("queue_size", "temperature"),
        seed=run.seed,
    )
    run.prepare(model)
    model.fit(run.data(), **run.fit_arguments())
    return run.finish(model)


if __name__ == "__main__":
    training.script(main)
