"""MMCR: the centroids of images' views have the largest nuclear norm they can."""

from sslzoo import checks
from sslzoo.losses import mmcr_terms
from sslzoo.methods.joint_embedding import JointEmbedding


class MMCR(JointEmbedding):
    """Maximum manifold capacity representations: one nuclear norm both pulls and pushes.

    loss = -|C|_* + manifold_weight mean over images of |Z_i|_*

    with C (B, P) the mean over views of normalized embeddings, and Z_i (J, P) those of image i. `centroids` pulls: the
    mean of unit vectors is the longer the better they agree (the prior); and it pushes: a nuclear norm is the larger
    the more directions its rows take (the stand-in for reconstruction). `manifolds`, which the paper mostly leaves out,
    presses on each image's own spread.

    Args:
        encoder, projector, views: as in `JointEmbedding`; two views or more, 2 to 8 in the paper, whose head for
            features of size D is `networks.projector(D, (8192, 8192, 512))`, for CIFAR-10 `(512, 128)`.
        manifold_weight: float >= 0, the paper's lambda.

    Reference:
        Yerxa, Kuang, Simoncelli and Chung, "Learning Efficient Coding of Natural Images with Maximum Manifold Capacity
        Representations", eq. 4.
    """

    papers = ("https://arxiv.org/abs/2303.03307",)
    terms = {"centroids": "prior, substitute", "manifolds": "prior"}
    view_counts = (2, None)

    def __init__(self, encoder, projector=None, views=None, manifold_weight=0.0, **kwargs):
        super().__init__(encoder, projector, views, **kwargs)
        self.manifold_weight = checks.number(0, manifold_weight=manifold_weight)

    def criterion(self, z):
        terms = mmcr_terms(z)
        return {"centroids": terms["centroids"], "manifolds": self.manifold_weight * terms["manifolds"]}
