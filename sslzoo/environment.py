"""What the shell must say alike, from `sslzoo` and from a recipe: a wrong environment, and errors in a line."""

import contextlib
import errno
import functools
import importlib.util
import json
import logging
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from sslzoo.errors import BackendError, InvalidInputError, SSLZooError, choose, printable
from sslzoo.files import as_path

TRAINING = ("tensorflow", "jax", "torch")
BACKENDS = (*TRAINING, "openvino")  # that Keras knows
INSTALL = (
    "Keras runs on the backend that KERAS_BACKEND names (tensorflow, jax or torch); install one with "
    "pip install tensorflow, and so on"
)

MOST_SHOWN = 4000  # characters of an error: a path may have as many as somebody likes


def check_environment() -> None:
    """Refuses a variable that names nothing, before Keras fails at it or the zoo passes over it.

    Raises:
        UnknownNameError: KERAS_BACKEND is no backend.
        InvalidInputError: SSLZOO_WEIGHTS is no folder.
    """
    backend, weights = (os.environ.get(name) for name in ("KERAS_BACKEND", "SSLZOO_WEIGHTS"))
    if backend:
        choose("KERAS_BACKEND", backend, BACKENDS)
    if weights and not as_path(weights).is_dir():
        raise InvalidInputError(
            f"SSLZOO_WEIGHTS must name a folder of model folders. Received: SSLZOO_WEIGHTS={weights!r}"
        )


def check_backend() -> None:
    """Refuses a backend that is not installed, before Keras is imported and fails at it; where KERAS_BACKEND
    names none, chooses the only one that is.

    Raises:
        UnknownNameError: KERAS_BACKEND is no backend.
        BackendError: the backend that Keras would import is not installed.
    """
    if "keras" in sys.modules:
        return
    named = os.environ.get("KERAS_BACKEND")
    backend = choose("KERAS_BACKEND", named or _configured_backend(), BACKENDS)
    if importlib.util.find_spec(backend) is not None:
        return
    installed = [other for other in TRAINING if importlib.util.find_spec(other)]
    if named or len(installed) != 1:
        rest = f"; installed: {', '.join(installed)}" if installed else ""
        raise BackendError(f"{INSTALL}. Received: {backend}, which is not installed{rest}")
    os.environ["KERAS_BACKEND"] = installed[0]  # the only one, where Keras' own choice would fail


def check_parquet() -> None:
    """Raises `BackendError` unless what writes .parquet files is installed."""
    if importlib.util.find_spec("pyarrow") is None:
        raise BackendError("A .parquet takes pip install pyarrow. Received: pyarrow, which is not installed")


def _configured_backend():
    """What Keras takes where KERAS_BACKEND names nothing."""
    file = as_path(os.environ.get("KERAS_HOME") or "~/.keras") / "keras.json"
    try:
        return json.loads(file.read_text("utf-8"))["backend"]
    except (OSError, ValueError, KeyError, TypeError):
        return "tensorflow"


def quiet_backends() -> None:
    """Keeps TensorFlow from logging. What fails in it reaches Python as an exception. A level that is set stays.

    Its warning of retracing goes too: it counts `predict` of all models as one function, and a run has more than five.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    logging.getLogger("tensorflow").addFilter(_is_no_retracing)


def _is_no_retracing(record: logging.LogRecord) -> bool:
    return "triggered tf.function retracing" not in str(record.msg)


@contextlib.contextmanager
def hushed():
    """Inside, what is written past Python to the standard error is held back, and let out only if an error is raised.

    TensorFlow logs while it is imported, whatever the level, and Keras imports it under other backends too: to set its
    seed, and for TensorBoard.
    """
    if sys.stderr is not None:
        sys.stderr.flush()
    with contextlib.ExitStack() as stack:
        try:
            held = stack.enter_context(tempfile.TemporaryFile())
            stderr = os.dup(2)
        except OSError:  # nowhere to hold it back, better shown than lost; or no standard error
            yield
            return
        os.dup2(held.fileno(), 2)
        try:
            yield
        except BaseException:
            held.seek(0)
            os.write(stderr, held.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


_CLOSED = {errno.EINVAL} if os.name == "nt" else set()  # beside BrokenPipeError


def is_closed_pipe(error: BaseException) -> bool:
    """Whether nobody reads the output any more: under Windows it is then an invalid argument."""
    told = isinstance(error, OSError) and error.filename is None and error.errno in _CLOSED
    return told or isinstance(error, BrokenPipeError)


def ends_quietly(main: Callable) -> Callable:
    """`main` of a program that says nothing when whoever reads its output stops (`| head -1`): it then returns 141."""

    @functools.wraps(main)
    def run(*arguments, **named):
        if sys.stderr is None:  # as under pythonw: errors would go to the standard output
            sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        try:
            try:
                return main(*arguments, **named)
            finally:  # here, for --help too: Python's own flush at the end of a process complains
                _flush()
        except OSError as error:
            if not is_closed_pipe(error):
                raise
            silence_closed()
            return 141

    return run


def _flush():
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        if is_closed_pipe(error):
            raise
        # The disk behind it is full.
        silence_closed()
        print(f"Standard output cannot be written ({error.strerror}).", file=sys.stderr)
        raise SystemExit(2) from error


def silence_closed() -> None:
    """Sends what is left of an output that nobody reads to nowhere, for Python flushes once more at its end."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def in_a_line(error: Exception, advice: str = "") -> str:
    """An error that the user can mend, without line breaks.

    Args:
        error: what was raised.
        advice: what to do about an error of the system, such as a full disk.
    """
    if isinstance(error, SSLZooError):
        message = f"{type(error).__name__}: {error}"
    elif isinstance(error, OSError):
        where = f" Received: '{error.filename}'" if error.filename else ""
        message = f"{type(error).__name__}: {error.strerror or error}. {advice}{where}"
    else:  # of Keras, or of what somebody's own module imports
        named = (getattr(error, "name", None) or "keras").partition(".")[0]
        message = f"{error}. {INSTALL}" if named in ("keras", *BACKENDS) else str(error)
    message = printable(" ".join(message.split()))
    return message if len(message) <= MOST_SHOWN else f"{message[: MOST_SHOWN // 2]} ... {message[-MOST_SHOWN // 2 :]}"


def import_keras_for(scripts: str) -> None:
    """Imports Keras; where it fails in a script of that folder, ends it with the one line that `sslzoo` would print."""
    ours = Path(getattr(sys.modules["__main__"], "__file__", None) or "").resolve().parent.name == scripts
    if ours:
        quiet_backends()
    try:
        check_environment()
        check_backend()
        with hushed() if ours else contextlib.nullcontext():
            import keras  # noqa: F401
    except (SSLZooError, ImportError) as error:
        if not ours:
            raise
        print(in_a_line(error), file=sys.stderr)
        sys.exit(2)
