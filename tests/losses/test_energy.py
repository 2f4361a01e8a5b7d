"""Energy models and GEDI's clustering terms against float64 NumPy; what Langevin dynamics comes to on a quadratic."""

import math

import keras
import numpy as np
import pytest
from keras import ops
from oracle import check, compiled, gradient

from sslzoo import losses
from sslzoo.errors import InvalidInputError


def draw(*shape, seed=0, scale=1.0):
    return scale * np.random.default_rng(seed).normal(size=shape)


def number(tensor):
    return float(ops.convert_to_numpy(tensor))


def log_softmax(x):
    return x - np.log(np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True)) - x.max(-1, keepdims=True)


def terms_of(logits, view, prior=None):
    found = compiled(lambda a, b: losses.cluster_terms(a, b, prior))(*map(ops.convert_to_tensor, (logits, view)))
    return number(found["invariance"]), number(found["prior"])


def float32(array):
    return np.asarray(array, "float32")


# ---------------------------------------------------------------- cluster terms


def invariance_reference(logits, view):
    n, k = logits.shape
    total = 0.0
    for i in range(n):
        for y in range(k):
            total -= np.exp(log_softmax(view[i])[y]) * log_softmax(logits[i])[y]
    return total / n


def prior_reference(shares):
    def of(logits, view):
        mean = np.exp(log_softmax(logits)).mean(0)
        return -(shares * np.log(mean)).sum()

    return of


@pytest.mark.parametrize("shape", [(6, 4), (1, 3), (9, 2)])
def test_invariance_against_the_formula(shape):
    arrays = draw(*shape, scale=2), draw(*shape, seed=1, scale=2)
    check(lambda a, b: losses.cluster_terms(a, b)["invariance"], invariance_reference, *arrays)


@pytest.mark.parametrize("shares", [None, (0.5, 0.2, 0.2, 0.1)])
def test_prior_against_the_formula(shares):
    arrays = draw(7, 4, scale=2), draw(7, 4, seed=1)
    reference = prior_reference(np.full(4, 0.25) if shares is None else np.array(shares))
    check(lambda a, b: losses.cluster_terms(a, b, shares)["prior"], reference, *arrays)


def test_both_views_learn_from_invariance():
    slopes = gradient(
        lambda a, b: losses.cluster_terms(a, b)["invariance"], *map(float32, (draw(5, 3), draw(5, 3, seed=1)))
    )
    assert min(np.abs(slope).max() for slope in slopes) > 1e-2


def test_closed_forms_tell_the_failures_apart():
    """Algorithms of GEDI: uniform (ln c, ln c); optimum (0, ln c); one cluster with margin m (0, m (c - 1) / c)."""
    clusters, margin = 10, 50.0
    rows = float32(margin * np.eye(clusters))
    zeros, one = np.zeros_like(rows), float32(np.tile(rows[0], (clusters, 1)))
    assert terms_of(zeros, zeros) == pytest.approx((2.302585, 2.302585), abs=1e-5)
    assert terms_of(rows, rows) == pytest.approx((0.0, 2.302585), abs=1e-5)
    assert terms_of(one, one) == pytest.approx((0.0, 45.0), abs=1e-4)
    shuffled = np.roll(rows, 1, axis=0)
    assert terms_of(rows, shuffled) == pytest.approx((50.0, 2.302585), abs=1e-4)


def test_prior_does_not_see_the_order_of_images_and_invariance_does():
    logits, view = draw(8, 4, scale=3), draw(8, 4, seed=1, scale=3)
    order = np.random.default_rng(2).permutation(8)
    before, after = terms_of(float32(logits), float32(view)), terms_of(float32(logits[order]), float32(view))
    assert after[1] == pytest.approx(before[1], rel=1e-5)
    assert abs(after[0] - before[0]) > 0.1


def test_a_constant_on_all_logits_changes_nothing_but_the_density():
    logits, view = float32(draw(8, 4)), float32(draw(8, 4, seed=1))
    assert terms_of(logits + 7, view + 7) == pytest.approx(terms_of(logits, view), rel=1e-5)
    shift = losses.log_density(logits + 7) - losses.log_density(logits)
    np.testing.assert_allclose(ops.convert_to_numpy(shift), 7.0, rtol=1e-5)


def test_an_empty_cluster_is_pulled_at():
    """On exponentials the share of cluster 2 would be 0, its logarithm infinite, and its gradient NaN."""
    logits = np.zeros((6, 3), "float32")
    logits[:, 2] = -200.0
    assert terms_of(logits, logits)[1] == pytest.approx((2 * math.log(2) + 200 + math.log(2)) / 3, rel=1e-5)
    (slope, _) = gradient(lambda a, b: losses.cluster_terms(a, b)["prior"], logits, logits)
    assert np.isfinite(slope).all() and (slope[:, 2] < -0.01).all()


def test_the_least_prior_term_is_the_entropy_of_the_prior():
    shares = np.array([0.6, 0.3, 0.1])
    labels = np.repeat([0, 1, 2], (6, 3, 1))
    _, balanced = terms_of(float32(60 * np.eye(3)[labels]), float32(60 * np.eye(3)[labels]), float32(shares))
    assert balanced == pytest.approx(-(shares * np.log(shares)).sum(), rel=1e-5)


def test_terms_take_arrays_and_are_float32_of_bfloat16():
    logits, view = float32(draw(6, 3)), float32(draw(6, 3, seed=1))
    exact = losses.cluster_terms(logits, view)
    rough = losses.cluster_terms(*(ops.cast(ops.convert_to_tensor(x), "bfloat16") for x in (logits, view)))
    for name in ("invariance", "prior"):
        assert keras.backend.standardize_dtype(rough[name].dtype) == "float32"
        assert number(rough[name]) == pytest.approx(number(exact[name]), rel=0.02)


@pytest.mark.parametrize("shapes", [((6, 3), (6, 4)), ((6, 3), (5, 3)), ((6,), (6,))])
def test_terms_refuse_other_shapes(shapes):
    with pytest.raises(InvalidInputError, match="logits and logits_view must be two matrices"):
        losses.cluster_terms(*(np.zeros(shape, "float32") for shape in shapes))


def test_terms_refuse_a_prior_of_another_length():
    with pytest.raises(InvalidInputError, match=r"vector of 3 numbers.*Received: prior.shape=\(2,\)"):
        losses.cluster_terms(np.zeros((4, 3), "float32"), np.zeros((4, 3), "float32"), np.array([0.5, 0.5]))


# ---------------------------------------------------------------- densities


def test_log_density_is_log_sum_exp():
    def reference(x):
        return (np.log(np.exp(x).sum(1)) * np.arange(1, 6)).sum()

    weights = ops.convert_to_tensor(float32(np.arange(1, 6)))
    check(lambda x: ops.sum(losses.log_density(x) * weights), reference, draw(5, 4))


def test_generative_term_is_the_difference_of_means():
    check(losses.generative_term, lambda data, samples: samples.mean() - data.mean(), draw(5), draw(7, seed=1))
    assert number(losses.generative_term(float32(draw(5)), float32(draw(5)))) == 0.0


def test_generative_term_has_the_gradient_of_the_likelihood():
    """f = -(x - m)^2 / 2 with exact samples: d/dm of the term is that of the mean squared distance, m - mean x."""
    data, samples = float32(draw(400, seed=1) + 2), float32(draw(200_000, seed=2) + 0.5)

    def term(m):
        x, x_q = ops.convert_to_tensor(data), ops.convert_to_tensor(samples)
        return losses.generative_term(-0.5 * (x - m) ** 2, -0.5 * (x_q - m) ** 2)

    (slope,) = gradient(term, np.float32(0.5))
    assert float(slope) == pytest.approx(0.5 - data.mean(), abs=0.01)


def test_pair_density_against_the_formula():
    def reference(z, other):
        z, other = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (z, other))
        squared = ((z[:, None] - other[None]) ** 2).sum(-1)
        return (np.log(np.exp(-squared / 0.5).sum(1)) * np.arange(1, 5)).sum()

    weights = ops.convert_to_tensor(float32(np.arange(1, 5)))
    arrays = draw(4, 3), draw(6, 3, seed=1)
    check(lambda z, other: ops.sum(losses.pair_log_density(z, other, 0.5) * weights), reference, *arrays)


def test_pair_density_has_the_limits_it_says():
    z = np.tile(float32([1.0, 0.0]), (3, 1))
    np.testing.assert_allclose(ops.convert_to_numpy(losses.pair_log_density(z, z, 0.1)), math.log(3), rtol=1e-5)
    least = ops.convert_to_numpy(losses.pair_log_density(z, -z, 0.1))
    np.testing.assert_allclose(least, math.log(3) - 40, rtol=1e-5)


def test_contrast_over_squared_distances_is_nt_xent_at_half_the_temperature():
    """EBCLR's conditional term: on unit vectors -|a - b|^2 / T and 2 a.b / T differ by a constant, which cancels."""
    a, b = draw(5, 3), draw(5, 3, seed=1)
    z = np.concatenate([x / np.linalg.norm(x, axis=1, keepdims=True) for x in (a, b)])
    scores = -((z[:, None] - z[None]) ** 2).sum(-1) / 0.2
    np.fill_diagonal(scores, -np.inf)
    positives = scores[np.arange(10), np.roll(np.arange(10), 5)]
    expected = np.mean(np.log(np.exp(scores).sum(1)) - positives)
    assert number(losses.nt_xent(float32(a), float32(b), 0.1)) == pytest.approx(expected, rel=1e-5)


def test_pair_density_refuses_rows_of_another_length():
    with pytest.raises(InvalidInputError, match=r"rows of one length.*Received: z.shape=\(4, 3\)"):
        losses.pair_log_density(np.zeros((4, 3), "float32"), np.zeros((4, 2), "float32"), 0.1)


# ---------------------------------------------------------------- Langevin steps


def chain(steps, step_size, noise, start, seed=0, clip=None):
    """Chains on f = -x^2 / 2, whose slope is -x."""
    rng, x = np.random.default_rng(seed), ops.convert_to_tensor(float32(start))
    for _ in range(steps):
        x = losses.sgld_step(x, -x, float32(rng.normal(size=start.shape)), step_size, noise, clip)
    return ops.convert_to_numpy(x)


def test_a_step_goes_uphill_and_shakes():
    x, slope, shake = draw(4, 2), draw(4, 2, seed=1), draw(4, 2, seed=2)
    weights = draw(4, 2, seed=3)

    def reference(x, slope, shake):
        return ((x + 0.5 * slope + 0.1 * shake) * weights).sum()

    tensor = ops.convert_to_tensor(float32(weights))
    check(lambda *a: ops.sum(losses.sgld_step(*a, 0.5, 0.1) * tensor), reference, x, slope, shake)


@pytest.mark.parametrize("step_size, noise, variance", [(5e-5, 0.01, 1.0), (1.0, 0.01, 1e-4), (0.5, 0.2, 0.04 / 0.75)])
def test_stationary_variance_on_a_quadratic(step_size, noise, variance):
    """noise^2 / (step_size (2 - step_size)); 5e-5 and 0.01 are the toy setting, 1 and 0.01 that of images.

    The small step would take tens of thousands of steps to mix, so its chain starts in the stationary distribution,
    and 50 steps tell whether the variance grows by noise^2 - 2 step_size variance, which is 0, in each.
    """
    rows = np.random.default_rng(1).normal(size=20_000)
    start = variance**0.5 * (rows - rows.mean()) / rows.std()
    assert chain(50, step_size, noise, start).var() == pytest.approx(variance, rel=0.002 if step_size < 0.1 else 0.03)
    assert chain(50, step_size, 2 * noise, start).var() > 1.01 * variance


def test_clipped_slopes_bound_a_step():
    start = np.array([100.0, 0.5])
    np.testing.assert_allclose(chain(1, 0.1, 0.0, start, clip=1.0), [99.9, 0.45], rtol=1e-6)


def test_noise_can_differ_by_row():
    x = np.zeros((2, 3), "float32")
    moved = losses.sgld_step(x, x, np.ones_like(x), 1.0, float32([[0.05], [0.01]]))
    np.testing.assert_allclose(ops.convert_to_numpy(moved), [[0.05] * 3, [0.01] * 3], rtol=1e-6)
