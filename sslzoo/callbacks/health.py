"""How to tell from numbers that a representation is collapsing, and what to try then.

The measures are plain NumPy in float64 and know features only; `signs` reads what they found, and `sentence` says it.
`sslzoo.callbacks.Health` does all of it while a model trains.
"""

from collections.abc import Callable

import numpy as np

from sslzoo.errors import InvalidInputError


class CollapseWarning(UserWarning):
    """A representation shows a sign of collapse; the message says which, and what to try."""


# Where a sign shows. Set well away from what runs that go well come to: a false alarm costs more trust than a late one
# costs time.
COMPLETE_STD = 0.01  # the mean cosine of two images is then above 0.9999
DIMENSIONAL_POWER = 0.4  # of the number of directions: 2.5 of 10, 7 of 128, 12 of 512
PROTOTYPE_SHARE = 0.1  # of the prototypes
# Losses that ignore an offset (VICReg, Barlow Twins, W-MSE, SimVAE) may leave all features in a narrow cone where
# images are still well told apart, so the distance of different images counts in that of two views of one.
CONE_ALIGNMENT, CONE_UNIFORMITY, CONE_RATIO = 0.1, -0.5, 2.0
CHANCE_MARGIN = 0.02  # of the chance level, at least of 1 nat

# What a sentence proposes: attribute of the method -> words. Only what a method has is proposed, the first three, with
# its present value. Four names are no attributes: "learning_rate" is the optimizer's, "teacher" the momentum of a
# teacher, "plain head" a projector without batch normalisation, and "" is open to all.
_LOWER_RATE = (("learning_rate", "a lower learning rate"), ("", "longer warm-up"))
_MORE_PUSH = (
    ("variance_weight", "a higher variance weight"),
    ("invariance_weight", "a lower invariance weight"),
    ("temperature", "a lower temperature"),
    ("likelihood_variance", "a lower likelihood variance"),
    ("teacher", "a slower teacher, with momentum nearer 1"),
    ("plain head", "batch normalisation in the head"),
)
ADVICE = {
    "not finite": (*_LOWER_RATE, ("", "float32")),
    "complete": (*_MORE_PUSH, *_LOWER_RATE),
    "prototypes": (
        ("epsilon", "a lower epsilon"),
        ("freeze_prototypes", "prototypes frozen for more steps"),
        ("teacher_temperature", "a higher teacher temperature"),
        *_LOWER_RATE,
    ),
    "dimensional": (
        ("covariance_weight", "a higher covariance weight"),
        ("off_diagonal_weight", "a higher off-diagonal weight"),
        *_MORE_PUSH[1:4],
        ("learning_rate", "a lower learning rate"),
        ("", "milder views"),
    ),
    "cone": (*_MORE_PUSH, *_LOWER_RATE),
    "chance": (
        ("temperature", "a lower temperature"),
        ("learning_rate", "another learning rate"),
        ("plain head", "batch normalisation in the head"),
        ("", "longer warm-up"),
        ("", "milder views"),
    ),
}


# ---------------------------------------------------------------------- measures


def feature_std(features: np.ndarray) -> float:
    """Spread of directions: standard deviation of each coordinate of the unit rows, mean over coordinates, x sqrt(D).

    The factor makes the scale one for all sizes: a coordinate of rows spread evenly over the sphere deviates by
    1 / sqrt(D), which is 1 here; rows that point the same way give 0.

    Args:
        features: array (N, D), finite. A zero row stays zero.

    Returns:
        float in 0..1.

    Raises:
        InvalidInputError: not a finite array (N, D).

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

    Raises:
        InvalidInputError: not a finite array (N, D).

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

    Raises:
        InvalidInputError: not two finite arrays of one shape (N, D).

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

    Raises:
        InvalidInputError: not a finite array (N, D) of at least two rows.
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

    Raises:
        InvalidInputError: not a finite array (N, D) of at least two rows.

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

    Raises:
        InvalidInputError: not a finite array (N, K) of rows that sum to 1.
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
    found = {
        "finite": True,
        "std": feature_std(first),
        "rank": effective_rank(first),
        "rank_limit": min(np.shape(first)),
        "uniformity": uniformity(first),
    }
    if second is not None:
        found |= {"alignment": alignment(first, second), "distance": distance(first)}
    if encoded is not None:
        found |= {"encoder_rank": effective_rank(encoded), "encoder_rank_limit": min(np.shape(encoded))}
    if probabilities is not None:
        found |= {
            "prototypes": prototype_use(probabilities),
            "used": prototypes_used(probabilities),
            "used_limit": min(np.shape(probabilities)),
        }
    return found


def signs(found: dict[str, float], loss: float | None = None, chance: float | None = None) -> dict[str, float]:
    """Which signs of collapse show, the gravest first: name -> what is left (the less, the worse).

    Args:
        found: what `measure` returned.
        loss: float or None.
        chance: float or None, the loss of a model that tells nothing apart.
    """
    if not found["finite"]:
        return {"not finite": 1.0}
    shown = {}
    if found["std"] < COMPLETE_STD:
        shown["complete"] = found["std"]
    if "used" in found and found["used"] < 1 + PROTOTYPE_SHARE * (found["used_limit"] - 1):
        shown["prototypes"] = found["used"] - 1
    if found["rank"] < found["rank_limit"] ** DIMENSIONAL_POWER:
        shown["dimensional"] = found["rank"] - 1
    agreeing = found.get("alignment", np.inf)
    if (
        agreeing < CONE_ALIGNMENT
        and found["uniformity"] > CONE_UNIFORMITY
        and found["distance"] < CONE_RATIO * agreeing
    ):
        shown["cone"] = found["distance"]
    if loss is not None and chance is not None and loss > chance - CHANCE_MARGIN * max(1.0, chance):
        shown["chance"] = 1.0
    return {sign: max(left, 1e-3) for sign, left in shown.items()}  # below that it is all rounding


def summary(found: dict[str, float], loss: float | None = None, chance: float | None = None) -> str:
    """One line for the console: `health: loss 4.91 (chance 5.54), std 0.93, rank 9.1 of 10, ...`."""
    parts = []
    if loss is not None:
        parts.append(f"loss {loss:.4g}" + ("" if chance is None else f" (chance {chance:.4g})"))
    if not found["finite"]:
        parts.append("features not finite")
    else:
        parts.append(f"std {found['std']:.2f}, rank {found['rank']:.1f} of {found['rank_limit']}")
        if "encoder_rank" in found:
            parts.append(f"encoder rank {found['encoder_rank']:.1f} of {found['encoder_rank_limit']}")
        if "alignment" in found:
            parts.append(f"alignment {found['alignment']:.2f}")
        parts.append(f"uniformity {found['uniformity']:.2f}")
        if "prototypes" in found:
            parts.append(f"prototypes {100 * found['prototypes']:.0f} % in use")
    return "health: " + ", ".join(parts)


def sentence(
    sign: str,
    found: dict[str, float],
    epoch: int,
    loss: float | None = None,
    chance: float | None = None,
    knob: Callable[[str], float | bool | None] = lambda name: None,
) -> str:
    """One sentence: what is wrong, by which number, and what to try.

    Args:
        sign: str, a key of `ADVICE`.
        found, loss, chance: what `signs` read.
        epoch: int, how many epochs were trained.
        knob: callable, name in `ADVICE` -> its present value, True if there is no number to tell, or None where the
            method has no such thing.
    """
    if sign == "not finite":
        told = f"Features are not finite after epoch {epoch}"
    elif sign == "complete":
        told = (
            f"Complete collapse after epoch {epoch}: all images have nearly the same features (standard deviation "
            f"{found['std']:.3f}, spread evenly 1)"
        )
    elif sign == "prototypes":
        told = (
            f"Unused prototypes after epoch {epoch}: all images share {found['used']:.1f} of "
            f"{round(found['used'] / found['prototypes'])} prototypes"
        )
    elif sign == "dimensional":
        told = (
            f"Dimensional collapse after epoch {epoch}: features use {found['rank']:.1f} of {found['rank_limit']} "
            "directions"
        )
    elif sign == "cone":
        told = (
            f"Alignment without uniformity after epoch {epoch}: views of one image agree (squared distance "
            f"{found['alignment']:.2g}), but so do those of different images ({found['distance']:.2g}, spread evenly 2)"
        )
    else:
        told = (
            f"Loss stuck at chance after epoch {epoch}: {loss:.3g}, where a model that tells nothing apart has "
            f"{chance:.3g}"
        )
    tries = []
    for name, words in ADVICE[sign]:
        value = knob(name) if name else True
        if value is not None and value is not False:
            tries.append(words if value is True else f"{words} (now {value:g})")
    *most, last = tries[:3]
    return f"{told}; try {', '.join(most)} or {last}." if most else f"{told}; try {last}."


def clustering_failure(invariance: float, prior: float, clusters: int) -> str | None:
    """Which of the three ways to fail GEDI's terms show, in a sentence; None where they show none of them.

    Args:
        invariance, prior: float, unweighted (`losses.cluster_terms`), for equal shares.
        clusters: int >= 2, K.

    Reference:
        Sansone and Manhaeve, "Unifying Self-Supervised Clustering and Energy-Based Models" (arXiv 2212.13425),
        definitions 8-10 and proposition 1: at the optimum invariance is 0 and prior is log K.
    """
    if not (np.isfinite(invariance) and np.isfinite(prior)):
        return "Terms are not finite."
    best = np.log(clusters)
    if prior > 1.25 * best and invariance < 0.5 * best:
        return (
            f"Cluster collapse: views agree (invariance {invariance:.2g}), but few clusters have all images (prior "
            f"{prior:.3g}, at best {best:.3g}); try a higher prior weight."
        )
    if abs(invariance - best) < 0.05 * best and prior < 1.05 * best:
        return (
            f"Representational collapse: every image is assigned alike, to no cluster in particular (invariance "
            f"{invariance:.3g}, prior {prior:.3g}, both log K); try a higher generative or invariance weight, or a "
            "higher learning rate."
        )
    if invariance > 1.05 * best:
        return (
            "Label inconsistency: a view often falls into another cluster than its image (invariance "
            f"{invariance:.3g}, at random {best:.3g} or more); try a higher invariance weight or milder views."
        )
    return None
