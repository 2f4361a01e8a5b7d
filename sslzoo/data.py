"""From the name of a data set to raw images, and from raw images to batches in an order that can be resumed.

    images, labels = sslzoo.data.load("mnist", "train")                   # uint8 (60000, 28, 28, 1), int64 (60000,)
    batches = sslzoo.data.pipeline((images, labels), None, 128, seed=0)   # a tf.data.Dataset, or
    batches = sslzoo.data.Batches(images, labels, 128, seed=0)            # the same batches without TensorFlow
    model.fit(batches, shuffle=False)                                     # False: the order is drawn already

`load` takes one of three kinds of name:

* a known name, see `info`. `digits` comes with scikit-learn. The others are read by TensorFlow Datasets (TFDS) from
  `data_dir`, else from the folder in the environment variable `TFDS_DATA_DIR`, else from TFDS' default
  (`~/tensorflow_datasets`); what is not there, TFDS downloads.
* the path of an `.npz` file. The arrays `<split>_images` and `<split>_labels`, or `x_<split>` and `y_<split>` as in
  Keras' own files, make the split `<split>`; plain `images` and `labels` make the split "train". Labels are optional.
* the path of a folder of images. With sub-folders `train`, `validation` or `test`, these are the splits, and where all
  images of a split lie in sub-folders of it (at least two), these are the classes, numbered by their sorted names.
  Without, every image below the folder, however deep, is the unlabelled split "train". Images are sorted by path, and
  read as grey if all of them are, else as colour; transparency is dropped.

A known name wins over a file of that name; write `./mnist` to mean the file.

**Order.** The order of epoch e is a permutation drawn from (seed, e) alone, and the views of a batch are drawn from
(seed, number of the step since epoch 0) alone. So a run that resumes at an epoch sees the batches and the views that it
would have seen, whatever happened before. `pipeline` and `Batches` share the order.

TensorFlow is imported here and nowhere else in the package, and only to read TFDS or to make a `tf.data.Dataset`. Where
it is missing, sets travel as `.npz`: `python -m sslzoo.data mnist -o mnist.npz` writes one.
"""

import argparse
import contextlib
import dataclasses
import math
import os
import pathlib
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import NamedTuple

import keras
import numpy as np

from sslzoo import errors

# The 40 attributes of CelebA in the order of the columns of its labels (sorted names, which is also the order of the
# authors' list_attr_celeba.txt).
CELEBA_ATTRIBUTES = (
    "5_o_Clock_Shadow", "Arched_Eyebrows", "Attractive", "Bags_Under_Eyes", "Bald", "Bangs", "Big_Lips", "Big_Nose",
    "Black_Hair", "Blond_Hair", "Blurry", "Brown_Hair", "Bushy_Eyebrows", "Chubby", "Double_Chin", "Eyeglasses",
    "Goatee", "Gray_Hair", "Heavy_Makeup", "High_Cheekbones", "Male", "Mouth_Slightly_Open", "Mustache", "Narrow_Eyes",
    "No_Beard", "Oval_Face", "Pale_Skin", "Pointy_Nose", "Receding_Hairline", "Rosy_Cheeks", "Sideburns", "Smiling",
    "Straight_Hair", "Wavy_Hair", "Wearing_Earrings", "Wearing_Hat", "Wearing_Lipstick", "Wearing_Necklace",
    "Wearing_Necktie", "Young",
)  # fmt: skip
_CELEBA_CROP = 178  # pixels: the largest centred square of the 218 x 178 aligned images
_CELEBA_SIZE = 64


@dataclasses.dataclass(frozen=True)
class DatasetInfo:
    """What is known of a data set before it is read.

    Attributes:
        name: str. The name that `load` takes.
        image_shape: tuple (H, W, C) of the images that `load` returns.
        num_classes: int. Number of classes; of binary attributes where `labels` is "attributes".
        labels: "class" for labels (N,) in 0..num_classes-1, "attributes" for labels (N, num_classes) of 0 and 1.
        splits: mapping from the name of each split to the number of images its authors published in it.
        licence: str. Terms of the images as their authors state them.
        reference: str. The paper to cite.
        remark: str. What `load` does to the images, if anything.
    """

    name: str
    image_shape: tuple[int, int, int]
    num_classes: int
    labels: str
    splits: MappingProxyType
    licence: str
    reference: str
    remark: str = ""


def _known(name, image_shape, num_classes, splits, licence, reference, labels="class", remark=""):
    return DatasetInfo(name, image_shape, num_classes, labels, MappingProxyType(splits), licence, reference, remark)


_KNOWN = {
    known.name: known
    for known in (
        _known(
            "digits", (8, 8, 1), 10, {"train": 1437, "test": 360},
            "CC BY 4.0",
            "Alpaydin and Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning Repository, 1998",
            remark="The 1,797 images inside scikit-learn, 0..16 scaled to 0..255; a fixed stratified split of ours.",
        ),
        _known(
            "mnist", (28, 28, 1), 10, {"train": 60_000, "test": 10_000},
            "CC BY-SA 3.0",
            "LeCun, Bottou, Bengio and Haffner, Gradient-based learning applied to document recognition, 1998",
        ),
        _known(
            "fashion_mnist", (28, 28, 1), 10, {"train": 60_000, "test": 10_000},
            "MIT",
            "Xiao, Rasul and Vollgraf, Fashion-MNIST, arXiv:1708.07747, 2017",
        ),
        _known(
            "cifar10", (32, 32, 3), 10, {"train": 50_000, "test": 10_000},
            "as published by its authors, no licence stated",
            "Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009",
        ),
        _known(
            "cifar100", (32, 32, 3), 100, {"train": 50_000, "test": 10_000},
            "as published by its authors, no licence stated",
            "Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009",
            remark="Labels are the 100 fine ones.",
        ),
        _known(
            "svhn_cropped", (32, 32, 3), 10, {"train": 73_257, "test": 26_032, "extra": 531_131},
            "non-commercial use only",
            "Netzer et al., Reading Digits in Natural Images with Unsupervised Feature Learning, 2011",
        ),
        _known(
            "celeb_a", (_CELEBA_SIZE, _CELEBA_SIZE, 3), 40, {"train": 162_770, "validation": 19_867, "test": 19_962},
            "non-commercial research only",
            "Liu, Luo, Wang and Tang, Deep Learning Face Attributes in the Wild, ICCV 2015",
            labels="attributes",
            remark="Centre-cropped to 178 x 178 and resized to 64 x 64 (bilinear, antialiased).",
        ),
    )
}  # fmt: skip


def info(name: str) -> DatasetInfo:
    """What is known of the data set `name`, without reading it.

    Args:
        name: one of `digits mnist fashion_mnist cifar10 cifar100 svhn_cropped celeb_a`.

    Raises:
        UnknownNameError: any other name, with the nearest known ones.
    """
    return _KNOWN[errors.choose("dataset", name, _KNOWN)]


def splits(name: str | os.PathLike) -> tuple[str, ...]:
    """Names of the splits that `load(name, split)` knows; reads no image.

    Args:
        name: a known name, the path of an `.npz` file, or of a folder of images, as for `load`.

    Raises:
        UnknownNameError, MissingDataError, InvalidInputError: as `load`.
    """
    kind = _kind(name)
    if kind == "known":
        return tuple(_KNOWN[name].splits)
    if kind == "npz":
        with _open_npz(name) as arrays:
            return tuple(_npz_keys(arrays, name))
    return tuple(_folder_splits(pathlib.Path(name).expanduser()))


def load(
    name: str | os.PathLike,
    split: str,
    data_dir: str | os.PathLike | None = None,
    image_size: int | None = None,
) -> tuple[np.ndarray, np.ndarray | None]:
    """Read one split of a data set into memory.

    Args:
        name: a known name, or the path of an `.npz` file or of a folder of images, by the rules at the top of
            `sslzoo.data`.
        split: "train", "test", or another that `splits(name)` gives ("validation" of celeb_a, "extra" of svhn_cropped).
        data_dir: TFDS folder, which must exist; used for the known sets other than `digits`.
        image_size: pixels, for a folder of images only: each image is cropped to its largest centred square and
            resized to (image_size, image_size), bilinear and antialiased. Without, all images must share one size.

    Returns:
        `(images, labels)`: images uint8 (N, H, W, C) in 0..255 with C = 1 or 3 (of an `.npz` that holds floats in
        0..255, float32); labels int64 (N,), of CelebA int64 (N, 40) in the order of `CELEBA_ATTRIBUTES`, or None for a
        set without labels. The i-th image is the same at every call.

    Raises:
        UnknownNameError: unknown data set or split.
        MissingDataError: the file, folder or data set is not there, and could not be had.
        InvalidInputError: an unreadable image or file; images of differing size; arrays of a wrong rank, dtype, number
            of channels or range.
    """
    kind = _kind(name)
    if image_size is not None and kind != "folder":
        raise errors.InvalidInputError(
            f"`image_size` resizes a folder of images; {name!r} is not one. Received: image_size={image_size!r}"
        )
    if kind == "npz":
        return _load_npz(name, split)
    if kind == "folder":
        return _load_folder(pathlib.Path(name).expanduser(), split, image_size)
    errors.choose("split", split, _KNOWN[name].splits)
    return _load_digits(split) if name == "digits" else _load_tfds(name, split, data_dir)


def check(images, labels=None) -> tuple[np.ndarray, np.ndarray | None]:
    """Return raw images and labels as the rest of the package expects them, or say what is wrong with them.

    Args:
        images: array (N, H, W, C), N > 0, C = 1 or 3, uint8, or floats in 0..255.
        labels: integers (N,) or (N, 1) >= 0, or (N, T) of 0 and 1 for T attributes, or None.

    Returns:
        `(images, labels)`: images uint8 as they came, or float32; labels int64 (N,) or (N, T), or None.

    Raises:
        InvalidInputError: anything else.
    """
    images = np.asarray(images)
    if images.ndim != 4:
        grey = " (for grey images, add a channel axis: images[..., None])" if images.ndim == 3 else ""
        raise errors.InvalidInputError(f"Expected images of shape (N, H, W, C){grey}. Received: shape={images.shape}")
    if 0 in images.shape or images.shape[-1] not in (1, 3):
        raise errors.InvalidInputError(
            "Expected at least one image, channels last, with 1 channel (grey) or 3 (red, green, blue), as "
            f"(N, H, W, C). Received: shape={images.shape}"
        )
    if images.dtype != "uint8":
        if not np.issubdtype(images.dtype, np.floating):
            raise errors.InvalidInputError(
                "Expected raw images as uint8, or as floats in 0..255; convert with images.astype('uint8') if that "
                f"loses nothing. Received: dtype={images.dtype}"
            )
        low, high = images.min(), images.max()
        if not (low >= 0 and high <= 255):  # a NaN fails both comparisons
            raise errors.InvalidInputError(f"Expected float images in 0..255. Received: range=[{low}, {high}]")
        if high <= 1:
            raise errors.InvalidInputError(
                "Expected raw images in 0..255, but these look scaled to 0..1; multiply them by 255. "
                f"Received: range=[{low}, {high}]"
            )
        images = images.astype("float32", copy=False)
    if labels is None:
        return images, None

    labels = np.asarray(labels)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if not (np.issubdtype(labels.dtype, np.integer) or labels.dtype == bool) or labels.ndim not in (1, 2):
        raise errors.InvalidInputError(
            "Expected integer labels (N,), or (N, T) of 0 and 1 for T attributes. "
            f"Received: dtype={labels.dtype}, shape={labels.shape}"
        )
    if len(labels) != len(images):
        raise errors.InvalidInputError(f"Expected one label per image. Received: {len(images)=}, {len(labels)=}")
    if labels.min() < 0 or (labels.ndim == 2 and labels.max() > 1):
        raise errors.InvalidInputError(
            "Expected labels (N,) >= 0, or attributes (N, T) of 0 and 1. "
            f"Received: shape={labels.shape}, range=[{labels.min()}, {labels.max()}]"
        )
    return images, labels.astype("int64")


def celeba_task(attributes: np.ndarray, task: str) -> tuple[np.ndarray, np.ndarray]:
    """One classification task out of the 40 attributes of CelebA (SimVAE, arXiv:2402.01399, section 5).

    Args:
        attributes: int (N, 40) of 0 and 1, the labels of `celeb_a`.
        task: "gender" (attribute Male, all images), or "hair" (0 bald, 1 black, 2 blond, 3 brown, 4 grey; only images
            that carry exactly one of the five).

    Returns:
        `(rows, labels)`: int64 (M,) indices of the images that take part, ascending, and int64 (M,) their classes.

    Raises:
        UnknownNameError: another task.
        InvalidInputError: attributes of another shape.
    """
    attributes = np.asarray(attributes)
    if attributes.ndim != 2 or attributes.shape[1] != len(CELEBA_ATTRIBUTES):
        raise errors.InvalidInputError(f"Expected attributes of shape (N, 40). Received: shape={attributes.shape}")
    if errors.choose("task", task, ("gender", "hair")) == "gender":
        return np.arange(len(attributes)), attributes[:, CELEBA_ATTRIBUTES.index("Male")].astype("int64")
    hair = [CELEBA_ATTRIBUTES.index(name) for name in ("Bald", "Black_Hair", "Blond_Hair", "Brown_Hair", "Gray_Hair")]
    hair = attributes[:, hair]
    rows = np.flatnonzero(hair.sum(axis=1) == 1)
    return rows, hair[rows].argmax(axis=1)


# ---------------------------------------------------------------------------------------------------------------------
# Where images come from


def _kind(name):
    """Which of the three kinds `name` is: "known", "npz" or "folder"; raises if it is none."""
    if not isinstance(name, str | os.PathLike):
        raise errors.InvalidInputError(
            f"Expected the name of a data set, or the path of an .npz file or of a folder. Received: name={name!r}"
        )
    if name in _KNOWN:
        return "known"
    path = pathlib.Path(name).expanduser()
    if path.is_dir():
        return "folder"
    if path.is_file():
        if path.suffix == ".npz":
            return "npz"
        raise errors.InvalidInputError(
            f"Expected an .npz file or a folder of images. Received: name={os.fspath(name)!r}"
        )
    if isinstance(name, os.PathLike) or path.suffix == ".npz" or len(path.parts) > 1:
        raise errors.MissingDataError(
            f"Looked for an .npz file or a folder of images at {path.absolute()}, and found nothing. "
            f"Received: name={os.fspath(name)!r}"
        )
    return errors.choose("dataset", name, _KNOWN)


def _load_digits(split):
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    digits = load_digits()
    train, test = train_test_split(np.arange(len(digits.target)), test_size=360, stratify=digits.target, random_state=0)
    rows = np.sort(train if split == "train" else test)
    images = np.rint(digits.images[rows, :, :, None] * (255 / 16)).astype("uint8")
    return images, digits.target[rows].astype("int64")


@contextlib.contextmanager
def _open_npz(name):
    try:
        with np.load(pathlib.Path(name).expanduser(), allow_pickle=False) as arrays:
            yield arrays
    except errors.SSLZooError:
        raise
    except Exception as error:  # zipfile, zlib, NumPy and the system each have their own
        raise errors.InvalidInputError(f"This .npz file cannot be read ({error}). Received: name={name!r}") from error


def _npz_keys(arrays, name):
    """Split -> (key of its images, key of its labels or None), by the rule at the top of the file."""
    found = {}
    for key in arrays.files:
        for pattern, labels in ((r"(\w+)_images", r"{}_labels"), (r"x_(\w+)", r"y_{}"), (r"()images", r"labels")):
            if match := re.fullmatch(pattern, key):
                labels = labels.format(match[1])
                found.setdefault(match[1] or "train", (key, labels if labels in arrays.files else None))
    if not found:
        raise errors.InvalidInputError(
            "Expected an .npz file with the arrays train_images and train_labels, x_train and y_train, or images and "
            f"labels (and likewise for test). Received: name={os.fspath(name)!r}, arrays={arrays.files}"
        )
    return found


def _load_npz(name, split):
    with _open_npz(name) as arrays:
        found = _npz_keys(arrays, name)
        images, labels = found[errors.choose("split", split, found)]
        try:
            return check(arrays[images], None if labels is None else arrays[labels])
        except errors.InvalidInputError as error:
            raise errors.InvalidInputError(f"In {os.fspath(name)}, split {split!r}: {error}") from None


_IMAGE_SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}
_GREY_MODES = {"1", "L", "LA"}
_DEEP_MODES = {"F", "I", "I;16", "I;16B", "I;16L", "I;16N"}


def _visible(path, root):
    return not any(part.startswith(".") for part in path.relative_to(root).parts)


def _folder_splits(root):
    return [split for split in ("train", "validation", "test") if (root / split).is_dir()] or ["train"]


def _folder_labels(root, split, files):
    """Class of each file of a split folder, or None where the files are not sorted into at least two classes."""
    if not (root / split).is_dir() or any(len(file.relative_to(root / split).parts) < 2 for file in files):
        return None
    # Over all splits, so that a class has the same number in each of them.
    folders = [folder for name in _folder_splits(root) for folder in (root / name).iterdir() if folder.is_dir()]
    classes = sorted({folder.name for folder in folders if not folder.name.startswith(".")})
    if len(classes) < 2:
        return None
    return np.array([classes.index(file.relative_to(root / split).parts[0]) for file in files], "int64")


def _load_folder(root, split, image_size):
    from PIL import Image, ImageOps

    if image_size is not None and (not isinstance(image_size, int) or image_size < 1):
        raise errors.InvalidInputError(f"Expected a size in pixels, at least 1. Received: image_size={image_size!r}")
    errors.choose("split", split, _folder_splits(root))
    base = root / split if (root / split).is_dir() else root
    files = sorted(p for p in base.rglob("*") if p.suffix.lower() in _IMAGE_SUFFIXES and _visible(p, base))
    if not files:
        raise errors.MissingDataError(
            f"Looked below {base.absolute()} for images ({' '.join(sorted(_IMAGE_SUFFIXES))}) and found none. "
            f"Received: name={os.fspath(root)!r}"
        )

    @contextlib.contextmanager
    def opened(file):
        try:
            with Image.open(file) as image:
                yield image
        except errors.SSLZooError:
            raise
        except Exception as error:  # Pillow's decoders raise OSError, SyntaxError, ValueError, struct.error ...
            raise errors.InvalidInputError(
                f"This image cannot be read; repair it or take it away. Received: {file} ({error})"
            ) from error

    # The headers first: one colour image makes the whole set a colour set.
    mode = "L"
    for file in files:
        with opened(file) as image:
            if image.mode in _DEEP_MODES:
                raise errors.InvalidInputError(
                    "Expected images of 8 bits per channel; this one has more, and cutting it to 8 is not ours to "
                    f"choose. Received: {file} (Pillow mode {image.mode!r})"
                )
            if image.mode not in _GREY_MODES:
                mode = "RGB"

    images = None
    progress = _progress(len(files))
    for index, file in enumerate(files):
        with opened(file) as image:
            image = ImageOps.exif_transpose(image).convert(mode)
            if image_size is not None:
                image = ImageOps.fit(image, (image_size, image_size), method=Image.Resampling.BILINEAR)
            pixels = np.asarray(image).reshape(image.height, image.width, len(mode))
        if images is None:
            images = np.empty((len(files), *pixels.shape), "uint8")
        if pixels.shape != images.shape[1:]:
            raise errors.InvalidInputError(
                f"Expected one size; {file} is {pixels.shape[0]} x {pixels.shape[1]} pixels (height x width), "
                f"{files[0]} {images.shape[1]} x {images.shape[2]}. Pass `image_size` to crop each to its centred "
                f"square and resize it. Received: image_size={image_size}"
            )
        images[index] = pixels
        progress(index + 1)
    return images, _folder_labels(root, split, files)


def _load_tfds(name, split, data_dir):
    chosen = data_dir or os.environ.get("TFDS_DATA_DIR") or None
    if chosen is not None and not pathlib.Path(chosen).expanduser().is_dir():
        origin = "data_dir" if data_dir else "TFDS_DATA_DIR"
        raise errors.MissingDataError(
            f"Looked for {name!r} in the TFDS folder {pathlib.Path(chosen).expanduser().absolute()}, which does not "
            "exist. Name the folder that holds it, or create this one to have TFDS download into it. "
            f"Received: {origin}={os.fspath(chosen)!r}"
        )
    try:
        tf = _tensorflow()
        import tensorflow_datasets as tfds
    except ImportError as error:
        raise errors.MissingDataError(
            f"Reading {name!r} takes TensorFlow and TensorFlow Datasets (pip install 'sslzoo[tensorflow]'), and "
            f"importing them failed ({error}). Where they are installed, write the set to a file with\n"
            f"    python -m sslzoo.data {name} -o {name}.npz\n"
            f"and pass that file instead of the name: it is read without TensorFlow. Received: name={name!r}"
        ) from error

    root = pathlib.Path(chosen or tfds.core.constants.DATA_DIR).expanduser()
    # Any version: the newest of those that lie in the folder; if there is none, the one that TFDS would make.
    builder = tfds.builder(name, data_dir=root, version="*.*.*")
    if not builder.is_prepared():
        _download(builder, root)
    errors.choose("split", split, builder.info.splits)

    rows = builder.info.splits[split].num_examples
    dataset = builder.as_dataset(
        split=split,
        shuffle_files=False,
        # One shard after the other: the order of the files is the order of the images.
        read_config=tfds.ReadConfig(try_autocache=False, interleave_cycle_length=1),
    )
    parts = _celeba_parts if name == "celeb_a" else _class_parts
    dataset = dataset.map(parts, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True).batch(512).prefetch(2)

    images = labels = None
    done, progress = 0, _progress(rows)
    try:
        for some_images, some_labels in dataset.as_numpy_iterator():
            if images is None:
                images = np.empty((rows, *some_images.shape[1:]), "uint8")
                labels = np.empty((rows, *some_labels.shape[1:]), "int64")
            images[done : done + len(some_images)] = some_images
            labels[done : done + len(some_labels)] = some_labels
            done += len(some_images)
            progress(done)
    except (tf.errors.OpError, ValueError) as error:
        raise _damaged(builder, split, str(error).splitlines()[0]) from error
    if done != rows or rows == 0:
        raise _damaged(builder, split, f"{rows} images announced, {done} found")
    return check(images, labels)


def _damaged(builder, split, what):
    return errors.MissingDataError(
        f"The data set in {builder.data_dir} is damaged: delete that folder and prepare the set again. "
        f"Received: split={split!r} ({what})"
    )


def _download(builder, root):
    """Have TFDS prepare a data set below `root`, or raise MissingDataError."""
    import requests

    try:
        # TFDS retries an unreachable server for minutes, so one short question goes first.
        for url in list(builder.url_infos or ())[:1]:
            requests.head(url, timeout=10)
        builder.download_and_prepare()
    except Exception as error:  # network, disk, checksum, quota, an archive of another form
        raise errors.MissingDataError(
            f"Looked for {builder.name!r} version {builder.version} in {builder.data_dir}, and it is not there; "
            f"downloading it failed ({type(error).__name__}: {error}). Prepare it on a machine that reaches the "
            f"network with\n    python -c \"import tensorflow_datasets as t; t.load('{builder.name}')\"\n"
            f"and copy ~/tensorflow_datasets/{builder.name} to {root / builder.name}, or pass the folder that holds it "
            f"as data_dir (or TFDS_DATA_DIR). Received: data_dir={os.fspath(root)!r}"
        ) from error


def _class_parts(example):
    return example["image"], example["label"]


def _celeba_parts(example):
    tf = _tensorflow()
    image = tf.image.resize_with_crop_or_pad(example["image"], _CELEBA_CROP, _CELEBA_CROP)
    image = tf.image.resize(image, (_CELEBA_SIZE, _CELEBA_SIZE), antialias=True)
    attributes = [tf.cast(example["attributes"][name], tf.int64) for name in CELEBA_ATTRIBUTES]
    return tf.cast(tf.round(image), tf.uint8), tf.stack(attributes)


def _tensorflow():
    """TensorFlow, as a reader of data: under another backend it must leave the GPUs alone. Raises ImportError."""
    import tensorflow as tf

    if keras.config.backend() != "tensorflow":
        with contextlib.suppress(RuntimeError):  # too late: someone has used its devices already
            tf.config.set_visible_devices([], "GPU")
    return tf


def _progress(total) -> Callable[[int], None]:
    """A function of the number of images done; draws a bar once reading has taken five seconds."""
    start = time.monotonic()
    bar = keras.utils.Progbar(total, interval=1, unit_name="image")

    def update(done):
        if time.monotonic() - start > 5:
            bar.update(done)

    return update


# ---------------------------------------------------------------------------------------------------------------------
# In which order they go to the model


def epoch_order(num_images: int, seed: int, epoch: int) -> np.ndarray:
    """The order of an epoch: int64 (num_images,), a permutation that depends on nothing but the arguments."""
    return np.random.Generator(np.random.PCG64([seed, epoch])).permutation(num_images)


class _Plan:
    """Checked arguments of `pipeline` and `Batches`, and what both derive from them in the same way."""

    def __init__(self, images, labels, batch_size, seed, shuffle, start_epoch, drop_remainder):
        self.images, self.labels = check(images, labels)
        for name, value, least in (("batch_size", batch_size, 1), ("start_epoch", start_epoch, 0)):
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                raise errors.InvalidInputError(f"Expected an integer >= {least}. Received: {name}={value!r}")
        if seed is None:
            seed = int(np.random.SeedSequence().generate_state(1)[0] >> 1)
        # 31 bits: the seed is one half of the int32 pair that random views are drawn from.
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**31:
            raise errors.InvalidInputError(f"Expected None or an integer in 0..2**31-1. Received: seed={seed!r}")
        if len(self.images) < batch_size and drop_remainder:
            raise errors.InvalidInputError(
                "The data set is smaller than one batch, and the remainder is dropped: no batch would be left. Take a "
                f"batch_size of at most {len(self.images)}. Received: batch_size={batch_size}"
            )
        self.batch_size, self.seed, self.start_epoch = int(batch_size), int(seed), int(start_epoch)
        self.shuffle, self.drop_remainder = bool(shuffle), bool(drop_remainder)
        batches = len(self.images) / self.batch_size
        self.steps = math.floor(batches) if self.drop_remainder else math.ceil(batches)

    def order(self, epoch):
        if self.shuffle:
            return epoch_order(len(self.images), self.seed, int(epoch))
        return np.arange(len(self.images))


def _element(images, labels, index):
    """One batch as Keras unpacks it: `(x,)` or `(x, y)`, where x is a dict if the sample index goes with it."""
    x = images if index is None else {"images": images, "index": index}
    return (x,) if labels is None else (x, labels)


class Stacked(NamedTuple):
    """Several batches in one array each, (B, steps, ...): what one program of fused training steps takes.

    Images come first and steps second, so that a batch lies on several devices as a single one would.
    """

    x: "np.ndarray | dict[str, np.ndarray]"
    y: "np.ndarray | None" = None


def pipeline(
    name: str | os.PathLike | tuple,
    split: str | None,
    batch_size: int,
    views: Callable | None = None,
    with_index: bool = False,
    seed: int | None = None,
    *,
    shuffle: bool = True,
    data_dir: str | os.PathLike | None = None,
    image_size: int | None = None,
    start_epoch: int = 0,
    repeat: bool = False,
    drop_remainder: bool = True,
):
    """Batches of a data set as a `tf.data.Dataset`, for `model.fit` under any backend.

    The set is held in memory. The order of epoch e depends on (seed, e) alone, see the top of `sslzoo.data`.

        images, labels = sslzoo.data.load("mnist", "train")
        batches = sslzoo.data.pipeline((images, labels), None, 128, seed=0, repeat=True, start_epoch=first)
        model.fit(batches, steps_per_epoch=len(images) // 128, initial_epoch=first, epochs=epochs, shuffle=False)

    Args:
        name: what `load` takes, or the arrays `(images, labels)` themselves, labels possibly None.
        split: the split to load; without meaning for arrays (pass None).
        batch_size: images per batch.
        views: None for raw images, or a callable `views(images, training=True, seed=seed)` such as a
            `sslzoo.views.Views`, which runs inside the pipeline on batches of raw images. `seed` is an int32 tensor
            (2,): `seed` of this function, and the number of the step since epoch 0.
        with_index: also give the position of each image in the set.
        seed: integer in 0..2**31-1; None draws one.
        shuffle: False keeps the order of the set, in every epoch.
        data_dir, image_size: as for `load`.
        start_epoch: the epoch to begin with.
        repeat: False ends after one epoch (`start_epoch`, the same at every iteration); True goes on with the next
            one for ever, so that `fit` needs `steps_per_epoch`.
        drop_remainder: leave out the last, smaller batch of each epoch.

    Returns:
        `tf.data.Dataset` of `(images, labels)`; with index of `({"images": images, "index": index}, labels)`; for a set
        without labels of a tuple of one. images uint8 (B, H, W, C), or the (B, J, H, W, C) floats that `views` makes;
        labels int64 (B,) or (B, 40); index int32 (B,). Its cardinality is known.

    Raises:
        ImportError: TensorFlow is not installed; `Batches` needs none.
        UnknownNameError, MissingDataError, InvalidInputError: as `load`; a set smaller than a batch; an argument out of
            its range.
    """
    try:
        tf = _tensorflow()
    except ImportError as error:
        raise ImportError(
            f"A tf.data pipeline takes TensorFlow (pip install 'sslzoo[tensorflow]'); importing it failed ({error}). "
            "`sslzoo.data.Batches` gives the same batches from arrays without it."
        ) from error
    images, labels = name if isinstance(name, tuple) else load(name, split, data_dir, image_size)
    plan = _Plan(images, labels, batch_size, seed, shuffle, start_epoch, drop_remainder)

    with tf.device("CPU:0"):  # under TensorFlow with a GPU the whole set would go there
        images = tf.convert_to_tensor(plan.images)
        labels = None if plan.labels is None else tf.convert_to_tensor(plan.labels)

    def rows_of_epoch(epoch):
        order = tf.numpy_function(plan.order, [epoch], tf.int64)
        order = tf.ensure_shape(order, [len(plan.images)])
        return tf.data.Dataset.from_tensor_slices(order).batch(plan.batch_size, drop_remainder=plan.drop_remainder)

    # What Keras layers do inside `views` is not AutoGraph's to rewrite.
    @tf.autograph.experimental.do_not_convert
    def batch_of_rows(step, rows):
        batch = tf.gather(images, rows)
        if views is not None:
            batch = views(batch, training=True, seed=tf.stack([plan.seed, tf.cast(step, tf.int32)]))
        index = tf.cast(rows, tf.int32) if with_index else None
        return _element(batch, None if labels is None else tf.gather(labels, rows), index)

    last = tf.int64.max if repeat else plan.start_epoch + 1
    dataset = tf.data.Dataset.range(plan.start_epoch, last).flat_map(rows_of_epoch)
    dataset = dataset.apply(
        tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY if repeat else plan.steps)
    )
    dataset = dataset.enumerate(start=plan.start_epoch * plan.steps)
    dataset = dataset.map(batch_of_rows, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    return dataset.prefetch(tf.data.AUTOTUNE)


class Batches(keras.utils.PyDataset):
    """The batches of `pipeline` without TensorFlow: arrays in memory to batches, for `model.fit` under any backend.

        batches = sslzoo.data.Batches(images, labels, 128, seed=0, start_epoch=first)
        model.fit(batches, initial_epoch=first, epochs=epochs, shuffle=False)

    `len(batches)` is the number of steps per epoch. The order of the images is the one that `pipeline` has for the same
    seed; `shuffle=False` keeps Keras from shuffling the batches of an epoch once more, in a way that no seed repeats.

    Within `fit`, an epoch whose batches were all given out is followed by epoch + 1, also in a later `fit` of the same
    object; one that was broken off earlier is begun again. With `repeat=True` Keras sees one endless stream instead, in
    which batch i of the run has a place that nothing can move; `fit` then needs `steps_per_epoch`, and takes any.
    Outside `fit`, `batches[i]` is batch i of `batches.epoch`, and iteration goes through that epoch once.

    Args:
        images: raw images (N, H, W, C), uint8 or floats in 0..255.
        labels: integers (N,) or (N, T), or None.
        batch_size: images per batch.
        views: None for raw images, or a callable `views(images, training=True, seed=seed)` such as a
            `sslzoo.views.Views`. `seed` is an int32 array (2,): `seed` of this object, and the number of the step since
            epoch 0.
        with_index: also give the position of each image in `images`.
        seed: integer in 0..2**31-1; None draws one.
        shuffle: False keeps the order of the arrays, in every epoch.
        start_epoch: the epoch to begin with.
        repeat: see above.
        drop_remainder: leave out the last, smaller batch of each epoch.
        steps_per_execution: K, the number that `model.compile` was given, where a method fuses its steps itself
            (`Pretrainer.make_train_function`): the stream then gives up to K batches at a time, in one array each, the
            last of an epoch what is left of it. Takes `repeat=True`, raw images and whole batches; and a model that
            was called once (`model.views(images[:1], training=False)`), or Keras builds its views on a stack.

    Returns:
        Each batch has the structure, shapes and dtypes of `pipeline`'s, as NumPy arrays (views as `views` makes them);
        with K > 1 it is a `Stacked` of arrays (B, up to K, ...).

    Raises:
        InvalidInputError: arrays that `check` refuses; a set smaller than a batch; an argument out of its range.
    """

    def __init__(
        self,
        images: np.ndarray,
        labels: np.ndarray | None,
        batch_size: int,
        views: Callable | None = None,
        with_index: bool = False,
        seed: int | None = None,
        *,
        shuffle: bool = True,
        start_epoch: int = 0,
        repeat: bool = False,
        drop_remainder: bool = True,
        steps_per_execution: int = 1,
    ):
        # One worker and no process: Keras then asks for one batch after the other.
        super().__init__(workers=1, use_multiprocessing=False, max_queue_size=2)
        self._plan = _Plan(images, labels, batch_size, seed, shuffle, start_epoch, drop_remainder)
        self._order = (None, None)  # (epoch, order of that epoch)
        self._in_fit = False  # whether it is `fit` that asks for batches
        self._given, self._next = set(), 0  # those of this epoch that it was given, and the one that comes next
        self.views, self.with_index, self.repeat = views, bool(with_index), bool(repeat)
        self.epoch = self._plan.start_epoch
        if isinstance(steps_per_execution, bool) or not isinstance(steps_per_execution, int | np.integer):
            steps_per_execution = 0
        if steps_per_execution < 1 or (steps_per_execution > 1 and not (repeat and drop_remainder and views is None)):
            raise errors.InvalidInputError(
                "steps_per_execution must be an integer >= 1, and 1 unless repeat=True, drop_remainder=True and "
                f"views=None. Received: steps_per_execution={steps_per_execution}, repeat={repeat}, "
                f"drop_remainder={drop_remainder}, views={views}"
            )
        self.steps_per_execution = int(steps_per_execution)
        self._per_epoch = math.ceil(len(self) / self.steps_per_execution)  # what `fit` asks for: batches, or stacks

    @property
    def seed(self) -> int:
        return self._plan.seed

    @property
    def num_batches(self) -> int | None:
        """What Keras reads: the steps of an epoch, or None for an endless stream."""
        return None if self.repeat else len(self)

    def __len__(self) -> int:
        return self._plan.steps

    def __iter__(self):
        return (self._batch(self.epoch, position) for position in range(self._per_epoch))

    def __getitem__(self, position: int):
        if self.repeat:
            epochs, position = divmod(position, self._per_epoch)
            return self._batch(self._plan.start_epoch + epochs, position)
        if not 0 <= position < len(self):
            raise IndexError(f"Expected a batch in 0..{len(self) - 1}. Received: position={position}")
        if self._in_fit:
            if position not in (0, self._next):
                warnings.warn(
                    "`fit(shuffle=True)`, the default, shuffles the batches with a generator that a resumed run cannot "
                    "bring back. Pass shuffle=False: the order of the images is drawn from the seed already.",
                    stacklevel=2,
                )
            self._next = position + 1
            self._given.add(position)
        return self._batch(self.epoch, position)

    def on_epoch_begin(self):
        self._in_fit = True

    def on_epoch_end(self):
        # Keras also ends an epoch that it began only to look at a batch and build the model, and one that is cut short
        # by `steps_per_epoch`. Ours is over when each of its batches was given out.
        if len(self._given) == len(self):
            self.epoch += 1
            self._given.clear()
            self._in_fit = False

    def _batch(self, epoch, position):
        plan = self._plan
        known, order = self._order
        if known != epoch:
            order = plan.order(epoch)
            self._order = (epoch, order)
        if self.steps_per_execution > 1:
            first = position * self.steps_per_execution
            steps = min(self.steps_per_execution, len(self) - first)
            rows = order[first * plan.batch_size : (first + steps) * plan.batch_size]
            rows = rows.reshape(steps, plan.batch_size).T
        else:
            rows = order[position * plan.batch_size : (position + 1) * plan.batch_size]
        images = plan.images[rows]
        if self.views is not None:
            seed = np.array([plan.seed, epoch * plan.steps + position], "int32")
            images = self.views(images, training=True, seed=seed)
        index = rows.astype("int32") if self.with_index else None
        element = _element(images, None if plan.labels is None else plan.labels[rows], index)
        return element if self.steps_per_execution == 1 else Stacked(*element)


# ---------------------------------------------------------------------------------------------------------------------
# A set as a file


def export(
    name: str | os.PathLike,
    path: str | os.PathLike,
    splits_to_write: Sequence[str] = (),
    data_dir: str | os.PathLike | None = None,
    image_size: int | None = None,
) -> pathlib.Path:
    """Write a data set to an `.npz` file, which `load` reads without TensorFlow.

    Args:
        name, data_dir, image_size: as for `load`.
        path: file to write, ending in `.npz`. It appears complete or not at all.
        splits_to_write: names of splits; all of them if empty.

    Returns:
        The path.

    Raises:
        UnknownNameError, MissingDataError, InvalidInputError: as `load`; a path that does not end in `.npz` or whose
            folder does not exist.
    """
    path = pathlib.Path(path).expanduser()
    if path.suffix != ".npz" or not path.parent.is_dir():
        raise errors.InvalidInputError(
            f"Expected a file *.npz in a folder that exists. Received: path={os.fspath(path)!r}"
        )
    known = splits(name)
    arrays = {}
    for split in [errors.choose("split", split, known) for split in splits_to_write] or known:
        images, labels = load(name, split, data_dir, image_size)
        arrays[f"{split}_images"] = images
        if labels is not None:
            arrays[f"{split}_labels"] = labels
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.stem}-") as beside:
        part = pathlib.Path(beside, path.name)
        np.savez_compressed(part, **arrays)
        os.replace(part, path)
    return path


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m sslzoo.data NAME [SPLIT ...] -o FILE.npz`: `export` for the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m sslzoo.data",
        description="Write a data set to an .npz file, which sslzoo reads without TensorFlow.",
    )
    parser.add_argument("name", help=f"{' '.join(_KNOWN)}, or the path of a folder of images")
    parser.add_argument("splits", nargs="*", metavar="split", help="train, test ...; default: all")
    parser.add_argument("-o", "--out", required=True, metavar="FILE.npz")
    parser.add_argument("--data-dir", help="TFDS folder; default: TFDS_DATA_DIR, else ~/tensorflow_datasets")
    parser.add_argument("--image-size", type=int, help="crop the images of a folder to squares of so many pixels")
    options = parser.parse_args(arguments)
    try:
        path = export(options.name, options.out, options.splits, options.data_dir, options.image_size)
    except errors.SSLZooError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    with np.load(path) as arrays:
        for key in arrays.files:
            print(f"{key}: {arrays[key].dtype} {arrays[key].shape}")
    print(f"wrote {path} ({path.stat().st_size / 1e6:.1f} MB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
