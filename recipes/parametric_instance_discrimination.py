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
from sslzoo.training import PAPER, STRONG, Per

# temperature: of cosine similarities; None is a plain softmax layer. fill_class_vectors: begin with what the untrained
# network makes of the images, without which this MLP collapses in its first epoch of 60,000 (of 1,437 it does not).
# Fewer views than other methods have: each step compares its views with all images.
SETTINGS = {
    "views_per_image": Per(mnist=30, fashion_mnist=30), "head": None, "temperature": 0.2,
    "fill_class_vectors": Per(True, digits=False),
}

# paper: networks, views and optimizer of the SimVAE paper's tables, which discuss this method and do not train it; the
# plain softmax of its section 3.3. strong: networks and views of the CIFAR-10 benchmarks; no library reports a number
# for it there.
VARIANTS = {
    "paper": PAPER | {"num_views": 1, "temperature": None, "fill_class_vectors": False},
    "strong": STRONG | {
        "head": (2048, 128), "head_options": {"batch_norm": False}, "temperature": 0.2,
        "optimizer": "lars", "learning_rate": 0.4, "weight_decay": 1e-4,
    },
}


def main(argv=None):
    run = training.Run("parametric-instance-discrimination", SETTINGS, VARIANTS, argv, __doc__)
    encoder = run.encoder()
    model = ParametricInstanceDiscrimination(
        encoder,
        len(run.images),
        run.projector(encoder),
        run.views(),
        **run.options("temperature"),
        seed=run.seed,
    )
    if run.settings["fill_class_vectors"] and not run.folder.resumes:
        model.fill_class_vectors(run.images)
    run.prepare(model)
    model.fit(run.data(), **run.fit_arguments())
    return run.finish(model)


if __name__ == "__main__":
    training.script(main)
