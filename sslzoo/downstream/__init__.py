"""What one does with an encoder: fine-tune, classify, compare, diagnose, explore."""

import sslzoo.backend  # noqa: F401 - before Keras
from sslzoo import lazy

_HOMES = {
    "Comparison": "comparison",
    "Diagnosis": "diagnosis",
    "Embedder": "embedder",
    "FunctionEncoder": "encoders",
    "Prediction": "prediction",
    "Ranking": "ranking",
    "as_encoder": "encoders",
    "compare": "comparison",
    "diagnose": "diagnosis",
    "explore": "exploring",
    "finetune": "finetuning",
    "predict": "prediction",
    "rank": "ranking",
}

__all__ = list(_HOMES)


__getattr__, __dir__ = lazy.names(__name__, _HOMES)
