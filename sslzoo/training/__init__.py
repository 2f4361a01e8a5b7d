"""Training by recipe.

`settings` says what numbers are in force and `flags` what the command line changes; `run` holds one run, from its
folder to its callbacks; `outcome` evaluates, draws and writes what came out.
"""

# ruff: noqa: E402 - Keras is asked for first, so that a recipe says in a line what is wrong with its backend
from sslzoo.environment import import_keras_for

import_keras_for("recipes")

from sslzoo.training.run import Run
from sslzoo.training.script import script
from sslzoo.training.settings import AIRNET, MI, PAPER, RELEASED, SETUPS, STRONG, VAE_AIRNET, VAE_PAPER, Per, Variant

__all__ = [
    "AIRNET",
    "MI",
    "PAPER",
    "RELEASED",
    "SETUPS",
    "STRONG",
    "VAE_AIRNET",
    "VAE_PAPER",
    "Per",
    "Run",
    "Variant",
    "script",
]
