"""Time of `sslzoo.load` beside what Keras needs to rebuild the same model and read the same weights.

    KERAS_BACKEND=jax python benchmarks/load_time.py                       # simvae-mnist, and one network of each kind
    KERAS_BACKEND=jax python benchmarks/load_time.py weights/vae-mnist     # model folders

`sslzoo.load(name)` checks every file against the sha256 of a manifest, and what the files hold, before Keras sees them.
The reference is `model_from_json` and `load_weights`, nothing checked. "first" is the first load of a process (JAX
compiles what has not been seen), each in a process of its own, imports left out; "again" the best of further loads,
in turns (a file that did not change is not hashed twice by one process). The target is a ratio of at most 1.10.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sslzoo.networks.composition import compose

ROOT = Path(__file__).resolve().parent.parent
NETWORKS = {"mlp": (28, 28, 1), "resnet18-simvae": (32, 32, 3), "resnet18": (32, 32, 3)}


def loaders():
    import keras

    import sslzoo
    from sslzoo import zoo  # noqa: F401  imported beforehand, as Keras is

    def rebuild(name):
        folder = Path(os.environ["SSLZOO_WEIGHTS"]) / name
        model = keras.models.model_from_json((folder / "config.json").read_text("utf-8"))
        model.load_weights(folder / "model.weights.h5")
        return model

    return {"sslzoo": sslzoo.load, "keras": rebuild}


def measure(first, name, repeats, clock):
    """Seconds of loads in this process, whose first is made by `first`: {"first": float, "sslzoo": ..., "keras": ...}.

    The others take turns, so that a busy spell of the machine hits both; the best of each counts.
    """
    seconds = {}
    for which, load in [("first", loaders()[first])] + repeats * list(loaders().items()):
        start = clock()
        load(name)
        seconds[which] = min(clock() - start, seconds.get(which, float("inf")))
    return seconds


def in_own_process(first, folder, manifest, arguments):
    command = [sys.executable, __file__, folder.name, "--measure", first, "--repeats", str(arguments.repeats)]
    command += ["--cpu"] if arguments.cpu else []
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "SSLZOO_WEIGHTS": str(folder.resolve().parent),
        "SSLZOO_MANIFEST": str(manifest),
    }
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def write_models(folder):
    """A freshly initialized encoder of each kind, as model folders. "resnet18" has 11 million weights, 45 MB."""
    from sslzoo import networks
    from sslzoo.publishing import artifact

    for name, shape in NETWORKS.items():
        encoder = compose(None, networks.encoder(name, shape, 64, seed=0))
        yield artifact.write(folder / name, encoder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, help="model folders (simvae-mnist, and one of each kind)")
    parser.add_argument("--repeats", type=int, default=5, help="further loads of each in a process (5)")
    parser.add_argument("--rounds", type=int, default=3, help="processes for each figure, of which the best counts (3)")
    parser.add_argument("--cpu", action="store_true", help="seconds of CPU, not wall time: for a busy machine")
    parser.add_argument("--measure", choices=("sslzoo", "keras"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        clock = time.process_time if arguments.cpu else time.perf_counter
        print(json.dumps(measure(arguments.measure, str(arguments.folders[0]), arguments.repeats, clock)))
        return

    sys.path.insert(0, str(ROOT))
    with tempfile.TemporaryDirectory() as scratch:
        from sslzoo.publishing import manifest

        entries = Path(scratch) / "manifest.json"
        folders = arguments.folders or [ROOT / "weights" / "simvae-mnist", *write_models(Path(scratch))]
        for folder in folders:
            manifest.refresh(folder, file=entries)
        print(f"{'model':<20} {'load':<6} {'sslzoo ms':>10} {'keras ms':>10} {'ratio':>6}")
        for folder in folders:
            best = {}
            for first in arguments.rounds * ("sslzoo", "keras"):
                measured = in_own_process(first, folder, entries, arguments)
                for load, which in (("first", first), ("again", "sslzoo"), ("again", "keras")):
                    seconds = measured["first" if load == "first" else which]
                    best[load, which] = min(seconds, best.get((load, which), float("inf")))
            for load in ("first", "again"):
                ours, theirs = best[load, "sslzoo"], best[load, "keras"]
                print(f"{folder.name:<20} {load:<6} {1e3 * ours:>10.1f} {1e3 * theirs:>10.1f} {ours / theirs:>6.2f}")


if __name__ == "__main__":
    main()
