"""Whether images of other data sets are recognized as such."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from sslzoo import checks, data
from sslzoo.data.catalogue import KNOWN
from sslzoo.data.sources import is_folder
from sslzoo.errors import InvalidInputError
from sslzoo.evaluation import neighbors, outliers
from sslzoo.evaluation.features import features, spread
from sslzoo.evaluation.protocols.protocol import DoesNotApply, Number, Protocol, Result
from sslzoo.files import is_named

K = 50
# Sets that outliers are taken from, where they are at hand.
OUTSIDE = {
    "digits": ("fashion_mnist", "cifar10"),  # not MNIST: it shows the same, drawn by other hands
    "mnist": ("fashion_mnist", "cifar10"),
    "fashion_mnist": ("mnist",),
    "cifar10": ("svhn_cropped", "cifar100", "fashion_mnist"),
    "cifar100": ("svhn_cropped", "cifar10"),
    "svhn_cropped": ("cifar10", "cifar100"),
    "celeb_a": ("cifar10", "svhn_cropped"),
}


@dataclasses.dataclass
class Outliers(Protocol):
    """AUROC of test images against those of other sets: by neighbors among the features, and by the slope of the
    density that the head stands for, or the features of an encoder without a head.

    Args:
        outside: the other sets: names or paths, or name -> images; None for those of a fixed list that are prepared.
        outlier_images: int, of each set, at most.
    """

    name, title = "outliers", "outliers"
    parts = ("projection",)
    inputs = ("outside",)

    outside: Any = None
    outlier_images: int = 2000

    def check(self, subject):
        sets, listed = self.outside, OUTSIDE.get(subject.dataset, ()) if self.outside is None else ()
        if sets is None:
            sets = [name for name in listed if data.is_prepared(name, subject.data_dir)]
        elif is_named(sets):
            sets = [sets]
        if not isinstance(sets, Mapping):
            sets = list(sets)
            names = [data.name_of(name) for name in sets]
            if len(set(names)) < len(names):
                raise InvalidInputError(
                    "Sets in `outside` must have different names; a dict, name -> images, gives them others. "
                    f"Received: {', '.join(map(str, sets))}"
                )
            sets = {name: _read(path, subject) for name, path in zip(names, sets)}
        if not sets:
            none = f", and none of {', '.join(listed)} is prepared here" if listed else ""
            raise DoesNotApply(
                f"Outliers take another data set{none}: name one in `outside` (--outside)", f"outside={self.outside!r}"
            )
        self._others, self._remarks = {}, []
        for name, images in sets.items():
            most = self.outlier_images
            images = images if isinstance(images, data.StreamedImages) else checks.array(images)
            in_no_order = name in KNOWN and not isinstance(self.outside, Mapping)  # whose keys are the user's own
            images = images[:most] if in_no_order else images[spread(len(images), most)]
            self._others[name], done = data.fit_images(images, subject.test_images.shape[1:])
            self._remarks += [f"outliers, {name}: {what}." for what in done]

    def run(self, subject):
        progress, remarks = subject.progress(self.title), list(self._remarks)
        if "projection" in subject.missing:
            remarks.append(f"No projection: {subject.missing['projection']}")
        k, seed = min(K, len(subject.train_features)), subject.seed
        chosen = subject.some(len(subject.test_images), self.outlier_images)
        inside = subject.test_images[chosen]
        head = subject.parts.get("projection")
        network, what = (subject.encoder, "features") if head is None else (head, "outputs of the head")
        slope = outliers.scores(network, inside, seed=seed) if hasattr(network, "predict_on_batch") else None
        if slope is not None and not slope.any():
            slope = None
            remarks.append("Outliers have no score by slope: it is 0 everywhere, as behind a threshold of pixels.")

        def similarity(rows):
            """Cosine similarity to the k-th nearest train image."""
            return neighbors.nearest(subject.train_features, rows, k, "cosine")[1][:, -1]

        by_neighbors = f"AUROC of the cosine similarity to the {k}th nearest train image"
        by_slope = f"AUROC of minus the slope of logsumexp of the {what}, noise 0.03, as GEDI's tables"
        ours, numbers = similarity(subject.test_features[chosen]), {}
        for done, (name, images) in enumerate(self._others.items(), 1):
            theirs = similarity(features(subject.encoder, images, subject.batch_size))
            area = outliers.auroc(ours, theirs)
            against = f"OOD AUROC vs {KNOWN[name].title if name in KNOWN else name}"
            numbers[f"{name}_auroc"] = Number(area, f"{against} (kNN distance)", by_neighbors, 0.5)
            if slope is not None:
                area = outliers.auroc(slope, outliers.scores(network, images, seed=seed + 1))
                numbers[f"{name}_slope_auroc"] = Number(area, f"{against} (density slope)", by_slope, 0.5)
            progress(done, len(self._others))
        settings = {"inside": "test images", "images": len(inside), "k": k, "noise": outliers.TEST_NOISE}
        return Result(numbers, settings, remarks)


def _read(name, subject):
    """Test images of another set, or all where it has no splits; those of a folder in the size of the subject's."""
    split = "test" if "test" in data.splits(name) else "train"
    sized = {"image_size": tuple(subject.test_images.shape[1:3])} if is_folder(name) else {}
    return data.load(name, split, data_dir=subject.data_dir, **sized)[0]
