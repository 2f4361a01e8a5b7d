"""Annulus discrimination (ANN): each view against images that look like it, but not those too like it."""

from sslzoo.errors import InvalidInputError
from sslzoo.methods.memory_bank import MemoryBank
from sslzoo.methods.papers import MUTUAL_INFORMATION


class Annulus(MemoryBank):
    """Annulus discrimination: negatives from the ball around a view, without those too close to be other things.

    loss = mean over views of [ -v . M_i / T + log sum over j in {i} and B_i without C_i of exp v . M_j / T ]

    with B_i the images nearest to v, as in `Ball`, and C_i those that share a cluster with image i in any of several
    clusterings of the bank. `alignment` pulls a view towards the memory of its image, `contrast` pushes it from the
    images of the ring; the bank and its rules are described in `MemoryBank`. The paper prints the loss without its
    positive in the denominator, where nothing keeps it from falling for ever; its lemma and its later code have it.

    Clusters are made between epochs, by the callback `ClusterBank`:

        model.fit(data, callbacks=[ClusterBank()])

    ANN+ anneals both radii: with `inner` the nearest of the ball take the clusters' place, as in the authors' later
    code (a tenth), and `anneal_steps` shrinks the ball and what is left out of it together.

    Args:
        encoder, num_images, projector, views, neighbors: as in `MemoryBank`.
        clusters: int >= 2, clusters of each clustering, or None with `inner`. 300 for CIFAR-10 and 30,000 for ImageNet
            in the paper, which calls them "k-nearest neighbors"; its code runs k-means.
        clusterings: int >= 1.
        inner: float from 0 to 1, share of the ball that is left out instead of clusters.

    Reference:
        Wu et al., "On Mutual Information in Contrastive Learning for Visual Representations", lemma 5.1 and section 5.
    """

    papers = (MUTUAL_INFORMATION,)
    without = ("negatives",)
    remembers = ("an embedding of each training image", "its clusters")

    def __init__(self, encoder, num_images, projector=None, views=None, neighbors=4096, clusters=300, **kwargs):
        super().__init__(encoder, num_images, projector, views, neighbors=neighbors, clusters=clusters, **kwargs)
        if clusters is None and self.inner is None:
            raise InvalidInputError(
                "An annulus leaves out what is close: by clusters or by an inner radius. "
                "Received: clusters=None, inner=None"
            )
