"""Several processes that train one model (JAX): what they agree on, and what each does by itself.

`keras.distribution.initialize` joins them, on one machine or on several, and `DataParallel` gives each a part of every
batch; the program they run is one, so losses compare all images of a batch. Around it each process has a Python of its
own: files are written by the first, and whatever ends training must end it in all of them after the same step.
"""

import atexit
import contextlib
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable

import keras
import numpy as np

from sslzoo.errors import ArtifactError, printable


def count() -> int:
    """How many train together: 1 unless a `keras.distribution` spans several."""
    if keras.backend.backend() != "jax" or keras.distribution.distribution() is None:
        return 1
    import jax

    return jax.process_count()


def devices() -> int:
    """How many of this process share each of its batches: 1 unless a `keras.distribution` of JAX spans several."""
    distribution = keras.distribution.distribution()
    if keras.backend.backend() != "jax" or distribution is None or distribution.batch_dim_name is None:
        return 1
    mesh = distribution.device_mesh
    return max(1, mesh.shape[mesh.axis_names.index(distribution.batch_dim_name)] // count())


def index() -> int:
    """The place of this one, 0..count() - 1."""
    if count() == 1:
        return 0
    import jax

    return jax.process_index()


def say_when_lost() -> None:
    """From here on a sentence says how this process ended, if another one of them was lost.

    JAX ends it by SIGABRT under pages of C++; `jax.distributed.initialize` has no argument for another way. So a shell
    that outlives it has the last word.
    """
    if os.name != "posix":
        return
    import jax

    text = (
        f"Process {jax.process_index()} of {jax.process_count()} was ended: another was lost, or it was killed. "
        "Start all of them again, with --resume."
    )
    command = ["sh", "-c", 'read -r end || echo "$0" >&2', text]
    _witness.append(subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True))
    atexit.register(_dismiss)


_witness = []  # the shell that sees this process end


def _dismiss():
    while _witness:
        _witness.pop().communicate(b"end\n")


def end_if_lost(error: Exception) -> None:
    """Ends this process, with 1 and one line, after an error of what several compute together. Others pass.

    JAX raises ValueError of its own where a step fails at once, and JaxRuntimeError where it fails later.
    """
    if count() > 1:
        import jax

        if isinstance(error, jax.errors.JaxRuntimeError) or type(error) is ValueError:
            _end(f"{type(error).__name__}: {error}")


def _end(reason):
    """At once: JAX, at the end of Python, would wait for the others for minutes."""
    _dismiss()
    print(
        f"Process {index()} of {count()} cannot go on: another has ended, or cannot be reached, or they cannot compute "
        "together. Start all of them again, with --resume. "
        f"Received: {printable(' '.join(reason.split()))[:300]}",
        file=sys.stderr,
        flush=True,
    )
    sys.stdout.flush()
    os._exit(1)


def any_of(flag: bool) -> bool:
    """Whether the flag is set in any of them. All must ask."""
    if count() == 1:
        return flag
    from jax.experimental import multihost_utils

    return bool(np.any(multihost_utils.process_allgather(np.array(flag))))


def of_first(numbers: list[float]) -> list[float]:
    """The numbers that the first has, to the last bit. All must ask, with equally many."""
    if count() == 1 or not numbers:
        return numbers
    halves = np.array(numbers, "float64").view("uint32")  # JAX has no 64 bits
    return array_of_first(halves).view("float64").tolist()


def array_of_first(array: np.ndarray) -> np.ndarray:
    """The array that the first has, of at most 32 bits a number. All must ask, with one of the same shape and type."""
    if count() == 1:
        return array
    from jax.experimental import multihost_utils

    return np.asarray(multihost_utils.broadcast_one_to_all(array))


def check_alike(identity: str) -> None:
    """Refuses processes of which one says another text than the first. All must ask.

    Raises:
        ArtifactError: in all of them.
    """
    ours = np.frombuffer(hashlib.sha256(identity.encode("utf-8", "surrogatepass")).digest(), "uint32")
    if any_of(not np.array_equal(array_of_first(ours), ours)):
        raise ArtifactError(
            "Processes of one run must be started alike: with the same recipe, settings and images. "
            f"Received: process {index()} of {count()}, and they differ"
        )


def by_first(action: Callable):
    """What `action` gives in the first, None in the others; what it raises ends all. All must ask."""
    given = fault = None
    if index() == 0:
        try:
            given = action()
        except Exception as error:
            fault = error
    if any_of(fault is not None):
        raise fault or ArtifactError("Process 0 cannot go on, and says why. Received: an error there")
    return given


@contextlib.contextmanager
def alone(model: keras.Model):
    """Inside, the model's variables are this process' own copies, and there is no distribution: it may predict without
    the others. What is assigned to them is forgotten."""
    if count() == 1:
        yield
        return
    distribution = keras.distribution.distribution()
    shared = [(variable, variable.value, variable._layout) for variable in model.variables]
    part_with(model)
    try:
        yield
    finally:
        keras.distribution.set_distribution(distribution)
        for variable, value, layout in shared:
            variable._value, variable._layout = value, layout


def leave(model: keras.Model) -> bool:
    """Parts with the others, for what comes after training needs one device. Returns whether this was the first of
    them, which goes on. All must leave."""
    first, several = index() == 0, count() > 1
    part_with(model)
    if several:
        import jax

        jax.distributed.shutdown()
    return first


def part_with(model: keras.Model) -> None:
    """From here on the model is this process' own: its variables are copies, and the distribution is over."""
    for variable in model.variables if count() > 1 else ():
        # A copy of what lies here, past `assign`, which would lay it on all devices again; and later ones stay here.
        variable._value = keras.ops.copy(variable.value.addressable_data(0))
        variable._layout = None
    keras.distribution.set_distribution(None)
