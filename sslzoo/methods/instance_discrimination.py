"""Instance discrimination (IR): each view is to find its image in a memory of all images."""

import math

import keras
from keras import ops

from sslzoo.errors import choose
from sslzoo.losses import info_nce_terms, noise_contrastive_terms, unit
from sslzoo.methods.memory_bank import MemoryBank
from sslzoo.methods.state import snapshot

FORMS = ("softmax", "nce")


@keras.saving.register_keras_serializable("sslzoo")
class InstanceDiscrimination(MemoryBank):
    """Instance discrimination: a view is told from images drawn at random, each remembered by one vector.

    loss = mean over views of [ -v . M_i / T + log( exp v . M_i / T + sum over drawn j of exp v . M_j / T ) ]

    `alignment` pulls a view towards the memory of its image, `contrast` pushes it from those of others; the bank and
    its rules are described in `MemoryBank`. One draw of images serves all views of a step. The loss is log K minus a
    lower bound of the mutual information of views (InfoNCE), so it needs no estimate of the softmax over all images;
    with `negatives=None`, or a bank no larger than that, it is that softmax.

    `momentum=0` needs no bank: the memory of an image is then another view of it, drawn now, and the negatives are the
    other images of the batch (eq. 9). Inputs are then plain images with exactly two views, and gradients flow through
    both. The paper finds it as good.

    Example:
        import numpy as np
        from sslzoo import methods, networks, views

        images = np.random.default_rng(0).integers(0, 256, (64, 8, 8, 1)).astype("uint8")
        encoder = networks.encoder("mlp-small", (8, 8, 1), 10)
        model = methods.InstanceDiscrimination(encoder, 64, views=views.Views("simvae-digits", 1), negatives=32)
        model.compile(optimizer="sgd")
        model.fit({"images": images, "index": np.arange(64)}, batch_size=16, verbose=0)

    Args:
        encoder, projector, views, num_images, temperature, seed: as in `MemoryBank`.
        negatives: int >= 1, images drawn for each step; None for all.
        momentum: float from 0 to 1, of the bank; 0 for none.
        form: "softmax" is the loss above. "nce" is the original one, a yes or no for each drawn image with a constant
            for the denominator that was measured on ImageNet (`losses.noise_contrastive`): unstable elsewhere.

    Raises:
        InvalidInputError: as `MemoryBank`.

    Reference:
        Wu et al., "Unsupervised Feature Learning via Non-Parametric Instance Discrimination"; as InfoNCE in Wu et al.,
        "On Mutual Information in Contrastive Learning for Visual Representations", eq. 5, 6 and 9.
    """

    papers = (
        {
            "title": "Unsupervised Feature Learning via Non-Parametric Instance Discrimination",
            "url": "https://arxiv.org/abs/1805.01978",
        },
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
        negatives: int | None = 4096,
        temperature: float = 0.07,
        momentum: float = 0.5,
        form: str = "softmax",
        seed: int = 0,
        **kwargs,
    ):
        self.momentum = momentum  # decides on the number of views, which the base class checks
        super().__init__(
            encoder,
            num_images,
            projector,
            views,
            negatives=negatives,
            temperature=temperature,
            momentum=momentum,
            seed=seed,
            **kwargs,
        )
        self.form = choose("form", form, FORMS)
        self.bank = self.make_bank(self.embedding_dim, seed) if momentum else None

    @property
    def indexed(self):
        return self.momentum > 0

    @property
    def view_counts(self):
        """1 or more; 2 without a memory."""
        return (1, None) if self.momentum else (2, 2)

    def call(self, inputs, training=False):
        if self.bank is not None:
            return super().call(inputs, training)
        return {"z": self.embed_groups(self.make_views(inputs, training), training)}

    def objective(self, images, outputs, training):
        if self.bank is not None:
            return super().objective(images, outputs, training)
        first, second = (unit(outputs["z"][:, view]) for view in (0, 1))
        return info_nce_terms(ops.matmul(first, ops.transpose(second)) / self.temperature)

    def compare(self, v, bank, index, drawn):
        if self.form == "softmax":
            return super().compare(v, bank, index, drawn)
        rows = snapshot(bank.rows)
        own = ops.sum(v * ops.take(rows, index, axis=0), axis=1)
        cosines, _ = self.candidates(v, rows, drawn)
        return noise_contrastive_terms(own / self.temperature, cosines / self.temperature, self.num_images)

    def update(self, images, outputs):
        if self.bank is not None:
            super().update(images, outputs)

    def banks(self):
        return [] if self.bank is None else super().banks()

    def chance_level(self, batch_size: int) -> float | None:
        """Loss when all vectors are equal: the log of the number of candidates; None for the original form."""
        if self.bank is None:
            return math.log(batch_size)
        return None if self.form == "nce" else super().chance_level(batch_size)
