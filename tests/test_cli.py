"""The command line: what a shell and a script see. Answers on standard output, the rest on standard error, exit codes
that can be relied on, and nothing left half-written."""

import codecs
import csv
import errno
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import layers
from PIL import Image

import sslzoo
from sslzoo import cli, evaluation, networks, publishing, zoo
from sslzoo import environment as shell
from sslzoo.cli import measuring
from sslzoo.environment import hushed
from sslzoo.errors import HubError, MissingDataError
from sslzoo.networks.composition import compose
from sslzoo.publishing import artifact, manifest
from sslzoo.zoo import index, loading

ROOT = Path(sslzoo.__file__).parent.parent
SHAPE = (8, 8, 1)
COMMANDS = ("list", "info", "embed", "evaluate", "train", "publish", "manifest", "verify")


KNN = {"name": "knn.cosine_k10_accuracy", "label": "kNN: cosine, k = 10", "value": 97.5, "protocol": "majority vote"}
METRICS = [
    KNN,
    {"name": "knn.best", "label": "kNN: best k", "value": 98.5, "protocol": "best on test", "paper": 99.5},
    {"name": "samples.fid", "label": "FID", "value": 12.25, "protocol": "10,000 samples", "unit": ""},
]


def facts(name, method, dataset, metrics):
    return {
        "name": name,
        "method": method,
        "dataset": dataset,
        "recipe": "python recipes/x.py",
        "settings": {},
        "seeds": [0],
        "metrics": metrics,
        "versions": {},
        "wall_seconds": 1,
        "views_seen": 1,
        "license": "apache-2.0",
        "papers": [{"title": "A paper", "url": "https://arxiv.org/abs/2402.01399"}],
    }


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """Two models in a folder, and a manifest that lists them."""
    root = tmp_path_factory.mktemp("shelf")
    posterior = networks.encoder("mlp-small", SHAPE, 3, posterior=True, seed=0)
    x = keras.Input(SHAPE, name="images")
    preprocessor = keras.Model(x, layers.Rescaling(1 / 255)(x))
    parts = {"encoder": compose(preprocessor, posterior, "mean"), "posterior": compose(preprocessor, posterior)}
    color = keras.Input((6, 10, 3), name="images")
    small = keras.Model(color, layers.GlobalAveragePooling2D()(layers.Rescaling(1 / 255)(color)))
    artifact.write(root / "weights" / "simvae-digits", **parts, **facts("simvae-digits", "SimVAE", "digits", METRICS))
    artifact.write(root / "weights" / "mean-photos", small, **facts("mean-photos", "Mean", "photos", []))
    for folder in (root / "weights").iterdir():
        manifest.refresh(folder, file=root / "manifest.json")
    return root


@pytest.fixture(autouse=True)
def environment(shelf, monkeypatch, tmp_path):
    monkeypatch.setenv("SSLZOO_WEIGHTS", str(shelf / "weights"))
    monkeypatch.setenv("SSLZOO_MANIFEST", str(shelf / "manifest.json"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(loading, "weight_folders", lambda: [shelf / "weights"])  # not those of the checkout
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def sslzoo_(capsys):
    """Runs a command: (exit code, standard output, standard error)."""

    def run(*words):
        try:
            code = cli.main([str(word) for word in words])
        except SystemExit as stop:
            code = stop.code
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def process(*words, code=None):
    """The same as a process of its own."""
    command = [sys.executable, *(["-c", code] if code else ["-m", "sslzoo"]), *map(str, words)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def paint(path, size=(8, 8), mode="L", value=100):
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(value)
    shape = (size[1], size[0], len(mode)) if len(mode) > 1 else (size[1], size[0])
    Image.fromarray(rng.integers(0, 256, shape, "uint8"), mode).save(path)
    return path


def load(path):
    with np.load(path, allow_pickle=False) as arrays:
        return {key: arrays[key] for key in arrays.files}


# ------------------------------------------------------------------ as a whole


def test_help_of_every_command_says_what_it_takes_and_gives_an_example(sslzoo_):
    code, out, _ = sslzoo_("--help")
    assert code == 0 and all(f"    {command} " in out for command in COMMANDS)
    for command in COMMANDS:
        code, out, _ = sslzoo_(command, "--help")
        assert code == 0
        assert "--json" in out and f"  sslzoo {command}" in out.partition("examples:")[2]
        assert max(map(len, out.splitlines())) < 110


@pytest.mark.parametrize(
    "words",
    [
        ("lits",),
        ("info",),
        ("embed", "simvae-digits"),
        ("evaluate",),
        ("embed", "simvae-digits", "x", "-o", "y", "--batch-size", "0"),
        ("embed", "simvae-digits", "x", "-o", "y", "--part", "decoder"),
    ],
)
def test_wrong_usage_exits_with_2(sslzoo_, words):
    code, out, err = sslzoo_(*words)
    assert code == 2 and not out and "usage: sslzoo" in err


def test_alone_it_prints_its_help(sslzoo_):
    code, out, err = sslzoo_()
    assert code == 2 and out.startswith("usage: sslzoo") and "COMMAND --help" in out and not err


def test_help_list_and_info_import_neither_keras_nor_a_backend():
    code = """
import sys
from sslzoo import cli
for words in (["--help"], ["embed", "--help"], ["list"], ["list", "--json"], ["info", "simvae-digits"]):
    try:
        assert cli.main(words) == 0
    except SystemExit as stop:
        assert stop.code == 0
heavy = {"keras", "tensorflow", "jax", "torch", "numpy", "h5py", "matplotlib", "sklearn"} & set(sys.modules)
sys.exit(f"imported: {heavy}" if heavy else 0)
"""
    done = process(code=code)
    _, err = done.communicate()
    assert done.returncode == 0, err


def test_help_of_every_command_can_be_written_in_any_encoding(monkeypatch):
    for command in COMMANDS:
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
        with pytest.raises(SystemExit):
            cli.main(argv=[command, "--help"])


def test_without_a_standard_error_nothing_is_said_elsewhere(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stderr", None)
    assert cli.main(["info", "nothing-like-it"]) == 2 and not capsys.readouterr().out
    monkeypatch.setattr(sys, "stderr", None)
    with hushed():
        pass


def test_the_console_script_and_the_module_lead_here():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["scripts"] == {"sslzoo": "sslzoo.cli:main"}
    done = process("--version")
    assert done.communicate()[0] == f"sslzoo {sslzoo.__version__}\n" and done.returncode == 0


def test_protocols_are_those_of_the_evaluation():
    assert evaluation.PROTOCOLS == measuring.PROTOCOLS and evaluation.ALL_PROTOCOLS == measuring.ALL_PROTOCOLS


@pytest.mark.parametrize("words", ["info simvae-digits", "list --json", "", "--help", "list --help", "--version"])
def test_a_reader_that_stops_reading_is_no_error(words, monkeypatch):
    """`sslzoo list | head -1`"""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)  # with which nothing is left for the end
    done = process(*words.split())
    done.stdout.close()
    err = done.stderr.read()
    assert done.wait() == 141 and err == ""


def test_a_pipe_that_windows_closed_is_one_too(monkeypatch, capsys):
    class Closed(io.StringIO):
        def flush(self):
            raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(sys, "stdout", Closed())
    monkeypatch.setattr(shell, "silence_closed", lambda: None)
    with pytest.raises(SystemExit):  # elsewhere it is a fault
        cli.main(["list"])
    monkeypatch.setattr(shell, "_CLOSED", {errno.EINVAL})
    capsys.readouterr()
    assert cli.main(["list"]) == 141 and capsys.readouterr().err == ""


def test_a_pattern_that_no_shell_expanded_names_model_folders(tmp_path, capsys):
    for name in ("a1", "a2", "b"):
        shutil.copytree(ROOT / "weights" / "simvae-digits", tmp_path / name)
    assert cli.main(["seal", str(tmp_path / "a*")]) == 0
    said = capsys.readouterr().out
    assert "a1" in said and "a2" in said and "b:" not in said
    assert cli.main(["seal", str(tmp_path / "c*")]) == 2


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux has it")
def test_a_full_disk_behind_the_output_is_told():
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-m", "sslzoo", "list"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2 and "Traceback" not in done.stderr and "No space left" in done.stderr


def test_a_fault_that_is_not_explained_has_a_code_of_its_own(tmp_path, monkeypatch, capsys):
    def fail(*_, **__):
        raise MemoryError("too large")

    monkeypatch.setattr(sslzoo, "embed", fail)
    assert cli.main(["embed", "simvae-digits", "a.png", "-o", str(tmp_path / "a.npz")]) == 3
    out, err = capsys.readouterr()
    assert not out and "MemoryError: too large" in err


@pytest.mark.parametrize("flag", ["--show", "--help"])
def test_what_a_recipe_prints_of_itself_is_no_json(flag, capsys):
    assert cli.main(["train", "--json", "simvae", flag]) == 2
    out, err = capsys.readouterr()
    assert not out and f"Received: --json, {flag}" in err


def test_a_recipe_that_nobody_reads_is_no_error(monkeypatch):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    shown = ROOT / "recipes" / "simclr.py", "--show"
    code = f"import runpy, sys; sys.argv = {list(map(str, shown))!r}; runpy.run_path(sys.argv[0], run_name='__main__')"
    done = process(code=code)
    done.stdout.close()
    err = done.stderr.read()
    assert done.wait() == 0 and "BrokenPipe" not in err


@pytest.mark.skipif(os.name == "nt", reason="Windows has other signals")
def test_ctrl_c_ends_in_one_line():
    code = """
import signal, sys, time
from sslzoo import cli, zoo
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs inherit that it is ignored
def slow(*_):
    print("ready", flush=True, file=sys.__stdout__)
    time.sleep(60)
zoo.list_models = slow
sys.exit(cli.main(["list"]))
"""
    done = process(code=code)
    assert done.stdout.readline() == "ready\n"
    time.sleep(0.2)
    done.send_signal(signal.SIGINT)
    out, err = done.communicate(timeout=60)
    assert done.returncode == 130 and err == "sslzoo: interrupted\n" and not out


def test_the_packages_errors_are_one_line_without_a_traceback(sslzoo_):
    for words in (("info", "simvae-digit"), ("list", "--method", "SimVEA"), ("verify", "nothing")):
        code, out, err = sslzoo_(*words)
        assert code == 2 and not out
        assert err.startswith("sslzoo: UnknownNameError: ") and err.count("\n") == 1
    assert "Did you mean 'simvae-digits'" in sslzoo_("info", "simvae-digit")[2]


def test_a_damaged_manifest_is_told(sslzoo_, tmp_path, monkeypatch):
    (tmp_path / "manifest.json").write_text("{")
    monkeypatch.setenv("SSLZOO_MANIFEST", str(tmp_path / "manifest.json"))
    code, out, err = sslzoo_("list")
    assert code == 2 and not out and "ManifestError" in err and str(tmp_path) in err


def test_a_missing_backend_is_told(sslzoo_, monkeypatch):
    def load(*_, **__):
        raise ModuleNotFoundError("No module named 'tensorflow'")

    monkeypatch.setattr(zoo, "load", load)
    code, _, err = sslzoo_("evaluate", "simvae-digits", "--dataset", "digits")
    assert code == 2 and "No module named 'tensorflow'" in err and "KERAS_BACKEND" in err and err.count("\n") == 1


def test_a_variable_that_names_nothing_is_told(sslzoo_, monkeypatch, tmp_path):
    monkeypatch.setenv("SSLZOO_WEIGHTS", str(tmp_path / "typo"))
    code, out, err = sslzoo_("list")
    assert code == 2 and not out and "SSLZOO_WEIGHTS must name a folder" in err and err.count("\n") == 1
    monkeypatch.delenv("SSLZOO_WEIGHTS")
    monkeypatch.setenv("KERAS_BACKEND", "pytorch")
    code, out, err = sslzoo_("list")
    assert code == 2 and not out and "Unknown KERAS_BACKEND. Did you mean 'torch'?" in err and err.count("\n") == 1


def test_a_recipe_says_the_same_in_as_many_lines():
    recipe = ROOT / "recipes" / "vae.py"
    environment = os.environ | {"PYTHONPATH": str(ROOT), "KERAS_BACKEND": "pytorch"}
    done = subprocess.run([sys.executable, recipe], env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode == 2 and not done.stdout
    assert "Unknown KERAS_BACKEND. Did you mean 'torch'?" in done.stderr and done.stderr.count("\n") == 1


# ------------------------------------------------------------------ list, info


def test_list_is_a_table_with_numbers_and_sizes(sslzoo_):
    code, out, err = sslzoo_("list")
    lines = out.splitlines()
    assert code == 0 and not err
    assert lines[0].split() == ["NAME", "METHOD", "DATASET", "IMAGES", "FEATURES", "SIZE", "KNN", "HERE"]
    assert lines[1].split() == ["mean-photos", "Mean", "photos", "6x10x3", "3", *lines[1].split()[5:7], "-", "yes"]
    assert lines[2].split()[-3:] == ["97.5", "%", "yes"]  # the first number of a protocol, not the best
    size = index.read()["simvae-digits"]["bytes"]
    assert f"{size / 1000:.3g} kB" in lines[2]
    assert "KNN: kNN: cosine, k = 10" in lines


def test_list_filters(sslzoo_):
    assert [m["name"] for m in json.loads(sslzoo_("list", "--json")[1])] == ["mean-photos", "simvae-digits"]
    for words in (("--method", "simvae"), ("--dataset", "digits"), ("--dataset", "digits", "--method", "SimVAE")):
        assert [m["name"] for m in json.loads(sslzoo_("list", "--json", *words)[1])] == ["simvae-digits"]
    code, out, _ = sslzoo_("list", "--dataset", "digits", "--method", "mean")
    assert code == 2 or "simvae" not in out


def test_info_shows_every_number_with_its_protocol(sslzoo_):
    code, out, _ = sslzoo_("info", "simvae-digits")
    assert code == 0
    for part in (
        "SimVAE",
        "8x8x1",
        "encoder, posterior",
        "not published yet",
        "python recipes/x.py",
        "apache-2.0",
        "https://arxiv.org/abs/2402.01399",
        "majority vote",
        'sslzoo.load("simvae-digits")',
    ):
        assert part in out
    (row,) = [line for line in out.splitlines() if "best k" in line]
    assert row.split() == ["kNN:", "best", "k", "98.5", "%", "99.5", "%", "best", "on", "test"]
    assert json.loads(sslzoo_("info", "simvae-digits", "--json")[1]) == zoo.info("simvae-digits")


@pytest.mark.parametrize("protocols", [["linear"], ["mlp"], ["few_shot", "gmm"], ["reconstruction"]])
def test_reports_are_json_whatever_is_measured(sslzoo_, protocols):
    words = ("evaluate", "simvae-digits", "--dataset", "digits", "--limit", 60, "--json", "--protocols", *protocols)
    code, out, err = sslzoo_(*words, *(("--epochs", 1) if {"linear", "mlp"} & {*protocols} else ()))
    assert code == 0 and json.loads(out)["numbers"].keys() == {*protocols}, err


# ------------------------------------------------------------------ embed


def test_embed_a_folder_gives_what_the_encoder_gives(sslzoo_, tmp_path):
    paths = [paint(tmp_path / "in" / name, value=i) for i, name in enumerate(["b.png", "a.png", "deep/c.png"])]
    (tmp_path / "in" / "notes.txt").write_text("no image")
    (tmp_path / "in" / ".hidden.png").write_bytes(b"")
    code, out, err = sslzoo_("embed", "simvae-digits", tmp_path / "in", "-o", "out.npz", "--batch-size", 2)
    assert code == 0 and out == "Wrote out.npz: 3 images, 3 features each\n"
    assert err == "sslzoo: 2 entries of the folder were passed over: 1 hidden, 1 .txt.\n"
    arrays = load("out.npz")
    paths.sort()
    assert arrays.keys() == {"features", "paths", "model"} and arrays["paths"].tolist() == [str(path) for path in paths]
    images = np.stack([np.asarray(Image.open(path)) for path in paths])[..., None]
    expected = evaluation.features(zoo.load("simvae-digits"), images)
    assert arrays["features"].dtype == np.float32
    np.testing.assert_allclose(arrays["features"], expected, atol=1e-5)
    assert [path.name for path in tmp_path.iterdir() if path.name != "in"] == ["out.npz"]


def given(monkeypatch, content):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


@pytest.mark.parametrize(
    "listed",
    [
        b"{}\n\n",
        b"{}\r\n",
        b"{}\0",  # find -print0
        codecs.BOM_UTF8 + b"{}\r\n",  # PowerShell
        "{}\r\n".encode("utf-16"),
    ],
)
def test_embed_reads_paths_from_standard_input(listed, sslzoo_, tmp_path, monkeypatch):
    path = paint(tmp_path / "with a space and \x85.png", value=3)
    encoding = "utf-16-le" if listed.startswith(codecs.BOM_UTF16_LE) else "utf-8"
    given(monkeypatch, listed.replace("{}".encode(encoding), str(path).encode(encoding)))
    code, out, _ = sslzoo_("embed", "simvae-digits", "-", "-o", "out.npz")
    assert code == 0 and out == "Wrote out.npz: 1 image, 3 features each\n"
    assert load("out.npz")["paths"].tolist() == [str(path)]


def test_embed_refuses_no_names_and_an_array_file(sslzoo_, tmp_path, monkeypatch):
    given(monkeypatch, b"\n")
    code, _, err = sslzoo_("embed", "simvae-digits", "-", "-o", "none.npz")
    assert code == 2 and "Standard input must name folders or image files" in err
    np.save(tmp_path / "images.npy", np.zeros((2, 8, 8, 1), "uint8"))
    code, _, err = sslzoo_("embed", "simvae-digits", tmp_path / "images.npy", "-o", "none.npz")
    assert code == 2 and "An array file is an .npz" in err and not (tmp_path / "none.npz").exists()


def test_info_of_a_folder_and_of_the_folder_of_a_run(sslzoo_, shelf, tmp_path):
    shutil.copytree(shelf / "weights" / "simvae-digits", tmp_path / "run" / "simvae-digits")
    for folder in (tmp_path / "run" / "simvae-digits", tmp_path / "run"):
        code, out, err = sslzoo_("info", folder)
        assert code == 0 and not err and "simvae-digits" in out and "kNN: best k" in out
        assert json.loads(sslzoo_("info", folder, "--json")[1])["parts"] == ["encoder", "posterior"]
    code, _, err = sslzoo_("info", tmp_path)
    assert code == 2 and "Expected a model folder" in err
    code, _, err = sslzoo_("info", tmp_path / "run", "--revision", "v1")
    assert code == 2 and "Only Hub repositories have revisions" in err


def test_a_folder_that_is_being_written_is_no_model_yet(sslzoo_, shelf, tmp_path, monkeypatch):
    for name in ("simvae-digits", ".mean-photos.partial"):
        shutil.copytree(shelf / "weights" / "simvae-digits", tmp_path / "run" / name)
    assert json.loads(sslzoo_("info", tmp_path / "run", "--json")[1])["name"] == "simvae-digits"
    monkeypatch.setattr(loading, "weight_folders", lambda: [tmp_path / "run"])
    assert list(loading.local_models()) == ["simvae-digits"]
    code, _, err = sslzoo_("info", "simvae-digit")
    assert code == 2 and "Did you mean 'simvae-digits'?" in err and "partial" not in err


def test_no_command_is_made_up_for_a_variant_that_no_recipe_has(sslzoo_):
    code, _, err = sslzoo_("info", "simvae-digits.longer")
    assert code == 2 and "recipe makes it" not in err and "Did you mean 'simvae-digits'" in err


def test_embed_writes_tables(sslzoo_, tmp_path, monkeypatch):
    photos = tmp_path / "photos"
    for n, name in enumerate(["train/cat/a.png", "train/cat/b, c.png", "train/dog/d.png"]):
        paint(photos / name, value=n)
    code, out, _ = sslzoo_("embed", "simvae-digits", photos, "-o", tmp_path / "f.csv", "--part", "posterior")
    assert code == 0 and "3 images, 3 features each" in out
    text = (tmp_path / "f.csv").read_text()
    table = list(csv.DictReader(io.StringIO(text)))
    assert list(table[0]) == ["path", "label"] + [f"{k}_{j}" for k in ("feature", "log_var") for j in range(3)]
    assert [row["label"] for row in table] == ["cat", "cat", "dog"] and table[1]["path"].endswith("b, c.png")
    sslzoo_("embed", "simvae-digits", photos, "-o", tmp_path / "f.npz", "--part", "posterior")
    features = load(tmp_path / "f.npz")["features"]
    written = np.array([[row[f"feature_{j}"] for j in range(3)] for row in table], "float32")
    np.testing.assert_array_equal(written, features)  # to the last bit

    code, out, err = sslzoo_("embed", "simvae-digits", photos, "-o", "-", "--part", "posterior")
    assert code == 0 and out == text and not (tmp_path / "-").exists()
    code, out, err = sslzoo_("embed", "simvae-digits", photos, "-o", "-", "--json")
    assert code == 2 and not out and "not both" in err
    code, out, err = sslzoo_("embed", "simvae-digits", photos, "-o", "f.feather")
    assert code == 2 and not out and "must end in .npz, .csv or .parquet" in err


def test_embed_an_npz_with_labels_and_splits(sslzoo_, tmp_path):
    rng = np.random.default_rng(0)
    images = {split: rng.integers(0, 256, (5, *SHAPE), "uint8") for split in ("train", "test")}
    np.savez("in.npz", x_train=images["train"], y_train=np.arange(5), x_test=images["test"], y_test=np.arange(5)[::-1])
    code, _, err = sslzoo_("embed", "simvae-digits", "in.npz", "-o", "out.npz")
    assert code == 2 and "(--split), one of train, test" in err and not Path("out.npz").exists()
    code, out, _ = sslzoo_("embed", "simvae-digits", "in.npz", "-o", "out.npz", "--split", "test", "--json")
    assert code == 0
    assert json.loads(out)["arrays"] == {"features": [5, 3], "index": [5], "labels": [5], "model": []}
    arrays = load("out.npz")
    assert arrays["labels"].tolist() == [4, 3, 2, 1, 0] and arrays["index"].tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_allclose(
        arrays["features"], evaluation.features(zoo.load("simvae-digits"), images["test"]), atol=1e-5
    )


def test_embed_keeps_fractions_of_float_images(sslzoo_):
    images = np.random.default_rng(0).random((3, *SHAPE), "float32") * 255
    np.savez("in.npz", images=images)
    assert sslzoo_("embed", "simvae-digits", "in.npz", "-o", "out.npz")[0] == 0
    expected = evaluation.features(zoo.load("simvae-digits"), images)
    np.testing.assert_allclose(load("out.npz")["features"], expected, atol=1e-6)


def test_embed_a_posterior(sslzoo_, tmp_path):
    path = paint(tmp_path / "a.png")
    assert sslzoo_("embed", "simvae-digits", path, "-o", "out.npz", "--part", "posterior")[0] == 0
    arrays = load("out.npz")
    mean, log_var = zoo.load("simvae-digits", "posterior").predict_on_batch(
        np.asarray(Image.open(path))[None, ..., None]
    )
    np.testing.assert_allclose(arrays["features"], mean, atol=1e-5)
    np.testing.assert_allclose(arrays["log_var"], log_var, atol=1e-5)
    code, _, err = sslzoo_("embed", "mean-photos", path, "-o", "other.npz", "--part", "posterior")
    assert code == 2 and "Received: part='posterior'" in err


def test_embed_labels_a_folder_with_classes(sslzoo_, tmp_path):
    """A class keeps its number where a split lacks another."""
    for path in ("train/cat/1.png", "train/dog/2.png", "train/eel/3.png", "test/dog/4.png", "test/eel/5.png"):
        paint(tmp_path / "in" / path)
    assert sslzoo_("embed", "simvae-digits", tmp_path / "in", "-o", "out.npz", "--split", "test")[0] == 0
    arrays = load("out.npz")
    assert arrays["classes"].tolist() == ["cat", "dog", "eel"] and arrays["labels"].tolist() == [1, 2]
    assert arrays["classes"][arrays["labels"]].tolist() == [Path(path).parent.name for path in arrays["paths"]]
    assert sslzoo_("embed", "simvae-digits", tmp_path / "in", "-o", "x.npz", "--split", "tset")[0] == 2


def test_embed_says_what_it_did_to_images_of_other_kinds(sslzoo_, tmp_path):
    """Cropped around the middle and averaged, as `sslzoo.data` does it, and turned gray."""
    square = np.random.default_rng(0).integers(0, 256, (8, 8), "uint8").repeat(64, 0).repeat(64, 1)
    (tmp_path / "in").mkdir()
    Image.fromarray(np.pad(square, ((0, 0), (50, 50)), constant_values=255)).save("in/b.png")
    Image.fromarray(square).save("in/c.png")
    expected = evaluation.features(zoo.load("simvae-digits"), sslzoo.data.load("in", "train", image_size=8)[0])
    Image.fromarray(np.stack([square] * 3, -1)).save("in/a.png")
    code, _, err = sslzoo_("embed", "simvae-digits", "in", "-o", "out.npz")
    assert code == 0
    assert err.splitlines() == [
        "sslzoo: 1 of 3 images were converted from color to gray",
        "sslzoo: 1 of 3 images were cropped and resized to 8 x 8 pixels",
        "sslzoo: 2 of 3 images were resized to 8 x 8 pixels",
    ]
    color, wide, gray = load("out.npz")["features"]
    np.testing.assert_allclose([wide, gray], expected, atol=1e-6)
    np.testing.assert_allclose(color, gray, atol=1e-6)


def test_embed_fits_gray_images_to_an_oblong_color_encoder(sslzoo_, tmp_path):
    paint(tmp_path / "gray.png", (20, 20))
    Image.new("RGB", (40, 24), (255, 102, 0)).save(tmp_path / "orange.png")
    code, _, err = sslzoo_("embed", "mean-photos", "gray.png", "orange.png", "-o", "out.npz")
    assert code == 0 and "1 of 2 images were converted from gray to color" in err
    features = load("out.npz")["features"]
    np.testing.assert_allclose(features[1], [1.0, 0.4, 0.0], atol=1e-6)
    assert features[0].std() < 1e-6


def test_embed_turns_photographs_upright(sslzoo_, tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8), "uint8")
    Image.fromarray(pixels).save(tmp_path / "upright.png")
    exif = Image.Exif()
    exif[0x0112] = 6  # to be shown turned by 90 degrees clockwise
    Image.fromarray(np.rot90(pixels)).save(tmp_path / "turned.png", exif=exif)
    assert sslzoo_("embed", "simvae-digits", "upright.png", "turned.png", "-o", "out.npz")[0] == 0
    upright, turned = load("out.npz")["features"]
    np.testing.assert_allclose(upright, turned, atol=1e-6)


@pytest.fixture
def mixed(tmp_path):
    """Good images among bad ones."""
    good = [paint(tmp_path / "in" / f"{name}.png", value=i) for i, name in enumerate("ac")]
    (tmp_path / "in" / "b.png").write_bytes(good[0].read_bytes()[:60])
    Image.fromarray(np.zeros((8, 8), "uint16")).save(tmp_path / "in" / "deep.png")
    return tmp_path / "in"


def test_bad_images_are_refused_by_default(sslzoo_, mixed, tmp_path):
    code, out, err = sslzoo_("embed", "simvae-digits", mixed, "-o", "out.npz")
    assert code == 2 and not out
    assert "b.png" in err and "--on-error skip" in err and err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_bad_images_are_left_out_if_asked(sslzoo_, mixed):
    code, out, err = sslzoo_("embed", "simvae-digits", mixed, "-o", "out.npz", "--on-error", "skip")
    assert code == 1 and out == "Wrote out.npz: 2 images, 3 features each, 2 left out\n"
    assert f"left out {mixed / 'b.png'}" in err and "Expected images of 8 bits per channel" in err
    assert [Path(path).name for path in load("out.npz")["paths"]] == ["a.png", "c.png"]
    code, out, _ = sslzoo_("embed", "simvae-digits", mixed, "-o", "out.npz", "--on-error", "skip", "--json", "--force")
    assert code == 1 and [Path(bad["path"]).name for bad in json.loads(out)["skipped"]] == ["b.png", "deep.png"]
    code, _, err = sslzoo_("embed", "simvae-digits", mixed / "b.png", "-o", "none.npz", "--on-error", "skip")
    assert code == 2 and "None of the images" in err and not Path("none.npz").exists()


def test_doctor_and_views_leave_bad_images_out_if_asked(sslzoo_, mixed, tmp_path):
    for n in range(3):
        paint(mixed / f"more {n}.png", value=n)
    for words in (("doctor", "simvae-digits", mixed), ("views", mixed, "--policy", "simvae-digits")):
        code, out, err = sslzoo_(*words)
        assert code == 2 and not out and "b.png" in err and "--on-error skip" in err and err.count("\n") == 1
        code, out, err = sslzoo_(*words, "--on-error", "skip", "--json")
        left = [remark for remark in json.loads(out)["remarks"] if "could not be read" in remark]
        assert code < 2 and len(left) == 1 and left[0] in err.replace("sslzoo: ", "")
        assert left[0].startswith("2 of 7 images could not be read and were left out: ") and "deep.png" in left[0]
    for seed in range(9):  # of a folder no other images are read than those that are shown
        code, _, err = sslzoo_("views", mixed, "--policy", "simvae-digits", "--images", 1, "--seed", seed)
        assert code == 0 or "1 of 1 images cannot be read" in err
    good, bad = mixed / "a.png", mixed / "b.png"
    for paths in ([good, bad], [good, mixed / "gone.png"]):
        code, _, err = sslzoo_("doctor", "simvae-digits", *paths, "--on-error", "skip")
        assert code == 2 and "at least two that can be read. Received: 1 of 2 images could not" in err


def test_embed_replaces_nothing_unasked(sslzoo_, tmp_path, monkeypatch):
    path = paint(tmp_path / "a.png")
    Path("out.npz").write_text("years of work")
    monkeypatch.setattr(zoo, "load", lambda *_, **__: pytest.fail("the model was loaded before the check"))
    code, _, err = sslzoo_("embed", "simvae-digits", path, "-o", "out.npz")
    assert code == 2 and "--force" in err and Path("out.npz").read_text() == "years of work"
    for output in ("nowhere/out.npz", "."):
        assert sslzoo_("embed", "simvae-digits", path, "-o", output)[0] == 2
    monkeypatch.undo()


def test_embed_replaces_if_asked(sslzoo_, tmp_path):
    path = paint(tmp_path / "a.png")
    Path("out.npz").write_text("old")
    assert sslzoo_("embed", "simvae-digits", path, "-o", "out.npz", "--force")[0] == 0
    assert load("out.npz")["features"].shape == (1, 3)


@pytest.mark.parametrize("failure", [OSError("No space left on device"), KeyboardInterrupt()])
def test_a_write_that_fails_leaves_everything_as_it_was(sslzoo_, tmp_path, monkeypatch, failure):
    path = paint(tmp_path / "a.png")
    Path("out.npz").write_text("old")

    def savez(file, **_):
        file.write(b"half")
        raise failure

    monkeypatch.setattr(np, "savez", savez)
    code, out, err = sslzoo_("embed", "simvae-digits", path, "-o", "out.npz", "--force")
    assert code == (130 if isinstance(failure, KeyboardInterrupt) else 2) and not out and err.count("\n") == 1
    assert Path("out.npz").read_text() == "old" and sorted(p.name for p in tmp_path.iterdir()) == ["a.png", "out.npz"]


@pytest.mark.parametrize(
    "inputs, message",
    [
        (["nowhere"], "no such folder or file"),
        (["empty"], "Looked below"),
        (["nowhere.npz"], "nowhere.npz"),
        (["a.png", "in.npz"], "An .npz comes alone"),
        (["a.png", "--split", "test"], "has splits"),
        (["in.npz", "--split", "test"], "Unknown split"),
    ],
)
def test_inputs_that_lead_nowhere_are_told_before_any_work(sslzoo_, tmp_path, monkeypatch, inputs, message):
    paint(tmp_path / "a.png")
    (tmp_path / "empty").mkdir()
    np.savez("in.npz", images=np.zeros((1, *SHAPE), "uint8"))
    monkeypatch.setattr(zoo, "load", lambda *_, **__: pytest.fail("the model was loaded before the check"))
    code, out, err = sslzoo_("embed", "simvae-digits", *inputs, "-o", "out.npz")
    assert code == 2 and not out and message in err and not Path("out.npz").exists()


def test_a_pattern_is_expanded_where_the_shell_does_not(sslzoo_, tmp_path):
    for name in ("b.png", "a.png", "c.jpg", "[d].png"):
        paint(tmp_path / name)
    code, out, _ = sslzoo_("embed", "simvae-digits", str(tmp_path / "*.png"), str(tmp_path / "[d].png"), "-o", "-")
    names = [Path(line.partition(",")[0]).name for line in out.splitlines()[1:]]
    assert code == 0 and names == ["[d].png", "a.png", "b.png", "[d].png"]
    code, _, err = sslzoo_("embed", "simvae-digits", str(tmp_path / "*.gif"), "-o", "-")
    assert code == 2 and "*.gif" in err


def test_an_error_is_no_longer_than_one_reads(sslzoo_):
    code, _, err = sslzoo_("embed", "simvae-digits", "x" * 100_000, "-o", "-")
    assert code == 2 and err.startswith("sslzoo: ") and err.count("\n") == 1 and len(err) < 5000


@pytest.mark.skipif(os.name == "nt" or sys.platform == "darwin", reason="their file names are text")
def test_names_that_are_no_text_are_embedded_and_printed(tmp_path):
    folder = os.fsencode(tmp_path / "in")
    os.mkdir(folder)
    shutil.copy(paint(tmp_path / "a.png"), folder + b"/caf\xe9.png")
    Path(os.fsdecode(folder + b"/bad\xe9.png")).write_bytes(b"x")
    done = process("embed", "simvae-digits", tmp_path / "in", "-o", tmp_path / "out.npz", "--on-error", "skip")
    out, err = done.communicate()
    assert done.returncode == 1, err
    assert "1 image," in out and "bad\\udce9.png" in err
    assert os.fsencode(str(load(tmp_path / "out.npz")["paths"][0])).endswith(b"caf\xe9.png")


def test_embed_is_a_function_of_arrays_paths_and_pictures(tmp_path):
    encoder = zoo.load("simvae-digits")
    paths = [paint(tmp_path / "in" / f"{name}.png", value=i) for i, name in enumerate("ba")]
    pictures = [Image.open(path) for path in paths]
    images = np.stack([np.asarray(picture) for picture in pictures])[..., None]
    expected = evaluation.features(encoder, images)
    for given in (images, images.astype("float32"), list(images), pictures, paths, list(map(str, paths))):
        embedding = sslzoo.embed(encoder, given)
        np.testing.assert_allclose(embedding.features, expected, atol=1e-6)
        assert (embedding.paths is None) == (embedding.index is not None) and not embedding.remarks
    by_name = sslzoo.embed("simvae-digits", tmp_path / "in", batch_size=1)  # a folder is read in the order of its paths
    np.testing.assert_allclose(by_name, expected[::-1], atol=1e-6)
    assert by_name.paths.tolist() == sorted(map(str, paths)) and len(by_name) == 2 and by_name.shape == (2, 3)
    posterior = sslzoo.embed("simvae-digits", images, part="posterior")
    np.testing.assert_allclose(posterior.features, expected, atol=1e-6)
    assert posterior.arrays().keys() == {"features", "log_var", "index", "model"}


def test_embed_fits_arrays_and_pictures_of_other_sizes():
    big = np.random.default_rng(0).integers(0, 256, (3, *SHAPE), "uint8").repeat(4, 1).repeat(4, 2)
    embedding = sslzoo.embed("simvae-digits", big)
    pictures = [Image.fromarray(image[..., 0]) for image in big]
    small = [picture.resize((8, 8), Image.Resampling.BILINEAR) for picture in pictures]
    for same in (pictures, small, np.stack(small)[..., None]):
        np.testing.assert_allclose(embedding, sslzoo.embed("simvae-digits", same), atol=1e-6)
    assert embedding.remarks == ["3 of 3 images were resized to 8 x 8 pixels"]
    deep = Image.fromarray(np.zeros((8, 8), "uint16"))
    skipped = sslzoo.embed("simvae-digits", [deep, Image.fromarray(big[0, ..., 0])], on_error="skip")
    assert skipped.index.tolist() == [1] and skipped.skipped[0][0] == "0" and "8 bits" in skipped.skipped[0][1]


@pytest.mark.parametrize("channels", [1, 3, 5])
def test_embed_leaves_arrays_as_they_are_for_an_encoder_of_any_size(channels):
    images = np.random.default_rng(0).uniform(0, 255, (4, 8, 6, channels))
    for expected in (channels, None):
        pool = keras.layers.GlobalAveragePooling2D()
        encoder = keras.Sequential([keras.Input((None, None, channels)), pool]) if expected else pool
        for given in (images, images.round().astype("uint8")):
            embedding = sslzoo.embed(encoder, given)
            np.testing.assert_allclose(embedding, given.mean((1, 2)), atol=1e-4)
            np.testing.assert_array_equal(embedding, evaluation.features(encoder, given))
            assert not embedding.remarks


def test_embed_gives_an_encoder_of_any_size_images_of_one(tmp_path):
    """Those of the first, where files or pictures have several, but for the sides that the encoder names."""
    paths = [tmp_path / f"{place}.png" for place in range(3)]
    for path, n in zip(paths, (1, 2, 1)):
        Image.new("L", (16, 8 * n), 50 * n).save(path)
    for height, remark in ((None, "1 of 3 images were cropped and resized to 8 x 16"), (4, "to 4 x 16 pixels")):
        encoder = keras.Sequential([keras.Input((height, None, 1)), keras.layers.GlobalAveragePooling2D()])
        for given in (paths, [Image.open(path) for path in paths]):
            embedding = sslzoo.embed(encoder, given)
            np.testing.assert_allclose(embedding.features[:, 0], [50, 100, 50], atol=1e-4)
            assert remark in embedding.remarks[0]


def test_embed_skips_files_that_are_gone(tmp_path):
    here, gone = paint(tmp_path / "a.png"), tmp_path / "gone.png"
    with pytest.raises(MissingDataError, match=r"gone\.png"):
        sslzoo.embed("simvae-digits", [here, gone])
    embedding = sslzoo.embed("simvae-digits", [here, gone], on_error="skip")
    assert embedding.paths.tolist() == [str(here)] and embedding.skipped == [(str(gone), "this is no file")]


@pytest.mark.parametrize(
    "images, arguments, message",
    [
        (np.zeros((2, 8, 8), "uint8"), {}, "add a channel axis"),
        (np.zeros((2, *SHAPE), "uint8"), {"split": "train"}, "Only one folder or one .npz has splits"),
        (np.zeros((2, *SHAPE), "uint8"), {"batch_size": 0}, "batch_size must be an integer >= 1. Received"),
        (np.zeros((2, *SHAPE), "uint8"), {"on_error": "ignore"}, "Unknown on_error"),
        (np.full((2, *SHAPE), 0.5), {}, "look scaled to 0..1"),
        ([], {}, "must be at least one"),
        ("nowhere", {}, "no such folder or file"),
    ],
)
def test_embed_refuses_what_is_no_image(images, arguments, message):
    with pytest.raises(sslzoo.errors.SSLZooError, match=message):
        sslzoo.embed("simvae-digits", images, **arguments)


# ------------------------------------------------------------------ evaluate


def test_evaluate_reports_what_the_function_reports(sslzoo_):
    words = ["evaluate", "simvae-digits", "--dataset", "digits", "--protocols", "knn", "--limit", "300"]
    code, out, _ = sslzoo_(*words)
    assert code == 0 and "simvae-digits on digits: 300 train and 360 test images" in out
    code, out, _ = sslzoo_(*words, "--protocols", "gmm", "--gmm-restarts", "1", "--json")  # beside knn, not for it
    report = evaluation.Report.from_json(out)
    expected = sslzoo.evaluate(zoo.load("simvae-digits"), "digits", "knn", max_train=300)
    assert code == 0 and report["knn"] == expected["knn"] and "gmm" in report.numbers


def test_evaluate_leaves_standard_output_to_the_answer(sslzoo_, monkeypatch):
    real = sslzoo.evaluate

    def chatty(*arguments, **kwargs):
        print("a progress bar")
        return real(*arguments, **kwargs)

    monkeypatch.setattr(sslzoo, "evaluate", chatty)
    words = ["evaluate", "simvae-digits", "--dataset", "digits", "--protocols", "knn", "--limit", "50", "--json"]
    code, out, err = sslzoo_(*words)
    assert code == 0 and json.loads(out) and "a progress bar" in err


def test_evaluate_tells_what_does_not_fit(sslzoo_):
    code, out, err = sslzoo_("evaluate", "mean-photos", "--dataset", "digits", "--protocols", "knn")
    assert code == 0 and "converted from gray to color" in out and "resized to 6 x 10 pixels" in out
    code, _, err = sslzoo_("evaluate", "simvae-digits", "--dataset", "digit")
    assert code == 2 and "Did you mean 'digits'" in err


def test_evaluate_without_a_data_set_takes_the_one_that_was_trained_on_or_says_why_not(sslzoo_, shelf, tmp_path):
    code, out, _ = sslzoo_("evaluate", "simvae-digits", "--protocols", "knn", "--limit", "50")
    assert code == 0 and "on digits" in out
    shutil.copytree(shelf / "weights" / "simvae-digits", tmp_path / "bare")
    (tmp_path / "bare" / "results.json").unlink()
    zoo.load("simvae-digits").save(tmp_path / "alone.keras")
    (tmp_path / "empty").mkdir()
    for name, message in {
        "simvae-digit": "UnknownNameError: .*Did you mean 'simvae-digits'",
        "nowhere/simvae": "No such folder or file",
        "empty": "Expected a model folder",
        "bare": r"A model folder holds results\.json",
        "alone.keras": "nothing here says which.*trained on None$",
        "mean-photos": "only their owner has them.*trained on 'photos'$",
        "hf://someone/model": "nothing here says which.*trained on None$",
    }.items():
        code, out, err = sslzoo_("evaluate", name)
        assert code == 2 and not out and re.search(message, err.strip()), err


@pytest.mark.slow
def test_evaluate_leaves_no_picture_of_an_earlier_evaluation(sslzoo_, tmp_path):
    words = ["evaluate", "simvae-digits", "--dataset", "digits", "--limit", "60", "--epochs", "1", "--out", "measured"]
    pictures = tmp_path / "measured" / "pictures"
    pictures.mkdir(parents=True)
    (tmp_path / "measured" / "report.json").write_text("{}")  # nor is this ours
    (pictures / "classes.png").write_bytes(b"somebody's")
    (pictures / "mine.png").write_bytes(b"mine")
    assert sslzoo_(*words, "--protocols", "linear")[0] == 0
    ours, theirs = {"confusion_linear.png", "neighbors.png", "embedding.png"}, {"classes.png", "mine.png"}
    assert {path.name for path in pictures.iterdir()} == ours | theirs  # there was no report that they belonged to
    before = (pictures / "embedding.png").stat().st_mtime_ns
    assert sslzoo_(*words, "--protocols", "mlp")[0] == 0
    assert {path.name for path in pictures.iterdir()} == {
        "confusion_mlp.png",
        "neighbors.png",
        "embedding.png",
        "mine.png",
    }
    assert (pictures / "embedding.png").stat().st_mtime_ns > before and (pictures / "mine.png").read_bytes() == b"mine"
    report = evaluation.Report.from_json((tmp_path / "measured" / "report.json").read_text(encoding="utf-8"))
    assert list(report) == ["mlp"] and report.encoder == "simvae-digits"


def test_a_drawing_that_fails_loses_no_number(sslzoo_, tmp_path, monkeypatch):
    from sslzoo.evaluation import pictures

    def full(*_, **__):
        raise OSError("No space left on device")

    monkeypatch.setattr(pictures, "embedding", full)
    words = ["evaluate", "simvae-digits", "--dataset", "digits", "--limit", "60", "--protocols", "knn", "--out", "kept"]
    code, out, err = sslzoo_(*words)
    assert code == 2 and not out and "No space left" in err
    report = evaluation.Report.from_json((tmp_path / "kept" / "report.json").read_text(encoding="utf-8"))
    assert "knn" in report and "# simvae-digits" in (tmp_path / "kept" / "report.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "out, message",
    [
        ("file", r"--out must be a folder.*no folder\. Received: --out='file'"),
        ("file/below", "--out must be a folder"),
        ("taken", r"room for the file report\.json"),
        ("blocked", r"pictures must be a folder"),
        ("sealed/below", r"'sealed' is not writable"),
    ],
)
def test_evaluate_refuses_a_place_that_cannot_be_written_before_it_measures(
    sslzoo_, tmp_path, monkeypatch, out, message
):
    (tmp_path / "file").write_text("here")
    (tmp_path / "taken" / "report.json").mkdir(parents=True)
    (tmp_path / "blocked").mkdir()
    (tmp_path / "blocked" / "pictures").write_text("here")
    (tmp_path / "sealed").mkdir()
    access = os.access  # whoever is root may write anywhere
    monkeypatch.setattr(os, "access", lambda path, mode: "sealed" not in str(path) and access(path, mode))
    monkeypatch.setattr(zoo, "load", None)
    code, _, err = sslzoo_("evaluate", "simvae-digits", "--dataset", "digits", "--out", out)
    assert code == 2 and re.search(message, err)


# ------------------------------------------------------------------ publish, verify


def test_publish_passes_on_what_was_asked(sslzoo_, monkeypatch, tmp_path):
    asked = []
    answer = {
        "name": "x-digits",
        "repository": "me/x",
        "url": "https://huggingface.co/me/x",
        "revision": "a" * 40,
        "created": True,
        "changed": ["config.json"],
        "removed": [],
        "pull_request": None,
        "manifest": "m.json",
        "notes": ["The card was kept"],
    }

    def publish(*arguments, **kwargs):
        asked.append((arguments, kwargs))
        return answer

    monkeypatch.setattr(publishing, "publish", publish, raising=False)
    code, out, _ = sslzoo_("publish", "folder", "me/x")
    defaults = {"private": None, "create_pr": False, "manifest": None, "overwrite_card": False, "dry_run": False}
    assert code == 0 and asked == [((Path("folder"), "me/x"), defaults)]
    for part in ("https://huggingface.co/me/x", "a" * 40, "1 files changed", "Pinned in m.json", "The card was kept"):
        assert part in out
    flags = ("--private", "--create-pr", "--overwrite-card", "--no-manifest", "--dry-run", "--json")
    code, out, _ = sslzoo_("publish", "folder", "me/x", *flags)
    assert asked[1][1] == dict.fromkeys(defaults, True) | {"manifest": False}
    assert code == 0 and json.loads(out) == answer
    sslzoo_("publish", "folder", "me/x", "--public", "--manifest", "other.json")
    assert asked[2][1] == defaults | {"private": False, "manifest": Path("other.json")}


def test_a_dry_run_says_what_would_be_sent(sslzoo_, monkeypatch):
    answer = dict.fromkeys(("revision", "pull_request", "manifest"))
    answer |= {"name": "x-digits", "repository": "me/x", "url": "https://huggingface.co/me/x", "created": True}
    answer |= {"changed": ["config.json"], "removed": ["decoder/config.json"], "notes": ["The card is kept"]}
    monkeypatch.setattr(publishing, "publish", lambda *_, dry_run, **__: answer, raising=False)
    code, out, _ = sslzoo_("publish", "folder", "me/x", "--dry-run")
    assert code == 0 and out.splitlines() == [
        "x-digits: nothing was sent to https://huggingface.co/me/x, a repository that would be made",
        "would send config.json",
        "would remove decoder/config.json",
        "The card is kept",
    ]


def test_publish_checks_before_it_sends(sslzoo_, tmp_path):
    code, out, err = sslzoo_("publish", tmp_path, "me/x", "--no-manifest")
    assert code == 2 and not out and "results.json" in err and err.count("\n") == 1


def test_the_hubs_refusals_are_one_line(sslzoo_, monkeypatch):
    def publish(*_, **__):
        raise HubError("You may not write there.\nLog in. Received: repo_id='me/x'")

    monkeypatch.setattr(publishing, "publish", publish, raising=False)
    assert sslzoo_("publish", "folder", "me/x") == (
        2,
        "",
        "sslzoo: HubError: You may not write there. Log in. Received: repo_id='me/x'\n",
    )


def test_manifest_enters_folders(sslzoo_, shelf, monkeypatch):
    monkeypatch.setenv("SSLZOO_MANIFEST", "new.json")
    folder = shelf / "weights" / "simvae-digits"
    assert sslzoo_("manifest", folder) == (0, f"{folder}: entered\n", "")
    assert sslzoo_("manifest", folder)[1] == f"{folder}: unchanged\n"
    assert index.read("new.json") == {"simvae-digits": index.read(shelf / "manifest.json")["simvae-digits"]}
    code, out, _ = sslzoo_("manifest", folder, "--manifest", "other.json", "--organization", "me", "--json")
    assert code == 0 and json.loads(out) == {"manifest": "other.json", "changed": {str(folder): True}}
    assert index.read("other.json")["simvae-digits"]["repository"] == "me/simvae-digits"
    code, _, err = sslzoo_("manifest", "nowhere")
    assert code == 2 and err.startswith("sslzoo: ArtifactError") and err.count("\n") == 1
    monkeypatch.delenv("SSLZOO_MANIFEST")
    monkeypatch.setattr(index, "path", lambda: Path(index.__file__).parents[1] / index.FILE)
    code, _, err = sslzoo_("manifest", folder)
    assert code == 2 and "An installed package's manifest is not changed" in err


# ------------------------------------------------------------------ tags


def test_names_say_their_recipe(sslzoo_, shelf, monkeypatch, tmp_path):
    """Another variant or seed than the default has a tag, and all that goes by name follows."""
    tagged = "simvae-digits.seed1"
    encoder = {"encoder": zoo.load("simvae-digits")}
    folder = artifact.write(tmp_path / "weights" / tagged, **encoder, **facts(tagged, "SimVAE", "digits", METRICS))
    shutil.copy(shelf / "manifest.json", "both.json")
    monkeypatch.setenv("SSLZOO_MANIFEST", "both.json")
    monkeypatch.setenv("SSLZOO_WEIGHTS", str(tmp_path / "weights"))
    monkeypatch.setattr(loading, "weight_folders", lambda: [tmp_path / "weights", shelf / "weights"])
    assert sslzoo_("manifest", folder)[0] == 0
    assert index.read()[tagged]["repository"] == f"sslzoo/{tagged}"
    assert [model["name"] for model in sslzoo.list_models(tag="seed1")] == [tagged]
    assert [model["name"] for model in sslzoo.list_models("simvae", tag="default")] == ["simvae-digits"]
    assert [(m["name"], m["tag"]) for m in sslzoo.list_models("simvae")] == [("simvae-digits", None), (tagged, "seed1")]
    assert sslzoo.load(tagged).output_shape == (None, 3)
    code, out, _ = sslzoo_("list", "--tag", "seed1", "--json")
    assert code == 0 and [model["name"] for model in json.loads(out)] == [tagged]
    assert sslzoo_("list", "--tag", "sead1")[0] == 2 and "seed1, not the default" in sslzoo_("info", tagged)[1]
    assert "`seed1` is the tag" in (folder / "README.md").read_text()
    assert sslzoo_("verify", tagged)[0] == 0


def test_models_of_ones_own_folder_are_listed(sslzoo_, shelf, monkeypatch, tmp_path):
    encoder = {"encoder": zoo.load("simvae-digits")}
    artifact.write(tmp_path / "mine" / "mine-digits", **encoder, **facts("mine-digits", "SimVAE", "digits", METRICS))
    (tmp_path / "mine" / "broken").mkdir()
    (tmp_path / "mine" / "broken" / "config.json").write_text("{}")
    monkeypatch.setattr(loading, "weight_folders", lambda: [tmp_path / "mine", shelf / "weights"])
    with pytest.warns(UserWarning, match="Not listed: .*broken"):
        models = sslzoo.list_models("simvae")
    assert [model["name"] for model in models] == ["mine-digits", "simvae-digits"]
    assert models[0]["local"] and models[0]["features"] == models[1]["features"]
    assert "mine-digits" in str(models)
    shutil.rmtree(tmp_path / "mine" / "broken")
    shutil.copytree(tmp_path / "mine" / "mine-digits", tmp_path / "mine" / "ours.big")  # known by its folder's name
    assert [(model["name"], model["tag"]) for model in sslzoo.list_models(tag="big")] == [("ours.big", "big")]
    assert (found := sslzoo.info("ours.big"))["name"] == "ours.big" and found["tag"] == "big"
    assert sslzoo.info(tmp_path / "mine" / "ours.big")["name"] == "mine-digits"
    shutil.copytree(tmp_path / "mine" / "mine-digits", tmp_path / "mine" / "run" / "mine-digits")
    with pytest.warns(UserWarning, match="Of two models of one name.*mine.run.mine-digits"):
        assert len(sslzoo.list_models()) == len(models) + 2


def test_verify_compares_files_with_the_manifest(sslzoo_, shelf, tmp_path, monkeypatch):
    code, out, _ = sslzoo_("verify")
    assert code == 0 and out.count("ok: ") == 2
    folder = Path(shutil.copytree(shelf / "weights", tmp_path / "weights"))
    monkeypatch.setattr(loading, "weight_folders", lambda: [folder])
    with open(folder / "simvae-digits" / "model.weights.h5", "ab") as file:
        file.write(b"x")
    code, out, _ = sslzoo_("verify")
    assert code == 1 and "FAILED: simvae-digits" in out and "model.weights.h5 has sha256" in out
    code, out, _ = sslzoo_("verify", "--json")
    assert code == 1 and {f["name"]: f["ok"] for f in json.loads(out)} == {"mean-photos": True, "simvae-digits": False}
    assert sslzoo_("verify", "mean-photos")[0] == 0


def test_verify_of_nothing_is_no_success(sslzoo_, tmp_path, monkeypatch):
    monkeypatch.setattr(loading, "weight_folders", lambda: [tmp_path])
    code, out, _ = sslzoo_("verify", "simvae-digits")
    assert code == 1 and "not checked: simvae-digits" in out
