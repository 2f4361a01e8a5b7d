"""Every public class, network and loss shows how it is used, in a few lines that run."""

import importlib
import inspect
import pkgutil
import re
import textwrap

import keras
import numpy as np
import pytest
from keras import ops
from tiers import tiered

import sslzoo
from sslzoo import losses, networks

ASSUMED = {"np": np, "losses": losses, "networks": networks}  # as `sslzoo.losses` and `sslzoo.networks` say


def public():
    """Name as a user writes it, "methods.SimCLR" -> class or function; also what a room keeps in a file of its own."""
    names = {}
    for found in pkgutil.walk_packages(sslzoo.__path__, "sslzoo."):
        if found.name.endswith("__main__"):
            continue
        module = importlib.import_module(found.name)
        room = found.name.removeprefix("sslzoo.")
        listed = getattr(module, "__all__", None)
        for name in listed or [name for name in vars(module) if not name.startswith("_")]:
            item = getattr(module, name)
            own = getattr(item, "__module__", "") == found.name
            if (inspect.isclass(item) or inspect.isfunction(item)) and (listed or own):
                names[f"{room}.{name}"] = item
    return names


def example(item):
    """The code under "Example:" in a docstring, or None."""
    lines = (inspect.getdoc(item) or "").split("\n") if vars(item).get("__doc__", item.__doc__) else []
    if whole := re.match(r"The (?:two terms|parts) of `(\w+)`", lines[0] if lines else ""):  # a loss in parts
        return example(getattr(losses, whole[1])).replace(f"losses.{whole[1]}(", f"losses.{item.__name__}(")
    if "Example:" not in lines:
        return None
    lines = lines[lines.index("Example:") + 1 :]
    end = next((i for i, line in enumerate(lines) if line and not line.startswith("    ")), len(lines))
    return textwrap.dedent("\n".join(lines[:end])).strip("\n")


PUBLIC = public()
EXAMPLES = {}  # each once, under the shortest name that leads to it
for path, item in sorted(PUBLIC.items(), key=lambda pair: len(pair[0])):
    if example(item) and item not in [PUBLIC[known] for known in EXAMPLES]:
        EXAMPLES[path] = item


def with_bases(item):
    """A function; a class and its bases: methods of one family are used alike, and `METHODS` by one example each."""
    return [base for base in item.__mro__ if base is not object] if inspect.isclass(item) else [item]


def run(code):
    exec(compile(code, "<example>", "exec"), {"__name__": "example", **ASSUMED})


# The battery fits every method, so examples that do may wait.
@pytest.mark.parametrize(
    "name", tiered(EXAMPLES, {path for path in EXAMPLES if ".fit(" not in example(EXAMPLES[path])})
)
def test_the_example_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = example(EXAMPLES[name])
    assert "sslzoo" in code or name.startswith(("losses.", "networks.")), "an example imports what it uses"
    run(code)


def test_every_public_class_network_and_loss_has_an_example():
    needed = set()
    for path, item in PUBLIC.items():
        room, _, name = path.partition(".")
        if not inspect.isclass(item):
            wanted = room in ("losses", "networks") and name in importlib.import_module(f"sslzoo.{room}").__all__
        else:
            wanted = "." not in name and room not in ("errors", "checks", "files", "cli")
        if wanted:
            needed.add(path)
    lacking = {path for path in needed if not any(map(example, with_bases(PUBLIC[path])))}
    assert lacking == set()
    assert len(needed) > 60


def undocumented(item):
    """Parameters that the section "Args" of a docstring leaves out; none where there is no such section."""
    section = re.search(r"^Args:\n((?: .*\n?|\n)+)", inspect.getdoc(item) or "", re.MULTILINE)
    lines = re.findall(r"^ {4}(\S[^:]*):", section[1], re.MULTILINE) if section else []
    documented = set(re.findall(r"\w+", " ".join(lines)))
    makes = item.__init__ if inspect.isclass(item) else item
    named = [
        p.name for p in inspect.signature(makes).parameters.values() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
    ]
    return [name for name in named if section and name not in ("self", *documented)]


def test_args_name_every_parameter():
    own = {path: item for path, item in PUBLIC.items() if item.__module__.startswith("sslzoo.")}
    lacking = {path: undocumented(item) for path, item in own.items() if vars(item).get("__doc__")}
    assert {path: names for path, names in lacking.items() if names} == {}


# ---------------------------------------------------------------- losses take arrays and tensors alike

rng = np.random.default_rng(7)
# What examples leave out.
OPTIONS = {
    "sinkhorn": {"weights": rng.uniform(size=32)},
    "group_prior": {"center_variance": 1.0},
    "corinfomax_terms": {"covariances": np.stack([np.eye(8)] * 2)},
    "proto_cpc": {"prior": rng.dirichlet(np.ones(5))},
    "swapped_prediction": {"queue": rng.uniform(-1, 1, (2, 16, 5)), "queue_weights": np.ones(16)},
    "pseudo_label_terms": {"weights": rng.uniform(size=32)},
}


@pytest.mark.parametrize("options", [False, True], ids=["", "options"])
@pytest.mark.parametrize("name", losses.__all__)
def test_a_loss_takes_arrays_as_readily_as_tensors(name, options, monkeypatch):
    """With the arguments of its example: float64 arrays, float32 arrays, tensors, and a tensor among arrays."""
    if options and name not in OPTIONS:
        pytest.skip("nothing is optional")
    loss, calls = getattr(losses, name), []
    monkeypatch.setattr(losses, name, lambda *args, **named: calls.append((args, named)) or loss(*args, **named))
    run(example(loss))
    args, named = calls[-1]
    named = {**named, **(OPTIONS[name] if options else {})}
    given = keras.tree.flatten((args, named))
    assert any(isinstance(value, np.ndarray) for value in given)

    def single(value):
        return (
            value.astype({"f": "float32", "i": "int32"}.get(value.dtype.kind, value.dtype))
            if is_array(value)
            else value
        )

    def tensor(value):
        return ops.convert_to_tensor(single(value)) if is_array(value) else value

    def first_tensor(value):
        return tensor(value) if value is next(filter(is_array, given)) else value

    results = []
    for change in (tensor, lambda value: value, single, first_tensor):
        a, k = keras.tree.map_structure(change, (args, named))
        result = keras.tree.flatten(loss(*a, **k))
        dtypes = {keras.backend.standardize_dtype(part.dtype) for part in result}
        assert dtypes <= {"float32"} or name in ("nearest", "within")  # which tell places and members
        results.append([ops.convert_to_numpy(part) for part in result])
    for other in results[1:]:
        for ours, theirs in zip(other, results[0], strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def is_array(value):
    return isinstance(value, np.ndarray)
