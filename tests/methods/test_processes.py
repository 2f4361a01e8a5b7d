"""Two processes that share each batch train the weights of one (JAX); PyTorch never compares a part of a batch."""

from pathlib import Path

import contract
import keras
import numpy as np
import pytest
from test_method_contract import side_by_side

from sslzoo import data, errors

BACKEND = keras.backend.backend()
# Draws for the whole batch, a queue, a bank, statistics of the batch; 5 steps an epoch, two in a program.
NAMES = ("simvae", "moco", "instance-discrimination", "barlow-twins")
STEPS = 5


def train_all(folder, shard=(0, 1)):
    """Trains each method on its shard of every batch, and writes the weights to `folder`, if there is one."""
    for name in NAMES:
        num_views, make = contract.CASES[name]
        model = make(contract.Flips(num_views))
        model.compile(optimizer=keras.optimizers.SGD(1e-3, momentum=0.9), steps_per_execution=2)
        images = contract.images(48)
        model.views(images[:1], training=False)
        stream = data.Batches(
            images, None, 8, with_index=model.indexed, seed=3, repeat=True, steps_per_execution=2, shard=shard
        )
        logs = model.fit(stream, steps_per_epoch=STEPS, epochs=2, verbose=0, shuffle=False).history
        if folder:
            np.savez(Path(folder) / f"{name}.npz", *contract.state(model), loss=logs["loss"])


@pytest.mark.skipif(BACKEND != "jax", reason="keras.distribution.initialize is JAX's")
def test_two_processes_train_the_weights_of_one(tmp_path):
    train = f"""
import keras, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
keras.distribution.initialize(f"localhost:{{port}}", 2, index)
keras.distribution.set_distribution(keras.distribution.DataParallel(auto_shard_dataset=False))
import test_processes
test_processes.train_all(None if index else {str(tmp_path / "two")!r}, (index, 2))
"""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    train_all(tmp_path / "one")
    side_by_side(train)
    for name in NAMES:
        with np.load(tmp_path / "one" / f"{name}.npz") as one, np.load(tmp_path / "two" / f"{name}.npz") as two:
            assert one.files == two.files
            for key in one.files:
                np.testing.assert_allclose(two[key], one[key], rtol=1e-5, atol=1e-5, err_msg=f"{name} {key}")


def test_shards_are_the_parts_of_each_batch():
    images = contract.images(44)
    for options in ({}, {"steps_per_execution": 3}):
        options |= {"with_index": True, "seed": 7, "repeat": True}
        whole = data.Batches(images, np.arange(44), 8, **options)
        parts = [data.Batches(images, np.arange(44), 8, **options, shard=(i, 2)) for i in range(2)]
        for place in range(4):
            shards = [part[place] for part in parts]
            assert [len(shard[1]) for shard in shards] == [4, 4]
            np.testing.assert_array_equal(np.concatenate([shard[1] for shard in shards]), whole[place][1])
            for key in ("images", "index"):
                joined = np.concatenate([shard[0][key] for shard in shards])
                np.testing.assert_array_equal(joined, whole[place][0][key])


@pytest.mark.parametrize(
    "options",
    [
        {"shard": (2, 2)},
        {"shard": (-1, 2)},
        {"shard": (0, 3)},
        {"shard": (0, 2), "drop_remainder": False, "repeat": False},
        {"shard": (0, 2), "views": contract.Flips(2)},
    ],
)
def test_shards_that_cannot_be_are_refused(options):
    with pytest.raises(errors.InvalidInputError, match=r"shard must be \(i, n\).*Received: shard="):
        data.Batches(contract.images(24), None, 8, **{"repeat": True, **options})


@pytest.mark.skipif(BACKEND != "tensorflow", reason="this is about TensorFlow's strategies")
def test_tensorflow_never_compares_a_part_of_the_batch_in_silence():
    refused = """
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
import contract, keras, pytest
from sslzoo import errors
num_views, make = contract.CASES["simclr"]
for count in (2, 1):
    with tf.distribute.MirroredStrategy([f"CPU:{place}" for place in range(count)]).scope():
        model = make(contract.Flips(num_views))
        model.compile(optimizer=keras.optimizers.SGD(1e-3))
    if count == 1:
        model.fit(contract.images(24), batch_size=12, verbose=0)
        break
    for work in (model.fit, model.evaluate):
        with pytest.raises(errors.InvalidInputError, match="other negatives.*Received: strategy=Mirror.*2 replicas"):
            work(contract.images(24), batch_size=12, verbose=0)
"""
    side_by_side(refused, count=1)


@pytest.mark.skipif(BACKEND != "torch", reason="this is about PyTorch")
def test_pytorch_never_compares_a_part_of_the_batch_in_silence(tmp_path):
    refused = f"""
import torch
torch.distributed.init_process_group("gloo", init_method="file://{tmp_path}/meeting", rank=index, world_size=2)
import contract, keras, pytest
from sslzoo import errors
several = [keras.distribution.DataParallel(auto_shard_dataset=False)] if keras.__version__ >= "3.16" else []
for distribution in (None, *several):
    keras.distribution.set_distribution(distribution)
    num_views, make = contract.CASES["simclr"]
    model = make(contract.Flips(num_views))
    model.compile(optimizer=keras.optimizers.SGD(1e-3))
    with pytest.raises(errors.InvalidInputError, match="other negatives.*Received: 2 processes"):
        model.fit(contract.images(24), batch_size=12, verbose=0)
"""
    side_by_side(refused)
