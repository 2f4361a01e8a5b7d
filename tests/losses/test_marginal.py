"""SIGReg, LeJEPA, VISReg, alignment and uniformity: float64 references, closed forms, and what must not change them."""

import keras
import numpy as np
import pytest
from keras import ops
from oracle import check, gradient
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
    center = z[:, :num_global].mean(axis=1, keepdims=True)
    return ((z - center) ** 2).mean()


def visreg_reference(z, columns):
    """Scale, shape and center; the standardizing deviation is a constant, so `shape` has its value only."""
    batch, views, _ = z.shape
    scale = np.mean([(1 - z[:, v].std(axis=0)) ** 2 for v in range(views)])
    center = np.mean([z[:, v].mean(axis=0) ** 2 for v in range(views)])
    shape = []
    normal = stats.norm.ppf(np.arange(1, batch + 1) / (batch + 1))
    for v in range(views):
        standard = (z[:, v] - z[:, v].mean(axis=0)) / (z[:, v].std(axis=0) + 1e-4)
        shape += [np.mean((np.sort(standard @ column) - normal) ** 2) for column in columns.T.astype("float64")]
    return {"scale": scale, "shape": np.mean(shape), "center": center}


def align_uniform_reference(z_a, z_b, t):
    """Wang and Isola, section 4.1: distances of rows of length 1, every pair of other images looked at."""
    z_a, z_b = (z / np.linalg.norm(z, axis=1, keepdims=True) for z in (z_a, z_b))
    kernels = [
        [np.exp(-t * np.sum((z[i] - z[j]) ** 2)) for i in range(len(z)) for j in range(len(z)) if i != j]
        for z in (z_a, z_b)
    ]
    return {
        "alignment": np.mean([np.sum((a - b) ** 2) for a, b in zip(z_a, z_b)]),
        "uniformity": np.mean([np.log(np.mean(each)) for each in kernels]),
    }


def align_uniform(z_a, z_b, t=2.0):
    terms = losses.align_uniform_terms(z_a, z_b, t)
    return {name: float(ops.convert_to_numpy(term)) for name, term in terms.items()}


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
    """Its gradient is that of the slices standardized by a constant: along a row's own scale it must be theirs."""
    z, columns = embeddings(batch=9), slices()
    ours = value(lambda z: losses.visreg_terms(z, columns)["shape"], z)
    assert ours == pytest.approx(visreg_reference(z, columns)["shape"], rel=1e-4)
    deviation = z.astype("float32").std(axis=0, keepdims=True).astype("float64") + 1e-4

    def held(z):
        standard = (z - z.mean(axis=0)) / deviation
        normal = stats.norm.ppf(np.arange(1, 10) / 10)[:, None, None]
        return np.mean((np.sort(np.einsum("bjd,dk->bjk", standard, columns.astype("float64")), axis=0) - normal) ** 2)

    check(lambda z: losses.visreg_terms(z, columns)["shape"], held, z)


@pytest.mark.parametrize("t", [0.5, 2.0, 40.0])
@pytest.mark.parametrize("term", ["alignment", "uniformity"])
def test_alignment_and_uniformity_equal_the_formula(term, t):
    z = embeddings()
    check(
        lambda a, b: losses.align_uniform_terms(a, b, t)[term],
        lambda a, b: align_uniform_reference(a, b, t)[term],
        z[:, 0],
        z[:, 1],
    )


def test_alignment_and_uniformity_of_points_that_are_known():
    same, axes = np.ones((5, 4), "float32"), np.eye(4, dtype="float32")
    for z_a, z_b, t, alignment, uniformity in [
        (same, same, 2.0, 0.0, 0.0),  # collapsed to a point
        (same, -same, 2.0, 4.0, 0.0),
        (axes, axes, 2.0, 0.0, -4.0),  # distances of sqrt 2: -2 t
        (axes, axes, 3.0, 0.0, -6.0),
        (axes, np.roll(axes, 1, axis=0), 2.0, 2.0, -4.0),
        (np.stack([same[0], -same[0]]),) * 2 + (2.0, 0.0, -8.0),  # the least there is: -4 t
        (axes, np.ones((4, 4), "float32"), 2.0, 1.0, -2.0),  # cosines of 1/2; the mean of one view even, one collapsed
    ]:
        terms = align_uniform(z_a, z_b, t)
        assert list(terms) == ["alignment", "uniformity"]
        assert terms["alignment"] == pytest.approx(alignment, abs=1e-5)
        assert terms["uniformity"] == pytest.approx(uniformity, abs=1e-5)


def test_uniformity_of_points_evenly_on_the_circle_is_a_bessel_function():
    """The mean of exp(2 t (cos - 1)) over the circle is exp(-2 t) I_0(2 t); n points count themselves in it, as 1."""
    n, t = 64, 2.0
    angles = 2 * np.pi * np.arange(n) / n
    even = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype("float32")
    expected = np.log((n * np.exp(-2 * t) * np.i0(2 * t) - 1) / (n - 1))
    assert align_uniform(even, even, t)["uniformity"] == pytest.approx(expected, rel=1e-5)
    crowded = np.stack([np.cos(angles / 2), np.sin(angles / 2)], axis=1).astype("float32")
    assert align_uniform(crowded, crowded, t)["uniformity"] > expected + 0.1


def test_lengths_rotations_and_order_do_not_change_alignment_and_uniformity():
    z_a, z_b = np.moveaxis(embeddings(size=4), 1, 0).astype("float32")
    terms = align_uniform(z_a, z_b)
    order, lengths = [3, 0, 5, 1, 4, 2], np.logspace(-6, 6, 6, dtype="float32")[:, None]
    turn = np.linalg.qr(np.random.default_rng(2).normal(size=(4, 4)))[0].astype("float32")
    for one, other in [(z_b, z_a), (z_a[order], z_b[order]), (lengths * z_a, z_b / lengths), (z_a @ turn, z_b @ turn)]:
        assert align_uniform(one, other) == pytest.approx(terms, rel=1e-5)
    mixed = align_uniform(z_a, z_b[order])  # pairs matter to alignment alone
    assert mixed["uniformity"] == pytest.approx(terms["uniformity"], rel=1e-5)
    assert mixed["alignment"] != pytest.approx(terms["alignment"], rel=1e-2)


def test_rows_of_zeros_and_collapse_leave_uniformity_finite():
    z = embeddings().astype("float32")
    z[1] = 0
    for z_a, z_b in [(z[:, 0], z[:, 1]), (0 * z[:, 0], 0 * z[:, 1]), (np.ones((6, 3), "float32"),) * 2]:
        slopes = gradient(lambda a, b: sum(losses.align_uniform_terms(a, b).values()), z_a, z_b)
        assert np.isfinite(list(align_uniform(z_a, z_b).values())).all()
        for given, slope in zip((z_a, z_b), slopes):
            assert np.isfinite(slope).all() and (slope[~given.any(axis=1)] == 0).all()
    np.testing.assert_allclose(slopes, 0.0, atol=1e-6)  # a point is a saddle, from which noise must lead away


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


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_the_terms_of_collapsed_embeddings_are_known_and_their_gradients_finite(value):
    z = np.full((5, 2, 3), value, "float32")
    terms = losses.visreg_terms(z, slices())
    assert float(terms["scale"]) == 1.0 and float(terms["center"]) == value
    [slope] = gradient(lambda z: sum(losses.visreg_terms(z, slices()).values()), z)
    assert np.isfinite(slope).all()


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


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_alignment_and_uniformity_of_half_precision_are_taken_in_float32(dtype):
    low = [ops.cast(ops.convert_to_tensor(300.0 * embeddings()[:, view]), dtype) for view in (0, 1)]
    terms = losses.align_uniform_terms(*low)
    exact = align_uniform(*(ops.cast(z, "float32") for z in low))
    for name, term in terms.items():
        assert keras.backend.standardize_dtype(term.dtype) == "float32"
        assert float(term) == pytest.approx(exact[name], rel=1e-6)


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
        (lambda: losses.visreg_terms(np.zeros((4, 2, 5), "float32"), slices()), r"directions must have shape \(5, K\)"),
        (lambda: losses.lejepa_terms(np.zeros((4, 2, 3), "float32"), slices(), 3), "num_global must be at most 2"),
        (
            lambda: losses.lejepa_terms(np.zeros((4, 2, 3), "float32"), slices(), 0),
            "num_global must be an integer >= 1",
        ),
        (lambda: losses.align_uniform_terms(np.ones((4, 3)), np.ones((5, 3))), "z_a and z_b must be two matrices"),
        (lambda: losses.align_uniform_terms(np.ones((1, 3)), np.ones((1, 3))), "at least 2 images"),
        (lambda: losses.align_uniform_terms(np.ones((4, 3)), np.ones((4, 3)), t=0), "t must be a number > 0"),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(InvalidInputError, match=message + ".*Received"):
        call()


def test_collapse_to_zero_is_not_the_worst_for_sigreg():
    values = [float(losses.sigreg(np.full((8, 1, 1), at), np.ones((1, 1)))) for at in (0, 1, 2)]
    assert values[0] < values[1] < values[2]
