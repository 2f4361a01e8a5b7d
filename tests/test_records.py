"""Prepared TFDS sets without TensorFlow: the bytes written by hand here, and those that TFDS writes."""

import importlib.util
import io
import json
import struct

import numpy as np
import pytest
from PIL import Image

from sslzoo import data, errors
from sslzoo.data import records, sources


def field(number, content):
    """One field of a protobuf message: bytes, or a number."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(value):
    low, rest = value & 127, value >> 7
    return bytes([low | 128]) + varint(rest) if rest else bytes([low])


def example(image, label, packed):
    png = io.BytesIO()
    Image.fromarray(image.squeeze()).save(png, "png")
    number = field(1, varint(label)) if packed else field(1, label)
    features = {b"label": field(3, number), b"image": field(1, field(1, png.getvalue())), b"id": field(1, b"")}
    return field(1, b"".join(field(1, field(1, key) + field(2, value)) for key, value in features.items()))


def prepare(root, images, labels, version="1.0.0", packed=True, shards=2):
    """A set "mnist" as TFDS lays it out, in a few files."""
    folder = root / "mnist" / version
    folder.mkdir(parents=True)
    lengths = []
    for shard, rows in enumerate(np.array_split(np.arange(len(images)), shards)):
        messages = [example(images[i], int(labels[i]), packed) for i in rows]
        framed = [struct.pack("<Q", len(m)) + b"\0" * 4 + m + b"\0" * 4 for m in messages]
        (folder / f"mnist-test.tfrecord-{shard:05d}-of-{shards:05d}").write_bytes(b"".join(framed))
        lengths.append(str(len(rows)))
    info = {"name": "mnist", "splits": [{"name": "test", "shardLengths": lengths}]}
    (folder / "dataset_info.json").write_text(json.dumps(info))
    return folder


def toy(channels=1):
    random = np.random.default_rng(0)
    return random.integers(0, 256, (7, 6, 5, channels), "uint8"), np.array([0, 3, 127, 128, 300, 1, 2])


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("channels", [1, 3])
def test_images_and_labels_come_back_in_the_order_of_the_files(channels, packed, tmp_path):
    images, labels = toy(channels)
    found = records.read(prepare(tmp_path, images, labels, packed=packed), "test")
    for array, expected, dtype in zip(found, (images, labels), ("uint8", "int64"), strict=True):
        assert array.dtype == dtype
        np.testing.assert_array_equal(array, expected)


def test_the_newest_version_is_read(tmp_path):
    images, labels = toy()
    assert records.folder("mnist", tmp_path) is None
    for version in ("3.0.1", "3.0.10", "2.9.9"):
        prepare(tmp_path, images, labels, version)
    (tmp_path / "mnist" / "3.0.11.incomplete").mkdir()
    assert records.folder("mnist", tmp_path).name == "3.0.10"


def test_damage_is_told(tmp_path):
    images, labels = toy()
    folder = prepare(tmp_path, images, labels)
    shard = folder / "mnist-test.tfrecord-00001-of-00002"
    whole = shard.read_bytes()
    for broken in (whole[:-9], whole[:-1], whole[: len(whole) // 2], b""):
        shard.write_bytes(broken)
        with pytest.raises(errors.MissingDataError, match=r"damaged.*Received: split='test'"):
            records.read(folder, "test")
    shard.unlink()
    with pytest.raises(errors.MissingDataError, match="damaged"):
        records.read(folder, "test")
    with pytest.raises(errors.UnknownNameError, match="'tset'"):
        records.read(folder, "tset")


def without_tensorflow(monkeypatch):
    def absent():
        raise ImportError("No module named 'tensorflow'")

    monkeypatch.setattr(sources, "import_tensorflow", absent)


def test_load_reads_them_where_tensorflow_is_missing(tmp_path, monkeypatch):
    images, labels = toy()
    without_tensorflow(monkeypatch)
    with pytest.raises(errors.MissingDataError, match=r"mnist.*not there; preparing it takes TensorFlow"):
        data.load("mnist", "test", data_dir=tmp_path)
    prepare(tmp_path, images, labels)
    found = data.load("mnist", "test", data_dir=tmp_path)
    np.testing.assert_array_equal(found[0], images)
    np.testing.assert_array_equal(found[1], labels)


@pytest.mark.skipif(importlib.util.find_spec("tensorflow_datasets") is None, reason="TFDS writes the reference")
@pytest.mark.parametrize("name", ["mnist", "cifar100"])
def test_what_tfds_writes(name, tmp_path):
    import tfds_sets

    given = tfds_sets.write(name, tmp_path, {"train": 9, "test": 4})
    for split, (images, labels) in given.items():
        found = records.read(records.folder(name, tmp_path), split)
        np.testing.assert_array_equal(found[0], images)
        np.testing.assert_array_equal(found[1], labels)
