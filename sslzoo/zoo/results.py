"""The schema of a model's numbers: what results.json says, field by field, and how it is checked.

`results.json` is one JSON object. The recipe gives

    name          str, `<method>-<dataset>`, or `<method>-<dataset>.<tag>` for another recipe or seed than the default:
                  lower-case letters, digits, "-", ".". `tag_of` reads the tag off it.
    method        str, as the paper spells it ("SimVAE")
    dataset       str, as `sslzoo.data` calls it ("fashion_mnist")
    recipe        str, the command that trains it again
    settings      object, every hyper-parameter
    seeds         list of int
    metrics       list of objects: name ("knn.accuracy"), value, protocol (features, k, probe, split: all it takes to
                  measure it again); optional: label (in words), unit ("%" unless said), paper (the printed value, or
                  null), error (standard error over seeds), chance (what guessing scores). May be empty: no labels.
    versions      object of str, software -> version
    wall_seconds  number, training time
    views_seen    int, views that training went through
    licence       str, as the Hub writes it ("apache-2.0")
    papers        list of objects: title; optional: url
    description   optional str, what the method does, in a sentence
    ended         optional str, what ended training: epochs, minutes, signal, plateau, collapse or knn
    remarks       optional list of str, what a reader must know beside the numbers
    pictures      optional list of objects: file ("pictures/samples.png"), caption
    evaluation    optional object, the full record of the evaluation

and `artefact.write` adds what the models themselves say:

    schema        1
    input_shape   [H, W, C] of raw images
    input_range   [0, 255]
    features      int, L
    parameters    int, of the encoder
    parts         object, part -> number of parameters
    weights       "float32", or "float16" if kernels were rounded to save space
    files         object, path in the folder ("decoder/model.weights.h5") -> sha256, of all files but this one, the
                  card and metadata.json, which holds the date. `load` refuses a file that is another. Folders written
                  before there were such hashes have none
"""

import math
import os
import re
from pathlib import Path

from sslzoo import checks
from sslzoo.errors import ArtefactError, InvalidInputError, choose
from sslzoo.files import read_json
from sslzoo.zoo.layout import PICTURES, RESULTS

SCHEMA = 1


def check_results(results: dict) -> dict:
    """Checks results against the layout at the head of this module.

    Args:
        results: dict; NumPy numbers and tuples are welcome.

    Returns:
        dict of plain Python values, ready for JSON.

    Raises:
        InvalidInputError: a field that is missing, unknown, or not what it should be; the message names it.
    """
    if not isinstance(results, dict):
        raise InvalidInputError(f"results must be a dict. Received: results={results!r}")
    return check_fields("results", plain(results, "results"), _RESULTS, strict=True)


def read_results(folder: "str | os.PathLike") -> dict:
    """The checked content of a model folder's results.json; fields of later versions of sslzoo are passed through.

    Raises:
        ArtefactError: there is none, or it is damaged.
    """
    path = Path(folder) / RESULTS
    if not path.is_file():
        raise ArtefactError(f"A model folder holds {RESULTS}. Received: folder={os.fspath(folder)!r}, which has none")
    try:
        return check_fields("results", plain(read_json(path), "results"), _RESULTS, strict=False)
    except (InvalidInputError, RecursionError) as error:
        raise ArtefactError(f"{path} is damaged: {error}") from error


def plain(value: object, path: str) -> object:
    """The value in plain Python types that JSON can hold; `path` is what messages call it.

    Raises:
        InvalidInputError: it holds something else, or numbers that are not finite.
    """
    if getattr(value, "shape", None) == () and hasattr(value, "item"):  # a NumPy number, without importing NumPy
        value = value.item()
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise InvalidInputError(f"{path} must have names for keys. Received: key={key!r}")
        return {key: plain(item, f"{path}[{key!r}]") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, f"{path}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidInputError(f"{path} must be a finite number. Received: {value!r}")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise InvalidInputError(f"{path} must be something JSON can hold. Received: {type(value).__name__}")


def tag_of(name: str) -> str | None:
    """Tag of a model's name, after the first dot: "strong" of simclr-cifar10.strong; None of the default recipe's."""
    return name.partition(".")[2] or None


def is_text(value):
    return isinstance(value, str) and bool(value.strip())


def is_count(value):
    return checks.is_integer(value) and value >= 0


def matches(pattern):
    return lambda value: isinstance(value, str) and re.fullmatch(pattern, value) is not None


def list_of(test, least=0):
    return lambda value: isinstance(value, list) and len(value) >= least and all(map(test, value))


def dict_of(test):
    return lambda value: isinstance(value, dict) and all(map(test, value.values()))


_is_plain_name = matches(r"[a-z0-9][a-z0-9.-]{0,95}")
_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])[ ]*(\..*)?", re.IGNORECASE)


def is_device(name: str) -> bool:
    """Whether Windows takes a file of that name for a device, whatever folder it is in: "nul", "Aux.json"."""
    return bool(_DEVICE.fullmatch(name))


def is_name(value: object) -> bool:
    """Whether it can be the name of a model, and of its folder on every system."""
    return _is_plain_name(value) and not is_device(value) and not value.endswith(".")


is_licence = matches(r"[a-z0-9][a-z0-9.+-]*")
# field -> (required, what it must be, test or fields of each element)
METRIC = {
    "name": (True, "a text", is_text),
    "value": (True, "a number", checks.is_number),
    "protocol": (True, "a text that says how it was measured", is_text),
    "label": (False, "a text", is_text),
    "unit": (False, "a text", lambda value: isinstance(value, str)),
    "paper": (False, "a number or null", lambda value: value is None or checks.is_number(value)),
    "error": (False, "a number or null", lambda value: value is None or checks.is_number(value)),
    "chance": (False, "a number or null", lambda value: value is None or checks.is_number(value)),
}
PAPER = {"title": (True, "a text", is_text), "url": (False, "an https:// address", matches(r"https://\S+"))}
_PICTURE = {
    "file": (True, f"a file in {PICTURES}/", matches(rf"{PICTURES}/[^/\\]+")),
    "caption": (True, "a text", is_text),
}
_RESULTS = {
    "schema": (False, "an integer >= 1", lambda value: is_count(value) and value >= 1),
    "name": (True, "lower-case letters, digits, '-' and '.'", is_name),
    "method": (True, "a text", is_text),
    "dataset": (True, "a text", is_text),
    "recipe": (True, "the command that trains it", is_text),
    "settings": (True, "an object", lambda value: isinstance(value, dict)),
    "seeds": (True, "a list of one or more integers", list_of(is_count, 1)),
    "metrics": (True, "a list of objects", METRIC),
    "versions": (True, "an object of texts", dict_of(is_text)),
    "wall_seconds": (True, "a number >= 0", lambda value: checks.is_number(value) and value >= 0),
    "views_seen": (True, "an integer >= 0", is_count),
    "licence": (True, "a licence as the Hub writes it, such as apache-2.0", is_licence),
    "papers": (True, "a list of objects", PAPER),
    "description": (False, "a text", is_text),
    "ended": (False, "a text", is_text),
    "remarks": (False, "a list of texts", list_of(is_text)),
    "pictures": (False, "a list of objects", _PICTURE),
    "evaluation": (False, "an object or null", lambda value: value is None or isinstance(value, dict)),
    "input_shape": (False, "[H, W, C]", list_of(is_count, 3)),
    "input_range": (False, "[0, 255]", lambda value: value == [0, 255]),
    "features": (False, "an integer", is_count),
    "parameters": (False, "an integer", is_count),
    "parts": (False, "an object of integers", dict_of(is_count)),
    "weights": (False, "float32 or float16", lambda value: value in ("float32", "float16")),
    "files": (False, "an object of sha256", dict_of(matches(r"[0-9a-f]{64}"))),
}


def check_fields(path: str, record: object, fields: dict, strict: bool) -> dict:
    """The record, if it is an object of such fields; `strict` allows no others.

    Args:
        path: what messages call the record ("results").
        record: what was read.
        fields: field -> (whether it is required, what it must be in words, a test or the fields of each element).
        strict: refuse fields that are not among `fields`.

    Raises:
        InvalidInputError: a field that is missing or not what it should be; the message names it.
        UnknownNameError: a field that is none.
    """
    if not isinstance(record, dict):
        raise InvalidInputError(f"{path} must be an object. Received: {_shown(record)}")
    for field in record if strict else ():
        choose(f"field of {path}", field, fields)
    for field, (required, expected, test) in fields.items():
        where = f"{path}[{field!r}]"
        if field not in record:
            if required:
                raise InvalidInputError(f"{where} must be {expected}. Received: nothing; the field is missing")
            continue
        value = record[field]
        if isinstance(test, dict):
            if not isinstance(value, list):
                raise InvalidInputError(f"{where} must be {expected}. Received: {_shown(value)}")
            for index, element in enumerate(value):
                check_fields(f"{where}[{index}]", element, test, strict)
        elif not test(value):
            raise InvalidInputError(f"{where} must be {expected}. Received: {_shown(value)}")
    return record


def _shown(value):
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:300]} ..."
