"""A folder that stays on disk: the same images, order, batches and weights as from memory."""

import ctypes
import importlib.util
import json
import shutil
import sys
import threading
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from PIL import Image
from test_training import checkpoint, recipe

from sslzoo import callbacks, data, errors, evaluation, methods, networks, views
from sslzoo.data import image_folder, streams
from sslzoo.data.image_files import Head
from sslzoo.files import unlock_folder
from sslzoo.training import folder as run_folder
from sslzoo.training import outcome

HAS_TENSORFLOW = importlib.util.find_spec("tensorflow") is not None


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """40 pictures in two classes, gray and color, of two sizes; one that is cut short and one that is empty."""
    root = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for n in range(40):
        side, channels = (12, 3) if n % 3 else (16, 1)
        pixels = rng.integers(0, 256, (side, side, channels), "uint8")
        path = root / f"class {n % 2}" / f"{n:02d}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(pixels if channels == 3 else pixels[..., 0]).save(path)
    whole = (root / "class 0" / "00.png").read_bytes()
    (root / "class 0" / "cut.png").write_bytes(whole[: len(whole) // 2])
    (root / "class 1" / "empty.png").write_bytes(b"")
    return root


def both(photos, **options):
    options = {"image_size": 8, "on_error": "skip", **options}
    return data.load(photos, "train", **options), data.load(photos, "train", **options, stream=True)


def test_they_are_the_images_of_memory(photos):
    (images, labels), (streamed, streamed_labels) = both(photos, labels="folders")
    assert isinstance(streamed, data.StreamedImages)
    assert streamed.shape == images.shape == (40, 8, 8, 3) and len(streamed) == 40 and streamed.nbytes == images.nbytes
    np.testing.assert_array_equal(labels, streamed_labels)
    for rows in (7, -1, slice(3, 30, 4), [5, 5, 1], np.arange(12).reshape(3, 4), labels == 1):
        np.testing.assert_array_equal(streamed[rows], images[rows])
    assert run_folder.fingerprint(streamed) == run_folder.fingerprint(images)
    assert run_folder.fingerprint(streamed.take(range(9))) == run_folder.fingerprint(images[:9])
    flatten = keras.Sequential([keras.Input((8, 8, 3)), keras.layers.Flatten()])
    np.testing.assert_array_equal(
        evaluation.features(flatten, streamed, batch_size=16), evaluation.features(flatten, images, batch_size=16)
    )


def test_bad_images_and_odd_sizes_are_told_beforehand(photos):
    with pytest.raises(errors.InvalidInputError, match=r"2 of 42 images cannot be read.*cut\.png.*empty\.png"):
        data.load(photos, "train", image_size=8, stream=True)
    remarks = []
    images, _ = data.load(photos, "train", image_size=8, on_error="skip", stream=True, remarks=remarks)
    assert len(images) == 40 and "2 of 42 images could not be read" in remarks[0]
    with pytest.raises(errors.InvalidInputError, match=r"Expected one size; .* is 12 x 12 pixels"):
        data.load(photos, "train", on_error="skip", stream=True)
    with pytest.raises(
        errors.InvalidInputError, match=r"`stream` is for a folder of images; 'digits' is none. Received: stream=True"
    ):
        data.load("digits", "train", stream=True)


def test_memory_decides_unless_it_is_said(photos, monkeypatch):
    options = {"image_size": 8, "on_error": "skip", "stream": "auto"}
    monkeypatch.setattr(streams, "available_memory", lambda: 2.0 * 42 * 8 * 8 * 3)
    assert isinstance(data.load(photos, "train", **options)[0], np.ndarray)
    monkeypatch.setattr(streams, "available_memory", lambda: 2.0 * 30 * 8 * 8 * 3)
    remarks = []
    images, _ = data.load(photos, "train", **options, remarks=remarks)
    assert isinstance(images, data.StreamedImages) and "stay in their files" in remarks[0]
    assert streams.available_memory() > 0


def test_some_images_are_copied_where_there_is_room_for_a_copy(monkeypatch):
    images = np.random.default_rng(0).integers(0, 256, (9, 4, 4, 1), "uint8")
    rows = np.array([5, 2, 7])
    assert isinstance(streams.some(images, rows), np.ndarray)
    monkeypatch.setattr(streams, "available_memory", lambda: 2 * 3 * 16 - 1)
    for chosen in (rows, images[:, 0, 0, 0] > 99):
        gathered = streams.some(images, chosen)
        assert isinstance(gathered, data.StreamedImages) or not chosen.sum()
        np.testing.assert_array_equal(gathered[:], images[chosen])
    assert isinstance(streams.some(images.reshape(9, 16), rows), np.ndarray)  # features


def test_a_folder_larger_than_memory_is_evaluated_from_its_files(photos, monkeypatch):
    flatten = keras.Sequential([keras.Input((8, 8, 3)), keras.layers.Rescaling(1 / 255), keras.layers.Flatten()])
    options = {"protocols": ["linear", "knn", "reconstruction"], "epochs": 2, "on_error": "skip"}
    whole = evaluation.evaluate(flatten, photos, **options)
    real, kinds = data.load, []
    monkeypatch.setattr(data, "load", lambda *args, **more: (found := real(*args, **more), kinds.append(found[0]))[0])
    monkeypatch.setattr(streams, "available_memory", lambda: 1024.0)
    streamed = evaluation.evaluate(flatten, photos, **options)
    assert [type(images) for images in kinds] == [data.StreamedImages] * 2
    assert streamed.flat() == whole.flat() and any("stay in their files" in remark for remark in streamed.remarks)
    evaluation.evaluate(flatten, photos, protocols="knn", on_error="skip", max_train=10)


def test_headers_are_read_side_by_side_and_kept_in_order(photos, monkeypatch):
    together, real = threading.Barrier(2), Head.of_file  # opens when two are there

    def of_file(path):
        together.wait(10)
        return real(path)

    whole = image_folder.ImageFolder(photos).heads
    monkeypatch.setattr(Head, "of_file", of_file)
    heads = image_folder.ImageFolder(photos).heads
    assert [*heads] == [*whole] and len(heads) == 42
    assert [head for head in heads.values() if isinstance(head, Head)] == [
        head for head in whole.values() if isinstance(head, Head)
    ]


@pytest.mark.parametrize("version", [1, 2])
def test_memory_is_that_of_the_container(version, tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "_CGROUP", tmp_path)
    machine = streams.memory()
    folder = tmp_path if version == 2 else tmp_path / "memory"
    limit, use, cache = (
        ("memory.max", "memory.current", "inactive_file")
        if version == 2
        else ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    )
    folder.mkdir(exist_ok=True)
    (folder / limit).write_text("1000000\n")
    (folder / use).write_text("700000\n")
    (folder / "memory.stat").write_text(f"anon 1\n{cache} 100000\n")  # files read before, which make room
    assert streams.memory() == 1_000_000 and streams.available_memory() == 400_000
    (folder / use).write_text("1200000\n")
    assert streams.available_memory() == 0
    own = tmp_path / "own"
    own.write_text("12:cpu,memory:/jobs/7/step\n3:cpu:/x\n" if version == 1 else "0::/jobs/7/step\n")
    monkeypatch.setattr(streams, "_OWN_GROUPS", own)
    (folder / use).write_text("700000\n")
    job = folder / "jobs" / "7"
    (job / "step").mkdir(parents=True)
    for name, value in ((limit, "500000"), (use, "450000"), ("memory.stat", f"{cache} 1000")):
        (job / name).write_text(f"{value}\n")
    assert streams.memory() == 500_000 and streams.available_memory() == 51_000  # of a job, by a batch system
    (job / limit).unlink()
    for endless in ("max", "9223372036854771712"):
        (folder / limit).write_text(endless)
        assert streams.memory() == machine and streams.available_memory() > 1_000_000


@pytest.mark.skipif(sys.platform == "win32", reason="asks the system itself there")
def test_memory_on_windows(tmp_path, monkeypatch):
    class Kernel:
        @staticmethod
        def GlobalMemoryStatusEx(status):
            assert bytes(status)[:8] == bytes([64, 0, 0, 0, 0, 0, 0, 0]) and ctypes.sizeof(status) == 64
            status[1:3] = [3_000_000, 2_000_000]
            return 1

    monkeypatch.setattr(streams, "_CGROUP", tmp_path)
    monkeypatch.setattr(ctypes, "windll", SimpleNamespace(kernel32=Kernel), raising=False)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "platform", "win32")
        found = streams.memory(), streams.available_memory()
    assert found == (3_000_000, 2_000_000)


def batches_of(source, images, labels, **options):
    options = {"batch_size": 8, "seed": 3, "with_index": True, "start_epoch": 2, **options}
    if source == "pipeline":
        made = data.pipeline((images, labels), None, **options).as_numpy_iterator()
    else:
        batches = data.Batches(images, labels, **options)
        made = (batches[i] for i in range(11)) if options.get("repeat") else batches
    return [keras.tree.map_structure(np.asarray, tuple(batch)) for _, batch in zip(range(11), made)]


@pytest.mark.parametrize("source", ["Batches", "pipeline"])
@pytest.mark.parametrize("options", [{}, {"repeat": True}, {"repeat": True, "steps_per_execution": 2}], ids=str)
def test_batches_come_in_the_order_of_memory(source, options, photos):
    if source == "pipeline" and (not HAS_TENSORFLOW or "steps_per_execution" in options):
        pytest.skip("one batch at a time, and TensorFlow")
    (images, labels), (streamed, _) = both(photos, labels="folders")
    ours, theirs = batches_of(source, streamed, labels, **options), batches_of(source, images, labels, **options)
    assert len(ours) == len(theirs) == (11 if options else 5)
    keras.tree.map_structure(np.testing.assert_array_equal, ours, theirs)


def test_a_method_takes_them_in_batches(photos):
    """Keras' own error said nothing of files."""
    (whole, _), (images, _) = both(photos)
    encoder = networks.encoder("mlp-small", images.shape[1:], 4, seed=0)
    model = methods.SimCLR(encoder, views=views.Views("simvae-digits", 2, seed=0))
    model.compile("sgd")
    for call in (model.fit, model.evaluate, lambda held: model.fit(whole, validation_data=held, verbose=0)):
        with pytest.raises(errors.InvalidInputError, match=r"data\.Batches.*Received: StreamedImages \("):
            call(images)
    assert np.isfinite(model.evaluate(data.Batches(images, None, batch_size=8, shuffle=False), verbose=0)).all()


def test_an_image_that_goes_away_is_named(photos, tmp_path):
    for n in range(3):
        Image.fromarray(np.full((8, 8), n, "uint8")).save(tmp_path / f"{n}.png")
    images, _ = data.load(tmp_path, "train", stream=True)
    (tmp_path / "1.png").unlink()
    with pytest.raises(errors.InvalidInputError, match=r"cannot be now.*--resume.*1\.png"):
        images[[0, 1]]


class Killed(BaseException):
    pass


@pytest.mark.slow
def test_a_run_from_files_ends_in_the_weights_of_one_from_memory_also_if_it_is_killed(photos, tmp_path, monkeypatch):
    def nothing(run, model):
        unlock_folder(run.out)

    monkeypatch.setattr(outcome, "write", nothing)

    def train(name, *arguments):
        options = ["--dataset", str(photos), "--image-size", "8", "--on-error", "skip", "--epochs", "3"]
        options += ["--batch-size", "8", "--out", str(tmp_path / name), "--set", "network=mlp-small", "latent_dim=4"]
        recipe("simclr").main([*options, *arguments])

    train("memory")
    write = callbacks.Checkpoint.on_epoch_end

    def die(self, epoch, logs=None):
        write(self, epoch, logs)
        if epoch == 1:
            raise Killed

    monkeypatch.setattr(callbacks.Checkpoint, "on_epoch_end", die)
    with pytest.raises(Killed):
        train("files", "--stream")
    unlock_folder(tmp_path / "files")
    monkeypatch.setattr(callbacks.Checkpoint, "on_epoch_end", write)
    train("files", "--stream", "--resume")
    (ours, note), (theirs, _) = checkpoint(tmp_path / "files"), checkpoint(tmp_path / "memory")
    assert note["epochs_done"] == 3
    for key in ours:
        np.testing.assert_array_equal(ours[key], theirs[key], err_msg=key)
    assert json.loads((tmp_path / "files" / "run.json").read_text()) == json.loads(
        (tmp_path / "memory" / "run.json").read_text()
    )


@pytest.mark.slow
def test_deep_cluster_reads_from_files_and_monitors_hold_few(photos, tmp_path, monkeypatch):
    held = []

    class Monitor(callbacks.KNNMonitor):
        def __init__(self, encoder, bank, queries, every):
            held.append((len(bank[0]), len(queries[0])))
            super().__init__(encoder, bank, queries, every)

    monkeypatch.setattr(callbacks, "KNNMonitor", Monitor)
    options = ["--dataset", str(photos), "--image-size", "8", "--on-error", "skip", "--epochs", "1", "--stream"]
    options += ["--batch-size", "8", "--protocols", "knn", "--labels", "folders"]
    options += ["--set", "network=mlp-small", "latent_dim=4", "clusters=4", "--out", str(tmp_path / "run")]
    folder = recipe("deepcluster").main(options)
    assert (folder / "results.json").is_file() and held == [(32, 8)]


def test_a_file_that_changes_while_training_reads_it_is_counted(photos, tmp_path):
    folder = shutil.copytree(photos, tmp_path / "photos")
    images, _ = data.load(folder, "train", image_size=8, on_error="skip", stream=True)
    some = images.take(range(10))
    assert not images.changed and images[3].shape == (8, 8, 3) and images.per_second > 0
    file = images.files[3]
    Image.fromarray(np.zeros((8, 8, 3), "uint8")).save(file)
    assert not some[3].any() and images.changed == {file}
