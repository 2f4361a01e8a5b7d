"""Few labels: a probe on a frozen encoder, the encoder fine-tuned as a whole, and the same network from scratch.

    python examples/finetune.py                                   # simclr-cifar10, 50 labels a class of CIFAR-10
    python examples/finetune.py --encoder simvae-digits --dataset digits --per-class 10

All three have the same labeled images; a fifth of them choose, and test images only measure. Prints test accuracy with
95 % intervals, over seeds where there are several (which draw the labeled images, the batches and the weights), and
draws them.
"""

import argparse

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

import sslzoo

WAYS = {"probe": "#6b6b6b", "full": "#0072B2", "scratch": "#D55E00"}


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", default="simclr-cifar10", help="name, folder or hf:// address (simclr-cifar10)")
    parser.add_argument("--dataset", default="cifar10", help="labeled data set (cifar10)")
    parser.add_argument("--data-dir", help="folder of prepared TFDS data sets")
    parser.add_argument("--per-class", type=int, default=50, help="labeled images of each class (50)")
    parser.add_argument("--epochs", type=int, default=50, help="at most (50)")
    parser.add_argument("--seeds", type=int, default=1, help="repetitions (1)")
    parser.add_argument("--out", default="finetune.png", help="picture to write (finetune.png)")
    arguments = parser.parse_args(argv)
    _, report = sslzoo.finetune(
        arguments.encoder,
        arguments.dataset,
        labels=arguments.per_class,
        epochs=arguments.epochs,
        seeds=arguments.seeds,
        data_dir=arguments.data_dir,
    )
    print(f"{report.encoder} on {arguments.dataset}, {arguments.per_class} labels a class, test accuracy")
    for way in WAYS:
        value, low, high = (100 * report[way][name] for name in ("accuracy", "accuracy_low", "accuracy_high"))
        print(f"{way:<8} {value:5.1f} %   {low:5.1f} to {high:5.1f}")
    draw(report, f"{report.encoder}, {arguments.per_class} labels a class", arguments.out)
    print(f"Wrote {arguments.out}")
    return report


def draw(report, title, path):
    """A bar for each way, with its interval."""
    figure = Figure(figsize=(5, 3.4), dpi=120, layout="constrained")
    axes = figure.subplots()
    for way, color in WAYS.items():
        value, low, high = (report[way][name] for name in ("accuracy", "accuracy_low", "accuracy_high"))
        axes.bar(way, value, color=color, width=0.6, yerr=[[value - low], [high - value]], capsize=4)
    axes.set_title(title, loc="left", fontsize=11)
    axes.set(ylabel="test accuracy", ylim=(0, 1))
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
    axes.grid(axis="y", color="#e4e4e4")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    FigureCanvasAgg(figure).print_png(path)


if __name__ == "__main__":
    main()
