"""A user's images, as given to embed: arrays, files, folders and data sets, fitted to an encoder."""

from collections import Counter

from sslzoo.data import sources
from sslzoo.errors import InvalidInputError, MissingDataError, choose


class Arrays:
    """The images of an .npz file."""

    def __init__(self, images, labels):
        self.images, self.labels, self.classes = images, labels, None
        self.skipped = []

    def __len__(self):
        return len(self.images)

    def read(self, index):
        return self.images[index]

    def names(self, rows):
        import numpy as np

        return {"index": np.array(rows, "int64")}


class Files:
    """Image files."""

    def __init__(self, paths, labels=None, classes=None):
        self.paths, self.labels, self.classes = paths, labels, classes
        self.skipped = []

    def __len__(self):
        return len(self.paths)

    def read(self, index):
        from PIL import ImageOps

        try:
            with sources.open_image(self.paths[index]) as image:
                image.load()
                return ImageOps.exif_transpose(image)
        except Exception as error:  # Pillow's decoders raise OSError, SyntaxError, ValueError, struct.error ...
            raise InvalidInputError(
                f"This image cannot be read ({error}). Repair it, take it away, or pass --on-error skip. "
                f"Received: '{self.paths[index]}'"
            ) from error

    def names(self, rows):
        import numpy as np

        return {"paths": np.array([str(self.paths[row]) for row in rows])}


def source_of(inputs, split):
    """What the words of the command line name: the images of an .npz, or of folders and files."""
    arrays = [path for path in inputs if path.suffix == ".npz"]
    folders = [path for path in inputs if path.is_dir()]
    if len(inputs) == 1 and (arrays or folders):
        split = choose_split(inputs[0], split, sources.splits(inputs[0]))
    elif arrays:
        raise InvalidInputError(f"An .npz comes alone. Received: {', '.join(map(str, inputs))}")
    elif split is not None:
        raise InvalidInputError(f"Only one folder or one .npz has splits. Received: --split {split}")
    if arrays:
        return Arrays(*sources.load(arrays[0], split))

    paths = []
    for path in inputs:
        if path.is_dir():
            base = path / split if split and (path / split).is_dir() else path
            found = sources.image_files(base)
            if not found:
                raise MissingDataError(f"There are no images below the folder. Received: '{base}'")
            paths += found
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


def choose_split(path, split, known):
    if split is None and len(known) > 1:
        raise InvalidInputError(
            f"There are several splits: pass --split with one of {', '.join(known)}. Received: '{path}'"
        )
    return known[0] if split is None else choose("split", split, known)


class Fit:
    """Brings images to the size and the channels that a model takes, and counts what it had to do."""

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
        if None in (self.height, self.width):  # a model for any size: the first image's, as a batch has one
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


COLOURS = {
    "1": "black and white", "L": "grey", "LA": "grey with transparency", "P": "palette",
    "PA": "palette with transparency", "RGB": "colour", "RGBA": "colour with transparency",
}  # fmt: skip
