"""`Report`: the numbers of an evaluation, and everything one needs to know to compare them with others."""

import dataclasses
import json
import os
import platform
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sslzoo.errors import InvalidInputError, choose
from sslzoo.evaluation.protocols import GMM, REGISTRY, Number
from sslzoo.files import as_json, write_beside

FORMAT = "sslzoo.evaluation.Report/1"


@dataclasses.dataclass(repr=False)
class Report:
    """Numbers of an evaluation with their protocols. `print(report)` shows a table.

        report["knn"]                           # {"cosine_k10_accuracy": 0.981, ...}, shares in 0..1
        report.headline                         # {"linear": 0.973, "mlp": 0.979, "knn": 0.981, "gmm": 0.89}
        report.numbers["mlp"]["accuracy"].note  # how it was made
        report.save("results.json")

    Example:
        import numpy as np
        from sslzoo import evaluation

        rng = np.random.default_rng(0)
        features, labels = rng.normal(size=(60, 4)), np.arange(60) % 3
        train, test = (features[:40], labels[:40]), (features[40:], labels[40:])
        report = evaluation.evaluate_features(train, test, protocols=("knn",))
        print(report)
        report.headline  # {"knn": ...}, a share in 0..1

    Attributes:
        encoder: str, name of the encoder.
        data: dict: `name`, `train` and `test` (numbers of images), `features` (L), `classes` (None without
            labels), `attribute` (or None).
        numbers: dict, protocol -> metric -> `Number`. The first metric of a protocol is its headline.
        protocols: dict, protocol -> settings (epochs, optimizer, k, temperature, restarts ...), but for those that need
            the method and so cannot be repeated with the encoder alone.
        seeds: list of int, one for each run.
        seconds: dict, "features" and protocols -> wall time in seconds; the mean over runs.
        versions: dict, software -> version.
        frozen: list of dict, one for each run: `before` and `after`, the equal sha256 of the encoder's weights and
            statistics; empty if features were evaluated without their encoder.
        remarks: list of str, what a reader should know beyond the protocol.
        confusion: dict, probe -> counts of test images, a row for each true class, a column for each predicted one.
        predictions: dict, protocol -> the label that its first number takes each test image for, of one run. `save`
            and `to_json` keep them; `to_dict`, which results.json of models have, leaves them out.
    """

    encoder: str
    data: dict
    numbers: dict[str, dict[str, Number]]
    protocols: dict[str, dict]
    seeds: list[int]
    seconds: dict[str, float]
    versions: dict[str, str]
    frozen: list[dict] = dataclasses.field(default_factory=list)
    remarks: list[str] = dataclasses.field(default_factory=list)
    confusion: dict[str, list[list[int]]] = dataclasses.field(default_factory=dict)
    predictions: dict[str, list[int]] = dataclasses.field(default_factory=dict)

    def __getitem__(self, protocol: str) -> dict[str, float]:
        """Values of one protocol: metric -> share in 0..1. Raises `UnknownNameError` if it was not run."""
        return {name: number.value for name, number in self.numbers[choose("protocol", protocol, self.numbers)].items()}

    def __contains__(self, protocol: str) -> bool:
        return protocol in self.numbers

    def __iter__(self):
        return iter(self.numbers)

    @property
    def headline(self) -> dict[str, float]:
        """The first number of every protocol: fixed beforehand, not chosen on the test set. Shares, or in its unit."""
        return {protocol: next(iter(self[protocol].values())) for protocol in self}

    def flat(self) -> dict[str, float]:
        """All values under one key each: `{"mlp.accuracy": 0.979, "mlp.best_accuracy": ...}`, shares in 0..1."""
        return {f"{protocol}.{metric}": value for protocol in self for metric, value in self[protocol].items()}

    def metrics(self, paper: dict[str, float] | None = None) -> list[dict]:
        """The numbers that tables show, each as a plain dict, shares in percent, for model cards and `results.json`.

        Args:
            paper: what a paper printed, in percent, by the keys of `flat()`: `{"mlp.best_accuracy": 98.4}`. Numbers of
                protocols that were not run are passed over.

        Returns:
            list of dict: `name` ("mlp.best_accuracy"), `label` (in words), `value`, `error`, `chance` and `paper`
            (percent unless there is a `unit`, or None), `protocol` (how the number was made).

        Raises:
            UnknownNameError: `paper` names a number that there is not.
        """
        known = set(self.flat())
        for name in paper or {}:
            if choose("protocol", name.partition(".")[0], REGISTRY) in self:
                choose("number", name, known)
        return [
            {
                "name": f"{protocol}.{metric}",
                "label": f"{_title(protocol)}: {number.label}",
                "value": number.printed(number.value),
                "error": number.printed(number.error),
                "chance": number.printed(number.chance),
                "paper": (paper or {}).get(f"{protocol}.{metric}"),
                "protocol": number.note or number.label,
                **({} if number.unit == "%" else {"unit": number.unit}),
            }
            for protocol, numbers in self.numbers.items()
            for metric, number in numbers.items()
            if number.shown
        ]

    # ------------------------------------------------------------------ JSON

    def to_dict(self) -> dict:
        """Everything but `predictions` as dicts, lists, strings and numbers; `from_dict` makes it a report again."""
        record = {"format": FORMAT, **dataclasses.asdict(self)}
        del record["predictions"]
        for number in (number for metrics in record["numbers"].values() for number in metrics.values()):
            if number["values"] is None:  # of one run there is the value alone
                del number["values"]
        return record

    def to_json(self) -> str:
        """Everything as JSON text; `from_json` makes it a report again."""
        record = self.to_dict() | {"predictions": self.predictions}
        return as_json(record)

    def save(self, path: "str | os.PathLike") -> Path:
        """Write `to_json()` to a file, whole or not at all. Returns its path."""
        return write_beside(path, self.to_json())

    @classmethod
    def from_dict(cls, record: dict) -> "Report":
        """Report of what `to_dict` gave; `InvalidInputError` for anything else."""
        try:
            if record["format"] != FORMAT:
                raise KeyError(f"format {FORMAT!r}")
            record = {"confusion": {}, "predictions": {}} | record  # which reports did not have at first
            fields = {field.name: record[field.name] for field in dataclasses.fields(cls)}
            fields["numbers"] = {
                protocol: {metric: Number(**number) for metric, number in metrics.items()}
                for protocol, metrics in fields["numbers"].items()
            }
        except (KeyError, TypeError, AttributeError) as error:
            raise InvalidInputError(
                f"This must be the record of a report ({FORMAT}), and lacks or misspells {error}. "
                f"Received: {textwrap.shorten(repr(record), 80)}"
            ) from error
        return cls(**fields)

    @classmethod
    def from_json(cls, text: str) -> "Report":
        """Report of the text that `to_json` gave or `save` wrote; `InvalidInputError` for anything else."""
        try:
            record = json.loads(text)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(
                f"This must be the JSON text of a report ({error}). Received: {textwrap.shorten(repr(text), 80)}"
            ) from error
        return cls.from_dict(record)

    # ------------------------------------------------------------------ for people

    def __str__(self):
        header = ("protocol", "metric", "value", "chance", "how")
        rows = [header, *self._rows()]
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        lines = [f"{self.encoder} on {self._data_in_words()}", ""]
        for row in rows:
            lines += [""] if row is not header and row[0] else []
            cells = [f"{cell:{side}{width}}" for cell, side, width in zip(row, "<<>>", widths)]
            lines.append("  ".join([*cells, row[4]]).rstrip())
        lines += ["", *(textwrap.fill(f"Note: {remark}", 110, subsequent_indent="      ") for remark in self.remarks)]
        lines += self._footer()
        return "\n".join(lines)

    def to_markdown(self) -> str:
        """The table of `print(report)` in Markdown."""
        lines = ["| protocol | metric | value | chance | how |", "|---|---|---:|---:|---|"]
        lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in self._rows()]
        lines += ["", *(f"- {line}" for line in [f"Data: {self._data_in_words()}.", *self.remarks, *self._footer()])]
        return "\n".join(lines) + "\n"

    def __repr__(self):
        first = {protocol: next(iter(numbers.values())) for protocol, numbers in self.numbers.items()}
        values = ", ".join(f"{protocol} {number.in_words()[0]}" for protocol, number in first.items())
        return f"<Report of {self.encoder} on {self._data_in_words()}: {values}>"

    def _rows(self):
        for protocol, metrics in self.numbers.items():
            name = _title(protocol)
            for number in metrics.values():
                if not number.shown:
                    continue
                yield name, number.label, *number.in_words(), number.note
                name = ""

    def _data_in_words(self):
        data = self.data
        attribute = f" (attribute {data['attribute']})" if data["attribute"] is not None else ""
        classes = "no labels" if data["classes"] is None else f"{data['classes']} classes"
        seeds = f"seed{'s' if len(self.seeds) > 1 else ''} {', '.join(map(str, self.seeds))}"
        return (
            f"{data['name']}{attribute}: {data['train']:,} train and {data['test']:,} test images, "
            f"{data['features']} features, {classes}, {seeds}"
        )

    def _footer(self):
        lines = []
        if self.frozen:
            proofs = ", ".join(dict.fromkeys(proof["after"][:12] for proof in self.frozen))
            lines.append(f"The encoder stayed frozen: sha256 {proofs}... before and after.")
        spent = ", ".join(f"{_title(name)} {seconds:.1f}" for name, seconds in self.seconds.items())
        each = " a run" if len(self.seeds) > 1 else ""
        lines.append(f"Seconds{each}: {spent}.")
        lines.append("With " + ", ".join(f"{name} {version}" for name, version in self.versions.items()) + ".")
        return lines


def options_of(record: dict, protocols: Sequence[str]) -> dict:
    """The options of `evaluate` that measure again what a report's record has, as far as they are not the usual ones.

    Args:
        record: dict of `Report.to_dict`, or what somebody has of it.
        protocols: those that are to be measured; options that none of them takes are left out.

    Returns:
        dict of `seed`, `attribute`, `epochs`, `gmm_restarts`, `extractor`, `outside`.
    """
    settings, numbers = record.get("protocols") or {}, record.get("numbers") or {}
    usual = {"seed": 0, "attribute": None, "epochs": 200, "gmm_restarts": GMM.gmm_restarts}
    usual |= {"extractor": "fid", "outside": []}
    distance = next(iter(numbers.get("generation", ())), "fid")
    measured = [metric.removesuffix("_auroc") for metric in numbers.get("outliers", ())]
    outside = [name for name in measured if not (name.endswith("_slope") and name.removesuffix("_slope") in measured)]
    options = {
        "seed": (record.get("seeds") or [0])[0],
        "attribute": (record.get("data") or {}).get("attribute"),
        "epochs": settings.get("linear", settings.get("mlp", {})).get("epochs", usual["epochs"]),
        "gmm_restarts": settings.get("gmm", {}).get("restarts", usual["gmm_restarts"]),
        "extractor": distance.removeprefix("frechet_") if "generation" in settings else "fid",
        "outside": outside if "outliers" in settings else [],
    }
    taken = {"seed", "attribute"}.union(*(REGISTRY[name].options() for name in protocols if name in REGISTRY))
    return {option: value for option, value in options.items() if value != usual[option] and option in taken}


def versions() -> dict[str, str]:
    """Versions of what the numbers depend on."""
    import keras
    import scipy
    import sklearn

    import sslzoo

    backend = keras.backend.backend()
    return {
        "sslzoo": sslzoo.__version__,
        "keras": keras.__version__,
        backend: getattr(sys.modules.get(backend), "__version__", "unknown"),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "python": platform.python_version(),
    }


def _title(protocol):
    return REGISTRY[protocol].title if protocol in REGISTRY else protocol
