"""Transposed convolutions that learn fast, under PyTorch and under JAX on a CPU.

Under PyTorch Keras copies images to another layout and cuts what padding removes out of a larger image; the kernel
takes either as an argument. Under JAX its own take two to five times as long: XLA differentiates a transposed
convolution into convolutions over images full of zeros, for which it has slow loops on a CPU. But it is itself the
gradient of a convolution, so its gradients are an ordinary convolution and that one's gradient by the kernel: the same
numbers from the loops that are fast.
"""

import functools
import types

import keras
from keras import ops


def hasten(layer: keras.layers.Conv2DTranspose) -> keras.layers.Conv2DTranspose:
    """Makes a linear layer of stride 2 (channels last; if padded, of even size) fast under PyTorch, and JAX on a CPU.

    The layer stays Keras' own in every other way: a copy of it, or what is loaded of it, computes as Keras does.
    """
    backend = keras.backend.backend()
    if backend == "jax":
        layer.call = types.MethodType(_call, layer)
    elif backend == "torch" and layer.kernel_size[0] > 1:  # oneDNN errs in gradients of size 1, stride 2 there
        layer.call = types.MethodType(_call_in_torch, layer)
    return layer


def _call_in_torch(self, inputs):
    import torch

    kernel = ops.convert_to_tensor(self.kernel).permute(3, 2, 0, 1)
    size = self.kernel_size[0]
    options = {"stride": 2, "padding": size // 2 - 1 if self.padding == "same" else 0}
    outputs = torch.nn.functional.conv_transpose2d(inputs.permute(0, 3, 1, 2), kernel, **options).permute(0, 2, 3, 1)
    return ops.add(outputs, self.bias) if self.use_bias else outputs


def _call(self, inputs):
    import jax

    double = _with_fast_gradient() if jax.default_backend() == "cpu" else _double
    outputs = double(inputs, ops.convert_to_tensor(self.kernel))
    if self.padding == "same":
        cut = self.kernel_size[0] // 2 - 1
        outputs = outputs[:, cut : outputs.shape[1] - cut, cut : outputs.shape[2] - cut]
    return ops.add(outputs, self.bias) if self.use_bias else outputs


def _double(images, kernel):
    """images (N, H, W, C), kernel (k, k, D, C) -> (N, 2 H + k - 2, 2 W + k - 2, D), at least (N, 2 H, 2 W, D)."""
    return ops.conv_transpose(images, kernel, 2, "valid", data_format="channels_last")


def _halve(images, kernel):
    """The convolution whose gradient `_double` is."""
    return ops.conv(images, kernel, 2, "valid", data_format="channels_last")


@functools.cache
def _with_fast_gradient():
    import jax

    def forward(images, kernel):
        return _double(images, kernel), (images, kernel)

    def backward(kept, slope):
        images, kernel = kept
        return _halve(slope, kernel), jax.vjp(lambda kernel: _halve(slope, kernel), kernel)[1](images)[0]

    double = jax.custom_vjp(_double)
    double.defvjp(forward, backward)
    return double
