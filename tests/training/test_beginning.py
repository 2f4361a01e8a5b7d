"""--init: training that goes on from a trained model begins at its loss, not at chance."""

import csv

import keras
import numpy as np
import pytest
from test_training import recipe

import sslzoo
from sslzoo import errors
from sslzoo.training import outcome
from sslzoo.zoo.results import read_results

pytestmark = pytest.mark.slow

SMALL = ["--limit", "240", "--protocols", "knn"]


def train(name, out, *arguments):
    return recipe(name).main([*SMALL, "--out", str(out), *map(str, arguments)])


def losses(out):
    with open(out / "history.csv") as file:
        return [float(row["loss"]) for row in csv.DictReader(file)]


def test_a_variational_run_begins_where_the_model_stood(tmp_path):
    still = ["--epochs", 1, "--set", "learning_rate=1e-9"]
    train("simvae", tmp_path / "fresh", *still)
    folder = train("simvae", tmp_path / "on", *still, "--init", "simvae-digits")
    fresh, on = losses(tmp_path / "fresh")[0], losses(tmp_path / "on")[0]
    assert on < 0.5 * fresh
    x = sslzoo.data.load("digits", "test")[0][:20]
    former = sslzoo.load("simvae-digits")
    np.testing.assert_allclose(sslzoo.load(folder).predict(x, verbose=0), former.predict(x, verbose=0), atol=1e-4)
    results = read_results(folder)
    assert "--init simvae-digits" in results["recipe"] and results["settings"]["network"] == "as in simvae-digits"
    assert any("weights of simvae-digits" in remark for remark in results["remarks"])


@pytest.mark.parametrize("head", ["None", "(16, 8)"])
def test_a_contrastive_run_begins_where_the_model_stood_head_included(tmp_path, head):
    settings = ["--batch-size", 60, "--set", f"head={head}", "warmup_steps=0"]
    folder = train("simclr", tmp_path / "first", "--epochs", 8, *settings)
    made = train("simclr", tmp_path / "on", "--epochs", 1, *settings, "learning_rate=1e-9", "--init", folder)
    for file in ("results.json", "README.md"):  # others need not know where it lay
        assert str(tmp_path) not in (made / file).read_text("utf-8")
    first, on = losses(tmp_path / "first"), losses(tmp_path / "on")[0]
    assert abs(on - first[-1]) < 0.25 * (first[0] - first[-1])


@pytest.mark.parametrize("name", ["gedi", "jem", "ebclr"])
def test_an_energy_run_begins_where_the_model_stood_head_included(name, tmp_path, monkeypatch):
    """Whose recipes make their networks in a size of their own, and whose head may be one of clusters."""
    monkeypatch.setattr(outcome, "draw", lambda *_: {})
    settings = ["--batch-size", 60, "--epochs", 1, "--set", "sgld_steps=1", "buffer_size=60", "width=4"]
    settings += ["standardize=60"] if name == "gedi" else []  # which trained weights must be spared
    folder = train(name, tmp_path / "first", *settings, "learning_rate=0.01")
    on = train(name, tmp_path / "on", *settings, "learning_rate=1e-9", "--seed", 1, "--init", folder)
    x = sslzoo.data.load("digits", "test")[0][:20]
    for part in ("encoder", "projection"):
        former, now = (sslzoo.load(place, part=part).predict(x, verbose=0) for place in (folder, on))
        np.testing.assert_allclose(now, former, atol=1e-4)
    assert any("Training began with the weights of" in remark for remark in read_results(on)["remarks"])
    with pytest.raises(errors.InvalidInputError, match="latent_dim=5 features"):
        train(name, tmp_path / "out", *settings, "latent_dim=5", "--init", folder)


def test_what_does_not_fit_is_told_before_the_first_step(tmp_path):
    for arguments, message in (
        (["--init", "simvae-mnist"], r"images of this data set, \(8, 8, 1\)"),
        (["--init", "simvae-digits", "--set", "latent_dim=4"], "--set latent_dim=10"),
    ):
        with pytest.raises(errors.InvalidInputError, match=message):
            train("simvae", tmp_path / "out", "--epochs", 1, *arguments)
    folder = train("simclr", tmp_path / "simclr", "--epochs", 1)
    with pytest.raises(errors.InvalidInputError, match="one of its kind"):
        train("simvae", tmp_path / "out", "--epochs", 1, "--init", folder)
    with pytest.raises(errors.InvalidInputError, match=r"cmc trains networks of its own.*--init=simvae-digits"):
        train("cmc", tmp_path / "out", "--init", "simvae-digits")
    with pytest.raises(errors.UnknownNameError, match="simvae-digits"):
        train("simvae", tmp_path / "out", "--init", "simvae-digit")
    assert not (tmp_path / "out").exists()


def test_a_plain_file_of_keras_is_a_network_that_takes_views(tmp_path, capsys):
    network = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Flatten(), keras.layers.Dense(10)])
    network.save(tmp_path / "plain.keras")
    folder = train(
        "simclr", tmp_path / "out", "--epochs", 1, "--set", "learning_rate=1e-9", "--init", tmp_path / "plain.keras"
    )
    assert "given views of this run as they are" in capsys.readouterr().out
    x = sslzoo.data.load("digits", "test")[0][:20]
    np.testing.assert_allclose(
        sslzoo.load(folder).predict(x, verbose=0), network.predict(x / 255, verbose=0), atol=1e-4
    )
