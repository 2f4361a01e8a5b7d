"""`evaluate`: an encoder and a data set in, a `Report` out: loads all, checks all, runs all."""

import os
import textwrap
import time
from collections.abc import Callable, Sequence

import numpy as np

from sslzoo import checks
from sslzoo.data.catalogue import KNOWN
from sslzoo.data.labels import check_labels
from sslzoo.data.sources import check_outside
from sslzoo.errors import HubError, InvalidInputError, MissingDataError, choose, printable
from sslzoo.evaluation import datasets, drawing
from sslzoo.evaluation.features import (
    check_features,
    count_constant,
    features,
    image_shape,
    load_encoder,
    sized,
    weights_sha256,
)
from sslzoo.evaluation.protocols import REGISTRY, DoesNotApply
from sslzoo.evaluation.report import Report, versions
from sslzoo.evaluation.subject import Subject, belongings
from sslzoo.files import is_named
from sslzoo.methods.pretrainer import Pretrainer
from sslzoo.progress import line

ALL_PROTOCOLS = tuple(name for name, protocol in REGISTRY.items() if "method" not in protocol.needs)
ON_FEATURES = tuple(name for name in ALL_PROTOCOLS if {"features", "labels"} == set(REGISTRY[name].needs))
PROTOCOLS = tuple(name for name in ON_FEATURES if name != "few_shot")  # which adds nothing that tables compare
LEAST_SPREAD = 0.01  # of features, below which probes by Adam say little of them
MOST_OFFSET = 100.0  # times that spread, between features' mean and 0, beyond which they do not either
# Why a protocol may be left out where all that apply were asked for: nothing to measure, or something out of reach.
LEFT_OUT = (DoesNotApply, MissingDataError, HubError)


def evaluate(
    encoder,
    dataset,
    protocols: "str | Sequence[str]" = PROTOCOLS,
    data_dir: "str | os.PathLike | None" = None,
    *,
    test=None,
    decoder=None,
    posterior=None,
    projection=None,
    method: Pretrainer | None = None,
    pictures: "str | os.PathLike | None" = None,
    keep: "Callable[[Report], None] | None" = None,
    image_size: int | None = None,
    labels: str | None = None,
    test_share: float = 0.0,
    on_error: str = "fail",
    background: str = "white",
    attribute: "str | int | None" = None,
    batch_size: int = 500,
    seed: int = 0,
    max_train: int | None = None,
    name: str | None = None,
    strict: bool = True,
    progress: "bool | Callable[[str, int, int], None] | None" = None,
    **options,
) -> Report:
    """Measure what an encoder's features say of the images of a data set.

    The encoder runs once over train and test images, in inference mode; protocols of classes work on those features. A
    hash of its weights and statistics before and after proves that it stayed frozen.

        linear, mlp, knn, gmm  which classes probes, neighbors and a mixture find in the features
        few_shot               which classes a handful of labels finds, ten draws of them
        style                  how well features predict how an image was changed; no labels
        reconstruction         squared error of test images through the decoder, or a fitted one; no labels
        generation             Fréchet distance of test images and images drawn from a Gaussian of each class
        likelihood             importance-weighted, of a variational autoencoder; no labels
        outliers               AUROC of test images against those of other sets; no labels
        attributes             probes of twenty attributes of CelebA
        clusters, bank, views  of a trained method: the clusters of an energy model, the nearest image in a memory bank,
                               and a probe on features of views

    Args:
        encoder: Keras model, raw images (B, H, W, C) with values 0..255 -> (B, L); a `Pretrainer`; a `torch.nn.Module`,
            which gets what `sslzoo.evaluation.TorchEncoder` says; or a name or folder for `sslzoo.load`.
        dataset: known name, path of an `.npz` or folder, or `((train_images, train_labels), (test_images,
            test_labels))`: images (N, H, W, C) with values 0..255, labels int (N,), or (N, A) attributes of 0 and 1, or
            None. A remark counts test images of classes without train images.
        protocols: some of the above; PROTOCOLS are linear, mlp, knn and gmm. "all": all that apply and whose parts,
            sets and extractor can be had; a remark says why another is left out.
        data_dir: folder of prepared TFDS data sets, for known names.
        test: another test set: a name or path whose test split is taken, or `(images, labels)`. `dataset` may then be
            just `(train_images, train_labels)`. Images of a name or path that the encoder does not take as they are,
            are made to fit (`sslzoo.data.fit_images`), which the report says: that is how transfer is measured.
        decoder, posterior, projection: Keras models, latents (B, L) -> images in 0..1; raw images -> [mean, log_var];
            raw images -> what the loss sees. By default those of an encoder given by name, folder or method.
        method: the trained method, if the encoder is a part of one.
        pictures: folder for PNG files: confusion matrix, neighbors, map of the features, reconstructions, classes.
            What else is in it stays.
        keep: called with the report when all is measured and before pictures are drawn: what it saves is not lost to a
            drawing that fails.
        image_size: int, pixels of a side, for a folder and an encoder that takes images of any size.
        labels, test_share, on_error, background: of a folder, as in `sslzoo.data.load`. Where the folder has no splits
            and the first two are not both given, the folders in it are classes, a fifth of each (or `test_share`) is
            held out, and a remark says so.
        attribute: of labels (N, A): name (CelebA) or column of the attribute that is the class, or a task of
            `sslzoo.data.celeba_task`: "hair", "gender". None: the labels are classes; of CelebA, "Male".
        batch_size: int, images per call of the encoder.
        seed: int, of probes, mixtures, and of the rows chosen by `max_train`.
        max_train: int, use that many train images, chosen at random; None for all.
        name: str, what the report calls the data; None for the name of `dataset`.
        strict: raise where a protocol that was named does not apply, before any is measured, or fails; False leaves it
            out, and a remark says why.
        progress: True or False; None shows it at a terminal only; or a callable (what, done, in all).
        **options: of the protocols, as their classes in `sslzoo.evaluation.protocols` declare them: `epochs` and
            `hidden` of probes, `gmm_restarts`, `extractor`, `outside`, `style_images`, `decoder_epochs` ...

    Returns:
        `Report`.

    Raises:
        UnknownNameError: a protocol, option, data set or attribute is not known.
        InvalidInputError: images, labels or options do not fit, or are for a protocol that is not asked for; features
            are not finite; or the encoder changed.
        MissingDataError: a data set, or what a protocol that was named takes, is not there.
        HubError: likewise, on the Hub.
    """
    checks.count(batch_size=batch_size, max_train=1 if max_train is None else max_train)
    checks.seed(needed=True, seed=seed)
    method = encoder if method is None and isinstance(encoder, Pretrainer) else method
    everything = isinstance(protocols, str) and protocols == "all"
    if everything:
        protocols = (*ALL_PROTOCOLS, *(() if method is None else method.protocols()))
    chosen, refuse = _choose(protocols, options, REGISTRY), strict and not everything
    if pictures is not None:
        drawing.check_folder(pictures, "pictures")
        if is_named(dataset):
            check_outside(pictures, dataset, "pictures")
    parts = {"decoder": decoder, "posterior": posterior, "projection": projection}
    parts = {part: model for part, model in parts.items() if model is not None}
    wanted = dict.fromkeys(part for protocol in chosen for part in protocol.parts if part not in parts)
    own_parts, missing, likelihood = belongings(encoder if method is None else method, wanted)
    encoder = load_encoder(encoder)
    reading = {"labels": labels, "test_share": test_share, "on_error": on_error, "background": background}
    shape = sized(image_shape(encoder), image_size)
    if image_size is not None and not is_named(dataset):
        raise InvalidInputError(f"`image_size` is for a folder; arrays are taken as they are. Received: {image_size=}")
    called, train, held_out, remarks = datasets.read(dataset, test, data_dir, shape, **reading)
    subject = Subject(encoder, name or called, *train, *held_out, data_dir=data_dir, method=method, seed=seed)
    subject.source = dataset if is_named(dataset) else name if name in KNOWN else None
    subject.in_no_order = subject.source in KNOWN and (test is None or (is_named(test) and test in KNOWN))
    subject.parts, subject.missing, subject.likelihood = own_parts | parts, missing, likelihood
    subject.batch_size, subject.progress = batch_size, _progress(progress)
    subject.take_classes(attribute)
    remarks += subject.check_images() + subject.take_some(max_train)
    chosen, left_out = _applying(subject, chosen, refuse)
    if not encoder.built:
        features(encoder, subject.train_images[:1])
    report, images = _measure(subject, chosen, refuse, remarks + left_out)
    if keep is not None:
        keep(report)
    if pictures is not None:
        drawing.draw(subject, report, images, pictures)
    return report


def evaluate_features(
    train: tuple[np.ndarray, np.ndarray],
    test: tuple[np.ndarray, np.ndarray],
    protocols: "str | Sequence[str]" = PROTOCOLS,
    *,
    seed: int = 0,
    name: str = "features",
    progress: "bool | Callable[[str, int, int], None] | None" = None,
    **options,
) -> Report:
    """`evaluate` on features that were computed elsewhere.

    Args:
        train: float array (N, L), int array (N,).
        test: float array (M, L), int array (M,).
        protocols, seed, progress, **options: as in `evaluate`.
        name: str, what the report calls the data.

    Returns:
        `Report` without a proof of a frozen encoder.

    Raises:
        UnknownNameError: a protocol or option is not known.
        InvalidInputError: features, labels or options do not fit, or features are not finite.
    """
    checks.seed(needed=True, seed=seed)
    everything = isinstance(protocols, str) and protocols == "all"
    chosen = _choose(tuple(ON_FEATURES) if everything else protocols, options, ON_FEATURES)
    splits = []
    for split, pair in (("train", train), ("test", test)):
        if not checks.is_pair(pair):
            raise InvalidInputError(f"{split} must be (features, labels). Received: {split} of type {type(pair)}")
        rows = check_features(pair[0], f"{split} features", np.float32)
        splits += [rows, check_labels(pair[1], len(rows), f"{split} labels")]
    if splits[0].shape[1] != splits[2].shape[1]:
        raise InvalidInputError(
            "Train and test must have the same number of features. "
            f"Received: train features of shape {splits[0].shape}, test features of shape {splits[2].shape}"
        )
    subject = Subject(None, name, *splits, seed=seed, progress=_progress(progress))
    _applying(subject, chosen, refuse=True)
    return _measure(subject, chosen, True, [])[0]


# ---------------------------------------------------------------------- which protocols


def _choose(protocols, options, known):
    """Instances of the protocols that were asked for, each with its options."""
    names = (protocols,) if isinstance(protocols, str) else protocols
    names = dict.fromkeys(choose("protocol", name, known) for name in names)
    if not names:
        raise InvalidInputError(f"Expected at least one protocol of {', '.join(known)}. Received: protocols=()")
    takers = {}
    for name in known:
        for option in REGISTRY[name].options():
            takers.setdefault(option, []).append(name)
    for option, value in options.items():
        takes = takers[choose("option", option, takers)]
        if not names.keys() & set(takes):
            raise InvalidInputError(
                f"{option} is for the protocol{'s' * (len(takes) > 1)} {', '.join(takes)}, not for {', '.join(names)}. "
                f"Received: {option}={list(value) if isinstance(value, dict) else value!r}"
            )
    return [REGISTRY[name](**{o: options[o] for o in REGISTRY[name].options() if o in options}) for name in names]


def _applying(subject, protocols, refuse):
    """Those of the protocols that apply, and remarks on the others; raises instead where it is to `refuse`.

    A protocol whose data or model were named is refused in any case: they were meant.
    """
    applying, left_out = [], {}
    for protocol in protocols:
        try:
            subject.check_needs(protocol)
            protocol.check(subject)
            applying.append(protocol)
        except LEFT_OUT as error:
            if refuse or protocol.named or (not subject.labeled and all("labels" in each.needs for each in protocols)):
                raise
            left_out.setdefault(_reason(error), []).append(protocol.title)
    return applying, [f"Not measured, {', '.join(titles)}: {reason}." for reason, titles in left_out.items()]


def _reason(error):
    return getattr(error, "reason", str(error)).rstrip(".")


# ---------------------------------------------------------------------- measuring


def _measure(subject, protocols, refuse, remarks):
    """The report on a subject, and images for pictures by name."""
    encoder = subject.encoder
    before = _hash(encoder)
    if any("features" in protocol.needs for protocol in protocols):
        width = subject.test_features.shape[1]
        remarks += _remarks_on_features(subject.train_features) + _remarks_on_classes(subject)
        if any(protocol.name in ("linear", "mlp") for protocol in protocols):
            remarks += _remarks_on_scale(subject.train_features)
        _check_frozen(encoder, before)
    else:
        width = features(encoder, subject.train_images[:1]).shape[1]
    classes = subject.num_classes if subject.labeled else None
    data = {"name": subject.dataset, "train": len(subject.train_images), "test": len(subject.test_images)}
    data |= {"features": width, "classes": classes, "attribute": subject.attribute}
    name = "features" if encoder is None else encoder.name
    report, images = Report(name, data, {}, {}, [subject.seed], {}, versions(), remarks=remarks), {}
    for protocol in protocols:
        began = time.perf_counter()
        try:
            result = protocol.run(subject)
        except DoesNotApply as error:
            if refuse:
                raise
            report.remarks.append(f"Not measured, {protocol.title}: {_reason(error)}.")
            continue
        except Exception as error:  # of memory, of a backend: what was measured before must not be lost to it
            if refuse:
                raise
            told = textwrap.shorten(printable(f"{type(error).__name__}: {error}"), 500, placeholder=" ...")
            report.remarks.append(f"Not measured, {protocol.title}: {told.rstrip('.')}.")
            continue
        report.numbers[protocol.name] = result.numbers
        if "method" not in protocol.needs:  # what a card's command measures again
            report.protocols[protocol.name] = result.settings
        report.seconds[protocol.name] = round(time.perf_counter() - began, 2)
        report.remarks += result.remarks
        images |= result.images
        if result.confusion is not None:
            report.confusion[protocol.name] = result.confusion
        if result.predictions is not None:
            report.predictions[protocol.name] = subject.classes[result.predictions].tolist()
    if encoder is not None:
        report.seconds = {"features": round(subject.seconds, 2), **report.seconds}
        report.frozen = [{"before": before, "after": _check_frozen(encoder, before)}]
    return report, images


def _hash(encoder):
    return None if encoder is None else weights_sha256(encoder)


def _check_frozen(encoder, before):
    after = _hash(encoder)
    if after != before:
        raise InvalidInputError(
            "The encoder must stay frozen while it is evaluated, but its weights or statistics changed: a layer writes "
            "to them even with training=False. "
            f"Received: encoder={encoder.name!r}, sha256 {before} before, {after} after"
        )
    return after


# ---------------------------------------------------------------------- remarks


def _remarks_on_classes(subject):
    unknown = subject.test_labels[~np.isin(subject.test_labels, subject.train_labels)]
    if not unknown.size:
        return []
    images = f"{unknown.size:,} of {len(subject.test_labels):,} test images are of classes without train images"
    return [f"{images} ({checks.few(np.unique(unknown))}): probes and neighbors can only miss them."]


def _remarks_on_features(rows):
    constant, width = count_constant(rows), rows.shape[1]
    if not constant:
        return []
    if constant == width:
        return ["The features collapsed: they are the same for every train image, so the scores are those of guessing."]
    return [f"{constant} of {width} features are constant over the train images."]


def _remarks_on_scale(rows):
    """Probes by Adam take features as they are, and each step moves a weight by about their rate, however small or far
    from 0 these are."""
    spread = float(np.sqrt(rows.var(axis=0, dtype="float64").mean()))
    offset = float(np.abs(rows.mean(axis=0, dtype="float64")).max())
    if 0 < spread < LEAST_SPREAD:
        what, cure = f"spread by {spread:.2g} on average", "Multiply the features by one number"
    elif 0 < MOST_OFFSET * spread < offset:
        what = f"lie up to {offset:.2g} from 0, and spread by {spread:.2g} on average"
        cure = "Take the mean of the train features from both"
    else:
        return []
    return [
        f"Features {what}: linear and MLP probes by Adam, made for features near 1, may have hardly moved from "
        f"guessing. {cure}, and compare."
    ]


def _progress(progress):
    """A function that makes, for one piece of work, the callable (done, in all) which shows its progress."""
    if callable(progress):
        return lambda what: lambda done, total: progress(what, done, total)
    return lambda what: line(what, progress)
