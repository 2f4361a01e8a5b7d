"""Images that stay in their files: what a folder too large for memory is to the rest of the package."""

import contextlib
import ctypes
import functools
import hashlib
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from sslzoo.errors import InvalidInputError

_CHUNK = 256  # images read at once where all are gone through
_CGROUP = Path("/sys/fs/cgroup")
_OWN_GROUPS = Path("/proc/self/cgroup")
_LIMITS = (  # of control groups of version 2 and 1: folder, limit, use, and what of that is given back at once
    ("", "memory.max", "memory.current", "inactive_file"),
    ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


class StreamedImages:
    """Images (N, H, W, C) that are read from their files when they are asked for: an array in all that training needs.

    `images[rows]` reads, in several threads, and gives an array; rows are an int, a slice, or whole numbers of any
    shape. So order, batches and weights are those of the same images in memory.

    Example:
        import pathlib
        import tempfile

        import numpy as np
        from PIL import Image
        from sslzoo import data

        folder = pathlib.Path(tempfile.mkdtemp())
        for n in range(4):
            Image.fromarray(np.full((8, 8), n, "uint8")).save(folder / f"{n}.png")
        images, _ = data.load(folder, "train", stream=True)
        images.shape, images[[3, 1]].shape  # (4, 8, 8, 1), (2, 8, 8, 1)

    Args:
        files: what `read` takes, one for each image.
        read: callable, file -> array (H, W, C).
        shape: tuple (H, W, C).
        dtype: of its values.

    Attributes:
        shape: tuple (N, H, W, C).
        dtype: of their values.
        changed: set of the files that were others when they were read again.
        per_second: float, how many `each` read in a second, or None before it did.
    """

    ndim = 4

    def __init__(self, files: Sequence, read: Callable, shape: tuple[int, int, int], dtype: str = "uint8"):
        self.files, self.read, self.dtype = list(files), read, np.dtype(dtype)
        self.shape = (len(self.files), *shape)
        self._ahead = (None, None)  # rows that are being read, and what will be them
        self._stamps = {}  # file -> size and time of change, when it was first read
        self.changed = set()
        self.per_second = None

    def __len__(self) -> int:
        return len(self.files)

    @property
    def nbytes(self) -> int:
        """Bytes that they would take in memory."""
        return math.prod(self.shape) * self.dtype.itemsize

    def __getitem__(self, rows) -> np.ndarray:
        wanted = np.arange(len(self))[rows]
        known, future = self._ahead
        if known is not None and known.shape == wanted.shape and (known == wanted).all():
            self._ahead = (None, None)
            return future.result()
        return self._gather(wanted)

    def read_ahead(self, rows: np.ndarray) -> None:
        """Begins to read what will be asked for next, while something else is done."""
        self._ahead = (np.asarray(rows), self._background.submit(self._gather, np.asarray(rows)))

    def take(self, rows: Sequence[int]) -> "StreamedImages":
        """Those of some rows, read as these are."""
        part = StreamedImages([self.files[row] for row in rows], self.read, self.shape[1:], self.dtype)
        part._stamps, part.changed, part.per_second = self._stamps, self.changed, self.per_second
        return part

    def each(self, show: Callable[[int, int], None]) -> Iterator[tuple[int, np.ndarray | Exception]]:
        """Each row and its image, or the exception that reading it ended in; `show(done, total)` as it goes."""
        began = time.perf_counter()
        for start in range(0, len(self), _CHUNK):
            rows = range(start, min(start + _CHUNK, len(self)))
            yield from zip(rows, self._pool.map(self._try, rows))
            show(rows[-1] + 1, len(self))
        self.per_second = len(self) / (time.perf_counter() - began)

    @functools.cached_property
    def sha256(self) -> str:
        """Of the values of all images, as of the array that they would be in memory."""
        digest = hashlib.sha256()
        for start in range(0, len(self), _CHUNK):
            digest.update(self[start : start + _CHUNK].tobytes())
        return digest.hexdigest()

    def _gather(self, rows):
        out = np.empty((rows.size, *self.shape[1:]), self.dtype)
        for place, read in enumerate(self._pool.map(self._try, rows.ravel())):
            if isinstance(read, Exception):
                raise InvalidInputError(
                    f"An image that could be read when training began cannot be now ({read}). Bring it back, "
                    f"and begin again (a run: --resume). Received: '{self.files[rows.ravel()[place]]}'"
                )
            out[place] = read
        return out.reshape(*rows.shape, *self.shape[1:])

    def _try(self, row):
        """The image, or the exception: a bad one must not hide what the others are."""
        try:
            file = self.files[row]
            pixels, stamp = self.read(file), _stamp(file)
            if self._stamps.setdefault(file, stamp) != stamp:
                self.changed.add(file)
            if pixels.shape != self.shape[1:]:
                raise InvalidInputError(f"Expected the shape {self.shape[1:]}. Received: shape={pixels.shape}")
            return pixels
        except Exception as error:  # Pillow's decoders raise OSError, SyntaxError, ValueError, struct.error ...
            return error

    @functools.cached_property
    def _pool(self):
        return ThreadPoolExecutor(threads(), "sslzoo-images")

    @functools.cached_property
    def _background(self):
        return ThreadPoolExecutor(1, "sslzoo-next-batch")


def some(images: np.ndarray | StreamedImages, rows: np.ndarray) -> np.ndarray | StreamedImages:
    """Images of some rows (int, or bool (N,)): left in their files where they are there, else copied.

    Where a copy would take more than half of what memory is left, they are gathered as they are asked for.
    """
    rows = np.arange(len(images))[rows]
    if isinstance(images, StreamedImages):
        return images.take(rows)
    if images.ndim == 4 and len(rows) * images[:1].nbytes > available_memory() / 2:
        return StreamedImages(rows, images.__getitem__, images.shape[1:], images.dtype)
    return images[rows]


def _stamp(file):
    found = os.stat(file) if isinstance(file, (str, os.PathLike)) else None
    return found and (found.st_size, found.st_mtime_ns)


def threads() -> int:
    """How many read images at a time: decoding leaves Python's lock."""
    return min(16, (os.cpu_count() or 1) + 1)


def memory() -> float:
    """Bytes of memory that this process may take, of its machine or its container; endless where neither says."""
    return min(_machine()[0], _container()[0])


def available_memory() -> float:
    """Bytes of it that can be had without writing to disk; half of the machine's memory where it does not say."""
    return min(_machine()[1], _container()[1])


def _machine():
    """Bytes of this machine's memory, and those available."""
    if sys.platform == "win32":
        status = (ctypes.c_uint64 * 8)(64)  # MEMORYSTATUSEX: its own length, all memory, what is available, ...
        if ctypes.windll.kernel32.GlobalMemoryStatusEx(status):
            return float(status[1]), float(status[2])
    try:
        total = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        total = math.inf
    try:
        with open("/proc/meminfo") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return total, 1024.0 * int(line.split()[1])
    except (OSError, ValueError):
        pass
    return total, total / 2


def _container():
    """Bytes that Linux lets this process' container or job take, and those that are left; endless without a limit."""
    found = [(math.inf, math.inf)]
    for mount, limit, use, cache in _LIMITS:
        for group in _groups(_CGROUP / mount):
            try:
                most, used = (float(int((group / name).read_text())) for name in (limit, use))
                stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
                # Files that were read count as used until something else takes their place.
                found.append((most, min(most, max(0.0, most - used + int(stat.get(cache, 0))))))
            except (OSError, ValueError):  # not of this version, or "max": no limit
                continue
    return tuple(map(min, zip(*found)))


def _groups(root):
    """Folders of the control groups of this process below a mount point, and that itself: what a batch system allows a
    job stands in its own, where a container sees its own as the root."""
    with contextlib.suppress(OSError):
        for line in _OWN_GROUPS.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "" or "memory" in controllers.split(","):
                own = Path(path.lstrip("/"))
                yield from (root / each for each in reversed((own, *own.parents)) if each != Path())
    yield root
