"""Embedder: what scikit-learn does with its transformers."""

import pickle

import joblib
import keras
import numpy as np
import pytest
from PIL import Image
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from test_finetuning import make_encoder, stripes

import sslzoo
from sslzoo.errors import InvalidInputError, MissingDataError


def test_it_is_a_step_of_a_pipeline(tmp_path):
    images, labels = sslzoo.data.load("digits", "test")
    embedder = sslzoo.Embedder("simvae-digits", batch_size=100)
    pipeline = make_pipeline(embedder, StandardScaler(), LogisticRegression(max_iter=1000))
    assert cross_val_score(pipeline, images, labels, cv=3).mean() > 0.8
    features = embedder.fit_transform(images)
    np.testing.assert_allclose(features, sslzoo.embed("simvae-digits", images).features, atol=1e-6)
    assert embedder.get_params() == {"encoder": "simvae-digits", "batch_size": 100}
    assert clone(embedder).set_params(batch_size=7).get_params()["batch_size"] == 7
    assert embedder.get_feature_names_out().tolist() == [f"feature_{place}" for place in range(10)]
    pickled = pickle.dumps(embedder)
    assert len(pickled) < 1000  # the name, not the model
    np.testing.assert_allclose(pickle.loads(pickled).transform(images[:5]), features[:5], atol=1e-5)
    joblib.dump(pipeline.fit(images, labels), tmp_path / "pipeline.joblib")
    again = joblib.load(tmp_path / "pipeline.joblib")
    np.testing.assert_array_equal(again.predict(images), pipeline.predict(images))


def test_of_a_model_and_of_paths(tmp_path):
    images = stripes(4)[0]
    for number, image in enumerate(images):
        Image.fromarray(image).save(tmp_path / f"{number}.png")
    paths = [str(tmp_path / f"{number}.png") for number in range(4)]
    embedder = sslzoo.Embedder(make_encoder())
    expected = embedder.transform(images)
    for given in (paths, np.array(paths)):
        np.testing.assert_allclose(embedder.transform(given), expected, atol=1e-6)
    for copied in (clone(embedder), pickle.loads(pickle.dumps(embedder))):
        np.testing.assert_allclose(copied.transform(images), expected, atol=1e-6)


def test_another_encoder_is_loaded_where_it_is_set():
    images = sslzoo.data.load("digits", "test")[0][:5]
    embedder = sslzoo.Embedder("simclr-digits")
    embedder.transform(images)
    embedder.set_params(encoder="vicreg-digits")
    np.testing.assert_array_equal(embedder.transform(images), sslzoo.Embedder("vicreg-digits").transform(images))


def test_names_of_the_features_of_a_posterior():
    inputs = keras.Input((8, 8, 1))
    x = keras.layers.Flatten()(inputs)
    posterior = sslzoo.Embedder(keras.Model(inputs, [keras.layers.Dense(3)(x), keras.layers.Dense(3)(x)]))
    assert posterior.get_feature_names_out().tolist() == ["feature_0", "feature_1", "feature_2"]
    assert posterior.transform(np.zeros((4, 8, 8, 1), "uint8")).shape == (4, 3)


def test_wrong_ways():
    with pytest.raises(InvalidInputError, match="must be a Keras model"):
        sslzoo.Embedder(3).fit(None)
    with pytest.raises(MissingDataError):
        sslzoo.Embedder(make_encoder()).transform(["nowhere.png"])
    with pytest.raises(InvalidInputError):
        sslzoo.Embedder(make_encoder()).transform(np.zeros((3, 4)))
