"""few_shot: against a float64 reference, and what guessing scores."""

import numpy as np
import pytest
from oracle import numerical_gradient

from sslzoo.evaluation import evaluate_features
from sslzoo.evaluation.protocols import few_shot


def blobs(rows, spread, seed, classes=3, width=4):
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, rows)
    centers = np.random.default_rng(9).normal(size=(classes, width))
    return (centers[labels] + spread * random.normal(size=(rows, width))).astype("float32"), labels


def newton(x, labels, classes, steps=30):
    """Kernel and bias of least summed cross-entropy plus |kernel|^2 / 2, by Newton's method in float64."""
    x = np.hstack([np.float64(x), np.ones((len(x), 1))])
    targets, w = np.eye(classes)[labels], np.zeros((x.shape[1], classes))
    ridge = np.diag(np.repeat(np.append(np.ones(x.shape[1] - 1), 1e-9), classes))
    for _ in range(steps):
        p = np.exp(x @ w - (x @ w).max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        gradient = (x.T @ (p - targets)).ravel() + ridge @ w.ravel()
        inner = np.einsum("nc,cd->ncd", p, np.eye(classes)) - np.einsum("nc,nd->ncd", p, p)
        hessian = np.einsum("ni,nj,ncd->icjd", x, x, inner).reshape(w.size, w.size) + ridge
        w = w - np.linalg.solve(hessian, gradient).reshape(w.shape)
    return w[:-1], w[-1]


def test_the_numbers_are_those_of_a_float64_reference():
    train, test = blobs(300, 1.0, 0), blobs(200, 1.0, 1)
    report = evaluate_features(train, test, protocols="few_shot", seed=5)
    mean, deviation = np.float64(train[0]).mean(axis=0), np.float64(train[0]).std(axis=0)
    x, tested = ((np.float64(rows) - mean) / deviation for rows in (train[0], test[0]))
    for size in (1, 4, 16, 64):
        shares = []
        for number in range(10):
            rows = few_shot.draw(train[1], np.arange(3), size, [5, size, number])
            assert np.bincount(train[1][rows]).tolist() == [size] * 3 and len(set(rows)) == 3 * size
            kernel, bias = newton(x[rows], train[1][rows], 3)
            fitted = few_shot.fit(x[rows], train[1][rows])
            np.testing.assert_allclose(fitted.coef_.T, kernel, atol=2e-4)
            shares.append(np.mean((tested @ kernel + bias).argmax(axis=1) == test[1]))
        assert report["few_shot"][f"accuracy_{size}"] == pytest.approx(np.mean(shares), abs=1e-3)
        assert report["few_shot"][f"deviation_{size}"] == pytest.approx(np.std(shares, ddof=1), abs=1e-3)


def test_the_reference_is_a_minimum():
    x, labels = blobs(20, 1.0, 2)

    def loss(flat):
        kernel, bias = flat[:12].reshape(4, 3), flat[12:]
        scores = np.float64(x) @ kernel + bias
        top = scores.max(axis=1)
        log_sum = top + np.log(np.exp(scores - top[:, None]).sum(axis=1))
        return (log_sum - scores[np.arange(20), labels]).sum() + (kernel**2).sum() / 2

    kernel, bias = newton(x, labels, 3)
    assert np.abs(numerical_gradient(loss, np.concatenate([kernel.ravel(), bias]))[0]).max() < 1e-5


def test_more_labels_tell_more_and_noise_is_guessed():
    numbers = evaluate_features(blobs(400, 1.0, 0), blobs(300, 1.0, 1), protocols="few_shot")["few_shot"]
    assert numbers["accuracy_1"] < numbers["accuracy_64"]
    random = np.random.default_rng(0)
    noise = [(random.normal(size=(600, 5)), random.integers(0, 3, 600)) for _ in range(2)]
    report = evaluate_features(*noise, protocols="few_shot")
    assert abs(report["few_shot"]["accuracy_64"] - 1 / 3) < 0.05
    assert report.numbers["few_shot"]["accuracy_4"].chance == pytest.approx(1 / 3)


def test_sizes_that_a_class_has_not_are_left_out():
    rows, labels = blobs(60, 1.0, 0)
    rows[:, 1] = 3.0  # a constant feature
    kept = np.concatenate([np.flatnonzero(labels == 0)[:5], np.flatnonzero(labels > 0)])
    report = evaluate_features((rows[kept], labels[kept]), (rows, labels), protocols="few_shot")
    assert report.protocols["few_shot"]["labels"] == [1, 4]
    assert any("the smallest class has 5" in remark and "16 and 64" in remark for remark in report.remarks)
