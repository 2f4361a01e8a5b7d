"""The folder of a run: whose it is, whether it can be gone on with, and that one process alone writes in it."""

import hashlib
import json
import os
import tempfile
from pathlib import Path

import keras
import numpy as np

from sslzoo import processes
from sslzoo.data import StreamedImages
from sslzoo.errors import ArtifactError
from sslzoo.files import is_left_behind, lock_folder, move, read_json, unlock_folder, write_beside
from sslzoo.publishing import artifact

# What a run notes beside its identity: the epochs it was planned for before it was given more, steps in a program,
# how many steps fitted into --max-minutes (each time it was asked) and the minutes of the last time, and how it ended
# (`zoo.results.ENDINGS`).
NOTES = {"extended", "fuse_steps", "planned", "minutes", "ended"}
OWN = {"run.json", "history.csv", "checkpoint.npz", "checkpoint.previous.npz", "pictures", "tensorboard", "init"}
OWN |= {"results.json"}
LONGEST = 45  # letters of a file in the folder of a model that is being written: its record, before that has its name


class RunFolder:
    """`<out>` of a run.

    Args:
        path: of the folder, which need not exist.
        name: of the model, whose folder lies in it.
        resume: whether the run is to go on.

    Attributes:
        record: dict, what run.json says: the run's identity, and `NOTES`.
    """

    def __init__(self, path: Path, name: str, resume: bool):
        self.path, self.name, self.resume = path, name, resume
        self.record = {}

    @property
    def resumes(self) -> bool:
        """Whether there is a checkpoint to go on from."""
        return self.resume and any(self.path.glob("checkpoint*.npz"))

    def check(self, identity: dict) -> None:
        """Refuses a folder that holds something else, or that cannot be written; writes nothing.

        Args:
            identity: what a resumed run must share with the run it goes on with.

        Raises:
            ArtifactError: the folder holds another run or other files, cannot be written, or is a file.
        """
        out, record, self.record = self.path, self.path / "run.json", identity
        if out.exists() and not out.is_dir():
            raise ArtifactError(f"--out must be a folder. Received: --out={out}, which is a file")
        there = next(path for path in (out, *out.absolute().parents) if path.exists())
        if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
            raise ArtifactError(f"--out must be a folder that can be written. Received: --out={out}")
        if not out.exists():
            return
        began = any(out.glob("checkpoint*.npz")) or (out / self.name).exists()
        if record.exists() and self.resume:
            self.record = compare(read(record), identity, out)
        elif record.exists() and began:
            raise ArtifactError(
                "The output folder holds a run already: go on with it (--resume), or name another (--out). "
                f"Received: --out={out}"
            )
        held = sorted(path.name for path in out.iterdir())
        own = OWN | {self.name, f"{self.name}.keras"}
        foreign = any(each not in own and not is_left_behind(each) for each in held)
        if not record.exists() and (began or foreign):
            raise ArtifactError(
                "The output folder must be new, empty, or hold a run of this recipe (with --resume). "
                f"Received: --out={out}, which holds {held[:3]}"
            )
        artifact.check_target(out / self.name, overwrite=True)  # the end would refuse a user's note beside the model

    def take(self, identity: dict) -> None:
        """Makes the folder, locks it until `leave` or the end of this process, and removes what killed ones left.

        Raises:
            ArtifactError: it cannot be written, or another process trains in it.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            # As deep as the end will write: Windows has paths of 260 characters, and a model would be lost.
            with tempfile.TemporaryDirectory(prefix=f".{self.name}.", suffix=".partial", dir=self.path) as deep:
                (Path(deep) / ("x" * LONGEST)).touch()
        except OSError as error:
            too_long = isinstance(error, FileNotFoundError)
            needed = f", with paths {LONGEST} characters longer than that of the model in it" * too_long
            raise ArtifactError(
                f"--out must be a folder that can be written{needed} ({error.strerror or error}). "
                f"Received: --out={self.path}" + f" --name={self.name}" * too_long
            ) from error
        if not lock_folder(self.path):
            raise ArtifactError(
                "Another process trains in this folder; wait for it, or name another (--out). "
                f"Received: --out={self.path}"
            )
        self.check(identity)  # another may have begun there since
        for part in (*self.path.glob(".*.part"), *self.path.glob(".*.part.keras")):
            part.unlink(missing_ok=True)

    def leave(self) -> None:
        """Gives the lock back."""
        unlock_folder(self.path)

    def note(self, **notes) -> None:
        """Adds to the record; the first of several processes writes it."""
        self.record |= notes
        if processes.index() == 0:
            write_beside(self.path / "run.json", json.dumps(self.record, indent=1) + "\n")


def save(model: keras.Model, path: Path) -> Path:
    """Writes `<name>.keras` whole or not at all: Keras leaves what it had written when the disk was full."""
    partial = path.with_name(f".{path.stem}.part.keras")
    try:
        model.save(partial)
        move(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    return path


def compare(theirs: dict, ours: dict, out: Path) -> dict:
    """The record of a run that goes on, with more epochs perhaps, which extend it.

    Raises:
        ArtifactError: it was begun with other settings or images.
    """
    notes = {name: theirs[name] for name in NOTES & theirs.keys()}
    was, now = (dict(_flat(record)) for record in (theirs, ours))
    differing = {name for name in {*was, *now} - NOTES if was.get(name) != now.get(name)}
    if not any(name.startswith("images.") for name in differing):
        differing -= {"dataset"}  # the same images, wherever they lie now
    before, after = was.get("settings.epochs"), now["settings.epochs"]
    if "settings.epochs" in differing and isinstance(before, int) and after > before:
        notes |= {"extended": [*notes.get("extended", []), before], "ended": None}
        notes |= {"planned": [*notes["planned"], None], "minutes": None} if notes.get("planned") else {}
        differing -= {"settings.epochs", "settings.monitor_every"}
    if differing:
        changed = ", ".join(
            f"{name.removeprefix('settings.')}={now.get(name)!r} (was {was.get(name)!r})" for name in sorted(differing)
        )
        raise ArtifactError(f"--resume needs the configuration and the images of the run in {out}. Received: {changed}")
    return ours | notes


def fingerprint(images: np.ndarray | StreamedImages) -> dict:
    """What distinguishes a set of images from another: count, shape, dtype and sha256."""
    streamed = isinstance(images, StreamedImages)
    digest = images.sha256 if streamed else hashlib.sha256(np.ascontiguousarray(images)).hexdigest()
    return {"count": len(images), "shape": list(images.shape[1:]), "dtype": str(images.dtype), "sha256": digest}


def read(record: Path) -> dict:
    """The record of the run that is there.

    Raises:
        ArtifactError: it is not a run.
    """
    theirs = read_json(record)
    if not isinstance(theirs, dict):
        raise ArtifactError(f"A run's record must be a JSON object. Received: {record}")
    return theirs


def _flat(record, path=""):
    """(dotted name, value) of everything inside nested dicts."""
    for name, value in record.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value
