"""Settings for every test: quiet backends, and tools in tests/ importable by name."""

import gc
import os
import signal
import sys
from pathlib import Path

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")  # the suite is about correctness and must be the same everywhere
sys.path.insert(0, str(Path(__file__).parent))
if hasattr(signal, "SIGHUP"):  # nohup ignores it, and runs leave an ignored signal alone; the suite sends it to itself
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_collection_finish(session):
    """Models are circles of references, and Python looks for dead ones the less often the more it holds that lives.

    What three backends hold once they are imported keeps it from looking at all: the suite grew to 9 GB.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def what_outlives_a_file():
    """Is what backends keep of each program they made: to look through all of it again took a tenth of the suite."""
    yield
    gc.collect()
    gc.freeze()
