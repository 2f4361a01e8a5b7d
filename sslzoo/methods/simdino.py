"""SimDINO: DINO without prototypes: the student meets its teacher, and a coding rate keeps the batch wide."""

from keras import ops

from sslzoo import checks
from sslzoo.losses import coding_rate, unit
from sslzoo.losses.tensors import pairs
from sslzoo.methods.joint_embedding import MultiCrop, TeacherStudent
from sslzoo.methods.state import counter, rising_momentum, snapshot


class SimDINO(MultiCrop, TeacherStudent):
    """Simplified DINO: no prototypes, no centering, no temperatures.

    loss = mean over pairs of a global view t and another view s, and images, of 1/2 |z_s - z_t|^2
           - rate_weight mean over the student's global views of 1/2 log det(I + P / (B epsilon^2) Z^T Z)

    with z normalized, and z_t the teacher's. `alignment` pulls a view towards what the teacher makes of another and
    stands for the prior; `coding_rate` pushes images apart and stands for the reconstruction: what DINO leaves to
    centering and sharpening stands in the loss.

    Args:
        encoder, projector, views, local_views: as in `MultiCrop`. The paper's head for features of size D is
            `networks.projector(D, (2048, 2048, 256))`.
        rate_weight: float > 0, the paper's gamma.
        epsilon: float > 0, of the coding rate.
        momentum: as in `TeacherStudent`, at the beginning.
        total_steps: int > 0, training steps in which the momentum rises to 1; None keeps it constant.

    Reference:
        Wu, Zhang, Pai, Wang, Singh, Yang, Gao and Ma, "Simplifying DINO via Coding Rate Regularization", eq. 8 and 10.
    """

    papers = ("https://arxiv.org/abs/2502.10385",)
    terms = {"alignment": "prior", "coding_rate": "substitute"}
    remembers = ("a slow teacher",)

    def __init__(
        self,
        encoder,
        projector=None,
        views=None,
        local_views=None,
        rate_weight=1.0,
        epsilon=0.5,
        momentum=0.996,
        total_steps=None,
        **kwargs,
    ):
        super().__init__(encoder, projector, views, local_views, momentum=momentum, **kwargs)
        self.rate_weight, self.epsilon = checks.positive(rate_weight=rate_weight, epsilon=epsilon)
        self.total_steps = None if total_steps is None else checks.count(total_steps=total_steps)
        self.make_teacher()
        self.step = counter(self, "step")

    def call(self, images, training=False):
        views = self.make_views(images, training)
        if training:
            self.move_teacher(rising_momentum(self.momentum, self.steps_taken(), self.total_steps))
        return self.embed_crops(images, views, training) | {"target": self.teach_groups(views, training)}

    def objective(self, images, outputs, training):
        z, target, student = unit(outputs["z"]), unit(outputs["target"]), unit(self.every_view(outputs))
        # Half the squared distance of unit vectors, also where one is zero.
        views = pairs(target.shape[1], student.shape[1])
        squares = [ops.mean(ops.sum(ops.square(student[:, s] - target[:, t]), axis=-1)) for t, s in views]
        rate = ops.mean(coding_rate(ops.swapaxes(z, 0, 1), self.epsilon))
        return {"alignment": 0.5 * sum(squares) / len(squares), "coding_rate": -self.rate_weight * rate}

    def update(self, images, outputs):
        self.step.assign(snapshot(self.step) + 1)
