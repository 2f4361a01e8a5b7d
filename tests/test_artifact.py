"""Model folders: what is composed equals what was trained, survives the disk and other backends, and nothing
half-written, foreign or damaged gets through."""

import functools
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
import warnings
import zipfile
from pathlib import Path

import h5py
import keras
import numpy as np
import pytest
from keras import layers, ops

import sslzoo
from sslzoo import networks
from sslzoo.cli import command
from sslzoo.errors import ArtifactError, IntegrityError, InvalidInputError, UnknownNameError
from sslzoo.files import sha256
from sslzoo.networks.composition import check_config, compose
from sslzoo.publishing import artifact, card, manifest
from sslzoo.zoo import index, layout
from sslzoo.zoo.loading import local_models
from sslzoo.zoo.results import check_results, read_results

SHAPE, LATENT = (8, 8, 1), 3
IMAGES = np.random.default_rng(0).integers(0, 256, (5, *SHAPE), "uint8")


def preprocessor(shape=SHAPE):
    """Rescaling and a threshold, as layers and as operations."""
    raw = keras.Input(shape, name="images")
    x = layers.Rescaling(1 / 255, name="unit_range")(raw)
    return keras.Model(raw, ops.cast(ops.greater(x, 0.5), "float32"), name="preprocessor")


def posterior_network(**kwargs):
    return networks.encoder("mlp-small", SHAPE, LATENT, posterior=True, seed=0, **kwargs)


@functools.cache
def all_parts():
    """For tests that change none of them."""
    return fresh_parts()


def fresh_parts():
    network, decoder = posterior_network(), networks.decoder("mlp-small", SHAPE, LATENT, seed=1)
    return {
        "encoder": compose(preprocessor(), network, output="mean"),
        "posterior": compose(preprocessor(), network),
        "decoder": compose(None, decoder, activation="sigmoid"),
    }


def facts(**changes):
    return {
        "name": "simvae-digits",
        "method": "SimVAE",
        "dataset": "digits",
        "recipe": "python recipes/simvae.py",
        "settings": {"num_views": 10, "learning_rate": 1e-3},
        "seeds": [0],
        "metrics": [{"name": "knn.accuracy", "value": np.float32(97.5), "protocol": "k = 10, cosine", "paper": None}],
        "versions": {"keras": keras.__version__},
        "wall_seconds": 61.5,
        "views_seen": np.int64(1000),
        "license": "apache-2.0",
        "papers": [{"title": "A Probabilistic Model behind Self-Supervised Learning"}],
    } | changes


def write(folder, parts, results, **options):
    return artifact.write(folder, **parts, **results, **options)


def state(folder):
    """File -> its hash and size."""
    return {file: (sha256(folder / file), (folder / file).stat().st_size) for file in layout.files(folder)}


def numpy(tensor):
    return ops.convert_to_numpy(tensor)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(tmp_path_factory.mktemp("models") / "simvae-digits", all_parts(), facts())


@pytest.fixture
def copy(folder, tmp_path):
    """A folder to spoil."""
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def test_compose_is_network_after_preprocessing():
    network = posterior_network()
    seen = (IMAGES > 127).astype("float32")  # 127 / 255 < 0.5 < 128 / 255
    mean, log_var = (numpy(t) for t in network(seen))
    posterior = compose(preprocessor(), network)
    for ours, theirs in zip(posterior(IMAGES), (mean, log_var)):
        np.testing.assert_allclose(numpy(ours), theirs, atol=1e-6)
    for output in (0, "mean"):
        np.testing.assert_allclose(numpy(compose(preprocessor(), network, output)(IMAGES)), mean, atol=1e-6)
    np.testing.assert_allclose(numpy(compose(preprocessor(), network, 1)(IMAGES)), log_var, atol=1e-6)


@pytest.mark.parametrize("name", ["resnet18-simvae", "resnet8-gedi"])
def test_compose_copies_graphs_with_branches(name):
    options = {"width": 4} if name == "resnet8-gedi" else {}
    network = networks.encoder(name, (16, 16, 1), 3, seed=0, **options)
    for weight in network.weights:  # moving statistics too
        weight.assign(weight + 0.1)
    views = np.random.default_rng(0).random((2, 16, 16, 1), "float32")
    composed = compose(None, network)
    np.testing.assert_allclose(composed.predict_on_batch(views), network.predict_on_batch(views), atol=1e-5)
    assert [w.shape for w in composed.weights] == [w.shape for w in network.weights]


def test_composed_model_is_flat_and_its_layers_are_reachable():
    encoder = all_parts()["encoder"]
    assert not any(isinstance(layer, keras.Model) for layer in encoder.layers)
    hidden = keras.Model(encoder.input, encoder.get_layer("fc2").output)
    assert numpy(hidden(IMAGES)).shape == (5, 64)
    assert "log_var" not in [layer.name for layer in encoder.layers]
    assert encoder.inputs[0].dtype == "float32" and not encoder.compiled


def test_composed_model_shares_nothing_with_the_network():
    network = posterior_network()
    encoder = compose(preprocessor(), network, "mean")
    before = numpy(encoder(IMAGES))
    for weight in network.weights:
        weight.assign(weight * 2.0)
    np.testing.assert_array_equal(numpy(encoder(IMAGES)), before)


def test_frozen_and_half_precision_networks_become_trainable_float32():
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        network = posterior_network()
        network.trainable = False
        encoder = compose(preprocessor(), network, "mean")
    finally:
        keras.config.set_dtype_policy(policy)
    assert encoder.outputs[0].dtype == "float32" and len(encoder.trainable_weights) == 6
    full = compose(preprocessor(), posterior_network(), "mean")
    np.testing.assert_allclose(numpy(encoder(IMAGES)), numpy(full(IMAGES)), atol=1e-6)


def test_models_inside_models_are_opened_and_shared_layers_stay_shared():
    x = keras.Input((4,))
    shared = layers.Dense(4, name="shared")
    inner = keras.Sequential([keras.Input((4,)), layers.Dense(4, name="dense"), layers.ReLU(name="relu")], name="inner")
    two_outputs = keras.Model(x, [shared(x), layers.ReLU(name="relu")(x)], name="two")
    y = keras.Input((4,), name="y")
    a, b = two_outputs(inner(y))
    network = keras.Model(y, layers.Add(name="add")([shared(a), b, y]), name="network")
    flat = compose(None, network)
    assert [layer.name for layer in flat.layers if isinstance(layer, keras.layers.Dense)] == ["dense", "shared"]
    assert {"relu", "relu_1"} <= {layer.name for layer in flat.layers}
    values = np.random.default_rng(0).normal(size=(6, 4)).astype("float32")
    np.testing.assert_allclose(numpy(flat(values)), numpy(network(values)), atol=1e-6)


def test_activation_squashes_every_output():
    decoder = networks.decoder("mlp-small", SHAPE, LATENT, seed=1)
    z = np.random.default_rng(0).normal(size=(4, LATENT)).astype("float32")
    expected = 1 / (1 + np.exp(-numpy(decoder(z)).astype("float64")))
    np.testing.assert_allclose(numpy(compose(None, decoder, activation="sigmoid")(z)), expected, atol=1e-6)


def subclassed():
    class Odd(keras.Model):
        def call(self, x):
            return x

    return Odd()


def with_foreign_layer():
    class Doubling(layers.Layer):
        def call(self, x):
            return 2 * x

    x = keras.Input(SHAPE)
    return keras.Model(x, Doubling()(x))


def with_lambda():
    x = keras.Input(SHAPE)
    return keras.Model(x, layers.Lambda(lambda t: 2 * t)(x))


@pytest.mark.parametrize(
    "arguments, message",
    [
        (lambda: (preprocessor((4, 4, 1)), posterior_network()), "preprocessor must give what the network takes"),
        (lambda: (None, posterior_network(), 2), r"output must be one of \['mean', 'log_var'\]"),
        (lambda: (None, subclassed()), "network must be a built Functional"),
        (lambda: (None, keras.Sequential([layers.Dense(2)])), "network must be a built Functional"),
        (lambda: (with_foreign_layer(), posterior_network()), "consists of core Keras layers.*Doubling"),
        (lambda: (with_lambda(), posterior_network()), "consists of core Keras layers.*Lambda"),
    ],
)
def test_what_cannot_be_composed_is_refused(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        compose(*arguments())
    with pytest.raises(UnknownNameError, match="Received: output='means'"):
        compose(None, posterior_network(), "means")


# ------------------------------------------------------------------ write


def test_a_folder_holds_what_the_design_says(folder):
    kinds = {"config.json", "metadata.json", "model.weights.h5"}
    expected = kinds | {f"{part}/{file}" for part in ("posterior", "decoder") for file in kinds}
    assert set(layout.files(folder)) == expected | {"results.json", "README.md"}
    assert layout.parts(folder) == ["encoder", "posterior", "decoder"]
    assert not any(".partial" in path.name or ".former" in path.name for path in folder.parent.iterdir())


def test_results_say_what_the_models_are(folder):
    results = read_results(folder)
    assert results["input_shape"] == [8, 8, 1] and results["features"] == LATENT and results["schema"] == 1
    assert results["parameters"] == 65 * 128 + 129 * 64 + 65 * 3 == results["parts"]["encoder"]
    assert list(results["parts"]) == ["encoder", "posterior", "decoder"]
    assert results["metrics"][0]["value"] == 97.5 and results["views_seen"] == 1000
    assert (folder / "README.md").read_text("utf-8") == card.render(results)


def test_writing_twice_gives_the_same_bytes(folder, tmp_path):
    """But for the date in metadata.json, which Keras writes."""
    time.sleep(1.1)  # HDF5 can record times, in seconds
    again = state(write(tmp_path / "again", fresh_parts(), facts()))
    first = state(folder)
    assert [path for path in first if first[path] != again[path] and "metadata" not in path] == []


def test_pictures_are_copied_and_captioned(tmp_path):
    (tmp_path / "drawn.png").write_bytes(b"\x89PNG")
    parts = {"encoder": all_parts()["encoder"]}
    pictures = {"samples.png": tmp_path / "drawn.png", "mine.png": str(tmp_path / "drawn.png")}
    folder = write(tmp_path / "model", parts, facts(), pictures=pictures)
    assert (folder / "pictures" / "samples.png").read_bytes() == b"\x89PNG"
    assert read_results(folder)["pictures"] == [
        {"file": "pictures/samples.png", "caption": "Samples"},
        {"file": "pictures/mine.png", "caption": "mine"},
    ]
    assert "![mine](pictures/mine.png)" in (folder / "README.md").read_text("utf-8")


def test_float16_halves_the_file_and_loads_as_float32(folder, tmp_path):
    half = write(tmp_path / "half", all_parts(), facts(), float16=True)
    sizes = [(f / "model.weights.h5").stat().st_size for f in (folder, half)]
    assert sizes[1] < 0.7 * sizes[0]
    with h5py.File(half / "model.weights.h5") as file:
        found = {}
        file.visititems(lambda name, item: found.update({name: item.dtype}) if hasattr(item, "dtype") else None)
    assert {str(dtype) for dtype in found.values()} == {"float16", "float32"}  # kernels, biases
    for loaded in (sslzoo.load(half), keras.saving.load_model(half)):
        assert {str(w.dtype) for w in loaded.weights} == {"float32"}
        np.testing.assert_allclose(numpy(loaded(IMAGES)), numpy(sslzoo.load(folder)(IMAGES)), atol=5e-3)
    assert read_results(half)["weights"] == "float16"


def test_rounded_weights_are_those_that_float16_stores(tmp_path):
    encoder = fresh_parts()["encoder"]
    exact = numpy(encoder(IMAGES))
    artifact.round_to_float16(encoder)
    loaded = sslzoo.load(write(tmp_path / "model", {"encoder": encoder}, facts(), float16=True))
    assert all(np.array_equal(a, b) for a, b in zip(loaded.get_weights(), encoder.get_weights()))
    assert 0 < np.abs(numpy(encoder(IMAGES)) - exact).max() < 5e-3


@pytest.mark.parametrize("digits", [1, 5, 10])
def test_kernels_keep_so_many_binary_digits(digits):
    model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(64, bias_initializer="random_normal")])
    kernel, bias = model.get_weights()
    kernel[0, :4] = 0.0, 1.0, -1.75, 65504.0
    model.set_weights([kernel, bias])
    artifact.round_to_float16(model, digits)
    rounded, same = model.get_weights()
    np.testing.assert_array_equal(same, bias)
    assert rounded[0, 0] == 0.0 and rounded[0, 1] == 1.0
    kept = np.ldexp(np.frexp(rounded)[0], digits)
    np.testing.assert_array_equal(kept, np.round(kept))
    held = (np.abs(kernel) > 2.0**-10) & (kernel < 6e4)  # smaller ones have fewer digits, that one grows beyond float16
    np.testing.assert_allclose(rounded[held], kernel[held], rtol=2.0**-digits)


@pytest.mark.parametrize("digits", [0, 12, 2.5])
def test_digits_that_float16_does_not_have_are_refused(digits):
    with pytest.raises(InvalidInputError, match=f"Received: digits={digits}"):
        artifact.round_to_float16(keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)]), digits)


def test_a_kernel_of_nothing_is_not_packed_beyond_what_is_read(tmp_path):
    """Zeros shrink a thousand times, which no reader believes."""
    encoder = networks.encoder("mlp", (28, 28, 1), LATENT)
    encoder.set_weights([np.zeros_like(weight) for weight in encoder.get_weights()])
    artifact.round_to_float16(encoder)
    folder = write(tmp_path / "zeros", {"encoder": encoder}, facts(), float16=True)
    assert (folder / "model.weights.h5").stat().st_size > 2 * encoder.count_params()
    assert not any(weight.any() for weight in sslzoo.load(folder).get_weights())


def test_float16_keeps_numbers_it_cannot_hold(tmp_path):
    encoder = fresh_parts()["encoder"]
    kernel = encoder.get_layer("fc1").weights[0]
    kernel.assign(np.full(kernel.shape, 1e6, "float32"))
    loaded = sslzoo.load(write(tmp_path / "model", {"encoder": encoder}, facts(), float16=True))
    np.testing.assert_array_equal(loaded.get_layer("fc1").get_weights()[0], np.full(kernel.shape, 1e6, "float32"))


def test_compiled_nested_and_mixed_models_are_written_plain(tmp_path):
    """An optimizer saved under one backend cannot train under another, so none is written."""
    encoder = fresh_parts()["encoder"]
    encoder.compile("adam", "mse")
    encoder.fit(IMAGES.astype("float32"), np.zeros((5, LATENT), "float32"), verbose=0)
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        z = keras.Input((LATENT,), dtype="float32")
        decoder = keras.Model(z, layers.Activation("sigmoid")(networks.decoder("mlp-small", SHAPE, LATENT, seed=1)(z)))
    finally:
        keras.config.set_dtype_policy(policy)
    folder = write(tmp_path / "model", {"encoder": encoder, "decoder": decoder}, facts())
    assert json.loads((folder / "config.json").read_text())["compile_config"] is None
    with h5py.File(folder / "model.weights.h5") as file:
        assert "optimizer" not in file
    loaded = keras.saving.load_model(folder)  # without compile=False
    assert not loaded.compiled
    np.testing.assert_allclose(numpy(loaded(IMAGES)), numpy(encoder(IMAGES)), atol=1e-6)
    decoder = sslzoo.load(folder, "decoder")
    assert decoder.outputs[0].dtype == "float32" and not any(isinstance(layer, keras.Model) for layer in decoder.layers)
    assert encoder.compiled and encoder.optimizer is not None  # the model in hand goes on as it was


def test_a_whole_method_goes_through(folder, tmp_path):
    from sslzoo.methods import VAE

    method = VAE(posterior_network(), networks.decoder("mlp-small", SHAPE, LATENT, seed=1), seed=0)
    method.compile("adam")
    views = np.random.default_rng(0).random((4, 2, *SHAPE), "float32")
    method.fit(views, batch_size=4, verbose=0)
    written = write(tmp_path / "model", {"encoder": all_parts()["encoder"], "model": method}, facts())
    loaded = sslzoo.load(written, part="model")
    assert type(loaded) is VAE and not loaded.compiled
    for ours, theirs in zip(loaded.weights, method.weights):
        np.testing.assert_array_equal(numpy(ours), numpy(theirs))
    loaded.compile("adam")
    loaded.fit(views, batch_size=4, verbose=0)


def test_a_method_that_would_not_load_is_not_written(tmp_path):
    from sslzoo.methods import VAE

    x = keras.Input(SHAPE)
    h = layers.Lambda(lambda t: 2 * t)(layers.Flatten()(x))
    encoder = keras.Model(x, [layers.Dense(LATENT, name=name)(h) for name in ("mean", "log_var")])
    method = VAE(encoder, networks.decoder("mlp-small", SHAPE, LATENT))
    with pytest.raises(InvalidInputError, match=r"safe mode.*'Lambda'"):
        write(tmp_path / "model", {"encoder": all_parts()["encoder"], "model": method}, facts())
    assert list(tmp_path.iterdir()) == []


def bidirectional():
    """A layer that copies its layer by its configuration, initializers included."""
    x = keras.Input(SHAPE, name="images")
    y = layers.Bidirectional(layers.LSTM(2, name="lstm"), name="both")(layers.Reshape(SHAPE[:2])(x))
    return keras.Model(x, y)


def test_layers_that_copy_layers_come_back(tmp_path):
    written = bidirectional()
    loaded = sslzoo.load(write(tmp_path / "model", {"encoder": written}, facts()))
    np.testing.assert_allclose(numpy(loaded(IMAGES)), numpy(written(IMAGES)), atol=1e-6)
    theirs = keras.saving.load_model(tmp_path / "model").get_config()
    assert loaded.get_config() == theirs | {"name": "simvae-digits"}  # a loaded model is named for what it is
    assert "Orthogonal" in json.dumps(loaded.get_config())


class Killed(BaseException):
    """The process is gone: nothing that comes after runs."""


@pytest.mark.parametrize("at", range(4))
def test_a_write_killed_between_its_renames_leaves_a_model(copy, monkeypatch, at):
    left, rename, remove = [at], os.replace, artifact._remove

    def until_killed(action):
        def act(*arguments):
            if left[0] <= 0:
                left[0] = -1
                raise Killed
            left[0] -= action is not remove
            return action(*arguments)

        return act

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", until_killed(rename))
        patched.setattr(artifact, "_remove", until_killed(remove) if at else remove)
        patched.setattr(artifact, "write_synced", lambda path, content: Path(path).write_bytes(content))
        try:
            write(copy, all_parts(), facts(name="new"), overwrite=True)
        except Killed:
            pass
        else:
            assert left[0] >= 0
    if not copy.exists():  # between two renames: the next call puts it back, even one that is refused
        with pytest.raises(ArtifactError, match="holds a model already"):
            write(copy, all_parts(), facts())
    assert read_results(copy)["name"] in ("simvae-digits", "new")
    sslzoo.load(copy)


FULL_DISK = """
import resource, signal, sys
import sslzoo, test_artifact
parts = test_artifact.all_parts()
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for size in (100, 20_000, 40_000, 60_000, 63_000, 70_000, 75_000):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    try:
        test_artifact.write(sys.argv[1], parts, test_artifact.facts(name="new"), overwrite=True)
        print(size, "written")
    except OSError as error:
        print(size, type(error).__name__, error.errno)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
def test_a_disk_that_fills_at_any_point_leaves_the_old_model_and_no_crash(copy):
    """A limit on the size of files fails a write as a full disk does, wherever it strikes."""
    before = state(copy)
    paths = [str(Path(sslzoo.__file__).parents[1]), str(Path(__file__).parent)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-c", FULL_DISK, str(copy)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "OSError" in done.stdout and "written" not in done.stdout, done.stdout
    assert state(copy) == before
    assert [path.name for path in copy.parent.iterdir()] == [copy.name]


def test_a_folder_is_not_replaced_unasked(folder, copy):
    before = state(copy)
    with pytest.raises(ArtifactError, match=r"holds a model already.*overwrite=True"):
        write(copy, all_parts(), facts(name="other"))
    assert state(copy) == before
    write(copy, {"encoder": all_parts()["encoder"]}, facts(name="other"), overwrite=True)
    assert read_results(copy)["name"] == "other" and layout.parts(copy) == ["encoder"]
    assert [path.name for path in copy.parent.iterdir()] == [copy.name]


def test_the_current_folder_is_not_replaced(copy, monkeypatch):
    before = state(copy)
    monkeypatch.chdir(copy)
    with pytest.raises(ArtifactError, match="the current folder is this one"):
        write(".", all_parts(), facts(), overwrite=True)
    assert state(copy) == before and copy.samefile(".")
    (copy / "pictures").mkdir(exist_ok=True)
    monkeypatch.chdir(copy / "pictures")
    with pytest.raises(ArtifactError, match="the current folder is this one, or lies in it"):
        write(copy, all_parts(), facts(), overwrite=True)


def test_the_network_of_a_method_is_not_published_for_its_encoder(tmp_path):
    """It sees values 0..1, and an encoder takes 0..255."""
    from sslzoo.methods import VAE
    from sslzoo.views import Views

    decoder = networks.decoder("mlp-small", SHAPE, LATENT, seed=1)
    method = VAE(posterior_network(), decoder, Views("simvae-digits", 2, seed=0))
    with pytest.raises(InvalidInputError, match=r"of a method take write\(folder, \*\*method\.parts"):
        artifact.write(tmp_path / "whole", method)
    with pytest.warns(UserWarning, match=r"No layer of this encoder scales.*method\.parts"):
        artifact.write(tmp_path / "network", networks.encoder("mlp-small", SHAPE, LATENT, seed=0))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        artifact.write(tmp_path / "right", **method.parts(SHAPE))


def test_foreign_files_are_never_removed(copy):
    (copy / "thesis.tex").write_text("years of work")
    with pytest.raises(ArtifactError, match=r"other files, which are left alone \(thesis.tex\)"):
        write(copy, all_parts(), facts(), overwrite=True)
    assert (copy / "thesis.tex").read_text() == "years of work"
    with pytest.raises(ArtifactError, match="a file of that name"):
        write(copy / "thesis.tex", all_parts(), facts(), overwrite=True)


def test_a_write_that_fails_leaves_everything_as_it_was(copy, monkeypatch):
    before = state(copy)
    real = artifact._write_model

    def failing(folder, model, float16):
        real(folder, model, float16)
        if folder.name == "decoder":
            raise OSError("No space left on device")

    monkeypatch.setattr(artifact, "_write_model", failing)
    with pytest.raises(OSError, match="No space left"):
        write(copy, all_parts(), facts(name="new"), overwrite=True)
    with pytest.raises(OSError, match="No space left"):
        write(copy.parent / "fresh", all_parts(), facts(name="new"))
    assert state(copy) == before
    assert [path.name for path in copy.parent.iterdir()] == [copy.name]


def test_what_a_killed_write_left_behind_is_cleared(copy):
    """Yesterday, or under this process' number; a younger one may be what another process is writing now."""
    old, own, young = (copy.parent / f".{copy.name}.{mark}.partial" for mark in ("1", os.getpid(), "2"))
    for partial in (old, own, young):
        partial.mkdir()
        (partial / "model.weights.h5").write_bytes(b"half")
    os.utime(old, (0, 0))
    for name in (".results.json.9.part", ".DS_Store"):
        (copy / name).write_bytes(b"half")
    write(copy, all_parts(), facts(), overwrite=True)
    assert not old.exists() and not own.exists() and young.exists() and "model.weights.h5" in layout.files(copy)
    assert not list(copy.glob("*.part"))


def test_of_two_processes_the_second_does_not_replace_what_the_first_wrote(tmp_path, monkeypatch):
    folder, real = tmp_path / "fresh", artifact._write_model

    def slow(place, model, float16):
        monkeypatch.setattr(artifact, "_write_model", real)
        monkeypatch.setattr(os, "getpid", lambda: 1)
        write(folder, all_parts(), facts(name="first"))
        monkeypatch.undo()
        real(place, model, float16)

    monkeypatch.setattr(artifact, "_write_model", slow)
    with pytest.raises(ArtifactError, match="holds a model already"):
        write(folder, all_parts(), facts(name="second"))
    assert [path.name for path in tmp_path.iterdir()] == ["fresh"] and read_results(folder)["name"] == "first"


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda parts: {**parts, "encoder": None}, "encoder must be a built Functional"),
        (lambda parts: {"encoder": parts["posterior"]}, "encoder must map float32 raw images"),
        (lambda parts: {"encoder": posterior_network()}, "encoder must map float32 raw images"),
        (lambda parts: {**parts, "decoder": parts["encoder"]}, "decoder must map float32 latents"),
        (lambda parts: {**parts, "decoder": subclassed()}, "must be a built Functional"),
        (lambda parts: {**parts, "model": "VAE"}, "model must be a built Keras model"),
    ],
)
def test_parts_that_do_not_fit_are_refused(tmp_path, change, message):
    with pytest.raises(InvalidInputError, match=message):
        write(tmp_path / "model", change(all_parts()), facts())
    with pytest.raises(UnknownNameError, match="head"):
        write(tmp_path / "model", all_parts() | {"head": 1}, facts())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("pictures", [{"a.png": "/nowhere/a.png"}, {"../a.png": __file__}, {"a.py": __file__}])
def test_pictures_that_do_not_fit_are_refused(tmp_path, pictures):
    with pytest.raises(InvalidInputError, match="pictures"):
        write(tmp_path / "model", all_parts(), facts(), pictures=pictures)
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------ results


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"name": "SimVAE MNIST"}, r"results\['name'\] must be lower-case"),
        ({"name": "../other"}, r"results\['name'\] must be"),
        ({"method": " "}, r"results\['method'\] must be a text"),
        ({"description": "x" * 10_001}, r"at most 10,000 characters. Received: 'x{299} \.\.\.$"),
        (
            {"metrics": [{"name": "knn", "label": "x" * 201, "value": 1.0, "protocol": "k"}]},
            r"\['label'\] must be a text of at most 200 characters",
        ),
        ({"seeds": [0.5]}, r"results\['seeds'\]"),
        ({"settings": {"rate": float("nan")}}, r"results\['settings'\]\['rate'\] must be a finite number"),
        ({"settings": {1: 2}}, r"results\['settings'\] must have names for keys"),
        ({"settings": {"net": object()}}, r"results\['settings'\]\['net'\] must be something JSON can hold"),
        (
            {"metrics": [{"name": "knn", "value": 1.0}]},
            r"results\['metrics'\]\[0\]\['protocol'\].*the field is missing",
        ),
        ({"metrics": [{"name": "knn", "value": "98", "protocol": "k"}]}, r"\[0\]\['value'\] must be a number"),
        ({"metrics": [{"name": "knn", "value": True, "protocol": "k"}]}, r"\['value'\] must be a number"),
        ({"metrics": {"knn": 98}}, r"results\['metrics'\] must be a list of objects"),
        ({"metrics": [98]}, r"results\['metrics'\]\[0\] must be an object"),
        ({"wall_seconds": -1}, r"results\['wall_seconds'\] must be a number >= 0"),
        ({"versions": {"keras": 3}}, r"results\['versions'\] must be an object of texts"),
        ({"papers": [{"title": "x", "url": "javascript:alert(1)"}]}, r"results\['papers'\]\[0\]\['url'\]"),
        ({"license": "Apache 2"}, r"results\['license'\]"),
        ({"licence": "Apache 2"}, r"results\['license'\]"),
        ({"ended": "early"}, r"results\['ended'\] must be one of epochs, minutes"),
        ({"left_out": "decoder"}, r"results\['left_out'\] must be a list"),
        ({"packed": 5.5}, r"results\['packed'\] must be an integer"),
        ({"views_seen": 10**400}, r"below 2\*\*63"),
        ({"metric": []}, r"Unknown field of results. Did you mean 'metrics'"),
        ({"pictures": [{"file": "../../etc/passwd", "caption": "x"}]}, r"results\['pictures'\]\[0\]\['file'\]"),
    ],
)
def test_results_that_do_not_fit_name_the_field(changes, message):
    with pytest.raises((InvalidInputError, UnknownNameError), match=message):
        check_results(facts(**changes))


def test_a_missing_name_is_named():
    results = facts()
    del results["name"]
    with pytest.raises(InvalidInputError, match=r"results\['name'\].*missing"):
        check_results(results)


def test_an_encoder_is_all_that_is_needed(tmp_path):
    """Whoever trains in a loop of their own knows no recipe; what is not known is left out."""
    folder = sslzoo.publishing.write(tmp_path / "mine", all_parts()["encoder"])
    np.testing.assert_allclose(numpy(sslzoo.load(folder)(IMAGES)), numpy(all_parts()["encoder"](IMAGES)), atol=1e-6)
    results = read_results(folder)
    assert results["name"] == "mine" and not {"method", "metrics", "seeds", "license"} & set(results)
    text = (folder / layout.CARD).read_text("utf-8")
    assert "An image encoder with 3 features." in text and "No license is stated" in text and "None" not in text
    model = sslzoo.info(folder)
    assert model["method"] is None and model["metrics"] == [] and "mine" in repr(model)
    assert artifact.copy(folder, tmp_path / "copy") and sslzoo.load(tmp_path / "copy").name == "mine"
    with pytest.raises(InvalidInputError, match="its folder's name is taken"):
        sslzoo.publishing.write(tmp_path / "My Model", all_parts()["encoder"])


def test_names_that_are_no_text_do_not_cost_a_model(tmp_path):
    """File names of unknown encoding come as halves of characters."""
    folder = write(tmp_path / "model", all_parts(), facts(dataset="caf\udce9", remarks=["a\udce9"]))
    assert read_results(folder)["dataset"] == r"caf\udce9" and sslzoo.load(folder).output_shape == (None, LATENT)


def test_a_copy_without_a_part_keeps_the_bytes_of_the_others(copy, tmp_path):
    before = state(copy)
    target = artifact.copy(copy, tmp_path / "target", without=("posterior",), left_out=["posterior"])
    after = state(target)
    assert {file for file in before if file not in after} == {f for f in before if f.startswith("posterior")}
    assert {file for file in after if after[file] != before[file]} == {"results.json", "README.md"}
    assert read_results(target)["parts"].keys() == {"encoder", "decoder"} and state(copy) == before
    assert "written by the recipe: posterior." in (target / layout.CARD).read_text("utf-8")
    with pytest.raises(ArtifactError, match="Left out here, and written by the recipe: posterior"):
        sslzoo.load(target, "posterior")


def test_results_of_later_versions_do_not_stop_a_load(copy):
    results = json.loads((copy / "results.json").read_text("utf-8")) | {"schema": 2, "carbon": 0.1}
    (copy / "results.json").write_text(json.dumps(results), "utf-8")
    assert read_results(copy)["carbon"] == 0.1
    assert sslzoo.load(copy).output_shape == (None, LATENT)


def test_a_set_without_labels_has_no_metrics_and_that_is_fine(tmp_path):
    folder = write(tmp_path / "model", all_parts(), facts(metrics=[]))
    assert "Nothing was measured" in (folder / "README.md").read_text("utf-8")


def test_bad_results_stop_a_write_before_it_begins(tmp_path):
    with pytest.raises(InvalidInputError, match="seeds"):
        write(tmp_path / "model", all_parts(), facts(seeds=[-1]))
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------ read

OTHER_PROCESS = """
import json, sys
import numpy as np, keras
folder, given, out = sys.argv[1:]
images = np.load(given)
results = {}
for part in ("", "/posterior"):
    model = keras.saving.load_model(folder + part)
    outputs = model(images)
    for index, output in enumerate(outputs if isinstance(outputs, (list, tuple)) else [outputs]):
        results[f"{part}{index}"] = keras.ops.convert_to_numpy(output)
encoder = keras.saving.load_model(folder)
results["predicted"] = encoder.predict(images, verbose=0)
before = [keras.ops.convert_to_numpy(w) for w in encoder.trainable_weights]
encoder.compile(keras.optimizers.Adam(1e-2), loss="mse")
encoder.train_on_batch(images, np.ones((len(images), 3), "float32"))
after = [keras.ops.convert_to_numpy(w) for w in encoder.trainable_weights]
assert all((a != b).any() for a, b in zip(before, after)), "not every weight was trained"
assert not any(name.split(".")[0] == "sslzoo" for name in sys.modules)
np.savez(out, backend=keras.backend.backend(), **results)
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_other_processes_and_backends_load_and_train_it_without_sslzoo(folder, tmp_path, backend):
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    np.save(tmp_path / "images.npy", IMAGES)
    environment = os.environ | {"KERAS_BACKEND": backend}
    environment.pop("PYTHONPATH", None)
    command = [sys.executable, "-c", OTHER_PROCESS, str(folder), "images.npy", "out.npz"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = np.load(tmp_path / "out.npz")
    assert found["backend"] == backend
    parts = all_parts()
    mean, log_var = (numpy(t) for t in parts["posterior"](IMAGES))
    for key, expected in {"0": mean, "/posterior0": mean, "/posterior1": log_var, "predicted": mean}.items():
        np.testing.assert_allclose(found[key], expected, atol=1e-5)


@pytest.mark.skipif(keras.backend.backend() == "tensorflow", reason="TensorFlow is the backend")
def test_loading_does_not_import_tensorflow(folder):
    """Seconds saved, and a machine without it served."""
    code = "import sys, sslzoo; sslzoo.load(sys.argv[1]); sys.exit('tensorflow' in sys.modules)"
    root = str(Path(sslzoo.__file__).parent.parent)
    environment = os.environ | {"KERAS_BACKEND": keras.backend.backend(), "PYTHONPATH": root}
    command = [sys.executable, "-c", code, str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:] or "tensorflow was imported"


def test_every_part_comes_back(folder):
    parts = all_parts()
    for part in ("encoder", "posterior"):
        for ours, theirs in zip(ops.split(sslzoo.load(folder, part)(IMAGES)[0], 1), parts[part](IMAGES)[0][None]):
            np.testing.assert_allclose(numpy(ours), numpy(theirs), atol=1e-6)
    z = np.eye(LATENT, dtype="float32")
    pixels = numpy(sslzoo.load(folder, part="decoder")(z))
    np.testing.assert_allclose(pixels, numpy(parts["decoder"](z)), atol=1e-6)
    assert pixels.shape == (LATENT, *SHAPE) and pixels.min() >= 0 and pixels.max() <= 1


def test_a_loaded_encoder_takes_bytes_and_floats_alike(folder):
    encoder = sslzoo.load(folder)
    called = numpy(encoder(IMAGES))
    np.testing.assert_array_equal(numpy(encoder(IMAGES.astype("float32"))), called)
    for images in (IMAGES, IMAGES.astype("float32")):
        np.testing.assert_allclose(encoder.predict(images, verbose=0), called, atol=1e-6)
    assert called.dtype == np.float32 and called.shape == (5, LATENT)


def test_a_loaded_model_is_what_keras_loads(folder):
    """Not drawing initial weights leaves no trace: the configuration is the same, initializers included."""
    ours, theirs = sslzoo.load(folder), keras.saving.load_model(folder)
    assert ours.get_config() == theirs.get_config() | {"name": "simvae-digits"}
    assert "Glorot" in json.dumps(ours.get_config())
    assert all(np.array_equal(numpy(a), numpy(b)) for a, b in zip(ours.weights, theirs.weights))
    assert len(ours.trainable_weights) == len(ours.weights) == 6


def test_a_keras_file_is_read(tmp_path):
    encoder = all_parts()["encoder"]
    encoder.save(tmp_path / "encoder.keras")
    np.testing.assert_array_equal(numpy(sslzoo.load(tmp_path / "encoder.keras")(IMAGES)), numpy(encoder(IMAGES)))
    with pytest.raises(ArtifactError, match="no other parts"):
        sslzoo.load(tmp_path / "encoder.keras", part="decoder")
    (tmp_path / "broken.keras").write_bytes((tmp_path / "encoder.keras").read_bytes()[:1000])
    (tmp_path / "notes.txt").write_text("x")
    for name, message in {"broken.keras": "damaged", "notes.txt": "or a .keras file"}.items():
        with pytest.raises(ArtifactError, match=message):
            sslzoo.load(tmp_path / name)


def bomb(path, member, size):
    """A .keras file of which one member inflates to `size` bytes."""
    all_parts()["encoder"].save(path)
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            with archive.open(name, "w") as target:
                target.write(content)
                for _ in range(size // 2**20 if name == member else 0):
                    target.write(b" " * 2**20)


@pytest.mark.parametrize("member", ["config.json", "model.weights.h5"])
def test_archives_that_inflate_are_refused_before_they_do(tmp_path, member):
    bomb(tmp_path / "bomb.keras", member, 2**28)
    began = time.monotonic()
    with pytest.raises(ArtifactError, match=rf"{member} of a .keras file of this size may have"):
        sslzoo.load(tmp_path / "bomb.keras")
    assert time.monotonic() - began < 1


def truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def rename_class(path, **changes):
    config = json.loads(path.read_text())
    config["config"]["layers"][1].update(changes)
    path.write_text(json.dumps(config))


def link(path):
    with h5py.File(path, "a") as file:
        del file["layers/dense"]
        file["layers/dense"] = h5py.ExternalLink("/etc/other.h5", "/secret")


def external(path):
    with h5py.File(path, "a") as file:
        del file["layers/dense/vars/0"]
        file.create_dataset("layers/dense/vars/0", (64, 128), "float32", external=[("/etc/passwd", 0, 64 * 128 * 4)])


def null_space(path):
    with h5py.File(path, "a") as file:
        del file["layers/dense/vars/0"]
        file.create_dataset("layers/dense/vars/0", data=h5py.Empty("float32"))


def row_of(count, kind="Sequential"):
    dense = {"module": "keras.layers", "class_name": "Dense", "config": {"units": 1}, "registered_name": None}
    made = {"module": "keras", "class_name": kind, "config": {"name": "row", "layers": [dense] * count}}
    return json.dumps(made)


def shared(layer, times):
    """The configuration of a Functional model that calls one layer, or model, so often."""
    return {
        "module": "keras",
        "class_name": "Functional",
        "registered_name": None,
        "config": {"name": "outer", "layers": [layer | {"inbound_nodes": [{"args": [], "kwargs": {}}] * times}]},
    }


def nested(depth, kind="Sequential"):
    """The configuration of models inside models: the innermost is built, and called by each of those around it."""
    model = json.loads(row_of(100))
    for _ in range(depth):
        model = {"module": "keras", "class_name": kind, "config": {"name": "n", "layers": [model]}}
    return model


@pytest.mark.parametrize("config", [shared(json.loads(row_of(100)), 20), nested(20), nested(20, "Functional")])
def test_what_takes_long_to_build_is_counted_as_often_as_it_is_built(config):
    """Each of these has 120 layers at most, and Keras would call thousands."""
    with pytest.raises(ArtifactError, match="may have 2,000 layers, those of models inside it counted each time"):
        check_config(config)
    check_config(nested(3))


@pytest.mark.filterwarnings("ignore:Loaded all the same")
@pytest.mark.parametrize(
    "file, spoil, message",
    [
        ("config.json", Path.unlink, "A model folder holds config.json|The model has the parts"),
        ("model.weights.h5", Path.unlink, "Expected a readable file.*model.weights.h5"),
        ("model.weights.h5", truncate, "damaged or cut short"),
        ("model.weights.h5", lambda path: path.write_bytes(b""), "damaged or cut short"),
        ("model.weights.h5", link, "in the file itself, not elsewhere"),
        ("model.weights.h5", external, "in the file itself, not elsewhere"),
        ("model.weights.h5", null_space, "must be arrays of numbers"),
        ("config.json", truncate, "Expected a JSON file"),
        ("config.json", lambda path: path.write_text(" " * 2**23 + path.read_text()), "larger than"),
        ("config.json", lambda path: path.write_text(row_of(250)), "may have 2,000 layers"),
        ("config.json", lambda path: path.write_text(row_of(2001, "Functional")), "may have 2,000 layers"),
        ("config.json", lambda path: path.write_bytes(b"\xff\xfe"), "Expected a JSON file"),
        ("config.json", lambda path: path.write_text("[" * 100_000), "Expected a JSON file"),
        ("config.json", lambda path: path.write_text("[]"), "must describe a Keras model"),
        ("config.json", lambda path: path.write_text('{"class_name": "Functional"}'), "Expected a Keras model"),
        ("config.json", lambda path: rename_class(path, class_name="Lambda"), "refused.*'Lambda'"),
        ("config.json", lambda path: rename_class(path, module="os", class_name="system"), "Only Keras' own classes"),
        ("config.json", lambda path: rename_class(path, registered_name="evil>Layer"), "Only Keras' own classes"),
        ("config.json", lambda path: rename_class(path, class_name="Rescalling"), "could not read this model"),
        ("config.json", lambda path: path.write_text(path.read_text().replace("128", "12")), "could not read this"),
        ("results.json", truncate, "is damaged"),
        (
            "model.weights.h5",
            lambda path: path.write_bytes(b"version https://git-lfs.github.com/spec/v1"),
            "git lfs pull",
        ),
        ("results.json", lambda path: path.write_bytes(b"version https://git-lfs.github.com/spec/v1"), "git lfs pull"),
        ("results.json", lambda path: path.write_text("{}"), r"damaged: results\['name'\]"),
        ("results.json", lambda path: path.write_text("[]"), "damaged: results must be an object"),
    ],
)
def test_damaged_and_foreign_files_end_in_one_clear_error(copy, file, spoil, message):
    spoil(copy / file)
    with pytest.raises(ArtifactError, match=message):
        sslzoo.load(copy, verify=file == "results.json")
    with pytest.raises(ArtifactError):  # whose hashes tell of some of it first
        sslzoo.load(copy)


def test_unverified_loading_leaves_results_aside(copy):
    (copy / "results.json").write_text("{}")
    assert sslzoo.load(copy, verify=False).output_shape == (None, LATENT)


def test_a_part_that_is_not_there_is_said_to_be_missing(copy):
    shutil.rmtree(copy / "decoder")
    with pytest.raises(ArtifactError, match=r"has the parts encoder, posterior. Received: part='decoder'"):
        sslzoo.load(copy, part="decoder")
    with pytest.raises(UnknownNameError, match=r"Unknown part\. Did you mean 'decoder'"):
        sslzoo.load(copy, part="decoders")


def test_names_are_found_where_the_environment_says(folder, monkeypatch, tmp_path):
    monkeypatch.setenv("SSLZOO_WEIGHTS", str(folder.parent))
    monkeypatch.setenv("SSLZOO_MANIFEST", str(manifest.write({}, tmp_path / "manifest.json")))
    monkeypatch.chdir(tmp_path)
    assert sslzoo.load("simvae-digits").output_shape == (None, LATENT)
    assert local_models()["simvae-digits"] == folder
    (tmp_path / "simvae-digits").mkdir()  # a run of that name, say: no model
    assert sslzoo.load("simvae-digits").output_shape == (None, LATENT)
    with pytest.raises(UnknownNameError, match="Did you mean 'simvae-digits'"):
        sslzoo.load("simvae-digit")


def test_paths_and_names_that_lead_nowhere(folder, monkeypatch, tmp_path):
    monkeypatch.setenv("SSLZOO_WEIGHTS", str(tmp_path / "nowhere"))
    monkeypatch.setenv("SSLZOO_MANIFEST", str(manifest.write({}, tmp_path / "manifest.json")))
    monkeypatch.setattr(index, "__file__", str(tmp_path / "site-packages" / "sslzoo" / "zoo" / "index.py"))
    with pytest.raises(ArtifactError, match=r"No models found in .*nowhere.*SSLZOO_WEIGHTS"):
        sslzoo.load("simvae-digits")
    for path in (
        tmp_path / "missing",
        "../missing/model",
        "missing.keras",
        "a/" + 300 * "b",
        300 * "b" + "/a",
        "a/\0",
        "\0/a",
    ):
        with pytest.raises(ArtifactError, match="No such folder or file"):
            sslzoo.load(path)
    for path in ("me/enc", "https://huggingface.co/me/enc", "https://huggingface.co/me/enc/tree/main", "me/enc/"):
        with pytest.raises(ArtifactError, match="Did you mean hf://me/enc, on the Hub"):
            sslzoo.load(path)
    for path in (
        "me/enc@v1",
        "https://huggingface.co/me/enc/tree/v1",
        "https://hf.co/me/enc/blob/v1/README.md?x=1#top",
    ):
        with pytest.raises(ArtifactError, match="Did you mean hf://me/enc@v1, on the Hub"):
            sslzoo.load(path)
    for path in (
        "hf://me/enc/",
        "hf://me/enc ",
        "hf://me/enc?x=1",
        "hf://me/enc/tree/main",
        "hf://https://huggingface.co/me/enc",
    ):
        with pytest.raises(InvalidInputError, match="Did you mean hf://me/enc, on the Hub"):
            sslzoo.load(path)
    with pytest.raises(ArtifactError, match=rf"No such folder or file. Models there: {folder}. Received"):
        sslzoo.load(folder.parent / "enc")
    with pytest.raises(ArtifactError, match=r"A model folder holds config\.json"):
        sslzoo.load(tmp_path)
    assert sslzoo.load(folder.parent).output_shape == sslzoo.load(folder).output_shape  # the one model in it
    with pytest.raises(InvalidInputError, match="Expected a name or a path"):
        sslzoo.load(None)
    with pytest.raises(InvalidInputError, match="Only Hub repositories have revisions"):
        sslzoo.load(folder, revision="main")


# ---------------------------------------------------------------------- hashes


def flip_a_bit(file):
    """In the last kernel's numbers, which no structure of the file hangs on."""
    with h5py.File(file, "r+") as opened:
        names = []
        opened.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        raw = opened[names[-1]][()]
        raw.reshape(-1).view("uint8")[0] ^= 1
        opened[names[-1]][()] = raw


def test_results_hold_the_hashes_of_the_files(folder):
    hashes = read_results(folder)["files"]
    assert set(hashes) == {
        f"{part}{file}" for part in ("", "posterior/", "decoder/") for file in ("config.json", "model.weights.h5")
    }
    assert all(sha256(folder / file) == digest for file, digest in hashes.items())


@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_a_flipped_bit_is_refused_unless_told(copy, part):
    flip_a_bit(layout.part_folder(copy, part) / layout.WEIGHTS)
    with pytest.raises(IntegrityError, match=r"sslzoo seal.*Expected sha256.*verify=False"):
        sslzoo.load(copy, part)
    with pytest.warns(UserWarning, match="Loaded all the same"):
        sslzoo.load(copy, part, verify=False)
    other = "decoder" if part == "encoder" else "encoder"
    sslzoo.load(copy, other)  # whose files are whole


def test_a_changed_folder_is_sealed_on_purpose(copy):
    flip_a_bit(copy / layout.WEIGHTS)
    (copy / layout.CARD).write_text("mine")
    assert artifact.seal(copy, wall_seconds=5)
    assert read_results(copy)["wall_seconds"] == 5 and (copy / layout.CARD).read_text() != "mine"
    sslzoo.load(copy)
    assert not artifact.seal(copy)
    shutil.rmtree(copy / "decoder")  # which neither the results nor the card promise any longer
    assert artifact.seal(copy)
    assert "decoder" not in read_results(copy)["parts"] and "decoder" not in (copy / layout.CARD).read_text()


def test_an_encoder_of_any_size_is_refused_in_a_sentence(tmp_path):
    network = keras.Sequential([keras.Input((None, None, 3)), layers.Rescaling(1 / 255), layers.Conv2D(4, 3)])
    encoder = keras.Sequential([network, layers.GlobalAveragePooling2D()])
    with pytest.raises(InvalidInputError, match=r"of one size.*Received: input_shape=\(None, None, None, 3\)"):
        sslzoo.publishing.write(tmp_path / "any", encoder)
    folder = sslzoo.publishing.write(tmp_path / "one", keras.Sequential([keras.Input((8, 8, 3)), encoder]))
    assert sslzoo.load(folder).input_shape == (None, 8, 8, 3)


def test_a_folder_in_which_only_a_system_left_a_file_is_empty(tmp_path):
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / ".DS_Store").write_bytes(b"x")
    artifact.check_target(tmp_path / "new", overwrite=False)


def test_folders_from_before_there_were_hashes_load(copy):
    results = json.loads((copy / layout.RESULTS).read_text())
    del results["files"]
    (copy / layout.RESULTS).write_text(json.dumps(results))
    flip_a_bit(copy / layout.WEIGHTS)
    sslzoo.load(copy)


def test_a_quantized_encoder_comes_back_in_no_other_precision(tmp_path):
    parts = [keras.Input(SHAPE, name="images"), layers.Flatten(), layers.Dense(8), layers.Dense(LATENT)]
    encoder = keras.Sequential(parts)
    encoder.layers[-2].quantize("int8")
    folder = sslzoo.publishing.write(tmp_path / "small", encoder)
    np.testing.assert_allclose(numpy(sslzoo.load(folder)(IMAGES)), numpy(encoder(IMAGES)), atol=1e-5)
    for dtype in ("float32", "mixed_bfloat16"):
        with pytest.raises(InvalidInputError, match=r"leave dtype out.*Received: 'dense.*quantization_mode='int8'"):
            sslzoo.load(folder, dtype=dtype)


def test_a_place_that_cannot_be_written_is_refused_before_any_work(tmp_path, monkeypatch):
    access = os.access  # whoever is root may write anywhere
    monkeypatch.setattr(os, "access", lambda path, mode: "sealed" not in str(path) and access(path, mode))
    (tmp_path / "sealed").mkdir()
    with pytest.raises(ArtifactError, match=r"there none can be written\. Received: folder=.*sealed"):
        artifact.check_target(tmp_path / "sealed" / "new" / "model", overwrite=False)
    artifact.check_target(tmp_path / "new" / "model", overwrite=False)
    with pytest.raises(InvalidInputError, match=r"--output must be in a folder that can be written"):
        command.check_output(tmp_path / "sealed" / "features.npz", force=False)


def test_a_card_in_another_encoding_is_replaced(tmp_path):
    folder = shutil.copytree(Path(__file__).parent.parent / "weights/simvae-digits", tmp_path / "simvae-digits")
    (folder / "README.md").write_bytes("Münze".encode("latin-1"))
    assert sslzoo.publishing.seal(folder) and (folder / "README.md").read_text("utf-8").startswith("---")


def test_a_model_is_written_where_a_link_leads(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "mine").symlink_to(tmp_path / "disk" / "mine")
    encoder = networks.encoder("mlp-small", (8, 8, 1), 4, seed=0)
    for overwrite in (False, True):
        sslzoo.publishing.write(tmp_path / "mine", encoder, overwrite=overwrite)
        assert (tmp_path / "mine").is_symlink() and sslzoo.load(tmp_path / "disk" / "mine").output_shape == (None, 4)


@pytest.mark.parametrize(
    "odd",
    [
        {"input_range": [0, 255, 1]},
        {"input_range": [1, 0]},
        {"evaluation": {"data": "x"}},
        {"evaluation": {"protocols": {"knn": []}}},
    ],
)
def test_results_edited_by_hand_end_in_a_sentence(odd, tmp_path):
    folder = shutil.copytree(Path(__file__).parent.parent / "weights/simvae-digits", tmp_path / "simvae-digits")
    results = json.loads((folder / "results.json").read_text())
    (folder / "results.json").write_text(json.dumps(results | odd))
    with pytest.raises(ArtifactError, match=next(iter(odd))):
        sslzoo.info(folder)


def test_results_that_nobody_could_read_again_are_not_written(tmp_path):
    """They were, and the model could not be loaded: its results.json was "damaged"."""
    with pytest.raises(InvalidInputError, match=r"at most.*Received: 4,5.* bytes"):
        write(tmp_path / "large", all_parts(), facts(remarks=["x" * 9000] * 500))
    assert not (tmp_path / "large").exists()
