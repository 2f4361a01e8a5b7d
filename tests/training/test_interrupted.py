"""Runs that are ended from outside, and go on: told to by a signal, or killed where callbacks remember something."""

import os
import shutil
import signal
import sys
from pathlib import Path

import h5py
import keras
import numpy as np
import pytest
from test_training import checkpoint, fused, rows, start_until_checkpoint, train

import sslzoo
from sslzoo import callbacks, errors, training

pytestmark = pytest.mark.slow

TIMING = ("seconds", "views_per_second", "cluster_seconds")
unix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")


class Killed(BaseException):
    """Which nobody catches on the way."""


def same(ours, theirs):
    """Raise unless two runs ended in one state, with one history."""
    (mine, my_note), (its, its_note) = checkpoint(ours), checkpoint(theirs)
    assert mine.keys() == its.keys() and my_note["epochs_done"] == its_note["epochs_done"]
    for key in mine:
        np.testing.assert_array_equal(mine[key], its[key], err_msg=key)
    for my_row, its_row in zip(rows(ours), rows(theirs), strict=True):
        assert {k: v for k, v in my_row.items() if k not in TIMING} == {
            k: v for k, v in its_row.items() if k not in TIMING
        }


def published(folder):
    """Arrays of a model's encoder."""
    held = {}
    with h5py.File(folder / "model.weights.h5") as file:
        file.visititems(lambda name, item: held.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None)
    return held


# ---------------------------------------------------------------- signals

RUN = ["--epochs", "12", "--num-views", "2"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nobody disturbed."""
    out = tmp_path_factory.mktemp("whole") / "run"
    train("simvae", out, *RUN)
    return out


@unix
@fused
def test_a_recipe_that_a_cluster_ends_leaves_a_model_and_goes_on_to_the_same_end(fused, whole, tmp_path):
    """Under JAX the same end, to the last bit, as of a run of single steps."""
    out = tmp_path / "run"
    process = start_until_checkpoint(out, *RUN, "--fuse-steps", str(fused))
    process.send_signal(signal.SIGTERM)
    told = process.communicate(timeout=300)[0]
    assert process.returncode == 0, told[-2000:]
    assert "Training was ended by SIGTERM, in epoch " in told and "Traceback" not in told
    assert sslzoo.load(out / "simvae-digits").output_shape == (None, 10)
    assert 1 <= checkpoint(out)[1]["epochs_done"] < 12
    folder = train("simvae", out, *RUN, "--resume")
    same(out, whole)
    expected = published(whole / "simvae-digits")
    assert expected.keys() == published(folder).keys()
    for name, array in published(folder).items():
        np.testing.assert_array_equal(array, expected[name], err_msg=name)


@unix
@fused
def test_signal_after_signal_costs_no_weight(fused, whole, tmp_path, monkeypatch):
    """SIGHUP in the second epoch, SIGUSR1 in the fourth, Ctrl-C in the sixth of a real recipe."""
    planned = {2: signal.SIGHUP, 4: signal.SIGUSR1, 6: signal.SIGINT}
    real = callbacks.Pace.on_train_batch_end

    def strike(pace, batch, logs=None):
        real(pace, batch, logs)
        number = planned.pop(13 - pace._left, None) if batch >= 3 else None
        if number is not None:
            os.kill(os.getpid(), number)

    monkeypatch.setattr(callbacks.Pace, "on_train_batch_end", strike)
    monkeypatch.setattr(training.Run, "finish", lambda run, model: None)
    for epochs in (1, 3, 5):
        train("simvae", tmp_path, *RUN, *(["--resume"] if epochs > 1 else ["--fuse-steps", fused]))
        assert checkpoint(tmp_path)[1]["epochs_done"] == epochs
    train("simvae", tmp_path, *RUN, "--resume")
    assert not planned
    same(tmp_path, whole)


@unix
@pytest.mark.parametrize("epochs", [1, 2])
def test_a_signal_while_monitors_look_costs_no_epoch(epochs, tmp_path, monkeypatch):
    real = callbacks.KNNMonitor.on_epoch_end

    def struck(monitor, epoch, logs=None):
        if epoch + 1 == epochs:
            os.kill(os.getpid(), signal.SIGTERM)
        real(monitor, epoch, logs)

    monkeypatch.setattr(callbacks.KNNMonitor, "on_epoch_end", struck)
    monkeypatch.setattr(training.Run, "finish", lambda run, model: None)
    train("simvae", tmp_path, "--epochs", 2, "--num-views", 2)
    assert checkpoint(tmp_path)[1]["epochs_done"] == len(rows(tmp_path)) == epochs


def test_a_timed_run_killed_before_its_first_checkpoint_goes_on_untimed(tmp_path, monkeypatch):
    """What is in the first checkpoint, and what the next reads it by, is settled when the run begins."""
    real, words = callbacks.Journal.on_epoch_end, ["--epochs", 3, "--num-views", 2, "--limit", 200]

    def train_until(last, *more):
        def killed(journal, epoch, logs=None):
            if epoch == last:
                raise Killed
            real(journal, epoch, logs)

        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(callbacks.Journal, "on_epoch_end", killed)
            train("simvae", tmp_path, *words, *more)

    train_until(0, "--max-minutes", 5)
    train_until(2, "--resume")
    train("simvae", tmp_path, *words, "--resume")
    assert checkpoint(tmp_path)[1]["epochs_done"] == 3


# ---------------------------------------------------------------- what callbacks remember


@pytest.mark.parametrize(
    ("name", "flags", "kept"),
    [
        ("deepcluster", ["--set", "clusters=10", "recluster_every=3"], {"cluster_nmi", "clusters_used"}),
        ("local_aggregation", ["--set", "clusters=10", "clusterings=2", "cluster_every=3"], {"cluster_nmi"}),
    ],
)
def test_histories_are_whole_after_resume(name, flags, kept, tmp_path, monkeypatch):
    """What was found when clusters were made stands in every row until they are made again, killed or not."""
    monkeypatch.setattr(training.Run, "finish", lambda run, model: None)
    flags = ["--epochs", "6", *flags]
    train(name, tmp_path / "whole", *flags)
    assert all(row[key] for row in rows(tmp_path / "whole")[-3:] for key in kept)

    def killed(journal, epoch, logs=None):
        if epoch == 4:  # the fifth epoch: one after clusters were made
            raise Killed
        real(journal, epoch, logs)

    real = callbacks.Journal.on_epoch_end
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(callbacks.Journal, "on_epoch_end", killed)
        train(name, tmp_path / "killed", *flags)
    assert checkpoint(tmp_path / "killed")[1]["epochs_done"] == 4
    train(name, tmp_path / "killed", *flags, "--resume")
    same(tmp_path / "killed", tmp_path / "whole")


def test_rollbacks_of_before_count_after_resume():
    guard = callbacks.DivergenceGuard(every=1, attempts=3)
    guard.resume([{"epoch": 1.0, "rollbacks": 2.0}])
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    guard.set_model(model)
    guard.on_train_begin()
    guard.on_epoch_begin(1)
    guard.on_train_batch_end(0, {"loss": float("nan")})
    logs = {}
    guard.on_epoch_end(1, logs)
    assert logs["rollbacks"] == 3
    with pytest.raises(errors.TrainingError, match="diverged again after 3 rollbacks"):
        guard.on_train_batch_end(1, {"loss": float("nan")})


def test_a_note_beside_the_model_is_told_before_training_goes_on(whole, tmp_path):
    out = Path(shutil.copytree(whole, tmp_path / "run"))
    (out / "simvae-digits" / "note.txt").write_text("mine")
    with pytest.raises(errors.ArtifactError, match=r"folder of its own.*note\.txt"):
        train("simvae", out, *RUN, "--resume")
    assert (out / "simvae-digits" / "note.txt").read_text() == "mine"


# ---------------------------------------------------------------- divergence


def test_w_mse_that_diverges_ends_in_one_error_on_every_backend(tmp_path):
    """Its Cholesky factors would raise errors of their own under TensorFlow and PyTorch."""
    with pytest.raises(errors.TrainingError, match=r"stopped being finite.*Received: invariance=nan"):
        train("wmse", tmp_path / "run", "--epochs", 3, "--learning-rate", 1e9)
    assert not list((tmp_path / "run").glob("checkpoint*.npz"))
