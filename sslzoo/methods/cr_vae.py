"""CR-VAE: a VAE whose posterior must not change under augmentation."""

import keras
from keras import ops

from sslzoo import checks
from sslzoo.losses import gaussian_kl_between
from sslzoo.methods.vae import VAE


@keras.saving.register_keras_serializable("sslzoo")
class CRVAE(VAE):
    """Consistency-regularised VAE: two views, each a VAE, and a KL from one posterior to the other.

    loss = mean over images of  VAE(x) + VAE(x') + consistency_weight KL(q(z | x') || q(z | x))

    x is the first view and x' the second; the gradient flows through both. `reconstruction` pushes images apart,
    `prior` pulls everything to one centre, `consistency` pulls the two views of an image together.

    Example:
        import numpy as np
        from sslzoo import methods, networks, views

        images = np.random.default_rng(0).integers(0, 256, (64, 8, 8, 1)).astype("uint8")
        encoder = networks.encoder("mlp-small", (8, 8, 1), 10, posterior=True)
        decoder = networks.decoder("mlp-small", (8, 8, 1), 10)
        model = methods.CRVAE(encoder, decoder, views.Views("simvae-digits", 2))
        model.compile("adam")
        model.fit(images, batch_size=16, verbose=0)
        model.encode(images[:8])  # posterior means, float32 (8, 10)

    Args:
        consistency_weight: float > 0, lambda: 0.1 in the SimVAE paper, 0.01 in its workshop version, 1e-3 originally.
        likelihood_variance: float > 0; 0.01 is the papers' "0.02" as divisor of the squared error.
        encoder, decoder, views, likelihood, seed: as in `VAE`; views must make exactly two.

    Raises:
        InvalidInputError: views do not come in pairs.

    Reference:
        Sinha and Dieng, "Consistency Regularization for Variational Auto-Encoders", eq. 4 and 5 (their code treats
        exp(log_var) as a standard deviation in this term; the formula, with variances, is followed here).
    """

    papers = (
        {
            "title": "Consistency Regularization for Variational Auto-Encoders",
            "url": "https://arxiv.org/abs/2105.14859",
        },
        {"title": "A Probabilistic Model behind Self-Supervised Learning", "url": "https://arxiv.org/abs/2402.01399"},
    )
    terms = ("reconstruction", "prior", "consistency")
    roles = ("reconstruction", "marginal", "prior")
    view_counts = (2, 2)

    def __init__(
        self,
        encoder: keras.Model,
        decoder: keras.Model,
        views: keras.Layer | None = None,
        consistency_weight: float = 0.1,
        likelihood: str = "gaussian",
        likelihood_variance: float = 0.01,
        seed: int = 0,
        **kwargs,
    ):
        super().__init__(encoder, decoder, views, likelihood, likelihood_variance, seed, **kwargs)
        checks.positive(consistency_weight=consistency_weight)
        self.consistency_weight = consistency_weight

    def objective(self, images, outputs, training):
        mean, log_var = outputs["mean"], outputs["log_var"]
        consistency = gaussian_kl_between(mean[:, 1], log_var[:, 1], mean[:, 0], log_var[:, 0])
        return {
            **super().objective(images, outputs, training),
            "consistency": self.consistency_weight * ops.mean(consistency),
        }
