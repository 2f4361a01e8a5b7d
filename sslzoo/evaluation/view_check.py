"""What a policy of views does to somebody's images, before anything is trained on them."""

import base64
import dataclasses
import html
import os
from pathlib import Path

import keras
import numpy as np

from sslzoo import checks, views
from sslzoo.errors import InvalidInputError
from sslzoo.evaluation import pictures
from sslzoo.evaluation.features import spread
from sslzoo.files import write_beside

DARK, FLAT = 0.05, 0.02  # mean and standard deviation below which a view shows nothing


@dataclasses.dataclass
class ViewCheck:
    """Random views of images, and how much of them is lost. `str()` is a table, `page` writes a page with a picture.

    Example:
        from sslzoo import data, evaluation

        images, _ = data.load("digits", "train")
        check: evaluation.ViewCheck = evaluation.check_views(images[:16], "simvae-digits")
        print(check)

    Attributes:
        images: the images (N, H, W, C) that views were made of.
        made: float32 (N, J, h, w, C), the views.
        measures: dict of floats 0..1. "clipped": share of the values of views at the ends 0 and 1, less the share that
            the images have there; "dark": share of views whose mean is below 0.05, of images whose mean is not; "flat":
            share of views whose values have a standard deviation below 0.02, of images that have more.
    """

    images: np.ndarray
    made: np.ndarray
    measures: dict[str, float]
    policy: str

    def remarks(self) -> list[str]:
        """What to change, where much is lost."""
        cures = {
            "clipped": "the brightness and contrast of its jitter are too strong for these images",
            "dark": "they say nothing of their images: milder brightness, or larger crops",
            "flat": "crops hit empty ground: larger crops (policy_changes={'crop': {'scale': (0.5, 1.0)}})",
        }
        return [f"{share:.0%} {name}: {cures[name]}." for name, share in self.measures.items() if share > 0.1]

    def __str__(self):
        rows = [f"{name:<8} {share:6.1%}" for name, share in self.measures.items()]
        size = "x".join(map(str, self.made.shape[2:]))
        head = f"{self.made.shape[1]} views of {size} of each of {len(self.images):,} images by {self.policy}"
        return "\n".join([head, *rows, *self.remarks()])

    def page(self, path: "str | os.PathLike") -> Path:
        """Writes one HTML file that needs no other: the measures, and images beside their views. Returns its path."""
        some = spread(len(self.images), 8)
        picture = base64.b64encode(pictures.views(self.images[some], self.made[some]).png).decode()
        text, title = html.escape(str(self)), html.escape(f"Views by {self.policy}")
        return write_beside(path, _PAGE.format(title=title, text=text, picture=picture))


_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>{title}</title>
<style>body {{ font: 14px/1.4 sans-serif; margin: 2rem; }} img {{ max-width: 100%; }}</style>
<h1>{title}</h1>
<pre>{text}</pre>
<img src="data:image/png;base64,{picture}" alt="images, left, and views of them">
"""


def check_views(
    images: np.ndarray,
    policy: str,
    num_views: int = 8,
    size: int | None = None,
    value_range: tuple[float, float] = (0.0, 255.0),
    seed: int = 0,
) -> ViewCheck:
    """Makes random views of images and measures how much of them is lost.

    Example:
        from sslzoo import data, evaluation

        images, _ = data.load("digits", "train")
        check = evaluation.check_views(images[:64], "simvae-digits")
        check.measures["flat"] < 0.1  # True

    Args:
        images: raw images (N, H, W, C), values in `value_range`; 64 are enough.
        policy: str, one of `sslzoo.views.POLICIES`.
        num_views: int >= 1, of each image.
        size: int, side of the views, or None for the images' own.
        value_range: (low, high), the values of raw images that become 0 and 1.
        seed: int, of the views.

    Raises:
        InvalidInputError: images that the policy cannot take, or values outside the range.
    """
    if np.ndim(images) != 4 or not len(images):
        raise InvalidInputError(f"images must be (N, H, W, C), N >= 1. Received: shape={np.shape(images)}")
    checks.values(images, *value_range)
    layer = views.Views(policy, num_views, size=size or images.shape[1:3], seed=seed, value_range=value_range)
    low, high = value_range
    made = np.concatenate(
        [
            keras.ops.convert_to_numpy(layer(images[start : start + 64], training=True))
            for start in range(0, len(images), 64)
        ]
    )
    scaled = (np.asarray(images, "float32") - low) / (high - low)
    inside = made.min() > -0.01 and made.max() < 1.01  # a policy that normalizes leaves this range

    def ends(values):
        return float(np.mean((values < 1e-3) | (values > 0.999)))

    axes = (-3, -2, -1)
    bright, rich = scaled.mean(axis=axes) >= DARK, scaled.std(axis=axes) >= FLAT
    measures = {"clipped": max(0.0, ends(made) - ends(scaled))} if inside else {}
    if inside:
        measures["dark"] = _share(made.mean(axis=axes) < DARK, bright)
    measures["flat"] = _share(made.std(axis=axes) < FLAT, rich)
    return ViewCheck(images, made, measures, policy)


def _share(lost, images):
    """Share of the views of some images that are lost."""
    return float(lost[images].mean()) if images.any() else 0.0
