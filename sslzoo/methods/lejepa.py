"""LeJEPA: views agree, and embeddings of all images together look like samples of N(0, I)."""

import keras

from sslzoo import checks
from sslzoo.losses import lejepa_terms
from sslzoo.losses.marginal import directions
from sslzoo.methods.joint_embedding import MultiCrop


class LeJEPA(MultiCrop):
    """LeJEPA: any number of views lie around the center of the global ones, and their marginal is held to N(0, I).

    loss = (1 - weight) mean (z_v - center of global views)^2 + weight SIGReg

    `invariance` pulls the views of an image together: it is SimVAE's prior, latents around one unknown center.
    `sigreg` stands for the reconstruction, but does not push images apart: it fixes the distribution of all embeddings
    along random directions, drawn anew each step. No teacher, no stopped gradient, no negatives. At a total collapse to
    0 its gradient vanishes, so embeddings must start with some spread, as any network's do.

    Args:
        encoder, projector, views, local_views: as in `MultiCrop`. The paper's head for features of size D is
            `networks.projector(D, (2048, 2048, 128))`.
        weight: float in 0..1, the paper's lambda.
        slices: int >= 1, directions a step.
        num_global: int >= 1, how many views, the first ones, make the center; None for all but the local ones.
        seed: int, of the directions.

    Reference:
        Balestriero and LeCun, "LeJEPA: Provable and Scalable Self-Supervised Learning Without the Heuristics".
    """

    papers = ("https://arxiv.org/abs/2511.08544",)
    terms = {"invariance": "prior", "sigreg": "marginal"}
    losses_of = staticmethod(lejepa_terms)

    def __init__(
        self,
        encoder,
        projector=None,
        views=None,
        local_views=None,
        weight=0.05,
        slices=1024,
        num_global=None,
        seed=0,
        **kwargs,
    ):
        super().__init__(encoder, projector, views, local_views, **kwargs)
        self.weight = checks.fraction(weight=weight)
        self.slices = checks.count(slices=slices)
        self.num_global = None if num_global is None else checks.count(num_global=num_global)
        self.seed = checks.seed(needed=True, seed=seed)
        self.random = keras.random.SeedGenerator(self.seed)

    def objective(self, images, outputs, training):
        # Drawn anew in training, the same ones whenever else, so that nothing moves there.
        along = directions(self.embedding_dim, self.slices, self.random if training else self.seed)
        losses = self.losses_of(self.every_view(outputs), along, self.num_global or outputs["z"].shape[1])
        return {term: (1 - self.weight if term == "invariance" else self.weight) * losses[term] for term in self.terms}
