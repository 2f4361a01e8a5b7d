"""VISReg: LeJEPA's idea with scale, shape and centre of the marginal asked for one by one."""

import keras

from sslzoo.losses import visreg_terms
from sslzoo.methods.lejepa import LeJEPA
from sslzoo.methods.papers import paper


@keras.saving.register_keras_serializable("sslzoo")
class VISReg(LeJEPA):
    """VISReg: views lie around the centre of the global ones; the marginal has unit scale, normal shape and mean 0.

    loss = (1 - weight) invariance + weight (scale + shape + center)

    `invariance` pulls the views of an image together and stands for the prior. The other three fix the marginal in the
    place of reconstruction: `scale` as VICReg's variance does, also after a collapse; `shape` by the sliced Wasserstein
    distance to N(0, I), which decorrelates and more; `center` keeps the mean at 0.

    Args:
        encoder, projector, views, local_views, num_global, seed: as in `LeJEPA`.
        weight: float in 0..1, the paper's lambda: 0.9 on ImageNet, 0.6 on small sets.
        slices: int >= 1, directions a step.

    Reference:
        "Variance-Invariance-Sketching Regularization" (arXiv 2606.02572).
    """

    papers = (paper("Variance-Invariance-Sketching Regularization", "https://arxiv.org/abs/2606.02572"),)
    terms = ("invariance", "scale", "shape", "center")
    roles = ("prior", "marginal", "marginal", "marginal")

    def __init__(self, encoder, projector=None, views=None, local_views=None, weight=0.6, slices=4096, **kwargs):
        super().__init__(encoder, projector, views, local_views, weight, slices, **kwargs)

    def objective(self, images, outputs, training):
        terms = self.marginal_terms(visreg_terms, outputs, training)
        return {name: (1 - self.weight if name == "invariance" else self.weight) * terms[name] for name in self.terms}
