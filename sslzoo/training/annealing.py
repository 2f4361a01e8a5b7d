"""Rates that fall by what a run sees of itself: by its speed, over --max-minutes, or by its accuracy.

Under --max-minutes the cosine gets its length once, when the speed is known. The length is a variable of the optimizer,
so no program is compiled anew, and it stands in run.json, so a resumed run goes on as it would have.
"""

import time

import keras
import numpy as np
from keras import ops

from sslzoo import processes
from sslzoo.callbacks.ending import EndsTraining, Speed
from sslzoo.evaluation.probes import plateaus
from sslzoo.progress import duration, say


@keras.saving.register_keras_serializable("sslzoo")
class TimedCosine(keras.optimizers.schedules.LearningRateSchedule):
    """`optimizers.warmup_cosine` with a length T that can be changed while it trains; warm-up is at most a tenth of it.

    Args:
        peak: float > 0.
        total_steps: int > 0, T until it is changed.
        warmup_steps: int >= 0.
    """

    def __init__(self, peak: float, total_steps: int, warmup_steps: int = 0):
        self.peak, self.total_steps, self.warmup_steps = float(peak), int(total_steps), int(warmup_steps)
        self.length = None

    def of(self, optimizer: keras.optimizers.Optimizer) -> keras.optimizers.Optimizer:
        """The optimizer, with the length among its variables."""
        initial = keras.initializers.Constant(self.total_steps)
        self.length = optimizer.add_variable((), initial, "float32", name="length")
        return optimizer

    def __call__(self, step):
        step = ops.cast(step, "float32")
        total = ops.convert_to_tensor(self.total_steps if self.length is None else self.length, "float32")
        warmup = ops.floor(ops.minimum(float(self.warmup_steps), total / 10))
        done = ops.clip((step - warmup) / (total - warmup), 0.0, 1.0)
        cosine = 0.5 * (1 + ops.cos(float(np.pi) * done))
        return self.peak * ops.where(step < warmup, step / ops.maximum(warmup, 1.0), cosine)

    def get_config(self):
        return {"peak": self.peak, "total_steps": self.total_steps, "warmup_steps": self.warmup_steps}


class TimePlan(Speed):
    """Gives a `TimedCosine` the length that fits into the time, once, and ends training when it is reached.

    Speed is measured over a tenth of the time. What compiles, the first program and the first end of an epoch, is left
    out.

    Args:
        run: `sslzoo.training.Run`, prepared; what is planned is noted in its folder.
    """

    SHARE = 0.1  # of the time, to measure
    LEFT = 0.98  # of the rest is planned for: a plan that is cut off stops at a rate above 0

    def __init__(self, run):
        super().__init__()
        self.schedule, self.stopwatch, self.steps, self.note = run.schedule, run.stopwatch, run.steps, run.note_planned
        self.made, self.planned = run.initial_epoch * run.steps_per_epoch, run.planned_steps

    def on_train_begin(self, logs=None):
        self._began, self._since, self._epochs = time.monotonic(), None, 0
        self._end_if_done()

    def on_epoch_begin(self, epoch, logs=None):
        super().on_epoch_begin(epoch, logs)
        self._epochs += 1
        if self._epochs == 2:
            self._since = None

    def on_steps(self, count, logs):
        self.made += count
        if self.planned is None and self.stopwatch.minutes is not None:
            super().on_steps(count, logs)
        self._end_if_done()

    def _end_if_done(self):
        if self.is_over() and self.made < self.steps:
            self.stopwatch.stop("minutes", "Training was stopped after the steps that were planned for --max-minutes")

    def is_over(self) -> bool:
        """Whether all the steps that were planned are made: also before it was resumed."""
        return self.planned is not None and self.planned <= self.made

    def is_enough(self):
        return processes.any_of(time.monotonic() - self._began >= self.SHARE * 60 * self.stopwatch.minutes)

    def on_speed(self, seconds):
        left = 60 * self.stopwatch.minutes - (time.monotonic() - self._began)
        fits = self.made + max(1, int(self.LEFT * left / max(seconds, 1e-9)))
        self.planned = int(processes.of_first([min(fits, self.steps)])[0])
        self.set_length(self.planned)
        self.note(self.planned)
        if self.planned < self.steps:
            say(
                f"--max-minutes {self.stopwatch.minutes:g}: about {self.planned:,} of {self.steps:,} steps fit, at "
                f"{duration(seconds)} a step. The learning rate falls over these."
            )

    def set_length(self, steps: int) -> None:
        """Changes the length. Under JAX, asking for the model brings what the optimizer holds up to date before."""
        if self.model.optimizer:
            self.schedule.length.assign(float(steps))


class PlateauRate(EndsTraining):
    """Divides the learning rate by ten when an accuracy stalls, twice, and ends training when it stalls once more.

    "On Mutual Information in Contrastive Learning for Visual Representations" (arXiv 2005.13149), section B.3: no
    improvement for ten epochs. When its runs end, the paper does not say. The rate follows from the journal alone, so a
    resumed run goes on as it would have. Stands behind the monitor and before the journal.

    Args:
        journal: `Journal` of the run.
        rate: float > 0, at the beginning.
        key: str, of the accuracy in the logs.
        patience: int, looks of the monitor without improvement.
        drops: int, how often the rate falls.
    """

    def __init__(self, journal, rate: float, key: str, patience: int = 10, drops: int = 2):
        super().__init__()
        self.journal, self.rate, self.key = journal, rate, key
        self.patience, self.drops = patience, drops

    def is_over(self) -> bool:
        """Whether the run that the journal is of has ended so before."""
        return plateaus(self._accuracies(), self.patience) > self.drops

    def _accuracies(self):
        return [row[self.key] for row in self.journal.rows if self.key in row]

    def on_train_begin(self, logs=None):
        super().on_train_begin(logs)
        if self.is_over():
            self.end("plateau", f"Training ended when {self.key} stalled, for the last time.")

    def on_epoch_end(self, epoch, logs=None):
        if self.key not in (logs or {}):
            return
        before = self._accuracies()
        stalls = plateaus([*before, logs[self.key]], self.patience)
        if stalls == plateaus(before, self.patience) and stalls <= self.drops:
            return
        stalled = f"{self.key} was no better for {self.patience} looks"
        if stalls > self.drops:
            self.end("plateau", f"Training ended when {stalled}, for the last time after {epoch + 1} epochs.")
            return
        rate = self.rate * 0.1**stalls
        self.model.optimizer.learning_rate = rate
        say(f"{stalled}: the learning rate falls to {rate:.2g}.")
