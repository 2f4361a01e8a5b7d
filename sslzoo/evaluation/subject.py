"""`Subject`: what protocols measure: an encoder, what belongs to it, and both splits of a data set."""

import dataclasses
import functools
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sslzoo import checks, networks, zoo
from sslzoo.data import streams
from sslzoo.errors import HubError, InvalidInputError, MissingPartError
from sslzoo.evaluation import generation
from sslzoo.evaluation.datasets import with_classes
from sslzoo.evaluation.features import TorchEncoder, check_images, features, own_shape, spread
from sslzoo.evaluation.protocols.protocol import DoesNotApply
from sslzoo.files import is_named
from sslzoo.methods.pretrainer import Pretrainer


@dataclasses.dataclass
class Subject:
    """Everything that is measured.

    Attributes:
        encoder: raw images -> features; None where features were given, which then stand for the images.
        dataset: str, name of the data set.
        source: the name or path by which `sslzoo.data.class_names` knows its classes; None of arrays.
        in_no_order: whether images follow each other by chance.
        train_images, test_images: arrays (N, H, W, C).
        train_labels, test_labels: int64 (N,); None without labels.
        attributes: (train, test), int (N, A) each, of a data set that has them; else None.
        attribute: which of them the labels are, or which task of CelebA; None for labels that are classes.
        data_dir: folder of prepared data sets, or None.
        method: the trained `Pretrainer`, or None.
        parts: dict, "decoder", "posterior", "projection" -> model.
        missing: dict, part -> the `HubError` that it could not be had for.
        likelihood: dict, `likelihood_of`.
        seed: int. batch_size: int, images per call of the encoder.
        progress: what -> callable (done, in all).
        seconds: float, that features took.
    """

    encoder: Any
    dataset: str
    train_images: Any
    train_labels: np.ndarray | None
    test_images: Any
    test_labels: np.ndarray | None
    attributes: tuple | None = None
    attribute: "str | int | None" = None
    data_dir: Any = None
    method: Pretrainer | None = None
    parts: dict = dataclasses.field(default_factory=dict)
    missing: dict = dataclasses.field(default_factory=dict)
    likelihood: dict = dataclasses.field(default_factory=dict)
    source: Any = None
    in_no_order: bool = False
    seed: int = 0
    batch_size: int = 500
    progress: Callable[[str], Callable] = lambda what: lambda done, total: None
    seconds: float = 0.0
    _fitted: Any = None

    @functools.cached_property
    def train_features(self) -> np.ndarray:
        return self._features(self.train_images)

    @functools.cached_property
    def test_features(self) -> np.ndarray:
        return self._features(self.test_images)

    def _features(self, images):
        """Computed when a protocol first asks for them: style, for one, has images of its own."""
        if self.encoder is None:
            return images
        began = time.perf_counter()
        rows = features(self.encoder, images, self.batch_size, self.progress("features"))
        self.seconds += time.perf_counter() - began
        return rows

    @property
    def labeled(self) -> bool:
        """Whether both splits have labels."""
        return self.train_labels is not None and self.test_labels is not None

    @functools.cached_property
    def classes(self) -> np.ndarray:
        """Labels of either split, sorted."""
        return np.union1d(self.train_labels, self.test_labels)

    @property
    def num_classes(self) -> int:
        return len(self.classes)

    @property
    def train_classes(self) -> np.ndarray:
        """Train labels as 0..num_classes - 1."""
        return np.searchsorted(self.classes, self.train_labels)

    @property
    def test_classes(self) -> np.ndarray:
        return np.searchsorted(self.classes, self.test_labels)

    @property
    def majority(self) -> float:
        """Accuracy of guessing the commonest train class."""
        return float(np.mean(self.test_classes == np.bincount(self.train_classes).argmax()))

    def splits(self) -> tuple:
        """Train features and classes, test features and classes."""
        return self.train_features, self.train_classes, self.test_features, self.test_classes

    def decoder(self, epochs: int, progress=None) -> tuple:
        """The decoder, or one that is fitted to the frozen features; and whether it was fitted."""
        own = self.parts.get("decoder")
        if own is None and self._fitted is None:
            seen = generation.as_seen(self.encoder, self.train_images)
            settings = self._decoder_network(seen.shape[1:]), epochs, self.seed, progress
            self._fitted = generation.fit_decoder(self.train_features, seen, *settings)
        return (own, False) if own is not None else (self._fitted, True)

    def _decoder_network(self, shape):
        if self.likelihood.get("network") in networks.DECODERS:
            return self.likelihood["network"]
        if shape[-1] == 3 and shape[0] % 8 == shape[1] % 8 == 0:
            return "convnet"
        return "mlp-small" if max(shape[:2]) <= 12 else "mlp"

    def take_classes(self, attribute) -> None:
        """Turns labels into classes, where both splits have labels."""
        if not self.labeled:
            if attribute is not None:
                raise InvalidInputError(f"attribute is for images with labels. Received: {attribute=}")
            return
        train, test = (self.train_images, self.train_labels), (self.test_images, self.test_labels)
        self.train_images, self.train_labels, train, self.attribute = with_classes(*train, attribute, "train")
        self.test_images, self.test_labels, test, _ = with_classes(*test, attribute, "test")
        self.attributes = None if train is None else (train, test)

    def some(self, count: int, most: int) -> np.ndarray:
        """Rows of at most `most` of `count` images of a split: the first where both are of known data sets, which are
        in no order; of others, which may be sorted by class, some that are spread over all. Int (M,)."""
        return np.arange(min(count, most)) if self.in_no_order else spread(count, most)

    def take_some(self, most: int | None) -> list[str]:
        """Leaves `most` train images, chosen at random; remarks on it if that is fewer."""
        count = len(self.train_images)
        if most is None or most >= count:
            return []
        rows = np.sort(np.random.default_rng(self.seed).permutation(count)[:most])
        self.train_images = streams.some(self.train_images, rows)
        self.train_labels = None if self.train_labels is None else self.train_labels[rows]
        self.attributes = self.attributes and (self.attributes[0][rows], self.attributes[1])
        return [f"{most:,} of {count:,} train images were used, chosen at random."]

    # ------------------------------------------------------------------ checks

    def check_images(self) -> list[str]:
        """Raise `InvalidInputError` unless the encoder takes the images; remarks on what it gets."""
        splits = ((self.train_images, "train images"), (self.test_images, "test images"))
        remarks = [check_images(self.encoder, images, split) for images, split in splits]
        remarks = [remark for remark in remarks if remark]
        return remarks + ([self.encoder.layout] if isinstance(self.encoder, TorchEncoder) else [])

    def check_needs(self, protocol) -> None:
        """Raise `DoesNotApply` unless there is what a protocol needs."""
        if "method" in protocol.needs and self.method is None:
            raise DoesNotApply("It takes the trained method", "method=None")
        if "method" in protocol.needs and self.attributes is not None:
            raise DoesNotApply("It takes labels that are classes", f"attribute={self.attribute!r}")
        if "labels" in protocol.needs:
            if not self.labeled:
                which = "train" if self.train_labels is None else "test"
                raise DoesNotApply(f"The {which} images have no labels", f"{which} labels=None")
            if len(present := np.unique(self.train_labels)) < 2:
                raise InvalidInputError(
                    f"Train labels must hold at least 2 classes. Received: {len(present)} class, {present.tolist()}"
                )

    def check_shared_classes(self) -> None:
        """Raise `InvalidInputError` if no test image is of a class that train images have."""
        if not np.isin(self.test_labels, self.train_labels).any():
            train, test = (checks.few(np.unique(labels)) for labels in (self.train_labels, self.test_labels))
            raise InvalidInputError(
                "Test labels must be among the classes of train labels, and none is, so every image would be missed. "
                f"Received: train labels {train}, test labels {test}"
            )

    def check_parts(self, *parts: str) -> None:
        """Raise the `HubError` of a part that there is, but could not be had: another would not be the model's."""
        for part in parts:
            if part in self.missing:
                raise self.missing[part]

    def check_method(self, protocol) -> None:
        """Raise `DoesNotApply` unless the method names a protocol among its own."""
        if protocol.name not in self.method.protocols():
            raise DoesNotApply(f"{type(self.method).__name__} has no {protocol.title}", f"method={self.method.name!r}")


def belongings(source, wanted) -> tuple[dict, dict, dict]:
    """What belongs to an encoder given by name, folder or method.

    Returns:
        dict, part -> model, of those `wanted` that there are; dict, part -> `HubError` in its place; `likelihood_of`.

    Raises:
        ArtifactError: a part is there, but damaged.
        IntegrityError: it is not the one that was written.
    """
    if isinstance(source, Pretrainer):
        parts = source.parts(own_shape(source)) if wanted else {}
        return {part: parts[part] for part in wanted if part in parts}, {}, likelihood_of(vars(source))
    if not is_named(source):
        return {}, {}, {}
    parts, missing = {}, {}
    for part in wanted:
        try:
            parts[part] = zoo.load(source, part)
        except MissingPartError:
            pass  # most methods have no decoder, many no head; a damaged one must not be replaced on the quiet
        except HubError as error:
            missing[part] = error
    return parts, missing, likelihood_of(zoo.results_of(source).get("settings", {})) if wanted else {}


def likelihood_of(settings: Mapping) -> dict:
    """What a likelihood takes, from the settings of a recipe: p(z) of one image, and p(x | z)."""
    model = {"network": settings.get("network")}
    variance = settings.get("likelihood_variance")
    if variance is None:
        return model
    prior, uniform = 1.0, False
    if settings.get("prior_variance") is not None:  # SimVAE: the center, and an image around it
        center = settings.get("center_variance")
        prior, uniform = settings["prior_variance"] + (1.0 if center is None else center), center is None
    return model | {
        "likelihood": settings.get("likelihood") or "gaussian",
        "likelihood_variance": variance,
        "prior_variance": prior,
        "uniform_centers": uniform,
    }
