"""Transposed convolutions that learn fast under JAX on a CPU, where XLA takes two to five times as long.

XLA differentiates a transposed convolution into convolutions over images full of zeros, for which it has slow loops on
a CPU. But it is itself the gradient of a convolution, so its gradients are an ordinary convolution and that one's
gradient by the kernel: the same numbers from the loops that are fast.
"""

import functools
import types

import keras
from keras import ops


def hasten(layer: keras.layers.Conv2DTranspose) -> keras.layers.Conv2DTranspose:
    """Gives a linear layer of stride 2 (channels last; if padded, of even size) the fast gradient, under JAX on a CPU.

    The layer stays Keras' own in every other way: a copy of it, or what is loaded of it, computes as Keras does.
    """
    if keras.backend.backend() == "jax":
        layer.call = types.MethodType(_call, layer)
    return layer


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
