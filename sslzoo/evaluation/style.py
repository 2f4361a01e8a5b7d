"""The style probe: what a frozen representation says about how an image was changed, and no label is asked.

    scores(encoder, train_images, test_images)      # {"flip_accuracy": 0.85, "position_r2": 0.63, ...}

Each image is cropped, perhaps turned upside down and, if it has colors, lit and tinted, by amounts drawn at random.
The encoder sees the changed image alone, and a probe on its features predicts the amounts. The class of an image is its
*content*, which every method of the zoo is to keep; what was done to it is *style*, which methods that only pull views
together may lose, and methods that rebuild each view must keep (Bizeul, Schölkopf and Allen, arXiv:2402.01399, section
3.3, whose figure 4 asks for the hair color in CelebA instead: a label, of one data set).

Amounts are those of the papers' views, the same for every encoder: a square box of 40 to 100 % of the area anywhere in
the image, a flip in half of the images, a factor of 0.2 to 1.8 on the brightness and a turn of up to a fifth of the
circle on the hue, all at once. NumPy draws them, so they are the same on every backend.

The probe is kernel ridge regression in float64: exp(-|a - b|^2 / 2 m^2) with m the median distance of train rows, a
ridge per factor that predicts a quarter of the train rows best from the others. It is the nonlinear probe with a closed
form. Which way is up is read from latents of a few dimensions only together with what is shown; `linear_*` are the same
figures for linear ridge regression, which cannot.
"""

from collections.abc import Callable

import numpy as np
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits

from sslzoo import augment
from sslzoo.evaluation.features import features

TRAIN, TEST = 2000, 2000  # images
AREA = (0.4, 1.0)
BRIGHTNESS, HUE = 0.8, 0.2
RIDGES = (0.01, 0.1, 1.0, 10.0)
LEAST_TRAIN, LEAST_TEST = 8, 2
_BLOCK = 500


def draw(count: int, color: bool, seed: int | tuple[int, ...] = 0) -> dict[str, np.ndarray]:
    """Random styles of `count` images; with `color` of hue and brightness, too.

    Returns:
        dict of float64 arrays: `flip` (count, 1), -1 or 1 for upside down; `position` (count, 2), the middle of the
        box, down and right, and `size` (count, 1), its side, in shares of the image; `hue` (count, 1), in circles;
        `brightness` (count, 1), the factor.
    """
    rng = np.random.default_rng(seed)
    flip = np.where(rng.random((count, 1)) < 0.5, 1.0, -1.0)
    size = np.sqrt(rng.uniform(*AREA, (count, 1)))
    position = size / 2 + rng.random((count, 2)) * (1 - size)
    styles = {"flip": flip, "position": position, "size": size}
    if color:
        styles["hue"] = rng.uniform(-HUE, HUE, (count, 1))
        styles["brightness"] = rng.uniform(1 - BRIGHTNESS, 1 + BRIGHTNESS, (count, 1))
    return styles


def apply(images: np.ndarray, styles: dict[str, np.ndarray]) -> np.ndarray:
    """Images (N, H, W, C), values 0..255, in styles of `draw`, N rows each: float32 array of that shape."""
    crop = augment.RandomResizedCrop(whole_pixels=False)
    jitter = augment.ColorJitter(brightness=BRIGHTNESS, hue=HUE)
    height, width = images.shape[1:3]
    changed = np.empty(images.shape, np.float32)

    def tensor(array):
        return crop.backend.convert_to_tensor(np.asarray(array, "float32"))

    for start in range(0, len(images), _BLOCK):
        rows = slice(start, start + _BLOCK)
        side, corner = styles["size"][rows, 0], styles["position"][rows] - styles["size"][rows] / 2
        box = {"top": corner[:, 0] * height, "left": corner[:, 1] * width}
        box |= {"height": side * height, "width": side * width}
        box = {name: tensor(amount) for name, amount in box.items()}
        box["rows"] = crop.backend.convert_to_tensor(styles["flip"][rows, 0] > 0)
        batch = crop.transform_images(tensor(np.asarray(images[rows], "float32") / 255), box)
        if "hue" in styles:
            colors = {name: tensor(styles[name][rows, 0]) for name in ("hue", "brightness")}
            colors["order"] = tensor(np.tile([0.0, 1, 2, 3], (len(side), 1)))  # brightness, then hue
            batch = jitter.transform_images(batch, colors)
        changed[rows] = 255 * np.clip(crop.backend.convert_to_numpy(batch), 0, 1)
    return changed


def scores(
    encoder,
    train_images: np.ndarray,
    test_images: np.ndarray,
    seed: int = 0,
    batch_size: int = 500,
    most: tuple[int, int] = (TRAIN, TEST),
    progress: Callable[[int, int], None] | None = None,
    in_no_order: bool = False,
) -> dict[str, float]:
    """How well styles are predicted from the features of images that have them.

    Example:
        import keras
        import numpy as np
        from sslzoo.evaluation import style

        images = np.random.default_rng(0).integers(0, 256, (60, 8, 8, 1)).astype("uint8")
        pixels = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Flatten()])
        style.scores(pixels, images[:40], images[40:])["kept"]  # a share in 0..1

    Args:
        encoder, batch_size: as in `sslzoo.evaluation.features`.
        train_images, test_images: arrays (N, H, W, C), values 0..255, at least 8 and 2.
        seed: int, of the images that are chosen and of their styles.
        most: how many train and test images are used at most, chosen at random.
        progress: callable (steps done, steps in all), or None.
        in_no_order: bool, whether train images come in no order, as those of known data sets; others are put into one.

    Returns:
        dict: `kept`, the mean of the R2 below, none below 0: 0 for a representation without style, 1 for one that
        holds all of it; `flip_accuracy`, guessing is about 0.5, which is no part of that mean: no views of the zoo
        turn images upside down, so that no encoder was trained to ignore it; `position_r2` (both coordinates
        together), `size_r2` and, of images with colors, `hue_r2` and `brightness_r2`: the share of the variance that
        is predicted, 0 for guessing the mean; and the same from a linear probe as `linear_kept`, ....
    """
    from sklearn.metrics import r2_score

    splits = []
    for part, (images, count) in enumerate(zip((train_images, test_images), most)):
        chosen = np.sort(np.random.default_rng((seed, part)).permutation(len(images))[:count])
        styles = draw(len(chosen), images.shape[-1] == 3, seed=(seed, part, 1))
        splits.append((features(encoder, apply(np.asarray(images[chosen]), styles), batch_size), styles))
        if progress:
            progress(part + 1, 3)
    (train, styles), (test, expected) = splits
    targets = np.hstack(list(styles.values()))
    if not in_no_order:  # images that are sorted by class: a ridge is chosen by what it makes of the last ones
        order = np.random.default_rng((seed, 2)).permutation(len(train))
        train, targets = train[order], targets[order]
    results = {}
    for prefix, regress in (("", kernel_ridge), ("linear_", linear_ridge)):
        predicted = regress(train, targets, test)
        each, at = {}, 0
        for name, amounts in expected.items():
            guess = predicted[:, at : at + amounts.shape[1]]
            at += amounts.shape[1]
            if name == "flip":
                each["flip_accuracy"] = float(np.mean((guess > 0) == (amounts > 0)))
            else:
                each[f"{name}_r2"] = float(r2_score(amounts, guess, multioutput="variance_weighted"))
        shares = [max(0.0, value) for name, value in each.items() if name != "flip_accuracy"]
        results |= {f"{prefix}kept": float(np.mean(shares)), **{prefix + name: value for name, value in each.items()}}
    if progress:
        progress(3, 3)
    return results


# ---------------------------------------------------------------------- regression


def linear_ridge(train: np.ndarray, targets: np.ndarray, test: np.ndarray, ridge: float = 1e-4) -> np.ndarray:
    """Linear regression with an intercept; `ridge` of the features' mean variance keeps it determined.

    Of train (N, L) and targets (N, T), predictions for test (M, L): float64 array (M, T).
    """
    from sklearn.linear_model import Ridge

    train = np.asarray(train, np.float64)
    penalty = ridge * len(train) * (train.var(axis=0).mean() or 1.0)
    with threadpool_limits(1, user_api="blas"):
        return Ridge(penalty, solver="cholesky").fit(train, targets).predict(np.asarray(test, np.float64))


def kernel_ridge(
    train: np.ndarray, targets: np.ndarray, test: np.ndarray, ridges: tuple[float, ...] = RIDGES
) -> np.ndarray:
    """Regression with a Gaussian kernel as wide as the median distance, each column of targets with its own ridge.

    Of `ridges` a column takes the one that predicts the last quarter of the rows best from those before, then all rows
    are used.

    Args:
        train, targets, test: as in `linear_ridge`, at least 8 train rows in random order.
        ridges: floats > 0.

    Returns:
        float64 array (M, T): mean + k(test, train) (K + ridge I)^-1 (targets - mean).
    """
    train, targets, test = (np.asarray(array, np.float64) for array in (train, targets, test))
    with threadpool_limits(1, user_api="blas"):  # repeatable, and faster on a busy machine
        distances = cdist(train, train, "sqeuclidean")
        width = np.median(distances[np.triu_indices(min(len(train), 1000), 1)]) or 1.0
        kernel = np.exp(-distances / (2 * width))
        across = np.exp(-cdist(test, train, "sqeuclidean") / (2 * width))
        first = 3 * len(train) // 4
        parts = kernel[:first, :first], targets[:first], kernel[first:, :first]
        errors = [np.sum((_solved(*parts, ridge) - targets[first:]) ** 2, axis=0) for ridge in ridges]
        return _solved(kernel, targets, across, np.array(ridges)[np.argmin(errors, axis=0)])


def _solved(kernel, targets, across, ridge):
    from sklearn.kernel_ridge import KernelRidge

    mean = targets.mean(axis=0)
    return mean + KernelRidge(alpha=ridge, kernel="precomputed").fit(kernel, targets - mean).predict(across)
