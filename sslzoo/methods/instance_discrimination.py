"""Instance discrimination (IR): each view is to find its image in a memory of all images."""

import math

from keras import ops

from sslzoo import checks
from sslzoo.errors import InvalidInputError, choose
from sslzoo.losses import info_nce_terms, noise_contrastive_terms, unit
from sslzoo.methods.memory_bank import MemoryBank
from sslzoo.methods.papers import MUTUAL_INFORMATION, NON_PARAMETRIC
from sslzoo.methods.simclr import SimCLR
from sslzoo.methods.state import snapshot

FORMS = ("softmax", "nce")


class InstanceDiscrimination(MemoryBank):
    """Instance discrimination: a view is distinguished from images drawn at random, each remembered by one vector.

    loss = mean over views of [ -v . M_i / T + log( exp v . M_i / T + sum over drawn j of exp v . M_j / T ) ]

    `alignment` pulls a view towards the memory of its image, `contrast` pushes it from those of others; the bank and
    its rules are described in `MemoryBank`. One draw of images serves all views of a step. The loss is log K minus a
    lower bound of the mutual information of views (InfoNCE), so it needs no estimate of the softmax over all images;
    with `negatives=None`, or a bank no larger than that, it is that softmax.

    Args:
        encoder, projector, views, num_images, temperature, seed: as in `MemoryBank`.
        negatives: int >= 1, images drawn for each step; None for all.
        momentum: float, 0 < momentum <= 1, of the bank; `InBatchDiscrimination` needs none.
        form: "softmax" is the loss above. "nce" is the original one, a yes or no for each drawn image with a constant
            for the denominator that was measured on ImageNet (`losses.noise_contrastive`): unstable elsewhere.

    Reference:
        Wu et al., "Unsupervised Feature Learning via Non-Parametric Instance Discrimination"; as InfoNCE in Wu et al.,
        "On Mutual Information in Contrastive Learning for Visual Representations", eq. 5 and 6.
    """

    papers = (NON_PARAMETRIC, MUTUAL_INFORMATION)
    without = ("neighbors", "anneal_steps", "curve", "clusters", "clusterings", "inner")

    def __init__(
        self, encoder, num_images, projector=None, views=None, negatives=4096, momentum=0.5, form="softmax", **kwargs
    ):
        if not checks.fraction(momentum=momentum):
            raise InvalidInputError(
                "momentum must be above 0; without a memory, InBatchDiscrimination takes another view of the image. "
                "Received: momentum=0"
            )
        super().__init__(encoder, num_images, projector, views, negatives=negatives, momentum=momentum, **kwargs)
        self.form = choose("form", form, FORMS)

    def compare(self, v, bank, index, drawn):
        if self.form == "softmax":
            return super().compare(v, bank, index, drawn)
        rows = snapshot(bank.rows)
        own = ops.sum(v * ops.take(rows, index, axis=0), axis=1)
        cosines, _ = self.candidates(v, rows, drawn)
        return noise_contrastive_terms(own / self.temperature, cosines / self.temperature, self.num_images)

    def chance_level(self, batch_size: int) -> float | None:
        """Loss when all vectors are equal: the log of the number of candidates; None for the original form."""
        return None if self.form == "nce" else super().chance_level(batch_size)


class InBatchDiscrimination(SimCLR):
    """Instance discrimination without a bank: the memory of an image is another view of it, drawn now.

    loss = mean_i [ -z_i . z'_i / T + log sum_j exp z_i . z'_j / T ],  of unit length

    `alignment` pulls the two views of an image together and stands for the prior; `contrast` pushes the first off the
    second views of the other images of the batch and stands for the reconstruction. Gradients flow through both. The
    paper finds it as good as a bank.

    Args:
        encoder, projector, views: as in `JointEmbedding`.
        temperature: float > 0, T.

    Reference:
        Wu et al., "On Mutual Information in Contrastive Learning for Visual Representations", eq. 9.
    """

    papers = InstanceDiscrimination.papers

    def __init__(self, encoder, projector=None, views=None, temperature=0.07, **kwargs):
        super().__init__(encoder, projector, views, temperature, **kwargs)

    def criterion(self, z):
        return info_nce_terms(ops.matmul(unit(z[:, 0]), ops.transpose(unit(z[:, 1]))) / self.temperature)

    def chance_level(self, batch_size: int) -> float:
        """Loss when all embeddings are equal: log(batch_size), in nats."""
        return math.log(batch_size)
