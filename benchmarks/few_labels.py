"""What frozen features are worth with few labels: 1, 4, 16 and 64 of each class, ten draws, every encoder.

    python benchmarks/few_labels.py "*-digits"
    python benchmarks/few_labels.py --all --data-dir ~/tensorflow_datasets
    python benchmarks/few_labels.py                     # write docs/few_labels.md and its pictures again

For each draw, logistic regression on standardised features (C = 1) and the nearest mean of a class (by cosine, features
less their mean) learn from the labels drawn, and all test images ask. Features are standardised and centred by all
train images, which needs no label. Draws are the same for all encoders of a set. Numbers go to
benchmarks/measured/few_labels.json, which keeps those of entries that were not measured this time.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from sslzoo import evaluation
from sslzoo.data.catalogue import KNOWN
from sslzoo.files import module_at, read_json, write_beside
from sslzoo.zoo.results import read_results

measure = module_at(Path(__file__).with_name("measure.py"))
figures = module_at(Path(__file__).with_name("figures.py"))

ROOT = Path(__file__).resolve().parent.parent
MEASURED = ROOT / "benchmarks" / "measured" / "few_labels.json"
LABELS, DRAWS = (1, 4, 16, 64), 10
DRAWN = 6  # encoders of a set that its picture shows, the best first

PAGE = """# Few labels

Written by `python benchmarks/few_labels.py`; do not edit. Test accuracy in percent with so many labels of each class on
frozen features: mean and standard deviation of ten draws, by logistic regression on standardised features; beside it,
for one label of each class, by the nearest mean of a class (cosine, centred). Draws are the same for all encoders of a
set; which encoder comes first with 64 labels need not be first with one.
"""


def draw(labels, per_class, seed):
    """Rows of `per_class` labels of each class, drawn at random: int array."""
    random = np.random.default_rng((seed, per_class))
    return np.concatenate([random.permutation(np.flatnonzero(labels == c))[:per_class] for c in np.unique(labels)])


def accuracies(train, labels, test, truth, per_class, draws=DRAWS):
    """Shares of test rows that are right by logistic regression and by the nearest mean: two lists, one a draw."""
    from sklearn.linear_model import LogisticRegression

    scale = train.std(axis=0)
    scale[scale <= 1e-12 * np.abs(train).max(axis=0)] = np.inf  # what is constant says nothing
    centred = train - train.mean(axis=0), test - train.mean(axis=0)
    standard, standard_test = (side / scale for side in centred)
    units = [side / np.maximum(np.linalg.norm(side, axis=1, keepdims=True), 1e-12) for side in centred]
    logistic, nearest = [], []
    for seed in range(draws):
        rows = draw(labels, per_class, seed)
        model = LogisticRegression(max_iter=1000).fit(standard[rows], labels[rows])
        logistic.append(float(model.score(standard_test, truth)))
        classes = np.unique(labels[rows])
        means = np.stack([units[0][rows[labels[rows] == c]].mean(axis=0) for c in classes])
        means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
        nearest.append(float(np.mean(classes[(units[1] @ means.T).argmax(axis=1)] == truth)))
    return logistic, nearest


def measured(folder, data_dir=None):
    """Numbers of an entry: labels of a class -> by logistic regression and by the nearest mean, mean and deviation."""
    dataset = read_results(folder)["dataset"]
    (images, labels), (test_images, truth) = measure.splits(dataset, data_dir)
    train, test = (evaluation.features(folder, each).astype(np.float64) for each in (images, test_images))
    most, found = np.bincount(labels).min(), {}
    for per_class in (count for count in LABELS if count <= most):
        for name, shares in zip(("logistic", "nearest"), accuracies(train, labels, test, truth, per_class)):
            spread = {"mean": round(float(np.mean(shares)), 5), "deviation": round(float(np.std(shares, ddof=1)), 5)}
            found.setdefault(str(per_class), {})[name] = spread
    return {"dataset": dataset, "accuracy": found}


def page(numbers):
    """Lines of docs/few_labels.md."""
    lines = [PAGE]
    for dataset, entries in by_dataset(numbers).items():
        lines += [f"## {KNOWN[dataset].title}", "", f"![Few labels]({picture(dataset)})", ""]
        counts = list(next(iter(entries.values())))
        lines += [f"| encoder | {' | '.join(counts)} | 1, nearest mean |", f"|---|{'---:|' * (len(counts) + 1)}"]
        for name, found in entries.items():
            cells = [cell(found[count]["logistic"]) for count in counts] + [cell(found["1"]["nearest"])]
            lines.append(f"| `{name}` | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def by_dataset(numbers):
    """Data set -> entry -> labels of a class -> accuracies; the best with 16 labels first."""
    found = {}
    for name, each in numbers.items():
        found.setdefault(each["dataset"], {})[name] = each["accuracy"]
    by_accuracy = {d: sorted(e, key=lambda n: -e[n]["16"]["logistic"]["mean"]) for d, e in found.items()}
    return {d: {name: found[d][name] for name in by_accuracy[d]} for d in KNOWN if d in found}


def cell(spread):
    return f"{100 * spread['mean']:.1f} ± {100 * spread['deviation']:.1f}"


def picture(dataset):
    return f"pictures/few_labels_{dataset}.png"


def write_page(numbers, docs):
    """The page, and a picture of each data set."""
    (docs / "pictures").mkdir(parents=True, exist_ok=True)
    write_beside(docs / "few_labels.md", page(numbers).encode())
    for dataset, entries in by_dataset(numbers).items():
        counts = list(next(iter(entries.values())))
        shown = dict(list(entries.items())[: DRAWN - 1])
        shown |= {name: found for name, found in entries.items() if name == f"random-{dataset.replace('_', '-')}"}
        series = {
            name: [tuple(100 * found[c]["logistic"][part] for part in ("mean", "deviation")) for c in counts]
            for name, found in shown.items()
        }
        title = f"Few labels: {KNOWN[dataset].title}"
        figures.sweep(counts, series, docs / picture(dataset), setting="labels of each class", title=title)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("entries", nargs="*", metavar="NAME", help="names of entries, or patterns such as '*-mnist'")
    add("--all", action="store_true", help="all entries")
    add("--data-dir", help="folder of prepared TFDS data sets")
    add("--weights", type=Path, default=measure.WEIGHTS, help="folder of entries (weights/)")
    add("--out", type=Path, default=MEASURED, help="file of the numbers (benchmarks/measured/few_labels.json)")
    add("--docs", type=Path, default=ROOT / "docs", help="folder of the page (docs/)")
    options = parser.parse_args(argv)
    numbers = read_json(options.out) if options.out.exists() else {}
    for folder in measure.entries(["*"] if options.all else options.entries, options.weights):
        numbers[folder.name] = measured(folder, options.data_dir)
        text = json.dumps(dict(sorted(numbers.items())), indent=1)
        write_beside(options.out, f"{text}\n".encode())
        print(
            f"{folder.name}: {', '.join(cell(each['logistic']) for each in numbers[folder.name]['accuracy'].values())}"
        )
    if not numbers:
        parser.error("nothing was measured yet: name entries, or --all. Received: neither")
    write_page(numbers, options.docs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
