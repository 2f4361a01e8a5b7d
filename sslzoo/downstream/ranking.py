"""Encoders put in order without labels, beside how far each measure could be trusted on the zoo's own encoders."""

import csv
import dataclasses
import functools
from pathlib import Path

import numpy as np

from sslzoo.downstream.diagnosis import MEASURES, PREFERRING, Diagnosis
from sslzoo.errors import InvalidInputError, choose
from sslzoo.files import as_json
from sslzoo.zoo.listing import table

CORRELATIONS = Path(__file__).with_name("correlations.csv")  # benchmarks/without_labels.py writes it
ALL, WITHIN = "all methods", "within families"


@functools.cache
def correlations() -> tuple[dict, ...]:
    """Spearman's rank correlations of measures with accuracies, over the trained encoders of each data set.

    Returns:
        tuple of dict: `dataset`, `family` ("all methods", "within families", or one), `encoders` (how many), `accuracy`
        ("knn" or "linear"), `measure`, `spearman`, and `low` and `high`, its 95 % bootstrap interval over encoders, or
        None of fewer than seven.
    """
    with CORRELATIONS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    numbers = ("spearman", "low", "high")
    for row in rows:
        row |= {name: float(row[name]) if row[name] else None for name in numbers} | {"encoders": int(row["encoders"])}
    return tuple(rows)


@dataclasses.dataclass(repr=False)
class Ranking:
    """Several encoders, the best by a measure first. `str()` is a table.

    Example:
        import numpy as np
        import sslzoo
        from sslzoo.downstream import ranking

        rows = np.random.default_rng(0).normal(size=(100, 8))
        some = [sslzoo.diagnose(rows, name="all of it"), sslzoo.diagnose(rows * [9] + 9, name="shifted")]
        found: ranking.Ranking = ranking.rank(some)
        found.orders["effective_rank"]  # ["all of it", "shifted"]

    Attributes:
        diagnoses: list of `Diagnosis`.
        by: str, the measure that the table goes by.
        orders: dict, measure -> names, the best first; of measures that all diagnoses have.
    """

    diagnoses: list[Diagnosis]
    by: str
    orders: dict[str, list[str]]

    def __str__(self):
        found = {diagnosis.name: diagnosis for diagnosis in self.diagnoses}
        shown = list(self.orders)
        rows = [["ENCODER", "HEALTHY", *(MEASURES[name].label.upper() for name in shown)]]
        for name in self.orders[self.by]:
            values = [f"{found[name].measures[measure]:.4g}" for measure in shown]
            rows.append([name, "yes" if found[name].healthy else "no", *values])
        lines = [f"In the order of {MEASURES[self.by].label}, the best first:", ""]
        lines += [table(rows, right=set(range(2, len(shown) + 2))), "", *_trust(shown)]
        return "\n".join(lines)

    def __repr__(self):
        return f"<Ranking by {self.by}: {', '.join(self.orders[self.by])}>"

    def to_dict(self) -> dict:
        """Everything as dicts, lists, strings and numbers."""
        trusted = [row for row in correlations() if row["family"] in (ALL, WITHIN)]
        diagnoses = [diagnosis.to_dict() for diagnosis in self.diagnoses]
        return {"by": self.by, "orders": self.orders, "diagnoses": diagnoses, "correlations": trusted}

    def to_json(self) -> str:
        """`to_dict` as JSON text."""
        return as_json(self.to_dict())


def rank(diagnoses: "list[Diagnosis]", by: str | None = None) -> Ranking:
    """Puts encoders that were diagnosed on the same images in order.

    Args:
        diagnoses: at least two, of different names.
        by: str, one of `PREFERRING`; None for LiDAR where all were seen in views, else the effective rank.

    Raises:
        InvalidInputError: fewer than two, or two of one name.
        UnknownNameError: `by` is not a measure of all of them.
    """
    names = [diagnosis.name for diagnosis in diagnoses]
    if len(names) < 2 or len(set(names)) < len(names):
        raise InvalidInputError(f"Encoders in order are at least two, of different names. Received: {names}")
    shared = [name for name in PREFERRING if all(name in diagnosis.measures for diagnosis in diagnoses)]
    by = by or ("lidar" if "lidar" in shared else "effective_rank")
    choose("measure", by, shared)
    orders = {}
    for measure in shared:
        keys = [-PREFERRING[measure].preference(diagnosis.measures[measure]) for diagnosis in diagnoses]
        orders[measure] = [names[place] for place in np.argsort(keys, kind="stable")]
    return Ranking(list(diagnoses), by, orders)


def _trust(shown):
    """Lines that say what these measures were worth on the zoo's own encoders."""
    known = [row for row in correlations() if row["accuracy"] == "knn"]
    sets = dict.fromkeys((row["dataset"], row["encoders"]) for row in known if row["family"] == ALL)
    head = ["MEASURE", *(f"{dataset.upper()} ({count})" for dataset, count in sets)]
    rows = [head]
    for name in shown:
        each = {(row["dataset"], row["family"]): row["spearman"] for row in known if row["measure"] == name}
        cells = []
        for dataset, _ in sets:
            within = each.get((dataset, WITHIN))
            cells.append(f"{each[dataset, ALL]:+.2f} / " + ("    -" if within is None else f"{within:+.2f}"))
        rows.append([MEASURES[name].label, *cells])
    return [
        "What such an order was worth on the zoo's own encoders: Spearman's rank correlation with kNN accuracy, over",
        "all trained encoders of a data set (how many) / within families of methods. 1: the same order; 0: none.",
        "",
        table(rows, right=set(range(1, len(head)))),
    ]
