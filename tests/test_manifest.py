"""The manifest of published models: what is committed is true, what is damaged is named, nothing points outside."""

import copy
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sslzoo.errors import ArtifactError, InvalidInputError, ManifestError
from sslzoo.files import sha256
from sslzoo.publishing import artifact, manifest
from sslzoo.zoo import index, layout, listing
from sslzoo.zoo.results import is_name, read_results

ROOT = Path(index.__file__).resolve().parents[2]
COMMITTED = sorted(path.parent for path in (ROOT / "weights").glob("*/results.json"))


def entry(**changes):
    return {
        "method": "SimVAE",
        "dataset": "mnist",
        "repository": "sslzoo/simvae-mnist",
        "revision": "0123456789" * 4,
        "sha256": "a" * 64,
        "parts": ["encoder", "decoder"],
        "bytes": 10,
        "input_shape": [28, 28, 1],
        "features": 10,
        "parameters": 1000,
        "recipe": "python recipes/simvae.py",
        "metrics": [{"name": "knn.accuracy", "value": 97.5}],
        "license": "apache-2.0",
    } | changes


def text(models=None, **changes):
    return json.dumps({"schema": 2, "models": {"simvae-mnist": entry()} if models is None else models} | changes)


# ------------------------------------------------------------------ what is committed


@pytest.mark.parametrize("folder", COMMITTED, ids=lambda folder: folder.name)
def test_committed_weights_are_what_the_manifest_says(folder):
    """After a change of weights: sslzoo manifest weights/*"""
    entries = index.read(ROOT / index.FILE)
    made = index.entry(folder, f"sslzoo/{folder.name}")
    assert entries[folder.name] | {"revision": None} == made
    results = read_results(folder)
    assert results["files"] == artifact.hashes(folder) and made["metrics"] and made["parameters"] > 0
    assert "licence" not in results and (results.get("ended") == "epochs" or results["views_seen"] == 0)


@pytest.mark.parametrize("file", ["measured/few_labels", "measured/transfer", "results/without_labels/measures"])
def test_numbers_kept_elsewhere_are_of_the_weights_that_are_there(file):
    """After a change of weights: benchmarks/few_labels.py NAME, transfer.py NAME, without_labels.py --datasets D"""
    held = json.loads((ROOT / "benchmarks" / f"{file}.json").read_text())
    if "entries" in held:
        held = {each["name"]: each for of_set in held["entries"].values() for each in of_set}
    now = {folder.name: read_results(folder)["files"][layout.WEIGHTS] for folder in COMMITTED}
    assert {name: each["weights"] for name, each in held.items()} == {name: now[name][:12] for name in held}


def test_the_manifest_is_small():
    assert (ROOT / index.FILE).stat().st_size < 60_000


def test_every_entry_can_be_had():
    for name, found in index.read(ROOT / index.FILE).items():
        assert found["revision"] is not None or (ROOT / "weights" / name / layout.CONFIG).is_file(), name


# ------------------------------------------------------------------ read


def test_entries_come_back_sorted_as_they_were_written(tmp_path):
    models = {"vae-mnist": entry(revision=None), "simvae-mnist": entry()}
    file = manifest.write(models, tmp_path / "new" / "manifest.json")
    found = index.read(file)
    assert list(found) == ["simvae-mnist", "vae-mnist"] and found == models
    assert json.loads(file.read_text())["schema"] == 2
    assert [path.name for path in file.parent.iterdir()] == ["manifest.json"]


def test_the_environment_names_another_manifest(tmp_path, monkeypatch):
    file = manifest.write({"mine": entry()}, tmp_path / "m.json")
    monkeypatch.setenv("SSLZOO_MANIFEST", str(file))
    assert index.path() == file and list(index.read()) == ["mine"]
    monkeypatch.setenv("SSLZOO_MANIFEST", str(tmp_path / "none.json"))
    with pytest.raises(ManifestError, match=r"cannot be read.*SSLZOO_MANIFEST.*none\.json"):
        index.read()


def test_a_changed_file_is_read_again(tmp_path):
    file = manifest.write({"one": entry()}, tmp_path / "m.json")
    assert list(index.read(file)) == ["one"]
    manifest.write(index.read(file) | {"two": entry()}, file)
    assert list(index.read(file)) == ["one", "two"]


BAD_PATHS = [
    "../secret",
    "decoder/../../secret",
    "/etc/passwd",
    "C:/windows/x",
    "C:\\x",
    "a\\b",
    "..",
    ".",
    "",
    "a//b",
    "a/",
    "/",
    "./config.json",
    ".hidden",
    "a/.git/config",
    "~/x",
    "a\0b",
    "a\nb",
    "x" * 201,
    "con fig.json ",
    "a/b.",
    "caf\u00e9",
    "\uff0e\uff0e/x",
    "$HOME/x",
    "*",
    "CON",
    "nul",
    "aux.json",
    "decoder/Com1.tar.gz",
    "lpt9 .txt",
    "a./b",
    "a /b",
    "x:y",
    "model.weights.h5:stream",
]


@pytest.mark.parametrize("path", BAD_PATHS)
def test_paths_that_could_lead_outside_are_refused(path):
    assert not index.is_safe_path(path)


@pytest.mark.parametrize(
    "path", ["config.json", "decoder/model.weights.h5", "a b/c-d_e.f", "_x", "x..y", "console", "com", "com10.x"]
)
def test_plain_paths_are_allowed(path):
    assert index.is_safe_path(path)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"method": ""}, r"\['method'\] must be a text of at most 10,000 characters. Received: ''"),
        ({"repository": "no-slash"}, r"\['repository'\] must be .organization/name"),
        ({"repository": "../x"}, r"\['repository'\]"),
        ({"repository": "a/b/c"}, r"\['repository'\]"),
        ({"repository": "a/b\n"}, r"\['repository'\]"),
        ({"repository": None}, r"\['revision'\] must be null without a repository"),
        ({"revision": "main"}, r"\['revision'\] must be a commit of 40"),
        ({"revision": "A" * 40}, r"\['revision'\]"),
        ({"sha256": "A" * 64}, r"\['sha256'\] must be 64"),
        ({"parts": ["head"]}, r"\['parts'\] must be a list of encoder"),
        ({"bytes": -1}, r"\['bytes'\] must be an integer >= 0"),
        ({"bytes": True}, r"\['bytes'\]"),
        ({"input_shape": [28, 28]}, r"\['input_shape'\] must be \[H, W, C\]"),
        ({"features": -1}, r"\['features'\]"),
        ({"parameters": 1.5}, r"\['parameters'\]"),
        ({"metrics": [{"name": "x"}]}, r"\['metrics'\]\[0\]\['value'\].*missing"),
        ({"metrics": [{"name": "x", "value": 1, "protocol": "k"}]}, "Unknown field"),
        ({"license": "Apache 2"}, r"\['license'\]"),
        ({"sha": "x"}, r"field of models\['simvae-mnist'\].*'sha'"),
    ],
)
def test_faults_name_entry_and_field(changes, message):
    with pytest.raises(ManifestError, match=message):
        index.parse(text({"simvae-mnist": entry(**changes)}))


@pytest.mark.parametrize(
    "content, message",
    [
        ("", "damaged"),
        ("[]", "manifest must be an object"),
        ('{"schema": 2}', r"manifest\['models'\] must be an object.*missing"),
        (b"\xff\xfe\x00", "damaged"),
        ("[" * 100_000, "damaged"),
        (text(schema=3), r"manifest\['schema'\] must be 2; a later one needs a later sslzoo"),
        (text(schema=1), r"manifest\['schema'\] must be 2"),
        (text(schema=True), r"manifest\['schema'\] must be 2"),
        (text(more=1), "Unknown field"),
        (text({"../x": entry()}), "Names consist of lower-case letters"),
        (text({"UPPER": entry()}), "Names consist of"),
        (text({"x": None}), r"models\['x'\] must be an object"),
        (text().replace("97.5", "NaN"), "finite"),
        (text().replace("97.5", "1e999"), "finite"),
        (text().replace("97.5", "1" * 5000), "damaged"),
        (text().replace('"SimVAE"', json.dumps(["x" * 10_000])), r"Received: \['x+ \.\.\."),
    ],
)
def test_damaged_manifests_end_in_one_clear_error(content, message):
    with pytest.raises(ManifestError, match=message) as caught:
        index.parse(content)
    assert len(str(caught.value)) < 1000 + len(index.FILE)


def junk(chance):
    return chance.choice(
        [
            None,
            True,
            -1,
            0,
            1,
            2**70,
            1e308,
            -0.0,
            "",
            " ",
            "..",
            "../../etc/passwd",
            "/etc/passwd",
            "C:\\x",
            "a" * 40,
            "f" * 64,
            "hf://a/b",
            "a/b",
            "\x00",
            "\ud800",
            "\u202e",
            [],
            [[]],
            {},
            {"": {}},
            {"sha256": "f" * 64},
            "1",
            [28, 28, 1],
            [None],
            {"name": 1},
        ]
    )


def nodes(value):
    """Every (container, key) of a JSON value."""
    found = []
    for key in value if isinstance(value, dict) else range(len(value)):
        found.append((value, key))
        if isinstance(value[key], (dict, list)):
            found += nodes(value[key])
    return found


def mutate(record, chance):
    record = copy.deepcopy(record)
    for _ in range(chance.choice([1, 1, 1, 2, 5])):
        container, key = chance.choice(nodes(record))
        action = chance.randrange(4)
        if action == 0:
            container[key] = junk(chance)
        elif action == 1:
            del container[key]
        elif isinstance(container, dict):
            name = chance.choice(["../x", "", "schema", "models", "files", "a\\b", "config.json", "x" * 300, "\ud800"])
            container[name] = container.pop(key) if action == 2 else container[key]
        else:
            container.append(junk(chance))
        if not record:
            break
    return record


def test_ten_thousand_mutated_manifests():
    """Only ManifestError, and what gets through is sound."""
    chance, sound = random.Random(0), 0
    record = json.loads(text({"simvae-mnist": entry(), "vae-digits": entry(repository=None, revision=None)}))
    whole = json.dumps(record).encode()
    for trial in range(10_000):
        if trial % 2:
            content = json.dumps(mutate(record, chance)).encode()
        else:
            content = bytearray(whole)
            for _ in range(chance.choice([1, 1, 2, 8])):
                start = chance.randrange(len(content))
                end = start + chance.choice([0, 1, 1, 1, 4, 64])
                content[start:end] = chance.choice(
                    [b"", chance.randbytes(1), chance.randbytes(3), b'"', b"\\", b"../", b"{"]
                )
            if chance.random() < 0.1:
                content = content[: chance.randrange(len(content))]
            content = bytes(content)
        try:
            entries = index.parse(content)
        except ManifestError as error:
            str(error).encode("utf-8", errors="strict")
            continue
        sound += 1
        for name, found in entries.items():
            assert is_name(name) and set(found) <= set(entry())
            assert found["repository"] is None or len(found["repository"].split("/")) == 2
    assert 100 < sound < 5_000  # the mutations neither miss nor always hit what is checked


# ------------------------------------------------------------------ write


def model_folder(path, weights=b"weights", name="simvae-mnist"):
    """A folder with the files of a model; Keras need not be able to read them."""
    results = {
        "name": name,
        "method": "SimVAE",
        "dataset": "mnist",
        "recipe": "python recipes/simvae.py",
        "settings": {},
        "seeds": [0],
        "metrics": [{"name": "knn.accuracy", "value": 97.5, "protocol": "k = 10"}],
        "versions": {},
        "wall_seconds": 1.0,
        "views_seen": 1,
        "license": "apache-2.0",
        "papers": [],
        "input_shape": [28, 28, 1],
        "input_range": [0, 255],
        "features": 10,
        "parameters": 5,
    }
    (path / "decoder").mkdir(parents=True)
    for file in ("config.json", "metadata.json", "decoder/config.json"):
        (path / file).write_text("{}")
    (path / "model.weights.h5").write_bytes(weights)
    (path / "README.md").write_text("# Card")
    (path / "results.json").write_text(json.dumps(results))
    artifact.seal(path)
    return path


def test_an_entry_holds_what_the_folder_says(tmp_path):
    folder = model_folder(tmp_path / "m")
    made = index.entry(folder, "a/b", "c" * 40)
    assert made["sha256"] == sha256(folder / "results.json") and made["parts"] == ["encoder", "decoder"]
    assert made["repository"] == "a/b" and made["revision"] == "c" * 40 and made["features"] == 10
    assert index.parse(text({"simvae-mnist": made})) == {"simvae-mnist": made}


def test_entries_of_incomplete_folders_are_refused(tmp_path):
    folder = model_folder(tmp_path / "m")
    with pytest.raises(InvalidInputError, match=r"\['repository'\]"):
        index.entry(folder, "nope")
    results = json.loads((folder / "results.json").read_text())
    del results["files"], results["features"]
    (folder / "results.json").write_text(json.dumps(results))
    assert "features" not in index.entry(folder)  # what nobody knows is left out
    with pytest.raises(ArtifactError, match="must have the hashes of the model's files; `sslzoo seal"):
        manifest.refresh(folder, file=tmp_path / "m.json")
    (folder / "results.json").unlink()
    with pytest.raises(ArtifactError, match=r"holds results\.json"):
        index.entry(folder)


def test_refreshing_keeps_the_pin_only_while_the_files_are_the_same(tmp_path):
    file, folder = tmp_path / "m.json", model_folder(tmp_path / "m")
    assert manifest.refresh(folder, file=file)
    [found] = index.read(file).values()
    assert found["repository"] == "sslzoo/simvae-mnist" and found["revision"] is None
    manifest.write({"simvae-mnist": found | {"repository": "me/mine", "revision": "d" * 40}}, file)
    before = file.read_bytes()
    assert not manifest.refresh(folder, file=file)
    assert file.read_bytes() == before
    (folder / "model.weights.h5").write_bytes(b"others")
    artifact.seal(folder)
    assert manifest.refresh(folder, file=file)
    [found] = index.read(file).values()
    assert found["repository"] == "me/mine" and found["revision"] is None


def test_no_other_model_is_entered_over_one_that_is_loaded_by_its_name(tmp_path, monkeypatch):
    for place in ("weights", "runs"):
        shutil.copytree(ROOT / "weights" / "simvae-digits", tmp_path / place / "simvae-digits")
    monkeypatch.setenv("SSLZOO_MANIFEST", str(tmp_path / "manifest.json"))
    monkeypatch.setenv("SSLZOO_WEIGHTS", str(tmp_path / "weights"))
    assert manifest.refresh(tmp_path / "weights" / "simvae-digits")
    assert not manifest.refresh(tmp_path / "runs" / "simvae-digits")  # the same one
    artifact.seal(tmp_path / "runs" / "simvae-digits", remarks=["Another."])
    before = index.path().read_bytes()
    with pytest.raises(InvalidInputError, match=r"another model of that name.*Received: 'simvae-digits'"):
        manifest.refresh(tmp_path / "runs" / "simvae-digits")
    assert index.path().read_bytes() == before
    artifact.seal(tmp_path / "weights" / "simvae-digits", remarks=["Trained again."])
    assert manifest.refresh(tmp_path / "weights" / "simvae-digits")


def test_sizes_and_numbers_are_written_out():
    assert [listing._size(count) for count in (999, 999_499, 999_500, 2e9)] == ["999 bytes", "999 kB", "1 MB", "2 GB"]
    assert listing._shown({"value": -2963.4, "unit": "nats"}) == "-2,963 nats"


def test_a_bad_entry_leaves_the_manifest_as_it_was(tmp_path, monkeypatch):
    file = manifest.write({"one": entry()}, tmp_path / "m.json")
    before = file.read_bytes()
    with pytest.raises(InvalidInputError, match=r"models\['two'\]\['features'\]"):
        manifest.write(index.read(file) | {"two": entry(features="x")}, file)
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        manifest.write(index.read(file) | {"two": entry()}, file)
    assert file.read_bytes() == before and [path.name for path in tmp_path.iterdir()] == ["m.json"]


def test_hashes_follow_the_content(tmp_path):
    file = tmp_path / "f"
    for content in (b"one", b"two", b"six", b"one"):  # of one length, within one tick of the clock
        file.write_bytes(content)
        os.utime(file, ns=(0, 0))
        assert sha256(file) == hashlib.sha256(content).hexdigest()


def test_nothing_here_needs_keras():
    code = (
        "import sys, sslzoo; sslzoo.list_models(); sys.exit('keras' in sys.modules or 'huggingface_hub' in sys.modules)"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0


ENTER = """
import sys
from pathlib import Path
from sslzoo.publishing import manifest
from sslzoo.zoo import index
entry = index.read(sys.argv[1])["first"]
for n in range(20):
    with manifest.changing(Path(sys.argv[1])) as entries:
        entries[f"{sys.argv[2]}-{n}"] = entry
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such locks")
def test_processes_that_change_a_manifest_at_once_lose_no_entry(tmp_path):
    file = manifest.write({"first": entry()}, tmp_path / "manifest.json")
    environment = os.environ | {"PYTHONPATH": str(Path(manifest.__file__).parents[2])}
    processes = [subprocess.Popen([sys.executable, "-c", ENTER, file, f"p{n}"], env=environment) for n in range(3)]
    assert [process.wait(timeout=300) for process in processes] == [0, 0, 0]
    assert len(index.read(file)) == 1 + 3 * 20
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]
