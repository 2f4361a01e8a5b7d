"""The images of a run: read, remarked on, and refused where they do not fit its settings."""

import dataclasses
import math
import os

import numpy as np

from sslzoo import checks, data
from sslzoo.data.sources import is_folder
from sslzoo.errors import InvalidInputError, printable
from sslzoo.evaluation.features import spread
from sslzoo.training.plan import Plan


@dataclasses.dataclass
class Examples:
    """Images and labels of both splits.

    Args:
        images, labels: of the train split, uint8, uint16 or float32 (N, H, W, C) and int (N,) or None.
        test_images, test_labels: to evaluate on, or None.
        no_test: str, why there are none, or None.
        remarks: list of str, what the card must say of them.
        value_range: (low, high), what networks see as 0 and 1.
        source: what `sslzoo.data` reads: a name, a path, or the folder as it was listed.
    """

    images: "np.ndarray | data.StreamedImages"
    labels: np.ndarray | None
    test_images: "np.ndarray | data.StreamedImages | None" = None
    test_labels: np.ndarray | None = None
    no_test: str | None = None
    remarks: "list[str]" = dataclasses.field(default_factory=list)
    value_range: tuple[float, float] = (0.0, 255.0)
    source: "str | os.PathLike | data.ImageFolder | None" = None


def read(plan: Plan) -> Examples:
    """Both splits of a plan's data set.

    Raises:
        SSLZooError: images that are not there or cannot be read, or test images of another shape.
    """
    remarks, source = [], _source(plan)
    train = Examples(*_load(plan, source, "train", remarks), remarks=remarks, source=source)
    train.value_range = data.value_range(train.images)
    if train.value_range != (0, 255):
        low, high = train.value_range
        remarks.append(f"Values {low:g} to {high:g} of the images are 0 and 1 to the network.")
        print(remarks[-1])
    elif dark := checks.values(train.images, strict=False):
        remarks.append(dark)
        print(dark)
    train.no_test = _why_no_test(plan, train.labels)
    if train.no_test:
        return train
    images, labels = _load(plan, source, data.test_split(source, remarks), remarks)
    if images.shape[1:] != train.images.shape[1:]:
        raise InvalidInputError(
            f"Test images must have the shape of training images, {train.images.shape[1:]}. "
            f"Received: {images.shape[1:]} in the test split of {plan.dataset!r}"
        )
    if labels is None:
        train.no_test = "No labels in the test split"
    elif len(images) < 2:
        train.no_test = "A test split of one image"
    elif train.labels.ndim == 1 and (unseen := np.setdiff1d(labels, train.labels)).size:
        some = ", ".join(map(str, unseen[:3]))
        train.no_test = f"The test split has classes that training has not ({some})"
    else:
        train.test_images, train.test_labels = images, labels
    return train


def _why_no_test(plan, labels):
    """Why nothing can be evaluated, as far as training labels show; None: it can."""
    if labels is None:
        return "No labels"
    if data.test_split(plan.dataset) is None and not plan.arguments.test_share:
        return "No test split"
    if labels.ndim == 2 and labels.shape[1] != len(data.CELEBA_ATTRIBUTES):
        return f"Labels of {labels.shape[1]} columns are no classes"
    if labels.ndim == 1 and len(np.unique(labels)) < 2:
        return "Labels of one class"
    return None


def _source(plan):
    """What `sslzoo.data.load` reads. A folder is listed once: files that come between two splits would shift both."""
    chosen = plan.arguments
    if not is_folder(plan.dataset):
        return plan.dataset
    print(f"Reading the images below {plan.dataset}")  # which may take minutes; a log file shows this first
    return data.ImageFolder(plan.dataset, chosen.labels, chosen.test_share, chosen.background)


def _load(plan, source, split, remarks):
    """Images and labels of a split, the first --limit of them; prints what was done to them and keeps it in remarks."""
    chosen, new = plan.arguments, []
    images, labels = data.load(
        source,
        split,
        data_dir=chosen.data_dir,
        image_size=chosen.store_size or chosen.image_size or "auto",
        labels=chosen.labels,
        test_share=chosen.test_share,
        on_error=chosen.on_error,
        remarks=new,
        stream=chosen.stream or "auto",
        background=chosen.background,
    )
    if labels is None and split == "train" and (classes := data.class_folders(plan.dataset)):
        some = checks.few([printable(name) for name in classes[:6]])
        print(
            f"{len(classes)} folders in it look like classes ({some}): "
            "with --labels folders --test-share 0.2 their features are measured."
        )
    for remark in new:
        public = getattr(remark, "public", remark)
        if public not in remarks:
            print(remark)
            remarks += [public] if public else []
    if chosen.limit is None:
        return images, labels
    rows = spread(len(images), chosen.limit)  # a folder is sorted by class
    images = images.take(rows) if isinstance(images, data.StreamedImages) else images[rows]
    return images, None if labels is None else labels[rows]


def check_sizes(plan: Plan, settings: dict, images, devices: int) -> None:
    """Refuses numbers that the images, the machine or the devices have no room for.

    Raises:
        InvalidInputError: which of them, and what would fit.
    """
    batch_size, count, received = settings["batch_size"], len(images), f"Received: dataset={plan.dataset!r}"
    if batch_size % devices:
        raise InvalidInputError(
            f"The batch size must be a multiple of the {devices} devices. Received: --batch-size={batch_size}"
        )
    if count < batch_size:
        raise InvalidInputError(
            f"The training set must hold at least one batch (--batch-size), here {batch_size} images. "
            f"{received} with {count} images"
        )
    needs = {
        "views of one step": (batch_size * settings["num_views"] * math.prod(images.shape[1:]), "num_views"),
        "features of all images": (count * (settings["latent_dim"] or 0), "latent_dim"),
    }
    for what, (numbers, setting) in needs.items():
        if 4 * numbers > data.memory():
            raise InvalidInputError(
                f"The {what} must fit the memory of this machine ({data.memory() / 2**30:.1f} GiB). "
                f"Received: {setting}={settings[setting]}, {4 * numbers / 2**30:.1f} GiB"
            )
    queue = settings.get("queue_size") or 0
    if queue * 8 > count:
        raise InvalidInputError(
            "A queue must hold at most an eighth of the training images, or too many of its negatives are views of "
            f"the images they are compared with: here at most {count // 8}. "
            f"Received: queue_size={queue} with {count} images"
        )
    if (accumulated := plan.arguments.accumulate or 1) > (steps := settings["epochs"] * (count // batch_size)):
        raise InvalidInputError(
            f"--accumulate must be at most the number of batches of this run, {steps:,}, or nothing moves. "
            f"Received: --accumulate={accumulated}"
        )


def check_labels(plan: Plan, settings: dict, has_monitor: bool) -> None:
    """Refuses what acts on the accuracy of neighbors where there is none.

    Raises:
        InvalidInputError: --until-knn, or a schedule that waits for accuracy to stall.
    """
    waits = f"--until-knn={plan.arguments.until_knn:g}" if plan.arguments.until_knn else None
    if settings["schedule"] == "plateau":
        waits = "schedule='plateau'"
    if waits and not has_monitor:
        raise InvalidInputError(
            "What waits for the accuracy of neighbors needs one label an image, and monitor_every > 0. "
            f"Received: {waits}"
        )
