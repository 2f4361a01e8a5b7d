"""Tools that the losses share: float32 tensors from whatever is given, lengths, masks and sums."""

from keras import ops

from sslzoo import checks
from sslzoo.errors import InvalidInputError

SHORTEST = 1e-12  # a vector below this length counts as zero; the square, 1e-24, is still a normal float32


def unit(x, axis: int = -1):
    """x / |x|, and zero where x is zero.

    Example:
        losses.unit(np.array([[3.0, 4.0], [0.0, 0.0]]))  # [[0.6, 0.8], [0, 0]]

    Args:
        x: float tensor of any shape and float dtype.
        axis: int, the axis that holds the vectors.

    Returns:
        Float32 tensor like `x`, of length 1 along `axis`. Vectors shorter than 1e-12 give zeros, with zero gradient:
        dividing by a clipped length would multiply the gradient of a dead row by 1e12.
    """
    x = float32(x)
    squared = ops.sum(ops.square(x), axis=axis, keepdims=True)
    alive = squared > SHORTEST**2
    # Two `where`s: with the outer one alone, the backward pass meets 0 times the infinite slope of rsqrt, which is NaN.
    scale = ops.where(alive, ops.rsqrt(ops.where(alive, squared, 1.0)), 0.0)
    return x * scale


def softmax_terms(positives, candidates) -> dict:
    """Cross-entropy of softmax classifiers in two parts: scores (B,) of the positives, (B, K) of all candidates."""
    return {"alignment": -ops.mean(positives), "contrast": ops.mean(ops.logsumexp(candidates, axis=1))}


def total(terms: dict):
    return terms["alignment"] + terms["contrast"]


def mean_terms(each) -> dict:
    """Mean of several losses, term by term: of the views or pairs of views they were taken of."""
    return {term: sum(terms[term] for terms in each) / len(each) for term in each[0]}


def pairs(assigning: int, predicting: int) -> list[tuple[int, int]]:
    """Ordered pairs (u, v) of different views, u one of the first `assigning` and v of the first `predicting`."""
    return [(u, v) for u in range(assigning) for v in range(predicting) if u != v]


def float32(x):
    return ops.convert_to_tensor(x, dtype="float32")


def static_shape(tensor) -> tuple:
    """What is known of a shape: None for a size that TensorFlow leaves open."""
    return tuple(tensor.shape)


def differ(*sizes) -> bool:
    """Whether two of the known sizes are unequal."""
    return len({size for size in sizes if size is not None}) > 1


def vector(size: "int | None", **tensor):
    """Float32, if it has one axis, of `size` where that is known: NumPy's rules would stretch others along a matrix."""
    ((name, value),) = tensor.items()
    value = float32(value)
    if len(static_shape(value)) != 1 or differ(size, *static_shape(value)):
        shape = static_shape(value)
        raise InvalidInputError(f"{name} must be a vector of {size} numbers. Received: {name}.shape={shape}")
    return value


def grouped(z):
    """Float32, if it has the shape of embeddings of views."""
    z = float32(z)
    if len(static_shape(z)) != 3:
        raise InvalidInputError(f"z must have shape (batch, views, features). Received: z.shape={static_shape(z)}")
    return z


def check_alike(needed: str, rank: int | None = None, least: int = 1, **tensors):
    """Raise unless the named tensors have one shape, of `rank` axes and `least` images, where that is known.

    `needed` says what they must be. Without the check NumPy's rules would stretch one along the other.
    """
    shapes = {name: static_shape(tensor) for name, tensor in tensors.items()}
    ranks = set(map(len, shapes.values()))
    names, received = " and ".join(tensors), ", ".join(f"{name}.shape={shape}" for name, shape in shapes.items())
    if len(ranks) > 1 or rank not in (None, *ranks) or any(differ(*sizes) for sizes in zip(*shapes.values())):
        raise InvalidInputError(f"{names} must be {needed} alike. Received: {received}")
    if least > 1 and any(shape[0] is not None and shape[0] < least for shape in shapes.values()):
        raise InvalidInputError(
            f"{names} must hold at least {least} images, for the loss compares them. Received: {received}"
        )


def check_positive(**numbers):
    """Raise unless they are > 0. What a tensor holds, such as a temperature that is learned, is the caller's."""
    checks.positive(**{name: x for name, x in numbers.items() if checks.is_number(x) or not hasattr(x, "dtype")})


def check_pairs(least: int = 1, **pair):
    """`check_alike` of two named matrices."""
    check_alike("two matrices (batch, size)", 2, least, **pair)
