"""The memory that training takes, which each backend knows of its GPU, and the system of a processor."""

import importlib.util
import sys

import keras


def peak_memory() -> "tuple[int, str] | None":
    """Bytes that this process has taken at most so far, and of what: "GPU" or "memory"; None where nothing says."""
    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        if stats := jax.local_devices()[0].memory_stats():  # None of a CPU
            return stats["peak_bytes_in_use"], "GPU"
    elif backend == "torch":
        import torch

        if torch.cuda.is_available():
            return torch.cuda.max_memory_allocated(), "GPU"
    elif backend == "tensorflow":
        import tensorflow as tf

        if tf.config.list_logical_devices("GPU"):
            return tf.config.experimental.get_memory_info("GPU:0")["peak"], "GPU"
    if importlib.util.find_spec("resource") is None:  # Windows
        return None
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit, "memory"
