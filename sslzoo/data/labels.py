"""Labels as users have them, in the form that everything computes with."""

import numpy as np

from sslzoo import checks
from sslzoo.errors import InvalidInputError


def check_labels(
    labels, rows: int, name: str = "labels", attributes: bool = False, negative: bool = False
) -> np.ndarray:
    """Labels as everything computes with them.

    Args:
        labels: integers >= 0 (N,) or (N, 1), or with `attributes` any (N, A).
        rows: int, N.
        name: what messages call them.
        attributes: whether (N, A) will do.
        negative: whether integers below 0 will do, as clusters have for outliers; a probe would learn a class of them.

    Returns:
        int64 (N,) or (N, A).

    Raises:
        InvalidInputError: anything else; the message says the cure of names, one-hot rows and floats.
    """

    def refuse(expected):
        raise InvalidInputError(f"{name} must be {expected}. Received: {name} of shape {array.shape}, {array.dtype}")

    if labels is None:
        raise InvalidInputError(f"Probes and clusters of features need labels. Received: {name}=None")
    array = checks.array(labels)
    array = array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
    if array.dtype.kind not in "iubf":
        refuse("integers; of names, take np.unique(labels, return_inverse=True)[1], of train and test labels together")
    may_exclude = attributes and array.dtype.kind != "f"
    if array.ndim == 2 and not may_exclude and np.isin(array, (0, 1)).all() and (array.sum(axis=1) == 1).all():
        refuse("one integer for each image; of one-hot rows, take labels.argmax(axis=1)")
    if array.ndim not in ((1, 2) if attributes else (1,)) or len(array) != rows:
        refuse(f"(N,){', or (N, A) attributes' * attributes}, one label for each row of the {rows:,}")
    if array.dtype.kind == "f":
        if not np.isfinite(array).all():
            refuse("integers; NaN is no class: leave out the rows of such images")
        refuse('integers; of whole numbers, take labels.astype("int64")')
    if not negative and array.ndim == 1 and array.min(initial=0) < 0:
        refuse(
            f"integers >= 0, as -1 often says that there is none; leave out such rows, or if it is a class, take "
            f"np.unique({name}, return_inverse=True)[1]"
        )
    if array.dtype.kind == "u" and array.max(initial=0) > np.iinfo("int64").max:
        refuse("below 2**63, or they would become negative")
    return array.astype(np.int64)
