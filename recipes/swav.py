"""Train SwAV: a view predicts which prototypes the other view of its image was assigned to.

    python recipes/swav.py                                            # digits, about a minute: kNN 94.7 %
    KERAS_BACKEND=jax python recipes/swav.py --dataset mnist
    python recipes/swav.py --dataset cifar10 --variant paper
    python recipes/swav.py --dataset cifar10 --variant strong         # to compare with other libraries' tables
    python recipes/swav.py --dataset cifar10 --variant multi-crop
    python recipes/swav.py --dataset cifar10 --variant gedi

Papers: Caron et al., "Unsupervised Learning of Visual Features by Contrasting Cluster Assignments" (arXiv 2006.09882);
Bizeul, Schoelkopf and Allen, "A Probabilistic Model behind Self-Supervised Learning" (arXiv 2402.01399); Sansone and
Manhaeve, "Unifying Self-Supervised Clustering and Energy-Based Models" (GEDI, arXiv 2401.00873).
"""

from sslzoo import training
from sslzoo.methods import SwAV
from sslzoo.training import PAPER, STRONG, Per, Variant

# local_views: smaller ones beside the num_views, of local_size pixels (None: that of the images), that show local_scale
# of the image. A queue holds an eighth of the images at most; it is used, and prototypes start to move, after that many
# epochs.
SETTINGS = {
    "head": None, "prototypes": 100, "temperature": 0.1, "epsilon": 0.05,
    "queue_size": 0, "queue_epochs": 0, "freeze_epochs": 1,
    "local_views": 0, "local_size": None, "local_scale": (0.05, 0.4),
}

# paper: networks, views and optimizer of the SimVAE paper's tables, which have no row for SwAV. strong: as solo-learn
# trains it; lightly reports 84.2 % (kNN of 200, best epoch) after 200 epochs of 512 images, solo-learn 89.2 % (probe
# trained along) after 1000. multi-crop: the same with four crops of 16 pixels that only predict. gedi: the GEDI paper's
# baseline, which leaves the number of prototypes open; its classes are taken.
SOLO_LEARN = STRONG | {
    "head": (2048, 128), "prototypes": 3000, "queue_size": 3840, "queue_epochs": 50, "freeze_epochs": 2,
    "optimizer": "lars", "learning_rate": 0.6, "weight_decay": 1e-6,
}
GEDI = {
    "network": "resnet8-gedi", "latent_dim": None, "head": (256, 128), "prototypes": 10, "batch_size": 64,
    "policy": Per(cifar10="gedi-cifar10", svhn_cropped="gedi-svhn"), "epochs": Per(cifar10=200, svhn_cropped=20),
    "learning_rate": 1e-4, "schedule": "constant",
}
VARIANTS = {
    "paper": PAPER,
    "strong": SOLO_LEARN,
    "multi-crop": SOLO_LEARN | {"local_views": 4, "local_size": 16},
    "gedi": Variant(GEDI, only=("cifar10", "svhn_cropped")),
}


def main(argv=None):
    run = training.Run("swav", SETTINGS, VARIANTS, argv, __doc__)
    s = run.settings
    encoder = run.encoder()
    model = SwAV(
        encoder,
        s["prototypes"],
        run.projector(encoder),
        run.views(),
        run.local_views(),
        **run.options("temperature", "epsilon", "queue_size"),
        queue_start=run.optimizer_steps(s["queue_epochs"]),
        freeze_prototypes=run.optimizer_steps(s["freeze_epochs"]),
        seed=run.seed,
    )
    run.prepare(model)
    model.fit(run.data(), **run.fit_arguments())
    return run.finish(model)


if __name__ == "__main__":
    training.script(main)
