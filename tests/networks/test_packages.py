"""Models with layers of a package beside Keras: published with its name, and loaded where it is installed."""

import json
import sys
import types

import keras
import numpy as np
import pytest

import sslzoo
from sslzoo import networks, publishing
from sslzoo.errors import ArtifactError, BackendError, IntegrityError, InvalidInputError
from sslzoo.networks.composition import check_config


class Patches(keras.layers.Layer):
    """Stands for a layer of KerasHub."""

    def __init__(self, factor=2.0, **kwargs):
        super().__init__(**kwargs)
        self.factor = factor

    def build(self, shape):
        self.bias = self.add_weight(shape=(shape[-1],), name="bias")

    def call(self, x):
        return x * self.factor + self.bias

    def get_config(self):
        return super().get_config() | {"factor": self.factor}


@pytest.fixture
def package(monkeypatch):
    """A KerasHub that has that layer alone."""
    for name in ("keras_hub", "keras_hub.src", "keras_hub.src.models", "keras_hub.src.models.some"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    layers = types.ModuleType("keras_hub.src.models.some.some_layers")
    layers.Patches = Patches
    monkeypatch.setitem(sys.modules, layers.__name__, layers)
    monkeypatch.setattr(Patches, "__module__", layers.__name__)


def model():
    x = keras.Input((8, 8, 3), name="images")
    patches = Patches(3.0, name="patches")(keras.layers.Rescaling(1 / 255)(x))
    return keras.Model(x, keras.layers.GlobalAveragePooling2D()(patches))


def test_it_is_published_with_the_packages_name_and_loaded(package, tmp_path):
    encoder = model()
    encoder.get_layer("patches").bias.assign([1.0, 2.0, 3.0])
    folder = publishing.write(tmp_path / "with-patches", encoder)
    assert json.loads((folder / "results.json").read_text())["requires"] == ["keras-hub"]
    assert "import keras, keras_hub" in (folder / "README.md").read_text()
    images = np.full((2, 8, 8, 3), 255, "uint8")
    np.testing.assert_allclose(sslzoo.load(folder).predict(images, verbose=0), [[4.0, 5.0, 6.0]] * 2, atol=1e-6)


def test_without_the_package_loading_says_what_to_install(package, tmp_path, monkeypatch):
    folder = publishing.write(tmp_path / "with-patches", model())
    monkeypatch.setitem(sys.modules, "keras_hub", None)
    with pytest.raises(BackendError, match="pip install keras-hub"):
        sslzoo.load(folder)


def test_a_model_that_does_not_say_so_may_not_have_such_layers(package, tmp_path):
    folder = publishing.write(tmp_path / "with-patches", model())
    (folder / "results.json").unlink()
    with pytest.raises(ArtifactError, match="Only Keras' own classes"):
        sslzoo.load(folder)


def test_other_packages_and_what_reads_files_are_refused(package, tmp_path):
    folder = publishing.write(tmp_path / "with-patches", model())
    results = json.loads((folder / "results.json").read_text())
    (folder / "results.json").write_text(json.dumps(results | {"requires": ["antigravity"]}))
    with pytest.raises((ArtifactError, IntegrityError), match="may require keras-hub"):
        sslzoo.load(folder)
    for module in (
        "models.bert.bert_tokenizer",
        "tokenizers.byte_tokenizer",
        "models.vit.vit_image_converter",
        "utils.io",
    ):
        config = {
            "class_name": "X",
            "module": f"keras_hub.src.{module}",
            "registered_name": "keras_hub>X",
            "config": {},
        }
        with pytest.raises(ArtifactError, match="Only Keras' own classes"):
            check_config(config, True, ("keras-hub",))


def test_layers_of_ones_own_stay_refused():
    with pytest.raises(InvalidInputError, match="core Keras layers"):
        networks.compose(None, model())
