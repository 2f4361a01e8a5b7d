"""Train the whole zoo: what `zoo.csv` lists and `weights/` lacks, in the order of the table.

    python recipes/zoo.py --list                          # what there is, what is missing, how long it took
    python recipes/zoo.py --budget-minutes 480            # overnight; go on with the same command
    python recipes/zoo.py --only "*-cifar10*" --jobs 4    # side by side on one GPU
    python recipes/zoo.py --collect                       # finished runs into weights/ and manifest
    python recipes/zoo.py --check simvae-digits           # train it from nothing, compare with what is committed

Each entry is a run of its recipe in a process of its own, in `runs/zoo/<entry>`, from checkpoint to checkpoint:
whatever ends this program (the budget, Ctrl-C, SIGTERM, power), the next call goes on. An entry that fails is reported,
with its log, and the others go on. Entries whose weights were trained with other settings than the recipe has now, or
not to their end, are trained again. Runs round their weights to half precision before they measure (--float16), or
further (--digits), so collecting copies what was measured. It also enters folders of weights/ that differ from the
manifest.

Without TensorFlow (a bare GPU machine with JAX) --data-dir names a folder of sets that `python -m sslzoo.data NAME -o
NAME.npz` wrote elsewhere.
"""

import argparse
import csv
import dataclasses
import fnmatch
import importlib.util
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

RECIPES = Path(__file__).resolve().parent
ROOT = RECIPES.parent
INSTALLED = [name for name in ("jax", "tensorflow", "torch") if importlib.util.find_spec(name)]
if importlib.util.find_spec("tensorflow") is None and INSTALLED:  # Keras' own default
    os.environ.setdefault("KERAS_BACKEND", INSTALLED[0])

from sslzoo import training  # noqa: E402
from sslzoo.errors import InvalidInputError, SSLZooError, choose  # noqa: E402
from sslzoo.files import as_path, module_at  # noqa: E402
from sslzoo.publishing import artifact, manifest  # noqa: E402
from sslzoo.training import devices, flags  # noqa: E402
from sslzoo.training.folder import read as read_record  # noqa: E402
from sslzoo.training.settings import resolve  # noqa: E402
from sslzoo.zoo import index, layout  # noqa: E402
from sslzoo.zoo.results import is_name, read_results, values_of  # noqa: E402

COLUMNS = ("entry", "recipe", "dataset", "flags", "seed", "without")
# Settings that do not change the weights.
WATCHING = {"monitor_every", "protocols", "gmm_restarts", "views_per_image"}
WHOLE = {"epochs", "plateau", "knn"}  # endings of a training that need no other one
# Points by which a number may differ when --check trains an entry again, on another machine or backend, where rounding
# leads training elsewhere. Clusters hang on it most. Other protocols are printed, and not held to anything.
CHECKED = {"linear": 4.0, "mlp": 4.0, "knn": 2.5, "gmm": 15.0, "style": 8.0}
KNN = "knn.cosine_k10_accuracy"
POLL_SECONDS, REPORT_SECONDS, GRACE_SECONDS = 1, 60, 30


@dataclasses.dataclass
class Entry:
    """A line of the table: what is to be trained, and the parts left out."""

    entry: str
    recipe: str
    dataset: str
    flags: str
    seed: int
    without: str = ""

    @property
    def left_out(self):
        """Parts that the recipe writes and `weights/` does without, for size; "views" is the picture of them."""
        return self.without.split()

    @property
    def words(self):
        """The recipe's command line, without folders."""
        return ["--dataset", self.dataset, "--seed", str(self.seed), *shlex.split(self.flags), "--name", self.entry]


def read_table(path):
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:  # as spreadsheets write it, too
            reader = csv.DictReader(file, strict=True)
            columns, rows = reader.fieldnames or (), list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidInputError(f"--table must be a table as recipes/zoo.csv is ({error}). Received: {path}") from error
    if missing := set(COLUMNS) - set(columns):
        raise InvalidInputError(
            f"{path} must have the columns {', '.join(COLUMNS)}. Received: without {sorted(missing)}"
        )
    entries = [_entry(f"{path}, line {line}", row) for line, row in enumerate(rows, 2)]
    names = [entry.entry for entry in entries]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidInputError(f"{path} must have a line for each entry. Received: {', '.join(twice)} more than once")
    return entries


def _entry(where, row):
    """A line of the table as an `Entry`."""
    values = {name: row[name] or "" for name in COLUMNS}
    if empty := [name for name in ("entry", "recipe", "dataset", "seed") if not values[name]]:
        raise InvalidInputError(f"{where}: {', '.join(empty)} must be given. Received: {row}")
    try:
        values["seed"] = int(values["seed"])
    except ValueError as error:
        raise InvalidInputError(f"{where}: seed must be a number. Received: seed={values['seed']!r}") from error
    if not is_name(values["entry"]):
        name = values["entry"]
        raise InvalidInputError(f"{where}: a name is of lower-case letters, digits, '-' and '.'. Received: {name!r}")
    for part in values["without"].split():
        choose("part to do without", part, [*(part for part in layout.PARTS if part != "encoder"), "views"])
    try:
        shlex.split(values["flags"])
    except ValueError as error:
        raise InvalidInputError(f"{where}: flags must be words ({error}). Received: {values['flags']!r}") from error
    return Entry(**values)


# ---------------------------------------------------------------- what there is


class Zoo:
    """The table beside the folders: `weights` is what is published, `runs` what is being trained.

    Args:
        entries: list of `Entry`.
        runs, weights: folders.
        data_dir: folder of TFDS sets, or None.
        remarks: what the cards of runs must say.
    """

    def __init__(self, entries, runs, weights=ROOT / "weights", data_dir=None, remarks=()):
        self.entries, self.runs, self.weights, self.data_dir = entries, as_path(runs), as_path(weights), data_dir
        self.remarks = remarks

    def settings(self, entry):
        """What the recipe has now, and the precision that the flags say."""
        choose("recipe", entry.recipe, sorted(path.stem for path in RECIPES.glob("*.py") if path != Path(__file__)))
        recipe = module_at(RECIPES / f"{entry.recipe}.py")
        variants = getattr(recipe, "VARIANTS", {})
        try:
            arguments = flags.parser(entry.recipe, variants, "").parse_args(entry.words)
        except SystemExit:  # argparse has said what is wrong with them
            raise InvalidInputError(f"Flags must be those of the recipe. Received: {entry.flags!r}") from None
        chosen = (recipe.SETTINGS, variants, arguments.variant, entry.dataset, 3)
        now = resolve(*chosen, flags.changes(arguments, resolve(*chosen)))
        if arguments.init:  # which has the network of another model
            now = {name: value for name, value in now.items() if name not in ("network", "network_options")}
        return json.loads(json.dumps(now | {"precision": arguments.precision}))

    def is_current(self, entry, folder):
        """Whether the model in a folder was trained to its end, with today's settings, and measured."""
        if not (folder / layout.RESULTS).is_file():
            return False
        results, now = read_results(folder), self.settings(entry)
        theirs = results.get("settings", {})
        equal = all(theirs[name] == value for name, value in now.items() if name in theirs and name not in WATCHING)
        whole = results.get("ended", "epochs") in WHOLE and bool(results.get("metrics"))
        return equal and whole and results.get("seeds") == [entry.seed]

    def state(self, entry):
        """current: in weights/. trained: to be collected. begun, stale, missing: to be trained."""
        if self.is_current(entry, self.runs / entry.entry / entry.entry):
            return "trained"
        if self.is_current(entry, self.weights / entry.entry):
            return "current"
        if self.progress(entry):
            return "begun"
        return "stale" if (self.weights / entry.entry).exists() else "missing"

    def progress(self, entry):
        """The last line of a run's history, or None."""
        path = self.runs / entry.entry / "history.csv"
        if not path.is_file():
            return None
        with open(path, newline="", encoding="utf-8") as file:
            return ([None, *csv.DictReader(file)])[-1]

    def backend(self, entry):
        """Where a run was begun; else what suits its network on this machine."""
        record = self.runs / entry.entry / "run.json"
        begun = read_record(record).get("backend") if record.is_file() else None
        if begun:
            return begun
        now = self.settings(entry)
        return devices.suitable_backend(now["network"], now["precision"])

    def command(self, entry):
        """The process that trains an entry, or goes on with it."""
        words = [sys.executable, str(RECIPES / f"{entry.recipe}.py"), *entry.words]
        words += ["--out", str(self.runs / entry.entry), "--resume"]
        words += [] if "--float16" in words else ["--float16"]
        words += [word for remark in self.remarks for word in ("--remark", remark)]
        return [*words, "--data-dir", str(self.data_dir)] if self.data_dir else words


def search_path():
    """Where processes find this package, and what was found before."""
    return os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))


def show(zoo):
    """A line per entry, with what it took and reached if it is in weights/."""
    for entry in zoo.entries:
        took = reached = ""
        if (zoo.weights / entry.entry / layout.RESULTS).is_file():
            results = read_results(zoo.weights / entry.entry)
            took, values = f"{results['wall_seconds'] / 60:.0f} min", values_of(results)
            reached = f"kNN {values[KNN]:.1f} %" if KNN in values else ""
        print(f"{entry.entry:36} {zoo.state(entry):8} {took:>9} {reached:>12}  {' '.join(entry.words[:-2])}")


# ---------------------------------------------------------------- training


class Stop(Exception):
    """SIGTERM, SIGHUP or SIGUSR1, as an exception: `args[0]` is its number."""


def train(zoo, waiting, jobs=1, budget_minutes=None):
    """Trains entries, up to `jobs` at a time. Returns the names of those that failed."""
    deadline = time.monotonic() + 60 * budget_minutes if budget_minutes else float("inf")
    waiting, running, failed = list(waiting), {}, []
    reported = time.monotonic()

    def terminate(number, frame):
        raise Stop(number)

    # A lost connection, too, unless nohup ignores it: the runs have sessions of their own, and would go on.
    ends = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGUSR1") if hasattr(signal, name)]
    former = {each: signal.signal(each, terminate) for each in ends if signal.getsignal(each) is not signal.SIG_IGN}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                entry = waiting.pop(0)
                try:
                    running[entry.entry] = start(zoo, entry, jobs)
                except (SSLZooError, OSError) as error:
                    failed.append(entry.entry)
                    print(f"{entry.entry}: failed ({type(error).__name__}: {error})", flush=True)
            time.sleep(POLL_SECONDS)
            for name, (entry, process, log) in list(running.items()):
                if process.poll() is None:
                    continue
                del running[name]
                if process.returncode:
                    failed.append(name)
                    lines = log.read_text("utf-8", "replace").split("\n")
                    print(f"{name}: failed ({([''] + [line for line in lines if line])[-1]}); see {log}", flush=True)
                elif zoo.state(entry) == "trained":
                    print(f"{name}: trained", flush=True)
                else:  # by a signal, in good order
                    failed.append(name)
                    print(f"{name}: ended before its time, goes on at the next call; see {log}", flush=True)
            if time.monotonic() - reported > REPORT_SECONDS:
                reported = time.monotonic()
                report(zoo, [entry for entry, *_ in running.values()], waiting)
            if time.monotonic() > deadline:
                print("The budget is spent.")
                break
    except (KeyboardInterrupt, Stop) as stop:
        print("Stopped.")
        raise SystemExit(128 + (stop.args[0] if stop.args else signal.SIGINT)) from None  # as a shell would say
    finally:
        for each, handler in former.items():
            signal.signal(each, handler)
        for entry, process, _ in running.values():
            process.terminate()
            print(f"{entry.entry}: goes on at the next call")
        for _, process, _ in running.values():
            try:
                process.wait(GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
    return failed


def start(zoo, entry, jobs):
    """Starts a run: entry, its process, its log."""
    folder = zoo.runs / entry.entry
    # Unbuffered: the log has each line as it comes, and the error last.
    environment = {**os.environ, "KERAS_BACKEND": zoo.backend(entry), "PYTHONUNBUFFERED": "1"}
    environment["PYTHONPATH"] = search_path()
    if jobs > 1:  # or the first would take the whole GPU
        environment.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        environment.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    zoo.runs.mkdir(parents=True, exist_ok=True)
    log = folder.with_name(f"{entry.entry}.log")
    with open(log, "ab") as file:
        # A session of its own: Ctrl-C is for this program, which ends the others.
        process = subprocess.Popen(
            zoo.command(entry), stdout=file, stderr=subprocess.STDOUT, env=environment, start_new_session=True
        )
    print(f"{entry.entry}: {shlex.join(zoo.command(entry)[1:])}", flush=True)
    return entry, process, log


def report(zoo, running, waiting):
    """How far the running entries are."""
    for entry in running:
        row = zoo.progress(entry)
        done = f"epoch {row['epoch']} of {zoo.settings(entry)['epochs']}" if row else "no epoch yet"
        print(f"{entry.entry}: {done}, {len(waiting)} entries wait", flush=True)


# ---------------------------------------------------------------- collecting


def collect(zoo, entry):
    """Copies a finished run to weights/, without the parts that the table leaves out."""
    source = zoo.runs / entry.entry / entry.entry
    gone = [part for part in layout.parts(source) if part in entry.left_out]
    changes = {"left_out": gone} if gone else {}
    target = artifact.copy(source, zoo.weights / entry.entry, without=("model", *gone), **changes)
    if "views" in entry.left_out:  # as other entries have it
        (target / "pictures" / "views.png").unlink(missing_ok=True)
        artifact.seal(target)
    size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    print(f"{entry.entry}: {target}, {size / 1e6:.1f} MB", flush=True)


def check(zoo, entry, scratch):
    """--check: trains an entry from nothing in a folder of its own. Returns whether every number came out as before."""
    committed = read_results(zoo.weights / entry.entry)
    if not zoo.is_current(entry, zoo.weights / entry.entry):
        print(f"{entry.entry}: the recipe has other settings now than {zoo.weights / entry.entry} was trained with")
        return False
    anew = Zoo([entry], scratch, zoo.weights, zoo.data_dir)
    if train(anew, [entry]):
        return False
    values = values_of(read_results(anew.runs / entry.entry / entry.entry))
    agrees = True
    for metric in committed["metrics"]:
        name, tolerance = metric["name"], CHECKED.get(metric["name"].partition(".")[0])
        if metric.get("unit", "%") != "%":
            continue
        if name not in values:
            agrees &= tolerance is None
            print(f"{name:32} {metric['value']:7.2f} committed {'NOT MEASURED' if tolerance else 'not measured'} now")
            continue
        difference = values[name] - metric["value"]
        within = tolerance is None or abs(difference) <= tolerance
        agrees &= within
        held = "" if tolerance is None else f" (within {tolerance:g})" if within else f" BEYOND {tolerance:g}"
        print(f"{name:32} {metric['value']:7.2f} committed {values[name]:7.2f} now {difference:+6.2f}{held}")
    print(f"{entry.entry}: {'as committed' if agrees else 'NOT as committed'}")
    return agrees


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--list", action="store_true", help="print the table beside what there is, and stop")
    add("--only", default="*", metavar="PATTERN", help="entries whose names match, such as '*-cifar10*'")
    add("--budget-minutes", type=float, help="stop after so much wall time")
    add("--jobs", type=int, default=1, help="runs side by side (1)")
    add("--collect", action="store_true", help="move finished runs to weights/, and stop")
    add("--check", metavar="NAME", help="train one entry from nothing and compare with its committed numbers")
    add("--data-dir", help="folder of prepared TFDS data sets (TFDS_DATA_DIR, else TFDS' own)")
    add("--remark", action="append", default=[], metavar="TEXT", help="what cards must say, of the data for example")
    add("--runs", default="runs/zoo", help="folder of the runs (runs/zoo)")
    add("--table", type=as_path, default=Path(__file__).with_suffix(".csv"), help="(recipes/zoo.csv)")
    options = parser.parse_args(argv)
    for name in ("jobs", "budget_minutes"):
        value = getattr(options, name)
        if value is not None and not value > 0:
            parser.error(f"--{name.replace('_', '-')} must be greater than 0. Received: {value}")
    entries = read_table(options.table)
    if options.check:
        choose("entry", options.check, [entry.entry for entry in entries])
        options.only = options.check
    chosen = [entry for entry in entries if fnmatch.fnmatch(entry.entry, options.only)]
    zoo = Zoo(chosen, options.runs, data_dir=options.data_dir, remarks=options.remark)
    if not zoo.entries:
        parser.error(f"--only must match an entry of {options.table}. Received: --only={options.only}")
    if options.check:
        scratch = zoo.runs / "check"
        shutil.rmtree(scratch, ignore_errors=True)  # from nothing
        return 0 if check(zoo, zoo.entries[0], scratch) else 1
    if options.list:
        show(zoo)
        return 0
    if options.collect:
        return collect_all(zoo)
    states = {entry.entry: zoo.state(entry) for entry in zoo.entries}
    waiting = [entry for entry in zoo.entries if states[entry.entry] not in ("current", "trained")]
    failed = train(zoo, waiting, options.jobs, options.budget_minutes)
    finished = [entry.entry for entry in zoo.entries if zoo.state(entry) == "trained"]
    print(f"{len(finished)} to --collect: {' '.join(finished)}" if finished else "Nothing to --collect.")
    return 1 if failed else 0


def collect_all(zoo):
    """--collect: finished runs into weights/; then whatever differs from the manifest."""
    failed, finished = 0, [entry for entry in zoo.entries if zoo.state(entry) == "trained"]
    for entry in finished:
        try:
            collect(zoo, entry)
        except (SSLZooError, OSError) as error:
            failed += 1
            print(f"{entry.entry}: not collected ({type(error).__name__}: {error})", flush=True)
            continue
        done = zoo.runs / entry.entry
        done.rename(done.with_name(f"{entry.entry}.collected-{int(time.time())}"))
    for entry in zoo.entries:
        if (zoo.weights / entry.entry / layout.RESULTS).is_file() and not _is_entered(zoo.weights / entry.entry):
            failed += not enter(zoo.weights / entry.entry)
    if finished:
        print("python benchmarks/tables.py writes README's and docs' tables anew", flush=True)
    return 1 if failed else 0


def _is_entered(folder):
    """Whether the manifest has a folder as it is: a call that was killed may have left it behind."""
    entry = index.read().get(folder.name) if index.path().exists() else None
    return entry is not None and entry == index.entry(folder, entry["repository"], entry["revision"])


def enter(folder):
    """Enters a folder of weights/ into the manifest, and its golden embeddings. Returns whether both were written."""
    try:
        manifest.refresh(folder)
    except (SSLZooError, OSError) as error:
        print(f"{folder.name}: not entered ({type(error).__name__}: {error})", flush=True)
        return False
    golden = [sys.executable, str(ROOT / "tests" / "test_golden_embeddings.py"), "--write", folder.name]
    if subprocess.run(golden, env={**os.environ, "PYTHONPATH": search_path()}).returncode:  # which takes pytest
        print(f"{folder.name}: entered, but for {shlex.join(golden[1:])}", flush=True)
        return False
    return True


if __name__ == "__main__":
    training.script(lambda: sys.exit(main()))
