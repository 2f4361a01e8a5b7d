"""Contrastive objectives: every anchor is to tell its positive from other candidates, by a softmax over scores.

Each loss is the mean over anchors of -score(positive) + log sum exp score(candidate), the positive being one of the
candidates, so it is >= 0 and equals the log of their number when the scores say nothing (`dcl` leaves the positive
out of the sum). `*_terms` gives the two parts by name, "alignment" (pull) and "contrast" (push), which sum to the loss.

Inputs of any float dtype are taken to float32 first; losses are float32 scalars, in nats. Sizes that are known are
checked; under TensorFlow a batch size may be unknown while a graph is traced.

References:
    SimCLR: Chen et al., "A Simple Framework for Contrastive Learning of Visual Representations", eq. 1.
    DCL: Yeh et al., "Decoupled Contrastive Learning", eq. 5 and 6.
    MoCo: He et al., "Momentum Contrast for Unsupervised Visual Representation Learning", eq. 1.
    InfoNCE: van den Oord, Li and Vinyals, "Representation Learning with Contrastive Predictive Coding", eq. 4.
    Instance discrimination: Wu et al., "Unsupervised Feature Learning via Non-Parametric Instance Discrimination",
        eq. 1; Dosovitskiy et al., "Discriminative Unsupervised Feature Learning with Convolutional Neural Networks".
"""

from keras import ops

from sslzoo.errors import InvalidInputError
from sslzoo.losses.tensors import check_pairs, check_positive, differ, float32, softmax_terms, static_shape, total, unit


def info_nce(scores):
    """InfoNCE of a matrix of scores: mean_i [ -S_ii + log sum_j exp S_ij ].

    Example:
        scores = np.random.default_rng(0).normal(size=(32, 32))
        losses.info_nce(scores)

    Args:
        scores: float tensor (B, B), the critic's log-scores. Row i holds anchor i against every candidate j; its
            positive is candidate i.

    Returns:
        Float32 scalar, >= 0. Rows of equal scores give log B; log B - loss is a lower bound on the mutual information.
    """
    return total(info_nce_terms(scores))


def info_nce_terms(scores) -> dict:
    """The parts of `info_nce`: {"alignment": mean_i -S_ii, "contrast": mean_i log sum_j exp S_ij}.

    Args: as in `info_nce`.
    """
    scores = float32(scores)
    shape = static_shape(scores)
    if len(shape) != 2 or differ(*shape):
        raise InvalidInputError(
            f"scores must be a square matrix (batch, batch), positives on its diagonal. Received: scores.shape={shape}"
        )
    return softmax_terms(ops.diagonal(scores), scores)


def nt_xent(z_a, z_b, temperature: float):
    """Normalized, temperature-scaled cross-entropy of SimCLR, over all 2 B views.

    Each view's positive is the other view of its image; its candidates are all views but itself. The loss is the mean
    over 2 B views (SimCLR's released code has twice that: the sum of the means over either half).

    Example:
        z_a, z_b = np.random.default_rng(0).normal(size=(2, 32, 8))
        losses.nt_xent(z_a, z_b, temperature=0.5)

    Args:
        z_a, z_b: float tensors (B, D), first and second view of each image; normalized here.
        temperature: float > 0, divides cosine similarities.

    Returns:
        Float32 scalar, >= 0. Equal vectors give log(2 B - 1). With one image there is one candidate, the positive:
        the loss is 0 and teaches nothing.
    """
    return total(nt_xent_terms(z_a, z_b, temperature))


def nt_xent_terms(z_a, z_b, temperature: float) -> dict:
    """The parts of `nt_xent`: {"alignment": mean of -positive / temperature, "contrast": mean of log-sum-exp}.

    Args: as in `nt_xent`.
    """
    z_a, z_b = unit(z_a), unit(z_b)
    check_pairs(z_a=z_a, z_b=z_b)
    check_positive(temperature=temperature)
    z = ops.concatenate([z_a, z_b], axis=0)
    scores = ops.matmul(z, ops.transpose(z)) / temperature
    # Minus infinity takes a view out of its own candidates exactly, value and gradient. It is safe here because scores
    # are float32 and no row loses all its candidates; the customary -1e9 would overflow in float16.
    itself = ops.eye(ops.shape(z)[0], dtype="bool")
    positives = ops.sum(z_a * z_b, axis=1) / temperature
    return softmax_terms(positives, ops.where(itself, -float("inf"), scores))


def dcl(z_a, z_b, temperature: float, sigma: float | None = None):
    """Decoupled contrastive loss: SimCLR's, with the positive taken out of the candidates.

    The mean over all 2 B views of -w s(view, its other view) / T + log sum exp s(view, other) / T, summed over the
    2 B - 2 views of other images. Without the positive in the sum, how fast a view learns no longer depends on how
    close its pair is already, so small batches do.

    Example:
        z_a, z_b = np.random.default_rng(0).normal(size=(2, 32, 8))
        losses.dcl(z_a, z_b, temperature=0.1)

    Args:
        z_a, z_b: float tensors (B, D), first and second view of each image; normalized here. B >= 2.
        temperature: float > 0, divides cosine similarities.
        sigma: float > 0, of the weighted form (DCLW), which pulls harder where a pair is far apart:
            w_i = 2 - exp(s_i / sigma) / mean_j exp(s_j / sigma), s_i the similarity of image i's views, without a
            gradient. None: w = 1.

    Returns:
        Float32 scalar, which may be negative. Equal vectors give log(2 B - 2).

    Reference:
        Yeh et al., "Decoupled Contrastive Learning" (arXiv 2110.06848), eq. 5 and 6.
    """
    return total(dcl_terms(z_a, z_b, temperature, sigma))


def dcl_terms(z_a, z_b, temperature: float, sigma: float | None = None) -> dict:
    """The parts of `dcl`: {"alignment": mean of -w positive / temperature, "contrast": mean of log-sum-exp}.

    Args: as in `dcl`.
    """
    z_a, z_b = unit(z_a), unit(z_b)
    check_pairs(least=2, z_a=z_a, z_b=z_b)
    check_positive(temperature=temperature)
    positives = ops.sum(z_a * z_b, axis=1)
    weights = 1.0
    if sigma is not None:
        check_positive(sigma=sigma)
        closeness = ops.softmax(positives / sigma, axis=0)  # over its mean, the ratio of the formula, without overflow
        weights = ops.stop_gradient(2.0 - closeness / ops.mean(closeness))
    z = ops.concatenate([z_a, z_b], axis=0)
    scores = ops.matmul(z, ops.transpose(z)) / temperature
    own = ops.tile(ops.eye(ops.shape(z_a)[0], dtype="bool"), (2, 2))  # itself and its other view
    return softmax_terms(weights * positives / temperature, ops.where(own, -float("inf"), scores))


def queue_nce(q, k, queue, temperature: float):
    """MoCo's loss: each query is to tell its key from a queue of earlier keys.

    Example:
        q, k = np.random.default_rng(0).normal(size=(2, 32, 8))
        queue = losses.unit(np.random.default_rng(1).normal(size=(64, 8)))
        losses.queue_nce(q, k, queue, temperature=0.1)

    Args:
        q: float tensor (B, D), queries; normalized here.
        k: float tensor (B, D), the key of each query; normalized here. Gradients are stopped by the caller.
        queue: float tensor (K, D), the negatives, used as they are: unit rows.
        temperature: float > 0, divides cosine similarities.

    Returns:
        Float32 scalar, >= 0: mean over queries of the cross-entropy among 1 + K candidates; log(K + 1) when all agree.
    """
    return total(queue_nce_terms(q, k, queue, temperature))


def queue_nce_terms(q, k, queue, temperature: float) -> dict:
    """The parts of `queue_nce`: {"alignment": mean of -positive / temperature, "contrast": mean of log-sum-exp}.

    Args: as in `queue_nce`.
    """
    q, k, queue = unit(q), unit(k), float32(queue)
    check_pairs(q=q, k=k)
    check_positive(temperature=temperature)
    shape = static_shape(queue)
    if len(shape) != 2 or differ(shape[1], static_shape(q)[1]):
        raise InvalidInputError(
            f"queue must have shape (rows, {static_shape(q)[1]}), like the queries. Received: queue.shape={shape}"
        )
    positives = ops.sum(q * k, axis=1) / temperature
    negatives = ops.matmul(q, ops.transpose(queue)) / temperature
    return softmax_terms(positives, ops.concatenate([positives[:, None], negatives], axis=1))


def instance_cross_entropy(scores, index):
    """Cross-entropy of a softmax classifier with one class per training image.

    Example:
        scores = np.random.default_rng(0).normal(size=(4, 100))
        losses.instance_cross_entropy(scores, np.array([7, 0, 99, 7]))

    Args:
        scores: float tensor (B, N), of each view against every one of N images.
        index: int tensor (B,), the image each view was made of, 0..N-1. An index outside gives NaN, on every backend
            (a one-hot vector would turn it into a plausible loss without a positive).

    Returns:
        Float32 scalar, >= 0. Equal scores give log N.
    """
    return total(instance_terms(scores, index))


def instance_terms(scores, index) -> dict:
    """The parts of `instance_cross_entropy`: {"alignment": mean of -own score, "contrast": mean of log-sum-exp}.

    Args: as in `instance_cross_entropy`.
    """
    scores, index = float32(scores), ops.convert_to_tensor(index)
    shape, labels = static_shape(scores), static_shape(index)
    if len(shape) != 2 or len(labels) != 1 or differ(shape[0], labels[0]):
        raise InvalidInputError(
            "scores and index must have shapes (views, images) and (views,). "
            f"Received: scores.shape={shape}, index.shape={labels}"
        )
    images = ops.shape(scores)[1]
    known = ops.logical_and(index >= 0, index < images)
    own = ops.take_along_axis(scores, ops.cast(ops.where(known, index, 0), "int32")[:, None], axis=1)[:, 0]
    return softmax_terms(ops.where(known, own, float("nan")), scores)
