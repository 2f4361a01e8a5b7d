"""Which attributes of CelebA can be read from features."""

import numpy as np

from sslzoo import checks
from sslzoo.data import CELEBA_ATTRIBUTES
from sslzoo.evaluation import probes
from sslzoo.evaluation.protocols.linear import BATCH_SIZE, passes_of
from sslzoo.evaluation.protocols.mlp import MLP
from sslzoo.evaluation.protocols.protocol import DoesNotApply, Number, Result

# Twenty of the thirty binary attributes in SimVAE's released code; which twenty its figure 5 shows is in no text.
_NAMES = (
    "5_o_Clock_Shadow Arched_Eyebrows Bags_Under_Eyes Big_Lips Big_Nose Bushy_Eyebrows Eyeglasses Gray_Hair "
    "Heavy_Makeup High_Cheekbones Male Mouth_Slightly_Open Mustache Narrow_Eyes No_Beard Oval_Face Pointy_Nose "
    "Receding_Hairline Rosy_Cheeks Smiling"
)
ATTRIBUTES = tuple(_NAMES.split())


class Attributes(MLP):
    """Labels (N, A): MLP probes of twenty attributes of CelebA, mean accuracy and balanced accuracy."""

    name, title = "attributes", "attributes"
    needs = ("labels",)

    def check(self, subject):
        if subject.attributes is None:
            raise DoesNotApply("Attributes are labels (N, A) of 0 and 1, as CelebA has them", "one label an image")
        values = np.unique(np.concatenate(subject.attributes))
        if not np.isin(values, (0, 1)).all():
            raise DoesNotApply(
                "Attributes are labels (N, A) of 0 and 1; of -1 and 1 pass `labels > 0`", f"values {checks.few(values)}"
            )
        if not _columns(*subject.attributes):
            raise DoesNotApply(
                "An attribute needs images that have it and images that have not, in both splits",
                f"{subject.attributes[0].shape[1]} attributes, none of them so",
            )

    def run(self, subject):
        train, test = subject.attributes
        columns, progress = _columns(train, test), subject.progress(self.title)
        hidden = self.hidden or subject.train_features.shape[1]
        passes, each = passes_of(len(train)), {}
        for done, (name, i) in enumerate(columns.items(), 1):
            splits = subject.train_features, train[:, i], subject.test_features, test[:, i]
            settings = {"hidden": hidden, "epochs": self.epochs, "passes": passes, "batch_size": BATCH_SIZE}
            probe = probes.train_probe(*splits, 2, **settings, seed=subject.seed)
            majority = float(np.mean(test[:, i] == (train[:, i].mean() > 0.5)))
            each[name] = probe.accuracies[-1], probes.balanced_accuracy(test[:, i], probe.predictions), majority
            progress(done, len(columns))
        accuracy, balanced, majority = map(float, np.mean(list(each.values()), axis=0))
        several = f" of {passes} passes" if passes > 1 else ""
        how = f"MLP probe for each of {len(columns)} attributes, last of {self.epochs} epochs{several}"
        numbers = {"accuracy": Number(accuracy, "accuracy", how, majority)}
        numbers["balanced_accuracy"] = Number(balanced, "balanced accuracy", how, 0.5)
        for name, (accuracy, balanced, majority) in each.items():
            numbers[f"{name}_accuracy"] = Number(float(accuracy), f"{name}, accuracy", how, majority, shown=False)
            numbers[f"{name}_balanced_accuracy"] = Number(balanced, f"{name}, balanced", how, 0.5, shown=False)
        return Result(numbers, {"attributes": list(columns), **settings})


def _columns(train, test):
    """Column of each attribute that both splits have images with and without, by name."""
    if train.shape[1] == len(CELEBA_ATTRIBUTES):
        columns = {name: CELEBA_ATTRIBUTES.index(name) for name in ATTRIBUTES}
    else:
        columns = {str(column): column for column in range(min(train.shape[1], len(ATTRIBUTES)))}
    return {name: i for name, i in columns.items() if 0 < train[:, i].mean() < 1 and 0 < test[:, i].mean() < 1}
