"""Training by recipe: `settings` says what numbers are in force, `run` holds one run, from folder to artefact."""

from sslzoo.training.run import PAPER_NETWORKS, RELEASED_NETWORKS, SETUPS, STRONG, Run, script

__all__ = ["PAPER_NETWORKS", "RELEASED_NETWORKS", "SETUPS", "STRONG", "Run", "script"]
