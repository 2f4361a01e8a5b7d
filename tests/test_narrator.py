"""What a run prints while it trains: at a terminal one line that does not wrap, elsewhere one for each epoch."""

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
from sslzoo import callbacks, environment, progress
from sslzoo.callbacks import narrator

ROOT = Path(sslzoo.__file__).parent.parent
LOGS = {
    "loss": 4.91,
    "alignment": -0.37,
    "contrast": 5.28,
    "knn": 0.931,
    "chance": 5.54,
    "health_std": 0.93,
    "health_rank": 9.1,
    "health_encoder_rank": 31.2,
    "health_alignment": 0.88,
    "health_uniformity": -2.9,
    "health_prototypes": 0.4,
    "energy_gap": 12.0,
}


class Terminal:
    """Standard output as a person sees it: the lines that stand there in the end, and how wide each ever was."""

    def __init__(self):
        self.text = ""

    def isatty(self):
        return True

    def write(self, text):
        self.text += text

    def flush(self):
        pass


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


def test_every_figure_is_told_once_the_loss_first():
    told = narrator.figures(LOGS, ("alignment", "contrast"))
    assert told[0] == "loss 4.91 (chance 5.54)" and told[1] == "kNN 93.1 %"
    line = ", ".join(told)
    for number in ("4.91", "-0.37", "5.28", "93.1", "5.54", "0.93", "9.1", "31.2", "0.88", "-2.9", "40 %", "12"):
        assert len(re.findall(rf"(?<![\d.]){re.escape(number)}(?![\d.])", line)) == 1, (number, line)
    assert line.count("alignment") == 1
    assert narrator.figures({"loss": 2.0, "reconstruction": 2.0}, ("reconstruction",)) == ["loss 2"]


def narrate(epochs=2, steps=50, **attributes):
    watch = callbacks.Narrator(("alignment", "contrast"))
    watch.EVERY = 0
    watch.set_params({"epochs": epochs, "steps": steps})
    for name, value in attributes.items():
        setattr(watch, name, value)
    for epoch in range(epochs):
        watch.on_epoch_begin(epoch)
        for batch in range(steps):
            watch.on_train_batch_end(batch, {"loss": 5.0 - batch / 100})
            if epoch == 0 and batch == 20:
                progress.say("About 3 s an epoch.")
        watch.on_epoch_end(epoch, LOGS)


def test_a_terminal_shows_one_line_for_each_epoch_that_does_not_wrap(monkeypatch):
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    monkeypatch.setenv("COLUMNS", "80")
    narrate()
    about, first, second, *rest = seen(terminal.text)
    assert about == "About 3 s an epoch." and rest == [""]
    assert first.startswith("epoch 1/2: ") and second.startswith("epoch 2/2: ")
    assert "loss 4.91 (chance 5.54), kNN 93.1 %" in first and "step" not in first and len(first) < 80
    assert "step 50 of 50, loss 4.51, 0 s left" in terminal.text


def test_elsewhere_lines_are_whole_and_a_long_epoch_is_heard_of(monkeypatch, capsys):
    narrate(epochs=1)
    out = capsys.readouterr().out
    assert "\r" not in out and out.count("\n") == 2 and "energy gap 12" in out and "prototypes" in out
    narrate(epochs=1, steps=3, UNWATCHED=0)
    assert "epoch 1/1, step 2 of 3, loss 4.99, " in capsys.readouterr().out


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
    assert all(line.startswith("On this machine") for line in lines[:begun]), lines[:begun]  # no log of a backend
    epochs = [row for row, line in enumerate(lines) if line.startswith("epoch ")]
    assert len(epochs) == 2 and all(len(lines[row]) < 80 and "loss" in lines[row] for row in epochs)
    between = lines[begun + 1 : epochs[-1] + 1]
    assert len(between) == 3 and sum(" an epoch, " in line for line in between) == 1, between
    for figure in re.findall(r"loss (\S+)", lines[epochs[0]]):
        assert sum(figure in line for line in lines) == 1


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
