"""`evaluate`: an encoder and a labelled data set in, a `Report` out."""

import dataclasses
import os
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from sslzoo import checks
from sslzoo.data import CELEBA_ATTRIBUTES, celeba_task
from sslzoo.data.catalogue import KNOWN
from sslzoo.errors import InvalidInputError, choose
from sslzoo.evaluation import clustering, image_protocols, neighbors, probes, style
from sslzoo.evaluation.features import TorchEncoder, check_finite, check_images, features, load_encoder, weights_sha256
from sslzoo.evaluation.report import NAMES, Number, Report, versions
from sslzoo.progress import line

PROTOCOLS = ("linear", "mlp", "knn", "gmm")  # what features tell about classes
ALL_PROTOCOLS = (*PROTOCOLS, *image_protocols.PROTOCOLS)
LABELLED = (*PROTOCOLS, "generation", "attributes")

CELEBA_TASKS = ("gender", "hair")
EUCLIDEAN_KS = range(1, 16)  # SimVAE papers, A.7.2
COSINE_K, WEIGHTED_K, TEMPERATURE = 10, 200, 0.1
MINIBATCH = 64
# How much the protocols beyond the classes take: images, samples, epochs. `evaluate(budget=...)` changes some.
BUDGET = {
    "style_images": (style.TRAIN, style.TEST),
    "reconstruction_images": 10_000,
    "frechet_images": 10_000,
    "likelihood_images": 500,
    "likelihood_samples": 64,
    "outlier_images": 2000,
    "decoder_epochs": 10,
}


def evaluate(
    encoder,
    dataset,
    protocols: "str | Sequence[str]" = PROTOCOLS,
    data_dir: "str | os.PathLike | None" = None,
    *,
    test=None,
    decoder=None,
    posterior=None,
    outside=None,
    extractor="inception",
    budget: "Mapping | None" = None,
    pictures: "str | os.PathLike | None" = None,
    keep: "Callable[[Report], None] | None" = None,
    image_size: int | None = None,
    labels: str | None = None,
    test_share: float = 0.0,
    on_error: str = "fail",
    attribute: "str | int" = "Male",
    batch_size: int = 500,
    seed: int = 0,
    epochs: int = 200,
    hidden: int | None = None,
    gmm_restarts: int = 20,
    max_train: int | None = None,
    name: str | None = None,
    strict: bool = True,
    progress: "bool | Callable[[str, int, int], None] | None" = None,
) -> Report:
    """Measure how much an encoder's features tell about the classes of a data set.

    The encoder runs once over train and test images, in inference mode; all protocols work on those features. A hash of
    its weights and statistics before and after proves that it stayed frozen.

        linear   one dense layer, Adam 3e-4, 200 epochs, batches of 128; after the last epoch, and the best one on test
        mlp      the same with one hidden ReLU layer
        knn      k = 10 cosine; k = 200 cosine, votes weighted exp(s / 0.1); Euclidean k = 1..15 and the best of them
        gmm      Gaussian mixture with full covariances: Hungarian accuracy, NMI, ARI, over the whole test set; and the
                 same averaged over batches of 64, as the papers' tables appear to be

    Without labels, or with what belongs to the encoder:

        style           from the features of a changed image: whether it is upside down (accuracy), where it was cropped
                        and how large (R2), and in colour its turn of hue and its brightness (R2); `evaluation.style`
        reconstruction  squared error per pixel of test images, in 0..1, through the decoder; an encoder without one
                        gets one fitted to its frozen features ("adhoc_mse")
        generation      Fréchet distance of test images and of images decoded from a full-covariance Gaussian of each
                        class: `fid` by Keras' InceptionV3, `frechet_<encoder>` by another extractor
        likelihood      importance-weighted negative log-likelihood, nats an image; takes a posterior and a decoder
        outliers        AUROC of test images against those of other sets: by neighbours among the features, and by the
                        slope of the density that the head stands for, or the features of an encoder without a head
        attributes      labels (N, A): MLP probes of twenty attributes of CelebA, mean accuracy and balanced accuracy

    Args:
        encoder: Keras model, raw images (B, H, W, C) with values 0..255 -> (B, L); a `Pretrainer`; a `torch.nn.Module`,
            which gets what `sslzoo.evaluation.TorchEncoder` says; or a name or folder for `sslzoo.load`.
        dataset: known name, path of an `.npz`, or `((train_images, train_labels), (test_images, test_labels))`: images
            (N, H, W, C) with values 0..255, labels int (N,), or (N, A) attributes of 0 and 1, or None for style,
            reconstruction, likelihood and outliers. A remark counts test images of classes without train images.
        protocols: some of the above; by default "linear", "mlp", "knn", "gmm". "all": all that apply and whose parts,
            sets and extractor can be had; a remark says why another is left out.
        data_dir: folder of prepared TFDS data sets, for known names.
        test: another test set: a name or path whose test split is taken, or `(images, labels)`. `dataset` may then be
            just `(train_images, train_labels)`.
            Images of a name or path that the encoder does not take as they are, are cropped, resized and recoloured to
            fit (`sslzoo.data.fit_images`), which the report says: that is how transfer is measured.
        image_size: int, pixels of a side, for a folder and an encoder that takes images of any size.
        labels, test_share, on_error: of a folder, as in `sslzoo.data.load`: labels="folders" takes the folders in it
            for classes, of which `test_share` is held out; "skip" leaves out images that cannot be read.
        decoder: Keras model (B, L) -> images in 0..1; by default the one that belongs to an encoder given by name,
            folder or method.
        posterior: Keras model, raw images -> [mean, log_var]; likewise.
        outside: other sets for "outliers": names or paths, or name -> images; by default those of a fixed list that are
            in `data_dir`.
        extractor: of the Fréchet distance: "inception", or another encoder than the one that is measured: a Keras
            model, name or folder. Where InceptionV3 cannot be downloaded, an encoder of the zoo takes its place for
            digits, MNIST, FashionMNIST and CIFAR-10, under its own name.
        budget: some of `evaluation.protocols.BUDGET` to change: images, samples and epochs of these protocols.
        pictures: folder for PNG files: confusion matrix, neighbours, map of the features, reconstructions, classes.
            What else is in it stays.
        keep: called with the report when all is measured and before pictures are drawn: what it saves is not lost to a
            drawing that fails.
        attribute: name (CelebA) or column of the attribute to predict, or a task of `sslzoo.data.celeba_task`: "hair",
            "gender". Used for labels (N, A) only.
        batch_size: int, images per call of the encoder.
        seed: int, of probes, mixtures, and of the rows chosen by `max_train`.
        epochs: int, of the probes.
        hidden: int, width of the MLP probe's hidden layer; None for L, the number of features.
        gmm_restarts: int. The papers' text has 200, their code 20.
        max_train: int, use that many train images, chosen at random; None for all.
        name: str, what the report calls the data; None for the name of `dataset`.
        strict: raise where a protocol that was named does not apply, before any is measured; False leaves it out, and a
            remark says why.
        progress: True or False; None shows it at a terminal only; or a callable (what, done, in all).

    Returns:
        `Report`.

    Raises:
        UnknownNameError: a protocol, data set or attribute is not known.
        InvalidInputError: images, labels or settings do not fit, or are for a protocol that is not asked for; features
            are not finite; or the encoder changed.
        MissingDataError: a data set, or what a protocol that was named takes, is not there.
        HubError: likewise, on the Hub.
    """
    checks.count(batch_size=batch_size)
    every = isinstance(protocols, str) and protocols == "all"
    settings = _check_settings(
        ALL_PROTOCOLS if every else protocols, seed, epochs, hidden, gmm_restarts, max_train, ALL_PROTOCOLS
    )
    chosen_protocols, refuse = settings["protocols"], strict and not every
    budget = _check_budget(budget)
    _check_asked(chosen_protocols, extractor=extractor, outside=outside)
    if pictures is not None:
        image_protocols.check_folder(pictures, "pictures")
    given = {"decoder": decoder, "posterior": posterior}
    wanted = [part for part in _parts_for(chosen_protocols) if given.get(part) is None]
    found, missing = image_protocols.belongings(encoder, wanted) if wanted else ({}, {})
    encoder = load_encoder(encoder)
    reading = {"labels": labels, "test_share": test_share, "on_error": on_error, "seed": seed}
    read, train, held_out, remarks = _load(dataset, test, data_dir, _image_shape(encoder, image_size), reading)
    name = name or read
    (train_images, train_labels), (test_images, test_labels) = train, held_out
    chosen_protocols, unlabelled = _with_labels(chosen_protocols, train_labels, test_labels, refuse)
    if train_labels is None or test_labels is None:
        train_labels = test_labels = train_attributes = test_attributes = chosen = None
    else:
        train_images, train_labels, train_attributes, chosen = _labelled(train_images, train_labels, attribute, "train")
        test_images, test_labels, test_attributes, _ = _labelled(test_images, test_labels, attribute, "test")
    _check_classes(train_labels, test_labels, chosen_protocols)
    check_images(encoder, train_images, "train images")
    check_images(encoder, test_images, "test images")
    remarks += _remarks_on_images(train_images) + ([encoder.layout] if isinstance(encoder, TorchEncoder) else [])

    if max_train is not None and max_train < len(train_images):
        rows = np.sort(np.random.default_rng(seed).permutation(len(train_images))[:max_train])
        remarks.append(f"{max_train:,} of {len(train_images):,} train images were used, chosen at random.")
        train_images = train_images[rows]
        train_labels = None if train_labels is None else train_labels[rows]
        train_attributes = None if train_attributes is None else train_attributes[rows]
        _check_classes(train_labels, test_labels, chosen_protocols)

    report_progress = _progress(progress)
    subject = image_protocols.Subject(
        encoder=encoder,
        decoder=decoder or found.get("decoder"),
        posterior=posterior or found.get("posterior"),
        head=found.get("projection"),
        model=found.get("model", {}),
        dataset=name,
        data_dir=data_dir,
        train_images=train_images,
        train_labels=train_labels,
        test_images=test_images,
        test_labels=test_labels,
        attributes=None if train_attributes is None else (train_attributes, test_attributes),
        settings={**settings, **budget, "batch_size": batch_size, "extractor": extractor},
        outside=outside,
        missing=missing,
        progress=report_progress("features"),
    )
    if not encoder.built:
        features(encoder, train_images[:1])
    before = weights_sha256(encoder)
    on_features = [one for one in chosen_protocols if one in PROTOCOLS]
    on_images, left_out = image_protocols.applying(
        subject, [one for one in chosen_protocols if one not in PROTOCOLS], refuse
    )
    if on_features:
        rows = subject.train_features, subject.test_features
        _check_frozen(encoder, before)
        splits = (rows[0], train_labels), (rows[1], test_labels)
        report = _on_features(*splits, settings | {"protocols": on_features}, name, report_progress)
    else:
        classes = None if train_labels is None else len(np.union1d(train_labels, test_labels))
        width = features(encoder, train_images[:1]).shape[1]
        report = _empty(name, len(train_images), len(test_images), width, classes, settings["seed"])
    if chosen in CELEBA_TASKS:  # whose classes are of very different size
        for probe in {"linear", "mlp"} & set(report.numbers):
            numbers = report.numbers[probe]
            numbers["balanced_accuracy"] = dataclasses.replace(numbers["balanced_accuracy"], shown=True)
    report.encoder = encoder.name
    report.data["attribute"] = chosen
    report.remarks = [*remarks, *report.remarks, *unlabelled, *left_out]
    for protocol in on_images:
        began = time.perf_counter()
        try:
            numbers, described, more = image_protocols.RUN[protocol](subject, report_progress(NAMES[protocol]))
        except image_protocols.DoesNotApply as error:
            if refuse:
                raise
            report.remarks.append(image_protocols.not_measured(protocol, error))
            continue
        report.numbers[protocol], report.protocols[protocol] = numbers, described
        report.remarks += more
        report.seconds[protocol] = round(time.perf_counter() - began, 2)
    report.seconds = {"features": round(subject.seconds, 2), **report.seconds}
    report.frozen = [{"before": before, "after": _check_frozen(encoder, before)}]
    if keep is not None:
        keep(report)
    if pictures is not None:
        image_protocols.draw(subject, report, pictures)
    return report


def evaluate_features(
    train: tuple[np.ndarray, np.ndarray],
    test: tuple[np.ndarray, np.ndarray],
    protocols: Sequence[str] = PROTOCOLS,
    *,
    seed: int = 0,
    epochs: int = 200,
    hidden: int | None = None,
    gmm_restarts: int = 20,
    name: str = "features",
    progress: "bool | Callable[[str, int, int], None] | None" = None,
) -> Report:
    """`evaluate` on features that are there already.

    Args:
        train: float array (N, L), int array (N,).
        test: float array (M, L), int array (M,).
        protocols, seed, epochs, hidden, gmm_restarts, progress: as in `evaluate`.
        name: str, what the report calls the data.

    Returns:
        `Report` without a proof of a frozen encoder.

    Raises:
        UnknownNameError: a protocol is not known.
        InvalidInputError: features, labels or settings do not fit, or features are not finite.
    """
    settings = _check_settings(protocols, seed, epochs, hidden, gmm_restarts, None, PROTOCOLS)
    return _on_features(train, test, settings, name, _progress(progress))


def _on_features(train, test, settings, name, report_progress):
    train, test = (_check_features(*split, which) for split, which in ((train, "train"), (test, "test")))
    if train[0].shape[1] != test[0].shape[1]:
        raise InvalidInputError(
            "Train and test must have the same number of features. "
            f"Received: train features of shape {train[0].shape}, test features of shape {test[0].shape}"
        )
    classes = _check_classes(train[1], test[1], settings["protocols"])
    data = _Data(train[0], np.searchsorted(classes, train[1]), test[0], np.searchsorted(classes, test[1]), len(classes))
    report = _empty(name, len(data.train), len(data.test), data.train.shape[1], len(classes), settings["seed"])
    report.remarks = _remarks_on_features(data) + _remarks_on_classes(train[1], test[1])
    for protocol in settings["protocols"]:
        began = time.perf_counter()
        numbers, described, remarks = _RUN[protocol](data, settings, report_progress(NAMES[protocol]))
        report.numbers[protocol], report.protocols[protocol] = numbers, described
        report.remarks += remarks
        report.seconds[protocol] = round(time.perf_counter() - began, 2)
    report.confusion = data.confusion
    return report


def _empty(name, train, test, width, classes, seed):
    """A report without numbers."""
    data = {"name": name, "train": train, "test": test, "features": width, "classes": classes, "attribute": None}
    return Report("features", data, numbers={}, protocols={}, seeds=[seed], seconds={}, versions=versions())


# ---------------------------------------------------------------------- the protocols


class _Data:
    """Features and labels 0..classes - 1 of both splits, and what guessing scores on them."""

    def __init__(self, train, train_labels, test, test_labels, classes):
        self.train, self.train_labels, self.test, self.test_labels = train, train_labels, test, test_labels
        self.classes = classes
        self.confusion = {}
        commonest = np.bincount(train_labels, minlength=classes).argmax()
        self.majority = float(np.mean(test_labels == commonest))


def _run_probe(data, settings, progress, hidden=None):
    result = probes.train_probe(
        data.train,
        data.train_labels,
        data.test,
        data.test_labels,
        data.classes,
        hidden=hidden,
        epochs=settings["epochs"],
        seed=settings["seed"],
        progress=progress,
    )
    last, best = float(result.accuracies[-1]), int(result.accuracies.argmax())
    counts = np.zeros((data.classes, data.classes), np.int64)
    np.add.at(counts, (data.test_labels, result.predictions), 1)
    data.confusion["linear" if hidden is None else "mlp"] = counts.tolist()
    numbers = {
        "accuracy": Number(
            last, "accuracy", f"Adam 3e-4, batches of 128, last of {settings['epochs']} epochs", data.majority
        ),
        "best_accuracy": Number(
            float(result.accuracies[best]),
            "best accuracy",
            f"best epoch on test, as in the SimVAE papers: {best + 1}",
            data.majority,
        ),
        "balanced_accuracy": Number(
            probes.balanced_accuracy(data.test_labels, result.predictions),
            "balanced accuracy",
            "mean over classes, after the last epoch",
            1 / data.classes,
            shown=data.classes == 2,
        ),
    }
    described = {
        "layers": [
            data.train.shape[1],
            *([] if hidden is None else [hidden]),
            1 if data.classes == 2 else data.classes,
        ],
        "activation": None if hidden is None else "relu",
        "loss": "binary cross-entropy" if data.classes == 2 else "cross-entropy",
        "optimizer": "Adam",
        "learning_rate": 3e-4,
        "epochs": settings["epochs"],
        "batch_size": 128,
        "features": "as they are",
    }
    return numbers, described, []


def _run_mlp(data, settings, progress):
    return _run_probe(data, settings, progress, hidden=settings["hidden"] or data.train.shape[1])


def _run_knn(data, settings, progress):
    remarks, rows = [], len(data.train)
    weighted_k, k, euclidean_k = (min(wanted, rows) for wanted in (WEIGHTED_K, COSINE_K, max(EUCLIDEAN_KS)))
    if rows < WEIGHTED_K:
        remarks.append(f"kNN: k is at most {rows}, the number of train rows, where the protocol says {WEIGHTED_K}.")
    progress(0, 2)
    indices, similarities = neighbors.nearest(data.train, data.test, weighted_k, "cosine")
    near = data.train_labels[indices]
    majority = neighbors.vote(near[:, :k], data.classes)[:, -1]
    weighted = neighbors.vote(near, data.classes, np.exp((similarities - 1) / TEMPERATURE))[:, -1]
    progress(1, 2)
    indices, _ = neighbors.nearest(data.train, data.test, euclidean_k, "euclidean")
    votes = neighbors.vote(data.train_labels[indices], data.classes)
    by_k = np.mean(votes == data.test_labels[:, None], axis=0)
    best = int(by_k.argmax())
    progress(2, 2)

    def number(value, label, note, **more):
        return Number(float(value), label, note, data.majority, **more)

    numbers = {
        f"cosine_k{COSINE_K}_accuracy": number(
            np.mean(majority == data.test_labels), f"cosine, k = {k}", "majority vote"
        ),
        f"cosine_k{WEIGHTED_K}_accuracy": number(
            np.mean(weighted == data.test_labels),
            f"cosine, k = {weighted_k}",
            f"votes weighted exp(similarity / {TEMPERATURE})",
        ),
        "euclidean_best_accuracy": number(
            by_k[best],
            "Euclidean, best k",
            f"best of k = 1..{euclidean_k} on test, as in the SimVAE papers: {best + 1}",
        ),
    }
    for j, accuracy in enumerate(by_k, 1):
        numbers[f"euclidean_k{j}_accuracy"] = number(accuracy, f"Euclidean, k = {j}", "majority vote", shown=False)
    described = {
        "bank": "all train features",
        "cosine": {"k": k, "votes": "uniform"},
        "cosine weighted": {"k": weighted_k, "votes": "exp(similarity / T)", "T": TEMPERATURE},
        "euclidean": {"k": [1, euclidean_k], "votes": "uniform"},
    }
    return numbers, described, remarks


def _run_gmm(data, settings, progress):
    restarts, seed = settings["gmm_restarts"], settings["seed"]
    components = len(np.unique(data.train_labels))
    mixture = clustering.fit_gmm(data.train, components, restarts, seed, progress)
    clusters = mixture.predict(np.asarray(data.test, np.float64))
    shuffled = np.random.default_rng(seed).permutation(data.test_labels)  # what guessing scores, by experiment
    whole, whole_chance = (clustering.scores(labels, clusters) for labels in (data.test_labels, shuffled))
    batches, batches_chance = (
        clustering.minibatch_scores(labels, clusters, MINIBATCH, seed) for labels in (data.test_labels, shuffled)
    )
    notes = {
        "accuracy": f"Hungarian matching, whole test set; restarts: {restarts}",
        "nmi": "normalised mutual information, whole test set",
        "ari": "adjusted Rand index, whole test set",
    }
    names = {"accuracy": "accuracy", "nmi": "NMI", "ari": "ARI"}
    numbers = {m: Number(whole[m], names[m], notes[m], whole_chance[m]) for m in names}
    numbers |= {
        f"minibatch{MINIBATCH}_{m}": Number(
            batches[m],
            f"{names[m]}, batches of {MINIBATCH}",
            "mean over batches, as in the papers' tables",
            batches_chance[m],
        )
        for m in names
    }
    described = {
        "model": "GaussianMixture",
        "covariance": "full",
        "components": components,
        "restarts": restarts,
        "max_iter": mixture.max_iter,
        "fitted on": "train features",
        "minibatch": MINIBATCH,
    }
    remarks = []
    if mixture.reg_covar > 1e-6:
        remarks.append(
            f"GMM: the covariances needed a ridge of {mixture.reg_covar:.2g} instead of 1e-06; the features are nearly "
            "degenerate."
        )
    if not mixture.converged_:
        remarks.append(f"GMM: the best restart had not converged after {mixture.max_iter} iterations.")
    return numbers, described, remarks


_RUN = {"linear": _run_probe, "mlp": _run_mlp, "knn": _run_knn, "gmm": _run_gmm}


# ---------------------------------------------------------------------- what comes in


def _check_settings(protocols, seed, epochs, hidden, gmm_restarts, max_train, known):
    if isinstance(protocols, str):
        protocols = (protocols,)
    protocols = tuple(dict.fromkeys(choose("protocol", protocol, known) for protocol in protocols))
    if not protocols:
        raise InvalidInputError(f"Expected at least one protocol of {', '.join(known)}. Received: protocols=()")
    checks.count(epochs=epochs, gmm_restarts=gmm_restarts)
    checks.count(**{name: value for name, value in (("hidden", hidden), ("max_train", max_train)) if value is not None})
    return {
        "protocols": protocols,
        "seed": checks.seed(needed=True, seed=seed),
        "epochs": epochs,
        "hidden": hidden,
        "gmm_restarts": gmm_restarts,
    }


def _check_budget(budget):
    for name in budget or {}:
        choose("budget", name, BUDGET)
    for name, value in {**BUDGET, **(budget or {})}.items():
        values = value if isinstance(value, (tuple, list)) else (value,)
        if len(values) != (2 if name == "style_images" else 1) or not all(
            checks.is_integer(one) and one >= 1 for one in values
        ):
            raise InvalidInputError(
                f"budget[{name!r}] must be {'(train, test), integers' if name == 'style_images' else 'an integer'} "
                f">= 1. Received: {value!r}"
            )
    return {**BUDGET, **(budget or {})}


def _check_asked(protocols, extractor, outside):
    """What only a protocol that is not asked for would take was meant for something."""
    given = {
        "extractor": (extractor, "generation", isinstance(extractor, str) and extractor == "inception"),
        "outside": (outside, "outliers", outside is None),
    }
    for argument, (value, protocol, by_default) in given.items():
        if protocol not in protocols and not by_default:
            raise InvalidInputError(
                f"{argument} is for the protocol {protocol!r}, which is not among {', '.join(protocols)}. "
                f"Received: {argument}={list(value) if isinstance(value, Mapping) else value!r}"
            )


def _parts_for(protocols):
    """Parts beside the encoder that these protocols use."""
    used_by = {
        "decoder": {"reconstruction", "generation", "likelihood"},
        "posterior": {"likelihood"},
        "projection": {"outliers"},
    }
    return [part for part, users in used_by.items() if users & set(protocols)]


def _image_shape(encoder, image_size):
    """(H, W, C) of the images that an encoder takes; None for what it takes any of."""
    shape = getattr(encoder, "input_shape", None) if getattr(encoder, "inputs", None) else None
    shape = shape[1:] if isinstance(shape, tuple) and len(shape) == 4 else (None, None, None)
    return tuple(wanted or image_size for wanted in shape[:2]) + shape[2:]


def _load(dataset, test, data_dir, shape, reading):
    """Name, (train images, labels), (test images, labels), remarks."""
    remarks = []

    def read(name, split):
        from sslzoo import data  # here, for `data` are the features elsewhere in this file

        path = os.path.expanduser(os.fspath(name))
        sized = {"image_size": max(shape[:2])} if name not in KNOWN and os.path.isdir(path) and all(shape[:2]) else {}
        images, labels = data.load(name, split, data_dir=data_dir, remarks=remarks, **sized, **reading)
        images, done = data.fit_images(images, shape)
        remarks.extend(f"{split}: {what}." for what in done)
        return images, labels

    if _is_path(dataset):
        name, train = os.path.basename(os.path.normpath(dataset)), read(dataset, "train")
        held_out = read(dataset, "test") if test is None else None
    elif _is_pair(dataset) and all(_is_pair(split) for split in dataset):
        name, (train, held_out) = "arrays", dataset
    elif _is_pair(dataset) and test is not None:
        name, train, held_out = "arrays", dataset, None
    else:
        raise InvalidInputError(
            "`dataset` must be a known name, the path of an .npz or of a folder, or ((train_images, train_labels), "
            f"(test_images, test_labels)). Received: dataset of type {type(dataset).__name__}"
        )
    if test is not None:
        if _is_pair(test):
            held_out = test
        elif _is_path(test):
            held_out = read(test, "test")
            name += f" (tested on {os.path.basename(os.path.normpath(test))})"
        else:
            raise InvalidInputError(
                f"`test` must be a known name, the path of an .npz or of a folder, or (images, labels). "
                f"Received: test of type {type(test).__name__}"
            )
    return name, train, held_out, remarks


def _is_path(value):
    return isinstance(value, str) or hasattr(value, "__fspath__")


def _is_pair(value):
    return isinstance(value, (tuple, list)) and len(value) == 2


def _labelled(images, labels, attribute, which):
    """Images, one class per image, all attributes or None, and the name of the attribute or task if there is one."""
    everything = None if labels is None or np.ndim(labels) != 2 else np.asarray(labels)
    if everything is not None and attribute in CELEBA_TASKS and everything.shape[1] == len(CELEBA_ATTRIBUTES):
        rows, classes = celeba_task(everything, attribute)
        return images[rows], classes, everything[rows], attribute
    classes, chosen = _check_labels(labels, len(images), attribute, which)
    return images, classes, everything, chosen


def _check_labels(labels, rows, attribute, which):
    """One class per row, int (N,), and the name of the attribute if labels are attributes."""
    if labels is None:
        raise InvalidInputError(f"Probes and clusters of features need labels. Received: {which} labels=None")
    labels = np.asarray(labels)
    if labels.dtype.kind in "USO":
        raise InvalidInputError(
            "Labels must be integers; of names, take np.unique(labels, return_inverse=True)[1], of train and test "
            f"labels together. Received: {which} labels of dtype {labels.dtype}"
        )
    if labels.ndim == 2 and labels.shape[1] > 1 and np.isin(labels, (0, 1)).all() and (labels.sum(axis=1) == 1).all():
        raise InvalidInputError(
            "Labels must be one integer for each image; of one-hot rows, take labels.argmax(axis=1). "
            f"Received: {which} labels of shape {labels.shape}"
        )
    if labels.ndim not in (1, 2) or len(labels) != rows:
        raise InvalidInputError(
            f"Labels must be (N,), or (N, A) attributes, one row for each of the {rows:,} {which} images. "
            f"Received: labels of shape {labels.shape}"
        )
    if labels.dtype.kind not in "iub":
        raise InvalidInputError(f"Labels must be integers. Received: {which} labels of dtype {labels.dtype}")
    if labels.ndim == 1:
        return labels.astype(np.int64), None
    column = attribute
    if isinstance(attribute, str):
        names = list(CELEBA_ATTRIBUTES)
        if labels.shape[1] != len(names):
            raise InvalidInputError(
                f"Attributes of CelebA have names; other labels (N, A) need the number of a column as `attribute`. "
                f"Received: attribute={attribute!r}, labels of shape {labels.shape}"
            )
        column = names.index(choose("attribute", attribute, names))
    if not checks.is_integer(column) or not 0 <= column < labels.shape[1]:
        raise InvalidInputError(f"`attribute` must lie in 0..{labels.shape[1] - 1}. Received: attribute={attribute}")
    return labels[:, column].astype(np.int64), attribute


def _with_labels(protocols, train_labels, test_labels, refuse):
    """Those of the protocols that there are labels for, and remarks on the others."""
    which = "train" if train_labels is None else "test" if test_labels is None else None
    needing = [protocol for protocol in protocols if protocol in LABELLED]
    if which is None or not needing:
        return protocols, []
    if refuse or len(needing) == len(protocols):
        others = ", ".join(protocol for protocol in ALL_PROTOCOLS if protocol not in LABELLED)
        raise InvalidInputError(
            f"Evaluation needs labels for {', '.join(needing)}, not for {others}. Received: {which} labels=None"
        )
    names = ", ".join(NAMES[protocol] for protocol in needing)
    rest = tuple(protocol for protocol in protocols if protocol not in LABELLED)
    return rest, [f"Not measured, {names}: the {which} images have no labels."]


def _check_classes(train_labels, test_labels, protocols):
    """All classes, sorted; None where no protocol asks for them."""
    if not set(protocols) & set(LABELLED):
        return None
    present = np.unique(train_labels)
    if len(present) < 2:
        raise InvalidInputError(
            f"Train labels must hold at least 2 classes. Received: {len(present)} class, {present.tolist()}"
        )
    if {"linear", "mlp", "knn"} & set(protocols) and not np.isin(test_labels, present).any():
        raise InvalidInputError(
            "Test labels must be among the classes of train labels, and none is, so every image would be missed. "
            f"Received: train labels {_few(present)}, test labels {_few(np.unique(test_labels))}"
        )
    return np.union1d(present, test_labels)


def _few(values):
    return ", ".join(map(str, values[:5])) + (" ..." if len(values) > 5 else "")


def _check_features(rows, labels, which):
    rows = np.asarray(rows)
    if rows.ndim != 2 or 0 in rows.shape or rows.dtype.kind not in "uif":
        raise InvalidInputError(
            f"Features must be numbers of shape (N, L). Received: {which} features of shape {rows.shape}, {rows.dtype}"
        )
    check_finite(rows, f"{which} features")
    labels = np.asarray(labels) if labels is not None else None
    if labels is not None and labels.ndim != 1:
        raise InvalidInputError(f"Labels of features must be (N,). Received: {which} labels of shape {labels.shape}")
    return rows.astype(np.float32), _check_labels(labels, len(rows), None, which)[0]


def _check_frozen(encoder, before):
    after = weights_sha256(encoder)
    if after != before:
        raise InvalidInputError(
            "The encoder must stay frozen while it is evaluated, but its weights or statistics changed: a layer writes "
            "to them even with training=False. "
            f"Received: encoder={encoder.name!r}, sha256 {before} before, {after} after"
        )
    return after


def _remarks_on_images(images):
    some = np.asarray(images[:1000])
    if some.dtype.kind == "f" and some.max() <= 1:
        return ["The images are floats of at most 1, where encoders expect 0..255."]
    return []


def _remarks_on_classes(train_labels, test_labels):
    unknown = ~np.isin(test_labels, train_labels)
    if not unknown.any():
        return []
    return [
        f"{int(unknown.sum()):,} of {len(test_labels):,} test images are of classes without train images "
        f"({_few(np.unique(test_labels[unknown]))}): probes and neighbours can only miss them."
    ]


def _remarks_on_features(data):
    spread = np.ptp(data.train, axis=0)
    constant = int((spread <= 1e-6 * np.abs(data.train).max(axis=0)).sum())
    if not constant:
        return []
    if constant == len(spread):
        return ["The features collapsed: they are the same for every train image, so the scores are those of guessing."]
    return [f"{constant} of {len(spread)} features are constant over the train images."]


# ---------------------------------------------------------------------- what a person sees meanwhile


def _progress(progress):
    """A function that makes, for one piece of work, the callable (done, in all) which shows its progress."""
    if callable(progress):
        return lambda what: lambda done, total: progress(what, done, total)
    return lambda what: line(what, progress)
