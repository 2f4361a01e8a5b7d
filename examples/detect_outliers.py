"""Is this image one of ours? A network trained on one data set scores the test images of others.

    python examples/detect_outliers.py runs/gedi-mnist/gedi-mnist --inside mnist --outside fashion_mnist
    python examples/detect_outliers.py runs/gedi-cifar10/gedi-cifar10 --inside cifar10 --outside svhn_cropped cifar100

Tables 5, 11 and 12 of "Unifying Self-Supervised Clustering and Energy-Based Models": the score of an image is minus the
length of the gradient, by its pixels, of the log-sum-exp of the network's outputs, on images with a little noise; the
number is the AUROC, with images of the network's own data as positives. 0.5 is guessing, and less than that means that
the others look more typical than the data itself, which happens. The network is the part "projection" of a model
(the logits of GEDI and JEM), or its encoder where it has none. The picture shows how the scores are spread.
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import sslzoo
from sslzoo import data
from sslzoo.evaluation import outliers
from sslzoo.zoo import layout

PAGE, INK, GREY = "#fbfaf7", "#222222", "#77736b"
COLOURS = ("#2f6690", "#c2572b", "#d9a441", "#5b8c5a", "#7b5e7b")


def load(name):
    """The part that a loss was applied to, else the encoder; and which it is."""
    parts = layout.parts(name) if Path(name).is_dir() else sslzoo.info(name)["parts"]
    part = "projection" if "projection" in parts else "encoder"
    return sslzoo.load(name, part), part


def draw(found, aurocs, path, title):
    """Histograms of log(-score), the data's own in front."""
    figure = Figure(figsize=(8.2, 4.2), dpi=110, facecolor=PAGE)
    FigureCanvasAgg(figure)
    axes = figure.add_axes([0.06, 0.14, 0.9, 0.68], facecolor=PAGE)
    figure.text(0.06, 0.93, title, fontsize=13, color=INK, fontweight="bold")
    lengths = {name: np.log10(np.maximum(-scores, 1e-30)) for name, scores in found.items()}
    bins = np.linspace(min(map(np.min, lengths.values())), max(map(np.max, lengths.values())) + 1e-9, 60)
    for (name, values), colour in zip(lengths.items(), COLOURS * 4):
        label = f"{name}, AUROC {aurocs[name]:.3f}" if name in aurocs else f"{name}: its own data"
        axes.hist(values, bins, density=True, histtype="stepfilled", alpha=0.45, color=colour, label=label)
        axes.hist(values, bins, density=True, histtype="step", color=colour, linewidth=1.4)
    axes.set_xlabel("log10 of the slope of log p(x): typical on the left, outliers on the right", color=GREY)
    axes.set_yticks([])
    axes.tick_params(length=0, colors=GREY)
    for side in ("top", "left", "right"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color("#e6e2d8")
    axes.legend(frameon=False, labelcolor=INK)
    figure.savefig(path, facecolor=PAGE)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="name or folder of a model")
    parser.add_argument("--inside", required=True, help="the data set that it was trained on")
    parser.add_argument("--outside", nargs="+", required=True, help="data sets with images of the same shape")
    parser.add_argument("--data-dir", help="folder of prepared TFDS data sets (TFDS_DATA_DIR, else TFDS' own)")
    parser.add_argument("--limit", type=int, help="the first N test images of each set only")
    parser.add_argument("--noise", type=float, default=outliers.TEST_NOISE, help="on images in -1..1 (0.03)")
    parser.add_argument("--out", default="outliers.png", help="the picture")
    settings = parser.parse_args(argv)

    network, part = load(settings.model)
    found = {}
    for name in (settings.inside, *settings.outside):
        images, _ = data.load(name, "test", data_dir=settings.data_dir)
        found[name] = outliers.scores(network, images[: settings.limit], settings.noise, seed=len(found))
    aurocs = {name: outliers.auroc(found[settings.inside], found[name]) for name in settings.outside}
    print(f"{settings.model} ({part}), test images of {settings.inside} against those of")
    for name, value in aurocs.items():
        print(f"  {name:<16} AUROC {value:.3f}")
    draw(found, aurocs, settings.out, f"Slopes of the density of {settings.inside}")
    print(f"Picture: {settings.out}")
    return aurocs


if __name__ == "__main__":
    main()
