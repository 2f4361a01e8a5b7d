"""Variants that take a GPU for hours, shrunk: what they change holds together, from the first step to the model."""

import keras
import numpy as np
import pytest
from test_training import recipe, rows

import sslzoo
from sslzoo import networks
from sslzoo.errors import InvalidInputError, UnknownNameError
from sslzoo.training.plan import Plan
from sslzoo.zoo.results import read_results


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="one backend is enough; this one is fastest")
def test_fastsiams_record_trains_stops_at_its_mark_and_loads(tmp_path):
    """Its views, heads and schedule; a small network for the ResNet-18, which takes minutes, and few images."""
    draw = np.random.default_rng(0)
    splits = {"train": 24, "test": 12}
    arrays = {f"x_{split}": draw.integers(0, 256, (count, 32, 32, 3), "uint8") for split, count in splits.items()}
    labels = {f"y_{split}": (np.arange(count) % 12 == 0).astype("int64") for split, count in splits.items()}
    np.savez(tmp_path / "small.npz", **arrays, **labels)
    folder = recipe("fastsiam").main(
        [
            "--dataset",
            str(tmp_path / "small.npz"),
            "--variant",
            "record",
            "--epochs",
            "3",
            "--batch-size",
            "12",
            "--until-knn",
            "1",
            "--out",
            str(tmp_path / "run"),
            "--set",
            "network=convnet",
            "latent_dim=16",
        ]
    )
    results = read_results(folder)
    assert {metric["name"].partition(".")[0] for metric in results["metrics"]} == {"knn"}  # nothing else is asked
    assert results["settings"]["num_views"] == 8
    assert results["settings"]["learning_rate"] == pytest.approx(0.48 * 12 / 512)  # 0.48 is for 512 images a step
    (row,) = rows(tmp_path / "run")  # most are of one class: good enough after the first epoch
    assert np.isfinite(float(row["loss"])) and float(row["knn"]) >= 0.01 and int(row["views"]) == 24 * 8
    assert any("--until-knn" in remark for remark in results["remarks"])
    features = sslzoo.load(folder).predict(arrays["x_test"], verbose=0)
    assert features.shape == (12, 16) and np.isfinite(features).all()


def test_the_rate_of_ones_own_images_is_proportional_to_the_images_of_a_step(tmp_path):
    """That of the zoo's sets was chosen, and stays."""

    def rate(*words):
        run = Plan.parse("simclr", recipe("simclr").SETTINGS, argv=words)
        return run.settings(None if run.is_known else 3)["learning_rate"]

    usual = rate("--dataset", str(tmp_path))
    batch = Plan.parse("simclr", recipe("simclr").SETTINGS, argv=["--dataset", str(tmp_path)]).settings(3)["batch_size"]
    assert rate("--dataset", str(tmp_path), "--batch-size", str(batch // 2)) == pytest.approx(usual / 2)
    assert rate("--dataset", str(tmp_path), "--accumulate", "4") == pytest.approx(4 * usual)
    for words in (["--learning-rate", "0.5"], ["--set", "learning_rate=0.5"]):
        assert rate("--dataset", str(tmp_path), "--batch-size", "8", *words) == 0.5
    assert rate("--dataset", "mnist", "--batch-size", "8") == rate("--dataset", "mnist")


def test_few_images_of_ones_own_make_one_batch(tmp_path):
    """They need no --batch-size; the zoo's sets keep theirs, and so does who asks for one."""
    settings = Plan.parse("simclr", recipe("simclr").SETTINGS, argv=["--dataset", str(tmp_path)]).settings
    assert settings(3, 48)["batch_size"] == 48 and settings(3, 10**6) == settings(3)
    usual = settings(3)["batch_size"]
    assert settings(3, usual + 52)["batch_size"] == (usual + 52) // 2  # two steps that leave out one image at most
    assert settings(3, 48)["learning_rate"] == pytest.approx(
        settings(3)["learning_rate"] * 48 / settings(3)["batch_size"]
    )
    asked = Plan.parse("simclr", recipe("simclr").SETTINGS, argv=["--dataset", str(tmp_path), "--batch-size", "64"])
    assert asked.settings(3, 48)["batch_size"] == 64


@pytest.mark.parametrize(
    ("method", "network", "message"),
    [
        ("simclr", "mlp-small", "needs a network of images of any side: airnet, resnet18, "),
        ("simvae", "airnet", "is for methods without a decoder"),
        ("gedi", "mlp-small", "needs a network of images of any side"),
        ("cmc", "airnet", "is for images in color"),
    ],
)
def test_views_smaller_than_images_need_a_network_and_a_method_that_can_take_them(method, network, message, tmp_path):
    words = ["--out", str(tmp_path / "run"), "--set", "view_size=6", f"network={network}"]
    with pytest.raises(InvalidInputError, match=message + ".*Received: view_size=6"):
        recipe(method).main(words)
    assert not (tmp_path / "run").exists()


def test_a_set_to_be_told_from_outliers_is_looked_for_before_training(tmp_path):
    with pytest.raises(UnknownNameError, match="Did you mean 'fashion_mnist'"):
        recipe("gedi").main(["--out", str(tmp_path / "run"), "--set", "outliers=fashion_mnst"])
    assert not (tmp_path / "run").exists()


class Made(Exception):
    """With the options that a network was asked for."""


@pytest.mark.parametrize(
    ("method", "settings", "expected"),
    [
        ("cmc", ["network=mlp-small", "network_options={'widths': (8,)}"], {"widths": (8,)}),
        ("jem", ["network=convnet"], {}),
        ("gedi", ["network=resnet8-gedi"], {"width": 16}),
        ("gedi", ["network=resnet8-gedi", "network_options={'width': 8}"], {"width": 8}),
        ("ebclr", ["network=mlp"], {"widths": (500, 500)}),
    ],
)
def test_a_network_gets_the_options_that_are_its_own(method, settings, expected, tmp_path, monkeypatch):
    def encoder(name, *shape, **options):
        raise Made(options)

    monkeypatch.setattr(networks, "encoder", encoder)
    with pytest.raises(Made) as made:
        recipe(method).main(["--dataset", "digits", "--out", str(tmp_path / "run"), "--set", *settings])
    assert {name: value for name, value in made.value.args[0].items() if name != "seed"} == expected


def test_cmc_has_no_pretrained_network(tmp_path):
    words = ["--dataset", "digits", "--out", str(tmp_path / "run"), "--network", "keras:MobileNetV2", "--pretrained"]
    with pytest.raises(InvalidInputError, match="--pretrained is for methods of one encoder"):
        recipe("cmc").main(words)
