"""What to try against a collapse: each method says it of its own settings, `callbacks.Health` prints it."""

import operator
from typing import NamedTuple

from keras import ops

# The signs that `callbacks.health.signs` distinguishes, the gravest first.
SIGNS = ("not finite", "complete", "prototypes", "dimensional", "cone", "chance")


class Advice(NamedTuple):
    """Something to try, as a class attribute `advice` of a method lists it.

    Attributes:
        words: str, what to try: "a lower temperature".
        setting: str, attribute of the method (or of something it holds, "optimizer.learning_rate") whose present value
            is named with it. Where that is None or missing the advice is passed over; True has no number to name.
            None for advice that is open to all.
        against: tuple of str, the signs it helps against, of `SIGNS`.
    """

    words: str
    setting: str | None = None
    against: tuple[str, ...] = ("complete", "dimensional", "cone")


LOWER_TEMPERATURE = Advice("a lower temperature", "temperature", ("complete", "dimensional", "cone", "chance"))


def advise(method, sign: str) -> list[str]:
    """What to try against a sign (of `SIGNS`), the most promising first: "a lower temperature (now 0.5)".

    A class's own advice comes before that of its bases.
    """
    tries = []
    for each in type(method).__mro__:
        for advice in vars(each).get("advice", ()):
            if sign in advice.against:
                value = True if advice.setting is None else _value(method, advice.setting)
                if value is True:
                    tries.append(advice.words)
                elif value is not None:
                    tries.append(f"{advice.words} (now {float(ops.convert_to_numpy(value)):g})")
    return tries


def _value(method, setting):
    """The attribute, or None."""
    try:
        return operator.attrgetter(setting)(method)
    except AttributeError:
        return None
