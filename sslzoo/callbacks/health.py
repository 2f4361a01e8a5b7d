"""How to tell from numbers that a representation is collapsing.

The measures are plain NumPy in float64, know features only, and raise `InvalidInputError` where these are not finite
arrays of the shapes they say; `signs` reads what they found, and `sentence` says it.
`sslzoo.callbacks.Health` does all of it while a model trains. What to try then each method says itself
(`sslzoo.methods.advice`).
"""

from collections.abc import Sequence

import numpy as np

from sslzoo.errors import InvalidInputError


class CollapseWarning(UserWarning):
    """A representation shows a sign of collapse; the message says which, and what to try.

    Example:
        import warnings
        from sslzoo import callbacks

        warnings.simplefilter("error", callbacks.CollapseWarning)  # a collapse ends the run
    """


# Where a sign shows. Set well away from what runs that go well come to: a false alarm costs more trust than a late one
# costs time.
COMPLETE_STD = 0.01  # the mean cosine of two images is then above 0.9999
DIMENSIONAL_POWER = 0.4  # of the number of directions: 2.5 of 10, 7 of 128, 12 of 512
PROTOTYPE_SHARE = 0.1  # of the prototypes
# Losses that ignore an offset (VICReg, Barlow Twins, W-MSE, SimVAE) may leave all features in a narrow cone where
# images are still well separated, so the distance of different images counts in that of two views of one.
CONE_ALIGNMENT, CONE_UNIFORMITY, CONE_RATIO = 0.1, -0.5, 2.0
CHANCE_MARGIN = 0.02  # of the chance level, at least of 1 nat

# ---------------------------------------------------------------------- measures


def feature_std(features: np.ndarray) -> float:
    """Spread of directions: standard deviation of each coordinate of the unit rows, mean over coordinates, x sqrt(D).

    The factor makes the scale one for all sizes: a coordinate of rows spread evenly over the sphere deviates by
    1 / sqrt(D), which is 1 here; rows that point the same way give 0.

    Args:
        features: array (N, D), finite. A zero row stays zero.

    Returns:
        float in 0..1.

    Reference:
        Chen and He, "Exploring Simple Siamese Representation Learning", section 4.1.
    """
    rows = _unit(_matrix(features, "features"))
    return float(rows.std(axis=0).mean() * np.sqrt(rows.shape[1]))


def effective_rank(features: np.ndarray) -> float:
    """RankMe: how many directions the rows use, the exponential of the entropy of the normalised singular values.

    Rows are not centred, as in the paper: a large common offset is one direction that all rows share.

    Args:
        features: array (N, D), finite.

    Returns:
        float between 1 and min(N, D); 0 where all rows are zero. Off by less than 1e-3, since the singular values come
        from the smaller Gram matrix, which is the one quick way for wide heads.

    Reference:
        Garrido et al., "RankMe: Assessing the Downstream Performance of Pretrained Self-Supervised Representations by
        Their Rank", eq. 1, without its 1e-7.
    """
    rows = _matrix(features, "features")
    largest = np.abs(rows).max()
    if not largest:
        return 0.0
    rows = rows / largest
    gram = rows @ rows.T if rows.shape[0] < rows.shape[1] else rows.T @ rows
    values = np.sqrt(np.maximum(np.linalg.eigvalsh(gram), 0))
    return _perplexity(values / values.sum())


def alignment(first: np.ndarray, second: np.ndarray) -> float:
    """Mean squared distance of the unit rows of two views of the same images; 0 where the views agree.

    Args:
        first, second: arrays (N, D), finite; row i of both is the same image.

    Returns:
        float in 0..4.

    Reference:
        Wang and Isola, "Understanding Contrastive Representation Learning through Alignment and Uniformity on the
        Hypersphere", eq. 5 with alpha = 2.
    """
    first, second = _matrix(first, "first"), _matrix(second, "second")
    if first.shape != second.shape:
        raise InvalidInputError(
            f"first and second must have one shape. Received: first.shape={first.shape}, second.shape={second.shape}"
        )
    return float(((_unit(first) - _unit(second)) ** 2).sum(axis=1).mean())


def distance(features: np.ndarray) -> float:
    """Mean squared distance of the unit rows of different images, to be held against `alignment`.

    Args:
        features: array (N, D), finite, N >= 2.

    Returns:
        float in 0..4; near 2 for rows spread evenly over a sphere.
    """
    rows = _unit(_matrix(features, "features", least=2))
    return float(2 * len(rows) / (len(rows) - 1) * ((rows - rows.mean(axis=0)) ** 2).sum(axis=1).mean())


def uniformity(features: np.ndarray, t: float = 2.0) -> float:
    """Log of the mean Gaussian potential exp(-t |x - y|^2) over all pairs of unit rows; lower is more even.

    Args:
        features: array (N, D), finite, N >= 2.
        t: float > 0.

    Returns:
        float in -4 t..0: 0 where all rows point the same way, near -2 t for rows spread evenly over a sphere of many
        dimensions.

    Reference:
        Wang and Isola, eq. 6, without the pairs of a row with itself.
    """
    rows = _unit(_matrix(features, "features", least=2))
    squares = (rows**2).sum(axis=1)
    distances = np.maximum(squares[:, None] + squares[None] - 2 * rows @ rows.T, 0)
    return float(np.log(np.exp(-t * distances[np.triu_indices(len(rows), 1)]).mean()))


def prototype_use(probabilities: np.ndarray) -> float:
    """Share of K prototypes in use: perplexity of the mean assignment, over K.

    Args:
        probabilities: array (N, K), assignments of N views, rows that sum to 1. One-hot rows can use N prototypes only.

    Returns:
        float in 1 / K..1: 1 where all prototypes have the same share, 1 / K where one has everything.
    """
    return prototypes_used(probabilities) / np.shape(probabilities)[1]


def prototypes_used(probabilities: np.ndarray) -> float:
    """Perplexity of the mean assignment, 1..K: as many prototypes of equal share say as much. See `prototype_use`."""
    rows = _matrix(probabilities, "probabilities")
    sums = rows.sum(axis=1)
    if rows.min() < 0 or not np.allclose(sums, 1, atol=0.02):  # bfloat16 has 8 bits
        raise InvalidInputError(
            "probabilities must be rows of numbers >= 0 that sum to 1. "
            f"Received: smallest entry {rows.min():g}, sums of rows {sums.min():g}..{sums.max():g}"
        )
    mean = rows.mean(axis=0)
    return _perplexity(mean / mean.sum())


def _matrix(array, name, least=1):
    rows = np.asarray(array, np.float64)
    if rows.ndim != 2 or rows.shape[0] < least or not rows.shape[1]:
        raise InvalidInputError(
            f"{name} must be an array (N, D) with N >= {least}, D >= 1. Received: {name}.shape={rows.shape}"
        )
    if not np.isfinite(rows).all():
        raise InvalidInputError(f"{name} must be finite. Received: {name} with NaN or infinite values")
    return rows


def _unit(rows):
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1)


def _perplexity(shares):
    some = shares[shares > 0]
    return float(np.exp(-(some * np.log(some)).sum()))


# ---------------------------------------------------------------------- what they say


def measure(
    first: np.ndarray,
    second: np.ndarray | None = None,
    encoded: np.ndarray | None = None,
    probabilities: np.ndarray | None = None,
) -> dict[str, float]:
    """All measures of one look at a model.

    Args:
        first, second: arrays (N, D), what the loss compares, of two views of the same images; None for one view only.
        encoded: array (N, L), the encoder's features of the first views where a head follows them, or None.
        probabilities: array (M, K), assignments to prototypes, or None.

    Returns:
        dict: "std", "rank" of at most "rank_limit", "uniformity"; where there is something to measure, "alignment" and
        the "distance" of different images, "encoder_rank" of at most "encoder_rank_limit", and the share of
        "prototypes", of which "used" of at most "used_limit". Only {"finite": False} if anything is NaN or infinite.
    """
    arrays = [np.asarray(a, np.float64) for a in (first, second, encoded, probabilities) if a is not None]
    if not all(np.isfinite(a).all() for a in arrays):
        return {"finite": False}
    measures = {
        "finite": True,
        "std": feature_std(first),
        "rank": effective_rank(first),
        "rank_limit": min(np.shape(first)),
        "uniformity": uniformity(first),
    }
    if second is not None:
        measures |= {"alignment": alignment(first, second), "distance": distance(first)}
    if encoded is not None:
        measures |= {"encoder_rank": effective_rank(encoded), "encoder_rank_limit": min(np.shape(encoded))}
    if probabilities is not None:
        measures |= {
            "prototypes": prototype_use(probabilities),
            "used": prototypes_used(probabilities),
            "used_limit": min(np.shape(probabilities)),
        }
    return measures


def signs(measures: dict[str, float], loss: float | None = None, chance: float | None = None) -> dict[str, float]:
    """Which signs of collapse show, the gravest first: name -> what is left (the less, the worse).

    Args:
        measures: what `measure` returned.
        loss: float or None.
        chance: float or None, the loss of a model that distinguishes nothing.
    """
    if not measures["finite"]:
        return {"not finite": 1.0}
    shown = {}
    if measures["std"] < COMPLETE_STD:
        shown["complete"] = measures["std"]
    if "used" in measures and measures["used"] < 1 + PROTOTYPE_SHARE * (measures["used_limit"] - 1):
        shown["prototypes"] = measures["used"] - 1
    if measures["rank"] < measures["rank_limit"] ** DIMENSIONAL_POWER:
        shown["dimensional"] = measures["rank"] - 1
    agreeing = measures.get("alignment", np.inf)
    if (
        agreeing < CONE_ALIGNMENT
        and measures["uniformity"] > CONE_UNIFORMITY
        and measures["distance"] < CONE_RATIO * agreeing
    ):
        shown["cone"] = measures["distance"]
    if loss is not None and chance is not None and loss > chance - CHANCE_MARGIN * max(1.0, chance):
        shown["chance"] = 1.0
    return {sign: max(left, 1e-3) for sign, left in shown.items()}  # below that it is all rounding


# Sign -> how its sentence begins, and what follows "after epoch 7".
SENTENCES = {
    "not finite": ("Features are not finite", ""),
    "complete": (
        "Complete collapse",
        ": all images have nearly the same features (standard deviation {std:.3f}, spread evenly 1)",
    ),
    "prototypes": ("Unused prototypes", ": all images share {used:.1f} of {all} prototypes"),
    "dimensional": ("Dimensional collapse", ": features use {rank:.1f} of {rank_limit} directions"),
    "cone": (
        "Alignment without uniformity",
        ": views of one image agree (squared distance {alignment:.2g}), but so do those of different images "
        "({distance:.2g}, spread evenly 2)",
    ),
    "chance": ("Loss stuck at chance", ": {loss:.3g}, where a model that distinguishes nothing has {chance:.3g}"),
}


def sentence(
    sign: str,
    measures: dict[str, float],
    epoch: int,
    loss: float | None = None,
    chance: float | None = None,
    tries: Sequence[str] = (),
) -> str:
    """One sentence: what is wrong, by which number, and what to try.

    Args:
        sign: str, of `sslzoo.methods.advice.SIGNS`.
        measures, loss, chance: what `signs` read.
        epoch: int, how many epochs were trained.
        tries: what to try (`sslzoo.methods.advice.advise`), of which the first three are named.
    """
    numbers = {"loss": loss, "chance": chance, "all": round(measures.get("used", 0) / measures.get("prototypes", 1))}
    what, detail = SENTENCES[sign]
    message = f"{what} after epoch {epoch}{detail.format(**measures, **numbers)}"
    if not tries:
        return f"{message}."
    *most, last = tries[:3]
    return f"{message}; try {', '.join(most)} or {last}." if most else f"{message}; try {last}."
