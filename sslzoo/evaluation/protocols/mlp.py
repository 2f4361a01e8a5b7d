"""A probe of frozen features with one hidden layer."""

import dataclasses
from typing import ClassVar

from sslzoo.evaluation.protocols.linear import Linear


@dataclasses.dataclass
class MLP(Linear):
    """`Linear` with one hidden ReLU layer.

    Args:
        epochs: int.
        hidden: int, width of that layer; None for the number of features.
    """

    name: ClassVar[str] = "mlp"
    title: ClassVar[str] = "MLP probe"

    hidden: int | None = None

    def run(self, subject):
        return self.probe(subject, self.hidden or subject.train_features.shape[1])
