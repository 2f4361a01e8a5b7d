"""The manifest: which repository, which commit and which results.json each name stands for.

`weights_manifest.json` lies at the root of the repository and, in an installed package, inside it. It is one JSON
object: `schema` (2) and `models`, name -> entry. An entry holds

    repository     str, "organization/name" on the Hugging Face Hub; null: none
    revision       str, the commit there, 40 hexadecimal digits; null: not published yet
    sha256         str, of results.json, which has the hashes of all other files
    parts, bytes   list of str, and int: what the folder holds, and the size of its files
    metrics        list of objects: name, value; optional: error, unit. The headline numbers
    method, dataset, recipe, license, input_shape, features, parameters    as in results.json; left out if unknown

`sslzoo manifest weights/*` enters folders after a model changed.
"""

import functools
import json
import os
import re
from pathlib import Path

from sslzoo.errors import InvalidInputError, ManifestError, SSLZooError
from sslzoo.files import as_path, sha256
from sslzoo.zoo import layout
from sslzoo.zoo.results import (
    FIELDS,
    METRIC,
    check_fields,
    is_count,
    is_device,
    is_name,
    is_sha256,
    matches,
    plain,
    read_results,
)

FILE = "weights_manifest.json"
SCHEMA = 2
SCHEME = "hf://"  # of the address of a repository on the Hub
COMMIT = r"[0-9a-f]{40}"

_OWN_NAME = r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?"
_SEGMENT = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_. -]*(?<![. ])")


def is_safe_path(path: object) -> bool:
    """Whether a path stays inside the folder that it is relative to, on every system.

    Letters, digits, "_", "-", "." and " " between forward slashes; no part is empty, hidden, or made of dots, ends in a
    dot or space, which Windows drops, or is the name of a device there ("aux.json").
    """
    if not isinstance(path, str) or len(path) > 200:
        return False
    segments = path.split("/")
    return all(_SEGMENT.fullmatch(each) and len(each) <= 100 and not is_device(each) for each in segments)


def is_repository(value: object) -> bool:
    """Whether it can be the name of a repository on the Hub, "organization/name"."""
    return (
        matches(f"{_OWN_NAME}/{_OWN_NAME}")(value)
        and len(value) <= 96
        and not value.endswith(".git")
        and not any(pair in value for pair in ("..", "--"))
    )


def hint(address: str) -> str:
    """ " Did you mean hf://...?" of a name without its scheme, or of a page's address; "" of what is neither."""
    page, _, revision = re.split("[?#]", address.strip())[0].partition("@")
    words = [word for word in page.split("/") if word]
    while len(words) > 2 and re.fullmatch(r"(hf|https?):", words[0], re.IGNORECASE):
        words = words[1:]
    if len(words) > 2 and re.fullmatch(r"[\w-]+(\.[\w-]+)+(:\d+)?", words[0]):
        words = words[1:]
    name, rest = "/".join(words[:2]), words[2:3]
    is_one = is_repository(name) and rest in ([], ["tree"], ["blob"], ["resolve"])
    revision = revision or "".join(word for word in words[3:4] if word != "main")
    meant = f"{SCHEME}{name}@{revision}" if revision else SCHEME + name
    return f" Did you mean {meant}, on the Hub?" if is_one and address != meant else ""


def _is_parts(value):
    return isinstance(value, list) and all(part in layout.PARTS for part in value)


# From results.json, where it has them.
SHARED = ("method", "dataset", "recipe", "license", "input_shape", "features", "parameters")
_ENTRY = {
    "repository": (True, "'organization/name' or null", lambda value: value is None or is_repository(value)),
    "revision": (
        True,
        "a commit of 40 hexadecimal digits, or null",
        lambda value: value is None or matches(COMMIT)(value),
    ),
    "sha256": (True, "64 hexadecimal digits", is_sha256),
    "parts": (True, f"a list of {', '.join(layout.PARTS)}", _is_parts),
    "bytes": (True, "an integer >= 0", is_count),
    "metrics": (True, "a list of objects", {name: METRIC[name] for name in ("name", "value", "error", "unit")}),
    **{field: FIELDS[field] for field in SHARED},
}
_MANIFEST = {
    "schema": (True, f"{SCHEMA}; a later one needs a later sslzoo", lambda value: value == SCHEMA),
    "models": (True, "an object", lambda value: isinstance(value, dict)),
}


def path() -> Path:
    """Where the manifest is: what SSLZOO_MANIFEST names, else in the installed package, else in the checkout."""
    named = os.environ.get("SSLZOO_MANIFEST")
    return as_path(named) if named else beside(FILE)


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
        ManifestError: it cannot be read, is of an earlier version, or an entry is not what it should be.
    """
    file = path() if file is None else as_path(file)
    try:
        return _parse_once(file.read_bytes(), str(file))
    except OSError as error:
        raise ManifestError(
            f"The manifest of models cannot be read ({error.strerror or error}). SSLZOO_MANIFEST names another one. "
            f"Received: '{file}'"
        ) from error


def parse(content: "str | bytes", source: str = FILE) -> dict[str, dict]:
    """The entries that a manifest's text holds; `source` says where it came from, for messages.

    Raises:
        ManifestError: as `read`.
    """
    try:
        record = json.loads(content)
        check_fields("manifest", record, _MANIFEST, strict=True)
        return {name: check_entry(name, record["models"][name]) for name in sorted(record["models"])}
    except ManifestError:
        raise
    except (SSLZooError, ValueError, RecursionError) as error:
        raise ManifestError(f"The manifest of models is damaged: {error}. Received: {source!r}") from error


_parse_once = functools.lru_cache(maxsize=4)(parse)


def check_entry(name: str, entry: dict) -> dict:
    """The entry, if it is one.

    Raises:
        InvalidInputError: a field that is missing or not what it should be; the message names entry and field.
        UnknownNameError: a field that is not known.
    """
    where = f"models[{name!r}]"
    if not is_name(name):
        raise InvalidInputError(f"Names consist of lower-case letters, digits, '-' and '.'. Received: {where}")
    check_fields(where, plain(entry, where), _ENTRY, strict=True)
    if entry["revision"] is not None and entry["repository"] is None:
        raise InvalidInputError(
            f"{where}['revision'] must be null without a repository. Received: {entry['revision']!r}"
        )
    return entry


# ------------------------------------------------------------------ entries

# The numbers that lists and model indices show, fixed beforehand: metric -> label.
HEADLINES = {
    "linear.converged_accuracy": "linear probe: accuracy",
    "mlp.accuracy": "MLP probe: accuracy",
    "knn.cosine_k10_accuracy": "kNN: cosine, k = 10",
    "gmm.accuracy": "GMM: accuracy",
    "style.kept": "style probe: style kept",
}


def headlines(metrics: list[dict]) -> list[dict]:
    """Those of `HEADLINES` among metrics of results.json; without any, the first five."""
    return [metric for metric in metrics if metric["name"] in HEADLINES] or metrics[:5]


def entry(folder: "str | os.PathLike", repository: str | None = None, revision: str | None = None) -> dict:
    """The entry of a model folder.

    Args:
        folder: a model folder.
        repository: "organization/name" on the Hub.
        revision: commit there that holds these files; None for not published yet.

    Raises:
        ArtifactError: the folder holds no model, or results.json is missing or damaged.
        InvalidInputError: `repository` or `revision` is not one.
    """
    folder = as_path(folder)
    results = read_results(folder)
    sizes = [(folder / file).stat().st_size for file in layout.files(folder) if Path(file).name in _COUNTED]
    made = {
        "repository": repository,
        "revision": revision,
        "sha256": sha256(folder / layout.RESULTS),
        "parts": layout.parts(folder),
        "bytes": sum(sizes),
        "metrics": [_in_short(metric) for metric in headlines(results.get("metrics", []))],
        **{field: results[field] for field in SHARED if field in results},
    }
    return check_entry(results["name"], made)


_COUNTED = {layout.CONFIG, layout.METADATA, layout.WEIGHTS, layout.RESULTS}


def _in_short(metric):
    short = {"name": metric["name"], "value": round(metric["value"], 4)}
    if metric.get("error") is not None:
        short["error"] = round(metric["error"], 4)
    if metric.get("unit", "%") != "%":
        short["unit"] = metric["unit"]
    return short
