"""Transforms as steps of a policy: applied to some images only, and handed their random numbers; Keras' own too."""

import contextlib
import inspect
import threading

import keras

from sslzoo import checks
from sslzoo.augment.transform import DataLayer, ImageTransform, per_image, serializable
from sslzoo.errors import InvalidInputError


@serializable
class RandomApply(ImageTransform):
    """Applies a step to each image with a probability; the others, and at inference all, stay as they are.

    Example:
        import numpy as np
        from sslzoo import augment

        images = np.random.default_rng(0).uniform(size=(4, 8, 8, 3)).astype("float32")
        augment.RandomApply(augment.GaussianBlur(3), probability=0.5)(images).shape  # (4, 8, 8, 3)

    Args:
        step: a Keras layer that keeps the shape of images: one of this module, or another's (see `apply_step`).
        probability: float in [0, 1].
        seed: as in `ImageTransform`.
    """

    def __init__(self, step: keras.Layer, probability: float = 0.5, seed: int | None = None, **kwargs):
        super().__init__(seed=seed, **kwargs)
        if not isinstance(step, keras.Layer):
            raise InvalidInputError(f"step must be a Keras layer. Received: step={step!r}")
        adopt(step)
        self.step = step
        self.probability = checks.fraction(probability=probability)

    def transform_batch(self, images, training, seed):
        if training is not None and not training:
            return images
        stream = self.stream(seed)
        apply = self._uniform((self._batch_size(images),), stream) < self.probability
        changed = apply_step(self.step, images, True, stream, self.backend)
        if tuple(changed.shape[1:]) != tuple(images.shape[1:]):
            raise InvalidInputError(
                "Expected a step that keeps the shape inside RandomApply, since some images stay as they are. "
                f"Received: step={self.step.name!r}, {tuple(images.shape[1:])} -> {tuple(changed.shape[1:])}"
            )
        return self.backend.numpy.where(per_image(apply), changed, images)

    def get_config(self):
        return {**super().get_config(), "step": keras.saving.serialize_keras_object(self.step)}

    @classmethod
    def from_config(cls, config):
        return cls(**{**config, "step": keras.saving.deserialize_keras_object(config["step"])})


def adopt(step):
    """Marks a transform whose owner draws for it: it then makes no random state of its own.

    Raises:
        InvalidInputError: a layer that would do the same to all images and their views.
    """
    if any(isinstance(layer, keras.layers.RandomCrop) for layer in step._flatten_layers()):
        raise InvalidInputError(
            "keras.layers.RandomCrop cuts all images of a batch, and so all views of an image, at the same place; "
            f"augment.RandomResizedCrop and augment.RandomShift draw for each. Received: step={step.name!r}"
        )
    if isinstance(step, ImageTransform):
        step.built = True


def apply_step(step, images, training, stream, backend):
    """Runs any layer on a float32 batch as a step: `stream` supplies the random numbers wherever the layer allows it.

    - Transforms of this module, and Keras' image layers (also those inside them), draw from `stream`.
    - Other Keras layers (`keras.layers.GaussianNoise`, your own) draw from their own generator and compute with the
      active backend: they work in a model, and inside `tf.data` under TensorFlow only.
    - KerasCV layers compute with TensorFlow and draw from TensorFlow's generators. They have no inference mode, and so
      are left out at inference.

    Args:
        step: a Keras layer.
        images: (B, H, W, C) float32.
        training: bool.
        stream: `Stream`, or None if not `training`.
        backend: the Keras backend that `images` belong to.

    Returns:
        (B, h, w, c) float32.

    Raises:
        InvalidInputError: the layer cannot run where it is asked to.
    """
    if isinstance(step, ImageTransform):
        return step(images, training=training, seed=stream)

    if is_keras_cv(step):
        if not training:
            return images
        if backend.name != "tensorflow":
            raise InvalidInputError(
                "Expected TensorFlow around a KerasCV layer: use these views inside `tf.data`, which works under every "
                f"backend, or run with KERAS_BACKEND=tensorflow. Received: step={step.name!r}, backend={backend.name!r}"
            )
        return backend.cast(step(images), "float32")

    is_data_layer = isinstance(step, DataLayer)
    if not is_data_layer and backend.name != keras.backend.backend():
        raise InvalidInputError(
            f"Expected a preprocessing layer inside `tf.data`: {type(step).__name__} computes with "
            f"{keras.backend.backend()} and can be a step only inside a model. Received: step={step.name!r}"
        )
    arguments = {"training": training} if "training" in inspect.signature(step.call).parameters else {}
    with _drawing_from(step, stream) if is_data_layer and training else contextlib.nullcontext():
        return backend.cast(step(images, **arguments), "float32")


def is_keras_cv(step):
    return any(base.__module__.partition(".")[0] == "keras_cv" for base in type(step).__mro__)


_one_at_a_time = threading.RLock()  # threads that load data may share a layer


@contextlib.contextmanager
def _drawing_from(step, stream):
    """Keras' image layers, and those inside them, ask `_get_seed_generator` what to draw from: it answers `stream`."""
    layers = [layer for layer in step._flatten_layers() if isinstance(layer, DataLayer)]
    with _one_at_a_time:
        for layer in layers:
            object.__setattr__(layer, "_get_seed_generator", lambda backend=None: stream)
        try:
            yield
        finally:
            for layer in layers:
                object.__delattr__(layer, "_get_seed_generator")
