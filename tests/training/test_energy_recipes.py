"""Recipes of energy models on a generated slice of every data set of their papers, from images to a loaded model."""

import keras
import numpy as np
import pytest
import tfds_sets
from test_training import recipe

import sslzoo
from sslzoo import data
from sslzoo.evaluation import outliers
from sslzoo.methods import GEDI, JEM
from sslzoo.training import outcome
from sslzoo.training.settings import resolve
from sslzoo.zoo.results import read_results

DATASETS = ("mnist", "cifar10", "cifar100", "svhn_cropped")


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """Folder of prepared data sets: smooth random images of few classes, in TFDS' own format."""
    pytest.importorskip("tensorflow_datasets")
    folder = tmp_path_factory.mktemp("sets")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tfds_sets, "LABELS", dict.fromkeys(tfds_sets.LABELS, 3))  # so that training has them all
        for name in (*DATASETS, "fashion_mnist"):
            tfds_sets.write(name, folder, {"train": 36, "test": 24})
    return folder


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="one backend is enough; this one is fastest")
@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("name", ["gedi", "jem", "ebclr"])
def test_a_recipe_trains_and_its_model_does_what_energy_models_do(name, dataset, sets, tmp_path, monkeypatch):
    monkeypatch.setattr(outcome, "draw", lambda *_: {})  # 500 steps of 50 chains
    small = ["sgld_steps=1", "buffer_size=12", "width=4", "widths=(8,)", "standardize=12"]
    if name != "gedi":
        small = small[:3]
    folder = recipe(name).main(
        [
            "--dataset",
            dataset,
            "--data-dir",
            str(sets),
            "--out",
            str(tmp_path / "run"),
            "--epochs",
            "1",
            "--batch-size",
            "12",
            "--protocols",
            "knn",
            "--set",
            *small,
        ]
    )
    assert folder.name.startswith(f"{name}-{dataset.replace('_', '-')}.buffer-size-12-")
    metrics = {metric["name"]: metric["value"] for metric in read_results(folder)["metrics"]}
    assert np.isfinite(list(metrics.values())).all()
    assert ("clusters.nmi" in metrics, "clusters.minibatch100_nmi" in metrics) == 2 * (name != "ebclr",)
    assert ("outliers.fashion_mnist_slope_auroc" in metrics) == (dataset == "mnist" and name != "ebclr")
    model = sslzoo.load(folder, "model")
    images, _ = data.load(dataset, "test", data_dir=sets)
    reference = {} if isinstance(model, (GEDI, JEM)) else {"reference": images}
    samples = model.sample(3, steps=2, verbose=False, **reference)
    assert samples.shape == (3, *data.info(dataset).image_shape) and np.isfinite(samples).all()
    assert np.isfinite(keras.ops.convert_to_numpy(model.log_density(images[:5], **reference))).all()
    if isinstance(model, (GEDI, JEM)):
        found = keras.ops.convert_to_numpy(model.predict_clusters(images))
        assert found.shape == (24,) and 0 <= found.min() <= found.max() < (100 if dataset == "cifar100" else 10)
    head = sslzoo.load(folder, "projection")
    inside, inverted = (outliers.scores(head, some) for some in (images, 255 - images))
    assert 0 <= outliers.auroc(inside, inverted) <= 1


# Name of the setting -> values for SVHN, CIFAR-10, CIFAR-100 and MNIST, of table 9 and the text of appendix I.
TABLE_9 = {
    "sgld_steps": 20,
    "buffer_size": 10_000,
    "restart": 0.05,
    "step_size": 1.0,
    "noise": 0.01,
    "learning_rate": 1e-4,
    "generative_weight": 1.0,
    "invariance_weight": 50.0,
    "flip": (None, "horizontal", "horizontal", None),
    "batch_size": (64, 64, 64, 60),
    "epochs": (20, 200, 200, 25),
    "prior_weight": (25.0, 25.0, 50.0, 25.0),
    "weight_decay": (0.0, 0.0, 0.0, 1e-4),
    "width": (128, 128, 256, 128),
}


@pytest.mark.parametrize("column, dataset", list(enumerate(["svhn_cropped", "cifar10", "cifar100", "mnist"])))
def test_the_variant_paper_is_table_9(column, dataset):
    module = recipe("gedi")
    found = resolve(module.SETTINGS, module.VARIANTS, "paper", dataset)
    for name, values in TABLE_9.items():
        assert found[name] == (values[column] if isinstance(values, tuple) else values), name
    row = sslzoo.views.POLICIES[found["policy"]]
    assert row["noise"] == (0.2 if dataset == "mnist" else 0.03)
    assert row["gray"] == row["jitter"]["probability"] == 0.1 and not found["policy_changes"]
