"""Train EMPSSL: many views agree with their mean, and each batch of views fills a large volume.

    python recipes/emp_ssl.py                                          # digits
    KERAS_BACKEND=jax python recipes/emp_ssl.py --dataset mnist
    python recipes/emp_ssl.py --dataset cifar10 --variant strong       # to compare with other libraries' tables

Paper: Tong, Chen, Ma and LeCun, "EMP-SSL: Towards Self-Supervised Learning in One Training Epoch" (arXiv 2304.03977).
"""

from sslzoo import training
from sslzoo.methods import EMPSSL
from sslzoo.training import AIRNET, STRONG, Per

SETTINGS = {
    "num_views": 8, "batch_size": 64, "head": None,
    "alignment_weight": Per(200.0, mnist=10.0, fashion_mnist=10.0),  # at 200, the paper's, MNIST ends in one point
}

# strong: the paper's 20 crops, 100 images a step and 30 epochs.
VARIANTS = {
    "zoo": AIRNET | {"batch_size": 64},
    "strong": STRONG | {
        "policy_changes": {"crop": {"scale": (0.25, 0.25), "ratio": (1.0, 1.0)}},
        "num_views": 20, "batch_size": 100, "epochs": 30, "head": (4096, 4096, 512), "alignment_weight": 200.0,
        "optimizer": "lars", "learning_rate": 0.3, "weight_decay": 1e-4,
    },
}


def main(argv=None):
    run = training.Run("emp-ssl", SETTINGS, VARIANTS, argv, __doc__)
    encoder = run.encoder()
    model = EMPSSL(encoder, run.projector(encoder), run.views(), **run.options("alignment_weight"))
    run.prepare(model)
    model.fit(run.data(), **run.fit_arguments())
    return run.finish(model)


if __name__ == "__main__":
    training.script(main)
