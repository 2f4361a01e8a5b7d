"""--until-knn, --accumulate, and several devices where they would change what is compared."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import contract
import keras
import numpy as np
import pytest
from test_method_contract import in_another_process, side_by_side
from test_training import checkpoint, recipe, rows, train

import sslzoo
from sslzoo import callbacks, errors
from sslzoo.training import devices, examples

pytestmark = pytest.mark.slow

BACKEND = keras.backend.backend()
not_jax = pytest.mark.skipif(BACKEND == "jax", reason="no backend is asked, and JAX compiles longest")


@not_jax
def test_a_run_ends_once_its_neighbors_are_right_often_enough(tmp_path, capsys):
    out = tmp_path / "run"
    folder = train("simvae", out, "--epochs", 30, "--num-views", 3, "--until-knn", 12)
    assert len(rows(out)) < 30 and float(rows(out)[-1]["knn"]) >= 0.12
    assert all(float(row["knn"]) < 0.12 for row in rows(out)[:-1] if row["knn"])
    (remark,) = [r for r in json.loads((folder / "results.json").read_text())["remarks"] if "--until-knn" in r]
    assert f"and {len(rows(out))} epochs" in remark and " s and " in remark
    assert remark in capsys.readouterr().out


def test_the_mark_is_passed_when_it_is_reached():
    class Journal:
        def seconds(self):
            return 12.0

    until = callbacks.UntilKNN(0.9, Journal())
    until.set_model(keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)]))
    until.model.stop_training = False
    for logs in ({"knn": 0.899}, {}, None):
        until.on_epoch_end(0, logs)
    assert until.reason is None and not until.model.stop_training
    until.on_epoch_end(4, {"knn": 0.9})
    assert until.reason == "Training was stopped by --until-knn: kNN 90.00% after 12 s and 5 epochs."
    assert until.ended == "knn" and until.model.stop_training


class Ready(Exception):
    pass


def prepared(monkeypatch, tmp_path, *arguments):
    """The run of a recipe as it stands before training."""

    def stop(run, model, optimizer=None):
        raise Ready(run)

    from sslzoo import training

    monkeypatch.setattr(training.Run, "prepare", stop)
    with pytest.raises(Ready) as caught:
        recipe("simclr").main(["--limit", "240", "--batch-size", "24", "--out", str(tmp_path / "run"), *arguments])
    return caught.value.args[0]


@pytest.mark.parametrize("optimizer", ["adam", "sgd", "lars"])
def test_accumulated_gradients_are_their_mean_and_the_schedule_ends_in_time(optimizer, tmp_path, monkeypatch):
    arguments = ["--epochs", "40", "--accumulate", "4", "--set", f"optimizer={optimizer}", "warmup_steps=0"]
    run = prepared(monkeypatch, tmp_path, *arguments)
    accumulating, plain = run.optimizer(), prepared(monkeypatch, tmp_path, *arguments[:2], *arguments[4:]).optimizer()
    assert accumulating.gradient_accumulation_steps == 4 and plain.gradient_accumulation_steps is None
    steps = [schedule.get_config()["decay_steps"] for schedule in (accumulating._learning_rate, plain._learning_rate)]
    assert steps[0] == steps[1]  # Keras asks for the rate of a batch, not of a step that four of them make
    start = np.arange(6, dtype="float32").reshape(2, 3) + 1
    one, other = keras.Variable(start), keras.Variable(start)
    gradients = np.random.default_rng(0).normal(size=(4, 2, 3)).astype("float32")
    for gradient in gradients:
        accumulating.apply([keras.ops.convert_to_tensor(gradient)], [one])
    plain.apply([keras.ops.convert_to_tensor(gradients.mean(axis=0))], [other])
    moved = keras.ops.convert_to_numpy(one)
    assert np.abs(moved - start).max() > 0
    np.testing.assert_allclose(moved, keras.ops.convert_to_numpy(other), rtol=1e-5, atol=1e-6)


def test_an_accumulating_run_says_what_it_does_not_do(tmp_path, capsys):
    out = tmp_path / "run"
    folder = train("simclr", out, "--epochs", 2, "--accumulate", 2)
    said = capsys.readouterr().out
    assert "Negatives, batch statistics and queues are those of one batch" in said
    fastest = devices.suitable_backend("mlp-small")
    assert (f"mlp-small is trained fastest by {fastest}: KERAS_BACKEND={fastest}" in said) == (fastest != BACKEND)
    assert "--accumulate 2" in json.loads((folder / "results.json").read_text())["recipe"]
    with pytest.raises(errors.ArtifactError, match=r"accumulate=4 \(was 2\)"):
        train("simclr", out, "--epochs", 2, "--accumulate", 4, "--resume")


@not_jax
def test_batches_that_make_no_step_are_told(tmp_path, capsys, monkeypatch):
    """Keras gathers the gradients of what is left at the end, and never applies them."""
    with pytest.raises(errors.InvalidInputError, match=r"batches of this run, 20,.*Received: --accumulate=21"):
        train("simclr", tmp_path / "more", "--epochs", 2, "--accumulate", 21)
    assert not (tmp_path / "more").exists()
    words = ("--set", "monitor_every=0")
    train("simclr", tmp_path / "rest", "--epochs", 2, "--accumulate", 6, *words)
    assert "The last 2 of 20 batches make no step." in capsys.readouterr().out
    train("simclr", tmp_path / "whole", "--epochs", 1, "--accumulate", 10, *words)
    assert "make no step" not in capsys.readouterr().out

    real = callbacks.Stopwatch.on_train_batch_end

    def ended(watch, batch, logs=None):  # by a signal, in the first epoch
        watch.stop("signal", "Training was ended by SIGTERM")
        real(watch, batch, logs)

    monkeypatch.setattr(callbacks.Stopwatch, "on_train_batch_end", ended)
    folder = train("simclr", tmp_path / "short", "--epochs", 2, "--accumulate", 15, *words)
    remarks = json.loads((folder / "results.json").read_text())["remarks"]
    assert any("before 15 batches (--accumulate) made a step" in remark for remark in remarks)


def test_a_gpu_shows_by_its_device_or_by_its_driver(tmp_path, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    signs = [tmp_path / "device", tmp_path / "driver"]
    monkeypatch.setattr(devices, "GPU_SIGNS", signs)
    assert not devices.has_gpu()
    for sign in signs:
        sign.touch()
        assert devices.has_gpu()
        for chosen, there in (("", False), ("-1", False), ("1", True)):
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
            assert devices.has_gpu() is there
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
        sign.unlink()


@not_jax
def test_a_processor_that_computes_in_bfloat16_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(devices, "has_gpu", lambda: False)
    monkeypatch.setattr(devices, "is_installed", lambda package: True)
    monkeypatch.setattr(devices, "CPU_FLAGS", tmp_path / "cpuinfo")
    assert not devices.bfloat16_helps("mlp") and devices.computes_in_bfloat16() is None  # no such file
    devices.CPU_FLAGS.write_text("flags\t: fpu avx512f\n")
    assert not devices.bfloat16_helps("mlp")
    devices.CPU_FLAGS.write_text("flags\t: fpu avx512f avx512_bf16 vpclmulqdq\n")
    assert devices.bfloat16_helps("mlp") and not devices.bfloat16_helps("mlp-small")
    assert devices.suitable_backend("mlp") == devices.suitable_backend("mlp-small", "mixed_bfloat16") == "jax"
    assert devices.suitable_backend("mlp", "mixed_bfloat16") == devices.suitable_backend("convnet") == "tensorflow"
    hint = "KERAS_BACKEND=tensorflow with --precision mixed_bfloat16 is faster"
    words = ("--limit", 24, "--epochs", 1, "--set", "monitor_every=0")
    for network in ("mlp", "mlp-small"):
        train("simclr", tmp_path / network, *words, f"network={network}")
        assert (hint in capsys.readouterr().out) == (network == "mlp")
    devices.CPU_FLAGS.write_text("flags\t: fpu avx2\n")
    assert devices.suitable_backend("convnet") == "torch" and devices.suitable_backend("mlp") == "jax"
    assert devices.suitable_backend("convnet", "mixed_bfloat16") == "jax"
    train("simclr", tmp_path / "without", *words, "--precision", "mixed_bfloat16")
    assert "This CPU has no instructions for bfloat16" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--until-knn", "0"], r"Received: --until-knn=0"),
        (["--until-knn", "900"], r"must be a percentage\. Received: --until-knn=900"),
        (["--until-knn", "90", "--set", "monitor_every=0"], r"needs one label.*Received: --until-knn=90"),
        (["--accumulate", "0"], r"Received: --accumulate=0"),
        (["--processes", "0"], r"Received: --processes=0"),
        (["--processes", "2", "--devices", "2"], r"all devices of each process.*--processes=2 --devices=2"),
        *([(["--processes", "2"], "--processes needs KERAS_BACKEND=jax.*--processes=2")] if BACKEND != "jax" else []),
    ],
)
def test_wrong_flags_are_refused(arguments, message, tmp_path):
    with pytest.raises(errors.InvalidInputError, match=message):
        train("simclr", tmp_path / "run", *arguments)
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(BACKEND != "jax", reason="keras.distribution.DataParallel is JAX's")
def test_a_run_on_two_devices_is_the_run_on_one(tmp_path):
    code = f"""
import sys; sys.path.insert(0, {str(Path(contract.__file__).parent)!r})
import numpy as np
from test_training import checkpoint, train
from sslzoo import training
training.Run.finish = lambda run, model: None
for devices in (1, 2):
    arguments = ("--epochs", 2, "--devices", devices, "--fuse-steps", 4)
    train("simclr", {str(tmp_path)!r} + "/" + str(devices), *arguments)
one, two = (checkpoint({str(tmp_path)!r} + "/" + name)[0] for name in "12")
assert one.keys() == two.keys()
for key in one:
    np.testing.assert_allclose(one[key], two[key], atol=1e-4, err_msg=key)
"""
    in_another_process(code, "jax", XLA_FLAGS="--xla_force_host_platform_device_count=2")
    first, second = (rows(tmp_path / name)[-1] for name in "12")
    assert first["views"] == second["views"]
    assert float(first["loss"]) == pytest.approx(float(second["loss"]), rel=1e-4)


@pytest.mark.skipif(BACKEND != "jax", reason="keras.distribution.initialize is JAX's")
@pytest.mark.parametrize(
    ("method", "changes"),
    [
        ("annulus", ("cluster_every=1", "clusterings=2", "clusters=5")),
        ("deepcluster", ("clusters=5",)),
        # Weights and steps of a size that leaves gradients, and so all that is compared, of order one.
        (
            "gedi",
            (
                "network=mlp",
                "latent_dim=10",
                "head=()",
                "standardize=50",
                "sgld_steps=2",
                "step_size=0.1",
                "generative_weight=0.1",
                "invariance_weight=0.1",
                "prior_weight=0.1",
            ),
        ),
    ],
)
def test_a_run_in_two_processes_is_the_run_in_one(method, changes, tmp_path):
    arguments = ("--epochs", 2, "--fuse-steps", 4, *(("--set", *changes) if changes else ()))
    side_by_side(f"""
import os
os.environ["KERAS_DISTRIBUTION_PROCESS_ID"] = str(index)
os.environ["KERAS_DISTRIBUTION_JOB_ADDRESSES"] = f"localhost:{{port}}"
from test_training import train
train({method!r}, {str(tmp_path / "two")!r}, *{arguments}, "--processes", 2)
""")
    folder = train(method, tmp_path / "one", *arguments)
    (one, note), (two, other_note) = checkpoint(tmp_path / "one"), checkpoint(tmp_path / "two")
    assert one.keys() == two.keys() and note["epochs_done"] == other_note["epochs_done"] == 2
    for key in one:
        np.testing.assert_allclose(two[key], one[key], atol=1e-5, err_msg=key)
    for mine, its in zip(rows(tmp_path / "one"), rows(tmp_path / "two"), strict=True):
        assert mine["views"] == its["views"] and float(mine["loss"]) == pytest.approx(float(its["loss"]), rel=1e-5)
    images = sslzoo.data.load("digits", "test")[0][:20]
    ours, theirs = (sslzoo.load(path).predict(images) for path in (folder, tmp_path / "two" / folder.name))
    np.testing.assert_allclose(ours, theirs, atol=1e-4)


@pytest.mark.skipif(BACKEND != "jax", reason="keras.distribution.initialize is JAX's")
def test_two_processes_resume_a_run_of_so_many_minutes_by_the_plan_of_the_first(tmp_path):
    for resume in ((), ("--resume",)):
        side_by_side(f"""
import os
os.environ["KERAS_DISTRIBUTION_PROCESS_ID"] = str(index)
os.environ["KERAS_DISTRIBUTION_JOB_ADDRESSES"] = f"localhost:{{port}}"
from sslzoo import training
from sslzoo.training import annealing
from test_training import train
steps, prepare, planned = annealing.TimePlan.on_steps, training.Run.prepare, []
def end_once_planned(self, count, logs):
    steps(self, count, logs)
    if self.planned:
        self.stopwatch.stop("signal", "ended")
def prepare_and_look(self, *given):
    prepare(self, *given)
    planned.append(self.planned_steps)
    assert float(self.schedule.length) == (self.planned_steps or self.steps)
annealing.TimePlan.on_steps, training.Run.prepare = end_once_planned, prepare_and_look
words = "--epochs", 100_000, "--max-minutes", 1, "--processes", 2
train("simclr", {str(tmp_path / "run")!r}, *words, *{resume})
assert planned[0] is None if not {resume} else planned[0] > 0, planned
""")


@pytest.mark.skipif(BACKEND != "jax", reason="keras.distribution.initialize is JAX's")
def test_processes_that_were_not_started_alike_are_refused(tmp_path):
    side_by_side(f"""
import os
os.environ["KERAS_DISTRIBUTION_PROCESS_ID"] = str(index)
os.environ["KERAS_DISTRIBUTION_JOB_ADDRESSES"] = f"localhost:{{port}}"
from sslzoo.errors import ArtifactError
from test_training import train
try:
    train("simclr", {str(tmp_path / "run")!r}, "--epochs", 2, "--seed", index, "--processes", 2)
except ArtifactError as error:
    assert "must be started alike" in str(error), error
else:
    raise AssertionError("it trained")
""")
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(BACKEND != "jax" or os.name != "posix", reason="keras.distribution.initialize is JAX's")
@pytest.mark.parametrize("killed", [0, 1])
def test_a_process_that_is_killed_ends_the_other_in_words(killed):
    code = """
import os, signal
from sslzoo import processes
from sslzoo.training import devices, script
def main():
    devices.join(2, "alike")
    if index == killed:
        os.kill(os.getpid(), signal.SIGKILL)
    while True:
        processes.any_of(False)
script(main)
"""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    path = os.pathsep.join([str(Path(sslzoo.__file__).parent.parent), *sys.path])
    started = [
        subprocess.Popen(
            [sys.executable, "-c", f"index, killed = {index}, {killed}\n{code}"],
            env=os.environ
            | {"PYTHONPATH": path}
            | {"KERAS_DISTRIBUTION_PROCESS_ID": str(index), "KERAS_DISTRIBUTION_JOB_ADDRESSES": address},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(2)
    ]
    told = [process.communicate(timeout=600)[1] for process in started]
    assert started[killed].returncode == -signal.SIGKILL and started[1 - killed].returncode not in (0, -signal.SIGKILL)
    last = told[1 - killed].splitlines()[-1]
    assert "tart all of them again, with --resume" in last and "Traceback" not in told[1 - killed], told


@pytest.mark.skipif(BACKEND != "jax", reason="keras.distribution.initialize is JAX's")
def test_under_slurm_processes_find_each_other():
    """By what srun tells each of its tasks, and nothing else: --processes takes the rest from there."""
    side_by_side("""
import os
for name in [name for name in os.environ if name.startswith(("SLURM_", "KERAS_DISTRIBUTION_"))]:
    del os.environ[name]
os.environ |= {  # JAX makes the port from the number of the job
    "SLURM_JOB_ID": str(port), "SLURM_STEP_NODELIST": "localhost", "SLURM_NTASKS": "2", "SLURM_STEP_NUM_NODES": "1",
    "SLURM_PROCID": str(index), "SLURM_LOCALID": str(index),
}
import keras
from sslzoo import processes
from sslzoo.training import devices, examples
devices.join(2, "alike")
assert (processes.count(), processes.index()) == (2, index)
assert devices.use(None, joined=True) == len(keras.distribution.distribution().device_mesh.devices.ravel()) == 2
assert processes.of_first([float(index)]) == [0.0] and processes.any_of(index == 1)
processes.leave(keras.Sequential())
""")


@pytest.mark.skipif(BACKEND != "jax", reason="keras.distribution.initialize is JAX's")
def test_processes_that_nobody_tells_apart_are_refused(monkeypatch):
    for name in [name for name in os.environ if name.startswith(("SLURM_", "KERAS_DISTRIBUTION_"))]:
        monkeypatch.delenv(name)
    with pytest.raises(errors.InvalidInputError, match=r"or SLURM.*Received: --processes=2"):
        devices.join(2, "alike")


@pytest.mark.skipif(BACKEND != "jax" or sys.platform == "win32", reason="keras.distribution.initialize is JAX's")
def test_ctrl_c_ends_a_process_that_waits_for_others():
    with socket.socket() as free:
        free.bind(("", 0))
        address = f"localhost:{free.getsockname()[1]}"
    path = os.pathsep.join([str(Path(sslzoo.__file__).parent.parent), *sys.path])
    own = {"PYTHONPATH": path, "KERAS_DISTRIBUTION_PROCESS_ID": "0", "KERAS_DISTRIBUTION_JOB_ADDRESSES": address}
    code = "from sslzoo.training import devices; devices.join(2, 'alike')"
    waiting = subprocess.Popen([sys.executable, "-c", code], env=os.environ | own, stdout=subprocess.PIPE, text=True)
    try:
        assert waiting.stdout.readline().startswith("Waiting for 2 processes")
        time.sleep(5)  # in C++ by then, or on the way there
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait(timeout=60) in (-signal.SIGINT, 1)
    finally:
        waiting.kill()
        waiting.stdout.close()


@pytest.mark.skipif(BACKEND != "jax", reason="this is about JAX")
def test_one_process_counts_all_its_devices(monkeypatch):
    monkeypatch.setattr(keras.distribution, "list_devices", lambda: ["cpu:0", "cpu:1"])
    assert (devices.use(None, joined=True), devices.use(None)) == (2, 1)


@pytest.mark.parametrize("wanted", ["0", "3", "1024", "two"])
def test_devices_that_are_not_there_are_refused(wanted, tmp_path):
    with pytest.raises(errors.InvalidInputError, match=rf"Received: --devices={wanted}"):
        train("simclr", tmp_path / "run", "--devices", wanted)


def test_batches_are_shared_out_whole():
    plan, images = SimpleNamespace(dataset="digits"), np.zeros((24, 8, 8, 1), "uint8")
    with pytest.raises(errors.InvalidInputError, match=r"multiple of the 16 devices\. Received: --batch-size=24"):
        examples.check_sizes(plan, {"batch_size": 24}, images, 16)


@pytest.mark.skipif(BACKEND != "torch", reason="this is about PyTorch")
def test_pytorch_never_compares_a_part_of_the_batch_in_silence(monkeypatch):
    num_views, make = contract.CASES["simclr"]
    model = make(contract.Flips(num_views))
    model.compile(optimizer=keras.optimizers.SGD(1e-3))
    monkeypatch.setattr(keras.distribution, "distribution", lambda: "DataParallel of two")
    with pytest.raises(errors.InvalidInputError, match=r"other negatives.*distribution=DataParallel of two"):
        model.fit(contract.images(24), batch_size=12, verbose=0)
