"""Public names and keywords in their old, British spelling: they work, and warn."""

import functools
import warnings
from collections.abc import Callable


def _warn(old, new):
    warnings.warn(f"{old} is {new} now.", DeprecationWarning, stacklevel=3)


def names(module: str, **values) -> Callable:
    """`__getattr__` of a module that has some of its functions and classes under old names, too."""

    def resolve(name):
        if name not in values:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        _warn(name, values[name].__name__)
        return values[name]

    return resolve


def keywords(**renamed: str) -> Callable:
    """A decorator of a function some of whose keywords had other names: old name -> new one."""

    def decorate(function):
        @functools.wraps(function)
        def call(*args, **kwargs):
            moved = {renamed[old]: kwargs.pop(old) for old in renamed if old in kwargs}
            for old in renamed:
                if renamed[old] in moved:
                    _warn(old, renamed[old])
            return function(*args, **kwargs, **moved)

        return call

    return decorate
