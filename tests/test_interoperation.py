"""What else a loaded encoder is good for: fine-tuning, fewer bits. Each beside what Keras computes."""

import keras
import numpy as np
import pytest

import sslzoo


@pytest.fixture(scope="module")
def images():
    return sslzoo.data.load("digits", "test")[0][:64]


@pytest.fixture
def encoder():
    return sslzoo.load("simvae-digits")


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
