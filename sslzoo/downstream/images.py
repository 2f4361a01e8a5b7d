"""Some images of a user, and views of them that are raw images again: what an encoder of any library can be given."""

import numpy as np

from sslzoo import checks, data
from sslzoo.data.catalogue import KNOWN
from sslzoo.data.image_files import Fit
from sslzoo.data.image_folder import left_out
from sslzoo.data.inputs import Arrays, refuse_of_files, source_of
from sslzoo.errors import InvalidInputError, choose
from sslzoo.views import POLICIES, Views, policy

_ENCODERS_OWN = ("normalize", "threshold", "lab")  # steps that belong to an encoder's preprocessing
_BLOCK = 100  # images


def some_images(
    images,
    shape: tuple,
    most: int,
    seed: int = 0,
    split: str | None = None,
    data_dir=None,
    on_error: str = "fail",
    background: str = "white",
):
    """At most `most` images, chosen at random, as an encoder takes them.

    Args:
        images: as `sslzoo.embed` takes them, or the name of a known data set.
        shape: (H, W, C); what is None is taken from the images.
        most: int.
        seed: int, of the choice.
        split: of a folder, `.npz` or known data set ("train").
        on_error: "skip" leaves out files that cannot be read, which a remark counts.
        background: color that transparent images are laid on.

    Returns:
        array (N, H, W, C); list of str, remarks on what was done to fit them.

    Raises:
        InvalidInputError: fewer than two images that can be read, or what `sslzoo.embed` refuses.
        MissingDataError: no such path.
    """
    if isinstance(images, str) and images in KNOWN:
        images = data.load(images, split or "train", data_dir=data_dir, on_error=on_error, background=background)[0]
        split = None
    skip = choose("on_error", on_error, ("fail", "skip")) == "skip"
    pixels = getattr(images, "ndim", 1) != 1  # not an array of paths
    if pixels:
        refuse_of_files(split, background=background, skip=skip)
    source = Arrays(_checked(images)) if pixels else source_of(images, split, background=background, skip=skip)
    if len(source) < 2:
        raise InvalidInputError(f"images must be at least two. Received: {len(source)} image")
    rows = np.sort(np.random.default_rng(seed).permutation(len(source))[:most])
    fit = Fit(shape)
    chosen, bad = [], {}
    for row, read in zip(rows, source.each(rows, fit.side)):
        try:
            chosen.append(fit(read()))
        except InvalidInputError as error:
            if on_error == "fail":
                raise
            bad[source.name(row)] = error.__cause__ or error
    remarks = [f"{len(rows):,} of {len(source):,} images were taken, chosen at random."] * (len(rows) < len(source))
    remarks += [left_out(bad, len(rows))] * bool(bad)
    if len(chosen) < 2:
        raise InvalidInputError(f"images must be at least two that can be read. Received: {' '.join(remarks)}")
    return np.stack(chosen), remarks + [f"{remark}." for remark in fit.remarks(len(chosen))]


def _checked(images):
    """An array of images of any range of values: what is wrong with that is a finding, not an error."""
    images = checks.array(images)
    if images.ndim != 4 or images.dtype.kind not in "uif" or not np.isfinite(images).all():
        raise InvalidInputError(
            "images must be finite numbers (N, H, W, C), values 0..255. "
            f"Received: images of shape {images.shape}, {images.dtype}"
        )
    return images


def default_policy(shape: tuple) -> str:
    """The policy for images (H, W, C) of which nothing else is known."""
    *sides, channels = shape
    if channels == 3:
        return "photos" if max(sides) >= 64 else "simvae-cifar10"
    if channels == 1:
        return "xray" if max(sides) >= 64 else "simvae-digits" if max(sides) < 16 else "simvae-mnist"
    return "channels"


def views_of(
    images: np.ndarray,
    name: str,
    num_views: int,
    seed: int = 0,
    value_range: tuple = (0.0, 255.0),
    changes: "dict | None" = None,
) -> np.ndarray:
    """Random views of images by a policy, but for the steps that an encoder does itself (normalization, thresholds).

    Args:
        images: array (N, H, W, C), values in `value_range`.
        name: str, one of `sslzoo.views.POLICIES` for images.
        num_views: int J, at least 2.
        seed: int.
        value_range: (low, high) of the images, and of the views.
        changes: dict, step of the policy -> its settings, as `sslzoo.views.policy` takes them.

    Returns:
        float32 (N, J, H, W, C).

    Raises:
        UnknownNameError: no such policy.
        InvalidInputError: it is for other images, or `num_views` is below 2.
    """
    checks.count(2, num_views=num_views)
    row = POLICIES[choose("policy", name, POLICIES)]
    if not {"crop", "shift"} & set(row):
        raise InvalidInputError(f"views must be a policy for images. Received: views={name!r}")
    steps = policy(name, **(changes or {}) | {step: None for step in _ENCODERS_OWN if step in row})
    make = Views(steps, num_views, size=images.shape[1:3], seed=seed, value_range=value_range)
    to_numpy = make.backend.convert_to_numpy
    blocks = [to_numpy(make(images[start : start + _BLOCK])) for start in range(0, len(images), _BLOCK)]
    low, high = value_range
    return np.clip(np.concatenate(blocks), 0, 1).astype(np.float32) * np.float32(high - low) + np.float32(low)
