"""NNCLR: the positive of a view is the nearest neighbor, among recent images, of the other view."""

import math

from keras import ops

from sslzoo import checks
from sslzoo.losses import info_nce_terms, unit
from sslzoo.losses.tensors import mean_terms
from sslzoo.methods.advice import LOWER_TEMPERATURE
from sslzoo.methods.simsiam import SimSiam
from sslzoo.methods.state import counter, enqueue, snapshot, variable
from sslzoo.networks.initialization import unit_rows


class NNCLR(SimSiam):
    """Nearest-neighbor contrastive learning: positives come from a queue of other images, negatives from the batch.

    loss = 1/2 [ InfoNCE(nn(z_1), p_2) + InfoNCE(nn(z_2), p_1) ],   scores nn(z) . p / temperature

    with z the normalized embeddings, p the normalized output of the predictor, and nn(z) the row of the queue of
    highest cosine, a constant. `alignment` pulls an image's view towards the neighbor of the other, and so images
    that are alike towards each other: a prior that is wider than one image. `contrast` pushes it off the neighbors of
    all others in the batch and stands for the reconstruction.

    Neighbors are looked up in the queue as it was; then the embeddings of the first views replace its oldest rows.

    Args:
        encoder, projector, predictor, views: as in `SimSiam`. The paper's heads for features of size
            D are `networks.projector(D, (2048, 2048, 256))` and `networks.predictor(256, 4096)`.
        queue_size: int >= 1, rows of the queue, at least a batch and at most an eighth of the images.
        temperature: float > 0.
        seed: int, of the random rows that the queue starts with.

    Reference:
        Dwibedi, Aytar, Tompson, Sermanet and Zisserman, "With a Little Help from My Friends: Nearest-Neighbor
        Contrastive Learning of Visual Representations", eq. 2-4.
    """

    papers = ("https://arxiv.org/abs/2104.14548",)
    terms = {"alignment": "prior", "contrast": "substitute"}
    least_batch = 2
    remembers = ("a queue of embeddings",)
    apart_by = ""
    advice = (LOWER_TEMPERATURE,)

    def __init__(self, encoder, projector, predictor, views=None, queue_size=4096, temperature=0.1, seed=0, **kwargs):
        super().__init__(encoder, projector, predictor, views, **kwargs)
        self.queue_size = self.most_batch = checks.count(queue_size=queue_size)
        self.temperature = checks.positive(temperature=temperature)
        self.seed = checks.seed(needed=True, seed=seed)
        self.queue = variable(self, unit_rows(queue_size, self.embedding_dim, seed), "queue")
        self.pointer = counter(self, "pointer")

    def neighbor(self, z):
        """The row of the queue of highest cosine with each embedding (B, P): float tensor (B, P), a constant."""
        queue = snapshot(self.queue)
        best = ops.argmax(ops.matmul(unit(z), ops.transpose(queue)), axis=1)
        return ops.stop_gradient(ops.take(queue, best, axis=0))

    def objective(self, images, outputs, training):
        def classify(prediction, target):
            scores = ops.matmul(self.neighbor(target), ops.transpose(unit(prediction))) / self.temperature
            return info_nce_terms(scores)

        first, second = self.directions(classify, outputs)
        return mean_terms([first, second])

    def update(self, images, outputs):
        enqueue(self.queue, self.pointer, unit(outputs["target"][:, 0]))

    def chance_level(self, batch_size: int) -> float:
        """Loss when all embeddings are equal: log(batch), in nats."""
        return math.log(batch_size)
