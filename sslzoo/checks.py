"""Checks of arguments, in one voice: "NAME must be ... Received: NAME=value".

Each takes the argument under its own name, so that a message can say it, and gives it back in the form that is kept
(several arguments come back as a tuple):

    self.temperature = checks.positive(temperature=temperature)
    self.queue_size = checks.count(queue_size=queue_size)

All raise `sslzoo.errors.InvalidInputError`.
"""

import math
import numbers

from sslzoo.errors import InvalidInputError

SEED_LIMIT = 2**31  # what every backend's seed type holds
_LEAST = 2.0**-126  # of positive numbers; below it float32 loses digits, and 1 / x overflows


def is_number(value) -> bool:
    """Whether it is a real number, of Python or NumPy; True and False are not."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def is_integer(value) -> bool:
    """Whether it is an integer, of Python or NumPy; True and False are not."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_pair(value) -> bool:
    """Whether it is a tuple or a list of two."""
    return isinstance(value, (tuple, list)) and len(value) == 2


def values(images, low: float = 0.0, high: float = 255.0, name: str = "images", strict: bool = True) -> "str | None":
    """Raw images (an array or tensor) against the values that are black and white to whoever takes them.

    Nothing lies beyond 0..255 and 0..1. Other ranges were read off images (`sslzoo.data.value_range`), whose brightest
    and darkest values lie beyond, and so may whole empty regions: a tenth must lie within.

    Returns:
        A remark on images that fill less than a hundredth of `low..high`, as images in 0..1 do; None of all others.

    Raises:
        InvalidInputError: if `strict`, values outside the range, NaN or infinite ones.
    """
    whole = strict and not (low <= 0 and high >= 255 and str(images.dtype) in ("uint8", "torch.uint8"))
    some = images if whole and hasattr(images, "min") else images[:1000]  # what is read from files is not read twice
    some = some if hasattr(some, "min") else array(some)
    least, most = float(some.min()), float(some.max())
    received = f"Received: {name} in {least:g}..{most:g}"
    if whole and not math.isfinite(most - least):
        raise InvalidInputError(f"{name} must be finite. {received}")
    if whole and (least < low or most > high):
        some = array(some[:1000])
        if (low, high) in ((0, 255), (0, 1)) or ((some < low) | (some > high)).mean() > 0.9:
            raise InvalidInputError(
                f"{name} must be values {low:g}..{high:g}: undo what standardized or scaled them. {received}"
            )
    if least < low or not low < most <= low + (high - low) / 100:
        return None
    return (
        f"{name} must be values {low:g}..{high:g}, and these are so small that all look black and get nearly the same "
        f"features: of images in 0..1, pass images * {high:g}. {received}"
    )


def array(values):
    """A NumPy array of anything that becomes one; tensors of PyTorch may need gradients, or be in bfloat16.

    Rows of differing lengths raise `InvalidInputError`, as everything here.
    """
    import numpy as np

    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = values.float() if str(values.dtype) == "torch.bfloat16" else values
    try:
        return np.asarray(values)
    except ValueError as error:
        raise InvalidInputError(f"Expected rows of one length. Received: {type(values).__name__} ({error})") from error


def number(least: float = -math.inf, most: float = math.inf, **arguments):
    """Finite numbers from `least` to `most`, unchanged."""
    if most < math.inf:
        needed = f"a number from {least:g} to {most:g}"
    else:
        needed = "a number" if least == -math.inf else f"a number >= {least:g}"
    return _each(arguments, lambda value: is_number(value) and math.isfinite(value) and least <= value <= most, needed)


def positive(**arguments):
    """Finite numbers above 0 whose inverse float32 can hold, unchanged."""
    _each(arguments, lambda value: is_number(value) and 0 < value < math.inf, "a number > 0")
    return _each(arguments, lambda value: value >= _LEAST, f"a number of at least {_LEAST:g}, as float32 computes")


def fraction(**arguments):
    """Numbers from 0 to 1, unchanged."""
    return number(0, 1, **arguments)


def count(least: int = 1, **arguments):
    """Integers of at least `least`, as int."""
    return _each(arguments, lambda value: is_integer(value) and value >= least, f"an integer >= {least}", int)


def switch(**arguments):
    """True or False, of Python or NumPy, as bool."""
    import numpy as np

    return _each(arguments, lambda value: isinstance(value, bool | np.bool_), "True or False", bool)


def seed(needed: bool = False, **arguments):
    """Seeds: integers from 0 to 2**31 - 1, as int, or None unless one is `needed`."""
    return _each(
        arguments,
        lambda value: not needed if value is None else is_integer(value) and 0 <= value < SEED_LIMIT,
        f"an integer from 0 to {SEED_LIMIT - 1}" + ("" if needed else ", or None"),
        lambda value: None if value is None else int(value),
    )


def interval(low: float, high: float, above: bool = False, **arguments):
    """Pairs (a, b) of finite numbers with low <= a <= b <= high, and low < a if `above`: tuples of float."""

    def fits(pair):
        good = is_pair(pair) and all(map(is_number, pair))
        good = good and all(map(math.isfinite, pair))
        return good and low <= pair[0] <= pair[1] <= high and not (above and pair[0] <= low)

    least = "" if low == -math.inf else f"{low:g} {'<' if above else '<='} "
    needed = f"(a, b), finite, with {least}a <= b"
    if high < math.inf:
        needed += f" <= {high:g}"
    return _each(arguments, fits, needed, lambda pair: (float(pair[0]), float(pair[1])))


def size(**arguments):
    """Sizes of images: an integer, (height, width), or None: None or a pair of int, each of at least 1."""

    def sides(value):
        return value if isinstance(value, (tuple, list)) else (value, value)

    def fits(value):
        return value is None or (len(sides(value)) == 2 and all(is_integer(n) and n >= 1 for n in sides(value)))

    return _each(
        arguments,
        fits,
        "an integer >= 1, (height, width), or None",
        lambda value: None if value is None else tuple(int(n) for n in sides(value)),
    )


def shape(rank: int | None = None, open_sides: bool = False, **arguments):
    """Shapes without the batch, all sizes known and at least 1 (of `rank` axes, if given): tuples of int.

    With `open_sides` (None, None, C) is one, too: images of any size.
    """

    def fits(value):
        if not isinstance(value, (tuple, list)) or not value:
            return False
        sides = value[2:] if open_sides and len(value) == 3 and tuple(value[:2]) == (None, None) else value
        return all(is_integer(n) and n >= 1 for n in sides) and (rank is None or len(value) == rank)

    expected = "(height, width, channels)" if rank == 3 else "a tuple such as (height, width, channels)"
    needed = f"{expected} of positive integers, without the batch"
    return _each(arguments, fits, needed, lambda value: tuple(n if n is None else int(n) for n in value))


def widths(**arguments):
    """Widths of layers, at least one of at least 1: tuples of int."""

    def fits(value):
        return isinstance(value, (tuple, list)) and bool(value) and all(is_integer(n) and n >= 1 for n in value)

    return _each(arguments, fits, "a tuple of positive integers", lambda value: tuple(int(n) for n in value))


def few(values) -> str:
    """The first five of some values, for a message."""
    return ", ".join(map(str, values[:5])) + (" ..." if len(values) > 5 else "")


def _each(arguments, fits, needed, kept=lambda value: value):
    """The one sentence."""
    for name, value in arguments.items():
        if not fits(value):
            raise InvalidInputError(f"{name} must be {needed}. Received: {name}={value!r}")
    values = tuple(kept(value) for value in arguments.values())
    return values[0] if len(values) == 1 else values
