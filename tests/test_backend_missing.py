"""Without a backend, Python says so in the sentence that the shell has."""

import os
import subprocess
import sys
from pathlib import Path

import keras
import pytest

import sslzoo
from sslzoo import environment

ROOT = Path(sslzoo.__file__).parent.parent
CODE = """
import importlib.util
find_spec = importlib.util.find_spec
missing = {}
importlib.util.find_spec = lambda name, *a: None if name in missing else find_spec(name, *a)
import sslzoo
{}
"""


@pytest.mark.parametrize(
    "call",
    [
        'sslzoo.load("simvae-digits")',
        'sslzoo.evaluate("simvae-digits", "digits")',
        "sslzoo.embed",
        "sslzoo.data.load",
        "from sslzoo.methods import SimVAE",
        "import sslzoo.views",
        "import sslzoo.optimizers",
        "from sslzoo.publishing import write",
        "from sslzoo.training import Run",
    ],
)
def test_a_backend_that_is_not_installed_is_named_in_one_sentence(call, tmp_path):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "KERAS_HOME": str(tmp_path)}
    environment.pop("KERAS_BACKEND", None)
    command = [sys.executable, "-c", CODE.format(["tensorflow"], call)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "Traceback" in done.stderr and "keras/src" not in done.stderr
    assert "BackendError: Keras runs on the backend that KERAS_BACKEND names" in done.stderr
    assert "pip install tensorflow" in done.stderr.splitlines()[-1]


def test_the_only_backend_that_is_installed_is_taken(tmp_path):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "KERAS_HOME": str(tmp_path)}
    environment.pop("KERAS_BACKEND", None)
    others = [name for name in ("tensorflow", "jax", "torch") if name != keras.backend.backend()]
    code = CODE.format(others, "sslzoo.load; import keras; print(keras.backend.backend())")
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [keras.backend.backend()]


def test_without_a_home_folder_it_is_keras_own_default(monkeypatch):
    def home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("KERAS_HOME", raising=False)
    monkeypatch.setattr(Path, "home", home)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert environment._configured_backend() == "tensorflow"
