"""SIGReg, LeJEPA and VISReg against float64 references, their closed forms, and what must not change them."""

import keras
import numpy as np
import pytest
from keras import ops
from oracle import check
from scipy import integrate, stats

from sslzoo import losses
from sslzoo.errors import InvalidInputError
from sslzoo.losses import marginal

KNOTS = np.linspace(0, 3, 17)


def embeddings(batch=6, views=2, size=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(batch, 1, size)) + 0.4 * rng.normal(size=(batch, views, size))


def slices(size=3, count=5, seed=1):
    columns = np.random.default_rng(seed).normal(size=(size, count))
    return (columns / np.linalg.norm(columns, axis=0)).astype("float32")


def value(fn, *arrays):
    return float(ops.convert_to_numpy(fn(*[ops.convert_to_tensor(np.asarray(a, "float32")) for a in arrays])))


def sigreg_reference(z, columns):
    batch, views, _ = z.shape
    total = 0.0
    for view in range(views):
        for column in columns.T.astype("float64"):
            x = z[:, view] @ column
            error = [(np.cos(t * x).mean() - np.exp(-t * t / 2)) ** 2 + np.sin(t * x).mean() ** 2 for t in KNOTS]
            total += batch * 2 * integrate.trapezoid(np.array(error) * np.exp(-(KNOTS**2) / 2), KNOTS)
    return total / views / columns.shape[1]


def invariance_reference(z, num_global):
    centre = z[:, :num_global].mean(axis=1, keepdims=True)
    return ((z - centre) ** 2).mean()


def visreg_reference(z, columns):
    """Scale, shape and center; the standardising deviation is a constant, so `shape` has its value only."""
    batch, views, _ = z.shape
    scale = np.mean([(1 - z[:, v].std(axis=0)) ** 2 for v in range(views)])
    center = np.mean([z[:, v].mean(axis=0) ** 2 for v in range(views)])
    shape = []
    normal = stats.norm.ppf(np.arange(1, batch + 1) / (batch + 1))
    for v in range(views):
        standard = (z[:, v] - z[:, v].mean(axis=0)) / (z[:, v].std(axis=0) + 1e-4)
        shape += [np.mean((np.sort(standard @ column) - normal) ** 2) for column in columns.T.astype("float64")]
    return {"scale": scale, "shape": np.mean(shape), "center": center}


@pytest.mark.parametrize("batch, views", [(6, 2), (5, 1)])
def test_sigreg_equals_the_formula(batch, views):
    columns = slices()
    check(lambda z: losses.sigreg(z, columns), lambda z: sigreg_reference(z, columns), embeddings(batch, views))


@pytest.mark.parametrize("num_global", [1, 2, 3, None])
def test_invariance_equals_the_formula(num_global):
    check(
        lambda z: losses.view_invariance(z, num_global),
        lambda z: invariance_reference(z, num_global or 3),
        embeddings(views=3),
    )


def test_lejepa_has_both():
    z, columns = embeddings(views=3), slices()
    terms = losses.lejepa_terms(z.astype("float32"), columns, 2)
    assert float(terms["invariance"]) == pytest.approx(invariance_reference(z, 2), rel=1e-5)
    assert float(terms["sigreg"]) == pytest.approx(sigreg_reference(z, columns), rel=1e-4)


@pytest.mark.parametrize("term", ["scale", "center"])
def test_visreg_equals_the_formula(term):
    columns = slices()
    check(lambda z: losses.visreg_terms(z, columns)[term], lambda z: visreg_reference(z, columns)[term], embeddings())


def test_the_shape_of_visreg_equals_the_formula_and_moves_points_only():
    """Its gradient is that of the slices standardised by a constant: along a row's own scale it must be theirs."""
    z, columns = embeddings(batch=9), slices()
    ours = value(lambda z: losses.visreg_terms(z, columns)["shape"], z)
    assert ours == pytest.approx(visreg_reference(z, columns)["shape"], rel=1e-4)
    deviation = z.astype("float32").std(axis=0, keepdims=True).astype("float64") + 1e-4

    def held(z):
        standard = (z - z.mean(axis=0)) / deviation
        normal = stats.norm.ppf(np.arange(1, 10) / 10)[:, None, None]
        return np.mean((np.sort(np.einsum("bjd,dk->bjk", standard, columns.astype("float64")), axis=0) - normal) ** 2)

    check(lambda z: losses.visreg_terms(z, columns)["shape"], held, z)


def test_a_point_at_zero_scores_the_integral_and_has_no_gradient():
    expected = 2 * integrate.trapezoid((1 - np.exp(-(KNOTS**2) / 2)) ** 2 * np.exp(-(KNOTS**2) / 2), KNOTS)
    assert value(losses.sigreg, np.zeros((7, 2, 3)), slices()) == pytest.approx(7 * expected, rel=1e-5)


def test_normal_samples_score_a_constant_whatever_their_number():
    """E[B |mean exp(itx) - phi|^2] = 1 - phi(t)^2 for N(0, 1)."""
    phi = np.exp(-(KNOTS**2) / 2)
    expected = 2 * integrate.trapezoid((1 - phi**2) * phi, KNOTS)
    rng = np.random.default_rng(0)
    for batch in (64, 1024):
        z = rng.normal(size=(batch, 8, 16))
        assert value(losses.sigreg, z, slices(16, 256)) == pytest.approx(expected, rel=0.25)
    assert value(losses.sigreg, 3 * rng.normal(size=(1024, 2, 16)), slices(16, 256)) > 50 * expected


def test_visreg_is_near_nothing_on_normal_samples():
    z = np.random.default_rng(0).normal(size=(2048, 1, 8))
    terms = losses.visreg_terms(z.astype("float32"), slices(8, 64))
    assert all(float(terms[name]) < 0.01 for name in ("scale", "shape", "center"))
    assert float(terms["invariance"]) == 0.0


def test_the_scale_of_collapsed_embeddings_is_one_and_finite():
    z = np.ones((5, 2, 3), "float32")
    terms = losses.visreg_terms(z, slices())
    assert float(terms["scale"]) == 1.0 and float(terms["center"]) == 1.0


def test_order_of_images_and_views_changes_nothing():
    z, columns = embeddings(views=3), slices()
    turned = z[::-1, ::-1]
    assert value(losses.sigreg, z, columns) == pytest.approx(value(losses.sigreg, turned, columns), rel=1e-5)
    ours, theirs = (losses.visreg_terms(np.ascontiguousarray(x, "float32"), columns) for x in (z, turned))
    for name in ours:
        assert float(ours[name]) == pytest.approx(float(theirs[name]), rel=1e-4, abs=1e-6), name


def test_bfloat16_is_taken_to_float32():
    z, columns = embeddings().astype("float32"), slices()
    low = ops.cast(ops.convert_to_tensor(z), "bfloat16")
    ours = losses.sigreg(low, columns)
    assert keras.backend.standardize_dtype(ours.dtype) == "float32"
    assert float(ours) == pytest.approx(float(losses.sigreg(ops.cast(low, "float32"), columns)), rel=1e-6)


def test_directions_are_unit_columns_of_the_generator():
    columns = ops.convert_to_numpy(marginal.directions(5, 64, keras.random.SeedGenerator(0)))
    assert columns.shape == (5, 64)
    np.testing.assert_allclose(np.linalg.norm(columns, axis=0), 1.0, rtol=1e-5)
    assert abs(columns.mean()) < 0.1


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: losses.sigreg(np.zeros((4, 3), "float32"), slices()), r"\(batch, views, features\)"),
        (lambda: losses.sigreg(np.zeros((4, 2, 5), "float32"), slices()), r"directions must have shape \(5, K\)"),
        (lambda: losses.lejepa_terms(np.zeros((4, 2, 3), "float32"), slices(), 3), "num_global must be at most 2"),
        (
            lambda: losses.lejepa_terms(np.zeros((4, 2, 3), "float32"), slices(), 0),
            "num_global must be an integer >= 1",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(InvalidInputError, match=message + ".*Received"):
        call()
