"""Train GEDI: clusters that agree between views and hold an equal share each, and a density of images, in one network.

    python recipes/gedi.py                                            # digits
    KERAS_BACKEND=jax python recipes/gedi.py --dataset mnist          # `gedi-mnist`, an hour of one core
    KERAS_BACKEND=tensorflow python recipes/gedi.py --dataset cifar10 --precision mixed_bfloat16     # the same
    python recipes/gedi.py --dataset cifar10 --variant paper          # wants a GPU: 20 gradients by the images a step
    python recipes/gedi.py --variant no-gen                           # and no-inv, no-prior, two-stage

Paper: Sansone and Manhaeve, "Unifying Self-Supervised Clustering and Energy-Based Models" (arXiv 2401.00873).
"""

from sslzoo import networks, training
from sslzoo.methods import GEDI
from sslzoo.training import Per, Variant

# The paper's table 9. It gives neither the number of clusters, for which classes are taken, nor the temperature.
# num_views counts augmented ones, beside the image itself. width: channels of the ResNet. outliers: test images to be
# distinguished from those of the data set.
TABLE_9 = {
    "network": "resnet8-gedi", "latent_dim": None, "num_views": 1, "clusters": Per(10, cifar100=100),
    "policy": Per("gedi-mnist", color="gedi-cifar10", cifar100="gedi-cifar100", svhn_cropped="gedi-svhn"),
    "flip": Per(None, color="horizontal", svhn_cropped=None),
    "sgld_steps": 20, "step_size": 1.0, "noise": 0.01, "buffer_size": 10_000, "restart": 0.05, "data_noise": 0.03,
    "generative_weight": 1.0, "invariance_weight": 50.0, "prior_weight": Per(25.0, cifar100=50.0),
    "energy_decay": 0.0, "batch_size": Per(64, mnist=60), "generative_epochs": 0,
    "outliers": Per(None, mnist="fashion_mnist", fashion_mnist="mnist"),
}

# Networks and budgets for a CPU; the rate is higher, since the steps are fewer. On MNIST dense layers, 5 times as fast,
# which start with outputs of mean 0 and variance 1 (`standardize`: on so many images) or all images fall into one
# cluster; shares weigh more than agreement, and agreement more than the density, or clusters tell thick from thin; and
# images are cropped. Chosen on training images held out. On CIFAR-10 energies must be held small, or they go to 1e13
# within an epoch: chosen by the monitor of short runs (docs/choices.md).
SETTINGS = TABLE_9 | {
    "network": Per("resnet8-gedi", mnist="mlp"), "width": 16, "widths": (500, 500),
    "latent_dim": Per(None, mnist=64), "head": Per((32, 16), mnist=()), "standardize": Per(0, mnist=500, color=500),
    "learning_rate": 1e-3, "sgld_steps": Per(20, mnist=5), "energy_decay": Per(0.0, mnist=0.01, color=0.01),
    "generative_weight": Per(1.0, mnist=0.1), "invariance_weight": Per(50.0, mnist=10.0, color=10.0),
    "prior_weight": Per(25.0, mnist=100.0, color=100.0), "batch_size": Per(64, mnist=150),
    "policy_changes": Per({}, mnist={
        "crop": {"scale": (0.6, 1.0), "ratio": (3 / 4, 4 / 3)}, "shift": None, "noise": 0.1,
        "jitter": {"probability": 1.0},
    }),
    "views_per_image": Per(2, digits=60, mnist=80, fashion_mnist=10, cifar10=20),
}

# paper: networks of table 8, budgets of table 9 (MNIST's is that of its largest addition task). The others change the
# zoo's settings in one place: an ablation of table 2 each, and the density first, then all terms.
VARIANTS = {
    "zoo": Variant(),
    "paper": Variant(TABLE_9 | {
        "standardize": 0, "policy_changes": {},
        "width": Per(128, cifar100=256), "head": Per((256, 128), cifar100=(512, 256)),
        "epochs": Per(200, svhn_cropped=20, mnist=25), "learning_rate": 1e-4, "schedule": "constant",
        "weight_decay": Per(0.0, mnist=1e-4),
    }),
    "no-gen": Variant({"generative_weight": 0.0}),
    "no-inv": Variant({"invariance_weight": 0.0}),
    "no-prior": Variant({"prior_weight": 0.0}),
    "two-stage": Variant({"generative_epochs": Per(1, digits=20, mnist=4, fashion_mnist=4)}),
}


def main(argv=None):
    run = training.Run("gedi", SETTINGS, VARIANTS, argv, __doc__)
    s = run.settings
    own = "widths" if s["network"].startswith("mlp") else "width"
    encoder = run.encoder(**({own: s[own]} if own == "widths" or s["network"] == "resnet8-gedi" else {}))
    head = None
    if s["head"]:
        head = networks.projector(encoder.output_shape[-1], s["head"], batch_norm=False, seed=run.seed + 1)
    model = GEDI(
        encoder,
        s["clusters"],
        head,
        run.views(),
        **run.options("generative_weight", "invariance_weight", "prior_weight", "data_noise", "energy_decay"),
        **run.options("sgld_steps", "step_size", "noise", "buffer_size", "restart"),
        generative_steps=run.optimizer_steps(s["generative_epochs"]),
        seed=run.seed,
    )
    run.fill_head(model.head(), encoder)
    if s["standardize"] and not run.arguments.init:
        model.standardize(run.some_images(s["standardize"]))
    run.prepare(model)
    model.fit(run.data(), **run.fit_arguments())
    return run.finish(model)


if __name__ == "__main__":
    training.script(main)
