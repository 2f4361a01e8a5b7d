"""What recipes share: flags, data, seeds, budget, exact resume, and the artefact at the end.

A recipe holds its hyper-parameters as data and reads, from top to bottom:

    run = training.Run("simvae", SETTINGS, VARIANTS, argv, __doc__)
    model = SimVAE(...)                      # from run.settings, run.image_shape, run.seed
    run.prepare(model)                       # compile; go back to the checkpoint with --resume
    model.fit(run.data(), **run.fit_arguments())
    run.finish(model)                        # probes, pictures, artefact
"""

import argparse
import importlib.util
import inspect
import json
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import keras
import numpy as np

from sslzoo import callbacks, data, evaluation, networks, optimizers
from sslzoo.errors import ArtefactError, InvalidInputError, SSLZooError, choose
from sslzoo.evaluation import pictures
from sslzoo.evaluation.report import versions
from sslzoo.files import write_beside
from sslzoo.methods import METHODS
from sslzoo.views import Views, policy
from sslzoo.zoo import artefact

# What the SimVAE papers hold equal across methods, per data set: network, size of the representation, and views.
# "flip": the paper's figures come from vertical flips (so its code; its text leaves it open), which `--variant paper`
# restores; digits and house numbers have no mirror symmetry, so they are not flipped here, natural images horizontally.
SETUPS = {
    "digits": {"network": "mlp-small", "latent_dim": 10, "policy": "simvae-digits", "flip": None},
    "mnist": {"network": "mlp", "latent_dim": 10, "policy": "simvae-mnist", "flip": None},
    "fashion_mnist": {"network": "mlp", "latent_dim": 10, "policy": "simvae-fashion-mnist", "flip": "horizontal"},
    "cifar10": {"network": "resnet18-simvae", "latent_dim": 64, "policy": "simvae-cifar10", "flip": "horizontal"},
    "cifar100": {"network": "resnet18-simvae", "latent_dim": 64, "policy": "simvae-cifar10", "flip": "horizontal"},
    "svhn_cropped": {"network": "resnet18-simvae", "latent_dim": 64, "policy": "simvae-cifar10", "flip": None},
    "celeb_a": {"network": "resnet18-simvae", "latent_dim": 64, "policy": "simvae-celeba", "flip": "horizontal"},
    "grey images": {"network": "mlp", "latent_dim": 10, "policy": "simvae-fashion-mnist", "flip": "horizontal"},
    "colour images": {"network": "resnet18-simvae", "latent_dim": 64, "policy": "simvae-cifar10", "flip": "horizontal"},
}
# What the CIFAR-10 benchmarks of other libraries hold equal instead: the standard ResNet-18 of 512 features, SimCLR's
# views, 256 images a step. After 200 epochs the numbers can be held against lightly's table, after 1000 (--epochs 1000)
# against solo-learn's.
STRONG = {
    "only": ("cifar10", "cifar100", "colour images"),
    "network": "resnet18", "latent_dim": None, "policy": "simclr-cifar10", "flip": "horizontal",
    "num_views": 2, "batch_size": 256, "epochs": 200, "warmup_epochs": 10,
    "protocols": ("linear", "knn"), "published": None,
}  # fmt: skip
PAPER_NETWORKS = dict.fromkeys(("cifar10", "cifar100", "svhn_cropped", "celeb_a"), "resnet18-simvae-paper")
RELEASED_NETWORKS = dict.fromkeys(("mnist", "fashion_mnist"), "mlp-released")


class Run:
    """One training run, from command line to artefact.

    Args:
        method: str, name of the method in `sslzoo.methods.METHODS`.
        settings: dict, data set name -> hyper-parameters; the entries "grey images" and "colour images" serve folders
            and `.npz` files. Each holds at least epochs, batch_size (images per step), num_views, policy, flip,
            learning_rate.
        variants: dict, variant name -> hyper-parameters that replace those; a dict over data sets picks by data set.
            "only" names the data sets a variant is for.
        argv: list of str, or None for the command line.
        description: str, the recipe's docstring.
        published: dict, data set name -> {protocol: percent} that the paper printed.
        papers: list of {"title": str, "url": str}, for the card.

    Attributes:
        settings: dict of the hyper-parameters in force.
        images, labels: training data, uint8 (N, H, W, C) and int (N,) or None.
        image_shape: tuple (H, W, C).
        seed: int.
    """

    def __init__(
        self,
        method: str,
        settings: dict[str, dict],
        variants: dict[str, dict],
        argv: list[str] | None = None,
        description: str = "",
        published: dict[str, dict] | None = None,
        papers: Sequence[dict] = (),
    ):
        self.method = method
        parser = flags(method, settings, variants, description)
        self.arguments = parser.parse_args(argv)
        self._defaults = vars(parser.parse_args([]))
        self.dataset = self.arguments.dataset
        self.seed = self.arguments.seed
        self.papers = list(papers)
        self.published = (published or {}).get(self.dataset, {})
        self.variant = choose("variant", self.arguments.variant, variants)
        self._check_flags()
        if self.arguments.precision != "float32":
            keras.config.set_dtype_policy(self.arguments.precision)
        keras.utils.set_random_seed(self.seed)

        self.images, self.labels = self._load("train")
        if self.arguments.limit:
            self.images = self.images[: self.arguments.limit]
            self.labels = None if self.labels is None else self.labels[: self.arguments.limit]
        self.image_shape = tuple(self.images.shape[1:])
        self.settings = self._settings(settings, variants[self.variant])
        self.name = f"{method}-{data_name(self.dataset)}"
        self.out = Path(self.arguments.out or Path("runs") / self.name)
        self.initial_epoch = 0
        self._hold_out_monitor_set()
        self._check_sizes()
        self._check_folder()

    # ------------------------------------------------------------------ before training

    def _check_flags(self):
        for protocol in self.arguments.protocols or ():
            choose("protocol", protocol, evaluation.PROTOCOLS)
        for name in ("epochs", "batch_size", "num_views", "queue_size", "max_minutes", "limit", "stop_on_collapse"):
            value = getattr(self.arguments, name)
            if value is not None and not value > 0:
                flag = "--" + name.replace("_", "-")
                raise InvalidInputError(f"{flag} must be greater than 0. Received: {flag}={value}")
        if self.arguments.views == "tf.data" and importlib.util.find_spec("tensorflow") is None:
            raise InvalidInputError(
                "Views in tf.data need TensorFlow (pip install 'sslzoo[tensorflow]'); --views device does not. "
                "Received: --views=tf.data"
            )

    def _load(self, split):
        return data.load(self.dataset, split, data_dir=self.arguments.data_dir, image_size=self.arguments.image_size)

    def _settings(self, settings, variant):
        kind = self.dataset
        if kind not in settings:
            kind = "grey images" if self.image_shape[-1] == 1 else "colour images"
        chosen = dict(settings[kind])
        only = variant.get("only", (kind,))
        if kind not in only:
            raise InvalidInputError(
                f"Variant {self.variant} is for {', '.join(only)}. Received: --dataset {self.dataset}"
            )
        if "published" in variant:  # the paper's numbers are not those of other networks and views
            self.published = variant["published"] or {}
        for name, value in variant.items():
            if name in ("only", "published"):
                continue
            by_dataset = isinstance(value, dict) and bool(value) and set(value) <= set(settings)
            if not by_dataset:
                chosen[name] = value
            elif kind in value:
                chosen[name] = value[kind]
        if self.arguments.queue_size is not None and "queue_size" not in chosen:
            raise InvalidInputError(
                f"{self.method} has no queue here. Received: --queue-size={self.arguments.queue_size}"
            )
        for name in ("epochs", "batch_size", "num_views", "learning_rate", "queue_size"):
            if getattr(self.arguments, name) is not None:
                chosen[name] = getattr(self.arguments, name)
        return chosen

    def _hold_out_monitor_set(self):
        """The monitor's images are taken off the training labels only: self-supervised training sees no labels."""
        self._monitor = None
        if self.labels is None or self.labels.ndim != 1 or not self.settings.get("monitor_every", 1):
            return
        order = np.random.default_rng(self.seed).permutation(len(self.images))
        queries = min(2000, len(order) // 5)
        bank = min(10_000, len(order) - queries)
        self._monitor = [
            (self.images[part], self.labels[part]) for part in (order[:bank], order[bank : bank + queries])
        ]

    def _check_sizes(self):
        if len(self.images) < self.settings["batch_size"]:
            raise InvalidInputError(
                "The training set must hold at least one batch (--batch-size), here "
                f"{self.settings['batch_size']} images. "
                f"Received: dataset={self.dataset!r} with {len(self.images)} images"
            )
        queue = self.settings.get("queue_size") or 0
        if queue * 8 > len(self.images):
            raise InvalidInputError(
                "A queue must hold at most an eighth of the training images, or too many of its negatives are views of "
                f"the images they are compared with: here at most {len(self.images) // 8}. "
                f"Received: queue_size={queue} with {len(self.images)} images"
            )
        self.steps_per_epoch = len(self.images) // self.settings["batch_size"]
        self.views_per_step = self.settings["batch_size"] * self.settings["num_views"]

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
            "backend": keras.backend.backend(),
        }
        return json.loads(json.dumps(identity))  # as it reads back: tuples are lists

    def _check_folder(self):
        """Refuse a folder that holds another run, before anything is trained or written."""
        record = self.out / "run.json"
        if self.out.exists() and not self.out.is_dir():
            raise ArtefactError(f"--out must be a folder. Received: --out={self.out}, which is a file")
        if record.exists():
            if not self.arguments.resume:
                raise ArtefactError(
                    f"The output folder holds a run already: go on with it (--resume), or name another (--out). "
                    f"Received: --out={self.out}"
                )
            try:
                theirs = json.loads(record.read_text())
            except ValueError as error:
                raise ArtefactError(f"The run's record must be JSON ({error}). Received: {record}") from error
            ours = self._identity()
            differing = [key for key in ours if theirs.get(key) != ours[key]]
            if differing:
                told = ", ".join(f"{key}={ours[key]!r} (was {theirs.get(key)!r})" for key in differing)
                raise ArtefactError(f"--resume needs the configuration of the run in {self.out}. Received: {told}")
        elif self.out.exists() and any(self.out.iterdir()):
            raise ArtefactError(
                "The output folder must be new, empty, or hold a run of this recipe (with --resume). "
                f"Received: --out={self.out}, which holds {sorted(p.name for p in self.out.iterdir())[:3]}"
            )

    # ------------------------------------------------------------------ for the recipe

    def views(self, num_views: int | None = None, size: int | tuple[int, int] | None = None, **changes) -> Views:
        """The `Views` of this run: its policy and number of views.

        Args:
            num_views: int, in place of the setting (small crops beside the large ones).
            size: of the views, in place of the images' own.
            **changes: to steps of the policy, over the setting "policy_changes".
        """
        changes = {"flip": self.settings["flip"], **self.settings.get("policy_changes", {}), **changes}
        steps = policy(self.settings["policy"], **changes)
        return Views(steps, num_views or self.settings["num_views"], size=size or self.image_shape[:2], seed=self.seed)

    def encoder(self, posterior: bool = False) -> keras.Model:
        """The encoder of this run: setting "network", a representation of "latent_dim" numbers."""
        return networks.encoder(
            self.settings["network"], self.image_shape, self.settings["latent_dim"], posterior, seed=self.seed
        )

    def projector(self, encoder: keras.Model) -> keras.Model | None:
        """The projection head of this run: setting "head", its widths, with "head_options"; None without one."""
        if not self.settings.get("head"):
            return None
        options = self.settings.get("head_options", {})
        return networks.projector(encoder.output_shape[-1], self.settings["head"], seed=self.seed + 1, **options)

    def optimizer(self) -> keras.optimizers.Optimizer:
        """Adam, or the setting "optimizer": "lars" or "sgd", with "weight_decay" as L2; warm-up and cosine decay, or a
        constant rate where the paper has none."""
        rate, s = self.settings["learning_rate"], self.settings
        if s.get("schedule", "cosine") == "cosine":
            steps = s["epochs"] * self.steps_per_epoch
            warmup = s.get("warmup_steps", 200)
            if "warmup_epochs" in s:
                warmup = s["warmup_epochs"] * self.steps_per_epoch
            rate = optimizers.warmup_cosine(rate, steps, min(warmup, steps // 10))
        kind = choose("optimizer", s.get("optimizer", "adam"), ("adam", "lars", "sgd"))
        if kind == "adam":
            return keras.optimizers.Adam(rate, epsilon=s.get("adam_epsilon", 1e-7))
        decay = s.get("weight_decay", 0.0)
        if kind == "sgd":
            return optimizers.L2SGD(rate, momentum=0.9, weight_decay=decay)
        return optimizers.LARS(rate, momentum=0.9, weight_decay=decay, trust_coefficient=0.02, clip=True)

    def prepare(self, model: keras.Model, optimizer: keras.optimizers.Optimizer | None = None) -> None:
        """Compile the model, set up what watches the run, and go back to the checkpoint with `--resume`."""
        model.compile(optimizer=optimizer or self.optimizer())
        self.model = model
        self.out.mkdir(parents=True, exist_ok=True)
        write_beside(self.out / "run.json", (json.dumps(self._identity(), indent=1) + "\n").encode())
        self.journal = callbacks.Journal(self.out / "history.csv", self.views_per_step)
        self.stopwatch = callbacks.Stopwatch(self.arguments.max_minutes)
        self._checkpoint = callbacks.Checkpoint(self.out / "checkpoint.npz", self.journal, self.stopwatch)
        watched = np.random.default_rng([self.seed, 1]).permutation(len(self.images))[:512]
        self.health = callbacks.Health(
            self.images[np.sort(watched)],
            stop=self.arguments.stop_on_collapse or 0,
            batch_size=self.settings["batch_size"],
            seed=self.seed,
        )
        if self.arguments.resume:
            self.initial_epoch = self._checkpoint.restore(model)
        print(
            f"{self.name} ({self.variant}): {len(self.images):,} images {self.image_shape}, "
            f"{self.settings['num_views']} views of each, {self.settings['batch_size']} images a step, "
            f"{self.steps_per_epoch:,} steps x {self.settings['epochs']} epochs, {model.count_params():,} parameters, "
            f"{keras.backend.backend()} backend"
            + (f", going on after epoch {self.initial_epoch}" if self.initial_epoch else "")
        )

    def data(self):
        """Batches for `fit`: raw images for views on the device, or views made in `tf.data`."""
        common = {
            "batch_size": self.settings["batch_size"], "with_index": self.model.indexed, "seed": self.seed,
            "start_epoch": self.initial_epoch,
        }  # fmt: skip
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
        watchers = [*extra, self.stopwatch, callbacks.FiniteGuard(self.model.terms)]
        if self._monitor:
            every = self.settings.get("monitor_every", 1)
            watchers.append(callbacks.KNNMonitor(self.model.live_encoder(self.image_shape), *self._monitor, every))
        watchers += [self.health, self.journal, self._checkpoint]
        if importlib.util.find_spec("tensorflow") and importlib.util.find_spec("tensorboard"):
            watchers.append(keras.callbacks.TensorBoard(str(self.out / "tensorboard"), write_graph=False))
        return {
            "epochs": self.settings["epochs"],
            "initial_epoch": self.initial_epoch,
            "steps_per_epoch": self.steps_per_epoch,
            "shuffle": False,  # the data has its own order, a function of seed and epoch
            "callbacks": watchers,
            "verbose": 1 if sys.stdout.isatty() else 2,
        }

    # ------------------------------------------------------------------ after training

    def finish(self, model: keras.Model) -> Path:
        """Evaluate, draw and write the artefact `<out>/<name>/`. Returns its path."""
        if self.stopwatch.reason:
            print(f"Training was {self.stopwatch.reason}; what was trained so far is evaluated and written.")
        if self.health.reason:
            print("Training was stopped by --stop-on-collapse; what was trained so far is evaluated and written.")
        parts = model.parts(self.image_shape)
        if self.arguments.float16:
            for part in parts.values():
                artefact.round_weights(part)
        else:
            parts["model"] = model
        test = self._test_set()
        report = None
        if test is not None:
            train = (self.images, self.labels)
            as_published = not (self.arguments.limit or self.arguments.image_size)
            whole = self.dataset if as_published else (train, test)
            protocols = self.arguments.protocols or self.settings.get("protocols") or evaluation.PROTOCOLS
            report = evaluation.evaluate(parts["encoder"], whole, protocols, self.arguments.data_dir, seed=self.seed)
            print(report)
        drawn = self._pictures(model, parts["encoder"], *(test or (self.images, self.labels)))
        folder = artefact.write(
            self.out / self.name,
            parts,
            self._results(report),
            pictures=drawn,
            float16=self.arguments.float16,
            overwrite=True,
        )
        print(f'Wrote {folder}. Use it: sslzoo.load("{folder}")')
        return folder

    def _test_set(self):
        if self.labels is None:
            print("No labels: probes are skipped. The encoder and its pictures are written all the same.")
            return None
        if "test" not in data.splits(self.dataset):
            print("No test split: probes are skipped. The encoder and its pictures are written all the same.")
            return None
        images, labels = self._load("test")
        some = slice(self.arguments.limit)  # all of them without a limit
        return images[some], labels[some]

    def _pictures(self, model, encoder, images, labels):
        folder = self.out / "pictures"
        folder.mkdir(exist_ok=True)
        rows = [{k: v for k, v in row.items() if k not in callbacks.Journal.BOOKKEEPING} for row in self.journal.rows]
        drawn = [pictures.curves(rows, folder / "curves.png", title=self.name)]
        if hasattr(model, "reconstruct"):
            shown = images[:20]
            seen, rebuilt = (keras.ops.convert_to_numpy(f(shown)) for f in (model.prepare, model.reconstruct))
            drawn.append(pictures.reconstructions(seen, rebuilt, folder / "reconstructions.png"))
            try:
                samples, title = model.sample(50, seed=self.seed), "Samples from the prior"
            except InvalidInputError:  # uniform centres: there is no prior to draw centres from
                samples, title = model.sample(50, like=images[:10], seed=self.seed), "Samples around ten test images"
            drawn.append(pictures.samples(keras.ops.convert_to_numpy(samples), folder / "samples.png", title=title))
        if labels is not None and labels.ndim == 1:
            features = evaluation.features(encoder, images[:2000])
            drawn.append(pictures.embedding(features, labels[:2000], folder / "embedding.png"))
        return {path.name: path for path in drawn}

    def _results(self, report):
        method = METHODS[self.method]
        remarks = [] if report is None else list(report.remarks)
        if self.stopwatch.reason:
            remarks.insert(0, f"Training was {self.stopwatch.reason}, in epoch {len(self.journal.rows)}.")
        if self.health.reason:
            remarks.insert(0, f"Training was stopped by --stop-on-collapse. {self.health.reason}")
        return {
            "name": self.name,
            "method": method.__name__,
            "dataset": self.dataset if self.dataset in SETUPS else data_name(self.dataset),
            "recipe": self._command(),
            "settings": {
                "variant": self.variant, **self.settings, "precision": self.arguments.precision,
                "views_on": self.arguments.views, "images": len(self.images), "backend": keras.backend.backend(),
            },
            "seeds": [self.seed],
            "metrics": [] if report is None else report.metrics(self._published(report)),
            "versions": versions() if report is None else report.versions,
            "wall_seconds": round(self.journal.seconds()),
            "views_seen": self.journal.rows[-1]["views"] if self.journal.rows else 0,
            "licence": "apache-2.0",
            "papers": self.papers,
            "description": inspect.getdoc(method).partition("\n")[0],
            "remarks": remarks,
            **({} if report is None else {"evaluation": report.to_dict()}),
        }  # fmt: skip

    def _command(self):
        """The command that trains this again: what differs from the defaults, without folders and time limits."""
        script = f"recipes/{self.method.replace('-', '_')}.py"
        words = [f"KERAS_BACKEND={keras.backend.backend()}", "python", script, "--dataset", self.dataset]
        for name, default in self._defaults.items():
            value = getattr(self.arguments, name)
            if value != default and name not in ("dataset", "data_dir", "out", "resume", "max_minutes", "protocols"):
                flag = "--" + name.replace("_", "-")
                words += [flag] if value is True else [flag, str(value)]
        return shlex.join(words)

    def _published(self, report):
        """The paper's numbers under our names: probes at their best epoch, kNN at its best k, clusters per batch."""
        ours = {
            "linear": "linear.best_accuracy",
            "mlp": "mlp.best_accuracy",
            "knn": "knn.euclidean_best_accuracy",
            "gmm": "gmm.minibatch64_accuracy",
        }
        return {ours[protocol]: value for protocol, value in self.published.items() if protocol in report}


def script(main: Callable) -> None:
    """Run a recipe's `main` from the shell: what the user can mend is told in a line, without a traceback."""
    try:
        main()
    except SSLZooError as error:
        sys.exit(f"{type(error).__name__}: {error}")


def data_name(dataset: str) -> str:
    """Name of a data set in model names: fashion_mnist -> fashion-mnist, a path -> its stem."""
    return Path(dataset).stem.replace("_", "-").lower()


def flags(method, settings, variants, description):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    named = [name for name in settings if "images" not in name]
    add("--dataset", default="digits", help=f"{', '.join(named)}, an .npz file, or a folder of images (digits)")
    add("--data-dir", help="folder of prepared TFDS data sets (TFDS_DATA_DIR, else TFDS' own)")
    add("--variant", default=next(iter(variants)), help=f"{', '.join(variants)} ({next(iter(variants))})")
    add("--epochs", type=int, help="passes over the training images")
    add("--batch-size", type=int, help="images per step; the networks see this times --num-views")
    add("--num-views", type=int, help="views of each image")
    add("--learning-rate", type=float, help="peak learning rate")
    add("--queue-size", type=int, help="what a method with a queue remembers, at most an eighth of the images")
    add("--views", choices=("device", "tf.data"), default="device", help="where views are made (device)")
    add("--precision", choices=("float32", "mixed_bfloat16", "mixed_float16"), default="float32")
    add("--seed", type=int, default=0)
    add("--image-size", type=int, help="pixels: crop and resize a folder's images, whose sizes may differ")
    add("--limit", type=int, help="use the first N images of each split only")
    add("--out", help=f"folder of the run (runs/{method}-<dataset>)")
    add("--resume", action="store_true", help="go on with the run in --out")
    add("--max-minutes", type=float, help="stop training in good order after this much wall time")
    lasting = "stop in good order once a sign of collapse has lasted so many epochs (5)"
    add("--stop-on-collapse", type=int, nargs="?", const=5, metavar="EPOCHS", help=lasting)
    add("--protocols", nargs="*", help=f"probes to run at the end ({' '.join(evaluation.PROTOCOLS)})")
    add("--float16", action="store_true", help="for publishing: weights as float16 (half the size), no model/")
    return parser
