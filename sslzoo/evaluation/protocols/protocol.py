"""What a protocol is: options, what it needs, a check before anything is measured, and a run that gives numbers."""

import dataclasses
from typing import ClassVar

import numpy as np

from sslzoo import checks
from sslzoo.errors import InvalidInputError, printable


class DoesNotApply(InvalidInputError):
    """A protocol that this encoder or data set has nothing for: `DoesNotApply(reason, received)`."""

    @property
    def reason(self) -> str:
        """Why, without what was received."""
        return self.args[0]

    def __str__(self):
        return printable(f"{self.reason}. Received: {self.args[1]}")


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
        values: list of float, of each run, where there are several; else None.
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
    values: list[float] | None = None

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


@dataclasses.dataclass
class Result:
    """What a protocol measured.

    Attributes:
        numbers: dict, metric -> `Number`. The first is the protocol's headline.
        settings: dict of plain data, how it was measured.
        remarks: list of str, what a reader should know beyond that.
        confusion: counts of test images, a row for each true class, a column for each predicted one; or None.
        images: dict of what `drawing.draw` shows.
        predictions: int array (M,), the class 0..C - 1 that its first number takes each test image for; or None.
    """

    numbers: dict[str, Number]
    settings: dict
    remarks: list[str] = dataclasses.field(default_factory=list)
    confusion: list[list[int]] | None = None
    images: dict = dataclasses.field(default_factory=dict)
    predictions: "np.ndarray | None" = None


@dataclasses.dataclass
class Protocol:
    """Base of the protocols. A subclass is a dataclass; its fields are the options that `evaluate` takes for it.

    An instance serves one evaluation, so `check` may hold on to what `run` will need.

    Attributes:
        name: str, its key in reports.
        title: str, what tables call it.
        needs: what it cannot do without: some of "features" (of both splits), "labels" (classes of both splits),
            "method" (the trained `Pretrainer`).
        parts: parts of a model beside the encoder that it takes where there are: "decoder", "posterior", "projection".
        inputs: options that name data or models. Where they are given, the protocol was meant, and has to apply.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()
    parts: ClassVar[tuple[str, ...]] = ()
    inputs: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.type is int or (field.type == int | None and value is not None):
                checks.count(**{field.name: value})

    @classmethod
    def options(cls) -> dict:
        """Its options and their defaults."""
        return {field.name: field.default for field in dataclasses.fields(cls)}

    @property
    def named(self) -> dict:
        """Data and models that were named: those of `inputs` that are not as they are by default."""
        given = {option: getattr(self, option) for option in self.inputs}
        return {option: value for option, value in given.items() if value != self.options()[option]}

    def check(self, subject) -> None:
        """Raise `DoesNotApply`, or whatever is wrong, as far as it can be known before anything is measured."""

    def run(self, subject) -> Result:
        """Measure a `Subject`."""
        raise NotImplementedError
