"""Is an encoder healthy? Measures of its features on somebody's images, without labels, and what they mean."""

import dataclasses
import math
import os
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sslzoo import checks, progress, zoo
from sslzoo.callbacks.health import DIMENSIONAL_POWER
from sslzoo.downstream.encoders import as_encoder, as_features, features_of
from sslzoo.downstream.images import default_policy, some_images, views_of
from sslzoo.errors import InvalidInputError, SSLZooError
from sslzoo.evaluation import measures as of
from sslzoo.evaluation import pictures
from sslzoo.evaluation.features import check_features, image_shape, sized
from sslzoo.files import as_json, is_named, write_beside
from sslzoo.networks.composition import input_range
from sslzoo.views import POLICIES, policy
from sslzoo.zoo.listing import table

FORMAT = "sslzoo.downstream.Diagnosis/1"
CONE = 0.999  # mean cosine of different images
SEPARATION, BLIND = 2.0, 1.1  # distance of different images over that of views of one
LARGE, EXPLODED = 1e3, 1e6  # root mean square of features: weights that grew, and without bound
MANY = 0.5  # share of dead or repeated features, or of images with equal features


class Measure(NamedTuple):
    """How a measure is shown, and which of two encoders it prefers.

    Attributes:
        label: str.
        note: str.
        best: float, the value that is preferred, and others the more the nearer they are: infinite for the larger,
            -infinite for the smaller; None where none is.
    """

    label: str
    note: str
    best: float | None = None

    def preference(self, value: float) -> float:
        """The larger, the more it is preferred."""
        return math.copysign(1, self.best) * value if math.isinf(self.best) else -abs(value - self.best)


MEASURES = {
    "effective_rank": Measure("effective rank", "directions in use (RankMe)", math.inf),
    "centered_rank": Measure("centered rank", "directions in use after the mean is subtracted", math.inf),
    "spread": Measure("spread", "deviation of directions: 1 in all directions, 0 in one", math.inf),
    "mean_cosine": Measure("mean cosine", "of different images: 1 is a cone, 0 all around", -math.inf),
    "uniformity": Measure("uniformity", "evenness on the sphere, lower is more even", -math.inf),
    "alpha_req": Measure("alpha-ReQ", "how fast variance falls along components, best at 1", 1),
    "distance": Measure("distance", "squared, of different images, 0 to 4"),
    "alignment": Measure("alignment", "squared distance of two views of one image, 0 to 4", -math.inf),
    "separation": Measure(
        "separation", "distance of views of different images / alignment: 1 is blind to images", math.inf
    ),
    "lidar": Measure("LiDAR", "directions that distinguish images beyond their views", math.inf),
    "magnitude": Measure("magnitude", "root mean square of features"),
    "dead_features": Measure("dead features", "the same for all images"),
    "repeated_features": Measure("repeated features", "copies of an earlier one"),
    "equal_rows": Measure("equal rows", "share of images with the features of another"),
}
PREFERRING = {name: measure for name, measure in MEASURES.items() if measure.best is not None}
_OF = ("effective_rank", "centered_rank", "lidar", "dead_features", "repeated_features")  # shown "of" their limit


def measure(features: np.ndarray, views: np.ndarray | None = None) -> dict[str, float]:
    """All measures of `MEASURES`; those of views where there are.

    Args:
        features: array (N, L), finite, N >= 2.
        views: features (M, J, L) of J >= 2 views of each of M images; None for none.
    """
    rows = np.asarray(features, np.float64)
    found = {
        "effective_rank": of.effective_rank(rows),
        "centered_rank": of.effective_rank(rows - rows.mean(axis=0)),
        "spread": of.feature_std(rows),
        "mean_cosine": of.mean_cosine(rows),
        "uniformity": of.uniformity(rows),
        "alpha_req": of.alpha_req(rows),
        "distance": of.distance(rows),
        "magnitude": float(np.sqrt(np.mean(rows**2))),
        "dead_features": len(of.dead_features(rows)),
        "repeated_features": len(of.repeated_features(rows)),
        "equal_rows": of.equal_rows(rows),
    }
    if views is not None:
        found["alignment"] = of.alignment(views[:, 0], views[:, 1])
        between = of.distance(views[:, 0])
        found["separation"] = between / found["alignment"] if found["alignment"] else math.inf if between else 1.0
        found["lidar"] = of.lidar(views)
    return {name: found[name] for name in MEASURES if name in found}


# ---------------------------------------------------------------------- what measures mean


class Finding(NamedTuple):
    """Something that is wrong, or worth knowing.

    Attributes:
        sign: str.
        what: str, in a few words with its number.
        tries: tuple of str, what to try, the most promising first.
        grave: bool, whether it makes the encoder unhealthy.
    """

    sign: str
    what: str
    tries: tuple[str, ...] = ()
    grave: bool = True


_RATE = ("a lower learning rate, with some steps of warm-up", "weight decay, or gradients clipped by norm")
_COLLAPSE = (
    *("a lower learning rate, with some steps of warm-up", "a larger batch"),
    *("a stronger term that keeps images apart", "milder views"),
)


def findings(measures: dict, shape: tuple[int, int], fault: str | None = None) -> list[Finding]:
    """What the measures say, the gravest first.

    Args:
        measures: what `measure` returned.
        shape: (N, L) of the features.
        fault: str, what is wrong with the values of the images; None for nothing.
    """
    rows, width = shape
    most = min(rows - 1, width)  # after the mean is subtracted
    rank, cosine = measures["centered_rank"], measures["mean_cosine"]
    separation = measures.get("separation")  # None without views
    narrow, few = cosine > CONE, rank < most**DIMENSIONAL_POWER
    large = measures["magnitude"] > LARGE
    cause = f"features of size {measures['magnitude']:.0e}, likely the rate" if large else ""
    tries = _RATE if large else _COLLAPSE
    found = []
    if fault:
        found.append(Finding("range", f"range of values: {fault}", ("images of the values that the encoder takes",)))
    if measures["equal_rows"] > MANY:
        what = f"{measures['equal_rows']:.0%} of the images have the features of another"
        found.append(Finding("equal", what, ("a look at the images: are they different?", *_COLLAPSE[:1])))
    if few or (narrow and separation is not None and separation < SEPARATION):
        what = f"collapsed: mean cosine {cosine:.4g}, {rank:.1f} of {most} directions"
        found.append(Finding("complete" if narrow else "dimensional", _because(what, cause), tries))
    elif narrow and not fault:
        what = f"a narrow cone: mean cosine {cosine:.4g}, though images are distinguished within it"
        found.append(Finding("cone", what, ("the mean subtracted before cosines are taken",), grave=False))
    if separation and separation < BLIND:
        what = f"blind to images: views of one are as far apart as different images (ratio {separation:.2f})"
        tries = ("the encoder that was meant: is it trained?", "milder views, of the kind of these images")
        found.append(Finding("blind", what, tries))
    for kind, cure in (("dead", "a lower learning rate, or another activation"), ("repeated", "a smaller encoder")):
        count = measures[f"{kind}_features"]
        if count:
            what = f"{count} of {width} features are {kind}"
            found.append(Finding(kind, what, (cure,), grave=count > MANY * width))
    exploded = measures["magnitude"] > EXPLODED
    if large and (exploded or not found):
        found.append(Finding("large", cause, _RATE, grave=exploded))
    return sorted(found, key=lambda finding: not finding.grave)


def _because(what, cause):
    return f"{what}; {cause}" if cause else what


@dataclasses.dataclass(repr=False)
class Diagnosis:
    """What an encoder's features say of its health.

        diagnosis = sslzoo.diagnose("simclr-digits", "digits")
        diagnosis.healthy, diagnosis.verdict
        diagnosis.measures["effective_rank"]

    Example:
        import numpy as np
        import sslzoo
        from sslzoo.downstream import diagnosis

        line = np.outer(np.random.default_rng(0).normal(size=100), np.ones(8))
        found: diagnosis.Diagnosis = sslzoo.diagnose(line)
        found.healthy, found.verdict  # False, "unhealthy: collapsed: ..., 1.0 of 8 directions"

    Attributes:
        name: str.
        shape: (N, L) of the features.
        measures: dict, of `MEASURES`; those of views only where there are views.
        findings: list of `Finding`, the gravest first.
        policy: str, how views were made; None without views.
        viewed: (M, J), images and views of each.
        remarks: list of str, what was done to images.
        features, images: what was measured, for pictures; images are None where features were given alone.
    """

    name: str
    shape: tuple[int, int]
    measures: dict[str, float]
    findings: list[Finding]
    policy: str | None = None
    viewed: tuple[int, int] | None = None
    remarks: list[str] = dataclasses.field(default_factory=list)
    features: np.ndarray | None = None
    images: np.ndarray | None = None

    @property
    def healthy(self) -> bool:
        """Whether nothing grave was found."""
        return not any(finding.grave for finding in self.findings)

    @property
    def verdict(self) -> str:
        """One line."""
        if not self.healthy:
            return f"unhealthy: {self.findings[0].what}"
        measures, most = self.measures, min(self.shape[0] - 1, self.shape[1])
        words = (
            f"healthy: {measures['centered_rank']:.1f} of {most} directions, mean cosine {measures['mean_cosine']:.2f}"
        )
        if "separation" in measures:
            words += f", different images {measures['separation']:.3g} times as far apart as views of one"
        return words

    @property
    def tries(self) -> list[str]:
        """What to try, the most promising first; nothing where it is healthy."""
        return list(dict.fromkeys(each for finding in self.findings if finding.grave for each in finding.tries))

    def rows(self) -> list[tuple[str, str, str]]:
        """Label, value and note of each measure."""
        return [(MEASURES[name].label, self.shown(name), MEASURES[name].note) for name in self.measures]

    def shown(self, name: str) -> str:
        """A measure as tables have it."""
        value = self.measures[name]
        if name in _OF:
            most = self.shape[1] if name.endswith("features") else min(self.shape)
            most = min(self.shape[0] - 1, self.shape[1]) if name == "centered_rank" else most
            if name == "lidar" and self.viewed:
                most = min(self.viewed[0] - 1, self.shape[1])
            return f"{value:.{0 if name.endswith('features') else 1}f} of {most}"
        return f"{value:.0%}" if name == "equal_rows" else f"{value:.4g}"

    def __str__(self):
        views = f"; {self.viewed[0]:,} of them in {self.viewed[1]} views ({self.policy})" if self.viewed else ""
        lines = [
            f"{self.name}: {self.verdict}",
            f"{self.shape[0]:,} images, {self.shape[1]:,} features each{views}",
            "",
        ]
        lines += [table([["MEASURE", "VALUE", ""], *map(list, self.rows())], right={1})]
        others = self.findings[0 if self.healthy else 1 :]
        lines += ["", *(f"Also: {finding.what}." for finding in others)] if others else []
        lines += ["", "Try: " + "; ".join(self.tries) + "."] if self.tries else []
        return "\n".join(lines)

    def __repr__(self):
        return f"<Diagnosis of {self.name}: {self.verdict}>"

    def to_dict(self) -> dict:
        """Everything but features and images, as dicts, lists, strings and numbers; what is infinite is None."""
        finite = {name: value if math.isfinite(value) else None for name, value in self.measures.items()}
        return {
            **{"format": FORMAT, "name": self.name, "healthy": self.healthy, "verdict": self.verdict},
            **{"images": self.shape[0], "features": self.shape[1], "measures": finite},
            "findings": [finding._asdict() for finding in self.findings],
            **{"policy": self.policy, "viewed": self.viewed, "remarks": self.remarks},
        }

    def to_json(self) -> str:
        """`to_dict` as JSON text."""
        return as_json(self.to_dict())

    def neighbors(self, path: "str | os.PathLike | None" = None):
        """Ten images beside those with the nearest features, as a PNG: its path, or a `Picture` without `path`."""
        if not self.shows_images:
            raise InvalidInputError("Neighbors are shown of gray or color images. Received: images=None")
        return pictures.neighbors(self.images, self.features, path)

    @property
    def shows_images(self) -> bool:
        """Whether there are images that a picture can show."""
        return self.images is not None and self.images.shape[-1] in (1, 3)

    def page(self, path: "str | os.PathLike") -> Path:
        """Writes the verdict, the table and the nearest neighbors as one HTML file that needs no other."""
        from sslzoo.downstream.pages import diagnosis_page

        return write_beside(path, diagnosis_page(self))


# ---------------------------------------------------------------------- diagnose


def diagnose(
    encoder,
    images=None,
    *,
    views=None,
    most: int = 2000,
    num_views: int | None = None,
    split: str | None = None,
    data_dir: "str | os.PathLike | None" = None,
    image_size: int | None = None,
    scale: float | None = None,
    on_error: str = "fail",
    background: str = "white",
    batch_size: int = 256,
    seed: int = 0,
    name: str | None = None,
    shown: bool | None = None,
) -> Diagnosis:
    """Measure the health of an encoder on images without labels, or of features that are there already.

        print(sslzoo.diagnose("simclr-digits", "digits"))
        print(sslzoo.diagnose(torch_module, "scans/", views="xray"))
        print(sslzoo.diagnose(embeddings))

    Args:
        encoder: name, folder or address for `sslzoo.load`; an `.onnx`; a Keras model; a `torch.nn.Module`; any
            callable, images (B, H, W, C) -> (B, L); or features: an array (N, L), an `Embedding`, or its `.npz`.
        images: as `sslzoo.embed` takes them, or the name of a data set. Of features optional, an array (N, H, W, C) in
            their order, to show neighbors.
        views: str, a policy for random views; None for the one that the encoder was trained with, if that is known, or
            one for images of this size; False for none. Or an array of views (M, J, H, W, C), raw images; of features
            (M, J, L), without which features have no measures of views.
        most: int, images at most, chosen at random; a quarter of them is seen in `num_views` views (8).
        split, data_dir: of a folder, `.npz` or known data set ("train"), and where data sets are.
        image_size: int, for an encoder of any size.
        scale: float, what values 0..255 are multiplied with before an ONNX file or a `torch.nn.Module` (1/255) or a
            callable (1) sees them.
        on_error: "fail": an image that cannot be read is an error; "skip": it is left out, and a remark counts it.
        background: str, color that transparent images are laid on.
        batch_size: int.
        seed: int, of the choice of images and of views.
        name: str, what the diagnosis calls the encoder.
        shown: whether a progress line is; None at a terminal only.

    Returns:
        `Diagnosis`.

    Raises:
        InvalidInputError: fewer than two images or rows, values that do not fit, features with NaN.
        UnknownNameError: a policy, model or data set is not known.
        MissingDataError: there is no such path.
    """
    checks.count(2, most=most, num_views=2 if num_views is None else num_views)
    checks.count(batch_size=batch_size, image_size=1 if image_size is None else image_size)
    checks.seed(needed=True, seed=seed)
    if isinstance(views, str) and views not in POLICIES:
        views_of(np.zeros((2, 8, 8, 1)), views, 2)  # which names the nearest
    features = as_features(encoder)
    if features is not None:
        idle = {"num_views": num_views, "split": split, "data_dir": data_dir, "image_size": image_size, "scale": scale}
        idle["on_error"] = None if on_error == "fail" else on_error
        idle["background"] = None if background == "white" else background
        for option, value in idle.items():
            if value is not None:
                raise InvalidInputError(f"{option} is for images; features need none. Received: {option}={value!r}")
        if isinstance(images, (str, os.PathLike, list, tuple)):
            raise InvalidInputError(
                "Features are diagnosed alone, or with the array of their images. "
                f"Received: images={images!r} beside features"
            )
        return _of_features(features, images, views, most, seed, name or _name(encoder, "features"))
    if images is None:
        raise InvalidInputError("An encoder is diagnosed on images; features need none. Received: images=None")
    source, encoder = encoder, as_encoder(encoder, scale)
    shape = sized(image_shape(encoder), image_size)
    images, remarks = some_images(images, shape, most, seed, split, data_dir, on_error, background)
    policy, changes = _policy_for(source, images, views)
    span = input_range(encoder, None)
    if span is None:  # an encoder of another library does not say; views must not cut off what it sees
        low, high = float(images.min()), float(images.max())
        span = (0.0, 255.0) if low >= 0 and high <= 255 else (low, high)
    viewed = _viewed(images, policy, changes, views, num_views or 8, seed, span)
    fault = _fault(images, span)
    line = progress.line("embedded", shown)
    total = len(images) + (0 if viewed is None else viewed.shape[0] * viewed.shape[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # `fault` has it
        rows = features_of(encoder, images, batch_size, lambda done, _: line(done, total))
        seen = None
        if viewed is not None:
            flat = viewed.reshape(-1, *viewed.shape[2:])
            seen = features_of(encoder, flat, batch_size, lambda done, _: line(len(images) + done, total))
            seen = seen.reshape(*viewed.shape[:2], -1)
    return _diagnosis(name or _name(source, encoder.name), rows, seen, _said(policy, changes), fault, remarks, images)


def _diagnosis(name, rows, seen, policy, fault, remarks, images):
    found = measure(rows, seen)
    shape, viewed = rows.shape, None if seen is None else seen.shape[:2]
    return Diagnosis(name, shape, found, findings(found, shape, fault), policy, viewed, remarks, rows, images)


def _of_features(features, images, views, most, seed, name):
    if len(features) < 2:
        raise InvalidInputError(f"features must be of at least two images. Received: {len(features)} row")
    if isinstance(views, str):
        raise InvalidInputError(f"Views of features are an array (M, J, L), not a policy. Received: views={views!r}")
    seen = None
    if views is not None and views is not False:
        seen = _array(views, 3, f"(M, J, {features.shape[1]}), features of views")
        flat = check_features(seen.reshape(-1, seen.shape[-1]), "views", np.float32)
        if seen.shape[2] != features.shape[1]:
            raise InvalidInputError(f"views must be (M, J, {features.shape[1]}). Received: views of shape {seen.shape}")
        seen = flat.reshape(seen.shape)
    if images is not None:
        images = _array(images, 4, "(N, H, W, C), the images of the features")
        if len(images) != len(features):
            raise InvalidInputError(
                f"images must be those of the {len(features):,} rows. Received: {len(images):,} images"
            )
    rows = np.sort(np.random.default_rng(seed).permutation(len(features))[:most])
    left = [f"{len(rows):,} of {len(features):,} rows were taken, chosen at random."] * (len(rows) < len(features))
    images = None if images is None else images[rows]
    return _diagnosis(name, features[rows], seen, "views given" if seen is not None else None, None, left, images)


def _array(values, rank, expected):
    array = np.asarray(values)
    if array.ndim != rank or (rank == 3 and min(array.shape[:2]) < 2):
        raise InvalidInputError(f"Expected an array {expected}. Received: shape {array.shape}")
    return array


def _name(source, otherwise):
    return os.fspath(source).rstrip("/") if is_named(source) else str(otherwise)


def _policy_for(source, images, views):
    """How views were made, or are to be, and what training changed of that policy; None for no views."""
    if views is False:
        return None, {}
    if views is not None:
        return views if isinstance(views, str) else "views given", {}
    if is_named(source) and not str(source).endswith(".onnx"):
        settings = zoo.results_of(source).get("settings") or {}
        name = settings.get("policy")
        if isinstance(name, str) and name in POLICIES:
            return name, _changes(name, settings)
    return default_policy(images.shape[1:]), {}


def _changes(name, settings):
    """What training changed of a policy, as far as this version knows it."""
    steps, changes = POLICIES[name], settings.get("policy_changes") or {}
    flip = {"flip": settings["flip"]} if "flip" in settings else {}
    try:
        changes = {step: change for step, change in (flip | changes).items() if step in steps}
        policy(name, **changes)
    except (TypeError, SSLZooError):  # of somebody else's version
        return {}
    return {step: change for step, change in changes.items() if change != steps[step]}


def _said(name, changes):
    """A policy with its changes, as a diagnosis names it."""
    return name and ", ".join([name, *(f"{step}={change}" for step, change in changes.items())])


def _viewed(images, policy, changes, views, num_views, seed, value_range):
    """Raw views (M, J, H, W, C), or None."""
    if policy is None:
        return None
    if views is None or isinstance(views, str):
        some = np.random.default_rng(seed + 1).permutation(len(images))[: max(2, len(images) // 4)]
        return views_of(images[some], policy, num_views, seed, value_range, changes)
    viewed = _array(views, 5, "(M, J, H, W, C), views that are raw images")
    if viewed.shape[0] < 2 or viewed.shape[1] < 2 or viewed.shape[2:] != images.shape[1:]:
        raise InvalidInputError(
            f"views must be (M, J, {', '.join(map(str, images.shape[1:]))}), M and J at least 2. "
            f"Received: views of shape {viewed.shape}"
        )
    return viewed


def _fault(images, value_range):
    """What is wrong with the values of raw images, or None."""
    low, high = value_range
    if checks.values(images, low, high, strict=False) is None:
        return None
    return f"images in {images.min():g}..{images.max():g} look black to an encoder of {low:g}..{high:g}"
