"""The image transforms that Keras lacks: one random draw per image, on every backend, in a model and inside `tf.data`.

Each is a Keras layer from images (B, H, W, C), or one image (H, W, C), to images; float32 under every dtype policy,
values in [0, 1] until `Normalize` or `GaussianNoise`. `training=False` draws nothing and leaves only what is
deterministic. The meanings, and so the numbers, are torchvision's, because that is what papers print.

`sslzoo.views.Views` strings these layers into policies and then hands each of them the random numbers; a layer used on
its own draws from its own `seed`, or from `seed=` given in the call.
"""

import sslzoo.backend  # noqa: F401 - before Keras
from sslzoo.augment.color import ColorJitter, Grayscale, Lab, Solarize
from sslzoo.augment.geometry import (
    Flip,
    GaussianBlur,
    HorizontalFlip,
    RandomResizedCrop,
    RandomShift,
    Resize,
    SeparableTransform,
    VerticalFlip,
)
from sslzoo.augment.rotation import QuarterTurn, Rotation
from sslzoo.augment.steps import RandomApply
from sslzoo.augment.transform import ImageTransform, PointwiseTransform
from sslzoo.augment.values import GaussianNoise, Normalize, Threshold

__all__ = [
    "ColorJitter",
    "Flip",
    "GaussianBlur",
    "GaussianNoise",
    "Grayscale",
    "HorizontalFlip",
    "ImageTransform",
    "Lab",
    "Normalize",
    "PointwiseTransform",
    "QuarterTurn",
    "RandomApply",
    "RandomResizedCrop",
    "RandomShift",
    "Resize",
    "Rotation",
    "SeparableTransform",
    "Solarize",
    "Threshold",
    "VerticalFlip",
]
