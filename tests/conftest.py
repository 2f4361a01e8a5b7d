"""Settings for every test: quiet backends, a share of the cores for each worker, tools in tests/ importable by name."""

import gc
import os
import signal
import sys
from pathlib import Path

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")  # the suite is about correctness and must be the same everywhere
sys.path.insert(0, str(Path(__file__).parent))
CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
worker = os.environ.get("PYTEST_XDIST_WORKER")
if worker and hasattr(os, "sched_setaffinity"):
    # Threads of backends that share cores wait for each other: two workers on two cores took half as long again.
    number, count = int(worker.removeprefix("gw")), int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    os.sched_setaffinity(0, CORES[number % len(CORES) :: count])
if hasattr(signal, "SIGHUP"):  # nohup ignores it, and runs leave an ignored signal alone; the suite sends it to itself
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_xdist_auto_num_workers(config):
    """One for each core that is ours, four at most: each holds a backend of its own, up to 2 GB."""
    return min(len(CORES), 4)


def pytest_terminal_summary(terminalreporter, config):
    """Says how to run the rest."""
    if config.option.markexpr == "not slow":
        terminalreporter.write_line('Tests marked slow were left out; python -m pytest -m "" runs them all.')


def pytest_collection_finish(session):
    """Models are circles of references, and Python looks for dead ones the less often the more it holds that lives.

    What three backends hold once they are imported keeps it from looking at all: the suite grew to 9 GB.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture
def quick_plane(monkeypatch):
    """Runs draw without t-SNE, which takes longer than a small run; tests of pictures have it."""
    from sslzoo.evaluation import pictures

    real = pictures._in_the_plane
    monkeypatch.setattr(pictures, "_in_the_plane", lambda features, seed: real(features[:, :2], seed))


@pytest.fixture(scope="module", autouse=True)
def what_outlives_a_file():
    """Is what backends keep of each program they made: to look through all of it again took a tenth of the suite."""
    yield
    gc.collect()
    gc.freeze()
