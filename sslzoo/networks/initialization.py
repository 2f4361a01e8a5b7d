"""Initial weights that depend on a seed alone: equal on every backend and machine.

Keras draws initial weights with the random numbers of its backend, so one seed gives other weights under TensorFlow
than under JAX or PyTorch. Here the same distributions are drawn with NumPy instead, and where weights come from
elsewhere (a file, a student) nothing is drawn at all: `defer`, `restore` and `undrawn_copy`.
"""

import random

import keras
import numpy as np
from keras import initializers

from sslzoo import checks
from sslzoo.errors import InvalidInputError

_KNOWN = (
    initializers.Zeros,
    initializers.Ones,
    initializers.Constant,
    initializers.RandomUniform,
    initializers.RandomNormal,
    initializers.TruncatedNormal,
    initializers.Orthogonal,
    initializers.VarianceScaling,
)
# Standard deviation of a standard normal cut off at +-2, by which Keras divides to keep the variance asked for.
_TRUNCATED_STDDEV = 0.87962566103423978


def initialize(model, seed):
    """Redraws every weight of a built model from its layer's own initializer, with NumPy.

    Each weight has a random stream of its own, derived from the seed and its layer's position in the model: adding a
    head leaves the weights of the trunk as they were.

    Example:
        import keras

        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
        networks.initialize(model, seed=0)  # the same weights on every backend

    Args:
        model: built Keras model of layers whose weights follow Keras' `<weight>_initializer` attributes (dense,
            convolutional and normalization layers do).
        seed: int >= 0, or None for one from Python's `random`, which `keras.utils.set_random_seed` seeds.

    Returns:
        The same model, changed in place.

    Raises:
        InvalidInputError: the seed is neither None nor an integer >= 0, the model is unbuilt, or a weight has an
            initializer other than zeros, ones, a constant, or Keras' uniform, normal, truncated normal, orthogonal
            and variance-scaling (Glorot, He, LeCun) families.
    """
    if seed is None:
        seed = random.randrange(2**31)
    checks.seed(seed=seed)
    if not model.built:
        raise InvalidInputError(f"initialize needs a built model. Received: {model.name!r}, which has no weights yet")
    for weight, initializer, stream in drawn_weights(model):  # a refused layer leaves the model as it was
        value = _draw(initializer, tuple(weight.shape), np.random.default_rng([int(seed), *stream]))
        weight.assign(value.astype("float32"))
    return model


def drawn_weights(model) -> list:
    """(weight, its initializer, its place: layer and number there) of all that `initialize` draws anew; what it does
    not know is refused. What `keras.layers.Normalization` measured of data is not drawn, and stays."""
    return [
        (weight, _initializer(layer, weight), (position, index))
        for position, layer in enumerate(_leaves(model))
        for index, weight in enumerate(layer.weights)
        if not isinstance(layer, keras.layers.Normalization)
    ]


def _leaves(model):
    """Layers that hold weights themselves, nested models opened, in a fixed order and each once."""
    seen = []
    for layer in model.layers:
        # Layers made of layers, such as attention, hold the weights of these.
        for leaf in _leaves(layer) if isinstance(layer, keras.Model) else layer._flatten_layers():
            own = leaf._trainable_variables + leaf._non_trainable_variables
            if own and not any(leaf is other for other in seen):
                seen.append(leaf)
    return seen


def _initializer(layer, weight):
    # The kernel of a depthwise convolution is drawn by `depthwise_initializer`, a separable one has two such kernels.
    names = f"{weight.name}_initializer", f"{weight.name.removesuffix('_kernel')}_initializer", "depthwise_initializer"
    initializer = next((getattr(layer, name) for name in names if hasattr(layer, name)), None)
    if initializer is None:
        raise InvalidInputError(
            f"initialize looks for the initializer of a weight in its layer's attribute {weight.name}_initializer. "
            f"Received: layer={layer.name!r} of type {type(layer).__name__}, which has none"
        )
    if not isinstance(initializer, _KNOWN):
        raise InvalidInputError(
            "initialize knows zeros, ones, constant, uniform, normal, truncated normal, orthogonal and "
            f"variance-scaling initializers. Received: initializer={type(initializer).__name__} of layer={layer.name!r}"
        )
    return initializer


def _draw(initializer, shape, rng):
    if isinstance(initializer, initializers.Zeros):
        return np.zeros(shape)
    if isinstance(initializer, initializers.Ones):
        return np.ones(shape)
    if isinstance(initializer, initializers.Constant):
        return np.full(shape, initializer.value, "float64")
    if isinstance(initializer, initializers.RandomUniform):
        return rng.uniform(initializer.minval, initializer.maxval, shape)
    if isinstance(initializer, initializers.RandomNormal):
        return rng.normal(initializer.mean, initializer.stddev, shape)
    if isinstance(initializer, initializers.TruncatedNormal):
        return initializer.mean + initializer.stddev * _truncated_normal(shape, rng)
    if isinstance(initializer, initializers.Orthogonal):
        return initializer.gain * _orthogonal(shape, rng)
    return _variance_scaling(initializer, shape, rng)


def _orthogonal(shape, rng):
    """A random matrix, of all axes but the last and that, whose rows or columns, the fewer, are orthonormal."""
    rows, columns = int(np.prod(shape[:-1])), shape[-1]
    q, r = np.linalg.qr(rng.standard_normal((max(rows, columns), min(rows, columns))))
    q = q * np.sign(np.diag(r))  # without it, not uniform among all such
    return (q if rows >= columns else q.T).reshape(shape)


def _truncated_normal(shape, rng):
    """Standard normal numbers within +-2: those outside are drawn again."""
    values = rng.standard_normal(shape)
    while (outside := np.abs(values) > 2.0).any():
        values[outside] = rng.standard_normal(int(outside.sum()))
    return values


def _variance_scaling(initializer, shape, rng):
    receptive = int(np.prod(shape[:-2]))
    fan_in, fan_out = (shape[-2] * receptive, shape[-1] * receptive) if len(shape) > 1 else (shape[0], shape[0])
    fan = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[initializer.mode]
    variance = initializer.scale / max(1.0, fan)
    if initializer.distribution == "uniform":
        limit = np.sqrt(3.0 * variance)
        return rng.uniform(-limit, limit, shape)
    if initializer.distribution == "untruncated_normal":
        return np.sqrt(variance) * rng.standard_normal(shape)
    return np.sqrt(variance) / _TRUNCATED_STDDEV * _truncated_normal(shape, rng)


def standardize(model: keras.Model, batch) -> keras.Model:
    """Scales and shifts initial weights so that every layer's outputs start with mean 0 and variance 1 on real images.

    Layer by layer, from the input on: what a dense or convolutional layer gives on the batch, before its activation,
    has its mean and standard deviation taken out by bias and kernel, for each unit (or channel) on its own. It starts a
    network as batch normalization would, and leaves none in it. Energy models need that: they do without batch
    normalization, and images that differ little from their mean (digits in [-1, 1], mostly background) give an
    untouched network nearly the same output for all, of which losses of clusters make one cluster.

    Example:
        images = np.random.default_rng(0).uniform(-1, -0.5, (64, 8, 8, 1)).astype("float32")
        encoder = networks.encoder("mlp-small", (8, 8, 1), 10, seed=0)
        networks.standardize(encoder, images)
        encoder(images)  # each of the 10 outputs: mean 0, variance 1

    Args:
        model: built Functional model; layers of other kinds than dense and 2-D convolution stay as they are.
        batch: array (N, ...), inputs of the model, a few hundred or more.

    Returns:
        The same model, changed in place. Layers without a bias are scaled only, and so are units that are constant
        on the batch only shifted.

    Raises:
        InvalidInputError: the model is no built Functional one, or fewer than two inputs.

    Reference:
        Salimans and Kingma, "Weight Normalization" (arXiv 1602.07868), section 3; Kraehenbuehl et al., "Data-dependent
        Initializations of Convolutional Neural Networks" (arXiv 1511.06856).
    """
    if not getattr(model, "inputs", None) or len(batch) < 2:
        raise InvalidInputError(
            "standardize needs a built Functional model and two inputs of it or more. "
            f"Received: model={getattr(model, 'name', model)!r} and a batch of {len(batch)}"
        )
    waiting = [layer for layer in _leaves(model) if isinstance(layer, (keras.layers.Dense, keras.layers.Conv2D))]
    # One pass: each layer is set right by what it sees, before it answers, and then has its own `call` again.
    for layer in waiting:
        layer.call = _standardized_first(layer)
    try:
        model(batch, training=False)
    finally:
        for layer in waiting:
            vars(layer).pop("call", None)
    return model


def _standardized_first(layer):
    """The `call` of a layer that is `standardize`d when it is called."""

    def call(inputs, **keywords):
        del layer.call
        activation, layer.activation = layer.activation, keras.activations.linear
        outputs = np.asarray(keras.ops.convert_to_numpy(layer.call(inputs)), "float64")
        layer.activation = activation
        axes = tuple(range(outputs.ndim - 1))
        mean, deviation = outputs.mean(axis=axes), outputs.std(axis=axes)
        scale = 1 / np.where(deviation > 1e-6, deviation, 1.0)
        kernel, *bias = (np.asarray(keras.ops.convert_to_numpy(weight)) for weight in layer.weights)
        layer.kernel.assign((kernel * scale).astype("float32"))
        if bias:
            layer.bias.assign(((bias[0] - mean) * scale).astype("float32"))
        return layer.call(inputs, **keywords)

    return call


@keras.saving.register_keras_serializable("sslzoo")
class Deferred(initializers.Initializer):
    """Zeros in place of a layer's own initial values, which something else replaces at once.

    Args:
        wanted: the initializer, or its configuration, that the layer asked for and gets back from `restore`.
    """

    def __init__(self, wanted):
        self.wanted = initializers.get(wanted)

    def __call__(self, shape, dtype=None):
        return keras.ops.zeros(shape, dtype)

    def get_config(self):
        return {"wanted": self.wanted}  # layers made of layers hand initializers down by their configuration


def defer(layer):
    """The same layer, not built yet, which will start at zeros.

    Letting Keras draw values that are replaced at once would cost seconds under JAX, which compiles a program for every
    shape.
    """
    for name, wanted in list(vars(layer).items()):
        if name.endswith("_initializer"):
            setattr(layer, name, Deferred(wanted))
    return layer


def defer_config(config):
    """The configuration of a model whose layers will start at zeros; `restore` gives them their initializers back."""
    if isinstance(config, list):
        return [defer_config(item) for item in config]
    if not isinstance(config, dict):
        return config
    return {
        key: {
            "module": None,
            "class_name": "Deferred",
            "registered_name": "sslzoo>Deferred",
            "config": {"wanted": item},
        }
        if key.endswith("_initializer") and isinstance(item, dict)
        else defer_config(item)
        for key, item in config.items()
    }


def restore(layer):
    """The same layer, built since `defer`, with the initializers it asked for: `get_config` names them."""
    for inner in layer._flatten_layers() if isinstance(layer, keras.Layer) else [layer]:
        for name, initializer in list(vars(inner).items()):
            if isinstance(initializer, Deferred):
                setattr(inner, name, initializer.wanted)
    return layer


def undrawn_copy(model: keras.Model, made: "dict | None" = None) -> keras.Model:
    """A Functional or Sequential model of the same layers, names and shapes, whose weights are all zero.

    `made` holds what was copied of the model around it, for models in it may share layers.
    """
    made = {} if made is None else made

    def copy(layer):
        if id(layer) not in made:
            inner = isinstance(layer, keras.Model)
            new = undrawn_copy(layer, made) if inner else defer(type(layer).from_config(layer.get_config()))
            made[id(layer)] = new
        return made[id(layer)]

    return restore(keras.models.clone_model(model, clone_function=copy))


def give_weights(layer: keras.layers.Layer, weights: list) -> None:
    """`set_weights`, after which layers compute with them: `Normalization` keeps what it makes of them beside them."""
    layer.set_weights(weights)
    for inner in layer._flatten_layers():
        if hasattr(inner, "finalize_state"):
            inner.finalize_state()


def unit_rows(rows: int, size: int, seed: int) -> np.ndarray:
    """Random points on the unit sphere, float32 (rows, size): what a queue holds before it was filled.

    Drawn by NumPy, so that they are equal on every backend.
    """
    points = np.random.default_rng(seed).normal(size=(rows, size))
    return (points / np.linalg.norm(points, axis=1, keepdims=True)).astype("float32")
