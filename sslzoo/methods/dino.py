"""DINO: a student names, from any view, the prototypes that its teacher saw in a global one."""

import math

import numpy as np
from keras import ops

from sslzoo import checks
from sslzoo.losses import dino, unit
from sslzoo.methods.advice import Advice
from sslzoo.methods.joint_embedding import MultiCrop, TeacherStudent
from sslzoo.methods.state import counter, held, moving_average, rising_momentum, snapshot, variable
from sslzoo.networks import prototype_head


class DINO(MultiCrop, TeacherStudent):
    """Self-distillation with no labels: each view predicts the prototypes a slow teacher gives another.

    loss = mean over pairs of a global view t and another view s, and images, of
           -sum_k softmax((g_t - center) / T_teacher)_k log softmax(g_s / T_student)_k

    with g the cosines of an embedding with K prototypes, the teacher an exponential moving average of encoder, heads
    and prototypes, and center the moving mean of its logits. `alignment` pulls a view towards what the teacher sees in
    another and stands for the prior. No term stands for the reconstruction: centering keeps the teacher from naming one
    prototype always, its low temperature from naming all alike, so the loss cannot tell learning from collapse; the use
    of prototypes can.

    Args:
        encoder, projector, views, local_views: as in `MultiCrop`. The paper's head for features of size D is
            `networks.projector(D, (2048, 2048, 256))`.
        prototypes: int >= 2, K: 65,536 on ImageNet, 4,096 for small sets.
        temperature: float > 0, of the student.
        teacher_temperature: float > 0, of the teacher after `warmup_steps`.
        first_teacher_temperature: float > 0, of the teacher in the first step.
        warmup_steps: int >= 0, in which the one becomes the other.
        momentum: float in [0, 1], of the teacher.
        total_steps: int, in which it rises to 1; None keeps it constant.
        center_momentum: float in 0..1, of the center.
        freeze_prototypes: int >= 0, training steps in which the student's prototypes stay; an epoch in the paper.
        seed: int, of the first prototypes.

    Reference:
        Caron, Touvron, Misra, Jegou, Mairal, Bojanowski and Joulin, "Emerging Properties in Self-Supervised Vision
        Transformers", eq. 1-4 and algorithm 1.
    """

    papers = ("https://arxiv.org/abs/2104.14294",)
    terms = {"alignment": "prior"}
    remembers = ("a slow teacher", "the center of its scores")
    apart_by = "centering and sharpening of the teacher"
    taught = ("encoder", "projector", "prototype_head")
    advice = (
        Advice("a lower teacher_temperature", "teacher_temperature", ("complete", "chance")),
        Advice("a faster center, with center_momentum nearer 0", "center_momentum", ("prototypes",)),
    )

    def __init__(
        self,
        encoder,
        prototypes,
        projector=None,
        views=None,
        local_views=None,
        temperature=0.1,
        teacher_temperature=0.07,
        first_teacher_temperature=0.04,
        warmup_steps=0,
        momentum=0.996,
        total_steps=None,
        center_momentum=0.9,
        freeze_prototypes=0,
        seed=0,
        **kwargs,
    ):
        super().__init__(encoder, projector, views, local_views, momentum=momentum, **kwargs)
        self.prototypes = checks.count(2, prototypes=prototypes)
        self.temperature, self.teacher_temperature, self.first_teacher_temperature = checks.positive(
            temperature=temperature,
            teacher_temperature=teacher_temperature,
            first_teacher_temperature=first_teacher_temperature,
        )
        self.center_momentum = checks.fraction(center_momentum=center_momentum)
        self.total_steps = None if total_steps is None else checks.count(total_steps=total_steps)
        self.warmup_steps, self.freeze_prototypes = checks.count(
            0, warmup_steps=warmup_steps, freeze_prototypes=freeze_prototypes
        )
        self.seed = checks.seed(needed=True, seed=seed)
        self.prototype_head = prototype_head(self.embedding_dim, prototypes, seed)
        self.make_teacher()
        self.center = variable(self, np.zeros(prototypes, "float32"), "center")
        self.step = counter(self, "step")

    def call(self, images, training=False):
        views = self.make_views(images, training)
        if training:
            self.move_teacher(rising_momentum(self.momentum, self.steps_taken(), self.total_steps))
        return self.embed_crops(images, views, training) | {"teacher": self.teach_groups(views, training)}

    def scores(self, z):
        """The student's logits of embeddings (B, J, P): float32 tensor (B, J, prototypes) of cosines."""
        prototypes = held(self.prototype_head.weights[0], self.steps_taken(), self.freeze_prototypes)
        return ops.matmul(unit(z), prototypes)

    def teach(self, views, training=False):
        """The teacher's logits of views (N, H, W, C): float32 tensor (N, prototypes), constants."""
        return ops.stop_gradient(self.teacher_prototype_head(unit(super().teach(views, training))))

    def objective(self, images, outputs, training):
        warm = 1.0
        if self.warmup_steps:
            warm = ops.minimum(ops.cast(self.steps_taken(), "float32") / self.warmup_steps, 1.0)
        rise = self.teacher_temperature - self.first_teacher_temperature
        sharp = self.first_teacher_temperature + warm * rise
        student, center = self.scores(self.every_view(outputs)), snapshot(self.center)
        return {"alignment": dino(student, outputs["teacher"], center, self.temperature, sharp)}

    def update(self, images, outputs):
        mean = ops.mean(outputs["teacher"], axis=(0, 1))
        self.center.assign(moving_average(self.center, mean, self.center_momentum))
        self.step.assign(snapshot(self.step) + 1)

    def chance_level(self, batch_size: int) -> float:
        """Loss when the student finds every prototype as likely as any other: log(prototypes), in nats."""
        return math.log(self.prototypes)

    def cluster_probabilities(self, views):
        """The student's probabilities of prototypes for views (N, H, W, C): float tensor (N, prototypes)."""
        return ops.softmax(self.prototype_head(unit(self.embed(views))) / self.temperature, axis=-1)
