"""Files that are whole or not there: written beside and renamed, read with a clear error, compared by sha256."""

import hashlib
import importlib.util
import json
import os
import stat
import sys
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from sslzoo.errors import ArtifactError

try:
    import fcntl
except ImportError:  # Windows has no such locks: there, nothing keeps two processes apart
    fcntl = None

MOST_JSON = 2**22  # bytes of a JSON file that is read; a model of 500 layers takes a tenth of it
# What files end in that are given where names may stand, too. Names of models have dots in them, but none of these.
_ENDINGS = (".npz", ".npy", ".keras", ".h5", ".onnx", ".parquet", ".csv", ".json", ".zip", ".tar", ".gz", ".tgz")
_ENDINGS += (".png", ".jpg", ".jpeg", ".tif", ".tiff")


def as_path(path: "str | os.PathLike") -> Path:
    """The path that a user means: a `~` in front is the home folder. One that is nobody's is part of a name."""
    return Path(os.path.expanduser(path))


def is_named(value: object) -> bool:
    """Whether a data set or a model is given by a name or a path, and not as arrays or a model."""
    return isinstance(value, (str, os.PathLike))


def plain(number):
    """A number of NumPy as Python's, for JSON (`json.dumps(..., default=plain)`)."""
    if hasattr(number, "item"):
        return number.item()
    raise TypeError(f"Expected what JSON holds. Received: {number!r}")


def is_path(value: object) -> bool:
    """Whether what may be a name or a path can only be a path, there or not: `./mnist`, `mnist/`, `mnist.npz`."""
    if not isinstance(value, str):
        return isinstance(value, os.PathLike)
    separators = {"/", os.sep, os.altsep} - {None}
    return value.startswith((".", "~")) or value.lower().endswith(_ENDINGS) or any(each in value for each in separators)


def write_synced(path, content):
    """Write bytes to a file, or let a callable write to it, and wait until the disk has them."""
    with open(path, "wb") as file:
        if callable(content):
            content(file)
        else:
            file.write(content)
        file.flush()
        os.fsync(file.fileno())


def as_json(record: object, indent: "int | None" = 1) -> str:
    """JSON of numbers, NumPy's too, and texts as they are; raises ValueError of NaN and infinity."""
    return json.dumps(record, indent=indent, allow_nan=False, ensure_ascii=False, default=plain) + "\n"


def write_beside(path: "str | os.PathLike", content: "bytes | str | Callable") -> Path:
    """Writes a file so that it is, at any moment, either what it was before or whole and on the disk.

    What a link names is written, with the permissions it had; a pipe or a device is written to as it is.

    Args:
        path: where to; the folder exists.
        content: bytes; a text, in UTF-8, with escapes for the lone surrogates of names of files; or a callable that
            writes bytes to the open binary file it is given.

    Returns:
        The path.
    """
    content = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    place = Path(os.path.realpath(as_path(path)))  # a link stays one
    former = place.stat() if place.exists() else None
    if former is not None and not stat.S_ISREG(former.st_mode):  # a pipe or a device
        with open(place, "wb") as file:
            content(file) if callable(content) else file.write(content)
        return as_path(path)
    # Of the name only so much that a name as long as a folder may hold still leaves room for the rest.
    beside = place.with_name(f".{place.name[:40]}.{os.getpid()}.{threading.get_ident()}.part")
    try:
        write_synced(beside, content)
        if former is not None:
            os.chmod(beside, stat.S_IMODE(former.st_mode))
        move(beside, place)
    finally:
        beside.unlink(missing_ok=True)
    return as_path(path)


_TRIES = 20 if os.name == "nt" else 1


def move(source: "str | os.PathLike", target: "str | os.PathLike") -> None:
    """`os.replace`; under Windows, which refuses while another process holds one of the two, for two seconds: virus
    scanners and indexers open what is new for an instant."""
    for left in reversed(range(_TRIES)):
        try:
            return os.replace(source, target)
        except PermissionError:
            if not left:
                raise
            time.sleep(0.1)


_locks = {}  # (device, inode) of a folder -> open descriptor that holds its lock


def lock_folder(folder: "str | os.PathLike", wait: bool = False) -> bool:
    """Locks a folder against other processes, until `unlock_folder` or the end of this one, however it ends.

    The system's own lock (flock) on the folder itself: there is no file to be left behind. Where the system has none
    (Windows, some network drives), nothing is locked.

    Args:
        folder: one that exists.
        wait: whether to wait for another process that holds it.

    Returns:
        bool, whether the folder is this process' own now.
    """
    if fcntl is None:
        return True
    descriptor = os.open(folder, os.O_RDONLY)
    status = os.fstat(descriptor)
    key = (status.st_dev, status.st_ino)
    if key in _locks:
        os.close(descriptor)
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return False
    except OSError:  # a drive without locks
        os.close(descriptor)
        return True
    _locks[key] = descriptor
    return True


def unlock_folder(folder: "str | os.PathLike") -> None:
    """Gives a folder's lock back; none is no fault."""
    try:
        status = os.stat(folder)
    except OSError:
        return
    descriptor = _locks.pop((status.st_dev, status.st_ino), None)
    if descriptor is not None:
        os.close(descriptor)


_digests = {}
# A file that changed this short a time ago may change again within one tick of the file system's clock.
_SETTLED_NS = 2_000_000_000


def sha256(path: "str | os.PathLike") -> str:
    """Hash of a file's content, in hexadecimal; computed once a process for a file that does not change."""
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
        key = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        if key not in _digests:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            if time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) < _SETTLED_NS:
                return digest
            _digests[key] = digest
        return _digests[key]


def refuse_pointer(content: bytes, path: object) -> None:
    """Raise `ArtifactError` of what a clone without Git LFS has in place of a large file."""
    if content.startswith(b"version https://git-lfs"):
        raise ArtifactError(f"This is a pointer of Git LFS, fetch the file by `git lfs pull`. Received: '{path}'")


def open_npz(path: "str | os.PathLike"):
    """The open `.npz` file, whose arrays NumPy reads by name; of objects it reads none.

    Raises:
        OSError, ValueError, or another error of NumPy and zipfile: it is not an `.npz` file.
    """
    import numpy as np

    path = as_path(path)
    if path.is_file() and not zipfile.is_zipfile(path):  # which NumPy takes for a pickle, and says how to trust it
        raise ValueError("it is no zip archive of arrays, as np.savez writes it")
    return np.load(path, allow_pickle=False)


def module_at(path: Path) -> ModuleType:
    """Module of a Python file that is in no package, such as a recipe.

    Args:
        path: its file, `recipes/vae.py`; the module is called `recipes.vae`, after its folder too.
    """
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}.{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


def is_left_behind(name: str) -> bool:
    """Whether a file is what a process that was killed while it wrote left, or what macOS notes of a folder."""
    left = (".part", ".part.keras", ".partial", ".former")
    return name == ".DS_Store" or (name.startswith(".") and name.endswith(left))


def read_json(path: Path) -> object:
    """What a JSON file holds.

    Raises:
        ArtifactError: there is none, it is damaged, or larger than `MOST_JSON` bytes.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(MOST_JSON + 1)
        if len(content) > MOST_JSON:
            raise ValueError(f"larger than {MOST_JSON:,} bytes")
        return json.loads(content.decode("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ArtifactError(f"Expected a JSON file ({error}). Received: {str(path)!r}") from error
