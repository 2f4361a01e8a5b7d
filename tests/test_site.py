"""The documentation site: it builds, shows every encoder, and every link and picture in it leads somewhere."""

import base64
import gzip
import html.parser
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest

import sslzoo
from sslzoo.files import module_at

ROOT = Path(__file__).resolve().parent.parent
pytest.importorskip("mkdocs")
pytest.importorskip("mkdocstrings")


class Links(html.parser.HTMLParser):
    """What a page loads (`loaded`), what it leads to (`links`), and the anchors in it."""

    def __init__(self, text):
        super().__init__()
        self.loaded, self.links, self.anchors = [], [], set()
        self.feed(text)

    def names(self):
        """Last parts of anchors, as objects in API pages have them."""
        return {anchor.rpartition(".")[2] for anchor in self.anchors}

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.anchors |= {given[key] for key in ("id", "name") if given.get(key)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        source = given.get("src") or (given.get("href") if tag == "link" and given.get("rel") != "canonical" else None)
        if source:
            self.loaded.append(source)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.mark.slow
def test_every_encoder_has_a_page_and_a_row(site):
    table = (site / "gallery" / "index.html").read_text()
    for name in (model["name"] for model in sslzoo.list_models()):
        assert f'href="{name}.html"' in table
        page = (site / "gallery" / f"{name}.html").read_text()
        assert "load" in page and f"pictures/{name}/embedding.png" in page
    assert sum(file.stat().st_size for file in site.rglob("*") if file.is_file()) < 30e6
    assert (site / "search" / "search_index.js").is_file()  # what a page that is read from disk searches in


@pytest.mark.slow
def test_code_in_docstrings_is_whole(site):
    """A method of an example was once taken for a formula, which ended the block."""
    pages = {file.name: file.read_text() for file in (site / "api").glob("*.html")}
    assert len(pages) > 8 and not [name for name, text in pages.items() if "```" in text]
    assert {"MemoryBank", "EnergyModel", "Indexed"} <= Links(pages["methods.html"]).names()


@pytest.mark.slow
def test_links_and_pictures_are_there_and_nothing_comes_from_other_hosts(site):
    pages = {file: Links(file.read_text()) for file in site.rglob("*.html") if file.parent.name != "site"}
    assert len(pages) > 100
    for file, page in pages.items():
        if file.name == "404.html":  # its addresses begin at the root of a server
            continue
        assert not [source for source in page.loaded if re.match(r"(https?:)?//", source)], file
        for target in (*page.loaded, *page.links):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            there = (file.parent / unquote(path.partition("?")[0])).resolve() if path else file
            there = there / "index.html" if there.is_dir() else there
            assert there.is_file(), f"{file.relative_to(site)}: {target}"
            if anchor and there in pages:
                assert unquote(anchor) in pages[there].anchors, f"{file.relative_to(site)}: {target}"


def test_pages_show_small_numbers_with_the_digits_that_count():
    gallery = module_at(ROOT / "docs" / "site" / "gallery.py")
    entries = gallery.entries()
    page = gallery.pages()["gallery/simvae-mnist.md"]
    error = next(m for m in entries["simvae-mnist"]["metrics"] if m["name"] == "reconstruction.mse")
    (row,) = (line for line in page.splitlines() if line.startswith(f"| {error['label']} |"))
    here, guessing = (row.split("|")[column].strip() for column in (2, 4))
    assert float(here) == pytest.approx(error["value"], rel=1e-3)
    assert float(guessing) == pytest.approx(error["chance"], rel=1e-3)
    shares = [m for m in entries["simvae-mnist"]["metrics"] if m.get("unit", "%") == "%"]
    assert shares and all(f"| {m['value']:.2f} %" in page for m in shares)


def test_the_page_of_digits_has_the_published_weights():
    """What its script decodes is what Keras computes with, and its neighbors are of Keras' features."""
    digit = module_at(ROOT / "docs" / "site" / "digit.py")
    images = digit.digits()[:20]
    expected = sslzoo.load("simvae-mnist").predict(images[..., None], verbose=0)
    script = digit.pages()["site/digit_weights.js"]
    known = json.loads(script.removeprefix("window.SIMVAE = ").rstrip(";\n"))

    def array(text, dtype):
        return np.frombuffer(gzip.decompress(base64.b64decode(text)), dtype)

    network = [
        (array(layer["kernel"], "<f2").reshape(-1, layer["units"]), array(layer["bias"], "<f4"))
        for layer in known["encoder"]
    ]
    np.testing.assert_allclose(digit.encode(images, network), expected, atol=1e-3)
    features = array(known["features"], "<f4").reshape(known["count"], -1)
    np.testing.assert_allclose(features[:20], expected, atol=1e-3)
    assert base64.b64decode(known["sheet"].partition(",")[2]) == digit.SHEET.read_bytes()
