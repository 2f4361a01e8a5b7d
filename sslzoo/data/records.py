"""A prepared TFDS data set of labelled images, read without TensorFlow.

TFDS writes TFRecord files of `tf.train.Example` messages. What sets for image classification need of both formats is
little: the framing of the records, and the two protobuf fields `image` (an encoded PNG or JPEG) and `label`.
"""

import io
import json
import os
import pathlib
import re
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from sslzoo import errors


def folder(name: str, data_dir: "str | os.PathLike") -> "pathlib.Path | None":
    """The newest prepared version of a set below a TFDS folder, or None."""
    found = pathlib.Path(data_dir, name).glob("*/dataset_info.json")
    versions = [path.parent for path in found if re.fullmatch(r"\d+\.\d+\.\d+", path.parent.name)]
    return max(versions, key=lambda path: [int(n) for n in path.name.split(".")], default=None)


def read(path: "str | os.PathLike", split: str) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels of a split, in the order of its files.

    Pixels are those of TensorFlow where images are PNG, as in all sets of `sslzoo.data.info` but celeb_a; of a JPEG,
    decoders differ by a level or two.

    Args:
        path: folder of a version ("mnist/3.0.1"), in the format "tfrecord".
        split: name of a split.

    Returns:
        images uint8 (N, H, W, C), labels int64 (N,).

    Raises:
        UnknownNameError: there is no such split.
        MissingDataError: a file is missing or damaged.
    """
    path = pathlib.Path(path)
    try:
        info = json.loads((path / "dataset_info.json").read_text("utf-8"))
        shards = {entry["name"]: [int(n) for n in entry["shardLengths"]] for entry in info["splits"]}
        lengths = shards[errors.choose("split", split, shards)]
        records = [
            record
            for i, length in enumerate(lengths)
            for record in _records(path / f"{info['name']}-{split}.tfrecord-{i:05d}-of-{len(lengths):05d}", length)
        ]
        with ThreadPoolExecutor() as pool:
            images, labels = zip(*pool.map(_example, records))
        images = np.stack(images)
    except errors.SSLZooError:
        raise
    except Exception as error:  # the system, zip, JSON, struct and Pillow each have their own
        raise errors.MissingDataError(
            f"The data set in {path} is damaged, or not of labelled images: prepare it again, or read it with "
            f"TensorFlow. Received: split={split!r} ({type(error).__name__}: {error})"
        ) from error
    return images if images.ndim == 4 else images[..., None], np.array(labels, "int64")


def _records(path, length) -> Iterator[bytes]:
    """Payloads of a TFRecord file: each is its length (8 bytes), a checksum (4), itself, and a checksum (4)."""
    count = 0
    with open(path, "rb") as file:
        while head := file.read(12):
            (size,) = struct.unpack("<Q", head[:8])
            payload = file.read(size)
            if len(payload) != size or len(file.read(4)) != 4:
                raise ValueError(f"{path.name} ends inside a record")
            count += 1
            yield payload
    if count != length:
        raise ValueError(f"{path.name}: {length} records announced, {count} found")


def _example(record):
    """tf.train.Example -> pixels, label. Example 1: features 1: map entries {key 1, value 2}."""
    from PIL import Image

    values = {}
    for _, entry in _fields(dict(_fields(record))[1]):
        entry = dict(_fields(entry))
        values[entry[1].decode()] = dict(_fields(entry[2]))
    encoded = dict(_fields(values["image"][1]))[1]  # bytes_list
    label = dict(_fields(values["label"][3]))[1]  # int64_list, packed or not
    with Image.open(io.BytesIO(encoded), formats=("JPEG", "PNG")) as image:
        return np.asarray(image), label if isinstance(label, int) else _varint(label, 0)[0]


def _fields(message):
    """A protobuf message as (field number, bytes or int), for the wire types that occur."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        if key & 7 == 2:
            size, at = _varint(message, at)
            yield key >> 3, message[at : at + size]
            at += size
        elif key & 7 == 0:
            value, at = _varint(message, at)
            yield key >> 3, value
        else:
            raise ValueError(f"unexpected wire type {key & 7}")


def _varint(data, at):
    """A number of seven bits a byte -> the number, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at
