"""What a user's words mean: a name or a path, the home folder, and whose images those of a path are."""

import contextlib
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import keras
import numpy as np
import pytest
from PIL import Image

import sslzoo
from sslzoo import callbacks, cli, data, evaluation, files, zoo
from sslzoo.data.catalogue import KNOWN
from sslzoo.downstream import encoders, labeled
from sslzoo.errors import ArtifactError, MissingDataError, SSLZooError, UnknownNameError
from sslzoo.files import as_path, is_path, write_beside
from sslzoo.training.plan import Plan
from sslzoo.training.settings import data_name

SOURCE = Path(sslzoo.__file__).parent


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A home folder, and another folder to work in."""
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "home"


@pytest.fixture
def encoder():
    return keras.Sequential([keras.Input((8, 8, 3), name="images"), keras.layers.GlobalAveragePooling2D()])


def photos(root, classes=("cat", "dog"), count=6):
    for label, name in enumerate(classes):
        (root / name).mkdir(parents=True)
        for n in range(count):
            pixels = np.random.default_rng([label, n]).integers(60 * label, 60 * label + 90, (8, 8, 3), "uint8")
            Image.fromarray(pixels).save(root / name / f"{n}.png")
    return root


def arrays(count=12):
    random = np.random.default_rng(0)
    return random.integers(0, 256, (count, 8, 8, 3), "uint8"), np.arange(count) % 2


def npz(path):
    images, labels = arrays()
    np.savez(path, train_images=images, train_labels=labels, test_images=images, test_labels=labels)
    return path


# ------------------------------------------------------------------ names and paths


@pytest.mark.parametrize(
    "word", ["./nope", "nope/", "nope.npz", "NOPE.NPZ", "../nope", "~/nope", ".", "a/b", Path("nope")]
)
def test_a_path_is_told_from_a_name(word):
    assert is_path(word)


@pytest.mark.parametrize("word", ["nope", "simvae-mnist.seed1", "simclr-cifar10.strong", "fashion_mnist", 3, None])
def test_a_name_is_told_from_a_path(word):
    assert not is_path(word)


@pytest.mark.parametrize("word", ["./nope", "nope/", "nope.keras", "nope.npz"])
def test_a_path_that_is_not_there_is_no_name(word):
    with pytest.raises(ArtifactError, match=f"No such folder or file.*{re.escape(word)}") as raised:
        zoo.load(word)
    assert not isinstance(raised.value, UnknownNameError) and "Did you mean" not in str(raised.value)
    with pytest.raises(ArtifactError, match="No such folder or file"):
        zoo.info(word)
    with pytest.raises(MissingDataError, match="found nothing"):
        data.load(word, "train")
    with pytest.raises(UnknownNameError):
        zoo.load("nope")
    with pytest.raises(UnknownNameError):
        data.load("nope", "train")


# ------------------------------------------------------------------ the home folder


def test_home_is_expanded_in_one_place():
    theirs = [file.name for file in SOURCE.rglob("*.py") if "expanduser" in file.read_text("utf-8")]
    assert theirs == ["files.py"]


def test_a_tilde_is_the_home_folder_wherever_a_path_is_taken(home, encoder, capsys):
    assert as_path("~/x") == home / "x" and as_path("~nobody-of-that-name/x") == Path("~nobody-of-that-name/x")
    write_beside("~/x", b"1")
    assert (home / "x").read_bytes() == b"1"
    photos(home / "photos")
    folder = sslzoo.publishing.write("~/models/mean", encoder)
    assert folder == home / "models" / "mean" and zoo.info("~/models/mean")["features"] == 3
    classifier = "~/classifier"
    _, report = sslzoo.finetune("~/models/mean", "~/photos", mode="probe", scratch=False, out=classifier)
    assert report.data["name"] == "photos" and (home / "classifier" / "config.json").is_file()
    assert cli.main(["embed", "~/models/mean", "~/photos", "-o", "~/features.npz"]) == 0
    assert cli.main(["search", "~/features.npz", "~/photos/cat/0.png", "--html", "~/found.html"]) == 0
    assert (home / "features.npz").is_file() and (home / "found.html").is_file()
    assert encoders.as_features("~/features.npz").shape == (12, 3)
    evaluation.evaluate("~/models/mean", "~/photos", "knn", pictures="~/pictures").save("~/report.json")
    assert (home / "report.json").is_file() and (home / "pictures" / "neighbors.png").is_file()
    found = sslzoo.compare(["~/models/mean", "simclr-digits"], "~/photos", protocols="knn")
    assert found.save("~/compared") == home / "compared"
    with pytest.raises(MissingDataError, match="no such file"):
        encoders.onnx_encoder("~/nope.onnx")
    assert Plan.parse("simclr", {}, argv=["--out", "~/runs"]).out == home / "runs"
    assert callbacks.Scalars("~/board").folder == home / "board"
    assert not list(Path().iterdir())  # no folder called ~


# ------------------------------------------------------------------ whose images


@pytest.mark.parametrize(
    "path, name",
    [
        ("./digits", "own-digits"),
        ("digits/", "own-digits"),
        ("sub/cifar10", "own-cifar10"),
        ("CIFAR-10", "own-CIFAR-10"),
        ("./fashion_mnist.npz", "own-fashion_mnist"),
        ("fashion-mnist", "own-fashion-mnist"),
        ("pics.npz", "pics"),
        ("photos.v2/", "photos.v2"),
        ("digits", "digits"),
        ("fashion_mnist", "fashion_mnist"),
    ],
)
def test_own_images_are_not_called_as_public_ones(path, name):
    assert data.name_of(path) == name
    written = Plan.parse("simclr", {}, argv=["--dataset", path]).data_name
    assert written == name if name in KNOWN else written == re.sub("[^a-z0-9]", "-", name.lower())
    assert data_name("./日cifar10") == "own-cifar10"  # of which names of models keep the letters of a known one


def test_what_was_learned_from_own_images_is_not_measured_on_public_ones(encoder, capsys):
    photos(Path("digits"))
    _, report = sslzoo.finetune(encoder, "./digits", mode="probe", scratch=False, out="made")
    assert report.data["name"] == "own-digits" and zoo.info("made")["dataset"] == "own-digits"
    assert cli.main(["evaluate", "made"]) == 2 and "only their owner has them" in " ".join(
        capsys.readouterr().err.split()
    )
    assert sslzoo.evaluate(encoder, "./digits", "knn").data["name"] == "own-digits"
    assert sslzoo.evaluate(encoder, str(npz("fashion_mnist.npz")), "knn").data["name"] == "own-fashion_mnist"
    other = sslzoo.evaluate(encoder, (arrays(), arrays()), "outliers", outside=["./digits"])
    assert "own-digits_auroc" in other["outliers"]


def test_a_known_name_given_by_name_is_the_public_set(tmp_path):
    (tmp_path / "sets").mkdir()
    random = np.random.default_rng(0).integers(0, 256, (4, 28, 28, 1), "uint8")
    np.savez(tmp_path / "sets" / "fashion_mnist.npz", train_images=random, train_labels=np.arange(4))
    photos(Path("fashion_mnist"))
    images, _ = data.load("fashion_mnist", "train", data_dir=tmp_path / "sets")
    assert images.shape == random.shape and data.name_of("fashion_mnist") == "fashion_mnist"


def test_classes_of_arrays_and_files_have_no_names_of_folders(encoder):
    photos(Path("mine"), ("left", "right"))
    photos(Path("arrays"), ("up", "down"))
    images, labels = arrays()
    read = labeled.read(npz("mine.npz"), (8, 8, 3))
    assert read.classes == ["0", "1"] and read.name == "mine"
    assert labeled.read((images, labels), (8, 8, 3)).classes == ["0", "1"]
    assert labeled.read("./mine", (8, 8, 3)).classes == ["left", "right"]
    assert data.class_names(None, labels) is None


@pytest.mark.parametrize("name", [None, "mine", "arrays"])
def test_pictures_of_arrays_take_no_names_from_folders(encoder, monkeypatch, name):
    photos(Path("mine"), ("left", "right"))
    photos(Path("arrays"), ("up", "down"))
    asked = []
    monkeypatch.setattr(data, "class_names", lambda source, labels: asked.append(source))
    sslzoo.evaluate(encoder, (arrays(), arrays()), "knn", name=name, pictures="pictures")
    assert asked == [None]


def test_a_wrong_word_is_an_error_of_the_package():
    for word in ("", "~", "~/nope"):
        with pytest.raises(SSLZooError):
            data.load(word, "train")


@pytest.mark.parametrize(("refusals", "tries", "works"), [(2, 20, True), (20, 20, False), (1, 1, False)])
def test_a_file_that_a_scanner_holds_is_replaced_a_little_later(refusals, tries, works, tmp_path, monkeypatch):
    """Under Windows, which has 20 tries."""
    real, left = os.replace, [None] * refusals

    def refuse(source, target):
        if left:
            left.pop()
            raise PermissionError(13, "Access is denied")
        real(source, target)

    monkeypatch.setattr(os, "replace", refuse)
    monkeypatch.setattr(files.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(files, "_TRIES", tries)
    place = tmp_path / "work" / "a"
    place.write_text("old")
    with contextlib.nullcontext() if works else pytest.raises(PermissionError):
        files.write_beside(place, "new")
    assert [path.read_text() for path in place.parent.iterdir()] == ["new" if works else "old"]


@pytest.mark.parametrize("name", ["n" * 251 + ".npz", "\u4e2d" * 83 + ".npz"])
def test_a_name_as_long_as_a_folder_may_hold_is_written(tmp_path, name):
    (tmp_path / "out").mkdir()
    write_beside(tmp_path / "out" / name, b"1")
    assert os.listdir(tmp_path / "out") == [name]


def test_two_threads_write_one_file_whole(tmp_path):
    def write(fill):
        for _ in range(50):
            write_beside(tmp_path / "a.bin", bytes([fill]) * 50_000)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, (1, 2)))  # raises what they raised
    assert set((tmp_path / "a.bin").read_bytes()) in ({1}, {2}) and not list(tmp_path.glob(".a.*"))
