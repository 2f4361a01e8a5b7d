"""A look at a file of weights before Keras opens it: whole, all in itself, and no larger than it seems.

HDF5 believes what a file says of itself. It opens other files that one links to, inflates a chunk to whatever is in it,
and reads behind the end of one that is too short. So every object is visited, and every compressed chunk inflated here.
"""

import io
import math
import zlib

import h5py
import numpy as np

from sslzoo.errors import ArtifactError
from sslzoo.files import refuse_pointer

MOST_PACKED = 8  # times that compression may shrink an array: a file must not claim more memory than is decent
_MOST_OBJECTS, _MOST_DEPTH = 20_000, 40  # groups, arrays and chunks; groups inside each other
_FILTERS = ([], [h5py.h5z.FILTER_DEFLATE], [h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_DEFLATE])


def check_weights(content: bytes, where: object = "") -> int:
    """How many numbers a file of weights holds.

    Args:
        content: of the HDF5 file.
        where: what messages call it.

    Raises:
        ArtifactError: it is damaged, leads out of itself, or claims more memory than it may.
    """
    refuse_pointer(content, where)
    tally = _Tally(len(content))
    try:
        with h5py.File(io.BytesIO(content), "r") as file:
            _visit(file, tally, 0)
    except ArtifactError as error:
        raise ArtifactError(f"{error} in the weights of '{where}'") from None
    except Exception as error:  # a damaged HDF5 file has many ways to fail
        raise ArtifactError(
            f"The weights cannot be read; the file is damaged or cut short ({error}). Received: weights of '{where}'"
        ) from error
    return tally.numbers


class _Tally:
    """What was met so far in a file of `size` bytes."""

    def __init__(self, size):
        self.size, self.objects, self.numbers, self.stored = size, 0, 0, 0
        self.addresses = set()

    def count(self, objects):
        self.objects += objects
        if self.objects > _MOST_OBJECTS:
            raise ArtifactError(f"Weights may have {_MOST_OBJECTS:,} arrays, groups and chunks. Received: more")

    def add(self, name, numbers, stored):
        self.numbers += numbers
        self.stored += stored
        if self.stored > self.size:
            raise ArtifactError(f"Weights must be in the file itself. Received: more bytes than it has, at {name!r},")


def _visit(group, tally, depth):
    tally.count(len(group))
    if depth > _MOST_DEPTH:
        raise ArtifactError(f"Weights may have {_MOST_DEPTH} groups inside each other. Received: more")
    for key in group:
        name = f"{group.name.rstrip('/')}/{key}"
        if not isinstance(group.get(key, getlink=True), h5py.HardLink):
            raise ArtifactError(f"Weights must be in the file itself, not elsewhere. Received: a link, {name!r},")
        item = group[key]
        address = h5py.h5o.get_info(item.id).addr
        if address in tally.addresses:  # each once, however many names it has
            continue
        tally.addresses.add(address)
        if isinstance(item, h5py.Group):
            _visit(item, tally, depth + 1)
        else:
            _check_array(name, item, tally)


def _check_array(name, item, tally):
    if not isinstance(item, h5py.Dataset) or item.shape is None or item.dtype.kind not in "fiub":
        raise ArtifactError(f"Weights must be arrays of numbers. Received: {name!r}")
    how = item.id.get_create_plist()
    if how.get_layout() == h5py.h5d.VIRTUAL or how.get_external_count():
        raise ArtifactError(f"Weights must be in the file itself, not elsewhere. Received: {name!r}")
    filters = [how.get_filter(n)[0] for n in range(how.get_nfilters())]
    if filters not in _FILTERS:
        raise ArtifactError(f"Weights may be packed by gzip, after shuffle, and nothing else. Received: {name!r}")
    numbers, stored = math.prod(item.shape), item.id.get_storage_size()
    if item.chunks is not None:
        _check_chunks(name, item, tally, h5py.h5z.FILTER_DEFLATE in filters)
    least = numbers * item.dtype.itemsize / (MOST_PACKED if filters else 1)
    if stored < least:
        raise ArtifactError(
            f"Weights must be in the file itself, and packed at most {MOST_PACKED} times. "
            f"Received: {numbers * item.dtype.itemsize:,} bytes in {stored:,}, {name!r},"
        )
    tally.add(name, numbers, stored)


def _check_chunks(name, item, tally, is_packed):
    """Each chunk must inflate to exactly its size: HDF5 itself reads and writes past the ends of others."""
    expected = int(np.prod(item.chunks, dtype="int64")) * item.dtype.itemsize
    if expected > MOST_PACKED * tally.size:
        raise ArtifactError(f"Chunks may not be larger than the file. Received: {expected:,} bytes, {name!r},")
    count = item.id.get_num_chunks()
    tally.count(count)
    for index in range(count):
        offset = item.id.get_chunk_info(index).chunk_offset
        mask, raw = item.id.read_direct_chunk(offset)
        if mask:
            raise ArtifactError(f"Each chunk must be packed as its array is. Received: a filter mask, {name!r},")
        size = len(zlib.decompressobj().decompress(raw, expected + 1)) if is_packed else len(raw)
        if size != expected:
            raise ArtifactError(f"A chunk must hold {expected:,} bytes. Received: another size, {name!r},")
