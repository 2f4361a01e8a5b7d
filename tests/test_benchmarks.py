"""Benchmarks of speed run to their end, in as few steps as they can, and refuse what they cannot measure."""

import re
from pathlib import Path

import keras
import pytest

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
