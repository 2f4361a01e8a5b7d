"""Transforms of place: crops, shifts, blur, resizing and flips, as two matrix products per view."""

import math

import keras

from sslzoo import checks
from sslzoo.augment.transform import ImageTransform, per_image, serializable
from sslzoo.errors import InvalidInputError

CROP_TRIES = 10  # proposals per image before torchvision falls back to the central crop


# ----------------------------------------------------------------------------------------------------------------------
# Geometry: every output row is a weighted sum of input rows, every output column of input columns. Two matrix products
# per view, no gather, static shapes. J views of one image share it instead of copying it, and a flip is a matrix read
# backwards.


class SeparableTransform(ImageTransform):
    """Base of the transforms that two matrices per view describe, one for its rows and one for its columns.

    Where a GPU computes float32 products in TF32, pixels carry an error of up to 2**-11, an eighth of a gray level.

    Call arguments:
        - `images`, `training`, `seed`: as in `ImageTransform`.
        - `num_views`: int J. Views per image; the result is (B * J, h, w, C), the views of one image in a row.
        - `flips`: `Flip`s of different axes to apply afterwards, which costs nothing here.

    Example:
        import numpy as np
        from sslzoo import augment

        images = np.random.default_rng(0).uniform(size=(4, 8, 8, 3)).astype("float32")
        crop = augment.RandomResizedCrop(scale=(0.4, 1.0))
        crop(images, num_views=3).shape  # (12, 8, 8, 3): the views of an image in a row
    """

    def call(self, images, training=None, seed=None, num_views=1, flips=()):
        single = self._check(images)
        images = self.backend.cast(images, "float32")
        images = images[None] if single else images
        if training is not None and not training:
            images = self.inference(images)
            images = self.backend.numpy.repeat(images, num_views, axis=0) if num_views > 1 else images
        else:
            stream, count = self.stream(seed), self._batch_size(images) * num_views
            transformation = self.get_random_transformation(images, seed=stream, count=count)
            for flip in flips:
                transformation[flip.axis] = self._uniform((count,), stream) < flip.probability
            images = self.transform_images(images, transformation)
        return images[0] if single and num_views == 1 else images

    def _resample(self, images, rows, columns, transformation):
        """rows (B * J, h, H) and columns (B * J, w, W) applied to images (B, H, W, C) -> (B * J, h, w, C)."""
        nx = self.backend.numpy
        _, height, width, channels = images.shape
        new_height, new_width = rows.shape[1], columns.shape[1]
        if "rows" in transformation:
            rows = nx.where(transformation["rows"][:, None, None], nx.flip(rows, axis=1), rows)
        if "columns" in transformation:
            columns = nx.where(transformation["columns"][:, None, None], nx.flip(columns, axis=1), columns)
        # Channels between rows and columns: both products then run over whole contiguous rows of memory.
        planes = nx.reshape(nx.transpose(images, (0, 1, 3, 2)), (-1, height, channels * width))
        rows = nx.reshape(rows, (self._batch_size(images), -1, height))
        planes = nx.reshape(nx.matmul(rows, planes), (-1, new_height * channels, width))
        planes = nx.einsum("naw,nxw->nax", planes, columns)
        planes = nx.reshape(planes, (-1, new_height, channels, new_width))
        return nx.transpose(planes, (0, 1, 3, 2))


@serializable
class RandomResizedCrop(SeparableTransform):
    """Cuts a random box out of each image and resizes it, bilinear and antialiased.

    As torchvision's: the box covers a uniform fraction of the area at a log-uniform aspect ratio, has whole pixels and
    a uniform place; if none of ten proposals fits, the largest central box within the ratio range is taken. The result
    equals "slice, then `keras.ops.image.resize(antialias=True)`". At inference the whole image is resized.

    Example:
        import numpy as np
        from sslzoo import augment

        images = np.random.default_rng(0).uniform(size=(4, 8, 8, 3)).astype("float32")
        augment.RandomResizedCrop(scale=(0.4, 1.0))(images).shape  # (4, 8, 8, 3)

    Args:
        size: int or (height, width) of the result, or None for the size of the input.
        scale: (low, high), fractions of the image's area, in (0, 1]. The "crop 0.4" of a paper is (0.4, 1.0).
        ratio: (low, high), width over height of the box, above 0.
        whole_pixels: bool. False lets boxes begin and end inside pixels, as a zoom does: for images of so few pixels
            that whole ones make the same box again and again.
        seed: as in `ImageTransform`.

    Reference: Szegedy et al., Going deeper with convolutions (2015), section 6.
    """

    def __init__(self, size=None, scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3), whole_pixels=True, seed=None, **kwargs):
        super().__init__(seed=seed, **kwargs)
        self.whole_pixels = bool(whole_pixels)
        self.size = checks.size(size=size)
        self.scale = checks.interval(0, 1, above=True, scale=scale)
        self.ratio = checks.interval(0, math.inf, above=True, ratio=ratio)

    def get_random_transformation(self, images, training=True, seed=None, count=None):
        """Boxes in pixels: dict of float32 (N,): top, left, height, width; `count` of them, or one per image."""
        nx = self.backend.numpy
        count = self._batch_size(images) if count is None else count
        full_height, full_width = images.shape[1:3]
        uniform = self._uniform((count, 2 * CROP_TRIES + 2), seed)
        fraction, log_ratio = uniform[:, :CROP_TRIES], uniform[:, CROP_TRIES : 2 * CROP_TRIES]

        low, high = self.scale
        area = (low + (high - low) * fraction) * (full_height * full_width)
        low, high = map(math.log, self.ratio)
        root_ratio = nx.exp(0.5 * (low + (high - low) * log_ratio))
        height, width = nx.sqrt(area) / root_ratio, nx.sqrt(area) * root_ratio
        if self.whole_pixels:
            height, width = nx.round(height), nx.round(width)

        fits = nx.logical_and(
            nx.logical_and(height >= 1, height <= full_height), nx.logical_and(width >= 1, width <= full_width)
        )
        fits = self.backend.cast(fits, "float32")
        first = fits * self.backend.cast(nx.cumsum(fits, axis=1) == 1, "float32")
        none = 1 - nx.sum(first, axis=1)
        central_height, central_width = self._central_box(full_height, full_width)
        height = nx.sum(first * height, axis=1) + none * central_height
        width = nx.sum(first * width, axis=1) + none * central_width

        top = self._place(uniform[:, -2], full_height - height, none)
        left = self._place(uniform[:, -1], full_width - width, none)
        return {"top": top, "left": left, "height": height, "width": width}

    def _place(self, uniform, free, central):
        """Where a box begins that has `free` pixels to move in: in the middle where `central` is 1, else anywhere."""
        nx = self.backend.numpy
        anywhere = nx.minimum(nx.floor(uniform * (free + 1)), free) if self.whole_pixels else uniform * free
        return (1 - central) * anywhere + central * nx.floor(free / 2)

    def _central_box(self, height, width):
        low, high = self.ratio
        if width / height < low:
            return max(1, min(height, round(width / low))), width
        if width / height > high:
            return height, max(1, min(width, round(height * high)))
        return height, width

    def transform_images(self, images, transformation, training=True):
        new_height, new_width = self.size or images.shape[1:3]
        box = transformation
        rows = self._box_matrix(box["top"], box["height"], images.shape[1], new_height)
        columns = self._box_matrix(box["left"], box["width"], images.shape[2], new_width)
        return self._resample(images, rows, columns, transformation)

    def _box_matrix(self, start, extent, size_in, size_out):
        """(N, size_out, size_in): the triangle filter over [start, start + extent), blind to whole pixels outside."""
        nx = self.backend.numpy
        start, extent = start[:, None, None], extent[:, None, None]
        step = extent / size_out
        target = start + (nx.arange(size_out, dtype="float32")[None, :, None] + 0.5) * step
        source = nx.arange(size_in, dtype="float32")[None, None, :] + 0.5
        weight = nx.maximum(1 - nx.abs(target - source) / nx.maximum(step, 1.0), 0.0)
        if self.whole_pixels:
            weight = nx.where(nx.logical_and(source > start, source < start + extent), weight, 0.0)
        return weight / nx.sum(weight, axis=-1, keepdims=True)

    def inference(self, images):
        return resize(images, self.size, self.backend)

    def core_layers(self, image_shape, name):
        return resizing_layers(self.size, image_shape, name)

    def compute_output_shape(self, input_shape):
        return resized_shape(self.size, input_shape)


@serializable
class RandomShift(SeparableTransform):
    """Moves each image by up to `pixels` whole pixels along each axis; what comes in is the reflected border.

    torchvision's `RandomCrop(size, padding=pixels, padding_mode="reflect")`, as on CIFAR.

    Example:
        import numpy as np
        from sslzoo import augment

        images = np.random.default_rng(0).uniform(size=(4, 8, 8, 3)).astype("float32")
        augment.RandomShift(pixels=2)(images).shape  # (4, 8, 8, 3)

    Args:
        pixels: int, at least 1, below both sides of the image.
        seed: as in `ImageTransform`.
    """

    def __init__(self, pixels: int = 4, seed: int | None = None, **kwargs):
        super().__init__(seed=seed, **kwargs)
        self.pixels = checks.count(pixels=pixels)

    def _check(self, images):
        single = super()._check(images)
        _check_reflection(self.pixels, images.shape)
        return single

    def get_random_transformation(self, images, training=True, seed=None, count=None):
        """Dict of float32 (N,), whole numbers in [-pixels, pixels]: down, right."""
        nx = self.backend.numpy
        uniform = self._uniform((self._batch_size(images) if count is None else count, 2), seed)
        steps = 2 * self.pixels + 1
        shift = nx.minimum(nx.floor(uniform * steps), steps - 1) - self.pixels
        return {"down": shift[:, 0], "right": shift[:, 1]}

    def transform_images(self, images, transformation, training=True):
        rows = self._shift_matrix(transformation["down"], images.shape[1])
        columns = self._shift_matrix(transformation["right"], images.shape[2])
        return self._resample(images, rows, columns, transformation)

    def _shift_matrix(self, shift, size):
        nx = self.backend.numpy
        pixel = nx.arange(size, dtype="float32")
        source = nx.abs(pixel[None, :] - shift[:, None])  # reflects at the first pixel,
        source = (size - 1) - nx.abs((size - 1) - source)  # and at the last
        return self.backend.cast(source[:, :, None] == pixel[None, None, :], "float32")


@serializable
class GaussianBlur(SeparableTransform):
    """Blurs each image by a Gaussian of its own width, with a probability; the border is reflected.

    torchvision's `GaussianBlur(kernel_size, sigma)`: the kernel is exp(-t^2 / 2 sigma^2) at whole t, normalized.

    Example:
        import numpy as np
        from sslzoo import augment

        images = np.random.default_rng(0).uniform(size=(4, 8, 8, 3)).astype("float32")
        augment.GaussianBlur(kernel_size=3, sigma=(0.1, 2.0))(images).shape  # (4, 8, 8, 3)

    Args:
        kernel_size: odd int. Pixels along each side, below twice the smaller side of the image.
        sigma: (low, high), uniform range of the standard deviation in pixels, above 0.
        probability: float in [0, 1].
        seed: as in `ImageTransform`.
    """

    def __init__(self, kernel_size=3, sigma=(0.1, 2.0), probability=1.0, seed=None, **kwargs):
        super().__init__(seed=seed, **kwargs)
        self.kernel_size = checks.count(kernel_size=kernel_size)
        if kernel_size % 2 == 0:
            raise InvalidInputError(f"kernel_size must be an odd integer. Received: kernel_size={kernel_size!r}")
        self.sigma = checks.interval(0, math.inf, above=True, sigma=sigma)
        self.probability = checks.fraction(probability=probability)

    def _check(self, images):
        single = super()._check(images)
        _check_reflection(self.kernel_size // 2, images.shape)
        return single

    def get_random_transformation(self, images, training=True, seed=None, count=None):
        """Dict of float32 (N,): sigma, 0 for images that stay sharp."""
        uniform = self._uniform((self._batch_size(images) if count is None else count, 2), seed)
        low, high = self.sigma
        sigma = low + (high - low) * uniform[:, 0]
        return {"sigma": self.backend.numpy.where(uniform[:, 1] < self.probability, sigma, 0.0)}

    def transform_images(self, images, transformation, training=True):
        # On images as small as ours the two products are cheaper than a pass over the image for each tap of the kernel.
        sigma = transformation["sigma"]
        rows = self._blur_matrix(sigma, images.shape[1])
        columns = rows if images.shape[1] == images.shape[2] else self._blur_matrix(sigma, images.shape[2])
        return self._resample(images, rows, columns, transformation)

    def _blur_matrix(self, sigma, size):
        """(N, size, size): the weight of each pixel in itself and its two mirror images beyond the border."""
        nx = self.backend.numpy
        pixel = nx.arange(size, dtype="float32")
        target, source = pixel[:, None], pixel[None, :]
        # A pixel on the border is its own mirror image; the distance then only has to be beyond the kernel.
        beyond = float(2 * self.kernel_size)
        low = nx.where(source == 0, beyond, target + source)
        high = nx.where(source == size - 1, beyond, 2.0 * (size - 1) - target - source)
        precision = (
            -0.5 / nx.square(nx.maximum(sigma, 1e-3))[:, None, None]
        )  # at 1e-3 pixels nothing reaches a neighbor

        def weight(distance):
            inside = nx.abs(distance) <= self.kernel_size // 2
            return nx.where(inside[None], nx.exp(nx.square(distance)[None] * precision), 0.0)

        kernel = weight(target - source) + weight(low) + weight(high)
        return kernel / nx.sum(kernel, axis=-1, keepdims=True)


@serializable
class Resize(ImageTransform):
    """Resizes every image, bilinear and antialiased. Deterministic.

    Example:
        import numpy as np
        from sslzoo import augment

        images = np.random.default_rng(0).uniform(size=(4, 8, 8, 3)).astype("float32")
        augment.Resize(16)(images).shape  # (4, 16, 16, 3)

    Args:
        size: int or (height, width).
    """

    random = False

    def __init__(self, size: int | tuple[int, int], **kwargs):
        super().__init__(**kwargs)
        self.size = checks.size(size=size)
        if self.size is None:
            raise InvalidInputError("size must be an integer >= 1 or (height, width). Received: size=None")

    def transform_images(self, images, transformation, training=True):
        return resize(images, self.size, self.backend)

    def core_layers(self, image_shape, name):
        return resizing_layers(self.size, image_shape, name)

    def compute_output_shape(self, input_shape):
        return resized_shape(self.size, input_shape)


class Flip(ImageTransform):
    """Mirrors each image with a probability. Use `HorizontalFlip` or `VerticalFlip`.

    Example:
        import numpy as np
        from sslzoo import augment

        images = np.random.default_rng(0).uniform(size=(4, 8, 8, 3)).astype("float32")
        mirror = augment.HorizontalFlip(0.5)
        isinstance(mirror, augment.Flip), mirror(images).shape  # True, (4, 8, 8, 3)

    Args:
        probability: float in [0, 1].
        seed: as in `ImageTransform`.
    """

    axis = None

    def __init__(self, probability: float = 0.5, seed: int | None = None, **kwargs):
        super().__init__(seed=seed, **kwargs)
        if self.axis not in ("rows", "columns"):
            raise InvalidInputError(f"Use HorizontalFlip or VerticalFlip. Received: {type(self).__name__}")
        self.probability = checks.fraction(probability=probability)

    def get_random_transformation(self, images, training=True, seed=None):
        return {"flip": self._uniform((self._batch_size(images),), seed) < self.probability}

    def transform_images(self, images, transformation, training=True):
        nx = self.backend.numpy
        mirrored = nx.flip(images, axis=1 if self.axis == "rows" else 2)
        return nx.where(per_image(transformation["flip"]), mirrored, images)


@serializable
class HorizontalFlip(Flip):
    """Mirrors left and right with a probability.

    Example:
        import numpy as np
        from sslzoo import augment

        images = np.random.default_rng(0).uniform(size=(4, 8, 8, 3)).astype("float32")
        augment.HorizontalFlip()(images).shape  # (4, 8, 8, 3)

    Args:
        probability: float in [0, 1].
        seed: as in `ImageTransform`.
    """

    axis = "columns"


@serializable
class VerticalFlip(Flip):
    """Turns images upside down with a probability.

    Example:
        import numpy as np
        from sslzoo import augment

        images = np.random.default_rng(0).uniform(size=(4, 8, 8, 3)).astype("float32")
        augment.VerticalFlip()(images).shape  # (4, 8, 8, 3)

    Args:
        probability: float in [0, 1].
        seed: as in `ImageTransform`.
    """

    axis = "rows"


# ----------------------------------------------------------------------------------------------------------------------
# Resizing without a crop


def resize(images, size, backend):
    if size is None or tuple(images.shape[1:3]) == size:
        return images
    return backend.image.resize(images, size, interpolation="bilinear", antialias=True, data_format="channels_last")


def resized_shape(size, input_shape):
    return tuple(input_shape) if size is None else (*input_shape[:-3], *size, input_shape[-1])


def resizing_layers(size, image_shape, name):
    if size is None or tuple(image_shape[:2]) == size:
        return []
    options = {"interpolation": "bilinear", "antialias": True, "data_format": "channels_last", "dtype": "float32"}
    return [compilable(keras.layers.Resizing(*size, name=f"{name}_resize", **options))]


def compilable(layer: keras.layers.Layer) -> keras.layers.Layer:
    """The layer, which says whether XLA can compile it: no configuration keeps that.

    TensorFlow's antialiased resizing has no kernel there, and on a GPU Keras compiles whatever does not say so.
    """
    if isinstance(layer, keras.layers.Resizing) and layer.antialias and keras.backend.backend() == "tensorflow":
        layer.supports_jit = False
    return layer


def _check_reflection(pixels, shape):
    """Images must be larger than what is reflected at their border."""
    if min(tuple(shape)[-3:-1]) <= pixels:
        raise InvalidInputError(
            f"images must have sides above {pixels} pixels, since that many are reflected at the border. "
            f"Received: images.shape={tuple(shape)}"
        )
