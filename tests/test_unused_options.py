"""Options that change nothing beside what else was said: each is refused in a sentence, before any work."""

import re

import keras
import numpy as np
import pytest
from PIL import Image

import sslzoo
from sslzoo import cli, data, publishing
from sslzoo.errors import InvalidInputError, UnknownNameError
from sslzoo.training.plan import Plan


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """An encoder of 8 x 8 pixels, one of any size, features, photographs in two folders, and arrays."""
    root = tmp_path_factory.mktemp("place")
    random = np.random.default_rng(0)
    for label in ("cat", "dog"):
        (root / "photos" / label).mkdir(parents=True)
        for n in range(5):
            Image.fromarray(random.integers(0, 256, (8, 8, 3), "uint8")).save(root / "photos" / label / f"{n}.png")
    images, labels = random.integers(0, 256, (12, 8, 8, 3), "uint8"), np.arange(12) % 2
    np.savez(root / "d.npz", train_images=images, train_labels=labels, test_images=images, test_labels=labels)
    for name, side in (("sized", 8), ("any", None)):
        mean = keras.Sequential([keras.Input((side, side, 3), name="images"), keras.layers.GlobalAveragePooling2D()])
        mean.save(root / f"{name}.keras")
    np.savez(root / "features.npz", features=random.normal(size=(12, 4)).astype("float32"), index=np.arange(12))
    return root


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("embed sized.keras d.npz --split test -o f.npz --background black", "background is for image files"),
        ("embed sized.keras d.npz --split test -o f.npz --on-error skip", "on_error is for image files"),
        ("search features.npz 3 --model sized.keras", "(--model) is for a query that is an image"),
        ("search features.npz 3 --force", "--force overwrites the page of --html"),
        ("evaluate sized.keras --dataset photos --image-size 16", "image_size is for encoders that take images of any"),
        ("evaluate sized.keras --dataset photos --attribute Male", "attribute is for several labels"),
        ("evaluate sized.keras --dataset d.npz --on-error skip", "`on_error` is for a folder"),
        ("search features.npz 3 --background black", "background is for a query that is an image"),
        ("evaluate sized.keras --dataset d.npz --background black", "`background` is for a folder"),
        ("views d.npz --background black", "`background` is for a folder"),
        ("evaluate sized.keras --dataset d.npz --labels folders", "`labels` is for a folder"),
        ("evaluate sized.keras --dataset photos --protocols knn --epochs 3", "epochs is for the protocols linear, mlp"),
        (
            "evaluate sized.keras --dataset photos --protocols knn --gmm-restarts 3",
            "gmm_restarts is for the protocol gmm, not for knn",
        ),
        (
            "evaluate sized.keras --dataset photos --protocols knn --outside digits",
            "outside is for the protocol outliers, not for knn",
        ),
        ("evaluate sized.keras --dataset photos --revision main", "Only Hub repositories have revisions"),
        ("finetune sized.keras --dataset photos --out o --rank 2", "rank is for mode lora"),
        ("finetune sized.keras --dataset photos --out o --mode lora --depth-decay 0.5", "depth_decay is for mode full"),
        ("finetune sized.keras --dataset photos --out o --mode probe --learning-rate 0.1", "learning_rate is for mode"),
        (
            "finetune sized.keras --dataset photos --out o --image-size 16",
            "image_size is for encoders that take images",
        ),
        ("finetune any.keras --dataset d.npz --out o --image-size 16", "`image_size` is for a folder"),
        ("finetune sized.keras --dataset d.npz --out o --stream", "`stream` is for a folder"),
        ("finetune sized.keras --dataset d.npz --out o --on-error skip", "`on_error` is for a folder"),
        ("compare sized.keras ./sized.keras --dataset photos --image-size 16", "image_size is for encoders that take"),
        ("doctor sized.keras photos --image-size 16", "image_size is for encoders that take images of any side"),
        ("doctor sized.keras photos --by lidar", "--by orders the encoders of --compare"),
        ("doctor sized.keras photos --force", "--force overwrites the page of --html"),
        ("doctor features.npz --split test", "split is for images; features need none"),
        ("doctor features.npz --image-size 8", "image_size is for images; features need none"),
        ("doctor features.npz --num-views 3", "num_views is for images; features need none"),
        ("doctor features.npz --scale 1", "is for images; features need none"),
        ("doctor features.npz photos", "Features are diagnosed alone"),
        ("doctor sized.keras digits --on-error skip", "`on_error` is for a folder"),
        ("explore features.npz --html map.html --split test", "split and data_dir are of images"),
        ("views photos --force", "--force overwrites the page of --html"),
        ("views d.npz --on-error skip", "`on_error` is for a folder"),
    ],
)
def test_the_command_line_refuses_what_has_no_effect(place, monkeypatch, capsys, words, said):
    monkeypatch.chdir(place)
    before = sorted(place.rglob("*"))
    assert cli.main(words.split()) == 2
    err = " ".join(capsys.readouterr().err.split())
    assert said in err and "Received: " in err and sorted(place.rglob("*")) == before


@pytest.mark.parametrize("option", [{"background": "black"}, {"on_error": "skip"}])
def test_a_known_set_refuses_options_of_folders(option):
    with pytest.raises(InvalidInputError, match=f"`{next(iter(option))}` is for a folder"):
        data.load("digits", "train", **option)


def test_arrays_refuse_options_of_folders(place):
    encoder = keras.models.load_model(place / "any.keras")
    pair = data.load(place / "d.npz", "train")
    for option in ({"labels": "folders"}, {"test_share": 0.2}, {"on_error": "skip"}, {"background": "black"}):
        with pytest.raises(InvalidInputError, match=f"`{next(iter(option))}` is for a folder"):
            sslzoo.evaluate(encoder, (pair, pair), "knn", **option)
    with pytest.raises(InvalidInputError, match="`image_size` is for a folder"):
        sslzoo.evaluate(encoder, (pair, pair), "knn", image_size=16)
    for option in ({"on_error": "skip"}, {"background": "black"}, {"image_size": 16}, {"stream": True}):
        with pytest.raises(InvalidInputError, match=f"`{next(iter(option))}` is for a folder"):
            sslzoo.finetune(encoder, (pair, pair), mode="probe", **option)


def test_arrays_in_the_place_of_options_of_folders_are_said_to_be_wrong(place):
    """NumPy compares an array with a default element by element."""
    encoder = keras.models.load_model(place / "any.keras")
    images, labels = data.load(place / "d.npz", "train")
    pair = images, labels
    for given in (pair, (pair, pair)):
        with pytest.raises(UnknownNameError, match="Unknown labels"):
            sslzoo.evaluate(encoder, given, "knn", test=pair, labels=labels)
    with pytest.raises(InvalidInputError, match="test_share must be a number"):
        sslzoo.evaluate(encoder, (pair, pair), "knn", test_share=labels)
    for option in ("background", "image_size"):
        with pytest.raises(InvalidInputError, match=f"`{option}` is for a folder"):
            sslzoo.finetune(encoder, pair, mode="probe", **{option: labels})
        with pytest.raises(InvalidInputError, match=f"`{option}` is for a folder"):
            data.load("digits", "train", **{option: labels})
    with pytest.raises(UnknownNameError, match="Unknown split"):
        data.load("digits", labels)


def test_a_diagnosis_of_arrays_refuses_options_of_files(place):
    images = data.load(place / "d.npz", "train")[0]
    for option in ({"split": "train"}, {"on_error": "skip"}, {"background": "black"}):
        with pytest.raises(InvalidInputError, match=f"Received: {next(iter(option))}="):
            sslzoo.diagnose(place / "any.keras", images, **option)


def test_what_an_option_agrees_with_is_taken(place):
    report = sslzoo.evaluate(place / "sized.keras", place / "photos", "knn", image_size=8)
    assert report.data["train"] == 8


def test_a_recipe_and_publish_refuse_what_has_no_effect(place):
    with pytest.raises(InvalidInputError, match="--init brings a network of its own"):
        Plan.parse("simclr", {}, argv=["--init", "simclr-digits", "--network", "vit-tiny"])
    with pytest.raises(InvalidInputError, match=re.escape("it takes no manifest")):
        publishing.publish(place, "me/mine", create_pr=True, manifest=place / "manifest.json")
