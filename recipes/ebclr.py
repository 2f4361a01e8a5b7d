"""Train EBCLR: SimCLR as the conditional density of two views, with the marginal density it leaves out.

    python recipes/ebclr.py                                           # digits
    KERAS_BACKEND=jax python recipes/ebclr.py --dataset mnist
    python recipes/ebclr.py --dataset cifar10 --variant paper         # wants a GPU
    python recipes/ebclr.py --variant no-gen                          # SimCLR in the same networks

Paper: Kim and Ye, "Energy-Based Contrastive Learning of Visual Representations" (arXiv 2202.04933).
"""

from sslzoo import training
from sslzoo.methods import EBCLR
from sslzoo.training import Per, Variant

# The released configuration. width: channels of the ResNet.
RELEASED = {
    "latent_dim": None, "num_views": 2, "temperature": 0.1, "generative_weight": 0.1, "norm_weight": 0.0128,
    "sgld_steps": 10, "step_size": 0.05, "noise": 0.01, "max_noise": 0.05, "cooling": 3.0, "clip": 1.0,
    "buffer_size": 50_000, "restart": Per(0.2, mnist=0.4),
    "policy": Per("ebclr-cifar10", digits="ebclr-mnist", mnist="ebclr-mnist", fashion_mnist="ebclr-mnist",
                  gray_images="ebclr-mnist"),
    "flip": Per(None, color="horizontal", svhn_cropped=None),
}

# A network and budget for a CPU: GEDI's ResNet, which has no batch normalization either; the rate is higher, since the
# steps are fewer, and crops are milder, since small networks learn little from slivers. On MNIST the dense layers of
# GEDI's entry, so that the two can be compared.
SETTINGS = RELEASED | {
    "network": Per("resnet8-gedi", mnist="mlp"), "width": 16, "widths": (500, 500), "latent_dim": Per(None, mnist=64),
    "head": (64, 64), "head_options": {"batch_norm": False, "activation": "leaky_relu"},
    "learning_rate": 1e-3, "buffer_size": 10_000,
    "policy_changes": {"crop": {"scale": (0.4, 1.0)}},
    "views_per_image": Per(4, digits=120, mnist=20, fashion_mnist=20), "batch_size": 64,
}

# paper: its ResNet-18 without normalization is not in the zoo; GEDI's at full width stands for it.
VARIANTS = {
    "zoo": Variant(),
    "paper": Variant(
        RELEASED | {
            "policy_changes": {},
            "network": "resnet8-gedi", "width": 256, "head": (256, 128), "epochs": 200, "batch_size": 128,
            "learning_rate": 2e-4, "schedule": "constant",
        },
    ),
    "no-gen": Variant({"generative_weight": 0.0}),
}


def main(argv=None):
    run = training.Run("ebclr", SETTINGS, VARIANTS, argv, __doc__)
    s = run.settings
    own = "widths" if s["network"].startswith("mlp") else "width"
    encoder = run.encoder(**({own: s[own]} if own == "widths" or s["network"] == "resnet8-gedi" else {}))
    model = EBCLR(
        encoder,
        run.projector(encoder),
        run.views(),
        **run.options("temperature", "generative_weight", "norm_weight", "sgld_steps", "step_size"),
        **run.options("noise", "max_noise", "cooling", "clip", "buffer_size", "restart"),
        seed=run.seed,
    )
    run.prepare(model)
    model.fit(run.data(), **run.fit_arguments())
    return run.finish(model)


if __name__ == "__main__":
    training.script(main)
