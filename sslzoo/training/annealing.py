"""Rates that fall by what a run sees of itself: `Annealing` by its time, `PlateauRate` by its accuracy.

Under --max-minutes the cosine gets its length once the speed is known:

    schedule = TimedCosine(1e-3, total_steps=50_000, warmup_steps=200)
    optimizer = schedule.of(keras.optimizers.Adam(schedule))    # its length is one of the optimizer's variables
    model.fit(..., callbacks=[Annealing(schedule, stopwatch, ...)])

The length is a variable of the optimizer, so no program is compiled anew when it changes, and a checkpoint has it: a
resumed run goes on along the plan that was made.
"""

import time
from collections.abc import Callable

import keras
import numpy as np
from keras import ops

from sslzoo import processes
from sslzoo.callbacks.checkpoint import Stopwatch, after, duration
from sslzoo.evaluation.probes import plateaus
from sslzoo.progress import say


@keras.saving.register_keras_serializable("sslzoo")
class TimedCosine(keras.optimizers.schedules.LearningRateSchedule):
    """`optimizers.warmup_cosine` with a length that can be changed while it trains.

        rate(t) = peak t / W                                    before step W
        rate(t) = peak (1 + cos(pi (t - W) / (T - W))) / 2      from W to T, and 0 ever after

    with W the steps of warm-up, at most a tenth of T.

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
        self.length = optimizer.add_variable(
            (), keras.initializers.Constant(self.total_steps), "float32", name="length"
        )
        return optimizer

    def __call__(self, step):
        step = ops.cast(step, "float32")
        total = ops.convert_to_tensor(self.total_steps if self.length is None else self.length, "float32")
        warmup = ops.floor(ops.minimum(float(self.warmup_steps), total / 10))
        fallen = ops.clip((step - warmup) / (total - warmup), 0.0, 1.0)
        falling = 0.5 * (1 + ops.cos(float(np.pi) * fallen))
        return self.peak * ops.where(step < warmup, step / ops.maximum(warmup, 1.0), falling)

    def get_config(self):
        return {"peak": self.peak, "total_steps": self.total_steps, "warmup_steps": self.warmup_steps}


class Annealing(keras.callbacks.Callback):
    """Plans the length of a `TimedCosine` once, from the speed of training, and ends training when it is reached.

    Speed is measured over a tenth of the time there is, from the second program on (the first is compiled), with what
    is done between epochs; the first end of an epoch, which compiles monitors, is left out.

    Args:
        schedule: `TimedCosine`, bound to the optimizer of the model.
        stopwatch: `Stopwatch` of the run, which has the minutes, and is told when the plan is done.
        steps: int, of the whole run if there were time for all.
        planned: int, the length that was planned already, or None.
        done: int, steps that the run had made before this `fit`.
        noted: callable, called with the planned length.
    """

    SHARE = 0.1  # of the time, to measure
    LEFT = 0.98  # of the rest is planned for: a plan that is cut off stops at a rate above 0

    def __init__(
        self,
        schedule: TimedCosine,
        stopwatch: Stopwatch,
        steps: int,
        planned: int | None,
        done: int,
        noted: Callable[[int], None],
    ):
        super().__init__()
        self.schedule, self.stopwatch = schedule, stopwatch
        self.steps, self.planned, self.done = steps, planned, done
        self.noted = noted

    def on_train_begin(self, logs=None):
        self._began = time.monotonic()
        self._since = None  # when the first program was done
        self._counted = self._pause = 0
        self._epoch_ended = None

    def on_epoch_begin(self, epoch, logs=None):
        self._in_epoch = 0
        if self._epoch_ended is not None and not self._pause:
            self._pause = time.monotonic() - self._epoch_ended

    def on_epoch_end(self, epoch, logs=None):
        self._epoch_ended = time.monotonic()

    def on_train_batch_end(self, batch, logs=None):
        now = min(batch + 1, self.params["steps"] or batch + 1)  # the last fused steps of an epoch as if all were there
        new, self._in_epoch = now - self._in_epoch, now  # which are told of once for all
        self.done += new
        if self.planned is None and self.stopwatch.minutes is not None:
            self._measure(new, logs)
        if self.planned is not None and self.planned <= self.done < self.steps:
            self.stopwatch.end_of_plan()

    def _measure(self, new, logs):
        if self._since is None:
            self._since = after(logs)
            return
        self._counted += new
        there = 60 * self.stopwatch.minutes
        over = time.monotonic() - self._began >= self.SHARE * there
        if self._counted < 3 or not processes.any_of(over):
            return
        now = after(logs)
        step = (now - self._since - self._pause) / self._counted
        fits = max(1, int(self.LEFT * (there - (now - self._began)) / step))
        self.planned = min(self.done + int(processes.of_first([fits])[0]), self.steps)
        self.model  # noqa: B018 - under JAX this access writes the trained state back, and takes up what is assigned
        self.schedule.length.assign(float(self.planned))
        self.noted(self.planned)
        if self.planned < self.steps:
            say(
                f"--max-minutes {self.stopwatch.minutes:g}: about {self.planned:,} of {self.steps:,} steps fit, at "
                f"{duration(step)} a step. The learning rate falls over these."
            )


class PlateauRate(keras.callbacks.Callback):
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

    Attributes:
        reason: str, when accuracy had stalled for the last time, or None.
    """

    def __init__(self, journal, rate: float, key: str, patience: int = 10, drops: int = 2):
        super().__init__()
        self.journal, self.rate, self.key = journal, rate, key
        self.patience, self.drops = patience, drops
        self.reason = self.said = None

    def on_epoch_end(self, epoch, logs=None):
        if self.key not in (logs or {}):
            return
        before = [row[self.key] for row in self.journal.rows if self.key in row]
        found = plateaus([*before, logs[self.key]], self.patience)
        if found == plateaus(before, self.patience) and found <= self.drops:
            return
        stalled = f"{self.key} was no better for {self.patience} looks"
        if found > self.drops:
            self.reason = f"{stalled}, for the last time after {epoch + 1} epochs"
            self._model.stop_training = True
            return
        rate = self.rate * 0.1**found
        self.model.optimizer.learning_rate = rate
        self.said = f"{stalled}: the learning rate falls to {rate:.2g}."
