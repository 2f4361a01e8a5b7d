"""ProtoCPC: a student names, among all prototypes, the one its teacher saw in another view."""

import numpy as np
from keras import ops

from sslzoo import checks
from sslzoo.errors import InvalidInputError
from sslzoo.losses import proto_cpc_terms, unit
from sslzoo.losses.tensors import mean_terms, pairs
from sslzoo.methods.advice import LOWER_TEMPERATURE, Advice
from sslzoo.methods.joint_embedding import TeacherStudent
from sslzoo.methods.papers import GEDI
from sslzoo.methods.state import moving_average, variable
from sslzoo.networks.heads import prototype_head


class ProtoCPC(TeacherStudent):
    """Prototypical contrastive predictive coding, as self-distillation.

    loss = mean over ordered pairs of views u != v, and images, of
           -sum_c p_uc s_vc / T + log sum_c q_c exp(s_vc / T),   p_u = softmax(teacher's s_u / T_teacher),  q = mean p

    with s the cosines of an embedding with C prototypes, and the teacher an exponential moving average of encoder,
    projector and prototypes. `alignment` pulls a view towards the prototypes the teacher sees in its sibling and stands
    for the prior; `contrast` pushes it off the prototypes that are common among all images (q), which raises the
    entropy of the embeddings, and stands for the reconstruction: naming a prototype that all images share earns
    nothing.

    Args:
        prototypes: int >= 2, C.
        temperature: float > 0, T, of the student.
        teacher_temperature: float > 0. Lower than the student's: the teacher must be the more certain one.
        prior_momentum: float in [0, 1). The prior q is a moving average of the teacher's mean probabilities, this
            batch's included with 1 - prior_momentum. 0 is the formula of the derivation, q of the batch alone.
        seed: int, of the first prototypes.
        encoder, projector, views, momentum: as in `TeacherStudent`; two views or more.

    Reference:
        Lee, "Representation Distillation by Prototypical Contrastive Predictive Coding", ICLR 2022; the objective as
        in the GEDI paper (arXiv 2401.00873), appendix H, last line.
    """

    papers = ("https://openreview.net/forum?id=8la28hZOwug", GEDI)
    terms = {"alignment": "prior", "contrast": "substitute"}
    remembers = ("a slow teacher", "the prior of its prototypes")
    view_counts = (2, None)
    taught = ("encoder", "projector", "prototype_head")
    advice = (Advice("a higher teacher temperature", "teacher_temperature", ("prototypes",)), LOWER_TEMPERATURE)

    def __init__(
        self,
        encoder,
        prototypes,
        projector=None,
        views=None,
        temperature=0.1,
        teacher_temperature=0.04,
        momentum=0.996,
        prior_momentum=0.9,
        seed=0,
        **kwargs,
    ):
        super().__init__(encoder, projector, views, momentum, **kwargs)
        self.temperature, self.teacher_temperature = checks.positive(
            temperature=temperature, teacher_temperature=teacher_temperature
        )
        self.prototypes = checks.count(2, prototypes=prototypes)
        self.prior_momentum = checks.fraction(prior_momentum=prior_momentum)
        if prior_momentum == 1:
            raise InvalidInputError("prior_momentum must be below 1, to see any batch. Received: prior_momentum=1")
        self.seed = checks.seed(needed=True, seed=seed)
        self.prototype_head = prototype_head(self.embedding_dim, prototypes, seed)
        self.make_teacher()
        self.prior = variable(self, np.full(prototypes, 1 / prototypes, "float32"), "prior")

    def call(self, images, training=False):
        views = self.make_views(images, training)
        if training:
            self.move_teacher(self.momentum)
        flat = ops.reshape(views, (-1, *views.shape[2:]))
        student, teacher = self.scores(flat, training), self.teach(flat, training)
        return {
            name: ops.reshape(each, (-1, views.shape[1], self.prototypes))
            for name, each in (("student", student), ("teacher", teacher))
        }

    def scores(self, views, training=False):
        """The student's scores of views (N, H, W, C): float tensor (N, prototypes) of cosines."""
        return self.prototype_head(unit(self.embed(views, training)))

    def teach(self, views, training=False):
        """The teacher's probabilities of prototypes for views (N, H, W, C): float tensor (N, prototypes), constants."""
        scores = self.teacher_prototype_head(unit(super().teach(views, training)))
        return ops.stop_gradient(ops.softmax(scores / self.teacher_temperature, axis=-1))

    def moved_prior(self, outputs):
        """q: the average so far, and this batch."""
        batch = ops.mean(outputs["teacher"], axis=(0, 1))
        return moving_average(self.prior, batch, self.prior_momentum)

    def objective(self, images, outputs, training):
        student, teacher, prior = outputs["student"], outputs["teacher"], self.moved_prior(outputs)
        views = pairs(teacher.shape[1], student.shape[1])
        each = [proto_cpc_terms(student[:, v], teacher[:, u], self.temperature, prior) for u, v in views]
        return mean_terms(each)

    def update(self, images, outputs):
        self.prior.assign(self.moved_prior(outputs))

    def chance_level(self, batch_size: int) -> float:
        """Loss when student or teacher distinguishes nothing: 0. Training goes below, to -log(prototypes) at best."""
        return 0.0

    def cluster_probabilities(self, views):
        """The student's probabilities of prototypes for views (N, H, W, C): float tensor (N, prototypes)."""
        return ops.softmax(self.scores(views) / self.temperature, axis=-1)
