"""The guard against divergence, and the health of energy models."""

import math
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from contract import Flips, head, images, plain_encoder
from keras import ops

from sslzoo import evaluation
from sslzoo.callbacks import DivergenceGuard, EnergyHealth, FiniteGuard
from sslzoo.errors import InvalidInputError, TrainingError
from sslzoo.evaluation import outliers
from sslzoo.methods import EBCLR, GEDI, SimCLR


def array(tensor):
    return ops.convert_to_numpy(tensor)


def gedi(**arguments):
    settings = {"sgld_steps": 2, "step_size": 0.1, "buffer_size": 26, "restart": 0.2}
    model = GEDI(plain_encoder(), 5, head(), Flips(2), **settings | arguments)
    model.compile(keras.optimizers.Adam(1e-3))
    return model


def state(model):
    return [array(v) for v in [*model.variables, *model.optimizer.variables]]


def seeds(model):
    return [array(v).tolist() for v in model.variables if v.name == "seed_generator_state"]


class Break(keras.callbacks.Callback):
    """Spoils a weight after some steps, as a step too far would."""

    def __init__(self, at, value=math.nan):
        super().__init__()
        self.at, self.value, self.steps, self.before = at, value, 0, None

    def on_train_batch_end(self, batch, logs=None):
        self.steps += 1
        if self.steps in self.at:
            self.before = state(self.model)
            kernel = self.model.cluster_head.trainable_variables[0]  # no normalization comes after it
            kernel.assign(array(kernel) + self.value)


def fit(model, *callbacks, epochs=1):
    return model.fit(
        images(48), batch_size=6, epochs=epochs, shuffle=False, verbose=0, callbacks=list(callbacks)
    ).history


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e12])
def test_a_model_that_breaks_goes_back_and_on(value, capsys):
    model, guard = gedi(), DivergenceGuard(every=1)
    history = fit(model, Break([4], value), guard, FiniteGuard(model.terms, every=1), epochs=2)
    assert len(guard.rollbacks) == 1 and "epoch 1, step 5" in guard.rollbacks[0]
    assert "back to the last good state with new seeds, 1 of 3" in capsys.readouterr().out
    assert all(np.isfinite(weight).all() for weight in state(model))
    assert np.isfinite(history["loss"]).all() and max(map(abs, history["loss"])) < 1e4
    assert history["rollbacks"] == [1.0, 1.0]


def test_back_is_to_what_was_good_a_look_before_the_last():
    """Step 4 is spoiled after its loss was computed, so that what the look at it keeps is spoiled too; the look at step
    5 finds out, and goes back to what step 3 left."""
    kept = {}

    class Keep(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            kept[batch + 1] = state(self.model)

    model = gedi()
    fit(model, Break([4]), DivergenceGuard(every=1), Keep())
    variables = [*model.variables, *model.optimizer.variables]
    for variable, three, five in zip(variables, kept[3], kept[5]):
        if variable.name == "seed_generator_state":
            assert three[0] != five[0] and three[1] == five[1]
        else:
            np.testing.assert_array_equal(three, five)
    assert any((five != eight).any() for five, eight in zip(kept[5], kept[8]))


@pytest.mark.slow
def test_random_numbers_are_others_after_a_rollback():
    straight, broken = gedi(), gedi()
    fit(straight, DivergenceGuard(every=1))
    fit(broken, Break([4]), DivergenceGuard(every=1))
    assert [pair[0] for pair in seeds(straight)] != [pair[0] for pair in seeds(broken)]


def test_after_three_rollbacks_it_ends_with_advice_and_a_good_model():
    model, guard = gedi(), DivergenceGuard(every=1)
    with pytest.raises(
        TrainingError,
        match=r"after 3 rollbacks.*lower learning rate, energy_decay=0.1, more Langevin steps.*Received: ",
    ):
        fit(model, Break(range(2, 100, 2)), guard, epochs=4)
    assert len(guard.rollbacks) == 3
    assert all(np.isfinite(weight).all() for weight in state(model))


def test_an_image_of_nan_is_a_divergence():
    x = images(48).astype("float32")
    x[13] = np.nan
    model, guard = gedi(), DivergenceGuard(every=1)
    model.fit(x, batch_size=6, shuffle=False, verbose=0, callbacks=[guard])
    assert len(guard.rollbacks) == 1 and "step 3" in guard.rollbacks[0]
    assert all(np.isfinite(weight).all() for weight in state(model))


def test_a_run_that_goes_well_is_left_alone():
    plain, guarded = gedi(), gedi()
    fit(plain)
    fit(guarded, DivergenceGuard(every=2))
    for ours, theirs in zip(state(plain), state(guarded)):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


@pytest.mark.parametrize("arguments", [{"every": 0}, {"attempts": 0}, {"limit": 0.0}])
def test_the_guard_refuses_settings_out_of_range(arguments):
    with pytest.raises(InvalidInputError, match="Received: "):
        DivergenceGuard(**arguments)


# ---------------------------------------------------------------- health


def test_energies_and_clusters_in_the_logs():
    model = gedi()
    history = fit(model, EnergyHealth(images(20)), epochs=2)
    logits = array(model.embed(model.prepare(images(20)))).astype("float64")
    f = np.log(np.exp(logits).sum(1))
    assert history["energy_data"][-1] == pytest.approx(-f.mean(), rel=1e-4)
    samples = array(model.log_density_of_views(array(model.buffer)))
    assert history["energy_samples"][-1] == pytest.approx(-samples.mean(), rel=1e-3)
    gap = history["energy_samples"][-1] - history["energy_data"][-1]
    assert history["energy_gap"][-1] == pytest.approx(gap)
    p = np.exp(logits - f[:, None])
    share = p.mean(0)
    assert history["clusters_used"][-1] == pytest.approx(np.exp(-(share * np.log(share)).sum()), rel=1e-4)
    assert history["invariance_excess"][-1] == pytest.approx(-(p * np.log(p)).sum(1).mean(), rel=1e-3)  # x' is x
    assert history["prior_excess"][-1] == pytest.approx(-np.log(share).mean() - math.log(5), abs=1e-4)


@pytest.mark.slow
def test_looking_changes_nothing():
    plain, watched = gedi(), gedi()
    fit(plain, epochs=2)
    fit(watched, EnergyHealth(images(20)), epochs=2)
    for ours, theirs in zip(state(plain), state(watched)):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_ebclr_has_energies_and_no_clusters():
    model = EBCLR(plain_encoder(), head(), Flips(2), sgld_steps=2, buffer_size=26)
    model.compile(keras.optimizers.Adam(1e-3))
    history = fit(model, EnergyHealth(images(20)))
    assert {"energy_data", "energy_samples", "energy_gap"} <= set(history) and "clusters_used" not in history
    assert history["energy_data"][-1] == pytest.approx(
        -float(np.mean(array(model.log_density(images(20), images(20))))), rel=1e-4
    )


def test_other_methods_are_refused():
    model = SimCLR(plain_encoder(), head(), Flips(2))
    model.compile(keras.optimizers.Adam(1e-3))
    with pytest.raises(InvalidInputError, match=r"energy models\. Received: SimCLR"):
        fit(model, EnergyHealth(images(20)))


# ---------------------------------------------------------------- what is written after training


def test_an_energy_model_is_measured_by_its_clusters_and_outliers():
    rng = np.random.default_rng(0)
    images, others = (rng.integers(0, 256, (60, 8, 8, 1)).astype("uint8") for _ in range(2))
    weights = rng.normal(size=(64, 4)) / 2550
    head = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Flatten(), keras.layers.Dense(4)])
    head.set_weights([weights - weights.mean(axis=0), np.zeros(4)])  # or one cluster may have all images
    labels = np.asarray(head.predict(images, verbose=0)).argmax(1)  # its clusters are the classes
    model = GEDI(plain_encoder(), 4, sgld_steps=1, buffer_size=4)
    splits, protocols = ((images, labels), (images, labels)), (*model.protocols(), "outliers")
    options = {"projection": head, "method": model, "outside": {"mnist": others}}
    report = evaluation.evaluate(head, splits, protocols, **options)
    assert list(report) == ["clusters", "outliers"]
    assert report["clusters"]["nmi"] == report["clusters"]["accuracy"] == 1.0
    assert report.numbers["clusters"]["nmi"].chance < 0.3  # of classes dealt anew
    assert report["clusters"]["minibatch100_nmi"] == 1.0
    expected = outliers.auroc(outliers.scores(head, images), outliers.scores(head, others, seed=1))
    assert report["outliers"]["mnist_slope_auroc"] == expected
    bank = evaluation.evaluate(head, splits, ("knn", "bank", "clusters"), method=None, strict=False)
    assert list(bank) == ["knn"] and "Not measured, memory bank, clusters: It takes the trained method." in bank.remarks


@pytest.mark.parametrize("method", [GEDI, EBCLR])
def test_samples_of_an_energy_model_are_pictures(method, monkeypatch):
    """In its own range: a chain that ran away is not taken for pixels of 0..255."""
    clusters = {"clusters": 5} if method is GEDI else {}
    model = method(plain_encoder(), projector=head(), sgld_steps=2, buffer_size=26, **clusters)
    far = np.linspace(-300, 300, 50 * 64, dtype="float32").reshape(50, 8, 8, 1)
    monkeypatch.setattr(type(model), "sample", lambda self, n, seed, reference=None: far[:n])
    (picture,) = model.pictures(images(12), seed=0)
    (samples,) = picture.arrays
    assert (picture.name, picture.kind) == ("samples", "samples")
    assert samples.min() == 0 and samples.max() == 1 and np.unique(samples).size >= 10


def test_an_energy_model_brings_its_own_monitors():
    model = gedi()
    monitors = model.monitors(SimpleNamespace(some_images=lambda most: images(20)[:most]))
    assert [type(monitor) for monitor in monitors] == [DivergenceGuard, EnergyHealth]
