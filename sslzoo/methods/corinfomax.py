"""CorInfoMax: views agree, and the embeddings fill as large a volume as they can."""

import numpy as np
from keras import ops

from sslzoo import checks
from sslzoo.errors import InvalidInputError
from sslzoo.losses import corinfomax_terms, unit
from sslzoo.losses.decorrelation import covariance
from sslzoo.methods.advice import Advice
from sslzoo.methods.joint_embedding import JointEmbedding
from sslzoo.methods.papers import SIMVAE
from sslzoo.methods.state import moving_average, variable


class CorInfoMax(JointEmbedding):
    """CorInfoMax: two views of an image agree, while the covariance of each view has as large a determinant as it can.

    loss = invariance_weight |z - z'|^2 / (B D)
           - [ log det(C + regularizer I) + log det(C' + regularizer I) ] / D

    `invariance` pulls the views of an image together and stands for the prior. `log_determinant` is the (negative)
    entropy of Gaussians with the covariances of the embeddings; it pushes images apart in all directions and stands for
    the reconstruction. Embeddings must be kept bounded, by `normalize` (the released code) or by a batch normalization
    at the end of the projector (GEDI).

    Covariances are estimated over steps: C <- momentum C + (1 - momentum) C of the batch, about a mean estimated in the
    same way, starting from 0 and I. Gradients flow through the part of the batch.

    Args:
        encoder, projector, views: as in `JointEmbedding`.
        invariance_weight: float > 0, the paper's alpha: 250 for CIFAR-10, 1000 for CIFAR-100.
        regularizer: float > 0, added to the eigenvalues of the covariances. The released code has 1e-8, in float64.
        momentum: float in [0, 1), weight of the past in the estimates; 0 uses the covariances of the batch alone, as
            GEDI writes it.
        normalize: bool, take embeddings to unit length first.

    Reference:
        Ozsoy et al., "Self-Supervised Learning with an Information Maximization Criterion", eq. 6, with the constants
        of its released code; the GEDI paper (arXiv 2401.00873), section 2.2.
    """

    papers = ("https://arxiv.org/abs/2209.07999", SIMVAE)
    terms = {"invariance": "prior", "log_determinant": "substitute"}
    least_batch = 2
    remembers = ("moving means and covariances of both views",)
    joint_statistics = False
    advice = (Advice("a lower invariance weight", "invariance_weight"),)

    def __init__(
        self,
        encoder,
        projector=None,
        views=None,
        invariance_weight=250.0,
        regularizer=1e-6,
        momentum=0.01,
        normalize=True,
        **kwargs,
    ):
        super().__init__(encoder, projector, views, **kwargs)
        if checks.fraction(momentum=momentum) == 1:
            raise InvalidInputError("momentum must be below 1, to see any batch. Received: momentum=1")
        self.invariance_weight, self.regularizer = checks.positive(
            invariance_weight=invariance_weight, regularizer=regularizer
        )
        self.momentum = momentum
        self.normalize = normalize
        if momentum:
            size = self.embedding_dim
            self.means = variable(self, np.zeros((2, 1, size), "float32"), "means")
            self.covariances = variable(self, np.stack([np.eye(size, dtype="float32")] * 2), "covariances")

    def _estimates(self, z):
        """Means (2, 1, D) and covariances (2, D, D) of two views (B, 2, D), the past counted in."""
        z = self._seen(z)
        means = ops.mean(z, axis=1, keepdims=True)
        if not self.momentum:
            return means, covariance(z)
        means = moving_average(self.means, means, self.momentum)
        return means, moving_average(self.covariances, covariance(z, mean=means), self.momentum)

    def _seen(self, z):
        """Embeddings as the loss sees them, one view after the other: float tensor (2, B, D)."""
        z = ops.swapaxes(z, 0, 1)
        return unit(z) if self.normalize else z

    def criterion(self, z):
        _, covariances = self._estimates(z)
        first, second = ops.unstack(self._seen(z), 2, axis=0)
        return corinfomax_terms(first, second, self.regularizer, covariances)

    def update(self, images, outputs):
        if self.momentum:
            means, covariances = self._estimates(outputs["z"])
            self.means.assign(ops.stop_gradient(means))
            self.covariances.assign(ops.stop_gradient(covariances))
