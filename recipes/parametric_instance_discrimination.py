"""Train parametric instance discrimination: a classifier whose classes are the training images, one each.

    python recipes/parametric_instance_discrimination.py                                    # digits: kNN 93.6 %
    KERAS_BACKEND=jax python recipes/parametric_instance_discrimination.py --dataset mnist
    python recipes/parametric_instance_discrimination.py --dataset cifar10 --variant paper
    python recipes/parametric_instance_discrimination.py --dataset cifar10 --variant strong

A step compares every view with every training image: its cost grows with their number.

Papers: Bizeul, Schoelkopf and Allen, "A Probabilistic Model behind Self-Supervised Learning" (arXiv 2402.01399), in
section 3.3; Dosovitskiy et al., "Discriminative Unsupervised Feature Learning with Convolutional Neural Networks"
(arXiv 1406.6909); Wu et al., "Unsupervised Feature Learning via Non-Parametric Instance Discrimination" (arXiv
1805.01978).
"""

from sslzoo import training
from sslzoo.methods import ParametricInstanceDiscrimination

# batch_size counts images: the networks see num_views times as many. temperature: of cosine similarities; None is a
# plain softmax layer.
SETTINGS = {
    dataset: setup
    | {
        "num_views": 2, "batch_size": 128, "epochs": 120, "learning_rate": 1e-3,
        "head": None, "temperature": 0.2,
    }
    for dataset, setup in training.SETUPS.items()
}  # fmt: skip
SETTINGS["digits"] |= {"monitor_every": 10}

# zoo: the budget above. paper: networks, views and optimiser of the SimVAE paper's tables, which discuss this method
# and do not train it; the plain softmax of its section 3.3. strong: networks and views of the CIFAR-10 benchmarks; no
# library reports a number for it there.
VARIANTS = {
    "zoo": {},
    "paper": {
        "network": training.PAPER_NETWORKS, "flip": "vertical", "num_views": 1, "epochs": 600, "temperature": None,
        "learning_rate": 8e-5, "schedule": "constant", "adam_epsilon": 1e-8,
    },
    "strong": training.STRONG
    | {
        "head": (2048, 128), "head_options": {"batch_norm": False}, "temperature": 0.2,
        "optimizer": "lars", "learning_rate": 0.4, "weight_decay": 1e-4,
    },
}  # fmt: skip

PAPERS = [
    {
        "title": "A Probabilistic Model behind Self-Supervised Learning",
        "url": "https://arxiv.org/abs/2402.01399",
    },
    {
        "title": "Discriminative Unsupervised Feature Learning with Convolutional Neural Networks",
        "url": "https://arxiv.org/abs/1406.6909",
    },
    {
        "title": "Unsupervised Feature Learning via Non-Parametric Instance Discrimination",
        "url": "https://arxiv.org/abs/1805.01978",
    },
]


def main(argv=None):
    run = training.Run("parametric-instance-discrimination", SETTINGS, VARIANTS, argv, __doc__, papers=PAPERS)
    encoder = run.encoder()
    model = ParametricInstanceDiscrimination(
        encoder,
        len(run.images),
        run.projector(encoder),
        run.views(),
        temperature=run.settings["temperature"],
        seed=run.seed,
    )
    run.prepare(model)
    model.fit(run.data(), **run.fit_arguments())
    return run.finish(model)


if __name__ == "__main__":
    training.script(main)
