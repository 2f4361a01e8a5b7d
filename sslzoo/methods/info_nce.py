"""InfoNCE with a choice of critic, which is a choice of prior."""

import math

import keras
from keras import ops

from sslzoo.errors import InvalidInputError, choose
from sslzoo.losses import info_nce_terms
from sslzoo.losses.tensors import mean_terms
from sslzoo.methods.joint_embedding import JointEmbedding
from sslzoo.networks.critics import CRITICS


class InfoNCE(JointEmbedding):
    """InfoNCE: the second view of an image, given its first, is distinguished from those of other images.

    loss = mean_i [ -log f(z_i, z'_i) + log sum_j f(z_i, z'_j) ],  z = g(x), z' = g(x')

    f is the critic. "InfoNCE is a variational autoencoder" reads it as the prior P(z' | z) = Q(z') f(z, z') / Z of a
    model whose likelihood is given by the encoder itself, and the loss as its negative evidence. `alignment` is
    -log f: the prior, which pulls a pair together. `contrast` is log Z up to log B: it stands for the reconstruction
    (eq. 5 of "A Probabilistic Model behind Self-Supervised Learning") and pushes different images apart.

    A pair is two views of an image, made by `views`; or anything that belongs together, such as consecutive frames of
    a video, given ready-made as (B, 2, H, W, C).

    Args:
        encoder, projector, views: as in `JointEmbedding`; they serve as both g and g'.
        critic: "bilinear" (z^T W z'), "gaussian" (-|z - z'|^2 / (2 L^2) with L learned from 1), or a layer:
            `sslzoo.networks.GaussianCritic(length_scale=0.2)`, or any that takes z (B, P), z' (B, P) to log f (B, B).
        symmetric: bool. True averages the loss with that of telling z from the other z, given z'. The paper has False.

    Reference:
        "InfoNCE is a variational autoencoder", eq. 3, 5 and 36, with the other images of the batch as negatives; van
        den Oord, Li and Vinyals, "Representation Learning with Contrastive Predictive Coding", eq. 4.
    """

    papers = ("https://arxiv.org/abs/2107.02495",)
    terms = {"alignment": "prior", "contrast": "substitute"}
    least_batch = 2

    def __init__(self, encoder, projector=None, views=None, critic="bilinear", symmetric=False, **kwargs):
        super().__init__(encoder, projector, views, **kwargs)
        self.symmetric = symmetric
        if isinstance(critic, str):
            critic = CRITICS[choose("critic", critic, CRITICS)](self.embedding_dim)
        self.critic = critic
        if not isinstance(self.critic, keras.Layer):
            raise InvalidInputError(f"critic must be a name or a Keras layer. Received: critic={self.critic!r}")
        batch = keras.KerasTensor((3, self.embedding_dim))
        scores = self.critic(batch, batch)  # also builds what is not built yet
        if tuple(scores.shape) != (3, 3):
            raise InvalidInputError(
                "critic must give a score for each pair, (B, B) for two batches of B. "
                f"Received: critic={self.critic.name!r}, which gives {tuple(scores.shape)} for B=3"
            )

    def criterion(self, z):
        scores = self.critic(z[:, 0], z[:, 1])
        directions = [scores, ops.transpose(scores)] if self.symmetric else [scores]
        return mean_terms([info_nce_terms(each) for each in directions])

    def chance_level(self, batch_size: int) -> float:
        """ln B: the loss of a critic that distinguishes nothing."""
        return math.log(batch_size)
