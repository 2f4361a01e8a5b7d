"""How near images drawn from a Gaussian of each class come to test images."""

import dataclasses
from typing import Any

import numpy as np

from sslzoo.evaluation import generation
from sslzoo.evaluation.features import weights_sha256
from sslzoo.evaluation.generation import Extractor, MissingInceptionError
from sslzoo.evaluation.number import Number
from sslzoo.evaluation.protocols.protocol import DoesNotApply, Protocol, Result

# What Fréchet distances are measured by where InceptionV3 cannot be had. Fixed, so that figures compare. For the same
# reason no second one takes the place of these where they would be judged in their own features.
FRECHET_ENCODERS = {
    name: f"simclr-{name.replace('_', '-')}" for name in ("digits", "mnist", "fashion_mnist", "cifar10")
}


@dataclasses.dataclass
class Generation(Protocol):
    """Fréchet distance of test images and of images decoded from a full-covariance Gaussian of each class: `fid` by
    Keras' InceptionV3, `frechet_<encoder>` by another extractor.

    Args:
        extractor: "inception", or another encoder than the one that is measured: a Keras model, name or folder. Where
            InceptionV3 cannot be downloaded, an encoder of the zoo takes its place for digits, MNIST, FashionMNIST and
            CIFAR-10, under its own name.
        frechet_images: int, at most.
        decoder_epochs: int, of a decoder that is fitted.
    """

    name, title = "generation", "generation"
    needs = ("labels",)
    parts = ("decoder",)
    inputs = ("extractor",)

    extractor: Any = "inception"
    frechet_images: int = 10_000
    decoder_epochs: int = 10

    def check(self, subject):
        subject.check_parts("decoder")
        self._extractor = self._find_extractor(subject)  # now, for the probes of the classes may take an hour

    def _find_extractor(self, subject):
        """What images are compared by, and remarks on it."""
        remarks, instead = [], ""
        try:
            extractor = Extractor.of(self.extractor)
        except MissingInceptionError as error:
            if subject.dataset not in FRECHET_ENCODERS:
                raise
            extractor, instead = Extractor.of(FRECHET_ENCODERS[subject.dataset]), f"{error.reason}. "
            remarks.append(
                f"{instead}The extractor is {FRECHET_ENCODERS[subject.dataset]} instead, and the distance no FID."
            )
        if _is_same(extractor.network, subject.encoder):
            raise DoesNotApply(
                f"{instead}No encoder is judged in its own features, which those of the extractor"
                f"{' in its place' * bool(instead)} are: name another (--extractor), whose distances do not compare "
                "with those of this one",
                f"extractor={extractor.described!r}",
            )
        return extractor, remarks

    def run(self, subject):
        progress = subject.progress(self.title)
        extractor, remarks = self._extractor
        decoder, fitted = subject.decoder(self.decoder_epochs)
        count = min(self.frechet_images, len(subject.test_images))
        gaussians = generation.ClassGaussians.fit(subject.train_features, subject.train_labels)
        rng = np.random.default_rng(subject.seed)
        labels = rng.choice(subject.train_labels, count)  # classes as often as in the train set
        images = 255 * generation.decoded(decoder, gaussians.sample(labels, subject.seed))
        progress(1, 3)
        ten_each = np.repeat(gaussians.classes[:10], 10)
        shown = generation.decoded(decoder, gaussians.sample(ten_each, subject.seed + 1))
        real = subject.test_images[rng.permutation(len(subject.test_images))[:count]]
        theirs = extractor(real)
        progress(2, 3)
        distance = generation.frechet(extractor(images), theirs)
        how = extractor.described + _fitting(extractor, real, images)
        note = f"{count:,} images of class-wise Gaussians and {count:,} test images; {how}"
        if len(theirs) >= 4:
            halves = generation.frechet(theirs[::2], theirs[1::2])
            note += f"; {halves:.3g} between two halves of those test images"
        progress(3, 3)
        numbers = {extractor.metric: Number(distance, "Fréchet distance", note, unit="")}
        latents = "Gaussian with full covariance for each class, fitted to train features"
        settings = {"latents": latents, "images": count, "reference": "test", "extractor": how}
        settings["decoder"] = "fitted to frozen features" if fitted else "its own"
        return Result(numbers, settings, remarks, images={"classes": shown})


def _is_same(network, encoder):
    """Whether two encoders are one, wherever each was loaded from."""
    return network is encoder or (bool(encoder.weights) and weights_sha256(network) == weights_sha256(encoder))


def _fitting(extractor, real, images):
    """How an extractor brings test images and drawn ones to its size, in words."""
    ours, theirs = (extractor.fitting(some.shape[1:]) for some in (real, images))
    if ours == theirs:
        return f"; both {ours}" if ours else ""
    each = (("test images", ours), ("drawn images", theirs))
    return "".join(f"; {what} {done}" for what, done in each if done)
