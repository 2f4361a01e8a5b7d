"""Kills, fills and resumes random recipes until the time is up, and compares with runs that nobody disturbed.

    python tests/soak.py --minutes 10 --seed 0
    KERAS_BACKEND=torch python tests/soak.py --minutes 2 --recipes simvae moco

Each round draws a recipe, a backend (one of those installed, or KERAS_BACKEND) and moments to kill it. The same run is
made twice: once whole, and once killed (SIGKILL, SIGTERM, or by a disk that is full, as far as `ulimit -f` tells) and
resumed until it ends. Checkpoints and published weights must then be equal bit for bit. Prints one line a round, and
exits with 1 at the first difference, whose folder is kept. By hand only: it takes all the time it is given.
"""

import argparse
import importlib.util
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
RECIPES = ("simvae", "vae", "simclr", "moco", "byol", "swav", "deepcluster", "vicreg", "nnclr", "lejepa", "dino")
SMALL = ["--limit", "240", "--batch-size", "24", "--epochs", "6", "--protocols", "knn"]
# What a recipe needs to run on so few images.
NEEDS = {
    "moco": ["--queue-size", "24", "--batch-size", "12"],
    "nnclr": ["--queue-size", "24"],
    "deepcluster": ["--set", "clusters=10"],
}


def backends():
    """Those that are installed."""
    modules = {"tensorflow": "tensorflow", "jax": "jax", "torch": "torch"}
    return [name for name, module in modules.items() if importlib.util.find_spec(module)]


def start(recipe, backend, out, *more, most_kilobytes=None):
    """The recipe as a process, its output in <out>.log; with a limit on the size of the files it writes."""
    command = [sys.executable, str(ROOT / "recipes" / f"{recipe}.py"), *SMALL, *NEEDS.get(recipe, []), *more]
    command += ["--out", str(out)]
    if most_kilobytes:
        command = ["bash", "-c", f'ulimit -f {most_kilobytes}; exec "$@"', "soak", *command]
    environment = {**os.environ, "KERAS_BACKEND": backend, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
    with open(f"{out}.log", "ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, env=environment)


def disturb(recipe, backend, out, whole_seconds, rng):
    """Runs to the end through up to three disasters; returns what happened, in words."""
    told = []
    for attempt in range(4):
        more = ["--resume"] if attempt else []
        kind = rng.choice(["SIGKILL", "SIGTERM", "full disk"]) if attempt < 3 else "none"
        limit = rng.choice([64, 512, 4096]) if kind == "full disk" else None
        process = start(recipe, backend, out, *more, most_kilobytes=limit)
        if kind in ("SIGKILL", "SIGTERM"):
            try:
                process.wait(timeout=rng.uniform(0.2, 1.0) * whole_seconds)
            except subprocess.TimeoutExpired:
                process.send_signal(getattr(signal, kind))
        code = process.wait(timeout=600)
        told.append(f"{kind} -> {code}")
        if code == 0 and finished(out):
            return told
    raise SystemExit(f"{recipe} under {backend} did not end: {told}; see {out}.log")


def finished(out):
    """Whether all epochs are in the checkpoint."""
    try:
        return len(arrays(out / "checkpoint.npz")[1]) == 6
    except (OSError, KeyError, ValueError):
        return False


def arrays(file):
    """Variables of a checkpoint, and the journal's rows without their times."""
    import json

    with np.load(file) as data:
        note = json.loads(str(data["note"]))
        rows = [{k: v for k, v in row.items() if k not in ("seconds", "views_per_second")} for row in note["rows"]]
        return {key: data[key] for key in data.files if key != "note"}, rows


def difference(whole, disturbed):
    """What differs between two finished runs, in words; None if nothing does."""
    (ours, our_rows), (theirs, their_rows) = arrays(whole / "checkpoint.npz"), arrays(disturbed / "checkpoint.npz")
    if ours.keys() != theirs.keys():
        return "the checkpoints hold other variables"
    for key in ours:
        if not np.array_equal(ours[key], theirs[key], equal_nan=True):
            return f"variable {key} of the checkpoints"
    return None if our_rows == their_rows else "the journals"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--recipes", nargs="+", default=RECIPES, choices=RECIPES)
    options = parser.parse_args()
    rng, end, rounds = random.Random(options.seed), time.monotonic() + 60 * options.minutes, 0
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    while time.monotonic() < end:
        recipe = rng.choice(options.recipes)
        backend = os.environ.get("KERAS_BACKEND") or rng.choice(backends())
        place = folder / f"{rounds}-{recipe}-{backend}"
        place.mkdir()
        began = time.monotonic()
        if start(recipe, backend, place / "whole").wait(timeout=600):
            raise SystemExit(f"{recipe} under {backend} fails undisturbed: see {place}/whole.log")
        told = disturb(recipe, backend, place / "disturbed", time.monotonic() - began, rng)
        found = difference(place / "whole", place / "disturbed")
        print(f"{recipe} under {backend}: {', '.join(told)}: {found or 'equal'}", flush=True)
        if found:
            sys.exit(f"{found} differ; both runs are kept in {place}")
        shutil.rmtree(place)
        rounds += 1
    shutil.rmtree(folder)
    print(f"{rounds} rounds, no difference (seed {options.seed})")


if __name__ == "__main__":
    main()
