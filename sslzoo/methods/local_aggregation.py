"""Local aggregation (LA): each view is drawn to the images that its own image clusters with."""

import keras
from keras import ops

from sslzoo.methods.memory_bank import MemoryBank


@keras.saving.register_keras_serializable("sslzoo")
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
    images until then, and `ClusterBank(start=10)`; or `start_from` a model trained so.

    Example:
        import numpy as np
        from sslzoo import methods, networks, views
        from sslzoo.methods.memory_bank import ClusterBank

        images = np.random.default_rng(0).integers(0, 256, (64, 8, 8, 1)).astype("uint8")
        encoder = networks.encoder("mlp-small", (8, 8, 1), 10)
        model = methods.LocalAggregation(encoder, 64, views=views.Views("simvae-digits", 1), neighbors=32, clusters=8)
        model.compile(optimizer="sgd")
        given = {"images": images, "index": np.arange(64)}
        model.fit(given, batch_size=16, epochs=2, verbose=0, callbacks=[ClusterBank()])

    Args:
        encoder, projector, views, num_images, temperature, momentum, seed: as in `MemoryBank`.
        neighbors, anneal_steps, curve: as in `Ball`.
        clusters, clusterings: as in `Annulus`.

    Raises:
        InvalidInputError: as `MemoryBank`.

    Reference:
        Zhuang, Zhai and Yamins, "Local Aggregation for Unsupervised Learning of Visual Embeddings"; Wu et al., "On
        Mutual Information in Contrastive Learning for Visual Representations", eq. 2. The released code adds 1e-7 to
        the ratio of the two sums; on logarithms it needs no guard.
    """

    papers = (
        {
            "title": "Local Aggregation for Unsupervised Learning of Visual Embeddings",
            "url": "https://arxiv.org/abs/1903.12355",
        },
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
        clusters: int = 300,
        clusterings: int = 10,
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
            temperature=temperature,
            momentum=momentum,
            seed=seed,
            **kwargs,
        )
        self.bank = self.make_bank(self.embedding_dim, seed)

    def sets(self, cosines, places, index, bank):
        ball = self.ball(cosines)
        return ops.logical_and(ball, bank.close(places, index)), ball
