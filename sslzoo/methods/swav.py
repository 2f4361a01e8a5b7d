"""SwAV: each view predicts which prototypes another view of its image was assigned to."""

import math

import numpy as np
from keras import ops

from sslzoo import checks
from sslzoo.errors import InvalidInputError
from sslzoo.losses import swapped_terms, unit
from sslzoo.methods.advice import LOWER_TEMPERATURE, Advice
from sslzoo.methods.joint_embedding import MultiCrop
from sslzoo.methods.papers import SIMVAE
from sslzoo.methods.state import counter, enqueue, held, snapshot, variable
from sslzoo.networks import prototype_head


class SwAV(MultiCrop):
    """SwAV: views are assigned to prototypes, evenly over the batch, and predict each other's assignment.

    loss = mean over ordered pairs of views u != v, and images, of
           -sum_k q_uk s_vk / T + log sum_k exp(s_vk / T),   q_u = Sinkhorn(s_u), a constant

    with s the cosines of an embedding with K prototypes. `alignment` pulls a view towards the prototypes of its
    sibling, so the views of an image together, and stands for the prior. What stands for the reconstruction is the
    balance in q: Sinkhorn gives every prototype the same share of the batch, so images cannot all go to one place, and
    `contrast` pushes each view off the prototypes that others were assigned to. With K far above the batch, balance
    within it is noise, and a queue of earlier embeddings, scored with the prototypes of today, makes the sample larger.

    Args:
        encoder, projector, views, local_views: as in `MultiCrop`; local views only predict.
        prototypes: int >= 2, K. Several times the number of classes one expects; more do little harm.
        temperature: float > 0, T, of predictions.
        epsilon: float > 0, of the assignments: small is hard.
        iterations: int >= 1, of Sinkhorn.
        queue_size: int >= 0, images remembered for the balance, at least one batch; 0 for none.
        queue_start: int >= 0, training steps before the queue is used (it fills from the first step).
        freeze_prototypes: int >= 0, training steps in which prototypes stay; 313 are an epoch of the released code.
        seed: int, of the first prototypes.

    Reference:
        Caron et al., "Unsupervised Learning of Visual Features by Contrasting Cluster Assignments", eq. 1-6.
    """

    papers = ("https://arxiv.org/abs/2006.09882", SIMVAE)
    terms = {"alignment": "prior", "contrast": "substitute"}
    advice = (
        Advice("a lower epsilon", "epsilon", ("prototypes",)),
        Advice("prototypes frozen for more steps", "freeze_prototypes", ("prototypes",)),
        LOWER_TEMPERATURE,
    )

    def __init__(
        self,
        encoder,
        prototypes,
        projector=None,
        views=None,
        local_views=None,
        temperature=0.1,
        epsilon=0.05,
        iterations=3,
        queue_size=0,
        queue_start=0,
        freeze_prototypes=313,
        seed=0,
        **kwargs,
    ):
        super().__init__(encoder, projector, views, local_views, **kwargs)
        self.prototypes = checks.count(2, prototypes=prototypes)
        self.temperature, self.epsilon = checks.positive(temperature=temperature, epsilon=epsilon)
        self.iterations = checks.count(iterations=iterations)
        self.queue_size, self.queue_start, self.freeze_prototypes = checks.count(
            0, queue_size=queue_size, queue_start=queue_start, freeze_prototypes=freeze_prototypes
        )
        if queue_size and views is None:
            raise InvalidInputError(
                "A queue has one column for each view, so `views` must say how many there are. "
                f"Received: queue_size={queue_size}, views=None"
            )
        self.seed = checks.seed(needed=True, seed=seed)
        self.prototype_head = prototype_head(self.embedding_dim, prototypes, seed)
        self.step = counter(self, "step")
        if queue_size:
            self.most_batch = queue_size
            # A row is an image, its views' embeddings, of length 1, side by side. A row of zeros is an empty slot.
            empty = np.zeros((queue_size, views.num_views * self.embedding_dim), "float32")
            self.queue = variable(self, empty, "queue")
            self.pointer = counter(self, "pointer")

    def make_views(self, images, training):
        views = super().make_views(images, training)
        if self.queue_size and views.shape[1] != self.views.num_views:
            raise InvalidInputError(
                f"The queue remembers {self.views.num_views} views of each image. Received: {views.shape[1]} views"
            )
        return views

    def objective(self, images, outputs, training):
        prototypes = held(self.prototype_head.weights[0], self.steps_taken(), self.freeze_prototypes)
        z, assigning = unit(self.every_view(outputs)), outputs["z"].shape[1]
        scores = [ops.matmul(z[:, view], prototypes) for view in range(z.shape[1])]
        queue, weights = self._queue_scores(prototypes, assigning)
        return swapped_terms(scores, self.temperature, self.epsilon, self.iterations, assigning, queue, weights)

    def _queue_scores(self, prototypes, count):
        """Scores of the remembered embeddings, by view, and their weights: 0 where empty, or too early to be used."""
        if not self.queue_size:
            return None, None
        queue = ops.reshape(snapshot(self.queue), (self.queue_size, count, self.embedding_dim))
        used = ops.logical_and(ops.any(queue != 0, axis=(1, 2)), self.steps_taken() >= self.queue_start)
        scores = ops.matmul(queue, ops.stop_gradient(prototypes))
        return [scores[:, view] for view in range(count)], ops.cast(used, "float32")

    def update(self, images, outputs):
        if self.queue_size:
            enqueue(self.queue, self.pointer, ops.reshape(unit(outputs["z"]), (-1, self.queue.shape[1])))
        self.step.assign(snapshot(self.step) + 1)

    def chance_level(self, batch_size: int) -> float:
        """Loss when every prototype is as likely as any other: log(prototypes), in nats."""
        return math.log(self.prototypes)

    def cluster_probabilities(self, views):
        """Predicted prototypes of views (N, H, W, C): float tensor (N, prototypes), rows sum to 1."""
        return ops.softmax(self.prototype_head(unit(self.embed(views))) / self.temperature, axis=-1)
