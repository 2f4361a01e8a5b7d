"""The manifest of published models: which repository, which commit, and which bytes each name stands for.

`weights_manifest.json` lies at the root of the repository and, in an installed package, inside it. It is one JSON
object: `schema` (1) and `models`, name -> entry. An entry holds

    method, dataset, recipe, licence, papers, metrics    as in results.json (`sslzoo.zoo.results`)
    repository       str, "organisation/name" on the Hugging Face Hub; null: none
    revision         str, the commit there, 40 hexadecimal digits; null: not published yet
    files            object, path -> {"sha256": str, "bytes": int}: all that Keras reads, and results.json. The card and
                     its pictures are for people, who may edit them; they are not pinned.
    input_shape      [H, W, C] of raw images
    input_range      [0, 255]
    features         int, L
    parameters       int, of the encoder

    sslzoo manifest weights/*      # enter folders, after a model changed
"""

import contextlib
import functools
import json
import os
import re
import threading
from pathlib import Path

from sslzoo import checks
from sslzoo.errors import InvalidInputError, ManifestError, SSLZooError, choose
from sslzoo.files import lock_folder, unlock_folder, write_beside
from sslzoo.zoo import layout
from sslzoo.zoo.results import (
    METRIC,
    PAPER,
    check_fields,
    is_count,
    is_device,
    is_licence,
    is_name,
    is_text,
    list_of,
    matches,
    plain,
    read_results,
)

FILE = "weights_manifest.json"
SCHEMA = 1
SCHEME = "hf://"  # of the address of a repository on the Hub
COMMIT = r"[0-9a-f]{40}"

_one_thread, _depth = threading.RLock(), [0]
_PINNED = {layout.CONFIG, layout.METADATA, layout.WEIGHTS, layout.RESULTS}
_OWN_NAME = r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?"
_SEGMENT = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_. -]*(?<![. ])")


def is_safe_path(path: object) -> bool:
    """Whether a path stays inside the folder that it is relative to, on every system.

    Letters, digits, "_", "-", "." and " " between forward slashes; no part is empty, hidden, or made of dots, ends in a
    dot or space, which Windows drops, or is the name of a device there ("aux.json").
    """
    return (
        isinstance(path, str)
        and len(path) <= 200
        and all(
            _SEGMENT.fullmatch(segment) and len(segment) <= 100 and not is_device(segment)
            for segment in path.split("/")
        )
    )


def is_repository(value: object) -> bool:
    """Whether it can be the name of a repository on the Hub, "organisation/name"."""
    return (
        matches(f"{_OWN_NAME}/{_OWN_NAME}")(value)
        and len(value) <= 96
        and not value.endswith(".git")
        and not any(pair in value for pair in ("..", "--"))
    )


_FILE = {
    "sha256": (True, "64 hexadecimal digits", matches("[0-9a-f]{64}")),
    "bytes": (True, "an integer >= 0", is_count),
}
_ENTRY = {
    "method": (True, "a text", is_text),
    "dataset": (True, "a text", is_text),
    "repository": (
        True,
        '"organisation/name" on the Hub, or null',
        lambda value: value is None or is_repository(value),
    ),
    "revision": (
        True,
        "a commit of 40 hexadecimal digits, or null",
        lambda value: value is None or matches(COMMIT)(value),
    ),
    "files": (True, "an object, path -> sha256 and bytes", lambda value: isinstance(value, dict) and bool(value)),
    "input_shape": (True, "[H, W, C]", lambda value: list_of(is_count, 3)(value) and len(value) == 3),
    "input_range": (True, "[0, 255]", lambda value: value == [0, 255]),
    "features": (True, "an integer >= 1", lambda value: is_count(value) and value >= 1),
    "parameters": (True, "an integer >= 0", is_count),
    "recipe": (True, "the command that trains it", is_text),
    "metrics": (True, "a list of objects", METRIC),
    "licence": (True, "a licence as the Hub writes it, such as apache-2.0", is_licence),
    "papers": (True, "a list of objects", PAPER),
}


# ------------------------------------------------------------------ read


def path() -> Path:
    """Where the manifest is: what SSLZOO_MANIFEST names, else in the installed package, else in the checkout."""
    named = os.environ.get("SSLZOO_MANIFEST")
    return Path(named).expanduser() if named else beside(FILE)


def beside(name: str) -> Path:
    """What an installed package carries inside (setup.py puts it there) and a checkout holds beside it."""
    package = Path(__file__).resolve().parents[1]
    return package / name if (package / name).exists() else package.parent / name


def is_installed(path: Path) -> bool:
    """Whether a path is inside the installed package, whose files nobody edits."""
    return Path(path).resolve().is_relative_to(Path(__file__).resolve().parents[1])


def read(file: "str | os.PathLike | None" = None) -> dict[str, dict]:
    """The entries of a manifest: name -> entry, sorted by name. They are shared between callers: copy, then change.

    Args:
        file: the manifest; by default the one at `path()`.

    Raises:
        ManifestError: it cannot be read, or an entry is not what it should be; the message names entry and field.
    """
    file = path() if file is None else Path(file)
    try:
        return _parse_once(file.read_bytes(), str(file))
    except OSError as error:
        raise ManifestError(
            f"The manifest of models cannot be read ({error.strerror or error}). SSLZOO_MANIFEST names another one. "
            f"Received: '{file}'"
        ) from error


def parse(content: "str | bytes", source: str = FILE) -> dict[str, dict]:
    """The entries that a manifest's text holds: name -> entry, sorted by name.

    Args:
        content: JSON, UTF-8 if bytes.
        source: where it came from, for messages.

    Raises:
        ManifestError: as `read`.
    """
    try:
        record = json.loads(content, object_pairs_hook=_unique, parse_constant=_no_constant)
        if not isinstance(record, dict) or not isinstance(record.get("models"), dict):
            raise InvalidInputError("Expected an object with schema and models. Received: something else")
        if not checks.is_integer(record.get("schema")) or record["schema"] != SCHEMA:
            raise InvalidInputError(
                f"schema must be {SCHEMA}; a later one needs a later sslzoo. Received: schema={record.get('schema')!r}"
            )
        for field in record:
            choose("field", field, ("schema", "models"))
        return {name: check_entry(name, record["models"][name]) for name in sorted(record["models"])}
    except (SSLZooError, ValueError, RecursionError) as error:
        raise ManifestError(f"The manifest of models is damaged: {error}. Received: {source!r}") from error


_parse_once = functools.lru_cache(maxsize=4)(parse)


def _unique(pairs):
    record = dict(pairs)
    if len(record) < len(pairs):
        names = [name for name, _ in pairs]
        raise InvalidInputError(f"A name stands twice: {next(n for n in names if names.count(n) > 1)!r}")
    return record


def _no_constant(value):
    raise InvalidInputError(f"Numbers must be finite. Received: {value}")


def check_entry(name: str, entry: dict) -> dict:
    """The entry, if it is one.

    Raises:
        InvalidInputError: a field that is missing or not what it should be; the message names entry and field.
        UnknownNameError: a field that is none.
    """
    where = f"models[{name!r}]"
    if not is_name(name):
        raise InvalidInputError(f"Names consist of lower-case letters, digits, '-' and '.'. Received: {where}")
    check_fields(where, plain(entry, where), _ENTRY, strict=True)
    for file, facts in entry["files"].items():
        if not is_safe_path(file):
            raise InvalidInputError(
                f"{where}['files'] must name files inside the repository, as 'decoder/config.json' does. "
                f"Received: {file!r}"
            )
        check_fields(f"{where}['files'][{file!r}]", facts, _FILE, strict=True)
    if len({file.lower() for file in entry["files"]}) < len(entry["files"]):
        raise InvalidInputError(f"{where}['files'] must differ in more than upper and lower case")
    if entry["revision"] is not None and entry["repository"] is None:
        raise InvalidInputError(
            f"{where}['revision'] must be null without a repository. Received: {entry['revision']!r}"
        )
    json.dumps(entry, ensure_ascii=False).encode("utf-8")  # halves of characters could not be printed
    return entry


# ------------------------------------------------------------------ write


def entry(folder: "str | os.PathLike", repository: str | None = None, revision: str | None = None) -> dict:
    """The entry of a model folder: what it says of itself, and the hashes of its files.

    Args:
        folder: a model folder.
        repository: "organisation/name" on the Hub.
        revision: commit there that holds these files; None for not published yet.

    Raises:
        ArtefactError: the folder holds no model, or results.json is missing or damaged.
        InvalidInputError: results.json lacks what an entry holds, or repository or revision is none.
    """
    results = read_results(folder)
    made = {field: results[field] for field in _ENTRY if field in results}
    made |= {"repository": repository, "revision": revision, "files": pinned_files(folder)}
    return check_entry(results["name"], {field: made[field] for field in _ENTRY if field in made})


def pinned_files(folder: "str | os.PathLike") -> dict[str, dict]:
    """The files of a model folder that an entry lists: path -> {"sha256": str, "bytes": int}."""
    return {file: facts for file, facts in layout.files(folder).items() if Path(file).name in _PINNED}


def write(entries: dict[str, dict], file: "str | os.PathLike | None" = None) -> Path:
    """Writes a manifest, whole or not at all.

    Args:
        entries: name -> entry.
        file: where to; by default `path()`.

    Raises:
        InvalidInputError: an entry that is none.
    """
    file = path() if file is None else Path(file)
    models = {name: check_entry(name, entries[name]) for name in sorted(entries)}
    text = json.dumps({"schema": SCHEMA, "models": models}, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    file.parent.mkdir(parents=True, exist_ok=True)
    return write_beside(file, text.encode())


@contextlib.contextmanager
def changing(file: Path):
    """While open, no other process changes a manifest in that folder: what is read here may be written back."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with _one_thread:
        _depth[0] += 1
        lock_folder(file.parent, wait=True)
        try:
            yield
        finally:
            _depth[0] -= 1
            if not _depth[0]:
                unlock_folder(file.parent)


def update(name: str, entry: dict, file: "str | os.PathLike | None" = None) -> Path:
    """Enters one model in a manifest, made if there is none; the others stay as they are.

    Several processes may do so at once, where the system has locks (not on Windows).
    """
    file = path() if file is None else Path(file)
    with changing(file):
        return write((read(file) if file.exists() else {}) | {name: entry}, file)


def refresh(folder: "str | os.PathLike", organisation: str = "sslzoo", file: "str | os.PathLike | None" = None) -> bool:
    """Enters a model folder under its name; a pinned revision stays if it holds these very files.

    Args:
        folder: a model folder.
        organisation: of the repository, for a model that had no entry.
        file: the manifest; by default `path()`.

    Returns:
        bool, whether the manifest changed.
    """
    file = path() if file is None else Path(file)
    name = read_results(folder)["name"]
    with changing(file):
        former = (read(file) if file.exists() else {}).get(name)
        made = entry(folder, former["repository"] if former else f"{organisation}/{name}")
        if former and former["files"] == made["files"]:
            made["revision"] = former["revision"]
        if made == former:
            return False
        update(name, made, file)
    return True
