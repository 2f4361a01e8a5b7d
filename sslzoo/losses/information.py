"""Lower bounds on the mutual information I(X; Y), estimated from scores of pairs. In nats; larger is tighter.

A critic f(x, y) is scored on pairs that belong together, (x, y_1) ~ p(x, y), and on pairs that do not, y ~ p(y). Each
estimate is a mean over the anchors x. Its *expectation* is a lower bound under the condition named in its docstring;
one estimate from few pairs can lie above the truth.

    bound             needs                                      at most
    Barber-Agakov     a normalized density q(x | y)              I
    InfoNCE           any critic, K - 1 independent negatives    I, and log K always
    VINCE             negatives from above a threshold           InfoNCE of as many negatives, and log K always
    NWJ, TUBA         any critic                                 I

Inputs of any float dtype are taken to float32 first; results are float32 scalars.

References:
    Wu et al., "On Mutual Information in Contrastive Learning for Visual Representations" (arXiv 2005.13149), eq. 6,
        theorem 4.1, corollary 4.1.1, and appendix A.6.
    Poole et al., "On Variational Bounds of Mutual Information" (arXiv 1905.06922), eq. 2-10.
"""

import math

from keras import ops

from sslzoo.errors import InvalidInputError
from sslzoo.losses.tensors import check_alike, differ, float32, static_shape, vector


def info_nce_bound(positive, negative):
    """InfoNCE: mean_i [ f(x_i, y_i1) - log (1/K) sum_{k=1..K} exp f(x_i, y_ik) ],  K - 1 negatives and the positive.

    Bounds I from below in expectation for any critic, if the negatives are independent draws from p(y), and of y_1.
    With few pairs of high information it is limited by its cap of log K.

    Example:
        rng = np.random.default_rng(0)
        positive, negative = rng.normal(size=32), rng.normal(size=(32, 9))
        losses.info_nce_bound(positive, negative)

    Args:
        positive: float tensor (B,), scores of true pairs.
        negative: float tensor (B, K - 1), scores of each anchor with its negatives.

    Returns:
        Float32 scalar, at most log K.
    """
    positive, negative = _pairs(positive, negative)
    everyone = ops.logsumexp(ops.concatenate([positive[:, None], negative], axis=1), axis=1)
    return ops.mean(positive - everyone) + math.log(1 + negative.shape[1])


def vince_bound(positive, negative, lower=-math.inf, upper=math.inf, similarity=None):
    """VINCE: InfoNCE with those negatives alone whose similarity lies between two thresholds.

    mean_i [ f(x_i, y_i1) - log (1/K_i) sum exp f ],  over the positive and the K_i - 1 negatives that remain

    In expectation at most InfoNCE of as many negatives, so at most I, if one of two conditions holds. `upper` is
    infinite: whatever `lower` is, scores above a threshold are the larger ones. Or `lower` is at least
    `vince_threshold`, for any `upper`: then each negative counts for more than the average one, and the logarithm of
    the average is at least the average of the logarithm (corollary 4.1.1). Otherwise the estimate may lie above
    InfoNCE, and above I. The paper sets thresholds on f(y_1, y), the likeness of positive and negative, while its proof
    needs them on the scores that are averaged, f(x, y): the default here.

    Example:
        rng = np.random.default_rng(0)
        positive, negative = rng.normal(size=32), rng.normal(size=(32, 9))
        losses.vince_bound(positive, negative)

    Args:
        positive: float tensor (B,), scores of true pairs.
        negative: float tensor (B, M), scores of each anchor with draws from p(y).
        lower, upper: floats, or tensors (B,): bounds of the similarity. Minus and plus infinity give InfoNCE.
        similarity: float tensor (B, M), what the thresholds are on; the negatives' scores by default.

    Returns:
        Float32 scalar, at most log(1 + M). An anchor without negatives in its region counts as 0.
    """
    positive, negative = _pairs(positive, negative)
    similarity = negative if similarity is None else float32(similarity)
    if len(static_shape(similarity)) != 2 or any(map(differ, static_shape(similarity), static_shape(negative))):
        raise InvalidInputError(
            "similarity must have the shape of negative. "
            f"Received: similarity.shape={static_shape(similarity)}, negative.shape={static_shape(negative)}"
        )
    size = static_shape(positive)[0]
    low, high = (ops.expand_dims(bound, -1) for bound in (_each(size, lower=lower), _each(size, upper=upper)))
    inside = ops.logical_and(similarity >= low, similarity <= high)
    kept = ops.where(inside, negative, -float("inf"))  # safe: the positive stays in every row
    everyone = ops.logsumexp(ops.concatenate([positive[:, None], kept], axis=1), axis=1)
    count = 1.0 + ops.sum(ops.cast(inside, "float32"), axis=1)
    return ops.mean(positive - everyone + ops.log(count))


def vince_threshold(scores):
    """From where on negatives are harder than the average one, log E[exp f] of each anchor: see `vince_bound`.

    Example:
        scores = np.random.default_rng(0).normal(size=(32, 9))
        losses.vince_threshold(scores)

    Args:
        scores: float tensor (B, M), of each anchor with draws from p(y).

    Returns:
        Float32 tensor (B,), log of the mean of exp(scores) over the draws.
    """
    scores = float32(scores)
    if len(static_shape(scores)) != 2 or not static_shape(scores)[1]:
        raise InvalidInputError(f"scores must be a matrix (anchors, draws). Received: shape={static_shape(scores)}")
    return ops.logsumexp(scores, axis=1) - math.log(scores.shape[1])


def barber_agakov_bound(log_conditional, log_marginal):
    """Barber-Agakov: mean_i [ log q(x_i | y_i) - log p(x_i) ].

    Bounds I from below in expectation if q(. | y) is a density (it integrates to 1) and log p(x) is exact or too
    large. Tight where q is p(x | y).

    With an unnormalized critic, q(x | y) = p(x) exp f(x, y) / Z(y), the same bound is mean f - log Z(y): give f and
    log Z(y) = log E_{p(x)} exp f(x, y). An estimate of log Z from few draws is too small on average, by Jensen's
    inequality, and the result is then no bound; InfoNCE and TUBA are ways out.

    Example:
        log_conditional, log_marginal = np.random.default_rng(0).normal(size=(2, 32))
        losses.barber_agakov_bound(log_conditional, log_marginal)

    Args:
        log_conditional: float tensor (B,), log q(x | y), or the critic's f(x, y).
        log_marginal: float tensor (B,), log p(x), or the log-partition.

    Returns:
        Float32 scalar.
    """
    conditional, marginal = float32(log_conditional), float32(log_marginal)
    check_alike("vectors (batch,)", 1, log_conditional=conditional, log_marginal=marginal)
    return ops.mean(conditional - marginal)


def tuba_bound(positive, negative, log_baseline=0.0):
    """TUBA: 1 + mean_i [ f(x_i, y_i) - log a_i ] - mean_ik [ exp f(x_i, y_ik) / a_i ].

    Bounds I from below in expectation for any critic and any positive a that depends on the anchor alone (not on the
    scores that are averaged). Tight where f is log p(y | x) / p(y) + c(x) and a = exp c(x). Its variance grows with
    exp I; unlike InfoNCE it has no cap.

    Example:
        rng = np.random.default_rng(0)
        positive, negative = rng.normal(size=32), rng.normal(size=(32, 9))
        losses.tuba_bound(positive, negative)

    Args:
        positive: float tensor (B,), scores of true pairs.
        negative: float tensor (B, K), scores of each anchor with draws from p(y); the true partner is not among them.
        log_baseline: float or tensor (B,), log a.

    Returns:
        Float32 scalar.
    """
    positive, negative = _pairs(positive, negative)
    baseline = _each(static_shape(positive)[0], log_baseline=log_baseline)
    partition = ops.logsumexp(negative, axis=1) - math.log(negative.shape[1])
    return 1.0 + ops.mean(positive - baseline) - ops.mean(ops.exp(partition - baseline))


def nwj_bound(positive, negative):
    """Nguyen-Wainwright-Jordan: mean f(x_i, y_i) - mean exp(f(x_i, y_ik) - 1), which is TUBA with a = e.

    Bounds I from below in expectation for any critic; tight where f = 1 + log p(y | x) / p(y).

    Example:
        rng = np.random.default_rng(0)
        positive, negative = rng.normal(size=32), rng.normal(size=(32, 9))
        losses.nwj_bound(positive, negative)

    Args:
        positive: float tensor (B,), scores of true pairs.
        negative: float tensor (B, K), scores of each anchor with draws from p(y).

    Returns:
        Float32 scalar.
    """
    return tuba_bound(positive, negative, log_baseline=1.0)


def _pairs(positive, negative):
    positive, negative = float32(positive), float32(negative)
    own, others = static_shape(positive), static_shape(negative)
    if len(own) != 1 or len(others) != 2 or differ(own[0], others[0]) or not others[1]:
        raise InvalidInputError(
            "positive and negative must have shapes (anchors,) and (anchors, negatives). "
            f"Received: positive.shape={own}, negative.shape={others}"
        )
    return positive, negative


def _each(size, **bound):
    """A number, or one for each of so many anchors."""
    (value,) = map(float32, bound.values())
    return vector(size, **bound) if static_shape(value) else value
