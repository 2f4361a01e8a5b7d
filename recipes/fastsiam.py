"""Train FastSiam: each view predicts the mean of the others.

    python recipes/fastsiam.py                                          # digits
    KERAS_BACKEND=jax python recipes/fastsiam.py --dataset mnist
    python recipes/fastsiam.py --dataset cifar10 --variant strong       # to compare with other libraries' tables
    KERAS_BACKEND=jax python recipes/fastsiam.py --dataset cifar10 --variant record --precision mixed_bfloat16 \\
        --until-knn 90                                                  # how soon? stops there, and says

Paper: Pototzky, Sultan and Schmidt-Thieme, "FastSiam: Resource-Efficient Self-Supervised Learning on a Single GPU"
(2022).
"""

from sslzoo import training
from sslzoo.methods import FastSiam
from sslzoo.training import AIRNET, STRONG, Per

# On MNIST a wide predictor at a low rate is far ahead of the bottleneck that does for digits, and without weight decay
# the features lose one dimension after the other: docs/choices.md.
SETTINGS = {
    "num_views": 4, "batch_size": Per(32, mnist=64, fashion_mnist=64),
    "head": Per((256, 64), mnist=(512, 512), fashion_mnist=(512, 512)), "head_options": {"output_batch_norm": True},
    "predictor": Per(32, mnist=2048, fashion_mnist=2048),
    "learning_rate": Per(1e-3, mnist=3e-4, fashion_mnist=3e-4),
    "weight_decay": Per(0.0, mnist=5e-4, fashion_mnist=5e-4),
}

# strong: the four views and 32 images a step of the paper, solo-learn's SimSiam heads; lightly reports 90.6 % (kNN of
# 200, best epoch, 128 images a step) after 200 epochs.
VARIANTS = {
    "zoo": AIRNET | {"batch_size": 128, "predictor": 512},
    "strong": STRONG | {
        "num_views": 4, "batch_size": 32, "head": (2048, 2048, 2048), "predictor": 512,
        "head_options": {"output_batch_norm": True},
        "optimizer": "sgd", "learning_rate": 0.06, "weight_decay": 5e-4,
    },
}
# record: for the time to a kNN. Eight views make the target of each a mean of seven, of little noise, so that batch and
# rate can be large (0.03 x 512 / 32, the rule of SimSiam) and epochs few; no GPU has run it to its end yet.
VARIANTS["record"] = VARIANTS["strong"] | {
    "num_views": 8, "batch_size": 512, "learning_rate": 0.48, "epochs": 50, "warmup_epochs": 5, "monitor_every": 1,
    "protocols": ("knn",),
}


def main(argv=None):
    run = training.Run("fastsiam", SETTINGS, VARIANTS, argv, __doc__)
    encoder = run.encoder()
    projector = run.projector(encoder)
    model = FastSiam(encoder, projector, run.predictor(projector or encoder), run.views())
    run.prepare(model)
    model.fit(run.data(), **run.fit_arguments())
    return run.finish(model)


if __name__ == "__main__":
    training.script(main)
