"""DCL: SimCLR without the positive among the negatives."""

import math

from sslzoo import checks
from sslzoo.losses import dcl_terms
from sslzoo.methods.simclr import SimCLR


class DCL(SimCLR):
    """Decoupled contrastive learning: two views of an image attract, views of other images repel, each on its own.

    loss = mean over the 2 B views of [ -w s(view, its other view) / T + log sum exp s(view, views of others) / T ]

    with s the cosine similarity of embeddings. `alignment` pulls and `contrast` pushes as in SimCLR, which has the
    positive in the sum too, and whose gradient fades for pairs that are close already, the more so the smaller the
    batch.

    Args:
        encoder, projector, views: as in `JointEmbedding`.
        temperature: float > 0. The paper has 0.07, lightly 0.1.
        sigma: float > 0, of the weighted form (DCLW; the paper has 0.5), or None.

    Reference:
        Yeh et al., "Decoupled Contrastive Learning" (arXiv 2110.06848), eq. 5 and 6.
    """

    papers = ("https://arxiv.org/abs/2110.06848",)

    def __init__(self, encoder, projector=None, views=None, temperature=0.1, sigma=None, **kwargs):
        super().__init__(encoder, projector, views, temperature, **kwargs)
        self.sigma = None if sigma is None else checks.positive(sigma=sigma)

    def criterion(self, z):
        return dcl_terms(z[:, 0], z[:, 1], self.temperature, self.sigma)

    def chance_level(self, batch_size: int) -> float:
        """Loss when all embeddings are equal: log(2 batch_size - 2), in nats."""
        return math.log(2 * batch_size - 2)
