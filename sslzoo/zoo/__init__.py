"""The zoo: trained models as folders, loaded by name or path and checked byte by byte. This room only reads.

`index` pins names to bytes, `layout` names the files of a model folder, `results` says what its results.json may hold,
`reading` turns files into a model, and `hub` alone downloads. People call `loading` and `verification`. Names are
resolved on first use: `sslzoo list` imports neither Keras nor huggingface_hub.
"""

from sslzoo import lazy

_HOMES = {**dict.fromkeys(("load", "list_models", "info", "results_of"), "loading"), "verify": "verification"}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy.names(__name__, _HOMES)
