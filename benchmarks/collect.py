"""What benchmarks of entries of weights/ share: measure those named, keep the numbers of the others, write the page."""

import argparse
import json
from pathlib import Path

from sslzoo.files import module_at, read_json, write_beside

measure = module_at(Path(__file__).with_name("measure.py"))
ROOT = Path(__file__).resolve().parent.parent


def run(name, description, measured, shown, write_pages, argv=None):
    """The command line of a benchmark.

    Args:
        name: str, of its file of numbers, benchmarks/measured/<name>.json.
        description: str, for --help.
        measured: callable (folder of an entry, data_dir) -> dict, its numbers.
        shown: callable, such a dict -> str.
        write_pages: callable (entry -> dict, folder of docs).
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    out = ROOT / "benchmarks" / "measured" / f"{name}.json"
    add("entries", nargs="*", metavar="NAME", help="names of entries, or patterns such as '*-mnist'")
    add("--all", action="store_true", help="all entries")
    add("--data-dir", help="folder of prepared TFDS data sets")
    add("--weights", type=Path, default=measure.WEIGHTS, help="folder of entries (weights/)")
    add("--out", type=Path, default=out, help=f"file of the numbers (benchmarks/measured/{name}.json)")
    add("--docs", type=Path, default=ROOT / "docs", help="folder of the page (docs/)")
    options = parser.parse_args(argv)
    numbers = read_json(options.out) if options.out.exists() else {}
    folders = measure.entries(["*"] if options.all else options.entries, options.weights)
    if options.entries and not folders:
        parser.error(f"no entry of {options.weights} is named so. Received: {' '.join(options.entries)}")
    for folder in folders:
        numbers[folder.name] = measured(folder, options.data_dir) | {"weights": measure.weights_of(folder)}
        text = json.dumps(dict(sorted(numbers.items())), separators=(",", ":"))
        write_beside(options.out, f"{text}\n".encode())
        print(f"{folder.name}: {shown(numbers[folder.name])}", flush=True)
    if not numbers:
        parser.error("nothing was measured yet: name entries, or --all. Received: neither")
    (options.docs / "pictures").mkdir(parents=True, exist_ok=True)
    write_pages(numbers, options.docs)
    return 0
