"""Variational autoencoders of single views: VAE and beta-VAE, and what the whole family shares."""

import warnings

import keras
import numpy as np
from keras import ops

from sslzoo import checks
from sslzoo.errors import InvalidInputError, choose
from sslzoo.losses import bernoulli_reconstruction, gaussian_kl, gaussian_reconstruction
from sslzoo.methods.advice import Advice
from sslzoo.methods.papers import SIMVAE
from sslzoo.methods.pretrainer import Picture, Pretrainer, full_precision
from sslzoo.networks.composition import as_network, compose

# exp(-12) to exp(8) holds every posterior variance a run has a use for (optima lie near 0.2); outside it, bfloat16 and
# a bad first step could overflow exp().
LOG_VARIANCE_RANGE = (-12.0, 8.0)


class VAE(Pretrainer):
    """Variational autoencoder: reconstructs each view from a sample of its posterior, held near N(0, I).

    loss = mean over images of sum over views [ -log p(x | z) + KL(q(z | x) || N(0, I)) ],  z ~ q(z | x)

    `reconstruction` pushes images apart (to be rebuilt an image must differ from others); `prior` pulls all of
    them towards one center, without regard to which views belong together.

    Example:
        import numpy as np
        from sslzoo import methods, networks, views

        images = np.random.default_rng(0).integers(0, 256, (64, 8, 8, 1)).astype("uint8")
        encoder = networks.encoder("mlp-small", (8, 8, 1), 10, posterior=True)
        decoder = networks.decoder("mlp-small", (8, 8, 1), 10)
        model = methods.VAE(encoder, decoder, views.Views("simvae-digits", 1))
        model.compile("adam")
        model.fit(images, batch_size=16, verbose=0)
        model.sample(16)  # float32 (16, 8, 8, 1) in [0, 1]

    Args:
        encoder: Functional model, view (N, H, W, C) -> [mean, log_var], (N, L) each
            (`sslzoo.networks.encoder(..., posterior=True)`).
        decoder: Functional model, latent (N, L) -> logits (N, H, W, C); the image mean is their sigmoid, in [0, 1].
        views: `sslzoo.views.Views` with any number of views, in [0, 1] as the image means are; or None for ready-made
            views (B, J, H, W, C).
        likelihood: "gaussian" (squared error / (2 likelihood_variance)) or "bernoulli" (binary cross-entropy /
            likelihood_variance, as in SimVAE's released code; 1.0 is the likelihood proper).
        likelihood_variance: float > 0, variance of a pixel around its mean. 1.0 in the papers' VAE.
        seed: int, for the posterior samples.

    Reference:
        Kingma and Welling, "Auto-Encoding Variational Bayes", eq. 10. Settings: "A Probabilistic Model behind
        Self-Supervised Learning", appendix A.7.
    """

    papers = ("https://arxiv.org/abs/1312.6114", SIMVAE)
    terms = {"reconstruction": "reconstruction", "prior": "marginal"}
    advice = (Advice("a lower likelihood variance", "likelihood_variance"),)
    beta = 1.0

    def __init__(self, encoder, decoder, views=None, likelihood="gaussian", likelihood_variance=1.0, seed=0, **kwargs):
        super().__init__(encoder, views, **kwargs)
        self.decoder = as_network("decoder", decoder)
        encoder, decoder = self.encoder, self.decoder
        self.likelihood = choose("likelihood", likelihood, ("gaussian", "bernoulli"))
        self.likelihood_variance = checks.positive(likelihood_variance=likelihood_variance)
        self.seed = checks.seed(needed=True, seed=seed)
        self.random = keras.random.SeedGenerator(self.seed)
        if len(encoder.outputs) != 2 or encoder.outputs[0].shape != encoder.outputs[1].shape:
            raise InvalidInputError(
                "encoder must have two outputs of one shape, [mean, log_var]; see networks.encoder(posterior=True). "
                f"Received: encoder outputs of shapes {[tuple(o.shape) for o in encoder.outputs]}"
            )
        if decoder.input_shape[-1] != encoder.outputs[0].shape[-1] or decoder.output_shape != encoder.input_shape:
            raise InvalidInputError(
                f"decoder must map latents of size {encoder.outputs[0].shape[-1]} to images of shape "
                f"{encoder.input_shape[1:]}. Received: decoder {decoder.input_shape} -> {decoder.output_shape}"
            )
        self._check_range()

    def _check_range(self):
        """A sigmoid cannot rebuild views outside [0, 1], and their Bernoulli loss would fall without end."""
        if not hasattr(self.views, "prepare"):
            return
        shape = [side or 32 for side in self.encoder.input_shape[1:]]
        black_and_white = [np.full(shape, value, "float32") for value in getattr(self.views, "value_range", (0, 255))]
        given = np.stack(black_and_white)
        for made in (self.views.prepare, lambda images: self.views(images, training=True, seed=0)):  # which adds noise
            try:
                seen = ops.convert_to_numpy(made(given))
            except Exception:  # views may take images of other channels than they give
                return
            low, high = float(seen.min()), float(seen.max())
            if low < -1e-3 or high > 1 + 1e-3:
                return self._refuse_range(low, high)

    def _refuse_range(self, low, high):
        message = (
            "views must lie in [0, 1], as what the decoder makes of them does; take a policy that neither "
            "normalizes nor adds noise, such as those of SimVAE. "
            f"Received: views of black and white in [{low:.3g}, {high:.3g}], likelihood={self.likelihood!r}"
        )
        if self.likelihood == "bernoulli":
            raise InvalidInputError(message)
        warnings.warn(message, stacklevel=4)

    def call(self, images, training=False):
        views = full_precision(self.make_views(images, training))
        group = ops.shape(views)[:2]
        flat = ops.reshape(views, (-1, *views.shape[2:]))
        mean, log_var = self._posterior(flat, training)
        # Outside training the same noise for every batch, so that nothing moves there.
        noise = keras.random.normal(ops.shape(mean), dtype=mean.dtype, seed=self.random if training else self.seed)
        z = mean + ops.exp(0.5 * log_var) * noise
        logits = full_precision(self.decoder(z, training=training))

        made = {"mean": mean, "log_var": log_var, "z": z, "logits": logits}
        grouped = {name: ops.reshape(tensor, (*group, *tensor.shape[1:])) for name, tensor in made.items()}
        return {"views": views, **grouped}

    def objective(self, images, outputs, training):
        kl = gaussian_kl(outputs["mean"], outputs["log_var"])
        return {"reconstruction": self.reconstruction(outputs), "prior": self.beta * ops.mean(ops.sum(kl, axis=1))}

    def reconstruction(self, outputs):
        """-log p(x | z), summed over pixels and views, mean over images: scalar."""
        group = ops.shape(outputs["views"])[:2]
        x, logits = (ops.reshape(t, (-1, *t.shape[2:])) for t in (outputs["views"], outputs["logits"]))
        if self.likelihood == "gaussian":
            per_view = gaussian_reconstruction(x, ops.sigmoid(logits), self.likelihood_variance)
        else:
            per_view = bernoulli_reconstruction(x, logits) / self.likelihood_variance
        return ops.mean(ops.sum(ops.reshape(per_view, group), axis=1))

    def _posterior(self, flat_views, training):
        mean, log_var = (full_precision(t) for t in self.encoder(flat_views, training=training))
        # The value is clipped, not its gradient: what went beyond would never come back.
        return mean, log_var + ops.stop_gradient(ops.clip(log_var, *LOG_VARIANCE_RANGE) - log_var)

    def posterior(self, images):
        """q(z | x) of raw images (B, H, W, C), 0..255: mean, log_var, float tensors (B, L)."""
        return self._posterior(self.prepare(images), training=False)

    def representation(self, views, training=False):
        """Posterior means (N, L) of views (N, H, W, C)."""
        return self.encoder(views, training=training)[0]

    def decode(self, z):
        """Image means of latents (B, L): float tensor (B, H, W, C) in [0, 1]."""
        return ops.sigmoid(full_precision(self.decoder(ops.convert_to_tensor(z, dtype="float32"), training=False)))

    def reconstruct(self, images):
        """Images through posterior mean and decoder: raw (B, H, W, C), 0..255 -> float tensor in [0, 1]."""
        return self.decode(self.encode(images))

    def sample(self, n: int, seed: int | None = None):
        """n images from the prior: z ~ N(0, I), decoded. Float tensor (n, H, W, C) in [0, 1]."""
        size = self.decoder.input_shape[-1]
        return self.decode(keras.random.normal((checks.count(n=n), size), seed=self.random if seed is None else seed))

    def pictures(self, images, seed: int) -> list[Picture]:
        seen, rebuilt = (ops.convert_to_numpy(view(images[:20])) for view in (self.prepare, self.reconstruct))
        samples, title = self._samples(images, seed)
        return [
            Picture("reconstructions", "reconstructions", (seen, rebuilt)),
            Picture("samples", "samples", (ops.convert_to_numpy(samples),), title),
            *super().pictures(images, seed),
        ]

    def _samples(self, images, seed):
        """Fifty samples for a picture, and its title."""
        return self.sample(50, seed=seed), "Samples from the prior"

    def parts(self, image_shape: tuple[int, int, int]) -> dict[str, keras.Model]:
        preprocessor = self.preprocessor(image_shape)
        return {
            "encoder": compose(preprocessor, self.encoder, output=0, name="encoder"),
            "posterior": compose(preprocessor, self.encoder, name="posterior"),
            "decoder": compose(None, self.decoder, activation="sigmoid", name="decoder"),
        }


class BetaVAE(VAE):
    """beta-VAE: a VAE whose prior term is weighted by `beta`.

    loss = mean over images of sum over views [ -log p(x | z) + beta KL(q(z | x) || N(0, I)) ]

    With a Gaussian likelihood only beta x likelihood_variance matters to the optimum. The SimVAE paper therefore sets
    the variance alone (its "0.02" is the divisor of the squared error, hence 0.01 here) and beta = 1; the workshop
    paper's table has beta = 1.2 at variance 1, its text 0.1.

    Args:
        beta: float > 0, weight of the prior.
        encoder, decoder, views, likelihood, likelihood_variance, seed: as in `VAE`.

    Reference:
        Higgins et al., "beta-VAE", eq. 4.
    """

    papers = ("https://openreview.net/forum?id=Sy2fzU9gl", SIMVAE)

    def __init__(self, encoder, decoder, views=None, beta=1.0, likelihood_variance=0.01, **kwargs):
        super().__init__(encoder, decoder, views, likelihood_variance=likelihood_variance, **kwargs)
        self.beta = checks.positive(beta=beta)
