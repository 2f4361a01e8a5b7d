"""What ends a run cleanly: its time, a signal, and a mark of the monitor."""

import signal
import time

import keras

from sslzoo import checks, processes
from sslzoo.callbacks.memory import peak_memory
from sslzoo.methods.steps import StepCounter
from sslzoo.progress import duration, say


class EndsTraining(keras.callbacks.Callback):
    """A callback that may end training, after the step and with all that other callbacks do.

    Attributes:
        ended: str, one of `sslzoo.zoo.results.ENDINGS`, once it has ended training; None before.
        reason: str, the same as a sentence for people.
    """

    ended = reason = None

    def on_train_begin(self, logs=None):
        self.ended = self.reason = None  # of an earlier `fit`

    def end(self, ended: str, reason: str) -> None:
        self.ended, self.reason = ended, reason
        self._model.stop_training = True  # not `self.model`, which waits for the device under JAX


class Stopwatch(EndsTraining, StepCounter):
    """Ends training cleanly after `minutes`, at a signal, or at the first Ctrl-C (a second interrupts at once).

    Clusters send SIGTERM or SIGUSR1 before they kill, a lost connection SIGHUP: the step is finished, and the caller
    has `grace` seconds for the rest. Several processes end after the same step, of which they agree every few steps.

    Example:
        from sslzoo import callbacks

        stopwatch = callbacks.Stopwatch(minutes=5)  # then: model.fit(images, callbacks=[stopwatch])

    Args:
        minutes: float, wall time from the start of training, or None for no limit.
        grace: float, seconds that there are after a signal.

    Attributes:
        deadline: when the grace after a signal is over, as `time.monotonic` counts, or None without a signal.
        whole: bool, whether the last epoch had all its steps. A signal may come while monitors, which stand behind this
            callback, look at a whole one.
    """

    AGREE_EVERY = 8  # calls, which are steps or programs of several: asking waits for the device

    def __init__(self, minutes: float | None = None, grace: float = 30.0):
        super().__init__()
        self.minutes = None if minutes is None else checks.positive(minutes=minutes)
        self.grace = checks.number(0, grace=grace)
        self.deadline = None
        self._wanted = None
        self.whole = False
        self._epoch = self._calls = 0
        self._previous = {}

    def on_train_begin(self, logs=None):
        super().on_train_begin(logs)
        self.release()  # what a `fit` of another model that raised has left
        self.deadline = self._wanted = None
        self._calls = 0
        self._ends = time.monotonic() + 60 * self.minutes if self.minutes else float("inf")
        for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1"):
            number = getattr(signal, name, None)  # Windows has but two of them
            # What was ignored stays so: nohup ignores SIGHUP for a reason. Ctrl-C in the background is sent by someone.
            former = None if number is None else signal.getsignal(number)
            if former is None or (name != "SIGINT" and former is signal.SIG_IGN):
                continue  # a handler that Python does not know is that of a program around it
            try:
                self._previous[number] = signal.signal(number, self._on_signal)
            except ValueError:  # not the main thread: signals are somebody else's business there
                return

    def on_epoch_begin(self, epoch, logs=None):
        super().on_epoch_begin(epoch, logs)
        self._epoch, self.whole = epoch, False

    def on_epoch_end(self, epoch, logs=None):
        # What ended training may have come in the last step.
        steps = (self.params or {}).get("steps")
        self.whole = self.ended is None or (steps is not None and self.done >= steps)

    def _on_signal(self, number, frame):
        if number == signal.SIGINT:
            self.stop("signal", "Training was interrupted")
            say("Interrupted: finishing this step, then writing what there is. Ctrl-C again to leave at once.")
            signal.signal(signal.SIGINT, signal.default_int_handler)
        elif self.deadline is None:
            self.deadline = time.monotonic() + self.grace
            self.stop("signal", f"Training was ended by {signal.Signals(number).name}")

    def stop(self, ended: str, reason: str) -> None:
        """Ends training after this step; of several processes after one that they agree on."""
        self._wanted = self._wanted or (ended, f"{reason}, in epoch {self._epoch + 1}.")
        if processes.count() == 1 and not self.ended:
            self.end(*self._wanted)

    def on_steps(self, count, logs):
        if time.monotonic() > self._ends:
            self.stop("minutes", f"Training was stopped after --max-minutes {self.minutes:g}")
        self._calls += 1
        if self._calls % self.AGREE_EVERY == 0 and processes.any_of(self._wanted is not None) and not self.ended:
            self.end(*(self._wanted or ("signal", "Training was ended with another process.")))

    def on_train_end(self, logs=None):
        self.release()

    def release(self) -> None:
        """Gives the signals back, as `on_train_end` does; `Pretrainer.fit` calls it when it raises."""
        while self._previous:
            signal.signal(*self._previous.popitem())


class UntilKNN(EndsTraining):
    """Ends training cleanly once the monitor's kNN accuracy passes a mark. Stands behind `KNNMonitor`.

    Example:
        from sslzoo import callbacks

        journal = callbacks.Journal("history.csv", views_per_step=32)
        until = callbacks.UntilKNN(0.9, journal)  # then: callbacks=[monitor, until, journal]

    Args:
        mark: float in [0, 1].
        journal: `Journal` of the run, which has the time.
    """

    def __init__(self, mark: float, journal):
        super().__init__()
        self.mark, self.journal = checks.number(0, 1, mark=mark), journal

    def is_over(self) -> bool:
        """Whether the run that the journal is of has ended so before."""
        return bool(self.journal.rows) and self.journal.rows[-1].get("knn", 0.0) >= self.mark

    def on_train_begin(self, logs=None):
        super().on_train_begin(logs)
        if self.is_over():
            self.on_epoch_end(len(self.journal.rows) - 1, self.journal.rows[-1])

    def on_epoch_end(self, epoch, logs=None):
        knn = (logs or {}).get("knn")
        if knn is not None and knn >= self.mark:
            passed = f"kNN {knn:.2%} after {self.journal.seconds():.0f} s and {epoch + 1} epochs"
            self.end("knn", f"Training was stopped by --until-knn: {passed}.")


class Speed(StepCounter):
    """Measures the seconds of a step, at least three of them; the first compiles and does not count.

    A subclass says when it has seen enough (`is_enough`) and what it does then (`on_speed`).
    """

    _since = None

    def on_steps(self, count, logs):
        if self._since is None:
            self._since, self._counted = after(logs), 0
            return
        self._counted += count
        if self._counted >= 3 and self.is_enough():
            self.on_speed((after(logs) - self._since) / self._counted)

    def is_enough(self) -> bool:
        raise NotImplementedError

    def on_speed(self, seconds: float) -> None:
        """`seconds` are those of a step."""
        raise NotImplementedError


class Pace(Speed):
    """Says, once, how long an epoch and the whole will take, and the memory taken so far.

    It is said after a few steps, or the first epoch if that is sooner.

    Example:
        from sslzoo import callbacks

        pace = callbacks.Pace(20)  # then: model.fit(images, epochs=20, callbacks=[pace])

    Args:
        epochs: int, of the whole run.
        seconds: float, how long to measure.
    """

    said = None

    def __init__(self, epochs: int, seconds: float = 3.0):
        super().__init__()
        self.epochs, self.seconds = epochs, seconds

    def on_epoch_begin(self, epoch, logs=None):
        super().on_epoch_begin(epoch, logs)
        self._left = self.epochs - epoch

    def is_enough(self):
        return self.said is None and time.perf_counter() - self._since >= self.seconds

    def on_epoch_end(self, epoch, logs=None):
        if self.said is None and self._since is not None and self._counted:
            self.on_speed((after(logs) - self._since) / self._counted)

    def on_speed(self, seconds):
        epoch = seconds * (self.params["steps"] or self.done)
        self.said = f"About {duration(epoch)} an epoch, {duration(epoch * self._left)} for {self._left} epochs."
        if peak := peak_memory():
            self.said += f" At most {peak[0] / 2**30:.1f} GiB of {peak[1]} so far."
        if self._left > 1:
            self.said += " --max-minutes N ends it cleanly before that, and so does Ctrl-C."
        say(self.said)


def after(logs: "dict | None") -> float:
    """The time at which the step that made these logs is done: backends run ahead of Python."""
    for value in (logs or {}).values():
        float(value)
    return time.perf_counter()
