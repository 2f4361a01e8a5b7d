"""One image file to pixels: opened, checked, turned upright, laid on a ground, fitted to a size and channels."""

import contextlib
import functools
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sslzoo.data.streams import StreamedImages
from sslzoo.errors import InvalidInputError

HEIF_SUFFIXES = {".heic", ".heif"}
IMAGE_SUFFIXES = HEIF_SUFFIXES | {
    *(".avif", ".bmp", ".gif", ".jfif", ".jpe", ".jpeg", ".jpg"),
    *(".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"),
}
# What Pillow may take a file for, whatever its name says. It knows sixty formats, and hands PostScript to Ghostscript.
IMAGE_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP", "AVIF", "HEIF")
GRAY_MODES = {"1", "L", "LA"}
DEEP_MODES = {"F", "I", "I;16", "I;16B", "I;16L", "I;16N"}
MOST_PIXELS = 2**27  # of one image: 134 million, 11,585 x 11,585
LEAST_DECODED = 4  # times the side that is wanted: no smaller is a JPEG decoded
ORIENTATION = 0x0112  # Exif
# Orientation -> what brings the stored image upright; from 5 on it lies on its side. Pillow's `exif_transpose` writes
# all of the Exif anew besides, which fails on a tag of another kind than it should be.
TURNS = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}
COLORS = {"1": "black and white", "L": "gray", "P": "palette", "RGB": "color"}


class Head(NamedTuple):
    """What a file says of its image before pixels are decoded: (width, height) once upright, Pillow mode, and so on."""

    size: tuple[int, int]
    mode: "str | tuple[int, str]"
    transparent: bool
    frames: bool

    @classmethod
    def of(cls, image) -> "Head":
        """The head of an opened Pillow image."""
        # Pillow decodes a whole PNG to look for Exif behind its pixels, and turns the size of a TIFF when it opens it.
        orientation = _orientation(image) if image.format != "PNG" or _has_exif(image) else None
        size = (image.tag_v2[256], image.tag_v2[257]) if image.format == "TIFF" else image.size
        size = size[::-1] if orientation in (5, 6, 7, 8) else size
        # The second picture of an MPO (a photograph with its depth map) is no frame.
        frames = image.format != "MPO" and getattr(image, "is_animated", False)
        return cls(size, image.mode, _is_transparent(image), frames)

    @classmethod
    def of_file(cls, path: Path) -> "Head":
        """The head of an image file."""
        with open_image(path) as image:
            return cls.of(image)

    @property
    def is_gray(self) -> bool:
        return self.mode in GRAY_MODES


class Remark(str):
    """What was done to images, in a sentence.

    Attributes:
        public: str, the sentence that a model's card may repeat, without paths of this machine; "" for none.
    """

    def __new__(cls, text: str, public: str):
        remark = super().__new__(cls, text)
        remark.public = public
        return remark

    def __getnewargs__(self):  # for copies and pickles
        return str(self), self.public


def remarks_on(heads: Sequence[Head]) -> list[str]:
    """What decoding does to images with such heads, beyond their size and colors."""
    done = {
        "have a transparency channel and were laid on a ground (background)": sum(head.transparent for head in heads),
        "have several frames or pages, of which the first was read": sum(head.frames for head in heads),
    }
    return [f"{count:,} of {len(heads):,} images {what}." for what, count in done.items() if count]


def open_image(path: Path, side: int | None = None):
    """A Pillow image of 8 bits a channel and a size that fits the memory, of which only the head is read.

    Args:
        path: file.
        side: pixels that its larger side will have, if that is known. A JPEG is then decoded at a half, a quarter or an
            eighth of its size, but no smaller than four times of this; averaged down it differs by a gray level or two
            (`benchmarks/photographs.py`).

    Raises:
        OSError, ValueError, or another error of Pillow's decoders: it is not an image.
    """
    from PIL import Image

    if not path.is_file():  # a pipe would wait for ever
        raise ValueError("this is no file")
    if path.suffix.lower() in HEIF_SUFFIXES and "HEIF" not in _formats():
        raise ValueError("Pillow reads HEIC with a package of its own: pip install pillow-heif")
    image = Image.open(path, formats=_formats())
    try:
        check_image(image)
    except InvalidInputError:
        image.close()
        raise
    if side is not None:
        image.draft(None, (LEAST_DECODED * side, LEAST_DECODED * side))  # a JPEG's alone; others pass over it
    return image


@functools.cache
def _formats():
    """Those of IMAGE_FORMATS that this Pillow reads; files of phones where pillow-heif is installed."""
    from PIL import Image

    with contextlib.suppress(ImportError):
        import pillow_heif

        pillow_heif.register_heif_opener()
    Image.init()
    return tuple(name for name in IMAGE_FORMATS if name in Image.OPEN)


def check_image(image) -> None:
    """Raise InvalidInputError if a Pillow image has more than 8 bits a channel, or too many pixels."""
    if image.mode in DEEP_MODES or _has_deep_colors(image):
        raise InvalidInputError(
            "Expected images of 8 bits per channel; this one has more, and cutting it to 8 is not ours to choose "
            "(of TIFF files alone, pip install tifffile has them read as they are). "
            f"Received: Pillow mode {image.mode!r}"
        )
    if bands := _more_bands(image):
        raise InvalidInputError(
            "Expected the channels of a picture, and transparency at most; of TIFF files alone, pip install tifffile "
            f"has all channels read. Received: {bands} more, Pillow mode {image.mode!r}"
        )
    if image.width * image.height > MOST_PIXELS:
        raise InvalidInputError(
            f"Expected an image of at most {MOST_PIXELS:,} pixels. Received: {image.height} x {image.width} pixels"
        )


def _has_deep_colors(image):
    """Whether the file has 16 bits a channel, which Pillow cuts to 8 without a word where there are several."""
    if image.format == "TIFF":
        bits = image.tag_v2.get(258, 8)  # a number, or one of each channel
        return max(bits if isinstance(bits, tuple) else (bits,)) > 8
    arguments = image.tile[0][3] if getattr(image, "tile", None) else ""
    parts = arguments if isinstance(arguments, tuple) else (arguments,)
    largest = max((part for part in parts if isinstance(part, int)), default=0)  # sample that a PPM file announces
    return any(isinstance(part, str) and ";16" in part for part in parts) or (image.format == "PPM" and largest > 255)


def _more_bands(image):
    """How many channels of a TIFF are neither those of a picture nor transparency; Pillow drops them without a word."""
    if image.format != "TIFF":
        return 0
    photometric, count, extra = (image.tag_v2.get(tag, usual) for tag, usual in ((262, 2), (277, 1), (338, ())))
    declared = sum(each in (1, 2) for each in (extra if isinstance(extra, tuple) else (extra,)))
    return max(0, count - {0: 1, 1: 1, 3: 1, 5: 4}.get(photometric, 3) - declared)


def ground(background: "str | tuple[int, int, int]") -> tuple[int, int, int]:
    """The color (red, green, blue), 0..255, that transparent images are laid on, of Pillow's name for it.

    Raises:
        InvalidInputError: no such color.
    """
    from PIL import ImageColor

    if isinstance(background, tuple) and len(background) == 3:
        background = "rgb({},{},{})".format(*background)
    try:
        return ImageColor.getrgb(background)[:3]
    except (ValueError, AttributeError, TypeError) as error:
        raise InvalidInputError(
            f"background must be the name of a color, such as 'white' or '#ffcc00'. Received: background={background!r}"
        ) from error


def as_picture(image):
    """A Pillow image of an array (H, W, C) to look at: of values beyond 0..255, and of other channels than gray or
    color, whose first or first three are shown, from the darkest to the brightest. A Pillow image is itself."""
    from PIL import Image

    if not isinstance(image, np.ndarray):
        return image
    pixels = image[..., :3] if image.shape[-1] >= 3 else image[..., 0]
    if pixels.dtype != np.uint8 or image.shape[-1] not in (1, 3):
        low, high = float(pixels.min()), float(pixels.max())
        known = image.shape[-1] in (1, 3) and low >= 0 and high <= 255
        pixels = pixels if known else 255 * (pixels - low) / max(high - low, 1e-12)
    return Image.fromarray(np.rint(pixels).astype(np.uint8))


def decode(image, background: "str | tuple[int, int, int]" = "white"):
    """A Pillow image as it is meant to be seen: its first frame, upright, laid on the background where transparent.

    Dropping the transparency channel instead would show what lies under it, black for most icons.
    """
    from PIL import Image

    check_image(image)
    if image.format == "TIFF":  # or Pillow maps a gray one's file by the size that it has when turned
        image.filename = ""
    image.load()
    turn = TURNS.get(_orientation(image))  # none of a TIFF: Pillow turned it as it loaded it
    image = image if turn is None else image.transpose(Image.Transpose[turn])
    if image.mode == "LAB":  # of which Pillow makes RGB alone
        return image.convert("RGB")
    if not _is_transparent(image):
        return image
    mode = "L" if image.mode in GRAY_MODES else "RGB"
    image = image.convert("LA" if mode == "L" else "RGBA")
    opaque = Image.new("RGB", image.size, ground(background)).convert(mode)
    opaque.paste(image.convert(mode), mask=image.getchannel("A"))
    return opaque


def _orientation(image):
    """How an image is stored, 1 to 8; None where it does not say, or its Exif is damaged: its pixels may be whole."""
    try:
        return image.getexif().get(ORIENTATION)
    except Exception:  # Pillow raises many kinds, by format
        return None


_TEXTS = ("XML:com.adobe.xmp", "Raw profile type exif")  # in which a PNG may say how it is turned, beside Exif
_KEYWORDS = tuple(name.encode() + b"\0" for name in _TEXTS)


def _has_exif(image):
    """Whether an opened PNG has Exif or what stands for it, before its pixels or behind them; none is decoded."""
    if {"exif", *_TEXTS} & image.info.keys():
        return True
    file = image.fp
    if file is None:  # the pixels are decoded, and what stands behind them is known
        return False
    place, found = file.tell(), False
    file.seek(8)
    while not found and len(head := file.read(8)) == 8:
        size, kind = int.from_bytes(head[:4]), head[4:]
        begin = file.read(min(size, 32))
        found = kind == b"eXIf" or (kind in (b"iTXt", b"tEXt", b"zTXt") and begin.startswith(_KEYWORDS))
        file.seek(size - len(begin) + 4, os.SEEK_CUR)
    file.seek(place)
    return found


def _is_transparent(image):
    return image.mode in ("LA", "PA", "RGBA") or "transparency" in image.info


def fitted(image, size: tuple[int, int] | None, channels: int) -> np.ndarray:
    """uint8 pixels (H, W, C) of a Pillow image.

    Args:
        image: what `decode` gives.
        size: (width, height): the largest part around the middle that has the right proportions, averaged over what
            each pixel covers; or None for the image's own.
        channels: 1 or 3.
    """
    from PIL import Image, ImageOps

    image = image.convert("L" if channels == 1 else "RGB")
    if size is not None and image.size != size:
        image = ImageOps.fit(image, size, method=Image.Resampling.BILINEAR)
    return np.asarray(image).reshape(image.height, image.width, channels)


def resized(values: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Values (H, W, C) of any kind: the largest part around the middle of the proportions of `size` (width, height),
    each channel averaged over what a pixel covers; of integers rounded."""
    from PIL import Image, ImageOps

    planes = (Image.fromarray(plane.astype("float32")) for plane in np.moveaxis(values, -1, 0))
    planes = [np.asarray(ImageOps.fit(plane, size, method=Image.Resampling.BILINEAR)) for plane in planes]
    stacked = np.stack(planes, axis=-1)
    return np.rint(stacked).astype(values.dtype) if values.dtype.kind in "iu" else stacked


class Fit:
    """Brings images to the size and the channels that a model takes, and counts what it had to do.

    Args:
        shape: (H, W, C); what is None is taken from the first image, as a batch has one shape.
    """

    def __init__(self, shape):
        self.shape = tuple(shape)
        self.side = None if None in shape[:2] else max(shape[:2])
        self.done = Counter()

    def __call__(self, image):
        """Pixels (H, W, C) of an array (H, W, C) with values 0..255, or of a Pillow image."""
        is_array = isinstance(image, np.ndarray)
        own = image.shape if is_array else (image.height, image.width, 1 if image.mode in GRAY_MODES else 3)
        shape = tuple(given if wanted is None else wanted for wanted, given in zip(self.shape, own))
        if is_array and own == shape:
            self.shape = shape
            return image
        self.shape = height, width, channels = shape
        if is_array and own[-1] == channels and (image.dtype != "uint8" or channels not in (1, 3)):
            self._note_size(own[1], own[0])
            return resized(image, (width, height))
        if not {own[-1], channels} <= {1, 3} or (is_array and not 0 <= image.min() <= image.max() <= 255):
            raise InvalidInputError(
                "Images of other channels or values than a picture's are not turned to gray or color: expected the "
                f"shape {shape}. Received: shape={own}, dtype={image.dtype if is_array else 'uint8'}"
            )
        image = as_picture(image)
        mode = "L" if channels == 1 else "RGB"
        if image.mode != mode:
            self.done[f"converted from {COLORS.get(image.mode, image.mode)} to {COLORS[mode]}"] += 1
        self._note_size(image.width, image.height)
        return fitted(image, (width, height), channels)

    def _note_size(self, own_width, own_height):
        height, width, _ = self.shape
        if (own_width, own_height) != (width, height):
            cut = own_width * height != own_height * width
            self.done[f"{'cropped and ' if cut else ''}resized to {height} x {width} pixels"] += 1

    def remarks(self, total: int) -> list[str]:
        return [f"{count:,} of {total:,} images were {what}" for what, count in sorted(self.done.items())]


def fit_images(images: np.ndarray, shape: tuple) -> tuple[np.ndarray, list[str]]:
    """Images brought to the size and the channels that an encoder takes.

    Args:
        images: array (N, H, W, C), of which those turned to gray or color have values 0..255; or `StreamedImages`,
            which are fitted when they are read.
        shape: (H, W, C), such as `encoder.input_shape[1:]`; None stands for what the images have.

    Returns:
        `(images, remarks)`: array (N, *shape), as it came where it fits already; and list of str, what was done. Images
        are cropped around their middle to the proportions and resized, bilinear and antialiased.
    """
    if all(wanted in (None, given) for wanted, given in zip(shape, images.shape[1:])):
        return images, []
    fit = Fit(shape)
    if isinstance(images, StreamedImages):
        first = fit(images[0])
        fit.done = Counter(dict.fromkeys(fit.done, len(images)))  # all have its shape
        fitting = StreamedImages(images.files, lambda file: Fit(shape)(images.read(file)), first.shape, first.dtype)
        return fitting, fit.remarks(len(images))
    return np.stack([fit(image) for image in images]), fit.remarks(len(images))
