"""Whether the image that a memory bank has nearest to a test image is of its class."""

import dataclasses
from typing import ClassVar

import numpy as np

from sslzoo.evaluation.number import Number
from sslzoo.evaluation.protocols.protocol import DoesNotApply, Protocol, Result


@dataclasses.dataclass
class Bank(Protocol):
    """Class of the nearest row of the bank: the measure of "On Mutual Information in Contrastive Learning for Visual
    Representations" (arXiv 2005.13149), section B.3."""

    name: ClassVar[str] = "bank"
    title: ClassVar[str] = "memory bank"
    needs: ClassVar[tuple[str, ...]] = ("labels", "method")

    def check(self, subject):
        subject.check_method(self)
        rows, images = subject.method.num_images, len(subject.train_images)
        if rows != images or subject.attributes is not None:
            raise DoesNotApply(
                f"The bank remembers {rows:,} train images, and needs the class of each",
                f"{images:,} train images" + ", attributes" * (subject.attributes is not None),
            )

    def run(self, subject):
        nearest = subject.train_classes[subject.method.remembered(subject.test_images)]
        note = f"class of the nearest of {len(subject.train_images):,} images remembered"
        value = float(np.mean(nearest == subject.test_classes))
        return Result(
            {"accuracy": Number(value, "accuracy", note, subject.majority)}, {"images": len(subject.train_images)}
        )
