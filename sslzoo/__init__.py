"""sslzoo: self-supervised encoders in Keras 3, with recipes and pretrained weights.

    import sslzoo

    encoder = sslzoo.load("simvae-mnist")  # a plain Keras model: raw images in, representations out

`import sslzoo` itself loads neither Keras nor a backend: every public name is resolved on first use.
"""

import importlib

__version__ = "0.1.0"

_HOMES = {
    "load": "zoo",
    "list_models": "zoo",
    "info": "zoo",
    "publish": "publishing",
    "verify": "zoo",
    "embed": "evaluation",
    "evaluate": "evaluation",
    "evaluate_features": "evaluation",
    "search": "evaluation",
}
_ROOMS = {
    "augment",
    "callbacks",
    "checks",
    "data",
    "errors",
    "evaluation",
    "files",
    "losses",
    "methods",
    "networks",
    "optimizers",
    "publishing",
    "training",
    "views",
    "zoo",
}

__all__ = sorted(["__version__", *_HOMES, *_ROOMS])


def __getattr__(name):
    if name in _HOMES:
        if _HOMES[name] == "evaluation":  # which imports Keras at once
            importlib.import_module("sslzoo.environment").check_backend()
        value = getattr(importlib.import_module(f"sslzoo.{_HOMES[name]}"), name)
    elif name in _ROOMS:
        value = importlib.import_module(f"sslzoo.{name}")
    else:
        raise AttributeError(f"module 'sslzoo' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__():
    return __all__
