"""The image transforms that Keras lacks: one random draw per image, on every backend, in a model and inside `tf.data`.

Each is a Keras layer from images (B, H, W, C), or one image (H, W, C), to images; float32 under every dtype policy,
values in [0, 1] until `Normalize`. `training=False` draws nothing and leaves only what is deterministic. The meanings,
and so the numbers, are torchvision's, because that is what papers print.

`sslzoo.views.Views` strings these layers into policies and then hands each of them the random numbers; a layer used on
its own draws from its own `seed`, or from `seed=` given in the call.
"""

import contextlib
import inspect
import math

import keras
import numpy as np

from sslzoo.errors import InvalidInputError

# The one private import of this package. `DataLayer` is what lets Keras' own preprocessing layers run inside `tf.data`
# under every backend (inside a TensorFlow graph its `self.backend` becomes TensorFlow's), and Keras does not export it.
# Should it move one day: `Rescaling` derives from it directly.
try:
    from keras.src.layers.preprocessing.data_layer import DataLayer
except ImportError:
    DataLayer = keras.layers.Rescaling.__base__

LUMA = (0.299, 0.587, 0.114)  # ITU-R 601, what Pillow and torchvision call grey
CROP_TRIES = 10  # proposals per image before torchvision falls back to the central crop
SEED_LIMIT = 2**31  # what every backend's seed type holds


# ----------------------------------------------------------------------------------------------------------------------
# Random numbers


class Stream(keras.random.SeedGenerator):
    """Seeds that are a function of one pair of integers: the n-th is made of the pair and n, and nothing is stored.

    Equal pairs give equal draws, whatever was drawn before: what makes a `tf.data` pipeline resumable from any step.

    Args:
        pair: integer tensor (2,) of the backend's seed type.
        backend: the Keras backend that holds it.
    """

    def __init__(self, pair, backend):
        # The parent's constructor would create the state variable that a stream exists to avoid.
        self.pair, self.backend, self.draws = pair, backend, 0

    def next(self, ordered=True):
        # PyTorch seeds with the sum of a pair, so (0, 1) and (1, 0) are one seed there: odd multipliers keep calls and
        # draws apart. Both fit the int32 that PyTorch multiplies, and wraps, in.
        self.draws += 1
        scale = np.array([1_540_483_477, 1])
        shift = np.array([self.draws * 668_265_263 % SEED_LIMIT, 0])
        dtype = self.backend.random_seed_dtype()
        scale, shift = (self.backend.convert_to_tensor(x, dtype=dtype) for x in (scale, shift))
        return self.pair * scale + shift


class RandomLayer(DataLayer):
    """A layer in float32 whose draws of one call are a function of one pair of integers.

    Args:
        seed: int in [0, 2**31), or None for a random one.
    """

    generator = None

    def __init__(self, seed=None, **kwargs):
        kwargs["dtype"] = "float32"  # pixels need more than bfloat16's 8 bits, whatever the model's policy
        super().__init__(**kwargs)
        self.seed = check_seed(seed)

    def __call__(self, images, **kwargs):
        seed = kwargs.get("seed")
        if seed is not None and not isinstance(seed, Stream):
            kwargs["seed"] = lambda: seed  # Keras refuses arguments that mix tensors and numbers, as (0, step) does
        return super().__call__(images, **kwargs)

    def stream(self, seed=None):
        """The random numbers of one call: from `seed` if given, else from the layer's generator, which moves on by one.

        Args:
            seed: None, a `Stream`, an int or a pair of ints. An int may be a scalar tensor, a pair a tensor (2,).
        """
        seed = seed() if callable(seed) else seed
        if isinstance(seed, Stream):
            return seed
        if seed is None:
            if self.generator is None:
                raise InvalidInputError(
                    f"Expected `seed=` in the call: {self.name!r} is a step of a `Views`, which draws for it, and has "
                    "no random state of its own. Received: seed=None"
                )
            return Stream(self._get_seed_generator(self.backend.name).next(), self.backend)
        return Stream(self._seed_pair(seed), self.backend)

    def _seed_pair(self, seed):
        dtype = self.backend.random_seed_dtype()
        parts = list(seed) if isinstance(seed, (tuple, list)) else [seed]
        for part in parts:
            if isinstance(part, (bool, float, str)) or "int" not in str(getattr(part, "dtype", "int")):
                raise InvalidInputError(f"Expected integer seeds. Received: seed={seed!r}")
            if isinstance(part, int):
                check_seed(part)
        parts = [self.backend.cast(self.backend.convert_to_tensor(part), dtype) for part in parts]
        shapes = [tuple(part.shape) for part in parts]
        if shapes == [(2,)]:
            return parts[0]
        if shapes not in ([()], [(), ()]):
            raise InvalidInputError(f"Expected a seed of one or two integers. Received: seed={seed!r}")
        if len(parts) == 1:
            parts.append(self.backend.numpy.zeros_like(parts[0]))
        return self.backend.numpy.stack(parts)

    def get_config(self):
        """Every constructor argument is an attribute of the same name, and is what is saved."""
        arguments = [
            name
            for name, parameter in inspect.signature(type(self).__init__).parameters.items()
            if name != "self" and parameter.kind is not parameter.VAR_KEYWORD
        ]
        return {**super().get_config(), **{name: getattr(self, name) for name in arguments}}


def check_seed(seed):
    if seed is None:
        return None
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < SEED_LIMIT:
        raise InvalidInputError(f"Expected `seed` as an int in [0, 2**31), or None. Received: seed={seed!r}")
    return int(seed)


# ----------------------------------------------------------------------------------------------------------------------
# The shape of a transform


class ImageTransform(RandomLayer):
    """Base of the transforms: `get_random_transformation` draws a row per image, `transform_images` is the mathematics.

    Call arguments:
        images: (B, H, W, C) or (H, W, C), values in [0, 1].
        training: bool. False draws nothing; None means True, as in Keras' own augmentation layers.
        seed: what to draw from instead of the layer's own random state; see `RandomLayer.stream`.

    Args:
        seed: int in [0, 2**31), or None for a random one. Used when the layer is called without one.
    """

    # Deterministic transforms (False) act at inference too; random ones leave images as they are then.
    random = True
    # Colour means grey (one channel, nothing to do) or RGB (three).
    colour = False

    def build(self, input_shape):
        if self.random:
            self.generator = keras.random.SeedGenerator(self.seed)

    def call(self, images, training=None, seed=None):
        single = self._check(images)
        images = self.backend.cast(images, "float32")
        images = self.transform_batch(images[None] if single else images, training, seed)
        return images[0] if single else images

    def transform_batch(self, images, training, seed):
        if not self.random:
            return self.transform_images(images, None)
        if training is not None and not training:
            return self.inference(images)
        return self.transform_images(images, self.get_random_transformation(images, seed=self.stream(seed)))

    def get_random_transformation(self, images, training=True, seed=None):
        """What `transform_images` needs to know: a dict of tensors with one row per image, or None."""
        return None

    def transform_images(self, images, transformation, training=True):
        """The transform itself, on a float32 batch."""
        raise NotImplementedError

    def inference(self, images):
        """What a random transform does without randomness."""
        return images

    def core_layers(self, image_shape, name):
        """What the layer does at inference, as a list of core Keras layers: saved models consist of nothing else.

        Args:
            image_shape: tuple (H, W, C) of the input.
            name: str, unique; the names of the layers start with it.
        """
        return []

    def compute_output_shape(self, input_shape):
        return tuple(input_shape)

    def _check(self, images):
        shape = images.shape
        if len(shape) not in (3, 4) or any(side is None for side in tuple(shape)[-3:]):
            raise InvalidInputError(
                "Expected images (B, H, W, C), or one image (H, W, C), with H, W and C known. "
                f"Received: images.shape={tuple(shape)}"
            )
        self.check_channels(shape)
        return len(shape) == 3

    def check_channels(self, shape):
        if self.colour and shape[-1] not in (1, 3):
            raise InvalidInputError(
                f"Expected 1 (grey) or 3 (RGB) channels for {type(self).__name__}. "
                f"Received: images.shape={tuple(shape)}"
            )

    def _uniform(self, shape, seed, low=0.0, high=1.0):
        return self.backend.random.uniform(shape, low, high, dtype="float32", seed=seed)

    def _batch_size(self, images):
        return self.backend.shape(images)[0]


def serializable(transform):
    return keras.saving.register_keras_serializable("sslzoo")(transform)


def per_image(values):
    """(B,) -> (B, 1, 1, 1), to meet a batch of images."""
    return values[:, None, None, None]


# ----------------------------------------------------------------------------------------------------------------------
# Geometry: every output row is a weighted sum of input rows, every output column of input columns. Two matrix products
# per view, no gather, static shapes. J views of one image share it instead of copying it, and a flip is a matrix read
# backwards.


class SeparableTransform(ImageTransform):
    """Base of the transforms that two matrices per view describe, one for its rows and one for its columns.

    Where a GPU computes float32 products in TF32, pixels carry an error of up to 2**-11, an eighth of a grey level.

    Call arguments: as `ImageTransform`, and
        num_views: int J. Views per image; the result is (B * J, h, w, C), the views of one image in a row.
        flips: `Flip`s of different axes to apply afterwards, which costs nothing here.
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

    Args:
        size: int or (height, width) of the result, or None for the size of the input.
        scale: (low, high), fractions of the image's area, in (0, 1]. The "crop 0.4" of a paper is (0.4, 1.0).
        ratio: (low, high), width over height of the box, above 0.
        whole_pixels: bool. False lets boxes begin and end inside pixels, as a zoom does: for images of so few pixels
            that whole ones make the same box again and again.
        seed: as in `ImageTransform`.

    Reference: Szegedy et al., Going deeper with convolutions (2015), section 6.
    """

    def __init__(
        self,
        size: int | tuple[int, int] | None = None,
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3 / 4, 4 / 3),
        whole_pixels: bool = True,
        seed: int | None = None,
        **kwargs,
    ):
        super().__init__(seed=seed, **kwargs)
        self.whole_pixels = bool(whole_pixels)
        self.size = check_size(size)
        self.scale = check_interval("scale", scale, 0.0, 1.0, above=True)
        self.ratio = check_interval("ratio", ratio, 0.0, math.inf, above=True)

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

    Args:
        pixels: int, at least 1, below both sides of the image.
        seed: as in `ImageTransform`.
    """

    def __init__(self, pixels: int = 4, seed: int | None = None, **kwargs):
        super().__init__(seed=seed, **kwargs)
        if isinstance(pixels, bool) or not isinstance(pixels, int) or pixels < 1:
            raise InvalidInputError(f"Expected `pixels` as an int of at least 1. Received: pixels={pixels!r}")
        self.pixels = pixels

    def _check(self, images):
        single = super()._check(images)
        check_reflection(self.pixels, images.shape)
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

    torchvision's `GaussianBlur(kernel_size, sigma)`: the kernel is exp(-t^2 / 2 sigma^2) at whole t, normalised.

    Args:
        kernel_size: odd int. Pixels along each side, below twice the smaller side of the image.
        sigma: (low, high), uniform range of the standard deviation in pixels, above 0.
        probability: float in [0, 1].
        seed: as in `ImageTransform`.
    """

    def __init__(
        self,
        kernel_size: int = 3,
        sigma: tuple[float, float] = (0.1, 2.0),
        probability: float = 1.0,
        seed: int | None = None,
        **kwargs,
    ):
        super().__init__(seed=seed, **kwargs)
        if isinstance(kernel_size, bool) or not isinstance(kernel_size, int) or kernel_size < 1 or kernel_size % 2 == 0:
            raise InvalidInputError(f"Expected `kernel_size` as an odd int. Received: kernel_size={kernel_size!r}")
        self.kernel_size = kernel_size
        self.sigma = check_interval("sigma", sigma, 0.0, math.inf, above=True)
        self.probability = check_probability(probability)

    def _check(self, images):
        single = super()._check(images)
        check_reflection(self.kernel_size // 2, images.shape)
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
        )  # at 1e-3 pixels nothing reaches a neighbour

        def weight(distance):
            inside = nx.abs(distance) <= self.kernel_size // 2
            return nx.where(inside[None], nx.exp(nx.square(distance)[None] * precision), 0.0)

        kernel = weight(target - source) + weight(low) + weight(high)
        return kernel / nx.sum(kernel, axis=-1, keepdims=True)


@serializable
class Resize(ImageTransform):
    """Resizes every image, bilinear and antialiased. Deterministic.

    Args:
        size: int or (height, width).
    """

    random = False

    def __init__(self, size: int | tuple[int, int], **kwargs):
        super().__init__(**kwargs)
        self.size = check_size(size)
        if self.size is None:
            raise InvalidInputError("Expected `size` as an int or (height, width). Received: size=None")

    def transform_images(self, images, transformation, training=True):
        return resize(images, self.size, self.backend)

    def core_layers(self, image_shape, name):
        return resizing_layers(self.size, image_shape, name)

    def compute_output_shape(self, input_shape):
        return resized_shape(self.size, input_shape)


class Flip(ImageTransform):
    """Mirrors each image with a probability. Use `HorizontalFlip` or `VerticalFlip`.

    Args:
        probability: float in [0, 1].
        seed: as in `ImageTransform`.
    """

    axis = None

    def __init__(self, probability: float = 0.5, seed: int | None = None, **kwargs):
        super().__init__(seed=seed, **kwargs)
        self.probability = check_probability(probability)

    def get_random_transformation(self, images, training=True, seed=None):
        return {"flip": self._uniform((self._batch_size(images),), seed) < self.probability}

    def transform_images(self, images, transformation, training=True):
        nx = self.backend.numpy
        mirrored = nx.flip(images, axis=1 if self.axis == "rows" else 2)
        return nx.where(per_image(transformation["flip"]), mirrored, images)


@serializable
class HorizontalFlip(Flip):
    """Mirrors left and right with a probability.

    Args:
        probability: float in [0, 1].
        seed: as in `ImageTransform`.
    """

    axis = "columns"


@serializable
class VerticalFlip(Flip):
    """Turns images upside down with a probability.

    Args:
        probability: float in [0, 1].
        seed: as in `ImageTransform`.
    """

    axis = "rows"


# ----------------------------------------------------------------------------------------------------------------------
# Colour


@serializable
class ColorJitter(ImageTransform):
    """Brightness, contrast, saturation and hue by a random amount each, in an order drawn anew for each image.

    As torchvision's. With factor f, and values clipped to [0, 1] after each:
    brightness f x; contrast f x + (1 - f) mean(grey(x)); saturation f x + (1 - f) grey(x); hue turns the hue of HSV.
    f is uniform in [max(0, 1 - s), 1 + s] for strength s, or in the interval given; the turn is uniform in [-h, h], in
    fractions of the full circle. One-channel images have no saturation or hue: those two leave them as they are.

    Args:
        brightness: float s >= 0, or an interval (low, high) of factors, 0 <= low. 0 switches it off.
        contrast: as `brightness`.
        saturation: as `brightness`.
        hue: float h in [0, 0.5], or an interval in [-0.5, 0.5]. 0 switches it off.
        probability: float in [0, 1]. The fraction of images that are jittered at all.
        seed: as in `ImageTransform`.
    """

    colour = True
    affine = ("brightness", "contrast", "saturation")

    def __init__(
        self,
        brightness: float | tuple[float, float] = 0.0,
        contrast: float | tuple[float, float] = 0.0,
        saturation: float | tuple[float, float] = 0.0,
        hue: float | tuple[float, float] = 0.0,
        probability: float = 1.0,
        seed: int | None = None,
        **kwargs,
    ):
        super().__init__(seed=seed, **kwargs)
        self.brightness = check_factor("brightness", brightness)
        self.contrast = check_factor("contrast", contrast)
        self.saturation = check_factor("saturation", saturation)
        if isinstance(hue, (int, float)) and not isinstance(hue, bool) and hue >= 0:
            hue = (-hue, hue)
        self.hue = check_interval("hue", hue, -0.5, 0.5)
        self.probability = check_probability(probability)

    def get_random_transformation(self, images, training=True, seed=None):
        """Dict of float32: brightness, contrast, saturation, hue (B,), and order (B, 4): lower comes first."""
        uniform = self._uniform((self._batch_size(images), 9), seed)
        jitter = uniform[:, 8] < self.probability
        draws = {"order": uniform[:, 4:8]}
        for column, name in enumerate((*self.affine, "hue")):
            low, high = getattr(self, name)
            amount = low + (high - low) * uniform[:, column]
            draws[name] = self.backend.numpy.where(jitter, amount, 0.0 if name == "hue" else 1.0)
        return draws

    def transform_images(self, images, transformation, training=True):
        nx = self.backend.numpy
        grey_images = images.shape[-1] == 1
        names = [n for n in self.affine if getattr(self, n) != (1.0, 1.0) and not (grey_images and n == "saturation")]
        turns = self.hue != (0.0, 0.0) and not grey_images
        order = {name: transformation["order"][:, i] for i, name in enumerate((*self.affine, "hue"))}
        slots = {name: self._slot(name, names, order) for name in names}

        # Brightness, contrast and saturation are one formula, f x + (1 - f) pivot, so a slot costs one pass whichever
        # of them an image has there. Hue is dear: it runs once, between the slots before it and the slots after it, and
        # a slot whose operation belongs to the other side has f = 1. Six cheap passes and a dear one, for any of the 24
        # orders.
        planes = nx.transpose(images, (3, 0, 1, 2))
        for side in ("before hue", "after hue") if turns else ("",):
            for slot in range(len(names)):
                factors = {}
                for name in names:
                    here = slots[name] == slot
                    if turns:
                        before = order[name] < order["hue"]
                        here = nx.logical_and(here, before if side == "before hue" else nx.logical_not(before))
                    factors[name] = nx.where(here, transformation[name], 1.0)
                planes = self._blend(planes, factors)
            if side == "before hue":
                planes = self._turn_hue(planes, transformation["hue"])
        return nx.transpose(planes, (1, 2, 3, 0))

    def _slot(self, name, names, order):
        """(B,) place of `name` among `names` in each image's order; ties go to the first, so that no slot holds two."""
        place = self.backend.numpy.zeros_like(order[name])
        for other in names:
            if other != name:
                first = names.index(other) < names.index(name)
                ahead = order[other] <= order[name] if first else order[other] < order[name]
                place = place + self.backend.cast(ahead, "float32")
        return place

    def _blend(self, planes, factors):
        """f x + (1 - f) pivot, clipped; of an image's factors, each (B,), at most one differs from 1."""
        nx = self.backend.numpy
        scale, shift = 1.0, 0.0
        grey = self._grey(planes) if set(factors) - {"brightness"} else None
        for name, factor in factors.items():
            scale = scale * factor
            if name == "contrast":
                shift = shift + ((1 - factor) * nx.mean(grey, axis=(1, 2)))[:, None, None]
            elif name == "saturation":
                shift = shift + (1 - factor)[:, None, None] * grey
        return nx.clip(planes * scale[:, None, None] + shift, 0.0, 1.0)

    def _grey(self, planes):
        if planes.shape[0] == 1:
            return planes[0]
        return LUMA[0] * planes[0] + LUMA[1] * planes[1] + LUMA[2] * planes[2]

    def _turn_hue(self, planes, turn):
        """Planes (3, B, H, W) with hue + `turn` (B,), in circles; saturation and value stay."""
        nx = self.backend.numpy
        red, green, blue = planes[0], planes[1], planes[2]
        value = nx.maximum(nx.maximum(red, green), blue)
        chroma = value - nx.minimum(nx.minimum(red, green), blue)
        inverse = 1.0 / nx.where(chroma > 0, chroma, 1.0)
        hue = nx.where(
            value == red,
            (green - blue) * inverse,
            nx.where(value == green, 2.0 + (blue - red) * inverse, 4.0 + (red - green) * inverse),
        )
        hue = hue + (6.0 * turn)[:, None, None]

        # Of the six parts of the circle, a channel is full within one of its own hue and empty beyond two. `mod` would
        # be a library call per pixel under XLA on a CPU, ten times the cost of all the rest; floor is one instruction.
        def channel(own_hue):
            distance = hue - own_hue
            distance = nx.abs(distance - 6.0 * nx.floor(distance * (1 / 6) + 0.5))
            return value - chroma * nx.clip(distance - 1.0, 0.0, 1.0)

        return nx.stack([channel(0.0), channel(2.0), channel(4.0)])


@serializable
class Grayscale(ImageTransform):
    """Turns an image grey (ITU-R 601, all channels equal) with a probability. One-channel images stay as they are.

    Args:
        probability: float in [0, 1].
        seed: as in `ImageTransform`.
    """

    colour = True

    def __init__(self, probability: float = 0.1, seed: int | None = None, **kwargs):
        super().__init__(seed=seed, **kwargs)
        self.probability = check_probability(probability)

    def get_random_transformation(self, images, training=True, seed=None):
        return {"grey": self._uniform((self._batch_size(images),), seed) < self.probability}

    def transform_images(self, images, transformation, training=True):
        if images.shape[-1] == 1:
            return images
        grey = LUMA[0] * images[..., 0:1] + LUMA[1] * images[..., 1:2] + LUMA[2] * images[..., 2:3]
        return self.backend.numpy.where(per_image(transformation["grey"]), grey, images)


@serializable
class Solarize(ImageTransform):
    """Inverts the pixels at or above a threshold, with a probability per image.

    Args:
        threshold: float in [0, 1].
        probability: float in [0, 1].
        seed: as in `ImageTransform`.
    """

    def __init__(self, threshold: float = 0.5, probability: float = 1.0, seed: int | None = None, **kwargs):
        super().__init__(seed=seed, **kwargs)
        self.threshold = check_number("threshold", threshold, 0.0, 1.0)
        self.probability = check_probability(probability)

    def get_random_transformation(self, images, training=True, seed=None):
        return {"solarize": self._uniform((self._batch_size(images),), seed) < self.probability}

    def transform_images(self, images, transformation, training=True):
        nx = self.backend.numpy
        invert = nx.logical_and(images >= self.threshold, per_image(transformation["solarize"]))
        return nx.where(invert, 1.0 - images, images)


# ----------------------------------------------------------------------------------------------------------------------
# Values


class PointwiseTransform(ImageTransform):
    """Base of what takes each number by itself, and so tensors (B, ...) of any shape, points (B, D) included."""

    def call(self, images, training=None, seed=None):
        self.check_channels(images.shape)
        return self.transform_batch(self.backend.cast(images, "float32"), training, seed)


@serializable
class GaussianNoise(PointwiseTransform):
    """Adds independent normal noise to each value, without clipping.

    Args:
        stddev: float, at least 0, in the units of the input.
        seed: as in `ImageTransform`.
    """

    def __init__(self, stddev: float, seed: int | None = None, **kwargs):
        super().__init__(seed=seed, **kwargs)
        self.stddev = check_number("stddev", stddev, 0.0, math.inf)

    def get_random_transformation(self, images, training=True, seed=None):
        shape = self.backend.shape(images)
        return {"noise": self.backend.random.normal(shape, 0.0, self.stddev, dtype="float32", seed=seed)}

    def transform_images(self, images, transformation, training=True):
        return images + transformation["noise"]


@serializable
class Threshold(PointwiseTransform):
    """1 where a value is above the threshold, else 0. Deterministic.

    Args:
        value: float above 0.
    """

    random = False

    def __init__(self, value: float = 0.5, **kwargs):
        super().__init__(**kwargs)
        self.value = check_number("value", value, 1e-6, math.inf)

    def transform_images(self, images, transformation, training=True):
        return self.backend.cast(images > self.value, "float32")

    def core_layers(self, image_shape, name):
        # A step function out of two core layers, exact in float32: a product with a power of two rounds nothing, so
        # 2**64 (x - value) is 0 at the threshold and beyond +-1 everywhere else, and the clip to [0, 1] does the rest.
        # Unlike a comparison it has a gradient (0), which input gradients need.
        steep = 2.0**64
        return [
            keras.layers.Rescaling(steep, -self.value * steep, dtype="float32", name=f"{name}_difference"),
            keras.layers.ReLU(max_value=1.0, dtype="float32", name=f"{name}_step"),
        ]


@serializable
class Normalize(PointwiseTransform):
    """(x - mean) / std, per channel or for all. Deterministic.

    Args:
        mean: float, or one per channel.
        std: float above 0, or one per channel.
    """

    random = False

    def __init__(self, mean: float | tuple[float, ...], std: float | tuple[float, ...], **kwargs):
        super().__init__(**kwargs)
        self.mean = check_channels("mean", mean, -math.inf)
        self.std = check_channels("std", std, 1e-12)

    def _scale_and_offset(self):
        mean, std = np.broadcast_arrays(np.float64(self.mean), np.float64(self.std))
        scale, offset = 1 / std, -mean / std
        return (scale.tolist(), offset.tolist())

    def check_channels(self, shape):
        channels = np.size(self._scale_and_offset()[0])
        if channels not in (1, shape[-1]):
            raise InvalidInputError(
                f"Expected images with {channels} channels, one for each of mean={self.mean}, std={self.std}. "
                f"Received: images.shape={tuple(shape)}"
            )

    def transform_images(self, images, transformation, training=True):
        scale, offset = (self.backend.convert_to_tensor(x, dtype="float32") for x in self._scale_and_offset())
        return images * scale + offset

    def core_layers(self, image_shape, name):
        scale, offset = self._scale_and_offset()
        return [keras.layers.Rescaling(scale, offset, dtype="float32", name=name)]


# ----------------------------------------------------------------------------------------------------------------------
# Any other layer as a step


@serializable
class RandomApply(ImageTransform):
    """Applies a step to each image with a probability, and else leaves the image alone; at inference always.

    Args:
        step: a Keras layer that keeps the shape of images: one of this module, or another's (see `apply_step`).
        probability: float in [0, 1].
        seed: as in `ImageTransform`.
    """

    def __init__(self, step: keras.Layer, probability: float = 0.5, seed: int | None = None, **kwargs):
        super().__init__(seed=seed, **kwargs)
        if not isinstance(step, keras.Layer):
            raise InvalidInputError(f"Expected `step` as a Keras layer. Received: step={step!r}")
        adopt(step)
        self.step = step
        self.probability = check_probability(probability)

    def transform_batch(self, images, training, seed):
        if training is not None and not training:
            return images
        stream = self.stream(seed)
        apply = self._uniform((self._batch_size(images),), stream) < self.probability
        changed = apply_step(self.step, images, True, stream, self.backend)
        if tuple(changed.shape[1:]) != tuple(images.shape[1:]):
            raise InvalidInputError(
                "Expected a step that keeps the shape inside RandomApply, since some images stay as they are. "
                f"Received: step={self.step.name!r}, {tuple(images.shape[1:])} -> {tuple(changed.shape[1:])}"
            )
        return self.backend.numpy.where(per_image(apply), changed, images)

    def get_config(self):
        return {**super().get_config(), "step": keras.saving.serialize_keras_object(self.step)}

    @classmethod
    def from_config(cls, config):
        return cls(**{**config, "step": keras.saving.deserialize_keras_object(config["step"])})


def adopt(step):
    """Tells a transform that its owner draws for it: it then makes no random state of its own."""
    if isinstance(step, ImageTransform):
        step.built = True


def apply_step(step, images, training, stream, backend):
    """Runs any layer on a float32 batch as a step: `stream` supplies the random numbers wherever the layer allows it.

    - Transforms of this module, and Keras' image layers (also those inside them), draw from `stream`.
    - Other Keras layers (`keras.layers.GaussianNoise`, your own) draw from their own generator and compute with the
      active backend: they work in a model, and inside `tf.data` under TensorFlow only.
    - KerasCV layers compute with TensorFlow and draw from TensorFlow's generators. They have no inference mode, and so
      are left out at inference.

    Args:
        step: a Keras layer.
        images: (B, H, W, C) float32.
        training: bool.
        stream: `Stream`, or None if not `training`.
        backend: the Keras backend that `images` belong to.

    Returns:
        (B, h, w, c) float32.

    Raises:
        InvalidInputError: the layer cannot run where it is asked to.
    """
    if isinstance(step, ImageTransform):
        return step(images, training=training, seed=stream)

    if is_keras_cv(step):
        if not training:
            return images
        if backend.name != "tensorflow":
            raise InvalidInputError(
                "Expected TensorFlow around a KerasCV layer: use these views inside `tf.data`, which works under every "
                f"backend, or run with KERAS_BACKEND=tensorflow. Received: step={step.name!r}, backend={backend.name!r}"
            )
        return backend.cast(step(images), "float32")

    is_data_layer = isinstance(step, DataLayer)
    if not is_data_layer and backend.name != keras.backend.backend():
        raise InvalidInputError(
            f"Expected a preprocessing layer inside `tf.data`: {type(step).__name__} computes with "
            f"{keras.backend.backend()} and can be a step only inside a model. Received: step={step.name!r}"
        )
    arguments = {"training": training} if "training" in inspect.signature(step.call).parameters else {}
    with _drawing_from(step, stream) if is_data_layer and training else contextlib.nullcontext():
        return backend.cast(step(images, **arguments), "float32")


def is_keras_cv(step):
    return any(base.__module__.partition(".")[0] == "keras_cv" for base in type(step).__mro__)


@contextlib.contextmanager
def _drawing_from(step, stream):
    """Keras' image layers, and those inside them, ask `_get_seed_generator` what to draw from: it answers `stream`."""
    layers = [layer for layer in step._flatten_layers() if isinstance(layer, DataLayer)]
    for layer in layers:
        object.__setattr__(layer, "_get_seed_generator", lambda backend=None: stream)
    try:
        yield
    finally:
        for layer in layers:
            object.__delattr__(layer, "_get_seed_generator")


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
    return [keras.layers.Resizing(*size, name=f"{name}_resize", **options)]


# ----------------------------------------------------------------------------------------------------------------------
# Checks of arguments; each returns the value in the form that is kept


def check_number(name, value, low, high):
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise InvalidInputError(f"Expected `{name}` as a number in [{low}, {high}]. Received: {name}={value!r}")
    return float(value)


def check_probability(value):
    return check_number("probability", value, 0.0, 1.0)


def check_interval(name, value, low, high, above=False):
    """(a, b) with low <= a <= b <= high; low < a if `above`."""
    good = isinstance(value, (tuple, list)) and len(value) == 2 and all(isinstance(v, (int, float)) for v in value)
    if not good or not low <= value[0] <= value[1] <= high or (above and value[0] <= low) or math.isinf(value[1]):
        bracket = "(" if above else "["
        raise InvalidInputError(
            f"Expected `{name}` as (low, high) with low <= high, in {bracket}{low}, {high}]. Received: {name}={value!r}"
        )
    return (float(value[0]), float(value[1]))


def check_factor(name, value):
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0:
        return (max(0.0, 1.0 - value), 1.0 + value)
    return check_interval(name, value, 0.0, math.inf)


def check_channels(name, value, low):
    values = value if isinstance(value, (tuple, list)) else [value]
    if not values or not all(isinstance(v, (int, float)) and not isinstance(v, bool) and v >= low for v in values):
        raise InvalidInputError(
            f"Expected `{name}` as a number >= {low}, or one per channel. Received: {name}={value!r}"
        )
    return tuple(float(v) for v in values) if isinstance(value, (tuple, list)) else float(value)


def check_size(size):
    """None, or (height, width)."""
    if size is None:
        return None
    sides = size if isinstance(size, (tuple, list)) else (size, size)
    if len(sides) != 2 or not all(isinstance(s, int) and not isinstance(s, bool) and s >= 1 for s in sides):
        raise InvalidInputError(f"Expected `size` as an int or (height, width), at least 1. Received: size={size!r}")
    return tuple(sides)


def check_reflection(pixels, shape):
    if min(tuple(shape)[-3:-1]) <= pixels:
        raise InvalidInputError(
            f"Expected images with sides above {pixels} pixels, since that many are reflected at the border. "
            f"Received: images.shape={tuple(shape)}"
        )
