"""Linear and MLP probes: small classifiers trained on frozen features, in NumPy.

`train_probe` is the protocol of the SimVAE papers (Bizeul, Schölkopf and Allen, arXiv:2402.01399, A.7.2): Adam with
learning rate 3e-4, 200 epochs, batches of 128, cross-entropy, features as they are (not standardized). The hidden layer
of the MLP probe is as wide as the features, and a task of two classes has one sigmoid output, as in the released code.
`train_probe_on_views` is logistic regression on augmented images, as memory banks were measured.

A probe has a few thousand weights, so a step costs microseconds; on any deep-learning backend the overhead around it
would cost more, and the result would depend on the backend.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.special import expit
from threadpoolctl import threadpool_limits

from sslzoo import checks
from sslzoo.data.labels import check_labels
from sslzoo.errors import InvalidInputError
from sslzoo.evaluation.features import blas_threads, check_features

MOST_CONFUSED = 100  # classes of a table of confusions
BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8  # Adam as in PyTorch, which the papers used


@dataclass(frozen=True)
class ProbeResult:
    """What training a probe gave.

    Example:
        import numpy as np
        from sslzoo import evaluation

        rng = np.random.default_rng(0)
        features, labels = rng.normal(size=(60, 4)).astype("float32"), np.arange(60) % 3
        result = evaluation.train_probe(features[:40], labels[:40], features[40:], labels[40:], num_classes=3, epochs=5)
        result.accuracies  # float (5,), after each epoch

    Attributes:
        accuracies: float array (epochs,). Test accuracy after each epoch, in 0..1.
        losses: float array (epochs,). Mean cross-entropy of the training batches of each epoch, in nats.
        predictions: int array (M,). Class of each test row after the last epoch.
        weights: list of (kernel (in, out), bias (out,)), float32, after the last epoch.
    """

    accuracies: np.ndarray
    losses: np.ndarray
    predictions: np.ndarray
    weights: list[tuple[np.ndarray, np.ndarray]]


def train_probe(
    train_features: np.ndarray,
    train_labels: np.ndarray,
    test_features: np.ndarray,
    test_labels: np.ndarray,
    num_classes: int,
    hidden: int | None = None,
    epochs: int = 200,
    batch_size: int = 128,
    learning_rate: float = 3e-4,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
    passes: int = 1,
) -> ProbeResult:
    """Train a classifier on features and score it on test features after every epoch.

    Args:
        train_features: float array (N, L).
        train_labels: int array (N,), values 0..num_classes - 1.
        test_features: float array (M, L).
        test_labels: int array (M,), values 0..num_classes - 1.
        num_classes: int, at least 2.
        hidden: int, width of the one hidden ReLU layer; None for a linear probe.
        epochs: int, after each of which the test rows are scored.
        batch_size: int, rows per step. The last batch of a pass may be smaller.
        learning_rate: float, of Adam, constant.
        seed: int, of the initial weights and the order of the rows. Equal seeds give equal results.
        progress: callable (epochs done, epochs in all), or None.
        passes: int, over the training rows in an epoch, each in a new random order.
    """
    checks.count(2, num_classes=num_classes)
    checks.count(epochs=epochs, batch_size=batch_size, passes=passes)
    checks.count(hidden=1 if hidden is None else hidden)
    checks.positive(learning_rate=learning_rate)
    checks.seed(needed=True, seed=seed)
    x, x_test = _rows(train_features, "train features"), _rows(test_features, "test features")
    targets = _targets(_classes(train_labels, x, "train labels", num_classes), num_classes)
    test_labels = _classes(test_labels, x_test, "test labels", num_classes)
    random = np.random.default_rng(seed)
    inner = () if hidden is None else (hidden,)
    flat, gradient, layers, gradients = _classifier(random, x.shape[1], *inner, targets.shape[1])

    mean, square, scratch = (np.zeros_like(flat) for _ in range(3))
    step = 0
    accuracies, losses = np.zeros(epochs), np.zeros(epochs)
    with threadpool_limits(blas_threads(max((x.shape[1], *inner))), user_api="blas"):
        for epoch in range(epochs):
            for rows in _batches(random, len(x), batch_size, passes):
                loss = _backward(x[rows], targets[rows], layers, gradients)
                losses[epoch] += loss * len(rows) / (passes * len(x))

                step += 1
                mean += np.multiply(np.subtract(gradient, mean, out=scratch), 1 - BETA_1, out=scratch)
                np.multiply(gradient, gradient, out=gradient)
                square += np.multiply(np.subtract(gradient, square, out=scratch), 1 - BETA_2, out=scratch)
                np.sqrt(np.multiply(square, 1 / (1 - BETA_2**step), out=scratch), out=scratch)
                np.divide(mean, np.add(scratch, EPSILON, out=scratch), out=scratch)
                flat -= np.multiply(scratch, learning_rate / (1 - BETA_1**step), out=scratch)
            predictions = _predict(x_test, layers)
            accuracies[epoch] = np.mean(predictions == test_labels)
            if progress:
                progress(epoch + 1, epochs)
    return ProbeResult(accuracies, losses, predictions, layers)


def train_probe_on_views(
    draw: Callable[[int], np.ndarray],
    train_labels: np.ndarray,
    test_features: np.ndarray,
    test_labels: np.ndarray,
    num_classes: int,
    epochs: int = 30,
    batch_size: int = 256,
    learning_rate: float = 0.01,
    momentum: float = 0.9,
    weight_decay: float = 1e-5,
    patience: int = 10,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> ProbeResult:
    """Logistic regression on features of new views of the train images in each epoch, by SGD.

    Transfer as in "On Mutual Information in Contrastive Learning for Visual Representations" (arXiv 2005.13149),
    section B.3, whose settings are the defaults: the augmentations are those of pretraining, and the rate falls to a
    tenth, twice, after `patience` epochs without a better accuracy. The paper leaves open on what; here it is that of
    the train views before they are learned from, new ones in each epoch, so that the test set decides nothing.

    Args:
        draw: callable, epoch -> float array (N, L), features of a new view of each train image.
        train_labels: int array (N,), values 0..num_classes - 1.
        test_features: float array (M, L), of the test images as they are.
        test_labels: int array (M,).
        num_classes: int, at least 2.
        epochs, batch_size: int. The last batch of an epoch may be smaller.
        learning_rate, momentum, weight_decay: floats, of SGD: v <- momentum v + g + weight_decay w, w <- w - rate v.
        patience: int, epochs.
        seed: int, of the initial weights and the order of the rows.
        progress: callable (epochs done, epochs in all), or None.
    """
    checks.count(2, num_classes=num_classes)
    checks.count(epochs=epochs, batch_size=batch_size, patience=patience)
    checks.positive(learning_rate=learning_rate)
    checks.number(0, weight_decay=weight_decay)
    checks.fraction(momentum=momentum)
    checks.seed(needed=True, seed=seed)
    x_test = np.ascontiguousarray(test_features, np.float32)
    targets = _targets(train_labels, num_classes)
    random = np.random.default_rng(seed)
    flat, gradient, layers, gradients = _classifier(random, x_test.shape[1], targets.shape[1])

    velocity = np.zeros_like(flat)
    accuracies, losses, seen = np.zeros(epochs), np.zeros(epochs), []
    for epoch in range(epochs):
        x = np.ascontiguousarray(draw(epoch), np.float32)
        rate = learning_rate * 0.1 ** min(plateaus(seen, patience), 2)
        right = 0
        with threadpool_limits(blas_threads(x.shape[1]), user_api="blas"):
            order = random.permutation(len(x))
            for start in range(0, len(x), batch_size):
                rows = order[start : start + batch_size]
                right += np.sum(_predict(x[rows], layers) == train_labels[rows])
                losses[epoch] += _backward(x[rows], targets[rows], layers, gradients) * len(rows) / len(x)
                velocity *= momentum
                velocity += gradient + weight_decay * flat
                flat -= rate * velocity
            predictions = _predict(x_test, layers)
        seen.append(right / len(x))
        accuracies[epoch] = np.mean(predictions == test_labels)
        if progress:
            progress(epoch + 1, epochs)
    return ProbeResult(accuracies, losses, predictions, layers)


def plateaus(accuracies: Sequence[float], patience: int) -> int:
    """How often, one after the other, `patience` epochs passed without a better accuracy than any before."""
    best, since, count = -np.inf, 0, 0
    for accuracy in accuracies:
        best, since = (accuracy, 0) if accuracy > best else (best, since + 1)
        if since == patience:
            since, count = 0, count + 1
    return count


def balanced_accuracy(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Mean over the classes in `labels` of the share of their rows that is predicted right, in 0..1.

    Args:
        labels, predictions: integers (N,).

    Raises:
        InvalidInputError: anything else, or of different lengths.
    """
    labels = check_labels(labels, len(labels), negative=True)
    predictions = check_labels(predictions, len(labels), "predictions", negative=True)
    return float(np.mean([np.mean(predictions[labels == c] == c) for c in np.unique(labels)]))


def confusion(labels: np.ndarray, predictions: np.ndarray, classes: int) -> list[list[int]] | None:
    """How many images of each of so many classes (rows) are taken for each; labels below 0 are left out. None of more
    than `MOST_CONFUSED` classes, which nobody looks at, and of which results.json would hold a line for each pair."""
    from sklearn.metrics import confusion_matrix

    if classes > MOST_CONFUSED:
        return None
    known = labels >= 0
    return confusion_matrix(labels[known], predictions[known], labels=np.arange(classes)).tolist()


def _batches(random, count, batch_size, passes):
    """Rows of each step of an epoch."""
    for _ in range(passes):
        order = random.permutation(count)
        yield from (order[start : start + batch_size] for start in range(0, count, batch_size))


def _rows(features, name):
    return np.ascontiguousarray(check_features(features, name, np.float32))


def _classes(labels, rows, name, num_classes):
    labels = check_labels(labels, len(rows), name)
    if labels.max(initial=0) >= num_classes:
        raise InvalidInputError(f"{name} must be below num_classes={num_classes}. Received: {labels.max()}")
    return labels


def _targets(labels, num_classes):
    """One-hot rows (N, C); of two classes one column, for one sigmoid."""
    return np.eye(num_classes, dtype=np.float32)[:, int(num_classes == 2) :][labels]


def _classifier(random, *widths):
    """Initial weights and a gradient for them, each flat and as layers over the same memory.

    Flat, a step of an optimizer is a handful of calls, whatever the number of layers.
    """
    flat = np.concatenate([_initial(random, *shape) for shape in pairwise(widths)])
    gradient = np.zeros_like(flat)
    return flat, gradient, _as_layers(flat, widths), _as_layers(gradient, widths)


def _initial(random, fan_in, fan_out):
    """Kernel and bias, flat, uniform in ±1/sqrt(fan_in) (PyTorch's `nn.Linear`, hence the papers' probes)."""
    bound = fan_in**-0.5
    return random.uniform(-bound, bound, (fan_in + 1) * fan_out).astype(np.float32)


def _as_layers(flat, widths):
    """Views of a flat array as [(kernel (in, out), bias (out,)), ...]."""
    layers, at = [], 0
    for fan_in, fan_out in pairwise(widths):
        middle, end = at + fan_in * fan_out, at + (fan_in + 1) * fan_out
        layers.append((flat[at:middle].reshape(fan_in, fan_out), flat[middle:end]))
        at = end
    return layers


def _forward(x, layers):
    """Inputs of every layer, and the logits: [x, relu(x W + b), ..., logits]."""
    values = [x]
    for i, (kernel, bias) in enumerate(layers):
        if i:
            np.maximum(values[-1], 0, out=values[-1])
        values.append(values[-1] @ kernel)
        values[-1] += bias
    return values


def _backward(x, targets, layers, gradients):
    """Write the gradient of the mean cross-entropy into `gradients`; return the cross-entropy in nats."""
    *inputs, logits = _forward(x, layers)
    if logits.shape[1] == 1:
        loss = np.mean(np.logaddexp(0, logits) - targets * logits)
        error = expit(logits)
    else:
        logits -= logits.max(axis=1, keepdims=True)
        error = np.exp(logits)
        total = error.sum(axis=1, keepdims=True)
        loss = np.mean(np.log(total) - (targets * logits).sum(axis=1, keepdims=True))
        error /= total
    error -= targets
    error *= np.float32(1 / len(x))
    for i in reversed(range(len(layers))):
        np.matmul(inputs[i].T, error, out=gradients[i][0])
        np.sum(error, axis=0, out=gradients[i][1])
        if i:
            error = (error @ layers[i][0].T) * (inputs[i] > 0)
    return loss


def _predict(x, layers):
    classes, rows = np.empty(len(x), np.int64), 4096
    for start in range(0, len(x), rows):
        logits = _forward(x[start : start + rows], layers)[-1]
        classes[start : start + rows] = logits[:, 0] > 0 if logits.shape[1] == 1 else logits.argmax(axis=1)
    return classes
