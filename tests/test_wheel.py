"""The wheel, in a fresh environment outside the checkout: trains and loads with what it carries, without a network."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import numpy as np
import pytest

import sslzoo
from sslzoo.zoo import index

pytestmark = pytest.mark.slow

ROOT = Path(sslzoo.__file__).parent.parent
COMMITTED = sorted(path.parent for path in (ROOT / "weights").glob("*/results.json"))
ENCODER = ("config.json", "metadata.json", "model.weights.h5", "results.json")
DECODERS = {f"weights/{name}/decoder/{file}" for name in ("simvae-digits", "simvae-mnist") for file in ENCODER[:3]}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    pytest.importorskip("setuptools", minversion="77")
    root = tmp_path_factory.mktemp("wheel")
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if files.returncode:
        pytest.skip("the files of a source tree are asked of git")
    for file in filter(lambda name: (ROOT / name).is_file(), files.stdout.split("\0")):
        if file.split("/")[0] not in ("tests", "benchmarks", "examples"):
            (root / "source" / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, root / "source" / file)
    before = sorted(root.rglob("*"))
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q", "-w", "out", "./source"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    made = {path.name for path in set(root.rglob("*")) - set(before) if "build" not in path.parts}
    assert not made & {"weights", "recipes", index.FILE}  # building leaves the package's source as it is
    [path] = (root / "out").glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Runs a command with the wheel installed, and of the checkout nothing to be seen."""
    root = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "env"], cwd=root, check=True)
    scripts = root / "env" / ("Scripts" if os.name == "nt" else "bin")
    python = scripts / "python"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SSLZOO_", "PYTHON"))}
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", "-q", str(wheel)]
    subprocess.run(pip, cwd=root, env=environment, check=True)
    # What sslzoo depends on is this environment's; as a plain line of paths it brings no editable install along.
    [site] = {path for path in (root / "env").rglob("site-packages") if path.is_dir() and "lib64" not in path.parts}
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (root / "elsewhere").mkdir()
    environment |= {"HF_HUB_OFFLINE": "1", "PATH": f"{scripts}{os.pathsep}{environment['PATH']}"}

    def run(*command, code=0):
        done = subprocess.run(
            command, cwd=root / "elsewhere", env=environment, capture_output=True, text=True, timeout=900, check=False
        )
        assert done.returncode == code, done.stderr[-3000:]
        return done.stdout, done.stderr

    return run


def test_the_wheel_carries_encoders_recipes_and_the_manifest_and_is_small(wheel):
    assert wheel.stat().st_size < 100_000_000
    with zipfile.ZipFile(wheel) as archive:
        carried = {name.removeprefix("sslzoo/") for name in archive.namelist() if name.startswith("sslzoo/")}
        assert archive.read(f"sslzoo/{index.FILE}") == (ROOT / index.FILE).read_bytes()
        for recipe in (ROOT / "recipes").glob("*.py"):
            assert archive.read(f"sslzoo/recipes/{recipe.name}") == recipe.read_bytes()
    folders = {name.split("/")[1] for name in carried if name.startswith("weights/")}
    assert folders <= {folder.name for folder in COMMITTED}
    assert {name for name in carried if name.startswith("weights/")} == {
        f"weights/{folder}/{file}" for folder in folders for file in ENCODER
    } | DECODERS
    first = [folder.name for folder in COMMITTED if folder.name.startswith(("simvae-", "simclr-", "moco-", "vicreg-"))]
    assert set(first) <= folders


def test_what_does_not_fit_is_left_out_by_rank_and_not_by_size(tmp_path):
    spec = importlib.util.spec_from_file_location("wheel_of_sslzoo", ROOT / "setup.py")
    setup = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(setup)
    sizes = {"simvae-b": 500, "simclr-a": 300, "ball-a": 10, "vicreg-a": 10, "wmse-a": 10}
    for name, size in sizes.items():
        (tmp_path / name).mkdir()
        for file in ENCODER:
            (tmp_path / name / file).write_bytes(bytes(size if file == "model.weights.h5" else 0))
    for most, expected in (
        (900, ["simvae-b", "simclr-a", "vicreg-a", "ball-a", "wmse-a"]),
        (815, ["simvae-b", "simclr-a", "vicreg-a"]),
    ):
        assert [folder.name for folder in setup.models(tmp_path, most)] == expected


def test_carried_encoders_load_without_checkout_and_network(wheel, installed):
    code = """
import json, numpy as np, sslzoo
from sslzoo.zoo.loading import local_models
answer = {"package": sslzoo.__file__, "names": sorted(local_models()), "features": {}, "listed": {}}
for model in sslzoo.list_models():
    answer["listed"][model["name"]] = model["local"]
for name in answer["names"][::20]:
    encoder = sslzoo.load(name)
    height, width, channels = encoder.input_shape[1:]
    images = np.arange(2 * height * width * channels).reshape(2, height, width, channels) % 256
    answer["features"][name] = np.asarray(encoder.predict(images.astype("uint8"), verbose=0)).tolist()
print(json.dumps(answer))
"""
    answer = json.loads(installed("python", "-c", code)[0].splitlines()[-1])
    assert not Path(answer["package"]).is_relative_to(ROOT)
    assert answer["names"] and all(answer["listed"][name] == (name in answer["names"]) for name in answer["listed"])
    with zipfile.ZipFile(wheel) as archive:
        for name in answer["names"]:
            for file in ENCODER:
                carried = archive.read(f"sslzoo/weights/{name}/{file}")
                assert carried == (ROOT / "weights" / name / file).read_bytes(), (name, file)
    for name, features in answer["features"].items():
        encoder = sslzoo.load(ROOT / "weights" / name)
        images = np.arange(2 * np.prod(encoder.input_shape[1:])).reshape(2, *encoder.input_shape[1:]) % 256
        np.testing.assert_allclose(encoder.predict(images.astype("uint8"), verbose=0), features, atol=1e-4)


def test_what_the_wheel_leaves_out_says_where_it_is(installed):
    recipe = index.read(ROOT / index.FILE)["simvae-digits"]["recipe"]
    _, err = installed("python", "-c", 'import sslzoo; sslzoo.load("simvae-digits", part="posterior")', code=1)
    assert "HubError: part 'posterior' of simvae-digits is not published yet" in err
    assert "the folder weights/ of a checkout, which holds weights/simvae-digits" in err
    assert "SSLZOO_WEIGHTS" in err and recipe in err


def test_carried_files_verify(installed):
    out, _ = installed("sslzoo", "verify", "simvae-digits", "--json")
    [finding] = json.loads(out)
    assert finding["ok"] and finding["files"] == len(ENCODER) + 1 and "site-packages" in finding["place"]


def test_the_first_snippet_of_the_readme_runs(installed):
    [snippet] = re.findall(
        r"## Load an encoder\n\n```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL
    )
    out, _ = installed("python", "-c", snippet + "print(features.shape, again.shape)")
    assert out.splitlines()[-1] == "(360, 10) (360, 8, 8, 1)"


def test_an_installed_recipe_trains_and_what_it_wrote_loads(installed):
    flags = ["--epochs", "1", "--limit", "120", "--batch-size", "40", "--protocols", "knn", "--out", "run"]
    out, err = installed("sslzoo", "train", "vae", *flags)
    assert Path(out.strip()).parts[-3:] == ("elsewhere", "run", "vae-digits") and "kNN" in err
    loaded = installed("python", "-c", f"import sslzoo; print(sslzoo.load({out.strip()!r}).output_shape)")[0]
    assert loaded.strip() == "(None, 10)"


def test_every_recipe_is_a_method_of_the_shell(installed):
    out, _ = installed("sslzoo", "train", "--help")
    words = re.sub(r"-\n *", "-", out).replace(",", " ").replace(".", " ").split()  # long names are broken at a hyphen
    recipes = {path.stem.replace("_", "-") for path in (ROOT / "recipes").glob("*.py")}
    assert recipes - {"zoo"} <= set(words)  # that one trains all the others
    _, err = installed("sslzoo", "train", "simvea", code=2)
    assert "Unknown method. Did you mean 'simvae'" in err
    out, _ = installed("sslzoo", "train", "simvae", "--help")
    assert "usage: sslzoo train simvae" in out and "--max-minutes" in out and "--variant" in out
