"""Train JEM without labels: a classifier read as a density of images, by maximum likelihood alone.

    python recipes/jem.py                                             # digits
    KERAS_BACKEND=jax python recipes/jem.py --dataset mnist
    KERAS_BACKEND=tensorflow python recipes/jem.py --dataset cifar10 --precision mixed_bfloat16
    python recipes/jem.py --dataset cifar10 --variant paper           # wants a GPU: 20 gradients by the images a step

Papers: Grathwohl et al., "Your Classifier is Secretly an Energy Based Model and You Should Treat it Like One" (arXiv
1912.03263); as the baseline of Sansone and Manhaeve (GEDI, arXiv 2401.00873).
"""

from sslzoo import networks, training
from sslzoo.methods import JEM
from sslzoo.training import Per, Variant

# GEDI's appendix M. The only augmentation is noise on the image itself; its policies are taken without their other
# steps. width: channels of the ResNet. outliers: test images to be distinguished from those of the data set.
APPENDIX_M = {
    "network": "resnet8-gedi", "latent_dim": None, "num_views": 1, "clusters": Per(10, cifar100=100),
    "policy": "gedi-mnist", "flip": None,
    "policy_changes": {"shift": None, "jitter": None, "gray": None, "noise": 0.03},
    "sgld_steps": 20, "step_size": 1.0, "noise": 0.01, "buffer_size": 10_000, "restart": 0.05,
    "energy_decay": 0.0, "batch_size": 64,
    "outliers": Per(None, mnist="fashion_mnist", fashion_mnist="mnist"),
}

# A network and budget for a CPU; the rate is higher, since the steps are fewer. On MNIST the dense layers of GEDI's
# entry, on CIFAR-10 its ResNet and bound of energies, so that the two can be compared.
SETTINGS = APPENDIX_M | {
    "network": Per("resnet8-gedi", mnist="mlp"), "width": 16, "widths": (500, 500),
    "latent_dim": Per(None, mnist=64), "head": Per((32, 16), mnist=()), "learning_rate": 1e-3,
    "energy_decay": Per(0.0, color=0.01),
    "views_per_image": Per(2, digits=60, mnist=10, fashion_mnist=10, cifar10=20),
}

VARIANTS = {
    "zoo": Variant(),
    "paper": Variant(APPENDIX_M | {
        "width": Per(128, cifar100=256), "head": Per((256, 128), cifar100=(512, 256)),
        "epochs": Per(200, svhn_cropped=20), "learning_rate": 1e-4, "schedule": "constant",
    }),
}


def main(argv=None):
    run = training.Run("jem", SETTINGS, VARIANTS, argv, __doc__)
    s = run.settings
    own = "widths" if s["network"].startswith("mlp") else "width"
    encoder = run.encoder(**({own: s[own]} if own == "widths" or s["network"] == "resnet8-gedi" else {}))
    head = None
    if s["head"]:
        head = networks.projector(encoder.output_shape[-1], s["head"], batch_norm=False, seed=run.seed + 1)
    model = JEM(
        encoder,
        s["clusters"],
        head,
        run.views(),
        **run.options("energy_decay", "sgld_steps", "step_size", "noise", "buffer_size", "restart"),
        seed=run.seed,
    )
    run.fill_head(model.head(), encoder)
    run.prepare(model)
    model.fit(run.data(), **run.fit_arguments())
    return run.finish(model)


if __name__ == "__main__":
    training.script(main)
