"""A user's images, as given to embed: arrays, files, folders and data sets, fitted to an encoder."""

import os
from collections import Counter
from pathlib import Path

from sslzoo.data import sources
from sslzoo.errors import InvalidInputError, MissingDataError, choose


class Arrays:
    """Images that are in memory."""

    def __init__(self, images, labels=None):
        self.images, self.labels, self.classes = images, labels, None

    def __len__(self):
        return len(self.images)

    def name(self, index):
        return str(index)

    def read(self, index):
        return self.images[index]

    def identify(self, rows):
        import numpy as np

        return {"index": np.array(rows, "int64")}


class Pictures(Arrays):
    """Pillow images."""

    def read(self, index):
        try:
            return _upright(self.images[index])
        except Exception as error:  # Pillow's decoders raise OSError, SyntaxError, ValueError, struct.error ...
            raise InvalidInputError(
                f"This image cannot be read ({error}). Take it away, or leave it out with on_error='skip'. "
                f"Received: images[{index}]"
            ) from error


class Files:
    """Image files."""

    def __init__(self, paths, labels=None, classes=None):
        self.paths, self.labels, self.classes = paths, labels, classes

    def __len__(self):
        return len(self.paths)

    def name(self, index):
        return str(self.paths[index])

    def read(self, index):
        try:
            with sources.open_image(self.paths[index]) as image:
                return _upright(image)
        except Exception as error:  # as above
            raise InvalidInputError(
                f"This image cannot be read ({error}). Repair it, take it away, or leave it out (on_error='skip'; in "
                f"the shell --on-error skip). Received: '{self.paths[index]}'"
            ) from error

    def identify(self, rows):
        import numpy as np

        return {"paths": np.array([str(self.paths[row]) for row in rows])}


def _upright(image):
    from PIL import ImageOps

    sources.check_image(image)
    image.load()
    return ImageOps.exif_transpose(image)


def source_of(images, split: str | None = None) -> "Arrays | Files":
    """Where a user's images come from.

    Args:
        images: array (N, H, W, C), uint8 or floats in 0..255; a list of Pillow images; a folder, an image file or an
            `.npz` with `images`; or a list of folders and image files.
        split: of a folder or `.npz` that has several.

    Raises:
        InvalidInputError: anything else, or a split that is missing or has no meaning.
        MissingDataError: no such path, or a folder without images.
    """
    listed = isinstance(images, (list, tuple))
    if not listed and not _is_path(images):
        _refuse_split(split)
        return Arrays(*sources.check(images))
    inputs = list(images) if listed else [images]
    if not inputs:
        raise InvalidInputError(f"images must be at least one. Received: images={images!r}")
    if not all(map(_is_path, inputs)):
        _refuse_split(split)
        pictures = all(hasattr(image, "getbands") for image in inputs)
        return Pictures(inputs) if pictures else Arrays(*sources.check(inputs))
    if not all(map(os.fspath, inputs)):
        raise InvalidInputError(f"Expected the path of a folder or file. Received: images={images!r}")
    return _files_of([Path(path).expanduser() for path in inputs], split)


def _is_path(value):
    return isinstance(value, (str, os.PathLike))


def _refuse_split(split):
    if split is not None:
        raise InvalidInputError(f"Only one folder or one .npz has splits. Received: split={split!r}")


def _files_of(inputs, split):
    for path in inputs:
        if path.suffix == ".npy":
            raise InvalidInputError(
                "An array file is an .npz with the array `images`: np.savez(name, images=np.load(path)). "
                f"Received: '{path}'"
            )
    arrays = [path for path in inputs if path.suffix == ".npz"]
    folders = [path for path in inputs if path.is_dir()]
    if len(inputs) == 1 and (arrays or folders):
        split = choose_split(inputs[0], split, sources.splits(inputs[0]))
    elif arrays:
        raise InvalidInputError(f"An .npz comes alone. Received: {', '.join(map(str, inputs))}")
    else:
        _refuse_split(split)
    if arrays:
        return Arrays(*sources.load(arrays[0], split))

    paths = []
    for path in inputs:
        if path.is_dir():
            paths += _images_below(path / split if split and (path / split).is_dir() else path)
        elif path.is_file():
            paths.append(path)
        else:
            raise MissingDataError(f"There is no such folder or file. Received: '{path}'")
    labels = classes = None
    if len(inputs) == 1 and folders:
        labels = sources.folder_labels(inputs[0], split, paths)
        if labels is not None:
            inside = [entry for name in sources.splits(inputs[0]) for entry in (inputs[0] / name).iterdir()]
            classes = sorted({entry.name for entry in inside if entry.is_dir() and not entry.name.startswith(".")})
    return Files(paths, labels, classes)


def _images_below(folder):
    paths = sources.image_files(folder)
    if not paths:
        raise MissingDataError(f"There are no images below the folder. Received: '{folder}'")
    return paths


def choose_split(path, split, known):
    if split is None and len(known) > 1:
        raise InvalidInputError(
            f"There are several splits: pass split (--split), one of {', '.join(known)}. Received: '{path}'"
        )
    return known[0] if split is None else choose("split", split, known)


class Fit:
    """Brings images to the size and the channels that a model takes, and counts what it had to do.

    Args:
        shape: (H, W, C); what is None is taken from the first image, as a batch has one shape.
    """

    def __init__(self, shape):
        self.height, self.width, self.channels = shape
        self.done = Counter()

    def __call__(self, image):
        """Pixels (H, W, C) of an array (H, W, C) with values 0..255, or of a Pillow image."""
        import numpy as np
        from PIL import Image, ImageOps

        if isinstance(image, np.ndarray):
            if image.shape == (self.height, self.width, self.channels):
                return image
            pixels = np.rint(image).astype("uint8")
            image = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
        if self.channels is None:
            self.channels = 1 if image.mode in sources.GREY_MODES else 3
        if None in (self.height, self.width):
            self.height, self.width = image.height, image.width
        mode = "L" if self.channels == 1 else "RGB"
        if image.mode != mode:
            self.done[f"converted from {COLOURS.get(image.mode, image.mode)} to {COLOURS[mode]}"] += 1
            image = image.convert(mode)
        size = (self.width, self.height)
        if image.size != size:
            # The largest part around the middle that has the right proportions, averaged over what each pixel covers.
            cut = image.width * self.height != image.height * self.width
            self.done[f"{'cropped and ' if cut else ''}resized to {self.height} x {self.width} pixels"] += 1
            image = ImageOps.fit(image, size, method=Image.Resampling.BILINEAR)
        return np.asarray(image).reshape(self.height, self.width, self.channels)

    def remarks(self, total):
        return [f"{count:,} of {total:,} images were {what}" for what, count in sorted(self.done.items())]


def fit_images(images, shape) -> tuple:
    """Images brought to the size and the channels that an encoder takes.

    Args:
        images: array (N, H, W, C), uint8 or floats in 0..255.
        shape: (H, W, C), such as `encoder.input_shape[1:]`; None stands for what the images have.

    Returns:
        `(images, remarks)`: array (N, *shape), as it came where it fits already; and list of str, what was done. Images
        are cropped around their middle to the proportions and resized, bilinear and antialiased.
    """
    import numpy as np

    if all(wanted in (None, given) for wanted, given in zip(shape, images.shape[1:])):
        return images, []
    fit = Fit(shape)
    return np.stack([fit(image) for image in images]), fit.remarks(len(images))


COLOURS = {
    "1": "black and white",
    "L": "grey",
    "LA": "grey with transparency",
    "P": "palette",
    "PA": "palette with transparency",
    "RGB": "colour",
    "RGBA": "colour with transparency",
}
