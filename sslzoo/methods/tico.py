"""TiCo: views agree with a teacher's, and avoid the directions that embeddings have taken too often."""

import numpy as np
from keras import ops

from sslzoo import checks
from sslzoo.losses import tico_terms, unit
from sslzoo.methods.joint_embedding import TeacherStudent
from sslzoo.methods.state import moving_average, variable


class TiCo(TeacherStudent):
    """Transformation invariance and covariance contrast: a memory of second moments in the place of a queue.

    loss = 1 - mean cos(z, t) + contrast_weight mean z^T C z,   C <- memory C + (1 - memory) Z^T Z / B

    with z the normalized embedding of the first view, and t the teacher's of the second. `invariance` pulls the views
    of an image together and stands for the prior. `contrast` pushes embeddings off the directions that C remembers and
    stands for the reconstruction: a MoCo whose queue is summed up in its covariance, at any length for the same memory.
    C is a variable of the model, so part of every checkpoint; the gradient flows through this batch's part of it.

    Args:
        encoder, projector, views: as in `JointEmbedding`. The paper's head for features of size D is
            `networks.projector(D, (4096, 256))`.
        contrast_weight: float > 0, the paper's rho: 8 for CIFAR-10's size, 20 in its ImageNet runs.
        memory: float in 0..1, the paper's beta: how much of C stays from step to step.
        momentum: as in `TeacherStudent`.

    Reference:
        Zhu, Moraes, Karakulak, Sobol, Canziani and LeCun, "TiCo: Transformation Invariance and Covariance Contrast for
        Self-Supervised Visual Representation Learning", eq. 1-3 and algorithm 1.
    """

    papers = ("https://arxiv.org/abs/2206.10698",)
    terms = {"invariance": "prior", "contrast": "substitute"}
    remembers = ("a slow teacher", "a moving second moment")
    joint_statistics = False

    def __init__(self, encoder, projector=None, views=None, contrast_weight=8.0, memory=0.9, momentum=0.99, **kwargs):
        super().__init__(encoder, projector, views, momentum, **kwargs)
        self.contrast_weight = checks.positive(contrast_weight=contrast_weight)
        self.memory = checks.fraction(memory=memory)
        self.make_teacher()
        self.covariance = variable(self, np.zeros((self.embedding_dim, self.embedding_dim), "float32"), "covariance")

    def call(self, images, training=False):
        views = self.make_views(images, training)
        if training:
            self.move_teacher(self.momentum)
        return {"z": self.embed(views[:, 0], training), "target": self.teach(views[:, 1], training)}

    def moved_covariance(self, outputs):
        """C: the average so far, and this batch."""
        z = unit(outputs["z"])
        batch = ops.matmul(ops.transpose(z), z) / ops.cast(ops.shape(z)[0], "float32")
        return moving_average(self.covariance, batch, self.memory)

    def objective(self, images, outputs, training):
        return self.weigh(tico_terms(outputs["z"], outputs["target"], self.moved_covariance(outputs)))

    def update(self, images, outputs):
        self.covariance.assign(ops.stop_gradient(self.moved_covariance(outputs)))
