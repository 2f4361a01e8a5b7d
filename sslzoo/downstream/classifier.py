"""A classifier on top of an encoder: plain Keras models of core layers, and what trains them."""

import keras
import numpy as np
from threadpoolctl import threadpool_limits

from sslzoo.evaluation.features import blas_threads, moments
from sslzoo.networks.composition import Copies, compose

C_VALUES = (0.001, 0.01, 0.1, 1.0)  # inverse strengths of the penalty that the held-out images choose among


class Classifier:
    """An encoder with a dense layer on it.

    Attributes:
        features: `keras.Model`, raw images -> (B, L), a copy of the encoder.
        training: `keras.Model`, raw images -> logits (B, K).
        model: `keras.Model`, raw images -> class probabilities (B, K). The three share their layers.
        head: the dense layer.

    Args:
        encoder: raw images -> (B, L).
        classes: int, K.
        seed: int, of what its layers draw while they train.
    """

    def __init__(self, encoder: keras.Model, classes: int, seed: int = 0):
        self.features = compose(None, encoder)
        names = Copies({layer.name for layer in self.features.layers})
        # Whatever the global policy: what is chosen among classes is never rounded.
        self.head = keras.layers.Dense(
            classes, kernel_initializer="zeros", dtype="float32", name=names.unused("logits")
        )
        logits = self.head(self.features.output)
        self.training = keras.Model(self.features.input, logits, name="classifier")
        softmax = keras.layers.Activation("softmax", dtype="float32", name=names.unused("probabilities"))
        probabilities = softmax(logits)
        self.model = keras.Model(self.features.input, probabilities, name="classifier")
        draws = [each for each in self.training.variables if each.name == "seed_generator_state"]
        for place, state in enumerate(draws):  # of dropout: a copy of a layer has a seed of nobody's choice
            state.assign(np.array([np.random.default_rng([seed, place]).integers(2**31), 0], state.dtype))

    def weights(self) -> list[np.ndarray]:
        """Its weights, low-rank terms added to the kernels that they change."""
        values = []
        for layer in self.training.layers:
            if getattr(layer, "lora_enabled", False):
                kernel = keras.ops.convert_to_numpy(layer.kernel)
                values += [kernel, *([] if layer.bias is None else [keras.ops.convert_to_numpy(layer.bias)])]
            else:
                values += layer.get_weights()
        return values


def fit_head(head: keras.layers.Dense, features, labels, held_out, held_out_labels, weighted: bool) -> float:
    """Logistic regression on standardized features, put into a dense layer that takes them as they are.

    Args:
        head: (B, L) -> logits (B, K), built.
        features, held_out: float (N, L).
        labels, held_out_labels: int (N,), places among K classes, each in both.
        weighted: whether all classes count the same, however many images they have.

    Returns:
        float, the C whose solution has the lowest cross-entropy on the held-out images, all classes alike if weighted.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss

    mean, deviation = moments(features)
    rows, tested = ((each - mean) / deviation for each in (features, held_out))
    counts = np.bincount(held_out_labels)
    weights = (1 / counts)[held_out_labels] if weighted else None
    kwargs = {"max_iter": 500, "class_weight": "balanced" if weighted else None}
    with threadpool_limits(blas_threads(rows.shape[1])):
        fits = [LogisticRegression(C=C, **kwargs).fit(rows, labels) for C in C_VALUES]
    losses = [log_loss(held_out_labels, fit.predict_proba(tested), sample_weight=weights) for fit in fits]
    best = int(np.argmin(losses))
    kernel, bias = fits[best].coef_.T, fits[best].intercept_
    if kernel.shape[1] == 1:  # the sigmoid of t is the softmax of (-t/2, t/2)
        kernel, bias = np.hstack([-kernel / 2, kernel / 2]), np.hstack([-bias / 2, bias / 2])
    kernel = kernel / deviation[:, None]
    head.set_weights([kernel.astype("float32"), (bias - mean @ kernel).astype("float32")])
    return C_VALUES[best]


def add_low_rank(classifier: Classifier, rank: int, seed: int) -> int:
    """Leaves a classifier its head and low-rank terms of its other kernels to train; normalization stays as it is.

    Depthwise and separable layers, for which Keras has no such terms, and those inside attention stay.

    Returns how many kernels have such terms.
    """
    changed = 0
    for position, layer in enumerate(classifier.features.layers):
        if not hasattr(layer, "enable_lora") or isinstance(layer, keras.layers.Embedding):
            layer.trainable = False
            continue
        layer.enable_lora(rank, a_initializer=keras.initializers.HeUniform(seed + position))
        if layer.bias is not None:
            layer.bias.trainable = False
        changed += 1
    return changed


class GradedAdam(keras.optimizers.Adam):
    """Adam with a rate of its own for each variable.

    Args:
        learning_rate: float.
        factors: what the rate is multiplied with, one for each trainable variable in its order.
    """

    def __init__(self, learning_rate: float, factors: list[float]):
        super().__init__(learning_rate)
        self.factors = factors

    def update_step(self, gradient, variable, learning_rate):
        super().update_step(gradient, variable, learning_rate * self.factors[self._get_variable_index(variable)])


def depth_factors(model: keras.Model, first: float) -> list[float]:
    """Factors for `GradedAdam`: from `first` of the first layer with weights, in equal ratios, to 1 of the last."""
    layers = [layer for layer in model.layers if layer.trainable_variables]
    place = {id(v): depth for depth, layer in enumerate(layers) for v in layer.trainable_variables}
    last = max(1, len(layers) - 1)
    return [first ** (1 - place[id(variable)] / last) for variable in model.trainable_variables]
