"""Encoders of any library, and features that are there already."""

import os
from collections.abc import Callable

import keras
import numpy as np

from sslzoo import checks
from sslzoo.errors import BackendError, InvalidInputError, MissingDataError
from sslzoo.evaluation import features as keras_features
from sslzoo.evaluation.embedding import Embedding
from sslzoo.evaluation.features import (
    TorchEncoder,
    check_features,
    check_finite,
    check_images,
    load_encoder,
    outputs_of,
    run,
)
from sslzoo.evaluation.search import read_features
from sslzoo.files import as_path, is_named
from sslzoo.networks.composition import IMAGES


class FunctionEncoder:
    """A function of images as an encoder: whatever is no model of Keras or PyTorch.

    Example:
        import numpy as np
        from sslzoo.downstream import encoders

        brightness = encoders.FunctionEncoder(lambda images: images.mean(axis=(1, 2)))
        encoders.features_of(brightness, np.zeros((4, 8, 8, 3), "uint8")).shape  # (4, 3)

    Args:
        function: images float32 (B, H, W, C) -> (B, L), arrays or tensors of any library.
        name: str, what reports call it.
        shape: (H, W, C) that it takes, None where it takes any.
        scale: float, what values 0..255 are multiplied with.
        channels_first: bool, give images (B, C, H, W).
    """

    built = True
    weights: tuple = ()

    def __init__(
        self,
        function: Callable,
        name: str = "function",
        shape: tuple = (None, None, None),
        scale: float = 1.0,
        channels_first: bool = False,
    ):
        self.function, self.name, self.scale, self.channels_first = function, name, scale, channels_first
        self.input_shape = (None, *shape)

    def __call__(self, images, training=False):
        """Features of raw images (B, H, W, C): float32 array (B, L)."""
        batch = np.asarray(images, np.float32) * np.float32(self.scale)
        batch = np.ascontiguousarray(np.moveaxis(batch, -1, 1)) if self.channels_first else batch
        return check_features(self.function(batch), "what the encoder gives", np.float32)


_ONNX_DTYPES = {"tensor(float)": "float32", "tensor(float16)": "float16", "tensor(uint8)": "uint8"}


def onnx_encoder(path: "str | os.PathLike", scale: float | None = None, needed: bool = True) -> FunctionEncoder:
    """The encoder in an ONNX file, run by onnxruntime on the CPU; its first input and output are taken.

    Args:
        path: the file. Which of its axes are the channels is told by their size, 1 to 4.
        scale: float, what values 0..255 are multiplied with. None: 1 for an encoder that this package exported (its
            input is called `images` and has the channels last), which scales images itself, and for one that takes
            uint8; 1/255 for others.
        needed: as in `as_encoder`.

    Raises:
        MissingDataError: no such file.
        BackendError: onnxruntime is not installed.
        InvalidInputError: it cannot be read, or takes no images.
    """
    path = as_path(path)
    if not path.is_file():
        raise MissingDataError(f"There is no such file. Received: {os.fspath(path)!r}")
    try:
        import onnxruntime
    except ImportError as error:
        raise BackendError(
            "An ONNX file takes pip install onnxruntime. Received: onnxruntime, which is not installed"
        ) from error
    try:
        session = onnxruntime.InferenceSession(os.fspath(path), providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has a dozen types of its own
        raise InvalidInputError(f"This ONNX file cannot be read ({error}). Received: {os.fspath(path)!r}") from error
    taken = session.get_inputs()[0]
    sizes = [size if checks.is_integer(size) else None for size in taken.shape]
    if len(sizes) != 4:
        raise InvalidInputError(f"An encoder takes images (B, H, W, C). Received: input of shape {taken.shape}")
    if taken.type not in _ONNX_DTYPES:
        kinds = " or ".join(_ONNX_DTYPES.values())
        raise InvalidInputError(f"An encoder takes images of {kinds}. Received: input of {taken.type}")
    rows, first, *middle, last = sizes
    channels_first = first in (1, 2, 3, 4) and last not in (1, 2, 3, 4)
    shape = (*middle, last, first) if channels_first else (first, *middle, last)
    dtype = _ONNX_DTYPES[taken.type]
    scales_itself = dtype == "uint8" or (taken.name == IMAGES and not channels_first)
    if dtype == "uint8" and scale not in (None, 1) and needed:
        raise InvalidInputError(f"An encoder that takes uint8 scales images itself. Received: {scale=}")
    if scale is None or (scales_itself and not needed):
        scale = 1.0 if scales_itself else 1 / 255

    def function(batch):
        batch = (np.clip(np.rint(batch), 0, 255) if dtype == "uint8" else batch).astype(dtype)
        if rows is None:
            return session.run(None, {taken.name: batch})[0]
        padded = np.resize(batch, (-(-len(batch) // rows) * rows, *batch.shape[1:]))
        parts = [session.run(None, {taken.name: part})[0] for part in np.split(padded, len(padded) // rows)]
        return np.concatenate(parts)[: len(batch)]

    return FunctionEncoder(function, os.path.basename(path), shape, scale, channels_first)


def as_encoder(encoder, scale: float | None = None, needed: bool = True):
    """What `features_of` takes, of anything that turns images into features.

    Args:
        encoder: Keras model; name, folder or address for `sslzoo.load`; path of an `.onnx`; `torch.nn.Module`; or any
            callable, float32 images (B, H, W, C) -> (B, L).
        scale: float, what values 0..255 are multiplied with before an ONNX file (`onnx_encoder`), a
            `torch.nn.Module` (1/255) or a callable (1) sees them; models of Keras and the zoo do it themselves.
        needed: refuse a `scale` for one that scales images itself; False leaves it out there.
    """
    checks.positive(scale=1 if scale is None else scale)
    if is_named(encoder) and str(encoder).endswith(".onnx"):
        return onnx_encoder(encoder, scale, needed)
    try:
        loaded = load_encoder(encoder)
    except InvalidInputError:
        if not callable(encoder) or isinstance(encoder, (type, keras.layers.Layer)):
            raise
        name = getattr(encoder, "__name__", type(encoder).__name__)
        return FunctionEncoder(encoder, name, scale=1.0 if scale is None else scale)
    if scale is None or not (needed or isinstance(loaded, TorchEncoder)):
        return loaded
    if isinstance(loaded, TorchEncoder):
        return TorchEncoder(loaded.module, loaded.channels_first, scale)
    raise InvalidInputError(f"A model of Keras scales images itself. Received: scale={scale}")


def features_of(encoder, images, batch_size: int = 256, progress=None) -> np.ndarray:
    """Features of raw images (N, H, W, C) by what `as_encoder` gave: float32 array (N, L)."""
    if not isinstance(encoder, FunctionEncoder):
        return keras_features(encoder, images, batch_size, progress)
    checks.count(batch_size=batch_size)
    check_images(encoder, images)
    rows = run(encoder, images, batch_size, outputs_of, progress)[0]
    check_finite(rows)
    return rows


def as_features(value) -> "np.ndarray | None":
    """Features, where that is what was given: an array (N, L), an `Embedding`, or the `.npz` of one; else None."""
    if is_named(value):
        return read_features(value).features if str(value).endswith(".npz") else None
    if isinstance(value, Embedding):
        return value.checked().features
    is_array = isinstance(value, (np.ndarray, list)) or (hasattr(value, "__array__") and not callable(value))
    return check_features(value, dtype=np.float32) if is_array else None
