"""A probe of frozen features with one hidden layer."""

import dataclasses

from sslzoo.evaluation.protocols.linear import Linear


@dataclasses.dataclass
class MLP(Linear):
    """`Linear` with one hidden ReLU layer.

    Args:
        epochs: int.
        hidden: int, width of that layer; None for the number of features.
    """

    name, title = "mlp", "MLP probe"

    hidden: int | None = None

    def run(self, subject):
        return self.probe(subject, self.hidden or subject.train_features.shape[1])
