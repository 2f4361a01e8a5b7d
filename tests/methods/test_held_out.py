"""The loss of held-out images: views that differ, the same at every look; and batches of several steps under `fit`."""

import warnings

import keras
import numpy as np
import pytest
from contract import CASES, DRAWING, Flips, images, inputs, plain_encoder
from tiers import tiered

from sslzoo import augment, data, methods, networks
from sslzoo.methods.pretrainer import HELD_OUT_SEED, views_of
from sslzoo.views import Views


def model(**arguments):
    return methods.SimCLR(plain_encoder(), views=Views("simvae-digits", 2, seed=0), temperature=0.5, **arguments)


def test_held_out_views_differ_and_repeat():
    method = model()
    method.compile(keras.optimizers.SGD(0.0))
    first = method.evaluate(images(12), batch_size=12, verbose=0, return_dict=True)
    assert first == method.evaluate(images(12), batch_size=12, verbose=0, return_dict=True)
    views = keras.ops.convert_to_numpy(method.make_views(images(12), training=False))
    assert np.abs(views[:, 0] - views[:, 1]).max() > 0.1
    history = method.fit(images(24), batch_size=12, validation_data=images(12), epochs=2, verbose=0).history
    after = method.evaluate(images(12), batch_size=12, verbose=0, return_dict=True)
    assert history["val_loss"][-1] == pytest.approx(after["loss"], rel=1e-6)  # the encoder's statistics moved
    assert first["alignment"] > -2.0 + 1e-3  # -1 / temperature is that of views that are all alike


@pytest.mark.parametrize("name", tiered(sorted(DRAWING), {"vae", "instance-discrimination-drawn", "jem", "ebclr"}))
def test_looks_at_held_out_images_are_equal_and_leave_the_draws_of_training_alone(name):
    num_views, make = CASES[name]
    method = make(Flips(num_views))
    method.compile(keras.optimizers.SGD(0.0))
    generators = [v for v in method.variables if "seed" in v.name]
    before = [keras.ops.convert_to_numpy(v) for v in generators]
    first, again = (method.evaluate(inputs(method, 24), batch_size=24, verbose=0, return_dict=True) for _ in range(2))
    assert first == again
    for old, new in zip(before, generators):
        np.testing.assert_array_equal(old, keras.ops.convert_to_numpy(new), err_msg=new.path)


def test_small_crops_of_held_out_images_differ_too():
    local = Views("simvae-digits", 2, size=4, seed=1)
    encoder = networks.encoder("resnet18", (None, None, 1), None)
    method = methods.LeJEPA(encoder, views=Views("simvae-digits", 2, seed=0), local_views=local, slices=7)
    outputs = method(images(3), training=False)
    z = keras.ops.convert_to_numpy(outputs["local"])
    assert np.abs(z[:, 0] - z[:, 1]).max() > 1e-4


def test_local_views_are_drawn_apart_from_the_global_ones():
    """By one seed they fall on the same places: the first local view of an image was flipped as the first global one,
    always."""
    side = Views([augment.HorizontalFlip()], 2, seed=0)
    slope = np.tile(np.linspace(0, 255, 8, dtype="float32")[None, None, :, None], (200, 8, 1, 1))
    with pytest.warns(UserWarning, match="another seed.*Received: seed=0 of both"):
        methods.LeJEPA(plain_encoder(), views=side, local_views=Views("simvae-digits", 2, seed=0), slices=7)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        local = Views([augment.HorizontalFlip()], 2, seed=1)
        method = methods.LeJEPA(plain_encoder(), views=side, local_views=local, slices=7)
    assert method.local_views is local
    for training in (True, False):
        pairs = views_of(slope, side, training), views_of(slope, local, training, HELD_OUT_SEED + 1)
        flipped = [keras.ops.convert_to_numpy(each)[:, :, 0, 0, 0] > 0.5 for each in pairs]
        for ours in range(2):
            for theirs in range(2):
                assert 0.35 < (flipped[0][:, ours] == flipped[1][:, theirs]).mean() < 0.65


def test_batches_of_several_steps_train_a_model_that_was_never_called():
    method = model()
    steps = 1 if keras.backend.backend() == "torch" else 3  # PyTorch has no program of several
    method.compile(keras.optimizers.SGD(0.01), steps_per_execution=steps)
    stacks = steps if methods.pretrainer.fuses_its_steps() else 1
    batches = data.Batches(images(36), None, 12, seed=0, repeat=stacks > 1, steps_per_execution=stacks)
    history = method.fit(batches, epochs=1, steps_per_epoch=3, shuffle=False, verbose=0).history
    assert np.isfinite(history["loss"]).all() and int(method.optimizer.iterations) == 3


class Logged(data.Batches):
    def _batch(self, epoch, position):
        self.log.append((epoch, position))
        return super()._batch(epoch, position)


def test_batches_that_are_looked_at_are_the_same_at_every_look():
    """And training goes on where it would have."""
    pictures = np.random.default_rng(0).integers(0, 256, (16, 8, 8, 1)).astype("uint8")
    made, batches = model(), Logged(pictures, None, 4, seed=0)
    made.compile(optimizer=keras.optimizers.SGD(0.0))
    batches.log = []
    looks = [made.evaluate(batches, verbose=0) for _ in range(2)]
    assert looks[0] == looks[1] and batches.epoch == 0 and {epoch for epoch, _ in batches.log} == {0}

    trained, batches.log = Logged(pictures, None, 4, seed=0), []
    trained.log = []
    made.fit(trained, validation_data=batches, epochs=3, verbose=0, shuffle=False)
    assert {epoch for epoch, _ in batches.log} == {0} and batches.epoch == 0
    assert trained.epoch == 3 and {epoch for epoch, _ in trained.log} == {0, 1, 2}
    made.fit(trained, validation_data=trained, epochs=2, verbose=0, shuffle=False)
    assert trained.epoch == 5
