"""What time buys: neighbors while encoders trained, by minutes x cores.

    python benchmarks/hours.py runs/zoo/*-cifar10      # take in the histories of these runs, then draw
    python benchmarks/hours.py runs/zoo/lejepa-cifar10.long --cores 2
    python benchmarks/hours.py                         # draw again what there is

The curves are the monitor's, whose bank is 10,000 training images: lower than a card's numbers, where the bank has all.
Minutes are those of a core that does nothing else: a run's views at the pace of the fastest epoch that was looked at,
times its cores.
Runs are compared that were made alike: by the same backend and precision, on machines of one kind. They go to
benchmarks/measured/hours.csv, from which docs/pictures/hours_cifar10.png is drawn.
"""

import argparse
import csv
import decimal
import io
import itertools
import sys
from pathlib import Path

from sslzoo.errors import InvalidInputError
from sslzoo.evaluation.pictures import CLASS_COLORS, GRAY, PALE, new_figure, save_figure
from sslzoo.files import write_beside

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = ("entry", "views", "minutes", "knn")
TICKS = (1, 2, 5, 10, 20, 50, 100, 200, 500)  # minutes


def history(run, cores=1):
    """Rows of a run on so many cores, one an epoch: views and minutes until its end, and the monitor's neighbors."""
    path = run / "history.csv"
    if not path.is_file():
        raise InvalidInputError(f"A run must have a history.csv. Received: {run}")
    with open(path, newline="", encoding="utf-8") as file:
        epochs = [row for row in csv.DictReader(file) if row.get("knn")]
    if not epochs:
        raise InvalidInputError(f"A run must have been watched by neighbors, column knn. Received: {path}")
    pace = 60 * max(float(row["views_per_second"]) for row in epochs) / cores
    return [
        {
            "entry": run.name,
            "views": row["views"],
            "minutes": f"{int(row['views']) / pace:.1f}",
            "knn": f"{100 * float(row['knn']):.2f}",
        }
        for row in epochs
    ]


def rounded(percent):
    """The text of a percentage, to a tenth; halves go up, as they do in the text of the docs."""
    return str(decimal.Decimal(percent).quantize(decimal.Decimal("0.1"), decimal.ROUND_HALF_UP))


def draw(rows, path):
    """A line for each entry with its name at the end, the best one on top."""
    series = {name: list(group) for name, group in itertools.groupby(rows, key=lambda row: row["entry"])}
    figure, axes = new_figure(8.2, 4.8, "Neighbors by minutes x cores: CIFAR-10")
    ends = sorted(series, key=lambda name: float(series[name][-1]["knn"]))
    height = -float("inf")
    farthest = max(float(rows[-1]["minutes"]) for rows in series.values())
    for name, color in zip(ends, itertools.cycle(CLASS_COLORS)):
        minutes, accuracies = ([float(row[column]) for row in series[name]] for column in ("minutes", "knn"))
        axes.plot(minutes, accuracies, color=color, linewidth=1.6)
        height = max(accuracies[-1], height + 1.7)  # names must not cover one another
        axes.annotate(
            f"{name.replace('-cifar10', '')} {rounded(series[name][-1]['knn'])}",
            (minutes[-1], accuracies[-1]),
            xytext=(1.1 * farthest, height),
            fontsize=9,
            color=color,
            va="center",
            arrowprops={"arrowstyle": "-", "color": color, "alpha": 0.35, "linewidth": 0.8, "relpos": (0, 0.5)},
        )
    axes.set_xscale("log")
    nearest = min(float(rows[0]["minutes"]) for rows in series.values())
    axes.set_xlim(0.8 * nearest, farthest * (farthest / nearest) ** 0.36)
    ticks = [tick for tick in TICKS if nearest <= tick <= farthest]
    axes.set_xticks(ticks, labels=map(str, ticks))
    axes.minorticks_off()
    axes.set_xlabel("minutes x cores", color=GRAY)
    axes.set_ylabel("kNN of the monitor, %", color=GRAY)
    axes.grid(axis="y", color=PALE, linewidth=0.8)
    axes.tick_params(colors=GRAY, length=0)
    axes.spines[["top", "right"]].set_visible(False)
    return save_figure(figure, path)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("runs", nargs="*", type=Path, metavar="RUN", help="folders of runs, each with its history.csv")
    add("--cores", type=int, default=1, metavar="N", help="that these runs had (1)")
    add("--table", type=Path, default=ROOT / "benchmarks" / "measured" / "hours.csv", help="file of the curves")
    add("--picture", type=Path, default=ROOT / "docs" / "pictures" / "hours_cifar10.png", help="file of the picture")
    options = parser.parse_args(argv)
    if options.cores < 1:
        parser.error(f"--cores must be at least 1. Received: --cores={options.cores}")
    rows = []
    if options.table.is_file():
        with open(options.table, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    try:
        new = [row for run in options.runs for row in history(run, options.cores)]
    except InvalidInputError as error:
        parser.error(str(error))
    taken = {row["entry"] for row in new}
    rows = sorted([*new, *(row for row in rows if row["entry"] not in taken)], key=lambda row: row["entry"])
    if not rows:
        parser.error("there are no curves yet: name folders of runs. Received: none")
    if new:
        text = io.StringIO()
        table = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
        write_beside(options.table, text.getvalue().encode())
    draw(rows, options.picture)
    print(f"wrote {options.picture}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
