"""Train DINO: a student names, from any view, what its teacher saw in a global one.

    python recipes/dino.py                                          # digits
    KERAS_BACKEND=jax python recipes/dino.py --dataset mnist
    python recipes/dino.py --dataset cifar10 --variant strong       # to compare with other libraries' tables

Paper: Caron et al., "Emerging Properties in Self-Supervised Vision Transformers" (arXiv 2104.14294).
"""

from sslzoo import training
from sslzoo.methods import DINO
from sslzoo.training import STRONG

# local_views: beside the num_views, of local_size pixels (None: as the images), that show local_scale of the image.
SETTINGS = {
    "head": (256, 64), "prototypes": 256, "temperature": 0.1, "teacher_temperature": 0.07, "warmup_share": 0.1,
    "momentum": 0.99, "freeze_epochs": 1, "local_views": 2, "local_size": None, "local_scale": (0.2, 0.5),
}

# strong: the head of the paper, fewer prototypes; lightly reports 81.3 % (kNN of 200, best epoch) after 200 epochs of
# 512 images, 84.8 after 800, solo-learn 89.5 % (online probe) after 1000.
VARIANTS = {
    "strong": STRONG | {
        "head": (2048, 2048, 256), "prototypes": 4096, "momentum": 0.996, "local_views": 0,
        "optimizer": "lars", "learning_rate": 0.3, "weight_decay": 1e-4,
    },
}


def main(argv=None):
    run = training.Run("dino", SETTINGS, VARIANTS, argv, __doc__)
    encoder = run.encoder()
    steps = run.optimizer_steps(run.settings["epochs"])
    model = DINO(
        encoder,
        run.settings["prototypes"],
        run.projector(encoder),
        run.views(),
        run.local_views(),
        **run.options("temperature", "teacher_temperature", "momentum"),
        warmup_steps=int(run.settings["warmup_share"] * steps),
        total_steps=steps,
        freeze_prototypes=run.optimizer_steps(run.settings["freeze_epochs"]),
        seed=run.seed,
    )
    run.prepare(model)
    model.fit(run.data(), **run.fit_arguments())
    return run.finish(model)


if __name__ == "__main__":
    training.script(main)
