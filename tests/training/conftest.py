"""What all tests of runs share."""

import pytest


@pytest.fixture(autouse=True)
def runs_draw_quickly(quick_plane):
    """Every run here."""
