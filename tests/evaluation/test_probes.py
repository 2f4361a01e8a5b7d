"""Probes: gradients, Adam, agreement with a Keras model, repeatability, and what they can and cannot learn."""

from itertools import pairwise

import keras
import numpy as np
import pytest
import threadpoolctl
from oracle import numerical_gradient

from sslzoo.evaluation import balanced_accuracy, evaluate_features, probes, train_probe, train_probe_on_views


def blobs(rows, classes=4, width=6, spread=0.3, seed=0):
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, rows)
    centers = np.random.default_rng(99).normal(size=(classes, width))
    return (centers[labels] + spread * random.normal(size=(rows, width))).astype("float32"), labels


@pytest.mark.parametrize("widths", [[5, 3], [5, 4, 3], [5, 1], [5, 4, 1]], ids=str)
def test_gradient_is_that_of_the_cross_entropy(widths):
    random = np.random.default_rng(1)
    x, labels = random.normal(size=(7, 5)), random.integers(0, max(2, widths[-1]), 7)
    targets = np.eye(max(2, widths[-1]))[:, -widths[-1] :][labels]
    flat = random.normal(size=sum((a + 1) * b for a, b in pairwise(widths)))
    gradient = np.zeros_like(flat)

    def cross_entropy(flat):
        value = x
        for i, (kernel, bias) in enumerate(probes._as_layers(flat, widths)):
            value = (np.maximum(value, 0) if i else value) @ kernel + bias
        if widths[-1] == 1:
            value = np.hstack([np.zeros_like(value), value])  # a sigmoid is the softmax of (0, t)
        shares = np.exp(value) / np.exp(value).sum(axis=1, keepdims=True)
        return -np.log(shares[np.arange(7), labels]).mean()

    loss = probes._backward(x, targets, probes._as_layers(flat, widths), probes._as_layers(gradient, widths))
    np.testing.assert_allclose(loss, cross_entropy(flat), rtol=1e-6)
    np.testing.assert_allclose(gradient, numerical_gradient(cross_entropy, flat)[0], atol=1e-7)


@pytest.mark.parametrize("classes,hidden", [(4, None), (2, 3)])
def test_training_equals_a_keras_model(classes, hidden):
    """Same start, same batches, same optimizer on the active backend: the same weights after three epochs."""
    x, labels = blobs(48, classes)
    ours = train_probe(
        x, labels, x, labels, classes, hidden=hidden, epochs=3, batch_size=16, learning_rate=0.01, seed=5
    )

    outputs = 1 if classes == 2 else classes
    layers = [keras.layers.Dense(outputs)]
    if hidden:
        layers.insert(0, keras.layers.Dense(hidden, "relu"))
    model = keras.Sequential([keras.Input((6,)), *layers])
    random = np.random.default_rng(5)
    widths = [6, *([hidden] if hidden else []), outputs]
    start = np.concatenate([probes._initial(random, a, b) for a, b in pairwise(widths)])
    model.set_weights([array for layer in probes._as_layers(start, widths) for array in layer])
    if classes == 2:
        loss = keras.losses.BinaryCrossentropy(from_logits=True)
    else:
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01, epsilon=1e-8), loss)
    for _ in range(3):
        order = random.permutation(48)
        for batch in (order[:16], order[16:32], order[32:]):
            model.train_on_batch(x[batch], labels[batch])
    theirs = model.get_weights()
    for mine, other in zip([array for layer in ours.weights for array in layer], theirs):
        np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-4)
    logits = keras.ops.convert_to_numpy(model(x))
    predictions = (logits[:, 0] > 0) if classes == 2 else logits.argmax(axis=1)
    assert ours.accuracies[-1] == np.mean(predictions == labels)


def test_a_batch_may_be_smaller():
    x, labels = blobs(10)
    whole, smaller = (train_probe(x, labels, x, labels, 4, epochs=3, batch_size=size) for size in (10, 16))
    np.testing.assert_array_equal(whole.weights[0][0], smaller.weights[0][0])
    two_steps = train_probe(x, labels, x, labels, 4, epochs=1, batch_size=9, learning_rate=1e-3).weights[0][0]
    start = train_probe(x, labels, x, labels, 4, epochs=1, learning_rate=1e-12).weights[0][0]
    assert 1.01e-3 < np.abs(two_steps - start).max() <= 2.001e-3  # the tenth row took a step of its own


def test_first_step_of_adam_has_the_length_of_the_learning_rate():
    x, labels = blobs(16)
    start = train_probe(x, labels, x, labels, 4, epochs=1, batch_size=16, learning_rate=1e-12).weights[0][0]
    after = train_probe(x, labels, x, labels, 4, epochs=1, batch_size=16, learning_rate=0.01).weights[0][0]
    np.testing.assert_allclose(np.abs(after - start), 0.01, rtol=1e-3)


@pytest.mark.parametrize("classes", [2, 4])
def test_learns_what_is_there(classes):
    x, labels = blobs(600, classes)
    x_test, labels_test = blobs(300, classes, seed=1)
    result = train_probe(x, labels, x_test, labels_test, classes, epochs=40, batch_size=32, learning_rate=3e-3)
    assert result.accuracies[-1] > 0.97
    assert result.losses[-1] < 0.3 * result.losses[0]
    np.testing.assert_array_equal(np.mean(result.predictions == labels_test), result.accuracies[-1])


def test_hidden_layer_learns_xor_where_a_linear_probe_guesses():
    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, (800, 2)).astype("float32")
    labels = (x[:, 0] * x[:, 1] > 0).astype(int)
    linear, mlp = (
        train_probe(
            x[:500], labels[:500], x[500:], labels[500:], 2, hidden=h, epochs=60, learning_rate=0.02, batch_size=50
        )
        for h in (None, 16)
    )
    assert linear.accuracies[-1] < 0.65
    assert mlp.accuracies[-1] > 0.93


def test_random_labels_score_chance():
    random = np.random.default_rng(0)
    x, labels = random.normal(size=(4000, 8)), random.integers(0, 10, 4000)
    result = train_probe(x[:2000], labels[:2000], x[2000:], labels[2000:], 10, epochs=5)
    assert abs(result.accuracies[-1] - 0.1) < 0.03  # 3 % are 4.5 standard deviations


def test_repeatable_by_seed():
    x, labels = blobs(100)
    one, same, other = (train_probe(x, labels, x, labels, 4, hidden=5, epochs=4, seed=s) for s in (3, 3, 4))
    np.testing.assert_array_equal(one.weights[1][0], same.weights[1][0])
    np.testing.assert_array_equal(one.losses, same.losses)
    assert not np.allclose(one.weights[1][0], other.weights[1][0])


def test_progress_and_shapes():
    x, labels = blobs(30)
    seen = []
    result = train_probe(x, labels, x[:7], labels[:7], 4, hidden=3, epochs=2, progress=lambda *now: seen.append(now))
    assert seen == [(1, 2), (2, 2)]
    assert result.accuracies.shape == result.losses.shape == (2,)
    assert result.predictions.shape == (7,)
    assert [(kernel.shape, bias.shape) for kernel, bias in result.weights] == [((6, 3), (3,)), ((3, 4), (4,))]


def test_large_features_stay_finite():
    x, labels = blobs(64)
    result = train_probe(1e6 * x, labels, 1e6 * x, labels, 4, hidden=4, epochs=3)
    assert np.isfinite(result.losses).all()
    assert all(np.isfinite(array).all() for layer in result.weights for array in layer)


def test_balanced_accuracy_counts_every_class_once():
    labels = np.array([0] * 90 + [1] * 10)
    assert balanced_accuracy(labels, np.zeros(100, int)) == 0.5
    assert balanced_accuracy(labels, np.where(np.arange(100) < 95, 0, 1)) == pytest.approx((1 + 0.5) / 2)


# ---------------------------------------------------------------- on views


@pytest.mark.parametrize(
    ("accuracies", "expected"),
    [
        ([], 0),
        ([0.5, 0.5], 0),
        ([0.5, 0.5, 0.5, 0.5], 1),  # three looks without a better one
        ([0.5, 0.4, 0.6, 0.6, 0.5], 0),
        ([0.5, *[0.4] * 6], 2),
        ([0.5, *[0.4] * 3, 0.45, 0.5, 0.3, *[0.6] * 4], 3),  # what is better than the last few is not the best
        (np.linspace(0, 1, 50), 0),
    ],
)
def test_plateaus_are_counted(accuracies, expected):
    assert probes.plateaus(accuracies, 3) == expected


@pytest.mark.parametrize("classes", [2, 4])
def test_probe_on_views_is_sgd_whose_rate_falls_twice_when_accuracy_stalls(classes):
    """The same in float64, written from section B.3: the rate falls after two epochs without a better accuracy."""
    labels = blobs(48, classes)[1]
    draws = [blobs(48, classes, seed=epoch)[0] for epoch in range(9)]  # other features of the same labels
    draws = [draw - draw + np.eye(6)[labels] + 0.1 * draw for draw in draws]
    settings = {"batch_size": 16, "learning_rate": 0.1, "momentum": 0.9, "weight_decay": 0.01, "patience": 2, "seed": 3}
    result = train_probe_on_views(draws.__getitem__, labels, draws[0], labels, classes, epochs=9, **settings)

    outputs = 1 if classes == 2 else classes
    random = np.random.default_rng(3)
    w = probes._initial(random, 6, outputs).astype("float64").reshape(7, outputs)  # the bias is the last row
    v, rate, best, since, rates = np.zeros_like(w), 0.1, -1.0, 0, []
    for epoch in range(9):
        right, order = 0, random.permutation(48)
        for rows in (order[:16], order[16:32], order[32:]):
            x = np.hstack([draws[epoch][rows], np.ones((16, 1))])
            logits = np.hstack([np.zeros((16, 1)), x @ w]) if classes == 2 else x @ w
            right += (logits.argmax(axis=1) == labels[rows]).sum()
            error = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True) - np.eye(classes)[labels[rows]]
            v = 0.9 * v + x.T @ error[:, -outputs:] / 16 + 0.01 * w
            w = w - rate * v
        rates.append(rate)
        best, since = (right, 0) if right > best else (best, since + 1)
        if since == 2:
            rate, since = max(0.1 * rate, 0.001), 0
    assert rates[-1] == pytest.approx(0.001)  # it did fall, and no further
    ((kernel, bias),) = result.weights
    np.testing.assert_allclose(np.vstack([kernel, bias]), w, atol=1e-5)
    assert result.accuracies[-1] == 1


def test_probe_on_views_tests_on_what_it_is_given():
    x, labels = blobs(200)
    told = []
    result = train_probe_on_views(
        lambda epoch: x, labels, x, labels, 4, epochs=3, batch_size=20, progress=lambda *args: told.append(args)
    )
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert result.accuracies[-1] == np.mean(result.predictions == labels) > 0.8
    wrong = train_probe_on_views(lambda epoch: x, labels, x, (labels + 1) % 4, 4, epochs=3, batch_size=20)
    assert wrong.accuracies[-1] < 0.2 and wrong.losses[-1] == result.losses[-1]


@pytest.mark.parametrize("width, hidden, threads", [(256, None, 1), (257, None, None), (8, 300, None), (8, 8, 1)])
def test_wide_features_are_computed_with_all_cores(width, hidden, threads, monkeypatch):
    limits = []

    def limited(limit, user_api):
        limits.append(limit)
        return threadpoolctl.threadpool_limits(limit, user_api=user_api)

    monkeypatch.setattr(probes, "threadpool_limits", limited)
    rows, labels = np.random.default_rng(0).normal(size=(8, width)), np.arange(8) % 2
    train_probe(rows, labels, rows, labels, 2, hidden=hidden, epochs=1)
    assert limits == [threads]


@pytest.mark.parametrize(("sizes", "shown"), [((80, 10, 10), True), ((34, 33, 33), False)])
def test_balanced_accuracy_is_shown_of_unequal_classes(sizes, shown):
    labels = np.repeat(np.arange(3), sizes)
    rows = np.random.default_rng(0).normal(size=(100, 4)) + np.eye(3, 4)[labels]
    report = evaluate_features((rows, labels), (rows, labels), protocols="linear", epochs=1)
    assert ("linear.converged_balanced_accuracy" in {metric["name"] for metric in report.metrics()}) == shown


def test_a_confusion_matrix_has_a_row_for_each_true_class():
    labels, predictions = np.array([0, 0, 1, -1]), np.array([1, 0, 1, 0])
    assert probes.confusion(labels, predictions, 2) == [[1, 1], [0, 1]]
