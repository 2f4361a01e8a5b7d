"""MoCo: the view of an image against a queue of what a slow copy of the encoder made of earlier images."""

import math

from keras import ops

from sslzoo import checks
from sslzoo.losses import queue_nce_terms, unit
from sslzoo.methods.advice import LOWER_TEMPERATURE
from sslzoo.methods.joint_embedding import TeacherStudent
from sslzoo.methods.papers import SIMVAE
from sslzoo.methods.state import counter, enqueue, snapshot, variable
from sslzoo.networks.initialization import unit_rows


class MoCo(TeacherStudent):
    """Momentum contrast: a query attracts the key of its image, and repels the keys of images seen before.

    loss = mean over images of [ -s(q, k) / T + log( exp s(q, k) / T + sum over the queue of exp s(q, k') / T ) ]

    with s the cosine similarity, q the first view's embedding, and k the second view's by the teacher. `alignment`
    pulls the views of an image together and stands for the prior; `contrast` pushes them from other images' keys and
    stands for the reconstruction. The loss looks at the queue as it was; then the keys replace its oldest rows.

    Args:
        queue_size: int >= 1, keys remembered, no fewer than a step makes. A queue near the size of the data set holds
            false negatives of every image.
        temperature: float > 0.
        symmetric: bool. True also lets the second view query the first one's key: the loss is the mean of both, and
            both keys enter the queue (MoCo's CIFAR-10 demonstration, which has their sum).
        seed: int, of the random unit rows the queue starts with; drawn by NumPy, equal on every backend.
        encoder, projector, views, momentum: as in `TeacherStudent`.

    Reference:
        He et al., "Momentum Contrast for Unsupervised Visual Representation Learning", eq. 1-2 and algorithm 1. The
        SimVAE paper gives no settings for it; the defaults are those of MoCo's CIFAR-10 demonstration.
    """

    papers = ("https://arxiv.org/abs/1911.05722", SIMVAE)
    terms = {"alignment": "prior", "contrast": "substitute"}
    remembers = ("a slow teacher", "a queue of its keys")
    joint_statistics = False
    advice = (LOWER_TEMPERATURE,)

    def __init__(
        self,
        encoder,
        projector=None,
        views=None,
        queue_size=4096,
        momentum=0.99,
        temperature=0.1,
        symmetric=False,
        seed=0,
        **kwargs,
    ):
        super().__init__(encoder, projector, views, momentum, **kwargs)
        self.queue_size = checks.count(queue_size=queue_size)
        self.temperature = checks.positive(temperature=temperature)
        self.symmetric = bool(symmetric)
        self.most_batch = self.queue_size // (1 + self.symmetric)
        self.seed = checks.seed(needed=True, seed=seed)
        self.make_teacher()
        self.queue = variable(self, unit_rows(queue_size, self.embedding_dim, seed), "queue")
        self.pointer = counter(self, "pointer")

    def call(self, images, training=False):
        views = self.make_views(images, training)
        if training:
            self.move_teacher(self.momentum)
        pairs = [(0, 1), (1, 0)] if self.symmetric else [(0, 1)]
        return {
            "queries": ops.stack([self.embed(views[:, query], training) for query, _ in pairs], axis=1),
            "keys": ops.stack([unit(self.teach(views[:, key], training)) for _, key in pairs], axis=1),
        }

    def objective(self, images, outputs, training):
        queries, keys = (ops.reshape(outputs[name], (-1, self.embedding_dim)) for name in ("queries", "keys"))
        return queue_nce_terms(queries, keys, snapshot(self.queue), self.temperature)

    def update(self, images, outputs):
        enqueue(self.queue, self.pointer, ops.reshape(outputs["keys"], (-1, self.embedding_dim)))

    def chance_level(self, batch_size: int) -> float:
        """Loss when all embeddings are equal: log(queue_size + 1), in nats."""
        return math.log(self.queue_size + 1)
