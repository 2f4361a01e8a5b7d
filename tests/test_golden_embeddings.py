"""What the committed encoders make of fixed images stays as it is: on every backend, and under a new Keras.

    python tests/test_golden_embeddings.py --write simvae-mnist    # once, for new weights in weights/

The images come from integer arithmetic, so no data set is needed. A golden file holds what every part of the model
gave for them, and the hashes of the weights that this belongs to.
"""

import argparse
import io
import json
import os
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
from tiers import tiered

import sslzoo
from sslzoo.files import sha256
from sslzoo.zoo import layout

ROOT = Path(__file__).resolve().parent.parent
WEIGHTS, GOLDEN = ROOT / "weights", ROOT / "tests" / "golden"
NAMES = sorted(path.parent.name for path in WEIGHTS.glob(f"*/{layout.CONFIG}"))
# float32 on other hardware and backends: measured differences are below 1e-5 of the largest feature.
TOLERANCE = 1e-4


def golden_images(height, width, channels):
    """Eight images, uint8 (8, H, W, C): waves, rings and a chequerboard of integers; the last is a bright rectangle."""
    row, column, channel = np.ogrid[:height, :width, :channels]
    images = []
    for i in range(7):
        wave = (3 * i + 1) * 512 * row // height + (5 * i + 2) * 256 * column // width + 64 * channel
        ring = 4 * ((2 * row - height) ** 2 + (2 * column - width) ** 2) // (i + 1)
        images.append((wave + (ring if i % 2 else 31 * (row // 2 + column // 2))) % 256)
    inside = (4 * row > height) & (4 * row < 3 * height) & (3 * column > width) & (3 * column < 2 * width)
    images.append(np.where(inside, 250 - 20 * channel, 5))
    return np.stack([np.broadcast_to(image, (height, width, channels)) for image in images]).astype("uint8")


def outputs(folder):
    """What each part that loads without sslzoo gives for the golden images: name -> float32 array."""
    found = {}
    for part in layout.parts(folder):
        if part == "model":
            continue
        model = sslzoo.load(folder, part)
        given = found["encoder"][:2] if part == "decoder" else golden_images(*model.input_shape[1:])
        result = model(given, training=False)
        names = ("mean", "log_var") if isinstance(result, list) else (part,)
        found |= {name: keras.ops.convert_to_numpy(value) for name, value in zip(names, keras.tree.flatten(result))}
    return found


def hashes(folder):
    """The hash of each part's weights, as one array of texts."""
    return np.array([sha256(layout.part_folder(folder, part) / layout.WEIGHTS) for part in layout.parts(folder)])


def write(name):
    folder = WEIGHTS / name
    buffer = io.BytesIO()
    np.savez_compressed(buffer, hashes=hashes(folder), **outputs(folder))
    path = GOLDEN / f"embeddings-{name}.npz"
    beside = path.with_name(path.name + ".part")
    beside.write_bytes(buffer.getvalue())
    os.replace(beside, path)
    return path


SIX = {"simvae-mnist", "simclr-cifar10", "vicreg-digits", "cmc-cifar10", "gedi-mnist", "moco-fashion-mnist"}


@pytest.fixture(scope="module", params=tiered(NAMES, SIX))
def model(request):
    """Folder, and what the golden file holds."""
    folder, path = WEIGHTS / request.param, GOLDEN / f"embeddings-{request.param}.npz"
    how = f"python tests/test_golden_embeddings.py --write {request.param}"
    if not path.is_file():
        pytest.fail(f"There are weights and no {path.relative_to(ROOT)}. Make it with\n    {how}", pytrace=False)
    with np.load(path) as golden:
        golden = {key: golden[key] for key in golden.files}
    if golden.pop("hashes").tolist() != hashes(folder).tolist():
        pytest.fail(
            f"{path.relative_to(ROOT)} belongs to other weights than those in {folder.relative_to(ROOT)}. If these "
            f"were replaced on purpose:\n    {how}",
            pytrace=False,
        )
    return folder, golden


def test_there_are_weights_and_every_golden_file_belongs_to_one():
    assert NAMES
    assert {path.stem.removeprefix("embeddings-") for path in GOLDEN.glob("embeddings-*.npz")} <= set(NAMES)


def test_golden_images_are_the_same_everywhere():
    """A change here would be reported as one of the encoders."""
    images = golden_images(28, 28, 1)
    assert images.shape == (8, 28, 28, 1) and images.dtype == np.uint8
    sums = [99984, 98096, 101344, 100896, 102544, 94425, 99472, 32585]
    assert images.astype("int64").sum(axis=(1, 2, 3)).tolist() == sums
    assert np.ptp(images, axis=(1, 2, 3)).min() > 200


def test_every_part_gives_what_it_gave(model):
    folder, golden = model
    found = outputs(folder)
    assert found.keys() == golden.keys()
    for key, expected in golden.items():
        assert found[key].dtype == expected.dtype == np.float32
        np.testing.assert_allclose(
            found[key], expected, rtol=TOLERANCE, atol=TOLERANCE * np.abs(expected).max(), err_msg=key
        )


def test_features_tell_the_images_apart(model):
    """A constant would be just as reproducible. The mean of a posterior is what the encoder gives."""
    _, golden = model
    features = golden["encoder"]
    distances = np.linalg.norm(features[:, None] - features[None], axis=-1)[~np.eye(len(features), dtype=bool)]
    assert distances.min() > 4e-2 * np.median(distances) > 0  # not of the largest: one image may lie far off
    if "mean" in golden:
        np.testing.assert_allclose(golden["mean"], features, rtol=TOLERANCE, atol=TOLERANCE * np.abs(features).max())


def architecture(name):
    """The kinds of layers that an encoder is made of."""
    config = json.loads((WEIGHTS / name / layout.CONFIG).read_text("utf-8"))
    return frozenset(layer["class_name"] for layer in config["config"]["layers"])


@pytest.mark.parametrize("name", tiered(sorted({architecture(name): name for name in NAMES}.values()), SIX))
def test_a_loaded_encoder_trains(name):
    """One step of fine-tuning in a model that it is a layer of: the loss is finite, and every kernel moves.

    One encoder of each kind of network: most of the time goes into a program.
    """
    encoder = sslzoo.load(WEIGHTS / name)
    images = golden_images(*encoder.input_shape[1:])
    classifier = keras.Sequential([keras.Input(encoder.input_shape[1:]), encoder, keras.layers.Dense(3)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    classifier.compile(keras.optimizers.Adam(1e-3), loss)
    before = [keras.ops.convert_to_numpy(weight).copy() for weight in classifier.trainable_weights]
    history = classifier.fit(images, np.arange(8) % 3, batch_size=8, epochs=1, verbose=0)
    assert np.isfinite(history.history["loss"]).all()
    for weight, former in zip(classifier.trainable_weights, before):
        now = keras.ops.convert_to_numpy(weight)
        assert np.isfinite(now).all()
        assert former.ndim < 2 or (now != former).any(), weight.path


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", nargs="+", required=True, metavar="NAME", choices=NAMES, help="models in weights/")
    for name in parser.parse_args().write:
        print(f"Wrote {write(name)}")
    sys.exit()
