"""Public names that are imported when they are first asked for: `import sslzoo` and `sslzoo list` load no Keras."""

import importlib
from collections.abc import Callable


def names(package: str, homes: dict[str, str]) -> tuple[Callable, Callable]:
    """`__getattr__` and `__dir__` of a package.

    Args:
        package: its `__name__`.
        homes: public name -> module of the package that has it; "" for a name that is a module.
    """

    def resolve(name):
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if not homes[name]:
            return importlib.import_module(f"{package}.{name}")
        return getattr(importlib.import_module(f"{package}.{homes[name]}"), name)

    return resolve, lambda: sorted(homes)
