"""What a run prints while it trains, and what backends must not print between."""

import importlib.util
import logging
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import sslzoo
from sslzoo import environment

ROOT = Path(sslzoo.__file__).parent.parent


def seen(text, width=80):
    """What stands on a terminal of that width: lines as they are in the end."""
    lines, at = [""], 0
    for letter in text:
        if letter == "\n":
            lines.append("")
            at = 0
        elif letter == "\r":
            at = 0
        else:
            assert at < width, f"wrapped: {lines[-1]!r}"
            lines[-1] = lines[-1][:at].ljust(at) + letter + lines[-1][at + 1 :]
            at += 1
    return [line.rstrip() for line in lines]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("pty") is None, reason="Windows has none")
def test_a_recipe_at_a_terminal(tmp_path):
    import pty

    ours, theirs = pty.openpty()
    words = ["--limit", "240", "--batch-size", "24", "--epochs", "2", "--protocols", "knn", "--out", tmp_path / "run"]
    environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "TF_CPP_MIN_LOG_LEVEL")}
    recipe = subprocess.Popen(
        [sys.executable, ROOT / "recipes" / "vicreg.py", *words],
        env={**environment, "PYTHONPATH": str(ROOT)},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    text, deadline = b"", time.monotonic() + 500
    while time.monotonic() < deadline:
        try:
            chunk = os.read(ours, 4096)
        except OSError:  # the recipe has ended
            break
        if not chunk:
            break
        text += chunk
    os.close(ours)
    text = text.decode()
    assert recipe.wait(60) == 0, text[-2000:]
    lines = seen(text, width=10**6)
    begun = next(row for row, line in enumerate(lines) if "steps x 2 epochs" in line)
    assert lines[0].startswith(f"vicreg-digits (zoo) goes to {tmp_path / 'run'}, by the "), lines[:begun]
    assert all(line.startswith("On this machine") for line in lines[1:begun]), lines[:begun]  # no log of a backend
    assert sum(line.startswith("Epoch ") for line in lines) == 2 and sum(" an epoch, " in line for line in lines) == 1
    assert sum(bool(re.search(r"loss: .*knn: .*health_rank: ", line)) for line in lines) == 2, lines[begun:]


def test_tensorflows_count_of_retracing_over_all_models_is_not_shown_and_its_other_warnings_are(monkeypatch):
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    logger, shown = logging.getLogger("tensorflow"), []
    monkeypatch.setattr(logger, "filters", [])
    monkeypatch.setattr(logger, "handlers", [handler := logging.Handler()])
    handler.emit = lambda record: shown.append(record.getMessage())
    environment.quiet_backends()
    logger.warning("%d out of the last %d calls to %s triggered tf.function retracing. Tracing is ...", 5, 11, "f")
    logger.warning("Gradients do not exist for variables %s", ["w"])
    assert shown == ["Gradients do not exist for variables ['w']"]
