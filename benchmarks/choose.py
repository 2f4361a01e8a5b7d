"""Try a recipe's settings on a validation split of the training images, never on test images.

    KERAS_BACKEND=tensorflow python benchmarks/choose.py simvae cifar10 --set learning_rate=2e-3
    python benchmarks/choose.py simclr cifar10 --budget 300000 --set temperature=0.5 --precision mixed_bfloat16
    python benchmarks/choose.py simclr fashion_mnist --set temperature=0.1 --probe

Nine tenths of the training images, shuffled by a fixed seed, train the encoder and are the bank of the neighbors; the
rest are the queries. The schedule runs down within the budget of views. Prints the share of right answers (k = 10) by
cosine neighbors, by those of centered features and by Euclidean ones, with --probe that of a linear probe too, for
neighbors and probes may need different settings, and writes nothing. All other flags are the recipe's (--set, --seed,
--precision, --data-dir). docs/choices.md has what was tried. A trial is one epoch of so many views, in which what a
recipe counts in epochs never ends (prototypes that are frozen for one) or begins (clusters): that is refused.
"""

import argparse
import functools
import sys
import tempfile
from pathlib import Path

import numpy as np

from sslzoo import evaluation, training
from sslzoo.errors import InvalidInputError
from sslzoo.files import module_at
from sslzoo.training.settings import views_of

RECIPES = Path(__file__).resolve().parent.parent / "recipes"
IN_EPOCHS = ("freeze_epochs", "queue_epochs", "generative_epochs", "cluster_every", "recluster_every")


class Trial(training.Run):
    """A recipe's run on nine tenths of the training images, until so many views were seen."""

    budget, probe = 200_000, False

    @property
    def steps_per_epoch(self):
        return max(1, self.budget // (self.settings["batch_size"] * views_of(self.settings)))

    @functools.cached_property
    def settings(self):
        settings = super().settings
        if counted := [name for name in IN_EPOCHS if settings.get(name)]:
            raise InvalidInputError(
                f"A trial is one epoch; {', '.join(counted)} counts epochs. Set it to 0, or train by the recipe. "
                f"Received: {', '.join(f'{name}={settings[name]}' for name in counted)}"
            )
        return settings | {"epochs": 1, "monitor_every": 0}

    @functools.cached_property
    def _read(self):
        read = super()._read
        order = np.random.default_rng(0).permutation(len(read.images))
        train, validation = (np.sort(rows) for rows in np.split(order, [len(order) * 9 // 10]))
        self.validation = read.images[validation], read.labels[validation]
        read.images, read.labels = read.images[train], read.labels[train]
        return read

    def finish(self, model):
        if self.stopwatch.ended:
            sys.exit(f"{self.stopwatch.reason} This trial says nothing: its schedule had not run down.")
        encoder = model.parts(self.image_shape)["encoder"]
        sides = []
        for images, labels in ((self.images, self.labels), self.validation):
            sides += [evaluation.features(encoder, images), labels]
        cosine, euclidean = (evaluation.knn_accuracy(*sides, k=10, metric=metric) for metric in ("cosine", "euclidean"))
        mean = sides[0].mean(axis=0)  # a uniform center leaves the origin free
        centered = evaluation.knn_accuracy(sides[0] - mean, sides[1], sides[2] - mean, sides[3], k=10, metric="cosine")
        print(
            f"{self.name}: {' '.join(self.arguments.set) or 'as in the recipe'}, seed {self.seed}, "
            f"{self.arguments.precision}, {self.journal.rows[-1]['views']:,} views, {self.journal.seconds():.0f} s: "
            f"kNN {cosine:.1%} on {len(sides[2]):,} validation images (centered {centered:.1%}, "
            f"Euclidean {euclidean:.1%})",
            flush=True,
        )
        if self.probe:
            probe = evaluation.train_probe(*sides, num_classes=int(sides[1].max()) + 1)
            print(f"linear probe {probe.accuracies[-1]:.1%}", flush=True)
        return {"views": self.journal.rows[-1]["views"], "cosine": cosine, "centered": centered, "euclidean": euclidean}


def trial(method, dataset, budget, words):
    """Trains and measures once, with the recipe's flags `words`: views seen, and the shares of right answers."""
    training.Run, Trial.budget = Trial, budget
    recipe = module_at(RECIPES / f"{method.replace('-', '_')}.py")
    with tempfile.TemporaryDirectory() as folder:
        return recipe.main(["--dataset", dataset, "--out", folder, *words])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    methods = sorted(path.stem.replace("_", "-") for path in RECIPES.glob("*.py") if path.stem != "zoo")
    parser.add_argument("method", choices=methods)
    parser.add_argument("dataset")
    parser.add_argument("--budget", type=int, default=Trial.budget, metavar="VIEWS", help="to train for (200000)")
    parser.add_argument("--probe", action="store_true", help="train a linear probe too (200 epochs)")
    ours, theirs = parser.parse_known_args()
    Trial.probe = ours.probe
    trial(ours.method, ours.dataset, ours.budget, theirs)


if __name__ == "__main__":
    main()
