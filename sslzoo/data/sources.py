"""From the name of a data set to raw images: known sets, `.npz` files, folders.

    images, labels = sslzoo.data.load("mnist", "train")  # uint8 (60000, 28, 28, 1), int64 (60000,)

TensorFlow is imported here and nowhere else in the package (`import_tensorflow`), only to read TFDS or to make a
`tf.data.Dataset`. Where it is missing, sets travel as `.npz`: `python -m sslzoo.data mnist -o mnist.npz` writes one,
which in the TFDS folder of another machine is `mnist` there.
"""

import contextlib
import math
import os
import re
from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np

from sslzoo import checks, errors, progress
from sslzoo.data import streams
from sslzoo.data.catalogue import CELEBA_ATTRIBUTES, CELEBA_CROP, CELEBA_SIZE, KNOWN
from sslzoo.data.image_files import ground
from sslzoo.data.image_folder import ImageFolder
from sslzoo.data.labels import check_labels
from sslzoo.data.tiff import MOST_CHANNELS
from sslzoo.files import as_path, is_path, open_npz, write_beside

# What alone the options of folders may be where there is none.
FOLDER_OPTIONS = {
    "image_size": (None, "auto"),
    "labels": (None,),
    "test_share": (0,),
    "on_error": ("fail",),
    "background": ("white",),
    "stream": (False, "auto"),
}


def splits(name: str | os.PathLike | ImageFolder) -> tuple[str, ...]:
    """Names of the splits that `load(name, split)` knows; reads no image."""
    if isinstance(name, ImageFolder):
        return name.splits
    kind = _kind(name)
    if kind == "known":
        return tuple(KNOWN[name].splits)
    if kind == "npz":
        with _open_npz(name) as arrays:
            return tuple(_npz_keys(arrays, name))
    return ImageFolder(name).splits


def test_split(name: str | os.PathLike | ImageFolder, remarks: list[str] | None = None) -> str | None:
    """The split that is tested with: "test", or "validation" where there is no other, as in ImageNet; None for none.

    `remarks`, a list, gets a sentence of the latter.
    """
    known = splits(name)
    found = next((split for split in ("test", "validation") if split in known), None)
    if found == "validation" and remarks is not None:
        remarks.append("There is no split test: the images of validation are tested with.")
    return found


def refuse_folder_options(given: str, **options) -> None:
    """Options that only a folder of images has, of which `given`, as messages call it, is none.

    Raises:
        InvalidInputError: for the first of `load`'s options that is not at a default.
    """
    for option, value in options.items():
        if not isinstance(value, str | int | float | None) or value not in FOLDER_OPTIONS[option]:
            raise errors.InvalidInputError(
                f"`{option}` is for a folder of images; {given} is none. Received: {option}={value!r}"
            )


def load(
    name: str | os.PathLike | ImageFolder,
    split: str,
    data_dir: str | os.PathLike | None = None,
    image_size: "int | tuple[int, int] | str | None" = None,
    *,
    labels: str | None = None,
    test_share: float = 0.0,
    on_error: str = "fail",
    remarks: list[str] | None = None,
    stream: "bool | str" = False,
    background: str = "white",
) -> "tuple[np.ndarray | streams.StreamedImages, np.ndarray | None]":
    """Read one split of a data set into memory.

        images, labels = sslzoo.data.load("photos/", "test", image_size=64, labels="folders", test_share=0.2)

    A name is one of three kinds:

    * a known name, see `info`. `digits` comes with scikit-learn. The others are read by TensorFlow Datasets (TFDS) from
      `data_dir`, else from the folder in the environment variable `TFDS_DATA_DIR`, else from TFDS' default
      (`~/tensorflow_datasets`); what is not there, TFDS downloads. Where that folder holds `<name>.npz`, that is read.
    * the path of an `.npz` file. The arrays `<split>_images` and `<split>_labels`, or `x_<split>` and `y_<split>` as in
      Keras' own files (where (N, H, W) is gray), make the split `<split>`; plain `images` and `labels` make the split
      "train". Labels are optional.
    * the path of a folder of images (`ImageFolder`), sorted by path. Images are read as gray if all of the folder are,
      else as color; photographs are turned upright; transparent images are laid on white, or another `background`; of
      several frames or pages the first is read. What is no image is passed over, and counted in a remark.

    A known name wins over a file of that name; write `./mnist` to mean the file.

    Args:
        name: a known name, or the path of an `.npz` file or of a folder of images; or an `ImageFolder`, which lists its
            files once for all splits and whose labels, test_share and background hold.
        split: "train", "test", or another that `splits(name)` gives ("validation" of celeb_a, "extra" of svhn_cropped).
        data_dir: folder of the known sets other than `digits`, prepared by TFDS or as `<name>.npz`; it must exist.
        image_size: int or (height, width), for a folder of images only: the largest part of these proportions in the
            middle of each image, of an int the largest square, is resized, bilinear and antialiased. None: all images
            must share one size. "auto": the size that nine in ten share, if its shorter side is at most 256; or else
            squares of the median of their shorter sides, at most 64.
        labels: "folders", for a folder of images: the folders in it (in its splits) are classes, numbered by their
            sorted names. None: where a folder has splits and all images of a split lie in folders, they are classes.
        test_share: float in [0, 1), with labels="folders" and a folder without splits: the share of each class that
            makes the split "test", at least one image and never all. They are the same in every run.
        on_error: "fail": images of a folder that cannot be read are an error that counts them and names ten; "skip":
            they are left out.
        remarks: list, to which sentences are added that say what was done: files passed over, images left out or
            changed.
        stream: for a folder of images only. True leaves them in their files, to be read batch by batch; each is read
            once beforehand, to name the bad ones. "auto" does so where they would take more than half of the memory
            that is free. Weights that are trained on them are the same.
        background: str, color that transparent images of a folder are laid on: a name, or "#rrggbb".

    Returns:
        `(images, labels)`: images uint8 (N, H, W, C) in 0..255 with C = 1 or 3 (of an `.npz` or of TIFF files,
        uint8, uint16 or float32 with up to 32 channels; with `stream`, `StreamedImages`, which `Batches` and
        `pipeline` take, too); labels int64 (N,), of CelebA int64 (N, 40) in the order of `CELEBA_ATTRIBUTES`, or None
        for a set without labels. The i-th image is the same at every call.

    Raises:
        UnknownNameError: unknown data set or split.
        MissingDataError: the file, folder or data set is not there, and could not be had.
        InvalidInputError: an unreadable image or file; images of differing size; arrays of a wrong rank, dtype, number
            of channels or range.
    """
    errors.choose("on_error", on_error, ("fail", "skip"))
    if labels is not None:
        errors.choose("labels", labels, ("folders",))
    if stream not in (False, True, "auto"):
        raise errors.InvalidInputError(f"`stream` must be True, False or 'auto'. Received: stream={stream!r}")
    if isinstance(name, ImageFolder):
        own = {"labels": "folders" if name.labeled else None, "test_share": name.test_share}
        asked = {"labels": (labels, None), "test_share": (test_share, 0)}
        own["background"], asked["background"] = name.background, (ground(background), ground("white"))
        for option, (value, usual) in asked.items():
            if value not in (usual, own[option]):
                received = f"Received: {option}={value!r}, {own[option]!r} there"
                raise errors.InvalidInputError(f"`{option}` is said where an ImageFolder is made. {received}")
        return _of_folder(name, split, image_size, on_error, stream, remarks)
    kind = _kind(name)
    if kind == "folder":
        folder = ImageFolder(name, labels, test_share, background)
        return _of_folder(folder, split, image_size, on_error, stream, remarks)
    options = {"labels": labels, "test_share": test_share, "background": background}
    refuse_folder_options(repr(os.fspath(name)), image_size=image_size, on_error=on_error, stream=stream, **options)
    if kind == "npz":
        return _load_npz(name, split)
    errors.choose("split", split, KNOWN[name].splits)
    if name == "digits":
        return _load_digits(split)
    exported = _root(data_dir) / f"{name}.npz"
    return _load_npz(str(exported), split) if exported.is_file() else _load_tfds(name, split, data_dir)


def _of_folder(folder, split, image_size, on_error, stream, remarks):
    images, labels, done = folder.load(split, image_size, on_error, stream)
    (remarks if remarks is not None else []).extend(done)
    return images, labels


def is_prepared(name: str, data_dir: "str | os.PathLike | None" = None) -> bool:
    """Whether `load` finds a known data set without downloading anything."""
    if errors.choose("dataset", name, KNOWN) == "digits":
        return True
    root = _root(data_dir)
    if (root / f"{name}.npz").is_file():
        return True
    found = (root / name).glob("*/dataset_info.json")
    return any(re.fullmatch(r"\d+\.\d+\.\d+", path.parent.name) for path in found)


def check(images, labels=None) -> tuple[np.ndarray, np.ndarray | None]:
    """Return raw images and labels as the rest of the package expects them, or say what is wrong with them.

    Args:
        images: array (N, H, W, C), N > 0, C from 1 to 32; uint8, uint16, or finite floats, not all
            within 0..1 (multiply these by 255).
        labels: integers (N,) or (N, 1) >= 0, or (N, T) of 0 and 1 for T attributes, or None.

    Returns:
        `(images, labels)`: images uint8 or uint16 as they came, or float32; labels int64 (N,) or (N, T), or None.

    Raises:
        InvalidInputError: anything else.
    """
    streamed = isinstance(images, streams.StreamedImages)  # whose values were looked at as they were listed
    images = images if streamed else checks.array(images)
    if images.ndim != 4:
        one = images.ndim == 3 and images.shape[-1] in (1, 3)
        what = "for one image, images[None]" if one else "for gray images, add a channel axis: images[..., None]"
        gray = f" ({what})" if images.ndim == 3 else ""
        raise errors.InvalidInputError(f"Expected images of shape (N, H, W, C){gray}. Received: shape={images.shape}")
    width, channels = images.shape[2:]
    first = images.shape[1] < width == channels and channels not in (1, 3)
    if 0 in images.shape or channels > MOST_CHANNELS or first:
        raise errors.InvalidInputError(
            f"Expected at least one image, channels last, with 1 to {MOST_CHANNELS} channels, as (N, H, W, C). "
            f"Received: shape={images.shape}"
        )
    if images.dtype == ">u2" and not streamed:  # as files of some instruments have it
        images = images.astype("uint16", copy=False)
    if images.dtype not in ("uint8", "uint16") and not streamed:
        if not np.issubdtype(images.dtype, np.floating):
            raise errors.InvalidInputError(
                "Expected raw images as uint8 or uint16, or as floats; convert with images.astype('float32'), or with "
                f"'uint8' if all lie in 0..255. Received: dtype={images.dtype}"
            )
        low, high = images.min(), images.max()
        if not np.isfinite([low, high]).all():
            raise errors.InvalidInputError(f"Expected finite images. Received: range=[{low}, {high}]")
        _refuse_scaled(low, high)
        images = images.astype("float32", copy=False)
    if labels is None:
        return images, None
    labels = check_labels(labels, len(images), attributes=True)
    if labels.ndim == 2 and not (labels.size and np.isin(labels, (0, 1)).all()):
        found = f"labels of shape {labels.shape}, values {checks.few(np.unique(labels))}"
        raise errors.InvalidInputError(f"Labels (N, T) must be attributes, 0 and 1. Received: {found}")
    return images, labels


def _refuse_scaled(low, high):
    """Raises InvalidInputError of floats that a network would see as black."""
    if low >= 0 and high <= 1:
        raise errors.InvalidInputError(
            "Expected raw images in 0..255, but these look scaled to 0..1; multiply them by 255. "
            f"Received: range=[{low:g}, {high:g}]"
        )


MOST_VALUES = 100_000_000  # that a range of values is taken from


def value_range(images) -> tuple[float, float]:
    """The values of raw images that networks see as 0 and 1.

    (0, 255) of uint8, and of floats that look like it: within, and one in a thousand above 25.5. Else the 0.1 and the
    99.9 percentile of what is there: one hot pixel of a sensor must not make all others dark.

    Args:
        images: array (N, H, W, C) as `check` gives it, or `StreamedImages`.

    Raises:
        InvalidInputError: images of one value, or floats in 0..1.
    """
    if images.dtype == "uint8":
        return 0.0, 255.0
    most = min(2000, max(1, MOST_VALUES // math.prod(images.shape[1:])))
    some = np.asarray(images[:: -(-len(images) // most)])  # images all over the set
    if some.dtype != "uint16":
        _refuse_scaled(some.min(), some.max())
    low, high = (float(value) for value in np.percentile(some, (0.1, 99.9)))
    if some.dtype != "uint16" and some.min() >= 0 and some.max() <= 255 and (high > 25.5 or low == high):
        return 0.0, 255.0
    if not low < high:
        raise errors.InvalidInputError(f"Expected images of more than one value. Received: all near {low:g}")
    return low, high


# ---------------------------------------------------------------------------------------------------------------------
# Where images come from


def _kind(name):
    """Which of the three kinds `name` is: "known", "npz" or "folder"; raises if it is none."""
    # An empty name is no folder, though a path made of it is the current one: most likely a variable that is not set.
    if not isinstance(name, str | os.PathLike) or not os.fspath(name):
        raise errors.InvalidInputError(
            f"Expected the name of a data set, or the path of an .npz file or of a folder. Received: name={name!r}"
        )
    if name in KNOWN:
        return "known"
    path = as_path(name)
    if path.is_dir():
        return "folder"
    if path.is_file():
        if path.suffix == ".npz":
            return "npz"
        raise errors.InvalidInputError(
            f"Expected an .npz file or a folder of images. Received: name={os.fspath(name)!r}"
        )
    if is_path(name):
        raise errors.MissingDataError(
            f"Looked for an .npz file or a folder of images at {path.absolute()}, and found nothing. "
            f"Received: name={os.fspath(name)!r}"
        )
    return errors.choose("dataset", name, KNOWN, "a folder or .npz file that exists")


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
        with open_npz(name) as arrays:
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
        size = arrays.zip.getinfo(f"{images}.npy").file_size
        if size > streams.memory():
            raise errors.InvalidInputError(
                f"Expected images that fit the memory of this machine ({streams.memory() / 2**30:.1f} GiB). "
                f"Received: {size / 2**30:.1f} GiB, {images} in {os.fspath(name)!r}"
            )
        try:
            pixels = arrays[images]
            if images.startswith("x_") and pixels.ndim == 3 and pixels.shape[-1] not in (1, 3):  # Keras' own mnist.npz
                pixels = pixels[..., None]
            return check(pixels, None if labels is None else arrays[labels])
        except errors.InvalidInputError as error:
            raise errors.InvalidInputError(f"In {os.fspath(name)}, split {split!r}: {error}") from None


def is_folder(name: str | os.PathLike) -> bool:
    """Whether `load` reads a folder: a known name wins over one."""
    return name not in KNOWN and as_path(name).is_dir()


def check_outside(folder: str | os.PathLike, name: str | os.PathLike, what: str) -> None:
    """Raise unless a folder to write to is outside a folder of images, among which its pictures would be the next time.

    Args:
        folder: to write to; it need not exist.
        name: of the data set, as `load` takes it.
        what: what messages call the folder to write to.

    Raises:
        InvalidInputError: it is inside.
    """
    if is_folder(name) and as_path(folder).resolve().is_relative_to(as_path(name).resolve()):
        raise errors.InvalidInputError(
            f"{what} must be outside the folder of images, or what is drawn there is taken for some of them. "
            f"Received: {what}={os.fspath(folder)!r}, in {os.fspath(name)!r}"
        )


def class_folders(name: str | os.PathLike) -> list[str]:
    """Names of the folders in a folder that look like classes: it has no splits, and all images lie in two or more.

    Args:
        name: a folder of images; anything else has none.
    """
    if not is_folder(name):
        return []
    folder = ImageFolder(name)
    return folder.class_folders if folder.looks_sorted else []


def class_names(name: str | os.PathLike | ImageFolder | None, labels: np.ndarray) -> "list[str] | None":
    """What the classes that are among some labels show, in ascending order, as pictures name them.

    Args:
        name: of a known data set, or the path of a folder, whose folders are its classes, or that folder as it was
            listed; None of arrays, which have no names. What a report calls the data is no path: a folder of that name
            may be anyone's.
        labels: int (N,).

    Returns:
        list of str, or None where `name` is neither, has no names, or labels are beyond them.
    """
    if isinstance(name, ImageFolder):
        names = name.classes
    elif name is not None and is_folder(name):
        names = ImageFolder(name, "folders").classes
    else:
        names = KNOWN[name].class_names if name in KNOWN else ()
    present = np.unique(labels)
    fits = names and len(present) and 0 <= present[0] <= present[-1] < len(names)
    return [names[c] for c in present] if fits else None


def _root(data_dir):
    """The folder of the known sets."""
    return as_path(data_dir or os.environ.get("TFDS_DATA_DIR") or "~/tensorflow_datasets")


def _load_tfds(name, split, data_dir):
    chosen = data_dir or os.environ.get("TFDS_DATA_DIR") or None
    if chosen is not None and not as_path(chosen).is_dir():
        origin = "data_dir" if data_dir else "TFDS_DATA_DIR"
        raise errors.MissingDataError(
            f"Looked for {name!r} in the TFDS folder {as_path(chosen).absolute()}, which does not "
            "exist. Name the folder that holds it, or create this one to have TFDS download into it. "
            f"Received: {origin}={os.fspath(chosen)!r}"
        )
    try:
        tf = import_tensorflow()
        import tensorflow_datasets as tfds
    except ImportError as error:
        raise errors.MissingDataError(
            f"Reading {name!r} takes TensorFlow and TensorFlow Datasets (pip install tensorflow "
            "tensorflow-datasets importlib_resources), and "
            f"importing them failed ({error}). Where they are installed, write the set to a file with\n"
            f"    python -m sslzoo.data {name} -o {name}.npz\n"
            f"and put that file into {_root(data_dir)}: it is read without TensorFlow. Received: name={name!r}"
        ) from error

    root = _root(data_dir)
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
    done, show = 0, progress.line("read", after=5)
    try:
        for some_images, some_labels in dataset.as_numpy_iterator():
            if images is None:
                images = np.empty((rows, *some_images.shape[1:]), "uint8")
                labels = np.empty((rows, *some_labels.shape[1:]), "int64")
            images[done : done + len(some_images)] = some_images
            labels[done : done + len(some_labels)] = some_labels
            done += len(some_images)
            show(done, rows)
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
    tf = import_tensorflow()
    image = tf.image.resize_with_crop_or_pad(example["image"], CELEBA_CROP, CELEBA_CROP)
    image = tf.image.resize(image, (CELEBA_SIZE, CELEBA_SIZE), antialias=True)
    attributes = [tf.cast(example["attributes"][name], tf.int64) for name in CELEBA_ATTRIBUTES]
    return tf.cast(tf.round(image), tf.uint8), tf.stack(attributes)


def import_tensorflow():
    """TensorFlow, as a reader of data: under another backend it must leave the GPUs alone. Raises ImportError."""
    import tensorflow as tf

    if keras.config.backend() != "tensorflow":
        with contextlib.suppress(RuntimeError):  # too late: someone has used its devices already
            tf.config.set_visible_devices([], "GPU")
    return tf


def export(
    name: str | os.PathLike,
    path: str | os.PathLike,
    splits_to_write: Sequence[str] = (),
    data_dir: str | os.PathLike | None = None,
    image_size: int | None = None,
    on_error: str = "fail",
    remarks: list[str] | None = None,
) -> Path:
    """Write a data set to an `.npz` file, which `load` reads without TensorFlow.

    Args:
        name, data_dir, image_size, on_error, remarks: as for `load`.
        path: file to write, ending in `.npz`. It appears complete or not at all.
        splits_to_write: names of splits; all of them if empty.

    Returns:
        The path.

    Raises:
        UnknownNameError, MissingDataError, InvalidInputError: as `load`; a path that does not end in `.npz` or whose
            folder does not exist.
    """
    path = as_path(path)
    if path.suffix != ".npz" or not path.parent.is_dir():
        raise errors.InvalidInputError(
            f"Expected a file *.npz in a folder that exists. Received: path={os.fspath(path)!r}"
        )
    source = ImageFolder(name) if is_folder(name) else name
    known = splits(source)
    arrays, said = {}, []
    for split in [errors.choose("split", split, known) for split in splits_to_write] or known:
        images, labels = load(source, split, data_dir, image_size, on_error=on_error, remarks=said)
        arrays[f"{split}_images"] = images
        if labels is not None:
            arrays[f"{split}_labels"] = labels
    (remarks if remarks is not None else []).extend(dict.fromkeys(said))  # what holds for all splits is said once
    return write_beside(path, lambda file: np.savez_compressed(file, **arrays))
