"""Convolution and pooling that leave images where they are under PyTorch, and max-pooling that is quick under JAX.

Keras copies images (B, H, W, C) to (B, C, H, W) for PyTorch's kernels, convolutions back again, and the gradients
twice more. These kernels take any strides: a transposed view of the same memory is what they are fastest on. Under JAX
the gradient of XLA's own max-pooling looks for each maximum again, and adds up one window after the other.
"""

import functools

import keras
from keras import ops


def _on_view(operation, images, *rest, **options):
    """A channels-first operation on channels-last images (B, H, W, C), in place of the channels-last one.

    A copy of images that lie otherwise in memory, as augmentation leaves them, is one for all layers behind: each gives
    what it takes, and batch normalization takes three times as long on other layouts.
    """
    if hasattr(images, "contiguous"):
        images = images.contiguous()
    outputs = operation(ops.transpose(images, (0, 3, 1, 2)), *rest, data_format="channels_first", **options)
    return ops.transpose(outputs, (0, 2, 3, 1))


def _applies(layer):
    return keras.backend.backend() == "torch" and layer.data_format == "channels_last"


class Conv2D(keras.layers.Conv2D):
    """Keras' `Conv2D`, without its copies under PyTorch. A saved model names Keras' class, and loads as that.

    Example:
        import numpy as np
        from sslzoo.networks.convolution import Conv2D

        Conv2D(4, 3, padding="same")(np.zeros((2, 8, 8, 3), "float32")).shape  # (2, 8, 8, 4)

    Args:
        *args, **kwargs: those of `keras.layers.Conv2D`.
    """

    __module__ = "keras.layers"  # what a saved model says; its class there is the one of this name

    def convolution_op(self, inputs, kernel):
        if not _applies(self):
            return super().convolution_op(inputs, kernel)
        options = {"strides": list(self.strides), "padding": self.padding, "dilation_rate": self.dilation_rate}
        return _on_view(ops.conv, inputs, kernel, **options)


class _Pooling:
    def call(self, inputs):
        if not _applies(self):
            return super().call(inputs)
        pool = ops.max_pool if self.pool_mode == "max" else ops.average_pool
        return _on_view(pool, inputs, pool_size=self.pool_size, strides=self.strides, padding=self.padding)


class MaxPooling2D(_Pooling, keras.layers.MaxPooling2D):
    """Keras' `MaxPooling2D`, as `Conv2D` is. Under JAX equal maxima of a window share its gradient."""

    __module__ = "keras.layers"

    def call(self, inputs):
        apart = self.strides == self.pool_size and self.padding == "valid" and self.data_format == "channels_last"
        if not apart or keras.backend.backend() != "jax":
            return super().call(inputs)
        rows, columns = self.pool_size
        height, width = (side // step * step for side, step in zip(inputs.shape[1:3], self.pool_size))
        places = (inputs[:, i:height:rows, j:width:columns] for i in range(rows) for j in range(columns))
        return functools.reduce(ops.maximum, places)


class AveragePooling2D(_Pooling, keras.layers.AveragePooling2D):
    """Keras' `AveragePooling2D`, as `Conv2D` is."""

    __module__ = "keras.layers"
