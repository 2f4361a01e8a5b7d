"""Promises of the package as a whole: what importing it costs, and what it may depend on."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import keras
import pytest

import sslzoo

ROOT = Path(sslzoo.__file__).parent


def run(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_importing_sslzoo_loads_neither_keras_nor_a_backend():
    heavy = run(
        "import sys, sslzoo; print([m for m in ('keras', 'tensorflow', 'jax', 'torch', 'numpy') if m in sys.modules])"
    )
    assert heavy.strip() == "[]"


def test_every_public_name_resolves():
    for name in sslzoo.__all__:
        assert getattr(sslzoo, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'lod'"):
        sslzoo.lod  # noqa: B018


FILES = sorted(ROOT.rglob("*.py"))


def place(path):
    return path.relative_to(ROOT).as_posix()


# The rooms in the order in which data flows through them. Nothing imports what stands to its right.
FLOW = [
    "lazy",
    "errors",
    "files",
    "environment",
    "backend",
    "checks",
    "constructors",
    "processes",
    "progress",
    "data",
    "augment",
    "views",
    "networks",
    "losses",
    "optimizers",
    "methods",
    "zoo",
    "evaluation",
    "publishing",
    "callbacks",
    "training",
    "downstream",
    "cli",
]


def imported_rooms(path):
    """Every room that a file imports, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules = [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name their room"
            deeper = node.module == "sslzoo"
            modules = [f"sslzoo.{name.name}" for name in node.names] if deeper else [node.module]
        else:
            continue
        for module in modules:
            if module.startswith("sslzoo."):
                yield module.split(".")[1]


@pytest.mark.parametrize("path", [p for p in FILES if place(p) not in ("__init__.py", "__main__.py")], ids=place)
def test_nothing_imports_what_stands_to_its_right(path):
    own = FLOW.index(place(path).partition("/")[0].removesuffix(".py"))
    assert [room for room in imported_rooms(path) if FLOW.index(room) > own] == []


# File -> what it may name beyond Keras' public face: sources reads TFDS and tf.data; transform makes layers that run
# inside tf.data under any backend, which only a private base class of Keras can; fusing makes several steps one
# program under JAX, as Keras does from 3.16 on, and asks PyTorch whether there are several processes; state takes
# gradients by inputs, for which Keras has no operation; processes, which Keras only joins, agree through JAX; features
# of a torch.nn.Module are taken under any backend; transposed gives JAX a gradient that is fast on a CPU, and
# PyTorch images as they lie; normalization runs the fused kernels of TensorFlow and PyTorch; memory asks each for what
# its GPU holds.
ALLOWED = {
    "callbacks/memory.py": {"tensorflow", "jax", "torch"},
    "processes.py": {"jax"},
    "data/sources.py": {"tensorflow", "tensorflow_datasets"},
    "augment/transform.py": {"keras.src"},
    "methods/fusing.py": {"jax", "torch"},
    "networks/transposed.py": {"jax", "torch"},
    "networks/normalization.py": {"tensorflow", "torch"},
    "methods/state.py": {"tensorflow", "jax", "torch"},
    "evaluation/features.py": {"torch"},
}


@pytest.mark.parametrize("path", FILES, ids=place)
def test_no_backend_outside_its_room(path):
    pattern = r"^\s*(?:from|import)\s+(tensorflow_datasets|tensorflow|jax|torch|keras\.src)\b"
    found = set(re.findall(pattern, path.read_text(), re.MULTILINE))
    assert found <= ALLOWED.get(place(path), set())


@pytest.mark.skipif(keras.backend.backend() == "tensorflow", reason="this is about the other two")
def test_trains_without_tensorflow_installed(tmp_path):
    recipe = ROOT.parent / "recipes" / "vae.py"
    blocked = f"""
import runpy, sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("tensorflow", "tensorflow_datasets", "tensorboard"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Blocked())
import importlib.util
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name.startswith("tensor") else find_spec(name, package)
sys.argv = ["vae.py", "--epochs", "1", "--limit", "120", "--protocols", "knn", "--out", {str(tmp_path / "run")!r}]
runpy.run_path({str(recipe)!r}, run_name="__main__")
assert "tensorflow" not in sys.modules
"""
    assert "Wrote" in run(blocked)


def test_what_is_overridden_of_keras_is_still_called_so():
    """A hook that Keras renames would never be called again, without an error."""
    hooks = {
        keras.optimizers.Muon: ("_should_use_adamw", "zeropower_via_newtonschulz5", "lr_adjust"),
        keras.optimizers.Optimizer: ("update_step", "_apply_weight_decay", "_use_weight_decay"),
        keras.Model: ("compute_loss", "make_train_function", "make_test_function", "make_predict_function"),
        keras.layers.Layer(): ("_flatten_layers", "_trainable_variables", "_non_trainable_variables"),
    }
    missing = [(owner, hook) for owner, names in hooks.items() for hook in names if not hasattr(owner, hook)]
    assert not missing
