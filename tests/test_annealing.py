"""The learning rate over --max-minutes: planned once, fallen at the end, and the same after a resume."""

import json
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from test_training import checkpoint, recipe, rows

from sslzoo import callbacks, errors, optimizers, training
from sslzoo.callbacks import ending
from sslzoo.callbacks.ending import Speed
from sslzoo.files import unlock_folder
from sslzoo.training import annealing, outcome
from sslzoo.training.annealing import PlateauRate, TimedCosine, TimePlan

SMALL = ["--limit", "240", "--batch-size", "24", "--protocols", "knn", "--epochs", "4"]  # 40 steps of 10 an epoch


def rates(schedule, steps):
    return np.array([float(schedule(step)) for step in range(steps)])


@pytest.mark.slow
@pytest.mark.parametrize(("total", "warmup"), [(100, 0), (100, 10), (2000, 200)])
def test_it_is_the_cosine_of_all_other_runs(total, warmup):
    reference = rates(optimizers.warmup_cosine(0.3, total, warmup), total + 5)
    np.testing.assert_allclose(rates(TimedCosine(0.3, total, warmup), total + 5), reference, atol=1e-6)


def test_its_length_can_be_changed_and_warm_up_is_at_most_a_tenth():
    schedule = TimedCosine(1.0, 1000, 100)
    schedule.of(keras.optimizers.SGD(schedule))
    schedule.length.assign(50.0)
    np.testing.assert_allclose(rates(schedule, 60), rates(optimizers.warmup_cosine(1.0, 50, 5), 60), atol=1e-6)
    again = TimedCosine.from_config(schedule.get_config())
    np.testing.assert_allclose(rates(again, 20), rates(TimedCosine(1.0, 1000, 100), 20))


def test_settings_of_the_optimizer_reach_it(tmp_path):
    def made(*words):
        run = training.Run("simclr", {}, argv=[*SMALL, "--out", str(tmp_path), "--set", *words])
        try:
            return run.optimizer()
        finally:
            keras.config.set_dtype_policy(run.policy_before)

    assert made("adam_epsilon=1e-3").epsilon == 1e-3
    sgd = made("optimizer=sgd", "weight_decay=0.01")
    assert (sgd.momentum, sgd.weight_decay) == (0.9, 0.01)
    rate = made("warmup_epochs=0.2", "learning_rate=1.0")._learning_rate  # over two of 40 steps
    assert [float(rate(step)) for step in (0, 1)] == pytest.approx([0.0, 0.5])


def run_of(schedule, stopwatch=None, steps=40, note=None):
    """As much of a run as its plan asks for."""
    return SimpleNamespace(
        schedule=schedule,
        stopwatch=stopwatch,
        steps=steps,
        note_planned=note,
        initial_epoch=0,
        steps_per_epoch=10,
        planned_steps=None,
    )


class Shorten(keras.callbacks.Callback):
    def __init__(self, schedule, at, to):
        super().__init__()
        self.schedule, self.at, self.to = schedule, at, to

    def on_train_batch_end(self, batch, logs=None):
        if batch + 1 == self.at:
            plan = TimePlan(run_of(self.schedule))  # which alone may change it
            plan.set_model(self.model)
            plan.set_length(self.to)


@pytest.mark.parametrize("kind", ["sgd", "lars"])
def test_compiled_steps_take_up_the_new_length(kind):
    """Of a loss that is the weight itself the weight falls by the rate: their sum is what it moved."""
    schedule = TimedCosine(0.01, 40)
    made = {"sgd": lambda: keras.optimizers.SGD(schedule), "lars": lambda: optimizers.LARS(schedule, momentum=0.0)}
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")])
    if kind == "lars":  # without a ratio, as for a bias
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="ones")])
        model.layers[0].kernel.trainable = False
    model.compile(schedule.of(made[kind]()), loss=lambda y, z: z)
    before = float(np.ravel(model.get_weights()[-1])[0])
    x = np.ones((40, 1), "float32")
    shorten = [Shorten(schedule, 10, 20.0)]
    model.fit(x, x, batch_size=2, epochs=1, shuffle=False, verbose=0, callbacks=shorten)
    moved = before - float(np.ravel(model.get_weights()[-1])[0])
    expected = rates(TimedCosine(0.01, 40), 10).sum() + rates(TimedCosine(0.01, 20), 20)[10:].sum()
    assert moved == pytest.approx(expected, rel=1e-4)
    assert float(schedule.length) == 20
    assert any("length" in variable.path for variable in model.optimizer.variables)


class Clock:
    """`time` for tests: it stands still until it is moved."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now


def test_the_plan_is_what_fits_into_the_time_that_is_left(monkeypatch, capsys):
    clock = Clock()
    monkeypatch.setattr(annealing, "time", clock)
    monkeypatch.setattr(ending, "after", lambda logs: clock.now)
    schedule, stopwatch, noted = TimedCosine(1.0, 10_000), callbacks.Stopwatch(minutes=10), []
    schedule.of(keras.optimizers.SGD(schedule))
    watch = TimePlan(run_of(schedule, stopwatch, 10_000, noted.append))
    watch.set_params({"steps": 40})
    optimizer = type("Optimizer", (), {"variables": [schedule.length]})
    stopwatch._model = watch._model = type("Model", (), {"stop_training": False, "optimizer": optimizer})()
    watch.on_train_begin()
    clock.now = 30.0  # until the first step is done: compilation
    for epoch in range(3):
        watch.on_epoch_begin(epoch)
        for batch in range(40):
            clock.now += 0 if epoch == batch == 0 else 0.5
            watch.on_train_batch_end(batch)
        watch.on_epoch_end(epoch)
        clock.now += 20 if epoch == 0 else 2  # monitors, which the first end of an epoch compiles
    # A tenth of ten minutes is over in the second epoch, 49.5 + 20 s for the first; its fourth step is half a second.
    [planned] = noted
    assert planned == 44 + int(0.98 * (600 - 71.5) / 0.5) and float(schedule.length) == planned
    assert f"about {planned:,} of 10,000 steps fit, at 0.5 s a step" in capsys.readouterr().out
    assert not watch._model.stop_training
    watch.made = planned - 1
    watch.on_epoch_begin(9)
    assert not watch.is_over()
    watch.on_train_batch_end(0)
    assert watch.is_over() and watch._model.stop_training and stopwatch.ended == "minutes"
    assert "planned for --max-minutes" in stopwatch.reason
    watch.on_speed(0.0)  # of a clock that ticks more slowly than steps are made
    assert watch.planned == 10_000


def plan_at(monkeypatch, step, planned):
    """The speed of a machine on which, after `step` steps, it shows that `planned` fit."""

    def measure(self, count, logs):
        if self.made >= step:
            self.planned = planned
            self.set_length(planned)
            self.note(planned)

    monkeypatch.setattr(Speed, "on_steps", measure)


class Killed(BaseException):
    pass


@pytest.fixture(autouse=True)
def nothing_is_measured_at_the_end(monkeypatch):
    def results_alone(run, model):
        unlock_folder(run.out)
        return outcome.results(run, type(model))["remarks"]

    monkeypatch.setattr(outcome, "write", results_alone)


def train(out, *arguments):
    """What the card would remark."""
    return " ".join(recipe("vae").main([*SMALL, "--out", str(out), *arguments]))


def planned_in(out):
    return json.loads((out / "run.json").read_text())["planned"]


@pytest.mark.slow
def test_a_planned_run_resumes_to_the_weights_of_an_uninterrupted_one(tmp_path, monkeypatch):
    plan_at(monkeypatch, 5, 27)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    card = train(whole, "--max-minutes", "50")
    assert len(rows(whole)) == 3 and checkpoint(whole)[1]["epochs_done"] == 2  # the third was cut short after 7 steps
    assert planned_in(whole) == [27, None]
    assert "27 steps of 40 were planned" in card and "planned for --max-minutes, in epoch 3" in card
    before = checkpoint(whole)[0]
    train(whole, "--resume", "--max-minutes", "50")  # the same command again, as of all jobs of an array
    assert planned_in(whole) == [27, None] and len(rows(whole)) == 3
    for key, values in checkpoint(whole)[0].items():
        np.testing.assert_array_equal(values, before[key], err_msg=key)

    def die(self, epoch, logs=None):
        write(self, epoch, logs)
        if epoch == 0:
            raise Killed

    write = callbacks.Checkpoint.on_epoch_end
    monkeypatch.setattr(callbacks.Checkpoint, "on_epoch_end", die)
    with pytest.raises(Killed):
        train(killed, "--max-minutes", "50")
    unlock_folder(killed)
    assert planned_in(killed) == [27]
    monkeypatch.setattr(callbacks.Checkpoint, "on_epoch_end", write)
    plan_at(monkeypatch, 5, 35)  # another machine would plan otherwise; what was planned stays, also without the flag
    train(killed, "--resume")
    for name in ("loss", "views"):
        assert [row[name] for row in rows(killed)] == [row[name] for row in rows(whole)]
    (ours, _), (theirs, _) = checkpoint(killed), checkpoint(whole)
    for key in ours:
        np.testing.assert_array_equal(ours[key], theirs[key], err_msg=key)

    # Once it is done, more time makes a new plan, and the card tells of both.
    card = train(killed, "--resume", "--max-minutes", "9")
    assert planned_in(killed) == [27, None, 35, None]
    assert "27 steps of 40" in card and "35 steps of 40" in card
    # And without a limit it trains all of them.
    train(killed, "--resume")
    assert checkpoint(killed)[1]["epochs_done"] == 4


@pytest.mark.slow
def test_a_run_begun_without_a_limit_keeps_its_rate(tmp_path, monkeypatch):
    monkeypatch.setattr(callbacks.Stopwatch, "on_train_batch_end", lambda self, batch, logs=None: None)
    train(tmp_path, "--epochs", "2")
    train(tmp_path, "--epochs", "3", "--resume", "--max-minutes", "9")
    assert "planned" not in json.loads((tmp_path / "run.json").read_text())


def test_a_constant_rate_has_nothing_to_anneal(tmp_path):
    run = training.Run(
        "vae", {}, argv=[*SMALL, "--out", str(tmp_path), "--set", "schedule=constant", "--max-minutes", "1"]
    )
    assert not run.is_timed and isinstance(float(run.optimizer().learning_rate), float)


@pytest.mark.parametrize("accumulate", [1, 4])
def test_the_rate_falls_over_the_whole_run_also_where_batches_are_accumulated(accumulate, tmp_path):
    """Keras asks a schedule for the rate of each batch: a length in steps would end after a part of the run."""
    argv = [*SMALL, "--out", str(tmp_path), "--accumulate", str(accumulate), "--learning-rate", "0.5"]
    optimizer = training.Run("vae", {"warmup_steps": 2}, argv=argv).optimizer()
    rate = optimizer._learning_rate
    assert float(rate(40)) == pytest.approx(0, abs=1e-6)
    middle = (40 + min(2 * accumulate, 4)) / 2
    assert float(rate(middle)) == pytest.approx(0.25, rel=1e-3)
    assert optimizer.gradient_accumulation_steps == (accumulate if accumulate > 1 else None)


# ---------------------------------------------------------------- accuracy that stalls


def stalling(accuracies, begin=0):
    """Rates after each look, and when the run would end: a callback that sees these accuracies, from `begin` on."""
    journal = type("Journal", (), {"rows": [{"knn": value} for value in accuracies[:begin]]})()
    watch = PlateauRate(journal, 0.5, "knn", patience=2)
    optimizer = keras.optimizers.SGD(0.5 * 0.1 ** min(2, annealing.plateaus(accuracies[:begin], 2)))
    watch._model = type("Model", (), {"optimizer": optimizer, "stop_training": False})()
    found = []
    for epoch, value in enumerate(accuracies[begin:], start=begin):
        watch.on_epoch_end(epoch, {"loss": 1.0})  # an epoch that was not looked at
        watch.on_epoch_end(epoch, {"knn": value})
        journal.rows.append({"knn": value})
        found.append(round(float(optimizer.learning_rate), 6))
        if watch._model.stop_training:
            return found, watch.reason
    return found, None


def test_a_rate_falls_twice_when_accuracy_stalls_and_then_training_ends():
    accuracies = [0.1, 0.3, 0.2, 0.3, 0.4, 0.4, 0.4, 0.5, 0.5, 0.5, 0.9]
    rates, reason = stalling(accuracies)
    assert rates == [0.5] * 3 + [0.05] * 3 + [0.005] * 3 + [0.005]
    assert reason == "Training ended when knn was no better for 2 looks, for the last time after 10 epochs."
    for begin in range(10):  # a resumed run, whose checkpoint has the rate
        assert stalling(accuracies, begin) == (rates[begin:], reason)
    assert stalling(list(np.linspace(0, 1, 30))) == ([0.5] * 30, None)


def test_a_rate_that_waits_for_accuracy_needs_labels_to_look_at(tmp_path):
    with pytest.raises(errors.InvalidInputError, match=r"monitor_every > 0\. Received: schedule='plateau'"):
        argv = [*SMALL, "--out", str(tmp_path), "--set", "schedule=plateau", "monitor_every=0"]
        assert training.Run("simclr", {}, argv=argv).examples
