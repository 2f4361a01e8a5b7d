"""Moons and circles: what each term of GEDI is for, and what clustering without a density misses.

    python examples/moons_and_circles.py                                       # everything
    python examples/moons_and_circles.py --variants GEDI --seeds 1             # one variant

The experiments of "Unifying Self-Supervised Clustering and Energy-Based Models", tables 2 and 3 and figures 3 to 5. Two
clusters are learned from points in the plane and their jittered copies, by GEDI, by GEDI without one of its terms, by
JEM (its generative term alone), by SwAV and by Barlow Twins; NMI with the true sets is measured on 2,000 other points.
The picture shows the clusters, the densities learned, and GEDI's terms beside the optima that are known of them: 0 for
invariance, log 2 for the prior.

Networks, weights, batches of 400 fresh points, 7,000 steps and Langevin settings are the paper's, and initial weights
are drawn as PyTorch, the paper's framework, draws them: with Keras' biases of 0 the circles are one to a network of
ReLUs (`redraw`). It leaves open how the points are made: here sets are centered, have a noise of 0.05 and fit the box
from -1.25 to 1.25 in which chains start anew. Four things differ. The density has the first 1,000 steps to itself
(`generative_steps`), so that clusters are cut out of features that follow the sets; otherwise a line through the middle
often comes first, and stays. The learning rate is 3e-3 (the paper has 1e-3). And densities are held near each other a
little (`energy_decay`): a chain moves by little more than its noise of 0.01 in a visit and does not reach the points,
so that without it the generative term falls without a bound and training may diverge. And a run whose terms end more
than 0.5 above the least that is known of them begins again from other weights, at most twice, and the one with the
lowest terms counts (`TRIES`): a choice by the training loss, without labels, which methods whose loss has no known
optimum cannot make, nor JEM.

NMI seen under JAX, mean and standard deviation of 5 seeds, and the paper's; where a run began again, the mean of first
tries stands in square brackets:

                  moons                                  circles
    JEM           0.00 +- 0.00 (0.00 +- 0.00)            0.60 +- 0.49 (0.00 +- 0.00)
    no prior      0.00 +- 0.00 (0.00 +- 0.00)            0.20 +- 0.40 (0.00 +- 0.00)
    no inv        0.42 +- 0.48 (0.11 +- 0.15)            0.95 +- 0.07 (0.22 +- 0.13)
    no gen        1.00 +- 0.00 (0.98 +- 0.00) [0.86]     1.00 +- 0.00 (0.83 +- 0.12) [0.40]
    GEDI          1.00 +- 0.00 (0.94 +- 0.07) [0.91]     1.00 +- 0.00 (1.00 +- 0.01)
    SwAV          0.77 +- 0.17 (0.76 +- 0.36)            0.10 +- 0.20 (0.00 +- 0.00)
    Barlow Twins  0.37 +- 0.31 (0.22 +- 0.10)            0.03 +- 0.06 (0.13 +- 0.10)

What the density adds shows in first tries. Of ten, GEDI found the sets in nine: one on moons ended at 0.55, with terms
1.5 above their optimum where the others had 0.1 to 0.2. Without the density four of ten failed, three of them on
circles, one of which twice: on such small problems beginning again replaces the density. With this density even JEM may
tell the circles apart, for which nothing in its loss asks. The whole took 18.4 minutes of processor time; JAX is the
fastest backend here (1.7 s for 1,000 steps of GEDI, TensorFlow 4.3, PyTorch 20.7).
"""

import argparse
import concurrent.futures
import multiprocessing
import tempfile
import time

import keras
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from sslzoo import networks
from sslzoo.callbacks import DivergenceGuard
from sslzoo.errors import TrainingError
from sslzoo.evaluation import scores
from sslzoo.methods import GEDI, JEM, BarlowTwins, SwAV

BATCH, LOOK = 400, 100  # points in a step; steps between two looks at the terms
AUGMENTATION = 0.03  # standard deviation
RATE = 3e-3
BOX = 1.25
TRIES, EXCESS = 3, 0.5  # times that a run may begin; terms above their optimum that end it
LANGEVIN = {"step_size": 0.01**2 / 2, "noise": 0.01, "sample_range": (-BOX, BOX), "energy_decay": 0.01}

# Table 7, and what each ablation leaves out.
GEDI_SETTINGS = LANGEVIN | {"sgld_steps": 1, "prior_weight": 10.0, "data_noise": 0.0, "generative_steps": 1000}
VARIANTS = {
    "JEM": None,
    "no prior": {"prior_weight": 0.0},
    "no inv": {"invariance_weight": 0.0},
    "no gen": {"generative_weight": 0.0, "generative_steps": 0},
    "GEDI": {},
    "SwAV": None,
    "Barlow Twins": None,
}
# NMI of tables 2 and 3, mean and standard deviation of 5 runs.
PAPER = {
    "moons": {
        "JEM": (0.00, 0.00),
        "no prior": (0.00, 0.00),
        "no inv": (0.11, 0.15),
        "no gen": (0.98, 0.00),
        "GEDI": (0.94, 0.07),
        "SwAV": (0.76, 0.36),
        "Barlow Twins": (0.22, 0.10),
    },
    "circles": {
        "JEM": (0.00, 0.00),
        "no prior": (0.00, 0.00),
        "no inv": (0.22, 0.13),
        "no gen": (0.83, 0.12),
        "GEDI": (1.00, 0.01),
        "SwAV": (0.00, 0.00),
        "Barlow Twins": (0.13, 0.10),
    },
}


# ------------------------------------------------------------------ points


def draw(dataset, n, rng, noise=0.05):
    """n points float32 (n, 2) of two sets, and which set each is of."""
    labels, angle = rng.integers(0, 2, n), rng.uniform(0, np.pi, n)
    if dataset == "moons":
        first = np.stack([np.cos(angle) - 0.5, np.sin(angle) - 0.25], axis=1)
        points = 0.7 * np.where(labels[:, None] == 0, first, -first)
    else:
        points = np.stack([np.cos(2 * angle), np.sin(2 * angle)], axis=1) * np.where(labels, 0.5, 1.0)[:, None]
    return (points + noise * rng.normal(size=points.shape)).astype("float32"), labels


class Points(keras.utils.PyDataset):
    """Batches of fresh points and jittered copies, as views of images of one pixel: (BATCH, views, 1, 1, 2)."""

    def __init__(self, dataset, views, seed):
        super().__init__()
        self.dataset, self.views, self.seed, self.epoch = dataset, views, seed, 0

    def __len__(self):
        return LOOK

    def __getitem__(self, index):
        rng = np.random.default_rng([self.seed, self.epoch, index])
        points, _ = draw(self.dataset, BATCH, rng)
        views = np.repeat(points[:, None], self.views, axis=1)
        views[:, 1:] += AUGMENTATION * rng.normal(size=views[:, 1:].shape)
        return (views[:, :, None, None],)

    def on_epoch_end(self):
        self.epoch += 1


def images(points):
    return points[:, None, None]


# ------------------------------------------------------------------ methods


def make(variant, seed):
    """A method on the paper's networks: 2-100-100-2 and 2-4-2; SwAV and Barlow Twins normalize all hidden layers."""
    normalized = variant in ("SwAV", "Barlow Twins")
    pixel = keras.Input((1, 1, 2))
    trunk = networks.projector(2, (100, 100, 2), batch_norm=normalized, seed=seed, name="trunk")
    encoder = keras.Model(pixel, trunk(keras.layers.Flatten()(pixel)), name="encoder")
    head = networks.projector(2, (4, 2), batch_norm=normalized, seed=seed + 1)
    redraw(seed, trunk, head)
    if variant == "SwAV":
        return SwAV(encoder, 2, head, freeze_prototypes=0, seed=seed)
    if variant == "Barlow Twins":
        return BarlowTwins(encoder, head)
    if variant == "JEM":
        model = JEM(encoder, 2, head, sgld_steps=10, seed=seed, **LANGEVIN)
    else:
        model = GEDI(encoder, 2, head, seed=seed, **GEDI_SETTINGS | VARIANTS[variant])
    redraw(seed + 1, model.cluster_head)
    return model


def redraw(seed, *parts):
    """Kernels and biases uniform within 1 / sqrt(inputs), PyTorch's way and so the paper's.

    Keras' biases of 0 make a network of ReLUs that knows no radius: along a ray from the origin all its outputs grow
    alike, so the two circles are one to it, and a line through the middle is what it finds.
    """
    rng = np.random.default_rng([seed, 3])
    for layer in (layer for part in parts for layer in part.layers if isinstance(layer, keras.layers.Dense)):
        bound = layer.kernel.shape[0] ** -0.5
        for weight in layer.weights:
            weight.assign(rng.uniform(-bound, bound, weight.shape).astype("float32"))


def clusters(model, points):
    """The cluster of each point: the larger of two outputs."""
    x = images(points)
    outputs = model.cluster_probabilities(x) if isinstance(model, SwAV) else model.embed(x)
    return keras.ops.convert_to_numpy(outputs).argmax(axis=1)


def excess(variant, history):
    """How far invariance and prior ended above the least they can be together, 0 and log 2; 0 for other methods."""
    if variant not in VARIANTS or VARIANTS[variant] is None:
        return 0.0
    weights = GEDI_SETTINGS | VARIANTS[variant]
    least = weights["prior_weight"] * np.log(2)
    return float(np.mean(history["invariance"][-5:]) + np.mean(history["prior"][-5:]) - least)


def train(dataset, variant, seed, steps):
    """A model from the initial weights and points of that seed."""
    keras.utils.set_random_seed(seed)
    model = make(variant, seed)
    fused = 1 if keras.backend.backend() == "torch" else LOOK  # steps in one program: networks are tiny
    model.compile(keras.optimizers.Adam(RATE), steps_per_execution=fused)
    views = 1 if variant == "JEM" else 2
    training = {"epochs": max(1, steps // LOOK), "verbose": 0, "shuffle": False, "callbacks": [DivergenceGuard(LOOK)]}
    try:
        model.fit(Points(dataset, views, seed), **training)
    except TrainingError as error:
        print(f"{dataset} {variant} seed {seed}: {error}", flush=True)
    return model


def experiment(dataset, variant, seed, steps):
    """One run: NMI, terms over time, clusters and density on a grid; everything as plain arrays."""
    began = time.process_time()
    points, labels = draw(dataset, 2000, np.random.default_rng([seed, 2**31]))
    tries = []
    while len(tries) < TRIES and all(above > EXCESS for above, _ in tries):
        model = train(dataset, variant, seed + 1000 * len(tries), steps)
        tries.append((excess(variant, model.history.history), model))
    nmi = [scores(labels, clusters(model, points))["nmi"] for _, model in tries]
    best = min(range(len(tries)), key=lambda one: tries[one][0])
    above, model = tries[best]
    history, found = model.history.history, clusters(model, points)
    ticks = np.linspace(-1.5, 1.5, 100, dtype="float32")
    grid = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
    density = None
    if isinstance(model, (GEDI, JEM)):
        density = keras.ops.convert_to_numpy(model.log_density_of_views(images(grid))).reshape(100, 100)
    return {
        "dataset": dataset,
        "variant": variant,
        "seed": seed,
        "nmi": nmi[best],
        "nmi_of_tries": nmi,
        "excess": above,
        "history": history,
        "points": points[:600],
        "clusters": found[:600],
        "density": density,
        "seconds": time.process_time() - began,
    }


# ------------------------------------------------------------------ the picture

PAGE, INK, GRAY = "#fbfaf7", "#222222", "#77736b"
SIDES = ("#c2572b", "#2f6690")  # rust and blue, told apart under every color blindness
OPTIMA = {"invariance": 0.0, "prior": 10 * np.log(2)}


def picture(path, runs, means):
    """Clusters and densities of the first seed of every variant; GEDI's terms."""
    datasets, variants = (list(dict.fromkeys(run[key] for run in runs)) for key in ("dataset", "variant"))
    first = {(run["dataset"], run["variant"]): run for run in reversed(runs)}
    gedi = [dataset for dataset in datasets if (dataset, "GEDI") in first]
    columns, rows = max(len(variants), 3), 2 * len(datasets) + len(gedi)
    figure = Figure(figsize=(1.9 * columns + 0.4, 1.95 * rows + 0.9), dpi=110, facecolor=PAGE)
    FigureCanvasAgg(figure)
    top, left = 1 - 0.75 / figure.get_figheight(), 0.55 / figure.get_figwidth()
    grid = figure.add_gridspec(
        rows, columns, left=left, right=0.985, top=top - 0.03, bottom=0.045, hspace=0.38, wspace=0.2
    )
    figure.text(
        left,
        1 - 0.22 / figure.get_figheight(),
        "Two clusters, with and without a density",
        va="top",
        fontsize=15,
        color=INK,
        fontweight="bold",
    )
    for row, dataset in enumerate(datasets):
        for column, variant in enumerate(variants):
            run = first[dataset, variant]
            axes = figure.add_subplot(grid[2 * row, column], facecolor=PAGE)
            colors = [SIDES[cluster] for cluster in run["clusters"]]
            axes.scatter(*run["points"].T, s=3, c=colors, linewidths=0)
            axes.set_title(f"{variant}   {means[dataset, variant]:.2f}", fontsize=9.5, color=INK, loc="left", pad=3)
            _bare(axes)
            if column == 0:
                axes.set_ylabel(f"{dataset}: clusters", fontsize=9, color=GRAY)
            axes = figure.add_subplot(grid[2 * row + 1, column], facecolor=PAGE)
            if run["density"] is None or not np.isfinite(run["density"]).all():
                axes.text(
                    0.5, 0.5, "no density", ha="center", va="center", color=GRAY, fontsize=9, transform=axes.transAxes
                )
            else:
                low, high = np.quantile(run["density"], [0.05, 1.0])
                axes.imshow(
                    run["density"],
                    extent=(-1.5, 1.5, -1.5, 1.5),
                    origin="lower",
                    cmap="magma",
                    vmin=low,
                    vmax=max(high, low + 1e-6),
                )
            _bare(axes)
            if column == 0:
                axes.set_ylabel(f"{dataset}: log density", fontsize=9, color=GRAY)
    for row, dataset in enumerate(gedi):
        history = first[dataset, "GEDI"]["history"]
        for column, term in enumerate(("generative", "invariance", "prior")):
            axes = figure.add_subplot(grid[2 * len(datasets) + row, column], facecolor=PAGE)
            values = np.array(history[term])
            axes.plot(LOOK * np.arange(1, len(values) + 1), values, color=SIDES[1], linewidth=1.3)
            if term in OPTIMA:
                axes.axhline(OPTIMA[term], color=SIDES[0], linestyle=(0, (4, 3)), linewidth=1.1)
            axes.set_title(f"GEDI, {dataset}: {term}", fontsize=9.5, color=INK, loc="left", pad=3)
            axes.tick_params(length=0, labelsize=7.5, colors=GRAY)
            for side in axes.spines.values():
                side.set_color("#e6e2d8")
    figure.savefig(path, facecolor=PAGE)


def _bare(axes):
    axes.set(xticks=[], yticks=[], xlim=(-1.5, 1.5), ylim=(-1.5, 1.5), aspect="equal")
    for side in axes.spines.values():
        side.set_color("#e6e2d8")


# ------------------------------------------------------------------ all of it


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--variants",
        nargs="*",
        default=list(VARIANTS),
        choices=list(VARIANTS),
        metavar="VARIANT",
        help=f"{', '.join(VARIANTS)} (all)",
    )
    parser.add_argument("--datasets", nargs="*", default=list(PAPER), choices=list(PAPER), help="moons, circles (both)")
    parser.add_argument("--seeds", type=int, default=5, help="runs of each (5, the paper's)")
    parser.add_argument("--steps", type=int, default=7000, help="training steps (7000, the paper's)")
    parser.add_argument("--jobs", type=int, default=2, help="runs at the same time (2)")
    parser.add_argument("--out", default="moons_and_circles.png", help="the picture")
    settings = parser.parse_args(argv)

    began, runs = time.perf_counter(), []
    wanted = [
        (dataset, variant, seed, settings.steps)
        for seed in range(settings.seeds)
        for variant in settings.variants
        for dataset in settings.datasets
    ]
    for run in results(wanted, settings.jobs):
        print(
            f"{run['dataset']:<8} {run['variant']:<13} seed {run['seed']}  NMI {run['nmi']:.2f}  "
            + (
                f"(tries: {', '.join(f'{nmi:.2f}' for nmi in run['nmi_of_tries'])})  "
                if len(run["nmi_of_tries"]) > 1
                else ""
            )
            + f"({run['seconds']:.0f} s of processor)",
            flush=True,
        )
        runs.append(run)

    print(
        f"\nNMI on test points, mean and standard deviation of {settings.seeds}; beside it the paper's, of 5 "
        "[and the mean of first tries]"
    )
    print(f"{'':<14}" + "".join(f"{dataset:<36}" for dataset in settings.datasets))
    means = {}
    for variant in settings.variants:
        cells = ""
        for dataset in settings.datasets:
            values = [run["nmi"] for run in runs if (run["dataset"], run["variant"]) == (dataset, variant)]
            means[dataset, variant] = np.mean(values)
            mean, deviation = PAPER[dataset][variant]
            first = [run["nmi_of_tries"][0] for run in runs if (run["dataset"], run["variant"]) == (dataset, variant)]
            cells += f"{np.mean(values):.2f} +- {np.std(values):.2f} ({mean:.2f} +- {deviation:.2f})"
            cells += f" [{np.mean(first):.2f}]  " if first != values else 9 * " "
        print(f"{variant:<14}{cells}")
    picture(settings.out, runs, means)
    processor = sum(run["seconds"] for run in runs) / 60
    print(f"\n{(time.perf_counter() - began) / 60:.1f} minutes, {processor:.1f} of processor. Picture: {settings.out}")
    return means


def results(wanted, jobs):
    """Results of `experiment`, in order, from so many processes; 1 is this one."""
    if jobs == 1:
        yield from (experiment(*arguments) for arguments in wanted)
        return
    context = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory() as folder,
        concurrent.futures.ProcessPoolExecutor(jobs, context, share_programs, (folder,)) as pool,
    ):
        yield from pool.map(experiment, *zip(*wanted))


def share_programs(folder):
    """JAX keeps compiled programs in a folder: seeds of a variant share one, which takes as long as 3,000 steps."""
    if keras.backend.backend() == "jax":
        import jax

        jax.config.update("jax_compilation_cache_dir", folder)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


if __name__ == "__main__":
    main()
