"""One run, between a recipe's settings and the artifact at the end.

A recipe holds its hyper-parameters as data and reads, from top to bottom:

    run = training.Run("simvae", SETTINGS, VARIANTS, argv, __doc__)
    model = SimVAE(...)                      # from run.settings, run.image_shape, run.seed
    run.prepare(model)                       # compile; go back to the checkpoint with --resume
    model.fit(run.data(), **run.fit_arguments())
    run.finish(model)                        # probes, pictures, artifact

`plan` says what is wanted, `examples` holds the images, `builders` make networks from both, `folder` is where the run
lies on the disk, and `outcome` evaluates, draws and writes what came out.
"""

import functools
import importlib.util
import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np

from sslzoo import callbacks, data, processes, progress
from sslzoo.environment import hushed
from sslzoo.errors import ArtifactError, InvalidInputError
from sslzoo.evaluation.features import spread
from sslzoo.methods import Pretrainer
from sslzoo.methods.pretrainer import fuses_its_steps
from sslzoo.training import devices, examples, folder, fusing, outcome
from sslzoo.training.annealing import PlateauRate, TimePlan
from sslzoo.training.beginning import Beginning
from sslzoo.training.builders import Builders
from sslzoo.training.plan import Plan
from sslzoo.training.settings import KINDS, Variant, table, views_of


class Run(Builders):
    """One training run, from command line to artifact. Images are read when they are first asked for.

    Example:
        import sslzoo
        from sslzoo import methods, training

        run = training.Run("simclr", {}, argv=["--limit", "256", "--epochs", "1", "--protocols", "knn"])
        model = methods.SimCLR(run.encoder(), None, run.views())
        run.prepare(model)
        model.fit(run.data(), **run.fit_arguments())
        encoder = sslzoo.load(run.finish(model))

    Args:
        method: str, what models are named for ("simclr"): that of `sslzoo.methods.METHODS`, or one's own.
        settings: dict, setting -> value or `Per`: what is the method's own (`sslzoo.training.settings`).
        variants: dict, variant name -> `Variant`.
        argv: list of str, or None for the command line.
        description: str, the recipe's docstring.
        published: dict, data set name -> {protocol: percent} that the paper printed.

    Attributes:
        plan: `Plan`; `arguments`, `dataset`, `variant`, `name`, `out` and `seed` are its own.
        initial_epoch: int, epochs that were finished before this `fit`.
        fused: int, training steps in one program.

    Raises:
        SSLZooError: what the command line alone shows; the first use of images raises what they show.
    """

    def __init__(
        self,
        method: str,
        settings: dict,
        variants: "dict[str, Variant] | None" = None,
        argv: list[str] | None = None,
        description: str = "",
        published: dict[str, dict] | None = None,
    ):
        self.plan = plan = Plan.parse(method, settings, variants, argv, description, published)
        self.arguments, self.dataset, self.variant = plan.arguments, plan.dataset, plan.variant
        self.method, self.seed, self.name, self.out = plan.method, plan.seed, plan.name, plan.out
        self.folder = folder.RunFolder(self.out, self.name, self.arguments.resume)
        self.initial_epoch, self.fused, self.moved = 0, 1, True
        self.model = self.time_plan = None
        self.watchers = []
        if self.arguments.show:
            print(table(self.settings))
            sys.exit()
        self.tracker = callbacks.Tracker(self.arguments.log, self.name) if self.arguments.log else None
        devices.join(self.arguments.processes, plan.shared())
        self.devices = devices.use(self.arguments.devices, bool(self.arguments.processes))
        # Before what takes seconds: Keras imports TensorFlow, images are read, and a step is measured.
        print(f"{self.name} ({self.variant}) goes to {self.out}, by the {keras.backend.backend()} backend.")
        self.policy_before = keras.config.dtype_policy()
        keras.config.set_dtype_policy(self.arguments.precision)
        with hushed():  # the first time, Keras imports TensorFlow for it
            keras.utils.set_random_seed(self.seed)

    # ------------------------------------------------------------------ what it is made of

    @functools.cached_property
    def settings(self) -> dict:
        """The hyper-parameters in force."""
        if self.plan.is_known:
            return self.plan.settings()
        return self.plan.settings(self._read.images.shape[-1], len(self._read.images))

    @functools.cached_property
    def _read(self):
        if not self.plan.is_known:
            self.plan.settings(3)  # what is wrong with their names and kinds is said before all images are read
        return examples.read(self.plan)

    @functools.cached_property
    def beginning(self) -> "Beginning | None":
        """The trained model of --init. A run that goes on has a copy of its own."""
        if not self.arguments.init:
            return None
        return Beginning(self.arguments.init, self.out / "init", self.folder.resumes)

    @functools.cached_property
    def examples(self) -> examples.Examples:
        """The images, once they and the folder of the run are known to fit the settings."""
        if self.beginning and self.plan.is_known and self.dataset not in KINDS:  # before all images are read
            self.beginning.check_shape(data.info(self.dataset).image_shape)
        read = self._read
        examples.check_sizes(self.plan, self.settings, read.images, self.devices)
        examples.check_labels(self.plan, self.settings, self._has_monitor)
        processes.check_alike(json.dumps(self.identity))
        processes.by_first(lambda: self.folder.check(self.identity))
        return read

    @functools.cached_property
    def identity(self) -> dict:
        """What a resumed run must share with this one."""
        return self.plan.identity(self.settings, folder.fingerprint(self._read.images))

    @property
    def _has_monitor(self):
        labels = self._read.labels
        return labels is not None and labels.ndim == 1 and len(labels) >= 5 and bool(self.settings["monitor_every"])

    @property
    def images(self):
        """Training images (N, H, W, C): uint8, or of an `.npz` and of TIFF files uint16 or float32, too."""
        return self.examples.images

    def some_images(self, most: int) -> np.ndarray:
        """The first images of a known set, which are in no order; of others images all over, which may lie by class."""
        if self.plan.is_known:
            return self.images[:most]
        return self.images[spread(len(self.images), most)]

    @property
    def labels(self):
        """Their labels, int (N,) or (N, A), or None."""
        return self.examples.labels

    @property
    def image_shape(self) -> tuple[int, int, int]:
        return tuple(self.images.shape[1:])

    @functools.cached_property
    def outside(self) -> "dict[str, np.ndarray]":
        """Test images of the setting "outliers", a data set beside this one, by its name; empty without the setting."""
        other = self.settings.get("outliers")
        if other is None:
            return {}
        return {data.name_of(str(other)): data.load(other, "test", data_dir=self.arguments.data_dir)[0]}

    def optimizer_steps(self, epochs: float) -> int:
        """Steps of the optimizer in so many epochs: what methods count (--accumulate makes one of several batches)."""
        return round(epochs * self.steps_per_epoch / (self.arguments.accumulate or 1))

    @property
    def steps_per_epoch(self) -> int:
        return len(self.images) // self.settings["batch_size"]

    @property
    def steps(self) -> int:
        """Of the whole run, if there is time for all."""
        return self.settings["epochs"] * self.steps_per_epoch

    @functools.cached_property
    def _monitored(self):
        """Bank and queries of the monitor, each (images, labels, places): of training images, whose labels training
        itself does not see."""
        order = np.random.default_rng(self.seed).permutation(len(self.images))
        # They are in memory, also where images stay in their files.
        most = 12_000
        if isinstance(self.images, data.StreamedImages):
            most = max(6, min(most, 2**29 * len(order) // self.images.nbytes))  # one of six is a query
        queries = min(2000, len(order) // 5, most // 6)
        bank = min(10_000, len(order) - queries, most - queries)
        places = order[:bank], order[bank : bank + queries]
        return [(self.images[rows], self.labels[rows], rows) for rows in places]

    @property
    def queries(self):
        """(images, labels, places) of the training images that monitors classify; None without labels or monitor."""
        return self._monitored[1] if self._has_monitor else None

    @functools.cached_property
    def is_timed(self) -> bool:
        """Whether the rate falls over --max-minutes. It is settled when a run begins: its optimizer has one variable
        more."""
        if self.examples and self.arguments.resume and (self.out / "run.json").exists():  # also before a checkpoint
            return "planned" in folder.read(self.out / "run.json")
        return self.arguments.max_minutes is not None and self.settings["schedule"] == "cosine"

    @property
    def planned_steps(self) -> int | None:
        """How many steps were planned for --max-minutes; None: that is still to be done."""
        record = self.folder.record
        planned = record.get("planned") or [None]
        is_same = record.get("minutes") is not None and record["minutes"] == self.arguments.max_minutes
        if is_same and len(planned) > 1:  # where they are made, the same command again makes no more
            return planned[-1] or planned[-2]
        return planned[-1]

    @functools.cached_property
    def is_trained(self) -> bool:
        """Whether these --max-minutes have ended this run before, and its model is there: nothing is left to do. The
        steps after its last checkpoint are in that model alone."""
        record, planned = self.folder.record, self.folder.record.get("planned") or [None]
        same = record.get("ended") == "minutes" and record.get("minutes") == self.arguments.max_minutes
        there = (self.out / self.name / "results.json").exists()
        return bool(processes.of_first([same and planned[-1] is None and there])[0])

    # ------------------------------------------------------------------ for the recipe

    def prepare(self, model: Pretrainer, optimizer: keras.optimizers.Optimizer | None = None) -> None:
        """Compile the model, and go back to the checkpoint with `--resume`.

        Args:
            model: the method to train.
            optimizer: in place of the one that the settings name.

        Raises:
            InvalidInputError: a part that cannot be published; --init, and a recipe that makes its networks itself;
                views made in tf.data, and a method that takes more of an image.
            UnknownNameError, MissingDataError, InvalidInputError: of the setting "outliers", which is measured at the
                end, before hours of training that lead there.
        """
        _ = self.outside
        if self.beginning and not self.beginning.taken:
            raise InvalidInputError(
                f"{self.method} trains networks of its own kind, which cannot begin with another model. "
                f"Received: --init={self.arguments.init}"
            )
        if self.arguments.views != "device" and model.takes_more_than_views:
            raise InvalidInputError(
                f"{type(model).__name__} takes more of an image than one kind of views: itself, or local views. "
                f"--views device makes them. Received: --views={self.arguments.views}"
            )
        accumulated = self.arguments.accumulate or 1
        if optimizer is not None and accumulated != (optimizer.gradient_accumulation_steps or 1):
            raise InvalidInputError(
                "An optimizer of one's own must have --accumulate as its gradient_accumulation_steps. "
                f"Received: --accumulate={accumulated}, {optimizer.gradient_accumulation_steps} of the optimizer"
            )
        self.model = model
        self._check_parts(model)
        model.check_batch(self.settings["batch_size"])
        model.compile(optimizer=optimizer or self.optimizer())
        self.fused = int(processes.of_first([self._steps_per_program()])[0])  # each measured for itself
        if self.fused > 1:
            fusing.build(model, self._batch())
            model.compile(optimizer=model.optimizer, steps_per_execution=self.fused)
        self.journal = callbacks.Journal(
            self.out / "history.csv", self.settings["batch_size"] * views_of(self.settings)
        )
        self.stopwatch = callbacks.Stopwatch(self.arguments.max_minutes, self.arguments.grace)
        keeps = self.arguments.checkpoint_every
        self.checkpoint = callbacks.Checkpoint(self.out / "checkpoint.npz", self.journal, self.stopwatch, keeps)
        processes.by_first(lambda: self.folder.take(self.identity))
        planned = int(processes.of_first([self.planned_steps or 0])[0])
        if processes.index() > 0:  # whose record is empty: the first alone has read it
            self.folder.record["planned"] = [planned] * bool(planned)
        self.folder.note(fuse_steps=self.fused, ended="minutes" if self.is_trained else None)
        if self.is_timed:
            self.folder.note(planned=self.folder.record.get("planned", []))
        if self.beginning and processes.index() == 0:
            self.beginning.keep()
        if self.arguments.resume:
            self._restore()
        outcome.announce(self)

    def _check_parts(self, model):
        """Raises what writing the trained model would: hours before."""
        drawn = random.getstate()  # by initializers of what is made here
        model.parts(self.image_shape)
        random.setstate(drawn)

    def _restore(self):
        self.initial_epoch = self.checkpoint.restore(self.model)
        if processes.of_first([self.initial_epoch]) != [self.initial_epoch]:
            raise ArtifactError(f"--out must be a folder that all processes see. Received: --out={self.out}")
        if not self.initial_epoch:
            print(f"There is no checkpoint in {self.out}: training starts over.")
        for remark in self.checkpoint.remarks:
            print(remark)
        if self.schedule:
            self.schedule.length.assign(float(self.planned_steps or self.steps))

    def _steps_per_program(self):
        """--fuse-steps; else what this run was begun with, so that it ends in the same weights; else as measured."""
        if self.steps_per_epoch != len(self.images) // self.settings["batch_size"]:
            return 1  # stacks end with the images, not with an epoch of another length
        if self.arguments.fuse_steps or self.arguments.views != "device":
            return self.arguments.fuse_steps or 1
        if self.arguments.resume and (self.out / "run.json").exists():
            return folder.read(self.out / "run.json").get("fuse_steps", 1)
        return fusing.choose(self.model, self._batch(), self.steps_per_epoch, self.settings["epochs"])

    def _batch(self):
        """Some batch, to measure a step or to build the model with."""
        batches = data.Batches(self.images, None, self.settings["batch_size"], with_index=self.model.indexed)
        return next(iter(batches))

    def data(self):
        """Batches for `fit`: raw images for views on the device, or views made in `tf.data`."""
        common = {
            "batch_size": self.settings["batch_size"],
            "with_index": self.model.indexed,
            "seed": self.seed,
            "start_epoch": self.initial_epoch,
        }
        if processes.count() > 1:
            common["shard"] = processes.index(), processes.count()
        if self.fused > 1:
            if fuses_its_steps():
                return data.Batches(self.images, None, repeat=True, steps_per_execution=self.fused, **common)
            return data.Batches(self.images, None, **common)  # which ends with the epoch: so does Keras' program
        if self.arguments.views == "tf.data":
            return data.pipeline((self.images, None), "train", views=self.model.views, repeat=True, **common)
        if keras.backend.backend() == "tensorflow":
            return data.pipeline((self.images, None), "train", repeat=True, **common)
        return data.Batches(self.images, None, repeat=True, **common)

    def fit_arguments(self, extra: Sequence[keras.callbacks.Callback] = ()) -> dict:
        """Epochs, callbacks and verbosity for `model.fit`.

        Args:
            extra: callbacks of the recipe's own, which come before those that watch.
        """
        monitors = [*extra, *self.model.monitors(self)]
        self.watchers = [self.stopwatch, *monitors, *self._watchers()]  # first: monitors may take longer than an epoch
        if self.settings["schedule"] == "plateau":  # it reads what monitors log, and the journal's rows of before
            key = next((monitor.accuracy_key for monitor in monitors if hasattr(monitor, "accuracy_key")), "knn")
            rate = PlateauRate(self.journal, self.settings["learning_rate"], key)
            self.watchers.insert(self.watchers.index(self.journal), rate)
        for callback in self.watchers:
            if hasattr(callback, "resume"):  # which keeps something between epochs
                callback.resume(self.journal.rows)
        is_over = self.is_trained or any(
            callback.is_over() for callback in self.watchers if hasattr(callback, "is_over")
        )
        return {
            "epochs": self.initial_epoch if is_over else self.settings["epochs"],
            "initial_epoch": self.initial_epoch,
            "steps_per_epoch": self.steps_per_epoch if self.fused == 1 or fuses_its_steps() else None,
            "shuffle": False,  # the data has its own order, a function of seed and epoch
            "callbacks": self.watchers,
            "verbose": 1 if sys.stdout.isatty() or progress.in_notebook() else 2,
        }

    def _watchers(self):
        """What watches every run, in the order in which one needs what another logs."""
        settings, every = self.settings, self.settings["monitor_every"]
        self.time_plan = TimePlan(self) if self.schedule else None
        watchers = [self.time_plan or callbacks.Pace(settings["epochs"])]
        watchers.append(callbacks.FiniteGuard(self.model.terms))
        if self.queries:
            bank, queries = (group[:2] for group in self._monitored)
            watchers.append(callbacks.KNNMonitor(self.model.live_encoder(self.image_shape), bank, queries, every))
        if self.arguments.until_knn:
            watchers.append(callbacks.UntilKNN(self.arguments.until_knn / 100, self.journal))
        watched = np.random.default_rng([self.seed, 1]).permutation(len(self.images))[:512]
        health = callbacks.Health(
            self.images[np.sort(watched)],
            stop=self.arguments.stop_on_collapse or 0,
            batch_size=settings["batch_size"],
            seed=self.seed,
        )
        watchers += [health, self.journal, self.checkpoint]
        if importlib.util.find_spec("tensorboard") and processes.index() == 0:
            watchers.append(callbacks.Scalars(self.out / "tensorboard"))
        if self.tracker and processes.index() == 0:
            self.tracker.config = dict(settings)
            watchers.append(self.tracker)
        return watchers

    def note_planned(self, steps: int | None) -> None:
        """Writes down how many steps fit into --max-minutes; None: they are made, and other minutes need a new plan."""
        minutes = self.folder.record.get("minutes") if steps is None else self.arguments.max_minutes
        self.folder.note(planned=[*self.folder.record["planned"], steps], minutes=minutes)

    def finish(self, model: Pretrainer) -> Path:
        """Evaluate, draw, write the artifact `<out>/<name>/`; of several processes the first does. Returns its path."""
        if (self.arguments.accumulate or 1) > 1:
            self.moved = int(model.optimizer.iterations) > 0  # asked before processes part
        if self.devices > 1 and not processes.leave(model):
            return self.out / self.name
        try:
            if self.is_trained:
                print(f"{self.out / self.name} stays: --max-minutes {self.arguments.max_minutes:g} had ended this run.")
                return self.out / self.name
            written = outcome.write(self, model)
            if self.stopwatch.ended == "minutes":
                self.folder.note(minutes=self.arguments.max_minutes)
            if self.time_plan and self.time_plan.is_over() and self.folder.record["planned"][-1] is not None:
                self.note_planned(None)
            return written
        finally:  # what this process makes next has its own precision
            keras.config.set_dtype_policy(self.policy_before)
