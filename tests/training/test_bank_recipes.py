"""Recipes with a memory bank as their paper trains them, on a generated slice of CIFAR-10, to a loaded model."""

import keras
import numpy as np
import pytest
import tfds_sets
from test_training import recipe, train

import sslzoo
from sslzoo import data, methods, training
from sslzoo.files import unlock_folder
from sslzoo.zoo.results import read_results


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="one backend is enough; this one is fastest")
@pytest.mark.parametrize("name", ["instance_discrimination", "cmc"])
def test_variant_mi_trains_is_probed_on_views_and_by_its_bank_and_loads(name, tmp_path, monkeypatch):
    pytest.importorskip("tensorflow_datasets")
    monkeypatch.setattr(tfds_sets, "LABELS", dict.fromkeys(tfds_sets.LABELS, 3))
    tfds_sets.write("cifar10", tmp_path / "sets", {"train": 36, "test": 24})
    small = ["network=convnet", "latent_dim=16", "probe_on_views=2", "negatives=8"]  # a ResNet-18 takes minutes
    folder = recipe(name).main(
        [
            "--dataset",
            "cifar10",
            "--variant",
            "mi",
            "--data-dir",
            str(tmp_path / "sets"),
            "--epochs",
            "2",
            "--batch-size",
            "12",
            "--out",
            str(tmp_path / "run"),
            "--set",
            *small,
        ]
    )
    metrics = {metric["name"]: metric["value"] for metric in read_results(folder)["metrics"]}
    assert np.isfinite(list(metrics.values())).all() and {"bank.accuracy", "views.accuracy"} <= metrics.keys()
    images, _ = data.load("cifar10", "test", data_dir=tmp_path / "sets")
    features = sslzoo.load(folder).predict(images, verbose=0)
    assert features.shape == (24, 16) and np.isfinite(features).all()


def test_monitors_know_which_training_images_their_queries_are(tmp_path):
    run = training.Run(
        "instance-discrimination", {}, argv=["--limit", "240", "--out", str(tmp_path), "--set", "latent_dim=4"]
    )
    try:
        (bank, _, of_bank), (queries, labels, of_queries) = run._monitored
        assert not np.intersect1d(of_bank, of_queries).size and len(of_bank) == 192 and len(of_queries) == 48
        for images, places in ((bank, of_bank), (queries, of_queries)):
            np.testing.assert_array_equal(images, run.images[places])
        np.testing.assert_array_equal(labels, run.labels[of_queries])
        model = methods.InstanceDiscrimination(run.encoder(), 240, views=run.views(num_views=1))
        [monitor] = model.monitors(run)
        np.testing.assert_array_equal(monitor.index, of_queries)
    finally:
        keras.config.set_dtype_policy(run.policy_before)


@pytest.mark.parametrize("name", ["ball", "parametric_instance_discrimination"])
def test_a_run_that_goes_on_embeds_no_images_for_what_its_checkpoint_holds(name, tmp_path, monkeypatch):
    changes = ["--set", "neighbors=50"] if name == "ball" else []
    train(name, tmp_path / "run", "--epochs", 1, *changes)
    unlock_folder(tmp_path / "run")
    filled = []
    monkeypatch.setattr(methods.Ball, "embed_all", lambda *args: filled.append(name))
    monkeypatch.setattr(methods.ParametricInstanceDiscrimination, "embed_all", lambda *args: filled.append(name))
    train(name, tmp_path / "run", "--epochs", 2, *changes, "--resume")
    assert not filled
