"""What frozen features are worth with few labels: 1, 4, 16 and 64 of each class, ten draws, every encoder.

    python benchmarks/few_labels.py "*-digits"
    python benchmarks/few_labels.py --all --data-dir ~/tensorflow_datasets
    python benchmarks/few_labels.py                     # write docs/few_labels.md and its pictures again

The protocol `few_shot` of `evaluate`, draws the same for all encoders of a set. Numbers go to
benchmarks/measured/few_labels.json, which keeps those of entries that were not measured this time.
"""

import sys
from pathlib import Path

from sslzoo import evaluation
from sslzoo.data.catalogue import KNOWN
from sslzoo.files import module_at, write_beside
from sslzoo.zoo.results import read_results

collect = module_at(Path(__file__).with_name("collect.py"))
figures = module_at(Path(__file__).with_name("figures.py"))

DRAWN = 6  # encoders of a set that its picture shows, the best first, and the untrained one; the page says so

PAGE = """# Few labels

Written by `python benchmarks/few_labels.py`; do not edit. Test accuracy in percent with so many labels of each class on
frozen features, by logistic regression on standardized features: mean and standard deviation of ten draws, the same for
all encoders of a set. The encoder that comes first with 64 labels need not come first with one. Pictures show the five
encoders of a set that are best with 16 labels of each class, and the untrained network where it was measured; bars are
standard deviations.
"""


def measured(folder, data_dir=None):
    """Numbers of an entry: labels of a class -> mean and deviation over draws of the share of right answers."""
    dataset = read_results(folder)["dataset"]
    splits = collect.measure.splits(dataset, data_dir)
    sides = [(evaluation.features(folder, images), labels) for images, labels in splits]
    report = evaluation.evaluate_features(*sides, "few_shot")
    found = {}
    for metric, share in report["few_shot"].items():
        part, _, count = metric.partition("_")
        found.setdefault(count, {})["mean" if part == "accuracy" else part] = round(share, 5)
    return {"dataset": dataset, "accuracy": found}


def page(numbers):
    """Lines of docs/few_labels.md."""
    lines = [PAGE]
    for dataset, entries in by_dataset(numbers).items():
        lines += [f"## {KNOWN[dataset].title}", "", f"![Few labels]({picture(dataset)})", ""]
        counts = list(next(iter(entries.values())))
        lines += [f"| encoder | {' | '.join(counts)} |", f"|---|{'---:|' * len(counts)}"]
        for name, found in entries.items():
            lines.append(f"| `{name}` | {' | '.join(cell(found[count]) for count in counts)} |")
        lines.append("")
    return "\n".join(lines)


def by_dataset(numbers):
    """Data set -> entry -> labels of a class -> accuracies; the best with 16 labels first."""
    found = {}
    for name, each in numbers.items():
        found.setdefault(each["dataset"], {})[name] = each["accuracy"]
    by_accuracy = {d: sorted(e, key=lambda n: -e[n]["16"]["mean"]) for d, e in found.items()}
    return {d: {name: found[d][name] for name in by_accuracy[d]} for d in KNOWN if d in found}


def cell(spread):
    return f"{100 * spread['mean']:.1f} ± {100 * spread['deviation']:.1f}"


def picture(dataset):
    return f"pictures/few_labels_{dataset}.png"


def write_page(numbers, docs):
    """The page, and a picture of each data set."""
    write_beside(docs / "few_labels.md", page(numbers).encode())
    for dataset, entries in by_dataset(numbers).items():
        counts = list(next(iter(entries.values())))
        shown = dict(list(entries.items())[: DRAWN - 1])
        shown |= {name: found for name, found in entries.items() if name == f"random-{dataset.replace('_', '-')}"}
        series = {
            name: [tuple(100 * found[c][part] for part in ("mean", "deviation")) for c in counts]
            for name, found in shown.items()
        }
        title = f"Few labels: {KNOWN[dataset].title}"
        names = {"setting": "labels of each class", "measure": "accuracy, %", "title": title}
        figures.sweep(counts, series, docs / picture(dataset), **names)


def shown(numbers):
    return ", ".join(cell(each) for each in numbers["accuracy"].values())


def main(argv=None):
    return collect.run("few_labels", __doc__, measured, shown, write_page, argv)


if __name__ == "__main__":
    sys.exit(main())
