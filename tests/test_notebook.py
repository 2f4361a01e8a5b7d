"""What a notebook shows: pictures without a file, and how far work is."""

import io
import sys
import types

import numpy as np
import pytest
from PIL import Image

from sslzoo import progress
from sslzoo.evaluation import pictures

pytestmark = pytest.mark.slow


def shown(thing):
    """What a notebook makes of the last value of a cell, by the names that IPython's formatters ask for."""
    asked = {"image/png": "_repr_png_"}
    return {kind: getattr(thing, name)() for kind, name in asked.items() if hasattr(thing, name)}


def test_pictures_show_themselves_where_no_file_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (12, 8, 8, 1), "uint8")
    made = [
        pictures.reconstructions(images, images),
        pictures.samples(images),
        pictures.views(images[:2], rng.random((2, 3, 8, 8, 1))),
        pictures.neighbors(images, rng.normal(size=(12, 3)), k=2, queries=3),
        pictures.embedding(rng.normal(size=(12, 3)), np.arange(12) % 2),
        pictures.curves([{"epoch": 1, "loss": 2.0}, {"epoch": 2, "loss": 1.5}]),
    ]
    for picture in made:
        assert Image.open(io.BytesIO(shown(picture)["image/png"])).width > 10
    assert not list(tmp_path.iterdir())
    path = made[0].save("r.png")
    assert path.read_bytes() == made[0].png == pictures.reconstructions(images, images, "again.png").read_bytes()


def test_work_shows_how_far_it_is_in_a_notebook(monkeypatch, capsys):
    progress.line("embedded")(1, 2)
    assert not capsys.readouterr().err  # a log file
    shell = types.SimpleNamespace()
    states = []

    class Handle:
        def display(self, data, raw):
            states.append([data["text/plain"]])

        def update(self, data, raw):
            states[-1].append(data["text/plain"])

    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", types.SimpleNamespace(DisplayHandle=Handle))
    progress.line("embedded")(1, 2)
    assert not capsys.readouterr().err  # IPython in a pipe
    shell.kernel = object()
    show = progress.line("embedded")
    for done in range(1, 1001):
        show(done, 1000)
    assert not capsys.readouterr().err
    assert len(states) == 1 and states[0][0] == "embedded: 1 of 1,000" and states[0][-1] == "" and len(states[0]) < 10
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: None))
    assert not progress.in_notebook()
