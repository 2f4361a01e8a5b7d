"""SimCLR: the other view of an image against all other views of the batch."""

import math

from sslzoo import checks
from sslzoo.losses import nt_xent_terms
from sslzoo.methods.advice import LOWER_TEMPERATURE
from sslzoo.methods.joint_embedding import JointEmbedding
from sslzoo.methods.papers import SIMVAE


class SimCLR(JointEmbedding):
    """SimCLR: two views of an image attract, all views of other images in the batch repel.

    loss = mean over the 2 B views of [ -s(view, its other view) / T + log sum exp s(view, any other view) / T ]

    with s the cosine similarity of embeddings. `alignment` pulls the views of an image together and stands for the
    prior; `contrast` pushes every view from all others, which raises the entropy of the embeddings, and stands for the
    reconstruction. Cosine similarity is bounded, so views of an image end up in one point: style is lost.

    Args:
        encoder, projector, views: as in `JointEmbedding`.
        temperature: float > 0. 0.5 is the paper's for CIFAR-10; the SimVAE paper has 0.7.

    Reference:
        Chen et al., "A Simple Framework for Contrastive Learning of Visual Representations", eq. 1 and algorithm 1.
        Its released code adds the means over first and second views; this is the mean over both, half of that.
    """

    papers = ("https://arxiv.org/abs/2002.05709", SIMVAE)
    terms = {"alignment": "prior", "contrast": "substitute"}
    least_batch = 2
    advice = (LOWER_TEMPERATURE,)

    def __init__(self, encoder, projector=None, views=None, temperature=0.5, **kwargs):
        super().__init__(encoder, projector, views, **kwargs)
        self.temperature = checks.positive(temperature=temperature)

    def criterion(self, z):
        return nt_xent_terms(z[:, 0], z[:, 1], self.temperature)

    def chance_level(self, batch_size: int) -> float:
        """Loss when all embeddings are equal: log(2 batch_size - 1), in nats."""
        return math.log(2 * batch_size - 1)
