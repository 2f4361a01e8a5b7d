"""The zoo: trained models as folders, found by name, checked byte by byte, published.

`artefact` writes and reads a model's folder, whose files `layout` names and whose numbers `results` describes; `card`
makes its README; `manifest` pins names to bytes; `hub` alone talks to the Hugging Face Hub. `loading`, `publishing` and
`verification` are what people call. Names are resolved on first use: `sslzoo list` imports neither Keras nor
huggingface_hub.
"""

import importlib

_HOMES = {
    "load": "loading",
    "list_models": "loading",
    "info": "loading",
    "results_of": "loading",
    "publish": "publishing",
    "verify": "verification",
}

__all__ = sorted(_HOMES)


def __getattr__(name):
    if name not in _HOMES:
        raise AttributeError(f"module 'sslzoo.zoo' has no attribute {name!r}")
    return getattr(importlib.import_module(f"sslzoo.zoo.{_HOMES[name]}"), name)


def __dir__():
    return __all__
