"""Figures of the tables: what they draw, and what they refuse."""

import math
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sslzoo.errors import InvalidInputError, UnknownNameError
from sslzoo.files import module_at

figures = module_at(Path(__file__).resolve().parent.parent / "benchmarks" / "figures.py")


def test_an_encoder_below_the_untrained_one_stands_at_the_edge(monkeypatch):
    drawn = []
    monkeypatch.setattr(figures, "save_figure", lambda figure, path: drawn.append(figure))
    points = [("best", 0.95, 0.6, "generative"), ("good", 0.9, 0.2, "discriminative")]
    below = [("floor", 0.76, 0.3, "untrained"), ("collapsed", 0.28, 0.1, "generative")]
    figures.tradeoff([*points, *below], "unused.png")
    (axes,) = drawn[0].axes
    assert 85 < axes.get_xlim()[0] < 90  # the two that tell something fill the picture
    assert {text.get_text() for text in axes.texts} == {"best", "good", "floor (76 %)", "collapsed (28 %)"}


def test_a_sweep_draws_every_mean_error_and_seed(tmp_path, monkeypatch):
    series = {"kNN": [(90.0, 1.0), (95.0, 0.5)], "GMM": [(60.0, math.nan), (70.0, 2.0)]}
    with Image.open(figures.sweep(["2", "10"], series, tmp_path / "sweep.png", setting="views")) as picture:
        assert picture.format == "PNG" and min(picture.size) > 300
    drawn = []
    monkeypatch.setattr(figures, "save_figure", lambda figure, path: drawn.append(figure))
    figures.sweep(["2", "10"], series, seeds=[[89.0, 91.0], [95.0]])
    (axes,) = drawn[0].axes
    means = {container.get_label(): container.lines[0].get_ydata().tolist() for container in axes.containers}
    assert means == {"kNN": [90.0, 95.0], "GMM": [60.0, 70.0]}
    assert [label.get_text() for label in axes.get_xticklabels()] == ["2", "10"]
    assert axes.lines[0].get_ydata().tolist() == [89.0, 91.0]
    figures.sweep(["2", "10"], {"kNN": [(96.5, 0.02), (96.6, 0.03)]})  # a tenth of a point is no slope
    low, high = drawn[1].axes[0].get_ylim()
    assert high - low == pytest.approx(2.0) and (low + high) / 2 == pytest.approx(96.55, abs=0.05)
    plain = {"one": [(90.0, math.nan), (95.0, math.nan)], "two": [(90.0, math.nan), (91.0, math.nan)]}
    figures.sweep(["blur", "noise"], plain, measure="kNN, %", ordered=False)  # no order, no lines; no error, no bar
    (axes,) = drawn[2].axes
    assert not axes.containers and {line.get_linestyle() for line in axes.lines} == {"None"}
    assert axes.get_ylabel() == "kNN, %" and axes.lines[0].get_xdata()[0] < axes.lines[1].get_xdata()[0]
    for wrong in ({}, {"kNN": [(90.0, 1.0)]}):
        with pytest.raises(InvalidInputError, match=r"at each of 2 values\. Received"):
            figures.sweep(["2", "10"], wrong)


def test_content_and_style(tmp_path):
    points = [("one", 0.9, 0.6, "generative"), ("two", 0.9, 0.59, "discriminative"), ("none", 0.3, 0.3, "untrained")]
    with Image.open(figures.tradeoff(points, tmp_path / "tradeoff.png")) as picture:
        assert picture.format == "PNG" and min(picture.size) > 300
    many = [(f"encoder {i}", 0.95 + 0.001 * i, 0.25, "discriminative") for i in range(30)]
    with Image.open(figures.tradeoff([*many, *points], tmp_path / "many.png")) as taller:
        assert taller.height > 1.5 * picture.height
    unnamed = [("", *point[1:]) for point in many]
    with Image.open(figures.tradeoff([*unnamed, *points], tmp_path / "unnamed.png")) as same:
        assert same.height == picture.height
    figures.tradeoff(unnamed, tmp_path / "dots.png")
    heights = figures._spread(np.array([0.2, 0.2, 0.21, 0.9, 0.99, 1.0]), 0.1)
    assert np.diff(heights).min() > 0.1 - 1e-9 and heights.max() <= 1 and heights[0] == 0.2
    with pytest.raises(InvalidInputError, match="at least one"):
        figures.tradeoff([], tmp_path / "no.png")
    with pytest.raises(UnknownNameError, match="generative"):
        figures.tradeoff([("one", 0.9, 0.6, "generativ")], tmp_path / "no.png")
    assert not (tmp_path / "no.png").exists()
