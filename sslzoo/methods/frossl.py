"""FroSSL: views agree, and the spectrum of each view's covariance is flat."""

from sslzoo import checks
from sslzoo.losses import frossl_terms
from sslzoo.methods.advice import Advice
from sslzoo.methods.joint_embedding import JointEmbedding


class FroSSL(JointEmbedding):
    """FroSSL: the Frobenius norm of a trace-normalized covariance is least where all directions are used alike.

    loss = sum over views of 2 log |K_v / trace K_v|_F
           + invariance_weight sum over views of J D mean (z_v - mean of views)^2

    `invariance` pulls the views of an image together and stands for the prior; `spectrum`, minus the Renyi entropy of
    order 2 of each view's spectrum, pushes images apart and stands for the reconstruction. It needs no eigenvalues, and
    the logarithm makes it the same demand at every number of coordinates.

    Args:
        encoder, projector, views: as in `JointEmbedding`; two views or more. The paper's head for features of size D is
            `networks.projector(D, (2048, 2048, 1024))`.
        invariance_weight: float > 0, the paper's gamma, tuned between 1 and 2.

    Reference:
        Skean, Dhakal, Jacobs and Giraldo, "FroSSL: Frobenius Norm Minimization for Efficient Multiview Self-Supervised
        Learning", eq. 6.
    """

    papers = ("https://arxiv.org/abs/2310.02903",)
    terms = {"spectrum": "substitute", "invariance": "prior"}
    view_counts = (2, None)
    advice = (Advice("a lower invariance weight", "invariance_weight"),)

    def __init__(self, encoder, projector=None, views=None, invariance_weight=1.0, **kwargs):
        super().__init__(encoder, projector, views, **kwargs)
        self.invariance_weight = checks.positive(invariance_weight=invariance_weight)

    def criterion(self, z):
        return frossl_terms(z)
