"""The classes that a fine-tuned classifier gives images: a table, and a page with the least certain first."""

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from sslzoo import zoo
from sslzoo.errors import InvalidInputError
from sslzoo.evaluation.embedding import csv_lines, embed_by, no_formula
from sslzoo.evaluation.search import gallery

MOST_SHOWN = 200  # thumbnails on a page, a few kB each


@dataclasses.dataclass
class Prediction:
    """Classes of images.

    Example:
        import numpy as np
        from sslzoo.downstream import Prediction

        found = Prediction(np.arange(2), np.array([[0.9, 0.1], [0.3, 0.7]]), ["cat", "dog"], [], [])
        found.rows()  # image, class and probability of each

    Attributes:
        images: paths, or places (int) of images that are no files.
        probabilities: float32 (N, K).
        classes: list of K str.
        skipped, remarks: as in `sslzoo.evaluation.Embedding`.
    """

    images: np.ndarray
    probabilities: np.ndarray
    classes: list[str]
    skipped: list[tuple[str, str]]
    remarks: list[str]

    @property
    def labels(self) -> list[str]:
        """The class of each image."""
        return [self.classes[place] for place in self.probabilities.argmax(axis=1)]

    @property
    def certainty(self) -> np.ndarray:
        """Probability of that class, float32 (N,)."""
        return self.probabilities.max(axis=1)

    def rows(self) -> list[tuple]:
        """(path or index, class, probability) of each image."""
        images = self.images.tolist()
        return [*zip(images, self.labels, (round(float(value), 4) for value in self.certainty))]

    def to_csv(self) -> str:
        """A row for each image: path or index, class, probability. Cells that begin a formula are guarded."""
        header = ("path" if self.images.dtype.kind == "U" else "index", "class", "probability")
        cells = ((no_formula(image), no_formula(label), value) for image, label, value in self.rows())
        return "".join(csv_lines([header, *cells]))

    def page(self, path: "str | os.PathLike", background: str = "white") -> Path:
        """Writes thumbnails with their classes as one HTML file, the 200 least certain images first.

        Transparent images are laid on the background.
        """
        rows = self.rows()
        order = np.argsort(self.certainty, kind="stable")[:MOST_SHOWN]
        figures = [(rows[row][0], f"{rows[row][1]} {rows[row][2]:.2f}") for row in order]
        shown = f", {len(order):,} of them" if len(order) < len(rows) else ""
        return gallery(f"{len(rows):,} images, the least certain first{shown}", figures, path, background)


def predict(
    classifier: "str | os.PathLike",
    images,
    *,
    revision: str | None = None,
    split: str | None = None,
    batch_size: int = 256,
    on_error: str = "fail",
    background: str = "white",
    progress: Callable[[int, int], None] | None = None,
) -> Prediction:
    """Classes of images of any size and kind.

    Args:
        classifier: what `sslzoo.finetune` wrote: a folder, or hf://organization/name.
        images, revision, split, batch_size, on_error, background, progress: as in `sslzoo.embed`.

    Raises:
        InvalidInputError: an encoder, which has no classes; else as `sslzoo.embed`.
    """
    classes = zoo.info(classifier, revision).get("classes")
    if not classes:
        raise InvalidInputError(
            "Expected a classifier, as `sslzoo finetune` writes it; an encoder has no classes. "
            f"Received: classifier={os.fspath(classifier)!r}"
        )
    reading = (images, split, batch_size, on_error, progress, None, background)
    found = embed_by(lambda: zoo.load(classifier, revision=revision), None, *reading)
    named = found.index if found.paths is None else found.paths
    return Prediction(named, found.features, list(classes), found.skipped, found.remarks)
