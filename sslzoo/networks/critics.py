"""Critics: layers that score every pair of two batches of embeddings, with parameters of their own.

A critic is a layer called on z (B, P) and z' (B', P) that returns log-scores log f(z_i, z'_j) as (B, B'). By the
reading of "InfoNCE is a variational autoencoder" it is a prior: P(z' | z) = Q(z') f(z, z') / Z (eq. 30). So its form
says what is believed of the two latents of a pair, and terms that depend on z alone cancel.
"""

import math

import keras
from keras import ops

from sslzoo import checks


class _Critic(keras.Layer):
    """Computes and keeps its parameters in float32, whatever the dtype policy, and makes them at once."""

    def __init__(self, **kwargs):
        super().__init__(**{**kwargs, "dtype": "float32"})


@keras.saving.register_keras_serializable("sslzoo")
class BilinearCritic(_Critic):
    """log f(z, z') = z^T W z', the critic of the original InfoNCE: a linear prior.

    With W = I, the start, it is the inner product. Unlike `GaussianCritic` it depends on where the origin is, and its
    score of z' has no greatest value: it grows for ever in the direction W^T z.

    Example:
        critic = networks.BilinearCritic(embedding_dim=8)
        z = np.random.default_rng(0).normal(size=(2, 4, 8)).astype("float32")
        critic(z[0], z[1]).shape  # (4, 4), a score for each pair

    Args:
        embedding_dim: int, size P of the embeddings.
        **kwargs: `name` of `keras.Layer`; the dtype is always float32.

    Reference:
        "InfoNCE is a variational autoencoder", eq. 5.
    """

    def __init__(self, embedding_dim: int, **kwargs):
        super().__init__(**kwargs)
        self.embedding_dim = checks.count(embedding_dim=embedding_dim)
        self.kernel = self.add_weight((self.embedding_dim,) * 2, initializer="identity", name="kernel")
        self.built = True

    def call(self, z, z_prime):
        return ops.matmul(ops.matmul(z, self.kernel), ops.transpose(z_prime))

    def get_config(self):
        return {**super().get_config(), "embedding_dim": self.embedding_dim}


@keras.saving.register_keras_serializable("sslzoo")
class GaussianCritic(_Critic):
    """log f(z, z') = -|z - z'|^2 / (2 L^2): z' is believed to be near z, N(z'; z, L^2 I), with L learned.

    The normalizer of the Gaussian is left out: it is the same for all candidates and cancels. The scores do not change
    when all embeddings are moved together; they equal those of `BilinearCritic` with W = I / L^2 plus
    -|z'|^2 / (2 L^2), what a candidate pays for being far out.

    Example:
        critic = networks.GaussianCritic(length_scale=0.5)
        z = np.random.default_rng(0).normal(size=(2, 4, 8)).astype("float32")
        critic(z[0], z[1]).shape  # (4, 4), a score for each pair

    Args:
        length_scale: float > 0, where L starts, in the units of the embeddings. What is learned is log L.
        **kwargs: `name` of `keras.Layer`; the dtype is always float32.

    Reference:
        "InfoNCE is a variational autoencoder", eq. 35 and 36.
    """

    def __init__(self, length_scale: float = 1.0, **kwargs):
        super().__init__(**kwargs)
        self.length_scale = checks.positive(length_scale=length_scale)
        start = keras.initializers.Constant(math.log(length_scale))
        self.log_length_scale = self.add_weight((), initializer=start, name="log_length_scale")
        self.built = True

    def call(self, z, z_prime):
        # |z|^2 + |z'|^2 - 2 z.z' loses digits far from the origin, which may be moved freely.
        origin = ops.stop_gradient(ops.mean(z_prime, axis=0))
        z, z_prime = z - origin, z_prime - origin
        squared = ops.sum(ops.square(z), axis=1)[:, None] + ops.sum(ops.square(z_prime), axis=1)[None, :]
        return (ops.matmul(z, ops.transpose(z_prime)) - 0.5 * squared) * ops.exp(-2.0 * self.log_length_scale)

    def get_config(self):
        return {**super().get_config(), "length_scale": self.length_scale}


# Name -> constructor, of the size P of the embeddings.
CRITICS = {"bilinear": BilinearCritic, "gaussian": lambda embedding_dim: GaussianCritic()}
