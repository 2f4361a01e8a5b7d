"""Heads: small MLPs between a representation and the loss. Evaluation uses what comes before them."""

import keras
from keras import layers

from sslzoo import checks
from sslzoo.errors import InvalidInputError
from sslzoo.networks import blocks
from sslzoo.networks.initialization import initialize, unit_rows


def projector(
    input_dim: int,
    widths: tuple[int, ...],
    batch_norm: bool = True,
    output_batch_norm: bool = False,
    activation: str = "relu",
    output_bias: bool = True,
    seed: int | None = None,
    name: str = "projector",
) -> keras.Model:
    """An MLP head: dense, batch normalization, activation for each width but the last, which is linear.

    | method | call, for features of size D |
    |---|---|
    | SimCLR | `projector(D, (D, 128), batch_norm=False)`; its released code `batch_norm=True, output_batch_norm=True` |
    | MoCo v2 | `projector(D, (D, 128), batch_norm=False)` |
    | VICReg, Barlow Twins | `projector(D, (8192, 8192, 8192), output_bias=False)` |
    | SwAV | `projector(D, (2048, 128))` |
    | GEDI | `projector(F, (2 * F, F), batch_norm=False)` |

    Example:
        head = networks.projector(10, (20, 8), seed=0)
        head(np.zeros((4, 10), "float32")).shape  # (4, 8)

    Args:
        input_dim: int, size of the representation.
        widths: tuple of int, sizes of all layers, the output's last.
        batch_norm: bool, normalize hidden layers; they have no bias then, which normalization would remove.
        output_batch_norm: bool, normalize the output too, without a learned scale and offset.
        activation: str, of hidden layers; "relu" or another of Keras' names.
        output_bias: bool, give the last layer a bias (never with `output_batch_norm`).
        seed: int >= 0 or None, as in `networks.encoder`.
        name: str, name of the model.

    Returns:
        Functional `keras.Model`: float (B, input_dim) -> (B, widths[-1]).

    Raises:
        InvalidInputError: a size that is not a positive integer, no widths, or no such activation.
    """
    try:
        keras.activations.get(activation)
    except (ValueError, TypeError) as error:
        raise InvalidInputError(f"activation must be one of Keras'. Received: {activation=}") from error
    x = features = keras.Input((checks.count(input_dim=input_dim),), name="features")
    *hidden, output = checks.widths(widths=widths)
    for index, width in enumerate(hidden, 1):
        x = blocks.dense(x, width, f"fc{index}", use_bias=not batch_norm)
        if batch_norm:
            x = blocks.batch_norm(x, f"bn{index}")
        x = layers.Activation(activation, name=f"activation{index}")(x)
    dtype = blocks.output_dtype()
    x = blocks.dense(x, output, "projection", use_bias=output_bias and not output_batch_norm, dtype=dtype)
    if output_batch_norm:
        x = blocks.batch_norm(x, "projection_bn", center=False, scale=False, dtype=dtype)
    return initialize(keras.Model(features, x, name=name), seed)


def predictor(input_dim: int, hidden: int, seed: int | None = None, name: str = "predictor") -> keras.Model:
    """The head that one of two branches has on top (BYOL, SimSiam): dense, batch normalization, ReLU, linear.

    Example:
        head = networks.predictor(8, hidden=4, seed=0)
        head(np.zeros((4, 8), "float32")).shape  # (4, 8)

    Args:
        input_dim: int, size of the projection, and of the output.
        hidden: int, size of the hidden layer.
        seed: int >= 0 or None, as in `networks.encoder`.
        name: str, name of the model.

    Returns:
        Functional `keras.Model`: float (B, input_dim) -> (B, input_dim).
    """
    return projector(input_dim, (hidden, input_dim), seed=seed, name=name)


def prototype_head(input_dim: int, prototypes: int, seed: int) -> keras.Model:
    """Embeddings (N, P) -> float32 scores (N, K), inner products with K trained prototypes of unit length.

    A constraint puts prototypes back on the sphere after each step, as SwAV's code does before the next. They start at
    random points, drawn by NumPy.

    Example:
        head = networks.prototype_head(8, prototypes=20, seed=0)
        head(np.zeros((4, 8), "float32")).shape  # (4, 20)
    """
    embedding = keras.Input((input_dim,), name="embedding")
    constraint = keras.constraints.UnitNorm(axis=0)
    options = {"use_bias": False, "kernel_constraint": constraint, "dtype": "float32"}
    head = keras.Model(embedding, blocks.dense(embedding, prototypes, "prototypes", **options), name="prototype_head")
    head.set_weights([unit_rows(prototypes, input_dim, seed).T])
    return head
