"""Trains a recipe from several seeds, and keeps the mean of the runs with its standard error; not their weights.

    KERAS_BACKEND=jax python benchmarks/seeds.py simvae digits                       # seeds 0, 1 and 2
    KERAS_BACKEND=jax python benchmarks/seeds.py simvae mnist --tag quarter --set views_per_image=60
    python benchmarks/seeds.py simvae digits --tag wide --set likelihood_variance=1 --out benchmarks/results/ablations
    for METHOD in simvae vae beta-vae; do python benchmarks/seeds.py $METHOD digits; done
    KERAS_BACKEND=tensorflow python benchmarks/seeds.py simvae digits --float16 --with-entry  # 0 is the zoo's entry

Writes benchmarks/results/<method>-<dataset>.<tag>.json, which `python benchmarks/tables.py` takes in; what changes one
setting of a method to see what it does goes to `ablations/` there, for tables of its own. Each seed is a run of its own
in runs/seeds/, measured under its own seed: what is finished is not trained again, and what was cut short goes on. All
other flags are the recipe's, and the command that is kept has them. An entry's settings must be today's, but the code
that made it may be older than its method: whether it counts (--with-entry) is left to you.
"""

import argparse
import json
import shlex
import subprocess
import sys
from pathlib import Path

import keras

from sslzoo.errors import InvalidInputError
from sslzoo.evaluation import Report
from sslzoo.files import module_at, write_beside
from sslzoo.zoo.results import check_results, read_results

reports = module_at(Path(__file__).with_name("reports.py"))

ROOT = Path(__file__).resolve().parent.parent
RECIPES = ROOT / "recipes"
RESULTS = ROOT / "benchmarks" / "results"


def is_finished(folder, method, dataset, words, seed):
    """Whether the model in a folder came to its end, from this seed and with the settings of these flags."""
    zoo = module_at(RECIPES / "zoo.py")
    entry = zoo.Entry(folder.name, method.replace("-", "_"), dataset, shlex.join(words), seed)
    return zoo.Zoo([entry], runs=folder.parent).is_current(entry, folder)


def train(method, dataset, seed, words, run):
    """Results of one seed: those that are there, or of a run that is begun or gone on with."""

    def finished():
        written = sorted(path.parent for path in run.glob("*/results.json"))
        return written[0] if written and is_finished(written[0], method, dataset, words, seed) else None

    folder = finished()
    if folder is None:
        recipe = RECIPES / f"{method.replace('-', '_')}.py"
        command = [sys.executable, recipe, "--dataset", dataset, "--seed", seed, "--out", run, "--resume", *words]
        code = subprocess.run([str(word) for word in command]).returncode
        if code:
            sys.exit(code)  # the recipe has said why, also that a run was begun with other settings
        folder = finished()
        if folder is None:
            sys.exit(f"{run} was stopped before its end; the same command goes on.")
    return read_results(folder)


def entered(method, dataset, words, weights):
    """Results of the entry that the same flags trained from seed 0, without what it says of its files.

    Raises:
        ArtifactError: there is no such entry.
        InvalidInputError: other flags, another backend, or settings that the recipe has no more made it.
    """
    folder = weights / f"{method}-{dataset.replace('_', '-')}"
    held = read_results(folder)
    backend = held["settings"]["backend"]
    if backend != keras.backend.backend():
        raise InvalidInputError(
            f"--with-entry takes an entry that the same backend made: {backend}. Received: {keras.backend.backend()}"
        )
    flags = shlex.split(held["recipe"].partition(".py")[2])
    made = flags[2:] if flags[:1] == ["--dataset"] else flags
    if "--name" in made:  # which an entry of other settings has; seeds are named here
        at = made.index("--name")
        made = made[:at] + made[at + 2 :]
    made = sorted(made)
    if made != sorted(words):
        raise InvalidInputError(
            f"--with-entry takes an entry that the same flags made: {' '.join(made) or 'none'}. "
            f"Received: {' '.join(words) or 'none'}"
        )
    if not is_finished(folder, method, dataset, words, 0):
        raise InvalidInputError(
            "--with-entry takes an entry that was trained to its end, from seed 0, with today's settings. "
            f"Received: {folder.name}, which was not"
        )
    return {field: value for field, value in held.items() if field not in ("packed", "left_out")}


def alike(runs):
    """Reports without what not all of them have: protocols that an entry was measured by later."""
    shared = set.intersection(*(set(report.numbers) for report in runs))
    for report in runs:
        for protocol in set(report.numbers) - shared:
            for field in (report.numbers, report.protocols, report.confusion, report.seconds):
                field.pop(protocol, None)
    return runs


def merged(runs, name, command):
    """What results.json says of several runs together.

    Raises:
        InvalidInputError: runs that differ in more than the seed.
    """
    if any(run.get("ended", "epochs") != "epochs" for run in runs):  # each came to its own end, and views say when
        views = round(sum(run["views_seen"] for run in runs) / len(runs))
        runs = [run | {"views_seen": views} for run in runs]
    first = runs[0]
    for other in runs[1:]:
        of_first, of_other = (
            {"method": run["method"], "dataset": run["dataset"], "views_seen": run["views_seen"], **run["settings"]}
            for run in (first, other)
        )
        for field in of_first | of_other:
            mine, its = (run.get(field, "not set") for run in (of_first, of_other))
            if mine != its:
                raise InvalidInputError(f"Runs must differ in the seed alone. Received: {field}={mine!r} and {its!r}")
    report = reports.mean(alike([Report.from_dict(run["evaluation"]) for run in runs]))
    papers = {metric["name"]: metric["paper"] for metric in first["metrics"] if metric.get("paper") is not None}
    common = (
        "schema",
        "method",
        "dataset",
        "settings",
        "views_seen",
        "license",
        "papers",
        "description",
        "input_shape",
        "input_range",
        "features",
        "parameters",
    )
    return check_results(
        {field: first[field] for field in common if field in first}
        | {
            "name": name,
            "recipe": command,
            "seeds": report.seeds,
            "metrics": report.metrics(papers),
            "versions": report.versions,
            "wall_seconds": round(sum(run["wall_seconds"] for run in runs)),
            "remarks": list(dict.fromkeys(remark for run in runs for remark in run.get("remarks", ()))),
            "evaluation": report.to_dict(),
        }
    )


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("method", choices=sorted(path.stem.replace("_", "-") for path in RECIPES.glob("*.py") if path.stem != "zoo"))
    add("dataset", help="name of a data set")
    add("--seeds", nargs="+", type=int, default=[0, 1, 2], metavar="S", help="at least two (0 1 2)")
    add("--with-entry", action="store_true", help="seed 0 is the entry, if the same flags made it")
    add("--tag", default="seeds", help="what the entry is called after its data set (seeds)")
    add("--runs", type=Path, default=ROOT / "runs" / "seeds", help="folder of the runs (runs/seeds)")
    add("--out", type=Path, default=RESULTS, help="folder to write to (benchmarks/results)")
    add("--weights", type=Path, default=ROOT / "weights", help="folder of entries (weights)")
    add("--data-dir", help="folder of prepared TFDS data sets")
    add("--remark", action="append", default=[], metavar="TEXT", help="what must be said, of the data for example")
    options, words = parser.parse_known_args(argv)
    if len(set(options.seeds)) < 2:
        parser.error(f"--seeds takes at least two different seeds. Received: {options.seeds}")
    if options.with_entry and 0 not in options.seeds:
        parser.error(f"--with-entry gives seed 0, which must be among --seeds. Received: {options.seeds}")
    name = f"{options.method}-{options.dataset.replace('_', '-')}.{options.tag}"
    unsaid = ["--data-dir", options.data_dir] if options.data_dir else []
    unsaid += [word for remark in options.remark for word in ("--remark", remark)]
    entry = entered(options.method, options.dataset, words, options.weights) if options.with_entry else None
    runs = [
        entry
        if entry and seed == 0
        else train(options.method, options.dataset, seed, [*words, *unsaid], options.runs / f"{name}.{seed}")
        for seed in options.seeds
    ]
    if entry:  # of settings that came after it, it says nothing
        entry["settings"] = next(run["settings"] for run in runs if run is not entry) | entry["settings"]
    asked = ["--seeds", *map(str, options.seeds), "--tag", options.tag, *words]
    if options.out != RESULTS:
        asked += ["--out", str(options.out)]
    made = merged(runs, name, f"python benchmarks/seeds.py {options.method} {options.dataset} {shlex.join(asked)}")
    options.out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(made, separators=(",", ":"), ensure_ascii=False, allow_nan=False) + "\n"
    print(f"wrote {write_beside(options.out / f'{name}.json', text.encode())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
