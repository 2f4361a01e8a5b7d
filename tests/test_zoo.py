"""The zoo: where a name is looked for, what is refused on the way, and what publishing leaves on the Hub."""

import contextlib
import copy
import functools
import json
import os
import pickle
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import contract
import fake_hub
import h5py
import keras
import numpy as np
import pytest
from huggingface_hub import ModelCard, constants
from keras import layers, ops

import sslzoo
from sslzoo import cli, networks, publishing
from sslzoo.errors import (
    ArtifactError,
    HubError,
    IntegrityError,
    InvalidInputError,
    ManifestError,
    MissingPartError,
    SSLZooError,
    UnknownNameError,
)
from sslzoo.networks.composition import compose
from sslzoo.publishing import artifact, hub_commit, manifest
from sslzoo.zoo import hub as zoo_hub
from sslzoo.zoo import index, layout
from sslzoo.zoo.results import read_results

ROOT = Path(sslzoo.__file__).resolve().parent.parent
NAME, REPOSITORY = "vae-digits", "someone/vae-digits"
SHAPE, LATENT = (8, 8, 1), 3
IMAGES = np.random.default_rng(0).integers(0, 256, (4, *SHAPE), "uint8")
ENCODER_FILES = ["config.json", "model.weights.h5"]


@functools.cache
def models():
    raw = keras.Input(SHAPE, name="images")
    preprocessor = keras.Model(raw, layers.Rescaling(1 / 255)(raw))
    network = networks.encoder("mlp-small", SHAPE, LATENT, seed=0)
    decoder = networks.decoder("mlp-small", SHAPE, LATENT, seed=1)
    return {"encoder": compose(preprocessor, network), "decoder": compose(None, decoder, activation="sigmoid")}


def results(**changes):
    return {
        "name": NAME,
        "method": "VAE",
        "dataset": "digits",
        "recipe": "python recipes/vae.py --dataset digits",
        "settings": {"epochs": 1},
        "seeds": [0],
        "metrics": [
            {"name": "knn.accuracy", "label": "kNN", "value": 97.5, "protocol": "k = 10, cosine", "paper": 98.0},
            {"name": "gmm.nmi", "value": 80.25, "protocol": "whole test set"},
        ],
        "versions": {"keras": keras.__version__},
        "wall_seconds": 1.0,
        "views_seen": 10,
        "license": "apache-2.0",
        "papers": [{"title": "Auto-Encoding Variational Bayes", "url": "https://arxiv.org/abs/1312.6114"}],
    } | changes


def write(folder, parts, results, **options):
    return artifact.write(folder, **parts, **results, **options)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    home = tmp_path_factory.mktemp("written")
    (home / "samples.png").write_bytes(b"\x89PNG picture")
    return write(home / NAME, models(), results(), pictures={"samples.png": home / "samples.png"})


@pytest.fixture
def folder(written, tmp_path):
    """A folder to publish and to spoil."""
    return Path(shutil.copytree(written, tmp_path / "folder"))


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A Hub to publish to, logged in, with a manifest of its own and no local models."""
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    with fake_hub.FakeHub() as hub:
        fake_hub.direct(monkeypatch, hub, tmp_path / "home", token=fake_hub.TOKEN)
        monkeypatch.setenv("SSLZOO_MANIFEST", str(tmp_path / "manifest.json"))
        (tmp_path / "weights").mkdir(exist_ok=True)
        monkeypatch.setenv("SSLZOO_WEIGHTS", str(tmp_path / "weights"))
        monkeypatch.setattr(index, "__file__", str(tmp_path / "site-packages" / "sslzoo" / "zoo" / "index.py"))
        manifest.write({})
        yield hub
        fake_hub.close_connections()


@pytest.fixture
def published(hub, written):
    """The Hub with the model on it, and pinned."""
    publishing.publish(written, REPOSITORY)
    hub.requests.clear()
    return hub


def features(model):
    return ops.convert_to_numpy(model(IMAGES))


def expected():
    return features(models()["encoder"])


def cached_files():
    found = [path for path in Path(constants.HF_HUB_CACHE).glob("models--*/snapshots/*/**/*") if path.is_file()]
    return sorted("/".join(path.parts[path.parts.index("snapshots") + 2 :]) for path in found)


@contextlib.contextmanager
def no_network(monkeypatch, hub):
    def refuse(*_, **__):
        raise AssertionError("the network was asked")

    hub.requests.clear()
    fake_hub.close_connections()
    with monkeypatch.context() as patch:
        patch.setattr(socket.socket, "connect", refuse)
        patch.setattr(socket, "getaddrinfo", refuse)
        yield
    assert hub.requests == []


# ------------------------------------------------------------------ load


def test_what_is_pinned_is_what_was_sent(hub, folder, monkeypatch):
    """A run that goes on writes its folder anew while it is being published."""
    weights = (folder / "model.weights.h5").read_bytes()
    real = hub_commit.commit

    def commit(*arguments, **options):
        (folder / "model.weights.h5").write_bytes(b"of another epoch")
        return real(*arguments, **options)

    monkeypatch.setattr(hub_commit, "commit", commit)
    publishing.publish(folder, REPOSITORY)
    assert hub.files(REPOSITORY)["model.weights.h5"] == weights
    assert index.read()[NAME]["sha256"] == fake_hub.sha256(hub.files(REPOSITORY)["results.json"])
    np.testing.assert_array_equal(features(sslzoo.load(NAME)), expected())


def test_a_folder_that_changes_while_it_is_read_is_not_published(hub, folder, monkeypatch):
    real = manifest.sealed_entry

    def entry(*arguments):
        made = real(*arguments)
        return made | {"sha256": "0" * 64}

    monkeypatch.setattr(manifest, "sealed_entry", entry)
    with pytest.raises(ArtifactError, match="changed while it was read"):
        publishing.publish(folder, REPOSITORY)
    assert not hub.repositories and not index.read()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["simvae", "vae", "simclr-projector", "byol", "annulus", "cmc", "dino", "gedi"])
def test_every_part_of_every_method_is_loaded_published_and_loaded_again(hub, tmp_path, method):
    num_views, make = contract.CASES[method]
    model = make(contract.Flips(num_views))
    parts = model.parts(contract.IMAGE_SHAPE) | {"model": model}
    folder = write(tmp_path / NAME, parts, results())
    publishing.publish(folder, REPOSITORY)
    for place in (folder, f"hf://{REPOSITORY}"):
        for part, written in parts.items():
            loaded = sslzoo.load(place, part=part)
            assert [w.path.split("/")[-1] for w in loaded.weights] == [w.path.split("/")[-1] for w in written.weights]
            for ours, theirs in zip(loaded.weights, written.weights):
                np.testing.assert_array_equal(ops.convert_to_numpy(ours), ops.convert_to_numpy(theirs))


def test_a_name_is_downloaded_once_and_then_needs_no_network(published, monkeypatch):
    np.testing.assert_allclose(features(sslzoo.load(NAME)), expected(), atol=1e-6)
    assert cached_files() == ["config.json", "model.weights.h5", "results.json"]
    with no_network(monkeypatch, published):
        np.testing.assert_allclose(features(sslzoo.load(NAME)), expected(), atol=1e-6)
        assert sslzoo.info(NAME)["local"]
    assert sslzoo.load(NAME, part="decoder").output_shape == (None, *SHAPE)
    assert "decoder/config.json" in cached_files() and "README.md" not in cached_files()


def test_offline_mode_loads_what_is_cached_and_names_what_is_not(published, monkeypatch):
    sslzoo.load(NAME)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with no_network(monkeypatch, published):
        sslzoo.load(NAME)
        with pytest.raises(HubError, match=r"'decoder/config\.json'.*Offline mode is on.*SSLZOO_WEIGHTS"):
            sslzoo.load(NAME, part="decoder")


def test_a_loaded_model_trains(published):
    encoder = sslzoo.load(NAME)
    model = keras.Sequential([encoder, layers.Dense(2)])
    model.compile(keras.optimizers.SGD(0.1), loss="mse")
    before = [ops.convert_to_numpy(weight) for weight in encoder.trainable_weights]
    model.fit(IMAGES, np.ones((4, 2), "float32"), verbose=0)
    assert len(before) == 6
    assert all((ops.convert_to_numpy(w) != b).any() for w, b in zip(encoder.trainable_weights, before))


def test_a_variable_that_names_no_folder_is_not_passed_over_in_silence(monkeypatch, tmp_path):
    monkeypatch.setenv("SSLZOO_WEIGHTS", str(tmp_path / "nowhere"))
    with pytest.warns(UserWarning, match=r"SSLZOO_WEIGHTS names no folder. Received: SSLZOO_WEIGHTS='.*nowhere'"):
        assert "simvae-digits" in {model["name"] for model in sslzoo.list_models()}


def test_a_path_comes_first_then_the_mirror_then_the_hub(published, written, tmp_path, monkeypatch):
    with no_network(monkeypatch, published):
        assert sslzoo.load(written).name == sslzoo.load(str(written)).name
        shutil.copytree(written, tmp_path / "weights" / NAME)
        np.testing.assert_allclose(features(sslzoo.load(NAME)), expected(), atol=1e-6)
        monkeypatch.chdir(tmp_path)
        (tmp_path / NAME).mkdir()  # a folder without a model hides nothing
        sslzoo.load(NAME)
        (tmp_path / NAME).rmdir()
        (tmp_path / NAME).touch()  # nor does a file that is none
        sslzoo.load(NAME)
    assert cached_files() == []
    shutil.rmtree(tmp_path / "weights")
    sslzoo.load(NAME)
    assert cached_files() != []


def test_a_part_that_the_mirror_lacks_comes_from_the_hub(published, written, tmp_path):
    mirror = Path(shutil.copytree(written, tmp_path / "weights" / NAME))
    shutil.rmtree(mirror / "decoder")
    sslzoo.load(NAME)
    assert cached_files() == []
    assert sslzoo.load(NAME, part="decoder").output_shape == (None, *SHAPE)
    assert cached_files() == ["decoder/config.json", "decoder/model.weights.h5", "results.json"]


@pytest.mark.filterwarnings("ignore:Loaded all the same")
@pytest.mark.parametrize("file", [*ENCODER_FILES, "results.json"])
def test_a_changed_file_in_the_mirror_is_refused(published, written, tmp_path, file):
    mirror = Path(shutil.copytree(written, tmp_path / "weights" / NAME))
    content = (mirror / file).read_bytes()
    (mirror / file).write_bytes(content + b" ")
    with pytest.raises(IntegrityError, match=rf"{file} is not the file that .*verify=False"):
        sslzoo.load(NAME)
    sslzoo.load(NAME, verify=False)
    if file == "results.json":  # which has the hashes of the others
        sslzoo.load(mirror)
    else:
        with pytest.raises(IntegrityError, match="sslzoo seal"):
            sslzoo.load(mirror)
    (mirror / file).write_bytes(content)
    sslzoo.load(NAME)


def test_a_model_without_entry_is_loaded_from_the_mirror(hub, written, tmp_path):
    shutil.copytree(written, tmp_path / "weights" / "mine")
    np.testing.assert_allclose(features(sslzoo.load("mine")), expected(), atol=1e-6)
    assert sslzoo.info("mine")["local"] and sslzoo.info("mine")["repository"] is None
    assert [model["name"] for model in sslzoo.list_models()] == ["mine"]
    (tmp_path / "weights" / "run").mkdir()  # the folder of a run, with the model in it
    shutil.move(tmp_path / "weights" / "mine", tmp_path / "weights" / "run" / "mine")
    assert [model["name"] for model in sslzoo.list_models()] == ["mine"]
    with pytest.raises(InvalidInputError, match="Only Hub repositories have revisions"):
        sslzoo.load("mine", revision="main")
    with pytest.raises(UnknownNameError, match=r"Unknown model. Did you mean 'mine'\?"):
        sslzoo.load("mime")


def test_what_is_not_published_says_so(hub, written):
    manifest.write({NAME: index.entry(written, REPOSITORY)})
    with pytest.raises(HubError, match=rf"{NAME} is not published yet.*SSLZOO_WEIGHTS.*python recipes/vae\.py"):
        sslzoo.load(NAME)
    assert hub.requests == [] and not sslzoo.info(NAME)["local"]


def test_parts_that_are_not_there_are_named_without_asking(published):
    with pytest.raises(
        ArtifactError, match=r"has the parts encoder, decoder. Received: part='posterior' of 'vae-digits'"
    ):
        sslzoo.load(NAME, part="posterior")
    assert published.requests == []
    with pytest.raises(MissingPartError, match=r"'posterior/config\.json' of hf://.*no such file, so perhaps no such"):
        sslzoo.load(f"hf://{REPOSITORY}", part="posterior")


def test_anyones_repository(published, monkeypatch):
    commit = published.repositories[REPOSITORY].refs["main"]
    published.repositories[REPOSITORY].refs["v1"] = commit
    for path, revision in (
        (REPOSITORY, None),
        (f"{REPOSITORY}@v1", None),
        (REPOSITORY, commit),
        (f"{REPOSITORY}@v1", "v1"),
    ):
        np.testing.assert_allclose(features(sslzoo.load(f"hf://{path}", revision=revision)), expected(), atol=1e-6)
    with no_network(monkeypatch, published):
        sslzoo.load(f"hf://{REPOSITORY}@{commit}")
    with pytest.raises(InvalidInputError, match=r"must name one revision.*@v1', revision='v2'"):
        sslzoo.load(f"hf://{REPOSITORY}@v1", revision="v2")
    with pytest.raises(InvalidInputError, match="organization/name"):
        sslzoo.load("hf://nobody")
    with pytest.raises(HubError, match="no repository"):
        sslzoo.load("hf://nobody/nothing")


@pytest.mark.parametrize("named", [REPOSITORY, f"{REPOSITORY}@v1"])
def test_features_say_the_commit_that_made_them_whatever_becomes_of_a_branch(named, published):
    commit = published.repositories[REPOSITORY].refs["main"]
    published.repositories[REPOSITORY].refs["v1"] = commit
    assert str(sslzoo.embed(f"hf://{named}", IMAGES).model) == f"hf://{REPOSITORY}@{commit}"


def test_a_manifest_that_cannot_be_written_is_told_before_anything_is_sent(published, folder, monkeypatch):
    write(folder, models(), results(seeds=[2]), overwrite=True)
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != index.path().parent and access(path, mode))
    with pytest.raises(InvalidInputError, match=r"manifest must lie where it can be written.*--no-manifest"):
        publishing.publish(folder, REPOSITORY)
    assert published.requests == []


def test_a_name_at_another_revision(published, folder):
    publishing.publish(folder, REPOSITORY)
    pinned = index.read()[NAME]["revision"]
    kept = results(remarks=["second"])
    second = publishing.publish(write(folder, models(), kept, overwrite=True), REPOSITORY, manifest=False)["revision"]
    assert second != pinned and index.read()[NAME]["revision"] == pinned
    sslzoo.load(NAME, revision=second)
    sslzoo.load(NAME, revision=pinned)
    with pytest.raises(HubError, match="no such revision"):
        sslzoo.load(NAME, revision="v9")
    for name in (NAME, f"hf://{REPOSITORY}"):
        told = sslzoo.info(name, second)
        assert told["remarks"] == ["second"] and told["revision"] == second
        assert f"hf://{REPOSITORY}@{second}" in str(told)  # the line that loads these weights


def test_evaluate_at_a_revision_finds_all_its_parts(published, tmp_path, capsys):
    """The model's own decoder, where one was fitted to its features and took its place."""
    commit = index.read()[NAME]["revision"]
    np.savez(tmp_path / "mine.npz", train_images=IMAGES, test_images=IMAGES)
    for name in (NAME, f"hf://{REPOSITORY}"):
        words = ["evaluate", name, "--revision", commit, "--dataset", str(tmp_path / "mine.npz"), "--json"]
        assert cli.main([*words, "--protocols", "reconstruction"]) == 0
        report = json.loads(capsys.readouterr().out)
        assert list(report["numbers"]["reconstruction"]) == ["mse"] and report["encoder"] == name
    assert cli.main([*words[:3], "v9", *words[4:]]) == 2
    assert "no such revision" in capsys.readouterr().err


def test_repositories_that_others_wrote_by_keras_alone(hub, monkeypatch, tmp_path):
    models()["encoder"].save(tmp_path / "plain", zipped=False)
    files = {path.name: path.read_bytes() for path in (tmp_path / "plain").iterdir() if path.is_file()}
    commit = hub.add("they/plain", files)
    np.testing.assert_allclose(features(sslzoo.load("hf://they/plain")), expected(), atol=1e-6)
    with no_network(monkeypatch, hub):  # that it has no results.json is remembered
        sslzoo.load(f"hf://they/plain@{commit}")


# ------------------------------------------------------------------ what is refused


def spoiled(folder, how):
    """The files of a model folder, one of them hostile."""
    config = json.loads((folder / "config.json").read_text())
    layer = config["config"]["layers"][1]
    if how == "foreign class":
        layer.update(module="os", class_name="system", registered_name=None)
    if how == "registered class":
        layer.update(module="evil", class_name="Layer", registered_name="evil>Layer")
    if how == "lambda":
        layer.update(class_name="Lambda")
    (folder / "config.json").write_text(json.dumps(config))
    if how == "link in the repository":  # which git stores as a file that holds the target
        (folder / "config.json").write_text("../../../../etc/passwd")
    if how == "pickle":
        (folder / "model.weights.h5").write_bytes(b"\x80\x04\x95cos\nsystem\n(S'touch evil'\ntR.")
    if how == "link in the weights":
        with h5py.File(folder / "model.weights.h5", "a") as file:
            group = next(iter(file["layers"]))
            del file["layers"][group]
            file["layers"][group] = h5py.ExternalLink("/etc/passwd", "/x")
    artifact.seal(folder)  # as whoever means harm would
    return {file: (folder / file).read_bytes() for file in layout.files(folder)}


@pytest.mark.parametrize(
    "how, message",
    [
        ("foreign class", r"Only Keras' own classes.*'system'"),
        ("registered class", r"Only Keras' own classes.*evil>Layer"),
        ("lambda", "code or files of their own are refused"),
        ("link in the repository", "Expected a JSON file"),
        ("pickle", "damaged or cut short"),
        ("link in the weights", "in the file itself, not elsewhere"),
    ],
)
@pytest.mark.parametrize("verify", [True, False])
def test_hostile_repositories_are_refused(hub, folder, how, message, verify):
    hub.add("evil/model", spoiled(folder, how))
    with pytest.raises(ArtifactError, match=message):
        sslzoo.load("hf://evil/model", verify=verify)


def test_a_repository_with_paths_that_lead_outside_is_harmless(published, tmp_path):
    files = published.files(REPOSITORY)
    published.add("evil/paths", files | {"../../../../outside": b"x", "/tmp/sslzoo-outside": b"x", "a\\..\\b": b"x"})
    before = {path.name for path in tmp_path.iterdir()}
    sslzoo.load("hf://evil/paths")
    assert {path.name for path in tmp_path.iterdir()} == before | {"home"}
    assert not list(tmp_path.rglob("outside")) and not Path("/tmp/sslzoo-outside").exists()
    assert cached_files() == ["config.json", "model.weights.h5", "results.json"]


def test_other_weights_at_the_pinned_commit_are_refused(published):
    commit = index.read()[NAME]["revision"]
    files = published.repositories[REPOSITORY].commits[commit]
    sent = files["config.json"]
    files["config.json"] = sent[:-1] + b" "
    with pytest.raises(IntegrityError, match=r"config\.json' of hf://.*not the file that was published"):
        sslzoo.load(NAME)
    files["config.json"] = sent
    sslzoo.load(NAME)


def test_publishing_leaves_a_commit_a_card_and_a_pin(hub, written):
    done = publishing.publish(written, REPOSITORY)
    there = hub.files(REPOSITORY)
    assert set(done["changed"]) == {*layout.files(written)} and done["created"] and done["notes"] == []
    assert {file: there[file] for file in layout.files(written) if file != "README.md"} == {
        file: (written / file).read_bytes() for file in layout.files(written) if file != "README.md"
    }
    assert done["revision"] == hub.repositories[REPOSITORY].refs["main"]
    assert len(hub.repositories[REPOSITORY].commits) == 2  # with the first, empty one
    assert done["url"] == f"{hub.url}/{REPOSITORY}" and done["pull_request"] is None
    entry = index.read(done["manifest"])[NAME]
    assert entry == index.entry(written, REPOSITORY, done["revision"])
    assert fake_hub.sha256(there["results.json"]) == entry["sha256"]
    hashes = read_results(written)["files"]
    assert all(fake_hub.sha256(there[file]) == digest for file, digest in hashes.items())


def test_another_model_of_a_pinned_name_does_not_take_its_place(published, folder):
    publishing.publish(folder, "me/fork")  # the same files from elsewhere
    assert index.read()[NAME]["repository"] == "me/fork"
    another = write(folder, models(), results(remarks=["another"]), overwrite=True)
    commits = len(published.repositories[REPOSITORY].commits)
    for dry_run in (True, False):
        with pytest.raises(InvalidInputError, match=r"another model of that name, me/fork.*--no-manifest"):
            publishing.publish(another, REPOSITORY, dry_run=dry_run)
    assert index.read()[NAME]["repository"] == "me/fork" and len(published.repositories[REPOSITORY].commits) == commits
    publishing.publish(another, REPOSITORY, manifest=False)


def test_the_card_is_what_the_hub_reads_and_a_person_needs(hub, written):
    publishing.publish(written, REPOSITORY)
    text = hub.files(REPOSITORY)["README.md"].decode()
    data = ModelCard(text).data
    assert data.library_name == "keras" and data.license == "apache-2.0" and "vae" in data.tags
    assert [(result.metric_type, result.metric_value, result.metric_name) for result in data.eval_results] == [
        ("accuracy", 97.5, "kNN"),
        ("nmi", 80.25, "gmm.nmi"),
    ]
    for part in (
        f'sslzoo.load("hf://{REPOSITORY}")',
        f'keras.saving.load_model("hf://{REPOSITORY}", compile=False)',
        "## Intended use",
        "License of the model: apache-2.0",
        "![Samples](pictures/samples.png)",
        "k = 10, cosine",
        "98 %",
        "https://arxiv.org/abs/1312.6114",
        "python recipes/vae.py --dataset digits",
    ):
        assert part in text, part
    assert "pictures/samples.png" in hub.files(REPOSITORY)


def test_publishing_twice_changes_nothing(published, written):
    before, pins = published.repositories[REPOSITORY].refs["main"], index.path().read_bytes()
    done = publishing.publish(written, REPOSITORY)
    assert done["changed"] == done["removed"] == [] and done["revision"] == before and not done["created"]
    assert published.repositories[REPOSITORY].refs["main"] == before and index.path().read_bytes() == pins
    assert not published.asked("POST|PUT")


def test_a_dry_run_checks_all_and_sends_nothing(hub, written, folder):
    pins = index.path().read_bytes()
    done = publishing.publish(written, REPOSITORY, dry_run=True)
    assert done["created"] and done["revision"] is None and done["manifest"] is None
    assert {"README.md", "results.json", "model.weights.h5"} <= set(done["changed"])
    assert not hub.asked("POST|PUT") and not hub.repositories and index.path().read_bytes() == pins
    sent = publishing.publish(written, REPOSITORY)
    assert sent["changed"] == done["changed"]

    write(folder, {"encoder": models()["encoder"]}, results(name=NAME), overwrite=True)
    before = hub.repositories[REPOSITORY].refs["main"]
    done = publishing.publish(folder, REPOSITORY, dry_run=True)
    assert done["revision"] == before == hub.repositories[REPOSITORY].refs["main"] and not done["created"]
    assert "decoder/config.json" in done["removed"] and "results.json" in done["changed"]
    (folder / "secret.txt").write_text("x")
    with pytest.raises(ArtifactError, match="Only files of a model"):
        publishing.publish(folder, REPOSITORY, dry_run=True)


def test_publishing_says_which_pictures_show_images_of_ones_own(hub, tmp_path):
    for name in ("neighbors.png", "curves.png"):
        (tmp_path / name).write_bytes(b"\x89PNG picture")
    drawn = {path.name: path for path in tmp_path.glob("*.png")}
    for dataset in ("digits", "photos"):
        write(tmp_path / NAME, models(), results(dataset=dataset), pictures=drawn, overwrite=True)
        notes = publishing.publish(tmp_path / NAME, REPOSITORY, dry_run=True)["notes"]
        assert [note.split(". ")[0] for note in notes] == (
            ["Its pictures show images of the data: neighbors.png"] if dataset == "photos" else []
        )
    publishing.publish(tmp_path / NAME, REPOSITORY)
    others = {"pictures/mine.png": b"\x89PNG", "decoder/notes.txt": b"mine", "decoder/deep/config.json": b"{}"}
    hub_commit.commit(REPOSITORY, zoo_hub.remote(REPOSITORY).commit, others, [], "By a person")
    (tmp_path / NAME / "pictures" / "neighbors.png").unlink()  # and what the note says to do leaves it out
    publishing.seal(tmp_path / NAME)
    done = publishing.publish(tmp_path / NAME, REPOSITORY)
    assert done["removed"] == ["pictures/neighbors.png"] and "history of" in done["notes"][-1]
    files = zoo_hub.remote(REPOSITORY).files
    assert {"pictures/curves.png", *others} <= files.keys() and "pictures/neighbors.png" not in files
    assert "neighbors" not in (tmp_path / NAME / "README.md").read_text()


def test_a_dry_run_is_refused_as_the_real_one(published, written):
    with pytest.raises(HubError, match="exists and is public"):
        publishing.publish(written, REPOSITORY, private=True, dry_run=True)
    index.path().write_text("{", encoding="utf-8")
    with pytest.raises(ManifestError):
        publishing.publish(written, REPOSITORY, dry_run=True)


def test_a_dry_run_needs_no_hub_and_a_run_is_its_model(hub, written, tmp_path, monkeypatch):
    shutil.copytree(written, tmp_path / "run" / NAME)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    done = publishing.publish(tmp_path / "run", REPOSITORY, dry_run=True)
    assert done["created"] is None and "model.weights.h5" in done["changed"] and "cannot be reached" in done["notes"][0]
    with pytest.raises(HubError, match="cannot be reached"):
        publishing.publish(tmp_path / "run", REPOSITORY)
    with pytest.raises(ArtifactError, match="which is no folder"):
        publishing.publish(tmp_path / "runs", REPOSITORY)


def test_only_what_changed_is_sent(published, folder):
    before = index.read()[NAME]["revision"]
    write(folder, {"encoder": models()["encoder"]}, results(name=NAME), overwrite=True)
    done = publishing.publish(folder, REPOSITORY)
    assert done["changed"] == ["README.md", "metadata.json", "results.json"]  # metadata.json holds the time
    of_decoder = ["decoder/config.json", "decoder/metadata.json", "decoder/model.weights.h5"]
    assert done["removed"] == [*of_decoder, "pictures/samples.png"]
    entry = index.read()[NAME]
    assert entry["revision"] == done["revision"] != before
    assert entry["sha256"] == index.entry(folder)["sha256"]
    assert not published.asked("PUT")


def test_a_card_that_a_person_edited_is_kept(published, folder):
    edited = published.files(REPOSITORY)["README.md"].replace(b"## Limits", b"## My limits")
    published.add(REPOSITORY, published.files(REPOSITORY) | {"README.md": edited, "notes.txt": b"mine"})
    head = published.repositories[REPOSITORY].refs["main"]
    done = publishing.publish(folder, REPOSITORY)
    assert done["changed"] == [] and "kept" in done["notes"][0] and done["revision"] == head

    shown = {"samples.png": folder / "pictures" / "samples.png"}
    write(folder, models(), results(seeds=[1]), pictures=shown, overwrite=True)
    done = publishing.publish(folder, REPOSITORY)
    assert "README.md" not in done["changed"] and "results.json" in done["changed"] and len(done["notes"]) == 1
    assert published.files(REPOSITORY)["README.md"] == edited

    done = publishing.publish(folder, REPOSITORY, overwrite_card=True)
    assert done["changed"] == ["README.md"] and done["notes"] == []
    assert b"## My limits" not in published.files(REPOSITORY)["README.md"]
    assert published.files(REPOSITORY)["notes.txt"] == b"mine"


def test_a_card_as_written_follows_the_results(published, folder):
    shown = {"samples.png": folder / "pictures" / "samples.png"}
    write(folder, models(), results(remarks=["Trained on Tuesday."]), pictures=shown, overwrite=True)
    done = publishing.publish(folder, REPOSITORY)
    assert "README.md" in done["changed"] and done["notes"] == []
    assert b"Trained on Tuesday." in published.files(REPOSITORY)["README.md"]


def test_pull_requests_are_not_pinned_until_they_are_merged(published, folder):
    pins = index.path().read_bytes()
    write(folder, models(), results(seeds=[2]), overwrite=True)
    done = publishing.publish(folder, REPOSITORY, create_pr=True)
    assert done["pull_request"].endswith("/discussions/1") and done["manifest"] is None and "merge" in done["notes"][0]
    assert index.path().read_bytes() == pins
    repository = published.repositories[REPOSITORY]
    repository.refs["main"] = repository.refs["refs/pr/1"]  # merged
    done = publishing.publish(folder, REPOSITORY)
    assert done["changed"] == [] and index.read()[NAME]["revision"] == done["revision"]


def test_the_manifest_is_the_one_that_was_named(hub, written, tmp_path, monkeypatch):
    before = index.path().read_bytes()
    done = publishing.publish(written, REPOSITORY, manifest=tmp_path / "other.json")
    assert list(index.read(tmp_path / "other.json")) == [NAME] and done["manifest"] == str(tmp_path / "other.json")
    assert publishing.publish(written, REPOSITORY, manifest=False)["manifest"] is None
    assert index.path().read_bytes() == before
    monkeypatch.setattr(index, "is_installed", lambda file: True)
    assert publishing.publish(written, REPOSITORY)["manifest"] is None
    assert index.path().read_bytes() == before


def truncate(path):
    path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize(
    "spoil, message",
    [
        (lambda folder: (folder / ".." / "nothing").resolve(), "holds results.json"),
        (lambda folder: (folder / "secret.txt").write_text("x"), "Only files of a model.*'secret.txt'"),
        (lambda folder: (folder / "decoder" / "x.pkl").write_text("x"), "Only files of a model.*'decoder/x.pkl'"),
        (lambda folder: (folder / "pictures" / "a.png").symlink_to("/etc/passwd"), "links are none.*'pictures/a.png'"),
        (lambda folder: truncate(folder / "decoder" / "model.weights.h5"), "is not the file that results.json"),
        (lambda folder: (folder / "model.weights.h5").unlink(), "Expected a readable file.*model.weights.h5"),
        (lambda folder: shutil.rmtree(folder / "decoder"), "those that results.json names.*decoder/config.json"),
        (lambda folder: (folder / "pictures" / "samples.png").unlink(), "those that results.json names.*samples.png"),
        (lambda folder: (folder / "results.json").write_text("{}"), "damaged"),
        (lambda folder: (folder / "config.json").unlink(), "The model has the parts decoder"),
    ],
)
def test_what_is_no_sound_model_is_not_published(hub, folder, spoil, message):
    found = spoil(folder)
    with pytest.raises(ArtifactError, match=message):
        publishing.publish(found if isinstance(found, Path) and not found.exists() else folder, REPOSITORY)
    assert hub.requests == [] and index.read() == {}


def test_faults_while_publishing_pin_nothing(hub, written):
    for repository, error in (("nobody", InvalidInputError), ("forbidden/x", HubError)):
        with pytest.raises(error):
            publishing.publish(written, repository)
    hub.fail("POST .*/commit/", status=500, times=1000)
    with pytest.raises(HubError, match="a fault of its own"):
        publishing.publish(written, REPOSITORY)
    assert index.read() == {}
    hub.faults.clear()
    assert not publishing.publish(written, REPOSITORY)["created"]
    assert list(index.read()) == [NAME]


def test_hidden_files_stay_here(hub, folder):
    (folder / ".DS_Store").write_text("x")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("token")
    publishing.publish(folder, REPOSITORY)
    assert not any(".DS_Store" in file or ".git/" in file for file in hub.files(REPOSITORY))


def test_keras_alone_loads_what_was_published(published):
    model = keras.saving.load_model(f"hf://{REPOSITORY}", compile=False)
    np.testing.assert_allclose(features(model), expected(), atol=1e-6)


# ------------------------------------------------------------------ list, info, verify


def test_what_there_is_is_listed(hub, written):
    entry = index.entry(written, REPOSITORY)
    manifest.write({"b-two": entry | {"method": "Sim-VAE"}, "a-one": entry | {"dataset": "fashion_mnist"}, "c": entry})
    found = sslzoo.list_models()
    assert [model["name"] for model in found] == ["a-one", "b-two", "c"]
    assert {
        "name",
        "method",
        "dataset",
        "repository",
        "revision",
        "sha256",
        "bytes",
        "input_shape",
        "features",
        "parameters",
        "metrics",
        "license",
        "recipe",
        "local",
        "parts",
    } <= set(found[0])
    held = [file for file in layout.files(written) if not file.startswith(("README", "pictures"))]
    assert found[0]["bytes"] == sum((written / file).stat().st_size for file in held) > 10_000
    assert found[0]["parts"] == ["encoder", "decoder"] and found[0]["local"] is False
    assert json.loads(json.dumps(found)) == found
    assert [model["name"] for model in sslzoo.list_models(method="simvae")] == ["b-two"]
    assert [model["name"] for model in sslzoo.list_models(dataset="Fashion-MNIST")] == ["a-one"]
    assert sslzoo.list_models(method="SimVAE", dataset="fashion_mnist") == []
    with pytest.raises(UnknownNameError, match="Did you mean 'fashion_mnist'"):
        sslzoo.list_models(dataset="fashionmnis")
    found[0]["metrics"].clear()
    assert sslzoo.list_models()[0]["metrics"] and sslzoo.info("a-one")["metrics"]
    with pytest.raises(UnknownNameError, match="Did you mean 'a-one'"):
        sslzoo.info("a-on")


def test_every_committed_model_verifies(monkeypatch):
    for name in ("SSLZOO_MANIFEST", "SSLZOO_WEIGHTS"):
        monkeypatch.delenv(name, raising=False)
    findings = {finding["name"]: finding for finding in sslzoo.verify() if finding["where"] == "local"}
    for folder in (ROOT / "weights").glob("*/results.json"):
        assert findings[folder.parent.name]["ok"] is True, findings[folder.parent.name]["problems"]


def outcomes(**options):
    return {finding["where"]: finding["ok"] for finding in sslzoo.verify(**options)}


def test_verifying_looks_here_in_the_cache_and_on_the_hub(published, written, tmp_path, monkeypatch):
    assert outcomes() == {"local": None}
    mirror = Path(shutil.copytree(written, tmp_path / "weights" / NAME))
    assert outcomes() == {"local": True} and published.requests == []
    assert outcomes(hub=True) == {"local": True, "hub": True}
    sslzoo.load(f"hf://{REPOSITORY}")
    assert outcomes(name=NAME) == {"local": True, "cache": True}

    truncate(mirror / "decoder" / "model.weights.h5")
    (mirror / "metadata.json").unlink()
    [local] = [finding for finding in sslzoo.verify() if finding["where"] == "local"]
    assert local["ok"] is False and local["place"] == str(mirror)
    [changed] = local["problems"]  # nothing is loaded from metadata.json
    assert changed.startswith("decoder/model.weights.h5 has sha256")

    cached = next(Path(constants.HF_HUB_CACHE).glob("models--*/snapshots/*/config.json"))
    cached.write_bytes(b"damaged")
    assert outcomes()["cache"] is False

    files = published.files(REPOSITORY)
    files["decoder/model.weights.h5"] += b"x"
    del files["results.json"]
    [there] = [finding for finding in sslzoo.verify(hub=True) if finding["where"] == "hub"]
    assert there["ok"] is False and len(there["problems"]) == 2
    shutil.rmtree(constants.HF_HUB_CACHE)
    [there] = [finding for finding in sslzoo.verify(hub=True) if finding["where"] == "hub"]
    assert there["ok"] is False and "no such file" in there["problems"][0]

    manifest.write({NAME: index.read()[NAME] | {"revision": "0" * 40}})
    [there] = [finding for finding in sslzoo.verify(hub=True) if finding["where"] == "hub"]
    assert there["ok"] is False and "no such revision" in there["problems"][0]  # nobody can load it

    published.fail(".", status=500, times=10_000)
    [there] = [finding for finding in sslzoo.verify(hub=True) if finding["where"] == "hub"]
    assert there["ok"] is None and "a fault of its own" in there["problems"][0]


def test_verifying_what_has_no_entry_or_is_not_published(hub, written, tmp_path):
    shutil.copytree(written, tmp_path / "weights" / "mine")
    manifest.write({NAME: index.entry(written, REPOSITORY)})
    found = {(finding["name"], finding["where"]): finding for finding in sslzoo.verify(hub=True)}
    assert found["mine", "local"]["ok"] is None and "no entry" in found["mine", "local"]["problems"][0]
    assert found[NAME, "hub"]["ok"] is None and "not published yet" in found[NAME, "hub"]["problems"][0]
    with pytest.raises(UnknownNameError, match=r"Did you mean 'mine'.*, or no name, for all of them"):
        sslzoo.verify("mime")


def test_entries_that_disagree_with_results_are_found(hub, written, tmp_path):
    shutil.copytree(written, tmp_path / "weights" / NAME)
    entry = index.entry(written, REPOSITORY)
    manifest.write({NAME: entry | {"features": 99}})
    [finding] = sslzoo.verify()
    assert finding["ok"] is False and finding["problems"] == ["features in results.json differs from the manifest's"]


# ------------------------------------------------------------------ cost


@pytest.mark.slow
def test_a_local_model_loads_without_the_hubs_client(written, tmp_path):
    weights = tmp_path / "weights"
    shutil.copytree(written, weights / NAME)
    manifest.write({NAME: index.entry(written, REPOSITORY)}, tmp_path / "manifest.json")
    code = (
        f"import sys, sslzoo; sslzoo.load({NAME!r}); sslzoo.load({str(written)!r}); "
        "sys.exit('sslzoo.zoo.hub' in sys.modules or 'huggingface_hub.file_download' in sys.modules)"
    )
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "SSLZOO_WEIGHTS": str(weights),
        "SSLZOO_MANIFEST": str(tmp_path / "manifest.json"),
    }
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:] or "huggingface_hub was imported"


def test_every_error_is_the_packages_own():
    for kind in (HubError, IntegrityError, ManifestError):
        assert issubclass(kind, SSLZooError)
    assert issubclass(IntegrityError, ArtifactError) and issubclass(HubError, OSError)


# ---------------------------------------------------------------- names, precision and range of what is loaded


def test_loaded_models_are_named_for_what_they_are_and_two_fit_into_one(tmp_path):
    first, second = sslzoo.load("simvae-mnist"), sslzoo.load("simclr-mnist")
    assert (first.name, sslzoo.load("simvae-mnist", part="decoder").name) == ("simvae-mnist", "simvae-mnist-decoder")
    assert sslzoo.load(ROOT / "weights" / "simvae-digits").name == "simvae-digits"
    assert sslzoo.load("simvae-digits", name="mine").name == "mine"
    image = keras.Input((28, 28, 1))
    both = keras.Model(image, keras.layers.Concatenate()([first(image), second(image)]))
    both.save(tmp_path / "both.keras")
    x = np.random.default_rng(0).integers(0, 256, (3, 28, 28, 1)).astype("uint8")
    again = keras.saving.load_model(tmp_path / "both.keras")
    np.testing.assert_allclose(again.predict(x, verbose=0), both.predict(x, verbose=0), atol=1e-6)
    np.testing.assert_allclose(both.predict(x, verbose=0)[:, :10], first.predict(x, verbose=0), atol=1e-6)


def test_decoder_and_encoder_make_the_round_trip():
    """The images are decoded, so an encoder finds the latents again, roughly; of images in 0..1 it finds one vector."""
    x = sslzoo.data.load("digits", "test")[0][:50]
    encoder = sslzoo.load("simvae-digits")
    z = encoder.predict(x, verbose=0)
    decoder = sslzoo.load("simvae-digits", part="decoder", output_range=(0, 255))
    back = encoder.predict(decoder.predict(z, verbose=0), verbose=0)
    assert np.mean((back - z) ** 2) < 0.2 * z.var(axis=0).mean()
    dark = encoder.predict(sslzoo.load("simvae-digits", part="decoder").predict(z, verbose=0), verbose=0)
    assert np.mean((dark - z) ** 2) > np.mean((back - z) ** 2)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("simvae-digits", (8, 8, 1)),  # one image, no batch
        ("simvae-digits", (4, 8, 8)),
        ("simvae-digits", (4, 28, 28, 1)),
        ("simvae-digits", (4, 8, 8, 3)),  # Keras alone compares shapes as far as (4, 8, 8)
        ("simclr-cifar10", (4, 32, 32, 1)),
        ("simclr-cifar10", (4, 3, 32, 32)),
    ],
)
def test_images_of_another_shape_are_told_what_the_model_takes(name, shape):
    encoder = sslzoo.load(name)
    images, fitting = (np.zeros(each, "uint8") for each in (shape, (2, *encoder.input_shape[1:])))
    takes = re.escape(f"images {encoder.input_shape}, values 0..255' of layer '{name}' is incompatible")
    for call in (encoder, encoder.predict)[: 1 if keras.backend.backend() == "jax" else 2]:  # JAX' predict has no check
        with pytest.raises(ValueError, match=takes):
            call(images)
        assert call(fitting).shape == (2, encoder.output_shape[-1])


def test_images_come_by_name_too():
    encoder, images = sslzoo.load("simvae-digits"), np.zeros((2, 8, 8, 1), "uint8")
    name = encoder.inputs[0].name
    for call in (encoder, encoder.predict):
        np.testing.assert_array_equal(*(ops.convert_to_numpy(call(each)) for each in (images, {name: images})))
    spec = encoder.input_spec if isinstance(encoder.input_spec, keras.InputSpec) else encoder.input_spec[0]
    assert copy.deepcopy(spec).name == pickle.loads(pickle.dumps(spec)).name == name


@pytest.mark.parametrize("part", ["encoder", "network", "projection", "decoder"])
def test_what_comes_out_in_mixed_precision_is_float32(part):
    name = "dino-digits" if part == "projection" else "simvae-digits"
    model = sslzoo.load(name, part=part, dtype="mixed_bfloat16")
    assert {each.dtype for each in model.outputs} == {"float32"}
    kinds = {layer.compute_dtype for layer in model.layers if layer.weights}
    assert "bfloat16" in kinds
    fed = np.random.default_rng(0).uniform(0, 1 if part == "network" else 255, (4, *model.input_shape[1:]))
    mixed, exact = (ops.convert_to_numpy(each(fed.astype("float32"))) for each in (model, sslzoo.load(name, part=part)))
    np.testing.assert_allclose(mixed, exact, rtol=0.1, atol=0.1)


def test_other_parts_say_what_they_take():
    network = sslzoo.load("simvae-digits", part="network")
    with pytest.raises(ValueError, match=re.escape("(None, 8, 8, 1)' of layer 'simvae-digits-network'")):
        network(np.zeros((2, 8, 8, 3), "float32"))
    with pytest.raises(ValueError, match=re.escape("(None, 10)' of layer 'simvae-digits-decoder'")):
        sslzoo.load("simvae-digits", part="decoder")(np.zeros((2, 64), "float32"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"output_range": (0, 255)}, "Only a decoder"),
        ({"part": "decoder", "output_range": 255}, "output_range must be"),
        ({"part": "model", "dtype": "float16"}, "leave dtype out"),
        ({"dtype": "float17"}, "dtype must be one of Keras'"),
        ({"name": "a/b"}, "name must be"),
        ({"part": "networks"}, "Did you mean 'network'"),
    ],
)
def test_arguments_of_load_that_mean_nothing(arguments, message):
    with pytest.raises(SSLZooError, match=message):
        sslzoo.load("simvae-digits", **arguments)


def test_the_folder_of_a_run_opens_its_one_model(tmp_path):
    shutil.copytree(ROOT / "weights" / "simvae-digits", tmp_path / "run" / "simvae-digits")
    (tmp_path / "run" / "pictures").mkdir()
    assert sslzoo.load(tmp_path / "run").name == "simvae-digits"
    assert str(sslzoo.info(tmp_path / "run")).endswith(f'encoder = sslzoo.load("{tmp_path / "run"}")')
    shutil.copytree(ROOT / "weights" / "simvae-digits", tmp_path / "run" / "another")
    with pytest.raises(ArtifactError, match="another, simvae-digits"):
        sslzoo.load(tmp_path / "run")
