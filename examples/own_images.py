"""Your images, your network: tiles of photographs, a network of Keras, a transformer, and what they have learned.

    KERAS_BACKEND=torch python examples/own_images.py --networks vit-tiny                      # 8 processor minutes
    KERAS_BACKEND=tensorflow python examples/own_images.py --networks keras:MobileNetV3Small   # 3

Four pictures that scikit-learn and matplotlib bring along are cut into 2,000 tiles of 96 pixels: those to train on from
the left seven tenths of each picture, those to ask for from the rest, so no tile is asked for that training has seen a
part of. SimCLR learns without labels. Then each tile of the right names its picture by its nearest neighbors among
those of the left: by raw pixels, by the network before training and by the trained one. The sheet shows some tiles and
their neighbors. For images of your own: docs/own_images.md.
"""

import argparse
from pathlib import Path

import keras
import matplotlib.cbook
import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_images
from sklearn.neighbors import KNeighborsClassifier

from sslzoo import evaluation, methods, networks, views
from sslzoo.evaluation import pictures

SIDE = 96
NETWORKS = {"keras:MobileNetV3Small": {}, "vit-tiny": {"patch_size": 16, "depth": 4}}


def photographs():
    """Name -> uint8 (H, W, 3)."""
    sample = load_sample_images()
    found = {Path(name).stem: image for name, image in zip(sample.filenames, sample.images)}
    found["hopper"] = np.asarray(Image.open(matplotlib.cbook.get_sample_data("grace_hopper.jpg")))
    heights = matplotlib.cbook.get_sample_data("jacksboro_fault_dem.npz")["elevation"].astype("float64")
    low, high = np.percentile(heights, (1, 99))
    gray = (255 * np.clip((heights - low) / (high - low), 0, 1)).astype("uint8")
    return found | {"jacksboro": np.repeat(gray[..., None], 3, axis=-1)}


def tiles(found, count, is_test, seed=0):
    """`count` tiles of the pictures and their labels: uint8 (N, 96, 96, 3), squares of 48 to 120 pixels made 96."""
    rng, cut = np.random.default_rng([seed, is_test]), []
    labels = np.arange(count) % len(found)
    for label in labels:
        image = list(found.values())[label]
        seam = int(0.7 * image.shape[1])
        image = image[:, seam:] if is_test else image[:, :seam]
        side = int(rng.integers(48, min(120, *image.shape[:2]) + 1))
        top, left = (int(rng.integers(0, size - side + 1)) for size in image.shape[:2])
        tile = Image.fromarray(image[top : top + side, left : left + side])
        cut.append(np.asarray(tile.resize((SIDE, SIDE), Image.Resampling.BILINEAR)))
    return np.stack(cut), labels


def neighbors(bank, queries):
    """Share of tiles whose five nearest neighbors name their picture, by the cosine of (features, labels)."""
    nearest = KNeighborsClassifier(5, metric="cosine").fit(*bank)
    return nearest.score(*queries)


def train(name, options, images, epochs):
    """An untrained and a trained encoder, raw images -> features."""
    network = networks.encoder(name, (SIDE, SIDE, 3), None, seed=0, **options)
    head = networks.projector(network.output_shape[-1], (256, 64), seed=1)
    model = methods.SimCLR(network, head, views.Views("photos", 2, seed=0), temperature=0.2)
    before = model.parts(images.shape[1:])["encoder"]
    rate = keras.optimizers.schedules.CosineDecay(1e-3, max(1, epochs * (len(images) // 100)))
    model.compile(keras.optimizers.Adam(rate))
    model.fit(images, batch_size=100, epochs=epochs, verbose=2)
    return before, model.parts(images.shape[1:])["encoder"]


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), help="names that networks.encoder takes")
    parser.add_argument("--tiles", type=int, default=2000, help="a fifth of them to ask for (2000)")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--out", default="own_images.png")
    options = parser.parse_args(arguments)
    found = photographs()
    asked = options.tiles // 5
    (images, labels), (queries, wanted) = tiles(found, options.tiles - asked, False), tiles(found, asked, True)
    flat = [(x.reshape(len(x), -1) / 255.0, y) for x, y in ((images, labels), (queries, wanted))]
    rows = {"raw pixels": (neighbors(*flat),)}
    for name in options.networks:
        encoders = train(name, NETWORKS.get(name, {}), images, options.epochs)
        features = [[evaluation.features(encoder, x) for x in (images, queries)] for encoder in encoders]
        rows[name] = tuple(neighbors((bank, labels), (ask, wanted)) for bank, ask in features)
    pictures.neighbors(queries, features[-1][1], options.out, seed=0)
    print(f"{'':24}  untrained    trained  (of {asked} tiles; guessing: {1 / len(found):.2f})")
    for name, shares in rows.items():
        print(f"{name:24}  " + "  ".join(f"{share:9.3f}" for share in shares))
    print(f"Wrote {options.out}.")
    return rows


if __name__ == "__main__":
    main()
