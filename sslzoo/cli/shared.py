"""Arguments that several commands take."""

import glob
import os
from collections.abc import Iterable
from pathlib import Path

from sslzoo.cli.command import argument

MODEL = argument("name", metavar="NAME", help="a name, model folder, folder of a run, or hf:// address")
REVISION = argument("--revision", help="commit, tag or branch on the Hub (the pinned commit)")
FOLDERS = argument("folders", nargs="+", type="path", metavar="FOLDER", help="model folders")
LABELS = argument("--labels", choices=("folders",), help="subfolders are classes")
TEST_SHARE = argument(
    "--test-share",
    type="share",
    default=0.0,
    metavar="S",
    help="share of each class to hold out, where D has no test images (0.2)",
)
SPLIT = argument("--split", help="split of a folder or .npz that has several")
BACKGROUND = argument("--background", default="white", metavar="COLOR", help="background of transparent images (white)")
DATA_DIR = argument("--data-dir", help="folder of prepared TFDS data sets")
ATTRIBUTE = argument(
    "--attribute",
    type="column",
    metavar="A",
    help="which of several labels is the class: a column from 0; of CelebA an attribute, hair or gender (Male)",
)
SCALE = argument(
    "--scale",
    type="rate",
    metavar="S",
    help="factor for values 0..255 before an .onnx gets them (1 if it takes uint8 or is sslzoo's, else 1/255)",
)
SEED = argument("--seed", type="seed", default=0, help="random seed (0)")
LIMIT = argument(
    "--limit", dest="max_train", type="positive integer", metavar="N", help="most training images, drawn at random"
)
IMAGE_SIZE = argument(
    "--image-size", type="positive integer", metavar="N", help="side of a folder's images, for encoders of any size"
)
IMAGES = argument(
    "inputs", nargs="+", type="path", metavar="IMAGES", help="folders, files or one .npz; - reads paths from stdin"
)
ON_ERROR = argument(
    "--on-error", choices=("fail", "skip"), default="fail", help="what to do about images that cannot be read (fail)"
)


def batch_size(usual: int) -> tuple:
    help = f"images per batch ({usual})"
    return argument("--batch-size", type="positive integer", default=usual, metavar="N", help=help)


def matching(paths: Iterable[os.PathLike]) -> list[Path]:
    """Paths, and for a pattern those that match it: some shells expand none."""
    found = []
    for path in paths:
        matches = () if os.path.exists(path) else sorted(glob.glob(str(path)))
        found += [Path(each) for each in matches] or [path]
    return found
