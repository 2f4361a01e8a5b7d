"""VICReg: views agree, every coordinate keeps its spread, and no two coordinates say the same."""

from sslzoo import checks
from sslzoo.losses import vicreg_terms
from sslzoo.methods.advice import Advice
from sslzoo.methods.joint_embedding import JointEmbedding
from sslzoo.methods.papers import SIMVAE


class VICReg(JointEmbedding):
    """VICReg: two views of an image agree, while the batch keeps unit spread in each of its uncorrelated coordinates.

    loss = invariance_weight |z - z'|^2 / (B D)
           + variance_weight mean over views and coordinates of relu(1 - sqrt(Var + 1e-4))
           + covariance_weight sum over views of sum_{i != j} Cov_ij^2 / D

    `invariance` pulls the views of an image together and stands for the prior. `variance` and `covariance` push images
    apart and stand for the reconstruction: the one against collapse to a point, the other against collapse to few
    directions. Both are up to second order only, and neither distinguishes views of one image: style is lost.

    Args:
        encoder, projector, views: as in `JointEmbedding`.
        invariance_weight, variance_weight, covariance_weight: float > 0, the paper's lambda, mu and nu.

    Reference:
        Bardes, Ponce and LeCun, "VICReg: Variance-Invariance-Covariance Regularization for Self-Supervised Learning",
        eq. 6, with the constants of its released code: half the variance term of the paper's equation.
    """

    papers = ("https://arxiv.org/abs/2105.04906", SIMVAE)
    terms = {"invariance": "prior", "variance": "substitute", "covariance": "substitute"}
    least_batch = 2
    joint_statistics = False
    advice = (
        Advice("a higher covariance weight", "covariance_weight", ("dimensional",)),
        Advice("a higher variance weight", "variance_weight", ("complete", "cone")),
        Advice("a lower invariance weight", "invariance_weight"),
    )

    def __init__(
        self,
        encoder,
        projector=None,
        views=None,
        invariance_weight=25.0,
        variance_weight=25.0,
        covariance_weight=1.0,
        **kwargs,
    ):
        super().__init__(encoder, projector, views, **kwargs)
        self.invariance_weight, self.variance_weight, self.covariance_weight = checks.positive(
            invariance_weight=invariance_weight, variance_weight=variance_weight, covariance_weight=covariance_weight
        )

    def criterion(self, z):
        return vicreg_terms(z[:, 0], z[:, 1])
