"""Recipes with several training steps in one program: the same weights, the same history, and how many is chosen."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import keras
import numpy as np
import pytest
from test_training import RECIPES, SMALL, checkpoint, recipe, rows, train

from sslzoo import errors, training
from sslzoo.training import fusing

BACKEND = keras.backend.backend()
ROOT = Path(__file__).parent.parent.parent
fuses = pytest.mark.skipif(BACKEND == "torch", reason="PyTorch has no program of several steps")
# 10 steps an epoch, which 4 does not divide
RUN = ["--epochs", "3", "--num-views", "3"]
TIMING = ("seconds", "views_per_second")


@pytest.fixture
def unmeasured(monkeypatch):
    """Runs end with training: what is measured afterwards is tested elsewhere."""
    monkeypatch.setattr(training.Run, "finish", lambda run, model: None)


def same(one, other):
    (ours, our_note), (theirs, their_note) = checkpoint(one), checkpoint(other)
    tolerance = 0 if BACKEND == "jax" else 1e-3
    assert ours.keys() == theirs.keys() and our_note["epochs_done"] == their_note["epochs_done"]
    for key in ours:
        np.testing.assert_allclose(ours[key], theirs[key], rtol=tolerance, atol=tolerance, err_msg=key)
    for mine, its in zip(rows(one), rows(other), strict=True):
        assert mine.keys() == its.keys() and mine["views"] == its["views"]
        for name in mine.keys() - set(TIMING):
            assert float(mine[name]) == pytest.approx(float(its[name]), rel=max(tolerance, 1e-12), abs=tolerance)


@fuses
@pytest.mark.parametrize("name", ["simvae", "swav"])
def test_a_fused_run_is_the_run(name, unmeasured, tmp_path, capsys):
    train(name, tmp_path / "single", "--epochs", 2, "--fuse-steps", 1)
    train(name, tmp_path / "fused", "--epochs", 2, "--fuse-steps", 4)
    assert "4 steps in a program" in capsys.readouterr().out
    same(tmp_path / "single", tmp_path / "fused")


@pytest.mark.slow
@fuses
def test_a_fused_run_that_is_killed_resumes_to_the_same_weights(unmeasured, tmp_path):
    arguments = [*SMALL, "--epochs", "12", "--num-views", "3", "--fuse-steps", "4"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    recipe("simvae").main([*arguments, "--out", str(whole)])
    command = [sys.executable, str(RECIPES / "simvae.py"), *arguments, "--out", str(killed)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment)
    deadline = time.monotonic() + 1800
    while not (killed / "checkpoint.npz").exists():
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()[1][-2000:]
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert 1 <= checkpoint(killed)[1]["epochs_done"] < 12
    assert json.loads((killed / "run.json").read_text())["fuse_steps"] == 4
    resumed = [word for word in arguments if word not in ("--fuse-steps", "4")]
    recipe("simvae").main([*resumed, "--out", str(killed), "--resume"])
    same(whole, killed)


def test_the_number_is_chosen_by_the_time_of_a_step(monkeypatch):
    dense = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    batch = (np.zeros((32, 28, 28, 1), "uint8"),)
    for seconds, expected in ((2.0, 1), (0.5, 1), (0.3, 1), (0.05, 10), (1e-4, 1870)):
        monkeypatch.setattr(fusing, "step_seconds", lambda model, batch, seconds=seconds: seconds)
        assert fusing.choose(dense, batch, 1870, 10) == (expected if BACKEND == "jax" else 1)
    assert fusing.choose(dense, batch, 9, 10) == 1  # too few to pay for the measuring
    images = keras.Sequential([keras.Input((8, 8, 3)), keras.layers.Conv2D(2, 3)])
    monkeypatch.setattr(fusing, "step_seconds", lambda *_: 1e-3)
    assert fusing.choose(images, batch, 1870, 10) == 1  # XLA's loops have slow convolutions on a CPU


def test_a_divisor_of_the_epoch_is_preferred_if_it_is_not_much_smaller():
    assert fusing.fitting(10, 10**6, 100) == 10
    assert fusing.fitting(11, 10**6, 100) == 10
    assert fusing.fitting(10, 10**6, 97) == 10
    assert fusing.fitting(10**9, 10**6, 97) == 97
    assert fusing.fitting(100, 7, 97) == 7
    assert fusing.fitting(0.2, 0, 97) == 1


@pytest.mark.skipif(BACKEND != "jax", reason="measured under JAX only")
def test_measuring_moves_nothing_and_a_run_fuses_by_itself(unmeasured, tmp_path, monkeypatch, capsys):
    train("simvae", tmp_path / "single", *RUN, "--fuse-steps", 1)
    monkeypatch.setattr(fusing, "FEW_STEPS", 1)
    measured, seconds = [], fusing.step_seconds
    monkeypatch.setattr(fusing, "step_seconds", lambda *arguments: measured.append(seconds(*arguments)) or 0.1)
    train("simvae", tmp_path / "chosen", *RUN)
    assert "5 steps in a program" in capsys.readouterr().out
    assert len(measured) == 1 and 0 < measured[0] < 60
    same(tmp_path / "single", tmp_path / "chosen")


def test_what_cannot_be_fused_is_refused(tmp_path):
    wrong = [(["--fuse-steps", "0"], r"--fuse-steps must be greater than 0\. Received: --fuse-steps=0")]
    if BACKEND == "torch":
        wrong.append((["--fuse-steps", "4"], r"PyTorch has no program of several steps.*Received: --fuse-steps=4"))
    else:
        wrong.append((["--fuse-steps", "4", "--views", "tf.data"], r"made on the device\. Received: --fuse-steps=4"))
    for arguments, message in wrong:
        with pytest.raises(errors.InvalidInputError, match=message):
            train("simvae", tmp_path / "run", *arguments)
    assert not (tmp_path / "run").exists()
