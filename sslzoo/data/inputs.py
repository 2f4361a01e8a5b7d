"""A user's images, as given to embed: arrays, files, folders and data sets."""

import contextlib
import functools
import os
from collections import Counter, deque
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from sslzoo import checks
from sslzoo.data import image_files, image_folder, sources, streams, tiff
from sslzoo.errors import InvalidInputError, MissingDataError, choose
from sslzoo.files import as_path, is_named


class Arrays:
    """Images that are in memory."""

    def __init__(self, images, labels=None):
        self.images, self.labels, self.classes = images, labels, None

    def __len__(self):
        return len(self.images)

    def name(self, index):
        return str(index)

    def read(self, index, side=None):
        return self.images[index]

    def each(self, rows, side):
        """For each of some images in order a function that gives it, or raises why it cannot be read.

        Args:
            rows: their numbers.
            side: pixels that the larger side of images will have, or None.
        """
        return (functools.partial(self.read, row) for row in rows)

    def identify(self, rows):
        return {"index": np.array(rows, "int64")}

    def remarks(self):
        """What was not used, or changed in reading, once all is read; and images that are far too dark."""
        dark = checks.values(self.images, strict=False)
        return [dark] if dark else []


class Pictures(Arrays):
    """Pillow images."""

    received = "images[{}]"

    def __init__(self, images, background, labels=None, classes=None, unused=()):
        super().__init__(images, labels)
        self.background, self.classes = image_files.ground(background), classes
        self.unused, self.heads = list(unused), []

    def read(self, index, side=None):
        try:
            with self._open(index, side) as image:
                head = image_files.Head.of(image)
                pixels = image_files.decode(image, self.background)
        except Exception as error:  # Pillow's decoders raise OSError, SyntaxError, ValueError, struct.error ...
            skip = ", take it away, or leave it out (on_error='skip'; in the shell --on-error skip)"
            raise InvalidInputError(
                f"This image cannot be read ({error}). Repair it{skip if len(self) > 1 else ''}. "
                f"Received: {self.received.format(self.name(index))}"
            ) from error
        self.heads.append(head)
        return pixels

    def _open(self, index, side):
        return contextlib.nullcontext(self.images[index])

    def remarks(self):
        return self.unused + image_files.remarks_on(self.heads)


class Files(Pictures):
    """Image files."""

    received = "'{}'"

    def name(self, index):
        return str(self.images[index])

    def each(self, rows, side):
        """They are read in several threads, a few ahead."""
        threads = streams.threads()
        pool, waiting = ThreadPoolExecutor(threads, "sslzoo-images"), deque()
        try:
            for row in rows:
                waiting.append(pool.submit(self.read, row, side))
                if len(waiting) > threads:
                    yield waiting.popleft().result
            yield from (future.result for future in waiting)
        finally:
            pool.shutdown(cancel_futures=True)

    def _open(self, index, side):
        return image_files.open_image(self.images[index], side)

    def identify(self, rows):
        return {"paths": np.array([str(self.images[row]) for row in rows])}


class DeepFiles(Files):
    """TIFF files of more bits or channels than a picture."""

    def read(self, index, side=None):
        try:
            values = tiff.read(self.images[index])
            if not np.isfinite(values).all():
                raise ValueError("its values are not finite")
            return values
        except Exception as error:  # of a damaged file
            raise InvalidInputError(f"This image cannot be read ({error}). Received: '{self.images[index]}'") from error


def source_of(
    images, split: str | None = None, labels: str | None = None, background: str = "white", skip: bool = False
) -> "Arrays | Pictures":
    """Where a user's images come from.

    Args:
        images: array (N, H, W, C), uint8 or floats in 0..255; a list of Pillow images; a folder, an image file or an
            `.npz` with `images`; or a list (array, iterator) of folders and image files.
        split: of a folder or `.npz` that has several.
        labels: "folders", for one folder: the folders in it are classes.
        background: color that transparent images are laid on.
        skip: whether files of a list that are gone may be found so when they are read.

    Raises:
        InvalidInputError: anything else, or a split that is missing or has no meaning.
        MissingDataError: no such path, or a folder without images.
    """
    is_array = hasattr(images, "shape")
    if getattr(images, "ndim", None) == 1 or (isinstance(images, Iterable) and not is_array and not is_named(images)):
        images = list(images)  # of paths, as `Embedding.paths`, a column of a table or Path.glob give them
    listed = isinstance(images, list)
    inputs = list(images) if listed else [images]
    if not inputs:
        raise InvalidInputError(f"images must be at least one. Received: images={images!r}")
    if all(map(is_named, inputs)):
        if not all(map(os.fspath, inputs)):
            raise InvalidInputError(f"Expected the path of a folder or file. Received: images={images!r}")
        return _files_of([as_path(path) for path in inputs], split, labels, background, skip)
    if any(map(is_named, inputs)):
        raise InvalidInputError(f"images must be all files, or all in memory. Received: images={images!r:.200}")
    if listed and all(hasattr(image, "getbands") for image in inputs):
        refuse_of_files(split, labels)
        return Pictures(inputs, background)
    refuse_of_files(split, labels, background, skip)
    return Arrays(*sources.check(inputs if listed else images))


def refuse_of_files(split=None, labels=None, background: str = "white", skip: bool = False):
    """Raise `InvalidInputError` for an option that images in memory have no use for: they are one split without
    folders, none of an array is transparent, and none is unreadable."""
    if split is not None:
        raise InvalidInputError(f"Only one folder or one .npz has splits. Received: split={split!r}")
    if labels is not None:
        raise InvalidInputError(f"Only one folder has folders that are classes. Received: labels={labels!r}")
    if background != "white":
        raise InvalidInputError(f"background is for image files and Pillow images. Received: background={background!r}")
    if skip:
        raise InvalidInputError("on_error is for image files and Pillow images. Received: on_error='skip'")


def _files_of(inputs, split, labels, background, skip):
    first, alone = inputs[0], len(inputs) == 1
    for path in inputs:
        if path.suffix == ".npy":
            raise InvalidInputError(
                "An array file is an .npz with the array `images`: np.savez(name, images=np.load(path)). "
                f"Received: '{path}'"
            )
        if path.suffix == ".npz" and not alone:
            raise InvalidInputError(f"An .npz comes alone. Received: {', '.join(map(str, inputs))}")
    if alone and first.is_dir():
        folder = image_folder.ImageFolder(first, labels, background=background)
        split = _choose_split(first, split, folder.splits)
        files, classes = folder.select(split)
        named = None if classes is None else folder.classes
        kind = DeepFiles if folder.is_deep else Files
        return kind(files, background, classes, named, folder.remarks(split))
    if first.suffix == ".npz":
        refuse_of_files(None, labels, background, skip)
        return Arrays(*sources.load(first, _choose_split(first, split, sources.splits(first))))
    refuse_of_files(split, labels)
    files, others = [], Counter()
    for path in inputs:
        if path.is_dir():
            below, rest = image_folder.list_images(path)
            if not below:
                raise image_folder.no_images(path, rest)
            files += below
            others += rest
        elif path.is_file() or (skip and not alone):
            files.append(path)
        else:
            raise MissingDataError(f"There is no such folder or file. Received: '{path}'")
    return files_of(files, background, unused=image_folder.passed_over(others))


def files_of(files: list, background: str, **more) -> "Files":
    """A source of image files (paths), as pictures or of all their channels."""
    return (DeepFiles if image_folder.are_deep(files) else Files)(files, background, **more)


def _choose_split(path, split, known):
    if split is None and len(known) > 1:
        raise InvalidInputError(
            f"There are several splits: pass split (--split), one of {', '.join(known)}. Received: '{path}'"
        )
    return known[0] if split is None else choose("split", split, known)
