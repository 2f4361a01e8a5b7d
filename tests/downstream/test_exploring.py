"""The page of a map: what it holds, read back as a browser does, and what cannot be mapped."""

import base64
import io
import json
import re
import shutil

import numpy as np
import pytest
from PIL import Image

import sslzoo
from sslzoo import cli
from sslzoo.downstream import exploring
from sslzoo.errors import InvalidInputError, MissingDataError
from sslzoo.evaluation import Embedding

rng = np.random.default_rng(0)
LABELS = np.arange(60) % 3
ROWS = (np.eye(3, 6)[LABELS] * 5 + rng.normal(size=(60, 6))).astype("float32")
IMAGES = np.repeat(np.repeat(LABELS.astype("uint8")[:, None, None, None] * 100, 8, 1), 8, 2)


def read(page):
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"(src|href)\s*=\s*[\"']?(https?:)?//", text) and "__" not in text.split("<script>")[0][:300]
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])


def array(text, dtype):
    return np.frombuffer(base64.b64decode(text), dtype)


def test_the_page_holds_the_map_its_neighbors_and_thumbnails(tmp_path):
    page = sslzoo.explore(
        ROWS, tmp_path / "a.html", images=IMAGES, labels=LABELS, classes=["x", "<y>", "z"], neighbors=5
    )
    data = read(page)
    points, near = array(data["points"], "<f4").reshape(60, 2), array(data["near"], "<u4").reshape(60, 5)
    assert points.min() >= 0 and points.max() <= 1 and sorted(data["order"]) == list(range(60))
    cosines = (ROWS @ ROWS.T) / np.linalg.norm(ROWS, axis=1) / np.linalg.norm(ROWS, axis=1)[:, None]
    np.fill_diagonal(cosines, -2)
    np.testing.assert_array_equal(near, np.argsort(-cosines, axis=1)[:, :5])
    classes, clusters = data["groups"]
    assert classes["names"] == ["x", "<y>", "z"] and "t-SNE" in data["about"]
    np.testing.assert_array_equal(array(classes["of"], "<u2"), LABELS)
    found = array(clusters["of"], "<u2")
    assert all(len(set(found[label == LABELS])) == 1 for label in range(3)) and len(set(found)) == 3
    sprite = data["sprite"]
    with Image.open(io.BytesIO(base64.b64decode(sprite["uri"].partition(",")[2]))) as sheet:
        pixels, tile = np.asarray(sheet.convert("L")), sprite["tile"]
    for row in range(60):  # each thumbnail is where the page looks for it
        top, left = row // sprite["columns"] * tile, row % sprite["columns"] * tile
        assert abs(int(pixels[top + tile // 2, left + tile // 2]) - 100 * LABELS[row]) < 6


def test_outliers_of_clusters_are_a_group(tmp_path):
    data = read(sslzoo.explore(ROWS, tmp_path / "a.html", labels=LABELS - 1))
    assert data["groups"][0]["names"] == ["-1", "0", "1"]
    named = Embedding(ROWS, index=np.arange(60), labels=LABELS % 2, classes=np.array(["a", "b"]))
    data = read(sslzoo.explore(named, tmp_path / "c.html", labels=LABELS))
    assert data["groups"][0]["names"] == ["0", "1", "2"]  # the names are those of other labels
    assert read(sslzoo.explore(named, tmp_path / "d.html"))["groups"][0]["names"] == ["a", "b"]
    with pytest.raises(InvalidInputError, match=r"classes name labels from 0 on\. Received: labels from -1 on"):
        sslzoo.explore(ROWS, tmp_path / "b.html", labels=LABELS - 1, classes=["x", "y", "z"])


def test_files_give_names_and_thumbnails(tmp_path):
    paths = []
    for number in range(4):
        paths.append(tmp_path / f"</script>{number}.png".replace("/", "_"))
        Image.new("RGB", (30, 20), (60 * number, 0, 0)).save(paths[-1])
    (tmp_path / "gone.png").unlink(missing_ok=True)
    bank = Embedding(ROWS[:5], paths=np.array([*map(str, paths), str(tmp_path / "gone.png")]))
    data = read(sslzoo.explore(bank, tmp_path / "a.html"))
    assert data["names"] == [*(path.name for path in paths), "gone.png"] and data["sprite"]["columns"] == 3
    assert [group["name"] for group in data["groups"]] == ["cluster"]
    paths[1].unlink()
    paths[1].mkdir()  # by now a folder, whose files are none of these
    for number in range(3):
        Image.new("RGB", (30, 20), "white").save(paths[1] / f"{number}.png")
    sheet = read(sslzoo.explore(bank, tmp_path / "b.html"))["sprite"]
    picture = Image.open(io.BytesIO(base64.b64decode(sheet["uri"].partition(",")[2]))).convert("RGB")
    middle = [(sheet["tile"] * (k % 3 + 0.5), sheet["tile"] * (k // 3 + 0.5)) for k in (2, 3)]
    red = [picture.getpixel((int(x), int(y)))[0] for x, y in middle]
    assert abs(red[0] - 120) < 10 and abs(red[1] - 180) < 10


def test_deep_files_have_thumbnails(tmp_path):
    tifffile = pytest.importorskip("tifffile")
    for n in range(4):
        tifffile.imwrite(tmp_path / f"{n}.tif", np.arange(64, dtype="uint16").reshape(8, 8) * (50 + n))
    bank = Embedding(ROWS[:4], paths=np.array([str(tmp_path / f"{n}.tif") for n in range(4)]))
    sheet = read(sslzoo.explore(bank, tmp_path / "a.html"))["sprite"]
    picture = Image.open(io.BytesIO(base64.b64decode(sheet["uri"].partition(",")[2]))).convert("L")
    tile = np.asarray(picture)[: sheet["tile"], : sheet["tile"]]
    assert tile.min() < 20 and tile.max() > 235


@pytest.mark.parametrize("place", ["nowhere/map.html", "."])
def test_a_page_that_cannot_be_written_is_refused_before_any_work(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(exploring, "_points", None)
    with pytest.raises(InvalidInputError, match="html must be a file in a folder that exists"):
        sslzoo.explore(ROWS, place)


def test_without_images_there_are_dots_alone(tmp_path):
    data = read(sslzoo.explore(ROWS, tmp_path / "a.html", clusters=4))
    assert data["sprite"] is None and len(data["groups"][0]["names"]) == 4 and data["index"] == list(range(60))


@pytest.mark.parametrize("rows", [np.ones((10, 4)), ROWS[:, :1], ROWS[:3], np.zeros((5, 60))])
def test_few_equal_and_narrow_features_have_a_map(tmp_path, rows):
    data = read(sslzoo.explore(rows, tmp_path / "a.html"))
    assert np.isfinite(array(data["points"], "<f4")).all()
    near = array(data["near"], "<u4").reshape(len(rows), -1)
    assert all(row not in others for row, others in enumerate(near)) and near.shape[1] == min(12, len(rows) - 1)


def test_of_many_rows_some_are_placed_and_others_go_to_them(tmp_path, monkeypatch):
    monkeypatch.setattr(exploring, "MOST_PLACED", 40)
    data = read(sslzoo.explore(ROWS, tmp_path / "a.html"))
    assert "t-SNE of 40 of them" in data["about"]
    points = array(data["points"], "<f4").reshape(60, 2)
    for label in range(3):  # the classes lie apart, wherever their images were placed from
        own = points[label == LABELS]
        others = points[label != LABELS].mean(axis=0)
        assert np.all(np.linalg.norm(own - own.mean(axis=0), axis=1) < np.linalg.norm(own - others, axis=1))


def test_of_more_rows_than_a_page_takes_some_are_shown(tmp_path, monkeypatch):
    monkeypatch.setattr(exploring, "MOST", 20)
    data = read(sslzoo.explore(ROWS, tmp_path / "a.html", images=IMAGES, labels=LABELS, neighbors=3))
    rows = np.array(data["index"])
    assert len(rows) == 20 and np.all(np.diff(rows) > 0) and "20 images of 60, chosen at random" in data["about"]
    np.testing.assert_array_equal(array(data["groups"][0]["of"], "<u2"), LABELS[rows])
    sprite = data["sprite"]
    with Image.open(io.BytesIO(base64.b64decode(sprite["uri"].partition(",")[2]))) as sheet:
        pixels, tile = np.asarray(sheet.convert("L")), sprite["tile"]
    for place, row in enumerate(rows):
        top, left = place // sprite["columns"] * tile, place % sprite["columns"] * tile
        assert abs(int(pixels[top + tile // 2, left + tile // 2]) - 100 * LABELS[row]) < 6


@pytest.mark.parametrize(
    ("features", "options", "error", "message"),
    [
        (ROWS[:2], {}, InvalidInputError, "3 images or more. Received: 2 rows"),
        (ROWS * np.nan, {}, InvalidInputError, "must be finite"),
        (ROWS, {"images": IMAGES[:9]}, InvalidInputError, "number 59"),
        (ROWS, {"labels": LABELS[:9]}, InvalidInputError, "one label for each row"),
        (ROWS, {"labels": LABELS, "classes": ["a"]}, InvalidInputError, "numbers of 1 classes"),
        (ROWS, {"images": "nowhere"}, MissingDataError, "no such folder"),
        ("nowhere.npz", {}, MissingDataError, "no such file"),
        (ROWS, {"neighbors": 0}, InvalidInputError, "neighbors must be"),
    ],
)
def test_what_cannot_be_mapped_is_refused(tmp_path, features, options, error, message):
    with pytest.raises(error, match=message):
        sslzoo.explore(features, tmp_path / "a.html", **options)
    assert not (tmp_path / "a.html").exists()


def test_the_shell_writes_a_page_and_replaces_none_unasked(tmp_path, capsys):
    np.savez(tmp_path / "f.npz", features=ROWS, index=np.arange(60), labels=LABELS)
    arguments = ["explore", str(tmp_path / "f.npz"), "--html", str(tmp_path / "a.html")]
    assert cli.main([*arguments, "--images", "digits"]) == 0 and "MiB" in capsys.readouterr().out
    assert cli.main(arguments) == 2 and "--force replaces it" in capsys.readouterr().err
    assert read(tmp_path / "a.html")["sprite"]["tile"] == 96


@pytest.mark.slow
def test_a_browser_shows_it(tmp_path):
    """Hover brings a thumbnail, a click brings neighbors, a legend hides a class."""
    playwright = pytest.importorskip("playwright.sync_api")
    browser_path = shutil.which("chromium")
    if browser_path is None:
        pytest.skip("no chromium")
    page = sslzoo.explore(ROWS, tmp_path / "a.html", images=IMAGES, labels=LABELS)
    with playwright.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1200, "height": 800})
        faults = []
        tab.on("pageerror", lambda error: faults.append(error))
        tab.on("request", lambda request: faults.append(request.url) if request.url.startswith("http") else None)
        tab.goto(page.as_uri())
        x, y = tab.evaluate("(r => [r.left + across(7), r.top + down(7)])(canvas.getBoundingClientRect())")
        tab.mouse.move(x, y)
        assert tab.locator("#tip").is_visible() and "image 7" in tab.locator("#tip").inner_text()
        tab.mouse.click(x, y)
        assert tab.locator("#found figure").count() == 13
        tab.locator("#legend button").first.click()
        assert tab.evaluate("hidden.size") == 1
        browser.close()
    assert faults == []
