"""Variants that take a GPU for hours, shrunk: what they change holds together, from the first step to the model."""

import keras
import numpy as np
import pytest
from test_training import recipe, rows

import sslzoo
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
    assert (results["settings"]["num_views"], results["settings"]["learning_rate"]) == (8, 0.48)
    (row,) = rows(tmp_path / "run")  # most are of one class: good enough after the first epoch
    assert np.isfinite(float(row["loss"])) and float(row["knn"]) >= 0.01 and int(row["views"]) == 24 * 8
    assert any("--until-knn" in remark for remark in results["remarks"])
    features = sslzoo.load(folder).predict(arrays["x_test"], verbose=0)
    assert features.shape == (12, 16) and np.isfinite(features).all()
