"""Several training steps in one program are what single steps are: weights, logs, journal and guards.

To the last bit under JAX. TensorFlow rounds otherwise inside its loop.
"""

from pathlib import Path

import contract
import keras
import numpy as np
import pytest
from test_method_contract import in_another_process

from sslzoo import callbacks, data, errors

BACKEND = keras.backend.backend()
VERSION = tuple(int(number) for number in keras.__version__.split(".")[:2])
OURS = BACKEND == "jax" and VERSION < (3, 16)
STEPS = 15  # in an epoch of batches of 12; 7 does not divide it
fuses = pytest.mark.skipif(BACKEND == "torch", reason="PyTorch has no program of several steps")


def compiled(name, steps_per_execution, num_images=STEPS * 12):
    num_views, make = contract.CASES[name]
    model = make(contract.Flips(num_views))
    model.compile(optimizer=keras.optimizers.SGD(1e-3, momentum=0.9), steps_per_execution=steps_per_execution)
    images = contract.images(num_images)
    model.views(images[:1], training=False)  # builds it
    return model, images


def trained(name, steps_per_execution, form, epochs=2, watchers=()):
    """Arrays of a model after a few epochs, and its logs; `form` says how the data come."""
    model, images = compiled(name, steps_per_execution, STEPS * 12 + (6 if form == "arrays" else 0))
    options = {"epochs": epochs, "verbose": 0, "shuffle": False, "callbacks": list(watchers)}
    if form == "arrays":  # with a smaller batch at the end
        history = model.fit(images, batch_size=12, **options)
    elif form == "epochs":
        history = model.fit(data.Batches(images, None, 12, seed=3), **options)
    else:
        k = steps_per_execution if form == "stacks" else 1
        stream = data.Batches(images, None, 12, seed=3, repeat=True, steps_per_execution=k)
        history = model.fit(stream, steps_per_epoch=STEPS, **options)
    return contract.state(model), history.history


@pytest.mark.slow
@fuses
@pytest.mark.parametrize("form", ["arrays", "epochs", *(["stacks", "stream"] if OURS else [])])
@pytest.mark.parametrize("name", ["simvae", "moco", "swav"])
def test_seven_steps_in_one_program_are_seven_steps(name, form):
    (single, logs), (fused, fused_logs) = trained(name, 1, form), trained(name, 7, form)
    tolerance = 0 if BACKEND == "jax" else 1e-5
    for one, other in zip(single, fused, strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)
    assert logs.keys() == fused_logs.keys() and len(logs["loss"]) == 2
    for name, values in logs.items():
        np.testing.assert_allclose(values, fused_logs[name], rtol=tolerance)


@pytest.mark.skipif(not OURS, reason="Keras' own elsewhere")
def test_an_epoch_takes_as_few_programs_as_it_can_and_each_stack_is_made_while_one_works(monkeypatch):
    """Keras reads the logs of a program right after it, and so waits for the device."""
    import jax

    happened, jit = [], jax.jit

    def recording(function, **options):
        program = jit(function, **options)

        def call(state, x, y):
            happened.append(x.shape)
            return program(state, x, y)

        return call

    class Logs(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            happened.append("logs")

    class Stream(data.Batches):
        def __getitem__(self, position):
            happened.append(position)
            return super().__getitem__(position)

    model, images = compiled("simclr", 7)
    stream = Stream(images, None, 12, seed=3, repeat=True, steps_per_execution=7)
    with monkeypatch.context() as patch:
        patch.setattr(jax, "jit", recording)
        model.make_train_function()
    model.fit(stream, steps_per_epoch=STEPS, epochs=2, verbose=0, shuffle=False, callbacks=[Logs()])
    shapes = [(12, 7, 8, 8, 1), (12, 7, 8, 8, 1), (12, 1, 8, 8, 1)] * 2
    expected = [event for position, shape in enumerate(shapes, 1) for event in (shape, position, "logs")]
    assert happened[-len(expected) :] == expected
    assert int(keras.ops.convert_to_numpy(model.optimizer.iterations)) == 2 * STEPS


@pytest.mark.skipif(not OURS, reason="JAX")
def test_a_fault_while_the_next_stack_is_made_leaves_what_was_trained():
    model, images = compiled("simvae", 4)
    whole, _ = compiled("simvae", 4)

    class Breaking(data.Batches):
        def __getitem__(self, position):
            if position == 2:
                raise OSError("the disk is gone")
            return super().__getitem__(position)

    options = {"seed": 3, "repeat": True, "steps_per_execution": 4}
    with pytest.raises(OSError, match="the disk is gone"):
        model.fit(Breaking(images, None, 12, **options), steps_per_epoch=12, epochs=1, verbose=0, shuffle=False)
    whole.fit(data.Batches(images, None, 12, **options), steps_per_epoch=8, epochs=1, verbose=0, shuffle=False)
    for ours, theirs in zip(contract.state(model), contract.state(whole), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.skipif(BACKEND != "torch" or VERSION >= (3, 16), reason="this is about PyTorch before Keras 3.16")
def test_pytorch_says_that_it_fuses_nothing():
    model, images = compiled("simclr", 7)
    with pytest.raises(ValueError, match="`steps_per_execution` must be 1 with the PyTorch backend"):
        model.fit(images, batch_size=12, verbose=0)


def test_stacks_hold_the_batches_of_the_stream():
    images = contract.images(60)
    options = {"with_index": True, "seed": 7, "repeat": True, "start_epoch": 2}
    single = data.Batches(images, np.arange(60), 8, **options)
    stacked = data.Batches(images, np.arange(60), 8, **options, steps_per_execution=3)
    assert len(single) == len(stacked) == 7
    place = 0
    for i in range(6):  # two epochs of 3 + 3 + 1 steps
        stack = stacked[i]
        assert isinstance(stack, data.Stacked)
        for step in range(stack.y.shape[1]):
            x, labels = single[place]
            np.testing.assert_array_equal(stack.x["images"][:, step], x["images"])
            np.testing.assert_array_equal(stack.x["index"][:, step], x["index"])
            np.testing.assert_array_equal(stack.y[:, step], labels)
            place += 1
    assert place == 14 and [stack.y.shape[1] for stack in stacked] == [3, 3, 1]


@pytest.mark.parametrize(
    "options",
    [
        {"steps_per_execution": 0},
        {"steps_per_execution": 2.0},
        {"steps_per_execution": 2, "repeat": False},
        {"steps_per_execution": 2, "drop_remainder": False},
        {"steps_per_execution": 2, "views": contract.Flips(2)},
    ],
)
def test_stacks_that_cannot_be_are_refused(options):
    with pytest.raises(errors.InvalidInputError, match=r"steps_per_execution must be.*Received: steps_per_execution="):
        data.Batches(contract.images(24), None, 8, **{"repeat": True, **options})


@pytest.mark.skipif(not OURS, reason="Keras' own elsewhere")
def test_weights_of_samples_are_refused():
    model, images = compiled("simclr", 7)
    with pytest.raises(errors.InvalidInputError, match="sample_weight or class_weight"):
        model.fit(images, np.zeros(len(images)), sample_weight=np.ones(len(images)), batch_size=12, verbose=0)


# ---------------------------------------------------------------- what watches a run


@fuses
@pytest.mark.parametrize("form", ["epochs", *(["stacks", "stream"] if OURS else [])])
def test_the_journal_counts_views_not_programs(form, tmp_path):
    journal = callbacks.Journal(tmp_path / "history.csv", views_per_step=24)
    trained("simclr", 7, form, watchers=[journal])
    assert [row["views"] for row in journal.rows] == [STEPS * 24, 2 * STEPS * 24]
    single = trained("simclr", 1, form)[1]["loss"]
    np.testing.assert_allclose([row["loss"] for row in journal.rows], single, rtol=0 if BACKEND == "jax" else 1e-5)


@fuses
def test_a_run_that_is_stopped_ends_with_its_program(tmp_path):
    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            stopwatch.stop("signal", "stopped")

    journal, stopwatch = callbacks.Journal(tmp_path / "history.csv", 24), callbacks.Stopwatch()
    checkpoint = callbacks.Checkpoint(tmp_path / "checkpoint.npz", journal, stopwatch)
    trained("simclr", 7, "epochs", watchers=[stopwatch, Stop(), journal, checkpoint])
    assert [row["views"] for row in journal.rows] == [7 * 24]
    assert stopwatch.ended == "signal" and not checkpoint.path.exists()


def test_the_guard_looks_every_so_many_steps_whether_fused_or_not():
    looked = []
    guard = callbacks.FiniteGuard(["prior"], every=10)
    guard.check = lambda logs, when: looked.append(when)
    for size in (1, 7):
        guard.on_epoch_begin(0)
        for end in range(size - 1, 50, size):
            guard.on_train_batch_end(end)
    assert looked == [f"step {n}" for n in (10, 20, 30, 40, 50, 14, 28, 42)]


@pytest.mark.skipif(not OURS, reason="keras.distribution.DataParallel is JAX's")
def test_on_two_devices_a_stack_is_split_by_images_not_by_steps():
    code = f"""
import keras, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
keras.distribution.set_distribution(keras.distribution.DataParallel())
import jax, numpy, test_fused_steps as fused
assert len(jax.devices()) == 2
(single, logs), (several, fused_logs) = fused.trained("moco", 1, "epochs"), fused.trained("moco", 7, "stacks")
for one, other in zip(single, several):
    numpy.testing.assert_allclose(one, other, atol=1e-6)
"""
    in_another_process(code, "jax", XLA_FLAGS="--xla_force_host_platform_device_count=2")
