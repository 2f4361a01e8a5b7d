"""What users pass to `fit` and `evaluate`, checked before the first step."""

import contextlib
import dataclasses
import math
import sys
import types
import warnings

import keras

from sslzoo import checks, processes
from sslzoo.data import Batches, StreamedImages
from sslzoo.errors import InvalidInputError
from sslzoo.networks.composition import fits
from sslzoo.views import Views

NO_PART = {  # arguments of Keras' `compile` that a method has no use for
    "loss": "A method is its own loss",
    "loss_weights": "A method weighs its terms by its own arguments",
    "metrics": "A method reports its own terms; measure others in a callback",
    "weighted_metrics": "A method reports its own terms; measure others in a callback",
}


@dataclasses.dataclass(frozen=True)
class BatchSizes:
    """The numbers of images that a step of a method can have."""

    name: str
    least: int
    multiple: int
    most: "int | None"
    devices: int = 1

    def check(self, size: int) -> None:
        """Raise InvalidInputError unless a step can have so many images."""
        if size < self.least:
            raise InvalidInputError(
                f"{self.name} compares the images of a batch and needs at least {self.least} in every batch: take "
                "larger ones, or drop the smaller one at the end. "
                f"Received: a batch of {size} image{'s' * (size != 1)}"
            )
        if size % self.multiple:
            raise InvalidInputError(
                f"{self.name} needs a multiple of {self.multiple} images in every batch"
                f"{f', which {self.devices} devices share' if self.devices > 1 else ''}. "
                f"Received: a batch of {size} images"
            )
        if self.most is not None and size > self.most:
            raise InvalidInputError(
                f"{self.name} must remember the images of a step, and has room for {self.most}: take smaller batches, "
                f"or a larger queue or buffer. Received: a batch of {size} images"
            )


def batch_sizes(method, training: bool) -> BatchSizes:
    most = method.most_batch if training else None
    devices = processes.devices()
    multiple = math.lcm(method.batch_multiple, devices)
    return BatchSizes(type(method).__name__, method.least_batch, multiple, most, devices)


def refuse_parts(**given) -> None:
    """Refuse arguments of `compile` that a method has no use for."""
    for argument, value in given.items():
        if value is not None:
            raise InvalidInputError(f"{NO_PART[argument]}. Received: compile({argument}=...)")


def check_values(method, x) -> None:
    """Raise unless images in memory are of the size and the values that the method takes; warn of images that are far
    too dark."""
    if isinstance(x, StreamedImages):
        raise InvalidInputError(
            "Images that stay in their files must come in batches: data.Batches(images, None, batch_size=...). "
            f"Received: StreamedImages {x.shape}"
        )
    images = _first(x)
    span = getattr(method.views, "value_range", None)
    if span is None or len(getattr(images, "shape", ())) != 4:
        return
    if not len(images):
        raise InvalidInputError(f"There must be images. Received: 0 images {tuple(images.shape[1:])}")
    if (remark := checks.values(images, *span)) is not None:
        warnings.warn(remark, stacklevel=3)
    if not isinstance(method.views, Views):
        return
    seen, taken = method.views.compute_output_shape(images.shape)[-3:], method.encoder.input_shape[-3:]
    if not fits(seen, taken):
        raise InvalidInputError(
            f"The encoder of {type(method).__name__} takes views {taken}. Received: images "
            f"{tuple(images.shape[1:])}, which give views {tuple(seen)}"
        )


def check_batches(method, x, batch_size, share=1.0, steps=None) -> object:
    """Raise unless the method can take every batch that is trained on.

    Args:
        batch_size: of an array, None for Keras' own.
        share: of an array that is trained on.
        steps: of the whole training, None for epoch after epoch: fewer than an epoch has meet no remainder.

    Returns:
        `x`; with that check in it, where it comes batch by batch (`check_stream`).
    """
    count, batch_size = _sizes(x, batch_size)
    if count is None:
        return check_stream(method, x, training=True)
    _check_division(method, _met(int(count * share), batch_size, steps), batch_size, "an epoch", training=True)
    return x


def check_stacked(method, x, fused: bool = False, steps_per_epoch: "int | None" = None) -> None:
    """Refuse stacked `Batches` where batches are taken one by one, which would see views of one image in a stack; and
    of programs of K steps that an epoch of data with an end does not divide into, of which Keras would lose count.

    Args:
        fused: whether `fit` trains on it by programs of several steps.
        steps_per_epoch: of an epoch that another one follows, where they were given.
    """
    steps = method.steps_per_execution
    if isinstance(x, Batches) and x.steps_per_execution not in (1, steps if fused else 1):
        raise InvalidInputError(
            "Batches(steps_per_execution=K) are for training under JAX by compile(steps_per_execution=K), of compiled "
            f"steps. Received: steps_per_execution={x.steps_per_execution} of the batches, {steps} of the method, "
            f"backend={keras.backend.backend()}"
        )
    ends = _sizes(x, None)[0] is not None and not (isinstance(x, Batches) and x.repeat)
    if fused and ends and steps_per_epoch and steps_per_epoch % steps:
        raise InvalidInputError(
            f"steps_per_epoch must be a multiple of steps_per_execution={steps} where data have an end: take "
            f"data.Batches(repeat=True). Received: {steps_per_epoch=}"
        )


def check_least(method, x, batch_size, what="x", share=1.0, steps=None) -> object:
    """`check_batches` of images that are measured: their last batch must be of `least_batch` images, and no more, and
    every batch of a multiple of `batch_multiple`.

    Args:
        what: what a message calls them.
        share: of an array, from its end, that is measured.
    """
    count, batch_size = _sizes(x, batch_size)
    if count is None:
        return check_stream(method, x)
    _check_division(method, _met(count - int(count * (1.0 - share)), batch_size, steps), batch_size, what)
    return x.held() if isinstance(x, Batches) else x


def check_validation(method, given, batch_size: int | None, steps: int | None) -> object:
    """`check_values` and `check_least` of the `validation_data` of `fit`, before it trains.

    Returns:
        What was given; with the check in it, where that comes batch by batch.
    """
    if isinstance(given, (tuple, list)):
        refuse_weights(*given[2:])
    measured = given[0] if isinstance(given, (tuple, list)) else given
    check_values(method, measured)
    check_stacked(method, measured)
    checked = check_least(method, measured, batch_size, "validation_data", steps=steps)
    return given if checked is measured else checked


def refuse_weights(*weights) -> None:
    """Refuse weights of images, given to `fit` or in a batch."""
    if any(weight is not None for weight in weights):
        raise InvalidInputError(
            "The images of a batch are compared with each other, and none has a weight of its own. "
            "Received: sample_weight or class_weight"
        )


def _images(x):
    return x["images"] if isinstance(x, dict) and "images" in x else x


def _loader(x):
    """Whether x is a `torch.utils.data.DataLoader`."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.utils.data.DataLoader)


def _first(x):
    """Images to look at before training: of data that come batch by batch the first, if nothing is lost by looking."""
    if isinstance(x, Batches):
        return x.images if x.views is None else None
    if isinstance(x, keras.utils.PyDataset):  # as Keras itself does
        return keras.tree.flatten(x[0])[0] if x.num_batches != 0 else None
    if _loader(x):
        # The first image of its set, whatever its order, whose random numbers stay as they are.
        with contextlib.suppress(Exception), sys.modules["torch"].random.fork_rng(devices=[]):
            return keras.tree.flatten(x.collate_fn([x.dataset[0]]))[0]
        return None
    return _images(x)


def _sizes(x, batch_size):
    """(images of an epoch, images of a batch); (None, None) of what does not say them."""
    if batch_size is not None:
        checks.count(batch_size=batch_size)
    images = _images(x)
    if len(getattr(images, "shape", ())) >= 4:
        return len(images), batch_size or 32
    if isinstance(x, Batches):
        return x.images_per_epoch, x.batch_size
    if _loader(x) and x.batch_size is not None:
        with contextlib.suppress(TypeError):  # a data set without a length
            count = len(x.sampler)  # which may leave images out
            return count - count % x.batch_size * x.drop_last, x.batch_size
    return None, None


def _met(count, batch_size, steps):
    """How many of `count` images so many steps meet, which begin anew where the images end."""
    return count if steps is None else min(count, max(steps, 1) * batch_size)


def _check_division(method, count, batch_size, what, training=False):
    """The last batch may be smaller."""
    if training and not count:
        raise InvalidInputError("There must be images to train on. Received: 0 images")
    if count >= batch_size:
        method.check_batch(batch_size, training)
    if count % batch_size:
        try:
            method.check_batch(count % batch_size, training)
        except InvalidInputError as error:
            raise InvalidInputError(
                f"The last batch of {what} must be one that {type(method).__name__} can take: drop "
                f"{count % batch_size} of {count} images, or take another batch_size. {error}"
            ) from None


def check_stream(method, x, training: bool = False) -> object:
    """What comes batch by batch, with a check of each batch in it under TensorFlow, whose compiled step cannot ask;
    of a `tf.data.Dataset` of floats the first batch is looked at as `check_values` does, where it is read.

    Args:
        x: a `tf.data.Dataset`, a `keras.utils.PyDataset` or a generator; all else comes back as it is.
        training: whether `most_batch` holds, too.
    """
    sizes = batch_sizes(method, training)
    needs = max(sizes.least, sizes.multiple) > 1 or sizes.most is not None
    tf = sys.modules.get("tensorflow")
    if tf is not None and isinstance(x, tf.data.Dataset):
        x = _looked_at(tf, method, x)
    if keras.backend.backend() != "tensorflow" or not needs or isinstance(x, Batches):
        return x
    if isinstance(x, tf.data.Dataset):
        open_size = keras.tree.flatten(x.element_spec)[0].shape[:1].as_list() == [None]
        return x.map(lambda *batch: _checked(tf, sizes, batch)) if open_size else x
    if isinstance(x, keras.utils.PyDataset):
        return _CheckedDataset(x, sizes)
    return (_check_one(sizes, batch) for batch in x) if isinstance(x, types.GeneratorType) else x


def _looked_at(tf, method, x):
    """A `tf.data.Dataset` that looks at the values of its first batch as it gives it: to look before would read it
    twice, which not all can be."""
    images, span = keras.tree.flatten(x.element_spec)[0], getattr(method.views, "value_range", None)
    if span is None or not isinstance(images, tf.TensorSpec) or images.shape.rank != 4 or not images.dtype.is_floating:
        return x

    def look(images):
        if (remark := checks.values(images, *span)) is not None:
            warnings.warn(remark, stacklevel=2)
        return images.shape[0]

    def passing(number, batch):
        images = keras.tree.flatten(batch)[0]
        looked = tf.cond(
            number == 0, lambda: tf.numpy_function(look, [images], tf.int64), lambda: tf.zeros((), "int64")
        )
        with tf.control_dependencies([looked]):
            return tf.nest.map_structure(tf.identity, batch)

    return x.enumerate().map(passing)


class _CheckedDataset(keras.utils.PyDataset):
    """A data set whose batches are looked at: in processes of their own, too, so that it holds no method."""

    def __init__(self, dataset, sizes):
        super().__init__(dataset.workers, dataset.use_multiprocessing, dataset.max_queue_size)
        self.dataset, self.sizes = dataset, sizes

    @property
    def num_batches(self):
        return self.dataset.num_batches

    def __getitem__(self, index):
        return _check_one(self.sizes, self.dataset[index])

    def on_epoch_begin(self):
        self.dataset.on_epoch_begin()

    def on_epoch_end(self):
        self.dataset.on_epoch_end()


def _check_one(sizes, batch):
    sizes.check(len(keras.tree.flatten(batch)[0]))
    return batch


def _checked(tf, sizes, batch):
    size = tf.shape(keras.tree.flatten(batch)[0])[0]
    name, least, multiple, most = sizes.name, sizes.least, sizes.multiple, sizes.most
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
