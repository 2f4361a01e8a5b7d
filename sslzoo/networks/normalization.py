"""Batch normalization by one fused kernel of the backend while a network trains."""

import keras
from keras import ops


def _tensorflow(x, scale, offset, epsilon):
    """x (B, H, W, C), scale and offset (C,) -> normalized x, mean (C,), variance (C,), the latter two float32."""
    import tensorflow as tf

    empty = tf.zeros((0,))
    # The public function raises an epsilon of 1e-5 to 1.001e-5; this is the operation behind it.
    y, mean, variance, *_ = tf.raw_ops.FusedBatchNormV3(
        x=x, scale=scale, offset=offset, mean=empty, variance=empty, epsilon=epsilon, is_training=True
    )
    count = tf.cast(tf.size(x) // x.shape[-1], "float32")
    return y, mean, variance * (count - 1.0) / count  # the kernel's variance is over count - 1, Keras' over count


def _torch(x, scale, offset, epsilon):
    import torch

    y, mean, inverse = torch.native_batch_norm(x.permute(0, 3, 1, 2), scale, offset, None, None, True, 0.0, epsilon)
    return y.permute(0, 2, 3, 1), mean, inverse.detach() ** -2 - epsilon


KERNELS = {"tensorflow": _tensorflow, "torch": _torch}  # XLA fuses Keras' own operations under JAX


class BatchNormalization(keras.layers.BatchNormalization):
    """Keras' `BatchNormalization`, whose training steps run the fused kernel of TensorFlow or PyTorch.

    Values, gradients and running statistics are those of Keras' layer but for rounding; outside training it is Keras'
    layer. Where the kernel does not apply (JAX, another axis than the last, a mask, float64, several replicas that
    share statistics) Keras' own operations run. A saved model names Keras' class, and loads as that.

    Example:
        import numpy as np
        from sslzoo.networks.normalization import BatchNormalization

        layer = BatchNormalization(momentum=0.9, epsilon=1e-5)
        layer(np.zeros((8, 4, 4, 3), "float32"), training=True).shape  # (8, 4, 4, 3)

    Args:
        **kwargs: those of `keras.layers.BatchNormalization`; input (B, C) or (B, H, W, C).
    """

    __module__ = "keras.layers"  # what a saved model says; its class there is the one of this name

    def call(self, inputs, training=None, mask=None):
        kernel = KERNELS.get(keras.backend.backend())
        dtype = keras.backend.standardize_dtype(inputs.dtype)
        fused = (
            kernel is not None
            and training is True
            and self.trainable
            and mask is None
            and not self.synchronized
            and not self.renorm
            and len(inputs.shape) in (2, 4)
            and self.axis in (-1, len(inputs.shape) - 1)
            and dtype in ("float32", "bfloat16", "float16")
            and self.variable_dtype == "float32"
        )
        if not fused:
            return super().call(inputs, training=training, mask=mask)
        shape = ops.shape(inputs)
        x = inputs if len(shape) == 4 else ops.reshape(inputs, (-1, 1, 1, inputs.shape[-1]))
        width = (inputs.shape[-1],)
        scale = ops.convert_to_tensor(self.gamma) if self.scale else ops.ones(width, "float32")
        offset = ops.convert_to_tensor(self.beta) if self.center else ops.zeros(width, "float32")
        y, mean, variance = kernel(x, scale, offset, self.epsilon)
        for statistic, value in ((self.moving_mean, mean), (self.moving_variance, variance)):
            value = ops.stop_gradient(value)
            statistic.assign(statistic * self.momentum + value * (1.0 - self.momentum))
        return ops.cast(ops.reshape(y, shape), self.compute_dtype)
