"""What users pass to `fit` and `evaluate`, checked before the first step."""

import sys
import types
import warnings

import keras

from sslzoo import checks
from sslzoo.data import Batches
from sslzoo.errors import InvalidInputError

NO_PART = {  # arguments of Keras' `compile` that a method has no use for
    "loss": "A method is its own loss",
    "loss_weights": "A method weighs its terms by its own arguments",
    "metrics": "A method reports its own terms; measure others in a callback",
    "weighted_metrics": "A method reports its own terms; measure others in a callback",
}


def check_compiled(method) -> None:
    """Raise unless `compile` was given only what a method heeds."""
    # As given: `get_compile_config` serializes it, which a schedule without `get_config` does not survive.
    given = getattr(getattr(method, "_compile_config", None), "config", {})
    for argument, reason in NO_PART.items():
        if given.get(argument) is not None:
            raise InvalidInputError(f"{reason}. Received: compile({argument}=...)")


def check_values(method, x) -> None:
    """Raise unless images in memory are values that the views take; a warning of ones far too dark."""
    images = _images(x)
    if isinstance(x, Batches):
        images = x.images if x.views is None else None
    span = getattr(method.views, "value_range", None)
    if span is None or len(getattr(images, "shape", ())) != 4:
        return
    if not len(images):
        raise InvalidInputError(f"There must be images. Received: 0 images {tuple(images.shape[1:])}")
    if (remark := checks.values(images, *span)) is not None:
        warnings.warn(remark, stacklevel=3)


def check_batches(method, x, batch_size, share) -> object:
    """Raise unless the method can take every batch of an epoch; `share` of an array is trained on.

    Returns:
        `x`; with that check in it, where it comes batch by batch (`check_stream`).
    """
    images = _images(x)
    if len(getattr(images, "shape", ())) >= 4:
        _check_division(method, int(len(images) * share), batch_size or 32)
    elif isinstance(x, Batches):
        _check_division(method, x.images_per_epoch, x.batch_size)
    else:
        return check_stream(method, x, training=True)
    return x


def check_least(method, x, batch_size, what="x", share=1.0) -> object:
    """`check_batches` of images that are measured: their last batch must be of `least_batch` images, and no more, and
    every batch of a multiple of `batch_multiple`.

    Args:
        what: what a message calls them.
        share: of an array, from its end, that is measured.
    """
    images, count = _images(x), None
    if len(getattr(images, "shape", ())) >= 4:
        count, batch_size = len(images) - int(len(images) * (1.0 - share)), batch_size or 32
    elif isinstance(x, Batches):
        count, batch_size = x.images_per_epoch, x.batch_size
    if count is None:
        return check_stream(method, x)
    last = count % batch_size or batch_size
    if count and last < method.least_batch:
        raise InvalidInputError(
            f"The last batch of {what} must hold at least {method.least_batch} images, which {type(method).__name__} "
            f"compares: leave some out, or take another batch size. Received: {last} of {count} images"
        )
    for size in (min(count, batch_size), last if count else 0):
        if size % method.batch_multiple:
            raise InvalidInputError(
                f"Every batch of {what} must hold a multiple of {method.batch_multiple} images, which "
                f"{type(method).__name__} compares: leave some out, or take another batch size. "
                f"Received: a batch of {size} of {count} images"
            )
    return x


def check_validation(method, given, batch_size: int | None) -> object:
    """`check_values` and `check_least` of the `validation_data` of `fit`, before it trains.

    Args:
        batch_size: of arrays; None where some of the batches are measured alone, of which none is the last.

    Returns:
        What was given; with the check in it, where that comes batch by batch.
    """
    if isinstance(given, (tuple, list)):
        refuse_weights(*given[2:])
    measured = given[0] if isinstance(given, (tuple, list)) else given
    check_values(method, measured)
    if batch_size is None:
        checked = check_stream(method, measured)
    else:
        checked = check_least(method, measured, batch_size, "validation_data")
    return given if checked is measured else checked


def refuse_weights(*weights) -> None:
    """Raise of weights of images, given to `fit` or in a batch."""
    if any(weight is not None for weight in weights):
        raise InvalidInputError(
            "The images of a batch are compared with each other, and none has a weight of its own. "
            "Received: sample_weight or class_weight"
        )


def _images(x):
    return x["images"] if isinstance(x, dict) and "images" in x else x


def _check_division(method, count, batch_size):
    """The last batch may be smaller."""
    if not count:
        raise InvalidInputError("There must be images to train on. Received: 0 images")
    if count >= batch_size:
        method.check_batch(batch_size)
    if count % batch_size:
        try:
            method.check_batch(count % batch_size)
        except InvalidInputError as error:
            raise InvalidInputError(
                f"The last batch of an epoch must be one that {type(method).__name__} can take: drop "
                f"{count % batch_size} of {count} images, or take another batch_size. {error}"
            ) from None


def check_stream(method, x, training: bool = False) -> object:
    """What comes batch by batch, with a check of each batch in it under TensorFlow, whose compiled step cannot ask.

    Args:
        x: a `tf.data.Dataset`, a `keras.utils.PyDataset` or a generator; all else comes back as it is.
        training: whether `most_batch` holds, too.
    """
    most = method.most_batch if training else None
    needs = max(method.least_batch, method.batch_multiple) > 1 or most is not None
    if keras.backend.backend() != "tensorflow" or not needs or isinstance(x, Batches):
        return x
    tf = sys.modules["tensorflow"]
    if isinstance(x, tf.data.Dataset):
        open_size = keras.tree.flatten(x.element_spec)[0].shape[:1].as_list() == [None]
        return x.map(lambda *batch: _checked(tf, method, most, batch)) if open_size else x
    if isinstance(x, keras.utils.PyDataset):
        return _CheckedDataset(x, lambda batch: _check_one(method, training, batch))
    return (_check_one(method, training, batch) for batch in x) if isinstance(x, types.GeneratorType) else x


class _CheckedDataset(keras.utils.PyDataset):
    """A data set whose batches are looked at."""

    def __init__(self, dataset, check):
        super().__init__(dataset.workers, dataset.use_multiprocessing, dataset.max_queue_size)
        self.dataset, self.check = dataset, check

    @property
    def num_batches(self):
        return self.dataset.num_batches

    def __getitem__(self, index):
        return self.check(self.dataset[index])

    def on_epoch_begin(self):
        self.dataset.on_epoch_begin()

    def on_epoch_end(self):
        self.dataset.on_epoch_end()


def _check_one(method, training, batch):
    size = len(keras.tree.flatten(batch)[0])
    if training:
        method.check_batch(size)
    if size < method.least_batch or size % method.batch_multiple:
        raise InvalidInputError(
            f"{type(method).__name__} needs at least {method.least_batch} images in every batch, and a multiple of "
            f"{method.batch_multiple}. Received: a batch of {size}"
        )
    return batch


def _checked(tf, method, most, batch):
    size = tf.shape(keras.tree.flatten(batch)[0])[0]
    name, least, multiple = type(method).__name__, method.least_batch, method.batch_multiple
    words = f"{name} needs {least} images in every batch: batch with drop_remainder=True"
    checked = [tf.debugging.assert_greater_equal(size, least, message=words)]
    words = f"{name} needs a multiple of {multiple} images in every batch: batch with drop_remainder=True"
    checked.append(tf.debugging.assert_equal(size % multiple, 0, message=words))
    if most is not None:
        words = f"{name} has room for {most} images in every batch: take smaller batches, or a larger queue or buffer"
        checked.append(tf.debugging.assert_less_equal(size, most, message=words))
    with tf.control_dependencies(checked):
        batch = tf.nest.map_structure(tf.identity, batch)
    return batch if len(batch) > 1 else batch[0]
