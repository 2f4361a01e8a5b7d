"""`finetune`: a classifier from an encoder and labeled images, beside its probe and the same network from scratch."""

import contextlib
import dataclasses
import os
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np

from sslzoo import augment, checks, data, networks, publishing, views, zoo
from sslzoo.data import streams
from sslzoo.data.sources import check_outside
from sslzoo.downstream import labeled
from sslzoo.downstream.classifier import Classifier, GradedAdam, add_low_rank, depth_factors, fit_head
from sslzoo.downstream.comparison import wilson
from sslzoo.errors import ArtifactError, InvalidInputError, SSLZooError, choose
from sslzoo.evaluation import Number, Report, balanced_accuracy, features
from sslzoo.evaluation.features import check_images, image_shape, load_encoder, sized
from sslzoo.evaluation.probes import confusion
from sslzoo.evaluation.report import versions
from sslzoo.files import as_path, is_named
from sslzoo.networks.backbones import widening
from sslzoo.networks.composition import as_functional
from sslzoo.networks.initialization import drawn_weights, give_weights
from sslzoo.progress import line
from sslzoo.publishing.artifact import check_target
from sslzoo.training.folder import save
from sslzoo.training.settings import SETUPS, plain_name
from sslzoo.zoo.index import SCHEME
from sslzoo.zoo.results import is_license, is_name

MODES = {
    "full": "all layers",
    "lora": "low-rank terms of kernels, and the head",
    "probe": "logistic regression on the features",
    "scratch": "the same network from random weights",
}
# Of Adam. That of "full" is the best of 1e-4, 3e-4, 1e-3 and 3e-3 for simclr-cifar10 with 50 labels a class, on train
# images that were not among the labeled ones; of "lora" 1e-3 to 3e-2 differ by a point; "scratch" was not tried.
RATES = {"full": 1e-3, "lora": 1e-3, "scratch": 1e-3}
LEAST_STEPS = 20  # of an epoch: few images are seen several times in one
PATIENCE = 10  # epochs without more held-out images right


@dataclasses.dataclass(frozen=True)
class _Settings:
    """How a classifier is made; the fields are arguments of `finetune`."""

    mode: str
    labels: int | None
    epochs: int
    batch_size: int
    learning_rate: float | None
    depth_decay: float
    rank: int
    held_out: float
    flip: bool
    scratch: bool

    def __post_init__(self):
        choose("mode", self.mode, [mode for mode in MODES if mode != "scratch"])
        checks.count(epochs=self.epochs, batch_size=self.batch_size, rank=self.rank)
        rate = 1 if self.learning_rate is None else self.learning_rate
        checks.positive(depth_decay=self.depth_decay, held_out=self.held_out, learning_rate=rate)
        checks.number(0, 1, depth_decay=self.depth_decay)
        checks.number(0, 0.9, held_out=self.held_out)
        if self.labels is not None:
            checks.count(2, labels=self.labels)

    @property
    def ways(self) -> list[str]:
        """What is trained: the mode, the probe that it begins with, and the network from scratch."""
        return list(dict.fromkeys([self.mode, "probe", *["scratch"] * self.scratch]))

    def rate(self, way: str) -> float:
        return RATES[way] if self.learning_rate is None or way == "scratch" else self.learning_rate


class _Split(NamedTuple):
    """Rows of images that train, and of those held out, which choose; `weights` as `class_weights` gives them."""

    rows: np.ndarray
    labels: np.ndarray
    held_rows: np.ndarray
    held_labels: np.ndarray
    weights: "dict[int, float] | None"


class _Trained(NamedTuple):
    """One way's classifier, the classes it gives test images, how it came about, and the seconds it took."""

    classifier: "Classifier | None"
    predictions: np.ndarray
    note: str
    seconds: float


def finetune(
    encoder,
    dataset,
    *,
    mode: str = "full",
    labels: "int | str | None" = None,
    test_share: float = 0.0,
    out: "str | os.PathLike | None" = None,
    seed: int = 0,
    seeds: int = 1,
    epochs: int = 50,
    batch_size: int = 32,
    learning_rate: float | None = None,
    depth_decay: float | None = None,
    rank: int | None = None,
    held_out: float = 0.2,
    flip: bool | None = None,
    scratch: bool = True,
    image_size: "int | None" = None,
    pretrained: bool = False,
    attribute: "str | int | None" = None,
    data_dir: "str | os.PathLike | None" = None,
    on_error: str = "fail",
    background: str = "white",
    stream: "bool | str" = "auto",
    license: str | None = None,
    overwrite: bool = False,
    progress: bool | None = None,
) -> tuple[keras.Model, Report]:
    """Makes a classifier of an encoder.

        classifier, report = sslzoo.finetune("simclr-cifar10", "photos/", out="runs/photos")
        classifier.predict(images)        # raw images (B, H, W, C), values 0..255 -> probabilities (B, K)
        sslzoo.load("runs/photos")        # the same model

    A dense layer is fitted first, by logistic regression on standardized features; then what `mode` says is trained on
    images that are shifted by up to an eighth of their side, and mirrored where that makes sense. A share of the
    labeled images is held out: they choose the penalty of the regression and the epoch that is kept, and where no
    epoch has more of them right than the regression, that stays. (Their loss would stop the training of few images
    long before their accuracy is at its best.) Test images choose nothing. Where the largest class
    has one and a half times the images of the smallest or more, all classes weigh the same in every loss.

    Args:
        encoder: Keras model of core layers, raw images (B, H, W, C), values 0..255 -> (B, L), which stays as it is; a
            name, folder or hf:// address for `sslzoo.load`; or a backbone for `sslzoo.networks.backbone`, such as
            "keras:MobileNetV3Small".
        dataset: known name; path of an `.npz`; of a folder whose folders (or those of its splits) are classes;
            (images, labels); or ((train_images, train_labels), (test_images, test_labels)), whose labels may be
            names.
        mode: "full", all layers: the first at `depth_decay` of the rate, the last at the whole, in equal ratios
            between; "lora", low-rank terms of dense and convolution kernels, which are added to them in the end; or
            "probe", the dense layer alone.
        labels: int, labeled images of each class to use, drawn at random; None for all. ("folders", as other
            functions take it, says what is so anyway.)
        test_share: of data without test images: the share of each class that becomes them; 0 stands for a fifth.
        out: folder to write the classifier to, as `sslzoo.publishing.write` does, its class names in `classes` of
            results.json.
        seed: int >= 0, of the draws of images, batches and weights. Test images are the same for all.
        seeds: int, repetitions; the model of the first comes back. Intervals are then over them.
        epochs: int, at most, of 20 steps or more; training ends 10 epochs after the best.
        batch_size: int.
        learning_rate: of Adam, None for that of the mode.
        depth_decay: in 0..1, of "full" (0.1).
        rank: int, of the low-rank terms of "lora" (4).
        held_out: share of the labeled images of each class that is held out, at most 0.9.
        flip: whether images are mirrored; None: but for the sets digits, mnist and svhn_cropped, and an encoder of
            the policy xray.
        scratch: whether the same network is trained from scratch, for comparison.
        image_size: int, of a folder's images, where the encoder takes any size; None: the size that they share up to
            256 pixels, or at most 64 (`sslzoo.data.load`'s "auto").
        pretrained: whether a backbone begins with its supervised weights.
        attribute: of labels (N, A), as in `sslzoo.evaluate`.
        data_dir, on_error, background, stream: as in `sslzoo.data.load`; what is made of images that stay in their
            files is the same.
        license: of what is written, as the Hub writes it.
        overwrite: replace a model that lies in `out`.
        progress: whether to show it; None at a terminal only.

    Returns:
        Functional `keras.Model` of core layers, uncompiled; and a `Report` of test images, with accuracy and balanced
        accuracy of the mode, of the probe and from scratch. `accuracy_low` and `accuracy_high` of each are the ends of
        its 95 % interval, binomial (Wilson) of one seed.

    Raises:
        UnknownNameError, MissingDataError, ArtifactError, ...: as `sslzoo.load` and `sslzoo.data.load`.
        InvalidInputError: an argument out of range; no labels, one class, or a class with fewer images than needed; an
            encoder that is no Keras model of core layers, or is quantized or has low-rank terms and is to be trained.
    """
    began = time.perf_counter()
    if isinstance(labels, str):
        choose("labels", labels, ("folders",))
        labels = None
    of_modes = {"depth_decay": (depth_decay, ("full",)), "rank": (rank, ("lora",))}
    for option, (value, modes) in (of_modes | {"learning_rate": (learning_rate, ("full", "lora"))}).items():
        if value is not None and choose("mode", mode, MODES) not in modes:
            raise InvalidInputError(f"{option} is for mode {' or '.join(modes)}. Received: {option}={value}, {mode=}")
    depth_decay, rank = 0.1 if depth_decay is None else depth_decay, 4 if rank is None else rank
    settings = _Settings(
        *(mode, labels, epochs, batch_size, learning_rate, depth_decay, rank, held_out),
        flip=True if flip is None else checks.switch(flip=flip),
        scratch=checks.switch(scratch=scratch),
    )
    checks.switch(pretrained=pretrained, overwrite=overwrite)
    checks.seed(needed=True, seed=seed)
    checks.count(seeds=seeds)
    checks.seed(needed=True, seed=seed + seeds - 1)  # that of the last one
    checks.number(0, 0.9, test_share=test_share)
    out = None if out is None else as_path(out)
    name = None if out is None else _check_out(out, overwrite, license)
    if out is not None and is_named(dataset):
        check_outside(out, dataset, "out")
    is_backbone = _is_backbone(encoder)
    if pretrained and not is_backbone:
        raise InvalidInputError(f"pretrained is for backbones, such as 'keras:ResNet50'. Received: {encoder=}")
    base = None if is_backbone else _checked(load_encoder(encoder))
    if base is not None and settings.ways != ["probe"]:
        _check_kernels(base)
    if base is not None and "scratch" in settings.ways:
        drawn_weights(base)  # refuses what cannot be drawn anew
    images = labeled.read(
        dataset,
        (None, None, None) if base is None else sized(image_shape(base), image_size),
        image_size=image_size,
        test_share=test_share,
        data_dir=data_dir,
        attribute=attribute,
        on_error=on_error,
        background=background,
        stream=stream,
    )
    if base is None:
        base = _from_elsewhere(encoder, images, pretrained, seed)
    elif None in base.input_shape[1:]:  # the classifier is of the size that it is trained at
        base = _of_size(base, images.train_images.shape[1:])
    if dark := check_images(base, images.train_images, "train images"):
        images.remarks.append(dark)
    if flip is None:
        settings = dataclasses.replace(settings, flip=_is_mirrored(images, encoder))
    splits = [_split(images, settings, each) for each in range(seed, seed + seeds)]  # all checked before any is trained
    model, runs = None, []
    for i, split in enumerate(splits):
        run = _run(base, images, split, settings, seed + i, progress)
        model = run[mode].classifier.model if model is None else model
        runs.append({way: each._replace(classifier=None) for way, each in run.items()})  # one network is kept of all
    report = _report(base, encoder, images, splits[0], runs, settings, seed)
    if out is not None:
        try:
            _write(out, name, model, report, images.classes, encoder, settings, license, overwrite, began)
        except (OSError, SSLZooError) as error:  # a full disk, or somebody else was there first
            raise ArtifactError(
                f"The classifier is trained, and could not be written ({error}): {_spare(model, out, name)}. "
                f"Received: out='{out}'"
            ) from error
    return model, report


def _spare(model, out, name):
    """Leaves a model where there is room, beside `out` first, for a temporary folder may go with its machine. Says
    where."""
    for place in (Path(out).absolute().parent, ".", None):
        with contextlib.suppress(OSError):  # `gettempdir` looks for room, too
            path = Path(place or tempfile.gettempdir()).absolute() / f"{name}-{os.getpid()}.keras"
            return f"it is left in '{save(model, path)}'"
    return "neither could a copy anywhere else, and it is lost. Make room and train it again"


# ---------------------------------------------------------------------- what is trained on what


def _check_out(out, overwrite, license):
    """The name of the model that is written there."""
    check_target(Path(os.path.abspath(out)), overwrite)
    name = plain_name(Path(os.path.abspath(out)).name, kept=".")
    if not is_name(name):
        raise InvalidInputError(f"out must end in a name of the model, of a-z and 0-9. Received: out='{out}'")
    if license is not None and not is_license(license):
        raise InvalidInputError(f"license must be as the Hub writes it, such as apache-2.0. Received: {license=}")
    return name


def _is_backbone(encoder):
    named = isinstance(encoder, str) and ":" in encoder and not encoder.startswith(SCHEME)
    return named and not os.path.exists(encoder) and not os.path.splitdrive(encoder)[0]  # C: of Windows


def _of_size(encoder, shape):
    """The same network for images (H, W, C) of one size."""
    images = keras.Input(shape, name=encoder.inputs[0].name)
    sized = keras.models.clone_model(encoder, keras.tree.pack_sequence_as(encoder.input, [images]))
    give_weights(sized, encoder.get_weights())
    return sized


def _checked(encoder):
    """The encoder as a Functional model with one output (B, L)."""
    model = as_functional("encoder", encoder)
    if len(model.outputs) != 1 or len(model.output_shape) != 2:
        raise InvalidInputError(f"encoder must give one row of features per image. Received: {model.output_shape}")
    return model


def _check_kernels(encoder):
    """Raise unless each layer holds the kernel that it computes with, which training and `initialize` change."""
    for layer in encoder._flatten_layers():
        mode, rank = getattr(layer, "quantization_mode", None), getattr(layer, "lora_rank", None)
        if mode or rank:
            raise InvalidInputError(
                "encoder must have plain kernels to train, and none in another precision or with low-rank terms beside "
                "it: take it as it was before quantize() or enable_lora(), or mode='probe' with scratch=False. "
                f"Received: encoder={encoder.name!r}, whose layer {layer.name!r} has "
                + (f"quantization_mode={mode!r}" if mode else f"lora_rank={rank}")
            )


def _from_elsewhere(name, images, pretrained, seed):
    """A backbone behind a layer that brings raw images to 0..1."""
    shape = images.train_images.shape[1:]
    network = networks.backbone(name, shape, "imagenet" if pretrained else None, seed=seed)
    if not pretrained:
        images.remarks.append("The backbone began with random weights: pretrained=True takes its supervised ones.")
    elif how := widening(shape[-1]):
        images.remarks.append(how)
    low, high = data.value_range(images.train_images)
    scaling = keras.layers.Rescaling(1 / (high - low), -low / (high - low), dtype="float32", name="unit_range")
    return networks.compose(keras.Sequential([keras.Input(shape, name="images"), scaling]), network)


def _is_mirrored(images, encoder):
    """Whether a data set's images mean the same when mirrored, as far as it is known."""
    settings = _known(encoder).get("settings") or {}
    if settings.get("policy") == "xray" and not settings.get("flip"):
        return False
    return SETUPS.get(images.name, SETUPS["color images"])["flip"] == "horizontal"


def _split(images, settings, seed):
    labels = images.train_labels
    rows = np.arange(len(labels))
    if settings.labels is not None:
        rows = labeled.draw(labels, settings.labels, images.classes, seed)
    held = labeled.split_off(labels[rows], settings.held_out, seed, images.classes)
    train, kept = rows[~held], rows[held]
    return _Split(train, labels[train], kept, labels[kept], labeled.class_weights(labels[train]))


# ---------------------------------------------------------------------- training


def _run(base, images, split, settings, seed, progress) -> dict[str, _Trained]:
    """Every way of one seed."""
    runs, began = {}, time.perf_counter()
    probe = Classifier(base, len(images.classes))
    learned, held = (streams.some(images.train_images, rows) for rows in (split.rows, split.held_rows))
    rows = [features(probe.features, each) for each in (learned, held)]
    penalty = fit_head(probe.head, rows[0], split.labels, rows[1], split.held_labels, split.weights is not None)
    runs["probe"] = _measured(probe, images, f"{MODES['probe']}, standardized; C = {penalty:g}", began)
    for way in settings.ways:
        if way == "probe":
            continue
        began = time.perf_counter()
        classifier = Classifier(base, len(images.classes), seed)
        if way == "scratch":
            networks.initialize(classifier.features, seed)
        else:
            classifier.training.set_weights(probe.training.get_weights())
        if way == "lora":
            add_low_rank(classifier, settings.rank, seed)
        epoch, last = _fit(classifier, learned, held, split, settings, way, seed, line(f"{way}, epoch", progress))
        if way == "lora":
            merged = Classifier(base, len(images.classes))
            merged.training.set_weights(classifier.weights())
            classifier = merged
        how = f"{MODES[way]}; Adam {settings.rate(way):g}, epoch {epoch} of {last} by accuracy on held-out images"
        if not epoch:
            how = f"{MODES[way]}; no epoch in {last} beat the probe on held-out images, so the probe is kept"
        runs[way] = _measured(classifier, images, how, began)
    return {way: runs[way] for way in settings.ways}


def _measured(classifier, images, note, began):
    predictions = features(classifier.model, images.test_images).argmax(axis=1)
    return _Trained(classifier, predictions, note, time.perf_counter() - began)


def _fit(classifier, images, held_images, split, settings, way, seed, show) -> tuple[int, int]:
    """Trains in place. Returns the epoch whose weights stay, 0 for none, and the last that was trained."""
    shape = images.shape[1:]
    model = keras.Sequential([keras.Input(shape), *_moves(shape, settings.flip, seed), classifier.training])
    first = settings.depth_decay if way == "full" else 1.0
    optimizer = GradedAdam(settings.rate(way), depth_factors(classifier.training, first))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, weighted_metrics=["accuracy"])
    weights = np.ones(len(split.held_labels), "float32")
    if split.weights is not None:
        counts = np.bincount(split.held_labels)  # of a class of few images all but one may be held out, or none but one
        weights = (len(split.held_labels) / (len(counts) * counts))[split.held_labels].astype("float32")
    held = labeled.Weighed(held_images, split.held_labels, weights)
    before = model.evaluate(held, verbose=0, return_dict=True)["accuracy"]
    start = model.get_weights()
    batch_size = min(settings.batch_size, len(images))
    history = model.fit(
        data.Batches(images, split.labels, batch_size, seed=seed, repeat=True),
        steps_per_epoch=max(LEAST_STEPS, len(images) // batch_size),
        epochs=settings.epochs,
        validation_data=held,
        class_weight=split.weights,
        callbacks=[
            keras.callbacks.LambdaCallback(on_epoch_end=_score),
            keras.callbacks.EarlyStopping("val_score", mode="max", patience=PATIENCE, restore_best_weights=True),
            keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: show(epoch + 1, settings.epochs)),
        ],
        shuffle=False,
        verbose=0,
    )
    show(settings.epochs, settings.epochs)
    right = history.history["val_accuracy"]
    if way != "scratch" and max(right) <= before:
        model.set_weights(start)
        return 0, len(right)
    return int(np.flatnonzero(np.equal(right, max(right)))[-1]) + 1, len(right)


def _score(epoch, logs):
    """Of epochs with as many held-out images right the last is best: few images are soon right as often as they get."""
    logs["val_score"] = logs["val_accuracy"] + 1e-7 * epoch


def _moves(shape, flip, seed):
    """Layers that shift images and mirror them while they train: raw images -> raw images."""
    pixels = min(shape[:2]) // 8
    steps = [augment.RandomShift(pixels)] * (pixels > 0) + [augment.HorizontalFlip(0.5)] * bool(flip)
    moved = views.Views(steps, 1, seed=seed, value_range=(0, 1))  # a range that is left as it is
    return [moved, keras.layers.Reshape(shape, dtype="float32")]  # half precision cannot hold pixels of 16 bits


# ---------------------------------------------------------------------- what comes of it


def _report(base, encoder, images, split, runs, settings, seed):
    truth = images.test_labels
    name = str(encoder) if is_named(encoder) else base.name
    used = len(split.labels) + len(split.held_labels)
    counts = {"name": images.name, "train": used, "test": len(truth), "features": base.output_shape[-1]}
    remarks = [*images.remarks, f"{len(split.held_labels):,} of the {used:,} labeled images were held out to choose."]
    if split.weights is not None:
        counted = np.bincount(split.labels)
        remarks.append(
            f"Classes have {counted.min():,} to {counted.max():,} images: each weighs the same in every loss. Look at "
            "the balanced accuracy."
        )
    seeds = list(range(seed, seed + len(runs)))
    report = Report(name, counts | {"classes": len(images.classes), "attribute": None}, {}, {}, seeds, {}, versions())
    report.remarks = remarks
    majority = float(np.mean(truth == np.bincount(split.labels).argmax()))
    present = len(images.classes) + len(np.unique(truth[truth < 0]))
    for way in settings.ways:
        trained = [run[way] for run in runs]
        right = [float(np.mean(each.predictions == truth)) for each in trained]
        balanced = [balanced_accuracy(truth, each.predictions) for each in trained]
        note = trained[0].note + f" (seed {seed})" * (len({each.note for each in trained}) > 1)
        report.numbers[way] = _numbers(right, len(truth), balanced, note, majority, present)
        report.protocols[way] = _plain(settings, way)
        report.seconds[way] = round(float(np.mean([each.seconds for each in trained])), 2)
        counts = confusion(truth, trained[0].predictions, len(images.classes))
        report.confusion |= {} if counts is None else {way: counts}
    return report


def _numbers(right, count, balanced, note, majority, classes):
    low, high = interval(right, count)
    kind = "binomial" if len(right) == 1 else f"over {len(right)} seeds"
    note = f"{note}; 95 % {kind}: {100 * low:.1f} to {100 * high:.1f}"
    error = float(np.std(right, ddof=1) / len(right) ** 0.5) if len(right) > 1 else None
    return {
        "accuracy": Number(float(np.mean(right)), "accuracy", note, majority, error),
        "balanced_accuracy": Number(float(np.mean(balanced)), "balanced accuracy", "mean over classes", 1 / classes),
        "accuracy_low": Number(low, "lower end", "of the 95 % interval of accuracy", shown=False),
        "accuracy_high": Number(high, "upper end", "of the 95 % interval of accuracy", shown=False),
    }


def interval(shares: list[float], count: int) -> tuple[float, float]:
    """Ends of the 95 % interval of an accuracy.

    Args:
        shares: of `count` images that are right, one for each seed.
        count: int.

    Returns:
        Of one seed that of a binomial share (Wilson, 1927); of several that of their mean (Student's t), within 0..1.
    """
    from scipy import stats

    if len(shares) == 1:
        return wilson(round(shares[0] * count), count)
    half = stats.t.ppf(0.975, len(shares) - 1) * np.std(shares, ddof=1) / len(shares) ** 0.5
    return float(max(0.0, np.mean(shares) - half)), float(min(1.0, np.mean(shares) + half))


def _plain(settings, way):
    """The settings that made one way, for reports."""
    plain = dataclasses.asdict(settings) | {"mode": way}
    if way == "probe":
        return {key: plain[key] for key in ("mode", "labels", "held_out")}
    if way != "full":
        del plain["depth_decay"]
    if way != "lora":
        del plain["rank"]
    return plain | {"learning_rate": settings.rate(way), "shift": "1/8"}


def _write(out, name, model, report, classes, encoder, settings, license, overwrite, began):
    base = _known(encoder)
    shown = base.get("name", report.encoder)
    description = f"Fine-tuned from {shown}: {MODES[settings.mode]}."
    remarks = [each for remark in report.remarks if (each := getattr(remark, "public", remark))]
    publishing.write(
        out,
        model,
        overwrite=overwrite,
        name=name,
        classes=classes,
        dataset=report.data["name"],
        description=description,
        settings={"encoder": shown} | _plain(settings, settings.mode),
        metrics=report.metrics(),
        seeds=report.seeds,
        versions=report.versions,
        wall_seconds=round(time.perf_counter() - began, 1),
        license=license,
        papers=base.get("papers"),
        remarks=remarks or None,
        evaluation=report.to_dict() | {"encoder": shown, "remarks": remarks},
    )


def _known(encoder):
    """What is known of an encoder that was named."""
    if not is_named(encoder) or _is_backbone(encoder):
        return {}
    try:
        return zoo.info(encoder)
    except (SSLZooError, OSError):  # a .keras file
        return {"name": Path(encoder).stem}
