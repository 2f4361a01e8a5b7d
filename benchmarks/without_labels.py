"""Choosing an encoder without labels: what each label-free measure is worth on the zoo's own encoders.

    python benchmarks/without_labels.py                     # every data set; five minutes
    python benchmarks/without_labels.py --datasets digits mnist
    python benchmarks/without_labels.py --again             # measures that are stored, cards as they are

For every trained entry of weights/ on a data set, the measures of `sslzoo doctor` are taken of 2,000 train images, 500
of them in 8 views, and held against the kNN and linear-probe accuracies on its card: Spearman's rank correlation over
all entries of a set, and within families of methods, with bootstrap intervals over entries. Signs are turned so that
1 means: the encoder that the measure prefers is the better one. Writes results/without_labels/measures.json, its
picture in docs/pictures, the rows of docs/choosing.md, and sslzoo/downstream/correlations.csv, which `sslzoo doctor`
prints.
"""

import argparse
import csv
import io
import itertools
import json
import sys
import time
from pathlib import Path

import numpy as np
import tables
from measure import weights_of
from scipy.stats import rankdata

from sslzoo import data
from sslzoo.downstream import charts, diagnosis, ranking
from sslzoo.downstream.encoders import as_encoder, features_of
from sslzoo.downstream.images import views_of
from sslzoo.files import write_beside
from sslzoo.zoo.results import read_results, values_of

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "without_labels" / "measures.json"
PAGE = ROOT / "docs" / "choosing.md"
DATASETS = ("mnist", "digits", "cifar10", "fashion_mnist")
IMAGES, VIEWED, NUM_VIEWS = 2000, 500, 8
# On all cards; the linear probe trained to its end is on those measured since there is one.
ACCURACIES = {"knn": "knn.cosine_k10_accuracy", "linear": "linear.accuracy"}
FAMILIES = {
    "autoencoders": ("VAE", "BetaVAE", "CRVAE", "SimVAE"),
    "contrastive": ("SimCLR", "DCL", "AlignUniform", "MoCo", "InfoNCE", "NNCLR", "ProtoCPC"),
    "banks": (
        "InstanceDiscrimination",
        "ParametricInstanceDiscrimination",
        "Ball",
        "Annulus",
        "LocalAggregation",
        "CMC",
    ),
    "decorrelation": (
        *("VICReg", "BarlowTwins", "CorInfoMax", "WMSE", "TiCo"),
        *("LeJEPA", "VISReg", "MMCR", "FroSSL", "EMPSSL"),
    ),
    "distillation and clusters": ("BYOL", "SimSiam", "FastSiam", "DINO", "SimDINO", "SwAV", "DeepCluster"),
    "energy": ("GEDI", "JEM", "EBCLR"),
}
PREFERENCES = diagnosis.PREFERRING
LEAST = 5  # entries of a family on a set, below which a rank correlation says nothing
SURE = 7  # entries below which intervals over new draws of them are too narrow
RESAMPLES = 2000


def measured(dataset, data_dir):
    """Measures and accuracies of every trained entry of a data set: a list of dict."""
    images = data.load(dataset, "train", data_dir=data_dir)[0]
    rows = np.sort(np.random.default_rng(0).permutation(len(images))[:IMAGES])
    images = images[rows]
    viewed = np.random.default_rng(1).permutation(len(images))[:VIEWED]
    views = views_of(images[viewed], f"simvae-{dataset.replace('_', '-')}", NUM_VIEWS)
    entries = []
    for folder in sorted(path.parent for path in (ROOT / "weights").glob("*/results.json")):
        results = read_results(folder)
        if results["dataset"] != dataset or results["method"] == "Random":
            continue
        began, encoder = time.perf_counter(), as_encoder(folder)
        seen = features_of(encoder, views.reshape(-1, *views.shape[2:])).reshape(*views.shape[:2], -1)
        taken = diagnosis.measure(features_of(encoder, images), seen)
        entry = {"name": results["name"], "method": results["method"], "features": results["features"]}
        entry |= {"parameters": results["parameters"], "network": results["settings"].get("network")}
        entry |= accuracies(results) | {"weights": weights_of(folder)}
        entries.append(entry | {"measures": {name: float(f"{value:.6g}") for name, value in taken.items()}})
        print(f"{entry['name']:<42} {time.perf_counter() - began:5.1f} s", flush=True)
    return entries


def accuracies(results):
    """What the card of an entry says, in percent."""
    values = values_of(results)
    return {name: values[metric] for name, metric in ACCURACIES.items()}


def correlated(entries):
    """Spearman's correlation of each measure with each accuracy, over all entries, families and within families: rows.

    Within families is the mean over families, weighted by their entries: what is left where all have one kind of loss.
    """
    families = {name: [each for each in entries if each["method"] in methods] for name, methods in FAMILIES.items()}
    families = {name: group for name, group in families.items() if len(group) >= LEAST}
    groups = {ranking.ALL: [entries], ranking.WITHIN: list(families.values())}
    groups |= {name: [group] for name, group in families.items()}
    rows = []
    for family, some in ((family, some) for family, some in groups.items() if some):
        count = sum(map(len, some))
        for (measure, how), accuracy in itertools.product(PREFERENCES.items(), ACCURACIES):
            pairs = [
                np.array([(how.preference(each["measures"][measure]), each[accuracy]) for each in group])
                for group in some
            ]
            row = {"family": family, "encoders": count, "accuracy": accuracy, "measure": measure}
            rows.append(row | spearman(pairs))
    return rows


def all_correlations(entries):
    """Rows of `correlated` of every data set."""
    return [{"dataset": dataset, **row} for dataset in DATASETS for row in correlated(entries.get(dataset, []))]


def spearman(groups):
    """Mean rank correlation of groups (n, 2), weighted by n, and its percentile interval over new draws of entries;
    no interval of fewer than `SURE` in all."""
    random = np.random.default_rng(0)
    sizes = [len(group) for group in groups]
    value = np.average([np.nan_to_num(rank_correlations(*group.T[:, None])[0]) for group in groups], weights=sizes)
    if sum(sizes) < SURE:
        return {"spearman": round(float(value), 3), "low": None, "high": None}
    drawn = []
    for group in groups:
        some = random.integers(0, len(group), (RESAMPLES, len(group)))
        drawn.append(np.nan_to_num(rank_correlations(*np.moveaxis(group[some], -1, 0))))
    low, high = np.percentile(np.average(drawn, axis=0, weights=sizes), [2.5, 97.5])
    return {name: round(float(each), 3) for name, each in (("spearman", value), ("low", low), ("high", high))}


def rank_correlations(first, second):
    """Spearman's correlation of each row; NaN where either is constant."""
    first, second = (rankdata(rows, axis=1) - (rows.shape[1] + 1) / 2 for rows in (first, second))
    with np.errstate(invalid="ignore"):
        return (first * second).sum(axis=1) / np.sqrt((first**2).sum(axis=1) * (second**2).sum(axis=1))


# ---------------------------------------------------------------------- what is written


def is_above(row):
    """Whether a correlation has an interval, and that lies above 0."""
    return row["low"] is not None and row["low"] > 0


def as_csv(rows):
    """The text of correlations.csv."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def page_rows(rows):
    """Tables of docs/choosing.md: a row a measure, a column a data set; then families."""
    lines = []
    for family, accuracy, title in (
        (ranking.ALL, "knn", "all methods, kNN"),
        (ranking.ALL, "linear", "all methods, linear probe"),
        (ranking.WITHIN, "knn", "within families, kNN"),
        (ranking.WITHIN, "linear", "within families, linear probe"),
    ):
        some = [row for row in rows if (row["family"], row["accuracy"]) == (family, accuracy)]
        sets = dict.fromkeys((row["dataset"], row["encoders"]) for row in some)
        lines += ["", f"| {title} | " + " | ".join(f"{name} ({count})" for name, count in sets) + " |"]
        lines.append("|---|" + "---:|" * len(sets))
        for measure, how in PREFERENCES.items():
            cells = []
            for dataset, _ in sets:
                (row,) = [row for row in some if (row["dataset"], row["measure"]) == (dataset, measure)]
                cell = f"{row['spearman']:+.2f}"
                if row["low"] is not None:
                    cell += f" ({row['low']:+.2f} to {row['high']:+.2f})"
                cells.append(f"**{cell}**" if is_above(row) else cell)
            lines.append(f"| {how.label} | {' | '.join(cells)} |")
    own = [row for row in rows if row["family"] in FAMILIES and row["accuracy"] == "knn"]
    lines += ["", "| family, kNN | encoders | " + " | ".join(how.label for how in PREFERENCES.values()) + " |"]
    lines.append("|---|---:|" + "---:|" * len(PREFERENCES))
    for family, dataset, count in dict.fromkeys((row["family"], row["dataset"], row["encoders"]) for row in own):
        of = {row["measure"]: row["spearman"] for row in own if (row["family"], row["dataset"]) == (family, dataset)}
        cells = " | ".join(f"{of[measure]:+.2f}" for measure in PREFERENCES)
        lines.append(f"| {family}, {dataset} | {count} | {cells} |")
    return lines[1:]


def draw(rows, path):
    """Correlations with kNN of every measure: a row of panels for each data set, all methods beside within families."""
    panels = []
    sets = dict.fromkeys(row["dataset"] for row in rows if row["family"] == ranking.WITHIN)
    for dataset, family in itertools.product(sets, (ranking.ALL, ranking.WITHIN)):
        some = [row for row in rows if (row["dataset"], row["family"], row["accuracy"]) == (dataset, family, "knn")]
        dots = []
        for row in some:
            ends = [row["spearman"] if row[end] is None else row[end] for end in ("low", "high")]  # or a dot alone
            color = charts.ORANGE if is_above(row) else charts.GRAY
            dots.append(charts.Row(PREFERENCES[row["measure"]].label, row["spearman"], *ends, color))
        panels.append((f"{dataset}, {family}: {some[0]['encoders']} encoders", dots))
    title = "Rank correlation (x 100) of label-free measures with kNN accuracy; orange: interval above 0"
    return charts.intervals(panels, path, title)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", choices=DATASETS, default=DATASETS, help="which sets (all)")
    parser.add_argument("--data-dir", help="folder of prepared TFDS data sets")
    parser.add_argument(
        "--again", action="store_true", help="take no measures, but those that are stored, beside the cards as they are"
    )
    arguments = parser.parse_args(argv)
    entries = json.loads(RESULTS.read_text())["entries"] if RESULTS.exists() else {}
    if not arguments.again:
        entries |= {dataset: measured(dataset, arguments.data_dir) for dataset in arguments.datasets}
    for dataset, some in entries.items():
        kept = [entry for entry in some if (ROOT / "weights" / entry["name"]).is_dir()]  # others were given up since
        entries[dataset] = [entry | accuracies(read_results(ROOT / "weights" / entry["name"])) for entry in kept]
    rows = all_correlations(entries)
    settings = {"images": IMAGES, "viewed": VIEWED, "views": NUM_VIEWS, "policy": "simvae-DATASET"}
    record = {"settings": settings, "entries": entries}
    write_beside(RESULTS, json.dumps(record, separators=(",", ":"), allow_nan=False) + "\n")
    write_beside(ranking.CORRELATIONS, as_csv(rows))
    draw(rows, ROOT / "docs" / "pictures" / "without_labels.png")
    write_beside(PAGE, tables.with_rows(PAGE.read_text("utf-8"), page_rows(rows), "correlations"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
