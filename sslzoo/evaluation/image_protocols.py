"""The protocols of `evaluate` that need images or a decoder, where those of `protocols` need features and labels.

Each takes a `Subject` and gives numbers, what was done, and remarks; or raises `DoesNotApply`. `CHECK` has what can be
known before anything is measured.
"""

import dataclasses
import functools
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sslzoo import data, networks, zoo
from sslzoo.data import CELEBA_ATTRIBUTES
from sslzoo.errors import HubError, InvalidInputError, MissingDataError, MissingPartError
from sslzoo.evaluation import generation, neighbors, outliers, probes, style
from sslzoo.evaluation.features import features, weights_sha256
from sslzoo.evaluation.report import NAMES, Number
from sslzoo.methods.pretrainer import Pretrainer

PROTOCOLS = ("style", "reconstruction", "generation", "likelihood", "outliers", "attributes")

# What Fréchet distances are measured by where InceptionV3 cannot be had. Fixed, so that figures compare. For the same
# reason no second one takes the place of these where they would be judged in their own features.
FRECHET_ENCODERS = {
    "digits": "simclr-digits",
    "mnist": "simclr-mnist",
    "fashion_mnist": "simclr-fashion-mnist",
    "cifar10": "simclr-cifar10",
}
# Sets that outliers are taken from, where they are at hand.
OUTSIDE = {
    "digits": ("fashion_mnist", "cifar10"),  # not MNIST: it shows the same, drawn by other hands
    "mnist": ("fashion_mnist", "cifar10"),
    "fashion_mnist": ("mnist",),
    "cifar10": ("svhn_cropped", "cifar100", "fashion_mnist"),
    "cifar100": ("svhn_cropped", "cifar10"),
    "svhn_cropped": ("cifar10", "cifar100"),
    "celeb_a": ("cifar10", "svhn_cropped"),
}
OUTLIER_K = 50
# Twenty of the thirty binary attributes in SimVAE's released code; which twenty its figure 5 shows is in no text.
ATTRIBUTES = (
    "5_o_Clock_Shadow",
    "Arched_Eyebrows",
    "Bags_Under_Eyes",
    "Big_Lips",
    "Big_Nose",
    "Bushy_Eyebrows",
    "Eyeglasses",
    "Gray_Hair",
    "Heavy_Makeup",
    "High_Cheekbones",
    "Male",
    "Mouth_Slightly_Open",
    "Mustache",
    "Narrow_Eyes",
    "No_Beard",
    "Oval_Face",
    "Pointy_Nose",
    "Receding_Hairline",
    "Rosy_Cheeks",
    "Smiling",
)


class DoesNotApply(InvalidInputError):
    """A protocol that this encoder or data set has nothing for."""


# Why a protocol may be left out where all that apply were asked for: nothing to measure, or something out of reach.
LEFT_OUT = (DoesNotApply, MissingDataError, HubError)


@dataclasses.dataclass
class Subject:
    """Everything that is measured: an encoder, what belongs to it, and both splits."""

    encoder: Any
    decoder: Any
    posterior: Any
    model: dict  # likelihood, likelihood_variance, prior_variance, network: as far as known
    dataset: str
    data_dir: Any
    train_images: np.ndarray
    train_labels: np.ndarray | None
    test_images: np.ndarray
    test_labels: np.ndarray | None
    attributes: tuple | None  # (train, test) int (N, A)
    settings: dict
    head: Any = None  # raw images -> what the loss sees: logits of clusters, or embeddings
    outside: Mapping | None = None
    missing: dict = dataclasses.field(default_factory=dict)  # part -> why it could not be had
    progress: Callable | None = None
    seconds: float = 0.0  # that features took
    made: dict = dataclasses.field(default_factory=dict)  # images for pictures, by name

    @functools.cached_property
    def train_features(self):
        return self._features(self.train_images)

    @functools.cached_property
    def test_features(self):
        return self._features(self.test_images)

    def _features(self, images):
        """Computed when a protocol first asks for them: style, for one, has images of its own."""
        began = time.perf_counter()
        rows = features(self.encoder, images, self.settings["batch_size"], self.progress)
        self.seconds += time.perf_counter() - began
        return rows

    @functools.cached_property
    def extractor(self):
        """What a Fréchet distance compares images by, and remarks on it."""
        asked, remarks, reason = self.settings["extractor"], [], ""
        try:
            found = generation.Extractor.of(asked)
        except MissingDataError as error:
            fallback = FRECHET_ENCODERS.get(self.dataset)
            if not fallback or not isinstance(asked, str) or asked != "inception":
                raise
            reason = str(error).partition(". Name")[0] + ". "
            remarks.append(f"{reason}The extractor is {fallback} instead, and the distance no FID.")
            found = generation.Extractor.of(fallback)
        if _is_same(found.network, self.encoder):
            raise DoesNotApply(
                f"{reason}No encoder is judged in its own features, which those of the extractor"
                f"{' in its place' if reason else ''} are: name another (--extractor), whose distances do not compare "
                f"with those of this one. Received: extractor={found.described!r}"
            )
        return found, remarks

    @functools.cached_property
    def others(self):
        """Images of other sets, by name; and what was done to them."""
        return _outside(self)

    def decoder_or_fitted(self, progress):
        """The decoder, and whether it was fitted here to frozen features."""
        if self.decoder is None and "decoder" not in self.made:
            seen = generation.as_seen(self.encoder, self.train_images)
            self.made["decoder"] = generation.fit_decoder(
                self.train_features,
                seen,
                self._decoder_network(seen.shape[1:]),
                self.settings["decoder_epochs"],
                seed=self.settings["seed"],
                progress=progress,
            )
        return (self.decoder, False) if self.decoder is not None else (self.made["decoder"][0], True)

    def _decoder_network(self, shape):
        known = self.model.get("network")
        if known in networks.DECODERS:
            return known
        if shape[-1] == 3 and shape[0] % 8 == shape[1] % 8 == 0:
            return "convnet"
        return "mlp-small" if max(shape[:2]) <= 12 else "mlp"


def _is_same(network, encoder):
    """Whether two encoders are one, wherever each was loaded from."""
    if network is encoder:
        return True
    return bool(encoder.weights) and weights_sha256(network) == weights_sha256(encoder)


# ---------------------------------------------------------------------- style


def check_style(subject):
    if len(subject.train_images) < style.LEAST_TRAIN or len(subject.test_images) < style.LEAST_TEST:
        raise DoesNotApply(
            f"The style probe needs at least {style.LEAST_TRAIN} train and {style.LEAST_TEST} test images. "
            f"Received: {len(subject.train_images)} and {len(subject.test_images)}"
        )


def run_style(subject, progress):
    seed = subject.settings["seed"]
    most = subject.settings["style_images"]
    found = style.scores(
        subject.encoder, subject.train_images, subject.test_images, seed, subject.settings["batch_size"], most, progress
    )
    notes = {
        "kept": ("style kept", "mean over factors of 2 accuracy - 1 and R2, none below 0", 0.0),
        "flip_accuracy": ("upside down or not", "accuracy; half of the images are", 0.5),
        "position_r2": ("where the crop was", "R2 of its middle, both coordinates", 0.0),
        "size_r2": ("how large the crop was", "R2 of its side; 40 to 100 % of the area", 0.0),
        "hue_r2": ("hue", "R2 of its turn, up to a fifth of the circle either way", 0.0),
        "brightness_r2": ("brightness", "R2 of its factor, 0.2 to 1.8", 0.0),
    }
    numbers = {}
    for name, value in found.items():
        label, note, chance = notes[name.removeprefix("linear_")]
        linear = name.startswith("linear_")
        how = "linear ridge regression" if linear else "kernel ridge regression"
        numbers[name] = Number(value, label + ", linearly" * linear, f"{note}; {how}", chance, shown=not linear)
    described = {
        "train": min(most[0], len(subject.train_images)),
        "test": min(most[1], len(subject.test_images)),
        "probe": "kernel ridge regression, Gaussian kernel as wide as the median distance",
        "ridges": list(style.RIDGES),
        "area": list(style.AREA),
        **({"hue": style.HUE, "brightness": style.BRIGHTNESS} if "hue_r2" in found else {}),
    }
    return numbers, described, []


# ---------------------------------------------------------------------- decoders


def check_reconstruction(subject):
    _check_had(subject, "decoder")  # which is there: another, fitted to the features, would not be the model's


def _check_had(subject, *parts):
    for part in parts:
        if part in subject.missing:
            raise subject.missing[part]


def run_reconstruction(subject, progress):
    decoder, fitted = subject.decoder_or_fitted(progress)
    some = slice(subject.settings["reconstruction_images"])
    seen = generation.as_seen(subject.encoder, subject.test_images[some])
    rebuilt = generation.decoded(decoder, subject.test_features[some])
    if rebuilt.shape != seen.shape:
        raise DoesNotApply(f"The decoder gives images of shape {rebuilt.shape[1:]}. Received: images {seen.shape[1:]}")
    subject.made["reconstructions"] = seen[:20], rebuilt[:20]
    mean = generation.as_seen(subject.encoder, subject.train_images[:5000]).mean(axis=0)
    error, chance = (float(np.mean((seen - other) ** 2, dtype=np.float64)) for other in (rebuilt, mean))
    how = "a decoder fitted to frozen features" if fitted else "posterior means through its own decoder"
    numbers = {
        "adhoc_mse" if fitted else "mse": Number(
            error,
            "squared error per pixel",
            f"{how}; {len(seen):,} test images in 0..1; guessing is the mean image",
            chance,
            unit="",
        )
    }
    described = {"images": len(seen), "decoder": "fitted to frozen features" if fitted else "its own"}
    if fitted:
        described |= {"epochs": subject.settings["decoder_epochs"], "optimizer": "Adam 1e-3, batches of 128"}
    return numbers, described, []


def check_generation(subject):
    _check_had(subject, "decoder")
    subject.extractor  # noqa: B018  looked for now, for the probes of the classes may take an hour


def run_generation(subject, progress):
    decoder, fitted = subject.decoder_or_fitted(None)
    count = min(subject.settings["frechet_images"], len(subject.test_images))
    gaussians = generation.ClassGaussians.fit(subject.train_features, subject.train_labels)
    rng = np.random.default_rng(subject.settings["seed"])
    labels = rng.choice(subject.train_labels, count)  # classes as often as in the train set
    latents = gaussians.sample(labels, subject.settings["seed"])
    images = 255 * generation.decoded(decoder, latents)
    progress(1, 3)
    each = np.repeat(gaussians.classes[:10], 10)
    shown = generation.decoded(decoder, gaussians.sample(each, subject.settings["seed"] + 1))
    subject.made["conditional"] = shown
    extractor, remarks = subject.extractor
    real = subject.test_images[rng.permutation(len(subject.test_images))[:count]]
    theirs = extractor(real)
    progress(2, 3)
    distance = generation.frechet(extractor(images), theirs)
    halves = generation.frechet(theirs[::2], theirs[1::2]) if len(theirs) >= 4 else None
    progress(3, 3)
    how = extractor.described + _fitted(extractor, real, images)
    note = f"{count:,} images of class-wise Gaussians and {count:,} test images; {how}"
    if halves is not None:
        note += f"; {halves:.3g} between two halves of those test images"
    numbers = {extractor.metric: Number(distance, "Fréchet distance", note, unit="")}
    described = {
        "latents": "Gaussian with full covariance for each class, fitted to train features",
        "images": count,
        "reference": "test",
        "extractor": how,
        "decoder": "fitted to frozen features" if fitted else "its own",
    }
    return numbers, described, remarks


def _fitted(extractor, real, images):
    """How an extractor brings test images and drawn ones to its size, in words."""
    ours, theirs = (extractor.fitting(some.shape[1:]) for some in (real, images))
    if ours == theirs:
        return f"; both {ours}" if ours else ""
    each = (("test images", ours), ("drawn images", theirs))
    return "".join(f"; {what} {done}" for what, done in each if done)


def check_likelihood(subject):
    _check_had(subject, "posterior", "decoder")
    held = {
        "posterior": subject.posterior is not None,
        "decoder": subject.decoder is not None,
        "likelihood_variance": "likelihood_variance" in subject.model,
    }
    if not all(held.values()):
        raise DoesNotApply(
            "A likelihood takes a posterior, a decoder and the variance of its pixels. "
            f"Received: no {', no '.join(what for what, there in held.items() if not there)}"
        )


def run_likelihood(subject, progress):
    model = subject.model
    count, samples = subject.settings["likelihood_images"], subject.settings["likelihood_samples"]
    images = subject.test_images[:count]
    seen = generation.as_seen(subject.encoder, images)
    outputs = [
        subject.posterior.predict_on_batch(np.asarray(images[i : i + 100], np.float32))
        for i in range(0, len(images), 100)
    ]
    mean, log_var = (np.concatenate([np.asarray(part[i]) for part in outputs]) for i in (0, 1))
    found = generation.log_likelihood(
        seen,
        mean,
        np.clip(log_var, -12, 8),
        lambda z: generation.decoded(subject.decoder, z),
        samples,
        model["likelihood_variance"],
        model["prior_variance"],
        model["likelihood"],
        subject.settings["seed"],
        progress,
    )
    prior = f"p(z) = N(0, {model['prior_variance']:g} I)"
    note = f"importance-weighted, {samples} samples, {len(images):,} test images; {prior}, {model['likelihood']} pixels"
    if model["likelihood"] == "gaussian":
        note += f" of variance {model['likelihood_variance']:g}"
    numbers = {"nll": Number(-float(found.mean()), "negative log-likelihood", note, unit="nats")}
    described = {
        "samples": samples,
        "images": len(images),
        "prior_variance": model["prior_variance"],
        "likelihood": model["likelihood"],
        "likelihood_variance": model["likelihood_variance"],
    }
    remarks = []
    if model.get("uniform_centres"):
        remarks.append(
            "Likelihood: with uniform centres there is no p(z) of one image; centres were given variance 1 instead."
        )
    return numbers, described, remarks


# ---------------------------------------------------------------------- outliers


def check_outliers(subject):
    others, _ = subject.others
    if not others:
        listed = OUTSIDE.get(subject.dataset, ()) if subject.outside is None else ()
        none = f", and none of {', '.join(listed)} is prepared here" if listed else ""
        raise DoesNotApply(
            f"Outliers take another data set{none}: name one in `outside` (--outside). "
            f"Received: outside={subject.outside!r}"
        )


def run_outliers(subject, progress):
    others, remarks = subject.others
    remarks = list(remarks)
    if "projection" in subject.missing:
        remarks.append(f"No projection: {subject.missing['projection']}")
    seed, count = subject.settings["seed"], subject.settings["outlier_images"]
    k = min(OUTLIER_K, len(subject.train_features))

    def typical(rows):
        """Minus half the squared distance to the k-th nearest train feature, on the unit sphere."""
        return _kth(subject.train_features, rows, k)

    inside = subject.test_images[:count]
    by_slope, numbers = None, {}
    network, what = (subject.encoder, "features") if subject.head is None else (subject.head, "outputs of the head")
    if hasattr(network, "predict_on_batch"):
        by_slope = outliers.scores(network, inside, seed=seed)
        if not by_slope.any():
            by_slope = None
            remarks.append(
                "Outliers are not told by slope, which is 0 everywhere, as behind a threshold of the pixels."
            )
    by_distance = typical(subject.test_features[:count])
    for done, (name, images) in enumerate(others.items(), 1):
        images = images[:count]
        rows = features(subject.encoder, images, subject.settings["batch_size"])
        numbers[f"{name}_auroc"] = Number(
            outliers.auroc(by_distance, typical(rows)),
            f"{name} told by neighbours",
            f"AUROC of the cosine similarity to the {k}th nearest train image",
            0.5,
        )
        if by_slope is not None:
            slope = outliers.scores(network, images, seed=seed + 1)
            numbers[f"{name}_slope_auroc"] = Number(
                outliers.auroc(by_slope, slope),
                f"{name} told by slope",
                f"AUROC of minus the slope of logsumexp of the {what}, noise 0.03, as GEDI's tables",
                0.5,
            )
        progress(done, len(others))
    described = {"inside": "test images", "images": len(inside), "k": k, "noise": outliers.TEST_NOISE}
    return numbers, described, remarks


def _kth(bank, rows, k):
    _, similarities = neighbors.nearest(bank, rows, k, "cosine")
    return similarities[:, -1]


def _outside(subject):
    """Images of other sets, by name; and what was done to them."""
    wanted, remarks, found = subject.outside, [], {}
    at_hand = wanted is None
    if wanted is None:
        wanted = OUTSIDE.get(subject.dataset, ())
    if isinstance(wanted, (str, os.PathLike)):
        wanted = (wanted,)
    shape = subject.test_images.shape[1:]
    for name in wanted:
        if isinstance(wanted, Mapping):
            images = wanted[name]
        else:
            if at_hand and not data.is_prepared(name, subject.data_dir):
                continue
            images, _ = data.load(name, "test", data_dir=subject.data_dir)
            name = Path(name).name
        images, done = data.fit_images(images[: subject.settings["outlier_images"]], shape)
        remarks += [f"outliers, {name}: {what}." for what in done]
        found[name] = images
    return found, remarks


# ---------------------------------------------------------------------- attributes


def check_attributes(subject):
    if subject.attributes is None:
        raise DoesNotApply("Attributes are labels (N, A) of 0 and 1, as CelebA has them. Received: one label an image")
    if not _columns(*subject.attributes):
        raise DoesNotApply(
            "An attribute needs images that have it and images that have not, in both splits. "
            f"Received: {subject.attributes[0].shape[1]} attributes, none of them so"
        )


def _columns(train, test):
    """Column of each attribute that can be told, by name."""
    if train.shape[1] == len(CELEBA_ATTRIBUTES):
        columns = {name: CELEBA_ATTRIBUTES.index(name) for name in ATTRIBUTES}
    else:
        columns = {str(column): column for column in range(min(train.shape[1], len(ATTRIBUTES)))}
    return {name: i for name, i in columns.items() if 0 < train[:, i].mean() < 1 and 0 < test[:, i].mean() < 1}


def run_attributes(subject, progress):
    train, test = subject.attributes
    columns = _columns(train, test)
    hidden = subject.settings["hidden"] or subject.train_features.shape[1]
    each = {}
    for done, (name, i) in enumerate(columns.items(), 1):
        result = probes.train_probe(
            subject.train_features,
            train[:, i],
            subject.test_features,
            test[:, i],
            2,
            hidden=hidden,
            epochs=subject.settings["epochs"],
            seed=subject.settings["seed"],
        )
        majority = float(np.mean(test[:, i] == (train[:, i].mean() > 0.5)))
        each[name] = result.accuracies[-1], probes.balanced_accuracy(test[:, i], result.predictions), majority
        progress(done, len(columns))
    accuracy, balanced, majority = np.mean(list(each.values()), axis=0)
    how = f"MLP probe for each of {len(columns)} attributes, last of {subject.settings['epochs']} epochs"
    numbers = {
        "accuracy": Number(float(accuracy), "accuracy", how, float(majority)),
        "balanced_accuracy": Number(float(balanced), "balanced accuracy", how, 0.5),
    }
    for name, (one, other, most) in each.items():
        numbers[f"{name}_accuracy"] = Number(float(one), f"{name}, accuracy", how, most, shown=False)
        numbers[f"{name}_balanced_accuracy"] = Number(float(other), f"{name}, balanced", how, 0.5, shown=False)
    return numbers, {"attributes": list(columns), "hidden": hidden, "epochs": subject.settings["epochs"]}, []


CHECK: dict[str, Callable] = {
    "style": check_style,
    "reconstruction": check_reconstruction,
    "generation": check_generation,
    "likelihood": check_likelihood,
    "outliers": check_outliers,
    "attributes": check_attributes,
}
RUN: dict[str, Callable] = {
    "style": run_style,
    "reconstruction": run_reconstruction,
    "generation": run_generation,
    "likelihood": run_likelihood,
    "outliers": run_outliers,
    "attributes": run_attributes,
}


def applying(subject, protocols, refuse) -> tuple[list[str], list[str]]:
    """Looks for what protocols take, before anything is measured.

    Args:
        subject: `Subject`.
        protocols: those that are wanted.
        refuse: bool, raise where one does not apply. An extractor or sets that were named are always looked for so.

    Returns:
        list of str, the protocols that apply; list of str, a remark for each other.

    Raises:
        DoesNotApply, MissingDataError, HubError: why a protocol cannot be measured.
        UnknownNameError, ...: whatever is wrong with the extractor or the sets that were named.
    """
    named = subject.settings["extractor"]
    if "generation" in protocols and not (isinstance(named, str) and named == "inception"):
        subject.extractor  # noqa: B018
    if "outliers" in protocols and subject.outside is not None:
        subject.others  # noqa: B018
    chosen, remarks = [], []
    for protocol in protocols:
        try:
            CHECK[protocol](subject)
        except LEFT_OUT as error:
            if refuse:
                raise
            remarks.append(not_measured(protocol, error))
        else:
            chosen.append(protocol)
    return chosen, remarks


def not_measured(protocol, error) -> str:
    """The remark of a report on a protocol that was left out."""
    return f"Not measured, {NAMES[protocol]}: {str(error).partition('. Received')[0]}."


# ---------------------------------------------------------------------- what belongs to an encoder


def belongings(encoder, wanted) -> tuple[dict, dict]:
    """Parts and likelihood of an encoder given by name, folder or method: what there is of `wanted`.

    Returns:
        dict with some of "decoder", "posterior" and "projection", and "model"; dict, part -> `HubError` that kept it.

    Raises:
        ArtefactError: a part is there, but damaged; IntegrityError: it is not the one that was written.
    """
    if isinstance(encoder, Pretrainer):
        parts = encoder.parts(tuple(encoder.encoder.input_shape[1:]))
        settings = {
            name: getattr(encoder, name, None)
            for name in ("likelihood", "likelihood_variance", "prior_variance", "centre_variance")
        }
        return {**{part: parts[part] for part in wanted if part in parts}, "model": likelihood_of(settings)}, {}
    if not isinstance(encoder, (str, os.PathLike)):
        return {}, {}
    found, missing = {}, {}
    for part in wanted:
        try:
            found[part] = zoo.load(encoder, part)
        except MissingPartError:
            pass  # most methods have no decoder, many no head; a damaged one must not be replaced on the quiet
        except HubError as error:
            missing[part] = error
    results = zoo.results_of(encoder)
    return found | {"model": likelihood_of(results.get("settings", {}))}, missing


def likelihood_of(settings: Mapping) -> dict:
    """What a likelihood takes, from the settings of a recipe: p(z) of one image, and p(x | z)."""
    model = {"network": settings.get("network")}
    variance = settings.get("likelihood_variance")
    if variance is None:
        return model
    prior, uniform = 1.0, False
    if settings.get("prior_variance") is not None:  # SimVAE: the centre, and an image around it
        centre = settings.get("centre_variance")
        prior, uniform = settings["prior_variance"] + (1.0 if centre is None else centre), centre is None
    return model | {
        "likelihood": settings.get("likelihood") or "gaussian",
        "likelihood_variance": variance,
        "prior_variance": prior,
        "uniform_centres": uniform,
    }


# ---------------------------------------------------------------------- pictures

# What `draw` may draw.
PICTURES = (
    "confusion_linear.png",
    "confusion_mlp.png",
    "neighbours.png",
    "embedding.png",
    "reconstructions.png",
    "classes.png",
)


def check_folder(folder, name) -> None:
    """Raise `InvalidInputError` unless files can be written into a folder that is there or yet to be made."""
    path = Path(folder)
    nearest = next((place for place in (path, *path.parents) if os.path.lexists(place)), Path())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        raise InvalidInputError(
            f"{name} must be a folder that can be written to, or a path where one can be made; '{nearest}' is "
            f"{'not writable' if nearest.is_dir() else 'no folder'}. Received: {name}={os.fspath(folder)!r}"
        )


def remove_pictures(folder) -> None:
    """Takes the pictures of an earlier evaluation out of their folder; other files stay."""
    for name in PICTURES:
        (Path(folder) / name).unlink(missing_ok=True)


def draw(subject, report, folder) -> list[Path]:
    """The pictures of an evaluation, into a folder: confusion, neighbours, embedding, reconstructions, classes."""
    from sslzoo.evaluation import pictures  # matplotlib: only for who draws

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    some = slice(2000)
    rows, labels = subject.test_features[some], None if subject.test_labels is None else subject.test_labels[some]
    drawn = []
    for probe, counts in report.confusion.items():
        if len(counts) <= 100:
            title = f"{'MLP' if probe == 'mlp' else 'Linear'} probe: what test images are taken for"
            names = data.class_names(report.data["name"], np.arange(len(counts)))
            drawn.append(pictures.confusion(counts, folder / f"confusion_{probe}.png", names, title))
    if len(rows) > 1:
        if subject.test_images.shape[-1] in (1, 3):
            drawn.append(pictures.neighbours(subject.test_images[some], rows, folder / "neighbours.png"))
        names = None if labels is None else data.class_names(report.data["name"], labels)
        drawn.append(pictures.embedding(rows, labels, folder / "embedding.png", names=names))
    if "reconstructions" in subject.made:
        drawn.append(pictures.reconstructions(*subject.made["reconstructions"], folder / "reconstructions.png"))
    if "conditional" in subject.made:
        title = "Drawn from a Gaussian of each class, a class a row"
        drawn.append(pictures.samples(subject.made["conditional"], folder / "classes.png", title=title))
    return drawn
