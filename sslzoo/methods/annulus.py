"""Annulus discrimination (ANN): each view is to be told from images that look like it, but not from its likes."""

import keras

from sslzoo.errors import InvalidInputError
from sslzoo.methods.memory_bank import MemoryBank


@keras.saving.register_keras_serializable("sslzoo")
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

    Example:
        import numpy as np
        from sslzoo import methods, networks, views
        from sslzoo.methods.memory_bank import ClusterBank

        images = np.random.default_rng(0).integers(0, 256, (64, 8, 8, 1)).astype("uint8")
        encoder = networks.encoder("mlp-small", (8, 8, 1), 10)
        model = methods.Annulus(encoder, 64, views=views.Views("simvae-digits", 1), neighbors=32, clusters=8)
        model.compile(optimizer="sgd")
        given = {"images": images, "index": np.arange(64)}
        model.fit(given, batch_size=16, epochs=2, verbose=0, callbacks=[ClusterBank()])

    Args:
        encoder, projector, views, num_images, temperature, momentum, seed: as in `MemoryBank`.
        neighbors, anneal_steps, curve: as in `Ball`.
        clusters: int >= 2, clusters of each clustering, or None with `inner`. 300 for CIFAR-10 and 30,000 for ImageNet
            in the paper, which calls them "k-nearest neighbors"; its code runs k-means.
        clusterings: int >= 1.
        inner: float from 0 to 1, share of the ball that is left out instead of clusters.

    Raises:
        InvalidInputError: as `MemoryBank`, or neither `clusters` nor `inner`.

    Reference:
        Wu et al., "On Mutual Information in Contrastive Learning for Visual Representations", lemma 5.1 and section 5.
    """

    papers = (
        {
            "title": "On Mutual Information in Contrastive Learning for Visual Representations",
            "url": "https://arxiv.org/abs/2005.13149",
        },
    )
    remembers = ("an embedding of each training image", "its clusters")

    def __init__(
        self,
        encoder: keras.Model,
        num_images: int,
        projector: keras.Model | None = None,
        views: keras.Layer | None = None,
        neighbors: int = 4096,
        anneal_steps: int = 0,
        curve: str = "linear",
        clusters: int | None = 300,
        clusterings: int = 10,
        inner: float | None = None,
        temperature: float = 0.07,
        momentum: float = 0.5,
        seed: int = 0,
        **kwargs,
    ):
        super().__init__(
            encoder,
            num_images,
            projector,
            views,
            neighbors=neighbors,
            anneal_steps=anneal_steps,
            curve=curve,
            clusters=clusters,
            clusterings=clusterings,
            inner=inner,
            temperature=temperature,
            momentum=momentum,
            seed=seed,
            **kwargs,
        )
        if clusters is None and inner is None:
            raise InvalidInputError(
                "An annulus leaves out what is close: by clusters or by an inner radius. "
                "Received: clusters=None, inner=None"
            )
        self.bank = self.make_bank(self.embedding_dim, seed)
