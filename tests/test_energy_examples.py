"""Moons, circles and sums of digits: their points, rules and probabilities, and that they run."""

import argparse
import itertools
import math

import keras
import numpy as np
import pytest
from keras import ops
from PIL import Image
from test_examples import example

import sslzoo

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


# ---------------------------------------------------------------- moons and circles


def test_points_lie_on_their_curves():
    module = example("moons_and_circles")
    rng = np.random.default_rng(0)
    points, labels = module.draw("circles", 4000, rng, noise=0.0)
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), np.where(labels, 0.5, 1.0), rtol=1e-5)
    points, labels = module.draw("moons", 4000, rng, noise=0.0)
    upper = np.where(labels[:, None] == 0, points, -points) / 0.7 + [0.5, 0.25]
    np.testing.assert_allclose(np.linalg.norm(upper, axis=1), 1.0, rtol=1e-4)
    assert upper[:, 1].min() >= -1e-5 and abs(labels.mean() - 0.5) < 0.05
    noisy, _ = module.draw("circles", 4000, rng, noise=0.1)
    assert np.linalg.norm(noisy, axis=1).std() > 0.25
    assert np.abs(np.concatenate([points, noisy])).max() < 1.5


def test_batches_are_fresh_in_every_epoch_and_copies_are_jittered():
    module = example("moons_and_circles")
    data = module.Points("moons", 2, seed=1)
    first, again = (data[3][0] for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert first.shape == (400, 2, 1, 1, 2)
    assert (first[:, 1] - first[:, 0]).std() == pytest.approx(0.03, rel=0.1)
    data.on_epoch_end()
    assert not np.allclose(first, data[3][0])


def test_moons_and_circles_runs(capsys, monkeypatch):
    module = example("moons_and_circles")
    monkeypatch.setattr(module, "TRIES", 2)
    means = module.main(
        ["--variants", "JEM", "GEDI", "SwAV", "--datasets", "circles", "--seeds", "1", "--steps", "100", "--jobs", "1"]
    )
    assert set(means) == {("circles", variant) for variant in ("JEM", "GEDI", "SwAV")}
    out = capsys.readouterr().out
    for variant in ("JEM", "GEDI", "SwAV"):
        paper = module.PAPER["circles"][variant]
        assert f"{means['circles', variant]:.2f} +- 0.00 ({paper[0]:.2f} +- {paper[1]:.2f})" in out
    with Image.open("moons_and_circles.png") as image:
        assert np.asarray(image.convert("L")).std() > 10


# ---------------------------------------------------------------- outliers


def test_detect_outliers(capsys, monkeypatch):
    module = example("detect_outliers")
    rng = np.random.default_rng(0)
    digits, _ = sslzoo.data.load("digits", "test")
    sets = {"digits": digits, "noise": rng.integers(0, 256, (300, 10, 12, 3)).astype("uint8"), "again": digits}
    monkeypatch.setattr(module.data, "load", lambda name, split, data_dir: (sets[name], None))
    flat = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Rescaling(0.0), keras.layers.Flatten()])
    networks = {"flat": (flat, "encoder"), "head": (sslzoo.load("dcl-digits"), "projection")}
    loaded = module.load
    monkeypatch.setattr(module, "load", lambda name: networks.get(name) or loaded(name))
    models = ["simvae-digits", "head", "flat"]
    found = module.main(
        [*models, "--inside", "digits", "--outside", "noise", "again", "--limit", "200", "--out", "found.png"]
    )
    assert list(found) == models and not found["flat"]
    assert all(abs(found[model]["again"] - 0.5) < 0.05 for model in models[:2])  # the same images under other noise
    out = capsys.readouterr().out
    assert "simvae-digits (encoder)" in out and "no slope" in out and "noise: 200" in out
    for model, part in ("simvae-digits", "encoder"), ("head", "projection"):
        (row,) = [line for line in out.splitlines() if line.startswith(f"{model} ({part})")]
        assert row.split()[-2:] == [f"{found[model][name]:.3f}" for name in ("noise", "again")]
    with Image.open("found.png") as image:
        assert np.asarray(image.convert("L")).std() > 10


# ---------------------------------------------------------------- sums of digits


def test_the_rule_of_sums_has_55_worlds():
    module = example("digit_sums")
    found = module.worlds(module.RULES)
    assert sorted(map(tuple, found.tolist())) == sorted((a, b, a + b) for a in range(10) for b in range(10 - a))


def test_rules_can_be_several_and_share_variables():
    worlds = example("digit_sums").worlds
    same = worlds("holds :- digit(1, A), digit(2, A).", images=2)
    assert same.tolist() == [[a, a] for a in range(10)]
    either = worlds("holds :- digit(1, A), A < 2.\nholds :- digit(1, A), digit(2, B), B = A * 2, A <= 1.", 2, 3)
    assert either.tolist() == [[a, b] for a in range(2) for b in range(3)]  # those of the second hold already
    assert worlds("holds :- digit(1, A), digit(2, B), A + B = 99.", 2).shape == (0, 2)


@pytest.mark.parametrize(
    "rule, message",
    [
        ("digit(1, A).", "A rule reads"),
        ("holds :- digit(1, A), A = B.", "B is not"),
        ("holds :- digit(1, A), __import__('os').", "compares numbers and variables"),
        ("holds :- digit(1, A), A +.", "Cannot read"),
    ],
)
def test_rules_that_are_none_are_refused(rule, message):
    with pytest.raises(ValueError, match=message):
        example("digit_sums").worlds(rule)


def log_softmax(x):
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def test_probability_is_the_sum_over_all_1000_worlds():
    module = example("digit_sums")
    log_p = log_softmax(np.random.default_rng(0).normal(size=(4, 3, 10)))
    expected = np.zeros(4)
    for world in itertools.product(range(10), repeat=3):
        if world[0] + world[1] == world[2]:
            expected += np.exp(sum(log_p[:, image, world[image]] for image in range(3)))
    found = module.log_probability(ops.convert_to_tensor(log_p.astype("float32")), module.worlds(module.RULES))
    np.testing.assert_allclose(ops.convert_to_numpy(found), np.log(expected), rtol=1e-5)


def test_closed_forms_of_the_rule_and_its_shortcut():
    module = example("digit_sums")
    world = module.worlds(module.RULES)
    uniform = np.full((1, 3, 10), math.log(0.1), "float32")
    zeros = np.log(np.eye(10, dtype="float32")[[[0, 0, 0]]] * (1 - 9e-7) + 1e-7)
    for log_p, loss in ((uniform, 2.900422), (zeros, 0.0)):
        found = -module.log_probability(ops.convert_to_tensor(log_p), world)
        assert float(ops.convert_to_numpy(found)[0]) == pytest.approx(loss, abs=1e-5)
    shares = np.bincount(world.ravel(), minlength=10) / world.size
    np.testing.assert_allclose(shares, (21 - np.arange(10)) / 165)
    assert -(shares * np.log(shares)).sum() == pytest.approx(2.28729, abs=1e-5)


def test_sums_are_true_and_no_image_comes_twice():
    module = example("digit_sums")
    labels = np.random.default_rng(0).integers(0, 10, 3000)
    numbered = np.arange(3000).reshape(-1, 1, 1, 1)
    sums = module.draw_sums(numbered, labels, 300, np.random.default_rng(1))[..., 0, 0, 0]
    a, b, c = labels[sums].T
    np.testing.assert_array_equal(a + b, c)
    assert sums.shape == (300, 3) and len(np.unique(sums)) == 900


def test_terms_of_sums_against_numpy():
    module = example("digit_sums")
    settings = argparse.Namespace(
        widths=(4,), sgld_steps=1, buffer_size=8, generative_weight=1.0, rule_weight=25.0, entropy_weight=400.0
    )
    model = module.make("GEDI & NeSy", settings, 0, module.worlds(module.RULES))
    logits, sampled = (np.random.default_rng(seed).normal(size=(6, 10)) for seed in (0, 1))
    found = model.objective(
        None, {"logits": ops.cast(logits, "float32"), "sample_logits": ops.cast(sampled, "float32")}, True
    )
    p = np.exp(log_softmax(logits))
    rule = [sum(t[0, a] * t[1, b] * t[2, a + b] for a in range(10) for b in range(10 - a)) for t in p.reshape(2, 3, 10)]
    f, f_q = (np.log(np.exp(x).sum(1)) for x in (logits, sampled))
    share = p.mean(0)
    expected = {
        "generative": (f_q - f).mean() + 0.01 * (f_q**2 + f**2).mean(),
        "invariance": -25 * np.log(rule).mean(),
        "prior": 400 * (share * np.log(share)).sum(),
    }
    for name, value in expected.items():
        assert float(ops.convert_to_numpy(found[name])) == pytest.approx(value, rel=1e-4), name


SOLVED, SWAPPED, SHORTCUT = (2.0, 1.5), (20.0, 3.0), (0.0, 100 * math.log(10))  # rule and prior above their least


@pytest.mark.parametrize(
    "ends, restarts, seeds",
    [
        ([SOLVED], 2, [7]),
        ([SWAPPED, SOLVED], 2, [1007, 7]),
        ([SHORTCUT, SWAPPED, (18.0, 3.0)], 2, [2007, 1007, 7]),  # the shortcut, whose rule is 0, is the worst of three
        ([SWAPPED], 0, [7]),
    ],
)
def test_a_run_that_ends_far_from_its_optimum_begins_again(ends, restarts, seeds):
    module = example("digit_sums")
    runs = []

    def run(seed):
        rule, prior = ends[len(runs)]
        history = {"invariance": [90.0, rule], "prior": [0.0, prior - 100 * math.log(10)], "loss": [9.0, 9.0]}
        model = object.__new__(module.Sums)  # what the choice looks at, without networks
        known = {"seed": seed, "clusters": 10, "entropy_weight": 100.0, "history": argparse.Namespace(history=history)}
        for name, value in known.items():
            object.__setattr__(model, name, value)
        runs.append(seed)
        return model

    models = module.attempts(run, 7, restarts)
    assert [model.seed for model in models] == seeds and len(runs) == len(ends)
    assert module.excess(models[0]) == pytest.approx(min(sum(end) for end in ends))
    assert module.excess(object()) == 0.0  # no rule, nothing to begin again for


def test_digit_sums_runs(capsys, monkeypatch):
    module = example("digit_sums")
    rng = np.random.default_rng(0)
    digits = rng.integers(0, 256, (400, 28, 28, 1)).astype("uint8"), np.arange(400) % 10
    monkeypatch.setattr(sslzoo.data, "load", lambda name, split, data_dir: digits)
    small = ["--widths", "4", "--sgld-steps", "1", "--buffer-size", "20", "--batch-size", "10", "--limit", "50"]
    found = module.main(["--examples", "20", "--epochs", "1", "--restarts", "0", *small])
    assert set(found) == {(20, method) for method in module.METHODS}
    assert all(0 <= accuracy <= 1 and 0 <= nmi <= 1 for accuracy, nmi in found.values())
    out = capsys.readouterr().out
    assert "55 of 1000 worlds" in out and "GEDI & NeSy" in out
    assert out.count(" above") == 2  # one run each of the two methods with a rule
    with Image.open("digit_sums.png") as image:
        assert np.asarray(image.convert("L")).std() > 10
