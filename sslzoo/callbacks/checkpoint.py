"""What a run keeps of itself: its checkpoint, its journal, and figures for TensorBoard."""

import collections
import csv
import io
import json
import math
import os
import shutil
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import keras
import numpy as np
from ml_dtypes import bfloat16  # a dependency of Keras

from sslzoo import checks, processes
from sslzoo.callbacks.ending import Stopwatch
from sslzoo.errors import ArtifactError, InvalidInputError, TrainingError
from sslzoo.evaluation.report import versions
from sslzoo.files import as_path, move, write_beside
from sslzoo.methods.steps import StepCounter
from sslzoo.progress import say


class Checkpoint(keras.callbacks.Callback):
    """Keeps everything a run is made of after its epochs, so that a killed run goes on as if it never stopped.

    One `.npz` holds every variable of model and optimizer, the states of all random generators among them (which
    Keras' own model files and `BackupAndRestore` leave out), the number of finished epochs, and the journal. The
    order of the data is a function of seed and epoch, so it needs no state. Of several processes the first writes it.

    Training waits only until the state is copied; a thread writes it, and of epochs that end while it is at work the
    latest only. The copy takes the memory of the model and its optimizer up to three times.

    Neither an epoch with a loss or weights that are not finite nor one cut short is written: the file on disk stays
    the last good one, from which the cut epoch is run again whole. The one before it is kept too, as
    `checkpoint.previous.npz`, and taken if the disk has damaged the newer.

    Example:
        import numpy as np
        from sslzoo import callbacks, methods, networks, views

        images = np.random.default_rng(0).integers(0, 256, (64, 8, 8, 1)).astype("uint8")
        encoder = networks.encoder("mlp-small", (8, 8, 1), 10)
        model = methods.SimCLR(encoder, views=views.Views("simvae-digits", 2))
        model.compile("adam")
        journal, stopwatch = callbacks.Journal("history.csv", views_per_step=32), callbacks.Stopwatch()
        checkpoint = callbacks.Checkpoint("checkpoint.npz", journal, stopwatch)
        start = checkpoint.restore(model)  # 0, or the epochs that an earlier run has finished
        model.fit(images, batch_size=16, initial_epoch=start, verbose=0, callbacks=[stopwatch, journal, checkpoint])

    Args:
        path: str or Path of the file.
        journal: `Journal` of the run, which stands before this callback.
        stopwatch: `Stopwatch` of the run, which knows whether an epoch was cut short, and stands before this callback.
        every: int, epochs between two checkpoints; the last epoch is always kept, unless it was cut short. None: each,
            but copies that take more than a second are made a twentieth of the time at most.

    Attributes:
        remarks: list of str, what there is to say of a checkpoint that was restored.

    Raises:
        TrainingError: at the end of an epoch, a loss or weights that are not finite.
        OSError: at the next checkpoint or at the end of training, one that could not be written.
    """

    def __init__(self, path: "str | Path", journal: "Journal", stopwatch: Stopwatch, every: int | None = None):
        super().__init__()
        if every is not None:
            checks.count(every=every)
        self.every = every
        self.path = as_path(path)
        self.previous = self.path.with_name(f"{self.path.stem}.previous{self.path.suffix}")
        self.remarks, self._is_damaged = [], False  # whether the newest file is
        self.journal = journal
        self.stopwatch = stopwatch

        self._taken, self._seconds = time.monotonic(), 0.0
        self._waiting = collections.deque(maxlen=1)
        self._thread, self._writes = ThreadPoolExecutor(1), []

    def on_epoch_end(self, epoch, logs=None):
        loss = (logs or {}).get("loss", 0.0)
        if not np.isfinite(loss):  # which may leave the weights as they were
            raise TrainingError(
                f"The loss stopped being finite in epoch {epoch + 1}: try a lower learning rate, or float32. The last "
                f"good checkpoint was kept. Received: loss={loss}"
            )
        watches = getattr(self.journal, "_model", None) is self._model
        if watches and [row["epoch"] for row in self.journal.rows[-1:]] != [epoch + 1]:
            raise InvalidInputError(
                "Checkpoint keeps the rows of its journal, so it must stand behind it among the callbacks. "
                f"Received: no row of epoch {epoch + 1}"
            )
        if (self.stopwatch.whole or not self.stopwatch.ended) and self._is_due(epoch + 1):
            self._take(epoch + 1)

    def on_train_end(self, logs=None):
        self.wait()

    def release(self):
        """What `fit` calls where it raises: waits for what is being written, and says if it could not be."""
        try:
            self.wait()
        except OSError as error:
            warnings.warn(f"The last checkpoint could not be written. {error}", stacklevel=2)

    def _is_due(self, epochs_done):
        if epochs_done == self.params["epochs"] or self._model.stop_training:
            return True
        if self.every:
            return epochs_done % self.every == 0
        pays = self._seconds < 1 or time.monotonic() - self._taken >= 20 * self._seconds
        return bool(processes.of_first([pays])[0])

    def write(self, epochs_done: int) -> None:
        """Writes the checkpoint, `epochs_done` epochs after the start of the run, and waits until it is written."""
        self._take(epochs_done)
        self.wait()

    def wait(self) -> None:
        """Waits until what was taken is written.

        Raises:
            OSError: it could not be.
        """
        while self._writes:
            self._writes.pop(0).result()

    def _take(self, epochs_done):
        """Copies the state, which the thread will write."""
        while self._writes and self._writes[0].done():
            self._writes.pop(0).result()
        began, arrays = time.monotonic(), {}
        for index, variable in enumerate(_variables(self.model)):
            # A copy: what NumPy is shown may be the memory that the next step writes to.
            array = arrays[f"{index:05d}"] = np.array(keras.ops.convert_to_numpy(variable))
            if not _is_finite(array):
                raise TrainingError(
                    f"The weights stopped being finite in epoch {epochs_done}: try a lower learning rate, or float32. "
                    f"The last good checkpoint was kept. Received: {variable.path}"
                )
        self._taken = time.monotonic()
        self._seconds = self._taken - began
        note = {
            "epochs_done": epochs_done,
            "rows": self.journal.rows,
            "seconds": self.journal.seconds(),
            "versions": versions(),
        }
        if processes.index() > 0:
            return
        self._waiting.append((json.dumps(note), arrays))
        self._writes.append(self._thread.submit(self._write_waiting))

    def _write_waiting(self):
        """Writes what was taken last; nothing if an earlier call did."""
        try:
            note, arrays = self._waiting.pop()
        except IndexError:
            return
        buffer = io.BytesIO()
        np.savez(buffer, note=np.array(note), **arrays)
        if self.path.exists() and not self._is_damaged:  # which would take the place of the one that is whole
            self._keep()
        write_beside(self.path, buffer.getbuffer())
        self._is_damaged = False

    def _keep(self):
        """Gives the newest checkpoint a second name, under which it stays when the next one takes its place."""
        beside = self.previous.with_name(f".{self.previous.name}.{os.getpid()}.part")
        beside.unlink(missing_ok=True)
        try:
            os.link(self.path, beside)
        except OSError:  # a file system without links
            shutil.copyfile(self.path, beside)
        move(beside, self.previous)

    def restore(self, model: keras.Model) -> int:
        """Put the file's state into a compiled model and the journal.

        Returns:
            int, the number of epochs the file's run had finished; 0 where there is no file yet.

        Raises:
            ArtifactError: the file is damaged, or was written by another model.
        """
        files = [path for path in (self.path, self.previous) if path.exists()]
        if not files:
            return 0
        variables = _variables(model)
        note, arrays = self._read(files)
        if [array.shape for array in arrays] != [tuple(variable.shape) for variable in variables]:
            raise ArtifactError(
                f"The checkpoint belongs to another model: expected {len(variables)} variables with the shapes of this "
                f"one. Received: {len(arrays)} arrays in path={self.path}"
            )
        for variable, array in zip(variables, arrays):
            variable.assign(array)
        self.journal.rows = note["rows"]
        self.journal.seconds_before = note["seconds"]
        theirs, ours = note.get("versions", {}), versions()
        changed = [
            f"{name} {theirs.get(name, '?')} before, {version} now"
            for name, version in ours.items()
            if theirs and theirs.get(name) != version
        ]
        if changed:
            self.remarks.append(f"The run was resumed with other versions: {', '.join(changed)}.")
        return note["epochs_done"]

    def _read(self, paths):
        """Note and arrays of the first of these files that is whole."""
        faults = []
        for path in paths:
            try:
                with np.load(path, allow_pickle=False) as data:
                    note = json.loads(str(data["note"]))
                    arrays = [_typed(data[name]) for name in sorted(set(data.files) - {"note"})]
                _check_note(note)
                _check_arrays(arrays)
            except Exception as error:
                faults.append(f"{path.name}: {str(error) or type(error).__name__}")
                continue
            if faults:
                self._is_damaged, done = True, note["epochs_done"]
                self.remarks.append(f"The newest checkpoint was damaged; the run went on after epoch {done}.")
            return note, arrays
        raise ArtifactError(
            f"The checkpoint cannot be read ({'; '.join(faults)}). Delete it to start over. Received: path={self.path}"
        )


def _check_note(note):
    """Raises unless a note is one that `Checkpoint.write` writes: as many epochs as rows of the journal."""
    done, rows, seconds = note["epochs_done"], note["rows"], note["seconds"]
    if not (checks.is_integer(done) and done >= 1 and checks.is_number(seconds) and math.isfinite(seconds)):
        raise ValueError(f"a note of {done!r} epochs and {seconds!r} seconds")
    if not all(isinstance(row, dict) and checks.is_number(row.get("views")) for row in rows):
        raise ValueError("rows that are none")
    if rows and rows[-1].get("epoch") != done:
        raise ValueError(f"{done:,} epochs, and a journal of {rows[-1].get('epoch')}")


def _check_arrays(arrays):
    """Raises unless all are finite numbers, as those are that `Checkpoint.write` keeps."""
    for array in arrays:
        if array.dtype.kind not in "fiubV":  # V: bfloat16, float8
            raise ValueError("arrays that are no numbers")
        if not _is_finite(array):
            raise ValueError("weights that are not finite")


def _is_finite(array):
    """Whether all numbers are. bfloat16 is none of NumPy's own types of them."""
    return not (array.dtype.kind == "f" or array.dtype == bfloat16) or bool(np.isfinite(array).all())


def _typed(array):
    """An array as it was written: bfloat16 comes out of an `.npz` as two bytes of no type."""
    return array.view(bfloat16) if array.dtype.str == "|V2" else array


def _variables(model):
    if getattr(model, "optimizer", None) is None:
        raise InvalidInputError("A checkpoint holds the optimizer: compile the model first. Received: no optimizer")
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
    return [*model.variables, *model.optimizer.variables]


class Journal(StepCounter):
    """Keeps one row per epoch (terms, monitor, seconds, views per second) and writes them as `history.csv`.

    Unlike `CSVLogger` it is part of the checkpoint, so a resumed run has one history without gaps or doubles. Of
    several processes the first writes it.

    Example:
        from sslzoo import callbacks

        journal = callbacks.Journal("history.csv", views_per_step=32)  # then: model.fit(images, callbacks=[journal])

    Args:
        path: str or Path of the CSV file.
        views_per_step: int, views the networks see in one step.

    Attributes:
        rows: list of dict, one per epoch, an epoch cut short included: terms, `views` and `seconds` so far, speed.
    """

    def __init__(self, path: "str | Path", views_per_step: int):
        super().__init__()
        self.path = as_path(path)
        self.views_per_step = views_per_step
        self.rows = []
        self.seconds_before, self._began = 0.0, None

    def seconds(self):
        """Wall time of training so far in seconds, earlier calls of `fit` and resumed runs included."""
        return self.seconds_before + (0.0 if self._began is None else time.monotonic() - self._began)

    def on_train_begin(self, logs=None):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._began = time.monotonic()

    def on_train_end(self, logs=None):
        self.seconds_before, self._began = self.seconds(), None

    def on_epoch_begin(self, epoch, logs=None):
        super().on_epoch_begin(epoch, logs)
        self._epoch_began = time.monotonic()

    def on_epoch_end(self, epoch, logs=None):
        seconds = max(time.monotonic() - self._epoch_began, 1e-9)
        seen = self.done * self.views_per_step
        row = {"epoch": epoch + 1, **{k: float(v) for k, v in (logs or {}).items()}}
        row["views"] = seen + (self.rows[-1]["views"] if self.rows else 0)
        row["views_per_second"] = round(seen / seconds, 1)
        row["seconds"] = round(self.seconds(), 1)
        self.rows.append(row)
        if processes.index() > 0:
            return
        names = list(dict.fromkeys(name for row in self.rows for name in row))
        text = io.StringIO()
        writer = csv.DictWriter(text, names)
        writer.writeheader()
        writer.writerows(self.rows)
        try:
            write_beside(self.path, text.getvalue())
        except OSError as error:  # a spreadsheet of Windows has it open, or a disk is full: the next epoch writes all
            say(f"{self.path} could not be written ({error.strerror}); training goes on.")


class Scalars(keras.callbacks.Callback):
    """Writes each epoch's figures for TensorBoard, by its own writer, without TensorFlow.

    Keras' callback does more, imports TensorFlow, and under JAX compiles a program anew each epoch.

    Example:
        from sslzoo import callbacks

        scalars = callbacks.Scalars("runs/mine/tensorboard")  # then: model.fit(images, callbacks=[scalars])

    Args:
        folder: path; made when training begins.
    """

    def __init__(self, folder: str | os.PathLike):
        super().__init__()
        self.folder = as_path(folder)

    def on_train_begin(self, logs=None):
        self.folder.mkdir(parents=True, exist_ok=True)
        self._path = self.folder / f"events.out.tfevents.{time.time_ns()}.{os.getpid()}"
        self._write(file_version="brain.Event:2")

    def on_epoch_end(self, epoch, logs=None):
        values = [{"tag": name, "simple_value": float(value)} for name, value in (logs or {}).items()]
        self._write(step=epoch + 1, summary={"value": values})

    def _write(self, **fields):
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter

        try:
            with open(self._path, "ab") as file:
                RecordWriter(file).write(Event(wall_time=time.time(), **fields).SerializeToString())
        except OSError as error:  # a full disk, say, which a moment may free
            say(f"{self._path} could not be written ({error.strerror}); training goes on.")
