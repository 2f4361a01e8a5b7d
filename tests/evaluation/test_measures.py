"""Label-free measures against their formulas in float64, and closed forms: isotropic, rank one, constant."""

import tracemalloc

import numpy as np
import pytest

from sslzoo.errors import InvalidInputError
from sslzoo.evaluation import measures

rng = np.random.default_rng(0)
RANDOM = rng.normal(size=(40, 6)) + 0.5


def test_measures_equal_their_formulas():
    rows, other = RANDOM, RANDOM + rng.normal(size=RANDOM.shape)
    unit, other_unit = (x / np.sqrt((x**2).sum(axis=1))[:, None] for x in (rows, other))
    n, d = rows.shape
    deviations = [np.sqrt(np.mean((unit[:, j] - unit[:, j].mean()) ** 2)) for j in range(d)]
    assert measures.feature_std(rows) == pytest.approx(np.sqrt(d) * np.mean(deviations), rel=1e-12)
    p = np.linalg.svd(rows, compute_uv=False)
    p = p / p.sum()
    assert measures.effective_rank(rows) == pytest.approx(np.exp(-np.sum(p * np.log(p))), rel=1e-7)
    assert measures.effective_rank(rows.T) == pytest.approx(measures.effective_rank(rows), rel=1e-7)
    distances = [np.sum((unit[i] - other_unit[i]) ** 2) for i in range(n)]
    assert measures.alignment(rows, other) == pytest.approx(np.mean(distances), rel=1e-12)
    pairs = [np.exp(-3 * np.sum((unit[i] - unit[j]) ** 2)) for i in range(n) for j in range(i)]
    assert measures.uniformity(rows, t=3) == pytest.approx(np.log(np.mean(pairs)), rel=1e-9)
    distances = [np.sum((unit[i] - unit[j]) ** 2) for i in range(n) for j in range(i)]
    assert measures.distance(rows) == pytest.approx(np.mean(distances), rel=1e-12)
    q = rng.dirichlet(np.ones(7), size=n)
    m = q.mean(axis=0)
    assert measures.prototype_use(q) == pytest.approx(np.exp(-np.sum(m * np.log(m))) / 7, rel=1e-12)


@pytest.mark.parametrize("block", [1, 7, 40, 256])
@pytest.mark.parametrize("t", [2, 60])
def test_uniformity_is_that_of_all_pairs_in_blocks_of_any_size(monkeypatch, block, t):
    """Also where pairs count for much less than rows with themselves would: e^-160 against 1."""
    monkeypatch.setattr(measures, "_BLOCK", block)
    for rows in (RANDOM, np.eye(3) - 0.5):
        unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        pairs = [np.exp(-t * np.sum((a - b) ** 2)) for n, a in enumerate(unit) for b in unit[:n]]
        assert measures.uniformity(rows, t) == pytest.approx(np.log(np.mean(pairs)), abs=1e-10)


def test_uniformity_holds_a_few_rows_of_the_distances_at_a_time():
    rows = np.random.default_rng(1).normal(size=(3000, 4))
    tracemalloc.start()
    measures.uniformity(rows)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 8 * 3000**2 / 2


def test_equal_features_are_one_direction():
    equal = np.tile(rng.normal(size=5), (30, 1))
    assert measures.feature_std(equal) == pytest.approx(0, abs=1e-12)
    assert measures.effective_rank(equal) == pytest.approx(1, abs=1e-3)
    assert measures.uniformity(equal) == pytest.approx(0, abs=1e-12)
    assert measures.alignment(equal, 3 * equal) == pytest.approx(0, abs=1e-12)
    assert measures.alignment(equal, -equal) == pytest.approx(4)


@pytest.mark.parametrize("shape", [(32, 8), (8, 32), (8, 8)])
def test_orthogonal_features_use_every_direction(shape):
    basis = np.linalg.qr(rng.normal(size=(max(shape), min(shape))))[0]
    rows = basis if shape[0] >= shape[1] else basis.T
    assert measures.effective_rank(1e-6 * rows) == pytest.approx(min(shape), rel=1e-6)


def test_features_spread_over_a_sphere():
    """On the sphere in R^D, distances have the density of cosines (1 - c^2)^((D - 3) / 2)."""
    d = 8
    rows = rng.normal(size=(2000, d)) * rng.uniform(0.1, 10, size=(2000, 1))
    assert measures.feature_std(rows) == pytest.approx(1, abs=0.01)
    c = np.linspace(-1, 1, 20001)
    density = (1 - c**2) ** ((d - 3) / 2)
    expected = np.log(np.sum(density * np.exp(-2 * (2 - 2 * c))) / density.sum())
    assert measures.uniformity(rows) == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("k", [2, 5])
def test_prototypes_that_all_images_share(k):
    one_hot = np.eye(10)[np.arange(40) % k]
    assert measures.prototype_use(one_hot) == pytest.approx(k / 10)
    assert measures.prototypes_used(one_hot) == pytest.approx(k)


def test_zero_rows_have_a_value():
    zeros = np.zeros((4, 3))
    assert measures.feature_std(zeros) == 0
    assert measures.effective_rank(zeros) == 0
    assert measures.uniformity(zeros) == 0
    assert measures.alignment(zeros, np.eye(4, 3)) == pytest.approx(0.75)


def test_measures_do_not_depend_on_order_or_scale():
    shuffled = 1e4 * RANDOM[::-1]
    for measure in (measures.feature_std, measures.effective_rank, measures.uniformity):
        assert measure(shuffled) == pytest.approx(measure(RANDOM), rel=1e-9)
        assert measure(RANDOM.astype("float16")) == pytest.approx(measure(RANDOM), rel=5e-3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: measures.feature_std(np.zeros(3)), r"features\.shape=\(3,\)"),
        (lambda: measures.effective_rank([[1.0, np.nan]]), "NaN or infinite"),
        (lambda: measures.uniformity(np.ones((1, 3))), "N >= 2"),
        (lambda: measures.alignment(np.ones((2, 3)), np.ones((2, 4))), r"second\.shape=\(2, 4\)"),
        (lambda: measures.prototype_use(np.ones((2, 4))), "sums of rows 4..4"),
        (lambda: measures.prototype_use([[1.5, -0.5]]), "smallest entry -0.5"),
    ],
)
def test_what_cannot_be_measured_is_refused(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()


# ---------------------------------------------------------------- cones, spectra, views


def with_spectrum(variances, rows=200):
    """Centered rows whose covariance has exactly these eigenvalues."""
    basis = np.linalg.qr(np.hstack([np.ones((rows, 1)), rng.normal(size=(rows, len(variances)))]))[0][:, 1:]
    turned = np.linalg.qr(rng.normal(size=(len(variances), len(variances))))[0]
    return basis * np.sqrt(variances) @ turned


def test_the_mean_cosine_is_that_of_all_pairs():
    unit = RANDOM / np.linalg.norm(RANDOM, axis=1, keepdims=True)
    pairs = [unit[i] @ unit[j] for i in range(len(unit)) for j in range(i)]
    assert measures.mean_cosine(RANDOM) == pytest.approx(np.mean(pairs), rel=1e-10)
    assert measures.mean_cosine(RANDOM) == pytest.approx(1 - measures.distance(RANDOM) / 2, rel=1e-10)
    assert measures.mean_cosine(np.tile([3.0, 4.0], (5, 1))) == pytest.approx(1)
    assert measures.mean_cosine([[1, 0], [-1, 0]]) == pytest.approx(-1)
    assert measures.mean_cosine(rng.normal(size=(3000, 50))) == pytest.approx(0, abs=2e-3)  # isotropic


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0, 2.0])
def test_alpha_of_a_power_law_is_its_exponent(alpha):
    rows = with_spectrum(np.arange(1.0, 21) ** -alpha)
    assert measures.alpha_req(rows) == pytest.approx(alpha, abs=1e-9)
    assert measures.alpha_req(1e-4 * rows + 0.1) == pytest.approx(alpha, abs=1e-6)  # neither scale nor origin


def test_alpha_is_the_weighted_line_through_the_spectrum():
    variances = np.sort(np.linalg.eigvalsh(np.cov(RANDOM.T)))[::-1]
    place = np.arange(1, 7)
    slope, _ = np.polyfit(np.log(place), np.log(variances), 1, w=place**-0.5)  # polyfit squares its weights
    assert measures.alpha_req(RANDOM) == pytest.approx(-slope, rel=1e-9)


def test_one_direction_and_none_have_no_line():
    line = np.outer(rng.normal(size=50), rng.normal(size=7))
    for rows in (line, line.astype("float32"), np.ones((9, 4))):
        assert measures.alpha_req(rows) == np.inf


def test_lidar_equals_its_formula():
    views = rng.normal(size=(60, 1, 5)) * [1, 2, 3, 4, 5] + rng.normal(size=(60, 4, 5))
    rows = views.reshape(-1, 5)
    scaled = views / np.sqrt(np.mean(np.sum((rows - rows.mean(axis=0)) ** 2, axis=1)))
    mean = scaled.mean(axis=1)
    between = np.mean([np.outer(m - mean.mean(axis=0), m - mean.mean(axis=0)) for m in mean], axis=0)
    around = [np.outer(x - m, x - m) for image, m in zip(scaled, mean) for x in image]
    within = np.mean(around, axis=0) + measures.LIDAR_RIDGE * np.eye(5)
    values, vectors = np.linalg.eigh(within)
    root = vectors / np.sqrt(values) @ vectors.T
    p = np.linalg.eigvalsh(root @ between @ root)
    p = p / p.sum()
    assert measures.lidar(views) == pytest.approx(np.exp(-np.sum(p * np.log(p))), rel=1e-8)
    assert measures.lidar(1e-5 * views + 1e-3) == pytest.approx(measures.lidar(views), rel=1e-6)


def test_lidar_counts_directions_beyond_those_of_views():
    isotropic = with_spectrum(np.ones(8))
    assert measures.lidar(np.stack([isotropic] * 3, axis=1)) == pytest.approx(8)  # views agree
    noise = rng.normal(size=(200, 10, 8)) * 1e-3
    assert measures.lidar(isotropic[:, None] + noise) == pytest.approx(8, rel=0.01)
    # Views that move along all directions but one leave that one.
    moving = np.concatenate([1e-3 * isotropic[:, None, :1] + 0 * noise[..., :1], noise[..., 1:]], axis=2)
    assert measures.lidar(moving) < 2.5 and measures.effective_rank(moving.reshape(-1, 8)) > 5
    line = np.outer(rng.normal(size=50), rng.normal(size=7))
    assert measures.lidar(np.stack([line] * 2, axis=1)) == pytest.approx(1, abs=1e-4)
    assert measures.lidar(np.ones((5, 3, 4))) == 0


# ---------------------------------------------------------------- single features, equal rows


def test_dead_and_repeated_features_are_found():
    rows = RANDOM.copy()
    rows[:, 1] = 7.0
    rows[:, 4] = 3 - 2 * rows[:, 0]
    rows[:, 5] = 1e-6 * rows[:, 5]
    assert measures.dead_features(rows).tolist() == [1, 5]
    assert measures.repeated_features(rows).tolist() == [4]
    assert measures.dead_features(rows.astype("float32")).tolist() == [1, 5]
    assert measures.dead_features(np.zeros((3, 2))).tolist() == [0, 1]
    assert measures.repeated_features(np.zeros((3, 2))).size == 0
    assert measures.dead_features(RANDOM).size == measures.repeated_features(RANDOM).size == 0


def test_equal_rows_are_counted_each():
    rows = RANDOM.copy()
    rows[3] = rows[7] = rows[1]
    assert measures.equal_rows(rows) == 3 / 40
    assert measures.equal_rows(RANDOM) == 0
    assert measures.equal_rows(np.zeros((4, 2))) == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: measures.lidar(np.ones((5, 4))), r"\(N, J, D\).*views\.shape=\(5, 4\)"),
        (lambda: measures.lidar(np.ones((5, 1, 4))), "2 views of each"),
        (lambda: measures.lidar(np.full((5, 2, 4), np.nan)), "views with NaN"),
        (lambda: measures.alpha_req(np.ones((1, 4))), "N >= 2"),
        (lambda: measures.mean_cosine(np.ones((1, 4))), "N >= 2"),
        (lambda: measures.dead_features([[np.inf], [1.0]]), "NaN or infinite"),
    ],
)
def test_what_has_no_spectrum_is_refused(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()
