"""Is this image one of ours? Networks trained on one data set score the test images of others: one table, one command.

    python examples/detect_outliers.py gedi-mnist --inside mnist --outside fashion_mnist cifar10
    python examples/detect_outliers.py runs/gedi-cifar10/gedi-cifar10 runs/jem-cifar10/jem-cifar10 simclr-cifar10 \\
        --inside cifar10 --outside svhn_cropped cifar100

Tables 5, 11 and 12 of "Unifying Self-Supervised Clustering and Energy-Based Models": the score of an image is minus the
length of the gradient, by its pixels, of the log-sum-exp of the network's outputs, on images with a little noise; the
number is the AUROC, with images of the network's own data as positives. 0.5 is guessing, and less than that means that
the others look more typical than the data itself, which happens. The network is the part "projection" of a model
(the logits of GEDI and JEM), or its encoder where it has none. Images of another shape are cropped, resized and turned
to gray or color. An encoder that thresholds its pixels has no slope, and no number. The picture shows how the scores
are spread. `sslzoo evaluate NAME --dataset DATASET --protocols outliers` measures it on other
test images, drawn at random, beside that of nearest neighbors.
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

PAGE, INK, GRAY = "#fbfaf7", "#222222", "#77736b"
COLORS = ("#2f6690", "#c2572b", "#d9a441", "#5b8c5a", "#7b5e7b")


def load(name):
    """The part that a loss was applied to, else the encoder; and which it is."""
    parts = layout.parts(name) if Path(name).is_dir() else sslzoo.info(name)["parts"]
    part = "projection" if "projection" in parts else "encoder"
    return sslzoo.load(name, part), part


def draw(found, aurocs, path, inside):
    """Histograms of log(-score), a row for each model, the data's own in front."""
    figure = Figure(figsize=(8.2, 0.4 + 3.0 * len(found)), dpi=110, facecolor=PAGE)
    FigureCanvasAgg(figure)
    height = figure.get_figheight()
    figure.text(0.06, 1 - 0.3 / height, f"Slopes of the density of {inside}", fontsize=13, color=INK, fontweight="bold")
    for row, (model, scores) in enumerate(found.items()):
        bottom = (0.6 + 3.0 * (len(found) - 1 - row)) / height
        axes = figure.add_axes([0.06, bottom, 0.9, 2.1 / height], facecolor=PAGE)
        lengths = {name: np.log10(np.maximum(-values, 1e-30)) for name, values in scores.items()}
        bins = np.linspace(min(map(np.min, lengths.values())), max(map(np.max, lengths.values())) + 1e-9, 60)
        for (name, values), color in zip(lengths.items(), COLORS * 4):
            told = aurocs[model].get(name)
            label = f"{name}: its own data" if name == inside else f"{name}, AUROC {told:.3f}"
            axes.hist(values, bins, density=True, histtype="stepfilled", alpha=0.45, color=color, label=label)
            axes.hist(values, bins, density=True, histtype="step", color=color, linewidth=1.4)
        axes.set_title(Path(model).name, fontsize=10, color=INK, loc="left", pad=3)
        axes.set_yticks([])
        axes.tick_params(length=0, colors=GRAY)
        for side in ("top", "left", "right"):
            axes.spines[side].set_visible(False)
        axes.spines["bottom"].set_color("#e6e2d8")
        axes.legend(frameon=False, labelcolor=INK)
    axes.set_xlabel("log10 of the slope of log p(x): typical on the left, outliers on the right", color=GRAY)
    figure.savefig(path, facecolor=PAGE)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL", help="names or folders of models trained on --inside")
    parser.add_argument("--inside", required=True, help="the data set that they were trained on")
    parser.add_argument("--outside", nargs="+", required=True, help="data sets to be told from it")
    parser.add_argument("--data-dir", help="folder of prepared TFDS data sets (TFDS_DATA_DIR, else TFDS' own)")
    parser.add_argument("--limit", type=int, help="the first N test images of each set only")
    parser.add_argument("--noise", type=float, default=outliers.TEST_NOISE, help="on images in -1..1 (0.03)")
    parser.add_argument("--out", default="outliers.png", help="the picture")
    settings = parser.parse_args(argv)

    sets = {}
    for name in (settings.inside, *settings.outside):
        images, _ = data.load(name, "test", data_dir=settings.data_dir)
        sets[name], done = data.fit_images(images[: settings.limit], sets.get(settings.inside, images).shape[1:])
        for what in done:
            print(f"{name}: {what}")
    aurocs, found = {}, {}
    width = max(map(len, settings.models)) + 14
    print(f"AUROC of test images of {settings.inside} against those of")
    print(" " * width + "".join(f"{name:>16}" for name in settings.outside))
    for model in settings.models:
        network, part = load(model)
        of = {
            name: outliers.scores(network, images, settings.noise, seed)
            for seed, (name, images) in enumerate(sets.items())
        }
        if of[settings.inside].any():
            aurocs[model] = {name: outliers.auroc(of[settings.inside], of[name]) for name in settings.outside}
            found[model] = of
            cells = "".join(f"{value:>16.3f}" for value in aurocs[model].values())
        else:
            aurocs[model], cells = {}, "  no slope: it thresholds its pixels"
        print(f"{f'{model} ({part})':<{width}}{cells}", flush=True)
    if found:
        draw(found, aurocs, settings.out, settings.inside)
        print(f"Picture: {settings.out}")
    return aurocs


if __name__ == "__main__":
    main()
