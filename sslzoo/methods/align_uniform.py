"""Alignment and uniformity: views agree on the unit sphere, over which images spread evenly."""

from sslzoo import checks
from sslzoo.losses import align_uniform_terms
from sslzoo.methods.advice import Advice
from sslzoo.methods.joint_embedding import JointEmbedding


class AlignUniform(JointEmbedding):
    """Alignment and uniformity: the two halves that contrastive losses have in the limit of many negatives, by name.

    loss = mean |z - z'|^2 + uniformity_weight mean over both views of log mean_{i != j} exp(-t |z_i - z_j|^2)

    with z of length 1. `alignment` pulls the views of an image together and stands for the prior. `uniformity` pushes
    images apart, the more the nearer they are, and stands for the reconstruction: the uniform distribution on the
    sphere, of the highest entropy, is where it is least. Views of one image do not repel, so style is lost.

    Args:
        encoder, projector, views: as in `JointEmbedding`.
        uniformity_weight: float > 0, against an alignment of weight 1.
        t: float > 0, how near another image must be to repel: a Gaussian kernel of variance 1 / (2 t).

    Reference:
        Wang and Isola, "Understanding Contrastive Representation Learning through Alignment and Uniformity on the
        Hypersphere" (arXiv 2005.10242), section 4.1; the defaults are those of its released code.
    """

    papers = ("https://arxiv.org/abs/2005.10242",)
    terms = {"alignment": "prior", "uniformity": "substitute"}
    least_batch = 2
    advice = (Advice("a higher uniformity weight", "uniformity_weight", ("complete", "dimensional", "cone", "chance")),)

    def __init__(self, encoder, projector=None, views=None, uniformity_weight=1.0, t=2.0, **kwargs):
        super().__init__(encoder, projector, views, **kwargs)
        self.uniformity_weight, self.t = checks.positive(uniformity_weight=uniformity_weight, t=t)

    def criterion(self, z):
        return align_uniform_terms(z[:, 0], z[:, 1], self.t)

    def chance_level(self, batch_size: int) -> float:
        """Loss when all embeddings are equal: 0."""
        return 0.0
