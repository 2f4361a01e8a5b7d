"""What a run keeps of itself: its checkpoint, its journal, its time."""

import csv
import io
import json
import os
import shutil
import signal
import time
from pathlib import Path

import keras
import numpy as np

from sslzoo import processes
from sslzoo.errors import ArtefactError, TrainingError
from sslzoo.evaluation.report import versions
from sslzoo.files import write_beside
from sslzoo.progress import say


class Checkpoint(keras.callbacks.Callback):
    """Writes everything a run is made of after each epoch, so that a killed run goes on as if it never stopped.

    One `.npz` holds every variable of model and optimizer, the states of all random generators among them (which
    Keras' own model files and `BackupAndRestore` leave out), the number of finished epochs, and the journal. The
    order of the data is a function of seed and epoch, so it needs no state. Of several processes the first writes it.

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
        journal: `Journal` of the run.
        stopwatch: `Stopwatch` of the run, which knows whether an epoch was cut short.

    Attributes:
        remarks: list of str, what there is to say of a checkpoint that was restored.

    Raises:
        TrainingError: at the end of an epoch, weights that are not finite.
    """

    def __init__(self, path: "str | Path", journal: "Journal", stopwatch: "Stopwatch"):
        super().__init__()
        self.path = Path(path)
        self.previous = self.path.with_name(f"{self.path.stem}.previous{self.path.suffix}")
        self.remarks = []
        self.journal = journal
        self.stopwatch = stopwatch

    def on_epoch_end(self, epoch, logs=None):
        if not self.stopwatch.reason:
            self.write(epoch + 1)

    def write(self, epochs_done):
        """Writes the checkpoint, `epochs_done` epochs after the start of the run."""
        arrays = {}
        for index, variable in enumerate(_variables(self.model)):
            array = arrays[f"{index:05d}"] = np.asarray(keras.ops.convert_to_numpy(variable))
            if np.issubdtype(array.dtype, np.floating) and not np.isfinite(array).all():
                raise TrainingError(
                    f"The weights stopped being finite in epoch {epochs_done}: try a lower learning rate, or float32. "
                    f"The last good checkpoint was kept. Received: {variable.path}"
                )
        note = {
            "epochs_done": epochs_done,
            "rows": self.journal.rows,
            "seconds": self.journal.seconds(),
            "versions": versions(),
        }
        if processes.index() > 0:
            return
        buffer = io.BytesIO()
        np.savez(buffer, note=np.array(json.dumps(note)), **arrays)
        if self.path.exists():
            self._keep()
        write_beside(self.path, buffer.getbuffer())

    def _keep(self):
        """Gives the newest checkpoint a second name, under which it stays when the next one takes its place."""
        beside = self.previous.with_name(f".{self.previous.name}.{os.getpid()}.part")
        beside.unlink(missing_ok=True)
        try:
            os.link(self.path, beside)
        except OSError:  # a file system without links
            shutil.copyfile(self.path, beside)
        os.replace(beside, self.previous)

    def restore(self, model: keras.Model) -> int:
        """Put the file's state into a compiled model and the journal.

        Returns:
            int, the number of epochs the file's run had finished; 0 where there is no file yet.

        Raises:
            ArtefactError: the file is damaged, or was written by another model.
        """
        found = [path for path in (self.path, self.previous) if path.exists()]
        if not found:
            return 0
        variables = _variables(model)
        note, arrays = self._read(found)
        shapes = [tuple(a.shape) for a in arrays]
        if shapes != [tuple(v.shape) for v in variables]:
            raise ArtefactError(
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
                    arrays = [data[name] for name in sorted(set(data.files) - {"note"})]
                if not (isinstance(note["epochs_done"], int) and isinstance(note["rows"], list)):
                    raise ValueError("its note is none")
                note["seconds"] = float(note["seconds"])
            except Exception as error:
                faults.append(f"{path.name}: {str(error) or type(error).__name__}")
                continue
            if faults:
                done = note["epochs_done"]
                self.remarks.append(f"The newest checkpoint was damaged; the run went on after epoch {done}.")
            return note, arrays
        raise ArtefactError(
            f"The checkpoint cannot be read ({'; '.join(faults)}). Delete it to start over. Received: path={self.path}"
        )


def _variables(model):
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
    return [*model.variables, *model.optimizer.variables]


class Journal(keras.callbacks.Callback):
    """Keeps one row per epoch (terms, monitor, seconds, views per second) and writes them as `history.csv`.

    Unlike `CSVLogger` it is part of the checkpoint, so a resumed run has one history without gaps or doubles. Of
    several processes the first writes it.

    Example:
        import numpy as np
        from sslzoo import callbacks, methods, networks, views

        images = np.random.default_rng(0).integers(0, 256, (64, 8, 8, 1)).astype("uint8")
        encoder = networks.encoder("mlp-small", (8, 8, 1), 10)
        model = methods.SimCLR(encoder, views=views.Views("simvae-digits", 2))
        model.compile("adam")
        journal = callbacks.Journal("history.csv", views_per_step=32)
        model.fit(images, batch_size=16, epochs=2, verbose=0, callbacks=[journal])

    Args:
        path: str or Path of the CSV file.
        views_per_step: int, views the networks see in one step.

    Attributes:
        rows: list of dict, one per epoch, an epoch cut short included: terms, `views` and `seconds` so far, speed.
    """

    BOOKKEEPING = ("views", "views_per_second", "seconds")

    def __init__(self, path: "str | Path", views_per_step: int):
        super().__init__()
        self.path = Path(path)
        self.views_per_step = views_per_step
        self.rows = []
        self.seconds_before = 0.0
        self._began = time.monotonic()

    def seconds(self):
        """Wall time of training so far in seconds, resumed runs included."""
        return self.seconds_before + time.monotonic() - self._began

    def on_train_begin(self, logs=None):
        self._began = time.monotonic()

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch_began = time.monotonic()
        self._steps = 0

    def on_train_batch_end(self, batch, logs=None):
        # Fused steps are told of once for all, and the last of an epoch as if it were full.
        self._steps = min(batch + 1, self.params["steps"] or batch + 1)

    def on_epoch_end(self, epoch, logs=None):
        seconds = time.monotonic() - self._epoch_began
        seen = self._steps * self.views_per_step
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
        write_beside(self.path, text.getvalue().encode())


class Pace(keras.callbacks.Callback):
    """Says, once, how long an epoch and the whole will take: after a few steps, or the first epoch if that is sooner.

    The first step compiles and does not count. Where there is less time than that, it says how many epochs fit. Unless
    the rate is annealed over that time, it falls over the epochs that were asked for, and a run that is cut off stops
    at a high one.

    Example:
        import keras
        import numpy as np
        from sslzoo import callbacks

        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        model.fit(np.zeros((64, 2)), np.zeros(64), epochs=2, verbose=0, callbacks=[callbacks.Pace(2)])

    Args:
        epochs: int, of the whole run.
        minutes: float, the time there is, or None for no limit.
        seconds: float, how long to measure.
        anneals: bool, whether the rate falls over the time there is: what fits is then told by what plans it.
    """

    def __init__(self, epochs: int, minutes: float | None = None, seconds: float = 3.0, anneals: bool = False):
        super().__init__()
        self.epochs, self.minutes, self.seconds, self.anneals = epochs, minutes, seconds, anneals
        self.said = None
        self._since = None

    def on_train_begin(self, logs=None):
        self._started = time.monotonic()

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch, self._done = epoch, 0

    def on_train_batch_end(self, batch, logs=None):
        if self.said is not None:
            return
        before, self._done = self._done, batch + 1  # fused steps are told of once for all
        if self._since is None:
            self._since, self._counted = after(logs), 0
            return
        self._counted += max(self._done - before, 1)
        now = time.monotonic()
        if self._counted >= 3 and now - self._since >= self.seconds:
            self._say((after(logs) - self._since) / self._counted)

    def on_epoch_end(self, epoch, logs=None):
        if self.said is None and self._since is not None and self._counted:
            self._say((after(logs) - self._since) / self._counted)

    def _say(self, step):
        epoch = step * (self.params["steps"] or self._done)
        left = self.epochs - self._epoch
        self.said = f"About {duration(epoch)} an epoch, {duration(epoch * left)} for {left} epochs."
        if self.minutes is not None:
            there = 60 * self.minutes - (self._since - self._started)  # compilation took its share
            fit = max(1, int(there / epoch))
            if fit < left and not self.anneals:
                self.said += (
                    f" In --max-minutes {self.minutes:g} about {fit} fit: with --epochs {self._epoch + fit} the rate "
                    "would fall over just these, where now training ends at a high one."
                )
        elif left > 1:
            self.said += " --max-minutes N ends it in good order before that, and so does Ctrl-C."
        say(self.said)


def after(logs: "dict | None") -> float:
    """The time at which the step that made these logs is done: backends run ahead of Python."""
    for value in (logs or {}).values():
        float(value)
    return time.monotonic()


def duration(seconds: float) -> str:
    """Seconds in words: "12 s", "5 min", "2.3 h"."""
    if seconds < 100:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


class Stopwatch(keras.callbacks.Callback):
    """Ends training in good order after `minutes`, at a signal, or at the first Ctrl-C (a second interrupts at once).

    Clusters send SIGTERM or SIGUSR1 before they kill, a lost connection SIGHUP: the step is finished, and the caller
    has `grace` seconds for the rest. Several processes end after the same step, of which they agree every few steps.

    Example:
        import numpy as np
        from sslzoo import callbacks, methods, networks, views

        images = np.random.default_rng(0).integers(0, 256, (64, 8, 8, 1)).astype("uint8")
        encoder = networks.encoder("mlp-small", (8, 8, 1), 10)
        model = methods.SimCLR(encoder, views=views.Views("simvae-digits", 2))
        model.compile("adam")
        model.fit(images, batch_size=16, epochs=2, verbose=0, callbacks=[callbacks.Stopwatch(minutes=5)])

    Args:
        minutes: float, wall time from the start of training, or None for no limit.
        grace: float, seconds that there are after a signal.

    Attributes:
        reason: why training ended early, or None.
        deadline: when the grace after a signal is over, as `time.monotonic` counts, or None without a signal.
    """

    AGREE_EVERY = 8  # calls, which are steps or programs of several: asking waits for the device

    def __init__(self, minutes: float | None = None, grace: float = 30.0):
        super().__init__()
        self.minutes = minutes
        self.grace = grace
        self.reason = None
        self.deadline = None
        self._wanted = None
        self._previous = {}

    def on_train_begin(self, logs=None):
        self._calls = 0
        self._ends = time.monotonic() + 60 * self.minutes if self.minutes else float("inf")
        handlers = {"SIGINT": self._interrupted} | dict.fromkeys(("SIGTERM", "SIGHUP", "SIGUSR1"), self._told_to_end)
        for name, handler in handlers.items():
            number = getattr(signal, name, None)  # Windows has but two of them
            # What was ignored stays so: nohup ignores SIGHUP for a reason. Ctrl-C in the background is sent by someone.
            if number is None or (name != "SIGINT" and signal.getsignal(number) is signal.SIG_IGN):
                continue
            try:
                self._previous[number] = signal.signal(number, handler)
            except ValueError:  # not the main thread: signals are somebody else's business there
                return

    def _interrupted(self, number, frame):
        self._stop("interrupted")
        say("Interrupted: finishing this step, then writing what there is. Ctrl-C again to leave at once.")
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def _told_to_end(self, number, frame):
        if self.deadline is None:
            self.deadline = time.monotonic() + self.grace
            self._stop(f"ended by {signal.Signals(number).name}")

    def _stop(self, reason):
        self._wanted = reason
        if processes.count() == 1:
            self._end(reason)

    def _end(self, reason):
        self.reason = reason
        self._model.stop_training = True  # not `self.model`, which waits for the device under JAX

    def end_of_plan(self):
        """Told when all the steps are done that were planned for the time there is."""
        if self.reason is None:
            minutes = "" if self.minutes is None else f" {self.minutes:g}"
            self._stop(f"stopped after the steps that were planned for --max-minutes{minutes}")

    def on_train_batch_end(self, batch, logs=None):
        if time.monotonic() > self._ends and self.reason is None:
            self._stop(f"stopped after --max-minutes {self.minutes:g}")
        self._calls += 1
        if self._calls % self.AGREE_EVERY == 0 and processes.any_of(self._wanted is not None) and not self.reason:
            self._end(self._wanted or "ended with another process")

    def on_train_end(self, logs=None):
        while self._previous:
            signal.signal(*self._previous.popitem())
