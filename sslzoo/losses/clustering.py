"""Clustering objectives: each view is to be predicted from the cluster that another view of its image was put in.

Every loss here is a cross-entropy, -(score of the target) + log-sum-exp of all scores. `*_terms` gives the two parts by
name, "alignment" (pull) and "contrast" (push off the other clusters); the loss is their sum. What keeps all images from
ending up in one cluster is the way targets are made: balanced by `sinkhorn`, measured against their own average by
`proto_cpc`, made by k-means and weighted by the size of the clusters in DeepCluster (`pseudo_label_terms`).

Shapes: B images, K clusters (or prototypes). Inputs of any float dtype are taken to float32 first; losses are float32
scalars, in nats. Targets are constants: no gradient flows into them.

References:
    SwAV: Caron et al., "Unsupervised Learning of Visual Features by Contrasting Cluster Assignments", eq. 1-5.
    ProtoCPC: Lee, "Representation Distillation by Prototypical Contrastive Predictive Coding"; the formula as derived
        in the GEDI paper (arXiv 2401.00873), appendix H.
    DeepCluster: Caron et al., "Deep Clustering for Unsupervised Learning of Visual Features", eq. 1.
    GEDI: Sansone and Manhaeve, "Unifying Self-Supervised Clustering and Energy-Based Models", eq. 5 (`cluster_terms`,
        whose targets do carry a gradient).
"""

from collections.abc import Sequence

from keras import ops

from sslzoo import checks
from sslzoo.errors import InvalidInputError
from sslzoo.losses.tensors import check_pairs, check_positive, differ, float32, pairs, static_shape, total, vector


def sinkhorn(scores, epsilon: float = 0.05, iterations: int = 3, weights=None):
    """Soft assignments of samples to prototypes, which use every prototype equally (Sinkhorn-Knopp).

    Starts from exp(scores / epsilon) and alternates: every prototype gets the same total, then every sample a total of
    1. So rows sum to 1 exactly and columns to B / K approximately, better with more iterations. Runs on logarithms:
    scores / epsilon of any size are safe, and a prototype far from everything still gets its share, where the
    exponentials of the published algorithm would be 0 / 0.

    Example:
        scores = np.random.default_rng(0).uniform(-1, 1, size=(32, 5))
        losses.sinkhorn(scores)  # (32, 5), columns sum to about 32 / 5

    Args:
        scores: float tensor (B, K), usually cosines of embeddings and prototypes.
        epsilon: float > 0. Small assigns hard, large assigns evenly.
        iterations: int >= 1.
        weights: float tensor (B,), >= 0, of the samples in the totals of the prototypes, or None for equal ones. A
            sample of weight 0 is assigned like the others but has no say in the balance (an empty slot of a queue).

    Returns:
        Float32 tensor (B, K) of probabilities, without gradient. Zero scores give 1 / K.

    Reference:
        SwAV, eq. 3-5 and appendix A; Cuturi, "Sinkhorn Distances".
    """
    scores = float32(scores)
    shape = static_shape(scores)
    if len(shape) != 2:
        raise InvalidInputError(f"scores must be a matrix (batch, prototypes). Received: scores.shape={shape}")
    check_positive(epsilon=epsilon)
    checks.count(iterations=iterations)

    logits = ops.stop_gradient(scores) / epsilon
    in_totals = 0.0 if weights is None else _log(ops.stop_gradient(vector(shape[0], weights=weights)))[:, None]
    by_sample = 0.0
    for _ in range(iterations):
        by_prototype = -ops.logsumexp(logits + by_sample + in_totals, axis=0, keepdims=True)
        by_sample = -ops.logsumexp(logits + by_prototype, axis=1, keepdims=True)
    return ops.softmax(logits + by_prototype, axis=1)


def swapped_terms(
    scores: Sequence,
    temperature: float = 0.1,
    epsilon: float = 0.05,
    iterations: int = 3,
    num_assigning: int | None = None,
    queue: Sequence | None = None,
    queue_weights=None,
):
    """The two terms of `swapped_prediction`.

    Args: as in `swapped_prediction`.

    Returns:
        dict of float32 scalars, means over ordered pairs (u assigns, v predicts) and images:
        "alignment" = -sum_k q_uk s_vk / T, "contrast" = log sum_k exp(s_vk / T).
    """
    scores = [float32(view) for view in scores]
    queue = None if queue is None else [float32(view) for view in queue]
    assigning = len(scores) if num_assigning is None else num_assigning
    _check_views(scores, assigning, queue)
    check_positive(temperature=temperature)

    logits = [view / temperature for view in scores]
    targets = []
    for u in range(assigning):
        if queue is None:
            targets.append(sinkhorn(scores[u], epsilon, iterations))
        else:
            targets.append(_assign_with_queue(scores[u], queue[u], queue_weights, epsilon, iterations))
    views = pairs(assigning, len(scores))
    alignment = contrast = 0.0
    for u, v in views:
        alignment -= ops.mean(ops.sum(targets[u] * logits[v], axis=1))
        contrast += ops.mean(ops.logsumexp(logits[v], axis=1))
    return {"alignment": alignment / len(views), "contrast": contrast / len(views)}


def swapped_prediction(
    scores: Sequence,
    temperature: float = 0.1,
    epsilon: float = 0.05,
    iterations: int = 3,
    num_assigning: int | None = None,
    queue: Sequence | None = None,
    queue_weights=None,
):
    """SwAV: each view predicts the balanced assignment of each other view of its image.

    Mean over the ordered pairs u != v, u among the first `num_assigning` views, of
    -mean_i sum_k q_uik log softmax_k(s_vi / temperature),  q_u = sinkhorn(s_u). Zero scores give log K.

    Example:
        scores = np.random.default_rng(0).uniform(-1, 1, size=(2, 32, 5))  # of two views
        losses.swapped_prediction(list(scores))

    Args:
        scores: two or more float tensors (B, K), one per view: cosines of its embeddings with the prototypes. The
            ones that assign come first.
        temperature: float > 0, of the predictions.
        epsilon, iterations: as in `sinkhorn`.
        num_assigning: int, how many views assign (SwAV: the two global crops); all of them predict. None for all.
        queue: `num_assigning` float tensors (Q, K), scores of older embeddings *under the current prototypes*. They
            stand before the batch in the Sinkhorn iterations, so that a batch much smaller than K can be balanced.
        queue_weights: float tensor (Q,), `weights` of the queue in `sinkhorn`; None for ones.

    Returns:
        Float32 scalar, in nats.

    Reference:
        SwAV, eq. 2, and multi-crop as in its section 3.3.
    """
    return total(swapped_terms(scores, temperature, epsilon, iterations, num_assigning, queue, queue_weights))


def _assign_with_queue(scores, queue, queue_weights, epsilon, iterations):
    weights = None
    if queue_weights is not None:
        weights = vector(static_shape(queue)[0], queue_weights=queue_weights)
        weights = ops.concatenate([weights, ops.ones_like(scores[:, 0])])
    return sinkhorn(ops.concatenate([queue, scores]), epsilon, iterations, weights)[queue.shape[0] :]


def proto_cpc_terms(student, teacher, temperature: float = 0.1, prior=None):
    """The two terms of `proto_cpc`.

    Args: as in `proto_cpc`.

    Example:
        rng = np.random.default_rng(0)
        student, teacher = rng.normal(size=(32, 5)), rng.dirichlet(np.ones(5), size=32)
        losses.proto_cpc_terms(student, teacher)

    Returns:
        dict of float32 scalars: "alignment" = -mean_i sum_c p_ic s_ic / T and
        "contrast" = mean_i log sum_c q_c exp(s_ic / T).
    """
    student, teacher = float32(student), ops.stop_gradient(float32(teacher))
    check_pairs(student=student, teacher=teacher)
    check_positive(temperature=temperature)
    prototypes = static_shape(student)[1]
    prior = ops.mean(teacher, axis=0) if prior is None else ops.stop_gradient(vector(prototypes, prior=prior))
    logits = student / temperature
    return {
        "alignment": -ops.mean(ops.sum(teacher * logits, axis=1)),
        "contrast": ops.mean(ops.logsumexp(logits + _log(prior), axis=1)),
    }


def proto_cpc(student, teacher, temperature: float = 0.1, prior=None):
    """ProtoCPC: the student is to name the teacher's prototype among all, each as likely as the teacher makes it.

    -mean_i log [ exp(p_i . s_i / T) / sum_c q_c exp(s_ic / T) ],  p_i = teacher_i,  q = mean_i p_i

    Minus the loss is a lower bound of InfoNCE, so of mutual information: the loss is 0 for a student that knows nothing
    apart (scores constant over prototypes) and also when all images share one prototype; its least value for given
    targets is -mean_i KL(p_i || q) >= -log K.

    Example:
        rng = np.random.default_rng(0)
        student, teacher = rng.normal(size=(32, 5)), rng.dirichlet(np.ones(5), size=32)
        losses.proto_cpc(student, teacher)

    Args:
        student: float tensor (B, K), scores of one view.
        teacher: float tensor (B, K), probabilities of another view of the same images; rows sum to 1.
        temperature: float > 0, of the student.
        prior: float tensor (K,), q where it is estimated from more than this batch; None for the formula above.

    Returns:
        Float32 scalar, in nats; unchanged by a constant added to a row of `student`.

    Reference:
        The GEDI paper (arXiv 2401.00873), appendix H, last line (z is `student`, p^t is `teacher`).
    """
    return total(proto_cpc_terms(student, teacher, temperature, prior))


def cluster_terms(logits, logits_view, prior=None):
    """GEDI's two discriminative terms: a view falls into the cluster of its image, and every cluster gets its share.

    invariance = mean_i -sum_y p(y | x'_i) log p(y | x_i)       p(y | x) = softmax(logits)_y
    prior      = -sum_y prior_y log( mean_i p(y | x_i) )

    Together they tell the ways to fail apart: the same assignment for every image that favors no cluster has
    invariance log K; one cluster for all has invariance 0 and a prior term that grows with the margin of its logits,
    m (K - 1) / K; balanced but inconsistent clusters have a large invariance and the least prior. At the optimum,
    invariance is 0 and prior the entropy of `prior`: log K for equal shares, not 0.

    Example:
        logits, logits_view = np.random.default_rng(0).normal(size=(2, 32, 5))
        losses.cluster_terms(logits, logits_view)

    Args:
        logits: float tensor (B, K), of the images.
        logits_view: float tensor (B, K), of an augmented view of each. It is the target of the cross-entropy, and
            gradients flow into it too: nothing is stopped here.
        prior: float tensor (K,), > 0, share of each cluster, sums to 1; None for equal ones.

    Returns:
        dict of float32 scalars, unweighted, >= 0: "invariance", "prior".

    Reference:
        Sansone and Manhaeve, "Unifying Self-Supervised Clustering and Energy-Based Models" (GEDI, arXiv 2401.00873),
        eq. 5 and proposition 1; its terms are sums over images, and are to be maximized.
    """
    logits, logits_view = float32(logits), float32(logits_view)
    check_pairs(logits=logits, logits_view=logits_view)
    log_p = ops.log_softmax(logits, axis=1)
    # log of the mean over images, on logarithms: a cluster that nobody is in has a gradient, where log(0) has none.
    log_share = ops.logsumexp(log_p, axis=0) - ops.log(ops.cast(ops.shape(log_p)[0], "float32"))
    if prior is None:
        shares = ops.mean(log_share)
    else:
        shares = ops.sum(ops.stop_gradient(vector(static_shape(logits)[1], prior=prior)) * log_share)
    return {"invariance": -ops.mean(ops.sum(ops.softmax(logits_view, axis=1) * log_p, axis=1)), "prior": -shares}


def pseudo_label_terms(logits, labels, weights=None):
    """Cross-entropy of a linear classifier whose classes are clusters, in two terms.

    Example:
        logits = np.random.default_rng(0).normal(size=(32, 5))
        losses.pseudo_label_terms(logits, np.arange(32) % 5)

    Args:
        logits: float tensor (B, K).
        labels: int tensor (B,), cluster of each image, 0..K-1; of any other the alignment is NaN.
        weights: float tensor (B,), >= 0, of the images, with mean 1 over the data set; None for ones. N / (K n_k) for
            images of a cluster of n_k makes every cluster count the same, as drawing clusters uniformly would.

    Returns:
        dict of float32 scalars: "alignment" = -mean_i w_i s_i,label and "contrast" = mean_i w_i log sum_k exp s_ik.
        Zero logits give a sum of log K (times the mean weight).

    Reference:
        DeepCluster, eq. 1 and section 3.3.
    """
    logits = float32(logits)
    shape = static_shape(logits)
    if len(shape) != 2:
        raise InvalidInputError(f"logits must be a matrix (batch, clusters). Received: logits.shape={shape}")
    labels = ops.convert_to_tensor(labels, dtype="int32")
    if len(static_shape(labels)) != 1 or differ(shape[0], *static_shape(labels)):
        raise InvalidInputError(
            f"labels must have shape (batch,) with the batch of logits. Received: labels.shape={static_shape(labels)}, "
            f"logits.shape={shape}"
        )
    known = ops.logical_and(labels >= 0, labels < shape[1])
    score = ops.take_along_axis(logits, ops.where(known, labels, 0)[:, None], axis=1)[:, 0]
    score = ops.where(known, score, float("nan"))
    weights = 1.0 if weights is None else ops.stop_gradient(vector(shape[0], weights=weights))
    return {"alignment": -ops.mean(weights * score), "contrast": ops.mean(weights * ops.logsumexp(logits, axis=1))}


def _log(weights):
    """Logarithm whose value at 0 makes log-sum-exp leave the entry out, yet is finite: where all are 0, none is."""
    return ops.where(weights > 0, ops.log(ops.where(weights > 0, weights, 1.0)), -1e30)


def _check_views(scores, assigning, queue):
    shapes = [static_shape(view) for view in scores]
    if len(scores) < 2 or any(len(shape) != 2 for shape in shapes) or any(map(differ, *shapes)):
        raise InvalidInputError(
            "scores must be two or more matrices (batch, prototypes) of one shape, one for each view. "
            f"Received: shapes={shapes}"
        )
    if not 1 <= assigning <= len(scores):
        raise InvalidInputError(
            f"num_assigning must be from 1 to the number of views, {len(scores)}. Received: num_assigning={assigning}"
        )
    if queue is not None and len(queue) != assigning:
        raise InvalidInputError(
            f"queue must hold the scores of each of the {assigning} views that assign. Received: {len(queue)} tensors"
        )
    older = [] if queue is None else [static_shape(view) for view in queue]
    if any(len(shape) != 2 or differ(shape[1], shapes[0][1]) for shape in older):
        raise InvalidInputError(
            f"queue must be matrices of {shapes[0][1]} prototypes, as scores. Received: queue of shapes {older}"
        )
