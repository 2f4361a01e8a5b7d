"""Measures more of entries in weights/, and writes it into their results.json, cards and the manifest.

    python benchmarks/measure.py                                      # what tables need and an entry lacks
    python benchmarks/measure.py simvae-mnist --protocols likelihood outliers
    python benchmarks/measure.py "*-mnist" --protocols generation --extractor simclr-mnist

Numbers that are there already stay, unless --again is given. Files of weights are not touched; results.json then also
holds their hashes. An entry that cannot be measured so (it has no decoder, say) is told, the others go on, and the exit
status is 1. `python benchmarks/tables.py` afterwards.
"""

import argparse
import fnmatch
import functools
import sys
from pathlib import Path

from sslzoo import data, evaluation
from sslzoo.errors import SSLZooError
from sslzoo.evaluation import Report
from sslzoo.files import module_at
from sslzoo.publishing import artefact, manifest
from sslzoo.zoo import layout
from sslzoo.zoo.results import read_results

reports = module_at(Path(__file__).with_name("reports.py"))

WEIGHTS = Path(__file__).resolve().parent.parent / "weights"


def wanted(folder, protocols, again=False):
    """Protocols that an entry lacks: those asked for, or style, and reconstruction where there is a decoder."""
    held = (read_results(folder).get("evaluation") or {}).get("numbers", {})
    if not protocols:
        protocols = ["style", *(["reconstruction"] if "decoder" in layout.parts(folder) else [])]
    return [name for name in protocols if again or name not in held]


@functools.lru_cache(maxsize=2)
def splits(dataset, data_dir):
    """Both splits of a data set, read once for all entries of it."""
    return tuple(data.load(dataset, split, data_dir=data_dir) for split in ("train", "test"))


def measure(folder, protocols, data_dir=None, **options):
    """Evaluates an entry and adds the numbers to its results. Returns the new report alone."""
    results = read_results(folder)
    report = evaluation.evaluate(
        folder,
        splits(results["dataset"], data_dir),
        protocols,
        data_dir,
        name=results["dataset"],
        seed=results["seeds"][0],
        **options,
    )
    merged = merge(results.get("evaluation"), report)
    papers = {metric["name"]: metric["paper"] for metric in results["metrics"] if metric.get("paper") is not None}
    artefact.seal(folder, metrics=merged.metrics(papers), evaluation=merged.to_dict())
    return report


def merge(record, report):
    """A report of what was measured before, if anything was, and what was measured now."""
    return reports.merge(Report.from_dict(record), report) if record else report


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("entries", nargs="*", default=["*"], metavar="PATTERN", help="names of entries (all)")
    add(
        "--protocols",
        nargs="+",
        choices=evaluation.ALL_PROTOCOLS,
        metavar="P",
        help="what to measure (what tables need)",
    )
    add("--extractor", default="inception", help="of the Fréchet distance (inception)")
    add("--data-dir", help="folder of prepared TFDS data sets")
    add("--again", action="store_true", help="also what an entry has already")
    add("--weights", type=Path, default=WEIGHTS, help="folder of entries (weights/)")
    options = parser.parse_args(argv)
    failed = 0
    folders = sorted(path.parent for path in options.weights.glob(f"*/{layout.CONFIG}"))
    folders = [each for each in folders if any(fnmatch.fnmatch(each.name, pattern) for pattern in options.entries)]
    if not folders:
        parser.error(f"no entry of {options.weights} is named so. Received: {' '.join(options.entries)}")
    for folder in folders:
        protocols = wanted(folder, options.protocols, options.again)
        if not protocols:
            if artefact.seal(folder):
                manifest.refresh(folder)
                print(f"{folder.name}: sealed", flush=True)
            continue
        try:
            report = measure(folder, protocols, options.data_dir, extractor=options.extractor)
        except SSLZooError as error:
            failed += 1
            print(f"{folder.name}: not measured ({type(error).__name__}: {error})", flush=True)
            continue
        if options.weights == WEIGHTS:
            manifest.refresh(folder)
        shown = ", ".join(f"{name} {value:.4g}" for name, value in report.flat().items() if "linear_" not in name)
        print(f"{folder.name}: {shown}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
