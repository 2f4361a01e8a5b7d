"""Transparent images are laid on one color by all who read them: what an encoder was trained on it is measured on."""

import base64
import io
import re

import keras
import numpy as np
import pytest
from PIL import Image

import sslzoo
from sslzoo import cli
from sslzoo.evaluation.search import gallery


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Photographs of two classes, one opaque and white, one transparent; and an encoder that sees the mean color."""
    root = tmp_path_factory.mktemp("place")
    random = np.random.default_rng(0)
    for name, alpha in (("opaque", 255), ("clear", 0)):
        (root / "icons" / name).mkdir(parents=True)
        for number in range(10):
            pixels = np.full((8, 8, 4), 255, "uint8")
            pixels[0, :, :3] = random.integers(200, 256, (8, 3))  # no two alike, also on white
            pixels[1:, :, 3] = alpha
            Image.fromarray(pixels).save(root / "icons" / name / f"{number}.png")
    mean = [keras.Input((8, 8, 3), name="images"), keras.layers.Rescaling(1 / 255)]
    keras.Sequential([*mean, keras.layers.GlobalAveragePooling2D()], name="mean").save(root / "mean.keras")
    return root


@pytest.fixture(params=["white", "black"])
def background(request):
    return request.param


def test_evaluate(place, background):
    report = sslzoo.evaluate(place / "mean.keras", place / "icons", "knn", test_share=0.5, background=background)
    assert (report["knn"]["euclidean_best_accuracy"] == 1) == (background == "black")


def test_compare(place, background):
    encoders = {"a": place / "mean.keras", "b": place / "mean.keras"}
    found = sslzoo.compare(encoders, place / "icons", protocols="logistic", background=background)
    assert (found.accuracies[0].value == 1) == (background == "black")


def test_finetune(place, background):
    options = {"mode": "probe", "scratch": False, "test_share": 0.5}
    _, report = sslzoo.finetune(place / "mean.keras", place / "icons", background=background, **options)
    assert (report["probe"]["accuracy"] == 1) == (background == "black")


def test_diagnose(place):
    """On white all images point in nearly one direction, on black those of two colors do not."""
    white, black = (
        sslzoo.diagnose(place / "mean.keras", place / "icons", background=color).measures["mean_cosine"]
        for color in ("white", "black")
    )
    assert 1 - black > 10 * (1 - white)


def test_search(place):
    bank = sslzoo.embed(place / "mean.keras", place / "icons", background="black", labels="folders")
    query = Image.open(place / "icons" / "clear" / "0.png")
    query.save(place / "query.png")
    for background, label in (("black", "clear"), ("white", "opaque")):
        assert sslzoo.search(bank, place / "query.png", 1, background=background)[0].label == label


def test_pages(place, tmp_path, background):
    """Thumbnails show what the encoder saw: white on white would be nothing."""
    figures = [(place / "icons" / "clear" / "0.png", "clear"), (np.full((8, 8, 3), 9.5, "float32"), "of floats")]
    text = gallery("icons", figures, tmp_path / "page.html", background).read_text()
    clear, floats = (Image.open(io.BytesIO(base64.b64decode(each))) for each in re.findall('base64,([^"]+)"', text))
    assert clear.getpixel((80, 120)) == {"white": (255,) * 3, "black": (0,) * 3}[background]
    assert floats.getpixel((80, 80)) == (10,) * 3


def test_a_page_of_the_shell(place, tmp_path):
    embedding = sslzoo.embed(place / "mean.keras", place / "icons", background="black")
    np.savez(tmp_path / "features.npz", **embedding.arrays())
    pages = {}
    for background in ("white", "black"):
        words = ["search", str(tmp_path / "features.npz"), "3", "--html", str(tmp_path / f"{background}.html")]
        assert cli.main([*words, "--background", background]) == 0
        pages[background] = (tmp_path / f"{background}.html").read_text()
    assert pages["white"] != pages["black"]
    assert cli.main([*words, "--force", "--background", "nocolor"]) == 2
    assert (tmp_path / "black.html").read_text() == pages["black"]


def test_views(place, capsys):
    dark = {}
    for background in ("white", "black"):
        assert cli.main(["views", str(place / "icons"), "--background", background, "--json"]) == 0
        dark[background] = capsys.readouterr().out
    assert dark["white"] != dark["black"]
