"""Train instance discrimination: a view finds its image in a memory of all images.

    python recipes/instance_discrimination.py                                    # digits
    KERAS_BACKEND=jax python recipes/instance_discrimination.py --dataset mnist
    python recipes/instance_discrimination.py --dataset cifar10 --variant mi     # as its paper trains it
    python recipes/instance_discrimination.py --set momentum=0 --num-views 2     # no bank: the batch is the memory

Papers: Wu et al., "Unsupervised Feature Learning via Non-Parametric Instance Discrimination" (arXiv 1805.01978); Wu et
al., "On Mutual Information in Contrastive Learning for Visual Representations" (arXiv 2005.13149).
"""

from sslzoo import training
from sslzoo.methods import InBatchDiscrimination, InstanceDiscrimination
from sslzoo.training import AIRNET, MI, PAPER, Per

# Zoo and paper: the loss sees the representation itself. negatives: as many images are drawn for each step. fill_bank:
# begin with what the untrained network makes of the images, without which this MLP collapses in its first epoch of
# 60,000. Fewer views than other methods have: the bank takes their time.
SETTINGS = {
    "views_per_image": Per(mnist=160, fashion_mnist=160), "num_views": 1, "head": None,
    "fill_bank": True, "negatives": 4096, "temperature": Per(0.2, color=0.05), "momentum": 0.5,
}

# paper: networks, views and optimizer of the SimVAE paper's tables, which lack this method. mi: those of its own paper.
VARIANTS = {
    "zoo": AIRNET | {"temperature": 0.1},
    "paper": PAPER,
    "mi": MI,
}

# Percent, from table 2 of the paper: logistic regression on views of CIFAR-10.
PUBLISHED = {"cifar10": {"views": 81.2}}


def main(argv=None):
    run = training.Run("instance-discrimination", SETTINGS, VARIANTS, argv, __doc__, PUBLISHED)
    encoder = run.encoder()
    head, views = run.projector(encoder), run.views()
    if run.settings["momentum"]:
        options = run.options("negatives", "temperature", "momentum")
        model = InstanceDiscrimination(encoder, len(run.images), head, views, seed=run.seed, **options)
        if run.settings["fill_bank"] and not run.folder.resumes:
            model.fill_bank(run.images)
    else:
        model = InBatchDiscrimination(encoder, head, views, **run.options("temperature"))
    run.prepare(model)
    model.fit(run.data(), **run.fit_arguments())
    return run.finish(model)


if __name__ == "__main__":
    training.script(main)
