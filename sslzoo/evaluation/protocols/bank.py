"""Whether the image that a memory bank has nearest to a test image is of its class."""

import numpy as np

from sslzoo.evaluation.protocols.protocol import DoesNotApply, Number, Protocol, Result


class Bank(Protocol):
    """Class of the nearest row of the bank: the measure of "On Mutual Information in Contrastive Learning for Visual
    Representations" (arXiv 2005.13149), section B.3."""

    name, title = "bank", "memory bank"
    needs = ("labels", "method")

    def check(self, subject):
        subject.check_method(self)
        rows, images = subject.method.num_images, len(subject.train_images)
        if rows != images:
            needed = f"The bank remembers {rows:,} train images, and needs the class of each"
            raise DoesNotApply(needed, f"{images:,} train images")

    def run(self, subject):
        images = len(subject.train_images)
        nearest = subject.train_classes[subject.method.remembered(subject.test_images)]
        note = f"class of the nearest of {images:,} images remembered"
        accuracy = Number(float(np.mean(nearest == subject.test_classes)), "accuracy", note, subject.majority)
        return Result({"accuracy": accuracy}, {"images": images})
