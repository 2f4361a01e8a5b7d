"""SimCLR: the other view of an image, told from all other views of the batch."""

import math

import keras

from sslzoo import checks
from sslzoo.losses import nt_xent_terms
from sslzoo.methods.advice import LOWER_TEMPERATURE
from sslzoo.methods.joint_embedding import JointEmbedding


@keras.saving.register_keras_serializable("sslzoo")
class SimCLR(JointEmbedding):
    """SimCLR: two views of an image attract, all views of other images in the batch repel.

    loss = mean over the 2 B views of [ -s(view, its other view) / T + log sum exp s(view, any other view) / T ]

    with s the cosine similarity of embeddings. `alignment` pulls the views of an image together and stands for the
    prior; `contrast` pushes every view from all others, which raises the entropy of the embeddings, and stands for the
    reconstruction. Cosine similarity is bounded, so views of an image end up in one point: style is lost.

    Negatives are those of the whole batch, on however many devices it lies.

    Example:
        import numpy as np
        from sslzoo import methods, networks, views

        images = np.random.default_rng(0).integers(0, 256, (64, 8, 8, 1)).astype("uint8")
        encoder = networks.encoder("mlp-small", (8, 8, 1), 10)
        model = methods.SimCLR(encoder, networks.projector(10, (10, 8)), views.Views("simvae-digits", 2))
        model.compile("adam")
        model.fit(images, batch_size=16, verbose=0)

    Args:
        encoder, projector, views: as in `JointEmbedding`; exactly two views.
        temperature: float > 0. 0.5 is the paper's for CIFAR-10; the SimVAE paper has 0.7.

    Raises:
        InvalidInputError: training on a batch of one image, which has nothing to be told from.

    Reference:
        Chen et al., "A Simple Framework for Contrastive Learning of Visual Representations", eq. 1 and algorithm 1.
        Its released code adds the means over first and second views; this is the mean over both, half of that.
    """

    papers = (
        {
            "title": "A Simple Framework for Contrastive Learning of Visual Representations",
            "url": "https://arxiv.org/abs/2002.05709",
        },
        {"title": "A Probabilistic Model behind Self-Supervised Learning", "url": "https://arxiv.org/abs/2402.01399"},
    )
    terms = ("alignment", "contrast")
    roles = ("prior", "substitute")
    advice = (LOWER_TEMPERATURE,)

    def __init__(
        self,
        encoder: keras.Model,
        projector: keras.Model | None = None,
        views: keras.Layer | None = None,
        temperature: float = 0.5,
        **kwargs,
    ):
        super().__init__(encoder, projector, views, **kwargs)
        checks.positive(temperature=temperature)
        self.temperature = temperature

    def objective(self, images, outputs, training):
        z = outputs["z"]
        if training:
            self.check_negatives(z)
        return nt_xent_terms(z[:, 0], z[:, 1], self.temperature)

    def chance_level(self, batch_size: int) -> float:
        """Loss when all embeddings are equal: log(2 batch_size - 1), in nats."""
        return math.log(2 * batch_size - 1)
