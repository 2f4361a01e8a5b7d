"""CHECKS"""

import math

from sslzoo.errors import InvalidInputError


def check_number(name, value, low, high):
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise InvalidInputError(f"Expected `{name}` as a number in [{low}, {high}]. Received: {name}={value!r}")
    return float(value)


def check_probability(value):
    return check_number("probability", value, 0.0, 1.0)


def check_interval(name, value, low, high, above=False):
    """(a, b) with low <= a <= b <= high; low < a if `above`."""
    good = isinstance(value, (tuple, list)) and len(value) == 2 and all(isinstance(v, (int, float)) for v in value)
    if not good or not low <= value[0] <= value[1] <= high or (above and value[0] <= low) or math.isinf(value[1]):
        bracket = "(" if above else "["
        raise InvalidInputError(
            f"Expected `{name}` as (low, high) with low <= high, in {bracket}{low}, {high}]. Received: {name}={value!r}"
        )
    return (float(value[0]), float(value[1]))


def check_factor(name, value):
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0:
        return (max(0.0, 1.0 - value), 1.0 + value)
    return check_interval(name, value, 0.0, math.inf)


def check_channels(name, value, low):
    values = value if isinstance(value, (tuple, list)) else [value]
    if not values or not all(isinstance(v, (int, float)) and not isinstance(v, bool) and v >= low for v in values):
        raise InvalidInputError(
            f"Expected `{name}` as a number >= {low}, or one per channel. Received: {name}={value!r}"
        )
    return tuple(float(v) for v in values) if isinstance(value, (tuple, list)) else float(value)


def check_size(size):
    """None, or (height, width)."""
    if size is None:
        return None
    sides = size if isinstance(size, (tuple, list)) else (size, size)
    if len(sides) != 2 or not all(isinstance(s, int) and not isinstance(s, bool) and s >= 1 for s in sides):
        raise InvalidInputError(f"Expected `size` as an int or (height, width), at least 1. Received: size={size!r}")
    return tuple(sides)


def check_reflection(pixels, shape):
    if min(tuple(shape)[-3:-1]) <= pixels:
        raise InvalidInputError(
            f"Expected images with sides above {pixels} pixels, since that many are reflected at the border. "
            f"Received: images.shape={tuple(shape)}"
        )
