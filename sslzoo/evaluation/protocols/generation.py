"""How near images drawn from a Gaussian of each class come to test images."""

import dataclasses
from typing import Any

import numpy as np

from sslzoo.evaluation import generation
from sslzoo.evaluation.features import weights_sha256
from sslzoo.evaluation.protocols.protocol import DoesNotApply, Number, Protocol, Result
from sslzoo.networks.composition import input_range


@dataclasses.dataclass
class Generation(Protocol):
    """Fréchet distance of test images and of images decoded from a full-covariance Gaussian of each class: `fid` by
    Keras' InceptionV3, `frechet_<encoder>` by another extractor.

    Args:
        extractor: "inception", or another encoder than the one that is measured: a Keras model, name or folder.
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
        if (count := min(self.frechet_images, len(subject.test_images))) < 2:
            raise DoesNotApply("A Fréchet distance takes at least 2 test images", f"{count}")
        self._extractor = generation.Extractor.of(self.extractor)  # now, for the probes of the classes may take an hour
        network, encoder = self._extractor.network, subject.encoder
        taken, channels = network.input_shape[-1], subject.test_images.shape[-1]
        if channels not in {1, 3, taken}:
            takes = " or ".join(map(str, sorted({1, 3, taken})))
            raise DoesNotApply(f"The extractor takes images of {takes} channels", f"{channels} channels")
        if network is encoder or (bool(encoder.weights) and weights_sha256(network) == weights_sha256(encoder)):
            raise DoesNotApply(
                "No encoder is judged in its own features, which those of the extractor are: name another "
                "(--extractor), whose distances do not compare with those of this one",
                f"extractor={self._extractor.described!r}",
            )

    def run(self, subject):
        progress = subject.progress(self.title)
        extractor = self._extractor
        decoder, fitted = subject.decoder(self.decoder_epochs)
        count = min(self.frechet_images, len(subject.test_images))
        gaussians = generation.ClassGaussians.fit(subject.train_features, subject.train_labels)
        rng = np.random.default_rng(subject.seed)
        labels = rng.choice(subject.train_labels, count)  # classes as often as in the train set
        images = 255 * generation.decoded(decoder, gaussians.sample(labels, subject.seed))
        progress(1, 3)
        ten_each = np.repeat(gaussians.classes[:10], 10)
        shown = generation.decoded(decoder, gaussians.sample(ten_each, subject.seed + 1))
        real = _bytes(subject.test_images[rng.permutation(len(subject.test_images))[:count]], subject.encoder)
        theirs = extractor(real)
        progress(2, 3)
        distance = generation.frechet(extractor(images), theirs)
        how = extractor.described + _fitting(extractor, real, images)
        note = f"{count:,} images of class-wise Gaussians and {count:,} test images; {how}"
        if len(theirs) >= 4:
            halves = generation.frechet(theirs[::2], theirs[1::2])
            note += f"; {halves:.3g} between two halves of those test images (of fewer images distances are larger)"
        progress(3, 3)
        numbers = {extractor.metric: Number(distance, "Fréchet distance", note, unit="")}
        latents = "Gaussian with full covariance for each class, fitted to train features"
        settings = {"latents": latents, "images": count, "reference": "test", "extractor": how}
        settings["decoder"] = "fitted to frozen features" if fitted else "its own"
        return Result(numbers, settings, images={"classes": shown})


def _bytes(images, encoder):
    """Raw images in 0..255, as extractors take them, whatever range the encoder takes."""
    low, high = input_range(encoder)
    if (low, high) == (0, 255):
        return images
    return np.clip((np.asarray(images, np.float32) - low) * np.float32(255 / (high - low)), 0, 255)


def _fitting(extractor, real, images):
    """How an extractor brings test images and drawn ones to its size, in words."""
    ours, theirs = (extractor.fitting(some.shape[1:]) for some in (real, images))
    if ours == theirs:
        return f"; both {ours}" if ours else ""
    each = (("test images", ours), ("drawn images", theirs))
    return "".join(f"; {what} {done}" for what, done in each if done)
