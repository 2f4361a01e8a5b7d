"""The folder of a run: whose it is, whether it can be gone on with, and that one process alone writes in it."""

import hashlib
import json
import os
import tempfile
from pathlib import Path

import numpy as np

from sslzoo.data import StreamedImages
from sslzoo.errors import ArtefactError
from sslzoo.files import lock_folder
from sslzoo.publishing import artefact

# What runs that were begun before there were these flags would have said of them.
FORMER = {"labels": None, "test_share": 0.0, "on_error": "fail", "init": None, "accumulate": None}
# What a run notes beside its identity.
NOTES = {"extended", "fuse_steps", "plan.steps", "plan.done", "plan.former"}
OWN = {"run.json", "history.csv", "checkpoint.npz", "checkpoint.previous.npz", "pictures", "tensorboard", ".DS_Store"}


def check(out: Path, name: str, identity: dict, resume: bool) -> list[int]:
    """Refuses a folder that holds something else, or that cannot be written; changes nothing.

    Args:
        out: the run's folder, which need not exist.
        name: of the model, whose folder lies in it.
        identity: what a resumed run must share with the run it goes on with.
        resume: whether it is to go on.

    Returns:
        list of int, the epochs that a resumed run was planned for before it was given more.

    Raises:
        ArtefactError: the folder holds another run or other files, cannot be written, or is a file.
    """
    if out.exists() and not out.is_dir():
        raise ArtefactError(f"--out must be a folder. Received: --out={out}, which is a file")
    there = next(path for path in (out, *out.absolute().parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise ArtefactError(f"--out must be a folder that can be written. Received: --out={out}")
    if not out.exists():
        return []
    record = out / "run.json"
    began = any(out.glob("checkpoint*.npz")) or (out / name).exists()
    extended = []
    if record.exists() and resume:
        extended = compare(read(record), identity, out)
    elif record.exists() and began:
        raise ArtefactError(
            "The output folder holds a run already: go on with it (--resume), or name another (--out). "
            f"Received: --out={out}"
        )
    held = sorted(path.name for path in out.iterdir())
    foreign = any(each not in OWN and each != name and not _is_left_over(each) for each in held)
    if not record.exists() and (began or foreign):
        raise ArtefactError(
            "The output folder must be new, empty, or hold a run of this recipe (with --resume). "
            f"Received: --out={out}, which holds {held[:3]}"
        )
    artefact.check_target(out / name, overwrite=True)  # a note of one's own beside the model would be told at the end
    return extended


def take(out: Path) -> None:
    """Makes the folder, proves that it can be written, and locks it until this process ends.

    Raises:
        ArtefactError: it cannot be written, or another process trains in it.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise ArtefactError(
            f"--out must be a folder that can be written ({error.strerror or error}). Received: --out={out}"
        ) from error
    if not lock_folder(out):
        raise ArtefactError(
            f"Another process trains in this folder; wait for it, or name another (--out). Received: --out={out}"
        )


def compare(theirs: dict, ours: dict, out: Path) -> list[int]:
    """Refuses to go on with a run of other settings or images; more epochs extend it. Returns as `check` does."""
    if "images" not in theirs:  # nor had earlier runs the fingerprint of their images
        ours = {name: value for name, value in ours.items() if name != "images"}
    was, now = (dict(_flat(record)) for record in (FORMER | theirs, ours))
    differing = {name for name in {*was, *now} - NOTES if was.get(name) != now.get(name)}
    extended = list(theirs.get("extended") or [])
    before, after = was.get("settings.epochs"), now["settings.epochs"]
    if "settings.epochs" in differing and isinstance(before, int) and after > before:
        extended.append(before)
        differing -= {"settings.epochs", "settings.monitor_every"}
    if differing:
        told = ", ".join(
            f"{name.removeprefix('settings.')}={now.get(name)!r} (was {was.get(name)!r})" for name in sorted(differing)
        )
        raise ArtefactError(f"--resume needs the configuration and the images of the run in {out}. Received: {told}")
    return extended


def fingerprint(images: np.ndarray | StreamedImages) -> dict:
    """What tells a set of images from another: count, shape, dtype and sha256."""
    streamed = isinstance(images, StreamedImages)
    digest = images.sha256 if streamed else hashlib.sha256(np.ascontiguousarray(images)).hexdigest()
    return {"count": len(images), "shape": list(images.shape[1:]), "dtype": str(images.dtype), "sha256": digest}


def read(record: Path) -> dict:
    """The record of the run that is there.

    Raises:
        ArtefactError: it is none.
    """
    try:
        theirs = json.loads(record.read_text("utf-8"))
        if not isinstance(theirs, dict):
            raise ValueError("it is no object")
    except (OSError, ValueError) as error:
        raise ArtefactError(f"The run's record must be JSON ({error}). Received: {record}") from error
    return theirs


def _is_left_over(name):
    """Whether a killed process left it."""
    return name.startswith(".") and name.endswith((".part", ".partial", ".former"))


def _flat(record, path=""):
    """(dotted name, value) of everything inside nested dicts."""
    for name, value in record.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value
