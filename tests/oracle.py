"""Tools for holding a loss against an independent float64 NumPy reference, on values and on gradients."""

import keras
import numpy as np


def compiled(fn):
    """`fn` as one program on JAX, where a call compiles every operation on its own; `fn` itself elsewhere."""
    if keras.backend.backend() != "jax":
        return fn
    import jax

    return jax.jit(fn)


def gradient(fn, *arrays):
    """Gradients of the scalar `fn(*tensors)` by the active backend: a list of NumPy arrays."""
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        tensors = [tf.constant(a) for a in arrays]
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            value = fn(*tensors)
        found = tape.gradient(value, tensors, unconnected_gradients="zero")
        return [np.asarray(g) for g in found]
    if backend == "jax":
        import jax

        slopes = compiled(jax.grad(fn, argnums=tuple(range(len(arrays)))))
        return [np.asarray(g) for g in slopes(*map(jax.numpy.asarray, arrays))]
    import torch

    tensors = [torch.tensor(a, requires_grad=True) for a in arrays]
    found = torch.autograd.grad(fn(*tensors), tensors, allow_unused=True)
    return [np.zeros(a.shape) if g is None else g.numpy() for g, a in zip(found, arrays)]


def numerical_gradient(reference, *arrays, step=1e-6):
    """Central differences of the float64 scalar `reference(*arrays)`: a list of float64 arrays."""
    arrays = [np.array(a, "float64") for a in arrays]
    found = []
    for array in arrays:
        slope = np.zeros_like(array)
        for index in np.ndindex(*array.shape):
            kept = array[index]
            array[index] = kept + step
            above = reference(*arrays)
            array[index] = kept - step
            below = reference(*arrays)
            array[index] = kept
            slope[index] = (above - below) / (2 * step)
        found.append(slope)
    return found


def check(fn, reference, *arrays, rtol=2e-5, atol=2e-5):
    """`fn` (backend, float32, scalar) equals `reference` (NumPy, float64, scalar) in value and in every gradient."""
    arrays = [np.asarray(a, "float32") for a in arrays]
    value = keras.ops.convert_to_numpy(compiled(fn)(*map(keras.ops.convert_to_tensor, arrays)))
    np.testing.assert_allclose(value, reference(*[a.astype("float64") for a in arrays]), rtol=rtol, atol=atol)
    for ours, theirs in zip(gradient(fn, *arrays), numerical_gradient(reference, *arrays)):
        np.testing.assert_allclose(ours, theirs, rtol=50 * rtol, atol=50 * atol)
