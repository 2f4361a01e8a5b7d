"""From the name of a data set to raw images: known sets, `.npz` files, folders.

    images, labels = sslzoo.data.load("mnist", "train")  # uint8 (60000, 28, 28, 1), int64 (60000,)

`load` takes one of three kinds of name:

* a known name, see `info`. `digits` comes with scikit-learn. The others are read by TensorFlow Datasets (TFDS) from
  `data_dir`, else from the folder in the environment variable `TFDS_DATA_DIR`, else from TFDS' default
  (`~/tensorflow_datasets`); what is not there, TFDS downloads. Without TensorFlow, sets that TFDS has prepared there
  are read all the same (`sslzoo.data.records`), but for celeb_a.
* the path of an `.npz` file. The arrays `<split>_images` and `<split>_labels`, or `x_<split>` and `y_<split>` as in
  Keras' own files (where (N, H, W) is grey), make the split `<split>`; plain `images` and `labels` make the split
  "train". Labels are optional.
* the path of a folder of images. With sub-folders `train`, `validation` or `test`, these are the splits, and where all
  images of a split lie in sub-folders of it (at least two), these are the classes, numbered by their sorted names.
  Without, every image below the folder, however deep, is the unlabelled split "train". Images are sorted by path, and
  read as grey if all of them are, else as colour; transparency is dropped.

A known name wins over a file of that name; write `./mnist` to mean the file.

TensorFlow is imported here and nowhere else in the package (`import_tensorflow`), only to read TFDS or to make a
`tf.data.Dataset`. Where it is missing, other sets travel as `.npz`: `python -m sslzoo.data celeb_a -o celeb_a.npz`
writes one.
"""

import contextlib
import functools
import math
import os
import pathlib
import re
from collections.abc import Sequence

import keras
import numpy as np

from sslzoo import checks, errors, progress
from sslzoo.data import records, streams
from sslzoo.data.catalogue import CELEBA_ATTRIBUTES, CELEBA_CROP, CELEBA_SIZE, KNOWN
from sslzoo.files import write_beside


def splits(name: str | os.PathLike) -> tuple[str, ...]:
    """Names of the splits that `load(name, split)` knows; reads no image.

    Args:
        name: a known name, the path of an `.npz` file, or of a folder of images, as for `load`.

    Raises:
        UnknownNameError, MissingDataError, InvalidInputError: as `load`.
    """
    kind = _kind(name)
    if kind == "known":
        return tuple(KNOWN[name].splits)
    if kind == "npz":
        with _open_npz(name) as arrays:
            return tuple(_npz_keys(arrays, name))
    return tuple(_folder_splits(pathlib.Path(name).expanduser()))


def load(
    name: str | os.PathLike,
    split: str,
    data_dir: str | os.PathLike | None = None,
    image_size: "int | str | None" = None,
    *,
    labels: str | None = None,
    test_share: float = 0.0,
    seed: int = 0,
    on_error: str = "fail",
    remarks: list[str] | None = None,
    stream: "bool | str" = False,
) -> "tuple[np.ndarray | streams.StreamedImages, np.ndarray | None]":
    """Read one split of a data set into memory.

        images, labels = sslzoo.data.load("photos/", "test", image_size=64, labels="folders", test_share=0.2)

    Args:
        name: a known name, or the path of an `.npz` file or of a folder of images, by the rules at the top of
            `sslzoo.data`.
        split: "train", "test", or another that `splits(name)` gives ("validation" of celeb_a, "extra" of svhn_cropped).
        data_dir: TFDS folder, which must exist; used for the known sets other than `digits`.
        image_size: pixels, for a folder of images only: each image is cropped to its largest centred square and
            resized to (image_size, image_size), bilinear and antialiased. None: all images must share one size. "auto":
            where they do not, the median of their shorter sides, at most 64.
        labels: "folders", for a folder of images without splits: the folders in it are classes, numbered by their
            sorted names. None: as at the top of `sslzoo.data`.
        test_share: float in [0, 1), with labels="folders": the share of each class that makes the split "test", at
            least one image of each, chosen by `seed`.
        seed: int, of that choice.
        on_error: "fail": images of a folder that cannot be read are an error that lists them; "skip": they are left
            out.
        remarks: list, to which sentences are added that say what was done: images left out, and sizes changed.
        stream: for a folder of images only. True leaves them in their files, to be read batch by batch; each is read
            once beforehand, to tell the bad ones. "auto" does so where they would take more than half of the memory
            that is free. Weights that are trained on them are the same.

    Returns:
        `(images, labels)`: images uint8 (N, H, W, C) in 0..255 with C = 1 or 3 (of an `.npz` that holds floats in
        0..255, float32; with `stream`, `StreamedImages`, which `Batches` and `pipeline` take, too); labels int64 (N,),
        of CelebA int64 (N, 40) in the order of `CELEBA_ATTRIBUTES`, or None for a set without labels. The i-th image is
        the same at every call.

    Raises:
        UnknownNameError: unknown data set or split.
        MissingDataError: the file, folder or data set is not there, and could not be had.
        InvalidInputError: an unreadable image or file; images of differing size; arrays of a wrong rank, dtype, number
            of channels or range.
    """
    checks.seed(needed=True, seed=seed)
    kind = _kind(name)
    if stream not in (False, True, "auto") or (stream is True and kind != "folder"):
        raise errors.InvalidInputError(
            f"`stream` (--stream) reads a folder of images as it trains: True, or 'auto', or False. "
            f"Received: stream={stream!r} of {os.fspath(name)!r}"
        )
    if kind != "folder" and image_size == "auto":
        image_size = None
    if kind != "folder" and (labels is not None or test_share or on_error != "fail"):
        errors.choose("on_error", on_error, ("fail", "skip"))
        if labels is not None or test_share:
            raise errors.InvalidInputError(
                f"`labels` and `test_share` are for a folder of images; {name!r} is not one. "
                f"Received: {labels=}, {test_share=}"
            )
    if image_size is not None and kind != "folder":
        raise errors.InvalidInputError(
            f"`image_size` resizes a folder of images; {name!r} is not one. Received: image_size={image_size!r}"
        )
    if kind == "npz":
        return _load_npz(name, split)
    if kind == "folder":
        return _Folder(name, image_size, labels, test_share, seed, on_error, stream).load(split, remarks)
    errors.choose("split", split, KNOWN[name].splits)
    return _load_digits(split) if name == "digits" else _load_tfds(name, split, data_dir)


def is_prepared(name: str, data_dir: "str | os.PathLike | None" = None) -> bool:
    """Whether `load` finds a known data set without downloading anything."""
    if errors.choose("dataset", name, KNOWN) == "digits":
        return True
    root = data_dir or os.environ.get("TFDS_DATA_DIR") or "~/tensorflow_datasets"
    return records.folder(name, pathlib.Path(root).expanduser()) is not None


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
    if not isinstance(images, streams.StreamedImages):  # which are what they should be
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
    if labels.dtype.kind == "u" and labels.size and labels.max() > np.iinfo("int64").max:
        raise errors.InvalidInputError(
            f"Labels must fit 64 bits with a sign, or they would become negative. Received: {labels.max()}"
        )
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
    return errors.choose("dataset", name, KNOWN)


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
            pixels = arrays[images]
            if images.startswith("x_") and pixels.ndim == 3 and pixels.shape[-1] not in (1, 3):  # Keras' own mnist.npz
                pixels = pixels[..., None]
            return check(pixels, None if labels is None else arrays[labels])
        except errors.InvalidInputError as error:
            raise errors.InvalidInputError(f"In {os.fspath(name)}, split {split!r}: {error}") from None


IMAGE_SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}
# What Pillow may take a file for, whatever its name says. It knows sixty formats, and hands PostScript to Ghostscript.
IMAGE_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
GREY_MODES = {"1", "L", "LA"}
DEEP_MODES = {"F", "I", "I;16", "I;16B", "I;16L", "I;16N"}
MOST_SIDE = 2**14  # of images that are resized
MOST_PIXELS = 2**27  # of one image: 134 million, 11,585 x 11,585


def image_files(root):
    """Image files below a folder, sorted, without hidden ones; nor are there pipes, devices, or folders among them."""

    def counts(path):
        return path.suffix.lower() in IMAGE_SUFFIXES and is_visible(path, root) and path.is_file()

    return sorted(filter(counts, root.rglob("*")))


def open_image(path):
    """A Pillow image of 8 bits a channel and a size that fits the memory, of which only the head is read.

    Raises:
        OSError, ValueError, or another error of Pillow's decoders: it is none.
    """
    from PIL import Image

    if not path.is_file():  # a pipe would wait for ever
        raise ValueError("this is no file")
    image = Image.open(path, formats=IMAGE_FORMATS)
    try:
        check_image(image)
    except errors.InvalidInputError:
        image.close()
        raise
    return image


def check_image(image):
    """Raise InvalidInputError if a Pillow image has more than 8 bits a channel, or too many pixels."""
    if image.mode in DEEP_MODES or _has_deep_colours(image):
        raise errors.InvalidInputError(
            "Expected images of 8 bits per channel; this one has more, and cutting it to 8 is not ours to choose. "
            f"Received: Pillow mode {image.mode!r}"
        )
    if image.width * image.height > MOST_PIXELS:
        raise errors.InvalidInputError(
            f"Expected an image of at most {MOST_PIXELS:,} pixels. Received: {image.height} x {image.width} pixels"
        )


def _has_deep_colours(image):
    """Whether the file has 16 bits a channel, which Pillow cuts to 8 without a word where there are several."""
    raw = image.tile[0][3] if getattr(image, "tile", None) else ""
    modes = [part for part in (raw if isinstance(raw, tuple) else (raw,)) if isinstance(part, str)]
    return any(";16" in mode for mode in modes) or (image.format == "PPM" and _deepest(image) > 255)


def _deepest(image):
    """The largest value that a PPM file says its samples have."""
    arguments = image.tile[0][3] if image.tile else ()
    return max((part for part in arguments if isinstance(part, int)), default=0) if isinstance(arguments, tuple) else 0


def check_room(count, shape, where):
    """Raise if so many images of a shape would not fit the memory of this machine."""
    need, has = count * math.prod(shape), memory()
    if need > has:
        raise errors.InvalidInputError(
            f"Expected images that fit the memory of this machine ({has / 2**30:.1f} GiB): make them smaller "
            f"(image_size), take fewer, or leave them in their files (stream=True, --stream). "
            f"Received: {count:,} images of shape {tuple(shape)}, {need / 2**30:.1f} GiB, in {os.fspath(where)!r}"
        )


def memory() -> float:
    """Bytes of this machine's memory; endless where it does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows
        return math.inf


def is_visible(path, root):
    return not any(part.startswith(".") for part in path.relative_to(root).parts)


def _folder_splits(root):
    return [split for split in ("train", "validation", "test") if (root / split).is_dir()] or ["train"]


def folder_labels(root, split, files):
    """Class of each file of a split folder, or None where the files are not sorted into at least two classes."""
    if not (root / split).is_dir() or any(len(file.relative_to(root / split).parts) < 2 for file in files):
        return None
    # Over all splits, so that a class has the same number in each of them.
    folders = [folder for name in _folder_splits(root) for folder in (root / name).iterdir() if folder.is_dir()]
    classes = sorted({folder.name for folder in folders if not folder.name.startswith(".")})
    if len(classes) < 2:
        return None
    return np.array([classes.index(file.relative_to(root / split).parts[0]) for file in files], "int64")


class _Folder:
    """A folder of images: its files, classes and splits, and how they become arrays."""

    def __init__(self, name, image_size, labels, test_share, seed, on_error, stream):
        self.root = pathlib.Path(name).expanduser()
        if image_size not in (None, "auto") and not (isinstance(image_size, int) and 1 <= image_size <= MOST_SIDE):
            raise errors.InvalidInputError(
                f"Expected a size in pixels, from 1 to {MOST_SIDE}. Received: image_size={image_size!r}"
            )
        self.image_size = image_size
        self.stream = stream
        self.labelled = labels is not None and bool(errors.choose("labels", labels, ("folders",)))
        self.test_share = checks.number(0, 1, test_share=test_share)
        self.seed = seed
        self.skips = errors.choose("on_error", on_error, ("fail", "skip")) == "skip"
        own = [split for split in ("train", "validation", "test") if (self.root / split).is_dir()]
        if (self.labelled or test_share) and own:
            raise errors.InvalidInputError(
                "`labels` and `test_share` are for a folder without splits of its own. "
                f"Received: {os.fspath(self.root)!r} with {', '.join(own)}"
            )
        if test_share and (not self.labelled or test_share == 1):
            raise errors.InvalidInputError(
                f"`test_share` must be less than 1, and needs labels='folders'. Received: {test_share=}, {labels=}"
            )

    def load(self, split, remarks):
        files, labels = self._files_of(split)
        remarks = [] if remarks is None else remarks
        heads, bad = self._heads(files)
        sizes, modes = {size for size, _ in heads.values()}, {mode for _, mode in heads.values()}
        mode = "L" if modes <= GREY_MODES else "RGB"  # one colour image makes the whole set a colour set
        side = self.image_size
        if side == "auto":
            side = self._default_size(sizes, remarks)
        reader = functools.partial(_read_image, mode=mode, side=side)
        images, shape = None, self._first_shape(heads, reader, bad)
        if shape is None:
            images, kept, odd = np.empty(0), [], None
        elif self._streams(len(heads), shape, remarks):
            readable = [index for index, file in enumerate(files) if file in heads]
            found = streams.StreamedImages([files[index] for index in readable], reader, shape)
            images, rows, odd = streams.verified(found, bad)
            kept = [readable[row] for row in rows]
        else:
            check_room(len(files), shape, self.root)
            images, kept, odd = self._in_memory(files, heads, reader, shape, bad)
        self._report(bad, len(files), kept, remarks)
        if odd is not None:
            file = odd[0]
            raise errors.InvalidInputError(
                f"Expected one size; {file} is {odd[1][0]} x {odd[1][1]} pixels (height x width), {files[kept[0]]} "
                f"{shape[0]} x {shape[1]}. Pass `image_size` (--image-size), such as "
                f"{_median_side(sizes)}, to crop each to its centred square and resize it. "
                f"Received: image_size={self.image_size}"
            )
        return images, None if labels is None else labels[kept]

    def _first_shape(self, heads, reader, bad):
        """Shape of the first image that can be read, or None."""
        for file in heads:
            try:
                return reader(file).shape
            except Exception as error:  # as in `_heads`
                bad[file] = error
        return None

    def _streams(self, count, shape, remarks):
        """Whether the images stay in their files."""
        need, has = count * math.prod(shape), streams.available_memory(memory())
        if self.stream == "auto" and need > has / 2:
            remarks.append(
                f"The images would take {need / 2**30:.3g} GiB in memory, of which {has / 2**30:.3g} GiB are free: "
                "they are read from their files while it trains (--stream)."
            )
            return True
        return self.stream is True

    def _in_memory(self, files, heads, reader, shape, bad):
        """Images (N, H, W, C), which of the files they are, and (file, shape) of one that is of another size."""
        images, kept, odd = np.empty((len(files), *shape), "uint8"), [], None
        show = progress.line("read", after=5)
        for index, file in enumerate(files):
            show(index + 1, len(files))
            if file not in heads:
                continue
            try:
                pixels = reader(file)
            except Exception as error:  # as in `_heads`
                bad[file] = error
                continue
            if pixels.shape != shape:
                odd = odd or (file, pixels.shape)
                continue
            images[len(kept)] = pixels
            kept.append(index)
        return images[: len(kept)], kept, odd

    def _files_of(self, split):
        """Files of a split, sorted, and the class of each, or None."""
        if not self.labelled:
            errors.choose("split", split, _folder_splits(self.root))
            base = self.root / split if (self.root / split).is_dir() else self.root
            files = self._found(base)
            return files, folder_labels(self.root, split, files)
        errors.choose("split", split, ("train", "test") if self.test_share else ("train",))
        files = self._found(self.root)
        names = [file.relative_to(self.root).parts for file in files]
        loose = next((file for file, parts in zip(files, names) if len(parts) < 2), None)
        classes = sorted({parts[0] for parts in names})
        if loose is not None or len(classes) < 2:
            raise errors.InvalidInputError(
                "labels='folders' needs each image in one of at least two folders, its class. "
                f"Received: {loose or self.root}"
            )
        labels = np.array([classes.index(parts[0]) for parts in names], "int64")
        held_out = np.zeros(len(files), bool)
        order = np.random.default_rng(self.seed).permutation(len(files))
        for label in range(len(classes)) if self.test_share else ():
            rows = order[labels[order] == label]
            held_out[rows[: max(1, round(self.test_share * len(rows)))]] = True
        chosen = np.flatnonzero(held_out == (split == "test"))
        if not len(chosen):
            raise errors.InvalidInputError(
                f"No image is left for the split {split!r}. Received: test_share={self.test_share}, {len(files)} images"
            )
        return [files[row] for row in chosen], labels[chosen]

    def _found(self, base):
        files = image_files(base)
        if not files:
            raise errors.MissingDataError(
                f"Looked below {base.absolute()} for images ({' '.join(sorted(IMAGE_SUFFIXES))}) and found none. "
                f"Received: name={os.fspath(self.root)!r}"
            )
        return files

    def _heads(self, files):
        """file -> (size, mode) of those that have a head, and file -> what is wrong with the others."""
        heads, bad = {}, {}
        for file in files:
            try:
                with open_image(file) as image:
                    heads[file] = image.size, image.mode
            except Exception as error:  # Pillow's decoders raise OSError, SyntaxError, ValueError, struct.error ...
                bad[file] = error
        return heads, bad

    def _default_size(self, sizes, remarks):
        """None where all images of the folder, of every split, have one size."""
        heads, _ = self._heads(image_files(self.root))
        sizes = {size for size, _ in heads.values()}
        if len(sizes) < 2:
            return None
        side = min(_median_side([size for size, _ in heads.values()]), 64)
        shorter = [min(size) for size in sizes]
        remarks.append(
            f"The images differ in size (shorter sides of {min(shorter)} to {max(shorter)} pixels): each was cropped "
            f"to its centred square and resized to {side} x {side}; --image-size chooses another size."
        )
        return side

    def _report(self, bad, total, kept, remarks):
        """Raise for images that cannot be read, all at once, or say that they were left out."""
        if not bad:
            return
        told = [f"{file} ({' '.join(str(error).split())})" for file, error in sorted(bad.items())]
        listed = "; ".join(told[:10]) + (f"; and {len(told) - 10:,} more" if len(told) > 10 else "")
        if not self.skips or not kept:
            raise errors.InvalidInputError(
                f"{len(bad):,} of {total:,} images cannot be read; repair them, take them away, or leave them out with "
                f"on_error='skip' (in the shell --on-error skip). Received: {listed}"
            ) from next(iter(bad.values()))
        remarks.append(f"{len(bad):,} of {total:,} images could not be read and were left out: {listed}.")


def _read_image(file, mode, side):
    """Pixels (H, W, C) of an image file, upright, in a Pillow mode; cropped to its square of `side` unless None."""
    from PIL import Image, ImageOps

    with open_image(file) as image:
        image = ImageOps.exif_transpose(image).convert(mode)
        if side is not None:
            image = ImageOps.fit(image, (side, side), method=Image.Resampling.BILINEAR)
        return np.asarray(image).reshape(image.height, image.width, len(mode))


def _median_side(sizes):
    return int(np.median([min(size) for size in sizes]))


def class_folders(name: str | os.PathLike) -> list[str]:
    """Names of the folders in a folder that look like classes: it has no splits, and all images lie in two or more.

    Args:
        name: a folder of images; anything else has none.
    """
    root = pathlib.Path(name).expanduser()
    if name in KNOWN or not root.is_dir() or any((root / split).is_dir() for split in ("train", "validation", "test")):
        return []
    tops = [file.relative_to(root).parts for file in image_files(root)]
    found = sorted({parts[0] for parts in tops})
    return found if len(found) > 1 and all(len(parts) > 1 for parts in tops) else []


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
        tf = import_tensorflow()
        import tensorflow_datasets as tfds
    except ImportError as error:
        root = pathlib.Path(chosen or "~/tensorflow_datasets").expanduser()
        prepared = records.folder(name, root)
        if prepared and name != "celeb_a":  # whose crops are TensorFlow's
            return check(*records.read(prepared, split))
        raise errors.MissingDataError(
            f"Looked for a prepared {name!r} in {root.absolute()}, and it is not there; preparing it takes TensorFlow "
            f"and TensorFlow Datasets (pip install 'sslzoo[tensorflow]'), and importing them failed ({error}). Where "
            f"they are installed, write the set to a file with\n"
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
) -> pathlib.Path:
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
    path = pathlib.Path(path).expanduser()
    if path.suffix != ".npz" or not path.parent.is_dir():
        raise errors.InvalidInputError(
            f"Expected a file *.npz in a folder that exists. Received: path={os.fspath(path)!r}"
        )
    known = splits(name)
    arrays = {}
    for split in [errors.choose("split", split, known) for split in splits_to_write] or known:
        images, labels = load(name, split, data_dir, image_size, on_error=on_error, remarks=remarks)
        arrays[f"{split}_images"] = images
        if labels is not None:
            arrays[f"{split}_labels"] = labels
    return write_beside(path, lambda file: np.savez_compressed(file, **arrays))
