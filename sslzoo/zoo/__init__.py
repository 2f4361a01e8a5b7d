"""The zoo: trained models as folders, loaded by name or path and checked byte by byte. This room only reads.

`index` pins names to bytes, `layout` names the files of a model folder, `results` says what its results.json may hold,
`reading` turns files into a model, and `hub` alone downloads. People call `loading` and `verification`. Names are
resolved on first use: `sslzoo list` imports neither Keras nor huggingface_hub.
"""

import importlib

_HOMES = {
    "load": "loading",
    "list_models": "loading",
    "info": "loading",
    "results_of": "loading",
    "verify": "verification",
}

__all__ = sorted(_HOMES)


def __getattr__(name):
    if name not in _HOMES:
        raise AttributeError(f"module 'sslzoo.zoo' has no attribute {name!r}")
    return getattr(importlib.import_module(f"sslzoo.zoo.{_HOMES[name]}"), name)


def __dir__():
    return __all__
