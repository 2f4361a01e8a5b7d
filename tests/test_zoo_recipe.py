"""`recipes/zoo.py`: which entries are trained, in what order, what becomes of those that fail or are cut short."""

import importlib.util
import itertools
import json
import os
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import sslzoo
from sslzoo import errors
from sslzoo.training import devices

ROOT = Path(__file__).resolve().parent.parent
spec = importlib.util.spec_from_file_location("zoo_recipe", ROOT / "recipes" / "zoo.py")
recipe = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = recipe
spec.loader.exec_module(recipe)


def test_the_table_reads_back_and_names_what_there_is(tmp_path):
    entries = recipe.read_table(ROOT / "recipes" / "zoo.csv")
    assert len({entry.entry for entry in entries}) == len(entries) > 20
    recipe.write_table(tmp_path / "zoo.csv", entries)
    assert recipe.read_table(tmp_path / "zoo.csv") == entries
    zoo = recipe.Zoo(entries, tmp_path)
    for entry in entries:
        assert (ROOT / "recipes" / f"{entry.recipe}.py").is_file()
        assert entry.entry.startswith(entry.recipe.replace("_", "-") + "-" + entry.dataset.replace("_", "-"))
        assert zoo.settings(entry)["epochs"] > 0
    kept = {path.parent.name for path in (ROOT / "weights").glob("*/config.json")}
    assert {name for name in kept if not name.startswith("random-")} <= {entry.entry for entry in entries}


def test_a_table_that_says_nothing_sensible_is_refused(tmp_path):
    table = tmp_path / "zoo.csv"
    with pytest.raises(errors.InvalidInputError, match=r"--table must be a table.*No such file.*Received: .*zoo\.csv"):
        recipe.main(["--table", str(table)])
    table.write_text("entry,recipe,dataset,flags,seed\nsimvae-digits,simvae,digits,,0\n")
    with pytest.raises(errors.InvalidInputError, match=r"Received: none of \['knn', 'minutes', 'without'\]"):
        recipe.read_table(table)
    for part in ("posteriors", "encoder"):
        recipe.write_table(table, [recipe.Entry("simvae-digits", "simvae", "digits", "", 0, without=f"decoder {part}")])
        with pytest.raises(errors.UnknownNameError, match=f"posterior.*Received: part to do without='{part}'"):
            recipe.read_table(table)
    recipe.write_table(table, [recipe.Entry("simvae-digits", "simvae", "digits", "", 0)])
    whole = table.read_text()
    for cell, changed, told in (
        (",0,", ",zero,", r"zoo\.csv, line 2: seed must be a number\. Received: seed='zero'"),
        (",0,", ",,", "line 2: seed must be given"),
        ("simvae,", ",", "line 2: recipe must be given"),
    ):
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
    monkeypatch.setattr(recipe, "POLL_SECONDS", 0.05)
    assert recipe.train(zoo, entries) == ["simclr-digits"]
    told = capsys.readouterr().out
    assert "simclr-digits: failed (ArtefactError: The run's record must be JSON" in told
    assert "vicreg-digits: trained" in told


def test_weights_of_other_settings_are_stale(tmp_path):
    weights = tmp_path / "weights"
    shutil.copytree(ROOT / "weights" / "simvae-digits", weights / "simvae-digits")
    entry = recipe.Entry("simvae-digits", "simvae", "digits", "", 0)
    zoo = recipe.Zoo([entry], tmp_path / "runs", weights)
    assert zoo.state(entry) == "current"
    other = recipe.Entry("simvae-digits", "simvae", "digits", "--learning-rate 0.5", 0)
    assert zoo.state(other) == "stale"
    assert zoo.state(recipe.Entry("simvae-digits", "simvae", "digits", "", 1)) == "stale"
    path = weights / "simvae-digits" / "results.json"
    results = json.loads(path.read_text())
    path.write_text(json.dumps(results | {"remarks": ["Training was interrupted, in epoch 3."]}))
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
    "bad": "import sys; print('half way'); sys.exit('ValueError: no such thing')",
    "slow": "import time; time.sleep(100)",
    "stubborn": "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(100)",
}


class Acted(recipe.Zoo):
    """Entries whose runs are scripts: an entry is named for what it does."""

    def __init__(self, names, runs):
        super().__init__([recipe.Entry(name, "simvae", "digits", "", 0, minutes=3.0) for name in names], runs)

    def command(self, entry):
        note = f"open({str(self.runs / 'began')!r}, 'a').write('{entry.entry}\\n');"
        return [sys.executable, "-c", note + SCRIPTS[entry.entry.partition("-")[0]]]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(recipe, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(recipe, "GRACE_SECONDS", 1)


def test_one_that_fails_is_reported_and_the_others_go_on(tmp_path, capsys):
    zoo = Acted(["good-1", "bad-2", "good-3"], tmp_path)
    assert recipe.train(zoo, zoo.entries) == ["bad-2"]
    assert (tmp_path / "began").read_text().split() == ["good-1", "bad-2", "good-3"]
    said = capsys.readouterr().out
    assert f"bad-2: failed (ValueError: no such thing); see {tmp_path / 'bad-2.log'}" in said
    assert "good-1: trained" in said and "good-3: trained" in said
    assert "half way" in (tmp_path / "bad-2.log").read_text()


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


def test_sigterm_ends_in_good_order(tmp_path, capsys):
    zoo = Acted(["slow-1"], tmp_path)
    before = signal.getsignal(signal.SIGTERM)

    def end_it():
        while not (tmp_path / "began").exists():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end_it, daemon=True).start()
    assert recipe.train(zoo, zoo.entries) == []
    assert "Stopped." in capsys.readouterr().out
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_report_says_how_far_and_how_long(tmp_path, monkeypatch, capsys):
    zoo = Acted(["good-1", "good-2"], tmp_path)
    zoo.entries[1].minutes = None
    (tmp_path / "good-1").mkdir()
    (tmp_path / "good-1" / "history.csv").write_text("epoch,knn,views_per_second,seconds\n6,0.873,1234.5,360\n")
    epochs = zoo.settings(zoo.entries[0])["epochs"]
    recipe.report(zoo, [zoo.entries[0]], [])
    said = capsys.readouterr().out
    assert f"good-1: epoch 6 of {epochs}, 1,234 views/s, kNN 87.3 %, {epochs - 6} min left" in said
    monkeypatch.setattr(recipe.Zoo, "speeds", {("mlp-small", "digits"): 1000.0})
    views = epochs * 1437 // 12 * 12 * zoo.settings(zoo.entries[0])["num_views"]
    unknown = recipe.Entry("simvae-mnist", "simvae", "mnist", "", 0)
    for jobs, side in ((1, ""), (2, " with 2 side by side")):
        recipe.report(zoo, [], [*zoo.entries, unknown], jobs)
        minutes = (3 + views / 1000 / 60) / jobs
        how = "1 as they took before, 1 from runs of their network and data set, 1 not known"
        assert capsys.readouterr().out == f"3 more: an estimated {minutes:.0f} min{side} ({how})\n"


def test_what_was_never_timed_is_estimated_by_what_was(tmp_path):
    """simvae-digits, at the speed at which it was trained, takes as long as it took."""
    shutil.copytree(ROOT / "weights" / "simvae-digits", tmp_path / "weights" / "simvae-digits")
    results = recipe.read_results(tmp_path / "weights" / "simvae-digits")
    zoo = recipe.Zoo([], tmp_path / "runs", tmp_path / "weights")
    entry = recipe.Entry("simvae-digits", "simvae", "digits", "", 0)
    assert zoo.minutes(entry) == pytest.approx(results["wall_seconds"] / 60, rel=0.02)
    assert zoo.minutes(recipe.Entry("simvae-mnist", "simvae", "mnist", "", 0)) is None
    entry.minutes = 7.0
    assert zoo.minutes(entry) == 7.0


# ---------------------------------------------------------------- collecting


def test_a_finished_run_is_collected_rounded_and_measured_again(tmp_path, monkeypatch):
    runs, weights = tmp_path / "runs", tmp_path / "weights"
    shutil.copytree(ROOT / "weights" / "simvae-digits", runs / "simvae-digits" / "simvae-digits")
    entry = recipe.Entry("simvae-digits", "simvae", "digits", "", 0)
    path = runs / "simvae-digits" / "simvae-digits" / "results.json"
    results = json.loads(path.read_text())
    results["evaluation"]["numbers"] = {"knn": results["evaluation"]["numbers"]["knn"]}  # the quick one
    results["weights"] = "float32"
    path.write_text(json.dumps(results))
    collected = recipe.collect(recipe.Zoo([entry], runs, weights), entry)
    kernel = sslzoo.load(weights / "simvae-digits").get_layer("mean").kernel
    kernel = np.asarray(kernel.detach() if hasattr(kernel, "detach") else kernel)
    np.testing.assert_array_equal(kernel, kernel.astype("float16").astype("float32"))
    before = {metric["name"]: metric["value"] for metric in results["metrics"]}
    after = {metric["name"]: metric["value"] for metric in collected["metrics"]}
    assert abs(after[recipe.KNN] - before[recipe.KNN]) <= recipe.TOLERANCE
    assert entry.knn == round(after[recipe.KNN], 1) and entry.minutes == round(results["wall_seconds"] / 60, 1)
    assert sum(f.stat().st_size for f in weights.rglob("*") if f.is_file()) < recipe.LARGEST
    written = (weights / "simvae-digits" / "model.weights.h5").read_bytes()
    monkeypatch.setattr(recipe, "LARGEST", 1000)
    with pytest.raises(errors.ArtefactError, match="at most 1,000 bytes"):
        recipe.collect(recipe.Zoo([entry], runs, weights), entry)
    assert (weights / "simvae-digits" / "model.weights.h5").read_bytes() == written
    assert [path.name for path in weights.iterdir()] == ["simvae-digits"]  # nothing half written


def test_an_entry_is_weighed_as_it_is_packed(tmp_path, monkeypatch):
    """Two bytes a number, which float16 is before it is compressed, would be too much here, as of a ResNet-18."""
    source = tmp_path / "runs" / "simclr-mnist" / "simclr-mnist"
    shutil.copytree(ROOT / "weights" / "simclr-mnist", source)
    entry = recipe.Entry("simclr-mnist", "simclr", "mnist", "", 0)
    zoo = recipe.Zoo([entry], tmp_path / "runs", tmp_path / "weights")
    numbers = recipe.read_results(source)["parameters"]
    monkeypatch.setattr(recipe, "_loses", lambda before, after: False)
    monkeypatch.setattr(recipe, "LARGEST", 2 * numbers - 1)
    without_measuring(monkeypatch, [0.0])
    recipe.collect(zoo, entry)
    folder = zoo.weights / "simclr-mnist"
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert 1e6 < size < 2 * numbers
    before = recipe.layout.files(folder)
    monkeypatch.setattr(recipe, "LARGEST", size - 1000)
    without_measuring(monkeypatch, [0.0])
    parts = {"encoder": sslzoo.load(folder), "projection": sslzoo.load(folder)}
    monkeypatch.setattr(recipe, "_parts", lambda folder: parts)
    told = r"takes \d[\d,]* more\. Of it, .*'without' can leave out projection \([\d,]+ bytes\)\. .*binary digits"
    with pytest.raises(errors.ArtefactError, match=told):
        recipe.collect(zoo, entry)
    assert recipe.layout.files(folder) == before and [path.name for path in zoo.weights.iterdir()] == ["simclr-mnist"]


def test_parts_that_the_table_leaves_out_are_not_kept_and_the_card_says_so(tmp_path, monkeypatch):
    weights = tmp_path / "weights"
    folder = weights / "simvae-digits"
    for place in (folder, tmp_path / "runs" / "simvae-digits" / "simvae-digits"):
        shutil.copytree(ROOT / "weights" / "simvae-digits", place)
    before = recipe.read_results(folder)
    kernels = (folder / "model.weights.h5").read_bytes()
    entry = recipe.Entry("simvae-digits", "simvae", "digits", "", 0, without="posterior")
    zoo = recipe.Zoo([entry], tmp_path / "runs", weights)
    assert recipe.trim(zoo, entry) == ["posterior"] and recipe.trim(zoo, entry) == []
    after = recipe.read_results(folder)
    assert list(after["parts"]) == ["encoder", "decoder"] and not (folder / "posterior").exists()
    assert after["remarks"][-1] == "Left out here for size, and written by the recipe: posterior."
    assert after["remarks"][-1] in (folder / "README.md").read_text("utf-8")
    same = set(before) - {"parts", "remarks", "files"}
    assert {name: after[name] for name in same} == {name: before[name] for name in same}
    assert (folder / "model.weights.h5").read_bytes() == kernels
    sslzoo.load(folder, part="decoder")  # every hash agrees
    with pytest.raises(errors.MissingPartError, match=r"encoder, decoder. Left out here .*: posterior. Received: part"):
        sslzoo.load(folder, part="posterior")

    # A run without --float16 is measured with what is left out.
    entry.without = "posterior decoder"
    path = tmp_path / "runs" / "simvae-digits" / "simvae-digits" / "results.json"
    path.write_text(json.dumps(before | {"weights": "float32"}))
    monkeypatch.setattr(recipe, "_packed", lambda zoo, entry, results, parts: results)  # a probe would lose by it
    monkeypatch.setattr(recipe.evaluation, "evaluate", lambda *_, decoder, **__: pytest.fail(str(decoder.output_shape)))
    with pytest.raises(pytest.fail.Exception, match="8, 8, 1"):
        recipe.collect(zoo, entry)
    monkeypatch.undo()
    without_measuring(monkeypatch, [0.0])
    recipe.collect(zoo, entry)
    assert (folder / "model.weights.h5").is_file() and recipe.layout.parts(folder) == ["encoder"]


def without_measuring(monkeypatch, moves):
    """Every evaluation finds the committed numbers of simvae-digits, those in percent off by the next of `moves`."""
    committed = recipe.read_results(ROOT / "weights" / "simvae-digits")["evaluation"]
    moves, asked = iter(moves), []

    def evaluate(encoder, *_, **__):
        asked.append([np.asarray(weight) for weight in encoder.get_weights()])
        move, found = next(moves), json.loads(json.dumps(committed))
        for metrics in found["numbers"].values():
            for number in metrics.values():
                number["value"] += move / 100 if number.get("unit", "%") == "%" else 0
        return recipe.evaluation.Report.from_dict(found)

    monkeypatch.setattr(recipe.evaluation, "evaluate", evaluate)
    return asked  # the weights of each encoder that was measured


LOST = [-0.2] * len(recipe.DIGITS)  # by each number of digits that is tried


@pytest.mark.parametrize(
    ("weights", "moves", "kept"),
    [
        ("float32", [-0.09], "few"),
        ("float32", [-0.2, -0.2, -0.09], "few"),
        ("float32", [*LOST, -0.09], "half"),
        ("float32", [*LOST, -0.2], "whole"),
        ("float16", [0.1], "few"),
        ("float16", LOST, "half"),
    ],
)
def test_weights_are_rounded_as_far_as_no_probe_loses(weights, moves, kept, tmp_path, monkeypatch):
    """A run of --float16 was measured as it is, and stays so where few digits cost too much."""
    source = tmp_path / "runs" / "simvae-digits" / "simvae-digits"
    encoder = sslzoo.load("simvae-digits")
    encoder.set_weights([weight + 1e-6 * weight if weight.ndim > 1 else weight for weight in encoder.get_weights()])
    results = recipe.read_results(ROOT / "weights" / "simvae-digits") | {"pictures": []}
    recipe.artefact.write(source, {"encoder": encoder}, results, float16=weights == "float16")
    entry = recipe.Entry("simvae-digits", "simvae", "digits", "", 0)
    value = next(metric["value"] for metric in results["metrics"] if metric["name"] == recipe.KNN)
    asked = without_measuring(monkeypatch, moves)
    collected = recipe.collect(recipe.Zoo([entry], tmp_path / "runs", tmp_path / "weights"), entry)
    assert len(asked) == len(moves)
    digits = recipe.DIGITS[min(len(moves), len(recipe.DIGITS)) - 1]
    moved = f"kNN went from {value:.2f} to {value + moves[-1]:.2f} %"
    remark = f"{recipe.PACKED}{digits} binary digits, after all was measured: {moved}."
    assert collected.get("remarks", []) == ([remark] if kept == "few" else [])
    written = recipe.read_results(tmp_path / "weights" / "simvae-digits")
    assert written["weights"] == ("float32" if kept == "whole" else "float16")
    stored = sslzoo.load(tmp_path / "weights" / "simvae-digits").get_weights()
    expected = {"few": asked[-1], "half": asked[-1] if weights == "float32" else None}.get(kept)
    expected = expected or sslzoo.load(source).get_weights()
    assert all(np.array_equal(a, b) for a, b in zip(stored, expected, strict=True))
    kernel = max(stored, key=np.size)
    assert (np.unique(kernel).size < kernel.size / 2) == (kept == "few")


def test_what_the_recipe_alone_can_measure_stays_when_weights_are_rounded(tmp_path, monkeypatch):
    """The accuracy by a memory bank, say: the bank is not in the model folder."""
    source = tmp_path / "runs" / "simvae-digits" / "simvae-digits"
    results = recipe.read_results(ROOT / "weights" / "simvae-digits") | {"pictures": []}
    bank = {"accuracy": {"value": 0.9, "label": "accuracy", "note": "", "chance": 0.1}}
    results["evaluation"]["numbers"]["bank"] = bank
    results["metrics"].append(results["metrics"][0] | {"name": "bank.accuracy", "value": 90.0, "paper": 91.0})
    recipe.artefact.write(source, {"encoder": sslzoo.load("simvae-digits")}, results)
    entry = recipe.Entry("simvae-digits", "simvae", "digits", "", 0)
    without_measuring(monkeypatch, [*LOST, 0.05])
    collected = recipe.collect(recipe.Zoo([entry], tmp_path / "runs", tmp_path / "weights"), entry)
    (kept,) = [metric for metric in collected["metrics"] if metric["name"] == "bank.accuracy"]
    assert (kept["value"], kept["paper"]) == (90.0, 91.0)
    assert collected["remarks"][0] == "Measured before the weights were rounded to float16: bank."
    before = {metric["name"]: metric["value"] for metric in results["metrics"]}
    after = {metric["name"]: metric["value"] for metric in collected["metrics"]}
    assert after[recipe.KNN] == pytest.approx(before[recipe.KNN] + 0.05, abs=1e-3)


def test_trimming_names_what_goes_and_enters_the_rest(tmp_path, monkeypatch, capsys):
    weights, table = tmp_path / "weights", tmp_path / "zoo.csv"
    shutil.copytree(ROOT / "weights" / "simvae-digits", weights / "simvae-digits")
    recipe.write_table(table, [recipe.Entry("simvae-digits", "simvae", "digits", "", 0, without="decoder")])
    monkeypatch.setattr(recipe.Zoo.__init__, "__defaults__", (weights, None, ()))
    entered = []
    monkeypatch.setattr(recipe, "enter", lambda folder: entered.append(folder.name) or True)
    for printed, times in (("simvae-digits: without decoder\n", 1), ("", 1)):
        assert recipe.main(["--trim", "--table", str(table), "--runs", str(tmp_path / "runs")]) == 0
        assert capsys.readouterr().out == printed and len(entered) == times
    assert not (weights / "simvae-digits" / "decoder").exists()


def test_packing_is_done_once_and_not_where_a_probe_loses(tmp_path, monkeypatch, capsys):
    weights, table = tmp_path / "weights", tmp_path / "zoo.csv"
    folder = weights / "simvae-digits"
    shutil.copytree(ROOT / "weights" / "simvae-digits", folder)
    recipe.artefact.compress(folder)
    recipe.write_table(table, [recipe.Entry(f"{name}-digits", name, "digits", "", 0) for name in ("simvae", "vae")])
    monkeypatch.setattr(recipe.Zoo.__init__, "__defaults__", (weights, None, ()))
    entered = []
    monkeypatch.setattr(recipe, "enter", lambda folder: entered.append(folder.name) or True)
    said = []
    for moves in ([*LOST, -0.2], [0.0], []):  # the third time, there would be nothing to measure with
        before = recipe.artefact.hashes(folder)
        without_measuring(monkeypatch, moves)
        assert recipe.main(["--pack", "--table", str(table), "--runs", str(tmp_path / "runs")]) == 0
        said.append((capsys.readouterr().out, recipe.artefact.hashes(folder) == before, len(entered)))
    assert said[0] == ("simvae-digits: keeps its digits, a probe would lose by fewer\n", True, 0)
    assert "binary digits" in said[1][0] and said[1][1:] == (False, 1)
    assert said[2] == ("", True, 1)
    monkeypatch.setattr(recipe.artefact, "compress", lambda folder: 2_100_000)  # it was packed as files were before
    assert recipe.main(["--pack", "--table", str(table), "--runs", str(tmp_path / "runs")]) == 0
    assert capsys.readouterr().out == "simvae-digits: 2.1 MB less, the same numbers\n" and len(entered) == 2
    results = recipe.read_results(folder)
    assert len(results["remarks"]) == 1 and results["remarks"][0].startswith(recipe.PACKED)
    assert results["pictures"] and results["remarks"][0] in (folder / "README.md").read_text("utf-8")
    sslzoo.load(folder)  # every hash agrees


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


def test_the_readme_gets_a_line_per_model_and_keeps_the_rest():
    readme = (ROOT / "README.md").read_text()
    zoo = recipe.Zoo(recipe.read_table(ROOT / "recipes" / "zoo.csv"), "runs")
    lines = recipe.readme_rows(zoo)
    rows = [line for line in lines if line.startswith("| `")]
    assert len(rows) == len(list((ROOT / "weights").glob("*/config.json")))
    changed = recipe.with_rows(readme, ["nothing"])
    start, end = readme.index("<!-- weights -->"), readme.index("<!-- /weights -->")
    assert changed == readme[:start] + "<!-- weights -->\nnothing\n" + readme[end:]
    assert recipe.with_rows(changed, lines) == recipe.with_rows(readme, lines)
    row = next(row for row in rows if "`simclr-mnist`" in row)
    assert "98.3 %" in row and "14.4 M" in row and row.count("|") == recipe.HEADER_OF_README.count("|")
    mnist = lines[lines.index("**MNIST**") :]
    best = [float(row.split("|")[2].strip(" %")) for row in itertools.takewhile(bool, mnist[4:])]
    assert len(best) > 5 and best == sorted(best, reverse=True)


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
    recipe.write_table(tmp_path / "zoo.csv", entries)
    shutil.copytree(ROOT / "weights" / "moco-mnist", tmp_path / "runs" / "moco-mnist" / "moco-mnist")
    asked = []
    monkeypatch.setattr(recipe, "train", lambda zoo, waiting, jobs, minutes: asked.extend(waiting) or [])
    arguments = ["--table", str(tmp_path / "zoo.csv"), "--runs", str(tmp_path / "runs")]
    assert recipe.main(arguments) == 0
    assert [entry.entry for entry in asked] == ["byol-digits"]  # the first is in weights/, the second is trained
    assert "1 to --collect: moco-mnist" in capsys.readouterr().out
    assert recipe.main([*arguments, "--list"]) == 0
    states = [line.split()[1] for line in capsys.readouterr().out.splitlines()]
    assert states == ["current", "trained", "missing"]
