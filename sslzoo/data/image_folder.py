"""A folder of images: its files, splits and classes, and how they become arrays."""

import contextlib
import functools
import hashlib
import importlib.util
import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from sslzoo import checks, progress
from sslzoo.data import streams, tiff
from sslzoo.data.image_files import IMAGE_SUFFIXES, Head, Remark, decode, fitted, ground, open_image, remarks_on
from sslzoo.errors import InvalidInputError, MissingDataError, UnknownNameError, choose, printable
from sslzoo.files import as_path

# Split -> what people call its folder, in any case; other names than the first need a folder of the split "train".
SPLITS = {
    "train": ("train", "training"),
    "validation": ("validation", "val", "valid", "dev"),
    "test": ("test", "testing"),
}
MOST_SIDE = 2**14  # of images that are resized
# What image_size="auto" does: a size that this share of the images has stays, unless its shorter side is longer than
# this, as a camera's is; else all are brought to squares of at most so many pixels.
USUAL = 0.9
USUAL_SIDE = 256
AUTO_SIDE = 64


def list_images(folder: Path) -> tuple[list[Path], Counter]:
    """Image files below a folder, however deep, sorted by path; and what else lies there, how often."""
    files, others = [], Counter()

    def unreadable(error):
        others["unreadable folder"] += 1

    for place, folders, names in os.walk(folder, onerror=unreadable):
        if not folders and not names and place != os.fspath(folder):
            others["empty folder"] += 1
        linked = [name for name in folders if os.path.islink(os.path.join(place, name))]
        others["linked folder"] += len(linked)  # it may lead back up
        hidden = [name for name in folders + names if name.startswith(".")]
        others["hidden"] += len(hidden)
        left_out = {*linked, *hidden}
        folders[:] = [name for name in folders if name not in left_out]
        for path in (Path(place, name) for name in names if not name.startswith(".")):
            suffix = path.suffix.lower()
            if suffix not in IMAGE_SUFFIXES:
                others[suffix or "without suffix"] += 1
            elif os.path.isfile(path):  # which, unlike Path.is_file, says no in a folder that nobody may enter
                files.append(path)
            else:
                others["no regular file"] += 1  # a pipe, a device, a link to nowhere
    return sorted(files, key=lambda path: path.parts), +others  # case counts, which paths of Windows sort without


def split_folders(root: Path) -> dict[str, str]:
    """The folders right in a folder that are its splits: split -> name of the folder.

    Raises:
        InvalidInputError: two of them are one split, "val" and "valid".
    """
    folders = sorted(next(os.walk(root), (root, [], []))[1])
    found = {split: [name for name in folders if name.lower() in names] for split, names in SPLITS.items()}
    if not found["train"]:
        found = {split: [name for name in names if name == split] for split, names in found.items()}
    for split, names in found.items():
        if len(names) > 1:
            raise InvalidInputError(
                f"A folder must have one folder for a split; two are {split!r}. "
                f"Received: {', '.join(map(printable, names))} in '{root}'"
            )
    return {split: names[0] for split, names in found.items() if names}


def passed_over(others: Counter) -> list[str]:
    """One remark on what is no image of a folder, or none."""
    if not others:
        return []
    kinds = [f"{count:,} {printable(kind)[:30]}" for kind, count in others.most_common(10)]
    more = [f"{len(others) - 10} other kinds"] * (len(others) > 10)
    plural = "entries of the folder were" if others.total() > 1 else "entry of the folder was"
    return [f"{others.total():,} {plural} passed over: {', '.join(kinds + more)}."]


def no_images(folder: Path, others: Counter) -> MissingDataError:
    """The error for a folder in which nothing but `others` was found."""
    rest = f" ({passed_over(others)[0]})" if others else ""
    return MissingDataError(
        f"Looked below {folder.absolute()} for images ({' '.join(sorted(IMAGE_SUFFIXES))}) and found none{rest}. "
        f"Received: '{folder}'"
    )


class ImageFolder:
    """A folder of images: its files, splits and classes, and how they become arrays.

    With sub-folders `train`, `validation` or `test` (or other names of `SPLITS`), these are the splits; without, every
    image below the folder is the split "train". With `labels="folders"` the folders in it (in its splits) are classes,
    numbered by their sorted names over all splits; folders with splits have them unasked where all images of a split
    lie in such folders.

    Example:
        import pathlib
        import tempfile

        from PIL import Image
        from sslzoo.data.image_folder import ImageFolder

        root = pathlib.Path(tempfile.mkdtemp())
        for name in ("cat", "dog"):
            (root / name).mkdir()
            Image.new("L", (8, 8)).save(root / name / "1.png")
        folder = ImageFolder(root, labels="folders")
        folder.classes, folder.select("train")[1]  # ["cat", "dog"], array([0, 1])

    Args:
        root: path of the folder.
        labels: "folders" or None.
        test_share: float in [0, 1), with labels="folders" and no splits: the share of each class that makes the split
            "test", at least one image of each, and never all. These are the same whenever it is read.
        background: str, the color that transparent images are laid on.

    Attributes:
        splits: tuple of str.
    """

    def __init__(self, root, labels=None, test_share=0.0, background="white"):
        self.root = as_path(root)
        self.labeled = labels is not None and bool(choose("labels", labels, ("folders",)))
        self.test_share = checks.number(0, 1, test_share=test_share)
        self.background = ground(background)
        self._own_splits = split_folders(self.root)
        if test_share and self._own_splits:
            self._listing  # noqa: B018 - whether they are splits at all
            raise InvalidInputError(
                "`test_share` is for a folder without splits of its own. "
                f"Received: {os.fspath(self.root)!r} with {', '.join(self._own_splits.values())}"
            )
        if test_share and (not self.labeled or test_share == 1):
            raise InvalidInputError(
                f"`test_share` must be less than 1, and needs labels='folders'. Received: {test_share=}, {labels=}"
            )
        self.splits = tuple(self._own_splits) or (("train", "test") if test_share else ("train",))

    # ------------------------------------------------------------------ which files

    @functools.cached_property
    def _listing(self):
        """Path relative to its split -> file, for each split; and what else lies in the folder."""
        files, others = list_images(self.root)
        if not self._own_splits:
            return {"train": {file.relative_to(self.root).parts: file for file in files}}, others
        splits, split_of = {split: {} for split in self._own_splits}, {n: s for s, n in self._own_splits.items()}
        beside = set()
        for file in files:
            first, *parts = file.relative_to(self.root).parts
            if first in split_of:
                splits[split_of[first]][tuple(parts)] = file
            else:
                others["beside the splits"] += 1
                beside |= {first} if parts else set()
        if beside and all(len(parts) == 1 for files in splits.values() for parts in files):
            named, some = ", ".join(map(printable, split_of)), ", ".join(map(printable, sorted(beside)[:5]))
            raise InvalidInputError(
                f"Folders are read as splits ({named}), and images lie in other folders beside them ({some}). If all "
                f"are classes, give those of splits other names; else put the others elsewhere. Received: '{self.root}'"
            )
        return splits, others

    @functools.cached_property
    def class_folders(self) -> list[str]:
        """Sorted names of the folders right below the folder, or its splits, that hold images."""
        return sorted({parts[0] for files in self._listing[0].values() for parts in files if len(parts) > 1})

    @property
    def classes(self) -> list[str] | None:
        """Names of the classes in the order of their labels; None without."""
        wanted = self.labeled or self._own_splits
        return self.class_folders if wanted and len(self.class_folders) > 1 else None

    @property
    def looks_sorted(self) -> bool:
        """Whether the folders of a folder without splits could be classes: all images lie in two or more of them."""
        loose = any(len(parts) < 2 for parts in self._listing[0].get("train", ()))
        return not self._own_splits and not loose and len(self.class_folders) > 1

    def select(self, split: str) -> tuple[list[Path], np.ndarray | None]:
        """Files of a split, sorted, and the class of each, int64 (N,), or None."""
        if split == "test" and split not in self.splits and self.looks_sorted:
            raise UnknownNameError(
                f"The folders in it look like classes ({', '.join(map(printable, self.class_folders[:5]))}): pass "
                "labels='folders', test_share=0.2 (in the shell --labels folders --test-share 0.2) to hold images of "
                f"each out. Received: split='test' of '{self.root}', which has none"
            )
        if split == "test" and split not in self.splits and not self._own_splits:
            raise UnknownNameError(
                "There are no test images: expected a folder test beside a folder train, or folders that are "
                f"classes, two or more. Received: split='test' of '{self.root}', a folder of images"
            )
        choose("split", split, self.splits)
        listed = self._listing[0]["train" if self.test_share else split]
        if not listed:
            raise no_images(self.root / self._own_splits.get(split, ""), self._listing[1])
        files, labels = list(listed.values()), self._labels(listed)
        if not self.test_share:
            return files, labels
        rows = np.flatnonzero(held_out(labels, self.test_share) == (split == "test"))
        if not len(rows):
            raise InvalidInputError(
                f"No image is left for the split {split!r}. Received: test_share={self.test_share}, {len(files)} images"
            )
        return [files[row] for row in rows], labels[rows]

    def _loose(self, listed):
        return [file for parts, file in listed.items() if len(parts) < 2]

    def _labels(self, listed):
        loose = self._loose(listed)
        if self.labeled and (loose or self.classes is None):
            raise InvalidInputError(
                "Where folders are classes, each image must lie in one of at least two folders, its class. "
                f"Received: {loose[0] if loose else self.root}"
            )
        if loose or self.classes is None:
            return None
        place = {name: number for number, name in enumerate(self.classes)}
        return np.array([place[parts[0]] for parts in listed], "int64")

    def remarks(self, split: str) -> list[str]:
        """What of the folder is not used, or not as one may think."""
        listed, said = self._listing[0]["train" if self.test_share else split], passed_over(self._listing[1])
        loose = len(self._loose(listed))
        if self._own_splits and self.classes and loose:
            said.append(
                f"No labels: {loose:,} of {len(listed):,} images of {split!r} lie beside the folders of classes."
            )
        if self.test_share:
            sizes = Counter(parts[0] for parts in listed)
            single = [printable(name) for name in self.classes if sizes[name] == 1]
            if single:
                count = f" ({len(single):,} in all)" * (len(single) > 5)
                said.append(f"Classes of one image, which stays in training: {checks.few(single)}{count}.")
        return said

    # ------------------------------------------------------------------ how they become arrays

    @functools.cached_property
    def is_deep(self) -> bool:
        """Whether all files are TIFF of more bits or other channels than a picture."""
        return are_deep([file for files in self._listing[0].values() for file in files.values()])

    @functools.cached_property
    def heads(self) -> dict:
        """File -> `Head`, or the exception that reading it ended in, for all splits: they share size and channels."""
        read = tiff.head if self.is_deep else Head.of_file

        def attempt(file):
            try:
                return read(file)
            except Exception as error:  # Pillow's decoders raise OSError, SyntaxError, ValueError, struct.error ...
                return error

        files = [file for files in self._listing[0].values() for file in files.values()]
        heads, show = {}, progress.line("looked at", after=5)
        with ThreadPoolExecutor(streams.threads()) as pool:  # opening a file of a network drive takes milliseconds
            for file, head in zip(files, pool.map(attempt, files)):
                heads[file] = head
                show(len(heads), len(files))
        return heads

    def pixels(self, file: Path, size: tuple[int, int] | None, channels: int) -> np.ndarray:
        """(H, W, channels) of a file, upright, cropped and resized to `size` (width, height) unless None."""
        if self.is_deep:
            return tiff.read(file, size)
        with open_image(file, size and max(size)) as image:
            return fitted(decode(image, self.background), size, channels)

    def load(
        self,
        split: str,
        image_size: "int | tuple[int, int] | str | None" = None,
        on_error: str = "fail",
        stream: "bool | str" = False,
        most: int | None = None,
        seed: int = 0,
    ) -> "tuple[np.ndarray | streams.StreamedImages, np.ndarray | None, list[str]]":
        """Images (N, H, W, C), labels (N,) or None, and remarks; arguments as in `sslzoo.data.load`.

        Of more images than `most`, so many are chosen by `seed`. Of the others no more is read than their sizes.
        """
        sides = image_size if isinstance(image_size, tuple) and len(image_size) == 2 else (image_size,)
        fits = all(checks.is_integer(side) and 1 <= side <= MOST_SIDE for side in sides)
        if image_size not in (None, "auto") and not fits:
            raise InvalidInputError(
                f"Expected a size in pixels, from 1 to {MOST_SIDE}, or a (height, width). Received: {image_size=}"
            )
        choose("on_error", on_error, ("fail", "skip"))
        files, labels = self.select(split)
        remarks = self.remarks(split)
        if most is not None and most < len(files):
            some = np.sort(np.random.default_rng(seed).permutation(len(files))[:most])
            files, labels = [files[row] for row in some], None if labels is None else labels[some]
        heads = [head for head in self.heads.values() if isinstance(head, Head)]
        bad = {file: self.heads[file] for file in files if not isinstance(self.heads[file], Head)}
        rows = [row for row, file in enumerate(files) if file not in bad]
        if rows:
            channels, dtype = 1 if all(head.is_gray for head in heads) else 3, "uint8"
            if self.is_deep:
                channels, dtype = self._common_mode(heads)
            size = self._size(image_size, heads, remarks)
            shape = *self._common_size([files[row] for row in rows], size)[::-1], channels
            reader = functools.partial(self.pixels, size=size, channels=channels)
            images = streams.StreamedImages([files[row] for row in rows], reader, shape, dtype)
            images, good = self._checked(images, self._streams(stream, images, remarks), bad)
            rows = [rows[row] for row in good]
        if bad and (on_error == "fail" or not rows):
            raise _unreadable(bad, len(files)) from next(iter(bad.values()))
        if bad:
            remarks.append(left_out(bad, len(files)))
        remarks += remarks_on([self.heads[files[row]] for row in rows])
        gray = sum(head.is_gray for head in heads)
        if channels == 3 and gray:
            remarks.append(f"{gray:,} of {len(heads):,} images are gray and were read as color, as the others are.")
        return images, None if labels is None else labels[rows], remarks

    def _common_mode(self, heads):
        """Channels and dtype of TIFF files, which must share them."""
        modes = sorted({head.mode for head in heads})
        if len(modes) > 1:
            received = ", ".join(f"{channels} x {dtype}" for channels, dtype in modes)
            raise InvalidInputError(f"Expected images of the same channels and dtype. Received: {received}")
        return modes[0]

    def _size(self, image_size, heads, remarks):
        """(width, height) that images are brought to; None for their own."""
        if image_size != "auto":
            return image_size if image_size is None else tuple(map(int, np.broadcast_to(image_size, 2)))[::-1]
        sizes = Counter(head.size for head in heads)
        (usual, count), shorter = sizes.most_common(1)[0], sorted(min(head.size) for head in heads)
        if count >= USUAL * len(heads) and min(usual) <= USUAL_SIDE:
            if count == len(heads):
                return None
            remarks.append(
                f"{len(heads) - count:,} of {len(heads):,} images were cropped and resized to the size of the others, "
                f"{usual[1]} x {usual[0]}; --image-size chooses another size."
            )
            return usual
        side = min(int(np.median(shorter)), AUTO_SIDE)
        spans = " to ".join(f"{each:,}" for each in sorted({shorter[0], shorter[-1]}))
        remarks.append(
            f"The images have shorter sides of {spans} pixels: each was cropped to its "
            f"centered square and resized to {side} x {side}; --image-size chooses another size."
        )
        return side, side

    def _common_size(self, files, size):
        """(width, height) of all files of a split, or an error that names the first of another size."""
        sizes = {file: size or self.heads[file].size for file in files}
        odd = next((file for file in files if sizes[file] != sizes[files[0]]), None)
        if odd is None:
            return sizes[files[0]]
        raise InvalidInputError(
            f"Expected one size; {odd} is {sizes[odd][1]} x {sizes[odd][0]} pixels (height x width), {files[0]} "
            f"{sizes[files[0]][1]} x {sizes[files[0]][0]}. Pass `image_size` (--image-size), such as "
            f"{int(np.median([min(size) for size in sizes.values()]))}, to crop each to its centered square and resize "
            "it. Received: image_size=None"
        )

    def _streams(self, stream, images, remarks):
        """Whether the images stay in their files."""
        if stream != "auto":
            return stream
        free = streams.available_memory()
        if images.nbytes <= free / 2:
            return False
        needed = f"The images would take {images.nbytes / 2**30:.3g} GiB in memory, of which {free / 2**30:.3g} GiB are"
        remarks.append(Remark(f"{needed} free: they stay in their files, and are read as they are needed.", public=""))
        return True

    def _checked(self, images, stay, bad):
        """Images that can be read, in memory unless they `stay` in their files, and their rows; adds to `bad`."""
        if not stay:
            check_room(images, self.root)
        array = None if stay else np.empty(images.shape, images.dtype)
        show, digest, good = progress.line("checked" if stay else "read", after=5), hashlib.sha256(), []
        for row, pixels in images.each(show):
            if not isinstance(pixels, Exception) and pixels.dtype.kind == "f" and not np.isfinite(pixels).all():
                pixels = InvalidInputError("It has values that are not finite")
            if isinstance(pixels, Exception):
                bad[images.files[row]] = pixels
                continue
            if stay:
                digest.update(np.ascontiguousarray(pixels))
            else:
                array[len(good)] = pixels
            good.append(row)
        if not stay:
            return array[: len(good)], good
        images = images.take(good)
        images.sha256 = digest.hexdigest()
        return images, good


def are_deep(files: list[Path]) -> bool:
    """Whether files are all TIFF, and the first that is not damaged has more bits or other channels than a picture."""
    if any(file.suffix.lower() not in tiff.SUFFIXES for file in files) or importlib.util.find_spec("tifffile") is None:
        return False
    for file in files:
        with contextlib.suppress(Exception):  # Pillow does not know it, or `check_image` refuses it
            open_image(file).close()
            return False
        with contextlib.suppress(Exception):  # a damaged one says nothing of the others
            tiff.head(file)
            return True
    return False


def left_out(bad: dict, total: int) -> Remark:
    """The remark on images that could not be read, file -> error, of so many."""
    said = f"{len(bad):,} of {total:,} images could not be read and were left out"
    return Remark(f"{said}: {_listed(bad)}.", public=f"{said}.")


def _listed(bad):
    reasons = [f"{file} ({' '.join(str(error).split())})" for file, error in sorted(bad.items())]
    return "; ".join(reasons[:10]) + (f"; and {len(reasons) - 10:,} more" if len(reasons) > 10 else "")


def _unreadable(bad, total):
    return InvalidInputError(
        f"{len(bad):,} of {total:,} images cannot be read; repair them, take them away, or leave them out with "
        f"on_error='skip' (in the shell --on-error skip). Received: {_listed(bad)}"
    )


def held_out(labels: np.ndarray, share: float, seed: int = 0) -> np.ndarray:
    """Which images of int labels (N,) are the test share of their class: bool (N,). One image alone is in training.

    All who hold out test images do it so, whatever the seed of what they train: what one has trained on, no other tests
    with. `seed` is for those who choose among train images.
    """
    chosen, random = np.zeros(len(labels), bool), np.random.default_rng(seed)
    _, sizes = np.unique(labels, return_counts=True)
    for of_class in np.split(np.argsort(labels, kind="stable"), np.cumsum(sizes)[:-1]):
        rows = random.permutation(of_class)
        chosen[rows[: min(max(1, round(share * len(rows))), len(rows) - 1)]] = True
    return chosen


def check_room(images, where):
    """Raise if `StreamedImages` would not fit the memory of this machine."""
    need, has = images.nbytes, streams.memory()
    if need > has:
        raise InvalidInputError(
            f"Expected images that fit the memory of this machine ({has / 2**30:.1f} GiB): make them smaller "
            f"(image_size), take fewer, or leave them in their files (stream=True, --stream). "
            f"Received: {len(images):,} images of shape {images.shape[1:]}, {need / 2**30:.1f} GiB, "
            f"in {os.fspath(where)!r}"
        )
