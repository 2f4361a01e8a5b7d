"""Train a method at several values of a setting, several seeds each, and draw what comes out.

    KERAS_BACKEND=jax python benchmarks/sweep.py lejepa digits --try weight=0.01 --try weight=0.05 --try weight=0.2
    python benchmarks/sweep.py simvae mnist --budget 3600000 --try num_views=2,batch_size=160 --try num_views=10

Each trial is one of benchmarks/choose.py: nine tenths of the training images train and are the bank of the neighbors,
the rest are the queries; no test image is used. Every trial sees the same number of views, and the schedule runs down
within it. A row is written to docs/sweeps/<method>-<dataset>-<setting>-<budget>.csv as soon as it is there, so that the
next call goes on where this one stopped; the picture of the same name shows every seed, the mean and its standard
error. All other flags are the recipe's, and must be the same at each call; another backend is refused.
"""

import argparse
import csv
import sys
import time
from pathlib import Path

import choose
import keras
import numpy as np

from sslzoo.files import module_at

figures = module_at(Path(__file__).with_name("figures.py"))
FOLDER = Path(__file__).resolve().parent.parent / "docs" / "sweeps"
COLUMNS = ("changes", "seed", "backend", "views", "seconds", "cosine", "euclidean")


def read(path):
    """The rows of a sweep so far."""
    if not path.is_file():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def check_backend(path, rows):
    """Ends the program if rows were made by another backend, whose numbers differ: a mean of both says nothing."""
    others = {row["backend"] for row in rows} - {keras.backend.backend()}
    if others:
        sys.exit(f"Trials in {path} are by {', '.join(sorted(others))}. Received: {keras.backend.backend()}")


def append(path, row, columns=COLUMNS):
    new = not path.is_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n", extrasaction="ignore")
        if new:
            writer.writeheader()
        writer.writerow(row)


def measured(method, dataset, budget, changes, seed, words):
    """What one trial gives: the columns of a row that say nothing of its settings, and the centered neighbors."""
    began = time.monotonic()
    numbers = choose.trial(method, dataset, budget, ["--set", *changes, "--seed", str(seed), *words])
    keras.backend.clear_session()
    numbers = {name: round(value, 4) if isinstance(value, float) else value for name, value in numbers.items()}
    return {"backend": keras.backend.backend()} | numbers | {"seconds": round(time.monotonic() - began)}


def tried(changes):
    """Value of the setting that a sweep is about."""
    return changes.split(",")[0].split("=")[1]


def summary(rows):
    """changes -> (mean, standard error, all seeds' values) of the cosine neighbors, in percent, numbers in order."""

    def place(row):
        try:
            return float(tried(row["changes"]))
        except ValueError:  # a word: as it was met
            return 0.0

    rows, values = sorted(rows, key=place), {}
    for row in rows:
        values.setdefault(row["changes"], []).append(100 * float(row["cosine"]))
    return {
        changes: (np.mean(found), np.std(found, ddof=1) / len(found) ** 0.5 if len(found) > 1 else np.nan, found)
        for changes, found in values.items()
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("method")
    add("dataset")
    add("--try", dest="tries", action="append", required=True, metavar="NAME=VALUE[,...]", help="settings of a trial")
    add("--seeds", type=int, nargs="+", default=[0, 1, 2])
    add("--budget", type=int, default=200_000, metavar="VIEWS", help="of each trial (200000)")
    ours, theirs = parser.parse_known_args()
    settings = {changes.split("=")[0] for changes in ours.tries}
    if len(settings) > 1:
        parser.error(f"every --try must begin with the same setting. Received: {', '.join(sorted(settings))}")

    method = ours.method.replace("_", "-")
    path = FOLDER / f"{method}-{ours.dataset}-{settings.pop()}-{ours.budget}.csv"
    check_backend(path, read(path))
    done = {(row["changes"], int(row["seed"])) for row in read(path)}
    for seed in ours.seeds:
        for changes in ours.tries:
            if (changes, seed) in done:
                continue
            found = measured(ours.method, ours.dataset, ours.budget, changes.split(","), seed, theirs)
            append(path, {"changes": changes, "seed": seed} | found)
    rows = read(path)
    found, views = summary(rows), int(rows[-1]["views"])
    for changes, (mean, error, values) in found.items():
        print(
            f"{changes:32} kNN {mean:5.1f} % " + (f"+- {error:.1f} ({len(values)} seeds)" if values[1:] else "(1 seed)")
        )
    figures.sweep(
        [tried(changes) for changes in found],
        {"kNN on validation images (cosine, k = 10)": [(mean, error) for mean, error, _ in found.values()]},
        path.with_suffix(".png"),
        setting=next(iter(found)).split("=")[0],
        title=f"{method} on {ours.dataset}, {views:,} views",
        seeds=[values for *_, values in found.values()],
    )


if __name__ == "__main__":
    main()
