"""What else a loaded encoder is good for: fine-tuning, other formats, fewer bits. Each beside what Keras computes."""

import importlib.util

import keras
import numpy as np
import pytest

import sslzoo

BACKEND = keras.backend.backend()


@pytest.fixture(scope="module")
def images():
    return sslzoo.data.load("digits", "test")[0][:64]


@pytest.fixture
def encoder():
    return sslzoo.load("simvae-digits")


def needs(*packages, backends=("tensorflow", "jax", "torch")):
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    return pytest.mark.skipif(
        bool(missing) or BACKEND not in backends, reason=f"needs {', '.join(missing)} under {' or '.join(backends)}"
    )


def difference(found, encoder, images):
    """Largest difference to Keras, as a share of the features' spread."""
    expected = encoder.predict(images, verbose=0)
    return np.abs(np.asarray(found) - expected).max() / expected.std()


def test_fine_tuning_with_the_encoder_frozen_and_free(encoder):
    images, labels = sslzoo.data.load("digits", "train")
    model = keras.Sequential([encoder, keras.layers.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    encoder.trainable = False
    before = encoder.get_weights()
    model.compile("adam", loss)
    model.fit(images, labels, epochs=1, verbose=0)
    assert all(np.array_equal(a, b) for a, b in zip(before, encoder.get_weights()))
    encoder.trainable = True
    model.compile(keras.optimizers.Adam(1e-3), loss, metrics=["accuracy"])
    model.fit(images, labels, batch_size=64, epochs=5, verbose=0)
    test_images, test_labels = sslzoo.data.load("digits", "test")
    assert model.evaluate(test_images, test_labels, verbose=0)[1] > 0.85
    assert not np.array_equal(before[0], encoder.get_weights()[0])


@needs("onnx", "onnxruntime", backends=("tensorflow", "torch"))
def test_onnx(encoder, images, tmp_path):
    import onnxruntime

    encoder.export(tmp_path / "m.onnx", format="onnx", verbose=False)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    [found] = session.run(None, {session.get_inputs()[0].name: images.astype("float32")})
    assert difference(found, encoder, images) < 1e-4


@needs("tensorflow", backends=("tensorflow", "jax"))
def test_saved_model(encoder, images, tmp_path):
    import tensorflow as tf

    encoder.export(tmp_path / "m", verbose=False)
    loaded = tf.saved_model.load(str(tmp_path / "m"))  # which holds the variables: keep it
    found = loaded.serve(images.astype("float32"))
    assert difference(found, encoder, images) < 1e-5


@needs("tensorflow", backends=("tensorflow",))
def test_litert(encoder, images, tmp_path):
    import tensorflow as tf

    encoder.export(tmp_path / "m.tflite", format="litert", verbose=False)
    runner = tf.lite.Interpreter(str(tmp_path / "m.tflite"))
    entrance, result = runner.get_input_details()[0]["index"], runner.get_output_details()[0]["index"]
    runner.resize_tensor_input(entrance, (len(images), 8, 8, 1))
    runner.allocate_tensors()
    runner.set_tensor(entrance, images.astype("float32"))
    runner.invoke()
    assert difference(runner.get_tensor(result), encoder, images) < 1e-4


def test_int8(images):
    exact, quantized = sslzoo.load("simvae-digits"), sslzoo.load("simvae-digits")
    quantized.quantize("int8")
    assert 0 < difference(quantized.predict(images, verbose=0), exact, images) < 0.1


def test_lora(encoder, images):
    exact = sslzoo.load("simvae-digits")
    for layer in encoder.layers:
        if isinstance(layer, keras.layers.Dense):
            layer.enable_lora(2)
    assert difference(encoder.predict(images, verbose=0), exact, images) < 1e-6  # begins where it was
    trained = sum(int(np.prod(weight.shape)) for weight in encoder.trainable_weights)
    assert trained < 0.25 * exact.count_params()
