"""Small data sets in TFDS' own format, written by TFDS, with the features of the real ones: nothing is downloaded."""

import numpy as np

LABELS = {"mnist": 10, "fashion_mnist": 10, "cifar10": 10, "cifar100": 100, "svhn_cropped": 10}


def write(name, data_dir, sizes, seed=0):
    """Prepare the data set `name` below `data_dir`, so that `tfds.load(name, data_dir=data_dir)` reads it offline.

    Args:
        name: a name of TFDS: one of `LABELS`, or celeb_a.
        data_dir: folder.
        sizes: dict from split to number of images.
        seed: int. Seed of the pixels and labels, both random.

    Returns:
        dict from split to `(images, labels)` as they went in: images uint8 (N, H, W, C) before any crop, in PNG exact
        and in JPEG (celeb_a) not; labels int64 (N,) or (N, 40) in the sorted order of the attributes. Their order is
        kept.
    """
    import tensorflow_datasets as tfds

    tfds.disable_progress_bar()
    original = tfds.builder(name, data_dir=data_dir)
    shape = original.info.features["image"].shape
    random = np.random.default_rng(seed)
    given, examples = {}, {}
    for split, size in sizes.items():
        # Smooth images, which JPEG keeps nearly: four random corners, and a gradient between them.
        corners = random.uniform(0, 255, (size, 2, 2, shape[-1]))
        rows, columns = (np.stack([np.linspace(1, 0, n), np.linspace(0, 1, n)]) for n in shape[:2])
        images = np.einsum("nijc,ih,jw->nhwc", corners, rows, columns).round().astype("uint8")
        if name == "celeb_a":
            attributes = sorted(original.info.features["attributes"])
            labels = random.integers(0, 2, (size, len(attributes)))
            rest = [
                {
                    "attributes": {key: bool(value) for key, value in zip(attributes, row, strict=True)},
                    "landmarks": dict.fromkeys(original.info.features["landmarks"], 0),
                    "identity": {"Identity_No": 1},
                }
                for row in labels
            ]
        else:
            labels = random.integers(0, LABELS[name], size)
            rest = [{"label": int(label)} for label in labels]
            if "id" in original.info.features:
                rest = [{**example, "id": f"{split}_{i}"} for i, example in enumerate(rest)]
            if "coarse_label" in original.info.features:
                rest = [{**example, "coarse_label": example["label"] // 5} for example in rest]
        given[split] = images, labels.astype("int64")
        examples[split] = [(i, {"image": images[i], **rest[i]}) for i in range(size)]  # (key, example)
    tfds.dataset_builders.store_as_tfds_dataset(
        name=name,
        version=original.version,
        features=original.info.features,
        split_datasets=examples,
        data_dir=data_dir,
        disable_shuffling=True,
    )
    return given
