"""Labeled images for a classifier: both splits of a data set, its classes, and which images are drawn or held out."""

import dataclasses
import os

import keras
import numpy as np

from sslzoo import checks, data
from sslzoo.data import streams
from sslzoo.data.image_folder import held_out, split_folders
from sslzoo.data.sources import is_folder, refuse_folder_options
from sslzoo.errors import InvalidInputError
from sslzoo.evaluation.datasets import TEST_SHARE, with_classes
from sslzoo.evaluation.protocols.linear import UNEQUAL
from sslzoo.files import as_path, is_named
from sslzoo.zoo.results import TEXT, is_text


@dataclasses.dataclass
class Labeled:
    """Images of both splits and their classes.

    Attributes:
        name: str, of the data set.
        train_images, test_images: arrays (N, H, W, C), or `data.StreamedImages`.
        train_labels, test_labels: int64 (N,), places in `classes`; below 0 of test images of other classes, another
            number for each class.
        classes: list of str, names of the classes of train images.
        remarks: list of str, what was done to images and labels.
    """

    name: str
    train_images: "np.ndarray | data.StreamedImages"
    train_labels: np.ndarray
    test_images: "np.ndarray | data.StreamedImages"
    test_labels: np.ndarray
    classes: list[str]
    remarks: list[str]


def read(
    dataset,
    shape: tuple,
    *,
    image_size: "int | str | None" = None,
    test_share: float = 0.0,
    data_dir=None,
    attribute: "str | int | None" = None,
    on_error: str = "fail",
    background: str = "white",
    stream: "bool | str" = False,
) -> Labeled:
    """Reads a labeled data set, made to fit an encoder.

    Args:
        dataset: known name, path of an `.npz` or folder, (images, labels), or a pair of such pairs.
        shape: (H, W, C) of the encoder's images; None for any.
        image_size: of a folder, where the encoder takes any.
        test_share: share of each class that is held out as test images where the set has none; 0 stands for a fifth.
        data_dir, attribute, on_error, background: as in `sslzoo.evaluate`.
        stream: as in `sslzoo.data.load`.

    Raises:
        InvalidInputError: no labels, one class, or test images beside a `test_share`.
    """
    remarks = []
    options = {
        "data_dir": data_dir,
        "on_error": on_error,
        "background": background,
        "stream": stream,
        "remarks": remarks,
    }
    share = test_share or TEST_SHARE
    name, (images, labels), test, names, held = _splits(dataset, shape, image_size, share, options)
    if labels is None:
        raise InvalidInputError(f"Fine-tuning needs the class of each image. Received: {name} without labels")
    images, labels, _, chosen = with_classes(images, labels, attribute, "train")
    if test is None:
        remarks.append(_held_out(share))
        check_counts(labels, names)
        tested = split_off(labels, share, names=names)
        test = streams.some(images, tested), labels[tested]
        images, labels = streams.some(images, ~tested), labels[~tested]
    else:
        if test_share and not held:
            raise InvalidInputError(f"test_share is for a set without test images. Received: {test_share=}, {name}")
        test = with_classes(*test, attribute, "test")[:2]
    present = np.unique(labels)
    if len(present) < 2:
        raise InvalidInputError(f"A classifier needs at least 2 classes. Received: {len(present)} class in {name}")
    known = data.class_names(dataset if is_named(dataset) else None, labels) if chosen is None else None
    classes = [names[label] for label in present] if names else known or [str(label) for label in present]
    if not all(map(is_text, classes)):
        shown = checks.few([repr(name) for name in classes if not is_text(name)])
        raise InvalidInputError(f"A class must have a name, {TEXT}. Received: {shown}")
    if not is_named(dataset):  # arrays are taken as they are
        shape = (None, None, None)
    (images, done), (test_images, _) = (data.fit_images(each, shape) for each in (images, test[0]))
    test_labels = _places(test[1], present)
    if missed := int((test_labels < 0).sum()):
        remarks.append(f"{missed:,} test images are of classes without train images, and count as missed.")
    remarks = list(dict.fromkeys([*remarks, *done]))  # of a folder, what both splits have is said once
    return Labeled(name, images, _places(labels, present), test_images, test_labels, classes, remarks)


def _splits(dataset, shape, image_size, test_share, options):
    """Name; (images, labels) of training; those of test, or None; names of all classes, or None; and whether test
    images were held out of a folder that has none of its own."""
    if not (is_named(dataset) and is_folder(dataset)):
        given = repr(os.fspath(dataset)) if is_named(dataset) else type(dataset).__name__
        own = {option: options[option] for option in ("on_error", "background", "stream")}
        refuse_folder_options(given, image_size=image_size, **own)
    if not is_named(dataset):
        return "arrays", *_pairs(dataset), False
    source, names, reading, held = dataset, None, options, False
    if is_folder(dataset):
        held = not split_folders(as_path(dataset))
        # Listed once for both splits: files that come meanwhile would move others between them.
        source = data.ImageFolder(dataset, "folders", test_share * held, options["background"])
        _, listed = source.select("train")  # which says what is wrong with its classes before any image is read
        size = tuple(shape[:2]) if all(shape[:2]) else image_size or "auto"
        reading = options | {"image_size": size}
        if held:  # before any is left out: who else holds out images of it holds out these
            check_counts(np.concatenate([listed, source.select("test")[1]]), source.classes)
            options["remarks"].append(_held_out(test_share))
        names = source.classes

    def load(split):
        return data.load(source, split, **reading)

    tested = data.test_split(source, options["remarks"])
    return data.name_of(dataset), load("train"), load(tested) if tested else None, names, held


def _held_out(share):
    return f"There are no test images: {share:.0%} of each class were held out as such."


def _pairs(dataset):
    """(images, labels) of training; of test, or None; and names of the classes, or None."""
    if not checks.is_pair(dataset):
        raise InvalidInputError(
            "dataset must be a known name, the path of an .npz or of a folder, (images, labels), or "
            f"((train_images, train_labels), (test_images, test_labels)). Received: {type(dataset).__name__}"
        )
    splits = dataset if all(map(checks.is_pair, dataset)) else [dataset]
    labels, names = [labels for _, labels in splits], None
    if all(map(_are_names, labels)):
        names, places = np.unique(np.concatenate([np.asarray(each, str) for each in labels]), return_inverse=True)
        labels = np.split(places, np.cumsum([len(each) for each in labels])[:-1])
    checked = [data.check(images, each) for (images, _), each in zip(splits, labels)]
    return checked[0], checked[1] if len(checked) > 1 else None, None if names is None else names.tolist()


def _are_names(labels):
    """Whether labels are strings: an array of them, or of Python's, as columns of tables are."""
    array = np.asarray(labels)
    return array.dtype.kind == "U" or (array.dtype == object and all(isinstance(each, str) for each in array.flat))


def _places(labels, present):
    """Place of each label among the sorted `present`; of others below 0, each class its own."""
    places = np.minimum(np.searchsorted(present, labels), len(present) - 1)
    others = np.setdiff1d(labels, present)
    return np.where(present[places] == labels, places, -1 - np.searchsorted(others, labels))


class Weighed(keras.utils.PyDataset):
    """Images, labels and the weight of each in batches, as `fit` takes them to validate on: images may be streamed."""

    def __init__(self, images, labels: np.ndarray, weights: np.ndarray, batch_size: int = 32):
        super().__init__()
        self.arrays, self.batch_size = (images, labels, weights), batch_size

    def __len__(self) -> int:
        return -(-len(self.arrays[1]) // self.batch_size)

    def __getitem__(self, position: int) -> tuple:
        rows = slice(position * self.batch_size, (position + 1) * self.batch_size)
        return tuple(array[rows] for array in self.arrays)


def split_off(labels: np.ndarray, share: float, seed: int = 0, names: "list[str] | None" = None) -> np.ndarray:
    """Which images are held out: bool (N,), that share of each class, at least one image of it, and never all.

    Raises:
        InvalidInputError: classes of one image, by their `names` (one for each label) where given.
    """
    present, counts = np.unique(labels, return_counts=True)
    if single := [names[label] if names else str(label) for label in present[counts < 2]]:
        raise InvalidInputError(
            "Each class needs at least 2 images, one to learn from and one held out. "
            f"Received: classes of 1 image: {checks.few(single)}"
        )
    return held_out(labels, share, seed)


def check_counts(labels: np.ndarray, names: "list[str] | None" = None) -> None:
    """Raise InvalidInputError unless each class has an image to learn from, one held out to choose by, one to test."""
    present, counts = np.unique(labels, return_counts=True)
    if few := [f"{count} of {names[label] if names else label}" for label, count in zip(present, counts) if count < 3]:
        raise InvalidInputError(
            "Each class needs at least 3 images: one to learn from, one held out to choose by and one to test with, "
            f"where there are no test images. Received: {checks.few(few)}"
        )


def draw(labels: np.ndarray, each: int, classes: list[str], seed: int) -> np.ndarray:
    """Rows of `each` images of every class, chosen at random: int64, sorted.

    Raises:
        InvalidInputError: a class has fewer.
    """
    counts = np.bincount(labels, minlength=len(classes))
    if each > counts.min():
        raise InvalidInputError(
            "labels must be at most the number of training images of each class, without those held out. "
            f"Received: labels={each}, {counts.min()} of class {classes[counts.argmin()]!r}"
        )
    random = np.random.default_rng(seed)
    rows = [random.permutation(np.flatnonzero(labels == label))[:each] for label in range(len(classes))]
    return np.sort(np.concatenate(rows))


def class_weights(labels: np.ndarray) -> "dict[int, float] | None":
    """Class -> weight that makes all count the same, of mean 1 over images; None where their sizes are much alike."""
    counts = np.bincount(labels)
    if counts.max() < UNEQUAL * counts.min():
        return None
    return {label: len(labels) / (len(counts) * count) for label, count in enumerate(counts.tolist())}
