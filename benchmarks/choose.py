"""Try a recipe's settings on a validation split of the training images, never on test images.

    KERAS_BACKEND=tensorflow python benchmarks/choose.py simvae cifar10 --budget 200000 --set learning_rate=2e-3
    python benchmarks/choose.py simclr cifar10 --set temperature=0.5 batch_size=256 --precision mixed_bfloat16

Nine tenths of the training images, shuffled by a fixed seed, train the encoder and are the bank of the neighbours; the
rest asks. The schedule runs down within the budget. Prints the share of right answers (k = 10, cosine). What is not
known here goes to the recipe: --seed, --precision, --data-dir, --variant. What was tried stands in docs/choices.md.
"""

import argparse
import importlib.util
import tempfile
from pathlib import Path

import numpy as np

from sslzoo import evaluation, training

RECIPES = Path(__file__).resolve().parent.parent / "recipes"


class Trial(training.Run):
    """A run of a recipe on nine tenths of the training images, until so many views were seen."""

    budget = 200_000

    def load(self, split):
        images, labels = super().load("train")
        order = np.random.default_rng(0).permutation(len(images))
        first = len(order) * 9 // 10
        chosen = np.sort(order[:first] if split == "train" else order[first:])
        return images[chosen], labels[chosen]

    def _settings(self, *arguments):
        return super()._settings(*arguments) | {"epochs": 1, "monitor_every": 0}

    def prepare(self, model, optimizer=None):
        self.steps_per_epoch = max(1, self.budget // self.views_per_step)
        super().prepare(model, optimizer)

    def finish(self, model):
        encoder = model.parts(self.image_shape)["encoder"]
        queries = self.load("validation")
        sides = []
        for images, labels in ((self.images, self.labels), queries):
            sides += [evaluation.features(encoder, images), labels]
        cosine, euclidean = (evaluation.knn_accuracy(*sides, k=10, metric=m) for m in ("cosine", "euclidean"))
        print(
            f"{self.name}: {' '.join(self.arguments.set) or 'as in the recipe'}, seed {self.seed}, "
            f"{self.arguments.precision}, {self.journal.rows[-1]['views']:,} views, {self.journal.seconds():.0f} s: "
            f"kNN {cosine:.1%} on {len(queries[0]):,} validation images (Euclidean {euclidean:.1%})"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("method", help="as in recipes/<method>.py")
    parser.add_argument("dataset")
    parser.add_argument("--budget", type=int, default=200_000, metavar="VIEWS", help="views to train for (200000)")
    ours, theirs = parser.parse_known_args()

    path = RECIPES / f"{ours.method.replace('-', '_')}.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    recipe = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(recipe)
    Trial.budget = ours.budget
    training.Run = Trial
    with tempfile.TemporaryDirectory() as out:
        recipe.main(["--dataset", ours.dataset, "--out", out, *theirs])


if __name__ == "__main__":
    training.script(main)
