"""kNN: equal to scikit-learn and to a plain float64 search, ties and votes included."""

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from sslzoo.errors import InvalidInputError, UnknownNameError
from sslzoo.evaluation import knn_accuracy, nearest, neighbors


def cloud(rows, seed, width=8, classes=5):
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, rows)
    return (random.normal(size=(rows, width)) + 0.5 * labels[:, None]).astype("float32"), labels


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("k", [1, 4, 10, 60])
def test_equals_scikit_learn(metric, k):
    (bank, labels), (queries, wanted) = cloud(500, 0), cloud(200, 1)
    theirs = KNeighborsClassifier(k, metric=metric, algorithm="brute").fit(bank.astype("float64"), labels)
    distances, indices = theirs.kneighbors(queries.astype("float64"))
    found, similarities = nearest(bank, queries, k, metric)
    np.testing.assert_array_equal(found, indices)
    expected = 1 - distances if metric == "cosine" else -0.5 * distances**2
    np.testing.assert_allclose(similarities, expected, atol=1e-9)
    assert knn_accuracy(bank, labels, queries, wanted, k, metric) == theirs.score(queries.astype("float64"), wanted)


def test_weighted_votes_equal_scikit_learn():
    (bank, labels), (queries, wanted) = cloud(500, 0), cloud(300, 1)

    def weights(distances):
        return np.exp((1 - distances) / 0.1)

    theirs = KNeighborsClassifier(200, metric="cosine", algorithm="brute", weights=weights).fit(bank, labels)
    assert knn_accuracy(bank, labels, queries, wanted, 200, "cosine", 0.1) == theirs.score(queries, wanted)


def test_equal_distances_are_taken_in_the_order_of_the_bank():
    """Points of a small integer grid are full of exact ties; the reference sorts by (distance, index)."""
    random = np.random.default_rng(0)
    bank, queries = random.integers(0, 4, (300, 3)), random.integers(0, 4, (50, 3))
    distances = ((queries[:, None] - bank[None]) ** 2).sum(axis=-1)
    for k in (1, 7, 20):
        expected = np.argsort(distances, axis=1, kind="stable")[:, :k]
        np.testing.assert_array_equal(nearest(bank, queries, k, "euclidean")[0], expected)


def test_equal_votes_go_to_the_smallest_class():
    bank = np.array([[0.0], [1.0], [2.0], [3.0]])
    labels = np.array([9, 9, 4, 4])
    assert knn_accuracy(bank, labels, [[1.5]], [4], k=4) == 1.0  # two votes each
    theirs = KNeighborsClassifier(4, algorithm="brute").fit(bank, labels)
    assert theirs.predict([[1.5]]) == [4]


def test_votes_of_the_first_one_two_three_neighbors():
    classes = np.array([[2, 1, 1, 2, 2]])
    np.testing.assert_array_equal(neighbors.vote(classes, 3), [[2, 1, 1, 1, 2]])
    np.testing.assert_array_equal(neighbors.vote(classes, 3, np.array([[5.0, 1, 1, 1, 1]])), [[2, 2, 2, 2, 2]])


def test_temperature_goes_from_one_neighbor_to_equal_votes():
    (bank, labels), (queries, wanted) = cloud(300, 0), cloud(200, 1)

    def accuracy(k, temperature=None):
        return knn_accuracy(bank, labels, queries, wanted, k, "cosine", temperature)

    assert accuracy(25, 1e-6) == accuracy(1)  # colder than any similarity could overflow in float64
    assert accuracy(25, 1e6) == pytest.approx(accuracy(25), abs=0.03)  # ties aside


def test_blocks_make_no_difference(monkeypatch):
    (bank, _), (queries, _) = cloud(200, 0), cloud(33, 1)
    whole = nearest(bank, queries, 12, "cosine")
    monkeypatch.setattr(neighbors, "_BLOCK_BYTES", 5 * 8 * len(bank))
    pieces = nearest(bank, queries, 12, "cosine")
    np.testing.assert_array_equal(whole[0], pieces[0])
    np.testing.assert_allclose(whole[1], pieces[1], atol=1e-14)


def test_far_from_the_origin_nothing_is_lost():
    bank, labels = cloud(200, 0)
    bank = bank.astype("float64")
    near = nearest(bank, bank[:50] + 1e-3, 5)[0]
    np.testing.assert_array_equal(nearest(bank + 2.0**24, bank[:50] + 1e-3 + 2.0**24, 5)[0], near)
    assert knn_accuracy(bank, labels, bank, labels, k=1) == 1.0


def test_rows_of_zeros_have_similarity_zero():
    indices, similarities = nearest([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0]], [[2.0, 0.0], [0.0, 0.0]], 3, "cosine")
    np.testing.assert_array_equal(indices, [[1, 0, 2], [0, 1, 2]])
    np.testing.assert_array_equal(similarities, [[1, 0, -1], [0, 0, 0]])


def test_collapsed_features_give_the_first_rows():
    bank = np.full((50, 4), 0.1, "float32")
    np.testing.assert_array_equal(nearest(bank, bank[:2], 3)[0], [[0, 1, 2]] * 2)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_random_labels_score_chance(metric):
    random = np.random.default_rng(0)
    bank, queries = random.normal(size=(2000, 8)), random.normal(size=(2000, 8))
    accuracy = knn_accuracy(bank, random.integers(0, 10, 2000), queries, random.integers(0, 10, 2000), 10, metric)
    assert abs(accuracy - 0.1) < 0.03


@pytest.mark.parametrize(
    "change,message",
    [
        ({"k": 0}, "k=0"),
        ({"k": 11}, "1..10"),
        ({"temperature": 0.1}, "metric='cosine'"),
        ({"temperature": 0.0, "metric": "cosine"}, "greater than 0"),
        ({"train_labels": np.zeros(9, int)}, "one label for each row"),
        ({"test_features": np.zeros((4, 3))}, "same L"),
        ({"train_features": np.zeros(10)}, r"\(N, L\)"),
        ({"test_features": np.full((4, 2), np.nan)}, "finite"),
    ],
)
def test_bad_input_is_refused(change, message):
    good = {
        "train_features": np.zeros((10, 2)),
        "train_labels": np.zeros(10, int),
        "test_features": np.zeros((4, 2)),
        "test_labels": np.zeros(4, int),
        "k": 3,
    }
    assert knn_accuracy(**good) == 1.0
    with pytest.raises(InvalidInputError, match=message):
        knn_accuracy(**{**good, **change})


def test_unknown_metric_has_a_hint():
    with pytest.raises(UnknownNameError, match="Did you mean 'euclidean'"):
        nearest(np.zeros((3, 2)), np.zeros((3, 2)), 1, "euclidian")
