"""What a run is going to do: flags and settings, parsed and resolved. No data is read and nothing is written."""

import argparse
import dataclasses
import functools
import json
import math
import os
from pathlib import Path

import keras

from sslzoo.data.catalogue import KNOWN
from sslzoo.data.sources import check_outside
from sslzoo.errors import InvalidInputError, choose
from sslzoo.files import as_path
from sslzoo.training import flags
from sslzoo.training.folder import OWN
from sslzoo.training.settings import TIERS, Variant, data_name, model_name, resolve
from sslzoo.zoo.results import is_name

FEW_STEPS = 8  # of an epoch, below which batches of one's own images share them out evenly


@dataclasses.dataclass(frozen=True)
class Plan:
    """A recipe and its command line.

    Args:
        method, own, variants, published: as `Run` takes them (`own`: its settings).
        arguments, defaults: the command line as parsed, and an empty one.

    Raises:
        UnknownNameError, InvalidInputError: what the command line alone can be refused for.
    """

    method: str
    own: dict
    variants: "dict[str, Variant]"
    published: dict
    arguments: argparse.Namespace
    defaults: argparse.Namespace

    @classmethod
    def parse(cls, method, own, variants=None, argv=None, description="", published=None) -> "Plan":
        """The plan of a command line; arguments are those of `Run`."""
        variants = TIERS | (variants or {})
        has_queue = any("queue_size" in row for row in (own, *(variant.settings for variant in variants.values())))
        parser = flags.parser(method, variants, description, has_queue)
        plan = cls(method, own, variants, published or {}, parser.parse_args(argv), parser.parse_args([]))
        flags.check(plan.arguments)
        choose("variant", plan.variant, variants)
        if not is_name(plan.name):
            raise InvalidInputError(
                "--name must consist of lower-case letters, digits, '-' and '.', 96 at most. "
                f"Received: --name={plan.name!r}"
            )
        if plan.name in OWN:  # the model is a folder in that of the run
            raise InvalidInputError(f"--name must not be {', '.join(sorted(OWN))}. Received: --name={plan.name!r}")
        check_outside(plan.out, plan.dataset, "--out")
        return plan

    @property
    def dataset(self) -> str:
        return self.arguments.dataset

    @property
    def data_name(self) -> str:
        """What the data set is called; of a path what its last part can be written as."""
        return self.dataset if self.is_known else data_name(self.dataset)

    @property
    def variant(self) -> str:
        return self.arguments.variant

    @property
    def seed(self) -> int:
        return self.arguments.seed

    @property
    def is_known(self) -> bool:
        """Whether settings follow from the data set's name; others follow from the channels of its images."""
        return self.dataset in KNOWN

    @functools.cached_property
    def name(self) -> str:
        """Name of the model, and of the run's folder: --name, or made of what is not the default."""
        return self.arguments.name or self._usual_name

    @property
    def _usual_name(self):
        return model_name(self.method, self.dataset, self.variant, self.seed, self.arguments.set)

    @property
    def out(self) -> Path:
        return as_path(self.arguments.out or Path("runs") / self.name)

    def settings(self, channels: int | None = None, count: int | None = None) -> dict:
        """The numbers in force: recipe, variant, flags.

        Args:
            channels, count: int, of the images of a data set that is not in `SETUPS`, and how many there are.
        """
        chosen = (self.own, self.variants, self.variant, self.dataset, channels)
        usual = resolve(*chosen)
        changes = flags.changes(self.arguments, usual)
        numbers = resolve(*chosen, changes)
        flags.check_protocols(numbers["protocols"])
        if count is not None and "batch_size" not in changes:
            steps = math.ceil(count / numbers["batch_size"])
            if steps < FEW_STEPS:  # of few images, those beyond whole batches would be a large share
                numbers["batch_size"] = min(numbers["batch_size"], count // steps)
        if not self.is_known and "learning_rate" not in changes:
            # The linear rule: a step of more images may be larger. The sets of the zoo have rates that were chosen.
            numbers["learning_rate"] *= self.images_per_step(numbers) / usual["batch_size"]
        return numbers

    def is_set(self, name: str) -> bool:
        """Whether --set gives a setting its value."""
        return any(word.partition("=")[0] == name for word in self.arguments.set)

    def images_per_step(self, settings: dict) -> int:
        """Images whose gradients make a step."""
        return settings["batch_size"] * (self.arguments.accumulate or 1)

    def in_print(self) -> dict:
        """The paper's percentages for this data set and variant: protocol -> percent."""
        return self.published.get(self.dataset, {}) if self.variants[self.variant].published else {}

    def recipe(self) -> str:
        """The command that trains this again."""
        arguments = argparse.Namespace(**vars(self.arguments))
        arguments.name = None if self.name == self._usual_name else self.name
        return flags.command(self.method, arguments, self.defaults)

    def identity(self, settings: dict, images: dict) -> dict:
        """What a resumed run must share with the run it goes on with; the rest (--max-minutes, ...) may differ.

        Args:
            settings: the numbers in force.
            images: `folder.fingerprint` of the training images.
        """
        same = (
            "precision",
            "views",
            "limit",
            "image_size",
            "store_size",
            "labels",
            "test_share",
            "on_error",
            "background",
            "init",
            "accumulate",
        )
        identity = {
            "method": self.method,
            "dataset": self.dataset if self.is_known else os.path.normpath(self.dataset),  # photos/ is photos
            **{name: getattr(self.arguments, name) for name in ("variant", "seed", *same)},
            "settings": settings,
            "backend": keras.backend.backend(),
            "images": images,
        }
        return json.loads(json.dumps(identity))  # as it reads back: tuples are lists

    def shared(self) -> str:
        """What several processes of one run must share, as text: the recipe, and flags that change what is computed."""
        passing = set(flags.PASSING) - {"resume", "max_minutes", "checkpoint_every"}  # these they act on together
        words = {name: value for name, value in vars(self.arguments).items() if name not in passing}
        return json.dumps([self.method, keras.backend.backend(), words])
