"""`Number`: one result of a protocol, with how it was made and what guessing scores."""

import dataclasses
import math

import numpy as np


@dataclasses.dataclass(frozen=True)
class Number:
    """One result.

    Example:
        from sslzoo import evaluation

        evaluation.Number(0.981, "accuracy", note="cosine, k = 10", chance=0.1)

    Attributes:
        value: float, a share (1.0 is 100 %) or in `unit`, or the mean over several runs.
        label: str, what it is, in words.
        note: str, how it was made.
        chance: float, what guessing scores under the same protocol, or None.
        error: float, standard error of the mean over several runs, or None for one run.
        shown: bool, whether tables show it. JSON holds every number.
        unit: str, "%" of a share, which tables print in percent; else what it is printed with ("nats"), "" for nothing.
    """

    value: float
    label: str
    note: str = ""
    chance: float | None = None
    error: float | None = None
    shown: bool = True
    unit: str = "%"

    def printed(self, value: float | None) -> float | None:
        """`value`, `chance` or `error` as tables and cards have it: percent of a share, else as it is."""
        return None if value is None else round(100 * value if self.unit == "%" else value, 4) + 0.0

    def in_words(self) -> tuple[str, str]:
        """Value and chance as tables print them."""
        if self.unit == "%":
            error = "" if self.error is None else f" ± {100 * self.error:.2f}"
            chance = "" if self.chance is None else f"{round(100 * self.chance, 1) + 0.0:.1f} %"
            return f"{100 * self.value:.2f}{error} %", chance
        error = "" if self.error is None else f" ± {self.error:.2g}"
        chance = "" if self.chance is None else f"{self.chance:.4g} {self.unit}".rstrip()
        return f"{self.value:.4g}{error} {self.unit}".rstrip(), chance

    @classmethod
    def mean(cls, numbers: "list[Number]") -> "Number":
        """Mean of the same number over several runs, with its standard error (deviation with n - 1)."""
        values = [number.value for number in numbers]
        chances = [number.chance for number in numbers if number.chance is not None]
        return dataclasses.replace(
            numbers[0],
            value=float(np.mean(values)),
            error=float(np.std(values, ddof=1) / math.sqrt(len(values))),
            chance=float(np.mean(chances)) if chances else None,
            note=_join([number.note for number in numbers]),
        )


def _join(notes):
    """One note for several runs: "best k on test: 4" and "best k on test: 7" become "best k on test: 4, 7"."""
    if len(set(notes)) == 1:
        return notes[0]
    heads, _, tails = zip(*(note.rpartition(": ") for note in notes))
    return f"{heads[0]}: {', '.join(tails)}" if heads[0] and len(set(heads)) == 1 else "; ".join(dict.fromkeys(notes))
