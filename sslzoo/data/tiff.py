"""TIFF files of more bits or channels than a picture, as microscopes, satellites and cameras of science write them."""

from pathlib import Path

import numpy as np

from sslzoo.data.image_files import MOST_PIXELS, ORIENTATION, Head, resized
from sslzoo.errors import InvalidInputError

SUFFIXES = {".tif", ".tiff"}
DTYPES = ("uint8", "uint16", "float32")
MOST_CHANNELS = 32
# Orientation -> what brings the stored image upright: `image_files.TURNS` of an array (H, W, C).
_TURNS = {
    2: lambda values: values[:, ::-1],
    3: lambda values: values[::-1, ::-1],
    4: lambda values: values[::-1],
    5: lambda values: values.transpose(1, 0, 2),
    6: lambda values: np.rot90(values, -1),
    7: lambda values: np.rot90(values, 2).transpose(1, 0, 2),
    8: lambda values: np.rot90(values),
}


def head(path: Path) -> Head:
    """Size of a file's first image; its channels and dtype, (5, "uint16"), stand for Pillow's mode.

    Raises:
        InvalidInputError: another dtype, more than 32 channels, or too many pixels.
        ImportError: tifffile is not installed.
    """
    import tifffile

    with tifffile.TiffFile(path) as file:
        height, width, channels = _shape(file.series[0])
        size = (height, width) if _orientation(file) in (5, 6, 7, 8) else (width, height)
        return Head(size, (channels, str(file.series[0].dtype)), False, False)


def _shape(image):
    """(H, W, C) of a file's image, before its values are read."""
    height, width, channels = _channels_last(image.shape, image.axes)
    if image.dtype not in DTYPES or channels > MOST_CHANNELS or height * width > MOST_PIXELS:
        raise InvalidInputError(
            f"Expected a TIFF of {', '.join(DTYPES)} with 1 to {MOST_CHANNELS} channels and at most {MOST_PIXELS:,} "
            f"pixels. Received: shape={image.shape}, dtype={image.dtype}"
        )
    return height, width, channels


def read(path: Path, size: tuple[int, int] | None = None) -> np.ndarray:
    """Values (H, W, C) of a file's first image, as they are, upright; integers of which 0 is white are turned round.

    Args:
        path: file.
        size: (width, height): the largest part around the middle of these proportions, each channel averaged over what
            a pixel covers; None for the file's own.

    Raises:
        InvalidInputError, ImportError: as `head`.
    """
    import tifffile

    with tifffile.TiffFile(path) as file:
        shape, axes = _shape(file.series[0]), file.series[0].axes
        values, turn = file.series[0].asarray(), _TURNS.get(_orientation(file))
        page = file.series[0].keyframe
        if page.photometric == tifffile.PHOTOMETRIC.MINISWHITE and values.dtype.kind == "u":
            values = 2**page.bitspersample - 1 - values
    values = np.moveaxis(values, 0, -1) if values.ndim == 3 and _channels_first(values.shape, axes) else values
    values = values.reshape(shape)
    values = values if turn is None else np.ascontiguousarray(turn(values))
    return values if size in (None, values.shape[1::-1]) else resized(values, size)


def _orientation(file):
    """How the first image is stored, 1 to 8 as in Exif, of a tag that may be missing or damaged."""
    tag = file.series[0].keyframe.tags.get(ORIENTATION)
    return None if tag is None else tag.value


def _channels_first(shape, axes):
    """Whether channels come first; where the file does not say which axis they are, they are fewer than pixels."""
    if axes in ("YXS", "YXC", "SYX", "CYX"):  # others are guesses of who wrote it
        return axes.endswith("YX")
    return shape[0] < min(shape[1:])


def _channels_last(shape, axes):
    """(H, W, C) of an array (H, W), (H, W, C) or (C, H, W)."""
    if len(shape) == 2:
        return (*shape, 1)
    if len(shape) != 3:
        raise InvalidInputError(f"Expected an image (H, W), (H, W, C) or (C, H, W). Received: shape={shape}")
    return (*shape[1:], shape[0]) if _channels_first(shape, axes) else tuple(shape)
