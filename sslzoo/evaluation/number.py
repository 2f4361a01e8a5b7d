"""`Number`: one result of a protocol, with how it was made and what guessing scores."""

import dataclasses


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
