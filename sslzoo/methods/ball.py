"""Ball discrimination (BALL): each view is to be told from the images that look most like it."""

import keras

from sslzoo.methods.memory_bank import MemoryBank


@keras.saving.register_keras_serializable("sslzoo")
class Ball(MemoryBank):
    """Ball discrimination: instance discrimination with hard negatives, the nearest of the bank.

    loss = mean over views of [ -v . M_i / T + log sum over j in B_i of exp v . M_j / T ],  B_i the images nearest to v,
                                                                                         with i itself

    `alignment` pulls a view towards the memory of its image, `contrast` pushes it from its neighbours' (and only
    theirs); the bank and its rules are described in `MemoryBank`. Negatives from a ball make a looser bound on the
    mutual information (VINCE) and a harder task. Early in training hard negatives can mislead: `anneal_steps` begins
    with all images and shrinks the ball as it trains, which is BALL+.

    The ball is exact, that of the view itself (the paper takes the neighbours of M_i; its code does as is done here).

    Example:
        import numpy as np
        from sslzoo import methods, networks, views

        images = np.random.default_rng(0).integers(0, 256, (64, 8, 8, 1)).astype("uint8")
        encoder = networks.encoder("mlp-small", (8, 8, 1), 10)
        model = methods.Ball(encoder, 64, views=views.Views("simvae-digits", 1), neighbors=16, anneal_steps=8)
        model.compile(optimizer="sgd")
        model.fit({"images": images, "index": np.arange(64)}, batch_size=16, epochs=2, verbose=0)

    Args:
        encoder, projector, views, num_images, temperature, momentum, seed: as in `MemoryBank`.
        neighbors: int >= 1, images in the ball; all images if there are not as many.
        anneal_steps: int >= 0, steps in which the ball shrinks from all images to that; 0 for BALL.
        curve: "linear", "exponential" or "step", how it shrinks. The paper does not say.

    Raises:
        InvalidInputError: as `MemoryBank`.

    Reference:
        Wu et al., "On Mutual Information in Contrastive Learning for Visual Representations", lemma 5.1 and section 5.
    """

    papers = (
        {
            "title": "On Mutual Information in Contrastive Learning for Visual Representations",
            "url": "https://arxiv.org/abs/2005.13149",
        },
    )

    def __init__(
        self,
        encoder: keras.Model,
        num_images: int,
        projector: keras.Model | None = None,
        views: keras.Layer | None = None,
        neighbors: int = 4096,
        anneal_steps: int = 0,
        curve: str = "linear",
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
            temperature=temperature,
            momentum=momentum,
            seed=seed,
            **kwargs,
        )
        self.bank = self.make_bank(self.embedding_dim, seed)
