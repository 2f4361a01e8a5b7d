"""Encoder and images to one array of features, and the proof that the encoder stayed as it was."""

import hashlib
import os
import sys
import threading
import types
import warnings
from collections.abc import Callable

import keras
import numpy as np

from sslzoo import checks
from sslzoo.errors import InvalidInputError
from sslzoo.files import is_named
from sslzoo.networks.composition import input_range

ROUNDING = 1e-6  # of a feature's largest value: what encoders that compute in float32 may differ by


def features(
    encoder: "keras.layers.Layer | str",
    images: np.ndarray,
    batch_size: int = 500,
    progress: Callable[[int, int], None] | None = None,
) -> np.ndarray:
    """Representations of raw images, computed in inference mode (`training=False`).

    Args:
        encoder: Keras model or layer, raw images (B, H, W, C) -> (B, L); a `Pretrainer`, whose encoder is meant; a
            `torch.nn.Module`, which gets what `TorchEncoder` says; or a name or folder for `sslzoo.load`.
        images: array (N, H, W, C), uint8 or float, values 0..255, N >= 1. Floats of at most 1 bring a warning.
        batch_size: int, images per call of the encoder.
        progress: callable (images done, images in all), or None.

    Returns:
        float32 array (N, L).

    Raises:
        InvalidInputError: images that do not fit, what is not an encoder or gives something else than (B, L), or
            features with NaN or infinite values.
    """
    checks.count(batch_size=batch_size)
    encoder = load_encoder(encoder)
    images = checks.array(images) if hasattr(images, "detach") else images
    remark = check_images(encoder, images)
    if remark is not None:
        warnings.warn(remark, stacklevel=2)
    outputs = run(encoder, images, batch_size, outputs_of, progress)
    if len(outputs) != 1:
        raise InvalidInputError(
            "The encoder must have one output (B, L); of a variational encoder, take the posterior mean. "
            f"Received: {len(outputs)} outputs"
        )
    check_finite(outputs[0])
    return outputs[0]


def spread(count: int, most: int) -> np.ndarray:
    """Rows of at most `most` of `count` images, spread over all of them, which may be sorted by class: int (M,)."""
    return np.linspace(0, count - 1, min(count, most)).astype(int)


def load_encoder(encoder, revision: str | None = None, **which):
    """The encoder itself, the one inside a `Pretrainer`, a `torch.nn.Module` wrapped, or what `sslzoo.load` gives.

    Raises `InvalidInputError` for what is none of them, such as the name of a classifier.
    """
    if isinstance(encoder, keras.layers.Layer):
        from sslzoo.methods.pretrainer import Pretrainer

        if isinstance(encoder, Pretrainer):
            live = encoder.live_encoder(own_shape(encoder))
            live.name = encoder.name
            return live
        return encoder
    if isinstance(encoder, TorchEncoder):
        return encoder
    if is_named(encoder):
        from sslzoo import zoo

        loaded = zoo.load(encoder, revision=revision, **which)
        if zoo.results_of(encoder, revision).get("classes"):  # of what lies on the Hub alone nothing was known before
            raise InvalidInputError(
                "An encoder gives features; a classifier gives probabilities. Take the encoder that it was made of. "
                f"Received: {os.fspath(encoder)!r}, a classifier"
            )
        return loaded
    if "torch" in sys.modules and isinstance(encoder, sys.modules["torch"].nn.Module):
        return TorchEncoder(encoder)
    raise InvalidInputError(
        "`encoder` must be a Keras model or a torch.nn.Module (raw images in, features out), or a name or folder for "
        f"`sslzoo.load`. Received: encoder of type {type(encoder).__name__}"
    )


def own_shape(method) -> tuple[int, int, int]:
    """Shape (H, W, C) of the raw images of a `Pretrainer` whose encoder takes one size; raises of any other."""
    shape = tuple(method.encoder.input_shape[1:])
    if None in shape:
        raise InvalidInputError(
            "The encoder of this method takes images of any size: pass the part for those at hand, "
            f"method.parts((H, W, C))['encoder']. Received: {type(method).__name__} of images {shape}"
        )
    return shape


_MODES = threading.RLock()  # or a thread takes the mode that another has set for a call for a module's own


class TorchEncoder:
    """A `torch.nn.Module` as an encoder of raw images, under any backend of Keras.

        sslzoo.evaluate(module, "mnist")                                    # images (B, C, H, W), values 0..1
        sslzoo.evaluate(TorchEncoder(module, channels_first=False), "mnist")

    The module runs where its parameters are and in their precision (the first one's), without gradients and in eval
    mode; afterwards every part of it is in the mode that it was in. Features are float32.

    Example:
        import importlib.util
        import numpy as np
        from sslzoo import evaluation

        if importlib.util.find_spec("torch"):
            torch = importlib.import_module("torch")
            encoder = evaluation.TorchEncoder(torch.nn.Flatten())
            evaluation.features(encoder, np.zeros((4, 8, 8, 1), "uint8")).shape  # (4, 64)

    Args:
        module: `torch.nn.Module`, images -> (B, L). Put other preprocessing in front with `torch.nn.Sequential`.
        channels_first: bool, give images (B, C, H, W), as PyTorch's own modules take them; False: (B, H, W, C).
        scale: float, what values 0..255 are multiplied with. 1/255 is what torchvision's `ToTensor` does.
    """

    built = True

    def __init__(self, module, channels_first: bool = True, scale: float = 1 / 255):
        self.module, self.channels_first, self.scale = module, channels_first, scale
        self.name = type(module).__name__

    @property
    def layout(self) -> str:
        """What the module gets, in words."""
        axes = "(B, C, H, W)" if self.channels_first else "(B, H, W, C)"
        return f"The torch.nn.Module got images {axes}, values 0..{255 * self.scale:g}, in eval mode."

    @property
    def weights(self) -> list:
        """Parameters and buffers, as `weights_sha256` reads them."""
        torch = sys.modules["torch"]
        state = self.module.state_dict().values()
        if any(map(torch.nn.parameter.is_lazy, state)):
            raise InvalidInputError(
                "A torch.nn.Module must know its shapes: call it once, in eval mode, with a batch as it takes them. "
                f"Received: {self.name} with lazy parameters"
            )
        # NumPy has no bfloat16: its bits are read as integers.
        state = (tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor for tensor in state)
        return [types.SimpleNamespace(value=tensor.detach().cpu().numpy()) for tensor in state]

    def __call__(self, images, training=False):
        """Features of raw images (B, H, W, C): float32 array (B, L)."""
        torch = sys.modules["torch"]
        device = next((tensor.device for tensor in self.module.parameters()), "cpu")
        floats = (tensor.dtype for tensor in self.module.parameters() if tensor.is_floating_point())
        batch = torch.from_numpy(np.asarray(images, np.float32)).to(device) * self.scale
        batch = batch.to(next(floats, torch.float32))
        with _MODES:
            parts = [(part, part.training) for part in self.module.modules()]
            try:
                self.module.eval()
                with torch.no_grad():
                    output = self.module(batch.movedim(-1, 1) if self.channels_first else batch)
            finally:
                for part, mode in parts:
                    part.training = mode
        if not torch.is_tensor(output):
            raise InvalidInputError(f"A torch.nn.Module must give a tensor (B, L). Received: {type(output).__name__}")
        return output.detach().float().cpu().numpy()


def check_images(encoder, images, name="images") -> "str | None":
    """Raise `InvalidInputError` unless `images` are raw images that `encoder` takes; a remark on ones far too dark.

    An encoder that says which values it takes gets such.
    """
    shape = np.shape(images)
    if len(shape) != 4 or not len(images):
        raise InvalidInputError(
            f"{name} must be an array (N, H, W, C) of at least one image. Received: {name} of shape {shape}"
        )
    dtype = np.asarray(images[:1]).dtype
    if dtype.kind not in "uif":
        raise InvalidInputError(f"{name} must be numbers in 0..255, uint8 or float. Received: {name} of dtype {dtype}")
    said = input_range(encoder, None)
    images = images if hasattr(images, "dtype") else np.asarray(images)
    remark = checks.values(images, *(said or (0, 255)), name=name, strict=said is not None)
    expected = image_shape(encoder)
    if not all(want in (None, got) for want, got in zip(expected, shape[1:])):
        raise InvalidInputError(
            f"{name} must fit the encoder's input {(None, *expected)}; sslzoo.data.fit_images(images, {expected}) "
            f"crops, resizes and recolors them. Received: {name} of shape {shape}"
        )
    return remark


def image_shape(encoder) -> tuple:
    """(H, W, C) of the images that an encoder takes, None where it takes any."""
    try:
        shape = encoder.input_shape
    except (AttributeError, ValueError):  # a subclassed model takes what it takes
        return (None, None, None)
    if not isinstance(shape, tuple) or len(shape) != 4:
        raise InvalidInputError(f"encoder must take images (B, H, W, C). Received: encoder.input_shape={shape}")
    return shape[1:]


def sized(shape: tuple, image_size: int | None) -> tuple:
    """(H, W, C) that images are brought to: the `image_shape` of an encoder, of `image_size` where it takes any side.

    Raises:
        InvalidInputError: an `image_size` that is not the one of an encoder that takes one.
    """
    height, width, channels = shape
    if image_size is not None and None not in (height, width) and (height, width) != (image_size, image_size):
        raise InvalidInputError(
            f"image_size is for encoders that take images of any side; this one takes {height} x {width} pixels. "
            f"Received: {image_size=}"
        )
    return height or image_size, width or image_size, channels


def check_features(rows, name: str = "features", dtype=np.float64) -> np.ndarray:
    """Features as everything here computes with them.

    Args:
        rows: numbers (N, L): an array, list, data frame, or tensor of any backend, with gradients and in bfloat16 too.
        name: what messages call them.
        dtype: float type of the result.

    Returns:
        array (N, L) of `dtype`.

    Raises:
        InvalidInputError: anything else, or NaN and infinite values.
    """
    try:
        array = checks.array(rows)
        numeric = array.dtype.kind in "uifO" or array.dtype.name == "bfloat16"
        with np.errstate(over="ignore"):
            array = array.astype(dtype) if numeric else array
    except (TypeError, ValueError):  # ragged lists, missing values
        numeric, array = False, np.asarray(rows, object)
    if not numeric or array.ndim != 2 or 0 in array.shape:
        raise InvalidInputError(
            f"{name} must be numbers of shape (N, L), a row for each image. "
            f"Received: {name} of shape {array.shape}, {array.dtype}"
        )
    check_finite(array, name)
    return array


def blas_threads(width: int) -> int | None:
    """How many threads products of features so wide are computed with; None for what BLAS takes, one for each core.

    For few features, threads cost more time than they save, far more on a busy machine.
    """
    return 1 if width <= 256 else None


def normalized(rows: np.ndarray) -> np.ndarray:
    """Rows (N, D) of length 1; those of zeros stay so."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1)


def count_constant(rows: np.ndarray) -> int:
    """How many of the features (N, L) are the same in all rows, but for rounding."""
    return int(_is_constant(rows).sum())


def _is_constant(rows):
    return np.ptp(rows, axis=0) <= ROUNDING * np.abs(rows).max(axis=0)


def scaled(rows: np.ndarray) -> np.ndarray:
    """Rows (N, L) over the power of two at their largest value: the same digits, where float32 holds their squares."""
    return np.ldexp(rows, -int(np.frexp(np.abs(rows).max())[1]))


def moments(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What features are standardized by: (rows - mean) / deviation.

    Args:
        rows: float array (N, L).

    Returns:
        mean and standard deviation of each feature, float64 (L,) each. The deviation of one that is constant but for
        rounding is infinite: standardized it is 0, where its noise would be blown up to the size of the others.
    """
    mean, deviation = rows.mean(axis=0, dtype=np.float64), rows.std(axis=0, dtype=np.float64)
    return mean, np.where(_is_constant(rows), np.inf, deviation)


def check_finite(rows, name="features"):
    """Raise `InvalidInputError` if a row (N, L) holds NaN or infinity."""
    broken = int((~np.isfinite(rows).all(axis=1)).sum())
    if broken:
        raise InvalidInputError(
            f"{name} must be finite; NaN or infinity comes from training that diverged, or from images outside 0..255. "
            f"Received: {broken:,} of {len(rows):,} rows with NaN or infinite values"
        )


def weights_sha256(encoder: "keras.layers.Layer") -> str:
    """sha256 in hexadecimal over all weights of a built encoder, in order: dtype, shape and bytes of each.

    Batch-normalization statistics are included; random-seed states are not.
    """
    digest = hashlib.sha256()
    for weight in encoder.weights:
        value = np.ascontiguousarray(keras.ops.convert_to_numpy(weight.value))
        digest.update(f"{value.dtype.name}{value.shape}".encode())
        digest.update(value.tobytes())
    return digest.hexdigest()


def run_batch(model, batch, batch_size) -> list[np.ndarray]:
    """What a model gives for at most `batch_size` rows, in inference mode: a list of float32 arrays, one an output."""
    batch = np.asarray(batch, np.float32)
    rows = len(batch)
    if rows < batch_size:  # every call has one shape, so the model is compiled once
        batch = np.concatenate([batch, np.repeat(batch[-1:], batch_size - rows, axis=0)])
    if isinstance(model, keras.Model):
        outputs = model.predict_on_batch(batch)  # compiled, and calls the model with training=False
    else:
        outputs = keras.tree.map_structure(keras.ops.convert_to_numpy, model(batch, training=False))
    return [np.asarray(output)[:rows].astype(np.float32) for output in keras.tree.flatten(outputs)]


def run(model, rows, batch_size, run_one=run_batch, progress=None) -> list[np.ndarray]:
    """The outputs of a model for any number of rows, at most `batch_size` at a time, by `run_batch` or `outputs_of`."""
    batch_size = min(batch_size, len(rows))
    batches = []
    for start in range(0, len(rows), batch_size):
        batches.append(run_one(model, rows[start : start + batch_size], batch_size))
        if progress:
            progress(min(start + batch_size, len(rows)), len(rows))
    return [np.concatenate(outputs) for outputs in zip(*batches)]


def outputs_of(encoder, images, batch_size) -> list[np.ndarray]:
    """`run_batch` of an encoder, whose outputs must be (rows, L)."""
    outputs = run_batch(encoder, images, batch_size)
    for output in outputs:
        if output.ndim != 2 or len(output) != len(images):
            raise InvalidInputError(
                "The encoder must give (B, L), one row of features per image; flatten or pool feature maps. "
                f"Received: output of shape {output.shape} for {len(images)} images"
            )
    return outputs
