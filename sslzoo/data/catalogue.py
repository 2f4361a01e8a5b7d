"""What is known of the data sets that go by a name: shapes, classes, splits, licenses, and CelebA's tasks."""

import dataclasses
import os
import unicodedata
from types import MappingProxyType

import numpy as np

from sslzoo import errors
from sslzoo.files import as_path

# The 40 attributes of CelebA in the order of the columns of its labels (sorted names, which is also the order of the
# authors' list_attr_celeba.txt).
_ATTRIBUTES = """
    5_o_Clock_Shadow Arched_Eyebrows Attractive Bags_Under_Eyes Bald Bangs Big_Lips Big_Nose Black_Hair Blond_Hair
    Blurry Brown_Hair Bushy_Eyebrows Chubby Double_Chin Eyeglasses Goatee Gray_Hair Heavy_Makeup High_Cheekbones Male
    Mouth_Slightly_Open Mustache Narrow_Eyes No_Beard Oval_Face Pale_Skin Pointy_Nose Receding_Hairline Rosy_Cheeks
    Sideburns Smiling Straight_Hair Wavy_Hair Wearing_Earrings Wearing_Hat Wearing_Lipstick Wearing_Necklace
    Wearing_Necktie Young
"""
CELEBA_ATTRIBUTES = tuple(_ATTRIBUTES.split())
CELEBA_CROP = 178  # pixels: the largest centered square of the 218 x 178 aligned images
CELEBA_SIZE = 64


@dataclasses.dataclass(frozen=True)
class DatasetInfo:
    """What is known of a data set before it is read.

    Example:
        from sslzoo import data

        known: data.DatasetInfo = data.info("mnist")
        known.image_shape, known.num_classes  # (28, 28, 1), 10

    Attributes:
        name: str. The name that `load` takes.
        title: str. The name as texts write it ("CIFAR-10").
        image_shape: tuple (H, W, C) of the images that `load` returns.
        num_classes: int. Number of classes; of binary attributes where `labels` is "attributes".
        class_names: tuple of str, what the classes show, in the order of labels; () where they are digits' own values,
            hundreds, or attributes.
        labels: "class" for labels (N,) in 0..num_classes-1, "attributes" for labels (N, num_classes) of 0 and 1.
        splits: mapping from the name of each split to the number of images its authors published in it.
        license: str. Terms of the images as their authors state them.
        reference: str. The paper to cite.
        remark: str. What `load` does to the images, if anything.
    """

    name: str
    title: str
    image_shape: tuple[int, int, int]
    num_classes: int
    labels: str
    splits: MappingProxyType
    license: str
    reference: str
    remark: str = ""
    class_names: tuple[str, ...] = ()


def _known(name, title, image_shape, num_classes, splits, license, reference, labels="class", remark="", names=""):
    splits, names = MappingProxyType(splits), tuple(names.split())
    return DatasetInfo(name, title, image_shape, num_classes, labels, splits, license, reference, remark, names)


KNOWN = {
    known.name: known
    for known in (
        _known(
            "digits",
            "digits (8x8, scikit-learn)",
            (8, 8, 1),
            10,
            {"train": 1437, "test": 360},
            "CC BY 4.0",
            "Alpaydin and Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning Repository, 1998",
            remark="The 1,797 images inside scikit-learn, 0..16 scaled to 0..255; a fixed stratified split of ours.",
        ),
        _known(
            "mnist",
            "MNIST",
            (28, 28, 1),
            10,
            {"train": 60_000, "test": 10_000},
            "CC BY-SA 3.0",
            "LeCun, Bottou, Bengio and Haffner, Gradient-based learning applied to document recognition, 1998",
        ),
        _known(
            "fashion_mnist",
            "FashionMNIST",
            (28, 28, 1),
            10,
            {"train": 60_000, "test": 10_000},
            "MIT",
            "Xiao, Rasul and Vollgraf, Fashion-MNIST, arXiv:1708.07747, 2017",
            names="T-shirt trouser pullover dress coat sandal shirt sneaker bag boot",
        ),
        _known(
            "cifar10",
            "CIFAR-10",
            (32, 32, 3),
            10,
            {"train": 50_000, "test": 10_000},
            "as published by its authors, no license stated",
            "Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009",
            names="airplane automobile bird cat deer dog frog horse ship truck",
        ),
        _known(
            "cifar100",
            "CIFAR-100",
            (32, 32, 3),
            100,
            {"train": 50_000, "test": 10_000},
            "as published by its authors, no license stated",
            "Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009",
            remark="Labels are the 100 fine ones.",
        ),
        _known(
            "svhn_cropped",
            "SVHN",
            (32, 32, 3),
            10,
            {"train": 73_257, "test": 26_032, "extra": 531_131},
            "non-commercial use only",
            "Netzer et al., Reading Digits in Natural Images with Unsupervised Feature Learning, 2011",
        ),
        _known(
            "celeb_a",
            "CelebA",
            (CELEBA_SIZE, CELEBA_SIZE, 3),
            40,
            {"train": 162_770, "validation": 19_867, "test": 19_962},
            "non-commercial research only",
            "Liu, Luo, Wang and Tang, Deep Learning Face Attributes in the Wild, ICCV 2015",
            labels="attributes",
            remark="Center-cropped to 178 x 178 and resized to 64 x 64 (bilinear, antialiased).",
        ),
    )
}


def info(name: str) -> DatasetInfo:
    """What is known of the data set `name`, without reading it.

    Args:
        name: one of `digits mnist fashion_mnist cifar10 cifar100 svhn_cropped celeb_a`.

    Raises:
        UnknownNameError: any other name, with the nearest known ones.
    """
    return KNOWN[errors.choose("dataset", name, KNOWN)]


def name_of(dataset: str | os.PathLike) -> str:
    """What reports, results and names of models call a data set.

    A known name is itself. Of a path it is the last part, without `.npz`; where that reads as a known name, as
    `./mnist` and `Fashion-MNIST.npz` do, it is `own-mnist`, so that nobody takes a user's images for the public ones.

    Args:
        dataset: a known name, or the path of a file or folder.
    """
    if dataset in KNOWN:
        return str(dataset)
    name = os.path.basename(os.path.abspath(as_path(dataset))).removesuffix(".npz")
    letters = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()  # all that names of models keep
    return f"own-{name}" if errors.plain(letters) in map(errors.plain, KNOWN) else name


def celeba_task(attributes: np.ndarray, task: str) -> tuple[np.ndarray, np.ndarray]:
    """One classification task out of the 40 attributes of CelebA (SimVAE, arXiv:2402.01399, section 5).

    Args:
        attributes: int (N, 40) of 0 and 1, the labels of `celeb_a`.
        task: "gender" (attribute Male, all images), or "hair" (0 bald, 1 black, 2 blond, 3 brown, 4 gray; only images
            that carry exactly one of the five).

    Returns:
        `(rows, labels)`: int64 (M,) indices of the images that take part, ascending, and int64 (M,) their classes.

    Raises:
        UnknownNameError: another task.
        InvalidInputError: attributes of another shape.
    """
    attributes = np.asarray(attributes)
    if attributes.ndim != 2 or attributes.shape[1] != len(CELEBA_ATTRIBUTES):
        raise errors.InvalidInputError(f"Expected attributes of shape (N, 40). Received: shape={attributes.shape}")
    if errors.choose("task", task, ("gender", "hair")) == "gender":
        return np.arange(len(attributes)), attributes[:, CELEBA_ATTRIBUTES.index("Male")].astype("int64")
    hair = [CELEBA_ATTRIBUTES.index(name) for name in ("Bald", "Black_Hair", "Blond_Hair", "Brown_Hair", "Gray_Hair")]
    hair = attributes[:, hair]
    rows = np.flatnonzero(hair.sum(axis=1) == 1)
    return rows, hair[rows].argmax(axis=1)
