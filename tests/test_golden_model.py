"""A model folder written before the package's files were moved (commit 247964d) loads, embeds and trains as before.

Classes are registered as "sslzoo>Name", so a file says nothing of the module a class lives in. The folder and what each
part gave for sixteen digits were written once, under PyTorch, and are never written again.
"""

from pathlib import Path

import keras
import numpy as np
import pytest

import sslzoo
from sslzoo.methods import SimVAE

FOLDER = Path(__file__).parent / "golden" / "written-before-the-rooms"


@pytest.fixture(scope="module")
def golden():
    with np.load(FOLDER.with_suffix(".npz")) as arrays:
        return dict(arrays)


def test_every_part_gives_what_it_gave(golden):
    encoder, decoder = (sslzoo.load(FOLDER, part=part) for part in ("encoder", "decoder"))
    mean, log_var = sslzoo.load(FOLDER, part="posterior").predict(golden["images"], verbose=0)
    features = encoder.predict(golden["images"], verbose=0)
    for given, expected in (
        (features, golden["encoder"]),
        (mean, golden["encoder"]),
        (log_var, golden["posterior_log_var"]),
        (decoder.predict(features, verbose=0), golden["decoder"]),
    ):
        np.testing.assert_allclose(given, expected, atol=1e-5)


def test_the_whole_method_goes_on_training(golden):
    model = sslzoo.load(FOLDER, part="model")
    assert type(model) is SimVAE and model.views.num_views == 3
    np.testing.assert_allclose(keras.ops.convert_to_numpy(model.encode(golden["images"])), golden["model"], atol=1e-5)
    model.compile(optimizer="adam")
    history = model.fit(golden["images"], batch_size=8, epochs=1, verbose=0).history
    assert set(history) == {"loss", *SimVAE.terms} and np.isfinite(list(history.values())).all()
