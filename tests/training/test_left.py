"""What is left after the last step, whatever happens then, and what a run folder holds of what a killed run left."""

import errno
import importlib.util
import json
import os
import shutil
import socket
import struct
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
from PIL import Image
from test_training import SMALL, recipe, rows, train

import sslzoo
from sslzoo import callbacks, errors, methods, networks, training
from sslzoo.training import Variant, devices, outcome
from sslzoo.training.folder import save
from sslzoo.training.plan import Plan
from sslzoo.training.settings import model_name

FEW = ("--epochs", 1, "--num-views", 2)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_names_and_remarks_that_are_not_utf8_cost_no_model(tmp_path):
    images, _ = sslzoo.data.load("digits", "train")
    named = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.npz")
    np.savez(tmp_path / "plain.npz", images=images[:48])
    os.rename(tmp_path / "plain.npz", named)
    words = ["--dataset", named, "--epochs", "1", "--batch-size", "24", "--remark", "a\udce9"]
    folder = recipe("vae").main([*words, "--out", str(tmp_path / "run")])
    results = json.loads((folder / "results.json").read_text("utf-8"))
    assert results["remarks"][0] == "a\\udce9" and "caf\\udce9.npz" in results["recipe"]
    assert sslzoo.load(folder).input_shape == (None, 8, 8, 1)


def test_a_full_disk_leaves_the_file_of_an_earlier_attempt_whole(tmp_path, monkeypatch):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    save(model, tmp_path / "mine.keras")
    before = (tmp_path / "mine.keras").read_bytes()

    def fill_the_disk(self, path, *_, **__):
        path.write_bytes(b"half a file")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(keras.Model, "save", fill_the_disk)
    with pytest.raises(OSError, match="No space left"):
        save(model, tmp_path / "mine.keras")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.keras"]
    assert (tmp_path / "mine.keras").read_bytes() == before


def test_a_path_that_windows_cannot_write_is_told_before_training(tmp_path, monkeypatch):
    """Which has 260 characters: the folder could be made, and the model in it not be written at the end."""
    most, real = len(str(tmp_path)) + 100, open

    def limited(path, *arguments, **named):
        if isinstance(path, str | Path) and len(str(path)) > most:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
        return real(path, *arguments, **named)

    touched = Path.touch
    monkeypatch.setattr(Path, "touch", lambda path: limited(path, "a").close() or touched(path))
    monkeypatch.setattr(training.Run, "fit", lambda *_: pytest.fail("trained"), raising=False)
    with pytest.raises(errors.ArtifactError, match=r"with paths 45 characters longer.*Received: --out=.*--name=n-n"):
        train("simvae", tmp_path / "run", "--epochs", 1, "--name", "n-" * 40 + "n")
    assert not list((tmp_path / "run").iterdir())


def test_some_images_of_a_folder_are_of_all_classes(tmp_path):
    for n, name in enumerate("abcd"):
        for m in range(8):
            (tmp_path / "d" / name).mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (8, 8), (60 * n, 0, 0)).save(tmp_path / "d" / name / f"{m}.png")
    run = training.Run("gedi", {}, argv=["--dataset", str(tmp_path / "d"), "--out", str(tmp_path / "run")])
    assert set(run.some_images(4)[:, 0, 0, 0]) == {0, 60, 120, 180} and len(run.some_images(512)) == 32
    known = training.Run("gedi", {}, argv=["--out", str(tmp_path / "run")])
    np.testing.assert_array_equal(known.some_images(5), known.images[:5])


def test_protocols_may_be_one_name(tmp_path):
    words = ["--limit", "240", "--batch-size", "24", *map(str, FEW), "--set", "protocols=gmm"]
    folder = recipe("simclr").main([*words, "--out", str(tmp_path / "run")])
    assert {metric["name"].partition(".")[0] for metric in sslzoo.info(folder)["metrics"]} >= {"gmm"}


def test_a_precision_is_that_of_one_run(tmp_path, monkeypatch):
    before, write, seen = keras.config.dtype_policy(), outcome.write, []
    monkeypatch.setattr(outcome, "write", lambda run, model: seen.append(model.dtype_policy.name) or write(run, model))
    try:
        for given, asked in (("float32", "mixed_bfloat16"), ("mixed_bfloat16", "float32")):
            keras.config.set_dtype_policy(given)
            folder = train("simclr", tmp_path / asked, *FEW, "--precision", asked)
            assert seen.pop() == asked
            assert json.loads((folder / "results.json").read_text())["settings"]["precision"] == asked
            assert keras.config.dtype_policy().name == given
    finally:
        keras.config.set_dtype_policy(before)


@keras.saving.register_keras_serializable("tests")
class Double(keras.layers.Layer):
    """A layer that no published model may have."""

    def call(self, inputs):
        return 2 * inputs


def test_an_encoder_that_cannot_be_published_is_refused_or_left_as_a_file(tmp_path, monkeypatch):
    run = training.Run("mine", {}, argv=[*SMALL, "--epochs", "1", "--out", str(tmp_path / "run")])
    image, features = keras.Input(run.image_shape), keras.Input((4,))
    encoder = keras.Model(image, keras.layers.Dense(4)(Double()(keras.layers.Flatten()(image))))
    head, plain = keras.Model(features, Double()(features)), networks.encoder("mlp-small", run.image_shape, 4)
    model = methods.SimCLR(encoder, None, run.views())
    for other in (methods.SimCLR(plain, head, run.views()), model):
        with pytest.raises(errors.InvalidInputError, match=r"core Keras layers.*Double"):
            run.prepare(other)
    assert not (tmp_path / "run").exists()
    monkeypatch.setattr(run, "_check_parts", lambda model: None)  # as if it had been overlooked
    run.prepare(model)
    model.fit(run.data(), **run.fit_arguments())
    with pytest.raises(errors.ArtifactError, match=r"trained and written.*mine-digits\.keras"):
        run.finish(model)
    left = keras.models.load_model(tmp_path / "run" / "mine-digits.keras")
    images = sslzoo.data.load("digits", "test")[0][:5]
    ours, theirs = (keras.ops.convert_to_numpy(each.encode(images)) for each in (model, left))
    np.testing.assert_allclose(theirs, ours, atol=1e-6)
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["ended"] == "epochs" and {metric["name"].partition(".")[0] for metric in results["metrics"]} == {
        "knn"
    }


def test_a_picture_that_fails_costs_no_other(tmp_path, monkeypatch):
    def fail(self, images, seed):
        raise ZeroDivisionError("in a picture")

    monkeypatch.setattr(methods.VAE, "pictures", fail)
    with pytest.raises(errors.ArtifactError, match=r"ZeroDivisionError: in a picture.*Received: folder="):
        train("vae", tmp_path / "run", "--epochs", 1)
    folder = tmp_path / "run" / "vae-digits"
    assert json.loads((folder / "results.json").read_text())["metrics"]
    assert not list((tmp_path / "run").glob("*.keras"))
    assert {"curves.png", "neighbors.png"} <= {path.name for path in (folder / "pictures").iterdir()}


@pytest.mark.slow
def test_a_run_goes_on_without_the_model_it_began_with(tmp_path, monkeypatch):
    """And ends in the weights of one whose model was still there."""
    first = train("simclr", tmp_path / "first", *FEW, "--set", "head=(16, 8)", "--name", "first")
    mine = shutil.copytree(first, tmp_path / "mine")
    words = ["--num-views", 2, "--set", "head=(16, 8)", "--name", "on", "--init", mine]
    monkeypatch.setattr(training.Run, "finish", lambda run, model: (run.folder.leave(), model)[1])
    train("simclr", tmp_path / "on", "--epochs", 1, *words)
    shutil.copytree(tmp_path / "on", tmp_path / "other")
    expected = train("simclr", tmp_path / "other", "--epochs", 2, *words, "--resume")
    shutil.rmtree(mine)
    model = train("simclr", tmp_path / "on", "--epochs", 2, *words, "--resume")
    for ours, theirs in zip(model.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(errors.SSLZooError):  # a new run needs it
        train("simclr", tmp_path / "new", "--epochs", 1, *words)


@pytest.mark.slow
def test_what_killed_processes_left_half_written_is_removed(tmp_path):
    out = tmp_path / "run"
    train("vae", out, "--epochs", 1)
    (out / ".checkpoint.npz.123.part").write_bytes(b"PK")
    train("vae", out, "--epochs", 2, "--resume")
    assert not list(out.glob(".*.part")) and len(rows(out)) == 2


@pytest.mark.skipif(importlib.util.find_spec("tensorboard") is None, reason="TensorBoard is not installed")
def test_tensorboard_reads_what_is_written_without_tensorflow(tmp_path, capsys):
    from tensorboard.compat.proto.event_pb2 import Event

    scalars = callbacks.Scalars(tmp_path / "tensorboard")
    scalars.on_train_begin()
    scalars.on_epoch_end(0, {"loss": 2.5, "knn": np.float32(0.5)})
    (path,) = (tmp_path / "tensorboard").iterdir()
    content, events = path.read_bytes(), []
    while content:  # length, its checksum, record, its checksum
        (length,) = struct.unpack("<Q", content[:8])
        events.append(Event.FromString(content[12 : 12 + length]))
        content = content[16 + length :]
    assert events[0].file_version == "brain.Event:2" and events[1].step == 1
    assert {value.tag: value.simple_value for value in events[1].summary.value} == {"loss": 2.5, "knn": 0.5}
    path.unlink()
    path.mkdir()
    scalars.on_epoch_end(1, {"loss": 2.0})
    assert f"{path} could not be written (Is a directory); training goes on." in capsys.readouterr().out


def test_a_port_that_is_taken_is_told():
    """JAX ends by a segmentation fault."""
    with socket.socket() as other:
        other.bind(("localhost", 0))
        other.listen()
        with pytest.raises(errors.InvalidInputError, match=r"Process 0 must be able to listen .*JOB_ADDRESSES='here:"):
            devices.check_port(f"here:{other.getsockname()[1]}")
    for address in ("", "here", "here:0", "here:99999"):
        devices.check_port(address)


def test_the_command_of_a_card_has_the_time_there_was_and_the_name():
    words = ["--dataset", "digits", "--max-minutes", "2.5", "--out", "there"]
    command = Plan.parse("simclr", {}, argv=[*words, "--name", "mine"]).recipe()
    assert command.endswith("recipes/simclr.py --dataset digits --name mine --max-minutes 2.5")
    assert "--name" not in Plan.parse("simclr", {}, argv=[*words, "--name", "simclr-digits"]).recipe()


def test_each_run_of_a_sweep_has_a_name_of_its_own():
    assert model_name("simclr", "digits") == "simclr-digits"
    assert model_name("simclr", "digits", "strong", 1) == "simclr-digits.strong-seed1"
    names = [Plan.parse("simclr", {"temperature": 0.5}, argv=["--set", f"temperature={t}"]).name for t in (0.1, 0.5)]
    assert names == ["simclr-digits.temperature-0-1", "simclr-digits.temperature-0-5"]
    assert (
        Plan.parse("simclr", {"temperature": 0.5}, argv=["--set", "temperature=0.1", "--name", "mine"]).name == "mine"
    )
    long = [
        f"policy_changes={{'crop': {n}, 'jitter': 'of a color that has a very long name, longer than names'}}"
        for n in (1, 2)
    ]
    first, second = (model_name("simclr", "digits", changes=[change]) for change in long)
    assert first != second and len(first) < 40


def test_queues_have_a_flag_where_there_is_one(capsys):
    for own, variants in (({"queue_size": 8}, {}), ({}, {"large": Variant({"queue_size": 8})})):
        assert Plan.parse("moco", own, variants, ["--queue-size", "4"]).arguments.queue_size == 4
    with pytest.raises(SystemExit):
        Plan.parse("simclr", {}, argv=["--queue-size", "4"])
    assert "--queue-size" in capsys.readouterr().err


def test_settings_are_shown_without_a_word_of_data(monkeypatch, capsys):
    def refuse(*_, **__):
        raise AssertionError("it reads images")

    monkeypatch.setattr(sslzoo.data, "load", refuse)
    with pytest.raises(SystemExit):
        recipe("simvae").main(["--show"])
    assert "prior_variance" in capsys.readouterr().out
    run = training.Run("simvae", {}, argv=[])
    assert run.settings["latent_dim"] == 10
    with pytest.raises(AssertionError, match="it reads images"):
        run.encoder()


def test_every_ending_has_a_code():
    class Ends(callbacks.Stopwatch):
        pass

    watch = Ends()
    watch._model = keras.Sequential()
    watch.stop("minutes", "Training was stopped")
    run = type("Run", (), {"watchers": [callbacks.Pace(1), watch], "moved": True})
    assert outcome.ending(run) == ("minutes", ["Training was stopped, in epoch 1."])
