"""Charts of shares with their intervals."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from sslzoo.evaluation.pictures import BLUE, GRAY, INK, ORANGE, PALE, Picture, new_figure, save_figure

__all__ = ["BLUE", "GRAY", "ORANGE", "Row", "intervals"]


class Row(NamedTuple):
    """A share with its interval, drawn in percent.

    Attributes:
        name: str.
        value, low, high: float.
        color: str, of the dot and its bar.
    """

    name: str
    value: float
    low: float
    high: float
    color: str = BLUE


def intervals(
    panels: Sequence[tuple[str, Sequence[Row]]], path: "str | os.PathLike | None", title: str
) -> "Path | Picture":
    """Panels, two beside each other, of dots with bars; a line at 0 where bars reach it.

    Args:
        panels: (title, rows) of each, an even number of them.
        path: file to write, or None for a `Picture`.
        title: str, above all.
    """
    lines = [max(len(left[1]), len(right[1]), 2) for left, right in zip(panels[::2], panels[1::2])]
    figure, axes = new_figure(11, 0.6 + sum(0.8 + 0.3 * count for count in lines), "")
    figure.delaxes(axes)
    figure.suptitle(title, x=0.012, ha="left", color=INK, fontsize=12, fontweight="bold")
    grid = figure.add_gridspec(len(lines), 2, height_ratios=[3 + count for count in lines])
    for (name, rows), place in zip(panels, grid):
        _dots(figure.add_subplot(place), name, rows)
    return save_figure(figure, path)


def _dots(axes, title, rows):
    for height, row in enumerate(rows):
        axes.plot([100 * row.low, 100 * row.high], [height, height], color=row.color, linewidth=2.2, alpha=0.55)
        axes.plot(100 * row.value, height, "o", color=row.color, markersize=6)
    axes.set_yticks(range(len(rows)), [row.name for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_title(title, loc="left", color=INK, fontsize=10.5)
    if min((row.low for row in rows), default=1) <= 0:
        axes.axvline(0, color=GRAY, linewidth=0.9)
    axes.grid(axis="x", color=PALE, linewidth=0.8)
    axes.tick_params(colors=GRAY, length=0, labelsize=9)
    axes.spines[:].set_visible(False)
