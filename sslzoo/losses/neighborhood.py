"""Contrast within a neighborhood: which candidates count as positives and which as negatives is all that methods vary.

One loss serves the family. With scores s_ij of anchor i and candidate j, a set P_i of positives and a set N_i of
negatives,

    loss = mean_i [ -log sum_{j in P_i} exp s_ij + log sum_{j in P_i or N_i} exp s_ij ]  >= 0

    method                          P_i                  N_i
    instance discrimination (IR)    {i}                  all images, or images drawn at random
    ball (BALL)                     {i}                  B_i, the nearest of the bank
    annulus (ANN)                   {i}                  B_i without C_i, those that share a cluster with i
    local aggregation (LA)          {i} and B_i in C_i   B_i

So loss(IR, all images) >= loss(BALL) >= loss(ANN) and loss(BALL) >= loss(LA), for each anchor, and a larger ball has
the larger loss. (Lemma 5.3 of the paper has LA on the other side of BALL: with log-probabilities, which the paper
maximizes, the definitions give LA >= BALL.) The annulus is printed without its positive in the denominator, where it is
not bounded from below and not the estimate that the paper's lemma 5.1 makes of it; here the positive is in.

Inputs of any float dtype are taken to float32 first; losses are float32 scalars, in nats.

References:
    Wu, Zhuang, Mosse, Yamins and Goodman, "On Mutual Information in Contrastive Learning for Visual Representations"
        (arXiv 2005.13149): eq. 1-3, lemma 5.1, appendix B.
    IR: Wu et al., "Unsupervised Feature Learning via Non-Parametric Instance Discrimination".
    LA: Zhuang, Zhai and Yamins, "Local Aggregation for Unsupervised Learning of Visual Embeddings".
"""

import math

import keras
from keras import ops

from sslzoo import checks
from sslzoo.errors import InvalidInputError, choose
from sslzoo.losses.tensors import differ, float32, static_shape, total

# Of the released code of instance discrimination: Z / N of the first batch on ImageNet. Random unit vectors in 128
# dimensions at temperature 0.07 give exp(1 / (2 0.07^2 128)) = 2.22.
NORMALIZER = 2876934.2 / 1281167
CURVES = ("linear", "exponential", "step")
BLOCK = 65_536  # rows of a bank that are looked at in one go
CACHED = 2**18  # numbers, a megabyte


def neighborhood_nce(scores, positive, negative):
    """Minus the log of the share that positives have in the softmax over positives and negatives, mean over anchors.

    loss = mean_i [ -log sum_{j in P_i} exp s_ij + log sum_{j in P_i or N_i} exp s_ij ]

    P_i are the positives of anchor i, N_i its negatives; which candidates are which is all that instance
    discrimination, balls, annuli and local aggregation differ in.

    Example:
        rng = np.random.default_rng(0)
        scores = rng.normal(size=(32, 10))
        positive, negative = np.arange(10) < 2, np.arange(10) < 8
        losses.neighborhood_nce(scores, positive[None], negative[None])

    Args:
        scores: float tensor (B, K), log-scores of each anchor's candidates. The same image may stand in several
            columns, and counts as often.
        positive: bool tensor (B, K), or of a shape that broadcasts to it; at least one per row.
        negative: bool tensor likewise. What is also positive counts once.

    Returns:
        Float32 scalar, >= 0. A row without a positive makes it NaN. With one positive and K - 1 negatives of equal
        scores: log K; without negatives: 0.
    """
    return total(neighborhood_terms(scores, positive, negative))


def neighborhood_terms(scores, positive, negative) -> dict:
    """The parts of `neighborhood_nce`: {"alignment": mean of -lse over positives, "contrast": mean of lse over all}.

    Args: as in `neighborhood_nce`.
    """
    scores, positive, negative = float32(scores), ops.convert_to_tensor(positive), ops.convert_to_tensor(negative)
    _check_masks(scores, positive=positive, negative=negative)
    positive = ops.logical_and(positive, ops.ones_like(scores, dtype="bool"))
    counted = ops.logical_or(positive, negative)
    # A row without a positive must not send NaN into gradients of the others: it looks at all its scores, and the
    # loss is known by a constant.
    lost = ops.logical_not(ops.any(positive, axis=1, keepdims=True))
    positives = _logsumexp(scores, ops.logical_or(positive, lost))
    everyone = _logsumexp(scores, ops.logical_or(counted, lost))
    known = ops.where(ops.any(lost), float("nan"), 0.0)
    return {"alignment": known - ops.mean(positives), "contrast": ops.mean(everyone)}


def noise_contrastive(scores, noise_scores, num_images: int, normalizer: float = NORMALIZER):
    """Original objective of instance discrimination: is this image the anchor's own, or one of K drawn at random?

    loss = mean_i [ -log h(s_i) - sum_k log(1 - h(s_ik)) ],   h(s) = P / (P + K / N),   P = exp(s) / (N normalizer)

    Noise images are drawn uniformly from N. The constant in place of the softmax's denominator was measured on
    ImageNet; elsewhere it is unstable, and `neighborhood_nce` needs none. Without the 1e-7 that the released code adds
    to denominators: on logarithms there is nothing to guard.

    Example:
        rng = np.random.default_rng(0)
        scores, noise_scores = rng.normal(size=32), rng.normal(size=(32, 10))
        losses.noise_contrastive(scores, noise_scores, num_images=1000)

    Args:
        scores: float tensor (B,), of each anchor with its own image.
        noise_scores: float tensor (B, K), of each anchor with the drawn images.
        num_images: int >= 1, N.
        normalizer: float > 0, Z / N, the mean of exp(score) over images. NORMALIZER is 2876934.2 / 1281167, about 2.25.

    Returns:
        Float32 scalar, >= 0.
    """
    return total(noise_contrastive_terms(scores, noise_scores, num_images, normalizer))


def noise_contrastive_terms(scores, noise_scores, num_images: int, normalizer: float = NORMALIZER) -> dict:
    """The parts of `noise_contrastive`: "alignment" of the own images, "contrast" of the drawn ones.

    Args: as in `noise_contrastive`.
    """
    scores, noise_scores = float32(scores), float32(noise_scores)
    own, noise = static_shape(scores), static_shape(noise_scores)
    if len(own) != 1 or len(noise) != 2 or differ(own[0], noise[0]) or not noise[1]:
        raise InvalidInputError(
            "scores and noise_scores must have shapes (batch,) and (batch, noise). "
            f"Received: scores.shape={own}, noise_scores.shape={noise}"
        )
    checks.count(1, num_images=num_images)
    checks.positive(normalizer=normalizer)
    # logit of h: log P - log(K / N), in which N cancels.
    offset = math.log(normalizer) + math.log(noise[1])
    return {
        "alignment": ops.mean(ops.softplus(offset - scores)),
        "contrast": ops.mean(ops.sum(ops.softplus(noise_scores - offset), axis=1)),
    }


def nearest(queries, bank, count: int, block: int = BLOCK):
    """Scores and places of the `count` rows of a bank with the largest inner products, exactly, for each query.

    A bank of up to `block` rows is one matrix of scores. A larger one is searched in blocks, one after the other, so
    that memory stays that of a (B, block) matrix and of the rows found, however many rows there are. The result is the
    same. Gradients flow into the scores.

    Example:
        rng = np.random.default_rng(0)
        queries, bank = rng.normal(size=(4, 8)), rng.normal(size=(100, 8))
        losses.nearest(queries, bank, count=5)  # products (4, 5) and places (4, 5)

    Args:
        queries: float tensor (B, D).
        bank: float tensor (N, D).
        count: int in 1..N.
        block: int >= 1, rows looked at in one go (BLOCK is 65,536); at least `count` are.

    Returns:
        scores: float32 tensor (B, count), largest first.
        rows: int32 tensor (B, count), their places in the bank. Which of equal scores comes first is the backend's.
    """
    queries, bank = float32(queries), float32(bank)
    rows = _check_bank(queries, bank)
    checks.count(count=count, block=block)
    if count > rows:
        raise InvalidInputError(f"count must be at most the bank's {rows} rows. Received: count={count}")
    block = max(block, count)
    if rows <= block:
        scores, found = ops.top_k(ops.matmul(queries, ops.transpose(bank)), count)
        return scores, ops.cast(found, "int32")
    block = max(count, -(-rows // -(-rows // block)))  # all alike: the last one looks at few rows again
    found = _search(ops.stop_gradient(queries), ops.stop_gradient(bank), count, block)
    # Query by query, and looked up once more for the gradient: all rows found, of all queries, are more than the bank.
    products = keras.remat(lambda query, rows: ops.matmul(ops.take(bank, rows, axis=0), query))
    return ops.map(lambda given: products(*given), (queries, found)), found


def _search(queries, bank, count, block):
    """Places of the nearest, int32 (B, count), by a loop that holds one block of scores at a time.

    Without gradients: a loop unrolled for them is searched all at once by XLA, which then holds every block.
    """
    rows, size = bank.shape
    places = ops.arange(block, dtype="int32")
    scores, found = ops.top_k(ops.matmul(queries, ops.transpose(bank[:block])), count)

    def look(number, best):
        start = ops.minimum(ops.cast(number, "int32") * block, rows - block)
        scores = ops.matmul(queries, ops.transpose(ops.slice(bank, (start, 0), (block, size))))
        seen = start + places < number * block  # the last block reaches back, into what was looked at
        scores = ops.where(seen[None], -float("inf"), scores)
        # The best so far and the block in one search: to put rows in order is what a `top_k` spends its time on.
        scores, order = ops.top_k(ops.concatenate([best[0], scores], axis=1), count)
        order = ops.cast(order, "int32")
        known = ops.take_along_axis(best[1], ops.minimum(order, count - 1), axis=1)
        return scores, ops.where(order < count, known, order - count + start)

    return ops.fori_loop(1, -(-rows // block), look, (scores, ops.cast(found, "int32")))[1]


def within(cosines, count):
    """Which candidates are the `count` best of their row, where the count may change from step to step.

    The threshold is found by halving the interval of cosines until it parts off that many, which takes some twenty
    comparisons of a row: a fifth of the time that XLA's `top_k` takes to put the best of a long row in order on a
    processor. Exact, and equal on every backend: of equal cosines the first count.

    Example:
        cosines = np.random.default_rng(0).uniform(-1, 1, size=(4, 100))
        losses.within(cosines, 5)  # bool (4, 100)

    Args:
        cosines: float tensor (B, N), values in [-1, 1].
        count: number, or scalar tensor, from 0 to N; a fraction counts as one more.

    Returns:
        Bool tensor (B, N), without gradient; `count` are true in each row.
    """
    cosines = ops.stop_gradient(float32(cosines))
    if len(static_shape(cosines)) != 2:
        raise InvalidInputError(
            f"cosines must be a matrix (batch, candidates). Received: cosines.shape={static_shape(cosines)}"
        )
    rows, columns = static_shape(cosines)
    count = ops.cast(ops.ceil(ops.cast(count, "float32")), "int32")
    part = _rows_at_a_time(cosines)
    if part == rows:
        bounds = _bounds(cosines, count)
    else:
        parts = ops.reshape(cosines, (-1, part, columns))
        bounds = ops.reshape(ops.map(lambda some: _bounds(some, count), parts), (-1, 3))
    threshold, above, last = (bounds[:, place : place + 1] for place in range(3))
    places = ops.arange(columns, dtype="float32")[None]
    return ops.logical_or(cosines >= above, ops.logical_and(cosines >= threshold, places <= last))


def _bounds(cosines, count):
    """Float32 (B, 3): a row's best are those from the second number on, and from the first on up to place `third`."""
    columns = cosines.shape[1]
    nothing = ops.zeros_like(cosines[:, :1])
    everyone = ops.cast(nothing, "int32") + columns
    low, high, found = ops.while_loop(
        lambda low, high, found: ops.any(ops.logical_and(found != count, _parted(low, high))),
        lambda low, high, found: _halved(cosines, count, low, high, found),
        (nothing - 1.001, nothing + 1.001, everyone),  # rounding takes cosines a little beyond 1
    )
    # Where more are found, no float32 lies between the bounds: those that the upper one leaves out are equal.
    equal = ops.logical_and(cosines >= low, cosines < high)
    missing = count - _number(cosines >= high)
    places = ops.arange(columns, dtype="int32")[None]

    def advance(first, last):  # the first place up to which enough of the equal ones stand
        middle = (first + last) // 2
        enough = _number(ops.logical_and(equal, places <= middle)) >= missing
        return ops.where(enough, first, middle), ops.where(enough, middle, last)

    _, last = ops.while_loop(
        lambda first, last: ops.any(ops.logical_and(found != count, last - first > 1)),
        advance,
        (ops.zeros_like(everyone) - 1, everyone - 1),
    )
    last = ops.where(found == count, everyone, last)
    return ops.concatenate([low, high, ops.cast(last, "float32")], axis=1)


def _halved(cosines, count, low, high, found):
    """The half of each interval that holds the threshold, and how many cosines are not below it."""
    middle = 0.5 * (low + high)
    number = _number(cosines >= middle)
    enough = number >= count
    return ops.where(enough, middle, low), ops.where(enough, high, middle), ops.where(enough, number, found)


def _parted(low, high):
    """Whether there is a number between the two."""
    middle = 0.5 * (low + high)
    return ops.logical_and(middle > low, middle < high)


def _number(mask):
    """How many are true in each row: int32 (B, 1). Integers may be added in any order, which lets compilers do it."""
    return ops.sum(ops.cast(mask, "int32"), axis=1, keepdims=True)


def _rows_at_a_time(cosines):
    """How many rows to compare over and over: on a processor what its cache holds, elsewhere all."""
    rows, columns = static_shape(cosines)
    # Of PyTorch, Keras lists no devices.
    torch = keras.backend.backend() == "torch"
    devices = [cosines.device.type] if torch else keras.distribution.list_devices()
    if not all("cpu" in device.lower() for device in devices):
        return rows
    return next(part for part in (8, 4, 2, 1) if part == 1 or (rows and rows % part == 0 and part * columns <= CACHED))


def anneal(step, start: float, end: float, steps: int, curve: str = "linear"):
    """A quantity on its way from `start` to `end`, which it reaches at `steps` and keeps.

    Example:
        losses.anneal(np.array(50), 1000.0, 100.0, steps=100)  # 550

    Args:
        step: int or scalar tensor, >= 0.
        start, end: floats; above 0 for the exponential curve.
        steps: int >= 0. 0 is `end` from the beginning.
        curve: "linear"; "exponential", a straight line of logarithms; or "step", `start` until the very end.

    Returns:
        Float32 scalar tensor.

    Raises:
        UnknownNameError: another curve.
        InvalidInputError: numbers out of range.
    """
    choose("curve", curve, CURVES)
    checks.count(0, steps=steps)
    if curve == "exponential":
        checks.positive(start=start, end=end)
    step = ops.cast(step, "float32")
    part = ops.clip(step / max(steps, 1), 0.0, 1.0) if steps else ops.ones_like(step)
    if curve == "step":
        part = ops.floor(part)
    straight = start + part * (end - start)
    between = start * ops.exp(part * math.log(end / start)) if curve == "exponential" else straight
    return ops.where(part >= 1.0, float(end), between)  # the end exactly, whatever rounding says


def _logsumexp(scores, mask):
    # Minus infinity takes a candidate out exactly, value and gradient; each row keeps at least one.
    return ops.logsumexp(ops.where(mask, scores, -float("inf")), axis=1)


def _check_masks(scores, **masks):
    shape = static_shape(scores)
    shapes = {name: static_shape(mask) for name, mask in masks.items()}
    fits = len(shape) == 2 and all(
        len(other) == 2 and not any(size not in (1, None) and differ(size, whole) for size, whole in zip(other, shape))
        for other in shapes.values()
    )
    if not fits:
        others = ", ".join(f"{name}.shape={other}" for name, other in shapes.items())
        raise InvalidInputError(
            f"scores must be a matrix (anchors, candidates), masks of its shape. "
            f"Received: scores.shape={shape}, {others}"
        )
    for name, mask in masks.items():
        if "bool" not in str(mask.dtype):
            raise InvalidInputError(f"{name} must be a boolean mask. Received: {name} of dtype={mask.dtype}")


def _check_bank(queries, bank):
    """Number of rows of the bank. Raise unless queries can be compared with it."""
    shapes = static_shape(queries), static_shape(bank)
    if len(shapes[0]) != 2 or len(shapes[1]) != 2 or differ(shapes[0][1], shapes[1][1]) or shapes[1][0] is None:
        raise InvalidInputError(
            "queries and bank must be matrices of equally long rows. "
            f"Received: queries.shape={shapes[0]}, bank.shape={shapes[1]}"
        )
    return shapes[1][0]
