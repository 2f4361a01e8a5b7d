"""LeJEPA: views agree, and embeddings of all images together look like samples of N(0, I)."""

import keras
from keras import ops

from sslzoo import checks
from sslzoo.losses import lejepa_terms
from sslzoo.losses.marginal import directions
from sslzoo.methods.joint_embedding import MultiCrop
from sslzoo.methods.papers import paper


@keras.saving.register_keras_serializable("sslzoo")
class LeJEPA(MultiCrop):
    """LeJEPA: any number of views lie around the centre of the global ones, and their marginal is held to N(0, I).

    loss = (1 - weight) mean (z_v - centre of global views)^2 + weight SIGReg

    `invariance` pulls the views of an image together: it is SimVAE's prior, latents around one unknown centre.
    `sigreg` stands for the reconstruction, but does not push images apart: it fixes the distribution of all embeddings
    along random directions, drawn anew each step. No teacher, no stopped gradient, no negatives. At a total collapse to
    0 its gradient vanishes, so embeddings must start with some spread, as any network's do.

    Args:
        encoder, projector, views, local_views: as in `MultiCrop`; two views or more. The paper's head for features of
            size D is `networks.projector(D, (2048, 2048, 128))`.
        weight: float in 0..1, the paper's lambda.
        slices: int >= 1, directions a step.
        num_global: int >= 1, how many views, the first ones, make the centre; None for all but the local ones.
        seed: int, of the directions.

    Reference:
        Balestriero and LeCun, "LeJEPA: Provable and Scalable Self-Supervised Learning Without the Heuristics".
    """

    papers = (
        paper(
            "LeJEPA: Provable and Scalable Self-Supervised Learning Without the Heuristics",
            "https://arxiv.org/abs/2511.08544",
        ),
    )
    roles = ("prior", "marginal")
    terms: tuple[str, ...] = ("invariance", "sigreg")
    view_counts = (2, None)

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
        self.random = keras.random.SeedGenerator(seed)

    def directions(self, training):
        """Directions (P, slices): drawn anew in training, the same ones whenever else, so that nothing moves there."""
        return directions(self.embedding_dim, self.slices, self.random if training else self.seed)

    def call(self, images, training=False):
        outputs = super().call(images, training)
        local = self.embed_local(images, training)
        return outputs if local is None else outputs | {"local": local}

    def marginal_terms(self, terms, outputs, training):
        """A loss's terms for all views, the global ones first."""
        z = outputs["z"]
        num_global = self.num_global or z.shape[1]
        if "local" in outputs:
            z = ops.concatenate([z, outputs["local"]], axis=1)
        return terms(z, self.directions(training), num_global)

    def objective(self, images, outputs, training):
        terms = self.marginal_terms(lejepa_terms, outputs, training)
        return {"invariance": (1 - self.weight) * terms["invariance"], "sigreg": self.weight * terms["sigreg"]}
