"""Figures of the tables: content against style, and accuracies over one setting."""

import itertools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from sslzoo.errors import InvalidInputError, choose
from sslzoo.evaluation.pictures import BLUE, CLASS_COLORS, GRAY, INK, ORANGE, PALE, Picture, new_figure, save_figure

LEAST_SPAN = 2.0  # points that the axis of accuracies spans at least: what single seeds differ by


def tradeoff(
    points: Sequence[tuple[str, float, float, str]], path: "str | os.PathLike", title: str = "Content and style"
) -> Path:
    """Encoders by what they keep of content and of style: figure 4 of the SimVAE paper, best at the top right.

    Args:
        points: (name, content, style, kind) of each encoder: two shares in 0..1; "generative", "discriminative" or
            "untrained". One with an empty name is a dot alone.
        path: file to write.
        title: str.

    Returns:
        Path of the PNG.

    Raises:
        InvalidInputError: there is no point.
        UnknownNameError: a kind is not known.
    """
    if not points:
        raise InvalidInputError("A picture of content and style takes at least one encoder. Received: none")
    kinds = {"generative": BLUE, "discriminative": ORANGE, "untrained": GRAY}
    points = sorted(points, key=lambda point: point[2])
    named = [i for i, point in enumerate(points) if point[0]]
    figure, axes = new_figure(7.8, max(4.4, 1.4 + 0.21 * len(named)), title)
    content, style = (100 * np.array([point[i] for point in points], float) for i in (1, 2))
    chosen = np.array([choose("kind", point[3], kinds) for point in points])
    # An untrained encoder far off, or one that tells less than it does, would press all others together: it stands at
    # the edge, its content in words.
    floor = content[chosen == "untrained"].max(initial=-np.inf)
    near = content[content > floor] if (content > floor).any() else content
    across, up = max(np.ptp(near), 1.0), max(np.ptp(style), 1.0)
    edge = near.min() - 0.25 * across
    axes.set_xlim(edge, near.max() + 0.06 * across)
    axes.set_ylim(min(0, style.min() - 0.1 * up), style.max() + 0.08 * up)
    places = np.maximum(content, edge)
    for kind in (kind for kind in kinds if (chosen == kind).any()):
        for rows, mark in ((content >= edge, "o"), (content < edge, "<")):
            rows = rows & (chosen == kind)
            axes.scatter(places[rows], style[rows], s=46, marker=mark, color=kinds[kind], zorder=3, clip_on=False)
        axes.scatter([], [], s=46, color=kinds[kind], label=kind)
    low, high = axes.get_ylim()
    heights = _spread((style[named] - low) / (high - low), 1 / max(20, len(named)))
    for i, height in zip(named, heights):
        axes.annotate(
            f"{points[i][0]} ({content[i]:.0f} %)" if content[i] < edge else points[i][0],
            (places[i], style[i]),
            fontsize=9,
            color=INK,
            xytext=(1.04, height),
            textcoords="axes fraction",
            va="center",
            arrowprops={
                "arrowstyle": "-",
                "color": kinds[chosen[i]],
                "alpha": 0.35,
                "linewidth": 0.8,
                "relpos": (0, 0.5),
            },
        )
    axes.set_xlabel("content: kNN accuracy, %", color=GRAY)
    axes.set_ylabel("style kept, %", color=GRAY)
    axes.grid(color=PALE, linewidth=0.8)
    axes.tick_params(colors=GRAY, length=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title, loc="left", color=INK, fontsize=12, fontweight="bold", pad=26)
    axes.legend(
        frameon=False,
        fontsize=9,
        labelcolor=GRAY,
        ncols=3,
        loc="lower left",
        bbox_to_anchor=(-0.02, 1),
        handletextpad=0.2,
    )
    return save_figure(figure, path)


def _spread(heights, gap):
    """Heights in 0..1, from below, moved apart until `gap` lies between neighbors: names that cover none other."""
    heights = np.clip(heights, 0, 1)
    if not len(heights):
        return heights
    for i in range(1, len(heights)):
        heights[i] = max(heights[i], heights[i - 1] + gap)
    heights[-1] = min(heights[-1], 1)
    for i in range(len(heights) - 2, -1, -1):
        heights[i] = min(heights[i], heights[i + 1] - gap)
    return heights


def sweep(
    values: Sequence[str],
    series: Mapping[str, Sequence[tuple[float, float]]],
    path: "str | os.PathLike | None" = None,
    setting: str = "setting",
    title: str = "Sweep",
    seeds: Sequence[Sequence[float]] = (),
    measure: str = "%",
    ordered: bool = True,
) -> "Path | Picture":
    """Accuracies over the values of one setting: means as lines, or as points, and standard errors as bars.

    Args:
        values: of the setting, in the order they stand in; evenly spaced, whatever they are.
        series: name -> (mean, standard error) at each of the values, in percent; an error of NaN draws no bar.
        path: file to write, or None for a `Picture`.
        setting: what the axis below is called.
        title: str.
        seeds: the numbers of each seed at each of the values, in percent: dots behind the lines.
        measure: what the axis to the left is called.
        ordered: whether the values have an order; without one no line joins the means, which stand side by side.

    Returns:
        Path of the PNG, or the `Picture`.

    Raises:
        InvalidInputError: there is no series, or one has not a pair for each value.
    """
    counts = {name: len(pairs) for name, pairs in series.items()}
    if not counts or any(count != len(values) for count in counts.values()):
        raise InvalidInputError(
            f"A sweep takes a mean and an error at each of {len(values)} values. Received: series of {counts or 'none'}"
        )
    many = len(series) > 3  # names would cover lines
    figure, axes = new_figure(7.8 if many else 6.2, 4.0, title)
    places = np.arange(len(values))
    for place, numbers in zip(places, seeds):
        axes.plot([place] * len(numbers), numbers, ".", color=GRAY, alpha=0.5, zorder=0)
    colors = (BLUE, ORANGE, *CLASS_COLORS) if len(series) <= 2 else CLASS_COLORS
    aside = np.zeros(len(series)) if ordered else np.linspace(-0.25, 0.25, len(series))
    style = {"markersize": 5, "linestyle": "-" if ordered else "none"}
    looks = zip(series.items(), itertools.cycle(colors), itertools.cycle("osD^v"), aside)
    for (name, pairs), color, marker, by in looks:
        means, errors = np.array(pairs, float).T
        if np.isnan(errors).all():
            axes.plot(places + by, means, color=color, marker=marker, label=name, **style)
        else:
            axes.errorbar(places + by, means, errors, color=color, marker=marker, capsize=3, label=name, **style)
    axes.set_xticks(places, values)
    axes.set_xlabel(setting, color=GRAY)
    axes.set_ylabel(measure, color=GRAY)
    low, high = axes.get_ylim()
    if high - low < LEAST_SPAN:  # or a tenth of a point would look like a slope
        axes.set_ylim((low + high - LEAST_SPAN) / 2, (low + high + LEAST_SPAN) / 2)
    axes.grid(axis="y", color=PALE, linewidth=0.8)
    axes.tick_params(colors=GRAY, length=0)
    axes.spines[["top", "right"]].set_visible(False)
    beside = {"loc": "center left", "bbox_to_anchor": (1, 0.5)} if many else {}
    axes.legend(frameon=False, fontsize=9, labelcolor=GRAY, **beside)
    return save_figure(figure, path)
