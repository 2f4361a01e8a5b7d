"""Transforms of single values: noise, threshold, normalization."""

import math

import keras
import numpy as np

from sslzoo import checks
from sslzoo.augment.transform import PointwiseTransform, serializable
from sslzoo.errors import InvalidInputError


@serializable
class GaussianNoise(PointwiseTransform):
    """Adds independent normal noise to each value, without clipping.

    Example:
        import numpy as np
        from sslzoo import augment

        images = np.random.default_rng(0).uniform(size=(4, 8, 8, 3)).astype("float32")
        augment.GaussianNoise(stddev=0.03)(images).shape  # (4, 8, 8, 3)

    Args:
        stddev: float, at least 0, in the units of the input.
        seed: as in `ImageTransform`.
    """

    def __init__(self, stddev: float, seed: int | None = None, **kwargs):
        super().__init__(seed=seed, **kwargs)
        self.stddev = checks.number(0, stddev=stddev)

    def get_random_transformation(self, images, training=True, seed=None):
        shape = self.backend.shape(images)
        return {"noise": self.backend.random.normal(shape, 0.0, self.stddev, dtype="float32", seed=seed)}

    def transform_images(self, images, transformation, training=True):
        return images + transformation["noise"]


@serializable
class Threshold(PointwiseTransform):
    """1 where a value is above the threshold, else 0. Deterministic.

    Example:
        import numpy as np
        from sslzoo import augment

        images = np.random.default_rng(0).uniform(size=(4, 8, 8, 3)).astype("float32")
        augment.Threshold(0.5)(images).shape  # (4, 8, 8, 3)

    Args:
        value: float above 0.
    """

    random = False

    def __init__(self, value: float = 0.5, **kwargs):
        super().__init__(**kwargs)
        self.value = checks.number(1e-6, value=value)

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

    Example:
        import numpy as np
        from sslzoo import augment

        images = np.random.default_rng(0).uniform(size=(4, 8, 8, 3)).astype("float32")
        augment.Normalize(mean=0.5, std=0.5)(images).shape  # (4, 8, 8, 3)

    Args:
        mean: float, or one per channel.
        std: float above 0, or one per channel.
    """

    random = False

    def __init__(self, mean: float | tuple[float, ...], std: float | tuple[float, ...], **kwargs):
        super().__init__(**kwargs)
        self.mean = _per_channel(-math.inf, mean=mean)
        self.std = _per_channel(1e-12, std=std)
        if len({np.size(values) for values in (self.mean, self.std)} - {1}) > 1:
            raise InvalidInputError(f"mean and std must be of as many channels. Received: {mean=}, {std=}")

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
        # A plain row of numbers is one for the first axis where Keras is set to "channels_first".
        scale, offset = (x if np.ndim(x) == 0 else [[x]] for x in self._scale_and_offset())
        return [keras.layers.Rescaling(scale, offset, dtype="float32", name=name)]


def _per_channel(least, **argument):
    """A number of at least `least`, or one per channel, as float."""
    ((name, value),) = argument.items()
    if not isinstance(value, (tuple, list)):
        return float(checks.number(least, **argument))
    if not value or not all(checks.is_number(v) and v >= least for v in value):
        raise InvalidInputError(f"{name} must be a number >= {least:g}, or one per channel. Received: {name}={value!r}")
    return tuple(float(v) for v in value)
