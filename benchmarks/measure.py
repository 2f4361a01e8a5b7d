"""Measures entries of weights/ on their files as they are, and writes results.json, cards and the manifest.

    python benchmarks/measure.py simvae-mnist "moco-*"          # every protocol that an entry has
    python benchmarks/measure.py --all --protocols knn linear gmm
    python benchmarks/measure.py --all --check                  # write nothing; exit with 1 and list what differs
    python benchmarks/measure.py simvae-mnist --protocols likelihood outliers --outside cifar10
    python benchmarks/measure.py "ball-*" --protocols views              # a quarter of an hour an entry

Features are computed once an entry, for all protocols. Files of weights are not touched. What was not measured on
these files, or in another way than today's, stands in results.json as `outdated`, protocol by protocol, until it is
measured again; the card says so. --check holds numbers of the same machine to 0.05 points by neighbors and linear
probes, and to 0.5 by clusters; another processor moved six of 90 linear probes by up to 0.1 points (an image of
digits), and clusters of two by 0.5 and 1.1. An entry that cannot be measured so (it has no decoder, say) is told, the
others go on, and the exit status is 1. `python benchmarks/tables.py` afterwards.
"""

import argparse
import fnmatch
import functools
import sys
import types
from pathlib import Path

import keras

from sslzoo import data, evaluation, methods, zoo
from sslzoo.errors import SSLZooError
from sslzoo.evaluation import Report
from sslzoo.evaluation.report import options_of
from sslzoo.files import module_at
from sslzoo.publishing import artifact, manifest
from sslzoo.training.builders import Builders
from sslzoo.zoo import layout
from sslzoo.zoo.results import read_results

reports = module_at(Path(__file__).with_name("reports.py"))

WEIGHTS = Path(__file__).resolve().parent.parent / "weights"
# Points by which a number may differ from what is published, and what is held to it unless protocols are named.
TOLERANCES = {"knn": 0.05, "linear": 0.05, "gmm": 0.5}


def entries(patterns, weights):
    """Folders of the entries whose names match."""
    folders = sorted(path.parent for path in weights.glob(f"*/{layout.CONFIG}"))
    return [folder for folder in folders if any(fnmatch.fnmatch(folder.name, pattern) for pattern in patterns)]


# What `all` has, and the probe on views, which takes the method: its views and its network, of the files.
PROTOCOLS = (*evaluation.ALL_PROTOCOLS, "views")


def weights_of(folder):
    """The beginning of the hash of an entry's weights: whose numbers they are that are kept elsewhere by its name."""
    return read_results(folder)["files"][layout.WEIGHTS][:12]


def held(results):
    """Protocols that an entry's numbers are of and that its files suffice for."""
    numbers = (results.get("evaluation") or {}).get("numbers", {})
    return [name for name in evaluation.ALL_PROTOCOLS if name in numbers]


@functools.lru_cache(maxsize=3)
def splits(dataset, data_dir):
    """Both splits of a data set, read once for all entries of it."""
    return tuple(data.load(dataset, split, data_dir=data_dir) for split in ("train", "test"))


def measure(folder, protocols, data_dir=None, **options):
    """The report on an entry: its files, its seed, and its settings where an evaluation keeps them."""
    results = read_results(folder)
    record = results.get("evaluation") or {}
    options = options_of(record, protocols) | options
    if "views" in protocols:
        options["method"] = method_of(folder, results)
    return evaluation.evaluate(
        folder, splits(results["dataset"], data_dir), protocols, data_dir, name=results["dataset"], **options
    )


def method_of(folder, results):
    """A method that makes views as the entry's training did, and represents them by its network."""
    made = Builders()  # as of its run, whose images gave the range of values
    made.settings, made.image_shape, made.seed = results["settings"], tuple(results["input_shape"]), results["seeds"][0]
    made.examples = types.SimpleNamespace(value_range=tuple(results["input_range"]))
    network = stored = zoo.load(folder, "network")
    if made.settings["view_size"]:  # it was trained on smaller views than it is used on
        network = keras.models.clone_model(stored, input_tensors=keras.Input((None, None, made.image_shape[-1])))
        network.set_weights(stored.get_weights())
    return methods.SimCLR(network, views=made.views(2))


def write(folder, report):
    """Puts what was measured into results.json and the card."""
    results = read_results(folder)
    record = results.get("evaluation")
    merged = reports.merge(Report.from_dict(record), report) if record else report
    papers = {metric["name"]: metric["paper"] for metric in results["metrics"] if metric.get("paper") is not None}
    outdated = [name for name in results.get("outdated", []) if name not in report]
    artifact.seal(folder, metrics=merged.metrics(papers), evaluation=merged.to_dict(), outdated=outdated)


def differences(results, report):
    """Lines of what a report has otherwise than results.json."""
    record = Report.from_dict(results["evaluation"])
    lines = []
    for protocol, numbers in report.numbers.items():
        tolerance = TOLERANCES.get(protocol, 0.05)
        published = record.numbers.get(protocol, {})
        for metric in numbers.keys() | published.keys():
            now, then = (
                side[metric].printed(side[metric].value) if metric in side else None for side in (numbers, published)
            )
            if now is None or then is None or abs(now - then) > tolerance:
                lines.append(f"{protocol}.{metric}: published {then}, measured {now}")
    return sorted(lines)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("entries", nargs="*", metavar="NAME", help="names of entries, or patterns such as '*-mnist'")
    add("--all", action="store_true", help="all entries")
    add("--check", action="store_true", help="write nothing; list what differs, by neighbors, probes and clusters")
    add("--protocols", nargs="+", choices=PROTOCOLS, metavar="P", help="what to measure (all it has but views)")
    add("--outdated", action="store_true", help="only what is outdated of it")
    add("--extractor", help="of the Fréchet distance (inception)")
    add("--outside", nargs="+", help="data sets of outliers")
    add("--restarts", type=int, help="of mixtures (as an entry has it)")
    add("--data-dir", help="folder of prepared TFDS data sets")
    add("--weights", type=Path, default=WEIGHTS, help="folder of entries (weights/)")
    options = parser.parse_args(argv)
    if options.all == bool(options.entries):
        parser.error(f"expected names of entries, or --all. Received: {' '.join(options.entries) or 'neither'}")
    folders = entries(options.entries or ["*"], options.weights)
    if not folders:
        parser.error(f"no entry of {options.weights} is named so. Received: {' '.join(options.entries)}")
    chosen = {"extractor": options.extractor, "outside": options.outside, "gmm_restarts": options.restarts}
    chosen = {option: value for option, value in chosen.items() if value is not None}
    failed = 0
    for folder in folders:
        results = read_results(folder)
        protocols = options.protocols or [name for name in held(results) if not options.check or name in TOLERANCES]
        if options.outdated:
            protocols = [name for name in protocols if name in results.get("outdated", [])]
        if not protocols:
            continue
        try:
            report = measure(folder, protocols, options.data_dir, strict=bool(options.protocols), **chosen)
        except SSLZooError as error:
            failed += 1
            print(f"{folder.name}: not measured ({type(error).__name__}: {error})", flush=True)
            continue
        lines = differences(results, report) if options.check else []
        failed += bool(lines)
        if not options.check:
            write(folder, report)
            if options.weights == WEIGHTS:
                manifest.refresh(folder)
        told = "differs" if lines else "as published" if options.check else "written"
        shown = ", ".join(f"{name} {value:.4g}" for name, value in report.headline.items())
        print("\n  ".join([f"{folder.name}: {told} ({shown})", *lines]), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
