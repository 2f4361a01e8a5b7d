"""How well features predict how an image was changed; no labels are needed."""

import dataclasses

from sslzoo import checks
from sslzoo.errors import InvalidInputError
from sslzoo.evaluation import style
from sslzoo.evaluation.protocols.protocol import DoesNotApply, Number, Protocol, Result
from sslzoo.networks import composition

# metric -> label, note, chance
_NOTES = {
    "kept": ("style kept", "mean of the R2 below, none below 0; no flip: no views turn images upside down", 0.0),
    "flip_accuracy": ("vertical flip, accuracy", "half of the images are flipped", 0.5),
    "position_r2": ("crop position, R2", "of its middle, both coordinates", 0.0),
    "size_r2": ("crop size, R2", "of its side; 40 to 100 % of the area", 0.0),
    "hue_r2": ("hue, R2", "of its turn, up to a fifth of the circle either way", 0.0),
    "brightness_r2": ("brightness, R2", "of its factor, 0.2 to 1.8", 0.0),
}


@dataclasses.dataclass
class Style(Protocol):
    """From the features of a changed image: whether it is upside down, where it was cropped and how large, and in
    color its turn of hue and its brightness (`sslzoo.evaluation.style`).

    Args:
        style_images: (int, int), train and test images, chosen at random.
    """

    name, title = "style", "style probe"

    style_images: tuple[int, int] = (style.TRAIN, style.TEST)

    def __post_init__(self):
        given = self.style_images
        if not isinstance(given, (tuple, list)) or len(given) != 2:
            raise InvalidInputError(f"style_images must be (train, test). Received: style_images={given!r}")
        for least, images in zip((style.LEAST_TRAIN, style.LEAST_TEST), given):
            checks.count(least, style_images=images)

    def check(self, subject):
        if composition.input_range(subject.encoder) != (0, 255) or subject.train_images.shape[-1] not in (1, 3):
            raise DoesNotApply("The style probe needs gray or color images in 0..255", "others")
        train, test = len(subject.train_images), len(subject.test_images)
        if train < style.LEAST_TRAIN or test < style.LEAST_TEST:
            least = f"at least {style.LEAST_TRAIN} train and {style.LEAST_TEST} test images"
            raise DoesNotApply(f"The style probe needs {least}", f"{train} and {test}")

    def run(self, subject):
        images = subject.train_images, subject.test_images
        progress = subject.progress(self.title)
        how = subject.seed, subject.batch_size, self.style_images, progress, subject.in_no_order
        scores = style.scores(subject.encoder, *images, *how)
        numbers = {}
        for metric, value in scores.items():
            label, note, chance = _NOTES[metric.removeprefix("linear_")]
            linear = metric.startswith("linear_")
            how = f"{note}; {'linear' if linear else 'kernel'} ridge regression"
            numbers[metric] = Number(value, label + ", linearly" * linear, how, chance, shown=not linear)
        train, test = (min(most, len(some)) for most, some in zip(self.style_images, images))
        probe = "kernel ridge regression, Gaussian kernel as wide as the median distance"
        settings = {
            "train": train,
            "test": test,
            "probe": probe,
            "ridges": list(style.RIDGES),
            "area": list(style.AREA),
        }
        settings |= {"hue": style.HUE, "brightness": style.BRIGHTNESS} if "hue_r2" in scores else {}
        return Result(numbers, settings)
