"""A user's images to features: read, fitted to the encoder, embedded."""

import contextlib
import csv
import dataclasses
import itertools
import os
import types
from collections.abc import Callable, Iterable, Iterator, Sequence

import keras
import numpy as np

from sslzoo import checks
from sslzoo.data.image_files import Fit
from sslzoo.data.inputs import source_of
from sslzoo.environment import check_parquet
from sslzoo.errors import ArtifactError, InvalidInputError, choose
from sslzoo.evaluation.features import (
    check_features,
    check_finite,
    count_constant,
    image_shape,
    load_encoder,
    outputs_of,
)
from sslzoo.files import is_named
from sslzoo.networks.composition import input_range
from sslzoo.zoo.index import SCHEME
from sslzoo.zoo.loading import address, info

BASE = b"sslzoo.base"  # of a table's metadata: `Embedding.base`


@dataclasses.dataclass(repr=False)
class Embedding:
    """Features of images, and which images they are of. `np.asarray(embedding)` is the features.

    Example:
        import keras
        import numpy as np
        import sslzoo
        from sslzoo import evaluation

        encoder = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Flatten()])
        embedding: evaluation.Embedding = sslzoo.embed(encoder, np.zeros((4, 8, 8, 1), "uint8"))
        embedding.features.shape, embedding.index  # (4, 64), array([0, 1, 2, 3])

    Attributes:
        features: float32 (N, L).
        log_var: float32 (N, L), the logarithm of the posterior's variance, where the encoder gives it; else None.
        paths: str (N,), of images that are files; else None.
        index: int64 (N,), the place of each image among those that were given, where they are no files; else None.
        labels: int64 (N,), of an `.npz` that has them (one an image) or a folder sorted into classes; else None.
        classes: names of a folder's classes, in the order of their labels; else None.
        model: str as an array (), the name or path of the encoder, where it was given by one; else None.
        base: str as an array (), the folder from which relative paths are seen, as seen from the file that this is
            written to; None before.
        skipped: list of (path or place, reason), images that could not be read.
        remarks: list of str, what was done to images to fit the encoder.
    """

    features: np.ndarray
    log_var: np.ndarray | None = None
    paths: np.ndarray | None = None
    index: np.ndarray | None = None
    labels: np.ndarray | None = None
    classes: np.ndarray | None = None
    model: np.ndarray | None = None
    base: np.ndarray | None = None
    skipped: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    remarks: list[str] = dataclasses.field(default_factory=list)

    def __post_init__(self):
        for name in ("features", "log_var", "paths", "index", "labels", "classes", "model", "base"):
            value = getattr(self, name)
            setattr(self, name, value if value is None else np.asarray(value))
        if self.paths is None and self.index is None and self.features.ndim:
            self.index = np.arange(len(self.features))

    def checked(self) -> "Embedding":
        """Itself; raises `InvalidInputError` unless features are features and the other arrays belong to them."""
        self.features = check_features(self.features, "features", np.float32)
        rows = len(self)
        kinds = {"paths": "U", "index": "iu", "labels": "iu", "classes": "U", "model": "U", "base": "U"}
        shapes = dict.fromkeys(("paths", "index", "labels"), (rows,)) | {"model": (), "base": ()}
        shapes |= dict.fromkeys(("features", "log_var"), self.shape)
        for name, value in self.arrays().items():
            if value.dtype.kind not in kinds.get(name, "f") or value.shape != shapes.get(name, (value.size,)):
                raise InvalidInputError(
                    f"{name} does not belong to {rows} rows of features. "
                    f"Received: {name} of shape {value.shape}, {value.dtype}"
                )
        count = np.inf if self.classes is None else len(self.classes)
        if self.labels is not None and not 0 <= self.labels.min() <= self.labels.max() < count:
            raise InvalidInputError(f"labels must be the numbers of {count} classes. Received: {self.labels.max()}")
        return self

    def arrays(self) -> dict[str, np.ndarray]:
        """Those of the arrays that there are, by name: what `sslzoo embed` writes."""
        return {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}

    def to_csv(self) -> str:
        """A row for each image: `path` or `index`, `label` (its class, where there are names), and its features.

        Numbers are written with as many digits as bring float32 back; names that a spreadsheet would take for formulas
        begin with "./".
        """
        return "".join(self.csv_lines())

    def csv_lines(self) -> Iterator[str]:
        """The lines of `to_csv`, one after the other: all of them may take ten times the memory of the features."""
        paths = self.paths is not None
        columns = {"path": map(no_formula, self.paths)} if paths else {"index": self.index}
        if self.labels is not None:
            columns["label"] = self.labels if self.classes is None else map(no_formula, self._names())
        for name, values in (("feature", self.features), ("log_var", self.log_var)):
            if values is not None:
                columns |= {f"{name}_{j}": values[:, j] for j in range(values.shape[1])}
        return csv_lines(itertools.chain([columns], zip(*columns.values())))

    def to_parquet(self, file) -> None:
        """Writes a row for each image: `path` or `index`, `label` (its class, where there are names), `vector`, and
        `log_var` where the encoder gives it.

        Args:
            file: a path, or a binary file that is open.

        Raises:
            BackendError: pyarrow is not installed.
        """
        check_parquet()
        import pyarrow
        from pyarrow import parquet

        columns = {"index": self.index} if self.paths is None else {"path": _as_text(self.paths)}
        if self.labels is not None:
            names = self.labels if self.classes is None else _as_text(self._names())
            columns["label"] = names
        for name, values in (("vector", self.features), ("log_var", self.log_var)):
            if values is not None:
                rows = np.ascontiguousarray(values, np.float32)
                columns[name] = pyarrow.FixedSizeListArray.from_arrays(rows.ravel(), rows.shape[1])
        table = pyarrow.table(columns)
        if self.base is not None:
            table = table.replace_schema_metadata({BASE: _as_text([self.base])[0]})
        parquet.write_table(table, file)

    def _names(self):
        return np.asarray(self.classes)[self.labels]

    def __repr__(self) -> str:
        arrays = [f"{name} {value.dtype} {value.shape}" for name, value in self.arrays().items() if value.ndim]
        model = [f"by {self.model}"] * (self.model is not None)
        left_out = [f"{len(self.skipped):,} images left out"] * bool(self.skipped)
        return f"<Embedding: {', '.join(arrays + model + left_out + self.remarks)}>"

    @property
    def shape(self) -> tuple[int, int]:
        return self.features.shape

    def __len__(self) -> int:
        return len(self.features)

    def __iter__(self):
        """Rows of the features, for whatever makes a table of what it can go through."""
        return iter(self.features)

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        return np.array(self.features, dtype) if copy else np.asarray(self.features, dtype)


def csv_lines(rows: Iterable) -> Iterator[str]:
    """Rows as comma-separated values, a line each."""
    # A terminator of both characters has cells quoted that hold either of them, on Python 3.11 too.
    writer = csv.writer(types.SimpleNamespace(write=lambda row: row.removesuffix("\r\n") + "\n"))
    return map(writer.writerow, rows)


def _as_text(names):
    """Names, with escapes for the lone surrogates of names of files, which no table holds."""
    return [str(name).encode("utf-8", "backslashreplace").decode("utf-8") for name in names]


def no_formula(name: str) -> str:
    """A name as a cell of a table that no spreadsheet takes for a formula."""
    return f"./{name}" if str(name).startswith(("=", "+", "-", "@", "\t", "\r")) else name


def embed(
    encoder: "keras.layers.Layer | str | os.PathLike",
    images: "np.ndarray | str | os.PathLike | Sequence",
    split: str | None = None,
    part: str = "encoder",
    revision: str | None = None,
    batch_size: int = 256,
    on_error: str = "fail",
    progress: Callable[[int, int], None] | None = None,
    labels: str | None = None,
    background: str = "white",
) -> Embedding:
    """Features of images of any size and kind.

        embedding = sslzoo.embed("simvae-mnist", "scans/")
        embedding.features  # float32 (N, 10)
        embedding.paths     # whose they are

    Images of another size than the encoder's are cropped around their middle to its proportions and resized, bilinear
    and antialiased; color is turned to gray or gray to color. What was done is in `remarks`. Photographs are
    turned upright. A folder is read with all folders below it, in the order of its paths; its sub-folders train,
    validation and test are splits, and theirs are classes.

    Args:
        encoder: Keras model, raw images (B, H, W, C), values 0..255 -> (B, L) or [mean, log_var]; or a name, folder or
            address for `sslzoo.load`.
        images: array (N, H, W, C), uint8 or floats in 0..255; a list of Pillow images; a folder, an image file or an
            `.npz` with `images`; or a list of folders and image files.
        split: of a folder or `.npz` that has several.
        part, revision: as in `sslzoo.load`, where `encoder` is a name.
        batch_size: int, images per call of the encoder.
        on_error: "fail": an image that cannot be read is an error; "skip": it is left out, and named in `skipped`.
        progress: callable (images done, images in all), or None.
        labels: "folders": the folders in a folder are classes, as in `sslzoo.data.load`.
        background: str, color that transparent images are laid on.

    Returns:
        `Embedding`, one row per image that was read.

    Raises:
        InvalidInputError: `encoder` is not an encoder, `images` are not images, or of values that it does not take, one
            that cannot be read (on_error="fail") or none that can, or features with NaN or infinite values.
        MissingDataError: no such path, or a folder without images.
        UnknownNameError, ArtifactError, ...: as `sslzoo.load`.
    """
    name = os.fspath(encoder) if is_named(encoder) and part != "projection" else None
    reading = (images, split, batch_size, on_error, progress, labels, background)
    found = embed_by(lambda: load_encoder(encoder, part=part, revision=revision), name, *reading)
    if name is not None and (revision is not None or name.startswith(SCHEME)):
        with contextlib.suppress(ArtifactError):  # there is no results.json, which says the commit
            revision = info(name, revision)["revision"]
        if revision is not None:  # who searches these features embeds with the same weights, whatever a branch becomes
            found.model = np.array(address(name, revision))
    return found


def embed_by(load, name, images, split, batch_size, on_error, progress, labels, background) -> Embedding:
    """`embed` by what `load` gives, which is asked once images are known to be there; `name` is said of it."""
    checks.count(batch_size=batch_size)
    choose("on_error", on_error, ("fail", "skip"))
    source = source_of(images, split, labels, background, on_error == "skip")
    encoder = load()
    fit = Fit(image_shape(encoder))
    batch_size = min(batch_size, len(source))
    judged = isinstance(source.images, np.ndarray)  # of files nobody knows more than the first ones
    floats = judged and source.images.dtype.kind == "f" and input_range(encoder, None) == (0, 255)
    if floats and (dark := checks.values(source.images)):
        raise InvalidInputError(dark)
    rows, skipped, pending, batches, odd = [], [], [], [], None
    for index, read in enumerate(source.each(range(len(source)), fit.side)):
        try:
            pending.append(fit(read()))
            rows.append(index)
        except InvalidInputError as error:
            if on_error == "fail":
                raise
            skipped.append((source.name(index), str(error.__cause__ or error)))
        if pending and (len(pending) == batch_size or index + 1 == len(source)):
            batch = np.stack(pending)
            if input_range(encoder, None) == (0, 255):
                dark = checks.values(batch)
                if dark and batch.dtype.kind == "f" and not batches and not judged:
                    raise InvalidInputError(dark)
            elif not batches:
                odd = _of_other_values(batch, input_range(encoder, None))
            batches.append(outputs_of(encoder, batch, batch_size))
            pending.clear()
        if progress:
            progress(index + 1, len(source))
    if not rows:
        raise InvalidInputError(f"None of the images can be read. Received: {len(source):,} images")
    outputs = [np.concatenate(values) for values in zip(*batches)]
    check_finite(outputs[0])
    remarks = source.remarks() + fit.remarks(len(rows)) + [odd] * bool(odd)
    labels = source.labels
    if labels is not None and labels.ndim > 1:
        remarks.append(f"Labels are one class an image; these were left out, of shape {labels.shape}")
        labels = None
    if len(rows) > 1 and count_constant(outputs[0]) == outputs[0].shape[1]:
        remarks.append(f"All {len(rows):,} images got the same features: to this encoder they look alike")
    return Embedding(
        **dict(zip(("features", "log_var"), outputs)),
        **source.identify(rows),
        labels=None if labels is None else labels[rows],
        classes=None if source.classes is None else np.array(source.classes),
        model=None if name is None else np.array(name),
        skipped=skipped,
        remarks=remarks,
    )


def _of_other_values(images, span):
    """In words, that raw images are of other values than those that an encoder was trained on; else None."""
    if span is None:
        return None
    low, high = span
    if np.mean((images >= low) & (images <= high)) >= 0.1:  # a tile may be empty, and some pixels lie beyond
        return checks.values(images, low, high, strict=False)
    return (
        f"The encoder was trained on values {low:g} to {high:g}, and nine in ten of these lie beyond: features may "
        f"mean nothing. Received: values {images.min():g} to {images.max():g}"
    )
