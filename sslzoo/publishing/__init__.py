"""Trained models written as folders, with their card and their entry in the manifest, and put on the Hub.

    folder = sslzoo.publishing.write("runs/mine", encoder, dataset="my photos", license="cc-by-4.0")
    sslzoo.load(folder)
    sslzoo.publish(folder, "my-organisation/mine")

`artefact` writes folders, `card` and `citations` make their README, `manifest` enters them under their name, and
`hub_commit` sends them to the Hugging Face Hub.
"""

import importlib

_HOMES = {"publish": "hub_commit", "round_to_float16": "artefact", "seal": "artefact", "write": "artefact"}

__all__ = sorted(_HOMES)


def __getattr__(name):
    if name not in _HOMES:
        raise AttributeError(f"module 'sslzoo.publishing' has no attribute {name!r}")
    return getattr(importlib.import_module(f"sslzoo.publishing.{_HOMES[name]}"), name)


def __dir__():
    return __all__
