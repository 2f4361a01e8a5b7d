"""Coding rate, EMP-SSL, MMCR, FroSSL, TiCo and DINO against float64 references and their closed forms."""

import numpy as np
import pytest
from keras import ops
from oracle import check, gradient

from sslzoo import losses
from sslzoo.errors import InvalidInputError


def embeddings(batch=5, views=3, size=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(batch, 1, size)) + 0.5 * rng.normal(size=(batch, views, size))


def unit(x, axis=-1):
    return x / np.linalg.norm(x, axis=axis, keepdims=True)


def rate_reference(z, epsilon):
    batch, size = z.shape
    return 0.5 * np.linalg.slogdet(np.eye(size) + size / (batch * epsilon**2) * z.T @ z)[1]


def emp_reference(z):
    z = unit(z)
    rate = np.mean([rate_reference(z[:, v], 0.2**0.5) for v in range(z.shape[1])])
    center = unit(z.mean(axis=1, keepdims=True))
    return {"coding_rate": -rate, "alignment": -(z * center).sum(axis=-1).mean()}


def mmcr_reference(z):
    z = unit(z)
    norm = lambda m: np.linalg.svd(m, compute_uv=False).sum()  # noqa: E731
    return {"centroids": -norm(z.mean(axis=1)), "manifolds": np.mean([norm(rows) for rows in z])}


def frossl_spectrum_reference(z, traces):
    z = unit(z, axis=0)
    return sum(2 * np.log(np.linalg.norm(z[:, v].T @ z[:, v] / trace)) for v, trace in zip(range(z.shape[1]), traces))


def frossl_invariance_reference(z):
    z = unit(z, axis=0)
    views, size = z.shape[1:]
    return sum(views * size * ((z[:, v] - z.mean(axis=1)) ** 2).mean() for v in range(views))


@pytest.mark.parametrize("shape", [(6, 3), (3, 6)])
def test_coding_rate_equals_the_formula(shape):
    z = np.random.default_rng(0).normal(size=shape)
    check(lambda z: losses.coding_rate(z, 0.5), lambda z: rate_reference(z, 0.5), z)


def test_coding_rate_of_equal_and_of_orthogonal_rows():
    equal = np.zeros((8, 4), "float32")
    equal[:, 0] = 1
    assert float(losses.coding_rate(equal, 0.5)) == pytest.approx(0.5 * np.log(1 + 4 / 0.25), rel=1e-4)
    spread = np.tile(np.eye(4, dtype="float32"), (2, 1))
    assert float(losses.coding_rate(spread, 0.5)) == pytest.approx(0.5 * 4 * np.log(1 + 1 / 0.25), rel=1e-4)


@pytest.mark.parametrize("term", ["coding_rate", "alignment"])
@pytest.mark.parametrize("shape", [(5, 3, 4), (4, 2, 6)])
def test_emp_ssl_equals_the_formula(term, shape):
    check(lambda z: losses.emp_ssl_terms(z)[term], lambda z: emp_reference(z)[term], embeddings(*shape))


def test_collapse_costs_more_than_spread_in_emp_ssl():
    """The sign of the coding rate, which a well-known implementation has the other way round."""
    collapsed = np.ones((16, 2, 4), "float32")
    spread = np.repeat(embeddings(16, 1), 2, axis=1).astype("float32")
    rates = [float(losses.emp_ssl_terms(z)["coding_rate"]) for z in (collapsed, spread)]
    assert rates[0] > rates[1] + 0.5
    assert float(losses.emp_ssl_terms(spread[:, :1])["alignment"]) == pytest.approx(-1, abs=1e-5)


@pytest.mark.parametrize("term", ["centroids", "manifolds"])
def test_mmcr_equals_the_formula(term):
    check(lambda z: losses.mmcr_terms(z)[term], lambda z: mmcr_reference(z)[term], embeddings(4, 2, 5))


def test_mmcr_of_orthonormal_centroids():
    z = np.repeat(np.eye(5, dtype="float32")[:, None], 3, axis=1)
    terms = losses.mmcr_terms(z)
    assert float(terms["centroids"]) == pytest.approx(-5, rel=1e-5)
    assert float(terms["manifolds"]) == pytest.approx(np.sqrt(3), rel=1e-5)


@pytest.mark.parametrize("shape", [(6, 2, 3), (3, 2, 5)])
def test_frossl_equals_the_formula(shape):
    z = embeddings(*shape).astype("float32").astype("float64")
    normal = unit(z, axis=0)
    traces = [np.trace(normal[:, v].T @ normal[:, v]) for v in range(shape[1])]
    check(lambda z: losses.frossl_terms(z)["spectrum"], lambda z: frossl_spectrum_reference(z, traces), z)
    check(lambda z: losses.frossl_terms(z)["invariance"], frossl_invariance_reference, z)


def test_frossl_at_its_ends():
    used_alike = np.linalg.qr(np.random.default_rng(0).normal(size=(9, 4)))[0][:, None].astype("float32")
    assert float(losses.frossl_terms(used_alike)["spectrum"]) == pytest.approx(-np.log(4), rel=1e-4)
    one = np.outer(np.arange(1.0, 10), [1, 2, -1, 3])[:, None].astype("float32")
    assert float(losses.frossl_terms(one)["spectrum"]) == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize("term", ["invariance", "contrast"])
def test_tico_equals_the_formula(term):
    z = embeddings(6, 2, 3)
    memory = np.cov(embeddings(20, 1, 3, seed=4)[:, 0].T)

    def reference(z_a, z_b):
        z_a, z_b = unit(z_a), unit(z_b)
        terms = {
            "invariance": 1 - (z_a * z_b).sum(1).mean(),
            "contrast": np.einsum("bi,ij,bj->b", z_a, memory, z_a).mean(),
        }
        return terms[term]

    held = ops.convert_to_tensor(memory.astype("float32"))
    check(lambda a, b: losses.tico_terms(a, b, held)[term], reference, z[:, 0], z[:, 1])


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_dino_equals_the_formula_and_gives_the_teacher_no_gradient():
    rng = np.random.default_rng(0)
    student, teacher, center = rng.normal(size=(4, 3, 5)), rng.normal(size=(4, 2, 5)), rng.normal(size=5)

    def reference(student):
        each = []
        for t in range(2):
            for s in range(3):
                if s != t:
                    p = softmax((teacher.astype("float32") - center.astype("float32"))[:, t] / 0.5)
                    each.append(-(p * np.log(softmax(student[:, s] / 0.7))).sum(-1).mean())
        return np.mean(each)

    held = [ops.convert_to_tensor(x.astype("float32")) for x in (teacher, center)]
    check(lambda s: losses.dino(s, *held, 0.7, 0.5), reference, student)
    given = student.astype("float32"), teacher.astype("float32")
    slopes = gradient(lambda s, t: losses.dino(s, t, held[1], 0.7, 0.5), *given)
    assert np.abs(slopes[0]).max() > 1e-3 and not slopes[1].any()


def test_dino_at_its_ends():
    student, teacher = np.zeros((3, 2, 6), "float32"), np.random.default_rng(0).normal(size=(3, 2, 6)).astype("float32")
    assert float(losses.dino(student, teacher, np.zeros(6, "float32"))) == pytest.approx(np.log(6), rel=1e-5)
    assert float(losses.dino(student[..., :1], teacher[..., :1], np.zeros(1, "float32"))) == 0.0


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: losses.coding_rate(np.zeros(3, "float32"), 0.5), "features"),
        (lambda: losses.coding_rate(np.zeros((3, 2), "float32"), 0), "epsilon must be a number > 0"),
        (lambda: losses.emp_ssl_terms(np.zeros((3, 2), "float32")), "features"),
        (lambda: losses.mmcr_terms(np.zeros((3, 2), "float32")), "features"),
        (lambda: losses.frossl_terms(np.zeros((3, 2), "float32")), "features"),
        (
            lambda: losses.tico_terms(*np.zeros((2, 3, 2), "float32"), np.zeros((3, 3), "float32")),
            r"covariance must have shape \(2, 2\)",
        ),
        (
            lambda: losses.dino(np.zeros((3, 1, 4), "float32"), np.zeros((3, 1, 4), "float32"), np.zeros(4, "float32")),
            "one view",
        ),
        (
            lambda: losses.dino(np.zeros((3, 2, 4), "float32"), np.zeros((3, 2, 5), "float32"), np.zeros(4, "float32")),
            "prototypes",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()


@pytest.mark.parametrize("name", ["emp_ssl_terms", "mmcr_terms", "frossl_terms"])
def test_views_and_images_may_come_in_any_order_and_in_bfloat16(name):
    z = embeddings().astype("float32")
    loss = getattr(losses, name)
    ours, turned = loss(z), loss(np.ascontiguousarray(z[::-1, ::-1]))
    low = loss(ops.cast(ops.convert_to_tensor(z), "bfloat16"))
    for term in ours:
        assert float(ours[term]) == pytest.approx(float(turned[term]), rel=1e-4, abs=1e-5), term
        assert float(ours[term]) == pytest.approx(float(low[term]), rel=0.05, abs=0.05), term


def test_dead_embeddings_score_as_any_other_collapse():
    rng = np.random.default_rng(0)
    alive, dead = rng.normal(size=(6, 1, 4)), np.zeros((6, 1, 4))
    values = {
        name: float(losses.frossl_terms(np.concatenate(views, axis=1))["spectrum"])
        for name, views in {"alive": (alive, alive), "one": (alive, dead), "dead": (dead, dead)}.items()
    }
    assert values["dead"] == 0 and values["one"] == pytest.approx(values["alive"] / 2, rel=1e-5)
    assert values["alive"] >= -2 * np.log(4) - 1e-4
