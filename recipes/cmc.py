"""Train CMC: the lightness and the color of a crop find each other's memory.

    python recipes/cmc.py                                                     # digits: their upper and lower halves
    KERAS_BACKEND=jax python recipes/cmc.py --dataset cifar10
    python recipes/cmc.py --dataset cifar10 --variant mi                      # as its paper trains it
    python recipes/cmc.py --dataset cifar10 --set neighbors=4096 clusters=300 # CMC-ANN; without clusters CMC-BALL

Papers: Tian, Krishnan and Isola, "Contrastive Multiview Coding" (arXiv 1906.05849); Wu et al., "On Mutual Information
in Contrastive Learning for Visual Representations" (arXiv 2005.13149).
"""

from sslzoo import networks, training
from sslzoo.callbacks import ClusterBank
from sslzoo.errors import InvalidInputError
from sslzoo.methods import CMC
from sslzoo.training import AIRNET, MI, PAPER, Per

# Zoo and paper: the loss sees the representation itself, half of it from either network. neighbors: the nearest of the
# bank as negatives, instead of `negatives` drawn from all of it; clusters: what is close is then left out.
# fill_bank: as in instance_discrimination.py.
SETTINGS = {
    "num_views": 1, "head": None, "fill_bank": True, "negatives": 4096, "neighbors": None, "clusters": None,
    "shrinking": 0.0,
    "policy": Per(color="mi-cifar10-lab"),
    "temperature": Per(0.2, color=0.05), "momentum": 0.5,
}

# paper: networks, views and optimizer of the SimVAE paper's tables, which lack this method. mi: those of its own paper.
VARIANTS = {
    "zoo": AIRNET | {"policy": "mi-cifar10-lab", "policy_changes": {}, "temperature": 0.1},
    "paper": PAPER,
    "mi": MI | {"policy": "mi-cifar10-lab", "batch_size": 128},
}

# Percent, from table 2 of the paper: logistic regression on views of CIFAR-10.
PUBLISHED = {"cifar10": {"views": 85.6}}


def main(argv=None):
    run = training.Run("cmc", SETTINGS, VARIANTS, argv, __doc__, PUBLISHED)
    s, parts = run.settings, []
    height, width, channels = run.input_shape
    if channels != 3 and height is None:
        raise InvalidInputError(
            "view_size (--store-size) is for images in color: others are cut into halves of one size. "
            f"Received: view_size={s['view_size']}"
        )
    split = {"channels": ((0, 1), (1, 3))} if channels == 3 else {"rows": ((0, height // 2), (height // 2, height))}
    ((axis, places),) = split.items()
    if s["pretrained"]:
        raise InvalidInputError("--pretrained is for methods of one encoder. Received: pretrained=True")
    for number, (first, last) in enumerate(places):
        shape = (last - first, width, channels) if axis == "rows" else (height, width, last - first)
        size = s["latent_dim"] and s["latent_dim"] // 2
        encoder = networks.encoder(s["network"], shape, size, seed=run.seed + number, **s["network_options"])
        parts.append(networks.on_part(encoder, run.input_shape, **{axis: (first, last)}))
    steps = run.optimizer_steps(s["shrinking"] * s["epochs"])
    options = run.options("negatives", "neighbors", "clusters", "temperature", "momentum")
    model = CMC(
        *parts, len(run.images), *map(run.projector, parts), run.views(), anneal_steps=steps, seed=run.seed, **options
    )
    if s["fill_bank"] and not run.folder.resumes:
        model.fill_bank(run.images)
    run.prepare(model)
    model.fit(run.data(), **run.fit_arguments([ClusterBank()] if s["clusters"] else []))
    return run.finish(model)


if __name__ == "__main__":
    training.script(main)
