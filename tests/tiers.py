"""Which parameters of a test belong to the default tier."""

import pytest


def tiered(values, default):
    """Parameters, those that are not in `default` marked slow."""
    return [value if value in default else pytest.param(value, marks=pytest.mark.slow) for value in values]
