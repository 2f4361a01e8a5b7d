"""A map of images by their features, as one page: thumbnails on hover, neighbors on click, nothing to install."""

import base64
import html as markup
import io
import json
import os
import re
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from sslzoo import checks, data
from sslzoo.data.catalogue import KNOWN
from sslzoo.data.image_files import as_picture
from sslzoo.data.inputs import files_of, source_of
from sslzoo.data.labels import check_labels
from sslzoo.errors import InvalidInputError
from sslzoo.evaluation.embedding import Embedding
from sslzoo.evaluation.features import check_features, normalized, scaled
from sslzoo.evaluation.neighbors import nearest
from sslzoo.evaluation.pictures import class_colors
from sslzoo.evaluation.search import read_features
from sslzoo.files import as_path, is_named, write_beside

MOST = 50_000  # images on a page
MOST_PLACED = 5000  # images that t-SNE places, in half a minute; others go where their nearest ones are
_PIXELS = 3200  # of a side of the sheet of thumbnails, which every browser decodes
_TILES = (16, 96)  # pixels of a side of a thumbnail, least and most
_TEMPLATE = Path(__file__).with_name("explore.html")


def explore(
    features,
    html: "str | os.PathLike",
    *,
    images=None,
    labels=None,
    classes=None,
    split: str | None = None,
    data_dir: "str | os.PathLike | None" = None,
    clusters: int | None = None,
    neighbors: int = 12,
    title: str = "Images by their features",
    seed: int = 0,
) -> Path:
    """Writes a page that shows all images as a map, by features that are there already.

        sslzoo.explore("features.npz", "map.html")                    # what `sslzoo embed` wrote of files
        sslzoo.explore(features, "map.html", images=images, labels=labels)

    The page needs no other file and no other host. The map is t-SNE (neighbors stay neighbors, distances and sizes of
    clusters mean little) of the first 50 principal components of 5,000 images, chosen at random, which takes half a
    minute; each other image is placed between the three nearest of those. Clusters are k-means of unit features.
    Neighbors are the nearest of all by cosine.

    Args:
        features: array (N, L), N >= 3, an `Embedding`, or the `.npz` or `.parquet` that `sslzoo embed` wrote. Of more
            than 50,000 rows so many are shown, chosen at random.
        html: the file to write.
        images: what thumbnails are made of, where features name no files: array (N, H, W, C), or what `sslzoo.embed`
            was given; the name of a data set stands for its `split`. None: those files, or no thumbnails.
        labels: int (N,), in place of those of the embedding. classes: names of labels 0, 1, ...
        split, data_dir: of `images`, and where data sets are.
        clusters: int, how many; None for as many as there are classes, or ten.
        neighbors: int, how many are shown of each image.
        title: str, of the page.
        seed: int, of the map and of clusters.

    Returns:
        The path of the page.

    Raises:
        InvalidInputError: features, images or labels that do not fit each other, features with NaN, or too few.
        MissingDataError: no such file.
    """
    place = as_path(html)
    if place.is_dir() or not place.absolute().parent.is_dir():
        raise InvalidInputError(f"html must be a file in a folder that exists. Received: html='{place}'")
    checks.count(neighbors=neighbors, clusters=1 if clusters is None else clusters)
    checks.seed(needed=True, seed=seed)
    if images is None and (split or data_dir):
        received = f"Received: {split=}, {data_dir=}, images=None"
        raise InvalidInputError(f"split and data_dir are of images, which are not named. {received}")
    bank = _embedding(features, labels, classes, images)
    if len(bank) < 3:
        raise InvalidInputError(f"A map shows 3 images or more. Received: {len(bank):,} rows of features")
    source, count = _source(bank, images, split, data_dir), len(bank)
    if count > MOST:
        rows = np.sort(np.random.default_rng(seed).permutation(count)[:MOST])
        bank, source = _some(bank, rows), source and (source[0], [source[1][row] for row in rows])
    tile = int(np.clip(_PIXELS / np.ceil(np.sqrt(len(bank))), *_TILES))
    sprite = None if source is None else _sprite(*source, tile)
    points, how = _points(bank.features, seed)
    near = _neighbors(bank.features, min(neighbors, len(bank) - 1))
    groups = _groups(bank, clusters, seed)
    chosen = f" of {count:,}, chosen at random" if count > MOST else ""
    record = {
        "about": f"{len(bank):,} images{chosen}, {bank.shape[1]:,} features each; {how}",
        "points": _encoded(points, np.float32),
        "near": _encoded(near, np.uint32),
        "order": np.random.default_rng(seed).permutation(len(bank)).tolist(),  # no class lies on all others
        "groups": groups,
        "names": None if bank.paths is None else [os.path.basename(path) for path in bank.paths],
        "index": (np.arange(len(bank)) if bank.index is None else bank.index).tolist(),
        "sprite": sprite,
    }
    text = json.dumps(record, ensure_ascii=True, allow_nan=False).replace("<", "\\u003c")
    given = {"__TITLE__": markup.escape(title), "__DATA__": text}
    page = re.sub("__TITLE__|__DATA__", lambda found: given[found[0]], _TEMPLATE.read_text(encoding="utf-8"))
    return write_beside(html, page)


# ---------------------------------------------------------------------- what is shown


def _embedding(features, labels, classes, images):
    """An `Embedding` of whatever was given, with the labels that were."""
    if is_named(features):
        bank = read_features(features)
    elif isinstance(features, Embedding):
        bank = features.checked()
    else:
        rows = check_features(features, dtype=np.float32)
        bank = Embedding(rows, index=np.arange(len(rows)))
    own = bank.classes if labels is None else None  # which are no names of other labels
    labels = bank.labels if labels is None else check_labels(labels, len(bank), negative=True)
    named = own if classes is None else np.array([str(name) for name in classes])
    if named is None and labels is not None and isinstance(images, str) and images in KNOWN:
        names = data.class_names(images, np.arange(labels.max() + 1))
        named = None if names is None else np.array(names)
    found = Embedding(bank.features, paths=bank.paths, index=bank.index)
    if labels is None:
        return found.checked()
    if labels.min() >= 0:
        return Embedding(**found.arrays(), labels=labels, classes=named).checked()
    if named is not None:
        raise InvalidInputError(f"classes name labels from 0 on. Received: labels from {labels.min()} on, with classes")
    found.checked().labels = labels
    return found


def _some(bank, rows):
    """Some rows of an `Embedding`, which keep their places."""
    arrays = {name: getattr(bank, name) for name in ("features", "paths", "labels")}
    arrays["index"] = np.arange(len(bank)) if bank.index is None else bank.index
    some = {name: None if array is None else array[rows] for name, array in arrays.items()}
    return Embedding(**some, classes=bank.classes)


def _source(bank, images, split, data_dir):
    """What reads the images, and the place there of each row; or None for no thumbnails."""
    if images is None:
        if bank.paths is None or not any(map(os.path.exists, bank.paths)):
            return None
        files = [as_path(path) for path in bank.paths]  # a file each, whatever has become of it
        return files_of(files, "white"), range(len(files))
    if isinstance(images, str) and images in KNOWN:
        images, split = data.load(images, split or "train", data_dir=data_dir)[0], None
    source = source_of(images, split)
    places = np.arange(len(bank)) if bank.index is None else bank.index
    if bank.index is None and len(source) != len(bank):  # files that were left out would shift all others
        raise InvalidInputError(
            f"images must be those of the features, {len(bank):,} files in their order; without images the files "
            f"themselves are shown. Received: {len(source):,} images"
        )
    if len(source) <= places.max():
        raise InvalidInputError(
            f"images must be those of the features, of which the last is number {places.max():,}. "
            f"Received: {len(source):,} images"
        )
    return source, places.tolist()


def _sprite(source, places, tile):
    """All thumbnails in one sheet, row by row, as a data address of a JPEG; images that cannot be read stay gray."""
    count = len(places)
    columns = int(np.ceil(np.sqrt(count)))
    rows = -(-count // columns)
    sheet = Image.new("RGB", (columns * tile, rows * tile), "#808080")
    for row, read in enumerate(source.each(places, tile)):
        try:
            picture = as_picture(read()).convert("RGB")
        except Exception:  # Pillow's decoders raise many kinds
            continue
        # Few pixels are shown as they are; many are averaged.
        how = Image.Resampling.NEAREST if max(picture.size) <= tile else Image.Resampling.LANCZOS
        place = (row % columns * tile, row // columns * tile)
        sheet.paste(ImageOps.pad(picture, (tile, tile), how, color="#ffffff"), place)
    buffer = io.BytesIO()
    sheet.save(buffer, "JPEG", quality=80)
    address = "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()
    return {"uri": address, "tile": tile, "columns": columns, "rows": rows}


def _points(features, seed):
    """Places (N, 2) in 0..1, and how they were found."""
    from sklearn.decomposition import PCA
    from threadpoolctl import threadpool_limits

    rows = scaled(features.astype(np.float64) - features.mean(axis=0, dtype=np.float64)).astype(np.float32)
    some = np.sort(np.random.default_rng(seed).permutation(len(rows))[:MOST_PLACED])
    with np.errstate(invalid="ignore"), threadpool_limits(1):
        if rows.shape[1] > 50:
            rows = PCA(min(50, len(rows)), random_state=seed).fit_transform(rows)
        if rows.shape[1] <= 2 or not np.ptp(rows, axis=0).any():
            return _in_frame(np.pad(rows, ((0, 0), (0, max(0, 2 - rows.shape[1]))))[:, :2]), "features as they are"
        from sklearn.manifold import TSNE

        perplexity = min(30, (len(some) - 1) / 3)
        placed = TSNE(perplexity=perplexity, init="pca", random_state=seed).fit_transform(rows[some])
    points = np.empty((len(rows), 2))
    points[some] = placed
    others = np.setdiff1d(np.arange(len(rows)), some)
    if not len(others):
        return _in_frame(points), "t-SNE"
    near, closeness = nearest(rows[some], rows[others], 3, "euclidean")
    weights = 1 / np.maximum(-closeness, 1e-12)
    points[others] = np.einsum("nk,nkd->nd", weights / weights.sum(axis=1, keepdims=True), placed[near])
    return _in_frame(points), f"t-SNE of {len(some):,} of them, the others among their nearest three"


def _in_frame(points):
    low, high = points.min(axis=0), points.max(axis=0)
    return (points - (low + high) / 2) / max((high - low).max(), 1e-12) + 0.5


def _neighbors(features, k):
    """The k nearest other rows of each row."""
    rows, _ = nearest(features, features, k + 1, "cosine")
    others = np.where(rows == np.arange(len(rows))[:, None], -1, rows)
    # Rows that are equal may stand before a row itself; where it is not among them, the last is left out.
    return np.array([row[row >= 0][:k] for row in others])


def _groups(bank, clusters, seed):
    """What points are colored by: classes, where there are, and clusters."""
    groups = []
    if bank.labels is not None:
        values, numbers = np.unique(bank.labels, return_inverse=True)
        names = [str(value if bank.classes is None else bank.classes[value]) for value in values]
        groups.append(_group("class", numbers, names))
    count = clusters or (len(groups[0]["names"]) if groups and len(groups[0]["names"]) > 1 else 10)
    count = min(count, len(bank))
    numbers = _clusters(bank.features, count, seed)
    groups.append(_group("cluster", numbers, [str(number) for number in range(count)]))
    return groups


def _clusters(features, count, seed):
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    rows = normalized(features)
    distinct = len(np.unique(rows, axis=0))
    with threadpool_limits(1):
        return KMeans(min(count, distinct), n_init=3, random_state=seed).fit(rows).labels_


def _group(name, numbers, names):
    return {"name": name, "names": names, "colors": class_colors(len(names)), "of": _encoded(numbers, np.uint16)}


def _encoded(array, dtype):
    """Numbers as a browser reads them: little-endian bytes in base64."""
    return base64.b64encode(np.ascontiguousarray(array, np.dtype(dtype).newbyteorder("<")).tobytes()).decode()
