"""Bounds on the mutual information: formulas, caps, conditions, and Gaussians whose information is known."""

import itertools
from functools import partial

import numpy as np
import pytest
from keras import ops
from oracle import check, gradient

from sslzoo import losses
from sslzoo.errors import InvalidInputError


def draw(*shape, seed=0, scale=1.0):
    return (scale * np.random.default_rng(seed).normal(size=shape)).astype("float32")


def found(tensor):
    return float(ops.convert_to_numpy(tensor))


# ---------------------------------------------------------------- formulas in float64


def info_nce_reference(positive, negative):
    everyone = np.concatenate([positive[:, None], negative], axis=1)
    return np.mean(positive - np.log(np.exp(everyone).mean(axis=1)))


def vince_reference(positive, negative, lower, upper):
    each = []
    for own, others in zip(positive, negative):
        kept = np.append(others[(others >= lower) & (others <= upper)], own)
        each.append(own - np.log(np.exp(kept).mean()))
    return np.mean(each)


def tuba_reference(positive, negative, log_baseline):
    a = np.exp(log_baseline)
    return 1 + np.mean(positive - log_baseline) - np.mean(np.exp(negative) / a[:, None])


def test_values_and_gradients_equal_float64_references():
    positive, negative, baseline = draw(4), draw(4, 6, seed=1), draw(4, seed=2)
    check(losses.info_nce_bound, info_nce_reference, positive, negative)
    thresholds = {"lower": -0.4, "upper": 1.1}
    check(partial(losses.vince_bound, **thresholds), partial(vince_reference, **thresholds), positive, negative)
    check(losses.tuba_bound, tuba_reference, positive, negative, baseline)
    check(losses.nwj_bound, lambda p, n: np.mean(p) - np.mean(np.exp(n)) / np.e, positive, negative)
    check(losses.barber_agakov_bound, lambda q, p: np.mean(q) - np.mean(p), positive, baseline)
    np.testing.assert_allclose(
        ops.convert_to_numpy(losses.vince_threshold(negative)), np.log(np.exp(negative).mean(axis=1)), rtol=1e-5
    )


# ---------------------------------------------------------------- a pair of Gaussians whose information is known


def gaussians(n, correlation=0.8, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    return x, correlation * x + np.sqrt(1 - correlation**2) * rng.normal(size=n)


def log_ratio(x, y, correlation=0.8):
    """log p(y | x) / p(y), the best critic."""
    rest = 1 - correlation**2
    return -0.5 * np.log(rest) - (y - correlation * x) ** 2 / (2 * rest) + y**2 / 2


INFORMATION = -0.5 * np.log(1 - 0.8**2)  # 0.5108


def scored(n=20_000, negatives=63, seed=0):
    x, y = gaussians(n, seed=seed)
    others = np.random.default_rng(seed + 1).normal(size=(n, negatives))
    return log_ratio(x, y).astype("float32"), log_ratio(x[:, None], others).astype("float32")


def test_the_best_critic_reaches_the_information():
    positive, negative = scored()
    assert found(losses.nwj_bound(positive + 1, negative + 1)) == pytest.approx(INFORMATION, abs=0.02)
    assert found(losses.tuba_bound(positive, negative)) == pytest.approx(INFORMATION, abs=0.02)
    assert found(losses.barber_agakov_bound(positive, np.zeros_like(positive))) == pytest.approx(INFORMATION, abs=0.02)
    assert INFORMATION - 0.05 < found(losses.info_nce_bound(positive, negative)) < INFORMATION + 0.01


@pytest.mark.parametrize("spoil", [lambda f: 0.5 * f, lambda f: f + 0.7, lambda f: np.tanh(f), lambda f: -f])
def test_other_critics_stay_below(spoil):
    positive, negative = (spoil(part).astype("float32") for part in scored())
    for bound in (losses.info_nce_bound, losses.nwj_bound, losses.tuba_bound):
        assert found(bound(positive, negative)) < INFORMATION + 0.02


def test_barber_agakov_is_loose_by_the_divergence_of_its_density():
    """q(x | y) of correlation 0.5 where the truth is 0.8: E log q / p = I - KL(p || q), in closed form."""
    x, y = gaussians(200_000)
    q = log_ratio(x, y, 0.5)
    rest, true_rest = 1 - 0.5**2, 1 - 0.8**2
    divergence = 0.5 * (np.log(rest / true_rest) + (true_rest + (0.8 - 0.5) ** 2) / rest - 1)
    bound = found(losses.barber_agakov_bound(q.astype("float32"), np.zeros(len(q), "float32")))
    assert bound == pytest.approx(INFORMATION - divergence, abs=0.01) and divergence > 0.05


def test_more_negatives_are_tighter_as_published():
    """The toy of the paper, I = 0.0204, with its analytic critic: 0.0103, 0.0188, 0.0206 for K = 2, 11, 101."""
    x, y = gaussians(400_000, correlation=0.2)
    assert -0.5 * np.log(1 - 0.2**2) == pytest.approx(0.020411, abs=1e-6)
    for k, expected in ((2, 0.0103), (11, 0.0188)):
        others = np.random.default_rng(5).normal(size=(len(x), k - 1))
        scores = log_ratio(x, y, 0.2), log_ratio(x[:, None], others, 0.2)
        assert found(losses.info_nce_bound(*(s.astype("float32") for s in scores))) == pytest.approx(expected, abs=2e-3)


def test_info_nce_never_exceeds_log_k():
    positive, negative = np.full(5, 300, "float32"), np.full((5, 7), -300, "float32")
    assert found(losses.info_nce_bound(positive, negative)) == pytest.approx(np.log(8), rel=1e-6)
    assert found(losses.vince_bound(positive, negative, lower=-400.0)) == pytest.approx(np.log(8), rel=1e-6)
    assert found(losses.info_nce_bound(draw(50, scale=99), draw(50, 7, seed=1, scale=99))) <= np.log(8)


# ---------------------------------------------------------------- VINCE


def test_vince_without_thresholds_is_info_nce():
    positive, negative = draw(9), draw(9, 6, seed=1)
    expected = found(losses.info_nce_bound(positive, negative))
    assert found(losses.vince_bound(positive, negative)) == pytest.approx(expected, abs=1e-6)


def test_higher_thresholds_are_looser():
    """As many negatives each, from above ever higher thresholds: the ordering of corollary 4.1.1."""
    positive, pool = scored(negatives=400)
    bounds = [found(losses.info_nce_bound(positive, pool[:, :20]))]
    pool = -np.sort(-pool, axis=1)
    rng = np.random.default_rng(0)
    for kept in (360, 200, 100, 40):
        chosen = np.take_along_axis(pool[:, :kept], rng.integers(0, kept, (len(pool), 20)), axis=1)
        bounds.append(found(losses.vince_bound(positive, chosen, lower=chosen.min(axis=1))))
    assert all(first > second for first, second in itertools.pairwise(bounds)) and bounds[0] <= INFORMATION + 0.01


def test_above_the_threshold_vince_is_at_most_info_nce_even_with_a_ceiling():
    positive, pool = scored(n=4000, negatives=2000)
    threshold = ops.convert_to_numpy(losses.vince_threshold(pool))
    ceiling = threshold + 0.3
    kept = [row[(row >= low) & (row <= high)][:20] for row, low, high in zip(pool, threshold, ceiling)]
    full = np.array([len(row) == 20 for row in kept])
    assert full.mean() > 0.5
    vince = found(losses.vince_bound(positive[full], np.stack([row for row in kept if len(row) == 20])))
    assert vince <= found(losses.info_nce_bound(positive[full], pool[full, :20]))


def test_an_empty_region_counts_as_nothing_and_has_no_gradient():
    positive, negative = draw(3), draw(3, 4, seed=1)
    assert found(losses.vince_bound(positive, negative, lower=1e3)) == pytest.approx(0, abs=1e-6)
    slopes = gradient(lambda p, n: losses.vince_bound(p, n, lower=1e3), positive, negative)
    assert all(not slope.any() for slope in slopes)


def test_the_region_may_be_that_of_another_similarity():
    positive, negative, similarity = draw(3), draw(3, 4, seed=1), draw(3, 4, seed=2)
    inside = (similarity > -0.2) & (similarity < 0.9)
    hidden = np.where(inside, negative, 0.0)
    expected = [p - np.log(np.exp(np.append(n[keep], p)).mean()) for p, n, keep in zip(positive, hidden, inside)]
    ours = losses.vince_bound(positive, negative, -0.2, 0.9, similarity)
    assert found(ours) == pytest.approx(np.mean(expected), abs=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: losses.info_nce_bound(draw(4), draw(3, 2)), r"positive.shape=\(4,\), negative.shape=\(3, 2\)"),
        (lambda: losses.nwj_bound(draw(4), draw(4, 0)), r"negative.shape=\(4, 0\)"),
        (lambda: losses.vince_bound(draw(4), draw(4, 2), similarity=draw(4, 3)), r"similarity.shape=\(4, 3\)"),
        (lambda: losses.vince_threshold(draw(4)), r"shape=\(4,\)"),
        (lambda: losses.barber_agakov_bound(draw(4), draw(3)), r"log_marginal.shape=\(3,\)"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: losses.tuba_bound(np.zeros(3), np.zeros((3, 4)), np.zeros(2)), r"log_baseline.shape=\(2,\)"),
        (lambda: losses.vince_bound(np.zeros(3), np.zeros((3, 4)), lower=np.zeros(2)), r"lower.shape=\(2,\)"),
        (lambda: losses.vince_bound(np.zeros(3), np.zeros((3, 4)), upper=np.zeros((3, 1))), r"upper.shape=\(3, 1\)"),
        (lambda: losses.vince_threshold(np.zeros((3, 0))), r"shape=\(3, 0\)"),
    ],
)
def test_bounds_of_anchors_are_a_number_or_one_each(build, message):
    with pytest.raises(InvalidInputError, match=message):
        build()


def test_a_scalar_tensor_is_a_bound_of_all():
    positive, negative = np.random.default_rng(0).normal(size=3), np.random.default_rng(1).normal(size=(3, 4))
    for one in (0.2, np.float32(0.2), np.full(3, 0.2, "float32")):
        assert float(losses.tuba_bound(positive, negative, one)) == pytest.approx(
            float(losses.tuba_bound(positive, negative, 0.2)), rel=1e-6
        )
        assert float(losses.vince_bound(positive, negative, lower=one)) == pytest.approx(
            float(losses.vince_bound(positive, negative, lower=0.2)), rel=1e-6
        )
