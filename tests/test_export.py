"""Exported encoders, by the runtime of each format, and single images in threads: the features that Keras computes."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import keras
import numpy as np
import pytest

import sslzoo
from sslzoo.downstream.encoders import as_encoder
from sslzoo.files import module_at
from sslzoo.publishing import write

pytestmark = pytest.mark.slow

BACKEND = keras.backend.backend()
ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "export.md").read_text("utf-8")
exports = module_at(ROOT / "benchmarks" / "exports.py")

CASES = [*((title, "simvae-digits") for title in exports.FORMATS), ("ONNX", "simclr-cifar10")]  # which has max pooling


def features(encoder, images):
    return keras.ops.convert_to_numpy(encoder(images))


def needs(title):
    """Skips where the backend does not write a format, or what writes or runs it is not installed."""
    form = exports.FORMATS[title]
    if BACKEND not in form.backends:
        pytest.skip(f"{title} is written under {' and '.join(form.backends)}")
    pytest.importorskip(form.package)
    if title == "ONNX":
        pytest.importorskip("tf2onnx" if BACKEND == "tensorflow" else "onnx")
    return form


@pytest.mark.parametrize(("title", "name"), CASES)
def test_an_exported_encoder_gives_the_features_of_keras(title, name, tmp_path):
    form = needs(title)
    encoder = sslzoo.load(name)
    images = np.random.default_rng(0).integers(0, 256, (7, *encoder.input_shape[1:])).astype("float32")
    run = exports.exported(encoder, form, tmp_path)  # of a model that was never called on images
    expected = features(encoder, images)
    for count in (1, 7, 1):
        assert exports.difference(run(images[:count]), expected[:count]) < 1e-4


def test_comparison_and_diagnosis_give_an_exported_encoder_the_values_it_takes(tmp_path):
    needs("ONNX")
    encoder, images = sslzoo.load("simvae-digits"), sslzoo.data.load("digits", "test")[0][:20]
    encoder.export(tmp_path / "encoder.onnx", format="onnx", verbose=False)
    path = str(tmp_path / "encoder.onnx")
    assert exports.difference(as_encoder(path)(images), features(encoder, images)) < 1e-4
    assert exports.difference(as_encoder(path, 0.5)(images), features(encoder, images / np.float32(2))) < 1e-4


def test_an_encoder_with_an_input_of_any_name_is_exported_with_the_name_of_images(tmp_path):
    """By which comparison and diagnosis know that it takes values 0..255."""
    needs("ONNX")
    x = keras.Input((8, 8, 1), name="pixels")
    network = keras.layers.Dense(3)(keras.layers.Flatten()(keras.layers.Rescaling(1 / 255)(x)))
    write(tmp_path / "mine", keras.Model(x, network))
    encoder, images = sslzoo.load(tmp_path / "mine"), sslzoo.data.load("digits", "test")[0][:20]
    encoder.export(tmp_path / "encoder.onnx", format="onnx", verbose=False)
    assert exports.difference(as_encoder(str(tmp_path / "encoder.onnx"))(images), features(encoder, images)) < 1e-4


def test_eight_threads_get_what_a_batch_gets_by_the_page(tmp_path, monkeypatch):
    """The snippet of docs/export.md as it stands there."""
    needs("ONNX")
    monkeypatch.chdir(tmp_path)
    encoder, images = sslzoo.load("simvae-digits"), sslzoo.data.load("digits", "test")[0][:200]
    encoder.export("encoder.onnx", format="onnx", verbose=False)
    [snippet] = [each for each in re.findall(r"```python\n(.*?)```", PAGE, re.S) if "ThreadPoolExecutor" in each]
    names = {"images": images}
    exec(compile(snippet, "docs/export.md", "exec"), names)
    expected = features(encoder, images)
    assert exports.difference(names["features"], expected) < 1e-4
    check_in_threads(names["features_of"], images, expected)


def test_eight_threads_may_call_one_model():
    encoder, images = sslzoo.load("simvae-digits"), sslzoo.data.load("digits", "test")[0][:200].astype("float32")
    expected, call = features(encoder, images), exports.compiled(encoder, BACKEND)
    check_in_threads(lambda image: features(call, image[None])[0], images, expected)
    check_in_threads(lambda image: features(encoder, image[None])[0], images[:10], expected[:10])


def check_in_threads(features_of, images, expected):
    with ThreadPoolExecutor(8) as threads:
        rounds = list(threads.map(lambda _: np.stack([features_of(image) for image in images]), range(8)))
    for found in rounds:
        assert exports.difference(found, expected) < 1e-4
