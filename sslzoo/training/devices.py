"""Several devices, and several processes: a batch lies on all of them, and is still one batch."""

import contextlib
import importlib.util
import os
import signal
import socket
import sys
import threading
from pathlib import Path

import keras

from sslzoo import processes
from sslzoo.errors import InvalidInputError
from sslzoo.networks.blocks import MLPS

CPU_FLAGS = Path("/proc/cpuinfo")
# The first GPU; or, under Windows' subsystem for Linux, which has no such device, the library of the driver.
GPU_SIGNS = (Path("/dev/nvidia0"), Path("/usr/lib/wsl/lib/libcuda.so.1"))


def join(number: int | None, shared: str) -> None:
    """Joins the processes that train together, under JAX, before anything is computed. All but the first are silent.

    Which one this is, and where the first listens, Keras' environment variables say (KERAS_DISTRIBUTION_PROCESS_ID and
    KERAS_DISTRIBUTION_JOB_ADDRESSES), or SLURM and what else JAX knows.

    Args:
        number: of processes, or None: this one is alone.
        shared: what all of them must say alike (`Plan.shared`).

    Raises:
        InvalidInputError: another backend; nothing that says which process this is.
        ArtifactError: processes that were not started alike.
    """
    if number is None:
        return
    if keras.backend.backend() != "jax":
        raise InvalidInputError(
            "--processes needs KERAS_BACKEND=jax, where a batch on several machines is still one batch. "
            f"Received: --processes={number} under {keras.backend.backend()}"
        )
    where = os.environ.get("KERAS_DISTRIBUTION_JOB_ADDRESSES", "").partition(",")[0]
    print(f"Waiting for {number} processes" + (f" at {where}." if where else "."), flush=True)
    if os.environ.get("KERAS_DISTRIBUTION_PROCESS_ID") == "0":
        check_port(where)
    try:
        with _interruptible():
            keras.distribution.initialize(num_processes=number)
    except (ValueError, RuntimeError) as error:
        raise InvalidInputError(
            "--processes needs KERAS_DISTRIBUTION_PROCESS_ID (0, 1, ...) and KERAS_DISTRIBUTION_JOB_ADDRESSES "
            f"(host:port of process 0), or SLURM, and the other processes ({' '.join(str(error).split())}). "
            f"Received: --processes={number}"
        ) from error
    processes.say_when_lost()
    keras.distribution.set_distribution(keras.distribution.DataParallel(auto_shard_dataset=False))
    if processes.index() > 0:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - until the process ends
    processes.check_alike(shared)


@contextlib.contextmanager
def _interruptible():
    """Inside, Ctrl-C ends the process at once: JAX waits where no handler of Python's can run."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)


def check_port(address: str) -> None:
    """Raise InvalidInputError if another program listens at the port of host:port, where JAX would crash wordlessly."""
    port = address.rpartition(":")[2]
    if not port.isdecimal() or not 0 < int(port) < 2**16:
        return
    with socket.socket() as probe:
        # Under Windows SO_REUSEADDR takes a port that another process has.
        probe.setsockopt(socket.SOL_SOCKET, getattr(socket, "SO_EXCLUSIVEADDRUSE", socket.SO_REUSEADDR), 1)
        try:
            probe.bind(("", int(port)))
        except OSError as error:
            raise InvalidInputError(
                f"Process 0 must be able to listen at its port ({error.strerror}): choose another. "
                f"Received: KERAS_DISTRIBUTION_JOB_ADDRESSES={address!r}"
            ) from error


def use(wanted: str | None, joined: bool = False) -> int:
    """Has everything made from now on lie on several devices, under JAX. Returns how many.

    One program spans them (`keras.distribution.DataParallel`): negatives, queues, banks and statistics are those of the
    whole batch, as on one device.

    Args:
        wanted: a number, a power of two (monitors look at batches of such), "all", or None: as it is.
        joined: whether `join` has shared out all devices of all processes, be it one.

    Raises:
        InvalidInputError: not such a number, more than there are, or another backend.
    """
    if joined:
        return len(keras.distribution.list_devices())
    if wanted is None:
        return 1
    if keras.backend.backend() != "jax":
        raise InvalidInputError(
            "--devices needs KERAS_BACKEND=jax, where a batch on several devices is still one batch. "
            f"Received: --devices={wanted} under {keras.backend.backend()}"
        )
    found = keras.distribution.list_devices()
    count = len(found) if wanted == "all" else int(wanted) if wanted.isdecimal() else 0
    if not 1 <= count <= len(found) or count & (count - 1):
        raise InvalidInputError(
            f"--devices must be a power of two, at most {len(found)} here, or all. Received: --devices={wanted}"
        )
    if count > 1:
        keras.distribution.set_distribution(keras.distribution.DataParallel(devices=found[:count]))
    return count


def suitable_backend(network: str, precision: str = "float32") -> str | None:
    """The backend that trains a network fastest on this machine, of those installed; None: there is none.

    JAX, but on a CPU TensorFlow for convolutions and for what has instructions for bfloat16; without such instructions
    PyTorch for convolutions in float32 (`benchmarks/backends.py` measures all three).
    """
    convolutions_on_cpu = network not in MLPS and not has_gpu()
    in_bfloat16 = precision == "mixed_bfloat16" and bfloat16_helps(network)
    order = ("jax", "tensorflow", "torch")
    if in_bfloat16 or (convolutions_on_cpu and computes_in_bfloat16() is not False):
        order = ("tensorflow", "jax", "torch")
    elif convolutions_on_cpu and precision == "float32":
        order = ("torch", "tensorflow", "jax")
    return next((name for name in order if is_installed(name)), None)


def bfloat16_helps(network: str) -> bool:
    """Whether TensorFlow in mixed_bfloat16 trains a network faster still: where a CPU, and no GPU, computes in it.

    Not for `mlp-small`: 60 epochs of digits took 10.4 s in it and 7.4 in float32 (SimCLR, one core).
    """
    return network != "mlp-small" and is_installed("tensorflow") and not has_gpu() and computes_in_bfloat16() is True


def computes_in_bfloat16() -> bool | None:
    """Whether the processor has instructions for bfloat16; None: this system does not say.

    Where it has none, each number is converted: a step of `airnet` took 8 times as long as in float32 under TensorFlow,
    15 times under PyTorch, and as long under JAX (`benchmarks/backends.py --only airnet`, AVX2).
    """
    if not CPU_FLAGS.exists():
        return None
    return bool({"avx512_bf16", "amx_bf16", "bf16"} & set(CPU_FLAGS.read_text().split()))


def has_gpu() -> bool:
    """Whether this machine has a GPU of NVIDIA's that CUDA_VISIBLE_DEVICES does not hide."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1")
    return not hidden and any(sign.exists() for sign in GPU_SIGNS)


def is_installed(package: str) -> bool:
    """Whether it can be imported; it is not."""
    return importlib.util.find_spec(package) is not None
