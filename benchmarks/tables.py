"""Writes docs/results.md and the tables of docs/zoo.md and README from committed results.json files alone.

    python benchmarks/tables.py            # write
    python benchmarks/tables.py --check    # exit with 1 if they are not what would be written

benchmarks/papers.csv holds what the papers printed, cell by cell. An entry is `weights/<name>/results.json`, or, where
weights are not kept (seeds, floors), `benchmarks/results/<name>.json`; runs that change one setting of a method stand
in `benchmarks/results/ablations/`, and in the section on it alone. Nothing here measures anything: every number was
measured when its entry was written, and names its protocol there.
"""

import argparse
import csv
import dataclasses
import itertools
import math
import operator
import re
import sys
from pathlib import Path

from scipy import stats

from sslzoo.data.catalogue import KNOWN
from sslzoo.evaluation.protocols.linear import BATCH_SIZE, LEAST_STEPS
from sslzoo.files import module_at, read_json, write_beside
from sslzoo.views import POLICIES
from sslzoo.zoo.results import check_results, read_results, tag_of, values_of

figures = module_at(Path(__file__).with_name("figures.py"))
ROOT = Path(__file__).resolve().parent.parent
PAPERS = {
    "simvae": "[SimVAE, arXiv:2402.01399](https://arxiv.org/abs/2402.01399)",
    "simvae-workshop": "the workshop version of the SimVAE paper",
    "gedi": "[GEDI, arXiv:2401.00873](https://arxiv.org/abs/2401.00873)",
    "mutual-information": "[On Mutual Information in Contrastive Learning, arXiv:2005.13149]"
    "(https://arxiv.org/abs/2005.13149)",
}
TITLES = {name: known.title for name, known in KNOWN.items()}
NAMES = {
    "mlp.best_accuracy": "MLP probe, best epoch",
    "knn.euclidean_best_accuracy": "kNN",
    "linear.best_accuracy": "linear probe, Adam, best epoch",
    "gmm.minibatch64_accuracy": "GMM",
    "gmm.minibatch64_ari": "ARI",
    "gmm.minibatch64_nmi": "NMI",
    "reconstruction.mse": "MSE",
    "generation.fid": "FID",
    "likelihood.nll": "NLL",
    "linear.accuracy": "linear probe, Adam",
    "clusters.minibatch100_nmi": "NMI",
    "views.accuracy": "linear probe on views",
}
# How the papers trained, at most: epochs (None: they do not say), views of an image in each, the network of natural
# images, and the flip of their code, if it is not what is usual. SimVAE's other methods do not exceed its views.
TRAINED = {
    "simvae": (400, 10, "ResNet-18", "vertical"),
    "simvae-workshop": (None, 6, "ResNet-18", "vertical"),
    "gedi": (200, 2, "a ResNet of 8 layers", None),
    "mutual-information": (None, 1, "ResNet-18", None),
}
# What else the papers say of how they trained and measured.
STATED = {
    "simvae": "batches of 128 (read here as 12 images x 10 views), Adam 8e-5 at a constant rate and a likelihood "
    "variance of 0.02, by which it divides the squared error, so 0.01 (SimVAE), 600 to 800 epochs of the "
    "discriminative methods; mixtures: the best of 200 restarts",
    "simvae-workshop": "batches of 128, Adam 8e-5 to 1e-3, temperatures 1 and 0.5, likelihood variance 1; "
    "1,000 samples a likelihood",
    "gedi": "64 images a step, Adam 1e-4; MNIST: 60 images",
    "mutual-information": "256 images a step (CMC 128), SGD 0.03 cut to a tenth twice, 128 numbers, 224 pixels",
}
# What was tried of what might make the difference, and what it did.
CAUSES = {
    ("simvae", "mnist"): "Tried: views, from 3.6 M to 14 M of which each method gained Euclidean "
    "neighbors (by cosine the VAE lost 0.5 points); and the "
    "[likelihood of the VAE](choices.md#the-likelihood-of-the-vae). MoCo's settings the paper does not give.",
    ("simvae", "fashion_mnist"): "Tried: views, from 3.6 M to 14 M, of which those that rebuild images and SimCLR "
    "gained Euclidean neighbors (by cosine the VAE lost 1.4 points); MoCo and VICReg lost 1.3 to 1.8 points, and MoCo "
    "seven of a linear probe.",
    ("simvae", "cifar10"): "Not tried: a ResNet for as many views as the paper's. An untrained network has 13 to 16 in "
    "the paper, near the 10 of guessing, and more here: what theirs lost of an image, the paper does not say.",
    (
        "gedi",
        "cifar10",
    ): "No setting of Barlow Twins was tried; it and SwAV have the setup of this zoo, not the paper's.",
}
CAUSES_OF_ERRORS = {
    ("simvae", "mnist"): "The authors' code trains gray images by cross-entropy, ours all but the VAE by squared "
    "error, which is what is measured."
}
VIEWS = operator.attrgetter("views")  # what entries must have equal, unless another budget is asked for
METHODS = ("Random", "SimVAE", "VAE", "BetaVAE", "CRVAE", "SimCLR", "MoCo", "VICReg")
GENERATIVE = ("SimVAE", "VAE", "BetaVAE", "CRVAE")
ONE_SEED = 2.0  # points beyond which single seeds say where a claim leans; seeds on digits vary by less
# What is known of the images that the entries were trained on.
COPIES = {"cifar10": "The copy of the images at hand had gone through JPEG (about 1 kB an image)."}
# What tables must say where it differs.
UNEQUAL = {"likelihood_variance": "Likelihood variances", "latent_dim": "Representation sizes"}
BERNOULLI = "Bernoulli"  # in the place of a variance
TEMPERATURES = {"simvae": 0.7, "mutual-information": 0.07}  # of the papers
EARLIER = "\\*"  # after a number of `starred`
SEEDS = 3  # of either side, before a claim is said to hold or to fail


def _in_its_unit(number):
    """What a report's number shows of itself: percent where it gives no other unit."""
    factor = 100 if number.get("unit", "%") == "%" else 1
    error = number.get("error")
    return {"value": round(number["value"] * factor, 4), "error": None if error is None else error * factor}


@dataclasses.dataclass(frozen=True, eq=False)
class Entry:
    """What a results.json says, as far as tables need it."""

    name: str
    method: str
    dataset: str
    views: int
    seeds: int
    settings: dict
    metrics: dict
    steps: int | None = None  # of an epoch of the MLP probe
    learned: bool = True  # whether it took about as many in all as on MNIST
    restarts: int | None = None  # of mixtures
    starred: frozenset = frozenset()  # names of the numbers that tables mark

    @classmethod
    def read(cls, path):
        results = check_results(read_json(path))
        record = results.get("evaluation") or {}
        numbers = {
            f"{protocol}.{metric}": _in_its_unit(number)
            for protocol, metrics in record.get("numbers", {}).items()
            for metric, number in metrics.items()
        }
        numbers |= {metric["name"]: metric for metric in results["metrics"]}
        settings = results["settings"]
        if settings.get("latent_dim", 0) is None:  # the network's own features
            settings = settings | {"latent_dim": results.get("features")}
        if settings.get("likelihood") == "bernoulli":
            settings = settings | {"likelihood_variance": BERNOULLI}
        return cls(
            results["name"],
            results["method"],
            results["dataset"],
            results["views_seen"],
            len(results["seeds"]),
            settings,
            numbers,
            _steps(record, "mlp"),
            _learned(record),
            record.get("protocols", {}).get("gmm", {}).get("restarts"),
            starred(results),
        )

    def value(self, metric):
        return self.metrics[metric]["value"] if metric in self.metrics else None

    def shown(self, metric):
        """A value as tables print it, with its star; empty without one."""
        return number(self.value(metric), metric) + EARLIER * (metric in self.starred)


def starred(results):
    """Names of the numbers that are not of the files as they are, or that were measured in another way than today.

    The record of the evaluation tells: it lacks what a run measured of itself with parts that are not kept, it has
    mixtures of features as they are, or probes by Adam of fewer steps.
    """
    record, outdated = results.get("evaluation") or {}, results.get("outdated", ())
    ways = record.get("protocols", {})
    told = {*ways, "views"}  # measure.py takes it of the files, though it needs more than the encoder
    differing = {name for name in record.get("numbers", {}) if name in outdated or name not in told}
    if "features" not in ways.get("gmm", {"features": None}):
        differing.add("gmm")
    short = {name for name in ("linear", "mlp") if name in ways and _steps(record, name) < LEAST_STEPS}
    return frozenset(
        f"{protocol}.{metric}"
        for protocol, metrics in record.get("numbers", {}).items()
        for metric in metrics
        if protocol in differing or (protocol in short and is_probe(f"{protocol}.{metric}"))
    )


def _steps(record, probe):
    """Steps of an epoch of a probe by Adam."""
    settings, images = record.get("protocols", {}).get(probe), record.get("data", {}).get("train", 0)
    return settings and settings.get("passes", 1) * math.ceil(images / settings.get("batch_size", BATCH_SIZE))


def _learned(record):
    """Whether the MLP probe of a report had about 90,000 steps; digits' had 2,400 before their epochs were long."""
    epochs = record.get("protocols", {}).get("mlp", {}).get("epochs", 200)
    return (_steps(record, "mlp") or LEAST_STEPS) * epochs >= 70_000  # of CIFAR-10 one pass, of 50,000 images


def read_entries(*folders):
    """Every entry of folders of model folders, or of results alone, by data set and method."""
    files = [path for folder in folders for glob in ("*/results.json", "*.json") for path in sorted(folder.glob(glob))]
    entries = [Entry.read(path) for path in files]
    order = {name: i for i, name in enumerate(TITLES)}
    known = {name: i for i, name in enumerate(METHODS)}
    return sorted(entries, key=lambda e: (order.get(e.dataset, 99), known.get(e.method, 99), e.name))


def read_papers():
    """(paper, table, dataset, method, metric) -> what was printed."""
    with open(ROOT / "benchmarks" / "papers.csv", newline="", encoding="utf-8") as file:
        return {
            (row["paper"], row["table"], row["dataset"], row["method"], row["metric"]): row["value"]
            for row in csv.DictReader(file)
        }


# ---------------------------------------------------------------- cells


def number(value, metric):
    """A value as tables print it."""
    if value is None:
        return ""
    if metric in ("reconstruction.mse", "reconstruction.adhoc_mse"):
        return f"{value:.4f}"
    if metric.startswith("generation."):
        return f"{value:.4g}"
    return f"{value:,.1f}"


def short(setting):
    """A setting that is a number, a word or None, as tables print it."""
    return "–" if setting is None else setting if isinstance(setting, str) else f"{setting:g}"


def cell(entry, metric, theirs):
    """Ours, and theirs in brackets."""
    ours = "" if entry is None else entry.shown(metric)
    return f"{ours or '–'} ({theirs})" if theirs else ours or "–"


def millions(views):
    if views == 0:
        return "0"
    return f"{views / 1e6:.1f} M" if views < 10e6 else f"{views / 1e6:.0f} M"


def title(metric):
    """A metric as the head of a column."""
    if metric.startswith("outliers."):
        other, slope, _ = metric.removeprefix("outliers.").removesuffix("_auroc").partition("_slope")
        return f"{TITLES.get(other, other)}{', slope' if slope else ''}"
    return NAMES.get(metric, metric)


def table(header, rows):
    """Markdown; columns of numbers to the right."""
    left = {"encoder", "method", "system", "part", "batch", "claim", "data", "verdict", "numbers", "seeds and budget"}
    lines = [f"| {' | '.join(header)} |", f"|{'|'.join('---' if name in left else '---:' for name in header)}|"]
    return [*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows)]


def comparison(entries, papers, paper, tables, metrics):
    """One paper's tables: a block for each data set, a row for each entry and for each method that has none."""
    lines = []
    for dataset in TITLES:
        printed = {
            (method, metric): value
            for (p, t, d, method, metric), value in papers.items()
            if (p, d) == (paper, dataset) and t in tables and metric in metrics
        }
        if not printed:
            continue
        own = [entry for entry in entries if entry.dataset == dataset]
        methods = list(dict.fromkeys(method for method, _ in printed))
        trained = [entry for entry in own if entry.method in methods]
        if not trained:
            lines += [f"**{TITLES[dataset]}**: none of its methods is trained here yet.", ""]
            continue
        known = {metric for _, metric in printed} | {m for m in metrics for e in trained if e.value(m) is not None}
        shown = [metric for metric in metrics if metric in known]
        rows = []
        for method in sorted(methods, key=lambda m: (METHODS.index(m) if m in METHODS else 99, m)):
            for entry in [e for e in trained if e.method == method] or [None]:
                cells = [cell(entry, metric, printed.get((method, metric))) for metric in shown]
                name = f"{method}" if entry is None else f"`{entry.name}`"
                budget = ("", "") if entry is None else (millions(entry.views), entry.seeds)
                rows.append([name, *cells, *budget])
        header = ["encoder", *map(title, shown), "views", "seeds"]
        lines += [f"**{TITLES[dataset]}**", "", *table(header, rows), ""]
        lines += differences(trained, printed, metrics, dataset, paper)
    return lines


def differences(trained, printed, metrics, dataset, paper):
    """A paragraph on where ours differs from theirs, and a list of what differs between the two trainings, from the
    entries' own settings."""
    found, said, gaps = [], [], []
    for entry, metric in itertools.product(best_known(trained), metrics):
        ours, theirs = entry.value(metric), printed.get((entry.method, metric))
        if entry.method != "Random" and ours is not None and theirs is not None:
            gaps.append((ours - float(theirs), entry.name, metric))
    points = [gap for gap in gaps if not gap[2].startswith(("reconstruction", "generation", "likelihood"))]
    if points:
        ahead = sum(gap > 1 for gap, *_ in points)
        behind = sum(gap < -1 for gap, *_ in points)
        (worst, poorest, of_poorest), (best, richest, of_richest) = min(points), max(points)
        found.append(
            f"More than a point above the paper's: {ahead}; below: {behind}; within it: {len(points) - ahead - behind} "
            "(where a mean of seeds and its first seed both have a row, the mean alone is counted)."
        )
        if worst < -1:
            found.append(f"Furthest below: `{poorest}`, {NAMES[of_poorest]} ({worst:+.1f}).")
        if best > 1:
            found.append(f"Furthest above: `{richest}`, {NAMES[of_richest]} ({best:+.1f}).")
    errors = [gap for gap, _, metric in gaps if metric == "reconstruction.mse"]
    if errors:
        found.append(f"MSE below the paper's: {sum(gap < 0 for gap in errors)} of {len(errors)}.")
    fitted = [entry for entry in trained if entry.method != "Random" and entry.views]
    if fitted:
        views = sorted({entry.views for entry in fitted})
        budget = millions(views[0]) if views[-1] < 1.05 * views[0] else f"{millions(views[0])} to {millions(views[-1])}"
        epochs, of_image, network, flip = TRAINED[paper]
        theirs = "the paper does not say how many"
        if epochs:
            most = millions(epochs * of_image * KNOWN[dataset].splits["train"])
            of_image = f" of {of_image} views" if of_image > 1 else ""
            theirs = f"the paper's {epochs} epochs{of_image} make up to {most}"
        networks = sorted({str(entry.settings.get("network")) for entry in fitted})
        said.append(
            f"What differs: {budget} views were seen here ({theirs}); "
            + f"{'the network is' if len(networks) == 1 else 'networks are'} "
            + " and ".join(f"`{name}`" for name in networks)
            + (f" (the paper's: {network})" if {"convnet", "airnet"} & set(networks) else "")
            + f"; {seeds_in_words(fitted)}."
        )
        flips = sorted({str(entry.settings.get("flip") or "not at all") for entry in fitted})
        if flip and flips != [flip]:
            said.append(f"Views are flipped: {', '.join(flips)} (the paper's code: {flip}).")
        other = {
            f"{e.method} {e.settings['temperature']:g}"
            for e in fitted
            if (paper, e.method) != ("simvae", "MoCo")  # of which the paper gives no settings
            and paper in TEMPERATURES
            and e.settings.get("temperature") not in (None, TEMPERATURES[paper])
        }
        if other:
            said.append(f"Temperatures: {', '.join(sorted(other))} (the paper's {TEMPERATURES[paper]:g}).")
        said.append(
            f"The paper's: {STATED[paper]}. Batch, rate, schedule and head of each entry: [Settings](#settings)."
        )
        if any(metric.startswith("gmm.") for metric in metrics):
            restarts = sorted({e.restarts for e in fitted if e.restarts})
            said.append(f"Restarts of mixtures: {', '.join(map(str, restarts))}.")
        for setting, words in UNEQUAL.items():
            values = {e.name: e.settings[setting] for e in fitted if setting in e.settings}
            if len(set(values.values())) > 1:
                usual, *others = sorted(set(values.values()), key=lambda value: -list(values.values()).count(value))
                named = ", ".join(
                    f"{' and '.join(f'`{name}`' for name, its in values.items() if its == value)} ({short(value)})"
                    for value in others
                )
                said.append(f"{words} are not equal: {short(usual)}, but for {named}.")
        said.append(COPIES.get(dataset, ""))
    if points:
        said.append(CAUSES.get((paper, dataset), ""))
    if errors:
        said.append(CAUSES_OF_ERRORS.get((paper, dataset), ""))
    paragraph = [" ".join(found), ""] if found else []
    return [*paragraph, *(f"- {words}" for words in said if words), ""]


def seeds_in_words(entries):
    seeds = sorted({entry.seeds for entry in entries})
    if seeds == [1]:
        return "one seed each"
    return f"seeds: {seeds[0]}" if len(seeds) == 1 else f"seeds: {seeds[0]} to {seeds[-1]}"


# ---------------------------------------------------------------- style


STYLE = ("kept", "flip_accuracy", "position_r2", "size_r2", "hue_r2", "brightness_r2")


def style_table(entries):
    lines = []
    for dataset, group in itertools.groupby(entries, key=lambda e: e.dataset):
        group = [entry for entry in group if entry.value("style.kept") is not None]
        if not group:
            continue
        columns = [name for name in STYLE if any(entry.value(f"style.{name}") is not None for entry in group)]
        rows = [
            [
                f"`{e.name}`",
                e.shown("knn.cosine_k10_accuracy"),
                *(e.shown(f"style.{name}") or "–" for name in columns),
                millions(e.views),
                e.seeds,
            ]
            for e in sorted(group, key=lambda e: -e.value("style.kept"))
        ]
        words = {
            "kept": "style kept",
            "flip_accuracy": "flip",
            "position_r2": "position",
            "size_r2": "size",
            "hue_r2": "hue",
            "brightness_r2": "brightness",
        }
        header = ["encoder", "kNN", *(words[name] for name in columns), "views", "seeds"]
        lines += [f"**{TITLES.get(dataset, dataset)}**", "", *table(header, rows), ""]
        if len(group) > 1:
            lines += [f"![Content and style on {TITLES.get(dataset, dataset)}]({picture(dataset)})", ""]
    return lines


def picture(dataset):
    return f"pictures/content_and_style_{dataset}.png"


def kind(method):
    """How `figures.tradeoff` names a method."""
    generative = (*GENERATIVE, "GEDI", "JEM", "EBCLR")
    return "untrained" if method == "Random" else "generative" if method in generative else "discriminative"


@dataclasses.dataclass(frozen=True)
class Ablation:
    """A figure of the SimVAE paper: a setting of SimVAE, and what runs that differ in it must have equal."""

    setting: str
    words: str
    figure: int
    passes: bool = False  # over the images, in equal steps, as in the paper; else views in all

    @property
    def equal(self):
        """Settings that runs must share besides."""
        return ("batch_size",) if self.passes else ()

    def budget(self, entry):
        """What they must have seen equally much of: images, or views."""
        return entry.views / entry.settings.get("num_views", 1) if self.passes else entry.views

    def title(self, dataset):
        equal = ", at equal passes over the images" if self.passes else ""
        return f"{self.words.capitalize()} (figure {self.figure}){equal}, {TITLES[dataset]}"

    def picture(self, dataset):
        return f"pictures/simvae_{self.setting}_{dataset}{'_passes' if self.passes else ''}.png"


ABLATIONS = (
    Ablation("num_views", "views in a group", 7),
    Ablation("num_views", "views in a group", 7, passes=True),
    Ablation("likelihood_variance", "likelihood variance", 8),
)


def curves(entries, ablation):
    """Lists of SimVAE's entries that differ in one setting alone, by it: three values at least, several seeds."""
    (other,) = {one.setting for one in ABLATIONS} - {ablation.setting}

    def alike(entry):
        held = (entry.settings.get(name, 0) for name in ("latent_dim", other, *ablation.equal))
        return list(TITLES).index(entry.dataset), str(entry.settings.get("network")), *held

    several = sorted(
        (e for e in entries if e.method == "SimVAE" and e.seeds >= SEEDS and e.dataset in TITLES), key=alike
    )
    for _, group in itertools.groupby(several, key=alike):
        for equal in by_views(group, ablation.budget):
            if len({e.settings.get(ablation.setting) for e in equal}) > 2:
                yield sorted(equal, key=lambda e: e.settings.get(ablation.setting, 0))


def by_views(found, views=VIEWS):
    """Lists of those that saw equally many views, to a tenth: the fewest first."""
    rest = sorted(found, key=views)
    while rest:
        as_many = [one for one in rest if views(one) <= 1.1 * views(rest[0])]
        yield as_many
        rest = rest[len(as_many) :]


SWEPT = {
    "kNN": "knn.cosine_k10_accuracy",
    "MLP probe": "mlp.accuracy",
    "linear probe": "linear.converged_accuracy",
    "GMM": "gmm.accuracy",
    "style kept": "style.kept",
}


def ablation_table(entries):
    lines = []
    for ablation in ABLATIONS:
        for group in curves(entries, ablation):
            rows = [[f"{e.settings[ablation.setting]:g}", *swept_cells(e)] for e in group]
            title, dataset = ablation.title(group[0].dataset), group[0].dataset
            lines += [f"**{title}**", "", *table([ablation.words, *SWEPT, "views", "seeds"], rows), ""]
            lines += [f"![{title}]({ablation.picture(dataset)})", ""]
    return lines


def swept_cells(entry):
    return *(with_error(entry, metric) for metric in SWEPT.values()), millions(entry.views), entry.seeds


def smallest_crop(entry):
    """The least share of an image that a view shows, or None of views that are not cropped."""
    crop = POLICIES.get(entry.settings.get("policy"), {}).get("crop") or {}
    crop = {**crop, **((entry.settings.get("policy_changes") or {}).get("crop") or {})}
    return crop["scale"][0] if crop else None


def crops(entries):
    """(data set, entries of each method by how small their crops are): the same three values, several seeds."""

    def alike(entry):
        others = {step: to for step, to in (entry.settings.get("policy_changes") or {}).items() if step != "crop"}
        held = (entry.settings.get(name) for name in ("network", "latent_dim", "num_views", "likelihood_variance"))
        return list(TITLES).index(entry.dataset), order(entry), str((*held, others))

    def order(entry):
        return METHODS.index(entry.method) if entry.method in METHODS else len(METHODS), entry.method

    found, several = {}, [e for e in entries if e.seeds >= SEEDS and e.dataset in TITLES and smallest_crop(e)]
    for _, group in itertools.groupby(sorted(several, key=alike), key=alike):
        for equal in by_views(group):
            equal, values = sorted(equal, key=smallest_crop), sorted({smallest_crop(e) for e in equal})
            known = found.setdefault(equal[0].dataset, [])
            if len(values) == len(equal) > 2 and all(values == [smallest_crop(e) for e in other] for other in known):
                known.append(equal)
    return [(dataset, methods) for dataset, methods in found.items() if methods]


def crop_table(entries):
    lines = []
    for dataset, methods in crops(entries):
        rows = [[e.method, f"{smallest_crop(e):g}", *swept_cells(e)] for group in methods for e in group]
        lines += [f"**{TITLES[dataset]}**", "", *table(["method", CROP, *SWEPT, "views", "seeds"], rows), ""]
        lines += [f"![Crops on {TITLES[dataset]}](pictures/crops_{dataset}.png)", ""]
    return lines


def as_usual(ablated):
    """Those whose views are their recipe's: others stand in the section on crops alone."""
    return [entry for entry in ablated if not entry.settings.get("policy_changes")]


def with_error(entry, metric):
    """A mean and its standard error over seeds."""
    if entry.value(metric) is None:
        return "–"
    error = entry.metrics[metric].get("error")
    shown = number(entry.value(metric), metric) + ("" if error is None else f" ± {error:.1f}")
    return shown + EARLIER * (metric in entry.starred)


def draw(entries, docs, ablated=()):
    """Figures 4, 6, 7 and 8 of the SimVAE paper for every data set they were measured on."""
    (docs / "pictures").mkdir(parents=True, exist_ok=True)
    for dataset, methods in crops([*entries, *ablated]):
        metric = SWEPT["kNN"]
        figures.sweep(
            [f"{smallest_crop(e):g}" for e in methods[0]],
            {
                group[0].method: [(e.value(metric), e.metrics[metric].get("error", math.nan)) for e in group]
                for group in methods
            },
            docs / "pictures" / f"crops_{dataset}.png",
            setting=CROP,
            title=f"Neighbors on {TITLES[dataset]}, {min(e.seeds for group in methods for e in group)} seeds",
        )
    ablated = as_usual(ablated)
    for ablation in ABLATIONS:
        for group in curves([*entries, *ablated], ablation):
            dataset, equal = group[0].dataset, ", equal passes" if ablation.passes else ""
            figures.sweep(
                [f"{e.settings[ablation.setting]:g}" for e in group],
                {
                    WORDS[m]: [(e.value(m), e.metrics[m].get("error", math.nan)) for e in group]
                    for m in CONTENT
                    if all(m in e.metrics for e in group)
                },
                docs / ablation.picture(dataset),
                setting=ablation.words,
                title=f"SimVAE on {TITLES[dataset]}, {group[0].seeds} seeds{equal}",
            )
    for dataset, group in itertools.groupby(entries, key=lambda e: e.dataset):
        shown = [e for e in best_known(list(group)) if e.value("style.kept") is not None]  # a mean of seeds stands for
        content = {e.name: e.value("knn.cosine_k10_accuracy") for e in shown}  # its first one, too
        told = {e.name for e in shown if e.method in METHODS or kind(e.method) == "generative"}
        told |= {max(content, key=content.get)} if content else set()
        points = [
            (e.name * (e.name in told), content[e.name] / 100, e.value("style.kept") / 100, kind(e.method))
            for e in shown
        ]
        if len(points) > 1:
            figures.tradeoff(
                points, docs / picture(dataset), title=f"Content and style: {TITLES.get(dataset, dataset)}"
            )


# ---------------------------------------------------------------- prior or likelihood

# Columns: words, method, likelihood variance, views of an image in a step (SimVAE's batches hold ten).
LIKELIHOODS = (
    ("SimVAE, 0.01", "SimVAE", 0.01, 10),
    ("beta-VAE, 0.01", "BetaVAE", 0.01, 1),
    ("beta-VAE, 0.01, SimVAE's batches", "BetaVAE", 0.01, 10),
    ("VAE, Bernoulli", "VAE", BERNOULLI, 1),
    ("VAE, Bernoulli, SimVAE's batches", "VAE", BERNOULLI, 10),
    ("VAE, 1", "VAE", 1.0, 1),
    ("SimVAE, 1", "SimVAE", 1.0, 10),
)


def likelihood_table(entries):
    """Neighbors of SimVAE and of its kin by likelihood and batch: a row for each data set, number of views, measure."""
    asked = [each[1:] for each in LIKELIHOODS]

    def column(entry):
        held = entry.settings
        return entry.method, held.get("likelihood_variance"), held.get("num_views", 1)

    several = [e for e in entries if e.seeds >= SEEDS and column(e) in asked]
    rows = []
    for dataset in TITLES:
        for alike in by_views(e for e in several if e.dataset == dataset):
            found = {column(e): e for e in alike}
            if len(found) > 1:
                data = f"{TITLES[dataset]}, {millions(max(e.views for e in alike))} views"
                for measure in CONTENT[:2]:
                    cells = [with_error(found[one], measure) if one in found else "–" for one in asked]
                    rows.append([data, WORDS[measure], *cells])
    return table(["data", "neighbors", *(words for words, *_ in LIKELIHOODS)], rows) if rows else []


# ---------------------------------------------------------------- claims


CONTENT = ("knn.cosine_k10_accuracy", "knn.euclidean_best_accuracy", "linear.converged_accuracy", "mlp.accuracy")
FACTORS = ("style.position_r2", "style.size_r2", "style.hue_r2", "style.brightness_r2")
WORDS = {
    "knn.cosine_k10_accuracy": "kNN",
    "knn.euclidean_best_accuracy": "Euclidean kNN",
    "linear.converged_accuracy": "linear probe",
    "mlp.accuracy": "MLP probe",
    "gmm.accuracy": "GMM",
    "style.kept": "style",
    **{factor: factor.removeprefix("style.").removesuffix("_r2") for factor in FACTORS},
    "views.accuracy": "probe on views",
}
FALSE_DISCOVERIES = 0.05  # share of what is called a difference that chance may have made


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Two entries by one measure: `points` by which the first is ahead, and the `p` of Welch's t over seeds, or None
    with fewer than `SEEDS` seeds on a side."""

    one: Entry
    other: Entry
    measure: str
    points: float
    p: float | None

    @classmethod
    def of(cls, one, other, measure):
        """None if one of them lacks the measure."""
        ours, theirs = one.metrics.get(measure), other.metrics.get(measure)
        alike = one.learned and other.learned and one.steps == other.steps
        if ours is None or theirs is None or (is_probe(measure) and not alike):
            return None
        points = ours["value"] - theirs["value"]
        several = min(one.seeds, other.seeds) >= SEEDS
        sides = [(side.get("error") or 0.0, entry.seeds) for side, entry in ((ours, one), (theirs, other))]
        return cls(one, other, measure, points, welch(points, *sides) if several else None)

    def sign(self, found):
        """1 or -1 for a difference that counts: one that was `found`, or of single seeds a large one; else 0."""
        counts = self in found if self.p is not None else abs(self.points) > ONE_SEED
        return int(math.copysign(counts, self.points))


def is_probe(measure):
    """Whether a measure hangs on how long a probe was trained."""
    return measure.startswith(("mlp.", "linear.")) and "converged" not in measure


def welch(points, *sides):
    """p of a difference of two means by Welch's t, two-sided; sides: (standard error, seeds) of each."""
    variances = [error**2 for error, _ in sides]
    if not sum(variances):
        return float(points == 0)
    freedom = sum(variances) ** 2 / sum(v**2 / (seeds - 1) for v, (_, seeds) in zip(variances, sides))
    return float(2 * stats.t.sf(abs(points) / math.sqrt(sum(variances)), freedom))


def discoveries(comparisons):
    """Those of several comparisons that are differences at `FALSE_DISCOVERIES`, by Benjamini and Hochberg."""
    tested = sorted({one for one in comparisons if one.p is not None}, key=lambda one: one.p)
    passed = [i for i, one in enumerate(tested, 1) if one.p <= FALSE_DISCOVERIES * i / len(tested)]
    return set(tested[: max(passed, default=0)])


def verdict(signs, seeds):
    """Verdict of (measure, sign) by the rule in `CLAIM_NOTE`: 1 is for the claim, -1 against it, 0 shows nothing."""
    met, missed = ([measure for measure, sign in signs if sign == side] for side in (1, -1))
    if not signs:
        return "open: nothing to compare yet"
    if seeds < SEEDS:
        leaning = {
            (True, True): "mixed so far",
            (True, False): "so far for it",
            (False, True): "so far against it",
            (False, False): "nothing shown so far",
        }[bool(met), bool(missed)]
        return f"open, {leaning}"
    if not met and not missed:
        return "not shown"
    if len(signs) in (len(met), len(missed)) and len({measure for measure, _ in signs}) > 1:
        return "holds" if met else "fails"
    counts = f"{len(met)} for it, {len(missed)} against, of {len(signs)}"
    if met and missed:
        return f"mixed: {counts}"
    if len({*met, *missed}) < 2:
        return f"not shown: {counts}"
    return f"{'holds' if met else 'fails'} in part: {counts}"


def fair(one, other, budget=VIEWS):
    """Whether two entries saw the same data equally often, through the same kind of network, to as many numbers.

    A tenth apart is equal: of digits' few images, the last batch of an epoch, which is left out, is up to 8 %.
    """
    equal = abs(budget(one) - budget(other)) <= 0.1 * max(budget(one), 1)
    return equal and all(one.settings.get(name) == other.settings.get(name) for name in ("network", "latent_dim"))


def by_data_and_budget(found, budget):
    """(words, pairs) of each data set and, where pairs on it saw unequally many views, of each number of views."""
    for dataset in TITLES:
        budgets = list(by_views((pair for pair in found if pair[0].dataset == dataset), lambda pair: budget(pair[0])))
        for alike in budgets:
            views = f", {millions(max(one.views for one, _ in alike))} views" if len(budgets) > 1 else ""
            yield TITLES[dataset] + views, alike


def best_known(entries):
    """Without entries of fewer seeds than another that is alike in method, data, views and what claims ask of."""

    def alike(entry):
        asked = ("network", "latent_dim", "likelihood_variance", "num_views")
        return entry.method, entry.dataset, millions(entry.views), *(entry.settings.get(name) for name in asked)

    most = {}
    for entry in entries:
        most[alike(entry)] = max(entry.seeds, most.get(alike(entry), 0))
    return [entry for entry in entries if entry.seeds == most[alike(entry)]]


def pairs(entries, method, other_method, equal=()):
    """Entries of two methods on one data set, fairly comparable, with these settings equal."""
    return [
        (one, other)
        for one, other in itertools.product(entries, entries)
        if (one.method, other.method) == (method, other_method)
        and one.dataset == other.dataset
        and fair(one, other)
        and all(one.settings.get(name) == other.settings.get(name) for name in equal)
    ]


def claims(entries, ablated=()):
    """Rows of the table of claims, of entries and of runs that change a setting: claim, data set, verdict, numbers."""
    asked = asked_of(entries, ablated)
    found = discoveries(one for *_, comparisons in asked for one in comparisons)
    return [[text, data, *verdict_of(comparisons, found)] for text, data, comparisons in asked]


def verdict_of(comparisons, found):
    """Verdict and numbers of a row: pairs of single seeds are told, but decide nothing where others have several."""
    words = []
    for _, alike in itertools.groupby(comparisons, key=lambda one: (one.one.name, one.other.name)):
        alike = list(alike)
        marks = ["**" if one in found else "" for one in alike]  # of single seeds none was tested
        points = ", ".join(f"{WORDS[one.measure]} {m}{one.points:+.1f}{m}" for one, m in zip(alike, marks))
        words.append(f"`{alike[0].one.name}` over `{alike[0].other.name}`: {points}")
    deciding = [one for one in comparisons if one.p is not None] or comparisons
    seeds = min((side.seeds for each in deciding for side in (each.one, each.other)), default=0)
    return verdict([(one.measure, one.sign(found)) for one in deciding], seeds), "; ".join(words) or "–"


def asked_of(entries, ablated=()):
    """(claim, data, comparisons) of each row."""
    rows, everything, entries = [], best_known([*entries, *ablated]), best_known(entries)

    def claim(text, found, measures, budget=VIEWS):
        for data, alike in list(by_data_and_budget(found, budget)) or [("–", [])]:
            every = (Comparison.of(*pair, measure) for pair in alike for measure in measures)
            rows.append((text, data, [one for one in every if one is not None]))

    apart = pairs(entries, "SimVAE", "VAE")
    claim("SimVAE leads VAE, at equal views, each with its own likelihood (table 1)", apart, CONTENT)

    def usual(setting):
        """All runs that have the setting as an entry of their method has it."""
        known = {(e.method, e.settings.get(setting)) for e in entries}
        return [e for e in everything if (e.method, e.settings.get(setting)) in known]

    batch = ("batch_size", "num_views")
    text = "SimVAE leads VAE, at equal views in equal batches, each with its own likelihood"
    claim(text, pairs(usual("likelihood_variance"), "SimVAE", "VAE", equal=batch), CONTENT)
    for other in ("VAE", "BetaVAE", "CRVAE"):
        found = pairs(usual("num_views"), "SimVAE", other, equal=("likelihood_variance",))
        claim(f"SimVAE leads {other}, at equal views and likelihood", found, CONTENT)
    found = pairs(everything, "SimVAE", "BetaVAE", equal=("likelihood_variance", *batch))  # CR-VAE takes two views only
    claim("SimVAE leads BetaVAE, at equal views and likelihood in equal batches", found, CONTENT)
    simvae = [e for e in everything if e.method == "SimVAE"]

    def more_views(ablation):
        """Pairs that differ in the views of a group, each with the one that has fewest."""
        equal = ("likelihood_variance", *ablation.equal)
        found = [
            (one, other)
            for one, other in itertools.permutations(simvae, 2)
            if one.dataset == other.dataset
            and fair(one, other, ablation.budget)
            and all(one.settings.get(name) == other.settings.get(name) for name in equal)
            and one.settings.get("num_views", 0) > other.settings.get("num_views", 0)
        ]
        larger = {one.name for one, _ in found}
        return [(one, other) for one, other in found if other.name not in larger]

    of_views, of_passes = ABLATIONS[:2]
    more = more_views(of_views)
    claim("More views in a group help SimVAE, at equal views in all (figure 7)", more, CONTENT)
    more = more_views(of_passes)
    text = "More views in a group help SimVAE, at equal passes over the images, so with more views in all (figure 7)"
    claim(text, more, CONTENT, of_passes.budget)
    autoencoders = [e for e in everything if e.method in ("SimVAE", "VAE", "BetaVAE")]
    gaussian = [e for e in autoencoders if e.settings.get("likelihood_variance") != BERNOULLI]
    lower = [
        (one, other)
        for one, other in itertools.permutations(gaussian, 2)
        if one.dataset == other.dataset
        and fair(one, other)
        and (one.method == "SimVAE") == (other.method == "SimVAE")
        and one.settings.get("num_views") == other.settings.get("num_views")
        and one.settings.get("likelihood_variance", 0) < other.settings.get("likelihood_variance", 0)
    ]
    smaller = {one.name for one, _ in lower}
    lower = [(one, other) for one, other in lower if other.name not in smaller]
    claim("A likelihood variance well below 1 helps (figure 8; a VAE at 0.01 is our beta-VAE)", lower, CONTENT)
    contrastive = pairs(entries, "SimCLR", "SimVAE")
    claim("SimCLR keeps more content than SimVAE", contrastive, CONTENT)
    claim("SimVAE keeps more style than SimCLR (figure 4)", [(b, a) for a, b in contrastive], FACTORS)
    for other, method in itertools.pairwise(("InstanceDiscrimination", "Ball", "Annulus", "LocalAggregation")):
        text = f"{method} leads {other}, at equal views (BALL, ANN: figure 4 and table 2)"
        claim(text, pairs(entries, method, other), (*CONTENT, "views.accuracy"))
    return rows


# ---------------------------------------------------------------- the page


HEAD = """# Results

**[Which claims hold](#which-claims-hold)** is the short of it: a verdict on each claim of the papers, from three seeds
where there are such. The tables before it set our numbers beside the papers'.

What follows a dot in a name is the run: `.seeds` three seeds; `.quarter` three seeds at 3.6 million views; `.million`
one million; `.small` the network of `--variant small`; `.long` a wider one; `.group` SimVAE's batches; `.gaussian` a
likelihood variance of 1; `.views-N`, `.variance-X`, `.crop-X` that setting changed alone; `.passes-2-views-N` the same
at equal passes over the images.

Written by `python benchmarks/tables.py` from the `results.json` of every entry in [weights](../weights) and, of those
whose weights are not kept, in [benchmarks/results](../benchmarks/results); do not edit.
Each cell is ours, and theirs in brackets where a paper printed one. Protocols are those of the SimVAE paper: probes by
Adam at their best epoch on the test set, kNN at its best k of 1..15 (Euclidean), clusters averaged over batches of 64
(of 100 beside GEDI's, whose probe was trained by SGD). Each entry's card has the fixed protocols beside them, the
linear probe trained to its end first, and the commands.
Views: how many the training went through. Accuracies, NMI, ARI and R2 in percent.
A star: measured in another way than other numbers of the column, or before the weights were rounded: mixtures of
features that were not standardized, probes by Adam of fewer steps (CIFAR-10: of half as many, digits: of a fortieth),
what a run measured of itself with parts that are not kept, and what was not measured again since.
"""


def page(entries, papers, ablated=()):
    """docs/results.md."""
    lines = [HEAD]
    sections = (
        (
            "Table 1 of SimVAE: MLP probe and kNN",
            "simvae",
            ("1",),
            ("mlp.best_accuracy", "knn.euclidean_best_accuracy"),
        ),
        (
            "Table 5 of SimVAE: linear probe and GMM",
            "simvae",
            ("5",),
            ("linear.best_accuracy", "gmm.minibatch64_accuracy"),
        ),
        (
            "Table 6 of SimVAE: ARI and NMI of clusters",
            "simvae",
            ("6",),
            ("gmm.minibatch64_ari", "gmm.minibatch64_nmi"),
        ),
        (
            "Table 7 of SimVAE: reconstruction and generation",
            "simvae",
            ("7",),
            ("reconstruction.mse", "generation.fid"),
        ),
        (
            "Table 1 of the workshop version",
            "simvae-workshop",
            ("1",),
            ("linear.best_accuracy", "mlp.best_accuracy", "knn.euclidean_best_accuracy", "gmm.minibatch64_accuracy"),
        ),
        (
            "Table 8 of the workshop version: likelihood",
            "simvae-workshop",
            ("8",),
            ("generation.fid", "likelihood.nll"),
        ),
        (
            "Tables 4 and 10 of GEDI: energy models",
            "gedi",
            ("4", "10"),
            ("linear.accuracy", "clusters.minibatch100_nmi", "generation.fid"),
        ),
        (
            "Tables 5, 11 and 12 of GEDI: images of other sets, AUROC",
            "gedi",
            ("5", "11", "12"),
            ("outliers.svhn_cropped_slope_auroc", "outliers.cifar10_slope_auroc", "outliers.cifar100_slope_auroc"),
        ),
        ("Table 2 of On Mutual Information: memory banks", "mutual-information", ("2",), ("views.accuracy",)),
    )
    for title, paper, tables, metrics in sections:
        lines += [f"## {title}", "", f"From {PAPERS[paper]}.{NOTES.get((paper, tables[0]), '')}", ""]
        lines += comparison(entries, papers, paper, tables, metrics)
    lines += ["## Content and style: figure 4 of SimVAE, without labels", "", STYLE_NOTE, ""]
    lines += style_table(entries) or ["No entry has been measured yet.", ""]
    cropped, ablated = crop_table([*entries, *ablated]), as_usual(ablated)
    if cropped:
        lines += ["## Crops: figure 6 of SimVAE", "", CROP_NOTE, "", *cropped]
    changed = ablation_table([*entries, *ablated])
    if changed:
        lines += [
            "## Views in a group and likelihood variance: figures 7 and 8 of SimVAE",
            "",
            ABLATION_NOTE,
            "",
            *changed,
        ]
    kin = likelihood_table([*entries, *ablated])
    if kin:
        lines += ["## Prior or likelihood?", "", LIKELIHOOD_NOTE, "", *kin, ""]
    others = [
        e
        for e in entries
        if any(m.startswith(("generation.frechet", "reconstruction.", "likelihood.")) for m in e.metrics)
    ]
    if others:
        lines += ["## Decoders", "", DECODER_NOTE, ""]
        lines += decoder_table(others)
    told = [e for e in entries if any(m.startswith("outliers.") for m in e.metrics)]
    if told:
        lines += ["## Images of other sets", "", OUTLIER_NOTE, "", *outlier_table(told)]
    compared = {one for *_, each in asked_of(entries, ablated) for one in each if one.p is not None}
    note = CLAIM_NOTE.format(tested=len(compared), found=len(discoveries(compared)))
    lines += ["## Which claims hold", "", note, "", *table(CLAIM_COLUMNS, claims(entries, ablated)), ""]
    lines += ["## What is still to be run", "", OPEN, ""]
    lines += ["## Settings", "", SETTINGS_NOTE, "", *settings_table(entries)]
    return "\n".join(lines)


def settings_table(entries):
    """What the training of each entry was like, from its own settings."""
    lines = []
    for dataset, group in itertools.groupby((e for e in entries if e.views), key=lambda e: e.dataset):
        rows = [[f"`{e.name}`", *map(str, settings_cells(e))] for e in group]
        lines += [f"**{TITLES.get(dataset, dataset)}**", "", *table(SETTINGS_HEADER, rows), ""]
    return lines


def settings_cells(entry):
    held = entry.settings
    rate, heads = held.get("learning_rate"), [held[name] for name in ("head", "projector") if held.get(name)]
    return (
        held.get("network", "–"),
        held.get("latent_dim", "–"),
        " / ".join("-".join(map(str, head if isinstance(head, list) else [head])) for head in heads) or "–",
        f"{held.get('batch_size', '–')} x {held.get('num_views', 1)}",
        f"{held.get('optimizer') or 'adam'} {rate:g}" if isinstance(rate, float) else "–",
        held.get("schedule") or "–",
        short(held.get("temperature")),
        short(held.get("likelihood_variance")),
        held.get("precision") or "–",
    )


SETTINGS_HEADER = ["encoder", "network", "representation size", "head", "images x views a step"]
SETTINGS_HEADER += ["optimizer and rate", "schedule", "temperature", "likelihood variance", "precision"]
OPEN = """Runs of the papers, and controls of a fair comparison, that nobody has made yet, with their commands:

- The tables of the SimVAE paper by its own settings (every row above is by the zoo's): `python recipes/simvae.py
  --dataset mnist --variant paper`; likewise `vae`, `beta_vae`, `cr_vae`, `simclr`, `moco` and `vicreg`, and
  `fashion_mnist` and `cifar10`. CelebA by any.
- GEDI's ablations on MNIST: `python recipes/gedi.py --dataset mnist --variant no-gen`, and `no-inv`, `no-prior`,
  `two-stage`.
- BALL, ANN, CMC, local aggregation and instance discrimination by their paper's settings: `--variant mi`.
- BALL+, ANN+, CMC-BALL and CMC-ANN: `--variant plus` of `ball` and `annulus`, `neighbors` and `clusters` of `cmc`.
- More than one seed of memory banks on MNIST and CIFAR-10: `python benchmarks/seeds.py ball mnist`."""
SETTINGS_NOTE = (
    "As they were trained: dimensions of the representation, widths of the head between it and the loss (none for "
    "methods that reconstruct images), images and views of each in a step."
)
NOTES = {
    ("simvae", "5"): " On CIFAR-10 its GMM column of discriminative methods seems moved by a "
    "row against that of the workshop version.",
    ("simvae", "6"): " For SimCLR and MoCo on CIFAR-10 the paper prints an ARI above the "
    "NMI: its columns are probably exchanged there.",
    ("simvae", "7"): " MSE is that of an entry's own decoder, where that is "
    "published; under *Decoders* stands that of a decoder fitted to the features, where it is not. FID takes the "
    "weights of InceptionV3; where they could not be had, a Fréchet distance in another space stands there, too; it is "
    "not comparable with an FID.",
    ("simvae-workshop", "8"): " Its likelihoods hold a constant that it does not state, so only "
    "differences compare, and it does not say what p(z) of a single image is.",
}
STYLE_NOTE = (
    "From the features of a changed image alone, a probe predicts whether it is upside down (accuracy, half by "
    "guessing), where the crop was and how large, how far the hue was turned and the brightness factor (R2, 0 by "
    "guessing): `sslzoo.evaluation.style`. *Style kept* is the mean of the R2, none below 0, without the "
    "flip: no views turn images upside down, so that no encoder was trained to ignore it. The paper asks for the hair "
    "color in CelebA instead. kNN: cosine, k = 10. Pictures name the methods of the SimVAE paper, "
    "the generative ones and the encoder of the best neighbors; the tables name the rest."
)
ABLATION_NOTE = (
    "SimVAE with one setting changed and all others as its entry has them; images of a step times views in a group "
    "stay the same, and so does the number of views in all, but *at equal passes over the images*: there each step has "
    "as many images whatever their views, as in the paper, and a larger group sees more views in all. Means over seeds "
    "and their standard errors; kNN: cosine, k = 10; probes at their last epoch; GMM on the whole test set. The runs: "
    "`benchmarks/results/ablations`."
)
CROP = "smallest share of an image in a crop"
CROP_NOTE = (
    "What changes is the least share of an image that a view may show; the paper's is 0.4 of MNIST. Means over seeds "
    "and their standard errors; kNN: cosine, k = 10; probes at their last epoch; GMM on the whole test set."
)
LIKELIHOOD_NOTE = (
    "Likelihood variances, or the Bernoulli likelihood (cross-entropy), of models of one network and representation "
    "size, at equal views; a batch of SimVAE holds a tenth as many images, each ten times. Means of three seeds and "
    "their standard errors. What three seeds show of it: [Which claims hold](#which-claims-hold)."
)
DECODER_NOTE = (
    "Squared error per pixel of test images in 0..1, MNIST's binary as networks see them (*fitted*: through a decoder "
    "trained on the frozen features); "
    "Fréchet distance between test images and images of class-wise Gaussians, in the named space; importance-weighted "
    "negative log-likelihood in nats per image, comparable at equal likelihood only."
)
CLAIM_COLUMNS = ("claim", "data", "verdict", "numbers")
CLAIM_NOTE = (
    "- **Compared**: entries of one data set, network and representation size that saw equally many views (to a "
    "tenth). Where pairs saw different numbers of views, each number has a row.\n"
    "- **Content**: kNN (cosine, k = 10; Euclidean at its best k of 1..15, as in the SimVAE paper), the linear probe "
    "(trained to its end) and the MLP probe (last epoch, where it took as many steps as on MNIST). **Style**: R2 by "
    "factor. Clusters are left out: which mixture is the likeliest depends on chance.\n"
    "- **Numbers** are differences in percentage points. {tested} comparisons have three seeds on either side; {found} "
    "of them are significant (bold): Welch's t over seeds, adjusted over this whole table by Benjamini and Hochberg at "
    f"a false discovery rate of {FALSE_DISCOVERIES:.0%}. The variance due to few test images (360 of the digits) is "
    "not included.\n"
    "- **Verdict**, by significant differences alone: a claim *holds* if two or more measures are for it and none is "
    "against it, *in part* if some show nothing; it *fails* likewise; it is *mixed* if any is for it and any against; "
    "else it is *not shown*, which does not say that there is no difference. Pairs of fewer than three seeds decide "
    f"nothing beside others that have them; alone they leave it *open*: a difference beyond {ONE_SEED:g} points only "
    "says where it leans.\n"
    "- **Settings with several values** are compared with the value that should be worst: the fewest views in a "
    "group, the largest variance."
)
OUTLIER_NOTE = (
    "AUROC of test images against images of another set, fitted to their shape: by the cosine to the 50th nearest "
    "train image, and by the slope of the logsumexp of the head's outputs, or of the features where there is no head, "
    "as the energy models of GEDI are read (not where pixels are thresholded, for no slope is left). Below 50 the "
    "other set looks more typical than the test images."
)


def outlier_table(entries):
    lines = []
    for dataset, group in itertools.groupby(entries, key=lambda e: e.dataset):
        group = list(group)
        names = sorted({m for e in group for m in e.metrics if m.startswith("outliers.")})
        rows = [[f"`{e.name}`", *(e.shown(m) or "–" for m in names)] for e in group]
        lines += [f"**{TITLES.get(dataset, dataset)}**", "", *table(["encoder", *map(title, names)], rows), ""]
    return lines


def decoder_table(entries):
    lines = []
    for dataset, group in itertools.groupby(entries, key=lambda e: e.dataset):
        group = list(group)
        distances = sorted({m for e in group for m in e.metrics if m.startswith("generation.")})
        rows = []
        for e in group:
            own, fitted = (e.shown(f"reconstruction.{m}") for m in ("mse", "adhoc_mse"))
            rows.append(
                [
                    f"`{e.name}`",
                    own or "–",
                    fitted or "–",
                    *(e.shown(m) or "–" for m in distances),
                    e.shown("likelihood.nll") or "–",
                    short(e.settings.get("likelihood_variance")),
                ]
            )
        header = [
            "encoder",
            "MSE",
            "MSE, fitted",
            *(m.partition(".")[2] for m in distances),
            "NLL",
            "likelihood variance",
        ]
        lines += [f"**{TITLES.get(dataset, dataset)}**", "", *table(header, rows), ""]
    return lines


# What `sslzoo list` shows, and two facts more.
ZOO_COLUMNS = ("knn.cosine_k10_accuracy", "linear.converged_accuracy", "mlp.accuracy", "gmm.accuracy", "style.kept")
ZOO_HEADER = ["encoder", "kNN", "linear probe", "MLP probe", "GMM", "style kept", "views", "wall time"]


def zoo_by_dataset(weights):
    """Data set -> results of its entries, the best neighbors first; toys last."""
    found = {}
    for file in sorted(weights.glob("*/results.json")):
        results = read_results(file.parent)
        found.setdefault(results["dataset"], []).append(results)
    order = sorted(found, key=lambda dataset: (dataset == "digits", list(KNOWN).index(dataset)))
    return {dataset: sorted(found[dataset], key=lambda r: -values_of(r).get(ZOO_COLUMNS[0], 0)) for dataset in order}


def zoo_row(results):
    values, seconds = values_of(results), results["wall_seconds"]
    marked = starred(results)
    cells = [
        "" if values.get(name) is None else f"{values[name]:.1f} %{EARLIER * (name in marked)}" for name in ZOO_COLUMNS
    ]
    time = f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds} s"
    time = time if results["views_seen"] else "–"  # of training: that of a floor is the measuring's
    return [f"`{results['name']}`", *cells, f"{results['views_seen'] / 1e6:.1f} M", time]


def with_star(lines):
    """Lines of tables, and what a star says, where one is shown."""
    marked = any(EARLIER in line for line in lines)
    return [*lines, *(["", "A star: measured in another way than the column."] if marked else [])]


def zoo_tables(weights):
    """Lines of a table for each data set, of all entries."""
    lines = []
    for dataset, models in zoo_by_dataset(weights).items():
        lines += [f"## {KNOWN[dataset].title}", "", *table(ZOO_HEADER, map(zoo_row, models)), ""]
    return with_star(lines[:-1])


def zoo_in_short(weights):
    """Lines of one table: of each data set but toys the two best neighbors (also `.long` ones) and SimVAE."""
    rows = []
    for dataset, models in zoo_by_dataset(weights).items():
        models = [results for results in models if tag_of(results["name"]) in (None, "long")]
        chosen = [*models[:2], *(r for r in models[2:] if r["name"] == f"simvae-{dataset.replace('_', '-')}")]
        rows += map(zoo_row, chosen if dataset != "digits" else [])
    return with_star(table(ZOO_HEADER, rows))


def with_rows(text, rows, mark="weights"):
    """A page with other rows between its comments `<!-- weights -->` and `<!-- /weights -->`, or those of a `mark`."""
    before, begin, rest = text.partition(f"<!-- {mark} -->\n")
    _, end, after = rest.partition(f"<!-- /{mark} -->")
    if not end:
        raise ValueError(f"The page must have the comments of its rows. Received: mark={mark!r}, which it lacks")
    return before + begin + "".join(f"{row}\n" for row in rows) + end + after


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if something is out of date")
    parser.add_argument("--weights", type=Path, default=ROOT / "weights", help="folder of entries (weights/)")
    options = parser.parse_args(argv)
    if not any(options.weights.glob("*/results.json")):  # or the tables would be emptied
        parser.error(f"--weights must be a folder of entries. Received: --weights={options.weights}")
    entries = read_entries(options.weights, ROOT / "benchmarks" / "results")
    ablated = read_entries(ROOT / "benchmarks" / "results" / "ablations")
    readme, zoo = ROOT / "README.md", ROOT / "docs" / "zoo.md"
    made = {
        ROOT / "docs" / "results.md": page(entries, read_papers(), ablated),
        readme: with_rows(readme.read_text("utf-8"), zoo_in_short(options.weights)),
        zoo: with_rows(zoo.read_text("utf-8"), zoo_tables(options.weights)),
    }
    stale = [path for path, text in made.items() if not path.exists() or path.read_text("utf-8") != text]
    if options.check:
        drawn = re.findall(r"\]\((pictures/\S+?\.png)\)", made[ROOT / "docs" / "results.md"])
        stale += [path for name in drawn if not (path := ROOT / "docs" / name).is_file()]
        for path in stale:
            print(f"{path.relative_to(ROOT)} is out of date: python benchmarks/tables.py")
        return 1 if stale else 0
    for path in stale:
        write_beside(path, made[path].encode())
        print(f"wrote {path.relative_to(ROOT)}")
    draw(entries, ROOT / "docs", ablated)
    return 0


if __name__ == "__main__":
    sys.exit(main())
