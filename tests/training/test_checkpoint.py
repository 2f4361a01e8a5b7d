"""Checkpoints beside training: taken at once, written by a thread, whole at any moment."""

import threading

import keras
import numpy as np
import pytest
from test_training import keeper_of

from sslzoo.callbacks import Stopwatch
from sslzoo.callbacks import checkpoint as checkpoints
from sslzoo.errors import ArtifactError, TrainingError
from sslzoo.training import folder


class Disk:
    """`write_beside` of a disk that waits until it is let, and may be full."""

    def __init__(self):
        self.let, self.asked = threading.Event(), threading.Event()
        self.write, self.full = checkpoints.write_beside, False

    def __call__(self, path, content):
        self.asked.set()
        self.let.wait()
        if self.full:
            raise OSError(28, "No space left on device", str(path))
        return self.write(path, content)


@pytest.fixture
def slow(tmp_path, monkeypatch):
    """A checkpoint whose disk waits, and its model, in a training of nine epochs."""
    keeper, model = keeper_of(tmp_path)
    disk = Disk()
    monkeypatch.setattr(checkpoints, "write_beside", disk)
    keeper.set_params({"epochs": 9, "steps": 1})
    yield keeper, model, disk
    disk.let.set()
    keeper._thread.shutdown()


def end_epoch(keeper, model, epoch):
    model.set_weights([np.full((2, 1), epoch), np.zeros(1)])
    keeper.on_epoch_end(epoch - 1)


def test_seconds_of_before_count_and_speed_is_that_of_an_epoch(tmp_path, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(checkpoints.time, "monotonic", lambda: now[0])
    keeper, model = keeper_of(tmp_path)
    journal = keeper.journal
    journal.views_per_step = 32

    def train(epochs):
        journal.on_train_begin()
        for epoch in epochs:
            journal.on_epoch_begin(epoch)
            for batch in range(10):
                journal.on_train_batch_begin(batch)
                journal.on_train_batch_end(batch)
            now[0] += 2.0
            journal.on_epoch_end(epoch)

    train(range(2))
    assert [row["views_per_second"] for row in journal.rows] == [160.0, 160.0]
    assert [(row["views"], row["seconds"]) for row in journal.rows] == [(320, 2.0), (640, 4.0)]
    keeper.write(2)
    keeper.on_train_end()
    now[0] += 500.0  # between two processes
    again, model = keeper_of(tmp_path)
    assert again.restore(model) == 2 and again.journal.seconds() == 4.0


def test_training_goes_on_while_the_disk_is_busy_and_the_latest_epoch_is_kept(slow):
    keeper, model, disk = slow
    end_epoch(keeper, model, 1)
    assert disk.asked.wait(60)
    for epoch in (2, 3, 4):
        end_epoch(keeper, model, epoch)
    model.set_weights([np.full((2, 1), 99), np.zeros(1)])  # later steps change nothing of what was taken
    assert not keeper.path.exists()
    disk.let.set()
    keeper.on_train_end()
    assert keeper.restore(model) == 4
    np.testing.assert_array_equal(model.get_weights()[0], [[4], [4]])
    keeper.path.unlink()
    assert keeper.restore(model) == 1  # the one before; those between were overtaken


def test_a_step_in_place_changes_nothing_of_what_was_taken(slow):
    keeper, model, disk = slow
    end_epoch(keeper, model, 1)
    x = np.ones((8, 2), "float32")
    model.fit(x, np.full(8, 7.0), verbose=0)
    disk.let.set()
    keeper.on_train_end()
    keeper.restore(model)
    np.testing.assert_array_equal(model.get_weights()[0], [[1], [1]])


@pytest.mark.parametrize("when", ["at the next epoch", "at the end"])
def test_a_full_disk_is_told_and_the_checkpoint_before_stays(when, slow):
    keeper, model, disk = slow
    disk.let.set()
    end_epoch(keeper, model, 1)
    keeper.wait()
    good, disk.full = keeper.path.read_bytes(), True
    end_epoch(keeper, model, 2)
    with pytest.raises(OSError, match="No space left"):
        if when == "at the end":
            keeper.on_train_end()
        else:
            keeper._thread.submit(int).result()  # the thread is done with what came before
            end_epoch(keeper, model, 3)
    assert keeper.path.read_bytes() == good
    disk.full = False
    end_epoch(keeper, model, 4)
    keeper.on_train_end()
    assert keeper.restore(model) == 4


def test_every_few_epochs_and_the_last_are_kept(slow, monkeypatch):
    keeper, model, disk = slow
    disk.let.set()
    keeper.every, taken = 4, []
    monkeypatch.setattr(keeper, "_take", taken.append)
    for epoch in range(1, 10):
        keeper.on_epoch_end(epoch - 1)
    assert taken == [4, 8, 9]
    model.stop_training = True  # by another callback, at the end of a whole epoch
    keeper.on_epoch_end(5)
    assert taken == [4, 8, 9, 6]
    keeper.stopwatch.ended = "minutes"  # in the middle of one
    keeper.on_epoch_end(6)
    assert taken == [4, 8, 9, 6]


@pytest.mark.parametrize(("fused", "calls", "epochs"), [(1, 3, 1), (1, 4, 2), (1, 5, 2), (2, 1, 1), (2, 2, 2)])
def test_an_epoch_that_ends_with_training_is_whole(fused, calls, epochs, tmp_path):
    """What ends it may come in its last step; epochs of two steps, in one program or two."""
    if fused > 1 and keras.backend.backend() == "torch":
        pytest.skip("under PyTorch Keras makes one step after the other")
    journal = checkpoints.Journal(tmp_path / "h.csv", 4)
    stopwatch = Stopwatch()
    keeper = checkpoints.Checkpoint(tmp_path / "checkpoint.npz", journal, stopwatch)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse", steps_per_execution=fused)
    made = []

    class Ends(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            made.append(batch)
            if len(made) == calls:
                stopwatch.stop("signal", "Training was ended")

    x = np.zeros((8, 2), "float32")
    model.fit(x, x[:, :1], batch_size=4, epochs=5, verbose=0, callbacks=[stopwatch, Ends(), journal, keeper])
    assert stopwatch.ended == "signal" and keeper.restore(model) == epochs


def test_copies_that_take_long_are_taken_less_often(slow, monkeypatch):
    keeper, _, _ = slow
    now, taken = [100.0], []
    monkeypatch.setattr(checkpoints.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(keeper, "_take", taken.append)
    keeper._taken, keeper._seconds = 100.0, 2.0
    for epoch, now[0] in enumerate((110.0, 139.0, 140.0), 1):
        keeper.on_epoch_end(epoch - 1)
    assert taken == [3]  # 2 of 40 seconds are a twentieth
    keeper._seconds = 0.9
    keeper.on_epoch_end(3)
    assert taken == [3, 4]


@pytest.mark.parametrize("every", [0, -1, 2.5])
def test_a_wrong_number_of_epochs_is_refused(every, tmp_path):
    with pytest.raises(ValueError, match=f"Received: every={every}"):
        checkpoints.Checkpoint(tmp_path / "checkpoint.npz", None, None, every)


def test_the_seconds_of_several_fits_add_up(tmp_path):
    journal = checkpoints.Journal(tmp_path / "h.csv", 4)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x = np.ones((8, 2), "float32")
    assert journal.seconds() == 0
    for start in (0, 2):
        before = journal.seconds()
        model.fit(x, x[:, :1], epochs=start + 2, initial_epoch=start, verbose=0, callbacks=[journal])
        assert journal.seconds() == journal.seconds() > before  # it stands still between them
    seconds = [row["seconds"] for row in journal.rows]
    assert seconds == sorted(seconds) and len(seconds) == 4


def test_all_of_fit_is_kept(tmp_path):
    keeper, model = keeper_of(tmp_path)
    x = np.ones((8, 2), "float32")
    model.fit(x, np.zeros(8), epochs=3, verbose=0, callbacks=[keeper])
    weights = model.get_weights()
    assert keeper.restore(model) == 3
    for one, other in zip(model.get_weights(), weights):
        np.testing.assert_array_equal(one, other)


def test_a_loss_that_is_not_finite_is_not_kept(tmp_path):
    """It may leave the weights as they were, as an index beyond a bank does."""
    keeper, model = keeper_of(tmp_path)
    keeper.set_params({"epochs": 9, "steps": 1})
    keeper.on_epoch_end(0, {"loss": 1.0})
    keeper.wait()
    with pytest.raises(TrainingError, match=r"in epoch 2.*Received: loss=nan"):
        keeper.on_epoch_end(1, {"loss": float("nan")})
    keeper.wait()
    assert keeper.restore(model) == 1


def test_images_may_lie_elsewhere_when_a_run_goes_on_but_must_be_the_same():
    begun = {"dataset": "jobs/101/photos", "images": {"count": 9, "sha256": "ab"}, "settings": {"epochs": 4}}
    moved = begun | {"dataset": "jobs/102/photos"}
    assert folder.compare(begun, moved, "run")["dataset"] == "jobs/102/photos"
    other = moved | {"images": {"count": 9, "sha256": "cd"}}
    with pytest.raises(ArtifactError, match=r"dataset='jobs/102/photos' .*images\.sha256='cd' \(was 'ab'\)"):
        folder.compare(begun, other, "run")
