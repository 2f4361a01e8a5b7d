"""GEDI: clusters that agree between views of an image, hold an equal share each, and are a density of images."""

import math

import keras
from keras import ops

from sslzoo import checks
from sslzoo.errors import InvalidInputError
from sslzoo.losses import cluster_terms
from sslzoo.losses.tensors import mean_terms
from sslzoo.methods.energy_model import ClusterEnergyModel
from sslzoo.methods.papers import GEDI
from sslzoo.methods.pretrainer import full_precision
from sslzoo.methods.state import counter, snapshot


class GEDI(ClusterEnergyModel):
    """GEDI: one network is a clustering of images and an energy model of them, generative and discriminative at once.

    loss = generative_weight ( mean f(x_q) - mean f(x) )
         + invariance_weight  mean_i -sum_y p(y | x'_i) log p(y | x_i)
         - prior_weight  mean_y log mean_i p(y | x_i)

    with logits t(x), p(y | x) = softmax(t)_y and f(x) = log sum_y exp t_y; x is the image as it is, with a little
    noise, x' an augmented view of it, and x_q a sample of the model. `invariance` pulls image and view into one
    cluster, and stands for the prior of the zoo's model, whose centers are the clusters. What pushes images apart is
    `prior`, by which every cluster gets its share, and `generative`, the likelihood of the images.

    At the optimum invariance is 0 and prior is prior_weight log K, so the terms say what went wrong
    (`sslzoo.callbacks.EnergyHealth`). A weight of 0 leaves a term out, with what it costs.

    Args:
        clusters: int >= 2, K. The paper gives none; one for each class is what its numbers fit.
        views: `sslzoo.views.Views` with any number of views x' of an image, or None for ready-made ones
            (B, 1 + J, H, W, C), of which the first is x.
        generative_weight, invariance_weight, prior_weight: float >= 0. 1, 50 and 25 are those of SVHN, CIFAR-10 and
            MNIST (table 9); CIFAR-100 has 50 for the last, points in the plane 10.
        data_noise: float >= 0, standard deviation of Gaussian noise on x when training, in units of the views. It
            keeps the density of images, which lie on a thin surface, from becoming infinitely high there (JEM's 0.03).
        generative_steps: int >= 0, training steps in which the generative term alone counts.
        encoder, projector, **kwargs: as in `ClusterEnergyModel`.

    Reference:
        Sansone and Manhaeve, "Unifying Self-Supervised Clustering and Energy-Based Models" (arXiv 2401.00873), eq. 5-7,
        algorithm 1, table 9. The paper's sums over images are means here, as in its figures.
    """

    papers = (GEDI,)
    terms = {"generative": "density", "invariance": "prior", "prior": "substitute"}
    takes_more_than_views = True

    def __init__(
        self,
        encoder,
        clusters,
        projector=None,
        views=None,
        generative_weight=1.0,
        invariance_weight=50.0,
        prior_weight=25.0,
        data_noise=0.03,
        generative_steps=0,
        **kwargs,
    ):
        weights = checks.number(
            0, generative_weight=generative_weight, invariance_weight=invariance_weight, prior_weight=prior_weight
        )
        if not any(weights):
            raise InvalidInputError("A loss needs a term: one weight must be above 0. Received: three weights of 0")
        super().__init__(encoder, checks.count(2, clusters=clusters), projector, views, **kwargs)
        size, whole = getattr(views, "size", None), getattr(views, "eval_size", None)
        if whole not in (None, size):
            raise InvalidInputError(
                f"An image stands beside its views, and is as large. Received: views of size={size}, eval_size={whole}"
            )
        self.generative_weight, self.invariance_weight, self.prior_weight = weights
        self.data_noise = checks.number(0, data_noise=data_noise)
        self.generative_steps = checks.count(0, generative_steps=generative_steps)
        if generative_weight:
            self.make_buffer()
        if generative_steps:
            self.step = counter(self, "step")

    def make_views(self, images, training):
        """Image as it is, then its augmented views: (B, 1 + J, H, W, C)."""
        views = super().make_views(images, training)
        if views is images:  # ready-made
            if self.invariance_weight and views.shape[1] < 2:
                raise InvalidInputError(
                    "Ready-made views are the image and at least one view of it, (batch, 1 + views, height, width, "
                    f"channels). Received: shape={tuple(views.shape)}"
                )
            return views if self.invariance_weight else views[:, :1]
        x = self.prepare(images)
        if training and self.data_noise:
            x = x + self.data_noise * keras.random.normal(ops.shape(x), seed=self.random)
        if not self.invariance_weight:
            return x[:, None]
        return ops.concatenate([x[:, None], full_precision(views)], axis=1)

    def objective(self, images, outputs, training):
        logits = outputs["logits"]
        views = logits.shape[1] - self.generates
        terms = mean_terms([cluster_terms(logits[:, 0], logits[:, view]) for view in range(min(1, views - 1), views)])
        if self.generative_steps:
            alone = self.steps_taken() < self.generative_steps
            terms = {name: ops.where(alone, 0.0, term) for name, term in terms.items()}
        terms["generative"] = self.generative_term(outputs, 1) if self.generates else ops.zeros(())
        return self.weigh(terms)

    def update(self, images, outputs):
        super().update(images, outputs)
        if self.generative_steps:
            self.step.assign(snapshot(self.step) + 1)

    def chance_level(self, batch_size: int) -> float:
        """Loss when every cluster is as likely as any other, for every image: the weights of invariance and prior times
        log(clusters), in nats."""
        return (self.invariance_weight + self.prior_weight) * math.log(self.clusters)
