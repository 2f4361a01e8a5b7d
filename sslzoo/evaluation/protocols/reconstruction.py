"""How well images are rebuilt from features."""

import dataclasses

import numpy as np

from sslzoo.evaluation import generation
from sslzoo.evaluation.protocols.protocol import DoesNotApply, Number, Protocol, Result


@dataclasses.dataclass
class Reconstruction(Protocol):
    """Squared error per pixel of test images, in 0..1 as the encoder sees them (behind a threshold: binary), through
    the decoder; an encoder without one gets one fitted to its frozen features ("adhoc_mse").

    Args:
        reconstruction_images: int, at most.
        decoder_epochs: int, of a decoder that is fitted.
    """

    name, title = "reconstruction", "reconstruction"
    parts = ("decoder",)

    reconstruction_images: int = 10_000
    decoder_epochs: int = 10

    def check(self, subject):
        subject.check_parts("decoder")

    def run(self, subject):
        decoder, fitted = subject.decoder(self.decoder_epochs, subject.progress(self.title))
        chosen = subject.some(len(subject.test_images), self.reconstruction_images)
        seen = generation.as_seen(subject.encoder, subject.test_images[chosen])
        rebuilt = generation.decoded(decoder, subject.test_features[chosen])
        if rebuilt.shape != seen.shape:
            raise DoesNotApply(f"The decoder gives images of shape {rebuilt.shape[1:]}", f"images {seen.shape[1:]}")
        usual = subject.train_images[subject.some(len(subject.train_images), 5000)]
        mean = generation.as_seen(subject.encoder, usual).mean(axis=0)
        error, chance = (float(np.mean((seen - other) ** 2, dtype=np.float64)) for other in (rebuilt, mean))
        how = "a decoder fitted to frozen features" if fitted else "posterior means through its own decoder"
        note = f"{how}; {len(seen):,} test images in 0..1, as the network sees them; guessing is the mean image"
        metric = "adhoc_mse" if fitted else "mse"
        numbers = {metric: Number(error, "MSE per pixel", note, chance, unit="")}
        settings = {"images": len(seen), "decoder": "fitted to frozen features" if fitted else "its own"}
        if fitted:
            settings |= {"epochs": self.decoder_epochs, "optimizer": "Adam 1e-3, batches of 128"}
        shown = subject.some(len(seen), 20)
        return Result(numbers, settings, images={"reconstructions": (seen[shown], rebuilt[shown])})
