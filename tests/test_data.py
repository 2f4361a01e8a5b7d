"""`sslzoo.data`: what `load` returns and refuses, and that the order of batches can be resumed exactly."""

import hashlib
import importlib.util
import io
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import textwrap
import zlib

import keras
import numpy as np
import pytest
import tfds_sets
from keras import ops
from PIL import Image, ImageOps, PngImagePlugin, features

import sslzoo
from sslzoo import data, errors, training
from sslzoo.data import image_files, inputs, streams, tiff
from sslzoo.data.__main__ import main
from sslzoo.data.batches import _Plan
from sslzoo.data.image_folder import held_out
from sslzoo.downstream import labeled
from sslzoo.evaluation import datasets
from sslzoo.views import Views

needs_tensorflow = pytest.mark.skipif(
    importlib.util.find_spec("tensorflow_datasets") is None, reason="needs TensorFlow and TFDS"
)


def toy(num_images=23, shape=(4, 4, 1)):
    """Images whose pixels spell their position in the set, and labels that do the same otherwise."""
    images = np.broadcast_to(np.arange(num_images, dtype="uint8")[:, None, None, None], (num_images, *shape))
    return np.array(images), 100 + np.arange(num_images)


def numpy(batch):
    return keras.tree.map_structure(np.asarray, batch)


# ---------------------------------------------------------------------------------------------------------------------
# Known sets


def test_digits_split_is_fixed_stratified_and_complete():
    images, labels = zip(*(data.load("digits", split) for split in ("train", "test")), strict=True)
    assert [x.shape for x in images] == [(1437, 8, 8, 1), (360, 8, 8, 1)]
    assert all(x.dtype == "uint8" and x.min() == 0 and x.max() == 255 for x in images)
    assert all(y.dtype == "int64" for y in labels)
    # Stratified: every class has its share of the 360, up to rounding.
    counts = np.bincount(np.concatenate(labels))
    np.testing.assert_allclose(np.bincount(labels[1]), counts * 360 / 1797, atol=1)
    # Complete and disjoint: together they are scikit-learn's images.
    from sklearn.datasets import load_digits

    original = load_digits()
    ours = np.concatenate(images)[..., 0]
    rows = {(image.tobytes(), label) for image, label in zip(ours, np.concatenate(labels), strict=True)}
    theirs = np.rint(original.images * 255 / 16).astype("uint8")
    assert rows == {(image.tobytes(), label) for image, label in zip(theirs, original.target, strict=True)}
    assert len(ours) == len(theirs) == len(rows)
    # Fixed: published figures depend on it.
    assert hashlib.sha256(images[1].tobytes() + labels[1].tobytes()).hexdigest()[:16] == "99ac20baf448e93e"


@needs_tensorflow
@pytest.mark.parametrize("name", ["mnist", "fashion_mnist", "cifar10", "cifar100", "svhn_cropped"])
def test_class_sets_are_read_from_tfds_files(name, tmp_path):
    sizes = {"train": 600, "test": 3} if name == "mnist" else {"train": 5, "test": 3}
    sizes |= {"extra": 2} if name == "svhn_cropped" else {}
    given = tfds_sets.write(name, tmp_path, sizes)
    for split, (images, labels) in given.items():
        read, read_labels = data.load(name, split, data_dir=tmp_path)
        assert read.dtype == "uint8" and read_labels.dtype == "int64"
        np.testing.assert_array_equal(read, images)
        np.testing.assert_array_equal(read_labels, labels)  # of cifar100 the fine ones
    assert read.shape[1:] == data.info(name).image_shape
    assert set(data.splits(name)) == set(sizes)


@needs_tensorflow
def test_celeb_a_is_cropped_resized_and_yields_attributes(tmp_path):
    given = tfds_sets.write("celeb_a", tmp_path, {"train": 4, "validation": 2, "test": 3})
    for split, (images, attributes) in given.items():
        read, labels = data.load("celeb_a", split, data_dir=tmp_path)
        assert read.dtype == "uint8" and read.shape == (len(images), 64, 64, 3)
        np.testing.assert_array_equal(labels, attributes)
        # Against Pillow: rows 20..198 of 218, and its antialiased bilinear resize. JPEG and rounding cost a few levels.
        expected = [Image.fromarray(image[20:198]).resize((64, 64), Image.Resampling.BILINEAR) for image in images]
        error = np.abs(read.astype("float64") - np.stack([np.asarray(image) for image in expected]))
        assert error.mean() < 1.5 and error.max() < 12
    assert data.CELEBA_ATTRIBUTES[20] == "Male" and list(data.CELEBA_ATTRIBUTES) == sorted(data.CELEBA_ATTRIBUTES)


def test_celeba_tasks():
    attributes = np.zeros((5, 40), "int64")
    attributes[[0, 3], 20] = 1  # male
    attributes[0, 9] = attributes[2, 17] = attributes[3, 4] = 1  # blond, gray, bald
    attributes[4, [8, 11]] = 1  # black and brown: out
    rows, labels = data.celeba_task(attributes, "gender")
    np.testing.assert_array_equal((rows, labels), ([0, 1, 2, 3, 4], [1, 0, 0, 1, 0]))
    rows, labels = data.celeba_task(attributes, "hair")
    np.testing.assert_array_equal((rows, labels), ([0, 2, 3], [2, 4, 0]))
    with pytest.raises(errors.UnknownNameError, match="hair"):
        data.celeba_task(attributes, "hairs")
    with pytest.raises(errors.InvalidInputError, match=r"\(5, 39\)"):
        data.celeba_task(attributes[:, 1:], "hair")


@needs_tensorflow
def test_data_dir_beats_the_environment(tmp_path, monkeypatch):
    here, there = tmp_path / "here", tmp_path / "there"
    for folder, seed in ((here, 0), (there, 1)):
        folder.mkdir()
        tfds_sets.write("mnist", folder, {"train": 2, "test": 2}, seed=seed)
    monkeypatch.setenv("TFDS_DATA_DIR", str(there))
    from_environment, _ = data.load("mnist", "train")
    from_argument, _ = data.load("mnist", "train", data_dir=here)
    assert (from_environment != from_argument).any()
    np.testing.assert_array_equal(data.load("mnist", "train", data_dir=str(there))[0], from_environment)


def test_known_set_is_read_from_an_exported_file_without_tensorflow(tmp_path, monkeypatch):
    images = np.random.default_rng(0).integers(0, 256, (3, 28, 28, 1), "uint8")
    np.savez(tmp_path / "mnist.npz", train_images=images, train_labels=[2, 0, 1])
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)  # importing it fails
    assert data.is_prepared("mnist", tmp_path) and not data.is_prepared("cifar10", tmp_path)
    read, labels = data.load("mnist", "train", data_dir=tmp_path)
    np.testing.assert_array_equal(read, images)
    assert labels.tolist() == [2, 0, 1] and labels.dtype == "int64"
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    np.testing.assert_array_equal(data.load("mnist", "train")[0], images)
    with pytest.raises(errors.UnknownNameError, match="test"):  # which the file lacks
        data.load("mnist", "test")
    with pytest.raises(errors.MissingDataError, match=f"put that file into {tmp_path}"):
        data.load("cifar10", "train")


@needs_tensorflow
def test_missing_set_says_what_was_looked_for(tmp_path, monkeypatch):
    with pytest.raises(errors.MissingDataError, match=r"nowhere, which does not exist[\s\S]*Received: data_dir="):
        data.load("mnist", "train", data_dir=tmp_path / "nowhere")
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "nowhere"))
    with pytest.raises(errors.MissingDataError, match="Received: TFDS_DATA_DIR="):
        data.load("mnist", "train")

    import requests

    def unreachable(*_, **__):
        raise requests.ConnectionError("no network")

    monkeypatch.setattr(requests, "head", unreachable)
    with pytest.raises(errors.MissingDataError) as caught:
        data.load("celeb_a", "train", data_dir=tmp_path)
    for part in (
        "'celeb_a' version 2.",
        str(tmp_path / "celeb_a"),
        "no network",
        "tensorflow_datasets",
        "TFDS_DATA_DIR",
    ):
        assert part in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@needs_tensorflow
def test_damaged_set_is_refused(tmp_path):
    tfds_sets.write("mnist", tmp_path, {"train": 20, "test": 2})
    (file,) = tmp_path.rglob("mnist-train.tfrecord*")
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(errors.MissingDataError, match="damaged"):
        data.load("mnist", "train", data_dir=tmp_path)


@needs_tensorflow
@pytest.mark.skipif(not os.environ.get("TFDS_DATA_DIR"), reason="TFDS_DATA_DIR is not set")
def test_real_fashion_mnist():
    if not pathlib.Path(os.environ["TFDS_DATA_DIR"], "fashion_mnist").is_dir():
        pytest.skip("no fashion_mnist in TFDS_DATA_DIR")
    images, labels = data.load("fashion_mnist", "train")
    assert images.shape == (60000, 28, 28, 1)
    assert round(images.mean(), 2) == 72.94
    np.testing.assert_array_equal(np.bincount(labels), 6000)


def test_info():
    info = data.info("celeb_a")
    assert (info.image_shape, info.num_classes, info.labels) == ((64, 64, 3), 40, "attributes")
    assert data.info("digits").splits == {"train": 1437, "test": 360}
    with pytest.raises(TypeError):
        data.info("digits").splits["train"] = 0
    with pytest.raises(errors.UnknownNameError, match="fashion_mnist"):
        data.info("fashion-mnist")


def test_what_classes_show():
    for known in (data.info(name) for name in ("fashion_mnist", "cifar10")):
        assert len(set(known.class_names)) == known.num_classes
    assert data.info("fashion_mnist").class_names[5] == "sandal" and data.info("cifar10").class_names[9] == "truck"
    assert data.class_names("cifar10", np.array([9, 3, 3])) == ["cat", "truck"]
    for name, labels in (
        ("mnist", [0, 1]),
        ("my-photos", [0, 1]),
        ("cifar10", [0, 10]),
        ("cifar10", [-1]),
        ("cifar10", []),
    ):
        assert data.class_names(name, np.array(labels, "int64")) is None


# ---------------------------------------------------------------------------------------------------------------------
# Names


def test_unknown_names():
    with pytest.raises(errors.UnknownNameError, match="Did you mean 'cifar10'"):
        data.load("cifar-10", "train")
    with pytest.raises(errors.UnknownNameError, match=r"Did you mean 'train'[\s\S]*Received: split='trian'"):
        data.load("digits", "trian")
    with pytest.raises(errors.UnknownNameError, match="validation"):
        data.load("mnist", "validation", data_dir="not even looked at")
    with pytest.raises(errors.InvalidInputError, match="name=3"):
        data.load(3, "train")


@pytest.mark.parametrize("name", ["some/folder", "set.npz", pathlib.Path("folder")])
def test_missing_paths(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(errors.MissingDataError, match="found nothing"):
        data.load(name, "train")


def test_known_name_wins_over_a_folder(tmp_path, monkeypatch):
    (tmp_path / "digits").mkdir()
    Image.new("L", (5, 5)).save(tmp_path / "digits" / "a.png")
    monkeypatch.chdir(tmp_path)
    assert data.load("digits", "train")[0].shape == (1437, 8, 8, 1)
    assert data.load("./digits", "train")[0].shape == (1, 5, 5, 1)


# ---------------------------------------------------------------------------------------------------------------------
# .npz


def test_npz_naming_rules(tmp_path):
    images, labels = toy()
    file = tmp_path / "set.npz"

    np.savez(file, train_images=images, train_labels=labels, test_images=images[:5], other=labels)
    assert data.splits(file) == ("train", "test")
    read, read_labels = data.load(file, "train")
    np.testing.assert_array_equal(read, images)
    np.testing.assert_array_equal(read_labels, labels)
    assert data.load(str(file), "test")[1] is None
    with pytest.raises(errors.UnknownNameError, match="Expected one of test, train"):
        data.load(file, "validation")

    np.savez(file, x_train=images, y_train=labels[:, None].astype("uint8"), x_test=images, y_test=labels[:, None])
    read, read_labels = data.load(file, "train")
    assert read_labels.shape == (23,) and read_labels.dtype == "int64"

    np.savez(file, x_train=images[..., 0], y_train=labels)  # as Keras' mnist.npz
    np.testing.assert_array_equal(data.load(file, "train")[0], images[..., :1])

    np.savez(file, images=images.astype("float64"))
    read, read_labels = data.load(file, "train")
    assert data.splits(file) == ("train",) and read.dtype == "float32" and read_labels is None


@pytest.mark.parametrize("content", [b"", b"no zip file", "object", "truncated", "keys"])
def test_bad_npz(content, tmp_path):
    file = tmp_path / "set.npz"
    if content == "object":
        np.savez(file, images=np.array([{}, {}], dtype=object))
    elif content == "truncated":
        np.savez(file, images=toy()[0])
        content = file.read_bytes()[:-200]
    elif content == "keys":
        np.savez(file, pictures=toy()[0])
    if isinstance(content, bytes):
        file.write_bytes(content)
    with pytest.raises(errors.InvalidInputError, match=r"set\.npz"):
        data.load(file, "train")


def test_npz_with_bad_arrays_names_file_and_split(tmp_path):
    np.savez(tmp_path / "set.npz", test_images=toy()[0][..., 0])
    with pytest.raises(errors.InvalidInputError, match=r"set\.npz, split 'test'[\s\S]*\[\.\.\., None\]"):
        data.load(tmp_path / "set.npz", "test")


@pytest.mark.parametrize(
    "images, message",
    [
        (np.zeros((3, 4, 4), "uint8"), r"images\[\.\.\., None\][\s\S]*shape=\(3, 4, 4\)"),
        (np.zeros((3, 4, 4, 1, 1), "uint8"), r"\(N, H, W, C\)\."),
        (np.zeros((3, 3, 4, 4), "uint8"), "channels last"),
        (np.zeros((3, 12, 32, 32), "uint16"), "channels last"),
        (np.zeros((3, 8, 8, 1), "int16"), r"astype\('float32'\)"),
        (np.zeros((3, 4, 4, 33), "uint8"), "1 to 32 channels"),
        (np.zeros((0, 4, 4, 1), "uint8"), "at least one image"),
        (np.zeros((3, 4, 4, 1), "int32"), "dtype=int32"),
        (np.zeros((3, 4, 4, 1), bool), "dtype=bool"),
        (np.full((3, 4, 4, 1), np.inf), r"finite images\. Received: range"),
        (np.full((3, 4, 4, 1), np.nan), "nan"),
        (np.full((3, 4, 4, 1), 1.0), "scaled to 0..1"),
    ],
)
def test_check_refuses_images(images, message):
    with pytest.raises(errors.InvalidInputError, match=message):
        data.check(images)


@pytest.mark.parametrize(
    "labels, message",
    [
        (np.zeros(3), r"astype\(\"int64\"\)\. Received: labels of shape \(3,\), float64"),
        (np.array(["a", "b", "c"]), "integers; of names"),
        (np.zeros((3, 2, 2), "int64"), r"shape \(3, 2, 2\)"),
        (np.zeros(4, "int64"), "one label for each row of the 3"),
        (np.array([0, -1, 2]), "integers >= 0"),
        (np.array([[0, 1], [1, 0], [2, 0]]), "0 and 1.*values 0, 1, 2"),
        (np.zeros((3, 0), "int64"), r"shape \(3, 0\)"),
    ],
)
def test_check_refuses_labels(labels, message):
    with pytest.raises(errors.InvalidInputError, match=message):
        data.check(np.zeros((3, 4, 4, 1), "uint8"), labels)


# ---------------------------------------------------------------------------------------------------------------------
# Folders of images


def save(folder, name, value, size=(6, 5), mode="L"):
    """An image of one value, `size` = (width, height)."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, value).save(path)
    return path


def test_plain_folder_is_sorted_and_unlabeled(tmp_path):
    for name, value in {"b/x.png": 20, "a.png": 10, "b/a.PNG": 15, ".hidden/z.png": 99, "c.bmp": 30}.items():
        save(tmp_path, name, value)
    (tmp_path / "notes.txt").write_text("not an image")
    images, labels = data.load(tmp_path, "train")
    assert labels is None and images.shape == (4, 5, 6, 1) and images.dtype == "uint8"
    assert images[:, 0, 0, 0].tolist() == [10, 15, 20, 30]
    assert data.splits(tmp_path) == ("train",)
    with pytest.raises(errors.UnknownNameError, match="split='test'"):
        data.load(tmp_path, "test")


def test_folder_with_splits_and_classes(tmp_path):
    names = ["train/cat/1.png", "train/dog/2.png", "train/dog/deep/3.png", "test/dog/4.png", "validation/5.png"]
    for value, name in enumerate(names, start=1):
        save(tmp_path, name, value)
    assert data.splits(tmp_path) == ("train", "validation", "test")
    images, labels = data.load(tmp_path, "train")
    assert images[:, 0, 0, 0].tolist() == [1, 2, 3] and labels.tolist() == [0, 1, 1] and labels.dtype == "int64"
    assert data.load(tmp_path, "test")[1].tolist() == [1]  # a dog is a dog, also where there are no cats
    assert data.load(tmp_path, "validation")[1] is None
    save(tmp_path, "train/stray.png", 0)
    assert data.load(tmp_path, "train")[1] is None


def test_one_color_image_makes_a_color_set(tmp_path):
    save(tmp_path, "a.png", 7)
    save(tmp_path, "b.png", (1, 2, 3), mode="RGB")
    save(tmp_path, "c.png", (4, 5, 6, 255), mode="RGBA")
    images, _ = data.load(tmp_path, "train")
    assert images[:, 0, 0].tolist() == [[7, 7, 7], [1, 2, 3], [4, 5, 6]]


def test_photographs_are_turned_upright(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # stored lying on its side
    Image.new("L", (6, 5), 9).save(tmp_path / "a.jpg", exif=exif)
    assert data.load(tmp_path, "train")[0].shape == (1, 6, 5, 1)


@pytest.mark.parametrize("ending", ["jpg", "tif", "png", "webp"])
@pytest.mark.parametrize("orientation", range(1, 10))
def test_images_of_any_orientation_are_upright(tmp_path, ending, orientation):
    """As Pillow itself turns them; their sizes are known before their pixels are."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    pixels = np.random.default_rng(0).integers(0, 256, (20, 30, 3)).astype("uint8")
    path = tmp_path / f"a.{ending}"
    Image.fromarray(pixels).save(path, exif=exif)
    with Image.open(path) as image:
        image.load()
        upright = np.asarray(ImageOps.exif_transpose(image))
    assert upright.shape == ((30, 20, 3) if 5 <= orientation <= 8 else (20, 30, 3))
    np.testing.assert_array_equal(data.load(tmp_path, "train")[0][0], upright)
    assert image_files.Head.of_file(path).size == upright.shape[1::-1]


def test_a_turn_is_found_where_it_is_written(tmp_path):
    """In the XMP of a PNG; and beside a tag that is not what it should be, which no pixel depends on."""
    xmp = '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description tiff:Orientation="6"/></x:xmpmeta>'
    note = PngImagePlugin.PngInfo()
    note.add_itxt("XML:com.adobe.xmp", xmp)
    Image.new("RGB", (30, 20)).save(tmp_path / "a.png", pnginfo=note)
    tags = [(0x0112, 3, 1, struct.pack("<HH", 6, 0)), (0x0213, 7, 1, b"\1\0\0\0")]  # the second should be a number
    entries = b"".join(struct.pack("<HHI4s", *tag) for tag in tags)
    exif = b"Exif\0\0II*\0" + struct.pack("<IH", 8, len(tags)) + entries + bytes(4)
    Image.new("RGB", (30, 20)).save(tmp_path / "b.jpg", exif=exif)
    assert data.load(tmp_path, "train")[0].shape == (2, 30, 20, 3)


def behind_the_pixels(path):
    """Moves what a PNG says beside its pixels behind them, as exiftool and ImageMagick write it."""
    content, chunks, place = path.read_bytes(), [], 8
    while place < len(content):
        end = place + 12 + int.from_bytes(content[place : place + 4])
        chunks.append(content[place:end])
        place = end
    late = [chunk for chunk in chunks if chunk[4:8] in (b"eXIf", b"iTXt", b"zTXt", b"tEXt")]
    assert late
    rest = [chunk for chunk in chunks if chunk not in late]
    path.write_bytes(content[:8] + b"".join([*rest[:-1], *late, rest[-1]]))


@pytest.mark.parametrize("kind", ["eXIf", "XMP", "raw profile", "note"])
def test_a_turn_is_found_behind_the_pixels_of_a_png(tmp_path, kind):
    exif, note, path = Image.Exif(), PngImagePlugin.PngInfo(), tmp_path / "a.png"
    exif[0x0112] = 6
    if kind == "XMP":
        xmp = '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description tiff:Orientation="6"/></x:xmpmeta>'
        note.add_itxt("XML:com.adobe.xmp", xmp)
    elif kind == "raw profile":
        content = exif.tobytes()
        note.add_text("Raw profile type exif", f"\nexif\n{len(content):8}\n{content.hex()}\n", zip=True)
    elif kind == "note":
        note.add_text("date:create", "2020-01-01")
    pixels = np.random.default_rng(0).integers(0, 256, (20, 30, 3)).astype("uint8")
    for late in (False, True):
        Image.fromarray(pixels).save(path, pnginfo=note, **({"exif": exif} if kind == "eXIf" else {}))
        if late:
            behind_the_pixels(path)
        expected = pixels if kind == "note" else np.rot90(pixels, -1)
        assert image_files.Head.of_file(path).size == expected.shape[1::-1], late
        np.testing.assert_array_equal(data.load(tmp_path, "train")[0][0], expected)


@pytest.mark.parametrize("ending", ["jpg", "png", "webp"])
def test_an_image_with_damaged_exif_is_whole(tmp_path, ending):
    Image.new("RGB", (30, 20), (9, 9, 9)).save(tmp_path / f"a.{ending}", exif=b"Exif\0\0hello world this is")
    assert data.load(tmp_path, "train")[0].shape == (1, 20, 30, 3)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("zero", ["minisblack", "miniswhite"])
def test_deep_tiff_files_are_seen_as_those_of_eight_bits(tmp_path, orientation, zero):
    """Upright, and dark where they are dark: Pillow reads those of 8 bits, tifffile those of 16."""
    tifffile = pytest.importorskip("tifffile")
    pixels = np.random.default_rng(0).integers(0, 256, (20, 30)).astype("uint8")
    how = {"photometric": zero, "extratags": [(0x0112, "H", 1, orientation, True)]}
    seen = {}
    for bits, values in ((8, pixels), (16, pixels.astype("uint16") * 257)):
        (tmp_path / str(bits)).mkdir()
        tifffile.imwrite(tmp_path / str(bits) / "a.tif", values, **how)
        seen[bits] = [data.load(tmp_path / str(bits), "train", image_size=size)[0] for size in (None, 10)]
    for few, many in zip(seen[8], seen[16]):
        assert many.dtype == np.uint16 and few.shape == many.shape
        np.testing.assert_allclose(many / 257, few, atol=1)  # of 8 bits each step of the resizing is rounded


def test_sizes_must_agree_or_be_made_to(tmp_path):
    save(tmp_path, "a.png", 1)
    odd = save(tmp_path, "b.png", 2, size=(9, 7))
    with pytest.raises(errors.InvalidInputError) as caught:
        data.load(tmp_path, "train")
    for part in (str(odd), "7 x 9", "5 x 6", "image_size"):
        assert part in str(caught.value)
    assert data.load(tmp_path, "train", image_size=4)[0].shape == (2, 4, 4, 1)
    with pytest.raises(errors.InvalidInputError, match="image_size=0"):
        data.load(tmp_path, "train", image_size=0)
    with pytest.raises(errors.InvalidInputError, match="image_size=4"):
        data.load("digits", "train", image_size=4)


def test_image_size_crops_the_center(tmp_path):
    pixels = np.zeros((8, 16), "uint8")
    pixels[:, 4:8], pixels[:, 8:12], pixels[:, 12:] = 100, 200, 50
    Image.fromarray(pixels).save(tmp_path / "a.png")
    images, _ = data.load(tmp_path, "train", image_size=8)
    np.testing.assert_array_equal(images[0, ..., 0], pixels[:, 4:12])
    # Antialiased: a checkerboard comes out gray, not black or white.
    Image.fromarray((np.indices((32, 32)).sum(axis=0) % 2 * 255).astype("uint8")).save(tmp_path / "a.png")
    images, _ = data.load(tmp_path, "train", image_size=8)
    assert images.min() > 120 and images.max() < 136


def test_unreadable_images_are_named(tmp_path):
    good = save(tmp_path, "a.png", 1, size=(40, 40))
    bad = tmp_path / "b.png"
    for content in (b"", b"no image", good.read_bytes()[:60]):
        bad.write_bytes(content)
        with pytest.raises(errors.InvalidInputError, match=r"b\.png"):
            data.load(tmp_path, "train")
    Image.fromarray(np.zeros((40, 40), "uint16")).save(bad)
    with pytest.raises(errors.InvalidInputError, match=r"b\.png[\s\S]*8 bits"):
        data.load(tmp_path, "train")


def test_all_unreadable_images_are_told_at_once_or_left_out(tmp_path):
    """Those without a head, and those whose head looks well and whose rest is missing."""
    for n in range(5):
        save(tmp_path, f"good{n}.png", 10 * n, size=(40, 40))
    (tmp_path / "empty.png").write_bytes(b"")
    whole = np.random.default_rng(0).integers(0, 256, (40, 40)).astype("uint8")
    Image.fromarray(whole).save(tmp_path / "short.png")
    (tmp_path / "short.png").write_bytes((tmp_path / "short.png").read_bytes()[:900])
    with pytest.raises(errors.InvalidInputError, match="2 of 7 images cannot be read") as caught:
        data.load(tmp_path, "train")
    assert "empty.png" in str(caught.value) and "short.png" in str(caught.value) and "--on-error" in str(caught.value)
    remarks = []
    images, _ = data.load(tmp_path, "train", on_error="skip", remarks=remarks)
    assert images[:, 0, 0, 0].tolist() == [0, 10, 20, 30, 40]
    assert len(remarks) == 1 and "2 of 7" in remarks[0] and "short.png" in remarks[0]
    for good in tmp_path.glob("good*"):
        good.unlink()
    with pytest.raises(errors.InvalidInputError, match="2 of 2"):
        data.load(tmp_path, "train", on_error="skip")  # nothing would be left


def test_a_size_is_chosen_where_images_differ_and_said(tmp_path):
    save(tmp_path, "train/a.png", 1, size=(30, 20))
    save(tmp_path, "train/b.png", 2, size=(40, 50))
    save(tmp_path, "test/c.png", 3, size=(24, 90))
    for split, count in (("train", 2), ("test", 1)):  # one size for all splits
        remarks = []
        assert data.load(tmp_path, split, image_size="auto", remarks=remarks)[0].shape == (count, 24, 24, 1)
        assert "20 to 40 pixels" in remarks[0] and "24 x 24" in remarks[0]
    save(tmp_path, "train/d.png", 4, size=(500, 400))
    save(tmp_path, "train/e.png", 5, size=(500, 400))
    save(tmp_path, "train/f.png", 6, size=(500, 400))
    assert data.load(tmp_path, "test", image_size="auto")[0].shape == (1, 64, 64, 1)
    for split in ("train", "test"):
        for file in (tmp_path / split).iterdir():
            file.unlink()
        save(tmp_path, f"{split}/a.png", 1, size=(90, 80))
    remarks = []
    assert data.load(tmp_path, "train", image_size="auto", remarks=remarks)[0].shape == (1, 80, 90, 1) and not remarks
    assert data.load("digits", "test", image_size="auto")[0].shape == (360, 8, 8, 1)


def test_the_size_of_a_camera_is_not_kept(tmp_path):
    for size, kept in [((320, 257), (64, 64)), ((320, 256), (256, 320))]:
        for n in range(3):
            save(tmp_path, f"{n}.png", n, size=size)
        images, _, remarks = remarks_of(tmp_path, image_size="auto")
        assert images.shape == (3, *kept, 1) and len(remarks) == (kept == (64, 64))
    assert data.load(tmp_path, "train")[0].shape == (3, 256, 320, 1)  # None: their own size, whatever it is


def test_folders_as_classes_with_a_share_held_out(tmp_path):
    for name, count in (("cat", 10), ("dog", 5), ("eel", 2)):
        for n in range(count):
            save(tmp_path, f"{name}/{n}.png", {"cat": 0, "dog": 100, "eel": 200}[name] + n)
    assert data.class_folders(tmp_path) == ["cat", "dog", "eel"]
    assert data.load(tmp_path, "train")[1] is None  # only where it is asked for
    options = {"labels": "folders", "test_share": 0.2}
    train, test = (data.load(tmp_path, split, **options) for split in ("train", "test"))
    assert np.bincount(test[1]).tolist() == [2, 1, 1] and np.bincount(train[1]).tolist() == [8, 4, 1]
    values = [set(images[:, 0, 0, 0].tolist()) for images, _ in (train, test)]
    assert not values[0] & values[1] and len(values[0] | values[1]) == 17
    for images, labels in (train, test):
        np.testing.assert_array_equal(images[:, 0, 0, 0] // 100, labels)
    np.testing.assert_array_equal(data.load(tmp_path, "test", **options)[0], test[0])
    assert len(data.load(tmp_path, "train", labels="folders")[1]) == 17

    for options, message in (
        ({"test_share": 0.2}, "needs labels"),
        ({"labels": "folders", "test_share": 1.0}, "less than 1"),
        ({"labels": "folder"}, "Did you mean 'folders'"),
    ):
        with pytest.raises(errors.SSLZooError, match=message):
            data.load(tmp_path, "train", **options)
    with pytest.raises(errors.SSLZooError, match="folder of images"):
        data.load("digits", "train", labels="folders")
    save(tmp_path, "loose.png", 1)
    assert data.class_folders(tmp_path) == []
    with pytest.raises(errors.InvalidInputError, match=r"loose\.png"):
        data.load(tmp_path, "train", labels="folders")


def deep_png(color, channels):
    """A PNG of 16 bits a channel, 4 x 4."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 4, 4, 16, color, 0, 0, 0))
    rows = zlib.compress(4 * (b"\0" + bytes(range(8 * channels))))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def flat_png(side):
    content = io.BytesIO()
    Image.new("1", (side, side)).save(content, "PNG")
    return content.getvalue()


POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 16 16\n%%EndComments\n%%EOF\n"
REFUSED_IMAGES = {  # what -> content of a file called b.png, what the error says
    "PostScript": (POSTSCRIPT, "cannot be read"),
    "PDF": (b"%PDF-1.4\n", "cannot be read"),
    "16-bit color": (deep_png(2, 3), "8 bits per channel"),
    "16-bit color with transparency": (deep_png(6, 4), "8 bits per channel"),
    "16-bit gray with transparency": (deep_png(4, 2), "8 bits per channel"),
    "16-bit PPM": (b"P6 4 4 65535\n" + bytes(96), "8 bits per channel"),
    "too many pixels": (flat_png(12_000), "at most 134,217,728 pixels"),
}


@pytest.mark.parametrize("what", REFUSED_IMAGES)
def test_files_that_are_no_images_for_us_are_refused(tmp_path, monkeypatch, what):
    content, message = REFUSED_IMAGES[what]
    called = tmp_path / "called"
    gs = tmp_path / "bin" / "gs"
    gs.parent.mkdir()
    gs.write_text(f"#!/bin/sh\ntouch '{called}'\n")
    gs.chmod(0o755)
    monkeypatch.setenv("PATH", f"{gs.parent}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "imgs").mkdir()
    Image.new("L", (4, 4)).save(tmp_path / "imgs" / "a.png")
    (tmp_path / "imgs" / "b.png").write_bytes(content)
    with pytest.raises(errors.InvalidInputError, match=message) as caught:
        data.load(tmp_path / "imgs", "train")
    assert "b.png" in str(caught.value) and not called.exists()
    with pytest.raises(errors.InvalidInputError, match=message):
        inputs.source_of([tmp_path / "imgs"], None).read(1)
    assert not called.exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no such files")
def test_pipes_and_folders_called_png_are_no_images(tmp_path):
    Image.new("L", (4, 4)).save(tmp_path / "a.png")
    os.mkfifo(tmp_path / "b.png")
    (tmp_path / "c.png").mkdir()
    (tmp_path / "d.png").symlink_to("/dev/zero")
    assert data.load(tmp_path, "train")[0].shape == (1, 4, 4, 1)
    assert len(inputs.source_of([tmp_path], None)) == 1
    with pytest.raises(errors.MissingDataError, match="no such folder or file"):
        inputs.source_of([tmp_path / "b.png"], None)


def test_a_folder_that_would_not_fit_the_memory_is_refused_before_it_is_taken(tmp_path, monkeypatch):
    Image.new("L", (100, 100)).save(tmp_path / "0.png")
    for n in range(1, 20):
        (tmp_path / f"{n}.png").symlink_to("0.png")
    monkeypatch.setattr(streams, "memory", lambda: 150_000)
    with pytest.raises(errors.InvalidInputError, match=r"fit the memory.*20 images of shape \(100, 100, 1\)"):
        data.load(tmp_path, "train")
    assert data.load(tmp_path, "train", image_size=50)[0].shape == (20, 50, 50, 1)
    for size in (0, 10**6, 2.5):
        with pytest.raises(errors.InvalidInputError, match="a size in pixels, from 1 to 16384"):
            data.load(tmp_path, "train", image_size=size)


def test_labels_do_not_wrap():
    images = np.zeros((2, 4, 4, 1), "uint8")
    with pytest.raises(errors.InvalidInputError, match="would become negative"):
        data.check(images, np.array([0, 2**63], "uint64"))
    np.testing.assert_array_equal(data.check(images, np.array([0, 2**63 - 1], "uint64"))[1], [0, 2**63 - 1])


def test_folder_without_images(tmp_path):
    with pytest.raises(errors.MissingDataError, match=r"found none"):
        data.load(tmp_path, "train")
    (tmp_path / "a.zip").write_bytes(b"PK")
    with pytest.raises(errors.InvalidInputError, match=r"a\.zip"):
        data.load(tmp_path / "a.zip", "train")


# ---------------------------------------------------------------------------------------------------------------------
# Order


def stamp(images, training, seed):
    """Views that show what they were given: the image, and the two numbers of the seed beside it."""
    assert training is True and seed.shape == (2,) and seed.dtype == "int32"
    if isinstance(images, np.ndarray):
        return np.stack([images.astype("float32"), np.zeros(images.shape, "float32") + seed[0] + seed[1] / 256], axis=1)
    import tensorflow as tf

    seed = tf.cast(seed, tf.float32)
    return tf.stack([tf.cast(images, tf.float32), tf.zeros(tf.shape(images)) + seed[0] + seed[1] / 256], axis=1)


def from_pipeline(images, labels, batch_size, take=None, **options):
    dataset = data.pipeline((images, labels), None, batch_size, **options)
    return [numpy(batch) for batch in (dataset if take is None else dataset.take(take))]


def from_batches(images, labels, batch_size, take=None, **options):
    batches = data.Batches(images, labels, batch_size, **options)
    return [numpy(batch) for batch in (batches if take is None else map(batches.__getitem__, range(take)))]


SOURCES = [pytest.param(from_pipeline, marks=needs_tensorflow), from_batches]


@pytest.mark.parametrize("source", SOURCES)
def test_an_epoch_is_a_permutation_of_images_with_their_labels(source):
    images, labels = toy()
    batches = source(images, labels, 5, with_index=True, seed=3)
    assert len(batches) == 4  # 3 images are left over
    for x, y in batches:
        assert x["images"].shape == (5, 4, 4, 1) and x["images"].dtype == "uint8"
        assert x["index"].dtype == "int32" and y.dtype == "int64"
        np.testing.assert_array_equal(x["images"][:, 0, 0, 0], x["index"])
        np.testing.assert_array_equal(y, 100 + x["index"])
    index = np.concatenate([x["index"] for x, _ in batches])
    np.testing.assert_array_equal(index, data.epoch_order(23, 3, 0)[:20])
    assert len(set(index.tolist())) == 20 and index.tolist() != sorted(index)


@pytest.mark.parametrize("source", SOURCES)
def test_structures(source):
    images, labels = toy()
    (batch,) = source(images, None, 23, seed=0)
    assert isinstance(batch, tuple) and len(batch) == 1 and batch[0].shape == (23, 4, 4, 1)
    (batch,) = source(images, None, 23, seed=0, with_index=True)
    assert len(batch) == 1 and set(batch[0]) == {"images", "index"}
    batches = source(images, labels, 10, shuffle=False, drop_remainder=False)
    assert [len(y) for _, y in batches] == [10, 10, 3]
    np.testing.assert_array_equal(np.concatenate([y for _, y in batches]), labels)
    attributes = np.eye(23, dtype="int64")
    assert source(images, attributes, 7)[0][1].shape == (7, 23)


@pytest.mark.parametrize("source", SOURCES)
def test_resumed_order_and_views_equal_the_uninterrupted_ones(source):
    images, labels = toy()
    common = {"batch_size": 5, "views": stamp, "with_index": True, "seed": 7, "repeat": True}
    whole = source(images, labels, take=12, **common)  # epochs 0, 1 and 2
    first = source(images, labels, take=8, **common)
    rest = source(images, labels, take=4, start_epoch=2, **common)
    for a, b in zip(whole, first + rest, strict=True):
        keras.tree.map_structure(np.testing.assert_array_equal, a, b)
    # The views of each step are drawn from (seed, step) ...
    np.testing.assert_array_equal([x["images"][0, 1, 0, 0, 0] for x, _ in whole], 7 + np.arange(12) / 256)
    # ... and each epoch has its own order.
    orders = np.reshape([x["index"] for x, _ in whole], (3, 20))
    for epoch, order in enumerate(orders):
        np.testing.assert_array_equal(order, data.epoch_order(23, 7, epoch)[:20])
    assert (orders[0] != orders[1]).any() and (orders[1] != orders[2]).any()
    # Without `repeat`, one epoch of the same.
    once = source(images, labels, start_epoch=2, **{**common, "repeat": False})
    for a, b in zip(whole[8:], once, strict=True):
        keras.tree.map_structure(np.testing.assert_array_equal, a, b)


@needs_tensorflow
def test_random_views_are_resumed_too():
    images = np.random.default_rng(0).integers(0, 256, (12, 28, 28, 1)).astype("uint8")
    two_views = Views("simvae-mnist", num_views=2, seed=0)
    common = {"batch_size": 4, "views": two_views, "seed": 7, "repeat": True}
    whole = from_pipeline(images, None, take=7, **common)
    two_views(images)  # moves the state of the layer, which must not matter
    rest = from_pipeline(images, None, take=4, start_epoch=1, **common)
    for (a,), (b,) in zip(whole[3:], rest, strict=True):
        assert a.shape == (4, 2, 28, 28, 1) and a.dtype == "float32"
        np.testing.assert_array_equal(a, b)
    assert (whole[0][0][:, 0] != whole[0][0][:, 1]).any()


def test_an_order_has_64_bits_where_numbers_have_32(monkeypatch):
    """NumPy 1 under Windows; TensorFlow was told int64."""
    real = np.arange
    monkeypatch.setattr(np, "arange", lambda *range_, dtype="int32": real(*range_, dtype=dtype))
    assert np.random.default_rng(0).permutation(4).dtype == "int32"
    assert data.epoch_order(10, 0, 0).dtype == "int64"
    plan = _Plan(np.zeros((4, 8, 8, 1), "uint8"), None, 2, 0, False, 0, True)
    assert plan.order(0).dtype == "int64"


def test_epoch_order_is_frozen():
    """A resumed run relies on it, across versions of NumPy."""
    assert data.epoch_order(10, 0, 0).tolist() == [4, 6, 2, 7, 3, 5, 9, 0, 8, 1]
    assert data.epoch_order(10, 0, 1).tolist() == [9, 1, 3, 8, 7, 6, 0, 4, 2, 5]
    assert data.epoch_order(10, 1, 0).tolist() == [8, 4, 7, 0, 1, 2, 5, 9, 6, 3]


def test_seed_none_draws_a_seed_once():
    images, labels = toy()
    one, other = (data.Batches(images, labels, 5) for _ in range(2))
    assert one.seed != other.seed
    np.testing.assert_array_equal(one[0][1], one[0][1])
    np.testing.assert_array_equal(one[0][1], data.Batches(images, labels, 5, seed=one.seed)[0][1])


@needs_tensorflow
def test_pipeline_states_its_length_and_shapes():
    images, labels = toy()
    once, forever = (data.pipeline((images, labels), None, 5, repeat=repeat) for repeat in (False, True))
    assert int(once.cardinality()) == 4 and int(forever.cardinality()) == -1
    assert once.element_spec[0].shape == (5, 4, 4, 1)  # static, for compiled steps
    assert len([*once]) == len([*once]) == 4


@needs_tensorflow
def test_pipeline_takes_names(tmp_path):
    ((x, y),) = [numpy(batch) for batch in data.pipeline("digits", "test", 360, shuffle=False)]
    np.testing.assert_array_equal(x, data.load("digits", "test")[0])
    np.testing.assert_array_equal(y, data.load("digits", "test")[1])
    given = tfds_sets.write("svhn_cropped", tmp_path, {"train": 5, "test": 2})
    ((x, _),) = [numpy(b) for b in data.pipeline("svhn_cropped", "train", 5, shuffle=False, data_dir=tmp_path)]
    np.testing.assert_array_equal(x, given["train"][0])


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(
    "options, message",
    [
        ({"batch_size": 24}, "smaller than one batch[\\s\\S]*at most 23"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"batch_size": 2.0}, "batch_size=2.0"),
        ({"batch_size": 5, "start_epoch": -1}, "start_epoch=-1"),
        ({"batch_size": 5, "seed": -1}, "seed=-1"),
        ({"batch_size": 5, "seed": 2**31}, "seed=2147483648"),
        ({"batch_size": 5, "seed": 0.5}, "seed=0.5"),
    ],
)
def test_arguments_out_of_range(source, options, message):
    with pytest.raises(errors.InvalidInputError, match=message):
        source(*toy(), **options)


@pytest.mark.parametrize("source", SOURCES)
def test_bad_arrays_are_refused_before_the_first_batch(source):
    with pytest.raises(errors.InvalidInputError, match="shape"):
        source(toy()[0][..., 0], None, 5)


# ---------------------------------------------------------------------------------------------------------------------
# Order inside `fit`


class Recorder(keras.Model):
    """Trains a little, and remembers the indices of each training batch in the order in which they came."""

    def __init__(self, steps, batch_size):
        super().__init__()
        self.output_layer = keras.layers.Dense(1, kernel_initializer="ones")
        self.seen = self.add_weight(shape=(steps, batch_size), dtype="int32", initializer="zeros", trainable=False)
        self.step = self.add_weight(shape=(), dtype="int32", initializer="zeros", trainable=False)

    def call(self, x, training=False):
        if training:
            step = ops.convert_to_tensor(self.step)
            here = ops.arange(self.seen.shape[0], dtype="int32")[:, None] == step
            seen = ops.where(here, ops.cast(x["index"], "int32")[None], ops.convert_to_tensor(self.seen))
            self.seen.assign(seen)
            self.step.assign(step + 1)
        return self.output_layer(ops.reshape(ops.cast(x["images"], "float32") / 255, (-1, 16)))

    @classmethod
    def trained(cls, epochs, steps, batches_of, start_epochs=(0,), **fit):
        """Train to `epochs`, each of `start_epochs` in a `fit` of its own; return it and what it saw, in rows."""
        keras.utils.set_random_seed(0)
        model = cls(steps * epochs, 5)
        for start, end in zip(start_epochs, [*start_epochs[1:], epochs], strict=True):
            # Compiled anew, as in a new process: Keras then also looks at a batch to build the metrics.
            model.compile(optimizer=keras.optimizers.SGD(1e-3), loss="mse", metrics=["mae"])
            model.fit(batches_of(start), initial_epoch=start, epochs=end, verbose=0, **fit)
        return ops.convert_to_numpy(model.seen), [ops.convert_to_numpy(w) for w in model.trainable_variables]


def expected_rows(epochs, steps=4):
    return np.concatenate([data.epoch_order(23, 7, epoch)[: 5 * steps].reshape(steps, 5) for epoch in range(epochs)])


def endless_pipeline(start):
    return data.pipeline((*toy(),), None, 5, with_index=True, seed=7, repeat=True, start_epoch=start)


def endless_batches(start):
    return data.Batches(*toy(), 5, with_index=True, seed=7, repeat=True, start_epoch=start)


def batches(start):
    return data.Batches(*toy(), 5, with_index=True, seed=7, start_epoch=start)


@pytest.mark.parametrize(
    "source, fit",
    [
        pytest.param(endless_pipeline, {"steps_per_epoch": 4, "shuffle": False}, marks=needs_tensorflow),
        (endless_batches, {"steps_per_epoch": 4, "shuffle": False}),
        (batches, {"shuffle": False}),
        (batches, {"steps_per_epoch": 4, "shuffle": False}),
    ],
)
def test_fit_sees_the_epochs_in_order_and_resumes_exactly(source, fit):
    seen, weights = Recorder.trained(4, 4, source, **fit)
    np.testing.assert_array_equal(seen, expected_rows(4))
    resumed, resumed_weights = Recorder.trained(4, 4, source, start_epochs=(0, 2), **fit)
    np.testing.assert_array_equal(resumed, seen)
    for a, b in zip(weights, resumed_weights, strict=True):
        np.testing.assert_array_equal(a, b)


def test_endless_batches_allow_epochs_of_any_length():
    # 6 steps make a keras epoch, 4 a pass through the data: 2 of the one are 3 of the other.
    seen, _ = Recorder.trained(2, 6, endless_batches, steps_per_epoch=6, shuffle=False)
    np.testing.assert_array_equal(seen, expected_rows(3))


def test_the_same_batches_go_on_in_a_later_fit():
    one = batches(0)
    seen, _ = Recorder.trained(3, 4, lambda start: one, start_epochs=(0, 1), shuffle=False)
    np.testing.assert_array_equal(seen, expected_rows(3))
    assert one.epoch == 3
    np.testing.assert_array_equal(one[0][0]["index"], data.epoch_order(23, 7, 3)[:5])


def test_short_keras_epochs_continue_the_pass_through_the_data():
    one = batches(0)
    seen, _ = Recorder.trained(4, 2, lambda start: one, steps_per_epoch=2, shuffle=False)
    np.testing.assert_array_equal(seen, expected_rows(2))
    assert one.epoch == 2


def test_fit_that_shuffles_is_warned_and_sees_each_epoch_once():
    images, _ = toy(100)
    one = data.Batches(images, np.zeros(100, "int64"), 5, with_index=True, seed=7)
    with pytest.warns(UserWarning, match="Pass shuffle=False"):
        seen, _ = Recorder.trained(2, 20, lambda start: one)
    for epoch in range(2):
        rows, ours = seen[20 * epoch : 20 * epoch + 20], data.epoch_order(100, 7, epoch).reshape(20, 5)
        assert sorted(rows.tolist()) == sorted(ours.tolist())
    assert one.epoch == 2


def test_an_interrupted_epoch_is_begun_again():
    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 1:
                raise KeyboardInterrupt

    images, _ = toy(200)
    one = data.Batches(images, np.zeros(200, "int64"), 5, with_index=True, seed=7)
    model = Recorder(42, 5)
    model.compile(optimizer="sgd", loss="mse")
    with pytest.raises(KeyboardInterrupt):
        model.fit(one, callbacks=[Stop()], verbose=0, shuffle=False)
    assert one.epoch == 0
    model.fit(one, verbose=0, shuffle=False)
    assert one.epoch == 1
    order = data.epoch_order(200, 7, 0).reshape(40, 5)
    np.testing.assert_array_equal(ops.convert_to_numpy(model.seen), np.concatenate([order[:2], order]))


def test_batches_outside_fit():
    one = batches(0)
    assert len(one) == 4 and len(list(one)) == 4 and one.num_batches == 4
    np.testing.assert_array_equal(one[3][0]["index"], expected_rows(1)[3])
    with pytest.raises(IndexError, match="position=4"):
        one[4]


# ---------------------------------------------------------------------------------------------------------------------
# Without TensorFlow, and a set as a file


@pytest.mark.slow
def test_without_tensorflow(tmp_path):
    """In a process where TensorFlow cannot be imported, under a backend that does without it."""
    backends = [name for name in (keras.config.backend(), "jax", "torch") if name in ("jax", "torch")]
    backend = next((name for name in backends if importlib.util.find_spec(name)), None)
    if backend is None:
        pytest.skip("needs the JAX or the PyTorch backend")
    np.savez(tmp_path / "set.npz", images=toy()[0])
    save(tmp_path, "a.png", 3)
    program = f"""
        import sys
        from importlib.machinery import PathFinder

        class WithoutTensorFlow(PathFinder):
            @classmethod
            def find_spec(cls, name, path=None, target=None):
                hidden = name.partition(".")[0] in ("tensorflow", "tensorflow_datasets")
                return None if hidden else super().find_spec(name, path, target)

        sys.meta_path[sys.meta_path.index(PathFinder)] = WithoutTensorFlow
        import keras
        import pytest
        from sslzoo import data, errors

        images, labels = data.load("digits", "train")
        assert data.load({str(tmp_path / "set.npz")!r}, "train")[0].shape == (23, 4, 4, 1)
        assert data.load({str(tmp_path)!r}, "train")[0].shape == (1, 5, 6, 1)
        with pytest.raises(errors.MissingDataError, match="python -m sslzoo.data mnist -o mnist.npz"):
            data.load("mnist", "train", data_dir={str(tmp_path)!r})
        with pytest.raises(ImportError, match="sslzoo.data.Batches"):
            data.pipeline((images, labels), None, 10)
        model = keras.Sequential([keras.layers.Rescaling(1 / 255), keras.layers.Flatten(), keras.layers.Dense(10)])
        model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)
        history = model.fit(data.Batches(images, labels, 100), epochs=2, verbose=0, shuffle=False)
        assert len(history.history["loss"]) == 2
        print("done under", keras.config.backend())
    """
    root = pathlib.Path(data.__file__).parents[2]
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=root,
        env={**os.environ, "KERAS_BACKEND": backend},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.stdout.strip() == f"done under {backend}", result.stderr


def test_export_and_command_line(tmp_path, capsys):
    file = tmp_path / "digits.npz"
    assert main(["digits", "-o", str(file)]) == 0
    assert "train_images: uint8 (1437, 8, 8, 1)" in capsys.readouterr().out
    for split in ("train", "test"):
        for exported, original in zip(data.load(file, split), data.load("digits", split), strict=True):
            np.testing.assert_array_equal(exported, original)
    assert main(["digits", "test", "-o", str(file)]) == 0
    assert data.splits(file) == ("test",)

    assert main(["digits", "tset", "-o", str(tmp_path / "no.npz")]) == 2
    assert "Did you mean 'test'" in capsys.readouterr().err
    assert main(["digits", "-o", str(tmp_path / "nowhere" / "no.npz")]) == 2
    assert main(["digits", "-o", str(tmp_path / "no.zip")]) == 2
    assert list(tmp_path.iterdir()) == [file]


@needs_tensorflow
def test_export_of_a_tfds_set_and_of_a_folder(tmp_path):
    given = tfds_sets.write("mnist", tmp_path, {"train": 5, "test": 3})
    file = data.export("mnist", tmp_path / "mnist.npz", data_dir=tmp_path)
    for split, (images, labels) in given.items():
        np.testing.assert_array_equal(data.load(file, split)[0], images)
        np.testing.assert_array_equal(data.load(file, split)[1], labels)
    (tmp_path / "pictures").mkdir()
    save(tmp_path / "pictures", "a.png", 3, size=(10, 12))
    data.export(tmp_path / "pictures", tmp_path / "p.npz", image_size=8)
    assert data.load(tmp_path / "p.npz", "train")[0].shape == (1, 8, 8, 1)


# ---------------------------------------------------------------------------------------------------------------------
# Every entry of a folder is used or named, and one odd file does not change the rest


def remarks_of(folder, split="train", **options):
    remarks = []
    return *data.load(folder, split, remarks=remarks, **options), remarks


def test_every_entry_of_a_folder_is_used_or_counted(tmp_path):
    for name in ("a.jpg", "b.jfif", "c.jpe"):
        save(tmp_path, name, 9)
    for name in ("d.RAW", "e.raw", "f.psd", "g", ".DS_Store", "deep/h.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "none").mkdir()
    (tmp_path / "back").symlink_to(tmp_path)
    images, _, remarks = remarks_of(tmp_path)
    assert (
        len(images) == 3 and len(remarks) == 1 and remarks[0].startswith("8 entries of the folder were passed over: ")
    )
    for what in ("2 .raw", "1 .psd", "1 without suffix", "1 hidden", "1 .txt", "1 empty folder", "1 linked folder"):
        assert what in remarks[0]
    assert inputs.source_of(tmp_path).remarks() == inputs.source_of([tmp_path]).remarks() == remarks
    for image in tmp_path.glob("*.j*"):
        image.unlink()
    with pytest.raises(errors.MissingDataError, match=r"found none \(8 entries"):
        data.load(tmp_path, "train")


@pytest.mark.parametrize("name", ["a.heic", "a.HEIF", "a.avif", "a.jpg"])
def test_photographs_of_phones_are_read(tmp_path, name):
    """HEIC by pillow-heif, under its own suffix or that of a JPEG; AVIF by Pillow itself."""
    pytest.importorskip("pillow_heif").register_heif_opener()
    left = np.full((48, 32, 3), 40, "uint8")
    left[:, :16] = (220, 30, 30)
    kind = "AVIF" if name.endswith("avif") else "HEIF"
    if kind == "AVIF" and not features.check("avif"):
        pytest.skip("this Pillow reads no AVIF")
    Image.fromarray(left).save(tmp_path / name, format=kind, quality=95)
    images, _ = data.load(tmp_path, "train", image_size=32)
    assert images.shape == (1, 32, 32, 3)
    assert np.abs(images[0, 16, [4, 28]].astype(int) - [(220, 30, 30), (40, 40, 40)]).max() < 16


def test_photographs_of_phones_name_the_package_they_need(tmp_path, monkeypatch):
    monkeypatch.setattr(image_files, "_formats", lambda: image_files.IMAGE_FORMATS[:7])
    save(tmp_path, "a.png", 9)
    (tmp_path / "b.heic").write_bytes(b"\0\0\0\x1cftypheic")
    with pytest.raises(errors.InvalidInputError, match=r"b\.heic \(.*pip install pillow-heif"):
        data.load(tmp_path, "train")


def test_large_photographs_are_decoded_no_larger_than_needed(tmp_path):
    random = np.random.default_rng(0)
    smooth = Image.fromarray(random.integers(0, 256, (30, 40, 3), "uint8")).resize(
        (1200, 900), Image.Resampling.BICUBIC
    )
    Image.fromarray((np.asarray(smooth) + random.integers(-9, 10, (900, 1200, 3))).clip(0, 255).astype("uint8")).save(
        tmp_path / "large.jpg", quality=90
    )
    turned = smooth.getexif()
    turned[image_files.ORIENTATION] = 6
    smooth.save(tmp_path / "turned.jpg", quality=90, exif=turned)
    with image_files.open_image(tmp_path / "large.jpg", 32) as image:
        assert image.size == (300, 225)  # a quarter; an eighth would be less than four times 32
    with image_files.open_image(tmp_path / "large.jpg", 300) as image:
        assert image.size == (1200, 900)
    read, _ = data.load(tmp_path, "train", image_size=32)
    whole = [image_files.decode(Image.open(tmp_path / name)) for name in ("large.jpg", "turned.jpg")]
    for pixels, image in zip(read, whole):
        apart = np.abs(pixels.astype(int) - image_files.fitted(image, (32, 32), 3))
        assert apart.max() <= 2 and apart.mean() < 0.3
    source = inputs.source_of(tmp_path)
    assert [read().size for read in source.each(range(2), 32)] == [(300, 225), (225, 300)]


def test_a_class_with_the_name_of_a_split_is_no_split(tmp_path):
    for name in ("bus/1.png", "car/2.png", "train/3.png"):
        save(tmp_path, name, 1)
    for options in ({}, {"labels": "folders"}, {"labels": "folders", "test_share": 0.2}):
        with pytest.raises(errors.InvalidInputError, match=r"splits \(train\), and images .* beside them \(bus, car\)"):
            data.load(tmp_path, "train", **options)
    with pytest.raises(errors.InvalidInputError, match="give those of splits other names"):
        inputs.source_of(tmp_path)


def test_paths_come_in_whatever_holds_them(tmp_path):
    save(tmp_path, "1.png", 1)
    save(tmp_path, "2.png", 2)
    paths = sorted(map(str, tmp_path.glob("*.png")))
    for held in (np.array(paths), np.array(paths, object), iter(paths), tuple(paths), dict.fromkeys(paths)):
        source = inputs.source_of(held)
        assert [source.name(row) for row in (0, 1)] == paths
    assert len(inputs.source_of(tmp_path.glob("*.png"))) == 2
    with pytest.raises(errors.InvalidInputError, match="all files, or all in memory"):
        inputs.source_of([paths[0], np.zeros((8, 8, 1), "uint8")])


def test_what_lies_beside_the_splits_is_counted(tmp_path):
    for name in ("train/cat/1.png", "train/dog/2.png", "test/cat/3.png", "extra/4.png", "5.png"):
        save(tmp_path, name, 1)
    images, labels, remarks = remarks_of(tmp_path)
    assert len(images) == 2 and labels.tolist() == [0, 1]
    assert remarks == ["2 entries of the folder were passed over: 2 beside the splits."]
    save(tmp_path, "train/stray.png", 1)
    assert "No labels: 1 of 3 images of 'train' lie beside the folders of classes." in remarks_of(tmp_path)[2]
    with pytest.raises(errors.InvalidInputError, match=r"stray\.png"):
        data.load(tmp_path, "train", labels="folders")
    assert data.load(tmp_path, "test", labels="folders")[1].tolist() == [0]


def test_a_folder_of_classes_says_how_images_are_held_out(tmp_path):
    for name in ("cat/1.png", "dog/2.png"):
        save(tmp_path, name, 1)
    with pytest.raises(
        errors.UnknownNameError, match=r"look like classes \(cat, dog\): pass labels='folders', test_share"
    ):
        data.load(tmp_path, "test")


def test_splits_go_by_the_names_that_people_give_them(tmp_path):
    for name in ("Training/cat/1.png", "Training/dog/2.png", "val/cat/3.png", "testing/cat/4.png"):
        save(tmp_path, name, int(name[-5]))
    assert data.splits(tmp_path) == ("train", "validation", "test")
    assert [data.load(tmp_path, split)[0][:, 0, 0, 0].tolist() for split in data.splits(tmp_path)] == [[1, 2], [3], [4]]
    save(tmp_path, "valid/cat/5.png", 5)
    with pytest.raises(errors.InvalidInputError, match=r"two are 'validation'\. Received: val, valid in"):
        data.splits(tmp_path)
    save(tmp_path / "classes", "dev/1.png", 1)  # without training images it is a folder like any other
    assert data.splits(tmp_path / "classes") == ("train",)


def test_transparent_images_are_laid_on_a_ground(tmp_path):
    """Black icons of different outlines were one black image."""
    rng = np.random.default_rng(0)
    shapes = rng.integers(0, 2, (4, 6, 5), "uint8") * 255
    for n, shape in enumerate(shapes):
        Image.fromarray(np.stack([*np.zeros((3, 6, 5), "uint8"), shape], axis=-1)).save(tmp_path / f"{n}.png")
    images, _, remarks = remarks_of(tmp_path)
    np.testing.assert_array_equal(images, np.repeat(255 - shapes[..., None], 3, axis=-1))
    assert remarks == ["4 of 4 images have a transparency channel and were laid on a ground (background)."]
    assert inputs.source_of(tmp_path).read(0).getpixel((0, 0)) == tuple(images[0, 0, 0])
    images, _ = data.load(tmp_path, "train", background="#0a0b0c")
    assert set(map(tuple, images.reshape(-1, 3).tolist())) == {(10, 11, 12), (0, 0, 0)}
    with pytest.raises(errors.InvalidInputError, match="background='whit'"):
        data.load(tmp_path, "train", background="whit")


@pytest.mark.parametrize("mode, value", [("LA", (0, 0)), ("P", 0), ("L", 0), ("RGB", (0, 0, 0))])
def test_every_kind_of_transparency_shows_the_ground(tmp_path, mode, value):
    image = Image.new(mode, (4, 4), value)
    image.save(tmp_path / "a.png", **({} if mode == "LA" else {"transparency": value}))
    assert (data.load(tmp_path, "train")[0] == 255).all()


def test_of_several_frames_the_first_is_read_and_the_remark_says_so(tmp_path):
    frames = [Image.new("L", (6, 5), value) for value in (10, 200, 90)]
    for name in ("a.gif", "b.tif"):
        frames[0].save(tmp_path / name, save_all=True, append_images=frames[1:])
    save(tmp_path, "c.png", 10)
    images, _, remarks = remarks_of(tmp_path)
    assert images[:, 0, 0, 0].tolist() == [10, 10, 10]
    assert "2 of 3 images have several frames or pages, of which the first was read." in remarks


def test_sizes_are_compared_once_upright(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    for n in range(4):
        lying = n % 2
        image = Image.new("L", (16, 24) if lying else (24, 16), 9)
        image.save(tmp_path / f"{n}.jpg", **({"exif": exif} if lying else {}))
    for size in (None, "auto"):
        images, _, remarks = remarks_of(tmp_path, image_size=size)
        assert images.shape == (4, 16, 24, 1) and remarks == []


def test_one_odd_size_does_not_crop_all(tmp_path):
    for n in range(19):
        save(tmp_path, f"{n}.png", n, size=(24, 16))
    save(tmp_path, "odd.png", 99, size=(30, 30))
    images, _, remarks = remarks_of(tmp_path, image_size="auto")
    assert images.shape == (20, 16, 24, 1) and remarks[0].startswith(
        "1 of 20 images were cropped and resized to the size"
    )
    with pytest.raises(errors.InvalidInputError, match=r"Expected one size.*odd\.png|odd\.png.*Expected one size"):
        data.load(tmp_path, "train")


def test_one_color_image_is_said(tmp_path):
    save(tmp_path, "train/a.png", 7)
    save(tmp_path, "test/b.png", (1, 2, 3), mode="RGB")
    images, _, remarks = remarks_of(tmp_path)
    assert images.shape[-1] == 3  # of all splits, which one encoder sees
    assert "1 of 2 images are gray and were read as color, as the others are." in remarks


def test_a_class_of_one_image_stays_in_training(tmp_path):
    for name, count in (("cat", 10), ("dog", 10), ("rare", 1)):
        for n in range(count):
            save(tmp_path, f"{name}/{n}.png", n)
    for share in (0.2, 0.99):
        options = {"labels": "folders", "test_share": share}
        (_, train, remarks), (_, test, _) = (remarks_of(tmp_path, split, **options) for split in ("train", "test"))
        assert set(test) == {0, 1} and set(train) == {0, 1, 2} and len(train) + len(test) == 21
        assert remarks == ["Classes of one image, which stays in training: rare."]


def test_many_classes_of_one_image_are_counted(tmp_path):
    for n in range(600):
        save(tmp_path, f"{n:03}{'x' * 30}/0.png", 1)
    for n in range(5):
        save(tmp_path, f"many/{n}.png", 1)
    folder = data.ImageFolder(tmp_path, "folders", 0.2)
    assert len(folder.remarks("train")[0]) < 300 and "(600 in all)" in folder.remarks("train")[0]


def by_evaluate(folder):
    _, (train, _), (test, _), _ = datasets.read(folder, None, None, (5, 6, 1), on_error="fail")
    return train, test


def by_finetune(folder):
    read = labeled.read(folder, (None, None, None))
    return read.train_images, read.test_images


def by_a_recipe(folder):
    words = ["--dataset", str(folder), "--labels", "folders", "--test-share", "0.2", "--out", f"{folder}-run"]
    run = training.Run("simclr", {}, argv=[*words, "--batch-size", "8"])
    return run.images, run.examples.test_images


@pytest.mark.parametrize("read", [by_evaluate, by_finetune, by_a_recipe])
def test_a_file_that_comes_meanwhile_moves_none_between_the_splits(read, tmp_path, monkeypatch):
    for n in range(80):
        save(tmp_path / "d", f"{'ab'[n % 2]}/{n:02}.png", n)
    load = data.ImageFolder.load

    def load_and_add(folder, split, *options):
        found = load(folder, split, *options)
        save(tmp_path / "d", f"a/0{split}.png", 255)
        return found

    monkeypatch.setattr(data.ImageFolder, "load", load_and_add)
    train, test = ({int(image.flat[0]) for image in images} for images in read(tmp_path / "d"))
    assert len(train) == 64 and len(test) == 16 and not train & test


def test_embed_and_load_see_the_same_classes(tmp_path):
    for name in ("cat/1.png", "dog/2.png", "dog/3.png"):
        save(tmp_path, name, 1)
    assert inputs.source_of(tmp_path).labels is None
    source = inputs.source_of(tmp_path, labels="folders")
    np.testing.assert_array_equal(source.labels, data.load(tmp_path, "train", labels="folders")[1])
    assert source.classes == data.ImageFolder(tmp_path).class_folders == ["cat", "dog"]
    with pytest.raises(errors.InvalidInputError, match="labels='folders'"):
        inputs.source_of([tmp_path / "cat", tmp_path / "dog"], labels="folders")


# ----------------------------------------------------------------------------------------------------------------------
# Any channels, any depth


def deep(count=40, channels=4):
    return np.random.default_rng(0).integers(200, 5000, (count, 8, 8, channels)).astype("uint16")


def test_deep_images_of_many_channels_come_as_they_are(tmp_path):
    np.savez(tmp_path / "deep.npz", train_images=deep(), test_images=-deep(4).astype("float64"))
    images, _ = data.load(tmp_path / "deep.npz", "train")
    np.testing.assert_array_equal(images, deep())
    assert images.dtype == "uint16" and data.load(tmp_path / "deep.npz", "test")[0].dtype == "float32"
    batch, *_ = data.Batches(images, None, 8, shuffle=False)
    np.testing.assert_array_equal(batch[0], images[:8])


def test_the_range_of_values_leaves_hot_pixels_out():
    images = deep(500)
    images[0, 0, 0] = 65535
    low, high = data.value_range(images)
    assert 200 <= low < 210 and 4990 < high < 5000
    assert data.value_range(np.zeros((2, 8, 8, 3), "uint8")) == (0, 255)
    assert data.value_range(np.full((2, 8, 8, 1), 200.0, "float32")) == (0, 255)
    with pytest.raises(errors.InvalidInputError, match="more than one value"):
        data.value_range(np.full((2, 8, 8, 1), 300.0, "float32"))


def test_deep_images_are_resized_as_they_are_read_and_keep_their_channels():
    for images in (deep(2), deep(2).astype("float32") / 5000, deep(2).astype("uint8")):
        small, done = data.fit_images(images, (4, 4, 4))
        assert small.dtype == images.dtype and done == ["2 of 2 images were resized to 4 x 4 pixels"]
        np.testing.assert_array_equal(small[0], image_files.resized(images[0], (4, 4)))
    ramp = np.linspace(0, 0.9, 64, dtype="float32").reshape(1, 8, 8, 1)  # whole numbers would be black and white
    assert (
        np.ptp(data.fit_images(ramp, (4, 4, 1))[0]) > 0.5 and len(np.unique(data.fit_images(ramp, (4, 4, 1))[0])) == 16
    )
    for images, shape in ((np.zeros((2, 8, 8, 3), "uint8"), (8, None, 4)), (deep(2)[..., :1], (8, 8, 3))):
        with pytest.raises(errors.InvalidInputError, match="not turned to gray or color"):
            data.fit_images(images, shape)


def test_more_channels_than_a_picture_has_are_all_read(tmp_path, monkeypatch):
    """Near infrared beside red, green and blue, for one, which Pillow drops, or takes for transparency."""
    tifffile = pytest.importorskip("tifffile")
    bands = deep(4).astype("uint8")
    kinds = {"rgb": (bands, {"photometric": "rgb", "extrasamples": [0]})}
    kinds["two"] = (bands[..., :2], {"photometric": "minisblack", "planarconfig": "contig", "extrasamples": [0]})
    for name, (images, options) in kinds.items():
        for n, image in enumerate(images):
            (tmp_path / name).mkdir(exist_ok=True)
            tifffile.imwrite(tmp_path / name / f"{n}.tif", image, **options)
        np.testing.assert_array_equal(data.load(tmp_path / name, "train")[0], images)
    (tmp_path / "alpha").mkdir()
    tifffile.imwrite(tmp_path / "alpha" / "a.tif", bands[0], photometric="rgb", extrasamples=["unassalpha"])
    assert data.load(tmp_path / "alpha", "train")[0].shape == (1, 8, 8, 3)  # said to be transparency
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "tifffile" else find_spec(name))
    with pytest.raises(errors.InvalidInputError, match="pip install tifffile"):
        data.load(tmp_path / "rgb", "train")


def test_image_size_may_be_a_rectangle(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (8, 16, 3)).astype("uint8")
    Image.fromarray(pixels).save(tmp_path / "a.png")
    np.testing.assert_array_equal(data.load(tmp_path, "train", image_size=(8, 16))[0][0], pixels)
    assert data.load(tmp_path, "train", image_size=(4, 2))[0].shape == (1, 4, 2, 3)
    with pytest.raises(errors.InvalidInputError, match=r"or a \(height, width\)"):
        data.load(tmp_path, "train", image_size=(4, 2, 3))


@pytest.fixture
def tiffs(tmp_path):
    tifffile = pytest.importorskip("tifffile")
    for n, image in enumerate(deep(6)):
        (tmp_path / str(n % 2)).mkdir(exist_ok=True)
        # A satellite's bands come first, a microscope's channels last.
        tifffile.imwrite(tmp_path / str(n % 2) / f"{n}.tif", np.moveaxis(image, -1, 0) if n % 3 else image)
    return tmp_path


@pytest.mark.parametrize("stream", [False, True])
def test_tiff_files_of_many_channels_are_read_as_they_are(tiffs, stream):
    images, labels = data.load(tiffs, "train", labels="folders", stream=stream)
    assert images.dtype == "uint16" and images.shape == (6, 8, 8, 4) and labels.tolist() == [0, 0, 0, 1, 1, 1]
    np.testing.assert_array_equal(images[np.arange(6)], deep(6)[[0, 2, 4, 1, 3, 5]])
    source = inputs.source_of(tiffs)
    np.testing.assert_array_equal(source.read(1), deep(6)[2])


def test_a_tiff_of_more_pixels_than_are_taken_is_left_out_before_it_is_read(tiffs, tmp_path, monkeypatch):
    folder = shutil.copytree(tiffs, tmp_path / "tiffs")
    monkeypatch.setattr(tiff, "MOST_PIXELS", 900)
    tifffile = pytest.importorskip("tifffile")
    tifffile.imwrite(folder / "z.tif", np.zeros((5, 31, 31), "uint16"))
    encoder = keras.Sequential([keras.Input((8, 8, 4)), keras.layers.Flatten()])
    found = sslzoo.embed(encoder, folder, on_error="skip")
    [(path, reason)] = found.skipped
    assert os.path.basename(path) == "z.tif" and "at most 900 pixels" in reason


def test_an_archive_larger_than_memory_is_refused_before_it_is_read(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "a.npz", images=np.zeros((100, 8, 8, 1), "uint8"))
    monkeypatch.setattr(streams, "memory", lambda: 6000.0)
    with pytest.raises(errors.InvalidInputError, match=r"fit the memory of this machine.*images in '.*a\.npz'"):
        data.load(tmp_path / "a.npz", "train")


def test_two_bytes_may_come_in_either_order():
    images = np.arange(64, dtype=">u2").reshape(1, 8, 8, 1)
    checked, _ = data.check(images)
    assert checked.dtype == np.dtype("uint16").newbyteorder("=")
    np.testing.assert_array_equal(checked, images)


def test_tiff_files_by_themselves_and_in_lists_are_read_as_in_a_folder(tiffs):
    files = sorted(tiffs.rglob("*.tif"))
    for given in (files[1], files[1:3], [tiffs / "0", tiffs / "1"]):
        source = inputs.source_of(given)
        assert isinstance(source, inputs.DeepFiles) and source.read(0).dtype == "uint16"


@pytest.mark.parametrize("place", ["0.tif", "9.tif"])
def test_a_damaged_tiff_says_nothing_of_the_others(tmp_path, place):
    pytest.importorskip("tifffile")
    palette = Image.new("P", (16, 16), 15)
    palette.putpalette([0, 0, 0] * 15 + [255, 0, 0] + [0, 0, 0] * 240)
    for n in range(1, 5):
        palette.save(tmp_path / f"{n}.tif")
    (tmp_path / place).write_bytes((tmp_path / "1.tif").read_bytes()[:60])
    images, _ = data.load(tmp_path, "train", on_error="skip")
    assert images.shape == (4, 16, 16, 3) and images[0, 0, 0].tolist() == [255, 0, 0]
    deep_ones = tmp_path / "deep"
    deep_ones.mkdir()
    for n in range(1, 3):
        Image.fromarray(np.full((8, 8), 4000, "uint16")).save(deep_ones / f"{n}.tif")
    (deep_ones / place).write_bytes(b"damaged")
    images, _ = data.load(deep_ones, "train", on_error="skip")
    assert images.dtype == "uint16" and (images == 4000).all() and len(images) == 2


@pytest.mark.parametrize("stream", [False, True])
def test_a_file_with_values_that_are_no_numbers_is_named(tmp_path, stream):
    tifffile = pytest.importorskip("tifffile")
    images = np.random.default_rng(0).normal(300, 40, (4, 8, 8)).astype("float32")
    images[2, 3, 3] = np.nan
    for n, image in enumerate(images):
        tifffile.imwrite(tmp_path / f"{n}.tif", image)
    with pytest.raises(errors.InvalidInputError, match=r"1 of 4 images cannot be read.*2\.tif.*not finite"):
        data.load(tmp_path, "train", stream=stream)
    kept, _ = data.load(tmp_path, "train", on_error="skip", stream=stream)
    assert len(kept) == 3 and np.isfinite(data.value_range(kept)).all()
    batch, *_ = data.Batches(kept, None, 3, shuffle=False)
    np.testing.assert_array_equal(batch[0], images[[0, 1, 3]][..., None])


def test_the_room_that_deep_images_take_is_counted_in_bytes(tiffs, monkeypatch):
    monkeypatch.setattr(streams, "memory", lambda: 2.0 * 6 * 8 * 8 * 4)
    data.load(tiffs, "train")
    monkeypatch.setattr(streams, "memory", lambda: 2.0 * 6 * 8 * 8 * 4 - 1)
    with pytest.raises(errors.InvalidInputError, match=r"fit the memory.*6 images of shape \(8, 8, 4\)"):
        data.load(tiffs, "train")


def test_tiff_files_are_cropped_and_averaged(tiffs):
    images, _ = data.load(tiffs, "train", image_size=4)
    expected = deep(6)[0].reshape(4, 2, 4, 2, 4).mean((1, 3))
    assert images.dtype == "uint16" and images.shape == (6, 4, 4, 4)
    assert np.corrcoef(images[0].ravel(), expected.ravel())[0, 1] > 0.9


def test_tiff_files_that_differ_are_refused(tiffs):
    tifffile = pytest.importorskip("tifffile")
    tifffile.imwrite(tiffs / "0" / "z.tif", deep(1)[0, ..., :2].astype("float32"))
    with pytest.raises(errors.InvalidInputError, match="2 x float32, 4 x uint16"):
        data.load(tiffs, "train")
    tifffile.imwrite(tiffs / "0" / "z.tif", np.zeros((8, 8), "int64"))
    with pytest.raises(errors.InvalidInputError, match="dtype=int64"):
        data.load(tiffs, "train")


@pytest.mark.parametrize("channels", [1, 3])
def test_lab_colors_are_read_in_gray_too(channels, tmp_path):
    Image.new("LAB", (8, 8), (50, 100, 200)).save(tmp_path / "a.tif")
    decoded = image_files.decode(image_files.open_image(tmp_path / "a.tif"))
    assert decoded.mode == "RGB" and image_files.fitted(decoded, (4, 4), channels).shape == (4, 4, channels)


def test_labels_without_columns_and_arrays_that_are_no_pair_are_refused():
    images, _ = toy()
    with pytest.raises(errors.InvalidInputError, match=r"0 and 1.*shape \(23, 0\)"):
        data.check(images, np.zeros((23, 0), int))
    if importlib.util.find_spec("tensorflow"):
        with pytest.raises(errors.InvalidInputError, match=r"\(images, labels\). Received: a tuple of 1"):
            data.pipeline((images,), None, 8)


@pytest.mark.parametrize("orientation", [1, 6, 8])
def test_gray_tiff_on_its_side_is_read_as_compressed_ones_are(orientation, tmp_path):
    """Pillow maps such a file into memory by the size that it has once it is turned: its pixels were scrambled."""
    pixels = np.random.default_rng(0).integers(0, 256, (9, 8)).astype("uint8")
    shown = []
    for compression in (None, "tiff_lzw"):
        image, tags = Image.fromarray(pixels), Image.Exif()
        tags[0x0112] = orientation
        image.save(tmp_path / f"{compression}.tif", compression=compression, exif=tags)
        shown.append(np.asarray(image_files.decode(image_files.open_image(tmp_path / f"{compression}.tif"))))
    np.testing.assert_array_equal(*shown)
    np.testing.assert_array_equal(shown[0], {1: pixels, 6: np.rot90(pixels, -1), 8: np.rot90(pixels)}[orientation])


def test_many_classes_are_held_out_as_one_by_one():
    labels = np.random.default_rng(0).integers(0, 50, 400)
    expected, random = np.zeros(400, bool), np.random.default_rng(7)
    for label in np.unique(labels):
        rows = random.permutation(np.flatnonzero(labels == label))
        expected[rows[: min(max(1, round(0.2 * len(rows))), len(rows) - 1)]] = True
    np.testing.assert_array_equal(held_out(labels, 0.2, 7), expected)


def test_channels_of_tiff_are_where_the_file_says(tmp_path):
    tifffile = pytest.importorskip("tifffile")
    tifffile.imwrite(tmp_path / "flat.tif", np.zeros((2, 64, 3), "uint16"), photometric="rgb")
    assert data.load(tmp_path, "train")[0].shape == (1, 2, 64, 3)


def test_a_tiff_of_nan_is_left_out_where_others_are(tmp_path):
    tifffile = pytest.importorskip("tifffile")
    for n in range(3):
        tifffile.imwrite(tmp_path / f"{n}.tif", np.full((8, 8), np.nan if n == 1 else 9.0 + n, "float32"))
    source = inputs.source_of(tmp_path)
    source.read(0)
    with pytest.raises(errors.InvalidInputError, match=r"not finite.*1\.tif"):
        source.read(1)
