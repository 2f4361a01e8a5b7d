import keras
import numpy as np
import pytest
from keras import ops
from oracle import check, compiled, gradient

from sslzoo import losses
from sslzoo.errors import InvalidInputError
from sslzoo.losses.decorrelation import covariance, log_determinant


def draw(*shape, seed=0, scale=1.0):
    return scale * np.random.default_rng(seed).normal(size=shape)


def mixing(size, seed):
    """An invertible matrix, far from singular."""
    return np.eye(size) + 0.4 * np.tril(draw(size, size, seed=seed), -1) + 0.2 * draw(size, size, seed=seed + 1)


def pair(n=7, size=4, seed=0):
    z_a = draw(n, size, seed=seed) @ mixing(size, seed + 1) + 3.0
    return z_a, z_a + 0.5 * draw(n, size, seed=seed + 3)


def grouped(n=9, views=2, size=4, seed=0):
    z = draw(n, 1, size, seed=seed) + 0.5 * draw(n, views, size, seed=seed + 1)
    return z @ mixing(size, seed + 2) + 3.0


def tensor(array):
    return ops.convert_to_tensor(array, dtype="float32")


def to_numpy(tensor):
    return ops.convert_to_numpy(tensor)


def values(terms):
    return {name: float(to_numpy(value)) for name, value in terms.items()}


# ---------------------------------------------------------------- float64 references, written from the formulas


def squared_distance(z_a, z_b):
    return ((z_a - z_b) ** 2).sum() / z_a.size


def vicreg_reference(z_a, z_b):
    variance, off_diagonal = 0.0, 0.0
    for z in (z_a, z_b):
        n, size = z.shape
        for i in range(size):
            variance += max(0.0, 1 - np.sqrt(np.var(z[:, i], ddof=1) + 1e-4)) / size
            for j in range(size):
                if i != j:
                    cov = ((z[:, i] - z[:, i].mean()) * (z[:, j] - z[:, j].mean())).sum() / (n - 1)
                    off_diagonal += cov**2 / size
    return {"invariance": squared_distance(z_a, z_b), "variance": variance / 2, "covariance": off_diagonal}


def barlow_reference(z_a, z_b):
    n, size = z_a.shape
    (std_a, std_b) = ((z - z.mean(0)) / np.sqrt(z.var(0) + 1e-5) for z in (z_a, z_b))
    terms = {"invariance": 0.0, "redundancy": 0.0}
    for i in range(size):
        for j in range(size):
            c = (std_a[:, i] * std_b[:, j]).sum() / n
            terms["invariance" if i == j else "redundancy"] += (c - 1) ** 2 if i == j else c**2
    return terms


def corinfomax_reference(z_a, z_b, regularizer=1e-6):
    volume = 0.0
    for z in (z_a, z_b):
        eigenvalues = np.linalg.eigvalsh(np.cov(z.T, bias=True) + regularizer * np.eye(z.shape[1]))
        volume -= np.log(eigenvalues).sum() / z.shape[1]
    return {"invariance": squared_distance(z_a, z_b), "log_determinant": volume}


def whiten_reference(z):
    """Through the inverse covariance instead: its upper Cholesky factor, reversed, is the lower factor's inverse."""
    precision = np.linalg.inv(np.cov(z.T))
    reverse = np.eye(z.shape[1])[::-1]
    upper = reverse @ np.linalg.cholesky(reverse @ precision @ reverse) @ reverse
    return (z - z.mean(0)) @ upper


def w_mse_reference(z, normalize=True):
    views = z.shape[1]
    white = [whiten_reference(z[:, j]) for j in range(views)]
    if normalize:
        white = [w / np.linalg.norm(w, axis=1, keepdims=True) for w in white]
    total, pairs = 0.0, 0
    for i in range(views):
        for j in range(i):
            squared = (white[i] - white[j]) ** 2
            total += squared.sum(1).mean() if normalize else squared.mean()
            pairs += 1
    return total / pairs


@pytest.mark.parametrize("name", ["invariance", "variance", "covariance"])
def test_vicreg_equals_the_reference(name):
    z_a, z_b = pair()
    z_a, z_b = 0.3 * z_a, 0.3 * z_b
    assert 0 < vicreg_reference(z_a, z_b)["variance"] < 0.9  # on both sides of the hinge, and not at its end
    check(lambda *z: losses.vicreg_terms(*z)[name], lambda *z: vicreg_reference(*z)[name], z_a, z_b)


def test_barlow_twins_equals_the_reference():
    def reference(z_a, z_b):
        terms = barlow_reference(z_a, z_b)
        return terms["invariance"] + 0.3 * terms["redundancy"]

    check(lambda z_a, z_b: losses.barlow_twins(z_a, z_b, 0.3), reference, *pair(), rtol=1e-4)
    found = values(losses.barlow_twins_terms(*map(tensor, pair())))
    assert found == pytest.approx(barlow_reference(*pair()), rel=1e-4)


@pytest.mark.parametrize("regularizer", [1e-6, 0.1])
def test_corinfomax_equals_the_reference(regularizer):
    def ours(z_a, z_b):
        terms = losses.corinfomax_terms(z_a, z_b, regularizer)
        return 5 * terms["invariance"] + terms["log_determinant"]

    def reference(z_a, z_b):
        terms = corinfomax_reference(z_a, z_b, regularizer)
        return 5 * terms["invariance"] + terms["log_determinant"]

    check(ours, reference, *pair(n=12), rtol=1e-4)
    found = values(losses.corinfomax_terms(*map(tensor, pair(n=12)), regularizer))
    assert found == pytest.approx(corinfomax_reference(*pair(n=12), regularizer), rel=1e-4)


def test_corinfomax_is_the_bound_that_gedi_states():
    """-log|sum_i (z_i - z_bar)(...)^T + beta I| + gamma sum_i |z_i - z'_i|^2: same gradients, up to the scale D."""
    (z_a, z_b), gamma, beta = pair(n=12), 0.7, 0.01

    def gedi(z_a, z_b):
        centered = z_a - z_a.mean(0)
        scatter = centered.T @ centered + beta * np.eye(4)
        return (-np.log(np.linalg.det(scatter)) + gamma * ((z_a - z_b) ** 2).sum()) / 4 + np.log(12.0)

    def ours(z_a, z_b):
        terms = losses.corinfomax_terms(z_a, z_b, beta / 12, covariances=covariance(z_a)[None])
        return terms["log_determinant"] + 12 * gamma * terms["invariance"]

    check(ours, gedi, z_a, z_b, rtol=1e-4)


@pytest.mark.parametrize("views", [2, 3])
@pytest.mark.parametrize("normalize", [True, False])
def test_w_mse_equals_the_reference(views, normalize):
    z = grouped(views=views)
    check(lambda z: losses.w_mse(z, normalize), lambda z: w_mse_reference(z, normalize), z, rtol=2e-4, atol=1e-4)


def test_w_mse_whitens_each_leading_batch_by_itself():
    z = np.stack([grouped(seed=seed) for seed in (0, 5)])
    apart = [float(to_numpy(losses.w_mse(tensor(one)))) for one in z]
    assert float(to_numpy(losses.w_mse(tensor(z)))) == pytest.approx(np.mean(apart), rel=1e-5)
    assert abs(apart[0] - apart[1]) > 1e-3


def test_log_determinant_equals_the_reference_on_near_singular_matrices():
    z = draw(40, 3) @ draw(3, 8, seed=1)
    matrix = np.cov(z.T) + 1e-3 * np.eye(8)
    found = float(to_numpy(log_determinant(tensor(matrix), 1e-9)))
    assert found == pytest.approx(np.linalg.slogdet(matrix)[1], rel=1e-3)


# ---------------------------------------------------------------- closed forms


def vicreg_loss(z_a, z_b):
    terms = values(losses.vicreg_terms(tensor(z_a), tensor(z_b)))
    return 25 * terms["invariance"] + 25 * terms["variance"] + terms["covariance"]


def test_vicreg_closed_forms():
    corners = [[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]]
    assert values(losses.vicreg_terms(tensor(corners), tensor(corners))) == {
        "invariance": 0.0,
        "variance": 0.0,
        "covariance": 0.0,
    }
    correlated = 0.5 * np.array([[1.0, 1.0], [-1.0, -1.0], [2.0, 2.0], [-2.0, -2.0]])
    terms = values(losses.vicreg_terms(tensor(correlated), tensor(correlated)))
    assert terms == pytest.approx({"invariance": 0, "variance": 0.087074, "covariance": 1.388889}, abs=1e-6)
    constant = np.full((5, 3), 2.0)
    assert vicreg_loss(constant, constant) == pytest.approx(24.75, abs=1e-4)  # 49.5 without the half


def test_barlow_twins_closed_forms():
    constant = tensor(np.full((8, 6), 3.0))
    assert float(to_numpy(losses.barlow_twins(constant, constant, 0.0051))) == pytest.approx(6.0)
    corners = tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    assert float(to_numpy(losses.barlow_twins(corners, corners, 1.0))) == pytest.approx(0.0, abs=1e-8)
    # Two equal coordinates: the diagonal is right, and each of the two entries beside it is 1.
    equal = tensor(np.array([[1.0], [-1.0], [2.0], [-2.0]]) * np.ones((1, 2)))
    assert values(losses.barlow_twins_terms(equal, equal)) == pytest.approx(
        {"invariance": 0, "redundancy": 2}, abs=1e-4
    )


def test_barlow_weight_is_not_squared():
    """Random views: D (1 + 1/N) on the diagonal and weight D (D - 1) / N beside it, as expectations."""
    z_a, z_b = draw(64, 128), draw(64, 128, seed=1)
    terms = values(losses.barlow_twins_terms(tensor(z_a), tensor(z_b)))
    assert terms["invariance"] == pytest.approx(128 * (1 + 1 / 64), rel=0.1)
    assert terms["redundancy"] == pytest.approx(128 * 127 / 64, rel=0.1)
    total = float(to_numpy(losses.barlow_twins(tensor(z_a), tensor(z_b), 0.0051)))
    assert total == pytest.approx(terms["invariance"] + 0.0051 * terms["redundancy"], rel=1e-6)


def test_corinfomax_closed_forms():
    corners = tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])  # covariance I over B
    assert values(losses.corinfomax_terms(corners, 2 * corners)) == pytest.approx(
        {"invariance": 1.0, "log_determinant": -np.log(4.0)}, abs=1e-5
    )
    point = tensor(np.full((6, 5), 0.25))
    collapsed = values(losses.corinfomax_terms(point, point, 1e-4))
    assert collapsed == pytest.approx({"invariance": 0.0, "log_determinant": -2 * np.log(1e-4)}, rel=1e-5)


def test_w_mse_closed_forms():
    z = grouped(n=12, views=1)
    same, opposite = np.concatenate([z, z], axis=1), np.concatenate([z, -z], axis=1)
    assert float(to_numpy(losses.w_mse(tensor(same)))) == pytest.approx(0.0, abs=1e-5)
    assert float(to_numpy(losses.w_mse(tensor(opposite)))) == pytest.approx(4.0, abs=1e-4)
    assert float(to_numpy(losses.w_mse(tensor(opposite), normalize=False))) == pytest.approx(4 * 11 / 12, abs=1e-4)
    strangers = tensor(draw(400, 2, 4))
    assert float(to_numpy(losses.w_mse(strangers))) == pytest.approx(2.0, abs=0.15)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e38])
def test_a_loss_that_diverges_is_nan_on_every_backend(bad):
    """So that `FiniteGuard` speaks of it; TensorFlow's and PyTorch's Cholesky raise errors of their own."""
    z = np.random.default_rng(0).normal(size=(8, 2, 3)).astype("float32")
    z[0, 0, 0] = bad
    assert np.isnan(to_numpy(losses.w_mse(tensor(z), normalize=False)))


def test_whitened_embeddings_have_mean_zero_and_covariance_one():
    z = draw(3, 40, 6) @ mixing(6, seed=1) + 5.0
    white = to_numpy(losses.whiten(tensor(z)))
    np.testing.assert_allclose(white.mean(1), 0, atol=1e-4)
    for one in white:
        np.testing.assert_allclose(np.cov(one.T), np.eye(6), atol=1e-4)


# ---------------------------------------------------------------- invariances


@compiled
def all_terms(z_a, z_b):
    return {
        **{f"vicreg {name}": value for name, value in losses.vicreg_terms(z_a, z_b).items()},
        **{f"barlow {name}": value for name, value in losses.barlow_twins_terms(z_a, z_b).items()},
        **{f"corinfomax {name}": value for name, value in losses.corinfomax_terms(z_a, z_b).items()},
        "w_mse": losses.w_mse(ops.stack([z_a, z_b], axis=1)),
    }


def every_loss(z_a, z_b):
    """All terms of all four, by name, of two views (B, D) given as arrays."""
    return values(all_terms(tensor(z_a), tensor(z_b)))


def test_order_of_images_views_and_origin_do_not_matter():
    z_a, z_b = pair(n=12)
    expected = pytest.approx(every_loss(z_a, z_b), rel=1e-3, abs=1e-4)
    order = np.random.default_rng(0).permutation(12)
    assert every_loss(z_a[order], z_b[order]) == expected
    assert every_loss(z_b, z_a) == expected
    assert every_loss(z_a + 2.0, z_b + 2.0) == expected
    shuffled = every_loss(z_a, z_b[order])
    for name in ("vicreg invariance", "barlow invariance", "corinfomax invariance", "w_mse"):
        assert shuffled[name] > 1.5 * every_loss(z_a, z_b)[name]
    for name in ("vicreg variance", "vicreg covariance", "corinfomax log_determinant"):
        assert shuffled[name] == pytest.approx(every_loss(z_a, z_b)[name], rel=1e-4)


def test_rotations():
    """The volume and the distance see no rotation; the terms that look at single coordinates do."""
    z_a, z_b = pair(n=12)
    turn = np.linalg.qr(draw(4, 4, seed=9))[0]
    before, after = every_loss(z_a, z_b), every_loss(z_a @ turn, z_b @ turn)
    for name in ("vicreg invariance", "corinfomax invariance", "corinfomax log_determinant"):
        assert after[name] == pytest.approx(before[name], rel=1e-3)
    for name in ("vicreg covariance", "barlow redundancy"):
        assert abs(after[name] - before[name]) > 1e-2 * abs(before[name])


def test_barlow_and_w_mse_do_not_see_the_scale_of_coordinates():
    z_a, z_b = pair(n=12)
    scales, offsets = np.array([0.5, 1.0, 5.0, 100.0]), np.array([3.0, -1.0, 0.0, 7.0])
    before, after = every_loss(z_a, z_b), every_loss(z_a * scales + offsets, z_b * scales + offsets)
    for name in ("barlow invariance", "barlow redundancy", "w_mse"):
        assert after[name] == pytest.approx(before[name], rel=5e-3)
    lower = np.tril(draw(4, 4, seed=3), -1) + np.diag([1.0, 0.5, 2.0, 1.5])
    assert every_loss(z_a @ lower.T, z_b @ lower.T)["w_mse"] == pytest.approx(before["w_mse"], rel=5e-3)


def test_collapsing_to_a_line_costs_what_collapsing_to_a_point_costs_too():
    """`variance` alone would be content with one direction."""
    z = draw(32, 1) * np.ones((1, 4))
    spread = draw(32, 4, seed=1)
    on_a_line, free = every_loss(z, z), every_loss(spread, spread)
    assert on_a_line["vicreg covariance"] > 10 * free["vicreg covariance"]
    assert on_a_line["barlow redundancy"] > 10 * free["barlow redundancy"]
    assert on_a_line["corinfomax log_determinant"] > free["corinfomax log_determinant"] + 5


# ---------------------------------------------------------------- what must stay finite, and what is refused


@pytest.mark.parametrize(
    "loss",
    [
        lambda a, b: sum(losses.vicreg_terms(a, b).values()),
        lambda a, b: losses.barlow_twins(a, b),
        lambda a, b: sum(losses.corinfomax_terms(a, b).values()),
        lambda a, b: losses.w_mse(ops.stack([a, b], axis=1)),
        lambda a, b: losses.w_mse(ops.stack([a, b], axis=1), normalize=False),
    ],
    ids=["vicreg", "barlow_twins", "corinfomax", "w_mse", "w_mse, not normalized"],
)
def test_zero_constant_singular_and_huge_embeddings_are_finite(loss):
    zero, constant, line, other = np.zeros((12, 4)), np.full((12, 4), 3.1), draw(12, 1) * np.ones((1, 4)), draw(12, 4)
    value = compiled(loss)
    for pair in ((zero, zero), (zero, other), (constant, constant), (line, line), (1e4 * line, other)):
        arrays = [z.astype("float32") for z in pair]
        assert np.isfinite(to_numpy(value(*map(tensor, arrays))))
        assert all(np.isfinite(slope).all() for slope in gradient(loss, *arrays))


def test_w_mse_of_a_collapsed_encoder_is_that_of_strangers():
    assert float(to_numpy(losses.w_mse(ops.zeros((8, 2, 3))))) == pytest.approx(2.0)


def test_off_diagonal_sum_survives_a_large_diagonal():
    z = np.diag([300.0] * 6)[:, :2].repeat(2, axis=0) * np.tile([[1.0], [-1.0]], (6, 1))
    z[:, 1] += 1e-3 * draw(12)
    assert values(losses.vicreg_terms(tensor(z), tensor(z)))["covariance"] == pytest.approx(
        vicreg_reference(z.astype("float32").astype("float64"), z.astype("float32").astype("float64"))["covariance"],
        rel=1e-2,
    )


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_half_precision_inputs_are_taken_to_float32(precision):
    z_a, z_b = pair(n=12)
    rough = [ops.cast(tensor(z), precision) for z in (z_a, z_b)]
    exact = [ops.cast(z, "float32") for z in rough]
    for fn in (losses.vicreg_terms, losses.barlow_twins_terms, losses.corinfomax_terms):
        assert values(fn(*rough)) == values(fn(*exact))
        assert {keras.backend.standardize_dtype(value.dtype) for value in fn(*rough).values()} == {"float32"}
    found, expected = (losses.w_mse(ops.stack(z, axis=1)) for z in (rough, exact))
    assert keras.backend.standardize_dtype(found.dtype) == "float32"
    assert float(to_numpy(found)) == float(to_numpy(expected))


@pytest.mark.parametrize("loss", [losses.vicreg_terms, losses.barlow_twins, losses.corinfomax_terms])
def test_wrong_input_is_refused(loss):
    z = ops.ones((4, 3))
    with pytest.raises(InvalidInputError, match=r"\(batch, size\).*z_a.shape=\(4, 3\), z_b.shape=\(4, 2\)"):
        loss(z, ops.ones((4, 2)))
    with pytest.raises(InvalidInputError, match=r"z_a.shape=\(4, 2, 3\)"):
        loss(ops.ones((4, 2, 3)), ops.ones((4, 2, 3)))
    with pytest.raises(InvalidInputError, match=r"at least 2 images.*Received: z_a.shape=\(1, "):
        loss(z[:1], z[:1])


def test_w_mse_needs_views_and_more_images_than_features():
    with pytest.raises(InvalidInputError, match=r"more than 4 embeddings.*Received: batch=4, features=4"):
        losses.w_mse(ops.ones((4, 2, 4)))
    with pytest.raises(InvalidInputError, match=r"at least 2 views. Received: z.shape=\(8, 1, 4\)"):
        losses.w_mse(ops.ones((8, 1, 4)))
    with pytest.raises(InvalidInputError, match=r"Received: z.shape=\(8, 4\)"):
        losses.w_mse(ops.ones((8, 4)))
    with pytest.raises(InvalidInputError, match=r"Received: z.shape=\(4,\)"):
        losses.whiten(ops.ones((4,)))
