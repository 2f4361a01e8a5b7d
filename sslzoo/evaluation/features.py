"""Encoder and images to one array of features, and the proof that the encoder stayed as it was."""

import hashlib
from collections.abc import Callable

import keras
import numpy as np

from sslzoo.errors import InvalidInputError


def features(
    encoder: "keras.layers.Layer | str",
    images: np.ndarray,
    batch_size: int = 500,
    progress: Callable[[int, int], None] | None = None,
) -> np.ndarray:
    """Representations of raw images, computed in inference mode (`training=False`).

    Args:
        encoder: Keras model or layer, raw images (B, H, W, C) -> (B, L); or a name or folder for `sslzoo.load`.
        images: array (N, H, W, C), uint8 or float, values 0..255, N >= 1.
        batch_size: int, images per call of the encoder.
        progress: callable (images done, images in all), or None.

    Returns:
        float32 array (N, L).

    Raises:
        InvalidInputError: images that do not fit, an encoder that is none or gives something else than (B, L), or
            features with NaN or infinite values.
    """
    encoder = load_encoder(encoder)
    check_images(encoder, images)
    if batch_size < 1:
        raise InvalidInputError(f"`batch_size` must be at least 1. Received: batch_size={batch_size}")
    batch_size = min(batch_size, len(images))
    rows = None
    for start in range(0, len(images), batch_size):
        batch = images[start : start + batch_size]
        [output] = _single(outputs_of(encoder, batch, batch_size))
        if rows is None:
            rows = np.empty((len(images), output.shape[1]), np.float32)
        rows[start : start + len(batch)] = output
        if progress:
            progress(start + len(batch), len(images))
    check_finite(rows)
    return rows


def load_encoder(encoder, **which):
    """The encoder itself, or what `sslzoo.load` makes of a name or a path."""
    if isinstance(encoder, keras.layers.Layer):
        return encoder
    if isinstance(encoder, str) or hasattr(encoder, "__fspath__"):
        from sslzoo import zoo

        return zoo.load(encoder, **which)
    raise InvalidInputError(
        "`encoder` must be a Keras model (raw images in, features out), or a name or folder for `sslzoo.load`. "
        f"Received: encoder of type {type(encoder).__name__}"
    )


def check_images(encoder, images, name="images"):
    """Raise `InvalidInputError` unless `images` are raw images that `encoder` takes."""
    shape = np.shape(images)
    if len(shape) != 4 or not len(images):
        raise InvalidInputError(
            f"{name} must be an array (N, H, W, C) of at least one image. Received: {name} of shape {shape}"
        )
    dtype = np.asarray(images[:1]).dtype
    if dtype.kind not in "uif":
        raise InvalidInputError(f"{name} must be numbers in 0..255, uint8 or float. Received: {name} of dtype {dtype}")
    try:
        expected = encoder.input_shape
    except (AttributeError, ValueError):  # a subclassed model takes what it takes
        return
    fits = len(expected) == 4 and all(want in (None, got) for want, got in zip(expected[1:], shape[1:]))
    if not fits:
        raise InvalidInputError(
            f"{name} must fit the encoder's input {tuple(expected)}. Received: {name} of shape {shape}"
        )


def check_finite(rows, name="features"):
    """Raise `InvalidInputError` if a feature is NaN or infinite."""
    broken = int((~np.isfinite(rows).all(axis=1)).sum())
    if broken:
        raise InvalidInputError(
            f"{name} must be finite; NaN or infinity comes from training that diverged, or from images outside 0..255. "
            f"Received: {broken:,} of {len(rows):,} rows with NaN or infinite values"
        )


def weights_sha256(encoder: "keras.layers.Layer") -> str:
    """sha256 over all weights and statistics of an encoder, in order: dtype, shape and bytes of each.

    Batch-normalisation statistics are included; random-seed states are not.

    Args:
        encoder: built Keras model or layer.

    Returns:
        str of 64 hexadecimal digits.
    """
    digest = hashlib.sha256()
    for weight in encoder.weights:
        value = np.ascontiguousarray(keras.ops.convert_to_numpy(weight.value))
        digest.update(f"{value.dtype.name}{value.shape}".encode())
        digest.update(value.tobytes())
    return digest.hexdigest()


def outputs_of(encoder, images, batch_size):
    """What an encoder gives for at most `batch_size` images: a list of float32 arrays (rows, L)."""
    batch = np.asarray(images, np.float32)
    rows = len(batch)
    if rows < batch_size:  # every call has one shape, so the encoder is compiled once
        batch = np.concatenate([batch, np.repeat(batch[-1:], batch_size - rows, axis=0)])
    if isinstance(encoder, keras.Model):
        outputs = encoder.predict_on_batch(batch)  # compiled, and calls the model with training=False
    else:
        outputs = keras.tree.map_structure(keras.ops.convert_to_numpy, encoder(batch, training=False))
    outputs = [np.asarray(output) for output in keras.tree.flatten(outputs)]
    for output in outputs:
        if output.ndim != 2 or len(output) != batch_size:
            raise InvalidInputError(
                "The encoder must give (B, L), one row of features per image; flatten or pool feature maps. "
                f"Received: output of shape {output.shape} for {batch_size} images"
            )
    return [output[:rows].astype(np.float32) for output in outputs]


def _single(outputs):
    if len(outputs) != 1:
        raise InvalidInputError(
            "The encoder must have one output (B, L); of a variational encoder, take the posterior mean. "
            f"Received: {len(outputs)} outputs"
        )
    return outputs
