"""What makes SimVAE and beta-VAE alike on small gray images: the pull, the push, or different images in a step?

    python benchmarks/open_question.py mnist --precision mixed_bfloat16  # every system and batch, three seeds
    python benchmarks/open_question.py fashion_mnist --budget 3600000 --seeds 0
    python benchmarks/open_question.py                                   # the page of what there is

Each trial is one of benchmarks/choose.py: nine tenths of the training images train and are the bank of the neighbors,
the rest are the queries; no test image is used. Every trial sees the same number of views, in steps of 320; those of
single views are made a second time with a tenth of the views, so that they pass over the images as often as steps of
ten views of an image do. A row is written to docs/sweeps/open-question-<dataset>-<budget>.csv as soon as it is there,
so that the next call goes on where this one stopped; the figure of the same name shows every seed and the mean.
docs/open_question.md has both, and what each part does: differences of two trials by Euclidean neighbors, tested as
those of docs/results.md are.
"""

import argparse
import dataclasses
import itertools
from pathlib import Path

import numpy as np
import sweep

from sslzoo.evaluation.pictures import BLUE, GRAY, INK, ORANGE, PALE, new_figure, save_figure
from sslzoo.files import module_at, write_beside

tables = module_at(Path(__file__).with_name("tables.py"))
PAGE = sweep.FOLDER.parent / "open_question.md"
BUDGETS = (600_000, 3_600_000)  # views of a trial
DATASETS = {"mnist": "MNIST", "fashion_mnist": "FashionMNIST"}
KEY = ("system", "images", "views_per_image", "seed")
COLUMNS = (*KEY, "backend", "views", "seconds", "cosine", "centered", "euclidean")
# Label -> the recipe and what is changed in it.
SYSTEMS = {
    "SimVAE, uniform centers": ("simvae", ()),
    **{
        f"SimVAE, N(0, 1) centers, prior variance {variance}": (
            "simvae",
            (f"prior_variance={variance}", "center_variance=1.0"),
        )
        for variance in (0.02, 0.05, 0.15, 0.5)
    },
    "beta-VAE (likelihood variance 0.01)": ("beta-vae", ()),
    "VAE (Bernoulli)": ("vae", ("likelihood=bernoulli",)),
}
UNIFORM, TIGHT, _, _, LOOSE, BETA, VAE = SYSTEMS
# Name -> images of a step, views of each (SimVAE takes two at least), and what the budget is divided by.
BATCHES = {"32 x 10": (32, 10, 1), "160 x 2": (160, 2, 1), "320 x 1": (320, 1, 1), "320 x 1, a tenth": (320, 1, 10)}
GROUPS, TWO, ONE, PASSES = BATCHES
# What a part does: its name, a trial's system and batch, and those of the trial that it is compared with.
PARTS = (
    *(("push: beta-VAE over VAE", (BETA, batch), (VAE, batch)) for batch in BATCHES),
    *(("pull: SimVAE, uniform centers, over beta-VAE", (UNIFORM, batch), (BETA, batch)) for batch in (GROUPS, TWO)),
    *(("tighter pull: prior variance 0.02 over 0.5", (TIGHT, batch), (LOOSE, batch)) for batch in (GROUPS, TWO)),
    *((f"different images: {system}", (system, TWO), (system, GROUPS)) for system in SYSTEMS),
    *((f"different images: {system}", (system, ONE), (system, TWO)) for system in (BETA, VAE)),
    *((f"ten views of an image: SimVAE over {system}", (UNIFORM, GROUPS), (system, PASSES)) for system in (BETA, VAE)),
)
READINGS = {"euclidean": "Euclidean", "centered": "cosine, centered"}


def path_of(dataset, budget):
    return sweep.FOLDER / f"open-question-{dataset}-{budget}.csv"


def paths_of(dataset, budget):
    """Name of a batch -> where its trials of a budget stand."""
    return {name: path_of(dataset, budget // divisor) for name, (_, _, divisor) in BATCHES.items()}


def trials(seeds):
    """(system, name of a batch, seed) of every trial, seed by seed."""
    for seed in seeds:
        for system, (method, _) in SYSTEMS.items():
            for name, (_, views, _) in BATCHES.items():
                if views > 1 or method != "simvae":
                    yield system, name, seed


def run(dataset, budget, seeds, words):
    paths = paths_of(dataset, budget)
    for path in paths.values():
        sweep.check_backend(path, sweep.read(path))
    done = {name: {tuple(row[key] for key in KEY) for row in sweep.read(path)} for name, path in paths.items()}
    left = [
        (system, name, seed)
        for system, name, seed in trials(seeds)
        if tuple(map(str, (system, *BATCHES[name][:2], seed))) not in done[name]
    ]
    for i, (system, name, seed) in enumerate(left):
        (images, views, divisor), (method, changes) = BATCHES[name], SYSTEMS[system]
        print(f"{dataset}, trial {i + 1} of {len(left)}: {system}, {name}, seed {seed}", flush=True)
        changes = (f"batch_size={images}", f"num_views={views}", *changes)
        found = sweep.measured(method, dataset, budget // divisor, changes, seed, words)
        sweep.append(paths[name], dict(zip(KEY, (system, images, views, seed))) | found, COLUMNS)


def summary(dataset, budget):
    """(system, name of a batch) -> {reading: all seeds' percent}."""
    found = {}
    for name, path in paths_of(dataset, budget).items():
        for row in sweep.read(path):
            if (int(row["images"]), int(row["views_per_image"])) == BATCHES[name][:2]:
                at = found.setdefault((row["system"], name), {})
                for reading in READINGS:
                    at.setdefault(reading, []).append(100 * float(row[reading]))
    return found


def standard_error(values):
    """Of the mean over two seeds or more."""
    return float(np.std(values, ddof=1)) / len(values) ** 0.5


def cell(values):
    """Mean and standard error over seeds, as the tables have them."""
    if not values:
        return "–"
    mean = f"{np.mean(values):.1f}"
    return f"{mean} ± {standard_error(values):.1f}" if values[1:] else mean


def tried(found):
    """The systems of a summary, in the order of `SYSTEMS`."""
    return [system for system in SYSTEMS if any(system == of for of, _ in found)]


def table(found):
    """Lines of a table, a row a system that was tried."""
    header = ["system", *(f"{batch}, {name}" for batch in BATCHES for name in READINGS.values())]
    rows = [
        [system, *(cell(found.get((system, batch), {}).get(name)) for batch in BATCHES for name in READINGS)]
        for system in tried(found)
    ]
    return tables.table(header, rows)


@dataclasses.dataclass(frozen=True)
class Difference:
    """Percentage points by which one of `PARTS` is ahead, its standard error, and `p` of Welch's t.

    `where` is the data set and the views of a trial.
    """

    part: int
    where: tuple
    points: float
    error: float
    p: float

    @classmethod
    def of(cls, part, where, found):
        """None before both trials have as many seeds as a verdict takes."""
        sides = [found.get((system, batch), {}).get("euclidean", ()) for system, batch in PARTS[part][1:]]
        if min(map(len, sides)) < tables.SEEDS:
            return None
        points = float(np.mean(sides[0]) - np.mean(sides[1]))
        errors = [standard_error(side) for side in sides]
        p = tables.welch(points, *zip(errors, map(len, sides)))
        return cls(part, where, points, float(np.hypot(*errors)), p)


def differences(summaries):
    """Lines of a table of `PARTS`, of {(data set, views): its `summary`}; bold is what is significant."""
    made = {
        (part, where): Difference.of(part, where, found)
        for where, found in summaries.items()
        for part in range(len(PARTS))
    }
    counting = tables.discoveries([each for each in made.values() if each])

    def shown(each):
        if each is None:
            return "–"
        mark = "**" if each in counting else ""
        return f"{mark}{each.points:+.1f}{mark} ± {each.error:.1f}"

    rows = []
    for part, (what, (_, batch), (_, other)) in enumerate(PARTS):
        batches = " over ".join(dict.fromkeys((batch, other)))
        rows.append([what, batches, *(shown(made[part, where]) for where in summaries)])
    return tables.table(["part", "batch", *(title(*where) for where in summaries)], rows)


def title(dataset, budget):
    return f"{DATASETS[dataset]}, {budget / 1e6:g} M views"


def draw(found, dataset, budget):
    """Every seed as a dot and the mean as a stroke, a row a system and a color a batch, by Euclidean neighbors."""
    colors = {GROUPS: BLUE, TWO: ORANGE, ONE: INK}  # a tenth of the views lies far from all others
    systems = tried(found)
    heading = f"Equal views in three batches: {title(dataset, budget)} a trial"
    figure, axes = new_figure(9.0, 1.6 + 0.5 * len(systems), heading)
    for shift, (batch, color) in zip((-0.24, 0.0, 0.24), colors.items()):
        axes.plot([], [], "o", color=color, label=batch)
        for place, system in enumerate(systems):
            values = found.get((system, batch), {}).get("euclidean")
            if values:
                axes.plot(values, [place + shift] * len(values), "o", color=color, markersize=4, alpha=0.5)
                axes.plot([np.mean(values)], [place + shift], "|", color=color, markersize=11, markeredgewidth=2)
    axes.set_yticks(range(len(systems)), systems)
    axes.invert_yaxis()
    axes.set_xlabel("kNN on held-out training images (Euclidean, k = 10), %", color=GRAY)
    axes.grid(axis="x", color=PALE, linewidth=0.8)
    axes.tick_params(colors=GRAY, length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9, labelcolor=GRAY, title="images x views")
    return save_figure(figure, path_of(dataset, budget).with_suffix(".png"))


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "datasets", nargs="*", metavar="DATASET", help=f"{', '.join(DATASETS)}; none: the page of what there is"
    )
    parser.add_argument(
        "--budget", type=int, default=BUDGETS[0], choices=BUDGETS, help=f"views of a trial ({BUDGETS[0]})"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    ours, theirs = parser.parse_known_args(argv)
    if unknown := [dataset for dataset in ours.datasets if dataset not in DATASETS]:
        parser.error(f"expected data sets of {', '.join(DATASETS)}. Received: {' '.join(unknown)}")
    for dataset in ours.datasets:
        run(dataset, ours.budget, ours.seeds, theirs)
    page = PAGE.read_text("utf-8")
    summaries = {where: summary(*where) for where in itertools.product(DATASETS, BUDGETS)}
    for where, found in summaries.items():
        if found:
            picture = draw(found, *where)
            lines = [f"![{title(*where)}]({picture.parent.name}/{picture.name})", "", *table(found)]
            page = tables.with_rows(page, lines, "-".join(map(str, where)))
    page = tables.with_rows(page, differences(summaries), "parts")
    write_beside(PAGE, page)
    print(f"{PAGE} has its tables and figures.")


if __name__ == "__main__":
    main()
