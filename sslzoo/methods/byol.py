"""BYOL: each view predicts what a slow copy of the encoder makes of the other."""

from keras import ops

from sslzoo import checks
from sslzoo.losses import normalized_regression
from sslzoo.methods.joint_embedding import TeacherStudent
from sslzoo.methods.simsiam import SimSiam
from sslzoo.methods.state import counter, rising_momentum, snapshot


class BYOL(SimSiam, TeacherStudent):
    """Bootstrap your own latent: a predictor turns the embedding of one view into the teacher's of the other view.

    loss = mean over images of [ |p_1 - t_2|^2 + |p_2 - t_1|^2 ],   all of unit length: 2 - 2 cos each

    with p the predictor's output, and t the embedding by the teacher. `alignment` pulls the views of an image together
    and stands for the prior. No term pushes images apart: what keeps them apart is outside the loss, the teacher, the
    predictor, and batch normalization.

    The paper moves the teacher after the optimizer; here that is the beginning of the next step: the momentum
    tau_k = 1 - (1 - momentum) (cos(pi k / total_steps) + 1) / 2 belongs to the optimizer step k = 0, 1 ... before it.
    The first step copies the encoder, so that weights given to it after construction reach the teacher.

    Args:
        encoder, projector, predictor, views: as in `SimSiam`. The paper's heads for features of size D are
            `networks.projector(D, (4096, 256))` and `networks.predictor(256, 4096)`.
        momentum: float in [0, 1], of the teacher, at the beginning.
        total_steps: int > 0, training steps in which the momentum rises to 1, where it stays; None keeps it constant.

    Reference:
        Grill et al., "Bootstrap Your Own Latent: A New Approach to Self-Supervised Learning", eq. 1-2, algorithm 1 and,
        for the momentum, section 3.2.
    """

    papers = ("https://arxiv.org/abs/2006.07733",)
    remembers = ("a slow teacher",)

    def __init__(self, encoder, projector, predictor, views=None, momentum=0.996, total_steps=None, **kwargs):
        super().__init__(encoder, projector, predictor, views, momentum=momentum, **kwargs)
        self.total_steps = None if total_steps is None else checks.count(total_steps=total_steps)
        self.make_teacher()
        self.step = counter(self, "step")

    def call(self, images, training=False):
        views = self.make_views(images, training)
        if training:
            step, batch = self.steps_taken(), snapshot(self.step)
            momentum = ops.where(step > 0, rising_momentum(self.momentum, step - 1, self.total_steps), 0.0)
            self.move_teacher(momentum, first=batch == 0)
            self.step.assign(batch + 1)
        z = self.embed_groups(views, training)
        return {"prediction": self.predict_groups(z, training), "target": self.teach_groups(views, training)}

    def objective(self, images, outputs, training):
        first, second = self.directions(normalized_regression, outputs)
        return {"alignment": first + second}
