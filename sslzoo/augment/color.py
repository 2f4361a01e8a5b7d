"""Transforms of color: jitter, gray, solarization, Lab. The meanings, and so the numbers, are torchvision's."""

import math

import keras

from sslzoo import checks
from sslzoo.augment.transform import ImageTransform, per_image, serializable
from sslzoo.errors import InvalidInputError

# sRGB (IEC 61966-2-1) to XYZ under D65, each row divided by the white it gives, as in scikit-image: white is (1, 1, 1).
_XYZ = (
    (0.412453 / 0.95047, 0.357580 / 0.95047, 0.180423 / 0.95047),
    (0.212671, 0.715160, 0.072169),
    (0.019334 / 1.08883, 0.119193 / 1.08883, 0.950227 / 1.08883),
)
LUMA = (0.299, 0.587, 0.114)  # ITU-R 601, what Pillow and torchvision call gray


@serializable
class ColorJitter(ImageTransform):
    """Brightness, contrast, saturation and hue by a random amount each, in an order drawn anew for each image.

    As torchvision's. With factor f, and values clipped to [0, 1] after each:
    brightness f x; contrast f x + (1 - f) mean(gray(x)); saturation f x + (1 - f) gray(x); hue turns the hue of HSV.
    f is uniform in [max(0, 1 - s), 1 + s] for strength s, or in the interval given; the turn is uniform in [-h, h], in
    fractions of the full circle. One-channel images have no saturation or hue: those two leave them as they are.

    Example:
        import numpy as np
        from sslzoo import augment

        images = np.random.default_rng(0).uniform(size=(4, 8, 8, 3)).astype("float32")
        augment.ColorJitter(brightness=0.8, contrast=0.8, saturation=0.8, hue=0.2)(images).shape  # (4, 8, 8, 3)

    Args:
        brightness: float s >= 0, or an interval (low, high) of factors, 0 <= low. 0 switches it off.
        contrast: as `brightness`.
        saturation: as `brightness`.
        hue: float h in [0, 0.5], or an interval in [-0.5, 0.5]. 0 switches it off.
        probability: float in [0, 1]. The fraction of images that are jittered at all.
        seed: as in `ImageTransform`.
    """

    color = True
    affine = ("brightness", "contrast", "saturation")

    def __init__(self, brightness=0.0, contrast=0.0, saturation=0.0, hue=0.0, probability=1.0, seed=None, **kwargs):
        super().__init__(seed=seed, **kwargs)
        self.brightness = _factor(brightness=brightness)
        self.contrast = _factor(contrast=contrast)
        self.saturation = _factor(saturation=saturation)
        if checks.is_number(hue) and hue >= 0:
            hue = (-hue, hue)
        self.hue = checks.interval(-0.5, 0.5, hue=hue)
        self.probability = checks.fraction(probability=probability)

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
        gray_images = images.shape[-1] == 1
        names = [n for n in self.affine if getattr(self, n) != (1.0, 1.0) and not (gray_images and n == "saturation")]
        turns = self.hue != (0.0, 0.0) and not gray_images
        order = {name: transformation["order"][:, i] for i, name in enumerate((*self.affine, "hue"))}
        slots = {name: self._slot(name, names, order) for name in names}

        # Brightness, contrast and saturation are one formula, f x + (1 - f) pivot, so a slot costs one pass whichever
        # of them an image has there. Hue is dear: it runs once, between the slots before it and the slots after it, and
        # a slot whose operation belongs to the other side has f = 1. Six cheap passes and a dear one, for any of the 24
        # orders.
        planes = nx.transpose(images, (3, 0, 1, 2))
        if self.backend.name == "torch":  # where this is a view, in whose every third number all that follows would run
            planes = planes.contiguous()
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
        scale, shift = 1.0, None
        gray = self._gray(planes) if set(factors) - {"brightness"} else None
        for name, factor in factors.items():
            scale = scale * factor
            if name == "contrast":
                more = ((1 - factor) * nx.mean(gray, axis=(1, 2)))[:, None, None]
            elif name == "saturation":
                more = (1 - factor)[:, None, None] * gray
            else:
                continue
            shift = more if shift is None else shift + more
        scale = scale[:, None, None]
        if shift is None:
            return nx.clip(planes * scale, 0.0, 1.0)
        if self.backend.name == "torch":  # which fuses nothing by itself: two passes and one array instead of three
            return shift.addcmul(planes, scale).clamp_(0.0, 1.0)
        return nx.clip(planes * scale + shift, 0.0, 1.0)

    def _gray(self, planes):
        if planes.shape[0] == 1:
            return planes[0]
        if self.backend.name == "torch":
            return (LUMA[0] * planes[0]).add_(planes[1], alpha=LUMA[1]).add_(planes[2], alpha=LUMA[2])
        return LUMA[0] * planes[0] + LUMA[1] * planes[1] + LUMA[2] * planes[2]

    def _turn_hue(self, planes, turn):
        """Planes (3, B, H, W) with hue + `turn` (B,), in circles; saturation and value stay."""
        nx = self.backend.numpy
        red, green, blue = planes[0], planes[1], planes[2]
        value = nx.maximum(nx.maximum(red, green), blue)
        chroma = value - nx.minimum(nx.minimum(red, green), blue)
        sixfold = 6.0 * chroma
        inverse = 1.0 / nx.where(chroma > 0, sixfold, 1.0)
        hue = nx.where(
            value == red,
            (green - blue) * inverse,
            nx.where(value == green, 1 / 3 + (blue - red) * inverse, 2 / 3 + (red - green) * inverse),
        )
        hue = hue + turn[:, None, None]

        # A channel is full within a sixth of the circle of its own hue and empty beyond two. `mod` would be a library
        # call per pixel under XLA on a CPU, ten times the cost of all the rest; rounding is one instruction.
        full = value + chroma

        def channel(own_hue):
            distance = hue - own_hue
            distance = nx.abs(distance - nx.round(distance))
            return full - sixfold * nx.clip(distance, 1 / 6, 1 / 3)

        return nx.stack([channel(0.0), channel(1 / 3), channel(2 / 3)])


@serializable
class Grayscale(ImageTransform):
    """Turns an image gray (ITU-R 601, all channels equal) with a probability. One-channel images stay as they are.

    Example:
        import numpy as np
        from sslzoo import augment

        images = np.random.default_rng(0).uniform(size=(4, 8, 8, 3)).astype("float32")
        augment.Grayscale(probability=0.2)(images).shape  # (4, 8, 8, 3)

    Args:
        probability: float in [0, 1].
        seed: as in `ImageTransform`.
    """

    color = True

    def __init__(self, probability: float = 0.1, seed: int | None = None, **kwargs):
        super().__init__(seed=seed, **kwargs)
        self.probability = checks.fraction(probability=probability)

    def get_random_transformation(self, images, training=True, seed=None):
        return {"gray": self._uniform((self._batch_size(images),), seed) < self.probability}

    def transform_images(self, images, transformation, training=True):
        if images.shape[-1] == 1:
            return images
        gray = LUMA[0] * images[..., 0:1] + LUMA[1] * images[..., 1:2] + LUMA[2] * images[..., 2:3]
        return self.backend.numpy.where(per_image(transformation["gray"]), gray, images)


@serializable
class Solarize(ImageTransform):
    """Inverts the pixels at or above a threshold, with a probability per image.

    Example:
        import numpy as np
        from sslzoo import augment

        images = np.random.default_rng(0).uniform(size=(4, 8, 8, 3)).astype("float32")
        augment.Solarize(threshold=0.5, probability=0.2)(images).shape  # (4, 8, 8, 3)

    Args:
        threshold: float in [0, 1].
        probability: float in [0, 1].
        seed: as in `ImageTransform`.
    """

    def __init__(self, threshold: float = 0.5, probability: float = 1.0, seed: int | None = None, **kwargs):
        super().__init__(seed=seed, **kwargs)
        self.threshold = checks.fraction(threshold=threshold)
        self.probability = checks.fraction(probability=probability)

    def get_random_transformation(self, images, training=True, seed=None):
        return {"solarize": self._uniform((self._batch_size(images),), seed) < self.probability}

    def transform_images(self, images, transformation, training=True):
        nx = self.backend.numpy
        invert = nx.logical_and(images >= self.threshold, per_image(transformation["solarize"]))
        return nx.where(invert, 1.0 - images, images)


@serializable
class Lab(ImageTransform):
    """From RGB to CIE L*a*b* (sRGB, D65): channel 0 is lightness, 1 and 2 are color. Deterministic.

    L runs from 0 to 100, a from green to magenta, b from blue to yellow; a gray pixel has a = b = 0.

    Example:
        import numpy as np
        from sslzoo import augment

        images = np.random.default_rng(0).uniform(size=(4, 8, 8, 3)).astype("float32")
        augment.Lab()(images).shape  # (4, 8, 8, 3)

    Args:
        scaled: bool. True brings each channel to [-1, 1] over all sRGB colors, as in the code of CMC: (L - 50) / 50,
            (a - 6.025) / 92.208, (b + 6.6895) / 101.1675. False leaves L*a*b*.

    Reference:
        CIE 15:2004; Tian, Krishnan and Isola, "Contrastive Multiview Coding", for the scales.
    """

    random = False
    color = True

    def __init__(self, scaled: bool = True, **kwargs):
        super().__init__(**kwargs)
        self.scaled = bool(scaled)

    def check_channels(self, shape):
        if shape[-1] != 3:
            raise InvalidInputError(f"images must be RGB, of 3 channels. Received: images.shape={tuple(shape)}")

    def transform_images(self, images, transformation, training=True):
        return self._convert(images, self.backend.numpy)

    def core_layers(self, image_shape, name):
        return [lambda images: self._convert(images, keras.ops)]  # of Keras' operations, which saved models may hold

    def _convert(self, images, nx):
        # Each power is taken of numbers from its own side of the bend alone: the other side's slopes are infinite.
        bright = nx.power((nx.maximum(images, 0.04045) + 0.055) / 1.055, 2.4)
        linear = nx.where(images > 0.04045, bright, images / 12.92)
        red, green, blue = linear[..., 0:1], linear[..., 1:2], linear[..., 2:3]
        bend = (6 / 29) ** 3
        perceived = []
        for of_red, of_green, of_blue in _XYZ:
            x = of_red * red + of_green * green + of_blue * blue
            root = nx.power(nx.maximum(x, bend), 1 / 3)
            perceived.append(nx.where(x > bend, root, x * (29 / 6) ** 2 / 3 + 4 / 29))
        x, y, z = perceived
        lightness, a, b = 116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)
        if self.scaled:
            lightness, a, b = lightness / 50.0 - 1.0, (a - 6.025) / 92.208, (b + 6.6895) / 101.1675
        return nx.concatenate([lightness, a, b], axis=-1)


def _factor(**argument):
    """A strength s >= 0, which means factors from max(0, 1 - s) to 1 + s, or the range (low, high) itself."""
    ((_, value),) = argument.items()
    if checks.is_number(value) and 0 <= value < math.inf:
        return (max(0.0, 1.0 - value), 1.0 + value)
    return checks.interval(0, math.inf, **argument)
