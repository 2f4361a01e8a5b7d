"""EBCLR: SimCLR read as a conditional density of two views, with the marginal density it leaves out."""

import math

import keras
import numpy as np
from keras import ops

from sslzoo import checks
from sslzoo.errors import InvalidInputError
from sslzoo.losses import generative_term, nt_xent_terms, pair_log_density
from sslzoo.methods.advice import LOWER_TEMPERATURE
from sslzoo.methods.energy_model import EnergyModel, langevin
from sslzoo.methods.pretrainer import full_precision
from sslzoo.methods.state import variable


class EBCLR(EnergyModel):
    """EBCLR: the joint density of two views of an image, p(x, x') ~ exp(-|z - z'|^2 / temperature), by its factors.

    loss = NT-Xent of squared distances                                 log p(x' | x), by its other candidates
         + generative_weight ( mean f(x_q) - mean f(x) )                log p(x)
         + norm_weight mean ( |g(x)|^2 + |g(x_q)|^2 )

    with z = g(x) / |g(x)|, f(x) = log sum_j exp(-|z - z'_j|^2 / temperature) over the second views of the batch, and
    x_q samples of p(x). `alignment` and `contrast` are SimCLR's at half the temperature, pull and push; `generative`
    pushes too, off what is no image, so that few negatives are enough; `norm` keeps the length of embeddings, which the
    rest does not see, from growing.

    Args:
        encoder, projector, views: as in `JointEmbedding`, in [-1, 1]. The paper's networks have no batch normalization
            and leaky ReLUs.
        temperature: float > 0, of squared distances.
        generative_weight: float >= 0. 0 is SimCLR, but for `norm`, without chains and buffer.
        norm_weight: float >= 0. The released code has 1e-3 times a sum over batches of 128, times 0.1.
        sgld_steps, step_size, buffer_size, restart, clip, seed: as in `EnergyModel`; a chain that ends gives its place
            to a view of the batch. Restart 0.2 (CIFAR) and 0.4 (MNIST) in the paper.
        noise, max_noise: float >= 0, of a chain that has cooled, and of a new one.
        cooling: float > 0, visits over which the noise falls from one to the other.

    Reference:
        Kim and Ye, "Energy-Based Contrastive Learning of Visual Representations" (arXiv 2202.04933), and its released
        code, which draws new chains from the whole training set rather than from batches gone by.
    """

    papers = ("https://arxiv.org/abs/2202.04933",)
    terms = {"alignment": "prior", "contrast": "substitute", "generative": "density", "norm": "marginal"}
    least_batch = 2
    view_counts = (2, 2)
    advice = (LOWER_TEMPERATURE,)
    without = ("sample_range",)

    def __init__(
        self,
        encoder,
        projector=None,
        views=None,
        temperature=0.1,
        generative_weight=0.1,
        norm_weight=0.0128,
        sgld_steps=10,
        step_size=0.05,
        buffer_size=50_000,
        restart=0.2,
        clip=1.0,
        max_noise=0.05,
        cooling=3.0,
        **kwargs,
    ):
        chains = {"sgld_steps": sgld_steps, "step_size": step_size, "buffer_size": buffer_size, "restart": restart}
        super().__init__(encoder, projector, views, clip=clip, **chains, **kwargs)
        self.temperature, self.cooling = checks.positive(temperature=temperature, cooling=cooling)
        self.generative_weight, self.norm_weight, self.max_noise = checks.number(
            0, generative_weight=generative_weight, norm_weight=norm_weight, max_noise=max_noise
        )
        if generative_weight:
            self.buffer = variable(self, np.zeros((buffer_size, *self.sample_shape), "float32"), "buffer")
            self.visits = variable(self, np.full((buffer_size,), -1, "int32"), "visits")  # -1: nothing there yet

    def call(self, images, training=False):
        views = full_precision(self.make_views(images, training))
        z = self.embed_groups(views, training)
        if not self.generates:
            return {"z": z}
        other = ops.stop_gradient(z[:, 1])
        samples, kept = self._visit(views[:, 0], lambda x: self._density(self.embed(x), other), training)
        return {"z": z, "z_samples": self.embed(samples, training), **kept}

    def _density(self, z, z_other):
        return pair_log_density(z, z_other, self.temperature)

    def _visit(self, views, function, training):
        """Samples (B, ...), and what is written back: places, rows, and how often each was visited since its start."""
        count = ops.shape(views)[0]
        seeds = self.seeds(training)
        slots = self.slots(count, seeds)
        x, visits = (ops.take(ops.convert_to_tensor(state), slots, axis=0) for state in (self.buffer, self.visits))

        def by_row(condition):
            return ops.reshape(condition, (-1, *[1] * len(self.sample_shape)))

        x = ops.where(by_row(visits < 0), views, x)
        visits = ops.maximum(visits, 0)
        hot = ops.maximum(1.0 - ops.cast(visits, "float32") / self.cooling, 0.0)
        noise = by_row(self.noise + (self.max_noise - self.noise) * hot)
        draws = keras.random.normal((self.sgld_steps, *ops.shape(x)), seed=next(seeds))
        x = langevin(self, function, x, draws, self.step_size, noise, self.clip)
        # A chain ends after its visit rather than before the next, so that the view that takes its place is met again
        # beside other images than those of its own batch.
        ends = keras.random.uniform((count,), seed=next(seeds)) < self.restart
        rows = ops.where(by_row(ends), ops.stop_gradient(views), x)
        return x, {"slots": slots, "rows": rows, "visits": ops.where(ends, 0, visits + 1)}

    def objective(self, images, outputs, training):
        z = outputs["z"]
        lengths, generative = ops.mean(ops.sum(ops.square(z[:, 0]), axis=1)), ops.zeros(())
        if self.generates:
            z_q = outputs["z_samples"]
            lengths += ops.mean(ops.sum(ops.square(z_q), axis=1))
            # As in the released code, gradients reach the second views through f of the data and of the samples.
            generative = generative_term(self._density(z[:, 0], z[:, 1]), self._density(z_q, z[:, 1]))
        contrastive = nt_xent_terms(z[:, 0], z[:, 1], self.temperature / 2)
        return self.weigh({**contrastive, "generative": generative, "norm": lengths})

    def update(self, images, outputs):
        if self.generates:
            self.write_back(outputs["slots"], outputs["rows"])
            visits = ops.convert_to_tensor(self.visits)
            self.visits.assign(ops.scatter_update(visits, outputs["slots"][:, None], outputs["visits"]))

    def log_density(self, images, reference):
        """log p(x) + an unknown constant, of raw images (N, H, W, C), 0..255: float32 tensor (N,), in nats.

        `reference` (R, H, W, C) are raw images that x may be a view of, the same for all that is compared.
        """
        return self._density(*(self.embed(self.prepare(x)) for x in (images, reference)))

    def sample(
        self,
        n: int,
        steps: int = 500,
        reference: np.ndarray | None = None,
        start: np.ndarray | None = None,
        seed: int = 0,
        verbose: bool = True,
    ) -> np.ndarray:
        """As `EnergyModel.sample`, at the noise of a cooled chain.

        Args:
            reference: array (R, H, W, C), raw images that a sample may be a view of; needed.
        """
        if reference is None:
            raise InvalidInputError(
                "EBCLR's density is a sum over images that x may be a view of. Received: reference=None"
            )
        z_other = ops.convert_to_numpy(self.embed(self.prepare(reference)))
        return self._sampled(lambda x: self._density(self.embed(x), z_other), n, steps, start, seed, verbose)

    def _samples(self, images, seed):
        return self.sample(50, seed=seed, reference=images[:100])

    def chance_level(self, batch_size: int) -> float:
        """Loss of the contrastive terms when all embeddings are equal: log(2 batch_size - 1), in nats; the generative
        one is 0 then, and that of the norm is left out."""
        return math.log(2 * batch_size - 1)
