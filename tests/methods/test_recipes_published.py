"""What recipes write, each of its parts: loaded, published, and loaded again. By recipe; by method, and under every
backend, tests/test_zoo.py does it."""

import keras
import numpy as np
import pytest
from test_training import RECIPE_NAMES, recipe
from test_zoo import REPOSITORY, hub  # noqa: F401

import sslzoo
from sslzoo import errors, publishing, training
from sslzoo.files import unlock_folder
from sslzoo.publishing import artifact
from sslzoo.training import outcome
from sslzoo.zoo import layout

pytestmark = pytest.mark.skipif(keras.backend.backend() != "torch", reason="one backend is enough; this one is fastest")


class Ready(Exception):
    pass


def made_by(name, out, monkeypatch):
    """The run of a recipe and its model, as they are when training would begin."""

    prepare = training.Run.prepare

    def stop(run, model, optimizer=None):
        prepare(run, model, optimizer)
        raise Ready(run, model)

    monkeypatch.setattr(training.Run, "prepare", stop)
    small = ["--limit", "240", "--batch-size", "12", "--out", str(out)]
    for more in ([], ["--queue-size", "24"]):
        try:
            with pytest.raises(Ready) as caught:
                recipe(name).main([*small, *more])
            return caught.value.args
        except errors.InvalidInputError as error:  # 240 images are few for a queue
            assert "queue_size" in str(error) and not more


@pytest.mark.parametrize("name", RECIPE_NAMES)
def test_every_part_of_a_recipe_is_loaded_published_and_loaded_again(name, hub, tmp_path, monkeypatch):  # noqa: F811
    run, model = made_by(name, tmp_path / "run", monkeypatch)
    parts = model.parts(run.image_shape) | {"model": model}
    folder = artifact.write(tmp_path / "run" / run.name, **parts, **outcome.results(run, type(model)))
    unlock_folder(run.out)
    assert layout.parts(folder) == [part for part in layout.PARTS if part in parts]
    publishing.publish(folder, REPOSITORY)
    for place in (folder, f"hf://{REPOSITORY}"):
        for part, written in parts.items():
            loaded = sslzoo.load(place, part=part)
            assert type(loaded) is type(written)
            for ours, theirs in zip(loaded.weights, written.weights, strict=True):
                assert ours.path.rpartition("/")[2] == theirs.path.rpartition("/")[2]
                np.testing.assert_array_equal(
                    keras.ops.convert_to_numpy(ours), keras.ops.convert_to_numpy(theirs), err_msg=f"{part} {ours.path}"
                )
