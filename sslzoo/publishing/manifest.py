"""Entries of the manifest, written: `sslzoo.zoo.index` says what they hold and reads them."""

import contextlib
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from sslzoo.errors import ArtifactError, InvalidInputError
from sslzoo.files import as_path, lock_folder, unlock_folder, write_beside
from sslzoo.zoo import index, layout
from sslzoo.zoo.loading import local_models
from sslzoo.zoo.results import read_results

_one_thread = threading.Lock()


def write(entries: dict[str, dict], file: "str | os.PathLike | None" = None) -> Path:
    """Writes a manifest, whole or not at all, a line for each model.

    Args:
        entries: name -> entry.
        file: where to; by default `index.path()`.

    Raises:
        InvalidInputError: what is not an entry.
    """
    file = index.path() if file is None else as_path(file)
    in_short = {"ensure_ascii": False, "allow_nan": False, "separators": (",", ":")}  # it travels with the package
    lines = [
        f"{json.dumps(name)}: {json.dumps(index.check_entry(name, entry), **in_short)}"
        for name, entry in sorted(entries.items())
    ]
    text = f'{{\n"schema": {index.SCHEMA},\n"models": {{\n' + ",\n".join(lines) + "\n}\n}\n"
    file.parent.mkdir(parents=True, exist_ok=True)
    return write_beside(file, text)


@contextlib.contextmanager
def changing(file: Path) -> Iterator[dict]:
    """Gives the entries of a manifest, none if there is no file; what is changed in them is written at the end.

    Several processes may do so at once, where the system has locks (not on Windows).
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with _one_thread:
        lock_folder(file.parent, wait=True)
        try:
            former = index.read(file) if file.exists() else {}
            entries = dict(former)
            yield entries
            if entries != former:
                write(entries, file)
        finally:
            unlock_folder(file.parent)


def sealed_entry(folder: "str | os.PathLike", repository: str) -> dict:
    """The entry of a folder whose results.json has the hashes of its files.

    Raises:
        ArtifactError: it has none.
    """
    if not set(layout.part_files("encoder")) <= read_results(folder).get("files", {}).keys():
        raise ArtifactError(
            f"{layout.RESULTS} must have the hashes of the model's files; `sslzoo seal {folder}` writes them. "
            f"Received: folder='{folder}'"
        )
    return index.entry(folder, repository)


def refresh(folder: "str | os.PathLike", organization: str = "sslzoo", file: "str | os.PathLike | None" = None) -> bool:
    """Enters a model folder under its name; a pinned revision stays if it holds these very files.

    Args:
        folder: a model folder whose results.json has the hashes of its files, or the folder of its run.
        organization: of the repository, for a model that had no entry.
        file: the manifest; by default `index.path()`.

    Returns:
        bool, whether the manifest changed.

    Raises:
        InvalidInputError: another model on this machine is loaded by that name, which would then fail.
    """
    folder = layout.model_in(folder) or folder
    name = read_results(folder)["name"]
    file = index.path() if file is None else as_path(file)
    with changing(file) as entries:
        former = entries.get(name)
        made = sealed_entry(folder, former["repository"] if former else f"{organization}/{name}")
        other = local_models().get(name) if file == index.path() else None
        if former and other is not None and index.entry(other)["sha256"] != made["sha256"]:
            raise InvalidInputError(
                f"'{other}' is another model of that name, which would no longer load: train this one with another "
                f"--name, or put it in its place. Received: {name!r} of '{folder}'"
            )
        if former and former["sha256"] == made["sha256"]:
            made["revision"] = former["revision"]
        entries[name] = made
    return made != former
