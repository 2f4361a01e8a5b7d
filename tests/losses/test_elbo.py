import keras
import numpy as np
import pytest
from keras import ops
from oracle import check, gradient

from sslzoo import losses
from sslzoo.errors import InvalidInputError


def draw(*shape, seed=0, scale=1.0):
    return scale * np.random.default_rng(seed).normal(size=shape)


def tensor(array):
    return ops.convert_to_tensor(array, dtype="float32")


def to_numpy(tensor):
    return ops.convert_to_numpy(tensor)


def prior_of(z, *variances):
    return to_numpy(losses.group_prior(tensor(z), *variances))


# ---------------------------------------------------------------- float64 references, written from the formulas


def kl_reference(mean, log_var):
    variance = np.exp(log_var)
    return (0.5 * (mean**2 + variance - np.log(variance) - 1)).sum(-1)


def kl_between_reference(mean, log_var, mean_to, log_var_to):
    a, b = np.exp(log_var), np.exp(log_var_to)
    return (0.5 * (np.log(b / a) - 1 + a / b + (mean - mean_to) ** 2 / b)).sum(-1)


def entropy_reference(log_var):
    return (0.5 * np.log(2 * np.pi * np.e * np.exp(log_var))).sum(-1)


def marginal_reference(z, variance, center_variance):
    """-log N(z_1..z_J; 0, dense covariance) per group, by a linear solve; its constant is removed by the tests."""
    views = z.shape[1]
    covariance = variance * np.eye(views) + center_variance * np.ones((views, views))
    solved = np.einsum("ij,bjl->bil", np.linalg.inv(covariance), z)
    return 0.5 * (z * solved).sum((1, 2))


def uniform_prior_reference(z, variance):
    pairs = 0.0
    for i in range(z.shape[1]):
        for j in range(i):
            pairs = pairs + ((z[:, i] - z[:, j]) ** 2).sum(-1)
    return pairs / z.shape[1] / (2 * variance)


def bernoulli_reference(x, logits):
    p = 1 / (1 + np.exp(-logits))
    return -(x * np.log(p) + (1 - x) * np.log(1 - p)).sum((1, 2, 3))


def test_values_and_gradients_equal_float64_references():
    mean, log_var = draw(3, 4, seed=1), draw(3, 4, seed=2)
    mean_to, log_var_to = draw(3, 4, seed=3), draw(3, 4, seed=4)
    weights = np.array([0.5, -1.0, 2.0])  # one number of many; unequal, so that a lost row shows

    def total(per_image):
        return ops.sum(per_image * tensor(weights))

    check(
        lambda m, v: total(losses.gaussian_kl(m, v)), lambda m, v: (weights * kl_reference(m, v)).sum(), mean, log_var
    )
    check(
        lambda *t: total(losses.gaussian_kl_between(*t)),
        lambda *t: (weights * kl_between_reference(*t)).sum(),
        *(mean, log_var, mean_to, log_var_to),
    )
    check(lambda v: total(losses.gaussian_entropy(v)), lambda v: (weights * entropy_reference(v)).sum(), log_var)


@pytest.mark.parametrize("views", [2, 3, 10])
def test_group_prior_equals_the_dense_gaussian_and_the_sum_over_pairs(views):
    z = draw(2, views, 3, seed=views)
    check(lambda t: ops.sum(losses.group_prior(t, 0.15, 0.7)), lambda t: marginal_reference(t, 0.15, 0.7).sum(), z)
    check(lambda t: ops.sum(losses.group_prior(t, 0.15)), lambda t: uniform_prior_reference(t, 0.15).sum(), z)


def test_reconstruction_terms_equal_float64_references():
    x, x_hat = np.abs(draw(2, 3, 3, 1, seed=5)) % 1, draw(2, 3, 3, 1, seed=6)
    check(
        lambda b: ops.sum(losses.gaussian_reconstruction(tensor(x), b, 0.01)),
        lambda b: (((x - b) ** 2).sum((1, 2, 3)) / 0.02).sum(),
        x_hat,
        atol=2e-4,
    )
    check(
        lambda b: ops.sum(losses.bernoulli_reconstruction(tensor(x), b)),
        lambda b: bernoulli_reference(x, b).sum(),
        x_hat,
    )


# ---------------------------------------------------------------- closed forms


def test_kl_closed_forms():
    kl = losses.gaussian_kl(ops.convert_to_tensor([[1.0, -2.0]]), ops.log(ops.convert_to_tensor([[1.0, 4.0]])))
    assert to_numpy(kl) == pytest.approx([3.306853], abs=1e-5)

    one, zero = ops.convert_to_tensor([[1.0]]), ops.convert_to_tensor([[0.0]])
    log4 = ops.log(4 * one)
    assert to_numpy(losses.gaussian_kl_between(one, zero, zero, log4)) == pytest.approx([0.443147], abs=1e-5)
    assert to_numpy(losses.gaussian_kl_between(zero, log4, one, zero)) == pytest.approx([1.306853], abs=1e-5)


def test_kl_between_stays_finite_where_a_quotient_of_variances_overflows():
    log_var = ops.full((1, 2), 100.0)
    assert to_numpy(losses.gaussian_kl_between(log_var * 0, log_var, log_var * 0, log_var)) == pytest.approx([0.0])


def test_group_prior_closed_forms():
    assert to_numpy(losses.group_prior(tensor(draw(4, 1, 3)), 0.15)).max() == 0
    pair = ops.convert_to_tensor([[[1.0, 0.0], [3.0, 4.0]]])
    assert to_numpy(losses.group_prior(pair, 0.15)) == pytest.approx([33.333333], rel=1e-6)

    alone = tensor(draw(4, 1, 3))
    a_vae = 0.5 * np.square(draw(4, 1, 3)).sum((1, 2)) / (0.15 + 1.0)
    np.testing.assert_allclose(to_numpy(losses.group_prior(alone, 0.15, 1.0)), a_vae, rtol=1e-5)


def test_group_prior_invariances():
    z = draw(3, 4, 5).astype("float32")
    prior = prior_of(z, 0.15)
    np.testing.assert_allclose(prior_of(z + 3.0, 0.15), prior, rtol=1e-3)
    np.testing.assert_allclose(prior_of(z[:, ::-1].copy(), 0.15), prior, rtol=1e-5)
    assert (prior_of(z + 3.0, 0.15, 1.0) > prior_of(z, 0.15, 1.0)).all()


def test_mixing_images_between_groups_raises_the_prior():
    centers = 3 * draw(6, 1, 2, seed=8)
    z = (centers + 0.1 * draw(6, 4, 2, seed=9)).astype("float32")
    shuffled = z.reshape(24, 2)[np.random.default_rng(0).permutation(24)].reshape(6, 4, 2)
    assert prior_of(shuffled, 0.15).sum() > 20 * prior_of(z, 0.15).sum()


def test_expected_prior_under_the_posterior():
    """E over z ~ N(mean, v): [spread of means + (1 - 1/J) sum of variances] / (2 sigma^2)."""
    rng = np.random.default_rng(0)
    mean, deviation = rng.normal(size=(1, 3, 2)), rng.uniform(0.2, 1.0, size=(1, 3, 2))
    z = mean + deviation * rng.normal(size=(200_000, 3, 2))
    spread = ((mean - mean.mean(1, keepdims=True)) ** 2).sum()
    expected = (spread + (1 - 1 / 3) * (deviation**2).sum()) / (2 * 0.15)
    assert prior_of(z.astype("float32"), 0.15).mean() == pytest.approx(expected, rel=5e-3)


def test_entropy_is_that_of_a_gaussian():
    unit = to_numpy(losses.gaussian_entropy(ops.zeros((1, 3))))
    assert unit == pytest.approx([1.5 * np.log(2 * np.pi * np.e)], rel=1e-6)


@pytest.mark.parametrize("logit", [-200.0, 200.0])
def test_bernoulli_is_finite_for_logits_of_any_size(logit):
    logits = np.full((1, 1, 1, 1), logit, "float32")
    right, wrong = np.full_like(logits, logit > 0), np.full_like(logits, logit < 0)
    assert to_numpy(losses.bernoulli_reconstruction(tensor(right), tensor(logits))) == pytest.approx([0.0])
    assert to_numpy(losses.bernoulli_reconstruction(tensor(wrong), tensor(logits))) == pytest.approx([200.0])
    (slope,) = gradient(lambda t: ops.sum(losses.bernoulli_reconstruction(tensor(wrong), t)), logits)
    assert slope.item() == pytest.approx(np.sign(logit))


@pytest.mark.parametrize("pixel", [0.0, 0.25, 1.0])
def test_the_slope_of_bernoulli_at_a_logit_of_zero_is_that_of_the_sigmoid(pixel):
    image, logits = np.full((1, 1, 1, 1), pixel, "float32"), np.zeros((1, 1, 1, 1), "float32")
    (slope,) = gradient(lambda t: ops.sum(losses.bernoulli_reconstruction(tensor(image), t)), logits)
    assert slope.item() == pytest.approx(0.5 - pixel, abs=1e-6)


def test_bfloat16_stays_close_to_float32():
    mean, log_var = draw(4, 8, seed=1), draw(4, 8, seed=2)
    for fn, arrays in [(losses.gaussian_kl, (mean, log_var)), (losses.gaussian_entropy, (log_var,))]:
        exact = to_numpy(fn(*map(tensor, arrays)))
        rough = to_numpy(ops.cast(fn(*(ops.cast(tensor(a), "bfloat16") for a in arrays)), "float32"))
        np.testing.assert_allclose(rough, exact, rtol=0.05, atol=0.05)
    z = tensor(draw(4, 3, 8, seed=3))
    rough = ops.cast(losses.group_prior(ops.cast(z, "bfloat16"), 0.15, 1.0), "float32")
    np.testing.assert_allclose(to_numpy(rough), prior_of(z, 0.15, 1.0), rtol=0.05)
    assert keras.backend.standardize_dtype(losses.group_prior(ops.cast(z, "bfloat16"), 0.15).dtype) == "float32"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        # NumPy's rules would stretch one along the other.
        (lambda: losses.gaussian_kl(draw(4, 8), draw(8)), r"mean and log_var must be .*log_var.shape=\(8,\)"),
        (lambda: losses.gaussian_kl_between(*draw(3, 4, 8), draw(1, 8)), r"log_var_to.shape=\(1, 8\)"),
        (lambda: losses.gaussian_reconstruction(draw(2, 4, 4, 3), draw(2, 4, 4, 1), 0.01), r"x_hat.shape=\(2, 4, 4, 1"),
        (lambda: losses.gaussian_reconstruction(draw(2, 9), draw(2, 9), 0.01), r"images \(N, H, W, C\) alike"),
        (lambda: losses.bernoulli_reconstruction(draw(2, 4, 4, 1), draw(1, 4, 4, 1)), r"logits.shape=\(1, 4, 4, 1\)"),
        (lambda: losses.group_prior(draw(4, 8), 0.15), r"\(batch, views, features\).*z.shape=\(4, 8\)"),
        (lambda: losses.group_prior(draw(4, 2, 8), -0.15), "variance must be a number > 0. Received: variance=-0.15"),
        (lambda: losses.group_prior(draw(4, 2, 8), 0.15, 0.0), "center_variance must be a number > 0"),
        (lambda: losses.gaussian_reconstruction(draw(2, 4, 4, 1), draw(2, 4, 4, 1), 0), "variance must be a number"),
    ],
)
def test_shapes_and_numbers_that_do_not_fit_are_refused(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()
