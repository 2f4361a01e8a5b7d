"""One run: its folder, its data, its callbacks, exact resume; between a recipe's settings and the artefact at the end.

A recipe holds its hyper-parameters as data and reads, from top to bottom:

    run = training.Run("simvae", SETTINGS, VARIANTS, argv, __doc__)
    model = SimVAE(...)                      # from run.settings, run.image_shape, run.seed
    run.prepare(model)                       # compile; go back to the checkpoint with --resume
    model.fit(run.data(), **run.fit_arguments())
    run.finish(model)                        # probes, pictures, artefact
"""

import importlib.util
import json
import math
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np

from sslzoo import callbacks, data, networks, optimizers, processes
from sslzoo.environment import hushed
from sslzoo.errors import ArtefactError, InvalidInputError, choose
from sslzoo.files import write_beside
from sslzoo.methods import Pretrainer
from sslzoo.methods.memory_bank import BankMonitor, MemoryBank
from sslzoo.methods.pretrainer import fuses_its_steps
from sslzoo.training import devices, flags, folder, fusing, outcome
from sslzoo.training.annealing import Annealing, PlateauRate, TimedCosine
from sslzoo.training.beginning import Beginning
from sslzoo.training.settings import KINDS, SETUPS, Variant, model_name, resolve, table, views_of
from sslzoo.views import Views, policy
from sslzoo.zoo.results import is_name


class Run:
    """One training run, from command line to artefact.

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
        settings: dict of the hyper-parameters in force.
        images, labels: training data, uint8 (N, H, W, C) and int (N,) or None.
        image_shape: tuple (H, W, C).
        seed: int.

    Raises:
        SSLZooError: whatever can be told before the first step.
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
        variants = variants or {}
        parser = flags.parser(method, variants, description)
        self.arguments, self.defaults = parser.parse_args(argv), parser.parse_args([])
        flags.check(self.arguments)
        self.method = method
        self.dataset = self.arguments.dataset
        self.seed = self.arguments.seed
        self.variant = choose("variant", self.arguments.variant, {"zoo": None, **variants})
        self.name = self.arguments.name or model_name(method, self.dataset, self.variant, self.seed)
        if not is_name(self.name):
            raise InvalidInputError(
                "--name must consist of lower-case letters, digits, '-' and '.', 96 at most. "
                f"Received: --name={self.name!r}"
            )
        self.out = Path(self.arguments.out or Path("runs") / self.name)
        if self.arguments.precision != "float32":
            keras.config.set_dtype_policy(self.arguments.precision)
        devices.join(self.arguments.processes)
        self.devices = devices.use(self.arguments.devices)
        with hushed():  # the first time, Keras imports TensorFlow for it
            keras.utils.set_random_seed(self.seed)

        if self.arguments.show and self.dataset in SETUPS:  # which takes no data
            self._show(self._settings(settings, variants))
        self.beginning = Beginning(self.arguments.init) if self.arguments.init else None
        if self.beginning and self.dataset in SETUPS and self.dataset not in KINDS:  # before all images are read
            self.beginning.check_shape(data.info(self.dataset).image_shape)
        self.data_remarks = []
        self.images, self.labels = self.load("train")
        if self.arguments.limit:
            self.images = outcome.first(self.images, self.arguments.limit)
            self.labels = None if self.labels is None else self.labels[: self.arguments.limit]
        self.image_shape = tuple(self.images.shape[1:])
        self.settings = self._settings(settings, variants, self.image_shape[-1])
        if self.arguments.show:
            self._show(self.settings)
        in_print = published if self.variant == "zoo" or variants[self.variant].published else None
        self.published = (in_print or {}).get(self.dataset, {})
        self._check_sizes()
        self.test_images, self.test_labels, self.no_test = outcome.test_set(self)
        self.fingerprint = folder.fingerprint(self.images)
        self.extended = processes.by_first(self._check_folder) or []

        self.steps_per_epoch = len(self.images) // self.settings["batch_size"]
        self.views_per_step = self.settings["batch_size"] * views_of(self.settings)
        self.initial_epoch = 0
        self.steps = self.settings["epochs"] * self.steps_per_epoch  # of the whole run, if there is time for all
        if (accumulated := self.arguments.accumulate or 1) > self.steps:
            raise InvalidInputError(
                f"--accumulate must be at most the number of batches of this run, {self.steps:,}, or nothing moves. "
                f"Received: --accumulate={accumulated}"
            )
        self.plan = self._former_plan()
        self.schedule = None  # one whose length is planned for the time there is
        self.fused = 1  # training steps in one program
        self.model = None
        self.moved = True  # whether any step was made
        self.journal = callbacks.Journal(self.out / "history.csv", self.views_per_step)
        self.stopwatch = callbacks.Stopwatch(self.arguments.max_minutes, self.arguments.grace)
        self.checkpoint = callbacks.Checkpoint(self.out / "checkpoint.npz", self.journal, self.stopwatch)
        self.monitor_rows = self._monitor_rows()
        if self.arguments.until_knn and not self.monitor_rows:
            raise InvalidInputError(
                "--until-knn needs one label an image, and monitor_every > 0. "
                f"Received: --until-knn={self.arguments.until_knn:g}"
            )
        self.plateau = None  # what turns the rate down where the schedule waits for accuracy to stall
        if self.settings["schedule"] == "plateau" and not self.monitor_rows:
            raise InvalidInputError(
                "The schedule that waits for accuracy to stall needs one label an image, and monitor_every > 0. "
                "Received: schedule='plateau'"
            )
        self.until = self.arguments.until_knn and callbacks.UntilKNN(self.arguments.until_knn / 100, self.journal)
        watched = np.random.default_rng([self.seed, 1]).permutation(len(self.images))[:512]
        self.health = callbacks.Health(
            self.images[np.sort(watched)],
            stop=self.arguments.stop_on_collapse or 0,
            batch_size=self.settings["batch_size"],
            seed=self.seed,
        )

    # ------------------------------------------------------------------ before training

    def load(self, split: str):
        """Images and labels of a split of this run's data set; what was done to them is told, and kept for the card."""
        remarks = []
        a = self.arguments
        if split == "train" and self.dataset not in SETUPS and Path(self.dataset).expanduser().is_dir():
            print(f"Reading the images below {self.dataset}")  # which may take minutes; a log file shows this first
        images, labels = data.load(
            self.dataset,
            split,
            data_dir=a.data_dir,
            image_size=a.image_size or "auto",
            labels=a.labels,
            test_share=a.test_share,
            seed=self.seed,
            on_error=a.on_error,
            remarks=remarks,
            stream=a.stream or "auto",
            background=a.background,
        )
        for remark in remarks:
            if remark not in self.data_remarks:  # the train split's were told
                print(remark)
        # Of the files that were left out the card says how many: their paths are nobody else's business.
        self.data_remarks += [
            re.sub(r"(were left out): .*", r"\1.", remark) for remark in remarks if "(--stream)" not in remark
        ]
        if labels is None and (classes := data.class_folders(self.dataset)):
            some = ", ".join(classes[:5]) + " ..." * (len(classes) > 5)
            print(
                f"{len(classes)} folders in it look like classes ({some}): "
                "with --labels folders --test-share 0.2 their features are measured."
            )
        return images, labels

    def _settings(self, settings, variants, channels=None):
        """The numbers in force: recipe, variant, flags."""
        chosen = (settings, variants, self.variant, self.dataset, channels)
        plain = resolve(*chosen)
        changes = flags.changes(self.arguments, plain)
        if "queue_size" in changes and "queue_size" not in plain:
            raise InvalidInputError(f"{self.method} has no queue here. Received: --queue-size={changes['queue_size']}")
        numbers = resolve(*chosen, changes)
        flags.check_protocols(numbers["protocols"])
        return numbers

    def _show(self, numbers):
        """What --show is for."""
        print(table(numbers))
        sys.exit()

    def _monitor_rows(self):
        """Places of bank and queries of the monitor, or None. Training images: training itself sees no labels."""
        if self.labels is None or self.labels.ndim != 1 or not self.settings["monitor_every"]:
            return None
        order = np.random.default_rng(self.seed).permutation(len(self.images))
        queries = min(2000, len(order) // 5)
        bank = min(10_000, len(order) - queries)
        return order[:bank], order[bank : bank + queries]

    def _check_sizes(self):
        batch_size = self.settings["batch_size"]
        devices.check(batch_size, self.devices)
        if len(self.images) < batch_size:
            raise InvalidInputError(
                f"The training set must hold at least one batch (--batch-size), here {batch_size} images. "
                f"Received: dataset={self.dataset!r} with {len(self.images)} images"
            )
        views = 4 * batch_size * self.settings["num_views"] * math.prod(self.image_shape)
        if views > data.memory():
            raise InvalidInputError(
                f"The views of one step must fit the memory of this machine ({data.memory() / 2**30:.1f} GiB). "
                f"Received: --num-views={self.settings['num_views']} of {batch_size} images, {views / 2**30:.1f} GiB"
            )
        latent = 4 * len(self.images) * (self.settings["latent_dim"] or 0)
        if latent > data.memory():
            raise InvalidInputError(
                f"The features of all images must fit the memory of this machine ({data.memory() / 2**30:.1f} GiB). "
                f"Received: latent_dim={self.settings['latent_dim']} of {len(self.images)} images, "
                f"{latent / 2**30:.1f} GiB"
            )
        queue = self.settings.get("queue_size") or 0
        if queue * 8 > len(self.images):
            raise InvalidInputError(
                "A queue must hold at most an eighth of the training images, or too many of its negatives are views of "
                f"the images they are compared with: here at most {len(self.images) // 8}. "
                f"Received: queue_size={queue} with {len(self.images)} images"
            )

    def _identity(self):
        """What a resumed run must share with the run it goes on with; the rest (--max-minutes, ...) may differ."""
        identity = {
            "method": self.method,
            "dataset": self.dataset,
            "variant": self.variant,
            "settings": self.settings,
            "seed": self.seed,
            "precision": self.arguments.precision,
            "views": self.arguments.views,
            "limit": self.arguments.limit,
            "image_size": self.arguments.image_size,
            "labels": self.arguments.labels,
            "test_share": self.arguments.test_share,
            "on_error": self.arguments.on_error,
            "init": self.arguments.init,
            "accumulate": self.arguments.accumulate,
            "backend": keras.backend.backend(),
            "images": self.fingerprint,
        }
        return json.loads(json.dumps(identity))  # as it reads back: tuples are lists

    def _check_folder(self):
        return folder.check(self.out, self.name, self._identity(), self.arguments.resume)

    def _take_folder(self):
        folder.take(self.out)
        self._check_folder()  # another may have begun there since

    def extensions(self) -> list[str]:
        """What the card must say of a run whose rate did not fall over --epochs: given more of them, or less time."""
        plan = self.plan or {"steps": None, "former": []}
        planned = [steps for steps in (*plan["former"], plan["steps"]) if steps is not None and steps < self.steps]
        return [
            f"The run was planned for {epochs} epochs and then extended; until it was, its rate fell as for {epochs}."
            for epochs in self.extended
        ] + [
            f"From the time there was (--max-minutes) {steps:,} steps of {self.steps:,} were planned: the rate "
            "fell over these."
            for steps in planned
        ]

    # ------------------------------------------------------------------ for the recipe

    def options(self, *names: str) -> dict:
        """The settings of these names, to pass on to a method."""
        return {name: self.settings[name] for name in names}

    def views(self, num_views: int | None = None, size: int | tuple[int, int] | None = None, **changes) -> Views:
        """The `Views` of this run: its policy and number of views.

        Args:
            num_views: int, in place of the setting (small crops beside the large ones).
            size: of the views, in place of the images' own.
            **changes: to steps of the policy, over the setting "policy_changes".
        """
        changes = {"flip": self.settings["flip"], **self.settings["policy_changes"], **changes}
        steps = policy(self.settings["policy"], **changes)
        return Views(steps, num_views or self.settings["num_views"], size=size or self.image_shape[:2], seed=self.seed)

    def local_views(self) -> Views | None:
        """The smaller views of settings "local_views" (how many), "local_scale" and "local_size"; None for 0."""
        s = self.settings
        if not s["local_views"]:
            return None
        return self.views(s["local_views"], s.get("local_size"), crop={"scale": s["local_scale"]})

    def encoder(self, posterior: bool = False, **size) -> keras.Model:
        """The encoder of this run: setting "network", a representation of "latent_dim" numbers; or that of --init.

        Args:
            posterior: bool, whether it gives mean and log-variance.
            **size: of a network that comes in several, as `networks.encoder` takes it (width=16).
        """
        if self.arguments.init:
            return self.beginning.encoder(self, posterior)
        return networks.encoder(
            self.settings["network"], self.image_shape, self.settings["latent_dim"], posterior, seed=self.seed, **size
        )

    def decoder(self) -> keras.Model:
        """The decoder that belongs to the encoder of this run."""
        if self.arguments.init:
            return self.beginning.decoder()
        return networks.decoder(
            self.settings["network"], self.image_shape, self.settings["latent_dim"], seed=self.seed + 1
        )

    def projector(self, encoder: keras.Model) -> keras.Model | None:
        """The projection head of this run: setting "head", its widths, with "head_options"; None without one."""
        if not self.settings.get("head"):
            return None
        options = self.settings.get("head_options", {})
        head = networks.projector(encoder.output_shape[-1], self.settings["head"], seed=self.seed + 1, **options)
        self.fill_head(head, encoder)
        return head

    def fill_head(self, head: keras.Model, encoder: keras.Model) -> None:
        """With --init, gives a new head the weights of the trained one, if it was published and has this one's shape.

        Args:
            head: features of the encoder (N, L) -> what the loss sees; its layers are changed in place.
            encoder: what `encoder` gave.
        """
        if self.arguments.init:
            self.beginning.fill_projector(head, encoder)

    def predictor(self, below: keras.Model) -> keras.Model:
        """The prediction head on top of the projector, or of an encoder without one: setting "predictor", its width."""
        return networks.predictor(below.output_shape[-1], self.settings["predictor"], seed=self.seed + 2)

    def optimizer(self) -> keras.optimizers.Optimizer:
        """The setting "optimizer", with "weight_decay" as L2; warm-up and cosine decay, or a rate that is constant, but
        for what `fit_arguments` does to it when accuracy stalls ("plateau")."""
        s, rate = self.settings, self.settings["learning_rate"]
        accumulated = self.arguments.accumulate or 1
        if choose("schedule", s["schedule"], ("cosine", "constant", "plateau")) == "cosine":
            # Keras asks schedules for the rate of a batch, not of a step that several batches make.
            warmup = s["warmup_steps"] * accumulated
            if s["warmup_epochs"] is not None:
                warmup = round(s["warmup_epochs"] * self.steps_per_epoch)
            if self.plan is not None:
                rate = self.schedule = TimedCosine(rate, self.steps, warmup)
            else:
                rate = optimizers.warmup_cosine(rate, self.steps, min(warmup, self.steps // 10))
        kind = choose("optimizer", s["optimizer"], ("adam", "lars", "sgd"))
        several = accumulated if accumulated > 1 else None
        common = {"momentum": 0.9, "weight_decay": s["weight_decay"], "gradient_accumulation_steps": several}
        if kind == "adam":
            adam = {"epsilon": s["adam_epsilon"], "gradient_accumulation_steps": several}
            decay = s["weight_decay"]
            made = optimizers.L2Adam(rate, decay, **adam) if decay else keras.optimizers.Adam(rate, **adam)
        elif kind == "sgd":
            made = optimizers.L2SGD(rate, **common)
        else:
            made = optimizers.LARS(rate, trust_coefficient=0.02, clip=True, **common)
        return made if self.schedule is None else self.schedule.of(made)

    def prepare(self, model: Pretrainer, optimizer: keras.optimizers.Optimizer | None = None) -> None:
        """Compile the model, and go back to the checkpoint with `--resume`.

        Args:
            model: the method to train.
            optimizer: in place of the one that the settings name.

        Raises:
            InvalidInputError: --init, and a recipe that makes its networks itself.
        """
        if self.beginning and not self.beginning.taken:
            raise InvalidInputError(
                f"{self.method} trains networks of its own kind, which cannot begin with another model. "
                f"Received: --init={self.arguments.init}"
            )
        model.check_batch(self.settings["batch_size"])
        model.compile(optimizer=optimizer or self.optimizer())
        self.model = model
        self.fused = int(processes.of_first([self._steps_per_program()])[0])  # each measured for itself
        if self.fused > 1:
            fusing.build(model, self._batch())
            model.compile(optimizer=model.optimizer, steps_per_execution=self.fused)
        processes.by_first(self._take_folder)
        self._write_record()
        if self.arguments.resume:
            self.initial_epoch = self.checkpoint.restore(model)
            if processes.of_first([self.initial_epoch]) != [self.initial_epoch]:
                raise ArtefactError(f"--out must be a folder that all processes see. Received: --out={self.out}")
            if not self.initial_epoch:
                print(f"There is no checkpoint in {self.out}: training starts over.")
            for remark in self.checkpoint.remarks:
                print(remark)
            if self.schedule is not None:
                self.schedule.length.assign(float(self.plan["steps"] or self.steps))
        if self.no_test and not self.arguments.probe_data:
            print(f"{self.no_test}: there will be no probes. The encoder and its pictures are written all the same.")
        network = self.settings["network"]
        precision = self.arguments.precision
        suitable = devices.suitable_backend(network, precision)
        if suitable != keras.backend.backend() and not self.initial_epoch:
            print(f"On this machine {network} is trained fastest by {suitable}: KERAS_BACKEND={suitable}.")
        if precision == "float32" and devices.bfloat16_helps(network) and not self.initial_epoch:
            print("This CPU computes in bfloat16: KERAS_BACKEND=tensorflow with --precision mixed_bfloat16 is faster.")
        accumulated = self.arguments.accumulate or 1
        if accumulated > 1:
            rest = self.steps % accumulated  # which Keras gathers, and applies no more
            print(
                f"--accumulate {accumulated}: each loss still compares the {self.settings['batch_size']} images of one "
                "batch. Negatives, batch statistics and queues are those of one batch; only gradients are averaged."
                + (f" The last {rest} of {self.steps:,} batches make no step." if rest else "")
            )
        print(
            f"{self.name} ({self.variant}): {len(self.images):,} images {self.image_shape}, "
            f"{self.settings['num_views']} views of each, {self.settings['batch_size']} images a step, "
            f"{self.steps_per_epoch:,} steps x {self.settings['epochs']} epochs, {model.count_params():,} parameters, "
            f"{keras.backend.backend()} backend"
            + (f", {self.devices} devices" if self.devices > 1 else "")
            + (f" of {processes.count()} processes" if processes.count() > 1 else "")
            + (f", {self.fused} steps in a program" if self.fused > 1 else "")
            + (f", gradients of {accumulated} batches make a step" if accumulated > 1 else "")
            + (f", going on after epoch {self.initial_epoch}" if self.initial_epoch else "")
        )

    def _former_plan(self):
        """Of a run whose rate falls over --max-minutes: {"steps": planned or None, "done": bool, "former": list}.

        Whether it does is settled when a run begins: the optimizer of such a run has one variable more. What was
        planned stays, so that a killed run ends as it would have; once that was done, more time makes another plan.
        """
        if not (self.arguments.resume and any(self.out.glob("checkpoint*.npz"))):
            anneals = self.arguments.max_minutes is not None and self.settings["schedule"] == "cosine"
            return {"steps": None, "done": False, "former": []} if anneals else None
        record = folder.read(self.out / "run.json")
        plan = record.get("plan")
        newly_extended = processes.any_of(not processes.index() and self.extended != record.get("extended", []))
        if plan is None or not (plan["done"] or newly_extended):
            return plan
        former = [*plan["former"], *([plan["steps"]] if plan["steps"] else [])]
        return {"steps": None, "done": False, "former": former}

    def _write_record(self):
        """run.json: what the run shares with those that go on with it, and what it notes for them. The first writes."""
        if processes.index():
            return
        record = {**self._identity(), "fuse_steps": self.fused}
        if self.extended:
            record["extended"] = self.extended
        if self.plan is not None:
            record["plan"] = self.plan
        write_beside(self.out / "run.json", (json.dumps(record, indent=1) + "\n").encode())

    def note_plan(self, steps: int | None = None, done: bool = False) -> None:
        """Writes into run.json how many steps were planned for the time there is, or that they are done."""
        self.plan |= {"steps": steps or self.plan["steps"], "done": done}
        self._write_record()

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
            extra: callbacks of the method's own, which come before those that watch.
        """
        for callback in extra:
            if hasattr(callback, "resume"):  # which keeps something between epochs
                callback.resume(self.journal.rows)
        watchers = [*extra]
        if self.schedule is not None:
            done = self.initial_epoch * self.steps_per_epoch
            watchers.append(
                Annealing(self.schedule, self.stopwatch, self.steps, self.plan["steps"], done, self.note_plan)
            )
        anneals = self.schedule is not None
        watchers.append(callbacks.Pace(self.settings["epochs"], self.arguments.max_minutes, anneals=anneals))
        watchers += [self.stopwatch, callbacks.FiniteGuard(self.model.terms)]
        speakers = list(extra)
        if self.monitor_rows:
            encoder, every = self.model.live_encoder(self.image_shape), self.settings["monitor_every"]
            bank, queries = ((self.images[rows], self.labels[rows]) for rows in self.monitor_rows)
            watchers.append(callbacks.KNNMonitor(encoder, bank, queries, every))
            watchers += [self.until] if self.until else []
            remembers = isinstance(self.model, MemoryBank)
            if remembers:
                watchers.append(BankMonitor(*queries, self.labels, every, index=self.monitor_rows[1]))
            if self.settings["schedule"] == "plateau":
                key = "bank_accuracy" if remembers else "knn"
                self.plateau = PlateauRate(self.journal, self.settings["learning_rate"], key)
                watchers.append(self.plateau)
                speakers.append(self.plateau)
        watchers += [self.health, self.journal, self.checkpoint]
        installed = importlib.util.find_spec("tensorflow") and importlib.util.find_spec("tensorboard")
        if installed and processes.index() == 0:
            watchers.append(keras.callbacks.TensorBoard(str(self.out / "tensorboard"), write_graph=False))
        watchers.append(callbacks.Narrator(self.model.terms, speakers))
        return {
            "epochs": self.settings["epochs"],
            "initial_epoch": self.initial_epoch,
            "steps_per_epoch": self.steps_per_epoch if self.fused == 1 or fuses_its_steps() else None,
            "shuffle": False,  # the data has its own order, a function of seed and epoch
            "callbacks": watchers,
            "verbose": 0,  # `Narrator` says it
        }

    def finish(self, model: Pretrainer) -> Path:
        """Evaluate, draw, write the artefact `<out>/<name>/`; of several processes the first does. Returns its path."""
        if (self.arguments.accumulate or 1) > 1:
            self.moved = int(model.optimizer.iterations) > 0  # asked before processes part
        if self.devices > 1 and not devices.release(model):
            return self.out / self.name
        if self.plan is not None and (self.stopwatch.reason or "").startswith("stopped"):
            self.note_plan(done=True)
        return outcome.write(self, model)
