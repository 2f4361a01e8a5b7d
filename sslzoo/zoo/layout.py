"""What a model folder consists of: its files and its parts.

A model's folder is also its Hub repository:

    config.json, metadata.json, model.weights.h5    the encoder, as Keras writes it unzipped
    posterior/  projection/  decoder/  model/       other parts, each with the same three files
    results.json                                    numbers, how they came about, hashes of the files (`results`)
    README.md                                       the card, made from results.json
    pictures/                                       PNG files that the card shows

`encoder` takes raw images (B, H, W, C), values 0..255, uint8 or float, and gives representations (B, L); `posterior`
gives [mean, log_var] of them, `projection` gives (B, P) after the projection head that a loss was applied to, `decoder`
turns latents (B, L) into images (B, H, W, C) in [0, 1]. These consist of core Keras layers in float32 and load without
sslzoo. `model` is the whole training method, which needs it.
"""

import os
from pathlib import Path

from sslzoo.errors import ArtifactError
from sslzoo.files import as_path

PARTS = ("encoder", "posterior", "projection", "decoder", "model")
FILES = CONFIG, METADATA, WEIGHTS = "config.json", "metadata.json", "model.weights.h5"  # of each part
RESULTS, CARD, PICTURES = "results.json", "README.md", "pictures"
UNSEALED = {RESULTS, CARD, METADATA}  # by results.json, which the manifest seals
PICTURE_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp")


def parts(folder: "str | os.PathLike") -> list[str]:
    """Names of the parts that a model folder holds."""
    return [part for part in PARTS if holds(folder, part)]


def holds(folder: "str | os.PathLike", part: str) -> bool:
    """Whether a model folder holds a part."""
    return os.path.isfile(part_folder(folder, part) / CONFIG)  # which says no in a folder that nobody may enter


def model_in(folder: "str | os.PathLike") -> "Path | None":
    """The model folder that a folder is, or, as that of a run, holds one of; None otherwise."""
    folder = as_path(folder)
    if parts(folder):
        return folder
    inside = [child.parent for child in folder.glob(f"[!.]*/{CONFIG}")]
    return inside[0] if len(inside) == 1 else None


def part_folder(folder: "str | os.PathLike", part: str) -> Path:
    """Where the files of a part lie."""
    return as_path(folder) if part == "encoder" else as_path(folder) / part


def part_files(part: str) -> list[str]:
    """Files that reading a part takes, relative to the folder of the model."""
    folder = "" if part == "encoder" else f"{part}/"
    return [folder + CONFIG, folder + WEIGHTS]


def files(folder: "str | os.PathLike") -> list[str]:
    """Every file of a model folder, hidden ones left out: paths relative to it, with "/", sorted.

    Raises:
        ArtifactError: no such folder.
    """
    folder = as_path(folder)
    if not folder.is_dir():
        raise ArtifactError(f"Expected the folder of a model. Received: folder={str(folder)!r}, which is not one")
    paths = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    return sorted(path.as_posix() for path in paths if not any(name.startswith(".") for name in path.parts))


def belongs(file: str) -> bool:
    """Whether a path, relative to a model folder, is one of a model's files."""
    top, _, rest = file.partition("/")
    if top in PARTS[1:]:
        top, _, rest = rest.partition("/")
        return top in FILES and not rest
    if top == PICTURES:
        return rest.lower().endswith(PICTURE_SUFFIXES) and "/" not in rest
    return file in (*FILES, RESULTS, CARD)
