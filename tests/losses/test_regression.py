"""Regression of directions: float64 references, closed forms, and rows that have no direction."""

import numpy as np
import oracle
import pytest
from keras import ops

from sslzoo.errors import InvalidInputError
from sslzoo.losses import negative_cosine, normalized_regression

LOSSES = {negative_cosine: (-1.0, 0.0, 1.0), normalized_regression: (0.0, 2.0, 4.0)}  # equal, orthogonal, opposite


def rows(seed=0, n=5, size=4):
    return np.random.default_rng(seed).normal(size=(n, size))


def cosines(p, z):
    return (p * z).sum(1) / np.sqrt((p**2).sum(1) * (z**2).sum(1))


def test_negative_cosine_is_simsiams_equation_1():
    oracle.check(negative_cosine, lambda p, z: -cosines(p, z).mean(), rows(0), rows(1))


def test_normalized_regression_is_byols_equation_2():
    def squared_distance(p, z):
        p, z = (x / np.sqrt((x**2).sum(1, keepdims=True)) for x in (p, z))
        return ((p - z) ** 2).sum(1).mean()

    oracle.check(normalized_regression, squared_distance, rows(0), rows(1))


@pytest.mark.parametrize("loss", LOSSES)
def test_closed_forms(loss):
    x = rows().astype("float32")
    across = np.stack([-x[:, 1], x[:, 0], -x[:, 3], x[:, 2]], axis=1)
    found = [float(loss(x, other)) for other in (3.0 * x, across, -x)]
    np.testing.assert_allclose(found, LOSSES[loss], atol=1e-6)
    assert float(loss(np.ones((5, 4)), np.ones((5, 4)))) == pytest.approx(LOSSES[loss][0], abs=1e-6)  # collapsed


@pytest.mark.parametrize("loss", LOSSES)
def test_only_directions_matter_and_order_of_images_does_not(loss):
    p, z = rows(0).astype("float32"), rows(1).astype("float32")
    value = float(loss(p, z))
    lengths = np.logspace(-6, 6, 5, dtype="float32")[:, None]
    order = [3, 1, 4, 0, 2]
    assert float(loss(lengths * p, z / lengths)) == pytest.approx(value, abs=1e-6)
    assert float(loss(p[order], z[order])) == pytest.approx(value, abs=1e-6)
    assert float(loss(z, p)) == pytest.approx(value, abs=1e-6)
    assert float(loss(p[order], z)) != pytest.approx(value, abs=1e-3)


@pytest.mark.parametrize("loss", LOSSES)
def test_rows_of_zeros_are_orthogonal_to_everything_and_get_no_gradient(loss):
    p, z = rows(0).astype("float32"), rows(1).astype("float32")
    p[1] = z[2] = 0.0
    _, orthogonal, opposite = LOSSES[loss]
    others = -cosines(p[[0, 3, 4]], z[[0, 3, 4]]).sum() / 5
    assert float(loss(p, z)) == pytest.approx(orthogonal + (opposite - orthogonal) * others, abs=1e-6)
    for gradient, dead in zip(oracle.gradient(loss, p, z), (1, 2)):
        assert np.isfinite(gradient).all()
        np.testing.assert_array_equal(gradient[dead], 0.0)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("loss", LOSSES)
def test_low_precision_inputs_are_compared_in_float32(loss, dtype):
    p, z = (ops.cast(300.0 * rows(seed), dtype) for seed in (0, 1))  # squares overflow float16
    expected = float(loss(*(ops.cast(x, "float32") for x in (p, z))))
    value = loss(p, z)
    assert "float32" in str(value.dtype) and tuple(value.shape) == ()
    assert float(value) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("shapes", [((5, 4), (5, 3)), ((5, 4), (4, 4)), ((5, 4), (1, 4)), ((4,), (4,))])
def test_other_shapes_are_refused(loss, shapes):
    """(5, 4) with (1, 4) would broadcast: one target for all predictions."""
    with pytest.raises(InvalidInputError, match=r"prediction and target must be two matrices.*Received"):
        loss(*(np.ones(shape, "float32") for shape in shapes))
