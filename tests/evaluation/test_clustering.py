"""Clustering scores: closed forms, the level of guessing, and equality with scikit-learn's mixture."""

import itertools
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from sslzoo.errors import InvalidInputError
from sslzoo.evaluation import fit_mixtures, hungarian_accuracy, minibatch_scores, scores


def test_hungarian_accuracy_is_the_best_of_all_matches():
    random = np.random.default_rng(0)
    labels = random.integers(0, 4, 200)
    clusters = np.where(random.random(200) < 0.5, (labels + 1) % 4, random.integers(0, 4, 200))
    best = max(np.mean(np.array(match)[clusters] == labels) for match in itertools.permutations(range(4)))
    assert hungarian_accuracy(labels, clusters) == pytest.approx(best)


def test_hungarian_accuracy_closed_forms():
    labels = np.repeat([7, 3, 5], 10)
    assert hungarian_accuracy(labels, -labels) == 1.0  # names do not matter
    assert hungarian_accuracy(labels, np.zeros(30, int)) == pytest.approx(1 / 3)  # one cluster takes one class
    assert hungarian_accuracy(labels, np.arange(30)) == pytest.approx(3 / 30)  # every row its own cluster
    assert hungarian_accuracy(np.zeros(10, int), np.repeat([0, 1], [6, 4])) == 0.6  # more clusters than classes
    assert hungarian_accuracy([0, 0, 0, 1], [0, 0, 1, 1]) == 0.75


def test_scores_closed_forms():
    labels = np.repeat([0, 1], 50)
    assert scores(labels, 1 - labels) == {"accuracy": 1.0, "nmi": pytest.approx(1.0), "ari": 1.0}
    independent = np.tile([0, 1], 50)
    found = scores(labels, independent)
    assert found["accuracy"] == 0.5
    assert found["nmi"] == pytest.approx(0, abs=1e-12)
    # Splitting both classes evenly: H(labels) = ln 2, H(clusters) = ln 4, I = ln 2, over the mean of the entropies.
    assert scores(labels, np.arange(100) // 25)["nmi"] == pytest.approx(np.log(2) / ((np.log(2) + np.log(4)) / 2))


def test_level_of_guessing():
    """10 classes, 10 clusters at random: nothing over 10,000 rows, a lot over batches of 64."""
    random = np.random.default_rng(0)
    labels, clusters = random.integers(0, 10, 10_000), random.integers(0, 10, 10_000)
    whole, batches = scores(labels, clusters), minibatch_scores(labels, clusters, 64)
    assert whole["accuracy"] == pytest.approx(0.11, abs=0.006)
    assert whole["nmi"] == pytest.approx(
        9 * 9 / (2 * 10_000) / np.log(10), rel=0.3
    )  # 0.0018: the bias of a count table
    assert whole["ari"] == pytest.approx(0.0, abs=0.001)
    assert batches["accuracy"] == pytest.approx(0.29, abs=0.01)
    assert batches["nmi"] == pytest.approx(0.31, abs=0.01)
    assert batches["ari"] == pytest.approx(0.0, abs=0.01)


def test_minibatches_are_shuffled_and_full():
    labels = np.repeat(np.arange(10), 100)  # sorted by class: unshuffled batches would hold one class or two
    clusters = np.random.default_rng(0).integers(0, 10, 1000)
    found = minibatch_scores(labels, clusters, 64)
    assert 0.25 < found["accuracy"] < 0.33
    assert found == minibatch_scores(labels, clusters, 64)
    assert found != minibatch_scores(labels, clusters, 64, seed=1)
    # 1000 = 15 x 64 + 40: as if the 40 left over were not there.
    order = np.random.default_rng(0).permutation(1000)
    by_hand = [scores(labels[order[i : i + 64]], clusters[order[i : i + 64]])["nmi"] for i in range(0, 960, 64)]
    assert found["nmi"] == pytest.approx(np.mean(by_hand))
    assert minibatch_scores(labels, clusters, 5000) == pytest.approx(scores(labels, clusters))


def three_blobs(rows=300, width=3):
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, rows)
    return 6 * np.eye(3, width)[labels] + random.normal(size=(rows, width)), labels


def test_restarts_equal_scikit_learn_on_standardised_features():
    features = np.random.default_rng(0).normal(2, 5, size=(150, 4))  # no structure: restarts end in different places
    ours = fit_mixtures(features, 5, restarts=4, seed=3)
    standard = (features - features.mean(axis=0)) / features.std(axis=0)
    random = np.random.default_rng(3)
    random.permutation(150)  # which rows are taken
    with threadpool_limits(1):
        theirs = [
            GaussianMixture(5, tol=1e-4, max_iter=1000, random_state=int(start)).fit(standard)
            for start in random.integers(0, 2**31, 4)
        ]
    best = max(theirs, key=lambda mixture: mixture.score(standard))
    bounds = sorted((mixture.score(standard) for mixture in theirs), reverse=True)
    assert [mixture.bound for mixture in ours] == pytest.approx(bounds)
    assert ours[0].bound > ours[-1].bound and ours[0].converged
    np.testing.assert_array_equal(ours[0].predict(features), best.predict(standard))
    np.testing.assert_array_equal(fit_mixtures(features, 5, 4, 3)[0].predict(features), ours[0].predict(features))


def test_scale_and_origin_of_features_do_not_matter():
    features, _ = three_blobs()
    moved = features * [1e-4, 1.0, 1e4] + [7.0, -1e3, 0.0]
    found = [fit_mixtures(rows, 3, restarts=2)[0].predict(rows) for rows in (features, moved)]
    assert hungarian_accuracy(found[0], found[1]) == 1


def test_many_rows_are_sampled_and_many_features_turned_to_few():
    features, labels = three_blobs(10_500, 40)
    mixture = fit_mixtures(features, 3, restarts=1)[0]
    assert (mixture.rows, mixture.dimensions) == (10_000, 32)
    assert hungarian_accuracy(labels, mixture.predict(features)) > 0.99


def test_mixture_finds_blobs_in_float32_too():
    features, labels = three_blobs()
    clusters = fit_mixtures(features.astype("float32"), 3, restarts=2)[0].predict(features)
    assert hungarian_accuracy(labels, clusters) > 0.99


def test_degenerate_features_have_mixtures_too():
    features, labels = three_blobs()
    collapsed = np.zeros_like(features)
    assert np.unique(fit_mixtures(collapsed, 3, restarts=1)[0].predict(collapsed)).size == 1
    hopeless = np.hstack([1e8 * features, 1e8 * features])  # huge, and each feature twice
    with pytest.raises(ValueError, match="covariance"):
        GaussianMixture(3, random_state=0).fit(hopeless)
    assert hungarian_accuracy(labels, fit_mixtures(hopeless, 3, restarts=1)[0].predict(hopeless)) > 0.99


def test_a_ridge_is_raised_where_scikit_learn_refuses(monkeypatch):
    fit = GaussianMixture.fit

    def refuse_small(self, rows):
        if self.reg_covar < 1e-4:
            raise ValueError("ill-defined empirical covariance")
        return fit(self, rows)

    monkeypatch.setattr(GaussianMixture, "fit", refuse_small)
    assert fit_mixtures(three_blobs()[0], 3, restarts=1)[0].ridge == 1e-4


def test_mixture_errors_are_clear(monkeypatch):
    with pytest.raises(InvalidInputError, match="Received: 2 rows"):
        fit_mixtures(np.zeros((2, 3)), 5)[0]

    def refuse(*_):
        raise ValueError("ill-defined empirical covariance")

    monkeypatch.setattr(GaussianMixture, "fit", refuse)
    with pytest.raises(InvalidInputError, match=r"could not be fitted.*ill-defined"):
        fit_mixtures(np.random.default_rng(0).normal(size=(20, 3)), 2)[0]


def test_filters_of_warnings_are_left_as_they_were():
    rows = np.random.default_rng(0).normal(size=(60, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        before = list(warnings.filters)
        fit_mixtures(rows, 3, restarts=20)
        assert warnings.filters == before
