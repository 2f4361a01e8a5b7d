"""SimVAE: the generative model that self-supervised methods share, trained as such."""

import keras
from keras import ops

from sslzoo import checks
from sslzoo.errors import InvalidInputError
from sslzoo.losses import gaussian_entropy, group_prior
from sslzoo.methods.papers import SIMVAE
from sslzoo.methods.vae import VAE


class SimVAE(VAE):
    """SimVAE: J views of an image are rebuilt from latents drawn around one unknown center.

    loss = mean over images of sum over views [ -log p(x_j | z_j) - entropy_weight H(q(z_j | x_j)) ]
           + sum_j |z_j - z_bar|^2 / (2 prior_variance)  [+ J |z_bar|^2 / (2 (prior_variance + J center_variance))]

    `prior` pulls the views of an image together, `reconstruction` pushes images (and views) apart, and `entropy`
    keeps the posterior from shrinking to a point. Terms are contributions to the loss, so `entropy` is minus the
    entropy. Without reconstruction the posterior variance settles at entropy_weight prior_variance J / (J - 1).

    Args:
        prior_variance: float > 0, variance of views around their center. With uniform centers it is a unit of length
            and nothing more: latents s times as long, of a prior variance s^2 times as large, have the same
            reconstruction and prior, and an entropy that differs by a constant. So it changes where training starts,
            not its optimum; the paper's 0.15 means something beside a `center_variance`, which its code has (1).
        center_variance: float > 0 for centers drawn from N(0, center_variance I), or None for uniform centers
            (the paper's eq. 9).
        entropy_weight: float > 0. 1 is the evidence lower bound; the released code has 2 pi, by a lost logarithm.
        likelihood_variance: float > 0; 0.01 is the paper's "0.02" as divisor of the squared error.
        encoder, decoder, views, likelihood, seed: as in `VAE`; at least two views.

    Reference:
        Bizeul, Schoelkopf and Allen, "A Probabilistic Model behind Self-Supervised Learning", eq. 4 and 9. Algorithm 1
        there adds the entropy to a minimized loss and averages the squared error over pixels; the text is followed.
    """

    papers = (SIMVAE,)
    terms = {"reconstruction": "reconstruction", "entropy": "entropy", "prior": "prior"}
    view_counts = (2, None)  # of one view alone the prior says nothing

    def __init__(
        self,
        encoder,
        decoder,
        views=None,
        prior_variance=0.15,
        center_variance=None,
        entropy_weight=1.0,
        likelihood_variance=0.01,
        **kwargs,
    ):
        super().__init__(encoder, decoder, views, likelihood_variance=likelihood_variance, **kwargs)
        self.prior_variance, self.entropy_weight = checks.positive(
            prior_variance=prior_variance, entropy_weight=entropy_weight
        )
        self.center_variance = None if center_variance is None else checks.positive(center_variance=center_variance)

    @classmethod
    def from_config(cls, config, custom_objects=None):
        # Older folders have the British spelling.
        config = {"center_variance" if key == "centre_variance" else key: value for key, value in config.items()}
        return super().from_config(config, custom_objects)

    def objective(self, images, outputs, training):
        entropy = ops.mean(ops.sum(gaussian_entropy(outputs["log_var"]), axis=1))
        prior = group_prior(outputs["z"], self.prior_variance, self.center_variance)
        return {
            "reconstruction": self.reconstruction(outputs),
            "entropy": -self.entropy_weight * entropy,
            "prior": ops.mean(prior),
        }

    def sample(self, n: int, *, like=None, seed: int | keras.random.SeedGenerator | None = None):
        """n images, float (n, H, W, C) in [0, 1]: a center, a latent around it with the prior's variance, decoded.

        Args:
            n: int.
            like: raw images (B, H, W, C), 0..255, whose posterior means serve as centers, in turn; so each sample
                shares the content of one of them. None draws centers from N(0, center_variance I).
            seed: int or SeedGenerator; the model's own by default.

        Raises:
            InvalidInputError: centers are uniform and `like` is not given: there is no such distribution to draw from.
        """
        if not isinstance(seed, keras.random.SeedGenerator):
            seed = self.random if seed is None else keras.random.SeedGenerator(checks.seed(seed=seed))
        shape = (checks.count(n=n), self.decoder.input_shape[-1])
        if like is not None:
            if not len(like):
                raise InvalidInputError("like must be one image at least. Received: like with 0 images")
            centers = self.encode(like)
            centers = ops.take(centers, ops.arange(n) % ops.shape(centers)[0], axis=0)
        elif self.center_variance is not None:
            centers = self.center_variance**0.5 * keras.random.normal(shape, seed=seed)
        else:
            raise InvalidInputError(
                "Uniform centers cannot be drawn. Give images to sample around (like=images), or train with a "
                "center_variance. Received: like=None, center_variance=None"
            )
        return self.decode(centers + self.prior_variance**0.5 * keras.random.normal(shape, seed=seed))

    def _samples(self, images, seed):
        if self.center_variance is not None:
            return super()._samples(images, seed)
        return self.sample(50, like=images[:10], seed=seed), "Samples around ten images"  # centers have no prior
