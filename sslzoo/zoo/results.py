"""What results.json of a model folder holds, field by field, and how it is read and checked.

It is one JSON object. Only `name` is required; what nobody knew is left out:

    name          str, `<method>-<dataset>`, or `<method>-<dataset>.<tag>` for another recipe or seed than the default:
                  lower-case letters, digits, "-", ".". `tag_of` reads the tag off it.
    method        str, as the paper spells it ("SimVAE")
    dataset       str, as `sslzoo.data` calls it ("fashion_mnist")
    recipe        str, the command that trains it again
    settings      object, every hyper-parameter
    seeds         list of int
    metrics       list of objects: name ("knn.accuracy"), value, protocol (features, k, probe, split: all it takes to
                  measure it again); optional: label (in words), unit ("%" unless stated), paper (the printed value, or
                  null), error (standard error over seeds), chance (what guessing scores)
    versions      object of str, software -> version
    wall_seconds  number, training time
    views_seen    int, views that training went through
    ended         str, why training ended: one of `ENDINGS`
    license       str, as the Hub writes it ("apache-2.0"); `licence` in older folders
    papers        list of objects: title; optional: url
    description   str, what the method does, in a sentence
    left_out      list of str, parts that the recipe writes and this folder lacks
    packed        int, binary digits that kernels were rounded to
    outdated      list of str, protocols whose numbers are of weights before that, or were measured in another way than
                  the package does now
    remarks       list of str, sentences for readers; no code reads them
    pictures      list of objects: file ("pictures/samples.png"), caption
    evaluation    object, the full record of the evaluation

    classes       list of str, of a classifier: the names of its classes, in the order of its outputs

    schema, input_shape [H, W, C], input_range, features (L), parameters (of the encoder), parts (part -> number of
    parameters), weights ("float32", or "float16" for kernels in half precision), requires (packages beside Keras whose
    layers they have: "keras-hub") describe the models themselves

    files         object, path in the folder ("decoder/model.weights.h5") -> sha256, of all files but this one, the
                  card and metadata.json, which holds the date
"""

import json
import math
import os
import re

from sslzoo import checks
from sslzoo.errors import ArtifactError, InvalidInputError, choose
from sslzoo.files import MOST_JSON, as_path, refuse_pointer
from sslzoo.zoo.layout import PICTURES, RESULTS

SCHEMA = 1
ENDINGS = ("epochs", "minutes", "signal", "plateau", "collapse", "knn", "callback")  # the last: one of a person's own
MOST_TEXT, MOST_HEADING = 10_000, 200  # characters; what is printed in columns pads all rows to the longest
TEXT = f"a text of at most {MOST_TEXT:,} characters"
HEADING = f"a text of at most {MOST_HEADING} characters"
_LARGEST = 2**63  # beyond it an integer is no count, and cannot be a float


# ------------------------------------------------------------------ tests of values


def is_text(value, most=MOST_TEXT):
    return isinstance(value, str) and bool(value.strip()) and len(value) <= most


def is_heading(value):
    return is_text(value, MOST_HEADING)


def is_count(value):
    return checks.is_integer(value) and value >= 0


def is_number_or_null(value):
    return value is None or checks.is_number(value)


def matches(pattern):
    return lambda value: isinstance(value, str) and re.fullmatch(pattern, value) is not None


def list_of(test, least=0):
    return lambda value: isinstance(value, list) and len(value) >= least and all(map(test, value))


def dict_of(test):
    return lambda value: isinstance(value, dict) and all(map(test, value.values()))


def _is_span(value):
    return list_of(checks.is_number, 2)(value) and len(value) == 2 and value[0] < value[1]


def _is_record(value):
    """Whether it is what `Report` writes, as far as cards read it."""
    known = {"data": dict, "numbers": dict, "protocols": dict}
    fits = isinstance(value, dict) and all(isinstance(value.get(name, {}), kind) for name, kind in known.items())
    return fits and all(isinstance(way, dict) for way in value.get("protocols", {}).values())


_is_plain_name = matches(r"[a-z0-9][a-z0-9.-]{0,95}")
_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])[ ]*(\..*)?", re.IGNORECASE)
is_license = matches(r"[a-z0-9][a-z0-9.+-]*")
is_sha256 = matches(r"[0-9a-f]{64}")


def is_device(name: str) -> bool:
    """Whether Windows takes a file of that name for a device, in any folder: "nul", "Aux.json"."""
    return bool(_DEVICE.fullmatch(name))


def is_name(value: object) -> bool:
    """Whether it can be the name of a model, and of its folder on every system."""
    return _is_plain_name(value) and not is_device(value) and not value.endswith(".")


def values_of(results: dict) -> dict[str, float]:
    """Metric name -> value."""
    return {metric["name"]: metric["value"] for metric in results.get("metrics", [])}


def tag_of(name: str) -> str | None:
    """Tag of a model's name, after the first dot: "strong" of simclr-cifar10.strong; None of the default recipe's."""
    return name.partition(".")[2] or None


# ------------------------------------------------------------------ fields

# field -> (required, what it must be, test or fields of each element)
METRIC = {
    "name": (True, HEADING, is_heading),
    "value": (True, "a number", checks.is_number),
    "protocol": (True, "a text that says how it was measured", is_text),
    "label": (False, HEADING, is_heading),
    "unit": (False, "a text", lambda value: isinstance(value, str)),
    "paper": (False, "a number or null", is_number_or_null),
    "error": (False, "a number or null", is_number_or_null),
    "chance": (False, "a number or null", is_number_or_null),
}
_PAPER = {"title": (True, TEXT, is_text), "url": (False, "an https:// address", matches(r"https://\S+"))}
_PICTURE = {"file": (True, f"a file in {PICTURES}/", matches(rf"{PICTURES}/[^/\\]+")), "caption": (True, TEXT, is_text)}
FIELDS = {
    "schema": (False, "an integer >= 1", lambda value: is_count(value) and value >= 1),
    "name": (True, "lower-case letters, digits, '-' and '.'", is_name),
    "method": (False, TEXT, is_text),
    "dataset": (False, TEXT, is_text),
    "recipe": (False, "the command that trains it", is_text),
    "settings": (False, "an object", lambda value: isinstance(value, dict)),
    "seeds": (False, "a list of integers", list_of(is_count)),
    "metrics": (False, "a list of objects", METRIC),
    "versions": (False, "an object of texts", dict_of(is_text)),
    "wall_seconds": (False, "a number >= 0", lambda value: checks.is_number(value) and value >= 0),
    "views_seen": (False, "an integer >= 0", is_count),
    "ended": (False, f"one of {', '.join(ENDINGS)}", lambda value: value in ENDINGS),
    "license": (False, "a license as the Hub writes it, such as apache-2.0", is_license),
    "papers": (False, "a list of objects", _PAPER),
    "description": (False, TEXT, is_text),
    "left_out": (False, "a list of texts", list_of(is_text)),
    "packed": (False, "an integer >= 1", lambda value: is_count(value) and value >= 1),
    "outdated": (False, "a list of texts", list_of(is_text)),
    "remarks": (False, "a list of texts", list_of(is_text)),
    "pictures": (False, "a list of objects", _PICTURE),
    "evaluation": (False, "an object or null", lambda value: value is None or _is_record(value)),
    "classes": (False, "a list of at least 2 texts", list_of(is_text, 2)),
    "input_shape": (False, "[H, W, C]", lambda value: list_of(is_count, 3)(value) and len(value) == 3),
    "input_range": (False, "[low, high]", _is_span),
    "features": (False, "an integer", is_count),
    "parameters": (False, "an integer", is_count),
    "parts": (False, "an object of integers", dict_of(is_count)),
    "requires": (False, "a list of packages", list_of(is_text)),
    "weights": (False, "float32 or float16", lambda value: value in ("float32", "float16")),
    "files": (False, "an object of sha256", dict_of(is_sha256)),
}


# ------------------------------------------------------------------ read and check


def read_results(folder: "str | os.PathLike") -> dict:
    """The checked content of a model folder's results.json; fields of later versions of sslzoo are passed through.

    Raises:
        ArtifactError: there is none, or it is damaged.
    """
    path = as_path(folder) / RESULTS
    if not path.is_file():
        why = "which has none" if os.path.isdir(folder) else "which is no folder"
        raise ArtifactError(f"A model folder holds {RESULTS}. Received: folder={os.fspath(folder)!r}, {why}")
    return parse_results(path.read_bytes(), path)


def parse_results(content: bytes, path: "str | os.PathLike") -> dict:
    """As `read_results`, of bytes that came from `path`."""
    refuse_pointer(content, path)
    try:
        if len(content) > MOST_JSON:
            raise InvalidInputError(f"Expected at most {MOST_JSON:,} bytes. Received: {len(content):,}")
        return check_results(json.loads(content), strict=False)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{path} is damaged: {error}") from error


def check_results(results: dict, strict: bool = True) -> dict:
    """The results in plain Python values, if their fields are those of this module.

    Args:
        results: dict; NumPy numbers and tuples are welcome, and fields by their old names.
        strict: whether other fields are refused.

    Raises:
        InvalidInputError: a field that is missing or not what it should be; the message names it.
        UnknownNameError: a field that is not known.
    """
    results = plain(results, "results")
    if isinstance(results, dict):
        results = {"license" if field == "licence" else field: value for field, value in results.items()}
        if isinstance(settings := results.get("settings"), dict) and "centre_variance" in settings:
            settings["center_variance"] = settings.pop("centre_variance")
    return check_fields("results", results, FIELDS, strict)


def plain(value: object, path: str) -> object:
    """The value in plain Python types that JSON can hold; `path` is what messages call it.

    Halves of characters, as file names of unknown encoding have them, are written out.

    Raises:
        InvalidInputError: it holds something else, or numbers that are not finite.
    """
    if getattr(value, "shape", None) == () and hasattr(value, "item"):  # a NumPy number, without importing NumPy
        value = value.item()
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise InvalidInputError(f"{path} must have names for keys. Received: key={key!r}")
        return {_encodable(key): plain(item, f"{path}[{key!r}]") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, f"{path}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, str):
        return _encodable(value)
    is_infinite = isinstance(value, float) and not math.isfinite(value)
    if is_infinite or (isinstance(value, int) and abs(value) >= _LARGEST):
        raise InvalidInputError(f"{path} must be a finite number below 2**63. Received: {value!r:.100}")
    if value is None or isinstance(value, (bool, int, float)):
        return value
    raise InvalidInputError(f"{path} must be something JSON can hold. Received: {type(value).__name__}")


def _encodable(text):
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def check_fields(path: str, record: object, fields: dict, strict: bool) -> dict:
    """The record, if it is an object of such fields; `strict` allows no others.

    Args:
        path: what messages call the record ("results").
        fields: field -> (whether it is required, what it must be in words, a test or the fields of each element).

    Raises:
        InvalidInputError: a field that is missing or not what it should be; the message names it.
        UnknownNameError: a field that is not known.
    """
    if not isinstance(record, dict):
        raise InvalidInputError(f"{path} must be an object. Received: {_shortened(record)}")
    for field in record if strict else ():
        choose(f"field of {path}", field, fields)
    for field, (required, expected, test) in fields.items():
        where = f"{path}[{field!r}]"
        if field not in record:
            if required:
                raise InvalidInputError(f"{where} must be {expected}. Received: nothing; the field is missing")
            continue
        value = record[field]
        if not (isinstance(value, list) if isinstance(test, dict) else test(value)):
            raise InvalidInputError(f"{where} must be {expected}. Received: {_shortened(value)}")
        for index, element in enumerate(value if isinstance(test, dict) else ()):
            check_fields(f"{where}[{index}]", element, test, strict)
    return record


def _shortened(value):
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:300]} ..."
