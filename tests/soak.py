"""Kills, fills and resumes random recipes until the time is up, and compares with runs that nobody disturbed.

    python tests/soak.py --minutes 10 --seed 0
    KERAS_BACKEND=torch python tests/soak.py --minutes 2 --recipes simvae moco

Each round draws a recipe, a backend (one of those installed, or KERAS_BACKEND), its seed and its precision. The same
run is made twice: once whole, and once struck up to three times (SIGKILL, SIGTERM, SIGHUP, Ctrl-C twice, a file that
may grow no further, and as root a disk that is full) and resumed until it ends. A blow falls at a random time, or at a
random moment after a random epoch. Then checkpoints, history and every part of the published model must be equal bit
for bit, and no blow but SIGKILL may have ended in a traceback or a crash. Prints one line a round, and exits with 1 at
the first fault, whose folder is kept. By hand only: it takes all the time it is given.
"""

import argparse
import contextlib
import csv
import importlib.util
import json
import os
import random
import resource
import runpy
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

import h5py
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
RECIPES = sorted(path.stem for path in (ROOT / "recipes").glob("*.py") if path.stem != "zoo")
EPOCHS = 6
SMALL = ["--limit", "240", "--epochs", str(EPOCHS), "--protocols", "knn"]
# What a recipe needs to run on so few images.
NEEDS = {
    "moco": ["--queue-size", "24", "--batch-size", "12"],
    "nnclr": ["--queue-size", "24"],
    "deepcluster": ["--set", "clusters=10"],
    "jem": ["--set", "sgld_steps=2"],
    "gedi": ["--set", "sgld_steps=2"],
}
TIMES = ("seconds", "views_per_second", "cluster_seconds")
DISASTERS = ("SIGKILL", "SIGKILL", "SIGTERM", "SIGHUP", "Ctrl-C twice", "full file", "full disk")


def backends():
    """Those that are installed."""
    modules = {"tensorflow": "tensorflow", "jax": "jax", "torch": "torch"}
    return [name for name, module in modules.items() if importlib.util.find_spec(module)]


class Server:
    """A process that has imported a backend, and becomes a recipe as often as it is asked: importing takes longer.

    Args:
        backend: str.
    """

    def __init__(self, backend):
        environment = {**os.environ, "KERAS_BACKEND": backend, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
        command = [sys.executable, __file__, "--serve"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)

    def start(self, command, out, most_bytes=None):
        """The recipe as a process of its own, its output in <out>.log; with a limit on the size of files it writes."""
        asked = {"argv": [*command, "--out", str(out)], "log": f"{out}.log", "most_bytes": most_bytes}
        self.process.stdin.write(json.dumps(asked).encode() + b"\n")
        self.process.stdin.flush()
        return Process(self.process.stdout.fileno())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Process:
    """A recipe that runs: as much of `subprocess.Popen` as is needed here.

    Args:
        source: file descriptor that its id comes from, and then its exit code.
    """

    def __init__(self, source):
        self.source, self.code = source, None
        self.id = self._number()

    def _number(self):
        return struct.unpack("i", os.read(self.source, 4))[0]

    def poll(self):
        if self.code is None and select.select([self.source], [], [], 0)[0]:
            self.code = self._number()
        return self.code

    def wait(self, seconds=1800):
        end = time.monotonic() + seconds
        while self.poll() is None:
            if time.monotonic() > end:
                os.kill(self.id, signal.SIGKILL)
                raise SystemExit(f"It hangs: nothing ended it in {seconds} seconds")
            time.sleep(0.01)
        return self.code

    def send(self, number):
        if self.poll() is None:
            os.kill(self.id, number)


def serve():
    """What a `Server` runs."""
    import sslzoo.training  # noqa: F401

    answers = os.dup(1)
    os.dup2(2, 1)
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if not child:
            become(asked)
        os.write(answers, struct.pack("i", child))
        os.write(answers, struct.pack("i", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))


def become(asked):
    """Runs a recipe as `python recipe.py ...` does, and ends."""
    log = os.open(asked["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    if asked["most_bytes"]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (asked["most_bytes"], asked["most_bytes"]))
    sys.argv, code = asked["argv"], 0
    try:
        runpy.run_path(asked["argv"][0], run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
        if code != end.code:
            print(end.code, file=sys.stderr)
    except BaseException:
        code = 1
        traceback.print_exc()
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    os._exit(code)


class Disk:
    """A folder that is a disk of its own, if this process may make one: it can be full.

    Args:
        folder: Path of one that exists.
    """

    def __init__(self, folder):
        self.folder = folder
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1g", "none", str(folder)], capture_output=True)
        self.is_own = made.returncode == 0

    def leave(self, kilobytes=2**20):
        """Leaves so much room beside what is held already."""
        size = max(4, shutil.disk_usage(self.folder).used // 1024 + kilobytes)  # 0 were no limit, for good
        subprocess.run(["mount", "-o", f"remount,size={size}k", str(self.folder)], check=True)

    def close(self):
        if self.is_own:
            subprocess.run(["umount", str(self.folder)], check=True)


def wait_to_strike(process, out, whole_seconds, rng):
    """Until a random time, or a random moment after a random epoch; or until the process ends."""
    end = time.monotonic() + 3 * whole_seconds + 60
    epoch = rng.randrange(EPOCHS)
    if rng.random() < 0.4:
        end, epoch = time.monotonic() + rng.uniform(0.1, 1.0) * whole_seconds, None
    while process.poll() is None and time.monotonic() < end:
        if epoch is not None and len(history(out)) > epoch:
            time.sleep(rng.uniform(0, 0.5) * rng.random())
            return
        time.sleep(0.005)


def disturb(command, server, out, whole_seconds, rng, disk):
    """Runs to the end through up to three disasters; returns what happened, in words."""
    told = []
    for attempt in range(4):
        kind = rng.choice(DISASTERS) if attempt < 3 else "none"
        if kind == "full disk" and not disk.is_own:
            kind = "full file"
        more = ["--resume"] if attempt else []
        if kind == "full disk":
            disk.leave(rng.choice([0, 64, 256, 1024, 2048, 4096]))
        limit = 1024 * rng.choice([16, 64, 256, 1024]) if kind == "full file" else None
        said_before = Path(f"{out}.log").stat().st_size if attempt else 0
        process = server.start([*command, *more], out, limit)
        if kind.startswith("SIG") or kind == "Ctrl-C twice":
            wait_to_strike(process, out, whole_seconds, rng)
            for _ in range(2 if kind == "Ctrl-C twice" else 1):
                process.send(signal.SIGINT if kind == "Ctrl-C twice" else getattr(signal, kind))
                time.sleep(rng.uniform(0, 0.2))
        code = process.wait()
        if kind == "full disk":
            disk.leave()
        told.append(f"{kind} -> {code}")
        said = Path(f"{out}.log").read_bytes()[said_before:].decode(errors="replace")
        # Before training Python's own handlers are in force: SIGTERM and SIGHUP end a process, and so may they.
        expected = {"SIGKILL": (0, -9), "SIGTERM": (0, -15), "SIGHUP": (0, -1)}.get(kind, (0, 1, 2, 130))
        if "Traceback" in said or code not in expected:
            raise SystemExit(f"{told[-1]} is no good end:\n{said[-3000:]}\nSee {out}.log")
        if code == 0 and len(history(out)) == EPOCHS and finished(out):
            return told
    raise SystemExit(f"It did not end: {told}; see {out}.log")


def history(out):
    """Rows of a run's history so far, without their times."""
    try:
        with open(out / "history.csv") as file:
            return [{k: v for k, v in row.items() if k not in TIMES} for row in csv.DictReader(file)]
    except OSError:
        return []


def finished(out):
    """Whether all epochs are in the checkpoint."""
    try:
        return len(arrays(out / "checkpoint.npz")["rows"]) == EPOCHS
    except (OSError, KeyError, ValueError):
        return False


def arrays(file):
    """Variables of a checkpoint, and the journal's rows without their times."""
    with np.load(file) as data:
        note = json.loads(str(data["note"]))
        rows = [{k: v for k, v in row.items() if k not in TIMES} for row in note["rows"]]
        return {key: data[key] for key in data.files if key != "note"} | {"rows": np.array(list(map(str, rows)))}


def weights(file):
    """Arrays of a published part."""
    held = {}
    with h5py.File(file) as data:
        data.visititems(lambda name, item: held.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None)
    return held


def difference(whole, disturbed):
    """What differs between two finished runs, in words; None if nothing does. And how many arrays were compared."""
    compared = 0
    for read, pattern in ((arrays, "checkpoint.npz"), (weights, "*/**/model.weights.h5")):
        files = sorted(path.relative_to(whole) for path in whole.glob(pattern))
        if files != sorted(path.relative_to(disturbed) for path in disturbed.glob(pattern)) or not files:
            return f"the files {pattern}", compared
        for file in files:
            ours, theirs = read(whole / file), read(disturbed / file)
            if ours.keys() != theirs.keys():
                return f"the names in {file}", compared
            for key in ours:
                numbers = ours[key].dtype.kind in "fc"
                if not np.array_equal(ours[key], theirs[key], equal_nan=numbers):
                    return f"{key} of {file}", compared
                compared += 1
    return None if history(whole) == history(disturbed) else "the histories", compared


def play(recipe, server, place, rng):
    """One round: what happened, and how many arrays were equal."""
    command = [str(ROOT / "recipes" / f"{recipe}.py"), *SMALL, *NEEDS.get(recipe, [])]
    command += [] if "--batch-size" in command else ["--batch-size", "24"]
    command += ["--precision", rng.choice(["float32", "float32", "mixed_bfloat16"]), "--seed", str(rng.randrange(100))]
    began = time.monotonic()
    if server.start(command, place / "whole").wait():
        raise SystemExit(f"It fails undisturbed: see {place}/whole.log")
    (place / "disturbed").mkdir()
    disk = Disk(place / "disturbed")
    keep = place / "kept"
    try:
        told = disturb(command, server, place / "disturbed", time.monotonic() - began, rng, disk)
        found, compared = difference(place / "whole", place / "disturbed")
        if found:
            raise SystemExit(f"{', '.join(told)}: {found} differ")
    except SystemExit:
        shutil.copytree(place / "disturbed", keep)
        raise
    finally:
        disk.close()
    return ", ".join(told), compared


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--recipes", nargs="+", default=RECIPES, choices=RECIPES)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve()
    servers = {}
    rng, end, rounds = random.Random(options.seed), time.monotonic() + 60 * options.minutes, 0
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    while time.monotonic() < end:
        recipe = rng.choice(options.recipes)
        backend = os.environ.get("KERAS_BACKEND") or rng.choice(backends())
        place = folder / f"{rounds}-{recipe}-{backend}"
        place.mkdir()
        try:
            server = servers[backend] = servers.get(backend) or Server(backend)
            told, compared = play(recipe, server, place, random.Random(rng.random()))
        except SystemExit as fault:
            sys.exit(f"{recipe} under {backend}: {fault}\nBoth runs are kept in {place}")
        print(f"{recipe} under {backend}: {told}: {compared} arrays and the history are equal", flush=True)
        shutil.rmtree(place)
        rounds += 1
    for server in servers.values():
        server.close()
    shutil.rmtree(folder)
    print(f"{rounds} rounds, no difference (seed {options.seed})")


if __name__ == "__main__":
    main()
