"""How well the clusters of an energy model agree with classes, without a probe."""

import dataclasses
from typing import ClassVar

from sslzoo.evaluation.features import features
from sslzoo.evaluation.number import Number
from sslzoo.evaluation.protocols.gmm import numbers_beside_chance
from sslzoo.evaluation.protocols.protocol import DoesNotApply, Protocol, Result

MINIBATCH = 100


@dataclasses.dataclass
class Clusters(Protocol):
    """NMI and Hungarian accuracy of the largest output of the head; and the same averaged over batches of 100."""

    name: ClassVar[str] = "clusters"
    title: ClassVar[str] = "clusters"
    needs: ClassVar[tuple[str, ...]] = ("labels", "method")
    parts: ClassVar[tuple[str, ...]] = ("projection",)

    def check(self, subject):
        subject.check_method(self)
        if subject.attributes is not None:
            raise DoesNotApply("Clusters are compared with classes", "attributes")

    def run(self, subject):
        head, images = subject.parts["projection"], subject.test_images
        clusters = features(head, images, subject.batch_size, subject.progress(self.title)).argmax(axis=1)
        whole, batches = numbers_beside_chance(subject.test_classes, clusters, MINIBATCH, subject.seed)
        kinds = {
            "": (whole, "the model's own clusters, no probe"),
            f"minibatch{MINIBATCH}_": (
                batches,
                f"mean over batches of {MINIBATCH}, as the GEDI paper's tables appear to be",
            ),
        }
        numbers = {
            f"{kind}{metric}": Number(found[metric][0], label, note, found[metric][1])
            for kind, (found, note) in kinds.items()
            for metric, label in (("nmi", "NMI"), ("accuracy", "Hungarian accuracy"))
        }
        return Result(numbers, {"clusters": head.output_shape[-1], "minibatch": MINIBATCH})
