"""What should two views share? Accuracy on digits against the information that views leave.

    KERAS_BACKEND=jax python examples/views_and_information.py

Figure 2 of "On Mutual Information in Contrastive Learning for Visual Representations" (arXiv 2005.13149), in small.
Instance discrimination with a memory bank is trained on the 8x8 digits once for each way of making views: crops that
keep more or less of the image, noise, flips, and none at all. log N - loss bounds the information that a view and the
memory of its image share; accuracy is the label of the nearest image in the bank, for test images.

Views that keep everything make a task without a lesson, views that keep nothing one without a solution. Seen, with the
settings below (information in nats, accuracy):

    no views             3.83  81.7 %      crops [0.9, 1]      3.72  90.6 %
    flips                3.75  85.6 %      crops [0.6, 1]      3.21  92.5 %
    noise 0.1            3.60  93.9 %      crops [0.3, 1]      2.44  87.5 %
    noise 0.3            2.93  93.9 %      crops [0.1, 1]      1.67  83.6 %
    noise 0.6            1.81  83.3 %      crops [0.02, 0.3]   0.05   9.4 %
    noise 1.2            0.36  71.4 %      crops [0.02, 0.04]  0.00   9.2 %
"""

import argparse
import math
import time

import keras
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import sslzoo
from sslzoo import augment, networks
from sslzoo.methods import InstanceDiscrimination
from sslzoo.views import Views


def crop(low, high):
    return [augment.RandomResizedCrop(scale=(low, high), whole_pixels=False)]


# family -> {name: steps}. Crops keep a share of the image's area between two bounds; noise is in units of white.
VIEWS = {
    "none": {"no views": []},
    "flips": {"flips": [augment.HorizontalFlip(0.5)]},
    "noise": {f"noise {stddev:g}": [augment.GaussianNoise(stddev)] for stddev in (0.1, 0.3, 0.6, 1.2)},
    "crops of up to all": {f"[{low:g}, 1]": crop(low, 1.0) for low in (0.9, 0.6, 0.3, 0.1)},
    "crops of little": {f"[0.02, {high:g}]": crop(0.02, high) for high in (0.3, 0.1, 0.04)},
}
COLORS = dict(zip(VIEWS, ("#222222", "#8a5a3c", "#5b8c5a", "#3c6e9f", "#7a4f9a")))
PAGE, INK, GRAY = "#fbfaf7", "#222222", "#77736b"


def measure(steps, train, test, settings):
    """Information that views share, in nats, and accuracy of the nearest image in the bank."""
    images, labels = train
    encoder = networks.encoder("mlp-small", (8, 8, 1), 10, seed=settings.seed)
    model = InstanceDiscrimination(
        encoder,
        len(images),
        views=Views(steps, 1, seed=settings.seed),
        negatives=None,
        temperature=settings.temperature,
        seed=settings.seed,
    )
    fused = 1 if keras.backend.backend() == "torch" else 11  # steps in one program, which PyTorch has not
    model.compile(keras.optimizers.Adam(2e-3), steps_per_execution=fused)
    keras.utils.set_random_seed(settings.seed)  # of the order of the images
    given = {"images": images, "index": np.arange(len(images), dtype="int32")}
    history = model.fit(given, batch_size=len(images) // 11, epochs=settings.epochs, verbose=0).history
    last = np.mean(history["loss"][-max(1, settings.epochs // 10) :])
    return math.log(len(images)) - last, np.mean(labels[model.remembered(test[0])] == test[1])


def picture(path, found):
    figure = Figure(figsize=(9.6, 6.0), dpi=110, facecolor=PAGE)
    FigureCanvasAgg(figure)
    figure.text(0.07, 0.94, "Between too much in common and too little", fontsize=16, fontweight="bold", color=INK)
    figure.text(
        0.07, 0.895, "Instance discrimination on 8x8 digits, once for each way of making views", fontsize=11, color=GRAY
    )
    axes = figure.add_axes([0.08, 0.11, 0.88, 0.73], facecolor=PAGE)
    for family, rows in found.items():
        information, accuracy = np.array(list(rows.values())).T
        axes.plot(information, 100 * accuracy, "o-", color=COLORS[family], linewidth=1.3, markersize=7, label=family)
        for place, (name, x, y) in enumerate(zip(rows, information, 100 * accuracy)):
            if family not in ("none", "flips"):
                # Points of the last family lie on each other: their names stand above one another.
                offset = {"noise": (2, -14), "crops of up to all": (2, 7)}.get(family, (10, 14 - 13 * place))
                axes.annotate(
                    name.removeprefix("noise "),
                    (x, y),
                    offset,
                    textcoords="offset points",
                    fontsize=9,
                    color=COLORS[family],
                )
    axes.set(
        xlabel="information that a view and the memory of its image share, nats (a lower bound)",
        ylabel="nearest neighbor of the right class, %",
    )
    axes.margins(0.08)
    axes.tick_params(length=0, colors=GRAY)
    axes.grid(color="#e6e2d8", linewidth=0.8)
    axes.legend(frameon=False, fontsize=10, labelcolor=INK)
    for side in axes.spines.values():
        side.set_visible(False)
    figure.savefig(path, facecolor=PAGE)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=100, help="of each model (100, the paper's)")
    parser.add_argument("--temperature", type=float, default=0.2)
    parser.add_argument("--limit", type=int, help="train and test with the first N images only")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default="views_and_information.png", help="the picture")
    settings = parser.parse_args(argv)
    begin, some = time.perf_counter(), slice(settings.limit)
    train, test = ([part[some] for part in sslzoo.data.load("digits", split)] for split in ("train", "test"))
    print(f"{'views':<30}{'information':>12}{'accuracy':>10}")
    found = {}
    for family, kinds in VIEWS.items():
        found[family] = {name: measure(steps, train, test, settings) for name, steps in kinds.items()}
        for name, (information, accuracy) in found[family].items():
            print(f"{family + ' ' + name:<30}{information:12.2f}{100 * accuracy:9.1f}%", flush=True)
    picture(settings.out, found)
    print(f"\n{(time.perf_counter() - begin) / 60:.1f} minutes. Picture: {settings.out}")
    return found


if __name__ == "__main__":
    main()
