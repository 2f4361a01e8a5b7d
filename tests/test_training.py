"""Recipes as a user runs them: artifacts, exact resume after SIGKILL, early ends, and the wrong ways."""

import csv
import importlib.util
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
import types
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from tiers import tiered

import sslzoo
from sslzoo import callbacks, cli, errors, processes, training
from sslzoo.callbacks import checkpoint as checkpoints
from sslzoo.callbacks import memory
from sslzoo.data import sources
from sslzoo.files import unlock_folder
from sslzoo.methods import METHODS, SimCLR
from sslzoo.networks import encoder
from sslzoo.training import outcome
from sslzoo.training.annealing import PlateauRate
from sslzoo.training.settings import resolve
from sslzoo.views import Views

pytestmark = pytest.mark.usefixtures("quick_plane")
RECIPES = Path(__file__).parent.parent / "recipes"
RECIPE_NAMES = sorted(path.stem for path in RECIPES.glob("*.py") if path.stem != "zoo")  # which runs the others
SMALL = ["--limit", "240", "--batch-size", "24", "--protocols", "knn"]
# Steps in one program: what ends training between steps must do so between programs.
fused = pytest.mark.parametrize("fused", [1, 4] if keras.backend.backend() == "jax" else [1])


def recipe(name):
    spec = importlib.util.spec_from_file_location(f"recipe_{name}", RECIPES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def train(name, out, *arguments):
    return recipe(name).main([*SMALL, "--out", str(out), *map(str, arguments)])


def start_until_checkpoint(out, *arguments):
    """A process of recipes/simvae.py, as soon as it has written its first checkpoint."""
    command = [sys.executable, str(RECIPES / "simvae.py"), *SMALL, *arguments, "--out", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    deadline = time.monotonic() + 300
    while not (out / "checkpoint.npz").exists():
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()[0][-2000:]
        time.sleep(0.005)
    return process


def checkpoint(out):
    with np.load(Path(out) / "checkpoint.npz") as data:
        return {key: data[key] for key in data.files if key != "note"}, json.loads(str(data["note"]))


def rows(out):
    with open(Path(out) / "history.csv") as file:
        return list(csv.DictReader(file))


# ---------------------------------------------------------------- what comes out


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "out"
    return out, train("simvae", out, "--epochs", 3, "--remark", "The images went through JPEG.", "--remark", "Twice.")


def test_artifact_holds_a_loadable_encoder_and_everything_around_it(finished):
    out, folder = finished
    assert folder == out / "simvae-digits"
    results = json.loads((folder / "results.json").read_text())
    assert results["settings"]["num_views"] == 10 and results["seeds"] == [0]
    assert results["views_seen"] == 3 * 240 * 10
    assert "--epochs 3" in results["recipe"] and "--out" not in results["recipe"]
    assert results["remarks"][:2] == ["The images went through JPEG.", "Twice."] and "JPEG" not in results["recipe"]
    assert "The images went through JPEG." in (folder / "README.md").read_text()
    assert {metric["name"] for metric in results["metrics"]} >= {"knn.euclidean_best_accuracy"}
    for picture in ("curves", "reconstructions", "samples", "embedding"):
        assert (folder / "pictures" / f"{picture}.png").read_bytes().startswith(b"\x89PNG")
    assert "simvae-digits" in (folder / "README.md").read_text()

    images, _ = sslzoo.data.load("digits", "test")
    encoder = sslzoo.load(folder)
    model = sslzoo.load(folder, part="model")
    features = encoder.predict(images[:20], verbose=0)
    assert features.shape == (20, 10)
    np.testing.assert_allclose(features, keras.ops.convert_to_numpy(model.encode(images[:20])), atol=1e-5)
    mean, log_var = sslzoo.load(folder, part="posterior").predict(images[:20], verbose=0)
    np.testing.assert_allclose(features, mean, atol=1e-6)
    assert log_var.shape == mean.shape
    decoded = sslzoo.load(folder, part="decoder").predict(features, verbose=0)
    np.testing.assert_allclose(decoded, keras.ops.convert_to_numpy(model.reconstruct(images[:20])), atol=1e-5)


def test_journal_has_every_term_and_the_monitor(finished):
    out, _ = finished
    assert len(rows(out)) == 3
    for name in ("loss", "reconstruction", "entropy", "prior", "knn", "views_per_second"):
        assert np.isfinite([float(row[name]) for row in rows(out)]).all()
    assert [int(row["views"]) for row in rows(out)] == [2400, 4800, 7200]


@pytest.mark.parametrize("words", [(), ("--digits", 5)], ids=str)
def test_rounded_weights_are_the_ones_evaluated_and_written(words, tmp_path):
    folder = train("vae", tmp_path / "run", "--epochs", 2, "--float16", *words)
    encoder = sslzoo.load(folder)
    kernel = keras.ops.convert_to_numpy(encoder.get_layer("mean").kernel)
    assert kernel.dtype == "float32"
    np.testing.assert_array_equal(kernel, kernel.astype("float16").astype("float32"))
    kept = np.ldexp(np.frexp(kernel)[0], 5)  # five digits before the point
    assert (kept == np.round(kept)).all() == bool(words)
    results = json.loads((folder / "results.json").read_text())
    assert results.get("packed") == (5 if words else None)
    assert any("keep 5 binary digits" in remark for remark in results["remarks"]) == bool(words)
    assert sslzoo.evaluation.weights_sha256(encoder) in json.dumps(results["evaluation"]["frozen"])
    assert not (folder / "model").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["beta_vae", "cr_vae"])
def test_the_other_recipes_run(name, tmp_path):
    folder = train(name, tmp_path / "run", "--epochs", 1)
    assert sslzoo.load(folder).output_shape == (None, 10)


def test_variants_are_what_they_say():
    for name in ("simvae", "vae", "beta_vae", "cr_vae"):
        assert {"paper", "workshop"} <= set(recipe(name).VARIANTS)
    released = recipe("simvae").VARIANTS["released"]
    assert released.settings["entropy_weight"] == pytest.approx(2 * np.pi)


def test_two_recipes_do_not_print_one_papers_numbers():
    """A recipe made from another must not show that one's published numbers, or cite its paper first."""
    modules = [recipe(name) for name in RECIPE_NAMES if name != "annulus"]
    tables = [json.dumps(module.PUBLISHED) for module in modules if hasattr(module, "PUBLISHED")]
    assert len(tables) == len(set(tables))
    cited = [method.papers[0] for name, method in METHODS.items() if name != "annulus"]  # of one paper with ball
    assert len(cited) == len(set(cited))


def test_every_method_has_the_same_budget_of_cifar10():
    """The budget of one is the budget of all that are compared, and the network is the same.

    In the zoo's tier it is one of hours: a VAE, which decodes at full size, sees fewer views in them.
    """
    vaes = ("simvae", "vae", "beta_vae", "cr_vae")
    others = ("simclr", "vicreg", "moco", "ball", "cmc", "lejepa", "byol", "swav")
    for variant, network, names, views in (
        ("small", "convnet", vaes + others, 20),
        ("zoo", "airnet", vaes, 60),
        ("zoo", "airnet", others, 160),
    ):
        settings = [resolve(module.SETTINGS, module.VARIANTS, variant, "cifar10") for module in map(recipe, names)]
        assert {s["num_views"] * s["epochs"] for s in settings} == {views}
        assert {s["network"] for s in settings} == {network}


@pytest.mark.parametrize("name", RECIPE_NAMES)
def test_the_papers_variants_keep_the_papers_networks(name):
    """They name one for every set of color images; "convnet" is in no paper."""
    module = recipe(name)
    tables = {name for name, variant in module.VARIANTS.items() if variant.settings.get("flip") == "vertical"}
    for variant in {"paper", "released", "workshop"} & tables:  # those of the SimVAE papers; GEDI's have their own
        for kind in (kind for kind, setup in training.SETUPS.items() if setup["latent_dim"] == 64):
            network = resolve(module.SETTINGS, module.VARIANTS, variant, kind, 3)["network"]
            assert network.startswith("resnet"), (variant, kind)


@pytest.mark.slow
def test_the_mixture_starts_as_often_as_the_settings_say(tmp_path):
    arguments = ["--limit", "240", "--batch-size", "24", "--protocols", "gmm", "--epochs", "1"]
    folder = recipe("vae").main([*arguments, "--set", "gmm_restarts=2", "--out", str(tmp_path / "run")])
    results = json.loads((folder / "results.json").read_text())
    assert "--set gmm_restarts=2" in results["recipe"] and results["settings"]["gmm_restarts"] == 2
    assert results["evaluation"]["protocols"]["gmm"]["restarts"] == 2
    assert "likeliest of 2 restarts" in next(m["protocol"] for m in results["metrics"] if m["name"] == "gmm.accuracy")


@pytest.mark.slow
def test_a_protocol_that_does_not_apply_takes_no_numbers_with_it(tmp_path, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))  # where no other set lies to take outliers from
    flags = ["--limit", "240", "--batch-size", "24", "--epochs", "1", "--protocols", "knn", "outliers"]
    folder = recipe("simclr").main([*flags, "--out", str(tmp_path / "run")])
    results = json.loads((folder / "results.json").read_text())
    assert {metric["name"].partition(".")[0] for metric in results["metrics"]} == {"knn"}
    assert any("Not measured, outliers: Outliers take another data set" in remark for remark in results["remarks"])


def test_a_file_of_arrays_is_read_once(tmp_path, monkeypatch):
    images, labels = sslzoo.data.load("digits", "train")
    arrays = {"images": images[:64], "labels": labels[:64], "test_images": images[64:96], "test_labels": labels[64:96]}
    np.savez(tmp_path / "mine.npz", **arrays)
    read, real = [], sources._load_npz
    monkeypatch.setattr(sources, "_load_npz", lambda path, split: read.append(split) or real(path, split))
    options = ["--epochs", "1", "--batch-size", "32", "--protocols", "knn", "--out", str(tmp_path / "run")]
    folder = recipe("vae").main(["--dataset", str(tmp_path / "mine.npz"), *options])
    assert sorted(read) == ["test", "train"]
    results = json.loads((folder / "results.json").read_text())
    assert results["evaluation"]["data"]["name"] == results["dataset"] == "mine"


def test_images_without_labels_train_and_say_that_probes_are_skipped(tmp_path, capsys):
    images, _ = sslzoo.data.load("digits", "train")
    np.savez(tmp_path / "mine.npz", images=images[:64])
    out = tmp_path / "run"
    folder = recipe("vae").main(
        ["--dataset", str(tmp_path / "mine.npz"), "--epochs", "1", "--batch-size", "32", "--out", str(out)]
    )
    assert "No labels: probes are skipped" in capsys.readouterr().out
    assert folder.name == "vae-mine"
    assert sslzoo.load(folder).predict(images[:2], verbose=0).shape == (2, 10)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="tf.data needs TensorFlow")
def test_views_made_in_tf_data_train_as_well(tmp_path):
    train("simvae", tmp_path / "run", "--epochs", 1, "--views", "tf.data", "--num-views", 3)
    assert np.isfinite(float(rows(tmp_path / "run")[0]["loss"]))


@pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="tf.data needs TensorFlow")
@pytest.mark.parametrize(("name", "setting"), [("gedi", "num_views=2"), ("dino", "local_views=2")])
def test_views_in_tf_data_are_refused_where_they_are_not_all_that_a_step_takes(name, setting, tmp_path):
    with pytest.raises(errors.InvalidInputError, match="--views device makes them"):
        train(name, tmp_path / "run", "--views", "tf.data", "--set", setting)
    assert not (tmp_path / "run" / "run.json").exists()


# ---------------------------------------------------------------- exact resume


@pytest.mark.slow
@pytest.mark.parametrize("where", ["device", "tf.data"])
def test_a_killed_run_resumes_to_the_weights_of_an_uninterrupted_one(where, tmp_path, monkeypatch):
    if where == "tf.data" and importlib.util.find_spec("tensorflow") is None:
        pytest.skip("tf.data needs TensorFlow")
    monkeypatch.setattr(training.Run, "finish", lambda run, model: None)  # checkpoints are compared
    arguments = ["--epochs", "12", "--num-views", "3", "--views", where]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    train("simvae", whole, *arguments)

    process = start_until_checkpoint(killed, *arguments)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert 1 <= checkpoint(killed)[1]["epochs_done"] < 12

    train("simvae", killed, *arguments, "--resume")
    (ours, our_note), (theirs, their_note) = checkpoint(killed), checkpoint(whole)
    assert our_note["epochs_done"] == their_note["epochs_done"] == 12
    assert ours.keys() == theirs.keys()
    for key in ours:
        np.testing.assert_array_equal(ours[key], theirs[key], err_msg=key)
    timing = ("seconds", "views_per_second")
    for mine, other in zip(rows(killed), rows(whole), strict=True):
        assert {k: v for k, v in mine.items() if k not in timing} == {k: v for k, v in other.items() if k not in timing}


# ---------------------------------------------------------------- early ends


@fused
def test_max_minutes_leaves_an_artifact_and_the_last_whole_epoch(fused, tmp_path, capsys):
    out = tmp_path / "run"
    folder = train("simvae", out, "--epochs", 100_000, "--max-minutes", 0.05, "--fuse-steps", fused)
    assert re.search(r"stopped after (the steps that were planned for )?--max-minutes", capsys.readouterr().out)
    results = json.loads((folder / "results.json").read_text())
    assert results["ended"] == "minutes" and any("stopped" in remark for remark in results["remarks"])
    assert sslzoo.load(folder).output_shape == (None, 10)
    if (out / "checkpoint.npz").exists():
        assert len(rows(out)) - checkpoint(out)[1]["epochs_done"] in (0, 1)  # it may end with an epoch


@pytest.mark.parametrize("schedule", ["cosine", "constant"])
def test_a_run_that_its_minutes_ended_keeps_its_model_when_it_is_given_again(schedule, tmp_path, capsys):
    """The steps of the epoch that was cut are in no checkpoint."""
    words = ("--limit", 1000, "--batch-size", 16, "--protocols", "knn", "--epochs", 100_000, "--max-minutes", 0.05)
    words = [*map(str, words), "--out", str(tmp_path / "run"), "--set", f"schedule={schedule}", "monitor_every=0"]
    folder = recipe("simclr").main(words)
    published, record = (folder / "model.weights.h5").read_bytes(), folder.parent / "run.json"
    noted = json.loads(record.read_text())
    assert noted["ended"] == "minutes" and noted["minutes"] == 0.05
    capsys.readouterr()
    for _ in range(2):
        assert recipe("simclr").main([*words, "--resume"]) == folder
        assert "stays: --max-minutes 0.05 had ended this run" in capsys.readouterr().out
        assert (folder / "model.weights.h5").read_bytes() == published
        assert json.loads(record.read_text()) == noted
    words[words.index("0.05")] = "0.06"
    assert recipe("simclr").main([*words, "--resume"]) == folder
    assert (folder / "model.weights.h5").read_bytes() != published


def test_a_run_that_ended_at_its_mark_makes_no_step_when_it_is_resumed(tmp_path):
    words = ("--limit", 200, "--batch-size", 32, "--protocols", "knn", "--out", tmp_path / "run", "--epochs", 6)
    words = [str(word) for word in (*words, "--until-knn", 20)]
    folder = recipe("simclr").main(words)
    before, ended = checkpoint(tmp_path / "run")[1]["epochs_done"], json.loads((folder / "results.json").read_text())
    assert ended["ended"] == "knn" and before < 6
    again = json.loads((recipe("simclr").main([*words, "--resume"]) / "results.json").read_text())
    assert checkpoint(tmp_path / "run")[1]["epochs_done"] == before and again["ended"] == "knn"
    assert again["files"]["model.weights.h5"] == ended["files"]["model.weights.h5"]


def test_after_three_plateaus_nothing_is_left_to_do(tmp_path):
    journal = callbacks.Journal(tmp_path / "h.csv", 1)
    rate = PlateauRate(journal, 0.1, "knn", patience=2, drops=1)
    rate.set_model(keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]))
    journal.rows = [{"knn": 0.5}] * 4
    assert not rate.is_over()
    journal.rows = [{"knn": 0.5}] * 5
    rate.on_train_begin()
    assert rate.is_over() and rate.ended == "plateau"


def test_a_model_has_no_name_of_a_file_of_its_run(tmp_path):
    for name in ("pictures", "results.json", "init"):
        with pytest.raises(errors.InvalidInputError, match=f"--name must not be .*Received: --name='{name}'"):
            recipe("simclr").main(["--name", name, "--out", str(tmp_path / "run")])


class Interrupt(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch >= 4:
            os.kill(os.getpid(), signal.SIGINT)


@fused
def test_ctrl_c_ends_in_good_order_and_gives_the_signal_back(fused):
    before = signal.getsignal(signal.SIGINT)
    stopwatch = callbacks.Stopwatch()
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse", steps_per_execution=fused)
    x = np.zeros((64, 2), "float32")
    history = model.fit(x, x[:, :1], batch_size=4, epochs=3, verbose=0, callbacks=[stopwatch, Interrupt()])
    assert stopwatch.ended == "signal" and stopwatch.reason == "Training was interrupted, in epoch 1."
    assert len(history.epoch) == 1
    assert signal.getsignal(signal.SIGINT) is before


def test_a_handler_that_python_does_not_know_stays(monkeypatch):
    """That of a program around Python, which nobody could put back."""
    real = signal.getsignal
    monkeypatch.setattr(signal, "getsignal", lambda number: None if number == signal.SIGUSR1 else real(number))
    monkeypatch.setattr(signal, "signal", lambda number, handler, put=signal.signal: refuse(number, handler, put))

    def refuse(number, handler, put):
        assert number != signal.SIGUSR1
        return put(number, handler)

    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    x = np.zeros((8, 2), "float32")
    assert len(model.fit(x, x[:, :1], verbose=0, callbacks=[callbacks.Stopwatch()]).epoch) == 1


@pytest.mark.parametrize("count", [2, 7, 1500])
def test_a_monitor_of_any_number_of_images_sees_their_neighbors(count):
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (count, 4, 4, 1)).astype("uint8"), rng.integers(0, 3, count)
    encoder = keras.Sequential([keras.Input((4, 4, 1)), keras.layers.Rescaling(1 / 255), keras.layers.Flatten()])
    watch = callbacks.KNNMonitor(encoder, (images, labels), (images[:40], labels[:40]))
    rows = images.reshape(count, -1) / np.float32(255)
    expected = sslzoo.evaluation.knn_accuracy(rows, labels, rows[:40], labels[:40], min(10, count), "cosine")
    assert watch.measure() == {"knn": expected}


def test_a_stopwatch_that_ended_one_fit_begins_anew_in_the_next(tmp_path):
    keeper, model = keeper_of(tmp_path)
    stopwatch, x = keeper.stopwatch, np.zeros((64, 2), "float32")
    terminated = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: stopwatch._on_signal(signal.SIGTERM, None)
    )

    def fit(*others):
        watchers = [stopwatch, *others, keeper]
        return len(model.fit(x, x[:, :1], batch_size=4, epochs=3, verbose=0, callbacks=watchers).epoch)

    assert fit(terminated) == 1 and stopwatch.deadline and not keeper.path.exists()
    assert fit() == 3 and stopwatch.ended is stopwatch.reason is stopwatch.deadline is None
    assert keeper.restore(model) == 3
    assert fit(Interrupt()) == 1 and stopwatch.reason == "Training was interrupted, in epoch 1."


@fused
def test_a_loss_that_is_not_finite_names_the_term_and_makes_no_checkpoint(fused, tmp_path):
    guard = callbacks.FiniteGuard(["reconstruction", "prior"])
    with pytest.raises(errors.TrainingError, match=r"end of epoch 2.*Received: prior=nan"):
        guard.on_epoch_end(1, {"loss": float("nan"), "reconstruction": 1.0, "prior": float("nan")})
    with pytest.raises(errors.TrainingError, match="Received: "):
        train("simvae", tmp_path / "hot", "--epochs", 3, "--learning-rate", 1e9, "--fuse-steps", fused)
    assert not (tmp_path / "hot" / "checkpoint.npz").exists()


# ---------------------------------------------------------------- wrong ways


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["--dataset", "digit"], errors.UnknownNameError, "Did you mean 'digits'"),
        (["--variant", "papr"], errors.UnknownNameError, "Did you mean 'paper'"),
        (["--num-views", "1"], errors.InvalidInputError, "at least 2 views"),
        (["--epochs", "0"], errors.InvalidInputError, "Received: --epochs=0"),
        (["--batch-size", "4000"], errors.InvalidInputError, "4000 images"),
        (["--dataset", "mnist", "--data-dir", "/nowhere"], errors.MissingDataError, "/nowhere"),
        (["--protocols", "lineer"], errors.UnknownNameError, "Did you mean 'linear'"),
        (["--num-views", "100000000"], errors.InvalidInputError, "views of one step must fit the memory"),
        (["--seed", "18446744073709551616"], errors.InvalidInputError, "Received: seed=18446744073709551616"),
        (["--seed", "-1"], errors.InvalidInputError, "Received: seed=-1"),
        (["--name", "My Model"], errors.InvalidInputError, "Received: --name='My Model'"),
        (["--set", "prior_varience=1"], errors.UnknownNameError, "Did you mean 'prior_variance'"),
        (["--set", "prior_variance"], errors.InvalidInputError, "takes name=value"),
        (["--set", "prior_variance=0.05"], errors.InvalidInputError, "needs a center_variance beside it"),
        (["--set", "prior_variance=much"], errors.InvalidInputError, "must be a number, as 0.15 is"),
    ],
)
def test_wrong_flags_are_refused_before_anything_is_trained(arguments, error, message, tmp_path):
    out = tmp_path / "run"
    with pytest.raises(error, match=message):
        recipe("simvae").main([*arguments, "--out", str(out)])
    assert not out.exists()


def test_a_folder_with_another_run_is_refused(finished, tmp_path):
    out, _ = finished
    with pytest.raises(errors.ArtifactError, match=r"holds a run already.*--resume"):
        train("simvae", out, "--epochs", 3)
    with pytest.raises(errors.ArtifactError, match=r"seed=1 \(was 0\)"):
        train("simvae", out, "--epochs", 3, "--resume", "--seed", 1)
    with pytest.raises(errors.ArtifactError, match="method='vae'"):
        train("vae", out, "--epochs", 3, "--resume")
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(errors.ArtifactError, match=r"new, empty.*thesis\.tex"):
        train("simvae", tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "mine"


def test_a_damaged_or_foreign_checkpoint_is_refused(tmp_path):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    keeper = callbacks.Checkpoint(
        tmp_path / "checkpoint.npz", callbacks.Journal(tmp_path / "h.csv", 1), callbacks.Stopwatch()
    )
    assert keeper.restore(model) == 0
    keeper.set_model(model)
    keeper.write(1)
    whole = (tmp_path / "checkpoint.npz").read_bytes()
    no_note = io.BytesIO()
    np.savez(no_note, note=np.array(json.dumps({"epochs_done": 1})))
    for damaged in (whole[: len(whole) // 2], b"", no_note.getvalue()):
        (tmp_path / "checkpoint.npz").write_bytes(damaged)
        with pytest.raises(errors.ArtifactError, match=r"cannot be read \(checkpoint\.npz: .+\)"):
            keeper.restore(model)
    (tmp_path / "checkpoint.npz").write_bytes(whole)
    other = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    other.compile(optimizer="sgd", loss="mse")
    with pytest.raises(errors.ArtifactError, match="belongs to another model"):
        keeper.restore(other)


def keeper_of(folder):
    """A checkpoint of a model of one weight."""
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, name="only")])
    model.compile(optimizer="sgd", loss="mse")
    keeper = callbacks.Checkpoint(
        folder / "checkpoint.npz", callbacks.Journal(folder / "h.csv", 1), callbacks.Stopwatch()
    )
    keeper.set_model(model)
    return keeper, model


def test_the_checkpoint_before_is_kept_and_taken_if_the_newest_is_damaged(tmp_path):
    keeper, model = keeper_of(tmp_path)
    for epoch in (1, 2, 3):
        model.set_weights([np.full((2, 1), epoch), np.zeros(1)])
        keeper.write(epoch)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint.npz", "checkpoint.previous.npz"]
    assert keeper.restore(model) == 3 and keeper.remarks == []
    (tmp_path / "checkpoint.npz").write_bytes(b"")
    assert keeper.restore(model) == 2
    assert keeper.remarks == ["The newest checkpoint was damaged; the run went on after epoch 2."]
    np.testing.assert_array_equal(model.get_weights()[0], [[2], [2]])
    keeper.write(3)  # which takes the place of the damaged one, and not of the one that is whole
    (tmp_path / "checkpoint.npz").write_bytes(b"")
    assert keeper.restore(model) == 2
    keeper.write(3)
    keeper.write(4)
    assert [keeper._read([path])[0]["epochs_done"] for path in (keeper.path, keeper.previous)] == [4, 3]


@pytest.mark.parametrize(
    "change",
    [
        {"note": {"epochs_done": 99}},  # of 2: the run would end here
        {"note": {"epochs_done": -1}},
        {"note": {"epochs_done": True}},
        {"note": {"rows": [1, 2]}},
        {"note": {"seconds": float("nan")}},
        {"00000": np.full((2, 1), np.nan, "float32")},
        {"00000": np.array([[b"a"], [b"b"]])},
    ],
)
def test_a_checkpoint_that_says_what_cannot_be_is_a_damaged_one(change, tmp_path):
    keeper, model = keeper_of(tmp_path)
    for epoch in (1, 2):
        keeper.journal.rows.append({"epoch": epoch, "views": 10 * epoch})
        keeper.write(epoch)
    with np.load(keeper.path) as whole:
        arrays = dict(whole)
    note = json.dumps(json.loads(str(arrays["note"])) | change.get("note", {}))
    np.savez(keeper.path, **(arrays | change | {"note": np.array(note)}))
    assert keeper.restore(model) == 1
    assert keeper.remarks == ["The newest checkpoint was damaged; the run went on after epoch 1."]


def test_weights_that_are_not_finite_are_not_kept(tmp_path):
    keeper, model = keeper_of(tmp_path)
    keeper.write(1)
    good = (tmp_path / "checkpoint.npz").read_bytes()
    model.set_weights([np.array([[1.0], [np.nan]]), np.zeros(1)])
    with pytest.raises(errors.TrainingError, match=r"stopped being finite in epoch 2.*kept\. Received: .*only/kernel"):
        keeper.write(2)
    assert (tmp_path / "checkpoint.npz").read_bytes() == good


@pytest.fixture
def bfloat16():
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("bfloat16")
    yield
    keras.config.set_dtype_policy(before)


def test_variables_of_bfloat16_come_back_and_are_looked_at(bfloat16, tmp_path):
    keeper, model = keeper_of(tmp_path)
    weights = [np.array([[1.5], [-2.0]]), np.full(1, 0.25)]
    model.set_weights(weights)
    keeper.write(1)
    model.set_weights([np.array([[1.0], [np.nan]]), np.zeros(1)])
    with pytest.raises(errors.TrainingError, match=r"stopped being finite in epoch 2.*only/kernel"):
        keeper.write(2)
    assert keeper.restore(model) == 1
    assert model.variables[0].dtype == "bfloat16"
    for one, other in zip(model.get_weights(), weights):
        np.testing.assert_array_equal(one.astype("float32"), other)
    with np.load(keeper.path) as whole:
        arrays = dict(whole)
    np.savez(keeper.path, **(arrays | {"00000": model.get_weights()[0] * np.nan}))
    with pytest.raises(errors.ArtifactError, match="weights that are not finite"):
        keeper.restore(model)


def test_other_versions_are_told(tmp_path, monkeypatch):
    keeper, model = keeper_of(tmp_path)
    keeper.write(1)
    versions = checkpoints.versions() | {"keras": "9.9"}
    monkeypatch.setattr(checkpoints, "versions", lambda: versions)
    keeper.restore(model)
    assert keeper.remarks == [f"The run was resumed with other versions: keras {keras.__version__} before, 9.9 now."]


# What can be told at the start: arrays of the data set -> what is said before the first step (None: a reason for no
# probes, and the run goes on).
def gray(count, size=8):
    return np.random.default_rng(0).integers(0, 256, (count, size, size, 1), "uint8")


LABELS = np.arange(96) % 3
SETS = {
    "one class": ({"y_train": 0 * LABELS, "x_test": gray(9), "y_test": 0 * LABELS[:9]}, None, "Labels of one class"),
    "one-hot": (
        {"y_train": np.eye(3, dtype=int)[LABELS], "x_test": gray(9), "y_test": np.eye(3, dtype=int)[LABELS[:9]]},
        None,
        "Labels of 3 columns",
    ),
    "test without labels": ({"y_train": LABELS, "x_test": gray(9)}, None, "No labels in the test split"),
    "test of one image": ({"y_train": LABELS, "x_test": gray(1), "y_test": LABELS[:1]}, None, "of one image"),
    "test of unknown classes": ({"y_train": LABELS, "x_test": gray(9), "y_test": LABELS[:9] + 2}, None, "has not"),
    "test of another size": (
        {"y_train": LABELS, "x_test": gray(9, 4), "y_test": LABELS[:9]},
        errors.InvalidInputError,
        "Test images must have the shape",
    ),
    "test of 0..1": (
        {"y_train": LABELS, "x_test": gray(9) / 255, "y_test": LABELS[:9]},
        errors.InvalidInputError,
        "scaled to 0..1",
    ),
}


@pytest.mark.parametrize("what", SETS)
def test_what_can_be_told_at_the_start_is_told_at_the_start(what, tmp_path):
    arrays, error, message = SETS[what]
    np.savez(tmp_path / "set.npz", x_train=gray(96), **arrays)
    arguments = ["--dataset", str(tmp_path / "set.npz"), "--out", str(tmp_path / "run"), "--batch-size", "24"]
    if error is None:
        assert message in training.Run("simvae", {"num_views": 2}, argv=arguments).examples.no_test
        return
    with pytest.raises(error, match=message):
        assert training.Run("simvae", {"num_views": 2}, argv=arguments).examples
    assert not (tmp_path / "run").exists()


@pytest.fixture
def small_run(tmp_path):
    def make(*arguments):
        given = ["--limit", "96", "--batch-size", "24", "--num-views", "2", "--out", str(tmp_path / "run")]
        run = training.Run("simvae", {}, argv=[*given, *arguments])
        run.examples  # noqa: B018 - reads them
        run.folder.take(run.identity)  # as `prepare` does
        return run

    yield make
    unlock_folder(tmp_path / "run")


def test_a_run_that_failed_in_its_first_step_does_not_block_the_next(small_run):
    run = small_run()
    (run.out / "run.json").write_text(json.dumps(run.identity))
    (run.out / ".run.json.123.part").write_text("{")
    assert small_run("--batch-size", "12").settings["batch_size"] == 12
    (run.out / "checkpoint.npz").write_bytes(b"")
    with pytest.raises(errors.ArtifactError, match="holds a run already"):
        small_run()


@pytest.mark.parametrize("content", ["[]", "{", '"x"'])
def test_a_record_that_is_none_is_said_to_be_none(small_run, content):
    run = small_run()
    (run.out / "run.json").write_text(content)
    with pytest.raises(errors.ArtifactError, match=r"JSON.*run\.json"):
        small_run("--resume")


def test_resume_knows_its_data_and_names_the_key_that_differs(small_run, tmp_path):
    np.savez(tmp_path / "set.npz", images=gray(96))
    run = small_run("--dataset", str(tmp_path / "set.npz"))
    (run.out / "run.json").write_text(json.dumps(run.identity))
    small_run("--dataset", str(tmp_path / "set.npz"), "--resume")
    small_run("--dataset", f"{tmp_path}/./set.npz", "--resume")  # the same file
    with pytest.raises(errors.ArtifactError, match=r"Received: epochs=7 \(was \d+\)"):
        small_run("--dataset", str(tmp_path / "set.npz"), "--resume", "--epochs", "7")
    np.savez(tmp_path / "set.npz", images=255 - gray(96))
    with pytest.raises(errors.ArtifactError, match=r"the images of the run.*Received: images\.sha256="):
        small_run("--dataset", str(tmp_path / "set.npz"), "--resume")


def test_a_folder_that_cannot_be_written_is_refused_before_training(small_run, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryDirectory", refuse)
    with pytest.raises(errors.ArtifactError, match=r"can be written \(Permission denied\)\. Received: --out="):
        small_run()


HOLD = """
import sys, time
from sslzoo.files import lock_folder
print(lock_folder(sys.argv[1]), flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such locks")
def test_two_processes_do_not_train_in_one_folder(small_run, tmp_path):
    (tmp_path / "run").mkdir()
    with subprocess.Popen([sys.executable, "-c", HOLD, tmp_path / "run"], stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout.readline() == "True\n"
            with pytest.raises(errors.ArtifactError, match="Another process trains in this folder"):
                small_run()
        finally:
            other.kill()
    small_run()  # the system frees the lock of a process that was killed


def test_a_model_is_written_even_if_it_cannot_be_evaluated_or_drawn(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise ZeroDivisionError("in the probes")

    monkeypatch.setattr(outcome, "evaluate", fail)
    monkeypatch.setattr(outcome, "draw", fail)
    with pytest.raises(errors.ArtifactError, match=r"trained and written.*ZeroDivisionError: in the probes"):
        train("simvae", tmp_path / "run", "--epochs", 1, "--num-views", 2)
    folder = tmp_path / "run" / "simvae-digits"
    assert sslzoo.load(folder).output_shape == (None, 10)
    assert "ZeroDivisionError: in the probes" in json.loads((folder / "results.json").read_text())["remarks"][0]


def test_a_model_is_there_before_it_is_evaluated(tmp_path, monkeypatch):
    def killed(*_, **__):
        raise KeyboardInterrupt

    arguments = ["simvae", tmp_path / "run", "--epochs", 1, "--num-views", 2]
    with monkeypatch.context() as patch:
        patch.setattr(outcome, "evaluate", killed)
        with pytest.raises(KeyboardInterrupt):
            train(*arguments)
    unlock_folder(tmp_path / "run")
    folder = tmp_path / "run" / "simvae-digits"
    results = json.loads((folder / "results.json").read_text())
    assert "no time to evaluate" in results["remarks"][-1] and not results["metrics"]
    weights = sslzoo.load(folder).get_weights()
    train(*arguments, "--resume")
    results = json.loads((folder / "results.json").read_text())
    assert not results["remarks"] and results["metrics"]
    for before, after in zip(weights, sslzoo.load(folder).get_weights(), strict=True):
        np.testing.assert_array_equal(before, after)


def hurry(run, grace):
    run.stopwatch.deadline = time.monotonic() + grace
    run.stopwatch.ended, run.stopwatch.reason = "signal", "Training was ended by SIGTERM, in epoch 1."


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="Windows has no such timer")
def test_after_a_signal_the_model_comes_first_and_the_rest_has_its_time(tmp_path, monkeypatch, capsys):
    def slow(*_, **__):  # the model is written by now: its time is over, however long that took
        signal.setitimer(signal.ITIMER_REAL, 0.1, 1.0)
        time.sleep(3600)

    real = training.Run.finish
    monkeypatch.setattr(outcome, "evaluate", slow)
    monkeypatch.setattr(training.Run, "finish", lambda run, model: (hurry(run, 3600), real(run, model))[1])
    folder = train("simvae", tmp_path / "run", "--epochs", 1, "--num-views", 2, "--grace", 5)
    assert "--grace are over" in capsys.readouterr().out
    assert sslzoo.load(folder).output_shape == (None, 10)
    assert "no time to evaluate" in json.loads((folder / "results.json").read_text())["remarks"][-1]


@fused
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGUSR1"])
def test_signals_end_in_good_order_and_are_given_back(name, fused):
    number = getattr(signal, name, None)
    if number is None or sys.platform == "win32":
        pytest.skip("Windows has no such signal")
    before = signal.getsignal(number)
    stopwatch = callbacks.Stopwatch(grace=7)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse", steps_per_execution=fused)
    x = np.zeros((64, 2), "float32")
    sent = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: os.kill(os.getpid(), number) if batch >= 4 else None
    )
    history = model.fit(x, x[:, :1], batch_size=4, epochs=3, verbose=0, callbacks=[stopwatch, sent])
    assert stopwatch.ended == "signal" and stopwatch.reason == f"Training was ended by {name}, in epoch 1."
    assert len(history.epoch) == 1
    assert 0 < stopwatch.deadline - time.monotonic() <= 7
    assert signal.getsignal(number) is before


def fit_that_fails(watcher):
    """`fit` of a method, in which a callback behind `watcher` raises."""

    def fail(logs):
        raise errors.TrainingError("The weights stopped being finite. Received: loss=nan")

    model = SimCLR(encoder("mlp-small", (8, 8, 1), 10), views=Views("simvae-digits", 2))
    model.compile("sgd")
    with pytest.raises(errors.TrainingError, match="Received: loss=nan"):
        watchers = [watcher, keras.callbacks.LambdaCallback(on_train_begin=fail)]
        model.fit(np.zeros((8, 8, 8, 1), "uint8"), batch_size=8, verbose=0, callbacks=watchers)


def test_a_fit_that_raises_gives_the_signals_back():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    fit_that_fails(callbacks.Stopwatch())
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


@pytest.mark.parametrize(
    "error, message",
    [
        (OSError(28, "No space left on device", "/full/checkpoint.npz"), r"No space left.*--resume.*'/full/checkpoint"),
        (KeyboardInterrupt(), None),
    ],
)
def test_faults_of_the_system_and_a_second_ctrl_c_end_in_a_line(error, message, capsys):
    def main():
        raise error

    with pytest.raises(SystemExit) as caught:
        training.script(main)
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and re.search(message or "Interrupted", told)
    assert caught.value.code == (130 if message is None else 2)


class Closed(io.StringIO):
    def write(self, text):
        raise BrokenPipeError(32, "Broken pipe")


def say_on_both(flags=()):
    for stream in (sys.stdout, sys.stderr):
        print("still here", file=stream, flush=True)
    return "folder"


def test_a_closed_pipe_does_not_end_a_run(monkeypatch):
    monkeypatch.setattr(sys, "stdout", Closed())
    monkeypatch.setattr(sys, "stderr", Closed())
    training.script(say_on_both)


def test_streams_that_were_closed_from_the_start_do_not_end_a_run(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    training.script(say_on_both)


def test_a_closed_pipe_does_not_end_a_run_by_sslzoo_train(monkeypatch, capsys):
    monkeypatch.setattr(cli.making, "module_at", lambda recipe: SimpleNamespace(main=say_on_both))
    monkeypatch.setattr(sys, "argv", ["sslzoo"])
    monkeypatch.setattr(sys, "stderr", Closed())
    assert cli.main(["train", "simvae"]) == 0
    assert capsys.readouterr().out == "folder\n"


@pytest.mark.parametrize("by", ["script", "sslzoo train"])
def test_a_lost_process_ends_a_run_however_it_was_started(by, monkeypatch, capsys):
    def main(flags=()):
        raise ValueError("Gloo: connection closed by peer")

    asked = []
    monkeypatch.setattr(processes, "end_if_lost", asked.append)
    monkeypatch.setattr(cli.making, "module_at", lambda recipe: SimpleNamespace(main=main))
    monkeypatch.setattr(sys, "argv", ["sslzoo"])
    if by == "script":
        with pytest.raises(ValueError, match="Gloo"):
            training.script(main)
    else:
        assert cli.main(["train", "simvae"]) == 3 and "ValueError: Gloo" in capsys.readouterr().err
    assert len(asked) == 1


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="Windows has none")
def test_signals_that_are_sent_again_do_not_cut_short_what_is_written():
    stopwatch = SimpleNamespace(deadline=time.monotonic() + 60, grace=60)
    before = signal.getsignal(signal.SIGTERM)
    written = outcome._in_time(
        SimpleNamespace(stopwatch=stopwatch), lambda: os.kill(os.getpid(), signal.SIGTERM) or "whole"
    )
    assert written == "whole" and signal.getsignal(signal.SIGTERM) == before


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="Windows has none")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_time_is_up_even_if_python_drops_it_once(tmp_path):
    class Finalized:
        def __del__(self):  # what is raised here is printed, and nothing more
            time.sleep(0.5)

    def work():
        made = Finalized()
        del made
        time.sleep(20)

    run = SimpleNamespace(
        stopwatch=SimpleNamespace(deadline=time.monotonic() + 0.1, grace=0.1), out=tmp_path, name="model"
    )
    began = time.monotonic()
    with pytest.raises(errors.ArtifactError, match=r"0\.1 seconds of --grace are over.*there is no model yet"):
        outcome._in_time(run, work)
    assert time.monotonic() - began < 15
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    (tmp_path / "model").mkdir()
    assert outcome._in_time(run, work) == tmp_path / "model"


# ---------------------------------------------------------------- every recipe


# By default one recipe of each kind; the battery fits all methods.
@pytest.mark.parametrize("name", tiered(RECIPE_NAMES, {"simclr", "annulus", "dino", "gedi"}))
def test_every_recipe_trains_and_hands_over_its_parts(name, tmp_path, monkeypatch):
    """One epoch of each: settings reach the method, indices and callbacks reach `fit`. Probes are tested above."""
    finished = {}
    monkeypatch.setattr(training.Run, "finish", lambda run, model: finished.update(run=run, model=model))
    small = ["--limit", "240", "--batch-size", "12", "--epochs", "1", "--out", str(tmp_path / "run")]
    main = recipe(name).main
    try:
        main(small)
    except errors.InvalidInputError as error:  # 240 images are few for a queue
        assert "queue_size" in str(error)
        main([*small, "--queue-size", "24"])
    run, model = finished["run"], finished["model"]
    assert run.method.replace("-", "_") == name and outcome.ending(run) == ("epochs", [])
    (row,) = rows(tmp_path / "run")
    assert np.isfinite([float(row[term]) for term in ("loss", *model.terms)]).all()
    assert model.parts(run.image_shape)["encoder"].input_shape == (None, 8, 8, 1)


def test_queues_are_checked_against_the_images(tmp_path):
    few = ["--limit", "240", "--out", str(tmp_path / "run")]
    with pytest.raises(errors.InvalidInputError, match=r"at most 30\. Received: queue_size=128 with 240 images"):
        recipe("moco").main(few)
    with pytest.raises(SystemExit):  # no such flag
        recipe("simclr").main([*few, "--queue-size", "8"])
    assert not (tmp_path / "run").exists()


def color_images(tmp_path):
    np.savez(tmp_path / "color.npz", images=np.random.default_rng(0).integers(0, 256, (600, 16, 16, 3), "uint8"))
    return str(tmp_path / "color.npz")


class Ready(Exception):
    """A run that was about to train, and its model."""


@pytest.fixture
def stopped(monkeypatch):
    """Recipes come as far as `Run.prepare`, and raise `Ready` there."""

    def stop(run, model, optimizer=None):
        raise Ready(run, model)

    monkeypatch.setattr(training.Run, "prepare", stop)


@pytest.mark.parametrize("name", ["byol", "fastsiam", "nnclr", "simsiam"])
def test_without_a_head_the_predictor_stands_on_the_encoder(name, tmp_path, stopped):
    with pytest.raises(Ready) as caught:
        recipe(name).main(["--set", "head=None", "latent_dim=7", "--out", str(tmp_path / "r")])
    _, model = caught.value.args
    assert model.projector is None
    assert model.predictor.input_shape == model.predictor.output_shape == (None, 7)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["simclr", "moco", "vicreg", "byol"])
def test_strong_settings_reach_the_run(name, tmp_path, stopped):
    argv = [
        "--dataset",
        color_images(tmp_path),
        "--variant",
        "strong",
        "--batch-size",
        "8",
        "--out",
        str(tmp_path / "r"),
    ]
    with pytest.raises(Ready) as caught:
        recipe(name).main([*argv, *(["--queue-size", "64"] if name == "moco" else [])])
    run, model = caught.value.args
    assert model.encoder.output_shape == (None, 512) and model.projector is not None
    module = recipe(name)
    expected = dict(module.VARIANTS["strong"].settings)
    expected["learning_rate"] *= 8 / expected["batch_size"]  # of one's own images
    for setting, value in expected.items():
        if setting not in ("batch_size", "queue_size"):
            assert run.settings[setting] == value, setting
    optimizer = run.optimizer()
    assert type(optimizer).__name__ == {"lars": "LARS", "sgd": "L2SGD"}[expected["optimizer"]]
    assert optimizer.momentum == 0.9 and optimizer.weight_decay == expected["weight_decay"]


def test_strong_is_for_color_images(tmp_path):
    with pytest.raises(errors.InvalidInputError, match=r"Variant strong is for cifar10.*Received: --dataset digits"):
        recipe("simclr").main(["--variant", "strong", "--out", str(tmp_path / "run")])


# ---------------------------------------------------------------- their own images


def photos(root, per_class=16):
    """Digits as photographs of two sizes, in a folder for each of two classes, and one that cannot be read."""
    from PIL import Image

    images, labels = sslzoo.data.load("digits", "train")
    for digit in (0, 1):
        (root / f"class {digit}").mkdir(parents=True)
        for n, row in enumerate(np.flatnonzero(labels == digit)[:per_class]):
            side = 16 if n % 2 else 20
            Image.fromarray(images[row, ..., 0]).resize((side, side)).save(root / f"class {digit}" / f"{n}.png")
    (root / "class 1" / "bad.png").write_bytes(b"")
    return root


def test_a_folder_of_photographs_from_end_to_end(tmp_path, capsys):
    root = photos(tmp_path / "my pics")
    small = ["--dataset", str(root), "--epochs", "1", "--batch-size", "8", "--protocols", "knn"]
    with pytest.raises(errors.InvalidInputError, match="1 of 33 images cannot be read"):
        recipe("simclr").main([*small, "--out", str(tmp_path / "none")])
    assert not (tmp_path / "none").exists()

    folder = recipe("simclr").main([*small, "--out", str(tmp_path / "plain"), "--on-error", "skip"])
    told = capsys.readouterr().out
    assert "2 folders in it look like classes" in told and "resized to 18 x 18" in told and "bad.png" in told
    assert folder.name == "simclr-my-pics" and sslzoo.load(folder).input_shape == (None, 18, 18, 1)
    for picture in ("views", "neighbors", "curves"):
        assert (folder / "pictures" / f"{picture}.png").read_bytes().startswith(b"\x89PNG")
    card, results = (folder / "README.md").read_text(), json.loads((folder / "results.json").read_text())
    assert str(tmp_path) not in card and "bad.png" not in card and "apache" not in card
    assert results["license"] == "unknown" and "'my pics/'" in results["recipe"]
    assert any(remark == "1 of 33 images could not be read and were left out." for remark in results["remarks"])

    labeled = ["--on-error", "skip", "--labels", "folders", "--test-share", "0.25", "--license", "cc-by-4.0"]
    # of any seed, so that nobody tests with what an encoder was trained on
    folder = recipe("simclr").main([*small, "--out", str(tmp_path / "labeled"), "--seed", "1", *labeled])
    results = json.loads((folder / "results.json").read_text())
    assert results["license"] == "cc-by-4.0" and results["metrics"] and results["evaluation"]["data"]["test"] == 8
    report = sslzoo.evaluate(folder, root, ("knn",), labels="folders", test_share=0.25, on_error="skip")
    assert report["knn"] == {name: number["value"] for name, number in results["evaluation"]["numbers"]["knn"].items()}


# ---------------------------------------------------------------- more epochs, and how long they take


@pytest.mark.slow
def test_a_run_is_extended_by_more_epochs_and_the_card_says_so(tmp_path):
    train("vae", tmp_path, "--epochs", 2)
    with pytest.raises(errors.ArtifactError) as caught:
        train("vae", tmp_path, "--epochs", 3, "--resume", "--seed", 1, "--name", "vae-digits")
    told = str(caught.value)
    assert "seed=1 (was 0)" in told and "batch_size" not in told and "epochs" not in told
    with pytest.raises(errors.ArtifactError, match=r"epochs=1 \(was 2\)"):
        train("vae", tmp_path, "--epochs", 1, "--resume")
    folder = train("vae", tmp_path, "--epochs", 4, "--resume")
    assert [int(row["epoch"]) for row in rows(tmp_path)] == [1, 2, 3, 4]
    assert "planned for 2 epochs and then extended" in (folder / "README.md").read_text()
    assert "--epochs 4" in json.loads((folder / "results.json").read_text())["recipe"]


@pytest.mark.slow
def test_the_pace_is_told_once(tmp_path, capsys):
    train("vae", tmp_path / "a", "--epochs", 3)
    told = capsys.readouterr().out
    assert told.count(" an epoch, ") == 1 and "for 3 epochs" in told
    pace = callbacks.Pace(100, seconds=0)
    pace.set_params({"steps": 60})
    pace.on_epoch_begin(0)
    pace._since, pace._counted, pace.done = time.monotonic() - 40, 3, 3  # four steps took forty seconds
    pace.on_train_batch_end(3, {})
    assert "About 10 min an epoch, 16.7 h for 100 epochs." in pace.said
    assert re.search(r"At most \d+\.\d GiB of memory so far", pace.said)


def test_memory_is_that_of_the_device_where_there_is_one(monkeypatch):
    taken, of = memory.peak_memory()
    assert of == "memory" and 2**26 < taken < 2**40
    if keras.backend.backend() == "jax":
        import jax

        gpu = types.SimpleNamespace(memory_stats=lambda: {"peak_bytes_in_use": 3 * 2**30})
        monkeypatch.setattr(jax, "local_devices", lambda: [gpu])
    elif keras.backend.backend() == "torch":
        import torch

        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 3 * 2**30)
    else:
        import tensorflow as tf

        monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: [kind])
        monkeypatch.setattr(tf.config.experimental, "get_memory_info", lambda device: {"peak": 3 * 2**30})
    assert memory.peak_memory() == (3 * 2**30, "GPU")


@pytest.mark.slow
def test_a_run_whose_accuracy_stalls_ends_and_is_measured_as_banks_were(tmp_path, monkeypatch, capsys):
    """A bank that never changes, and weights that hardly do, find the same neighbors at every look."""
    monkeypatch.setattr(PlateauRate.__init__, "__defaults__", (1, 2))
    settings = ["schedule=plateau", "probe_on_views=2", "momentum=1"]
    flags = ["--epochs", 9, "--learning-rate", 1e-12, "--set", *settings]
    folder = train("instance_discrimination", tmp_path, *flags)
    assert len(rows(tmp_path)) == 4  # the first, and three that are no better
    assert len({row["bank_accuracy"] for row in rows(tmp_path)}) == 1
    assert "bank_accuracy was no better for 1 looks: the learning rate falls to 1e-13." in capsys.readouterr().out
    results = json.loads((folder / "results.json").read_text())
    assert results["ended"] == "plateau"
    found = {metric["name"]: metric for metric in results["metrics"]}
    assert 50 < found["bank.accuracy"]["value"] <= 100  # of digits, by a random network: chance is about 10
    assert (
        5 < found["views.accuracy"]["value"] <= 100 and "2 epochs of new views" in found["views.accuracy"]["protocol"]
    )
    assert any("for the last time after 4 epochs" in remark for remark in results["remarks"])


# ---------------------------------------------------------------- services that keep experiments


class Service(types.ModuleType):
    """Stands for the package of one; keeps what it is called with."""

    def __init__(self, name):
        super().__init__(name)
        self.calls = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: self.calls.append((name, args, kwargs))


@pytest.mark.parametrize("service", callbacks.Tracker.services)
def test_a_service_gets_settings_and_each_epochs_figures(service, tmp_path, monkeypatch):
    module = Service(service)
    monkeypatch.setitem(sys.modules, service, module)
    monkeypatch.setattr(training.Run, "finish", lambda run, model: None)
    train("simvae", tmp_path / "run", "--epochs", 2, "--log", service)
    begun = [call for call in module.calls if call[0] in ("init", "log_params")]
    sent = [call for call in module.calls if call[0] in ("log", "log_metrics")]
    config = begun[0][2].get("config") or begun[0][1][0]
    assert config["prior_variance"] == 0.15 and [call[2]["step"] for call in sent] == [1, 2]
    journal = rows(tmp_path / "run")
    for row, call in zip(journal, sent, strict=True):
        assert call[1][0]["loss"] == pytest.approx(float(row["loss"]))
    assert module.calls[-1][0] in ("finish", "end_run")


@pytest.mark.parametrize("service", callbacks.Tracker.services)
def test_a_service_that_fails_meanwhile_ends_no_run(service, tmp_path, monkeypatch, capsys):
    def fail(*_, **__):
        raise RuntimeError("no route to host")

    module = Service(service)
    for name in ("log", "log_metrics", "finish", "end_run"):
        setattr(module, name, fail)
    monkeypatch.setitem(sys.modules, service, module)
    folder = train("simvae", tmp_path / "run", "--epochs", 2, "--num-views", 2, "--protocols", "knn", "--log", service)
    assert len(rows(tmp_path / "run")) == 2 and sslzoo.info(folder)["ended"] == "epochs"
    assert capsys.readouterr().out.count("The run goes on") == 1


@pytest.mark.parametrize(
    ("service", "end"),
    [
        ("wandb", ("finish", (), {"exit_code": 1})),
        ("trackio", ("finish", (), {})),
        ("mlflow", ("end_run", (), {"status": "FAILED"})),
    ],
)
def test_a_service_hears_that_a_run_failed_once(service, end, monkeypatch):
    module = Service(service)
    monkeypatch.setitem(sys.modules, service, module)
    tracker = callbacks.Tracker(service, "mine")
    fit_that_fails(tracker)
    assert module.calls[-1] == end
    tracker.release()
    assert module.calls.count(end) == 1


def test_a_service_that_cannot_begin_is_told_in_a_line(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("api_key not configured")

    module = Service("wandb")
    module.init = fail
    monkeypatch.setitem(sys.modules, "wandb", module)
    with pytest.raises(errors.BackendError, match=r"wandb could not begin a run .*api_key not configured"):
        train("simvae", tmp_path / "run", "--epochs", 1, "--log", "wandb")


def test_a_run_that_a_callback_ends_says_so(tmp_path):
    class Ends(keras.callbacks.Callback):
        ended = None

        def on_epoch_end(self, epoch, logs=None):
            self.model.stop_training = True

    def run(name, callback):
        options = ["--epochs", "3", "--num-views", "2", *SMALL, "--name", name, "--out", str(tmp_path / name)]
        run = training.Run("vae", recipe("vae").SETTINGS, recipe("vae").VARIANTS, argv=options)
        model = sslzoo.methods.VAE(run.encoder(posterior=True), run.decoder(), run.views())
        run.prepare(model)
        given = run.fit_arguments()
        model.fit(run.data(), **given | {"callbacks": [*given["callbacks"], callback]})
        run.watchers.append(callback)
        return outcome.ending(run)

    assert run("silent", Ends()) == ("callback", ["A callback ended training after 1 of 3 epochs."])
    named = Ends()
    named.ended, named.reason = "converged", "It converged."
    assert run("named", named) == ("callback", ["It converged."])


def test_gradients_of_an_optimizer_of_ones_own_are_accumulated_or_the_flag_is_refused(tmp_path):
    options = [*SMALL, "--accumulate", "2", "--out", str(tmp_path / "run")]
    run = training.Run("vae", recipe("vae").SETTINGS, recipe("vae").VARIANTS, argv=options)
    model = sslzoo.methods.VAE(run.encoder(posterior=True), run.decoder(), run.views())
    with pytest.raises(errors.InvalidInputError, match=r"gradient_accumulation_steps\. Received: --accumulate=2, None"):
        run.prepare(model, keras.optimizers.Adam(1e-3))
    run.prepare(model, keras.optimizers.Adam(1e-3, gradient_accumulation_steps=2))


def test_a_service_that_is_not_installed_is_named_before_training(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(errors.BackendError, match="pip install wandb"):
        train("simvae", tmp_path / "run", "--log", "wandb")
    assert not (tmp_path / "run").exists()
