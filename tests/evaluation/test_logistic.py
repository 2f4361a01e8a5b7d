"""Logistic regression to its end: scale does not matter, what is chosen is chosen without test rows."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from sslzoo.errors import InvalidInputError
from sslzoo.evaluation import fit_logistic, logistic
from sslzoo.evaluation.features import moments


def blobs(rows=400, classes=3, spread=1.0):
    random = np.random.default_rng(0)
    labels = random.integers(0, classes, rows)
    features = 2 * np.eye(classes, 5)[labels] + spread * random.normal(size=(rows, 5))
    return (features[:300], labels[:300]), (features[300:], labels[300:])


def test_it_equals_scikit_learn_on_standardised_features():
    (rows, labels), (test_rows, truth) = blobs()
    fitted = fit_logistic(rows, labels, test_rows, truth)
    mean, scale = rows.mean(axis=0), rows.std(axis=0)
    model = LogisticRegression(C=fitted.inverse_penalty, max_iter=2000).fit((rows - mean) / scale, labels)
    np.testing.assert_array_equal(fitted.predictions, model.predict((test_rows - mean) / scale))
    assert fitted.accuracy == np.mean(fitted.predictions == truth) > 0.8
    assert fitted.converged and fitted.inverse_penalty in logistic.INVERSE_PENALTIES


def test_scale_origin_and_constant_features_do_not_matter():
    (rows, labels), (test_rows, truth) = blobs()
    plain = fit_logistic(rows, labels, test_rows, truth)
    moved = [np.hstack([each * 1e-5 + 3, np.full((len(each), 1), 0.1)]) for each in (rows, test_rows)]
    np.testing.assert_array_equal(fit_logistic(moved[0], labels, moved[1], truth).predictions, plain.predictions)
    nothing = fit_logistic(np.ones_like(rows), labels, np.ones_like(test_rows), truth)
    assert np.unique(nothing.predictions).size == 1


def test_the_strength_is_chosen_on_train_rows_alone():
    (rows, labels), (test_rows, truth) = blobs(spread=8.0)
    chosen = fit_logistic(rows, labels, test_rows, truth).inverse_penalty
    assert chosen == fit_logistic(rows, labels, test_rows[:1] * 100, truth[:1]).inverse_penalty
    few = fit_logistic(rows[:30], labels[:30], test_rows, truth)
    assert few.inverse_penalty == 1


def test_of_few_rows_the_strength_is_chosen_by_their_probabilities():
    """By the hits of a tenth of them the tightest model won many a tie, and knew little but the commonest class."""
    accuracies = {"chosen": [], "C = 1": []}
    for draw in range(20):
        random = np.random.default_rng(draw)
        labels = (random.random(460) < 0.2).astype(int)
        rows = random.normal(size=(460, 10)) + 4 * labels[:, None] * np.eye(1, 10)
        fitted = fit_logistic(rows[:60], labels[:60], rows[60:], labels[60:], seed=draw)
        accuracies["chosen"].append(fitted.accuracy)
        accuracies["C = 1"].append(logistic._fit(rows[:60], labels[:60], 1.0).score(rows[60:], labels[60:]))
    assert np.mean(accuracies["chosen"]) > np.mean(accuracies["C = 1"]) - 0.02
    single = np.r_[labels[:59], 2]  # a class of one image is in no fold but its own
    assert fit_logistic(rows[:60], single, rows[60:], labels[60:]).accuracy > 0.8


def test_of_many_rows_the_hits_of_held_out_ones_choose_the_strength(monkeypatch):
    asked = []

    class Fit:
        def __init__(self, rows, labels, inverse_penalty):
            self.kept, self.inverse_penalty = {*rows[:, 0]}, inverse_penalty

        def score(self, rows, labels):
            asked.append((self.kept, {*rows[:, 0]}))
            return 0.9 if self.inverse_penalty in (0.1, 1.0) else 0.5

    monkeypatch.setattr(logistic, "_fit", Fit)
    rows = np.arange(1000.0)[:, None]
    assert logistic._chosen(rows, np.arange(1000) % 2, np.random.default_rng(0)) == 0.1  # the tightest of the best
    assert asked and all(len(kept) == 900 and len(held) == 100 and not kept & held for kept, held in asked)


def test_a_fit_that_was_cut_short_says_so(monkeypatch):
    monkeypatch.setattr(logistic, "MOST_STEPS", 2)
    (rows, labels), test = blobs()
    assert not fit_logistic(rows, labels, *test).converged


def test_what_does_not_fit_is_refused():
    (rows, labels), (test_rows, truth) = blobs()
    with pytest.raises(InvalidInputError, match="train labels must be"):
        fit_logistic(rows, labels[:5], test_rows, truth)
    with pytest.raises(InvalidInputError, match="must be finite"):
        fit_logistic(rows * np.nan, labels, test_rows, truth)


def test_features_are_standardised_and_constant_ones_are_nought():
    """Features in float32 of a dead unit differ by rounding, which must not become as large as the others."""
    random = np.random.default_rng(0)
    rows = np.stack([random.normal(5, 2, 400), np.full(400, 3.0), 3 + 1e-7 * random.normal(size=400)], axis=1)
    mean, deviation = moments(rows)
    np.testing.assert_allclose(mean, rows.mean(axis=0))
    assert deviation[0] == pytest.approx(rows[:, 0].std()) and np.isinf(deviation[1:]).all()
    assert moments(rows.astype("float32"))[0].dtype == np.float64
