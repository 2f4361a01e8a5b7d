"""A linear probe of frozen features."""

import dataclasses

import numpy as np

from sslzoo.evaluation import probes
from sslzoo.evaluation.datasets import CELEBA_TASKS
from sslzoo.evaluation.protocols.protocol import DoesNotApply, Number, Protocol, Result


@dataclasses.dataclass
class Linear(Protocol):
    """One dense layer by Adam 3e-4 in batches of 128: accuracy after the last epoch, and after the best one on test.

    Args:
        epochs: int.
    """

    name, title = "linear", "linear probe"
    needs = ("features", "labels")

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
        with np.errstate(over="ignore", invalid="ignore"):
            trained = probes.train_probe(
                *subject.splits(), classes, hidden=hidden, epochs=self.epochs, seed=subject.seed, progress=progress
            )
        if not np.isfinite(trained.weights[-1][0]).all():
            too_large = "A probe computes in float32, where these features overflow: divide them by a large number"
            raise DoesNotApply(too_large, f"features up to {np.abs(subject.train_features).max():.3g}")
        best, chance = int(trained.accuracies.argmax()), subject.majority
        last = f"Adam 3e-4, batches of 128, last of {self.epochs} epochs"
        on_test = f"best epoch on test, as in the SimVAE papers: {best + 1}"
        balanced = probes.balanced_accuracy(truth, trained.predictions)
        by_class = "mean over classes, after the last epoch"
        shown = classes == 2 or subject.attribute in CELEBA_TASKS  # classes of very different size
        numbers = {
            "accuracy": Number(float(trained.accuracies[-1]), "accuracy", last, chance),
            "best_accuracy": Number(float(trained.accuracies[best]), "best accuracy", on_test, chance),
            "balanced_accuracy": Number(balanced, "balanced accuracy", by_class, 1 / classes, shown=shown),
        }
        layers = [subject.train_features.shape[1], *([] if hidden is None else [hidden])]
        layers, loss = [*layers, 1 if classes == 2 else classes], "binary " * (classes == 2) + "cross-entropy"
        settings = {"layers": layers, "activation": None if hidden is None else "relu", "loss": loss}
        settings |= {"optimizer": "Adam", "learning_rate": 3e-4, "epochs": self.epochs, "batch_size": 128}
        settings["features"] = "as they are"
        confusion = confusion_matrix(truth, trained.predictions, labels=np.arange(classes)).tolist()
        return Result(numbers, settings, confusion=confusion)
