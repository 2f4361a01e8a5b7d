"""`recipes/zoo.py`: which entries are trained, in what order, what becomes of those that fail or are cut short."""

import csv
import dataclasses
import importlib.util
import json
import os
import shlex
import shutil
import signal
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

import sslzoo
from sslzoo import errors
from sslzoo.training import devices

ROOT = Path(__file__).resolve().parent.parent
spec = importlib.util.spec_from_file_location("zoo_recipe", ROOT / "recipes" / "zoo.py")
recipe = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = recipe
spec.loader.exec_module(recipe)


def write_table(path, entries):
    """A table of these entries, as a spreadsheet writes it."""
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([recipe.COLUMNS, *map(dataclasses.astuple, entries)])


def test_the_table_names_what_there_is(tmp_path):
    entries = recipe.read_table(ROOT / "recipes" / "zoo.csv")
    assert len({entry.entry for entry in entries}) == len(entries) > 20
    zoo = recipe.Zoo(entries, tmp_path)
    for entry in entries:
        assert (ROOT / "recipes" / f"{entry.recipe}.py").is_file()
        assert entry.entry.startswith(entry.recipe.replace("_", "-") + "-" + entry.dataset.replace("_", "-"))
        assert zoo.settings(entry)["epochs"] > 0
    kept = {path.parent.name for path in (ROOT / "weights").glob("*/config.json")}
    assert {name for name in kept if not name.startswith("random-")} <= {entry.entry for entry in entries}


def test_the_command_of_each_card_has_the_settings_of_its_weights(tmp_path):
    """Today's: where a recipe's default moved on, the command must name the variant that it was."""
    table = {entry.entry: entry for entry in recipe.read_table(ROOT / "recipes" / "zoo.csv")}
    trained = [path.parent for path in (ROOT / "weights").glob("*/results.json") if "random-" not in path.parent.name]
    assert len(trained) > 70
    for folder in trained:
        command = recipe.read_results(folder)["recipe"].split("#")[0]
        words = shlex.split(command)
        script = next(word for word in words if word.startswith("recipes/"))
        flags = shlex.join(words[words.index(script) + 1 :])
        card = dataclasses.replace(table[folder.name], recipe=Path(script).stem, flags=flags)
        for entry in (card, table[folder.name]):
            assert recipe.Zoo([], tmp_path).is_current(entry, folder), f"{folder.name}: {entry.flags}"


def test_a_model_that_was_not_measured_or_began_with_another_network_is_told_by_its_record(tmp_path):
    entry = recipe.Entry("simvae-digits", "simvae", "digits", "", 0)
    results = json.loads((ROOT / "weights" / "simvae-digits" / "results.json").read_text("utf-8"))
    zoo, path = recipe.Zoo([entry], tmp_path), tmp_path / "results.json"

    def is_current(entry=entry, **changes):
        path.write_text(json.dumps(results | changes))
        return zoo.is_current(entry, tmp_path)

    assert is_current() and not is_current(metrics=[])
    settings = results["settings"] | {"network": "as in simvae-digits"}
    begun = dataclasses.replace(entry, flags="--init simvae-digits")
    assert is_current(begun, settings=settings) and not is_current(settings=settings)


def test_a_table_that_says_nothing_sensible_is_refused(tmp_path):
    table = tmp_path / "zoo.csv"
    with pytest.raises(errors.InvalidInputError, match=r"--table must be a table.*No such file.*Received: .*zoo\.csv"):
        recipe.main(["--table", str(table)])
    table.write_text("entry,recipe,dataset,flags,seed\nsimvae-digits,simvae,digits,,0\n")
    with pytest.raises(errors.InvalidInputError, match=r"Received: without \['without'\]"):
        recipe.read_table(table)
    table.write_text("")
    with pytest.raises(errors.InvalidInputError, match=r"must have the columns entry, recipe"):
        recipe.read_table(table)
    for part in ("posteriors", "encoder"):
        write_table(table, [recipe.Entry("simvae-digits", "simvae", "digits", "", 0, without=f"decoder {part}")])
        with pytest.raises(errors.UnknownNameError, match=f"posterior.*Received: part to do without='{part}'"):
            recipe.read_table(table)
    write_table(table, [recipe.Entry("simvae-digits", "simvae", "digits", "", 0)])
    whole = table.read_text()
    table.write_text(whole, "utf-8-sig")
    assert [entry.entry for entry in recipe.read_table(table)] == ["simvae-digits"]
    odd = recipe.Entry("simvae-digits", "simvae", "digits", "--nope", 0)
    with pytest.raises(errors.InvalidInputError, match=r"Flags must be those of the recipe\. Received: '--nope'"):
        recipe.Zoo([odd], tmp_path).settings(odd)
    for cell, changed, told in (
        (",0,", ",zero,", r"zoo\.csv, line 2: seed must be a number\. Received: seed='zero'"),
        (",0,", ",,", "line 2: seed must be given"),
        ("simvae,", ",", "line 2: recipe must be given"),
        ("simvae-digits,", "../../x,", r"line 2: a name is of lower-case letters.*Received: '\.\./\.\./x'"),
        ("simvae-digits,", '"simvae-digits,', "must be a table"),
        (",digits,,", ",digits,--name 'x,", r"line 2: flags must be words \(No closing quotation\)"),
        ("\nsimvae", "\nsimvae-digits,simvae,digits,,0,\nsimvae", "Received: simvae-digits more than once"),
    ):
        assert cell in whole
        table.write_text(whole.replace(cell, changed))
        with pytest.raises(errors.InvalidInputError, match=told):
            recipe.read_table(table)


def test_flags_and_variants_reach_the_settings(tmp_path):
    strong = recipe.Entry("simclr-cifar10.strong", "simclr", "cifar10", "--variant strong --epochs 7", 0)
    zoo = recipe.Zoo([strong], tmp_path, remarks=["Once.", "Twice."])
    assert zoo.settings(strong)["network"] == "resnet18" and zoo.settings(strong)["epochs"] == 7
    assert zoo.command(strong)[1:] == [
        str(ROOT / "recipes" / "simclr.py"),
        "--dataset",
        "cifar10",
        "--seed",
        "0",
        "--variant",
        "strong",
        "--epochs",
        "7",
        "--name",
        "simclr-cifar10.strong",
        "--out",
        str(tmp_path / "simclr-cifar10.strong"),
        "--resume",
        "--float16",
        "--remark",
        "Once.",
        "--remark",
        "Twice.",
    ]
    with pytest.raises(errors.UnknownNameError, match="simclr"):
        zoo.settings(recipe.Entry("x", "simclrr", "cifar10", "", 0))


def test_convolutions_and_bfloat16_want_tensorflow_on_a_cpu_and_dense_networks_jax(tmp_path, monkeypatch):
    zoo = recipe.Zoo([], tmp_path)
    dense, convolutions = (recipe.Entry(f"simclr-{d}", "simclr", d, "", 0) for d in ("mnist", "cifar10"))
    half = recipe.Entry("dcl-mnist", "dcl", "mnist", "--precision mixed_bfloat16", 0)
    monkeypatch.setattr(devices, "CPU_FLAGS", tmp_path / "cpuinfo")
    devices.CPU_FLAGS.write_text("flags : fpu avx512_bf16")
    for gpu, installed, expected in (
        (False, ["jax", "tensorflow"], ["jax", "tensorflow", "tensorflow"]),
        (True, ["jax", "tensorflow"], ["jax", "jax", "jax"]),
        (False, ["jax"], ["jax", "jax", "jax"]),
        (False, ["tensorflow"], ["tensorflow", "tensorflow", "tensorflow"]),
    ):
        monkeypatch.setattr(devices, "has_gpu", lambda gpu=gpu: gpu)
        monkeypatch.setattr(devices, "is_installed", lambda name, installed=installed: name in installed)
        assert [zoo.backend(entry) for entry in (dense, convolutions, half)] == expected
    (tmp_path / "simclr-mnist").mkdir()
    (tmp_path / "simclr-mnist" / "run.json").write_text('{"backend": "torch"}')
    assert zoo.backend(dense) == "torch"  # where it was begun


def test_a_damaged_record_fails_its_entry_and_the_others_go_on(tmp_path, capsys, monkeypatch):
    entries = [recipe.Entry(f"{name}-digits", name, "digits", "", 0) for name in ("simclr", "vicreg")]
    zoo = recipe.Zoo(entries, tmp_path, tmp_path / "weights")
    (tmp_path / "simclr-digits").mkdir()
    (tmp_path / "simclr-digits" / "run.json").write_text("{")
    monkeypatch.setattr(zoo, "command", lambda entry: [sys.executable, "-c", ""])
    monkeypatch.setattr(zoo, "state", lambda entry: "trained")
    monkeypatch.setattr(recipe, "POLL_SECONDS", 0.05)
    assert recipe.train(zoo, entries) == ["simclr-digits"]
    told = capsys.readouterr().out
    assert "simclr-digits: failed (ArtifactError: Expected a JSON file" in told
    assert "vicreg-digits: trained" in told


def test_weights_of_other_settings_are_stale(tmp_path):
    weights = tmp_path / "weights"
    shutil.copytree(ROOT / "weights" / "simvae-digits", weights / "simvae-digits")
    entry = recipe.Entry("simvae-digits", "simvae", "digits", "", 0)
    zoo = recipe.Zoo([entry], tmp_path / "runs", weights)
    assert zoo.state(entry) == "current"
    for flags in ("--learning-rate 0.5", "--precision mixed_bfloat16"):
        assert zoo.state(recipe.Entry("simvae-digits", "simvae", "digits", flags, 0)) == "stale"
    assert zoo.state(recipe.Entry("simvae-digits", "simvae", "digits", "", 1)) == "stale"
    path = weights / "simvae-digits" / "results.json"
    results = json.loads(path.read_text())
    path.write_text(json.dumps(results | {"ended": "signal"}))
    assert zoo.state(entry) == "stale"
    shutil.copytree(ROOT / "weights" / "simvae-digits", zoo.runs / "simvae-digits" / "simvae-digits")
    assert zoo.state(entry) == "trained"
    shutil.rmtree(weights)
    shutil.rmtree(zoo.runs)
    assert zoo.state(entry) == "missing"
    (zoo.runs / "simvae-digits").mkdir(parents=True)
    (zoo.runs / "simvae-digits" / "history.csv").write_text("epoch,seconds\n1,2.0\n2,4.0\n")
    assert zoo.state(entry) == "begun" and zoo.progress(entry)["epoch"] == "2"


# ---------------------------------------------------------------- the processes


SCRIPTS = {
    "good": "",
    "short": "",
    "bad": "import sys; print('half way'); sys.exit('ValueError: no such thing')",
    "slow": "import time; time.sleep(100)",
    "stubborn": "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(100)",
}


class Acted(recipe.Zoo):
    """Entries whose runs are scripts: an entry is named for what it does."""

    def __init__(self, names, runs):
        super().__init__([recipe.Entry(name, "simvae", "digits", "", 0) for name in names], runs)

    def command(self, entry):
        note = f"open({str(self.runs / 'began')!r}, 'a').write('{entry.entry}\\n');"
        return [sys.executable, "-c", note + SCRIPTS[entry.entry.partition("-")[0]]]

    def state(self, entry):
        return "trained" if entry.entry.startswith("good") else "begun"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(recipe, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(recipe, "GRACE_SECONDS", 1)
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)  # or a log would be in order by itself


def test_one_that_fails_is_reported_and_the_others_go_on(tmp_path, capsys):
    zoo = Acted(["good-1", "bad-2", "good-3"], tmp_path)
    assert recipe.train(zoo, zoo.entries) == ["bad-2"]
    assert (tmp_path / "began").read_text().split() == ["good-1", "bad-2", "good-3"]
    said = capsys.readouterr().out
    assert f"bad-2: failed (ValueError: no such thing); see {tmp_path / 'bad-2.log'}" in said
    assert "good-1: trained" in said and "good-3: trained" in said
    assert "half way" in (tmp_path / "bad-2.log").read_text()


def test_a_run_that_a_signal_ended_in_good_order_is_not_trained(tmp_path, capsys):
    zoo = Acted(["short-1", "good-2"], tmp_path)
    assert recipe.train(zoo, zoo.entries) == ["short-1"]
    said = capsys.readouterr().out
    assert "short-1: ended before its time" in said and "short-1: trained" not in said and "good-2: trained" in said


def test_runs_stand_side_by_side(tmp_path):
    zoo = Acted(["slow-1", "slow-2", "slow-3"], tmp_path)
    recipe.train(zoo, zoo.entries, jobs=2, budget_minutes=3 / 60)
    assert sorted((tmp_path / "began").read_text().split()) == ["slow-1", "slow-2"]


def test_the_budget_ends_what_runs_and_says_so(tmp_path, capsys):
    zoo = Acted(["stubborn-1", "good-2"], tmp_path)
    began = time.monotonic()
    assert recipe.train(zoo, zoo.entries, budget_minutes=1 / 60) == []
    assert time.monotonic() - began < 60
    said = capsys.readouterr().out
    assert "The budget is spent." in said and "stubborn-1: goes on at the next call" in said


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGUSR1"])
def test_a_signal_ends_in_good_order(name, tmp_path, capsys):
    number = getattr(signal, name, None)
    if number is None:
        pytest.skip("Windows has no such signal")
    zoo = Acted(["slow-1"], tmp_path)
    before = signal.getsignal(number)

    def end_it():
        while not (tmp_path / "began").exists():
            time.sleep(0.05)
        os.kill(os.getpid(), number)

    threading.Thread(target=end_it, daemon=True).start()
    with pytest.raises(SystemExit) as ended:
        recipe.train(zoo, zoo.entries)
    assert ended.value.code == 128 + number  # whoever waits for it knows that not all was trained
    assert "Stopped." in capsys.readouterr().out
    assert signal.getsignal(number) is before


# ---------------------------------------------------------------- collecting


@pytest.fixture
def ready(tmp_path, monkeypatch):
    """A finished run, and a zoo that collects it into folders and a manifest of its own."""
    source = tmp_path / "runs" / "simvae-digits" / "simvae-digits"
    shutil.copytree(ROOT / "weights" / "simvae-digits", source)
    entry = recipe.Entry("simvae-digits", "simvae", "digits", "", 0, without="posterior")
    monkeypatch.setenv("SSLZOO_MANIFEST", str(tmp_path / "manifest.json"))
    monkeypatch.setattr(recipe, "ROOT", tmp_path)
    monkeypatch.setattr(recipe.subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=0))
    return recipe.Zoo([entry], tmp_path / "runs", tmp_path / "weights"), entry, source


def test_a_finished_run_is_collected_as_it_was_measured(ready, tmp_path):
    zoo, _, source = ready
    before = recipe.read_results(source)
    assert recipe.collect_all(zoo) == 0
    folder = zoo.weights / "simvae-digits"
    after = recipe.read_results(folder)
    assert (folder / "model.weights.h5").read_bytes() == (
        next((tmp_path / "runs").glob("*.collected-*/simvae-digits/model.weights.h5")).read_bytes()
    )
    assert after["metrics"] == before["metrics"] and after["left_out"] == ["posterior"]
    assert list(after["parts"]) == ["encoder", "decoder"] and not (folder / "posterior").exists()
    assert recipe.index.read()["simvae-digits"] == recipe.index.entry(folder, "sslzoo/simvae-digits")
    sslzoo.load(folder, part="decoder")
    with pytest.raises(errors.MissingPartError, match="Left out here, and written by the recipe: posterior"):
        sslzoo.load(folder, part="posterior")


def test_a_call_mends_what_a_killed_one_left_between_folder_and_manifest(ready, tmp_path, monkeypatch):
    zoo, _, _ = ready
    with monkeypatch.context() as killed:
        killed.setattr(recipe, "enter", lambda folder: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            recipe.collect_all(zoo)
    assert (zoo.weights / "simvae-digits").is_dir() and not recipe.index.path().exists()
    assert recipe.collect_all(zoo) == 0
    assert list(recipe.index.read()) == ["simvae-digits"]


def test_flags_with_commas_and_quotes_survive_the_table(tmp_path):
    entry = recipe.Entry("simvae-digits", "simvae", "digits", "--set widths='[1, 2]' --remark 'a \"b\"'", 0)
    write_table(tmp_path / "zoo.csv", [entry])
    assert recipe.read_table(tmp_path / "zoo.csv") == [entry]


@pytest.mark.parametrize(("moved", "agrees"), [(0.0, True), (2.0, True), (-9.0, False)])
def test_check_holds_new_numbers_to_the_committed_ones(moved, agrees, tmp_path, monkeypatch, capsys):
    entry = next(e for e in recipe.read_table(ROOT / "recipes" / "zoo.csv") if e.entry == "simvae-digits")

    def train(zoo, waiting):
        """Copies the committed results, the numbers moved."""
        folder = zoo.runs / entry.entry / entry.entry
        folder.mkdir(parents=True)
        results = json.loads((ROOT / "weights" / entry.entry / "results.json").read_text())
        for metric in results["metrics"]:
            metric["value"] += moved
        (folder / "results.json").write_text(json.dumps(results))
        return []

    monkeypatch.setattr(recipe, "train", train)
    assert recipe.check(recipe.Zoo([entry], tmp_path), entry, tmp_path / "check") == agrees
    said = capsys.readouterr().out
    assert ("BEYOND 2.5" in said) != agrees and "knn.euclidean_best_accuracy" in said
    monkeypatch.setattr(recipe, "train", lambda zoo, waiting: ["simvae-digits"])
    assert not recipe.check(recipe.Zoo([entry], tmp_path), entry, tmp_path / "again")


@pytest.mark.parametrize(("gone", "agrees"), [("", False), ("mlp", False), ("outliers", True)])
def test_check_misses_numbers_that_a_new_run_has_not(gone, agrees, tmp_path, monkeypatch, capsys):
    """All of them, or those of a protocol: outliers are not held to anything, and a run alone does not measure them."""
    entry = next(e for e in recipe.read_table(ROOT / "recipes" / "zoo.csv") if e.entry == "simvae-digits")
    committed = json.loads((ROOT / "weights" / entry.entry / "results.json").read_text())["metrics"]
    outliers = committed[0] | {"name": "outliers.auroc", "value": 90.0}
    weights = tmp_path / "weights"
    shutil.copytree(ROOT / "weights" / entry.entry, weights / entry.entry)
    path = weights / entry.entry / "results.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"metrics": [*committed, outliers]}))

    def train(zoo, waiting):
        folder = zoo.runs / entry.entry / entry.entry
        folder.mkdir(parents=True)
        left = [metric for metric in [*committed, outliers] if not metric["name"].startswith(gone)]
        (folder / "results.json").write_text(json.dumps(json.loads(path.read_text()) | {"metrics": left}))
        return []

    monkeypatch.setattr(recipe, "train", train)
    assert recipe.check(recipe.Zoo([entry], tmp_path / "runs", weights), entry, tmp_path / "check") == agrees
    said = capsys.readouterr().out
    named = {line.split()[0] for line in said.splitlines() if "NOT MEASURED now" in line}
    assert ("mlp.accuracy" in named, recipe.KNN in named) == (not agrees, gone == "") and "outliers.auroc" not in named


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "nothing"], "--only must match an entry"),
        (["--jobs", "0"], "--jobs must be greater than 0. Received: 0"),
        (["--budget-minutes", "-1"], "--budget-minutes must be greater than 0. Received: -1.0"),
        (["--budget-minutes", "nan"], "--budget-minutes must be greater than 0. Received: nan"),
    ],
)
def test_wrong_flags_are_told(arguments, message, capsys):
    with pytest.raises(SystemExit) as caught:
        recipe.main(arguments)
    assert caught.value.code == 2 and message in capsys.readouterr().err


def test_a_call_trains_what_is_missing_and_says_what_to_collect(tmp_path, monkeypatch, capsys):
    named = ("simvae", "digits"), ("moco", "mnist"), ("byol", "digits")
    entries = [recipe.Entry(f"{name}-{dataset}", name, dataset, "", 0) for name, dataset in named]
    write_table(tmp_path / "zoo.csv", entries)
    shutil.copytree(ROOT / "weights" / "moco-mnist", tmp_path / "runs" / "moco-mnist" / "moco-mnist")
    asked = []
    monkeypatch.setattr(recipe, "train", lambda zoo, waiting, jobs, minutes: asked.extend(waiting) or [])
    arguments = ["--table", str(tmp_path / "zoo.csv"), "--runs", str(tmp_path / "runs")]
    assert recipe.main(arguments) == 0
    assert [entry.entry for entry in asked] == ["byol-digits"]  # the first is in weights/, the second is trained
    assert "1 to --collect: moco-mnist" in capsys.readouterr().out
    assert recipe.main([*arguments, "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines] == ["current", "trained", "missing"]
    assert "kNN 93.9 %" in lines[0] and "kNN" not in lines[2]  # as weights/ has it
