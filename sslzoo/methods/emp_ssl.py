"""EMP-SSL: many patches of an image agree with their mean, while each batch of patches fills a large volume."""

from sslzoo import checks
from sslzoo.losses import emp_ssl_terms
from sslzoo.methods.joint_embedding import JointEmbedding


class EMPSSL(JointEmbedding):
    """EMP-SSL: extreme multi-patch learning, some epochs of very many views in the place of very many epochs of two.

    loss = -mean over views of 1/2 log det(I + D / (B epsilon^2) Z_v^T Z_v)
           - alignment_weight mean over images and views of cos(z_v, mean of views)

    `alignment` pulls the views of an image together and stands for the prior; `coding_rate`, the log-volume that a
    batch fills, pushes images apart and stands for the reconstruction.

    Args:
        encoder, projector, views: as in `JointEmbedding`; two views or more, 20 to 200 small crops in the paper, whose
            head for features of size D is `networks.projector(D, (4096, 4096, 512))`.
        alignment_weight: float > 0, the paper's lambda.
        epsilon: float > 0, of the coding rate; 0.2 is its square in the released code.

    Reference:
        Tong, Chen, Ma and LeCun, "EMP-SSL: Towards Self-Supervised Learning in One Training Epoch", eq. 2-4.
    """

    papers = ("https://arxiv.org/abs/2304.03977",)
    terms = {"coding_rate": "substitute", "alignment": "prior"}
    view_counts = (2, None)

    def __init__(self, encoder, projector=None, views=None, alignment_weight=200.0, epsilon=0.2**0.5, **kwargs):
        super().__init__(encoder, projector, views, **kwargs)
        self.alignment_weight, self.epsilon = checks.positive(alignment_weight=alignment_weight, epsilon=epsilon)

    def criterion(self, z):
        return emp_ssl_terms(z, self.epsilon)
