"""A linear probe of frozen features: trained to its end, and beside it as the papers trained theirs."""

import dataclasses
import math

import numpy as np

from sslzoo.evaluation import logistic, probes
from sslzoo.evaluation.datasets import CELEBA_TASKS
from sslzoo.evaluation.protocols.protocol import DoesNotApply, Number, Protocol, Result

# Steps of an epoch, at least: as many as MNIST's 60,000 images make, so that few images are learned to the end too.
LEAST_STEPS, BATCH_SIZE = 469, 128
# The commonest class has so many times the images of the rarest: balanced accuracies are shown, and `finetune` weighs.
UNEQUAL = 1.5


@dataclasses.dataclass
class Linear(Protocol):
    """Logistic regression on standardized features, trained until its loss falls no more, its strength of
    regularization chosen on train images that are held out for it. Beside it one dense layer by Adam 3e-4 in batches
    of 128, as in the papers: accuracy after the last epoch, and after the best one on test.

    Args:
        epochs: int, of Adam. Sets of fewer images than MNIST are gone through several times in each, so that an epoch
            has at least 469 steps.
    """

    name, title = "linear", "linear probe"
    needs = ("features", "labels")

    epochs: int = 200

    def check(self, subject):
        subject.check_shared_classes()

    def run(self, subject):
        fitted = logistic.fit_logistic(*subject.splits(), seed=subject.seed)
        papers_way = self.probe(subject, None)
        chosen = f"standardized features, C = {fitted.inverse_penalty:g} chosen on held-out train images"
        note = f"logistic regression to its end, {chosen}"
        truth = subject.test_classes
        balanced = probes.balanced_accuracy(truth, fitted.predictions)
        unequal = _unequal(subject)
        numbers = {
            "converged_accuracy": Number(fitted.accuracy, "accuracy", note, subject.majority),
            "converged_balanced_accuracy": Number(
                balanced, "balanced accuracy", f"mean over classes, {note}", _by_class(subject), shown=unequal
            ),
        }
        for metric, number in papers_way.numbers.items():
            numbers[metric] = dataclasses.replace(number, label=f"{number.label}, Adam")
        converged = {"loss": "cross-entropy, L2", "optimizer": "L-BFGS", "features": "standardized"}
        converged["C"] = list(logistic.INVERSE_PENALTIES)
        remarks = []
        if not fitted.converged:
            remarks.append(f"Linear probe: L-BFGS had not converged after {fitted.steps} steps.")
        settings = papers_way.settings | {"converged": converged}
        confusion = probes.confusion(subject.test_classes, fitted.predictions, subject.num_classes)
        return Result(numbers, settings, remarks, confusion, predictions=fitted.predictions)

    def probe(self, subject, hidden):
        """Result of a probe by Adam with one hidden layer of that width, or none."""
        classes, truth = subject.num_classes, subject.test_classes
        progress = subject.progress(self.title)
        passes = passes_of(len(subject.train_features))
        with np.errstate(over="ignore", invalid="ignore"):
            trained = probes.train_probe(
                *subject.splits(),
                classes,
                hidden=hidden,
                epochs=self.epochs,
                passes=passes,
                batch_size=BATCH_SIZE,
                seed=subject.seed,
                progress=progress,
            )
        if not np.isfinite(trained.weights[-1][0]).all():
            too_large = "A probe computes in float32, where these features overflow: divide them by a large number"
            raise DoesNotApply(too_large, f"features up to {np.abs(subject.train_features).max():.3g}")
        best, chance = int(trained.accuracies.argmax()), subject.majority
        several = f" of {passes} passes" if passes > 1 else ""
        last = f"Adam 3e-4, batches of {BATCH_SIZE}, last of {self.epochs} epochs{several}"
        on_test = f"best epoch on test, as in the SimVAE papers: {best + 1}"
        balanced = probes.balanced_accuracy(truth, trained.predictions)
        by_class, guessing = "mean over classes, after the last epoch", _by_class(subject)
        numbers = {
            "accuracy": Number(float(trained.accuracies[-1]), "accuracy", last, chance),
            "best_accuracy": Number(float(trained.accuracies[best]), "best accuracy", on_test, chance),
            "balanced_accuracy": Number(balanced, "balanced accuracy", by_class, guessing, shown=_unequal(subject)),
        }
        layers = [subject.train_features.shape[1], *([] if hidden is None else [hidden])]
        layers, loss = [*layers, 1 if classes == 2 else classes], "binary " * (classes == 2) + "cross-entropy"
        settings = {"layers": layers, "activation": None if hidden is None else "relu", "loss": loss}
        settings |= {"optimizer": "Adam", "learning_rate": 3e-4, "epochs": self.epochs, "passes": passes}
        settings |= {"batch_size": BATCH_SIZE, "features": "as they are"}
        confusion = probes.confusion(subject.test_classes, trained.predictions, subject.num_classes)
        return Result(numbers, settings, confusion=confusion, predictions=trained.predictions)


def passes_of(count: int) -> int:
    """Passes over `count` training images in an epoch of a probe by Adam: as many steps as MNIST's has, at least."""
    return math.ceil(LEAST_STEPS / math.ceil(count / BATCH_SIZE))


def _by_class(subject):
    """Balanced accuracy of guessing one of the train classes: that of the test images may be others."""
    known, tested = np.unique(subject.train_classes), np.unique(subject.test_classes)
    return float(np.isin(tested, known).mean()) / len(known)


def _unequal(subject):
    """Whether classes may be of very different size, so that balanced accuracies are worth a row."""
    counts = np.bincount(subject.train_classes)
    far = bool(counts.max() >= UNEQUAL * counts.min())
    return far or subject.num_classes == 2 or subject.attribute in CELEBA_TASKS
