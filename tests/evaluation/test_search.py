"""Search by example: what is found, from which model, and a page that shows it."""

import base64
import csv
import io
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import sslzoo
from sslzoo import cli, evaluation
from sslzoo.errors import InvalidInputError, MissingDataError
from sslzoo.evaluation import page, read_features
from sslzoo.evaluation.search import gallery


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Digits as files, in two classes; the name of one asks to be escaped."""
    root = tmp_path_factory.mktemp("search") / "digits"
    images, labels = sslzoo.data.load("digits", "test")
    for split, rows in (("train", range(40)), ("test", range(40, 44))):
        for row in rows:
            place = root / split / ("even" if labels[row] % 2 == 0 else "odd")
            place.mkdir(parents=True, exist_ok=True)
            name = "<b>&\"'.png" if row == 3 else f"{row:02d}.png"
            Image.fromarray(images[row, ..., 0]).save(place / name)
    return root


@pytest.fixture(scope="module")
def written(folder):
    path = folder.parent / "features.npz"
    assert cli.main(["embed", "simvae-digits", str(folder), "--split", "train", "-o", str(path)]) == 0
    return path


def test_finds_the_nearest_by_cosine_and_leaves_the_query_out(written):
    bank = read_features(written)
    unit = bank.features / np.linalg.norm(bank.features, axis=1, keepdims=True)
    expected = [row for row in np.argsort(-unit @ unit[5], kind="stable") if row != 5][:4]
    for query in (5, str(bank.paths[5])):
        found = sslzoo.search(written, query, k=4)
        assert [match.image for match in found] == [str(bank.paths[row]) for row in expected]
        np.testing.assert_allclose([match.similarity for match in found], (unit @ unit[5])[expected], atol=1e-5)
        assert {match.label for match in found} <= {"even", "odd"}


def test_a_new_image_is_embedded_with_the_model_that_the_features_name(written, folder):
    query = next((folder / "test").rglob("*.png"))
    found = sslzoo.search(written, query, k=3)
    asked = sslzoo.embed("simvae-digits", [query]).features[0]
    bank = read_features(written)
    cosine = bank.features @ asked / np.linalg.norm(bank.features, axis=1) / np.linalg.norm(asked)
    assert [match.image for match in found] == [str(bank.paths[row]) for row in np.argsort(-cosine)[:3]]
    with Image.open(query) as opened:
        assert sslzoo.search(bank, opened, k=3) == found
        assert sslzoo.search(bank, np.asarray(opened)[..., None], k=3) == found
    bank.model = None
    with pytest.raises(InvalidInputError, match="--model"):
        sslzoo.search(bank, query)
    assert sslzoo.search(bank, query, k=3, encoder="simvae-digits") == found
    assert len(sslzoo.search(bank, 0, k=1000)) == 39


@pytest.mark.parametrize("file", ["features.npz", "features.parquet"])
def test_relative_paths_are_seen_from_where_the_features_were_made(tmp_path, monkeypatch, file):
    """Not from a folder with images of the same names in which somebody searches."""
    if file.endswith(".parquet"):
        pytest.importorskip("pyarrow")
    images = sslzoo.data.load("digits", "test")[0]
    for project, first in (("a", 0), ("b", 50)):
        (tmp_path / project / "photos").mkdir(parents=True)
        (tmp_path / project / "out").mkdir()
        for row in range(6):
            name = tmp_path / project / "photos" / f"{row}.png"
            Image.fromarray(images[first + row, ..., 0]).save(name)
    monkeypatch.chdir(tmp_path / "a")
    assert cli.main(["embed", "simvae-digits", "photos", "-o", f"out/{file}"]) == 0
    bank = read_features(f"out/{file}")
    assert bank.paths.tolist() == [os.path.join("photos", f"{row}.png") for row in range(6)]  # as they were given
    options = {"k": 6, "encoder": "simvae-digits"}
    assert len(sslzoo.search(f"out/{file}", "photos/1.png", **options)) == 5
    monkeypatch.chdir(tmp_path / "b")
    found = sslzoo.search(f"../a/out/{file}", "photos/1.png", **options)
    assert found == sslzoo.search(f"../a/out/{file}", np.asarray(Image.open("photos/1.png"))[..., None], **options)
    assert len(found) == 6 and all((tmp_path / "a" / "photos").samefile(Path(match.image).parent) for match in found)
    shutil.move(tmp_path / "a", tmp_path / "c")  # both together
    assert read_features(f"../c/out/{file}").paths[0] == str(tmp_path / "c" / "photos" / "0.png")


@pytest.mark.parametrize("size", [(3000, 1), (1, 3000), (4000, 10)])
def test_a_strip_of_an_image_has_a_thumbnail(tmp_path, size):
    Image.new("RGB", size, "red").save(tmp_path / "strip.png")
    text = gallery("strips", [(tmp_path / "strip.png", "a")], tmp_path / "a.html").read_text()
    assert "<img src" in text and "no picture" not in text


def test_the_page_needs_no_other_file_and_escapes_names(written, tmp_path, capsys):
    out = tmp_path / "found.html"
    assert cli.main(["search", str(written), "0", "-k", "39", "--html", str(out)]) == 0
    assert "SIMILARITY" in capsys.readouterr().out
    text = out.read_text()
    pictures = re.findall(r'src="data:image/png;base64,([^"]+)"', text)
    assert len(pictures) == 40 and not re.search(r"(src|href)=\"(?!data:)", text)
    assert all(max(Image.open(io.BytesIO(base64.b64decode(picture))).size) == 160 for picture in pictures)
    assert "&lt;b&gt;&amp;&quot;" in text and "<b>&" not in text
    assert cli.main(["search", str(written), "0", "--html", str(out)]) == 2  # exists
    assert "no picture" in page(3, sslzoo.search(written, 3, k=1), tmp_path / "row.html").read_text()


def test_pictures_are_found_from_another_folder_beside_their_features(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(folder.parent)
    assert cli.main(["embed", "simvae-digits", folder.name, "--split", "train", "-o", "beside.npz"]) == 0
    monkeypatch.chdir(tmp_path)
    found = sslzoo.search(folder.parent / "beside.npz", 5, k=3)
    text = page(found[0].image, found, tmp_path / "out.html").read_text()
    assert text.count("data:image/png;base64,") == 4 and "no picture" not in text


def test_the_model_is_found_from_another_folder_too(folder, tmp_path, monkeypatch):
    place = folder.parent / "model-of-mine"
    sslzoo.publishing.write(place, sslzoo.load("simvae-digits"), overwrite=True)
    monkeypatch.chdir(folder.parent)
    assert cli.main(["embed", place.name, folder.name, "--split", "train", "-o", "mine.npz"]) == 0
    monkeypatch.chdir(tmp_path)
    query = next((folder / "test").rglob("*.png"))
    assert len(sslzoo.search(folder.parent / "mine.npz", query, k=3)) == 3


def test_what_was_moved_away_is_said(folder, tmp_path, monkeypatch, capsys):
    place = tmp_path / "models" / "mine"
    sslzoo.publishing.write(place, sslzoo.load("simvae-digits"))
    monkeypatch.chdir(tmp_path)
    shutil.copytree(folder / "train", "digits")
    assert cli.main(["embed", "models/mine", "digits", "-o", "features.npz"]) == 0
    query = next((folder / "test").rglob("*.png"))
    assert cli.main(["search", "features.npz", str(sorted(Path("digits").rglob("*.png"))[3])]) == 0
    assert "embedding the query" not in capsys.readouterr().out  # it is there already
    assert cli.main(["search", "features.npz", str(query)]) == 0
    assert "embedding the query with the model that the features name" in capsys.readouterr().err
    shutil.move("digits", "elsewhere")
    shutil.move("models", "archive")
    assert cli.main(["search", "features.npz", "2", "-k", "3", "--html", "found.html"]) == 0
    assert "found.html (3 of 3 images are not where they were" in capsys.readouterr().out
    assert cli.main(["explore", "features.npz", "--html", "map.html"]) == 0
    assert "(40 of 40 images are not where they were, and have no picture)" in capsys.readouterr().out
    with pytest.raises(MissingDataError, match=r"moved, pass encoder \(--model\)\. Received: model='models/mine'"):
        sslzoo.search("features.npz", query)
    assert len(sslzoo.search("features.npz", query, k=2, encoder="archive/mine")) == 2


def test_what_is_no_bank_and_no_query(written, tmp_path):
    np.savez(tmp_path / "other.npz", images=np.zeros((2, 3)))
    with pytest.raises(InvalidInputError, match="that sslzoo embed wrote"):
        sslzoo.search(tmp_path / "other.npz", 0)
    with pytest.raises(MissingDataError, match="no such file"):
        sslzoo.search(tmp_path / "none.npz", 0)
    with pytest.raises(InvalidInputError, match=r"0\.\.39"):
        sslzoo.search(written, 40)
    with pytest.raises(MissingDataError):
        sslzoo.search(written, tmp_path / "none.png")


@pytest.mark.parametrize(
    "change,message",
    [
        ({"features": np.full((3, 2), "x")}, "numbers of shape"),
        ({"features": np.full((3, 2), np.nan)}, "finite"),
        ({"paths": np.array(["a.png"])}, "paths does not belong to 3 rows"),
        ({"paths": np.arange(3)}, "paths does not belong"),
        ({"labels": np.array([0, 1, 2])}, "numbers of 2 classes"),
        ({"labels": np.array([0, 1])}, "labels does not belong"),
        ({"labels": np.array([0, 1, np.nan])}, "labels does not belong"),
        ({"log_var": np.zeros((3, 1))}, "log_var does not belong"),
        ({"model": np.array(3)}, "model does not belong"),
    ],
)
def test_features_of_another_hand_are_checked(change, message, tmp_path):
    whole = {
        "features": np.eye(3, 2, dtype="float32"),
        "paths": np.array(["a.png", "b.png", "c.png"]),
        "labels": np.array([0, 1, 1]),
        "classes": np.array(["cat", "dog"]),
    }
    np.savez(tmp_path / "whole.npz", **whole)
    assert sslzoo.search(tmp_path / "whole.npz", 0, k=1)[0].label == "dog"
    np.savez(tmp_path / "other.npz", **(whole | change))
    with pytest.raises(InvalidInputError, match=message):
        sslzoo.search(tmp_path / "other.npz", 0)


def test_a_thumbnail_opens_no_file_that_embed_would_not(tmp_path):
    """PostScript would run Ghostscript, a pipe would wait for ever."""
    (tmp_path / "a.png").write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 16 16\n%%EndComments\n")
    os.mkfifo(tmp_path / "b.png")
    matches = [evaluation.Match(str(tmp_path / name), 0.5) for name in ("a.png", "b.png", "none.png")]
    assert page(0, matches, tmp_path / "page.html").read_text().count("no picture") == 4


def test_names_in_a_table_are_no_formulas():
    paths = np.array(["=1.png", "+1.png", "@x.png", "\t=1.png", "-1.png", "plain.png"])
    rows = np.zeros((6, 1), "float32")
    embedding = evaluation.Embedding(rows, paths=paths, labels=np.zeros(6, int), classes=np.array(["=HYPERLINK(1)"]))
    cells = [line.split(",")[:2] for line in embedding.to_csv().splitlines()[1:]]
    assert [cell[0].strip('"') for cell in cells[:5]] == [f"./{path}" for path in paths[:5]] and cells[5][
        0
    ] == "plain.png"
    assert {cell[1] for cell in cells} == {"./=HYPERLINK(1)"}


def test_features_without_images_are_numbered():
    features = np.random.default_rng(0).normal(size=(40, 3))
    embedding = evaluation.Embedding(features, labels=[0, 1] * 20)
    assert embedding.index.tolist() == list(range(40))
    assert embedding.to_csv().splitlines()[2].startswith("1,1,")
    assert evaluation.search(embedding, 3, k=2)[0].image != 3


def test_a_carriage_return_in_a_name_ends_no_row():
    paths = np.array(["a\rb.png", "c,d.png", 'e"f.png', "g\nh.png"])
    text = evaluation.Embedding(np.zeros((4, 1), "float32"), paths=paths).to_csv()
    assert [row[0] for row in csv.reader(io.StringIO(text, newline=""))] == ["path", *paths]
    assert "\r\n" not in text


def test_thumbnails_keep_every_pixel_of_a_small_image_and_of_a_large_one_little_space(tmp_path):
    random = np.random.default_rng(0)
    small, large = random.integers(0, 256, (8, 8, 3), "uint8"), random.integers(0, 256, (400, 600, 3), "uint8")
    text = gallery("two", [(small, "small"), (large, "large")], tmp_path / "page.html").read_text()
    found = re.findall(r'src="data:image/(\w+);base64,([^"]+)"', text)
    pictures = [Image.open(io.BytesIO(base64.b64decode(data))) for _, data in found]
    assert [kind for kind, _ in found] == ["png", "jpeg"] and pictures[1].size == (160, 107)
    np.testing.assert_array_equal(np.asarray(pictures[0])[::20, ::20], small)
