"""Trained models written as folders, whole or not at all. `sslzoo.zoo.layout` says what such a folder holds."""

import sslzoo.backend  # noqa: F401 - before Keras

# isort: split
import contextlib
import glob
import io
import json
import os
import shutil
import time
import warnings
import zipfile
from pathlib import Path

import h5py
import keras
import numpy as np

from sslzoo import checks
from sslzoo.errors import ArtifactError, InvalidInputError
from sslzoo.files import MOST_JSON, as_json, as_path, is_left_behind, move, sha256, write_beside, write_synced
from sslzoo.networks.composition import IMAGES, as_functional, check_published, compose, input_range, required_packages
from sslzoo.publishing import card
from sslzoo.zoo import layout
from sslzoo.zoo.results import SCHEMA, check_results, is_name, read_results
from sslzoo.zoo.weights import MOST_PACKED

FLOAT16_DIGITS = 11  # the first, which is not stored, and those after it
_CHUNK = 2**20  # bytes of a kernel that are compressed together; h5py's own chunks pack worse by a tenth
_DAY = 86_400  # seconds; no model takes as long to be written
_ENTRIES = {*layout.FILES, layout.RESULTS, layout.CARD, layout.PICTURES, "assets", ".gitattributes", *layout.PARTS[1:]}
_CAPTIONS = {
    "reconstructions": "Test images and their reconstructions",
    "samples": "Samples",
    "views": "Training images and views of them, as augmentation makes them",
    "neighbors": "Images, and those whose features lie nearest to theirs",
    "embedding": "Features of test images",
    "curves": "Training curves",
}
_SCALING = (keras.layers.Rescaling, keras.layers.Normalization)
# part -> what it maps, and the number of axes of inputs and outputs (None: any).
_SHAPES = {
    "encoder": ("raw images (B, H, W, C) -> (B, L)", (4, 2)),
    "posterior": ("raw images (B, H, W, C) -> [mean, log_var], (B, L) each", (4, 2, 2)),
    "projection": ("raw images (B, H, W, C) -> (B, P)", (4, 2)),
    "decoder": ("latents (B, L) -> images", (2, None)),
}


def write(
    folder: "str | os.PathLike",
    encoder: keras.Model,
    *,
    posterior: "keras.Model | None" = None,
    projection: "keras.Model | None" = None,
    decoder: "keras.Model | None" = None,
    model: "keras.Model | None" = None,
    pictures: "dict[str, str | os.PathLike] | None" = None,
    float16: bool = False,
    overwrite: bool = False,
    **what_is_known,
) -> Path:
    """Writes a trained model as a folder that `sslzoo.load` takes, whole or not at all.

        folder = sslzoo.publishing.write("mine", encoder, dataset="my photos", license="cc-by-4.0")

    Everything is checked first, then written beside the folder; two renames put it in place. A process killed on the
    way leaves the old model or the new one, and at most a hidden folder beside it that the next call clears away.
    (Killed between the renames, the old model is in `.<folder>.former`, which the next call puts back.)

    Args:
        folder: where to; its parent is made if need be.
        encoder: Functional or Sequential model of core Keras layers, raw images (B, H, W, C), values 0..255, ->
            (B, L). Its preprocessing is part of it: `sslzoo.networks.compose` joins the two.
        posterior, projection, decoder, model: other parts; see `sslzoo.zoo.layout` for what each takes and gives.
            They may be compiled or of mixed precision; what is written is not (a `model` keeps its precision).
        pictures: file name ("samples.png") -> image file, copied into `pictures/` and shown by the card.
        float16: store kernels (arrays of two or more axes) in half precision, compressed by HDF5. Loaded models are
            still float32. Measure what `round_to_float16` has rounded, which is what will be loaded.
        overwrite: replace a folder that holds another model. A folder with anything else in it is never replaced.
        **what_is_known: fields of results.json (`sslzoo.zoo.results`): method, dataset, recipe, metrics, seeds,
            license, remarks ... What nobody knows is left out. `name` is that of the folder unless given.

    Returns:
        Path of the folder.

    Raises:
        InvalidInputError: models, fields or pictures that do not fit; the message names which.
        ArtifactError: the folder exists and may not be replaced.
        OSError: the disk is full or cannot be written; the folder is as it was.
    """
    folder = Path(os.path.realpath(as_path(folder)))  # a link stays one
    given = {"encoder": encoder, "posterior": posterior, "projection": projection, "decoder": decoder, "model": model}
    parts = {}
    for part, each in given.items():  # a comprehension would be a frame of its own to warnings, but not in Python 3.12
        if each is not None or part == "encoder":
            parts[part] = _checked(part, each)
    pictures = pictures or {}
    _check_pictures(pictures)
    results = _completed(folder, what_is_known, parts, pictures, float16)
    with _replacing(folder, overwrite) as partial:
        partial.mkdir()
        for part, each in parts.items():
            _write_model(layout.part_folder(partial, part), each, float16)
        for file, source in pictures.items():
            (partial / layout.PICTURES).mkdir(exist_ok=True)
            shutil.copyfile(source, partial / layout.PICTURES / file)
        _write_results(partial, results)
    return folder


def copy(source: "str | os.PathLike", folder: "str | os.PathLike", without: "tuple[str, ...]" = (), **changes) -> Path:
    """Copies a model folder without some of its parts, whole or not at all, over a model that may be there.

    Args:
        source: a model folder.
        folder: where to.
        without: names of parts.
        **changes: fields of results.json to replace.
    """
    source, folder = as_path(source), Path(os.path.realpath(as_path(folder)))  # a link stays one
    results = read_results(source) | changes
    with _replacing(folder, overwrite=True) as partial:
        shutil.copytree(source, partial, ignore=lambda at, _: without if Path(at) == source else ())
        _write_results(partial, check_results(results))
    return folder


def seal(folder: "str | os.PathLike", **changes) -> bool:
    """Brings results.json and the card of a model folder up to date: its files' hashes, and `changes` to its fields.

    For a folder whose files were changed on purpose; of the folder of a run it is the model in it. Returns whether
    anything changed.

    Raises:
        ArtifactError: no results.json, or a damaged one.
        InvalidInputError: a field that is not known, or not what it should be.
    """
    folder = layout.model_in(folder) or as_path(folder)
    return _write_results(folder, check_results(read_results(folder) | changes))


def _write_results(folder, results):
    """results.json with the hashes of the folder's files, and the card. Returns whether either changed."""
    results["files"] = hashes(folder)
    if "parts" in results:  # of which some may have been deleted
        results["parts"] = {part: n for part, n in results["parts"].items() if layout.holds(folder, part)}
    if "pictures" in results:  # likewise
        results["pictures"] = [each for each in results["pictures"] if each["file"] in results["files"]]
    made = {layout.RESULTS: as_json(results, indent=2), layout.CARD: card.render(results)}
    made = {file: text.encode("utf-8") for file, text in made.items()}
    if len(made[layout.RESULTS]) > MOST_JSON:  # which nobody could read again
        raise InvalidInputError(
            f"{layout.RESULTS} must have {MOST_JSON:,} bytes at most: keep what was measured elsewhere. "
            f"Received: {len(made[layout.RESULTS]):,} bytes"
        )
    old = {file: (folder / file).read_bytes() if (folder / file).is_file() else None for file in made}
    for file, content in made.items():
        if old[file] != content:
            write_beside(folder / file, content)
    return made != old


def hashes(folder: "str | os.PathLike") -> dict[str, str]:
    """What results.json says of the files of a model folder: path -> sha256.

    Itself, the card and metadata.json are left out, which nothing is loaded from: Keras writes the date into it.
    """
    files = [file for file in layout.files(folder) if Path(file).name not in layout.UNSEALED]
    return {file: sha256(Path(folder) / file) for file in files}


# ------------------------------------------------------------------ folders


@contextlib.contextmanager
def _replacing(folder, overwrite):
    """Gives the path of a new folder beside this one, which takes its place at the end unless an error was raised."""
    partial, former = (folder.with_name(f".{folder.name}.{role}") for role in (f"{os.getpid()}.partial", "former"))
    _restore(former, folder)
    check_target(folder, overwrite)
    folder.parent.mkdir(parents=True, exist_ok=True)
    for left in folder.parent.glob(f".{glob.escape(folder.name)}.*partial"):
        with contextlib.suppress(FileNotFoundError):  # that process is done with it
            if left == partial or time.time() - left.stat().st_mtime > _DAY:  # a younger one may be another process'
                _remove(left)
    try:
        yield partial
        check_target(folder, overwrite)  # another process may have been faster
        _remove(former)
        if folder.exists():
            move(folder, former)
        try:
            move(partial, folder)
        finally:
            _restore(former, folder)
        with contextlib.suppress(OSError):  # the new one is there; a file that another process holds goes the next time
            _remove(former)
    finally:
        _remove(partial)


def _restore(former, folder):
    """Puts back what a process killed between two renames left aside."""
    if not folder.exists() and (former / layout.CONFIG).is_file():
        with contextlib.suppress(FileNotFoundError):  # somebody else was faster
            move(former, folder)


def _remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def check_target(folder: Path, overwrite: bool) -> None:
    """Raises ArtifactError unless a model can be written as that folder; changes nothing."""
    present = {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
    foreign = sorted(name for name in present - _ENTRIES if not is_left_behind(name))
    if folder.exists() and not folder.is_dir():
        reason = "there is a file of that name"
    elif folder.exists() and Path.cwd().is_relative_to(folder.resolve()):  # replaced, the shell would be nowhere
        reason = "the current folder is this one, or lies in it"
    elif foreign:
        reason = f"this one holds other files, which are left alone ({', '.join(foreign[:5])})"
    elif present & _ENTRIES and not overwrite:
        reason = "this one holds a model already, which overwrite=True replaces"
    elif not os.access(next(place for place in folder.absolute().parents if place.exists()), os.W_OK):
        reason = "there none can be written"
    else:
        return
    raise ArtifactError(f"A model is written as a folder of its own; {reason}. Received: folder={folder}")


# ------------------------------------------------------------------ results, models and pictures


def _completed(folder, facts, parts, pictures, float16):
    """Checked results of a folder to be written: what is known, and what models and pictures themselves say."""
    facts = {"name": folder.name} | {field: value for field, value in facts.items() if value is not None}
    if not is_name(facts["name"]):
        raise InvalidInputError(
            "A model is called by lower-case letters, digits, '-' and '.'; its folder's name is taken unless `name` is "
            f"given. Received: name={facts['name']!r}"
        )
    captions = {f"{layout.PICTURES}/{file}": _CAPTIONS.get(Path(file).stem, Path(file).stem) for file in pictures}
    return check_results(
        facts
        | {
            "schema": SCHEMA,
            "pictures": [{"file": file, "caption": caption} for file, caption in captions.items()],
            "input_shape": list(parts["encoder"].input_shape[1:]),
            "input_range": [int(end) if end == int(end) else end for end in input_range(parts["encoder"])],
            "features": parts["encoder"].output_shape[-1],
            "parameters": parts["encoder"].count_params(),
            "parts": {part: model.count_params() for part, model in parts.items()},
            "weights": "float16" if float16 else "float32",
            **({"requires": required} if (required := required_packages(*parts.values())) else {}),
        }
    )


def _checked(part, model):
    """The model as it will be written."""
    if part == "model":
        if not isinstance(model, keras.Model) or not model.built:
            raise InvalidInputError(f"model must be a built Keras model. Received: model={model!r}")
        return check_published(model, core=False)
    if hasattr(model, "parts") and isinstance(model, keras.Model):  # a method, whose own network sees views
        raise InvalidInputError(
            f"{part} must be a network: of a method take write(folder, **method.parts((H, W, C))). "
            f"Received: {part} of type {type(model).__name__}"
        )
    model = as_functional(part, model)
    if part == "encoder" and not any(isinstance(layer, _SCALING) for layer in model._flatten_layers()):
        warnings.warn(
            "No layer of this encoder scales its images: values 0..255 enter its first layer as they are. The network "
            'of a method sees values 0..1; publish method.parts((H, W, C))["encoder"].',
            stacklevel=3,
        )
    expected, ranks = _SHAPES[part]
    shapes = [tuple(tensor.shape) for tensor in (*model.inputs, *model.outputs)]
    fits = len(shapes) == len(ranks) and all(rank in (None, len(shape)) for rank, shape in zip(ranks, shapes))
    if not fits or model.inputs[0].dtype != "float32":
        raise InvalidInputError(
            f"{part} must map float32 {expected}; `sslzoo.networks.compose` joins preprocessing and network. Received: "
            f"inputs and outputs of shapes {shapes}, input dtype {model.inputs[0].dtype}"
        )
    if part == "encoder" and None in model.input_shape[1:]:
        raise InvalidInputError(
            "A published encoder takes images of one size: of a method write(folder, **method.parts((H, W, C))), of a "
            f"network keras.Sequential([keras.Input((H, W, C)), network]). Received: input_shape={model.input_shape}"
        )
    return check_published(model) if _is_plain(model) else compose(None, model)


def _is_plain(model):
    named = len(model.input_shape) != 4 or model.inputs[0].name == IMAGES
    return named and not any(
        isinstance(layer, keras.Model) or not layer.trainable or layer.compute_dtype != "float32"
        for layer in model.layers
    )


def _check_pictures(pictures):
    for file, source in pictures.items():
        is_name = Path(file).name == file and file.lower().endswith(layout.PICTURE_SUFFIXES)
        if not is_name or not Path(source).is_file():
            raise InvalidInputError(
                f"pictures must map file names ending in {', '.join(layout.PICTURE_SUFFIXES)} to files that exist. "
                f"Received: pictures[{file!r}]={os.fspath(source)!r}"
            )


# ------------------------------------------------------------------ weights


def round_to_float16(model: keras.Model, digits: int = FLOAT16_DIGITS) -> None:
    """Rounds weights in place to what `write(float16=True)` stores, so that what is measured is what is published.

    Args:
        digits: binary digits that kernels keep, in 1..11; of fewer, numbers repeat, and HDF5 compresses them further.

    Raises:
        InvalidInputError: `digits` out of its range.
    """
    checks.count(digits=digits)
    if digits > FLOAT16_DIGITS:
        raise InvalidInputError(f"float16 has {FLOAT16_DIGITS} binary digits. Received: {digits=}")
    for weight in model.weights:
        array = keras.ops.convert_to_numpy(weight)
        weight.assign(_half(_rounded(array, digits)).astype(weight.dtype))


def _rounded(array, digits):
    """A kernel of so many binary digits, the first included."""
    if array.ndim < 2 or digits == FLOAT16_DIGITS:
        return array
    mantissa, exponent = np.frexp(array)  # in 1/2..1
    return np.ldexp(np.round(np.ldexp(mantissa, digits)), exponent - digits).astype(array.dtype)


def _half(array):
    """Kernels as float16; vectors (biases, statistics) take no space, and numbers beyond 65504 need float32."""
    if array.dtype != "float32" or array.ndim < 2:
        return array
    with np.errstate(over="ignore"):
        half = array.astype("float16")
    return half if np.isfinite(half).all() else array


def _write_model(folder, model, float16):
    """The three files of a part. HDF5 is written in memory: on a full disk its library can crash the process."""
    folder.mkdir(exist_ok=True)
    whole, weights = folder / "whole.keras", io.BytesIO()
    try:
        model.save(whole)
        with zipfile.ZipFile(whole) as archive:
            contents = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    finally:
        whole.unlink(missing_ok=True)
    with h5py.File(io.BytesIO(contents.pop(layout.WEIGHTS)), "r") as source, h5py.File(weights, "w") as target:
        _copy_weights(source, target, float16)
    config = json.loads(contents.pop(layout.CONFIG))
    config["compile_config"] = None  # published uncompiled: a torch optimizer in it could not be used elsewhere
    contents |= {layout.CONFIG: json.dumps(config).encode(), layout.WEIGHTS: weights.getbuffer()}
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_synced(folder / name, content)


def _copy_weights(source, target, float16):
    for key, value in source.attrs.items():
        target.attrs[key] = value
    for key, value in source.items():
        if source.name == "/" and key == "optimizer":
            continue
        if isinstance(value, h5py.Group):
            _copy_weights(value, target.create_group(key), float16)
            continue
        array = _half(value[()]) if float16 else value[()]
        dataset = _create(target, key, array)
        for attribute, content in value.attrs.items():
            dataset.attrs[attribute] = content


def _create(target, key, array):
    """An array in a file of weights, compressed if it is in half precision and reading will allow it."""
    if array.dtype == "float16" and array.size:
        rows = max(1, len(array) * _CHUNK // array.nbytes)
        chunks = (min(rows, len(array)), *array.shape[1:])
        dataset = target.create_dataset(key, data=array, chunks=chunks, shuffle=True, compression="gzip")
        if array.nbytes / MOST_PACKED <= dataset.id.get_storage_size() < array.nbytes:
            return dataset
        del target[key]
    return target.create_dataset(key, data=array)
