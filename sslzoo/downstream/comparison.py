"""Is encoder A better than encoder B, or is it chance? Answers to the same images, counted pair by pair."""

import dataclasses
import itertools
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy.stats import binomtest, norm

from sslzoo import checks, progress
from sslzoo.checks import is_pair
from sslzoo.data.labels import check_labels
from sslzoo.downstream import charts
from sslzoo.downstream.encoders import FunctionEncoder, as_encoder, features_of
from sslzoo.errors import InvalidInputError, choose
from sslzoo.evaluation import datasets, drawing, neighbors
from sslzoo.evaluation.features import TorchEncoder, check_features, image_shape, sized
from sslzoo.evaluation.logistic import fit_logistic
from sslzoo.evaluation.subject import Subject
from sslzoo.files import as_json, as_path, is_named, write_beside
from sslzoo.zoo.listing import table

K = 10
LEVEL = 0.95
FORMAT = "sslzoo.downstream.Comparison/1"
ADJUSTMENT = (
    "p: exact McNemar test on the images that only one of the two answers right, adjusted by Holm's method for all "
    "pairs of this table ({count}): the chance of a false 'differ' in it is below 5 %, even if the pairs are dependent."
)


# ---------------------------------------------------------------------- statistics


def wilson(right: int, count: int) -> tuple[float, float]:
    """Wilson's interval of a share: the shares that `right` of `count` do not contradict.

    Args:
        right: int in 0..count.
        count: int, at least 1.

    Returns:
        (low, high), each in 0..1, at `LEVEL`.
    """
    interval = binomtest(int(right), int(count)).proportion_ci(LEVEL, method="wilson")
    return float(interval.low), float(interval.high)


def mcnemar(only_first: int, only_second: int) -> float:
    """Exact two-sided p-value of McNemar's test: how often fair coins fall at least as unevenly.

    Args:
        only_first, only_second: ints, images that only one of two encoders answers right.
    """
    count = int(only_first) + int(only_second)
    return float(binomtest(int(only_first), count).pvalue) if count else 1.0


def holm(p_values: Sequence[float]) -> np.ndarray:
    """p-values adjusted by Holm's step-down method, in their order: float array.

    Bounds the chance of any false claim among them, whatever their dependence: pairs that share an encoder depend on
    each other. Benjamini and Hochberg's method would bound a share of false claims instead, which suits hundreds of
    differences, not the few that somebody decides by.
    """
    p = np.asarray(p_values, np.float64)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(np.minimum(1, p[order] * np.arange(len(p), 0, -1)))
    adjusted = np.empty(len(p))
    adjusted[order] = stepped
    return adjusted


def paired_interval(only_first: int, only_second: int, count: int) -> tuple[float, float]:
    """Interval of the difference of two accuracies on the same images.

    Wald's for pairs with half an image more in each of the four cells (both right, one of them, neither), as Agresti
    and Min propose: it covers as often as it says also where few images or none tell the two apart, of which drawing
    images again (the bootstrap) would make too narrow an interval, or one of no width.

    Args:
        only_first, only_second: ints, images that only one of two encoders answers right.
        count: int, all images.

    Returns:
        (low, high), shares in -1..1, at `LEVEL`.

    Reference:
        Agresti and Min, "Simple improved confidence intervals for comparing matched proportions", Statistics in
        Medicine 24, 2005.
    """
    count = count + 2
    value = (only_first - only_second) / count
    deviation = math.sqrt(((only_first + only_second + 1) / count - value**2) / count)
    reach = norm.isf((1 - LEVEL) / 2) * deviation
    return max(-1.0, float(value - reach)), min(1.0, float(value + reach))


# ---------------------------------------------------------------------- what is found


@dataclasses.dataclass(frozen=True)
class Accuracy:
    """The accuracy of one encoder by one protocol.

    Example:
        from sslzoo.downstream import comparison

        comparison.Accuracy("a", "knn", 94, 100, *comparison.wilson(94, 100)).value  # 0.94

    Attributes:
        encoder, protocol: str.
        right, count: int, test images that were answered right, and all.
        low, high: float, Wilson's 95 % interval of the share.
    """

    encoder: str
    protocol: str
    right: int
    count: int
    low: float
    high: float

    @property
    def value(self) -> float:
        """The share that was answered right, 0..1."""
        return self.right / self.count


@dataclasses.dataclass(frozen=True)
class Pair:
    """Two encoders on the same images by one protocol.

    Example:
        from sslzoo.downstream import comparison

        p = comparison.mcnemar(12, 3)
        comparison.Pair("a", "b", "knn", 0.09, 0.02, 0.16, 12, 3, p, p).differs  # True

    Attributes:
        first, second, protocol: str.
        difference: float, accuracy of the first minus that of the second.
        low, high: float, its 95 % interval over images, not adjusted.
        only_first, only_second: int, images that only one of the two answers right.
        p, adjusted: float, of the exact McNemar test, alone and by Holm's method.
    """

    first: str
    second: str
    protocol: str
    difference: float
    low: float
    high: float
    only_first: int
    only_second: int
    p: float
    adjusted: float

    @property
    def differs(self) -> bool:
        """Whether the adjusted p-value is at most 0.05."""
        return self.adjusted <= 1 - LEVEL


@dataclasses.dataclass(repr=False)
class Comparison:
    """Accuracies of several encoders on the same images, and which of their differences are more than chance.

        comparison = sslzoo.compare(["simclr-digits", "simvae-digits"], "digits")
        print(comparison)
        [pair for pair in comparison.pairs if pair.differs]

    Example:
        import numpy as np
        import sslzoo
        from sslzoo.downstream import comparison

        rng = np.random.default_rng(0)
        labels = np.arange(90) % 3
        good = np.eye(3)[labels] + 0.1 * rng.normal(size=(90, 3))
        features = {"good": (good[:60], good[60:]), "noise": (rng.normal(size=(60, 3)), rng.normal(size=(30, 3)))}
        found: comparison.Comparison = sslzoo.compare(features, (labels[:60], labels[60:]), protocols="knn")
        found.pairs[0].differs  # True

    Attributes:
        dataset: str, name.
        train, test: int, numbers of images.
        seed: int.
        labels: int list (test,), the classes of the test images, 0..C - 1.
        predictions: dict, encoder -> protocol -> int list (test,), the class that each test image is taken for.
        accuracies: list of `Accuracy`.
        pairs: list of `Pair`.
        settings: dict, protocol -> what it does.
        remarks: list of str.
    """

    dataset: str
    train: int
    test: int
    seed: int
    labels: list[int]
    predictions: dict[str, dict[str, list[int]]]
    accuracies: list[Accuracy]
    pairs: list[Pair]
    settings: dict[str, str]
    remarks: list[str] = dataclasses.field(default_factory=list)

    def __str__(self):
        rows = [["PROTOCOL", "ENCODER", "ACCURACY", "95 % INTERVAL", "RIGHT"]]
        for each in self.accuracies:
            interval = f"{100 * each.low:.2f} to {100 * each.high:.2f}"
            rows.append([each.protocol, each.encoder, f"{100 * each.value:.2f} %", interval, f"{each.right:,}"])
        pairs = [["PROTOCOL", "PAIR", "DIFFERENCE", "95 % INTERVAL", "ONLY FIRST", "ONLY SECOND", "P", "ADJUSTED", ""]]
        for pair in self.pairs:
            names = f"{pair.first} - {pair.second}"
            interval = f"{100 * pair.low:+.2f} to {100 * pair.high:+.2f}"
            counts = [f"{pair.only_first:,}", f"{pair.only_second:,}"]
            verdict = "differ" if pair.differs else "may be chance"
            chances = [f"{pair.p:.2g}", f"{pair.adjusted:.2g}"]
            difference = f"{100 * pair.difference:+.2f}"
            pairs.append([pair.protocol, names, difference, interval, *counts, *chances, verdict])
        lines = [f"{self.dataset}: {self.train:,} train and {self.test:,} test images, seed {self.seed}", ""]
        lines += [table(rows, right={2, 4}), "", table(pairs, right={2, 4, 5, 6, 7}), ""]
        lines += [f"{name}: {what}." for name, what in self.settings.items()]
        lines += ["Intervals of accuracies are Wilson's; of differences, Agresti and Min's, not adjusted."]
        lines += [ADJUSTMENT.format(count=len(self.pairs)), *(f"Note: {remark}" for remark in self.remarks)]
        return "\n".join(lines)

    def to_dict(self) -> dict:
        """Everything as dicts, lists, strings and numbers."""
        return {"format": FORMAT, "level": LEVEL, "adjustment": "Holm", **dataclasses.asdict(self)}

    def to_json(self) -> str:
        """Everything as JSON text."""
        return as_json(self.to_dict(), indent=None)

    def picture(self, path: "str | os.PathLike | None" = None):
        """Accuracies and differences with their intervals as one PNG: its path, or a `Picture` without `path`."""
        panels = []
        for protocol in self.settings:
            some = [each for each in self.accuracies if each.protocol == protocol]
            rows = [charts.Row(each.encoder, each.value, each.low, each.high) for each in some]
            panels.append((f"{protocol}: accuracy, %", rows))
            rows = []
            for pair in (pair for pair in self.pairs if pair.protocol == protocol):
                color = charts.ORANGE if pair.differs else charts.GRAY
                name = f"{pair.first} \u2212 {pair.second}"
                rows.append(charts.Row(name, pair.difference, pair.low, pair.high, color))
            panels.append((f"{protocol}: difference, points (orange: beyond chance)", rows))
        return charts.intervals(panels, path, f"{self.dataset}, {self.test:,} test images")

    def save(self, folder: "str | os.PathLike") -> Path:
        """Writes comparison.json, comparison.txt and comparison.png into a folder, which is made. Returns its path."""
        folder = as_path(folder)
        drawing.check_folder(folder, "folder")
        folder.mkdir(parents=True, exist_ok=True)
        write_beside(folder / "comparison.json", self.to_json())
        write_beside(folder / "comparison.txt", f"{self}\n")
        self.picture(folder / "comparison.png")
        return folder

    def __repr__(self):
        real = sum(pair.differs for pair in self.pairs)
        return (
            f"<Comparison of {', '.join(self.predictions)} on {self.dataset}: {real} of {len(self.pairs)} pairs differ>"
        )


# ---------------------------------------------------------------------- protocols


def _knn(train, classes, test, truth, seed):
    indices, _ = neighbors.nearest(train, test, min(K, len(train)), "cosine")
    return neighbors.vote(classes[indices], int(max(classes.max(), truth.max())) + 1)[:, -1]


def _logistic(train, classes, test, truth, seed):
    return fit_logistic(train, classes, test, truth, seed).predictions


PROTOCOLS = {"knn": _knn, "logistic": _logistic}
_SAID = {
    "knn": f"the class that most of the {K} nearest train images have, by the cosine of features",
    "logistic": "logistic regression of standardized features, its strength chosen on held-out train images",
}


def compare(
    encoders,
    dataset,
    *,
    protocols: "str | Sequence[str]" = ("knn", "logistic"),
    test=None,
    data_dir: "str | os.PathLike | None" = None,
    image_size: int | None = None,
    scale: float | None = None,
    labels: str | None = None,
    test_share: float = 0.0,
    on_error: str = "fail",
    background: str = "white",
    attribute: "str | int | None" = None,
    max_train: int | None = None,
    batch_size: int = 500,
    seed: int = 0,
    shown: bool | None = None,
) -> Comparison:
    """Measure several encoders on the same images, and find which differences are more than chance.

        print(sslzoo.compare(["simclr-digits", "simvae-digits"], "digits"))

    Every test image gets an answer of every encoder. Two encoders are compared by the images that only one of them
    answers right (McNemar's exact test), and p-values are adjusted for the number of pairs (Holm). What this speaks of
    is these two trained encoders on images like these: training again from other seeds moves accuracies, too.

    Args:
        encoders: at least two: a list, or a dict name -> encoder. Each is a name, folder or address for `sslzoo.load`,
            an `.onnx`, a Keras model, a `torch.nn.Module`, a callable (`sslzoo.downstream.as_encoder`), or a pair of
            features (train (N, L), test (M, L)) of the images, in their order.
        dataset, test, data_dir, image_size, labels, test_share, on_error, background, attribute: as in
            `sslzoo.evaluate`. Of features alone, `(train labels, test labels)` will do as `dataset`.
        scale: float, what values 0..255 are multiplied with before an ONNX file, a `torch.nn.Module` or a callable sees
            them, as in `sslzoo.downstream.as_encoder`; the others scale images themselves.
        protocols: of "knn" (k = 10, cosine) and "logistic" (regression on standardized features).
        max_train: int, use that many train images, chosen at random, the same for all; None for all.
        batch_size: int, images per call of an encoder.
        seed: int, of the choice of train images, and of what logistic regression chooses its strength on.
        shown: whether a progress line is; None at a terminal only.

    Returns:
        `Comparison`.

    Raises:
        InvalidInputError: fewer than two encoders, two of one name, features of other lengths than the labels, features
            with NaN, or labels and images that do not fit.
        UnknownNameError: a protocol or data set is not known.
        MissingDataError: the data is not there.
    """
    checks.count(batch_size=batch_size, max_train=1 if max_train is None else max_train)
    checks.seed(needed=True, seed=seed)
    chosen = (protocols,) if isinstance(protocols, str) else tuple(protocols)
    chosen = tuple(dict.fromkeys(choose("protocol", name, PROTOCOLS) for name in chosen))
    if not chosen:
        raise InvalidInputError(f"protocols must be some of {', '.join(PROTOCOLS)}. Received: protocols=()")
    named = _named(encoders)
    reading = {"labels": labels, "test_share": test_share, "on_error": on_error, "background": background}
    reader = _Reader(dataset, test, data_dir, image_size, attribute, max_train, seed, reading)
    # All is checked before work.
    ready = _scaled(named, scale)
    shapes = [image_shape(encoder) for encoder in ready.values() if not is_pair(encoder)]
    if image_size is not None and not any(None in shape[:2] for shape in shapes):
        for shape in shapes:
            sized(shape, image_size)
    prepared = {name: reader.prepare(name, encoder) for name, encoder in ready.items()}
    every = [remark for _, told in prepared.values() for remark in told]
    remarks = [remark for remark in dict.fromkeys(every) if every.count(remark) == len(prepared)]  # of all: of the data
    remarks += [f"{name}: {each}" for name, (_, told) in prepared.items() for each in told if each not in remarks]
    predictions = {}
    for name, (subject, _) in prepared.items():
        splits = _embedded(subject, batch_size, progress.line(f"embedded by {name}", shown)).splits()
        predictions[name] = {each: PROTOCOLS[each](*splits, seed).tolist() for each in chosen}
    truth = subject.test_classes
    accuracies, pairs = _counted(predictions, truth, chosen)
    sizes = len(subject.train_labels), len(truth)
    settings = {name: _SAID[name] for name in chosen}
    return Comparison(subject.dataset, *sizes, seed, truth.tolist(), predictions, accuracies, pairs, settings, remarks)


def _counted(predictions, truth, protocols):
    """Accuracies and pairs of all encoders by all protocols."""
    right = {
        name: {each: np.array(answers) == truth for each, answers in of.items()} for name, of in predictions.items()
    }
    accuracies, pairs = [], []
    for protocol in protocols:
        for name, of in right.items():
            count = int(of[protocol].sum())
            accuracies.append(Accuracy(name, protocol, count, len(truth), *wilson(count, len(truth))))
        for first, second in itertools.combinations(right, 2):
            a, b = right[first][protocol], right[second][protocol]
            counts = int((a & ~b).sum()), int((b & ~a).sum())
            interval = paired_interval(*counts, len(truth))
            difference = (counts[0] - counts[1]) / len(truth)
            pairs.append(Pair(first, second, protocol, difference, *interval, *counts, mcnemar(*counts), 1.0))
    adjusted = holm([pair.p for pair in pairs])
    return accuracies, [dataclasses.replace(pair, adjusted=float(p)) for pair, p in zip(pairs, adjusted)]


# ---------------------------------------------------------------------- encoders and images


def _named(encoders):
    """name -> encoder, at least two of different names."""
    if not isinstance(encoders, Mapping):
        if is_named(encoders) or not isinstance(encoders, Sequence):
            raise InvalidInputError(
                f"encoders must be a list of at least two, or a dict by name. Received: {type(encoders).__name__}"
            )
        names = [_name(encoder, place) for place, encoder in enumerate(encoders, 1)]
        if len(set(names)) < len(names):
            raise InvalidInputError(
                f"encoders must have different names; a dict gives them others. Received: {', '.join(names)}"
            )
        encoders = dict(zip(names, encoders))
    if len(encoders) < 2:
        raise InvalidInputError(f"encoders must be at least two. Received: {len(encoders)} encoder")
    return dict(encoders)


def _name(encoder, place):
    if is_named(encoder):
        return os.fspath(encoder).rstrip("/")
    name = getattr(encoder, "name", None) or getattr(encoder, "__name__", None)
    return str(name or f"{'features' if is_pair(encoder) else type(encoder).__name__} {place}")


def _scaled(named, scale):
    """What `as_encoder` makes of each by name, pairs of features as they are; `scale` is for those that take one."""
    made = {name: each if is_pair(each) else as_encoder(each, scale, needed=False) for name, each in named.items()}
    if scale is not None and not any(isinstance(each, (FunctionEncoder, TorchEncoder)) for each in made.values()):
        raise InvalidInputError(
            "scale is for an ONNX file, a torch.nn.Module or a callable; all of these encoders scale images "
            f"themselves. Received: scale={scale}"
        )
    return made


@dataclasses.dataclass
class _Reader:
    """Reads a data set for one encoder after the other: once for each shape of images."""

    dataset: object
    test: object
    data_dir: object
    image_size: int | None
    attribute: "str | int | None"
    max_train: int | None
    seed: int
    reading: dict
    known: dict = dataclasses.field(default_factory=dict)

    def prepare(self, name, encoder):
        """A `Subject` whose encoder and images, or features, fit each other; and remarks."""
        if is_pair(encoder):
            return self._of_features(name, encoder)
        height, width, channels = image_shape(encoder)
        subject, remarks = self._read((height or self.image_size, width or self.image_size, channels))
        subject = dataclasses.replace(subject, encoder=encoder)
        remarks = [*remarks, *subject.take_some(self.max_train)]
        return _checked(subject), remarks + subject.check_images()

    def _of_features(self, name, pair):
        labeled = self._labels()
        train, test = (check_features(rows, f"{split} features of {name}", np.float32) for rows, split in _splits(pair))
        for rows, labels, split in zip((train, test), (labeled.train_labels, labeled.test_labels), ("train", "test")):
            if len(rows) != len(labels):
                raise InvalidInputError(
                    f"{split} features of {name} must have a row for each of {len(labels):,} {split} labels. "
                    f"Received: {len(rows):,} rows"
                )
        if train.shape[1] != test.shape[1]:
            raise InvalidInputError(
                f"Features of {name} must be two arrays (rows, L) of the same L. Received: {train.shape}, {test.shape}"
            )
        subject = dataclasses.replace(labeled, train_images=train, test_images=test)
        remarks = subject.take_some(self.max_train)
        return _checked(subject), remarks

    def _labels(self):
        """A `Subject` that has labels, and whatever for images."""
        if is_pair(self.dataset) and self.test is None and not any(map(is_pair, self.dataset)):
            train, test = (
                check_labels(labels, len(labels), f"{split} labels") for labels, split in _splits(self.dataset)
            )
            return Subject(None, "arrays", train, train, test, test, seed=self.seed)
        size = self.image_size
        return self._read((size, size, None))[0]

    def _read(self, shape):
        if shape not in self.known:
            name, train, test, remarks = datasets.read(self.dataset, self.test, self.data_dir, shape, **self.reading)
            subject = Subject(None, name, *train, *test, seed=self.seed)
            if not subject.labeled:
                raise InvalidInputError(f"Encoders are compared by classes. Received: {name} without labels")
            subject.take_classes(self.attribute)
            self.known[shape] = subject, remarks
        subject, remarks = self.known[shape]
        return dataclasses.replace(subject), remarks


def _checked(subject):
    """Itself; raises `InvalidInputError` unless its labels are of at least two classes that both splits have."""
    subject.check_shared_classes()
    if len(np.unique(subject.train_labels)) < 2:
        raise InvalidInputError("Train labels must hold at least 2 classes. Received: 1 class")
    return subject


def _splits(pair):
    return zip(pair, ("train", "test"))


def _embedded(subject, batch_size, line):
    """The subject with its features in place of its images."""
    if subject.encoder is None:
        return subject
    splits, done = [], 0
    total = len(subject.train_images) + len(subject.test_images)
    for images in (subject.train_images, subject.test_images):
        splits.append(features_of(subject.encoder, images, batch_size, lambda n, _, done=done: line(done + n, total)))
        done += len(images)
    return dataclasses.replace(subject, encoder=None, train_images=splits[0], test_images=splits[1])
