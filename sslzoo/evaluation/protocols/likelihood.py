"""How likely test images are to a variational autoencoder."""

import dataclasses

import numpy as np

from sslzoo.evaluation import generation
from sslzoo.evaluation.features import run
from sslzoo.evaluation.protocols.protocol import DoesNotApply, Number, Protocol, Result


@dataclasses.dataclass
class Likelihood(Protocol):
    """Importance-weighted negative log-likelihood, nats an image; takes a posterior and a decoder.

    Args:
        likelihood_images: int, at most.
        likelihood_samples: int, of the posterior for each image.
    """

    name, title = "likelihood", "likelihood"
    parts = ("posterior", "decoder")

    likelihood_images: int = 500
    likelihood_samples: int = 64

    def check(self, subject):
        subject.check_parts(*self.parts)
        has = [*subject.parts, *subject.likelihood]
        lacking = [what for what in (*self.parts, "likelihood_variance") if what not in has]
        if lacking:
            needed = "A likelihood takes a posterior, a decoder and the variance of its pixels"
            raise DoesNotApply(needed, f"no {', no '.join(lacking)}")

    def run(self, subject):
        model, samples = subject.likelihood, self.likelihood_samples
        kind, variance, prior = model["likelihood"], model["likelihood_variance"], model["prior_variance"]
        chosen = subject.some(len(subject.test_images), self.likelihood_images)
        images, decoder = subject.test_images[chosen], subject.parts["decoder"]
        mean, log_var = run(subject.parts["posterior"], images, 100)
        seen, posterior = generation.as_seen(subject.encoder, images), (mean, np.clip(log_var, -12, 8))
        settings = samples, variance, prior, kind, subject.seed, subject.progress(self.title)
        log_p = generation.log_likelihood(seen, *posterior, lambda z: generation.decoded(decoder, z), *settings)
        how = f"importance-weighted, {samples} samples, {len(images):,} test images; p(z) = N(0, {prior:g} I)"
        note = f"{how}, {kind} pixels" + f" of variance {variance:g}" * (kind == "gaussian")
        if kind != "gaussian" and variance != 1:
            note += f", their cross-entropy divided by {variance:g}, as in training, so it is no likelihood"
        numbers = {"nll": Number(-float(log_p.mean()), "negative log-likelihood", note, unit="nats")}
        settings = {"samples": samples, "images": len(images)}
        settings |= {key: model[key] for key in ("prior_variance", "likelihood", "likelihood_variance")}
        remarks = []
        if model["uniform_centers"]:
            remarks.append(
                "Likelihood: with uniform centers there is no p(z) of one image; centers were given variance 1 instead."
            )
        return Result(numbers, settings, remarks)
