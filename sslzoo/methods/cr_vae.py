"""CR-VAE: a VAE whose posterior must not change under augmentation."""

from keras import ops

from sslzoo import checks
from sslzoo.losses import gaussian_kl_between
from sslzoo.methods.papers import SIMVAE
from sslzoo.methods.vae import VAE


class CRVAE(VAE):
    """Consistency-regularized VAE: two views, each a VAE, and a KL from one posterior to the other.

    loss = mean over images of  VAE(x) + VAE(x') + consistency_weight KL(q(z | x') || q(z | x))

    x is the first view and x' the second; the gradient flows through both. `reconstruction` pushes images apart,
    `prior` pulls everything to one center, `consistency` pulls the two views of an image together.

    Args:
        consistency_weight: float > 0, lambda: 0.1 in the SimVAE paper, 0.01 in its workshop version, 1e-3 originally.
        likelihood_variance: float > 0; 0.01 is the papers' "0.02" as divisor of the squared error.
        encoder, decoder, views, likelihood, seed: as in `VAE`; views must make exactly two.

    Reference:
        Sinha and Dieng, "Consistency Regularization for Variational Auto-Encoders", eq. 4 and 5 (their code treats
        exp(log_var) as a standard deviation in this term; the formula, with variances, is followed here).
    """

    papers = ("https://arxiv.org/abs/2105.14859", SIMVAE)
    terms = {"reconstruction": "reconstruction", "prior": "marginal", "consistency": "prior"}
    view_counts = (2, 2)

    def __init__(self, encoder, decoder, views=None, consistency_weight=0.1, likelihood_variance=0.01, **kwargs):
        super().__init__(encoder, decoder, views, likelihood_variance=likelihood_variance, **kwargs)
        self.consistency_weight = checks.positive(consistency_weight=consistency_weight)

    def objective(self, images, outputs, training):
        mean, log_var = outputs["mean"], outputs["log_var"]
        consistency = gaussian_kl_between(mean[:, 1], log_var[:, 1], mean[:, 0], log_var[:, 0])
        return {
            **super().objective(images, outputs, training),
            "consistency": self.consistency_weight * ops.mean(consistency),
        }
