"""What numbers are in force: a method's own, over those that the protocol holds equal, changed by variant and flags.

    numbers = resolve(SETTINGS, VARIANTS, "zoo", "mnist", changes={"temperature": 0.2})

`resolve` needs no run, no data and no backend: it takes plain dicts and gives one. Later rows win:

    SETUPS[data set]      network, size of the representation, policy and flip: equal for all methods
    TRAINING              optimizer and schedule, and the zoo tier's budget of views: equal for all methods
    the recipe's SETTINGS what is the method's own
    the variant           another protocol ("paper", "strong") or the authors' own settings; the zoo tier of `AIRNET`'s
                          data sets is one too, and "small" is what it is without
    flags                 --epochs, --set name=value ...

A value that differs between data sets is written `Per(otherwise, mnist=...)`; nothing is guessed from a value's type.
"""

import ast
import dataclasses
import hashlib
import json
import math
import re
import unicodedata
from collections.abc import Sequence

from sslzoo import checks
from sslzoo.data.catalogue import name_of
from sslzoo.errors import InvalidInputError, choose
from sslzoo.views import POLICIES

SCHEDULES = ("cosine", "constant", "plateau")
OPTIMIZERS = ("adam", "lars", "muon", "sgd")
LONGEST_NAME = 96  # letters of a model's name
KINDS = ("gray images", "color images")  # what folders and `.npz` files are taken for, by their channels
COLOR = ("cifar10", "cifar100", "svhn_cropped", "celeb_a", "color images")  # `Per(color=...)`

# What the SimVAE papers hold equal across methods, per data set: network, size of the representation, and views.
# "flip": the paper's figures come from vertical flips (so its code; its text leaves it open), which `--variant paper`
# restores; digits and house numbers have no mirror symmetry, so they are not flipped here, natural images horizontally.
# "convnet" stands where the papers have a ResNet: it is what a CPU trains within the budget.
SETUPS = {
    "digits": {"network": "mlp-small", "latent_dim": 10, "policy": "simvae-digits", "flip": None},
    "mnist": {"network": "mlp", "latent_dim": 10, "policy": "simvae-mnist", "flip": None},
    "fashion_mnist": {"network": "mlp", "latent_dim": 10, "policy": "simvae-fashion-mnist", "flip": "horizontal"},
    "cifar10": {"network": "convnet", "latent_dim": 64, "policy": "simvae-cifar10", "flip": "horizontal"},
    "cifar100": {"network": "convnet", "latent_dim": 64, "policy": "simvae-cifar10", "flip": "horizontal"},
    "svhn_cropped": {"network": "convnet", "latent_dim": 64, "policy": "simvae-cifar10", "flip": None},
    "celeb_a": {"network": "resnet18-simvae", "latent_dim": 64, "policy": "simvae-celeba", "flip": "horizontal"},
    "gray images": {"network": "mlp", "latent_dim": 10, "policy": "simvae-fashion-mnist", "flip": "horizontal"},
    "color images": {"network": "convnet", "latent_dim": 64, "policy": "simvae-cifar10", "flip": "horizontal"},
}


# Networks whose features are the representation unless a size is asked for; so are those from elsewhere.
FOR_PHOTOGRAPHS = ("resnet18-photo", "resnet50", "vit-tiny", "vit-small")


class Per:
    """A setting whose value differs between data sets.

        "batch_size": Per(12, mnist=32, fashion_mnist=32)   # 32 on the two, 12 elsewhere
        "network": Per(cifar10="resnet18")                  # on CIFAR-10; elsewhere what the row below says
        "temperature": Per(0.7, color=0.05, celeb_a=0.1)   # 0.05 wherever images are in color, but for faces

    Example:
        from sslzoo import training
        from sslzoo.training.settings import resolve

        settings = {"batch_size": training.Per(12, mnist=32)}
        resolve(settings, {}, "zoo", "mnist")["batch_size"]  # 32

    Args:
        otherwise: value for all other data sets; left out, they keep what they had.
        **by_dataset: data set -> value. `gray_images` and `color_images` stand for folders and files, `color` for
            all in color that are not named beside it.
    """

    KEEP = object()

    def __init__(self, otherwise=KEEP, **by_dataset):
        self.otherwise = otherwise
        named = {name.replace("_images", " images"): value for name, value in by_dataset.items()}
        self.values = (dict.fromkeys(COLOR, named.pop("color")) if "color" in named else {}) | named
        for name in self.values:
            choose("dataset", name, SETUPS)

    def of(self, dataset: str):
        """The value for a data set, or `Per.KEEP`."""
        return self.values.get(dataset, self.otherwise)


@dataclasses.dataclass(frozen=True)
class Variant:
    """Settings that replace those of the zoo tier, and what goes with them. `variant | {...}` changes some of them.

    Example:
        from sslzoo import training
        from sslzoo.training.settings import resolve

        warm = training.Variant({"temperature": 1.0}, only=("digits",))
        resolve({"temperature": 0.5}, {"warm": warm}, "warm", "digits")["temperature"]  # 1.0

    Args:
        settings: dict, setting -> value or `Per`.
        only: data sets that it is for; empty: all.
        published: whether the numbers that the paper printed belong beside what comes out.
    """

    settings: dict = dataclasses.field(default_factory=dict)
    only: tuple[str, ...] = ()
    published: bool = True

    def __or__(self, changes: dict) -> "Variant":
        return dataclasses.replace(self, settings=self.settings | changes)


# How the zoo tier trains. Nearly every method sees each training image `views_per_image` times, whatever the number of
# views it compares, so that numbers of one data set can be compared: 14.4 million views of MNIST and of
# FashionMNIST (the papers train for 240 million and more), 1 million of CIFAR-10 and its like
# in `--variant small`: budgets of a CPU.
TRAINING = {
    "views_per_image": Per(240, digits=600, cifar10=20, cifar100=20, svhn_cropped=20, celeb_a=10),
    "epochs": None,  # as many as the budget gives
    "monitor_every": None,  # about thirty times in a run
    "num_views": 2,
    "network_options": {},  # of `networks.encoder`, such as patch_size
    "pretrained": False,  # whether a network from elsewhere begins with its supervised weights
    "view_size": None,  # pixels of a view's side, for networks of any size; None: those of the images
    "batch_size": 128,
    "optimizer": "adam",
    "adam_epsilon": 1e-7,
    "learning_rate": 1e-3,
    "weight_decay": 0.0,
    "schedule": "cosine",  # or "constant"; or "plateau", by ten when the nearest neighbors stall
    "warmup_steps": 200,
    "warmup_epochs": None,
    "policy_changes": {},
    "protocols": None,  # all
    "probe_on_views": None,  # epochs of logistic regression on features of augmented images, after training
    # Of the mixture that looks for clusters: one takes minutes where there are 64 features.
    "gmm_restarts": Per(20, color=3),
}

# The tables of the SimVAE papers: their networks, flips, batch, rate and budget. Discriminative methods set `epochs` to
# 600, those of the VAE family to 400.
PAPER = Variant(
    {
        "network": Per(color="resnet18-simvae-paper", color_images="resnet18-simvae"),
        "flip": "vertical",
        "epochs": 600,
        "batch_size": 128,
        "learning_rate": 8e-5,
        "schedule": "constant",
        "adam_epsilon": 1e-8,
    }
)
VAE_PAPER = PAPER | {"epochs": 400}
# The authors' code: other networks than the text's on gray images.
RELEASED = VAE_PAPER | {"network": Per(mnist="mlp-released", fashion_mnist="mlp-released", color="resnet18-simvae")}
# The zoo tier of small color images: what hours of a CPU make of them, one setting for all methods but for what is a
# method's own (docs/choices.md, "CIFAR-10 in hours"). 160 views of an image are 8 million of CIFAR-10. Without it,
# `--variant small`, methods are compared at a million views of a network of 64 features.
_HOURS = {"network": "airnet", "views_per_image": 160, "optimizer": "muon", "learning_rate": 6e-3}
AIRNET = Variant(
    {
        **_HOURS,
        "latent_dim": None,
        "head": (512, 128),
        "batch_size": 256,
        "policy": "simclr-cifar10",
        "policy_changes": {"crop": {"scale": (0.2, 1.0)}, "blur": None},
        "view_size": 24,
    },
    only=("cifar10", "cifar100", "svhn_cropped"),
)
# What rebuilds images has latents in place of a head, and sees views of the images' own size as the SimVAE papers do. A
# view takes two and a half times as long so: the hours are equal, not the views.
VAE_AIRNET = Variant(_HOURS | {"views_per_image": 60}, only=AIRNET.only)
TIERS = {"zoo": AIRNET, "small": Variant(only=AIRNET.only)}  # variants that every recipe has
# What the CIFAR-10 benchmarks of other libraries hold equal instead: the standard ResNet-18 of 512 features, SimCLR's
# views, 256 images a step. After 200 epochs the numbers can be compared with lightly's table, after 1000
# (--epochs 1000) with solo-learn's.
STRONG = Variant(
    {
        "network": "resnet18",
        "latent_dim": None,
        "policy": "simclr-cifar10",
        "flip": "horizontal",
        "num_views": 2,
        "batch_size": 256,
        "epochs": 200,
        "warmup_epochs": 10,
        "protocols": ("linear", "knn"),
    },
    only=("cifar10", "cifar100", "color images"),
    published=False,
)
# Section B.3 of "On Mutual Information in Contrastive Learning", for methods with a memory bank, but for one thing:
# images stay at 32 pixels (the paper enlarges them to 256 and cuts 224), so the first convolution is 3x3. 200 epochs at
# most: training ends when accuracy by the bank stalls for the third time.
MI = Variant(
    {
        "network": "resnet18",
        "latent_dim": None,
        "head": (128,),
        "policy": "mi-cifar10",
        "flip": "horizontal",
        "batch_size": 256,
        "epochs": 200,
        "warmup_steps": 0,
        "optimizer": "sgd",
        "learning_rate": 0.03,
        "weight_decay": 1e-4,
        "temperature": 0.07,
        "fill_bank": False,
        "schedule": "plateau",
        "protocols": ("linear", "knn"),
        "probe_on_views": 30,
    },
    only=("cifar10", "cifar100", "color images"),
)


def resolve(
    settings: dict,
    variants: "dict[str, Variant]",
    variant: str,
    dataset: str,
    channels: int | None = None,
    changes: dict | None = None,
) -> dict:
    """The numbers in force, as one flat dict.

    Args:
        settings: dict of the recipe, setting -> value or `Per`.
        variants: variant name -> `Variant`, beside or in place of `TIERS`.
        variant: name of the one to use.
        dataset: name of a data set in `SETUPS`, or anything else, which is then taken for images of `channels`.
        channels: int, of the images; needed for data sets that are not in `SETUPS`.
        changes: dict, setting -> value, last word: what flags and `--set` say.

    Returns:
        dict, setting -> value. `epochs` and `monitor_every` are numbers: what the budget of views gives, unless said.

    Raises:
        UnknownNameError: a variant, or a setting in `changes`, that there is not; the nearest name is given.
        InvalidInputError: a variant that is not for this data set, a number out of its range, or `views_per_image`
            beside a number of epochs.
    """
    kind = kind_of(dataset, channels)
    variants = TIERS | variants
    chosen = variants[choose("variant", variant, variants)]
    if variant == "zoo" and kind not in chosen.only:
        chosen = Variant()
    if chosen.only and kind not in chosen.only:
        raise InvalidInputError(f"Variant {variant} is for {', '.join(chosen.only)}. Received: --dataset {dataset}")
    numbers = {}
    for row in (SETUPS[kind], TRAINING, settings, chosen.settings):
        for name, value in row.items():
            value = value.of(kind) if isinstance(value, Per) else value
            if value is not Per.KEEP:
                numbers[name] = value
    for name, value in (changes or {}).items():
        numbers[choose("setting", name, numbers)] = value
    if channels not in (None, 1, 3) and "policy" not in (changes or {}):
        numbers["policy"] = "channels"  # the others mix colors
    if numbers["policy"] == "xray" and "flip" not in (changes or {}):
        numbers["flip"] = None  # hearts lie to the left
    if "latent_dim" not in (changes or {}) and (
        ":" in str(numbers["network"]) or numbers["network"] in FOR_PHOTOGRAPHS
    ):
        numbers["latent_dim"] = None
    numbers = _checked(numbers)
    if "views_per_image" in (changes or {}) and numbers["epochs"] is not None:
        whose = "" if "epochs" in changes else " of the recipe"
        if whose and "epochs" in chosen.settings:
            whose = f" of variant {variant}"
        raise InvalidInputError(
            "views_per_image says the number of epochs where nothing else does: pass epochs alone, or epochs=None "
            f"with it. Received: views_per_image={numbers['views_per_image']!r}, epochs={numbers['epochs']!r}{whose}"
        )
    return _derived(numbers)


def _derived(numbers):
    """What follows from the budget of views where nothing else was said."""
    if numbers["epochs"] is None:
        numbers["epochs"] = max(1, round(numbers["views_per_image"] / views_of(numbers)))
    if numbers["monitor_every"] is None:
        numbers["monitor_every"] = 1 if numbers["schedule"] == "plateau" else math.ceil(numbers["epochs"] / 30)
    return numbers


def views_of(numbers: dict) -> int:
    """How many views of an image the encoder sees in a step, global and local ones."""
    return numbers["num_views"] + (numbers.get("local_views") or 0)


def _checked(numbers):
    """The numbers, if they are such: those that every run has, and those of a method that recipes compute with."""

    def there(*names):
        return {name: numbers[name] for name in names if name in numbers}

    def given(*names):
        return {name: value for name, value in there(*names).items() if value is not None}

    needed = ("batch_size", "num_views", "learning_rate", "adam_epsilon", "views_per_image", "warmup_steps")
    for name in (*needed, "gmm_restarts"):
        if numbers[name] is None:
            raise InvalidInputError(f"{name} must be a number. Received: {name}=None")
    for name, value in there("network", "policy").items():
        if not isinstance(value, str):
            raise InvalidInputError(f"{name} must be a name. Received: {name}={value!r}")
    for name, names in (("policy", POLICIES), ("schedule", SCHEDULES), ("optimizer", OPTIMIZERS)):
        choose(name, numbers[name], names)
    checks.count(
        **given("batch_size", "num_views", "view_size", "epochs", "latent_dim", "gmm_restarts", "probe_on_views")
    )
    checks.count(0, **given("monitor_every", "warmup_steps", "local_views", "standardize"))
    checks.positive(**given("learning_rate", "adam_epsilon", "views_per_image"))
    checks.number(0, **given("weight_decay", "warmup_epochs"))
    checks.number(0, **there("freeze_epochs", "queue_epochs", "generative_epochs"))
    checks.fraction(**there("shrinking", "warm", "warmup_share"))
    for name, value in there("policy_changes", "network_options", "head_options").items():
        if not isinstance(value, dict):
            entry = "step: its options or None" if name == "policy_changes" else "option: value"
            raise InvalidInputError(f"{name} must be a dict, {{{entry}}}. Received: {name}={value!r}")
        if odd := [key for key in value if not isinstance(key, str) or key in OWN_OPTIONS.get(name, ())]:
            raise InvalidInputError(f"{name} cannot have an option {odd[0]!r}. Received: {name}={value!r}")
    return numbers


# What a run says itself where a setting has options.
OWN_OPTIONS = {
    "network_options": ("name", "input_shape", "latent_dim", "posterior", "seed"),
    "head_options": ("input_dim", "widths", "seed", "name"),
    "policy_changes": ("name", "size"),
}


def kind_of(dataset: str, channels: int | None) -> str:
    """The row of `SETUPS` that serves a data set."""
    if dataset in SETUPS and dataset not in KINDS:
        return dataset
    return KINDS[0] if channels == 1 else KINDS[1]


WORDS = {"true": "True", "false": "False", "none": "None"}  # as a shell's users write them


def parse_changes(words: "list[str]", numbers: dict) -> dict:
    """`--set name=value ...` as a dict: values are Python literals (0.2, None, (256, 64); true as True), else texts.

    Args:
        words: each "name=value".
        numbers: the settings that they change, which say what kind of value belongs there.

    Raises:
        UnknownNameError: a setting that there is not.
        InvalidInputError: no "=", a text or tuple where a number stands, anything but True or False where one of them
            stands, or a setting named twice.
    """
    changes = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals:
            raise InvalidInputError(f"--set takes name=value, such as learning_rate=2e-3. Received: --set {word}")
        choose("setting", name, numbers)
        try:
            value = ast.literal_eval(WORDS.get(text.lower(), text))
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):  # what it raises of odd texts
            value = text
        try:
            json.dumps(value)
        except TypeError:
            raise InvalidInputError(
                f"{name} must consist of numbers, texts, tuples and dicts. Received: --set {name}={text}"
            ) from None
        if isinstance(numbers[name], bool) and not isinstance(value, bool):
            raise InvalidInputError(f"{name} must be True or False. Received: --set {name}={text}")
        if isinstance(numbers[name], (int, float)) and not isinstance(value, (int, float, type(None))):
            raise InvalidInputError(f"{name} must be a number, as {numbers[name]!r} is. Received: --set {name}={text}")
        if name in changes:
            raise InvalidInputError(f"{name} must have one value. Received: --set {name}={changes[name]} {word}")
        changes[name] = value
    return changes


def plain_name(text: str, kept: str = "") -> str:
    """A text in the letters of names: lower-case ones, digits and those that are `kept`; "-" stands for all others."""
    text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(rf"[^a-z0-9{re.escape(kept)}]+", "-", text).strip(f"-{kept}")


def data_name(dataset: str) -> str:
    """The data set's name inside names of models: lower-case letters, digits and "-".

    fashion_mnist -> fashion-mnist; a path -> what `name_of` calls it, as it can be written ("My Photos/" -> my-photos).
    """
    return plain_name(name_of(dataset))[:60].strip("-") or "data"


def model_name(method: str, dataset: str, variant: str = "zoo", seed: int = 0, changes: Sequence[str] = ()) -> str:
    """`<method>-<dataset>`, with a tag for what is not the default recipe: `simclr-cifar10.strong`, `.seed1`.

    Settings changed by --set ("temperature=0.1") are tags too (`.temperature-0-1`), so that each run of a sweep has a
    name of its own. What would make the name too long is replaced by a hash.
    """
    tags = [variant] * (variant != "zoo") + [f"seed{seed}"] * (seed != 0)
    tags += [re.sub(r"[^a-z0-9]+", "-", change.lower()).strip("-") for change in sorted(changes)]
    name, tag = f"{method}-{data_name(dataset)}", "-".join(tags)
    if len(name) + len(tag) > LONGEST_NAME - 1:
        tag = hashlib.sha256(tag.encode()).hexdigest()[:12]
    return name + (f".{tag}" if tag else "")


def table(numbers: dict) -> str:
    """The numbers in force, one a line, for people: the views of an image are those of so many epochs."""
    numbers = numbers | {"views_per_image": numbers["epochs"] * views_of(numbers)}
    width = max(map(len, numbers))
    return "\n".join(f"{name:{width}}  {value!r}" for name, value in sorted(numbers.items()))
