"""config.json from someone who means harm, or from a disk that rots: a model, or one error of the package's own.

Thousands of mutated configurations go through the check that stands before Keras. A sample of what passes it is built
by Keras, while an audit hook watches which files, sockets and processes Python opens.
"""

import contextlib
import copy
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import sysconfig
import zlib
from pathlib import Path

import h5py
import keras
import numpy as np
import pytest
from keras import layers, ops

import sslzoo
from sslzoo import networks
from sslzoo.errors import ArtifactError, SSLZooError
from sslzoo.files import read_json
from sslzoo.networks.composition import check_config, compose
from sslzoo.zoo import layout, reading, weights

SECONDS = 60  # for one configuration, on a machine however busy
SHAPE = (8, 8, 1)


# ------------------------------------------------------------------ models to start from


def plain():
    x = keras.Input(SHAPE, name="images")
    preprocessor = keras.Model(x, ops.cast(ops.greater(layers.Rescaling(1 / 255)(x), 0.5), "float32"))
    return compose(preprocessor, networks.encoder("mlp-small", SHAPE, 3, seed=0))


def branched():
    x = keras.Input(SHAPE, name="images")
    y = layers.Conv2D(2, 3, padding="same", activation="relu", name="conv")(x)
    y = layers.Add(name="add")([layers.BatchNormalization(name="norm")(y), x])
    return keras.Model(x, layers.Dense(2, name="features")(layers.GlobalAveragePooling2D(name="pool")(y)))


def nested():
    """What someone else may publish: a model inside a model, a layer inside a layer."""
    inner = keras.Sequential([keras.Input((8, 8)), layers.TimeDistributed(layers.Dense(2, name="dense"))], name="inner")
    x = keras.Input(SHAPE, name="images")
    return keras.Model(x, layers.Flatten(name="flat")(inner(layers.Reshape((8, 8), name="rows")(x))))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    for make in (plain, branched, nested):
        make().save(root / make.__name__, zipped=False)
    return {make.__name__: root / make.__name__ for make in (plain, branched, nested)}


@pytest.fixture(scope="module")
def texts(folders):
    return [(folder / layout.CONFIG).read_text("utf-8") for folder in folders.values()]


# ------------------------------------------------------------------ mutations

PAYLOADS = [
    {"module": "builtins", "class_name": "__lambda__", "config": {"value": ["4wEAAAA=", None, None]}},
    {"module": "keras.layers", "class_name": "Lambda", "config": {"name": "l", "function": "eval"}},
    {"module": "builtins", "class_name": "function", "config": "eval", "registered_name": "function"},
    {"module": "builtins", "class_name": "function", "config": "deserialize", "registered_name": "function"},
    {"module": "keras.utils", "class_name": "function", "config": "get_file", "registered_name": "get_file"},
    {"module": "keras.saving", "class_name": "function", "config": "load_model", "registered_name": "load_model"},
    {"module": "keras.config", "class_name": "function", "config": "enable_unsafe_deserialization"},
    {"module": "keras.applications", "class_name": "function", "config": "ResNet50"},
    {"module": "keras.applications", "class_name": "ResNet50", "config": {}},
    {"module": "keras.datasets.mnist", "class_name": "load_data", "config": {}},
    {"module": "keras.callbacks", "class_name": "CSVLogger", "config": {"filename": "planted.csv"}},
    {"module": "keras.src.saving.saving_lib", "class_name": "load_model", "config": {"filepath": "/etc/passwd"}},
    {"module": "keras.export", "class_name": "TFSMLayer", "config": {"filepath": "planted"}},
    {"module": "keras.layers", "class_name": "TFSMLayer", "config": {"filepath": "planted"}},
    {"module": "keras.layers", "class_name": "StringLookup", "config": {"vocabulary": "/etc/passwd"}},
    {"module": "keras.layers", "class_name": "IntegerLookup", "config": {"vocabulary": "/etc/passwd"}},
    {"module": "keras.layers", "class_name": "TextVectorization", "config": {"vocabulary": "/etc/passwd"}},
    {"module": "keras.layers", "class_name": "TorchModuleWrapper", "config": {"module": "gASVCgAAAAAAAAA="}},
    {"module": "keras.layers", "class_name": "JaxLayer", "config": {"call_fn": {"class_name": "function"}}},
    {"module": "os", "class_name": "system", "config": {"command": "touch planted"}},
    {"module": "subprocess", "class_name": "Popen", "config": {"args": ["touch", "planted"]}},
    {"module": "builtins", "class_name": "exec", "config": {}},
    {"module": "keras.layers", "class_name": "Dense", "config": {"units": 1}, "registered_name": "evil>Dense"},
    {"module": "kerasmine.layers", "class_name": "Dense", "config": {"units": 1}},
    {"module": "keras.layers.\n", "class_name": "Dense", "config": {"units": 1}},
    {"module": "tensorflow", "class_name": "__typespec__", "spec_name": "TensorSpec", "config": []},
    {"module": ["keras.layers"], "class_name": "Dense", "config": {"units": 1}},
    {"module": "keras.layers", "class_name": ["Dense"], "config": {"units": 1}},
    {"module": "keras.layers", "class_name": {"a": 1}, "config": {"units": 1}},
    {"module": "keras.layers", "class_name": None, "config": {"units": 1}},
    {"module": "keras.layers", "class_name": "Dense", "config": {"units": 1}, "registered_name": 1},
    {"module": "keras.layers", "class_name": "Rescaling", "config": {"scale": float("nan")}},
    {"module": "keras.layers", "class_name": "Rescaling", "config": {"scale": float("inf")}},
]
NAMES = [
    "Functional",
    "Sequential",
    "Model",
    "Layer",
    "Dense",
    "Conv2D",
    "InputLayer",
    "Rescaling",
    "Zeros",
    "DTypePolicy",
    "Bidirectional",
    "TimeDistributed",
    "Normalization",
    "Embedding",
    "MultiHeadAttention",
    "RandomRotation",
    "Adam",
    "__keras_tensor__",
    "__tensor__",
    "__numpy__",
    "__bytes__",
    "__slice__",
    "__ellipsis__",
    "function",
    "type",
    "eval",
    "keras",
    "keras.layers",
    "keras.initializers",
    "keras.src.models.functional",
    "keras.src.ops.numpy",
    "keras.models",
    "keras.regularizers",
    "keras.quantizers",
    "builtins",
    "../../../etc/passwd",
    "/dev/zero",
    "file:///etc/passwd",
    "hf://someone/model",
    "a/b",
    "",
    " ",
    "\x00",
    "\ud800",
    "é" * 300,
    "%s%n{}",
    "float16",
    "int8",
    "no_such_dtype",
]
NUMBERS = [0, 1, -1, 2, 3, 1.5, -0.0, 1e308, 5e-324, 2**31, 2**63, -(2**63), 10**9, 10**30, 10**400, 1e9]


def below(depth, of=list):
    value = 1
    for _ in range(depth):
        value = [value] if of is list else {"config": value}
    return value


def atom(rng):
    """Something that should not stand where it will."""
    kind = rng.randrange(8)
    if kind < 2:
        return rng.choice(NUMBERS)
    if kind < 4:
        return rng.choice(NAMES)
    if kind < 6:
        return rng.choice([None, True, False, [], {}, [[]], [None], {"": None}, [1, 2, 3], [None, 10**6, 10**6, 1]])
    if kind == 6:
        return below(rng.choice([1, 5, 50, 200]), rng.choice([list, dict]))
    return copy.deepcopy(rng.choice(PAYLOADS))


def places(value):
    """Every (container, key) of a JSON value."""
    found, waiting = [], [value]
    while waiting:
        node = waiting.pop()
        keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
        found += [(node, key) for key in keys]
        waiting += [node[key] for key in keys]
    return found


def mutate(text, rng):
    """The text with one to four things changed: in its structure, and now and then in its bytes."""
    config = json.loads(text)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        spots = places(config)
        if not spots:
            break
        node, key = rng.choice(spots)
        kind = rng.randrange(8)
        if kind < 3:
            node[key] = atom(rng)
        elif kind == 3:
            del node[key]
        elif kind == 4:
            other, place = rng.choice(spots)
            node[key] = copy.deepcopy(other[place])
        elif kind == 5:
            node[key] = rng.choice([[node[key]], {"config": node[key]}, {"class_name": "Dense", "config": node[key]}])
        elif kind == 6 and isinstance(node, list):
            node.insert(key, copy.deepcopy(node[key]))
        elif isinstance(node, dict):
            node[rng.choice([*NAMES, "config", "class_name", "module", "dtype", "build_config"])] = node.pop(key)
    content = json.dumps(config).encode("utf-8")
    return spoil(content, rng) if rng.random() < 0.1 else content


def spoil(content, rng):
    """Bytes that are hardly JSON."""
    at = rng.randrange(len(content))
    insert = rng.choice(
        [b"\xff", b"\xed\xa0\x80", b"\x00", b"{", b"]", b"NaN", b"9" * 5000, b"[" * 3000, b"\\ud800", b'"']
    )
    return rng.choice([content[:at], content[:at] + insert + content[at:], b"\xef\xbb\xbf" + content, content[at:]])


# ------------------------------------------------------------------ what happens meanwhile


class Hang(BaseException):
    """Which nobody catches on the way."""


_watch = {"on": False, "seen": []}
_PYTHON = {
    Path(path).resolve()
    for path in (sys.prefix, sys.base_prefix, *sysconfig.get_paths().values(), Path(sslzoo.__file__).parent)
}
_HARMFUL = (
    "ftplib.",
    "http.client.",
    "os.exec",
    "os.fork",
    "os.link",
    "os.mkdir",
    "os.posix_spawn",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.spawn",
    "os.symlink",
    "os.system",
    "os.truncate",
    "pickle.find_class",
    "shutil.",
    "socket.connect",
    "socket.getaddrinfo",
    "subprocess.Popen",
    "urllib.Request",
)


def _audit(event, arguments):
    """Notes what reading a model has no business doing. Python's own modules may be imported."""
    if not _watch["on"]:
        return
    if event == "open" and isinstance(arguments[0], (str, bytes)):
        path = Path(os.path.abspath(os.fsdecode(arguments[0])))
        writes = arguments[2] & (os.O_WRONLY | os.O_RDWR)
        known = any(path.is_relative_to(place) for place in (_watch["allowed"], *_PYTHON))
        if (writes or not known) and "__pycache__" not in path.parts:
            _watch["seen"].append((event, str(path)))
    elif event.startswith(_HARMFUL):
        _watch["seen"].append((event, repr(arguments)[:200]))


@pytest.fixture(scope="module", autouse=True)
def audit_hook():
    sys.addaudithook(_audit)  # for the rest of the process, there is no taking it back; it sleeps unless watched
    yield
    _watch["on"] = False


@contextlib.contextmanager
def watched(allowed):
    """Nothing but files below `allowed`, and Python's own, may be opened; and not for long."""

    def stop(*_):
        raise Hang(f"still at it after {SECONDS} seconds")

    former = signal.signal(signal.SIGALRM, stop) if hasattr(signal, "SIGALRM") else None
    _watch.update(on=True, seen=[], allowed=Path(allowed).resolve())
    if former is not None:
        signal.alarm(SECONDS)
    try:
        yield
    finally:
        _watch["on"] = False
        if former is not None:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, former)
    assert _watch["seen"] == []


# ------------------------------------------------------------------ tests


def test_the_watch_sees_what_it_is_there_for(tmp_path):
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "known").write_text("x")
    with watched(tmp_path / "inside"):
        (tmp_path / "inside" / "known").read_text()
    for harm in (
        lambda: (tmp_path / "outside").open(),
        lambda: (tmp_path / "inside" / "planted").write_text("x"),
        lambda: os.mkdir(tmp_path / "planted"),
        lambda: os.system("true"),
    ):
        with pytest.raises(AssertionError), watched(tmp_path / "inside"), contextlib.suppress(OSError):
            harm()


@pytest.mark.slow
def test_ten_thousand_configurations_end_in_a_verdict(texts, tmp_path):
    """Accepted, or refused by an error of the package's own; by far the most are one or the other for a reason."""
    rng = random.Random(0)
    path = tmp_path / layout.CONFIG
    verdicts = {"accepted": 0, "refused": 0}
    for case in range(10_000):
        content = mutate(rng.choice(texts), rng)
        path.write_bytes(content)
        try:
            check_config(read_json(path))
            verdicts["accepted"] += 1
        except SSLZooError as error:
            assert len(str(error)) < 1000
            verdicts["refused"] += 1
        except BaseException as error:
            pytest.fail(f"case {case}: {type(error).__name__}: {error}\n{content[:2000]!r}")
    assert min(verdicts.values()) > 1000, verdicts


@pytest.mark.parametrize(
    "payload", PAYLOADS, ids=lambda payload: f"{payload['class_name']} of {payload['module']}"[:60]
)
def test_a_payload_is_refused_wherever_it_stands(texts, payload):
    for text in texts:
        config = json.loads(text)
        for node, key in places(config):
            if node is config and key in ("class_name", "compile_config"):
                continue  # without the first it is no model, the second is never used
            former, node[key] = node[key], payload
            with pytest.raises(ArtifactError):
                check_config(config)
            node[key] = former
        check_config(config)


@pytest.mark.slow
def test_what_is_built_touches_nothing_else(folders, tmp_path, monkeypatch):
    """Keras gets what passed the check: a model comes out, or an error of the package's own, and no file or socket."""
    monkeypatch.chdir(tmp_path)
    rng = random.Random(1)
    copies = {name: Path(shutil.copytree(folder, tmp_path / name)) for name, folder in folders.items()}
    originals = {name: (folder / layout.CONFIG).read_text("utf-8") for name, folder in folders.items()}
    for folder in copies.values():
        sslzoo.load(folder)  # what is imported on the way is imported now
    outcomes = {"built": 0, "refused": 0}
    while sum(outcomes.values()) < 150:
        name = rng.choice(sorted(copies))
        content = mutate(originals[name], rng)
        try:
            check_config(json.loads(content))
        except (ArtifactError, ValueError, RecursionError):
            continue
        (copies[name] / layout.CONFIG).write_bytes(content)
        with watched(tmp_path):
            try:
                model = reading.read(copies[name])
                assert isinstance(model, keras.Model)
                outcomes["built"] += 1
            except SSLZooError:
                outcomes["refused"] += 1
            except BaseException as error:
                pytest.fail(f"{type(error).__name__}: {error}\n{content!r}")
    assert min(outcomes.values()) > 10, outcomes
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(folders)


@pytest.mark.parametrize("name", ["plain", "branched", "nested"])
@pytest.mark.parametrize("size", [10**6, 10**9, 10**18])
def test_a_claim_to_all_memory_is_refused(folders, tmp_path, name, size):
    """A few bytes must not make Keras allocate what the file of weights does not hold."""
    folder = Path(shutil.copytree(folders[name], tmp_path / name))
    config = json.loads((folder / layout.CONFIG).read_text("utf-8"))
    claimed = 0
    without("build_config")(config)  # or Keras stops at shapes that differ, before it could allocate anything
    for node, key in places(config):
        if key in ("units", "filters"):
            node[key] = size
            claimed += 1
    assert claimed
    (folder / layout.CONFIG).write_text(json.dumps(config), "utf-8")
    with pytest.raises(ArtifactError, match="more numbers than their file holds"):
        reading.read(folder)


def without(key):
    def change(config):
        for node, name in places(config):
            if name == key:
                del node[name]

    return change


def layer(make, shape=(8, 8)):
    """A model of one layer, of which `make` is given the size."""

    def build(size):
        x = keras.Input(shape)
        return keras.Model(x, make(size)(x))

    return build


N = 2**28
CLAIMS = {  # what a small file asks for -> model of a given size, what is changed in its configuration
    "kernel initializer left out": (layer(lambda n: layers.Dense(n)), without("kernel_initializer")),
    "kernel initializer null": (layer(lambda n: layers.Dense(n, kernel_initializer=None)), None),
    "half precision": (layer(lambda n: layers.Dense(n, dtype="float16")), None),
    "embedding": (layer(lambda n: layers.Embedding(n, 2), (8,)), None),
    "embedding without initializer": (layer(lambda n: layers.Embedding(n, 2), (8,)), without("embeddings_initializer")),
    "recurrent": (layer(lambda n: layers.LSTM(n)), None),
    "bidirectional": (layer(lambda n: layers.Bidirectional(layers.GRU(n))), None),
    "spectral": (layer(lambda n: layers.SpectralNormalization(layers.Dense(n))), None),
    "build configuration left out": (layer(lambda n: layers.Dense(n, use_bias=False)), without("build_config")),
}


@pytest.mark.parametrize("what", CLAIMS)
def test_a_claim_is_counted_however_it_is_made(tmp_path, what):
    """Variables are counted where they are made: a size may hide in any key, or in a default."""
    make, change = CLAIMS[what]
    make(2).save(tmp_path / "model", zipped=False)
    path = tmp_path / "model" / layout.CONFIG
    config = json.loads(path.read_text("utf-8"))
    if change:
        change(config)
    sized = [(node, key) for node, key in places(config) if key in ("units", "input_dim") and node[key] == 2]
    assert sized
    for node, key in sized:
        node[key] = N
    path.write_text(json.dumps(config), "utf-8")
    with pytest.raises(ArtifactError, match="more numbers than their file holds"):
        reading.read(tmp_path / "model")


@pytest.mark.parametrize("wrap", [lambda layer: layer, layers.Bidirectional])
def test_layers_that_remember_the_batch_before_are_refused_before_they_take_memory(wrap, tmp_path):
    for stateful in (False, True):
        x = keras.Input(batch_shape=(2, 8, 8))
        keras.Model(x, wrap(layers.SimpleRNN(2, stateful=stateful))(x)).save(tmp_path / str(stateful), zipped=False)
    reading.read(tmp_path / "False")
    path = tmp_path / "True" / layout.CONFIG
    config = json.loads(path.read_text("utf-8"))
    for node, key in places(config):
        if key in ("batch_shape", "shape", "input_shape") and node[key] in ([2, 8, 8], [2, 2]):
            node[key][0] = 2**50  # no machine has as much: Keras would fail otherwise
    path.write_text(json.dumps(config), "utf-8")
    with pytest.raises(ArtifactError, match="remember the batch before"):
        reading.read(tmp_path / "True")


def test_initial_values_are_drawn_again_once_a_model_is_read(folders):
    """The count ends with the reading, in this thread and in all others."""
    reading.read(folders["plain"])
    layer = layers.Dense(2**9)
    layer.build((2**9,))
    assert np.std(ops.convert_to_numpy(layer.kernel)) > 0


def test_many_names_of_the_same_weights_count_once(folders, tmp_path):
    folder = Path(shutil.copytree(folders["plain"], tmp_path / "plain"))
    with h5py.File(folder / layout.WEIGHTS, "a") as file:
        for n in range(1000):
            file[f"again/{n}"] = file["layers/dense/vars/0"]
    config = json.loads((folder / layout.CONFIG).read_text("utf-8"))
    without("build_config")(config)
    for node, key in places(config):
        if key == "units" and node[key] > 64:
            node[key] *= 100
    (folder / layout.CONFIG).write_text(json.dumps(config), "utf-8")
    with pytest.raises(ArtifactError, match="more numbers than their file holds"):
        reading.read(folder)


@pytest.mark.parametrize(
    "options", [{"compression": "gzip", "chunks": True}, {"compression": "gzip", "shuffle": True}, {"chunks": True}]
)
def test_weights_that_claim_more_than_their_file_holds_are_refused(folders, tmp_path, options):
    folder = Path(shutil.copytree(folders["plain"], tmp_path / "plain"))
    with h5py.File(folder / layout.WEIGHTS, "a") as file:
        del file["layers/dense/vars/0"]
        shape = (64, 128) if "compression" in options else (10**6, 10**6)
        dataset = file.create_dataset("layers/dense/vars/0", shape, "float32", **options)
        if "compression" in options:
            dataset[...] = np.zeros(shape, "float32")
    with pytest.raises(ArtifactError, match=r"packed at most 8 times|more bytes than it has|larger than the file"):
        reading.read(folder)


def test_variables_of_a_refused_model_are_never_drawn(folders, tmp_path):
    """Keras draws what a stateless scope has left waiting when the next one ends."""
    test_a_claim_to_all_memory_is_refused(folders, tmp_path, "plain", 10**12)
    with keras.StatelessScope():
        pass


@pytest.mark.slow
def test_a_fork_while_another_thread_loads_does_not_hang(folders):
    code = f"""
import os, sys, threading
import sslzoo
sslzoo.load({str(folders["plain"])!r})
stop = threading.Event()
def load():
    while not stop.is_set():
        sslzoo.load({str(folders["plain"])!r})
thread = threading.Thread(target=load, daemon=True)
thread.start()
for _ in range(5):
    child = os.fork()
    if not child:
        sslzoo.load({str(folders["plain"])!r})
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
thread.join()
"""
    environment = os.environ | {"PYTHONPATH": str(Path(sslzoo.__file__).parent.parent)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=300)


def packed(file, raw, mask=0, chunk=(1024, 1024), filters=None):
    """An array of one chunk, of which the bytes in the file are these."""
    del file["layers/dense/vars/0"]
    options = filters or {"compression": "gzip", "shuffle": True}
    dataset = file.create_dataset("layers/dense/vars/0", chunk, "float16", chunks=chunk, **options)
    dataset.id.write_direct_chunk((0, 0), raw, mask)


SIZE = 2 * 1024 * 1024
NOISE = np.random.default_rng(0).bytes(SIZE)


@pytest.mark.parametrize(
    "spoil, message",
    [
        (lambda file: packed(file, zlib.compress(bytes(300 * SIZE))), "must hold 2,097,152 bytes"),
        (lambda file: packed(file, zlib.compress(NOISE[: SIZE // 2])), "must hold 2,097,152 bytes"),
        (lambda file: packed(file, zlib.compress(NOISE)[: SIZE // 2]), "must hold 2,097,152 bytes"),
        (lambda file: packed(file, NOISE[: SIZE // 4], mask=3), "a filter mask"),
        (lambda file: packed(file, NOISE, filters={"compression": "lzf"}), "by gzip, after shuffle, and nothing else"),
        (lambda file: packed(file, NOISE, filters={"fletcher32": True}), "by gzip, after shuffle, and nothing else"),
        (lambda file: file.create_group("/".join("g" * 100)), "inside each other"),
        (lambda file: [file.create_group(f"g{n}") for n in range(20_001)], "20,000 arrays, groups and chunks"),
        (lambda file: file.create_dataset("text", data="x"), "must be arrays of numbers"),
        (lambda file: file.update({"soft": h5py.SoftLink("/layers")}), "not elsewhere"),
    ],
)
def test_weights_that_would_fill_memory_or_read_beyond_it_are_refused(folders, tmp_path, spoil, message):
    """HDF5 itself believes what a file says of its chunks."""
    folder = Path(shutil.copytree(folders["plain"], tmp_path / "plain"))
    with h5py.File(folder / layout.WEIGHTS, "a") as file:
        spoil(file)
    with pytest.raises(ArtifactError, match=message):
        reading.read(folder)


def test_weights_as_they_are_written_pass(folders):
    for folder in folders.values():
        content = (folder / layout.WEIGHTS).read_bytes()
        held = keras.saving.load_model(folder).count_params()
        assert weights.check_weights(content) == held


def test_damaged_keras_files_are_refused(folders, tmp_path):
    """The same gate stands before a single file."""
    path = tmp_path / "model.keras"
    sslzoo.load(folders["plain"]).save(path)
    whole = path.read_bytes()
    reading.read(path)
    for cut in range(0, len(whole), len(whole) // 20):
        path.write_bytes(whole[:cut])
        with pytest.raises(ArtifactError):
            reading.read(path)
    for at in random.Random(2).sample(range(len(whole)), 20):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        with contextlib.suppress(SSLZooError):
            assert isinstance(reading.read(path), keras.Model)
