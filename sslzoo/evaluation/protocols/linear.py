"""A linear probe of frozen features."""

import dataclasses
from typing import ClassVar

import numpy as np

from sslzoo.evaluation import probes
from sslzoo.evaluation.number import Number
from sslzoo.evaluation.protocols.protocol import DoesNotApply, Protocol, Result


@dataclasses.dataclass
class Linear(Protocol):
    """One dense layer by Adam 3e-4 in batches of 128: accuracy after the last epoch, and after the best one on test.

    Args:
        epochs: int.
    """

    name: ClassVar[str] = "linear"
    title: ClassVar[str] = "linear probe"
    needs: ClassVar[tuple[str, ...]] = ("features", "labels")

    epochs: int = 200

    def check(self, subject):
        subject.check_shared_classes()

    def run(self, subject):
        return self.probe(subject, None)

    def probe(self, subject, hidden):
        """Result of a probe with one hidden layer of that width, or none."""
        from sklearn.metrics import confusion_matrix

        classes, truth = subject.num_classes, subject.test_classes
        progress = subject.progress(self.title)
        trained = probes.train_probe(
            *subject.splits(), classes, hidden=hidden, epochs=self.epochs, seed=subject.seed, progress=progress
        )
        if not np.isfinite(trained.losses).all():
            largest = np.abs(subject.train_features).max()
            raise DoesNotApply(
                "A probe computes in float32, and these features are too large for it: divide them by their largest "
                "absolute value",
                f"features up to {largest:.3g}",
            )
        best = int(trained.accuracies.argmax())
        by_optimizer = f"Adam 3e-4, batches of 128, last of {self.epochs} epochs"
        by_test = f"best epoch on test, as in the SimVAE papers: {best + 1}"
        numbers = {
            "accuracy": Number(float(trained.accuracies[-1]), "accuracy", by_optimizer, subject.majority),
            "best_accuracy": Number(float(trained.accuracies[best]), "best accuracy", by_test, subject.majority),
            "balanced_accuracy": Number(
                probes.balanced_accuracy(truth, trained.predictions),
                "balanced accuracy",
                "mean over classes, after the last epoch",
                1 / classes,
                shown=subject.uneven_classes,
            ),
        }
        outputs = 1 if classes == 2 else classes
        settings = {
            "layers": [subject.train_features.shape[1], *([] if hidden is None else [hidden]), outputs],
            "activation": None if hidden is None else "relu",
            "loss": "binary cross-entropy" if classes == 2 else "cross-entropy",
            "optimizer": "Adam",
            "learning_rate": 3e-4,
            "epochs": self.epochs,
            "batch_size": 128,
            "features": "as they are",
        }
        confusion = confusion_matrix(truth, trained.predictions, labels=np.arange(classes)).tolist()
        return Result(numbers, settings, confusion=confusion)
