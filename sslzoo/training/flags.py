"""The flags of a recipe: parsed, checked, and written down as the command that trains a model again."""

import argparse
import importlib.util
import shlex

import keras

from sslzoo import checks, evaluation
from sslzoo.callbacks import Tracker
from sslzoo.errors import InvalidInputError, choose
from sslzoo.files import as_path
from sslzoo.publishing.artifact import FLOAT16_DIGITS
from sslzoo.training.settings import KINDS, SETUPS, parse_changes
from sslzoo.zoo.results import TEXT, is_license, is_text

# Settings that have a flag of their own beside --set.
SHORT = ("network", "pretrained", "epochs", "batch_size", "num_views", "learning_rate", "queue_size")
POSITIVE = (
    *("epochs", "batch_size", "num_views", "queue_size", "max_minutes", "grace", "limit", "image_size", "store_size"),
    *("stop_on_collapse", "until_knn", "accumulate", "processes", "fuse_steps", "checkpoint_every", "digits"),
)
LARGEST = 2**31
# What does not change the weights that come out.
PASSING = (
    *("data_dir", "stream", "out", "resume", "max_minutes", "grace", "protocols", "name", "show", "fuse_steps"),
    *("devices", "processes", "license", "remark", "log", "checkpoint_every"),
)


def parser(method: str, variants: dict, description: str, has_queue: bool = True) -> argparse.ArgumentParser:
    """The command line of a recipe.

    Args:
        method: str, as in names of models ("simclr").
        variants: variant name -> `Variant`.
        description: str, the recipe's docstring.
        has_queue: whether there is a setting "queue_size".
    """
    parser = argparse.ArgumentParser(
        usage="%(prog)s [FLAGS]",  # a mistyped one is not answered with all of them
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    known = ", ".join(name for name in SETUPS if name not in KINDS)

    add = parser.add_argument_group("data").add_argument
    add("--dataset", default="digits", help=f"{known}, an .npz file, or a folder of images (digits)")
    add("--data-dir", help="folder of prepared TFDS data sets (TFDS_DATA_DIR, else TFDS' own)")
    add(
        "--image-size",
        type=int,
        help="side to crop and resize a folder's images to, in pixels (that of nine in ten up to 256, else at most 64)",
    )
    add(
        "--store-size",
        type=int,
        help="side at which a folder's images are kept, in pixels; views of --image-size are cut out of them",
    )
    add("--labels", choices=("folders",), help="subfolders are classes")
    add(
        "--test-share",
        type=float,
        default=0.0,
        help="with --labels folders: share of each class to hold out for testing",
    )
    add(
        "--on-error",
        choices=("fail", "skip"),
        default="fail",
        help="what to do about images that cannot be read (fail)",
    )
    add("--background", default="white", metavar="COLOR", help="background of transparent images (white)")
    add("--limit", type=int, help="use N images of each split only, spread evenly over it")

    add = parser.add_argument_group("settings").add_argument
    add("--variant", default="zoo", help=f"which settings: {', '.join(variants)} (zoo)")
    add(
        "--network",
        help="an encoder of the package (vit-tiny), keras:ResNet50, keras_hub:PRESET or package.module:function",
    )
    add(
        "--pretrained",
        action="store_const",
        const=True,
        help="start from the supervised weights of a keras: or keras_hub: network",
    )
    add("--epochs", type=int, help="passes over the training images (as many as the budget of views gives)")
    add("--batch-size", type=int, help="images per step; the networks see this times --num-views")
    add("--num-views", type=int, help="views of each image")
    add("--learning-rate", type=float, help="peak learning rate")
    if has_queue:
        add("--queue-size", type=int, help="keys that the queue holds, at most an eighth of the images")
    any_setting = "any of the settings that --show prints"
    add("--set", nargs="+", action="extend", default=[], metavar="NAME=VALUE", help=any_setting)
    add("--show", action="store_true", help="print all settings and exit")
    add("--init", metavar="NAME|FOLDER", help="start from the weights of a trained model")
    add(
        "--precision",
        choices=("float32", "mixed_bfloat16", "mixed_float16"),
        default="float32",
        help="dtype policy (float32)",
    )
    add("--seed", type=int, default=0, help="random seed (0)")

    add = parser.add_argument_group("run").add_argument
    add("--name", help=f"of the model ({method}-<dataset>, then a dot and what is not the default)")
    add("--out", help="folder of the run (runs/<name>); the model is written to <out>/<name>")
    add("--resume", action="store_true", help="continue the run in --out")
    add("--max-minutes", type=float, help="stop training after this much wall time, then evaluate and save")
    some = f"what to measure at the end: some of {' '.join(evaluation.ALL_PROTOCOLS)}"
    add("--protocols", nargs="*", action="extend", help=some)
    add("--license", help="of the model, as the Hub writes it (apache-2.0; none for images of your own)")
    add(
        "--remark",
        action="append",
        default=[],
        metavar="TEXT",
        help="a sentence for the card, about the data for example",
    )
    add("--float16", action="store_true", help="for publishing: weights as float16 (half the size), no model/")
    add("--digits", type=int, metavar="N", help="with --float16: binary digits of kernels (11; with 5 a third smaller)")

    add("--log", choices=Tracker.services, help="also log each epoch's metrics there (history.csv has them)")

    add = parser.add_argument_group("advanced").add_argument
    add("--views", choices=("device", "tf.data"), default="device", help="where views are made (device)")
    streaming = "read a folder's images while training (automatic if they exceed half of the free memory)"
    add("--stream", action="store_true", help=streaming)
    add("--until-knn", type=float, metavar="PERCENT", help="stop once the monitored kNN accuracy passes this")
    lasting = "stop once a sign of collapse has lasted this many epochs (5)"
    add("--stop-on-collapse", type=int, nargs="?", const=5, metavar="EPOCHS", help=lasting)
    add(
        "--checkpoint-every",
        type=int,
        metavar="EPOCHS",
        help="epochs between checkpoints (1, more where they cost too much time)",
    )
    add("--grace", type=float, default=30, help="seconds to save after SIGTERM, SIGHUP or SIGUSR1 (30)")
    add(
        "--accumulate",
        type=int,
        metavar="N",
        help="accumulate gradients of N batches in a step; negatives still come from one batch",
    )
    add("--devices", metavar="N", help="split each batch across N devices, or all (JAX)")
    add(
        "--processes",
        type=int,
        metavar="N",
        help="number of processes that split each batch, of which this is one (JAX; see docs/train.md, Several hosts)",
    )
    add(
        "--fuse-steps",
        type=int,
        metavar="K",
        help="training steps compiled into one program (JAX: chosen from the time of a step; else 1)",
    )
    return parser


def check(arguments: argparse.Namespace) -> None:
    """Refuses what is known to be wrong before data is read.

    Raises:
        UnknownNameError: a protocol that there is not.
        InvalidInputError: a number out of its range; views in tf.data without TensorFlow.
    """

    def refuse(wrong, needed, *names):
        if wrong:
            received = " ".join(f"{_flag(name)}={getattr(arguments, name)!s}" for name in names)
            raise InvalidInputError(f"{needed}. Received: {received}")

    for name, value in vars(arguments).items():  # the value of a variable that is not set, most likely
        refuse(value == "" or (name == "protocols" and value == []), f"{_flag(name)} must not be empty", name)
    check_protocols(arguments.protocols)
    for name in POSITIVE:
        value = getattr(arguments, name, None)
        refuse(value is not None and value >= LARGEST, f"{_flag(name)} must be less than {LARGEST}", name)
        refuse(value is not None and not value > 0, f"{_flag(name)} must be greater than 0", name)
    if arguments.learning_rate is not None:
        checks.positive(learning_rate=arguments.learning_rate)
    checks.number(0, 1, test_share=arguments.test_share)
    checks.seed(seed=arguments.seed)
    on_device, steps = arguments.views == "device", arguments.fuse_steps or 1
    kept, cut = arguments.store_size, arguments.image_size or 0
    refuse(
        kept and not 0 < cut <= kept, "--store-size needs an --image-size, at most as large", "store_size", "image_size"
    )
    for name in ("network", "pretrained"):
        refuse(arguments.init and getattr(arguments, name), "--init brings a network of its own", "init", name)
    refuse((arguments.until_knn or 0) > 100, "--until-knn must be a percentage", "until_knn")
    refuse(
        arguments.processes and (arguments.devices not in (None, "all") or not on_device),
        "--processes takes all devices of each process, and views made on the device",
        *("processes", "devices", "views"),
    )
    refuse(
        steps > 1 and keras.backend.backend() == "torch",
        "PyTorch has no program of several steps; KERAS_BACKEND=jax and tensorflow have",
        "fuse_steps",
    )
    refuse(steps > 1 and not on_device, "Steps are fused where views are made on the device", "fuse_steps", "views")
    refuse(arguments.digits and not arguments.float16, "--digits is for --float16", "digits", "float16")
    refuse((arguments.digits or 1) > FLOAT16_DIGITS, f"float16 has {FLOAT16_DIGITS} binary digits", "digits")
    refuse(not all(map(is_text, arguments.remark)), f"--remark must be {TEXT}", "remark")
    stated = arguments.license is None or is_license(arguments.license)
    refuse(not stated, "--license must be as the Hub writes it (cc-by-4.0)", "license")
    refuse(
        not on_device and importlib.util.find_spec("tensorflow") is None,
        "Views in tf.data need TensorFlow (pip install tensorflow); --views device does not",
        "views",
    )


def check_protocols(protocols: "str | list[str] | tuple[str, ...] | None") -> None:
    """Refuses a protocol that there is not; None stands for all."""
    if not isinstance(protocols, str | list | tuple | None):
        raise InvalidInputError(f"protocols must be a list of names. Received: protocols={protocols!r}")
    for protocol in [protocols] if isinstance(protocols, str) else protocols or ():
        choose("protocol", protocol, evaluation.ALL_PROTOCOLS)


def _flag(name):
    return "--" + name.replace("_", "-")


def changes(arguments: argparse.Namespace, numbers: dict) -> dict:
    """The settings that a command line changes, by flags of their own and by --set.

    Args:
        arguments: as parsed.
        numbers: the settings that they change.

    Raises:
        UnknownNameError, InvalidInputError: as `parse_changes`; a setting that has a value twice.
    """
    short = {name: value for name in SHORT if (value := getattr(arguments, name, None)) is not None}
    if arguments.store_size:
        short["view_size"] = arguments.image_size
    named = parse_changes(arguments.set, numbers)
    for name, value in short.items():
        if name in named:
            raise InvalidInputError(
                f"{name} must have one value. Received: {_flag(name)} {value} and --set {name}={named[name]}"
            )
    return short | named


def command(method: str, arguments: argparse.Namespace, defaults: argparse.Namespace) -> str:
    """The command that trains this again: what differs from the defaults, without folders.

    A time limit is part of it, for fewer epochs fit into it than `epochs` says, and so is a name of one's own.
    """
    words = [f"KERAS_BACKEND={keras.backend.backend()}", "python", f"recipes/{method.replace('-', '_')}.py"]
    words += ["--dataset", public(arguments.dataset)]
    for name, default in vars(defaults).items():
        value = getattr(arguments, name)
        if value == default or name == "dataset" or name in set(PASSING) - {"max_minutes", "name"}:
            continue
        words.append(_flag(name))
        if value is not True:
            values = value if isinstance(value, list) else [value]
            words += [public(item) if name == "init" else str(item) for item in values]
    return shlex.join(words)


def public(path: str) -> str:
    """A name as it is; of a path on this machine the last part, which is all that others may know of it."""
    if path in SETUPS or "://" in path:
        return path
    path = as_path(path)
    return path.resolve().name + "/" * path.is_dir()
