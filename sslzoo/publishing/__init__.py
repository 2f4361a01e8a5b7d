"""Trained models written as folders, with their card and their entry in the manifest, and put on the Hub.

    folder = sslzoo.publishing.write("runs/mine", encoder, dataset="my photos", license="cc-by-4.0")
    sslzoo.load(folder)
    sslzoo.publish(folder, "my-organization/mine")

`artifact` writes folders, `card` and `citations` make their README, `manifest` enters them under their name, and
`hub_commit` sends them to the Hugging Face Hub.
"""

from sslzoo import lazy

_HOMES = {"publish": "hub_commit", "round_to_float16": "artifact", "seal": "artifact", "write": "artifact"}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy.names(__name__, _HOMES)
