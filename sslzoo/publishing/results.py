"""results.json of a model folder: what its author knows, and what the models say of themselves."""

import os
from pathlib import Path

from sslzoo.errors import InvalidInputError
from sslzoo.networks import composition
from sslzoo.zoo.layout import PICTURES
from sslzoo.zoo.results import FIELDS, SCHEMA, check_fields, in_american, is_name, plain

_CAPTIONS = {
    "reconstructions": "Test images and their reconstructions",
    "samples": "Samples",
    "views": "Training images and views of them, as augmentation makes them",
    "neighbours": "Images, and those whose features lie nearest to theirs",
    "embedding": "Features of test images",
    "curves": "Training curves",
}


def check_results(results: dict) -> dict:
    """The results in plain Python values, if all their fields are those of `sslzoo.zoo.results`.

    Args:
        results: dict; NumPy numbers and tuples are welcome.

    Raises:
        InvalidInputError: a field that is missing or not what it should be; the message names it.
        UnknownNameError: a field that is none.
    """
    if not isinstance(results, dict):
        raise InvalidInputError(f"results must be a dict. Received: results={results!r}")
    return check_fields("results", in_american(plain(results, "results")), FIELDS, strict=True)


def complete(folder: "str | os.PathLike", facts: dict, parts: dict, pictures: dict, float16: bool) -> dict:
    """Checked results of a folder to be written: what is known, and what models and pictures themselves say.

    Args:
        folder: gives the name, unless `facts` has one.
        facts: fields of results.json. None stands for not known.
        parts: part -> `keras.Model`.
        pictures: names of files in `pictures/`.
        float16: whether kernels are stored in half precision.
    """
    facts = {field: value for field, value in facts.items() if value is not None}
    name = facts.setdefault("name", Path(folder).name)
    if not is_name(name):
        raise InvalidInputError(
            "A model is called by lower-case letters, digits, '-' and '.'; its folder's name is taken unless `name` is "
            f"given. Received: name={name!r}"
        )
    encoder = parts["encoder"]
    return check_results(
        facts
        | {
            "schema": SCHEMA,
            "pictures": [{"file": f"{PICTURES}/{file}", "caption": _caption(file)} for file in pictures],
            "input_shape": list(encoder.input_shape[1:]),
            "input_range": [int(end) if end == int(end) else end for end in composition.input_range(encoder)],
            "features": encoder.output_shape[-1],
            "parameters": encoder.count_params(),
            "parts": {part: model.count_params() for part, model in parts.items()},
            "weights": "float16" if float16 else "float32",
        }
    )


def _caption(file):
    stem = Path(file).stem
    return _CAPTIONS.get(stem, stem)
