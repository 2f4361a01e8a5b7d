"""Turns of images: by quarters, which move pixels, and by any angle, which reads between them."""

import math

from sslzoo import checks
from sslzoo.augment.transform import ImageTransform, per_image, serializable
from sslzoo.errors import InvalidInputError


@serializable
class QuarterTurn(ImageTransform):
    """Turns each image by 0, 90, 180 or 270 degrees, each as likely: for images without an upright direction, such as
    those of satellites and microscopes.

    Example:
        import numpy as np
        from sslzoo import augment

        images = np.random.default_rng(0).uniform(size=(4, 8, 8, 3)).astype("float32")
        augment.QuarterTurn()(images).shape  # (4, 8, 8, 3)

    Args:
        seed: as in `ImageTransform`.

    Raises:
        InvalidInputError: in a call, images that are not square.
    """

    def __init__(self, seed: int | None = None, **kwargs):
        super().__init__(seed=seed, **kwargs)

    def _check(self, images):
        if images.shape[-3] != images.shape[-2]:
            raise InvalidInputError(f"Expected square images. Received: images.shape={tuple(images.shape)}")
        return super()._check(images)

    def get_random_transformation(self, images, training=True, seed=None):
        """Dict of float32 (N,): quarters, whole numbers 0..3, counterclockwise."""
        nx = self.backend.numpy
        return {"quarters": nx.minimum(nx.floor(4 * self._uniform((self._batch_size(images),), seed)), 3.0)}

    def transform_images(self, images, transformation, training=True):
        nx, quarters = self.backend.numpy, per_image(transformation["quarters"])
        images = nx.where(quarters % 2 == 1, nx.transpose(images, (0, 2, 1, 3)), images)
        images = nx.where((quarters == 1) | (quarters == 2), nx.flip(images, axis=1), images)
        return nx.where(quarters >= 2, nx.flip(images, axis=2), images)


@serializable
class Rotation(ImageTransform):
    """Turns each image around its middle by an angle of its own; the border is reflected, values between are linear.

    Example:
        import numpy as np
        from sslzoo import augment

        images = np.random.default_rng(0).uniform(size=(4, 8, 8, 3)).astype("float32")
        augment.Rotation(degrees=10)(images).shape  # (4, 8, 8, 3)

    Args:
        degrees: float in 0..180; angles are uniform in [-degrees, degrees].
        seed: as in `ImageTransform`.
    """

    def __init__(self, degrees: float = 15.0, seed: int | None = None, **kwargs):
        super().__init__(seed=seed, **kwargs)
        self.degrees = checks.number(0, 180, degrees=degrees)

    def get_random_transformation(self, images, training=True, seed=None):
        """Dict of float32 (N,): angle, in radians, counterclockwise."""
        most = math.radians(self.degrees)
        return {"angle": self._uniform((self._batch_size(images),), seed, -most, most)}

    def transform_images(self, images, transformation, training=True):
        nx = self.backend.numpy
        height, width = images.shape[1:3]
        angle = transformation["angle"][:, None, None]
        # Tensors: an array of NumPy beside one would make PyTorch leave its GPU.
        down, right = (nx.arange(side, dtype="float32") - (side - 1) / 2 for side in (height, width))
        down, cosine, sine = down[:, None], nx.cos(angle), nx.sin(angle)
        rows = _reflected(nx, cosine * down + sine * right + (height - 1) / 2, height)
        columns = _reflected(nx, cosine * right - sine * down + (width - 1) / 2, width)
        top, left = nx.floor(rows), nx.floor(columns)
        lower, further = (rows - top)[..., None], (columns - left)[..., None]

        def at(row, column):
            return self._pixels(images, nx.minimum(row, height - 1.0), nx.minimum(column, width - 1.0))

        upper_row = (1 - further) * at(top, left) + further * at(top, left + 1)
        lower_row = (1 - further) * at(top + 1, left) + further * at(top + 1, left + 1)
        return (1 - lower) * upper_row + lower * lower_row

    def _pixels(self, images, rows, columns):
        """images (N, H, W, C) at whole places (N, h, w) -> (N, h, w, C)."""
        nx = self.backend.numpy
        _, height, width, channels = images.shape
        cast = self.backend.cast
        first = cast(nx.arange(self._batch_size(images)) * (height * width), "int32")[:, None, None]
        places = first + cast(rows, "int32") * width + cast(columns, "int32")
        return nx.take(nx.reshape(images, (-1, channels)), places, axis=0)


def _reflected(nx, places, size):
    """Places along a side of `size` pixels, those beyond it reflected at its first and last pixel."""
    places = nx.mod(nx.abs(places), max(2.0 * (size - 1), 1.0))  # a long image turned reaches beyond more than once
    return nx.maximum((size - 1) - nx.abs((size - 1) - places), 0.0)
