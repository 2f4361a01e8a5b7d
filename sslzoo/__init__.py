"""sslzoo: self-supervised encoders in Keras 3, with recipes and pretrained weights.

    import sslzoo

    encoder = sslzoo.load("simvae-mnist")  # a plain Keras model: raw images in, representations out

`import sslzoo` itself loads neither Keras nor a backend: every public name is resolved on first use.
"""

from sslzoo import lazy

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
    "finetune": "downstream.finetuning",
    "Embedder": "downstream.embedder",
    "search": "evaluation",
    "compare": "downstream.comparison",
    "diagnose": "downstream.diagnosis",
    "explore": "downstream.exploring",
}
_ROOMS = {
    "augment",
    "callbacks",
    "checks",
    "data",
    "downstream",
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


__getattr__, __dir__ = lazy.names(__name__, {**_HOMES, **dict.fromkeys(_ROOMS, "")})
