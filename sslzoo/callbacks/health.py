"""How numbers show that a representation is collapsing.

`measure` takes the measures of `sslzoo.evaluation.measures`, `signs` reads what they found, and `sentence` says it.
`sslzoo.callbacks.Health` does all of it while a model trains. What to try then each method says itself
(`sslzoo.methods.advice`).
"""

from collections.abc import Sequence

import numpy as np

from sslzoo.evaluation.measures import (
    alignment,
    distance,
    effective_rank,
    feature_std,
    prototype_use,
    prototypes_used,
    uniformity,
)


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
    sign: str, measures: dict[str, float], epoch: int, loss: float | None, chance: float | None, tries: Sequence[str]
) -> str:
    """One sentence: what is wrong, by which number, and what to try.

    Args:
        sign: str, of `sslzoo.methods.advice.SIGNS`.
        measures, loss, chance: what `signs` read.
        epoch: int, how many epochs were trained.
        tries: what to try (`sslzoo.methods.advice.advise`), at least two, of which the first three are named.
    """
    numbers = {"loss": loss, "chance": chance, "all": round(measures.get("used", 0) / measures.get("prototypes", 1))}
    what, detail = SENTENCES[sign]
    message = f"{what} after epoch {epoch}{detail.format(**measures, **numbers)}"
    *most, last = tries[:3]
    return f"{message}; try {', '.join(most)} or {last}."
