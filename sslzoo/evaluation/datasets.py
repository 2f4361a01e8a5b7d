"""From what `evaluate` is given as data to two splits of images and labels."""

import functools
import os

import numpy as np

from sslzoo import checks, data
from sslzoo.data import CELEBA_ATTRIBUTES, celeba_task
from sslzoo.data.labels import check_labels
from sslzoo.data.sources import is_folder, refuse_folder_options
from sslzoo.errors import InvalidInputError, choose
from sslzoo.files import is_named

CELEBA_TASKS = ("gender", "hair")
FOLDERS_OWN = ("labels", "test_share", "background")  # arguments of `ImageFolder`
TEST_SHARE = 0.2  # of the images of each class, where a set has no test images


def read(dataset, test, data_dir, shape, **reading):
    """Both splits of a data set.

    Args:
        dataset, test, data_dir: as in `evaluate`.
        shape: (H, W, C) that images of a name or path are made to fit; None for any.
        **reading: of a folder, as in `sslzoo.data.load`. A folder without splits whose images all lie in two or more
            folders has these for its classes, and a fifth of each for its test images, unless `test` is given.

    Returns:
        str, name; (train images, labels or None); (test images, labels or None); list of str, remarks.
    """
    remarks = []
    if reading.get("labels") is not None:
        choose("labels", reading["labels"], ("folders",))
    checks.fraction(test_share=reading.get("test_share", 0))
    if not is_named(dataset) and not is_named(test):
        refuse_folder_options(type(dataset).__name__, **reading)
    if test is None and is_named(dataset):
        reading |= _classes_and_share(dataset, reading, remarks)

    @functools.cache  # a folder is listed once: files that come between two splits would shift both
    def listed(folder):
        return data.ImageFolder(folder, **{name: reading[name] for name in FOLDERS_OWN if name in reading})

    def load(given, split):
        if not is_named(given):
            images, labels = given
            is_array = hasattr(images, "take") and not hasattr(images, "detach")  # of NumPy, or images in files
            return images if is_array else checks.array(images), labels
        sized = {"image_size": tuple(shape[:2])} if is_folder(given) and all(shape[:2]) else {}
        source = listed(given) if is_folder(given) else given
        if split == "test":
            split = data.test_split(source, remarks) or split
        # Of a folder larger than memory each protocol reads again what it needs.
        images, labels = data.load(source, split, data_dir=data_dir, stream="auto", remarks=remarks, **sized, **reading)
        images, done = data.fit_images(images, shape)
        remarks.extend(f"{split}: {what}." for what in done)
        return images, labels

    named, name, train, held_out = "a known name, the path of an .npz or of a folder, or", "arrays", dataset, test
    if is_named(dataset):
        name, held_out = data.name_of(dataset), dataset if test is None else test
    elif checks.is_pair(dataset) and all(map(checks.is_pair, dataset)):
        train, held_out = dataset[0], dataset[1] if test is None else test
    elif not checks.is_pair(dataset) or test is None:
        raise InvalidInputError(
            f"`dataset` must be {named} ((train_images, train_labels), (test_images, test_labels)). "
            f"Received: dataset of type {type(dataset).__name__}"
        )
    if not is_named(held_out) and not checks.is_pair(held_out):
        raise InvalidInputError(
            f"`test` must be {named} (images, labels). Received: test of type {type(test).__name__}"
        )
    name += f" (tested on {data.name_of(test)})" if is_named(test) else ""
    train, tested = load(train, "train"), load(held_out, "test")
    theirs, ours = (listed(each).classes if is_named(each) and is_folder(each) else None for each in (test, dataset))
    if theirs and ours and tested[1] is not None:
        tested = tested[0], _renumbered(tested[1], theirs, ours, test)
    return name, train, tested, list(dict.fromkeys(remarks))  # of a folder, what both splits have is said once


def _renumbered(labels, names, classes, test):
    """Labels of another folder, whose classes have their own numbers, by the numbers that the names have here."""
    if unknown := sorted(set(names) - set(classes)):
        raise InvalidInputError(
            f"Classes of `test` must be some of {checks.few(classes)}. Received: test={os.fspath(test)!r} with "
            f"{checks.few(unknown)}"
        )
    return np.array([classes.index(name) for name in names])[labels]


def _classes_and_share(dataset, reading, remarks):
    """`labels` and `test_share` of a folder without splits where they were not said; a remark says what was taken."""
    classes = data.class_folders(dataset)
    if not classes or (reading.get("labels") and reading.get("test_share")):
        return {}
    share = reading.get("test_share") or TEST_SHARE
    held_out = f"{share:.0%} of each class are test images (test_share)"
    remarks.append(f"There are no splits: the {len(classes)} folders are classes, and {held_out}.")
    return {"labels": "folders", "test_share": share}


def with_classes(images, labels, attribute, split):
    """One class for each image, of labels that are classes or attributes.

    Args:
        images: array (N, H, W, C).
        labels: int (N,), or (N, A) of 0 and 1.
        attribute: name (CelebA) or column of the attribute, or a task of `sslzoo.data.celeba_task`; None for labels
            that are classes, and "Male" of CelebA.
        split: "train" or "test", for messages.

    Returns:
        images; int64 (N,); labels (N, A) or None; and the attribute or task, or None. A task leaves out images that
        take no part in it.
    """
    labels = check_labels(labels, len(images), f"{split} labels", attributes=True)
    if labels.ndim == 1:
        if attribute is not None:
            raise InvalidInputError(
                f"attribute is for several labels an image, (N, A); these are classes. Received: {attribute=}"
            )
        return images, labels, None, None
    count = labels.shape[1]
    if attribute is None and count == len(CELEBA_ATTRIBUTES):
        attribute = "Male"
    if attribute in CELEBA_TASKS and count == len(CELEBA_ATTRIBUTES):
        rows, classes = celeba_task(labels, attribute)
        return images[rows], classes, labels[rows], attribute
    column = attribute
    if attribute is None:
        if np.isin(labels, (0, 1)).all() and (labels.sum(axis=1) == 1).all():
            check_labels(labels, len(images), f"{split} labels")  # says what to do with one-hot rows
        raise InvalidInputError(
            f"{split} labels must be one class an image, (N,); of several labels an image choose one, by the number of "
            f"its column (attribute, --attribute). Received: {split} labels of shape {labels.shape}"
        )
    if isinstance(attribute, str):
        if count != len(CELEBA_ATTRIBUTES):
            raise InvalidInputError(
                "Attributes of CelebA have names; other labels (N, A) need the number of a column as `attribute`. "
                f"Received: attribute={attribute!r}, labels of shape {labels.shape}"
            )
        column = CELEBA_ATTRIBUTES.index(choose("attribute", attribute, CELEBA_ATTRIBUTES))
    if not checks.is_integer(column) or not 0 <= column < count:
        raise InvalidInputError(f"`attribute` must lie in 0..{count - 1}. Received: attribute={attribute}")
    return images, labels[:, column], labels, attribute
