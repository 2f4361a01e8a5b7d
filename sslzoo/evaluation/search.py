"""Search by example: the images whose features lie nearest to those of a query, as a list or as a page to look at."""

import base64
import dataclasses
import functools
import html
import io
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from sslzoo import checks
from sslzoo.data.image_files import as_picture, ground
from sslzoo.data.inputs import files_of
from sslzoo.environment import check_parquet
from sslzoo.errors import InvalidInputError, MissingDataError
from sslzoo.evaluation.embedding import BASE, Embedding, embed
from sslzoo.evaluation.neighbors import nearest
from sslzoo.files import as_path, is_named, is_path, open_npz, write_beside
from sslzoo.zoo.index import SCHEME

_THUMBNAIL = 160  # pixels


@dataclasses.dataclass(frozen=True)
class Match:
    """An image that was found.

    Example:
        import numpy as np
        from sslzoo import evaluation

        features = np.random.default_rng(0).normal(size=(20, 4)).astype("float32")
        first: evaluation.Match = evaluation.search(evaluation.Embedding(features, index=np.arange(20)), 3, k=2)[0]
        first.image, first.similarity  # the image most like number 3, and the cosine

    Attributes:
        image: its path, or its place (int) where the images were no files.
        similarity: cosine of the angle between its features and the query's, -1..1.
        label: its class, by name where there are names; else None.
    """

    image: "str | int"
    similarity: float
    label: "str | int | None" = None


def search(
    features: "Embedding | str | os.PathLike", query, k: int = 8, encoder=None, background: str = "white"
) -> list[Match]:
    """Finds the images that are most like a query, by the cosine similarity of their features.

        embedding = sslzoo.embed("simvae-mnist", "scans/")
        sslzoo.search(embedding, "scans/a.png", k=5)   # without the query itself
        sslzoo.search("features.npz", 17)              # as `sslzoo embed` wrote them; the image of row 17

    Args:
        features: of the images to search, from `sslzoo.embed`; or the `.npz` or `.parquet` that `sslzoo embed` wrote
            (the latter does not say which model made it).
        query: image file, Pillow image or array (H, W, C) with values 0..255; or int, a row of `features`. A query
            that is among the images is left out of what is found.
        k: int, how many to find; fewer if there are not as many.
        encoder: what made the features, as `sslzoo.embed` takes it; None for the model that they name.
        background: str, color that a transparent query is laid on.

    Returns:
        list of `Match`, the most similar first.

    Raises:
        InvalidInputError: `features` that are not features, a query that is not an image, or an encoder of another
            number of features.
        MissingDataError: no such file.
    """
    bank = features if isinstance(features, Embedding) else read_features(features)
    checks.count(k=k)
    own = row_of(bank, query)
    if checks.is_integer(query):
        idle = {"encoder (--model)": (encoder, None), "background": (background, "white")}
        for option, (value, usual) in idle.items():
            if value != usual:
                raise InvalidInputError(
                    f"{option} is for a query that is an image; a row has its features. "
                    f"Received: {option.split()[0]}={value!r}, {query=}"
                )
    if own is None:
        encoder = encoder if encoder is not None else bank.model and str(bank.model)
        if encoder is None:
            raise InvalidInputError(
                "The features do not say which model made them: pass encoder (in the shell --model). "
                f"Received: encoder=None, features of shape {bank.shape}"
            )
        made_by = encoder if is_named(encoder) else ""
        if is_path(made_by) and not str(made_by).startswith(SCHEME) and not as_path(made_by).exists():
            raise MissingDataError(
                "There is no such model; if the features name a folder that was moved, pass encoder (--model). "
                f"Received: model={os.fspath(made_by)!r}"
            )
        if is_named(query) and (as_path(query).is_dir() or str(query).endswith(".npz")):
            raise InvalidInputError(f"query must be one image, its file. Received: query={os.fspath(query)!r}")
        pixels = isinstance(query, np.ndarray)
        asked = embed(encoder, query[None] if pixels else [query], background=background).features
        if asked.shape[1] != bank.shape[1]:
            raise InvalidInputError(
                f"The encoder must be the one that made the features, {bank.shape[1]} for each image. "
                f"Received: encoder={encoder!r}, which gives {asked.shape[1]}"
            )
    else:
        asked = bank.features[own : own + 1]
    rows, similarities = nearest(bank.features, asked, min(k + (own is not None), len(bank)), "cosine")
    return [_match(bank, row, value) for row, value in zip(rows[0], similarities[0]) if row != own][:k]


def read_features(path: "str | os.PathLike") -> Embedding:
    """What `sslzoo embed` wrote, whose arrays fit each other, or raise as `search`."""
    if not as_path(path).is_file():
        raise MissingDataError(f"There is no such file. Received: features={os.fspath(path)!r}")
    path = as_path(path)
    table = str(path).endswith(".parquet")
    if table:
        check_parquet()
    try:
        arrays = _of_table(path) if table else _of_arrays(path)
    except Exception as error:  # zipfile, zlib, NumPy and Arrow each have their own
        kind = "a .parquet" if table else "an .npz"
        raise InvalidInputError(f"features must be {kind} file ({error}). Received: {os.fspath(path)!r}") from error
    if "features" not in arrays or not {"paths", "index"} & set(arrays):
        wanted = "columns `vector` and `path` or `index`" if table else "`features` (N, L) and `paths` or `index`"
        raise InvalidInputError(
            f"features must be a file that sslzoo embed wrote, with {wanted}. "
            f"Received: {os.fspath(path)!r}{'' if table else f' with {sorted(arrays)}'}"
        )
    try:
        bank = Embedding(**arrays).checked()
    except InvalidInputError as error:
        raise InvalidInputError(f"In {os.fspath(path)}: {error}") from None
    # Images and model as they were seen from where the features were made, or else from here, or where these lie.
    beside, here = Path(path).resolve().parent, Path.cwd()
    made = [] if bank.base is None else [Path(os.path.normpath(beside / str(bank.base)))]
    places = list(dict.fromkeys((*made, here, beside)))
    if bank.model is not None:
        bank.model = np.array(_reachable(str(bank.model), places, here))
    if bank.paths is not None:
        bank.paths = np.array([_reachable(str(name), places, here) for name in bank.paths])
    return bank


def _of_arrays(path):
    names = {field.name for field in dataclasses.fields(Embedding)}
    with open_npz(path) as file:
        return {name: file[name] for name in file.files if name in names}


def _of_table(path):
    """What `Embedding.to_parquet` wrote, or another table of such columns."""
    from pyarrow import parquet

    known = {"path": "paths", "index": "index", "label": "labels"}
    table = parquet.read_table(path)
    arrays = {known[name]: np.array(table[name].to_pylist()) for name in table.column_names if name in known}
    vectors = {"vector": "features", "log_var": "log_var"}
    arrays |= {vectors[name]: np.stack(table[name].to_numpy()) for name in table.column_names if name in vectors}
    if BASE in (table.schema.metadata or {}):
        arrays["base"] = np.array(table.schema.metadata[BASE].decode("utf-8"))
    if "labels" in arrays and arrays["labels"].dtype.kind == "U":
        arrays["classes"], arrays["labels"] = np.unique(arrays["labels"], return_inverse=True)
    return arrays


def _reachable(name, places, here):
    """A path from the first of the places in which it is there: from here as it stands, as one that is nowhere."""
    place = next((place for place in places if os.path.exists(place / name)), here)
    return name if place == here else str(place / name)


def row_of(bank: Embedding, query) -> int | None:
    """The row of the query in the bank, or None."""
    if checks.is_integer(query):
        if not 0 <= query < len(bank):
            raise InvalidInputError(f"query must be a row of the features, 0..{len(bank) - 1}. Received: query={query}")
        return int(query)
    if "\0" in str(query):
        raise InvalidInputError(f"query must be an image file. Received: query={query!r}")
    if is_named(query) and bank.paths is not None:
        place, real = os.path.realpath(as_path(query)), functools.cache(os.path.realpath)

        def resolved(path):
            if os.path.islink(path):
                return os.path.realpath(path)
            folder, name = os.path.split(path)
            return os.path.join(real(folder), name)

        return next((row for row, path in enumerate(bank.paths) if "\0" not in path and resolved(path) == place), None)
    return None


def _match(bank, row, similarity):
    image = int(bank.index[row]) if bank.paths is None else str(bank.paths[row])
    label = None if bank.labels is None else int(bank.labels[row])
    return Match(image, float(similarity), label if label is None or bank.classes is None else str(bank.classes[label]))


def page(query, matches: Sequence[Match], path: "str | os.PathLike", background: str = "white") -> Path:
    """Writes what `search` found as one HTML file that needs no other: thumbnails, similarities, names.

    The query is as in `search`; for an int there is no picture. The background is that of transparent images. Returns
    the path.
    """
    name = str(query) if isinstance(query, (str, os.PathLike, int)) else "query"
    figures = [(query, "the query")]
    for match in matches:
        label = "" if match.label is None else f" · {match.label}"
        figures.append((match.image, f"{match.similarity:.3f}{label}"))
    return gallery(f"{len(matches)} images nearest to {os.path.basename(name)}", figures, path, background)


def gallery(title: str, figures: Sequence[tuple], path: "str | os.PathLike", background: str = "white") -> Path:
    """Writes thumbnails as one HTML file that needs no other: of each (image, line) the image, its line and its name.

    An image is a path, an array (H, W, C), or an int, of which there is no picture; transparent ones are laid on the
    background. Returns the path.
    """
    color = ground(background)  # which refuses what is none, where a thumbnail would only be missing
    shown = (_figure(image, line, color) for image, line in figures)
    return write_beside(path, _PAGE.format(title=html.escape(title)) + "\n".join(shown))


def _figure(image, line, background):
    name = str(image) if isinstance(image, (str, os.PathLike, int)) else "query"
    picture, full = _thumbnail(image, background), html.escape(name)
    short = html.escape("/".join(Path(name).parts[-2:]))  # a folder is often what tells images of one name apart
    shown = f'<img src="{picture}" alt="{short}">' if picture else "<p>no picture</p>"
    return f'<figure title="{full}">{shown}<figcaption><b>{html.escape(line)}</b><br>{short}</figcaption></figure>'


def _thumbnail(image, background):
    """A data address of the image at the size of a thumbnail; None where it cannot be shown."""
    try:
        if is_named(image):
            file = [as_path(image)]
            image = files_of(file, background).read(0, _THUMBNAIL)
        image = as_picture(image)
        # Few pixels are shown as they are; many are averaged, and take a fifth of the space as a JPEG.
        small = max(image.size) < _THUMBNAIL
        how, kind = (Image.Resampling.NEAREST, "png") if small else (Image.Resampling.LANCZOS, "jpeg")
        larger = max(image.size)
        size = [max(1, round(side * _THUMBNAIL / larger)) for side in image.size]
        image = image.convert("RGB").resize(size, how)
        buffer = io.BytesIO()
        image.save(buffer, kind, optimize=True, quality=90)
    except Exception:  # Pillow's decoders raise many kinds; an int is no image
        return None
    return f"data:image/{kind};base64," + base64.b64encode(buffer.getvalue()).decode()


_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ font: 14px/1.4 sans-serif; margin: 2rem; }}
figure {{ display: inline-block; width: 160px; margin: .5rem; vertical-align: top; overflow-wrap: anywhere; }}
</style>
<h1>{title}</h1>
"""
