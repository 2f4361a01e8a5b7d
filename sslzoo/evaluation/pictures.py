"""Pictures of a trained encoder: reconstructions, samples, a map of the features, and training curves.

Every function writes one PNG of less than 150 KiB (2 MiB of images above 64 pixels) to `path`, whole or not at all, and
returns its path; where `path` is None it returns a `Picture`, which a notebook shows. Images are arrays (N, H, W, C),
C = 1 or 3: integers in 0..255, or floats in 0..1, -1..1 or 0..255. Other arrays, or ones that do not fit together,
raise `InvalidInputError`. Nothing here touches pyplot or its global state, so it works without a display and in
threads.
"""

import io
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator
from PIL import Image

from sslzoo import checks
from sslzoo.data.labels import check_labels
from sslzoo.errors import InvalidInputError
from sslzoo.evaluation.features import check_features, scaled
from sslzoo.evaluation.neighbors import nearest
from sslzoo.files import write_beside

MAX_BYTES = 150 * 1024  # of a picture that a zoo keeps
PHOTO_BYTES = 2 * 1024**2  # of one that shows photographs, in which few colors make bands
MAX_POINTS = 2000

INK, GRAY, PALE = "#222222", "#6b6b6b", "#e4e4e4"
BLUE, ORANGE = "#0072B2", "#D55E00"  # Okabe and Ito: distinct under every color blindness
# Paul Tol's "muted" scheme for color-blind readers, and a gray for the tenth class.
_MUTED = "#332288 #CC6677 #117733 #DDAA33 #88CCEE #882255 #44AA99 #999933 #AA4499 #555555"
CLASS_COLORS = tuple(_MUTED.split())
_DPI = 110
_NO_CURVE = {"epoch", "seconds", "views_per_second", "learning_rate", "views"}


class Picture:
    """A picture that a notebook shows, and that can be saved.

    Example:
        from sslzoo.evaluation import pictures

        picture: pictures.Picture = pictures.curves([{"epoch": 1, "loss": 2.0}, {"epoch": 2, "loss": 1.5}])
        picture  # at the end of a cell

    Args:
        png: bytes of the file.
    """

    def __init__(self, png: bytes):
        self.png = png

    def save(self, path: "str | os.PathLike") -> Path:
        """Writes it to a file. Returns its path."""
        return write_beside(path, self.png)

    def _repr_png_(self):
        return self.png


def reconstructions(
    images: np.ndarray,
    reconstructed: np.ndarray,
    path: "str | os.PathLike | None" = None,
    title: str = "Reconstructions",
) -> "Path | Picture":
    """Images above what the decoder made of them, ten in a row.

    Args:
        images: images, the first 30 of which are shown.
        reconstructed: array of the same shape.
    """
    above, below = _as_pixels(images[:30], "images"), _as_pixels(reconstructed[:30], "reconstructed")
    if above.shape != below.shape:
        raise InvalidInputError(
            "Images and reconstructions must have the same shape. "
            f"Received: images of shape {np.shape(images)}, reconstructed of shape {np.shape(reconstructed)}"
        )
    starts = range(0, len(above), 10)
    rows = [images[start : start + 10] for start in starts for images in (above, below)]
    return _picture_grid(rows, path, title, ["input", "output"] * len(starts))


def samples(
    images: np.ndarray, path: "str | os.PathLike | None" = None, title: str = "Samples from the prior"
) -> "Path | Picture":
    """Generated images, ten in a row.

    Args:
        images: images, the first 100 of which are shown.
    """
    images = _as_pixels(images[:100], "images")
    return _picture_grid([images[i : i + 10] for i in range(0, len(images), 10)], path, title)


def views(
    images: np.ndarray,
    made: np.ndarray,
    path: "str | os.PathLike | None" = None,
    title: str = "Images (left) and views of them",
) -> "Path | Picture":
    """Each image beside random views of it: what augmentation does to these images, the cheapest check there is.

    Args:
        images: images, the first 8 of which are shown.
        made: float array (N, J, h, w, C), as `Views` makes them; normalized ones are spread over 0..1 to be seen. The
            first 8 of each image are shown.
    """
    made = np.asarray(made)
    if made.ndim != 5 or len(made) != len(images):
        raise InvalidInputError(
            "Views must be (N, J, h, w, C), J of each of the N images. "
            f"Received: images of shape {np.shape(images)}, views of shape {made.shape}"
        )
    low, high = made.min(), made.max()
    if low < -0.05 or high > 1.05:
        made = (made - low) / max(high - low, 1e-12)
    rows = []
    for image, row in zip(_as_pixels(images[:8], "images"), made[:8, :8]):
        row = _as_pixels(row, "views")
        rows.append(_thumbnails([_at_size(image, row.shape[2:0:-1]), *row]))
    return _picture_grid(rows, path, title, after_first=20)


def neighbors(
    images: np.ndarray,
    features: np.ndarray,
    path: "str | os.PathLike | None" = None,
    k: int = 8,
    queries: int = 10,
    title: str | None = None,
    seed: int = 0,
) -> "Path | Picture":
    """Queries, chosen at random, each beside the images whose features lie nearest by cosine similarity. No labels.

    Args:
        images: images, at least 2.
        features: float array (N, L), finite.
        k: int, how many neighbors of each query; fewer if there are not as many images.
        queries: int.
        title: str, or None for one that says how many images were searched.
        seed: int, of the choice of queries.
    """
    checks.count(k=k, queries=queries)
    checks.seed(needed=True, seed=seed)
    if len(images) != len(features) or len(images) < 2:
        raise InvalidInputError(
            "Expected at least two images, and features of each. "
            f"Received: images of shape {np.shape(images)}, features of shape {np.shape(features)}"
        )
    chosen = np.sort(np.random.default_rng(seed).permutation(len(images))[:queries])
    nearest_rows, _ = nearest(features, np.asarray(features)[chosen], min(k + 1, len(images)), "cosine")
    rows = []
    for query, row in zip(chosen, nearest_rows):
        others = [other for other in row if other != query][:k]  # images that are equal may come before it
        rows.append(_thumbnails(_as_pixels(np.asarray(images)[[query, *others]], "images")))
    title = title or f"{len(chosen)} of {len(images):,} images (left), and those nearest to them"
    return _picture_grid(rows, path, title, after_first=20)


def embedding(
    features: np.ndarray,
    labels: "np.ndarray | None",
    path: "str | os.PathLike | None" = None,
    names: Sequence[str] | None = None,
    title: str | None = None,
    seed: int = 0,
) -> "Path | Picture":
    """The features as points in the plane, colored and named by class: as they are for L <= 2, else by t-SNE (van der
    Maaten and Hinton 2008: neighbors stay neighbors, distances mean little), few rows by their principal components.

    Args:
        features: float array (N, L), finite, N >= 2. At most 2,000 rows, chosen at random, are drawn.
        labels: int array (N,), or None for points of one color.
        names: str for each class, in the order of the sorted labels; None for the labels themselves.
        title: str, or None for one that says how points were made.
        seed: int, of the choice of rows and of t-SNE.

    Raises:
        InvalidInputError: features and labels do not fit, or features are not finite.
    """
    checks.seed(needed=True, seed=seed)
    features = check_features(features)
    classes, numbers = np.zeros(1), np.zeros(len(features), np.int64)
    if labels is not None:
        classes, numbers = np.unique(check_labels(labels, len(features), negative=True), return_inverse=True)
    if len(features) < 2:
        raise InvalidInputError(f"Expected at least two rows. Received: features of shape {features.shape}")
    names = [str(c) for c in classes] if names is None else names
    if len(names) != len(classes):
        raise InvalidInputError(f"Expected one name for each of {len(classes)} classes. Received: {len(names)} names")
    if len(features) > MAX_POINTS:
        rows = np.random.default_rng(seed).permutation(len(features))[:MAX_POINTS]
        features, numbers = features[rows], numbers[rows]
    points, how, axes_labels = _in_the_plane(features, seed)

    figure, axes = new_figure(7.0, 6.4, title or f"Features of {len(points):,} images, {how}")
    order = np.random.default_rng(0).permutation(len(points))  # so that no class lies on top of all others
    colors = np.array(class_colors(len(classes)))
    axes.scatter(*points[order].T, c=colors[numbers[order]], s=11, alpha=0.75, linewidths=0)
    if labels is not None and len(classes) <= 20:
        for name, color in zip(names, colors):
            axes.scatter([], [], color=color, s=40, label=name)
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, handletextpad=0.1, labelcolor=INK)
    axes.set_xlabel(axes_labels[0], color=GRAY)
    axes.set_ylabel(axes_labels[1], color=GRAY)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_color(PALE)
    return save_figure(figure, path)


def confusion(
    counts: np.ndarray,
    path: "str | os.PathLike | None" = None,
    names: Sequence[str] | None = None,
    title: str = "What test images are taken for",
) -> "Path | Picture":
    """A confusion matrix: a row for each true class, in percent of its images.

    Args:
        counts: int array (K, K), images of a true class (row) that were taken for a class (column).
        names: str for each class; None for their numbers.
    """
    counts = np.asarray(counts, np.float64)
    if counts.ndim != 2 or counts.shape[0] != counts.shape[1] or not counts.size or counts.min() < 0:
        raise InvalidInputError(f"counts must be (K, K), none below 0. Received: counts of shape {counts.shape}")
    names = [str(name) for name in (range(len(counts)) if names is None else names)]
    if len(names) != len(counts):
        raise InvalidInputError(f"names must be one for each class, {len(counts)}. Received: {len(names)} names")
    shares = 100 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    figure, axes = new_figure(6.4, 6.0, title)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=100)
    if len(counts) <= 20:
        for i, j in np.argwhere(counts):
            text, color = f"{shares[i, j]:.0f}", "white" if shares[i, j] > 55 else INK
            axes.text(j, i, text, ha="center", va="center", fontsize=9, color=color)
    shown = range(0, len(names), -(-len(names) // 20))
    some = [names[i] for i in shown]
    axes.set_xticks(shown, some, rotation=35 if max(map(len, some)) > 3 else 0)
    axes.set_yticks(shown, some)
    axes.set_xlabel("taken for", color=GRAY)
    axes.set_ylabel("true class, in percent of its images", color=GRAY)
    axes.tick_params(colors=GRAY, length=0)
    axes.spines[:].set_visible(False)
    return save_figure(figure, path)


def curves(history, path: "str | os.PathLike | None" = None, title: str = "Training") -> "Path | Picture":
    """How every loss term, measure of health and the kNN accuracy went over the epochs: a panel for each there is.

    Args:
        history: rows of one epoch each ([{"epoch": 1, "loss": ..., "knn": ...}, ...]), lists by name ({"loss": [...]}),
            or what `model.fit` returned. `knn` is a share in 0..1; `val_x` shares the panel of `x`, and `chance`, the
            loss of a model that distinguishes nothing, that of the loss. Times and learning rates get no panel; a value
            that is missing or not finite is left out.

    Raises:
        InvalidInputError: there is nothing to draw.
    """
    series = _series(history)
    panels = dict.fromkeys(name.removeprefix("val_") for name in series if name != "chance" or "loss" not in series)
    # The terms between, in their own order, then the measures of health.
    panels = sorted(panels, key=lambda name: (name != "loss", name == "knn", name.startswith("health_")))
    columns = min(len(panels), 3)
    rows = math.ceil(len(panels) / columns)
    width, height = max(3.1 * columns, 4.2) + 0.3, 2.2 * rows + 0.75
    figure = Figure(figsize=(width, height), dpi=_DPI, layout="constrained")
    figure.suptitle(title, x=0.15 / width, ha="left", color=INK, fontsize=13, fontweight="bold")
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    for name, axes in zip(panels, grid.flat):
        _panel(axes, name, series)
    figure.supxlabel("epoch", color=GRAY, fontsize=9)
    return save_figure(figure, path)


# ---------------------------------------------------------------------- grids of images


def class_colors(count: int) -> list[str]:
    """A color for each of so many classes, as "#rrggbb"."""
    if count <= len(CLASS_COLORS):
        return list(CLASS_COLORS[:count])
    return [to_hex(color) for color in colormaps["turbo"](np.linspace(0.02, 0.98, count))]


def _as_pixels(images, name):
    """uint8 (N, H, W, 3) of images in any of the usual ranges."""
    images = np.asarray(images)
    if images.ndim != 4 or not len(images) or not images.shape[-1] or images.dtype.kind not in "uif":
        raise InvalidInputError(
            f"{name} must be numbers of shape (N, H, W, C), N at least 1. "
            f"Received: {name} of shape {images.shape}, {images.dtype}"
        )
    images = images[..., : 3 if images.shape[-1] >= 3 else 1]
    if images.max() > 256 or images.min() < -2:  # of a sensor, say
        low, high = np.percentile(images, (0.1, 99.9))
        images = (images.astype(np.float32) - low) / max(high - low, 1e-9)
    if images.dtype.kind == "f":
        images = np.nan_to_num(images.astype(np.float32))
        if images.max() > 2:  # 0..255; a decoder without sigmoid may leave 0..1 by a little
            images = images / 255
        elif images.min() < -0.5:
            images = (images + 1) / 2
        images = np.rint(255 * np.clip(images, 0, 1))
    return np.broadcast_to(np.clip(images, 0, 255).astype(np.uint8), (*images.shape[:3], 3))


def _at_size(pixels, size):
    """One image (H, W, 3) at another size (width, height)."""
    return np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling.BILINEAR))


def _thumbnails(images):
    """Images (H, W, 3) of one size, at most 96 pixels a side: nine of them fit beside each other."""
    height, width = images[0].shape[:2]
    scale = min(1, 96 / max(height, width))
    return [_at_size(image, (max(1, round(width * scale)), max(1, round(height * scale)))) for image in images]


def _picture_grid(rows, path, title, labels=(), after_first=4):
    """Draw rows of images at a whole number of pixels each, so that nothing is blurred.

    Args:
        rows: list of lists of uint8 (H, W, 3), all of one size.
        labels: str for each row, or none.
        after_first: pixels between the first image of each row and the others.
    """
    side, top, left = 16, 46, 74 if labels else 16
    scale = max(1, round(72 / max(rows[0][0].shape[:2])))

    def white(pixels, above=0, below=0, before=0, after=0):
        return np.pad(pixels, ((above, below), (before, after), (0, 0)), constant_values=255)

    strips = []
    for row in rows:
        enlarged = [image.repeat(scale, 0).repeat(scale, 1) for image in row]
        gaps = [after_first, *[4] * (len(row) - 1)]
        strips.append(np.hstack([white(image, below=4, after=gap) for image, gap in zip(enlarged, gaps)]))
    widest = max(220, 9 * len(title), *(strip.shape[1] for strip in strips))
    strips = [white(strip, after=widest - strip.shape[1]) for strip in strips]
    canvas = white(np.vstack(strips), top, side - 4, left, side - 4)
    height, width = canvas.shape[:2]
    figure = Figure(figsize=(width / _DPI, height / _DPI), dpi=_DPI)
    figure.figimage(canvas)
    figure.text(side / width, 1 - side / height, title, va="top", color=INK, fontsize=12, fontweight="bold")
    for i, label in enumerate(labels):
        middle = top + (i + 0.5) * len(strips[0])
        figure.text((left - 8) / width, 1 - middle / height, label, ha="right", va="center", color=GRAY, fontsize=9)
    most = PHOTO_BYTES if max(rows[0][0].shape[:2]) > 64 else MAX_BYTES
    return save_figure(figure, path, drawing=False, most=most)


# ---------------------------------------------------------------------- the map of the features


def _in_the_plane(features, seed):
    """Points (N, 2), how they were made, and the names of the axes."""
    width = features.shape[1]
    if width <= 2:
        points = np.pad(features, ((0, 0), (0, 2 - width)))
        return points, "as they are", ("feature 1", "feature 2" if width == 2 else "")
    if len(features) < 10 or not np.ptp(features, axis=0).any():
        from sklearn.decomposition import PCA

        with np.errstate(invalid="ignore"):  # 0 / 0 where features collapsed
            points = PCA(2, svd_solver="full").fit_transform(features)
        return points, "principal components", ("component 1", "component 2")

    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    perplexity = min(30, (len(features) - 1) / 3)
    with threadpool_limits(1):  # repeatable, and faster on a busy machine
        rows = scaled(features).astype(np.float32)
        points = TSNE(perplexity=perplexity, init="pca", random_state=seed).fit_transform(rows)
    return points, "t-SNE", ("", "")


# ---------------------------------------------------------------------- training curves


def _series(history):
    """name -> (epochs, values), both float arrays, in the order of the history."""
    history = getattr(history, "history", history)
    if isinstance(history, Mapping):
        count = max((len(values) for values in history.values()), default=0)
        history = [{name: values[i] for name, values in history.items() if i < len(values)} for i in range(count)]
    series = {}
    for i, row in enumerate(history, 1):
        for name, value in row.items():
            if name not in _NO_CURVE and isinstance(value, (int, float, np.number)) and math.isfinite(value):
                series.setdefault(name, []).append((row.get("epoch", i), value))
    if not series:
        raise InvalidInputError(
            f"Training curves need at least one epoch with a finite value. Received: history of {len(history)} epochs"
        )
    return {name: np.array(points, float).T for name, points in series.items()}


def _panel(axes, name, series):
    percent = name == "knn"
    color = ORANGE if percent else BLUE
    styles = ({"chance": ":"} if name == "loss" else {}) | {"val_" + name: "--", name: "-"}
    settled = []
    for key, style in styles.items():
        if key in series:
            epochs, values = series[key] * np.array([[1], [100 if percent else 1]])
            curve = {"color": GRAY if style == ":" else color, "marker": "o" if len(values) < 12 else None}
            axes.plot(epochs, values, style, **curve, linewidth=1.8, markersize=4, label=key)
            settled.append(values[len(values) // 20 :])
    low, high = np.min(np.concatenate(settled)), np.max(np.concatenate(settled))
    margin = 0.08 * (high - low) or max(1e-3, 0.05 * abs(high))
    axes.set_ylim(low - margin, high + margin)  # the fall of the first twentieth of the epochs would flatten the rest
    title = "kNN accuracy" if percent else name.replace("health_", "health: ").replace("_", " ")
    axes.set_title(title, loc="left", color=INK, fontsize=10.5)
    value = f"{values[-1]:.1f} %" if percent else f"{values[-1]:,.4g}".replace("-", "\u2212")
    axes.set_title(value, loc="right", color=color, fontsize=10.5)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.grid(axis="y", color=PALE, linewidth=0.8)
    axes.tick_params(colors=GRAY, labelsize=8.5, length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(PALE)
    if len(settled) > 1:
        axes.legend(frameon=False, fontsize=8, labelcolor=GRAY)


# ---------------------------------------------------------------------- to the file


def new_figure(width, height, title):
    figure = Figure(figsize=(width, height), dpi=_DPI, layout="constrained")
    axes = figure.subplots()
    figure.get_layout_engine().set(rect=(0.012, 0.012, 0.976, 0.976))
    axes.set_title(title, loc="left", color=INK, fontsize=12, fontweight="bold", pad=10)
    return figure, axes


def save_figure(figure, path, drawing=True, most=MAX_BYTES):
    """Write a PNG that is as good as `most` bytes allow: all its colors, then fewer of them, then fewer pixels.

    A drawing has 64 colors at once: it takes much less space and looks no different. Photographs need all of theirs.
    """
    for text in figure.findobj(Text):
        text.set_parse_math(False)  # a class may be called "$5"
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    picture = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    first = (64,) if drawing else (256, 128, 64) if picture.getcolors(256) else (None, 256, 128, 64)
    while True:
        for colors in first:
            buffer = io.BytesIO()
            # By what they cover, not by their pixels: a legend has few, and its colors must be those of the points.
            method = Image.Quantize.MAXCOVERAGE if drawing else Image.Quantize.MEDIANCUT
            few = picture if colors is None else picture.quantize(colors, method, kmeans=int(drawing))
            few.save(buffer, "PNG", optimize=True)
            if buffer.tell() < most:
                return Picture(buffer.getvalue()) if path is None else write_beside(path, buffer.getvalue())
        picture = picture.resize((picture.width * 3 // 4, picture.height * 3 // 4), Image.Resampling.LANCZOS)
