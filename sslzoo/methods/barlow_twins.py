"""Barlow Twins: the cross-correlation of two views is to be the identity."""

from sslzoo import checks
from sslzoo.losses import barlow_twins_terms
from sslzoo.methods.advice import Advice
from sslzoo.methods.joint_embedding import JointEmbedding
from sslzoo.methods.papers import SIMVAE


class BarlowTwins(JointEmbedding):
    """Barlow Twins: each coordinate of one view correlates with itself in the other view, and with no other coordinate.

    loss = scale [ sum_i (c_ii - 1)^2 + off_diagonal_weight sum_{i != j} c_ij^2 ]

    with c the correlations over the batch between the coordinates of the two views. `invariance` pulls the views of an
    image together and stands for the prior; since correlations do not see scale, it also asks of each coordinate that
    it differ between images. `redundancy` spreads the images over all directions and stands for the reconstruction.

    Args:
        encoder, projector, views: as in `JointEmbedding`.
        off_diagonal_weight: float > 0, the paper's lambda.
        scale: float > 0 of the whole loss, which sums over D coordinates and their pairs: of use where the step of the
            optimizer depends on the size of the gradient (the released code has 0.024, solo-learn 0.1 for CIFAR-10).

    Reference:
        Zbontar et al., "Barlow Twins: Self-Supervised Learning via Redundancy Reduction", eq. 1 and 2.
    """

    papers = ("https://arxiv.org/abs/2103.03230", SIMVAE)
    terms = {"invariance": "prior", "redundancy": "substitute"}
    least_batch = 2
    joint_statistics = False
    advice = (Advice("a higher off-diagonal weight", "off_diagonal_weight", ("dimensional",)),)

    def __init__(self, encoder, projector=None, views=None, off_diagonal_weight=0.0051, scale=1.0, **kwargs):
        super().__init__(encoder, projector, views, **kwargs)
        self.off_diagonal_weight, self.scale = checks.positive(off_diagonal_weight=off_diagonal_weight, scale=scale)

    def criterion(self, z):
        terms = barlow_twins_terms(z[:, 0], z[:, 1])
        redundancy = self.off_diagonal_weight * terms["redundancy"]
        return {"invariance": self.scale * terms["invariance"], "redundancy": self.scale * redundancy}
