"""Local aggregation (LA): each view is drawn to the images that its own image clusters with."""

from keras import ops

from sslzoo import checks
from sslzoo.methods.memory_bank import MemoryBank
from sslzoo.methods.papers import MUTUAL_INFORMATION


class LocalAggregation(MemoryBank):
    """Local aggregation: of the images nearest to a view, those in its image's cluster attract it, the rest repel it.

    loss = mean over views of [ -log sum over j in B_i and C_i of exp v . M_j / T
                                + log sum over j in B_i of exp v . M_j / T ]

    with B_i the images nearest to v, as in `Ball`, C_i those that share a cluster with image i in any of several
    clusterings of the bank, and i itself in both. `alignment` pulls a view towards the memory of its image and of those
    it clusters with, `contrast` pushes it from the rest of the ball; the bank and its rules are described in
    `MemoryBank`.

    Clusters are made between epochs, by the callback `ClusterBank`; until then each image is alone in its own, and the
    loss is that of `Ball`. It needs a representation to begin with: the paper starts ImageNet from 10 epochs of
    instance discrimination. Here that is `anneal_steps` of so many epochs with `curve="step"`, which compares with all
    images until then, and `ClusterBank(start=10)`.

    Args:
        encoder, num_images, projector, views, neighbors: as in `MemoryBank`.
        clusters: int >= 2, clusters of each clustering. 300 for CIFAR-10 and 30,000 for ImageNet in the paper.
        clusterings: int >= 1.

    Reference:
        Zhuang, Zhai and Yamins, "Local Aggregation for Unsupervised Learning of Visual Embeddings"; Wu et al., "On
        Mutual Information in Contrastive Learning for Visual Representations", eq. 2. The released code adds 1e-7 to
        the ratio of the two sums; on logarithms it needs no guard.
    """

    papers = ("https://arxiv.org/abs/1903.12355", MUTUAL_INFORMATION)
    without = ("negatives", "inner")
    remembers = ("an embedding of each training image", "its clusters")

    def __init__(self, encoder, num_images, projector=None, views=None, neighbors=4096, clusters=300, **kwargs):
        clusters = checks.count(2, clusters=clusters)  # without any it would be `Ball`
        super().__init__(encoder, num_images, projector, views, neighbors=neighbors, clusters=clusters, **kwargs)

    def sets(self, cosines, places, index, bank):
        ball = self.ball(cosines)
        return ops.logical_and(ball, bank.close(places, index)), ball
