"""The pictures of an evaluation, and the folder they go to."""

import os
from pathlib import Path

from sslzoo import data
from sslzoo.errors import InvalidInputError
from sslzoo.evaluation import pictures
from sslzoo.evaluation.features import spread
from sslzoo.files import as_path

# What `draw` may draw, as PNG files of these names.
PICTURES = ("confusion_linear", "confusion_mlp", "neighbors", "embedding", "reconstructions", "classes")
MOST = 2000  # images that neighbors are looked for among


def check_folder(folder, name) -> None:
    """Raise `InvalidInputError` unless files can be written into a folder that is there or yet to be made."""
    path = as_path(folder)
    nearest = next((place for place in (path, *path.parents) if os.path.lexists(place)), Path())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        raise InvalidInputError(
            f"{name} must be a folder that can be written to, or a path where one can be made; '{nearest}' is "
            f"{'not writable' if nearest.is_dir() else 'no folder'}. Received: {name}={os.fspath(folder)!r}"
        )


def remove_pictures(folder) -> None:
    """Removes the pictures of an earlier evaluation from their folder; other files stay."""
    for name in PICTURES:
        (as_path(folder) / f"{name}.png").unlink(missing_ok=True)


def draw(subject, report, images: dict, folder) -> None:
    """Draws confusion, neighbors, the map of the features, reconstructions and classes, as far as they apply.

    Args:
        subject: `Subject`. report: `Report`.
        images: dict, what protocols left to be shown.
        folder: where the PNG files go.
    """
    folder = as_path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for probe, counts in report.confusion.items():
        title = f"{'MLP' if probe == 'mlp' else 'Linear'} probe: what test images are taken for"
        names = data.class_names(subject.source, subject.classes) or list(map(str, subject.classes))
        pictures.confusion(counts, folder / f"confusion_{probe}.png", names, title)
    chosen = spread(len(subject.test_features), MOST)
    rows, shown = subject.test_features[chosen], subject.test_images[chosen]
    if len(rows) > 1:
        if shown.shape[-1] in (1, 3):
            pictures.neighbors(shown, rows, folder / "neighbors.png")
        labels = subject.test_labels[chosen] if subject.labeled else None
        names = None if labels is None else data.class_names(subject.source, labels)
        pictures.embedding(rows, labels, folder / "embedding.png", names=names)
    if "reconstructions" in images:
        pictures.reconstructions(*images["reconstructions"], folder / "reconstructions.png")
    if "classes" in images:
        title = "Drawn from a Gaussian of each class, a class a row"
        pictures.samples(images["classes"], folder / "classes.png", title=title)
