"""Several devices: a batch lies on all of them, and is still one batch."""

import keras

from sslzoo.errors import InvalidInputError


def use(wanted: str | None) -> int:
    """Has everything made from now on lie on several devices, under JAX. Returns how many.

    One program spans them (`keras.distribution.DataParallel`): negatives, queues, banks and statistics are those of the
    whole batch, as on one device.

    Args:
        wanted: a number, a power of two (monitors look at batches of such), "all", or None: as it is.

    Raises:
        InvalidInputError: not such a number, more than there are, or another backend.
    """
    if wanted is None:
        return 1
    if keras.backend.backend() != "jax":
        raise InvalidInputError(
            "--devices needs KERAS_BACKEND=jax, where a batch on several devices is still one batch. "
            f"Received: --devices={wanted} under {keras.backend.backend()}"
        )
    found = keras.distribution.list_devices()
    count = len(found) if wanted == "all" else int(wanted) if wanted.isdecimal() else 0
    if not 1 <= count <= len(found) or count & (count - 1):
        raise InvalidInputError(
            f"--devices must be a power of two, at most {len(found)} here, or all. Received: --devices={wanted}"
        )
    if count > 1:
        keras.distribution.set_distribution(keras.distribution.DataParallel(devices=found[:count]))
    return count


def release() -> None:
    """What comes after training needs one device, and takes images in any number."""
    keras.distribution.set_distribution(None)


def check(batch_size: int, devices: int) -> None:
    """Refuses batches that cannot be shared out."""
    if batch_size % devices:
        raise InvalidInputError(
            f"The batch size must be a multiple of the {devices} devices. Received: --batch-size={batch_size}"
        )
