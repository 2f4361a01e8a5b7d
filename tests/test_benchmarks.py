"""Benchmarks of speed run to their end, in as few steps as they can, and refuse what they cannot measure."""

import re
import shutil
import types
from pathlib import Path

import keras
import pytest

from sslzoo import publishing
from sslzoo.files import module_at

pytestmark = pytest.mark.slow

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
BACKEND = keras.backend.backend()
TINY = ["--network", "mlp-small", "--images", "mnist", "--latent-dim", "4", "--batch-size", "4"]
TINY += ["--steps", "1", "--rounds", "1"]


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))  # one of them takes a side from another
    return lambda name: module_at(BENCHMARKS / f"{name}.py")


@pytest.mark.parametrize("name", sorted(path.stem for path in BENCHMARKS.glob("*.py")))
def test_what_a_benchmark_imports_is_there(benchmark, name):
    assert benchmark(name).__doc__


def test_an_energy_step_is_held_against_its_parts(benchmark, capsys):
    size = ["--size", "8", "--channels", "1", "--width", "8"]
    benchmark("energy_step").main([*size, "--batch-size", "4", "--steps", "3", "--rounds", "1"])
    assert re.search(rf"^{BACKEND}: a GEDI step costs [\d.]+ x its parts", capsys.readouterr().out, re.MULTILINE)


def test_throughput_measures_both_sides(benchmark, capsys):
    """One program to compile, one to measure."""
    more = ["--fuse-steps", "2", "--peers", "scan"] if BACKEND == "jax" else []
    benchmark("throughput").main([*TINY, *more])
    said = capsys.readouterr().out
    assert said.startswith(f"simclr, mlp-small, mnist, {BACKEND}, ")
    for side in ("step alone", "fit", *(["scan"] if more else [])):
        assert re.search(rf"^{side} +batch +4 x 2: +[\d,]+ images/s ", said, re.MULTILINE), side
    assert "share of the step alone: " in said and " GiB at the peak" in said
    assert ("GFLOP a step" in said) == (BACKEND != "tensorflow")


def test_growth_holds_each_size_against_the_first(benchmark, capsys):
    benchmark("throughput").main([*TINY, "--growth", "batch", "2", "4"])
    said = capsys.readouterr().out
    assert "batch 2 takes 1.000 x batch 2" in said and re.search(r"^batch 4 takes [\d.]+ x batch 2", said, re.MULTILINE)


def test_the_overhead_of_fit_is_measured(benchmark, capsys):
    fused = ["--fuse-steps", "2"] if BACKEND == "jax" else []
    benchmark("step_overhead").main(["--batch-size", "2", "--num-views", "2", "--steps", "2", "--rounds", "1", *fused])
    said = capsys.readouterr().out
    assert re.search(rf"{BACKEND}: a step inside fit, {1 + len(fused) // 2} in a program, costs \d+\.\d+ x", said)


def test_layers_are_timed_against_keras_own(benchmark, capsys):
    benchmark("layers").main(["convnet", "--side", "16", "--batch-size", "2", "--rounds", "1"])
    assert re.search(r"^convnet: \d+\.\d+ x, \d+\.\d+ s against", capsys.readouterr().out, re.MULTILINE)


def test_exports_are_compared_and_timed(benchmark, capfd):
    for package in ("onnxruntime", "openvino", "ai_edge_litert", "tensorflow"):
        pytest.importorskip(package)
    benchmark("exports").main(["simvae-digits", "--backends", BACKEND, "--images", "4", "--rounds", "1"])
    said = capfd.readouterr().out
    formats = {"tensorflow": ["ONNX", "LiteRT"], "jax": ["SavedModel"], "torch": ["ONNX", "torch.export"]}[BACKEND]
    for title in formats:
        assert re.search(rf"^\| {title} \(\w+\) \| (0|\de-0[5-9]) \|$", said, re.MULTILINE), title
        assert re.search(rf"^\| {title} \| [\d.]+ \|$", said, re.MULTILINE), title


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("backends", ["--only", "resnet"], "No line has this in its name. Received: --only resnet"),
        ("exports", ["--images", "0"], "--images must be greater than 0. Received: 0"),
        ("exports", ["simvae-digits", "--write"], "--write takes all entries and backends"),
        ("throughput", ["--batch-size", "0"], "--batch-size must be greater than 0. Received: 0"),
        ("throughput", ["--fuse-steps", "0"], "--fuse-steps must be greater than 0. Received: 0"),
        ("throughput", ["--growth", "batch"], "and sizes. Received: batch"),
        ("throughput", ["--growth", "batch", "0"], "and sizes. Received: batch 0"),
        ("throughput", ["--growth", "devices", "1", "4096"], "of this machine. Received: 4096"),
        ("step_overhead", ["--rounds", "0"], "--rounds must be greater than 0. Received: 0"),
        *([("throughput", ["--fuse-steps", "2"], "Received: --fuse-steps 2")] if BACKEND == "torch" else []),
    ],
)
def test_what_cannot_be_measured_is_refused(name, arguments, message, benchmark, capsys):
    with pytest.raises(SystemExit) as caught:
        benchmark(name).main(arguments)
    said = capsys.readouterr()
    assert caught.value.code == 2 and message in said.err and not said.out


def test_hours_are_those_of_the_fastest_epoch(benchmark, tmp_path, capsys):
    """Other work slowed the first epoch down: by its own clock the run would have taken four minutes, not three."""
    run, table, picture = tmp_path / "ball-cifar10", tmp_path / "hours.csv", tmp_path / "hours.png"
    run.mkdir()
    arguments = ["--table", str(table), "--picture", str(picture)]
    with pytest.raises(SystemExit):
        benchmark("hours").main([str(run), *arguments])
    assert "must have a history.csv" in capsys.readouterr().err and not table.exists()
    with pytest.raises(SystemExit):
        benchmark("hours").main([str(run), "--cores", "0", *arguments])
    assert "Received: --cores=0" in capsys.readouterr().err
    rows = [
        "epoch,knn,views,views_per_second,seconds",
        "1,0.5,6000,50,120",
        "2,,12000,100,180",
        "3,0.625,18000,100,240",
    ]
    (run / "history.csv").write_text("\n".join(rows) + "\n")
    benchmark("hours").main([str(run), *arguments])
    kept = "entry,views,minutes,knn\nball-cifar10,6000,1.0,50.00\nball-cifar10,18000,3.0,62.50\n"
    assert table.read_text() == kept and picture.read_bytes().startswith(b"\x89PNG")
    benchmark("hours").main([str(run), *arguments])  # a run that is taken in again replaces itself
    assert table.read_text() == kept
    benchmark("hours").main([str(run), "--cores", "2", *arguments])
    assert table.read_text().endswith("ball-cifar10,18000,6.0,62.50\n")
    assert [benchmark("hours").rounded(each) for each in ("74.85", "64.35", "62.60")] == ["74.9", "64.4", "62.6"]


MODULE = """HloModule jit_program, input_output_alias={ {0}: (0, {}, may-alias) }, entry_computation_layout={()->f32[]}

%fused_computation.1 (p: f32[2,3,4,5]) -> f32[2,3,5,4] {
  ROOT %t.1 = f32[2,3,5,4]{3,2,1,0} transpose(%p), dimensions={0,1,3,2}
}

%body.1 (s: f32[2,3,4,5]) -> f32[2,3,4,5] {
  %f.1 = f32[2,3,5,4]{3,2,1,0} fusion(%s), kind=kLoop, calls=%fused_computation.1
  %c.1 = f32[2,3,4,5]{3,2,1,0} copy(%s)
  %draw = (u32[]) while(%d), condition=%c, body=%b, backend_config={"known_trip_count":{"n":"5"}}
}

ENTRY %main.1 (a: f32[2,3,4,5], b: u8[4]) -> f32[2,3,4,5] {
  %a = f32[2,3,4,5]{3,2,1,0} parameter(0)
  %b = u8[4]{0} parameter(1)
  ROOT %w = f32[2,3,4,5]{3,2,1,0} while(%a), condition=%c, body=%body.1, backend_config={"known_trip_count":{"n":"4"}}
}
"""


def test_a_transpose_in_a_fusion_is_no_kernel(benchmark):
    found = benchmark("program").counts(MODULE, 4)
    assert found == {
        "loops of steps": 1,
        "other loops": 1,
        "kernels": 1,
        "transposes of four axes": 0,
        "such transposes inside fusions": 1,
        "copies of four axes": 1,
        "donated arrays": 1,
        "arrays taken": 2,
    }


def test_the_page_of_the_open_question_has_what_there_is_of_it(benchmark, tmp_path, monkeypatch, capsys):
    question = benchmark("open_question")
    assert len(list(question.trials([0, 1]))) == 2 * (5 * 2 + 2 * 4)  # one view is none to SimVAE
    monkeypatch.setattr(question.sweep, "FOLDER", tmp_path)
    monkeypatch.setattr(question, "PAGE", tmp_path / "page.md")
    question.PAGE.write_text(
        "Before.\n<!-- parts -->\n<!-- /parts -->\n<!-- mnist-600000 -->\nold\n<!-- /mnist-600000 -->\nAfter.\n"
    )

    def append(system, images, views, seed, share, divisor=1):
        path = question.path_of("mnist", 600_000 // divisor)
        found = {"backend": "jax", "views": 600, "seconds": 1, "cosine": share, "centered": share, "euclidean": share}
        row = dict(zip(question.KEY, (system, images, views, seed)))
        question.sweep.append(path, row | found, question.COLUMNS)

    for seed, share in ((0, 0.5), (1, 0.7)):
        append("SimVAE, uniform centers", 32, 10, seed, share)
    for seed, (pushed, not_pushed) in enumerate([(0.8, 0.5), (0.81, 0.52), (0.82, 0.54)]):
        append("beta-VAE (likelihood variance 0.01)", 160, 2, seed, pushed)
        append("VAE (Bernoulli)", 160, 2, seed, not_pushed)
        append("VAE (Bernoulli)", 320, 1, seed, not_pushed + 0.01)
        append("VAE (Bernoulli)", 320, 1, seed, not_pushed - 0.1, divisor=10)
    question.main([])
    rows = question.PAGE.read_text().splitlines()
    assert "| SimVAE, uniform centers | 60.0 ± 10.0 | 60.0 ± 10.0 | – | – | – | – | – | – |" in rows
    both = [f"{percent} ± 1.2 | {percent} ± 1.2 |" for percent in (52.0, 53.0, 42.0)]
    assert f"| VAE (Bernoulli) | – | – | {' '.join(both)}" in rows
    # Standard errors 1/sqrt(3) and 2/sqrt(3): 29 ± sqrt(5/3); two differences were tested.
    assert "| push: beta-VAE over VAE | 160 x 2 | **+29.0** ± 1.3 | – | – | – |" in rows
    assert "| push: beta-VAE over VAE | 32 x 10 | – | – | – | – |" in rows
    with pytest.raises(SystemExit):
        question.main(["mnist", "cifar10"])
    assert "expected data sets of mnist, fashion_mnist. Received: cifar10" in capsys.readouterr().err
    assert "| different images: VAE (Bernoulli) | 320 x 1 over 160 x 2 | +1.0 ± 1.6 | – | – | – |" in rows
    assert not any(row.startswith("| SimVAE, N(0, 1)") for row in rows)  # nobody tried them
    assert "old" not in rows and (rows[0], rows[-1]) == ("Before.", "After.")
    question.PAGE.write_text("Nothing between two comments.")
    with pytest.raises(ValueError, match="mark='mnist-600000'"):
        question.main([])
    assert (tmp_path / "open-question-mnist-600000.png").stat().st_size > 5000


def test_a_seed_counts_once_it_was_trained_to_its_end_with_these_flags(benchmark, tmp_path, monkeypatch):
    seeds, run = benchmark("seeds"), tmp_path / "simvae-digits.seeds.0"
    model = Path(shutil.copytree(BENCHMARKS.parent / "weights" / "simvae-digits", run / "simvae-digits"))
    called = []
    monkeypatch.setattr(
        seeds.subprocess, "run", lambda words: called.append(words) or types.SimpleNamespace(returncode=0)
    )
    assert seeds.train("simvae", "digits", 0, ["--float16"], run)["name"] == "simvae-digits" and not called
    for seed, words in ((0, ["--set", "likelihood_variance=1.0"]), (1, [])):
        with pytest.raises(SystemExit, match="was stopped before its end"):
            seeds.train("simvae", "digits", seed, words, run)
    assert all("--resume" in words for words in called)
    publishing.seal(model, ended="signal")
    with pytest.raises(SystemExit, match="was stopped before its end"):
        seeds.train("simvae", "digits", 0, [], run)
    assert len(called) == 3
