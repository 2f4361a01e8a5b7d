"""VISReg: LeJEPA's idea with scale, shape and center of the marginal asked for one by one."""

from sslzoo.losses import visreg_terms
from sslzoo.methods.lejepa import LeJEPA


class VISReg(LeJEPA):
    """VISReg: views lie around the center of the global ones; the marginal has unit scale, normal shape and mean 0.

    loss = (1 - weight) invariance + weight (scale + shape + center)

    `invariance` pulls the views of an image together and stands for the prior. The other three fix the marginal in the
    place of reconstruction: `scale` as VICReg's variance does, also after a collapse; `shape` by the sliced Wasserstein
    distance to N(0, I), which decorrelates and more; `center` keeps the mean at 0.

    Args:
        encoder, projector, views, local_views, slices, num_global, seed: as in `LeJEPA`.
        weight: float in 0..1, the paper's lambda: 0.9 on ImageNet, 0.6 on small sets.

    Reference:
        "Variance-Invariance-Sketching Regularization" (arXiv 2606.02572).
    """

    papers = ("https://arxiv.org/abs/2606.02572",)
    terms = {"invariance": "prior", "scale": "marginal", "shape": "marginal", "center": "marginal"}
    losses_of = staticmethod(visreg_terms)

    def __init__(self, encoder, projector=None, views=None, local_views=None, weight=0.6, slices=4096, **kwargs):
        super().__init__(encoder, projector, views, local_views, weight, slices, **kwargs)
