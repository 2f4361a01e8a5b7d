"""JEM, GEDI and EBCLR: chains, replay buffer and objectives, beyond the shared battery."""

import math

import keras
import numpy as np
import pytest
from contract import Flips, fixed_normal, fixed_uniform, head, images, plain_encoder
from keras import ops

from sslzoo import losses, networks
from sslzoo.callbacks import Checkpoint, Journal, Stopwatch
from sslzoo.errors import InvalidInputError
from sslzoo.methods import EBCLR, GEDI, JEM
from sslzoo.methods.energy_model import langevin, long_chains
from sslzoo.publishing import artifact
from sslzoo.views import Views
from sslzoo.zoo import reading


def array(tensor):
    return ops.convert_to_numpy(tensor)


def tensor(values):
    return ops.convert_to_tensor(np.asarray(values, "float32"))


def draw(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


SMALL = {"clusters": 5, "sgld_steps": 3, "step_size": 0.1, "buffer_size": 26, "restart": 0.2}


def jem(**arguments):
    return JEM(plain_encoder(), projector=head(), views=Flips(2), **SMALL | arguments)


def gedi(**arguments):
    return GEDI(plain_encoder(), projector=head(), views=Flips(2), **SMALL | arguments)


def ebclr(**arguments):
    settings = {"sgld_steps": 3, "buffer_size": 26}
    return EBCLR(plain_encoder(), head(), Flips(2), **settings | arguments)


def state(model):
    return [array(v) for v in model.variables if v.name != "seed_generator_state"]


# ---------------------------------------------------------------- chains


class Quadratic(keras.Model):
    """f(x) = -x^2 / 2, summed over what is no row."""

    def __init__(self):
        super().__init__()
        self.built = True

    def f(self, x):
        return -0.5 * ops.sum(x**2, axis=1)


def test_a_chain_shrinks_on_a_quadratic_and_is_a_constant():
    x = draw(4, 3)
    moved = langevin(Quadratic(), Quadratic().f, tensor(x), tensor(np.zeros((5, 4, 3))), 0.1, 0.0)
    np.testing.assert_allclose(array(moved), 0.9**5 * x, rtol=1e-5)
    shaken = langevin(Quadratic(), Quadratic().f, tensor(x), tensor(np.ones((1, 4, 3))), 0.1, 0.25)
    np.testing.assert_allclose(array(shaken), 0.9 * x + 0.25, rtol=1e-5)


@pytest.mark.parametrize("steps", [0, 7, 20, 33])
def test_long_chains_go_exactly_as_many_steps_as_asked(steps):
    model, x = Quadratic(), draw(4, 3)
    found = long_chains(model, model.f, x, steps, 0.1, 0.0, verbose=False)
    np.testing.assert_allclose(found, 0.9**steps * x, rtol=1e-4)


def test_long_chains_mix_to_the_stationary_variance_and_repeat():
    model = Quadratic()
    found = [long_chains(model, model.f, draw(500, 20), 40, 0.5, 0.2, seed=s, verbose=False) for s in (0, 0, 1)]
    np.testing.assert_array_equal(found[0], found[1])
    assert not np.allclose(found[0], found[2])
    assert found[0].var() == pytest.approx(0.04 / 0.75, rel=0.05)


def test_chains_raise_the_density_of_a_network_and_leave_no_trace():
    model = jem(sgld_steps=10, step_size=0.5, noise=0.0, restart=0.0)
    before = state(model)
    start = array(model.buffer)
    samples, slots = model.draw(model.log_density_of_views, 12)
    for old, new in zip(before, state(model)):
        np.testing.assert_array_equal(old, new)
    slots = array(slots)
    low = array(model.log_density_of_views(tensor(start[slots])))
    assert (array(model.log_density_of_views(samples)) > low).all()


# ---------------------------------------------------------------- replay buffer


def test_slots_are_distinct_and_every_place_is_as_likely():
    model = jem(buffer_size=23)
    drawn = [array(model.slots(5)) for _ in range(400)]
    assert all(len(set(slots)) == 5 for slots in drawn)
    counts = np.bincount(np.concatenate(drawn), minlength=23)
    assert len(counts) == 23 and counts.min() > 50 and counts.max() < 130  # 87 each, standard deviation 9
    assert sorted(array(jem(buffer_size=6).slots(6))) == list(range(6))


def test_a_batch_larger_than_the_buffer_is_refused():
    with pytest.raises(InvalidInputError, match=r"has room for 26.*Received: a batch of 27 images"):
        jem().check_batch(27)


def test_samples_go_back_to_their_places_and_nothing_else_moves():
    model = jem()
    before = array(model.buffer)
    outputs = model(images(8), training=True)
    np.testing.assert_array_equal(array(model.buffer), before)  # only after it was used
    model.update(None, outputs)
    slots, after = array(outputs["slots"]), array(model.buffer)
    np.testing.assert_array_equal(after[slots], array(outputs["samples"]))
    rest = np.setdiff1d(np.arange(26), slots)
    np.testing.assert_array_equal(after[rest], before[rest])
    assert len(slots) == 8 and (after[slots] != before[slots]).any(axis=(1, 2, 3)).all()


@pytest.mark.parametrize("restart", [0.0, 1.0])
def test_chains_go_on_or_start_anew(restart):
    model = jem(restart=restart, noise=0.0, step_size=1e-9, sample_range=(3.0, 5.0))
    model.buffer.assign(np.full(model.buffer.shape, 7.0))
    samples, _ = model.draw(model.log_density_of_views, 10)
    samples = array(samples)
    if restart:
        assert samples.min() >= 3.0 and samples.max() <= 5.0 and samples.std() > 0.3
    else:
        np.testing.assert_allclose(samples, 7.0, rtol=1e-6)


def test_the_share_of_chains_that_start_anew():
    model = jem(restart=0.3, noise=0.0, step_size=1e-9, buffer_size=1000)
    model.buffer.assign(np.full(model.buffer.shape, 7.0))
    samples, _ = model.draw(model.log_density_of_views, 1000)
    assert (array(samples)[:, 0, 0, 0] < 2).mean() == pytest.approx(0.3, abs=0.05)


def trained(model, epochs, folder=None):
    """After `epochs` of 4 steps, or going on to there from the checkpoint in `folder`."""
    model.compile(keras.optimizers.Adam(1e-3))
    if folder is None:
        model.fit(images(24), batch_size=6, epochs=epochs, shuffle=False, verbose=0)
        return state(model)
    watch = Stopwatch()
    journal = Journal(folder / "history.csv", 12)
    checkpoint = Checkpoint(folder / "checkpoint.npz", journal, watch)
    done = checkpoint.restore(model)
    callbacks = [watch, journal, checkpoint]
    arguments = {"batch_size": 6, "shuffle": False, "verbose": 0, "callbacks": callbacks}
    model.fit(images(24), epochs=epochs, initial_epoch=done, **arguments)
    return state(model)


@pytest.mark.slow
@pytest.mark.parametrize("make", [gedi, ebclr])
def test_resuming_goes_on_with_buffer_and_random_numbers(make, tmp_path):
    straight = trained(make(), 3)
    trained(make(), 1, tmp_path)
    for ours, theirs in zip(trained(make(), 3, tmp_path), straight):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


@pytest.mark.slow
@pytest.mark.skipif(keras.backend.backend() == "torch", reason="Keras does not fuse steps under PyTorch")
def test_fused_steps_equal_single_ones():
    found = []
    for fused in (1, 2):
        model = gedi()
        model.compile(keras.optimizers.SGD(1e-3), steps_per_execution=fused)
        model.fit(images(24), batch_size=6, epochs=1, shuffle=False, verbose=0)
        found.append(state(model))
    for one, two in zip(*found):
        np.testing.assert_allclose(one, two, atol=1e-5)


# ---------------------------------------------------------------- GEDI and JEM


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_gedi_adds_its_three_terms():
    """logits: the image, two views of it, and a sample of the model, last."""
    logits = draw(6, 4, 5)
    model = gedi(generative_weight=2.0, invariance_weight=3.0, prior_weight=4.0)
    p, f = softmax(logits.astype("float64")), np.log(np.exp(logits.astype("float64")).sum(-1))
    invariance = np.mean([-(p[:, view] * np.log(p[:, 0])).sum(-1).mean() for view in (1, 2)])
    expected = {
        "generative": 2 * (f[:, 3].mean() - f[:, 0].mean()),
        "invariance": 3 * invariance,
        "prior": 4 * -np.log(p[:, 0].mean(0)).mean(),
    }
    found = model.objective(None, {"logits": tensor(logits)}, True)
    assert set(found) == set(expected)
    for name, value in expected.items():
        assert float(array(found[name])) == pytest.approx(value, rel=1e-4), name


def test_jem_takes_every_view_for_data():
    logits = draw(6, 3, 5)
    f = np.log(np.exp(logits.astype("float64")).sum(-1))
    found = jem().objective(None, {"logits": tensor(logits)}, True)
    assert float(array(found["generative"])) == pytest.approx(f[:, 2].mean() - f[:, :2].mean(), rel=1e-4)


def test_energy_decay_adds_the_squares_of_densities():
    logits = draw(6, 3, 5)
    f = np.log(np.exp(logits.astype("float64")).sum(-1))
    plain, held = (
        float(array(model.objective(None, {"logits": tensor(logits)}, True)["generative"]))
        for model in (jem(), jem(energy_decay=0.1))
    )
    assert held - plain == pytest.approx(0.1 * ((f[:, :2] ** 2).mean() + (f[:, 2] ** 2).mean()), rel=1e-4)


def test_the_first_view_is_the_image_with_noise_in_training_only():
    model = gedi(data_noise=0.1)
    seen = array(model.make_views(images(40), training=True))
    clean = array(model.make_views(images(40), training=False))
    assert seen.shape == (40, 3, 8, 8, 1)
    np.testing.assert_array_equal(clean[:, 0], array(model.prepare(images(40))))
    assert (seen[:, 0] - clean[:, 0]).std() == pytest.approx(0.1, rel=0.05)
    np.testing.assert_array_equal(seen[:, 1:], clean[:, 1:])


@pytest.mark.parametrize(
    "arguments, views, buffer",
    [({"generative_weight": 0}, 3, False), ({"invariance_weight": 0}, 2, True), ({"prior_weight": 0}, 4, True)],
)
def test_a_term_of_weight_zero_costs_nothing(arguments, views, buffer):
    model = gedi(**arguments)
    outputs = model(images(8), training=True)
    assert tuple(outputs["logits"].shape) == (8, views, 5)
    assert (model.buffer is not None) == buffer == ("samples" in outputs)
    (name,) = arguments
    found = model.objective(None, outputs, True)
    assert float(array(found[name.removesuffix("_weight")])) == 0.0
    assert all(float(array(found[term])) != 0.0 for term in found if f"{term}_weight" != name)


def test_two_stages_learn_the_density_first():
    model = gedi(generative_steps=2)
    outputs = model(images(8), training=True)
    for step in range(4):
        found = model.objective(None, outputs, True)
        assert float(array(found["generative"])) != 0.0
        assert (float(array(found["invariance"])) > 0) == (float(array(found["prior"])) > 0) == (step >= 2)
        model.update(None, outputs)


def test_images_of_no_fixed_size_and_views_of_another_are_refused():
    inputs = keras.Input((None, None, 1))
    anywhere = keras.Model(inputs, keras.layers.GlobalAveragePooling2D()(keras.layers.Conv2D(4, 3)(inputs)))
    with pytest.raises(InvalidInputError, match=r"an encoder of images of a fixed one.*\(None, None, 1\)"):
        JEM(anywhere, projector=networks.projector(4, (5,), batch_norm=False), views=Flips(2), **SMALL)
    encoder = networks.encoder("mlp-small", (8, 8, 1), 4, seed=0)
    with pytest.raises(InvalidInputError, match=r"is as large.*size=\(6, 6\), eval_size=\(8, 8\)"):
        GEDI(encoder, 3, views=Views("gedi-mnist", 1, size=6, eval_size=8))


def test_ready_made_views_need_the_image_and_a_view():
    model = gedi()
    ready = draw(6, 2, 8, 8, 1)
    np.testing.assert_array_equal(array(model.make_views(ready, training=True)), ready)
    with pytest.raises(InvalidInputError, match=r"at least one view of it.*Received: shape=\(6, 1, 8, 8, 1\)"):
        model.make_views(ready[:, :1], training=True)
    assert gedi(invariance_weight=0).make_views(ready[:, :1], training=True).shape[1] == 1


def test_constant_logits_are_at_chance():
    model = gedi(generative_weight=0)
    model.cluster_head.set_weights([np.zeros((6, 5))])
    found = model.objective(None, model(images(8), training=False), False)
    assert float(array(found["invariance"])) == pytest.approx(50 * math.log(5), rel=1e-5)
    assert float(array(found["prior"])) == pytest.approx(25 * math.log(5), rel=1e-5)
    assert float(array(sum(found.values()))) == pytest.approx(model.chance_level(8), rel=1e-5)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"clusters": 1}, "clusters must be an integer >= 2"),
        ({"prior_weight": -1.0}, "prior_weight must be a number >= 0. Received: prior_weight=-1.0"),
        ({"generative_weight": 0, "invariance_weight": 0, "prior_weight": 0}, "one weight must be above 0"),
        ({"sgld_steps": 0}, "sgld_steps must be an integer >= 1"),
        ({"restart": 1.5}, "restart must be a number from 0 to 1"),
        ({"noise": -0.1}, "noise must be a number >= 0"),
        ({"step_size": 0.0}, "step_size must be a number > 0"),
        ({"sample_range": (1.0, -1.0)}, r"sample_range must be \(a, b\)"),
        ({"temperature": 0.0}, "temperature must be a number > 0"),
    ],
)
def test_settings_out_of_range_are_refused(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        gedi(**arguments)


def test_a_temperature_divides_the_logits():
    hot, cold = gedi(temperature=2.0), gedi(temperature=0.5)
    x = array(hot.prepare(images(6)))
    np.testing.assert_allclose(4 * array(hot.embed(x)), array(cold.embed(x)), rtol=1e-4)


def test_clusters_density_and_samples():
    model = gedi()
    logits = array(model.embed(model.prepare(images(9))))
    np.testing.assert_array_equal(array(model.predict_clusters(images(9))), logits.argmax(1))
    np.testing.assert_allclose(array(model.cluster_probabilities(model.prepare(images(9)))), softmax(logits), rtol=1e-4)
    expected = np.log(np.exp(logits.astype("float64")).sum(1))
    np.testing.assert_allclose(array(model.log_density(images(9))), expected, rtol=1e-4)

    before = state(model)
    start, moved = (model.sample(5, steps, seed=3, verbose=False) for steps in (0, 30))
    for wrong in (np.zeros((7, 8, 8, 1)), np.zeros((5, 8, 8))):
        with pytest.raises(InvalidInputError, match=r"start must be .*\(5, 8, 8, 1\)\. Received: \("):
            model.sample(5, start=wrong, verbose=False)
    assert start.shape == moved.shape == (5, 8, 8, 1) and start.min() >= -1 and start.max() <= 1
    assert (array(model.log_density_of_views(moved)) > array(model.log_density_of_views(start))).all()
    for old, new in zip(before, state(model)):
        np.testing.assert_array_equal(old, new)


def test_an_image_of_nan_has_a_density_of_nan():
    x = images(4).astype("float32")
    x[2, 0, 0, 0] = np.nan
    assert np.isnan(array(gedi().log_density(x))).tolist() == [False, False, True, False]


@pytest.mark.slow
def test_a_published_model_keeps_its_head(tmp_path):
    """The part "projection" clusters, is a density, and samples, without sslzoo's classes."""
    model = GEDI(plain_encoder(), 5, head(), Views("gedi-toy", 1), temperature=0.5, buffer_size=4, sgld_steps=1)
    model.views = Flips(2)
    parts = model.parts((8, 8, 1))
    results = {
        "name": "gedi-test",
        "method": "GEDI",
        "dataset": "test",
        "recipe": "none",
        "settings": {},
        "seeds": [0],
        "metrics": [],
        "versions": {},
        "wall_seconds": 0,
        "views_seen": 0,
        "license": "apache-2.0",
        "papers": [],
    }
    folder = artifact.write(tmp_path / "gedi-test", **parts, **results)
    logits = reading.read(folder, "projection")
    x = images(7).astype("float32")
    np.testing.assert_allclose(logits.predict(x, verbose=0), array(model.embed(model.prepare(x))), atol=1e-5)
    density = lambda t: losses.log_density(logits(255 * t))  # noqa: E731
    start = array(model.prepare(x))
    moved = long_chains(logits, density, start, 10, 1e-3, 0.0, verbose=False)
    assert (array(density(tensor(moved))) > array(density(tensor(start)))).all()


# ---------------------------------------------------------------- EBCLR


def test_ebclr_adds_contrast_density_and_norm():
    z, z_q = draw(6, 2, 3), draw(6, 3, seed=1)
    model = ebclr(temperature=0.5, generative_weight=0.2, norm_weight=0.3)
    a, b, q = (x.astype("float64") for x in (z[:, 0], z[:, 1], z_q))
    unit = lambda x: x / np.linalg.norm(x, axis=1, keepdims=True)  # noqa: E731

    def f(x):
        return np.log(np.exp(-((unit(x)[:, None] - unit(b)[None]) ** 2).sum(-1) / 0.5).sum(1))

    every = np.concatenate([unit(a), unit(b)])
    scores = -((every[:, None] - every[None]) ** 2).sum(-1) / 0.5
    np.fill_diagonal(scores, -np.inf)
    own = scores[np.arange(12), np.roll(np.arange(12), 6)]
    found = model.objective(None, {"z": tensor(z), "z_samples": tensor(z_q)}, True)
    found = {name: float(array(value)) for name, value in found.items()}
    assert found["alignment"] + found["contrast"] == pytest.approx(
        (np.log(np.exp(scores).sum(1)) - own).mean(), rel=1e-4
    )
    assert found["generative"] == pytest.approx(0.2 * (f(q).mean() - f(a).mean()), rel=1e-4)
    assert found["norm"] == pytest.approx(0.3 * ((a**2).sum(1).mean() + (q**2).sum(1).mean()), rel=1e-4)


def test_empty_places_start_from_views_and_chains_cool_with_their_visits(monkeypatch):
    """Slopes are made too small to matter, so that what moves a chain is the noise alone, a fixed pattern."""
    monkeypatch.setattr(keras.random, "normal", fixed_normal)
    monkeypatch.setattr(keras.random, "uniform", fixed_uniform)
    model = ebclr(sgld_steps=1, step_size=1e-9, noise=0.01, max_noise=0.05, cooling=2.0, restart=0.0, buffer_size=8)
    x = images(8)
    start = array(model.prepare(x))
    for visit, noise in enumerate((0.05, 0.03, 0.01, 0.01)):
        before = array(model.buffer)
        outputs = model(x, training=True)
        slots = array(outputs["slots"])
        began = start if visit == 0 else before[slots]
        moved = array(outputs["rows"]) - began
        np.testing.assert_allclose(moved, noise * array(fixed_normal((1, 8, 8, 8, 1)))[0], atol=1e-6)
        model.update(None, outputs)
        assert array(model.visits).tolist() == [visit + 1] * 8


def test_a_chain_that_ends_leaves_a_view_in_its_place():
    model = ebclr(restart=1.0, buffer_size=8)
    outputs = model(images(8), training=True)
    model.update(None, outputs)
    np.testing.assert_allclose(array(model.buffer)[array(outputs["slots"])], array(model.prepare(images(8))), atol=1e-6)
    assert not array(model.visits).any()
    assert np.abs(array(outputs["rows"]) - array(model.prepare(images(8)))).max() < 1e-6


@pytest.mark.slow
def test_ebclr_density_is_relative_to_a_reference_and_is_sampled():
    model = ebclr()
    z, other = (array(model.embed(model.prepare(images(n)))) for n in (5, 9))
    expected = array(losses.pair_log_density(z, other, 0.1))
    np.testing.assert_allclose(array(model.log_density(images(5), images(9))), expected, rtol=1e-5)
    start, moved = (model.sample(4, steps, reference=images(9), verbose=False) for steps in (0, 25))
    low, high = (array(model._density(model.embed(x), other)) for x in (start, moved))
    assert (high > low).all()
    with pytest.raises(InvalidInputError, match="Received: reference=None"):
        model.sample(4)


def test_ebclr_refuses_a_single_image():
    with pytest.raises(InvalidInputError, match="a batch of 1 image"):
        ebclr().check_batch(1)


def test_a_standardized_model_starts_without_a_favorite_cluster():
    dark = np.random.default_rng(0).integers(0, 40, (200, 8, 8, 1)).astype("uint8")
    encoder = networks.encoder("mlp-small", (8, 8, 1), 8, seed=0)
    model = GEDI(
        encoder, 4, networks.projector(8, (8,), batch_norm=False, seed=1), Views("gedi-mnist", 1), sgld_steps=1
    )
    before = np.bincount(array(model.predict_clusters(dark)), minlength=4)
    model.standardize(dark)
    features = array(model.projector(model.encoder(model.prepare(dark))))
    np.testing.assert_allclose(features.mean(0), 0, atol=1e-4)
    np.testing.assert_allclose(features.std(0), 1, rtol=1e-3)
    after = np.bincount(array(model.predict_clusters(dark)), minlength=4)
    assert before.max() > 190 and after.min() > 10
