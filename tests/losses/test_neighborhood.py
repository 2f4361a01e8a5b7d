"""One loss and its choices of positives and negatives: formulas, orderings, limits, and the search behind them."""

import itertools
from functools import partial

import keras
import numpy as np
import pytest
from keras import ops
from oracle import check, compiled, gradient

from sslzoo import losses
from sslzoo.errors import InvalidInputError, UnknownNameError
from sslzoo.losses import neighborhood


def draw(*shape, seed=0, scale=1.0):
    return (scale * np.random.default_rng(seed).normal(size=shape)).astype("float32")


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def array(tensor):
    return ops.convert_to_numpy(tensor)


def value(loss, *given):
    found = compiled(loss)(*map(ops.convert_to_tensor, given))
    assert keras.backend.standardize_dtype(found.dtype) == "float32" and found.shape == ()
    return float(array(found))


def masks(rows=5, columns=7, seed=3):
    """Positives and negatives at random, which overlap; each row has a positive."""
    rng = np.random.default_rng(seed)
    positive, negative = rng.uniform(size=(2, rows, columns)) < [[[0.3]], [[0.5]]]
    positive[np.arange(rows), rng.integers(0, columns, rows)] = True
    return positive, negative


def neighborhood_reference(scores, positive, negative):
    sums = []
    for row, pull, push in zip(scores, positive, negative):
        pulled = sum(np.exp(s) for s, one in zip(row, pull) if one)
        everyone = sum(np.exp(s) for s, one, other in zip(row, pull, push) if one or other)
        sums.append(-np.log(pulled / everyone))
    return np.mean(sums)


# ---------------------------------------------------------------- the formula


def test_values_and_gradients_equal_float64_references():
    positive, negative = masks()
    check(
        lambda s: losses.neighborhood_nce(s, positive, negative),
        partial(neighborhood_reference, positive=positive, negative=negative),
        draw(5, 7, scale=3.0),
    )


def noise_reference(own, noise, num_images, normalizer):
    """h = P / (P + K / N), as printed in the paper of instance discrimination."""
    p, q = (np.exp(s) / (normalizer * num_images) for s in (own, noise))
    drawn = noise.shape[1] / num_images
    return np.mean(-np.log(p / (p + drawn)) - np.log(1 - q / (q + drawn)).sum(axis=1))


@pytest.mark.parametrize("normalizer", [2876934.2 / 1281167, 0.3])
def test_noise_contrastive_equals_its_reference(normalizer):
    check(
        partial(losses.noise_contrastive, num_images=50, normalizer=normalizer),
        partial(noise_reference, num_images=50, normalizer=normalizer),
        draw(4, scale=2.0),
        draw(4, 9, seed=1, scale=2.0),
    )


def test_terms_sum_to_the_loss():
    positive, negative = masks()
    scores = draw(5, 7)
    terms = losses.neighborhood_terms(scores, positive, negative)
    assert float(terms["alignment"] + terms["contrast"]) == pytest.approx(
        value(lambda s: losses.neighborhood_nce(s, positive, negative), scores), rel=1e-6
    )
    pulled = [np.log(np.exp(row[one].astype("float64")).sum()) for row, one in zip(scores, positive)]
    assert float(terms["alignment"]) == pytest.approx(-np.mean(pulled), rel=1e-5)


# ---------------------------------------------------------------- orderings and limits (the methods as masks)


def family(seed, images=40, near=15):
    """Losses of the family for eight anchors over one random bank, from the definitions."""
    rng = np.random.default_rng(seed)
    bank, v = unit(rng.normal(size=(images, 8))), unit(rng.normal(size=(8, 8)))
    index = rng.permutation(images)[:8]
    scores = (v @ bank.T / 0.2).astype("float32")
    own = np.arange(images)[None] == index[:, None]
    ball = np.argsort(np.argsort(-scores, axis=1), axis=1) < near
    ball |= own
    labels = rng.integers(0, 6, images)
    close = labels[None] == labels[index][:, None]
    everyone = np.ones_like(own)
    sets = {
        "ir": (own, everyone),
        "ball": (own, ball),
        "annulus": (own, ball & ~close),
        "aggregation": (ball & close, ball),
        "aggregation, C = {i}": (ball & own, ball),
        "aggregation, C holds B": (ball, ball),
        "ball of everyone": (own, everyone | own),
    }
    return {name: value(losses.neighborhood_nce, scores, *pair) for name, pair in sets.items()}, scores, index


@pytest.mark.parametrize("seed", range(20))
def test_orderings(seed):
    found, scores, index = family(seed)
    assert found["ir"] >= found["ball"] >= found["annulus"] >= 0
    assert found["ball"] >= found["aggregation"] >= 0
    assert found["aggregation, C = {i}"] == pytest.approx(found["ball"], abs=1e-6)
    assert found["aggregation, C holds B"] == pytest.approx(0, abs=1e-6)
    assert found["ball of everyone"] == pytest.approx(found["ir"], abs=1e-6)
    assert found["ir"] == pytest.approx(value(losses.instance_cross_entropy, scores, index.astype("int32")), rel=1e-5)


def test_equal_scores_give_the_log_of_the_number_of_candidates():
    scores = np.full((3, 9), 2.5, "float32")
    own, none = np.eye(3, 9, dtype=bool), np.zeros((3, 9), bool)
    assert value(losses.neighborhood_nce, scores, own, ~none) == pytest.approx(np.log(9), rel=1e-6)
    assert value(losses.neighborhood_nce, scores, own, none) == pytest.approx(0.0, abs=1e-6)


def test_random_bank_gives_log_k_and_half_the_variance_of_scores():
    """log K + 1 / (2 T^2 d) = 9.115 for K = 4096, d = 128, T = 0.07."""
    v, bank = unit(draw(400, 128)), unit(draw(4096, 128, seed=1))
    own = np.eye(400, 4096, dtype=bool)
    scores = (v @ bank.T / 0.07).astype("float32")
    expected = np.log(4096) + 1 / (2 * 0.07**2 * 128)
    assert expected == pytest.approx(9.115, abs=0.001)
    assert value(losses.neighborhood_nce, scores, own, np.ones_like(own)) == pytest.approx(expected, abs=0.15)
    constant = np.log(np.exp(scores.astype("float64")).mean())
    assert constant == pytest.approx(np.log(2876934.2 / 1281167), abs=0.05)  # where the released constant comes from


def test_a_shift_of_a_row_and_the_order_of_columns_change_nothing():
    positive, negative = masks()
    scores, order = draw(5, 7), np.random.default_rng(0).permutation(7)
    expected = value(losses.neighborhood_nce, scores, positive, negative)
    shifted = scores + draw(5, 1, seed=1, scale=50)
    assert value(losses.neighborhood_nce, shifted, positive, negative) == pytest.approx(expected, rel=1e-4)
    turned = [part[:, order] for part in (scores, positive, negative)]
    assert value(losses.neighborhood_nce, *turned) == pytest.approx(expected, rel=1e-6)


def test_candidates_outside_both_sets_have_no_say():
    positive, negative = masks()
    outside = ~(positive | negative)
    assert outside.any()
    scores = draw(5, 7)
    far = np.where(outside, 1e4, scores).astype("float32")
    expected = value(losses.neighborhood_nce, scores, positive, negative)
    assert value(losses.neighborhood_nce, far, positive, negative) == expected
    (slope,) = gradient(lambda s: losses.neighborhood_nce(s, positive, negative), far)
    assert not slope[outside].any() and np.isfinite(slope).all()


def test_a_row_without_positives_is_told_and_harms_no_gradient():
    positive, negative = masks()
    positive[2] = False
    assert np.isnan(value(losses.neighborhood_nce, draw(5, 7), positive, negative))
    (slope,) = gradient(lambda s: losses.neighborhood_nce(s, positive, negative), draw(5, 7))
    assert np.isfinite(slope).all() and not slope[2].any()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_loses_nothing_after_the_input(dtype):
    positive, negative = masks()
    scores = draw(5, 7, scale=30)
    exact = array(ops.cast(ops.cast(scores, dtype), "float32"))

    def in_half(s):
        return losses.neighborhood_nce(ops.cast(s, dtype), positive, negative)

    expected = value(lambda s: losses.neighborhood_nce(s, positive, negative), exact)
    assert value(in_half, scores) == pytest.approx(expected, rel=1e-5)


def test_large_scores_stay_finite():
    positive, negative = masks()
    scores = draw(5, 7, scale=1e4)
    assert np.isfinite(value(losses.neighborhood_nce, scores, positive, negative))
    assert np.isfinite(value(partial(losses.noise_contrastive, num_images=9), scores[:, 0], scores))


# ---------------------------------------------------------------- the search


@pytest.mark.parametrize("block", [7, 20, 33, 99, 100, 10**6])  # 7: fewer rows than are wanted
def test_nearest_is_exact_whatever_the_block(block):
    v, bank = unit(draw(6, 5)), unit(draw(100, 5, seed=1))
    exact = v.astype("float64") @ bank.T.astype("float64")
    scores, rows = (array(x) for x in compiled(partial(losses.nearest, count=13, block=block))(v, bank))
    np.testing.assert_allclose(scores, -np.sort(-exact, axis=1)[:, :13], atol=1e-6)
    np.testing.assert_array_equal(rows, np.argsort(-exact, axis=1)[:, :13])
    assert rows.dtype == np.int32

    def some(v):
        return ops.sum(ops.square(losses.nearest(v, bank, 13, block)[0]))

    (slope,) = gradient(some, v)
    by_hand = np.einsum("bk,bkd->bd", 2 * np.take_along_axis(exact, rows, axis=1), bank[rows])
    np.testing.assert_allclose(slope, by_hand, atol=1e-4)


def test_a_bank_of_200_000_rows_in_blocks_equals_one_search():
    v, bank = unit(draw(3, 16)), unit(draw(200_000, 16, seed=1))
    exact = v @ bank.T
    scores, rows = (array(x) for x in losses.nearest(v, bank, 4096))
    for mine, found, row in zip(scores, rows, exact):
        last = -np.partition(-row, 4095)[4095]
        assert len(set(found.tolist())) == 4096 and np.diff(mine).max() < 1e-6
        np.testing.assert_allclose(mine, row[found], atol=1e-6)
        assert row[found].min() >= last - 1e-6
    one, _ = losses.nearest(v, bank, 4096, block=200_000)
    np.testing.assert_allclose(scores, array(one), atol=1e-6)


@pytest.mark.parametrize("count", [0, 1, 13, 99, 100])
def test_within_finds_the_best_of_each_row(count):
    cosines = unit(draw(6, 5)) @ unit(draw(100, 5, seed=1)).T
    ranks = np.argsort(np.argsort(-cosines, axis=1), axis=1)
    found = compiled(losses.within)(ops.convert_to_tensor(cosines), ops.convert_to_tensor(count))
    np.testing.assert_array_equal(array(found), ranks < count)
    fractional = array(losses.within(cosines, count + 0.4))
    assert (fractional.sum(axis=1) == min(count + (count > 0) + (count == 0), 100)).all()


def test_within_takes_the_first_of_equals_and_the_ends_of_the_range():
    cosines = np.array([[1.0, 1.0, -1.0, 0.0], [0.5, 0.5, 0.5, 0.5], [0.0] * 4, [-1.0, -1.0, 1.0, -1.0]], "float32")
    within = compiled(losses.within)
    for count in range(5):
        ranks = np.argsort(np.argsort(-cosines, axis=1, kind="stable"), axis=1, kind="stable")
        found = array(within(ops.convert_to_tensor(cosines), ops.convert_to_tensor(count)))
        np.testing.assert_array_equal(found, ranks < count)


@pytest.mark.parametrize("rows", [1, 6, 8, 16])
def test_within_is_the_same_in_parts_and_at_once(rows, monkeypatch):
    # Half of the rows have a few values only, so that the last one is one of many equals.
    cosines = (unit(draw(rows, 5)) @ unit(draw(3000, 5, seed=1)).T).astype("float32")
    cosines[::2] = np.round(cosines[::2], 1)
    ranks = np.argsort(np.argsort(-cosines, axis=1, kind="stable"), axis=1)
    for cached in (0, 4 * 3000, 10**6):
        monkeypatch.setattr(neighborhood, "CACHED", cached)
        np.testing.assert_array_equal(array(losses.within(cosines, 400)), ranks < 400)
    monkeypatch.setattr(neighborhood, "_rows_at_a_time", lambda cosines: rows)
    np.testing.assert_array_equal(array(compiled(losses.within)(ops.convert_to_tensor(cosines), 400)), ranks < 400)


# ---------------------------------------------------------------- schedules


@pytest.mark.parametrize("curve", ["linear", "exponential", "step"])
def test_schedules_start_and_end_where_they_say(curve):
    at = [float(losses.anneal(step, 50_000, 4096, 10, curve)) for step in range(13)]
    assert at[0] == pytest.approx(50_000) and at[10:] == [4096.0] * 3
    assert all(first >= second for first, second in itertools.pairwise(at))
    halfway = {"linear": (50_000 + 4096) / 2, "exponential": (50_000 * 4096) ** 0.5, "step": 50_000}
    assert at[5] == pytest.approx(halfway[curve], rel=1e-5)
    assert float(losses.anneal(0, 50_000, 4096, 0, curve)) == 4096
    traced = compiled(lambda step: losses.anneal(step, 50_000, 4096, 10, curve))
    assert float(traced(ops.convert_to_tensor(5, dtype="int32"))) == pytest.approx(halfway[curve], rel=1e-5)


# ---------------------------------------------------------------- wrong ways


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: losses.neighborhood_nce(draw(4, 3), np.ones((4, 2), bool), np.ones((4, 3), bool)),
            InvalidInputError,
            r"masks of its shape. Received: scores.shape=\(4, 3\), positive.shape=\(4, 2\)",
        ),
        (
            lambda: losses.neighborhood_nce(draw(4, 3), np.ones((4, 3)), np.ones((4, 3), bool)),
            InvalidInputError,
            "positive must be a boolean mask. Received: positive of dtype",
        ),
        (lambda: losses.neighborhood_nce(draw(4), draw(4) > 0, draw(4) > 0), InvalidInputError, r"shape=\(4,\)"),
        (lambda: losses.noise_contrastive(draw(4), draw(3, 2), 9), InvalidInputError, r"noise_scores.shape=\(3, 2\)"),
        (lambda: losses.noise_contrastive(draw(4), draw(4, 2), 0), InvalidInputError, "num_images=0"),
        (lambda: losses.noise_contrastive(draw(4), draw(4, 2), 9, -1.0), InvalidInputError, "normalizer=-1.0"),
        (lambda: losses.within(draw(4), 2), InvalidInputError, r"cosines.shape=\(4,\)"),
        (lambda: losses.nearest(draw(4, 3), draw(9, 2), 3), InvalidInputError, r"bank.shape=\(9, 2\)"),
        (lambda: losses.nearest(draw(4, 3), draw(9, 3), 10), InvalidInputError, "9 rows. Received: count=10"),
        (lambda: losses.nearest(draw(4, 3), draw(9, 3), 2, block=0), InvalidInputError, "block=0"),
        (lambda: losses.anneal(1, 2, 1, 4, "cosine"), UnknownNameError, "cosine"),
        (lambda: losses.anneal(1, 2, 1, -4), InvalidInputError, "steps=-4"),
        (lambda: losses.anneal(1, 2, 0, 4, "exponential"), InvalidInputError, "end=0"),
    ],
)
def test_what_cannot_be_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_noise_of_no_draws_is_refused():
    with pytest.raises(InvalidInputError, match=r"noise_scores.shape=\(3, 0\)"):
        losses.noise_contrastive(np.zeros(3), np.zeros((3, 0)), 10)
