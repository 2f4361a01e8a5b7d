"""The order of an epoch, and its batches: as a `tf.data` pipeline, and as arrays without TensorFlow.

The order of epoch e is a permutation drawn from (seed, e) alone, and the views of a batch are drawn from
(seed, number of the step since epoch 0) alone. So a run that resumes at an epoch sees the batches and the views that it
would have seen, whatever happened before. `pipeline` and `Batches` share the order.
"""

import math
import os
import warnings
from collections.abc import Callable
from typing import NamedTuple

import keras
import numpy as np

from sslzoo import checks, errors
from sslzoo.data.sources import check, import_tensorflow, load
from sslzoo.data.streams import StreamedImages


def epoch_order(num_images: int, seed: int, epoch: int) -> np.ndarray:
    """The order of an epoch: int64 (num_images,), a permutation that depends on nothing but the arguments."""
    # NumPy 1 has 32 bits under Windows.
    return np.random.Generator(np.random.PCG64([seed, epoch])).permutation(num_images).astype("int64", copy=False)


class _Plan:
    """Checked arguments of `pipeline` and `Batches`, and what both derive from them in the same way."""

    def __init__(self, images, labels, batch_size, seed, shuffle, start_epoch, drop_remainder):
        self.images, self.labels = check(images, labels)
        self.batch_size = checks.count(batch_size=batch_size)
        self.start_epoch = checks.count(0, start_epoch=start_epoch)
        # 31 bits: the seed is one half of the int32 pair that random views are drawn from.
        self.seed = checks.seed(seed=seed)
        if self.seed is None:
            self.seed = int(np.random.SeedSequence().generate_state(1)[0] >> 1)
        if len(self.images) < batch_size and drop_remainder:
            raise errors.InvalidInputError(
                "The data set is smaller than one batch, and the remainder is dropped: no batch would be left. Take a "
                f"batch_size of at most {len(self.images)}. Received: batch_size={batch_size}"
            )
        self.shuffle, self.drop_remainder = bool(shuffle), bool(drop_remainder)
        batches = len(self.images) / self.batch_size
        self.steps = math.floor(batches) if self.drop_remainder else math.ceil(batches)

    def order(self, epoch):
        if self.shuffle:
            return epoch_order(len(self.images), self.seed, int(epoch))
        return np.arange(len(self.images), dtype="int64")


def _element(images, labels, index):
    """One batch as Keras unpacks it: `(x,)` or `(x, y)`, where x is a dict if the sample index goes with it."""
    x = images if index is None else {"images": images, "index": index}
    return (x,) if labels is None else (x, labels)


class Stacked(NamedTuple):
    """Several batches in one array each, (B, steps, ...): what one program of fused training steps takes.

    Images come first and steps second, so that a batch lies on several devices as a single one would.

    Example:
        import numpy as np
        from sslzoo import data

        stack = data.Stacked(np.zeros((16, 4, 8, 8, 1), "uint8"))  # 4 batches of 16 images
        stack.x[:, 0].shape  # (16, 8, 8, 1), the first of them
    """

    x: "np.ndarray | dict[str, np.ndarray]"
    y: "np.ndarray | None" = None


def pipeline(
    name: str | os.PathLike | tuple,
    split: str | None,
    batch_size: int,
    views: Callable | None = None,
    with_index: bool = False,
    seed: int | None = None,
    *,
    shuffle: bool = True,
    data_dir: str | os.PathLike | None = None,
    image_size: int | None = None,
    start_epoch: int = 0,
    repeat: bool = False,
    drop_remainder: bool = True,
):
    """Batches of a data set as a `tf.data.Dataset`, for `model.fit` under any backend.

    The set is held in memory, or stays in its files (`load(stream=True)`). The order of epoch e depends on (seed, e)
    alone, and the views of a batch on (seed, number of the step since epoch 0) alone: a run that resumes at an epoch
    sees the batches and the views that it would have seen.

        images, labels = sslzoo.data.load("mnist", "train")
        batches = sslzoo.data.pipeline((images, labels), None, 128, seed=0, repeat=True, start_epoch=first)
        model.fit(batches, steps_per_epoch=len(images) // 128, initial_epoch=first, epochs=epochs, shuffle=False)

    Args:
        name: what `load` takes, or the arrays `(images, labels)` themselves, labels possibly None.
        split: the split to load; without meaning for arrays (pass None).
        batch_size: images per batch.
        views: None for raw images, or a callable `views(images, training=True, seed=seed)` such as a
            `sslzoo.views.Views`, which runs inside the pipeline on batches of raw images. `seed` is an int32 tensor
            (2,): `seed` of this function, and the number of the step since epoch 0.
        with_index: also give the position of each image in the set.
        seed: integer in 0..2**31-1; None draws one.
        shuffle: False keeps the order of the set, in every epoch.
        data_dir, image_size: as for `load`.
        start_epoch: the epoch to begin with.
        repeat: False ends after one epoch (`start_epoch`, the same at every iteration, with the same views); True goes
            on with the next one for ever, so that `fit` needs `steps_per_epoch`.
        drop_remainder: leave out the last, smaller batch of each epoch.

    Returns:
        `tf.data.Dataset` of `(images, labels)`; with index of `({"images": images, "index": index}, labels)`; for a set
        without labels of a tuple of one. images (B, H, W, C) as `load` gives them, or the (B, J, H, W, C) floats that
        `views` makes; labels int64 (B,) or (B, 40); index int32 (B,). Its cardinality is known.

    Raises:
        ImportError: TensorFlow is not installed; `Batches` needs none.
        UnknownNameError, MissingDataError, InvalidInputError: as `load`; a set smaller than a batch; an argument out of
            its range.
    """
    try:
        tf = import_tensorflow()
    except ImportError as error:
        raise ImportError(
            f"A tf.data pipeline takes TensorFlow (pip install tensorflow); importing it failed ({error}). "
            "`sslzoo.data.Batches` gives the same batches from arrays without it."
        ) from error
    if views is not None and not repeat:
        warnings.warn(
            "Without repeat=True each epoch has the same views: pass it, and steps_per_epoch to `fit`, to train for "
            "several.",
            stacklevel=2,
        )
    if isinstance(name, tuple) and len(name) != 2:
        raise errors.InvalidInputError(f"Arrays must be (images, labels). Received: a tuple of {len(name)}")
    images, labels = name if isinstance(name, tuple) else load(name, split, data_dir, image_size)
    plan = _Plan(images, labels, batch_size, seed, shuffle, start_epoch, drop_remainder)

    streamed = isinstance(plan.images, StreamedImages)
    with tf.device("CPU:0"):  # under TensorFlow with a GPU the whole set would go there
        images = None if streamed else tf.convert_to_tensor(plan.images)
        labels = None if plan.labels is None else tf.convert_to_tensor(plan.labels)

    def rows_of_epoch(epoch):
        order = tf.numpy_function(plan.order, [epoch], tf.int64)
        order = tf.ensure_shape(order, [len(plan.images)])
        return tf.data.Dataset.from_tensor_slices(order).batch(plan.batch_size, drop_remainder=plan.drop_remainder)

    # What Keras layers do inside `views` is not AutoGraph's to rewrite.
    @tf.autograph.experimental.do_not_convert
    def batch_of_rows(step, rows):
        if streamed:
            batch = tf.numpy_function(plan.images.__getitem__, [rows], plan.images.dtype)
            batch.set_shape((rows.shape[0], *plan.images.shape[1:]))
        else:
            batch = tf.gather(images, rows)
        if views is not None:
            batch = views(batch, training=True, seed=tf.stack([plan.seed, tf.cast(step, tf.int32)]))
        index = tf.cast(rows, tf.int32) if with_index else None
        return _element(batch, None if labels is None else tf.gather(labels, rows), index)

    last = tf.int64.max if repeat else plan.start_epoch + 1
    dataset = tf.data.Dataset.range(plan.start_epoch, last).flat_map(rows_of_epoch)
    dataset = dataset.apply(
        tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY if repeat else plan.steps)
    )
    dataset = dataset.enumerate(start=plan.start_epoch * plan.steps)
    dataset = dataset.map(batch_of_rows, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    return dataset.prefetch(tf.data.AUTOTUNE)


class _Held(keras.utils.PyDataset):
    """Batches of one epoch, in which Keras may begin and end as many as it likes."""

    def __init__(self, batches):
        super().__init__(workers=1, use_multiprocessing=False, max_queue_size=2)
        self.batches = batches

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, position):
        if not 0 <= position < len(self):
            raise IndexError(f"Expected a batch in 0..{len(self) - 1}. Received: position={position}")
        return self.batches._batch(self.batches._plan.start_epoch, position)


class Batches(keras.utils.PyDataset):
    """The batches of `pipeline` without TensorFlow: arrays in memory to batches, for `model.fit` under any backend.

    `len(batches)` is the number of steps per epoch. The order of the images is the one that `pipeline` has for the same
    seed; `shuffle=False` keeps Keras from shuffling the batches of an epoch once more, in a way that no seed repeats.

    Within `fit`, an epoch whose batches were all given out is followed by epoch + 1, also in a later `fit` of the same
    object; one that was broken off earlier is begun again. With `repeat=True` Keras sees one endless stream instead, in
    which batch i of the run has a place that nothing can move; `fit` then needs `steps_per_epoch`, and takes any.
    Outside `fit`, `batches[i]` is batch i of `batches.epoch`, and iteration goes through that epoch once. A method's
    `evaluate`, and `fit` of its `validation_data`, look at the first epoch (`held`).

    Example:
        import numpy as np
        from sslzoo import data

        images = np.random.default_rng(0).integers(0, 256, (64, 8, 8, 1)).astype("uint8")
        batches = data.Batches(images, None, batch_size=16, seed=0)
        first, *_ = batches  # (images (16, 8, 8, 1),): the same ones for the same seed and epoch

    Args:
        images: raw images (N, H, W, C), uint8 or floats in 0..255; or `StreamedImages`, of which the next batch is read
            while one is trained on.
        labels: integers (N,) or (N, T), or None.
        batch_size, views, with_index, seed, shuffle, start_epoch, drop_remainder: as in `pipeline`; the seed that
            `views` gets is a NumPy array.
        repeat: see above.
        steps_per_execution: K, the number that `model.compile` was given, where a method fuses its steps itself
            (`Pretrainer.make_train_function`): the stream then gives up to K batches at a time, in one array each, the
            last of an epoch what is left of it. Takes `repeat=True`, raw images and whole batches; and a model that
            was called once (`model.views(images[:1], training=False)`), or Keras builds its views on a stack.
        shard: (i, n): give the i-th of n equal parts of each batch, where n processes train on it together. Takes raw
            images and whole batches.

    Returns:
        Each batch has the structure, shapes and dtypes of `pipeline`'s, as NumPy arrays (views as `views` makes them);
        with K > 1 it is a `Stacked` of arrays (B, up to K, ...).

    Raises:
        InvalidInputError: as `pipeline`.
    """

    def __init__(
        self,
        images: np.ndarray,
        labels: np.ndarray | None,
        batch_size: int,
        views: Callable | None = None,
        with_index: bool = False,
        seed: int | None = None,
        *,
        shuffle: bool = True,
        start_epoch: int = 0,
        repeat: bool = False,
        drop_remainder: bool = True,
        steps_per_execution: int = 1,
        shard: tuple[int, int] = (0, 1),
    ):
        # One worker and no process: Keras then asks for one batch after the other.
        super().__init__(workers=1, use_multiprocessing=False, max_queue_size=2)
        self._plan = _Plan(images, labels, batch_size, seed, shuffle, start_epoch, drop_remainder)
        self._order = (None, None)  # (epoch, order of that epoch)
        self._in_fit = False  # whether it is `fit` that asks for batches
        self._given, self._next = set(), 0  # those of this epoch that it was given, and the one that comes next
        self.views, self.with_index, self.repeat = views, bool(with_index), bool(repeat)
        self.epoch = self._plan.start_epoch
        whole = checks.is_integer(steps_per_execution)
        stackable = steps_per_execution == 1 or (repeat and drop_remainder and views is None)
        if not whole or steps_per_execution < 1 or not stackable:
            raise errors.InvalidInputError(
                "steps_per_execution must be an integer >= 1, and 1 unless repeat=True, drop_remainder=True and "
                f"views=None. Received: steps_per_execution={steps_per_execution!r}, repeat={repeat}, "
                f"drop_remainder={drop_remainder}, views={views}"
            )
        self.steps_per_execution = int(steps_per_execution)
        place, parts = shard
        if not 0 <= place < parts or batch_size % parts or (parts > 1 and (views is not None or not drop_remainder)):
            raise errors.InvalidInputError(
                "shard must be (i, n) with 0 <= i < n, where n divides batch_size; and (0, 1) unless views=None and "
                f"drop_remainder=True. Received: shard={shard}, batch_size={batch_size}, views={views}, "
                f"drop_remainder={drop_remainder}"
            )
        self._shard = slice(place * batch_size // parts, (place + 1) * batch_size // parts)
        self.shard = shard
        self._per_epoch = math.ceil(len(self) / self.steps_per_execution)  # what `fit` asks for: batches, or stacks

    @property
    def seed(self) -> int:
        return self._plan.seed

    @property
    def batch_size(self) -> int:
        return self._plan.batch_size

    @property
    def images(self):
        """The raw images (N, H, W, C) that batches are taken from."""
        return self._plan.images

    @property
    def images_per_epoch(self) -> int:
        """Images of an epoch, without a remainder that is dropped."""
        return min(len(self._plan.images), len(self) * self.batch_size)

    @property
    def num_batches(self) -> int | None:
        """What Keras reads: the steps of an epoch, or None for an endless stream."""
        return None if self.repeat else len(self)

    def __len__(self) -> int:
        return self._plan.steps

    def __iter__(self):
        return (self._batch(self.epoch, position) for position in range(self._per_epoch))

    def __getitem__(self, position: int):
        if self.repeat:
            epochs, position = divmod(position, self._per_epoch)
            return self._batch(self._plan.start_epoch + epochs, position)
        if not 0 <= position < len(self):
            raise IndexError(f"Expected a batch in 0..{len(self) - 1}. Received: position={position}")
        if self._in_fit:
            if position not in (0, self._next):
                warnings.warn(
                    "`fit(shuffle=True)`, the default, shuffles the batches with a generator that a resumed run cannot "
                    "bring back. Pass shuffle=False: the order of the images is drawn from the seed already.",
                    stacklevel=2,
                )
            self._next = position + 1
            self._given.add(position)
        return self._batch(self.epoch, position)

    def held(self) -> keras.utils.PyDataset:
        """The batches of the first epoch, to look at: the same at every look, after which training goes on as before.

        An endless stream is itself.
        """
        return self if self.repeat else _Held(self)

    def on_epoch_begin(self):
        self._in_fit = True

    def on_epoch_end(self):
        # Keras also ends an epoch that it began only to look at a batch and build the model, and one that is cut short
        # by `steps_per_epoch`. Ours is over when each of its batches was given out.
        if len(self._given) == len(self):
            self.epoch += 1
            self._given.clear()
            self._in_fit = False

    def _rows(self, epoch, position):
        """Places of a batch's images, or of a stack's, in the set."""
        plan = self._plan
        known, order = self._order
        if known != epoch:
            order = plan.order(epoch)
            self._order = (epoch, order)
        if self.steps_per_execution > 1:
            first = position * self.steps_per_execution
            steps = min(self.steps_per_execution, len(self) - first)
            rows = order[first * plan.batch_size : (first + steps) * plan.batch_size]
            rows = rows.reshape(steps, plan.batch_size).T
        else:
            rows = order[position * plan.batch_size : (position + 1) * plan.batch_size]
        return rows[self._shard] if self.shard[1] > 1 else rows

    def _batch(self, epoch, position):
        plan, rows = self._plan, self._rows(epoch, position)
        images = plan.images[rows]
        if isinstance(plan.images, StreamedImages) and position + 1 < self._per_epoch:  # while this one is trained on
            plan.images.read_ahead(self._rows(epoch, position + 1))
        if self.views is not None:
            seed = np.array([plan.seed, epoch * plan.steps + position], "int32")
            images = self.views(images, training=True, seed=seed)
        index = rows.astype("int32") if self.with_index else None
        element = _element(images, None if plan.labels is None else plan.labels[rows], index)
        return element if self.steps_per_execution == 1 else Stacked(*element)
