"""Try a recipe's settings on a validation split of the training images, never on test images.

    KERAS_BACKEND=tensorflow python benchmarks/choose.py simvae cifar10 --budget 200000 --set learning_rate=2e-3
    python benchmarks/choose.py simclr cifar10 --set temperature=0.5 batch_size=256 --precision mixed_bfloat16

Nine tenths of the training images, shuffled by a fixed seed, train the encoder and are the bank of the neighbours; the
rest asks. The schedule runs down within the budget. Prints the share of right answers (k = 10, cosine). What is not
known here goes to the recipe: --seed, --precision, --data-dir, --variant. What was tried stands in docs/choices.md.
"""

import argparse
import ast
import importlib.util
import tempfile
import time
from pathlib import Path

import keras
import numpy as np

from sslzoo import evaluation, training

RECIPES = Path(__file__).resolve().parent.parent / "recipes"


class Trial(training.Run):
    """A run of a recipe with other settings, on nine tenths of the images, until so many views were seen."""

    def __init__(self, *arguments, changes, budget, **keywords):
        self.changes, self.budget = changes, budget
        super().__init__(*arguments, **keywords)

    def _load(self, split):
        images, labels = super()._load("train")
        order = np.random.default_rng(0).permutation(len(images))
        first = len(order) * 9 // 10
        chosen = np.sort(order[:first] if split == "train" else order[first:])
        return images[chosen], labels[chosen]

    def _settings(self, *arguments):
        return super()._settings(*arguments) | self.changes | {"epochs": 1, "monitor_every": 0}

    def _check_sizes(self):
        super()._check_sizes()
        self.steps_per_epoch = max(1, self.budget // self.views_per_step)

    def finish(self, model):
        seconds = self.journal.seconds()
        encoder = model.parts(self.image_shape)["encoder"]
        bank, queries = (self.images, self.labels), self._load("validation")
        sides = [side for images, labels in (bank, queries) for side in (evaluation.features(encoder, images), labels)]
        scores = [evaluation.knn_accuracy(*sides, k=10, metric=metric) for metric in ("cosine", "euclidean")]
        changes = " ".join(f"{name}={value}" for name, value in self.changes.items())
        print(
            f"{self.name}: {changes or 'as in the recipe'}, seed {self.seed}, {self.arguments.precision}, "
            f"{self.journal.rows[-1]['views']:,} views, {seconds:.0f} s: "
            f"kNN {scores[0]:.1%} on {len(queries[0]):,} validation images (Euclidean {scores[1]:.1%})"
        )


def setting(text):
    """name=value; what is not a Python literal is text."""
    name, _, value = text.partition("=")
    try:
        return name, ast.literal_eval(value)
    except (SyntaxError, ValueError):
        return name, value


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("method", help="as in recipes/<method>.py")
    parser.add_argument("dataset")
    parser.add_argument("--budget", type=int, default=200_000, metavar="VIEWS", help="views to train for (200000)")
    parser.add_argument("--set", nargs="*", type=setting, default=[], metavar="NAME=VALUE", help="over the recipe's")
    ours, theirs = parser.parse_known_args()

    path = RECIPES / f"{ours.method.replace('-', '_')}.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    recipe = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(recipe)
    unknown = [name for name, _ in ours.set if name not in recipe.SETTINGS["digits"]]
    if unknown:
        parser.error(f"--set takes {', '.join(recipe.SETTINGS['digits'])}. Received: {', '.join(unknown)}")

    def run(*arguments):
        return Trial(*arguments, changes=dict(ours.set), budget=ours.budget)

    training.Run = run
    with tempfile.TemporaryDirectory() as folder:
        recipe.main(["--dataset", ours.dataset, "--out", folder, *theirs])


if __name__ == "__main__":
    began = time.perf_counter()
    main()
    print(f"{time.perf_counter() - began:.0f} s in all, {keras.backend.backend()} backend")
