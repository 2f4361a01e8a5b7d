"""Trained models as folders: composed, written whole or not at all, checked, and read back.

What such a folder holds is described in `sslzoo.zoo.layout`, what its results.json says in `sslzoo.zoo.results`.
"""

import contextlib
import ctypes
import io
import json
import math
import os
import shutil
import sys
import tempfile
import threading
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import h5py
import keras
import numpy as np

from sslzoo import checks
from sslzoo.errors import ArtefactError, IntegrityError, InvalidInputError, MissingPartError, SSLZooError, choose
from sslzoo.files import MOST_JSON, read_json, sha256, write_beside, write_synced
from sslzoo.networks import initialization
from sslzoo.networks.composition import as_functional, check_config, check_published, compose
from sslzoo.zoo import card as cards
from sslzoo.zoo.layout import (
    CARD,
    CONFIG,
    METADATA,
    PARTS,
    PICTURE_SUFFIXES,
    PICTURES,
    RESULTS,
    WEIGHTS,
    files,
    part_folder,
    parts,
)
from sslzoo.zoo.results import SCHEMA, check_results, read_results

LEFT_OUT = "Left out here for size, and written by the recipe"  # how a remark on parts begins
PACKED = "To save space kernels "  # how a remark on rounding begins
BITS = 4  # binary digits after the first that a packed kernel keeps (docs/choices.md)
MOST_PACKED = 8  # times that compression may shrink a kernel: a file must not claim more memory than is decent
WORTH_PACKING = 2**16  # bytes of a kernel
CHUNK = 2**20  # bytes of it that are compressed together
_ENTRIES = {CONFIG, METADATA, WEIGHTS, RESULTS, CARD, PICTURES, "assets", ".gitattributes", *PARTS[1:]}
_CAPTIONS = {
    "reconstructions": "Test images and their reconstructions",
    "samples": "Samples",
    "views": "Training images and views of them, as augmentation makes them",
    "neighbours": "Images, and those whose features lie nearest to theirs",
    "embedding": "Features of test images",
    "curves": "Training curves",
}


# ------------------------------------------------------------------ write


def write(
    folder: "str | os.PathLike",
    parts: dict[str, keras.Model],
    results: dict,
    card: str | None = None,
    pictures: "dict[str, str | os.PathLike] | None" = None,
    float16: bool = False,
    overwrite: bool = False,
    approve: "Callable[[Path], object] | None" = None,
) -> Path:
    """Writes a trained model as a folder, whole or not at all.

    Everything is checked first, then written beside the folder, and the two change places at one stroke. A process
    killed on the way leaves the old model or the new one, and at most a hidden folder beside it that the next call
    clears away. (Where the system cannot exchange folders, as outside Linux, two renames do it; killed between them,
    the old model is in `.<folder>.former`, which the next call puts back.)

    Args:
        folder: where to; its parent is made if need be.
        parts: part ("encoder", and "posterior", "decoder", "model") -> model; see `sslzoo.zoo.layout` for what
            each takes and gives. Models may be compiled or of mixed precision; what is written is not (a `model`
            keeps its precision).
        results: dict as described in `sslzoo.zoo.results`.
        card: str, Markdown for README.md; by default `card.render` of the completed results.
        pictures: file name ("samples.png") -> image file, copied into `pictures/`. Captions are those in
            `results["pictures"]`, where a file is named as "pictures/samples.png".
        float16: round kernels (arrays of two or more axes) to half precision in the file, and compress them as HDF5
            does: less than half the size. Models are still float32 once loaded. Evaluate what `read` gives back, which
            differs a little from what was trained, or what `round_weights` has rounded.
        overwrite: replace a folder that holds another model. A folder with anything else in it is never replaced.
        approve: callable, given the new folder when it is whole, before it takes its place. What it raises leaves
            everything as it was: how well weights pack is known only once they are written.

    Returns:
        Path of the folder.

    Raises:
        InvalidInputError: parts, results or pictures that do not fit; the message names the field.
        ArtefactError: the folder exists and may not be replaced.
        OSError: the disk is full or cannot be written; the folder is as it was.
    """
    folder = Path(os.path.abspath(folder))
    _restore(folder)
    check_target(folder, overwrite)
    parts = _check_parts(parts)
    sources = _check_pictures(pictures or {})
    results = check_results(_complete(results, parts, sources, float16))
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = folder.with_name(f".{folder.name}.partial")
    _remove(partial)
    partial.mkdir()
    try:
        for part, model in parts.items():
            _write_model(partial if part == "encoder" else partial / part, model, float16)
        if sources:
            (partial / PICTURES).mkdir()
        for file, source in sources.items():
            shutil.copyfile(source, partial / PICTURES / file)
        results["files"] = hashes(partial)
        write_synced(partial / RESULTS, _json(results).encode("utf-8"))
        write_synced(partial / CARD, (cards.render(results) if card is None else card).encode("utf-8"))
        if approve is not None:
            approve(partial)
        _put_in_place(partial, folder)
    finally:
        _remove(partial)
    return folder


def hashes(folder: "str | os.PathLike") -> dict[str, str]:
    """What results.json says of the files of a model folder: path -> sha256.

    Itself, the card and metadata.json are left out, which nothing is loaded from: Keras writes the date into it.
    """
    left_out = {RESULTS, CARD, METADATA}
    return {file: facts["sha256"] for file, facts in files(folder).items() if Path(file).name not in left_out}


def seal(folder: "str | os.PathLike", **changes) -> bool:
    """Brings results.json and the card of a model folder up to date: its files' hashes, and `changes` to its fields.

    For a folder written before results.json had hashes, or whose files were changed on purpose.

    Args:
        folder: a model folder.
        **changes: fields of results.json to replace (`metrics=...`, `evaluation=...`).

    Returns:
        bool, whether anything changed.

    Raises:
        ArtefactError: no results.json, or a damaged one.
        InvalidInputError: a field that is none, or not what it should be.
    """
    folder = Path(folder)
    results = check_results(read_results(folder) | changes | {"files": hashes(folder)})
    made = {RESULTS: _json(results), CARD: cards.render(results)}
    old = {file: (folder / file).read_text("utf-8") if (folder / file).is_file() else None for file in made}
    for file, text in made.items():
        if old[file] != text:
            write_beside(folder / file, text.encode("utf-8"))
    return made != old


def take_out(folder: "str | os.PathLike", names: "list[str]", **changes) -> None:
    """Takes parts out of a model folder, all or none; what stays keeps its bytes.

    Args:
        folder: a model folder.
        names: of parts that it holds, and not "encoder".
        **changes: fields of results.json to replace, such as `remarks`.

    Raises:
        ArtefactError: a part that is not there or that every model needs, no results.json, or a damaged one.
        IntegrityError: a file is not the one that was written; `seal` is for what was changed on purpose.
        UnknownNameError, InvalidInputError: a field that is none, or not what it should be.
        OSError: the disk is full or cannot be written; the folder is as it was.
    """
    with _a_copy(folder, without=names) as (copy, results):
        there = [part for part in parts(folder) if part != "encoder"]
        if strange := [part for part in names if part not in there]:
            raise ArtefactError(f"Of {str(folder)!r} one can take out {there}. Received: names={strange}")
        counts = {part: count for part, count in results["parts"].items() if part not in names}
        seal(copy, parts=counts, **changes)


def compress(folder: "str | os.PathLike") -> int:
    """Packs the weights of a model folder as `write` packs them today; every number stays as it is.

    Args:
        folder: a model folder, written perhaps by an earlier version.

    Returns:
        int >= 0, bytes by which the folder is smaller now. With 0 nothing was touched.

    Raises:
        ArtefactError: no results.json, or a damaged one.
        IntegrityError: a file is not the one that was written.
        OSError: the disk is full or cannot be written; the folder is as it was.
    """
    with _a_copy(folder) as (copy, _):
        saved = sum(_write_smaller(file) for file in copy.rglob(WEIGHTS))
        if not saved:
            return 0
        seal(copy)
    return saved


def _write_smaller(path):
    """Writes a file of weights again, if that saves a fiftieth of it. Returns the bytes that it saves."""
    smaller = io.BytesIO()
    with h5py.File(path, "r") as source, h5py.File(smaller, "w") as target:
        _copy_weights(source, target, float16=False)
    saved = path.stat().st_size - smaller.getbuffer().nbytes
    if saved < path.stat().st_size / 50:
        return 0
    write_beside(path, smaller.getvalue())
    return saved


@contextlib.contextmanager
def _a_copy(folder, without=()):
    """A copy of a model folder to change, and its results; it takes the folder's place, if it differs by then."""
    folder = Path(os.path.abspath(folder))
    _restore(folder)
    results, found = read_results(folder), hashes(folder)
    if changed := sorted(file for file, sha in results.get("files", found).items() if found.get(file) != sha):
        raise IntegrityError(f"Expected every file as results.json has it. Received: {changed} of {str(folder)!r}")
    partial = folder.with_name(f".{folder.name}.partial")
    _remove(partial)
    try:
        shutil.copytree(folder, partial, ignore=lambda at, _: without if Path(at) == folder else ())
        yield partial, results
        if files(partial) != files(folder):
            _put_in_place(partial, folder)
    finally:
        _remove(partial)


def _former(folder):
    return folder.with_name(f".{folder.name}.former")


def _put_in_place(partial, folder):
    """The new folder where the old one was, which is removed."""
    if not folder.exists():
        os.replace(partial, folder)
        return
    if _exchange(partial, folder):
        return
    former = _former(folder)
    _remove(former)
    os.replace(folder, former)
    try:
        os.replace(partial, folder)
    except BaseException:
        os.replace(former, folder)
        raise
    _remove(former)


def _exchange(one, other):
    """Whether two folders have changed places, at one stroke (Linux' renameat2)."""
    if not sys.platform.startswith("linux"):
        return False
    here, swap = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):  # a C library without it
        return False
    return rename(here, os.fsencode(one), here, os.fsencode(other), swap) == 0


def _restore(folder):
    """Puts back what a process killed between two renames left aside."""
    former = _former(folder)
    if not folder.exists() and (former / CONFIG).is_file():
        with contextlib.suppress(FileNotFoundError):  # somebody else was faster
            os.replace(former, folder)


def check_target(folder: Path, overwrite: bool) -> None:
    """Raises ArtefactError unless a model can be written as that folder; changes nothing."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ArtefactError(
            f"A model is written as a folder, and there is a file of that name. Received: folder={folder}"
        )
    present = {entry.name for entry in folder.iterdir()}
    foreign = sorted(present - _ENTRIES)
    if foreign:
        raise ArtefactError(
            "A model needs a folder of its own; this one holds other files, which are left alone "
            f"({', '.join(foreign[:5])}{' ...' if len(foreign) > 5 else ''}). Received: folder={folder}"
        )
    if present and not overwrite:
        raise ArtefactError(
            "The folder holds a model already. Give another folder, or overwrite=True to replace that model. "
            f"Received: folder={folder}"
        )


def _check_parts(parts):
    if not isinstance(parts, dict) or "encoder" not in parts:
        raise InvalidInputError(f"parts must be a dict with an encoder. Received: parts={parts!r}")
    checked = {}
    for part, model in sorted(parts.items(), key=lambda item: PARTS.index(choose("part", item[0], PARTS))):
        if part == "model":
            if not isinstance(model, keras.Model) or not model.built:
                raise InvalidInputError(f"parts['model'] must be a built Keras model. Received: {model!r}")
            checked[part] = check_published(model, core=False)
            continue
        model = as_functional(f"parts[{part!r}]", model)
        shapes = [tuple(tensor.shape) for tensor in (*model.inputs, *model.outputs)]
        ranks = {"encoder": [4, 2], "posterior": [4, 2, 2], "projection": [4, 2], "decoder": [2, None]}[part]
        fits = len(shapes) == len(ranks) and all(rank in (None, len(shape)) for rank, shape in zip(ranks, shapes))
        if not fits or model.inputs[0].dtype != "float32":
            expected = {
                "encoder": "raw images (B, H, W, C) -> (B, L)",
                "posterior": "raw images (B, H, W, C) -> [mean, log_var], (B, L) each",
                "projection": "raw images (B, H, W, C) -> (B, P)",
                "decoder": "latents (B, L) -> images",
            }[part]
            raise InvalidInputError(
                f"parts[{part!r}] must map float32 {expected}; see artefact.compose. Received: inputs and outputs "
                f"of shapes {shapes}, input dtype {model.inputs[0].dtype}"
            )
        checked[part] = check_published(model) if _is_plain(model) else compose(None, model)
    return checked


def _is_plain(model):
    return not any(
        isinstance(layer, keras.Model) or not layer.trainable or layer.compute_dtype != "float32"
        for layer in model.layers
    )


def _check_pictures(pictures):
    sources = {}
    for file, source in pictures.items():
        if Path(file).name != file or not file.lower().endswith(PICTURE_SUFFIXES):
            raise InvalidInputError(
                f"pictures must map file names ending in {', '.join(PICTURE_SUFFIXES)} to files. "
                f"Received: pictures[{file!r}]"
            )
        if not Path(source).is_file():
            raise InvalidInputError(f"pictures[{file!r}] must be an existing file. Received: {os.fspath(source)!r}")
        sources[file] = Path(source)
    return sources


def _complete(results, parts, sources, float16):
    """Results with what the models and pictures themselves say."""
    if not isinstance(results, dict):
        raise InvalidInputError(f"results must be a dict. Received: results={results!r}")
    captioned = {entry.get("file"): entry for entry in results.get("pictures") or [] if isinstance(entry, dict)}
    missing = [file for file in captioned if not isinstance(file, str) or Path(file).name not in sources]
    if missing:
        raise InvalidInputError(
            f"results['pictures'] must name files that are given as pictures, {sorted(sources)}. Received: {missing}"
        )
    captions = {f"{PICTURES}/{file}": _CAPTIONS.get(Path(file).stem, Path(file).stem) for file in sources}
    encoder = parts["encoder"]
    return results | {
        "schema": SCHEMA,
        "pictures": [captioned.get(file, {"file": file, "caption": caption}) for file, caption in captions.items()],
        "input_shape": list(encoder.input_shape[1:]),
        "input_range": [0, 255],
        "features": encoder.output_shape[-1],
        "parameters": encoder.count_params(),
        "parts": {part: model.count_params() for part, model in parts.items()},
        "weights": "float16" if float16 else "float32",
    }


def _write_model(folder, model, float16):
    """The three files of a part. HDF5 is written in memory: on a full disk its library can crash the process."""
    folder.mkdir(exist_ok=True)
    whole, weights = folder / "whole.keras", io.BytesIO()
    try:
        model.save(whole)
        with zipfile.ZipFile(whole) as archive:
            files = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    finally:
        whole.unlink(missing_ok=True)
    with h5py.File(io.BytesIO(files.pop(WEIGHTS)), "r") as source, h5py.File(weights, "w") as target:
        _copy_weights(source, target, float16)
    config = json.loads(files.pop(CONFIG))
    config["compile_config"] = None  # published uncompiled: a torch optimizer in it could not be used elsewhere
    files |= {CONFIG: json.dumps(config).encode(), WEIGHTS: weights.getbuffer()}
    for name, content in files.items():
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
        array = value[()]
        if float16:
            array = _half(array)
        copy = _pack(target, key, array) if array.dtype == "float16" else target.create_dataset(key, data=array)
        for attribute, content in value.attrs.items():
            copy.attrs[attribute] = content


def _half(array):
    """Kernels as float16; vectors (biases, statistics) take no space, and numbers beyond 65504 need float32."""
    if array.dtype != "float32" or array.ndim < 2:
        return array
    with np.errstate(over="ignore"):
        half = array.astype("float16")
    return half if np.isfinite(half).all() else array


def _pack(target, key, array):
    """A kernel behind HDF5's own compression, which every reader of it undoes, as far as `_check_weights` lets in."""
    if array.nbytes >= WORTH_PACKING:
        rows = max(1, len(array) * CHUNK // array.nbytes)  # h5py's own chunks, of some 12 kB, pack worse by a tenth
        chunks = (min(rows, len(array)), *array.shape[1:])
        copy = target.create_dataset(
            key, data=array, chunks=chunks, shuffle=True, compression="gzip", compression_opts=9
        )
        if array.nbytes / MOST_PACKED <= copy.id.get_storage_size() < array.nbytes:
            return copy
        del target[key]
    return target.create_dataset(key, data=array)


def round_weights(model: keras.Model, bits: int | None = None) -> None:
    """Rounds the weights to what `write(float16=True)` stores, so that what is evaluated is what is published.

    Args:
        model: changed in place. Vectors (biases, statistics) stay as they are.
        bits: binary digits that a kernel's numbers keep after the first, 0..10. Fewer pack better: with 4 to about 0.5
            of their size (docs/choices.md). None for float16 as it is, which keeps 10 and packs to 0.87.

    Raises:
        InvalidInputError: bits is no whole number 0..10.
    """
    if bits is not None and checks.count(0, bits=bits) > 10:
        raise InvalidInputError(
            f"bits must be a whole number 0..10 (float16 has no more), or None. Received: bits={bits}"
        )
    for weight in model.weights:
        array = keras.ops.convert_to_numpy(weight)
        if bits is not None and array.dtype == "float32" and array.ndim >= 2:
            fraction, exponent = np.frexp(array)  # 0.5 <= |fraction| < 1: its first binary digit is a one
            array = np.ldexp(np.round(np.ldexp(fraction, bits + 1)), exponent - bits - 1)
        weight.assign(_half(array).astype("float32"))


def _remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _json(value):
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


# ------------------------------------------------------------------ read


def read(path: "str | os.PathLike", part: str = "encoder", verify: bool = True) -> keras.Model:
    """Reads one part of a model folder, or a `.keras` file.

    Files are looked at before Keras opens them: a configuration that names anything but Keras' own classes (unless
    part is "model"), that runs code or reads other files, and weights that link elsewhere are refused. Keras' safe mode
    is on.

    Args:
        path: model folder, or `.keras` file (which has but one part).
        part: one of `PARTS`.
        verify: also check results.json, if there is one, and the files of the part against the hashes in it. False
            reads what was changed on purpose, and warns of it.

    Returns:
        Uncompiled, trainable `keras.Model`.

    Raises:
        UnknownNameError: no such kind of part.
        IntegrityError: a file is not the one that was written.
        ArtefactError: something is missing, damaged, or not allowed; the message says what and where.
    """
    path = Path(path)
    choose("part", part, PARTS)
    if part == "model":
        import sslzoo.methods
        import sslzoo.views  # noqa: F401  registers the classes that the file names
    if path.is_file():
        return _read_file(path, part)
    if not path.is_dir():
        raise ArtefactError(f"Expected the folder of a model. Received: {str(path)!r}, which does not exist")
    where = part_folder(path, part)
    if not (where / CONFIG).is_file():
        held, inside = parts(path), sorted(child.parent.name for child in path.glob(f"[!.]*/{CONFIG}"))
        has = f"The model has the parts {', '.join(held)}" if held else f"A model folder holds {CONFIG} and {WEIGHTS}"
        if inside and not held:
            has += f". There are models in it: {', '.join(inside[:5])}"
        with contextlib.suppress(SSLZooError, OSError):
            told = [remark for remark in read_results(path).get("remarks", []) if remark.startswith(LEFT_OUT)]
            has += "".join(f". {remark.rstrip('.')}" for remark in told)
        kind = MissingPartError if held else ArtefactError
        raise kind(f"{has}. Received: part={part!r} of {str(path)!r}")
    if not (where / WEIGHTS).is_file():
        raise ArtefactError(f"The weights are missing: {where / WEIGHTS}. Received: part={part!r} of {str(path)!r}")
    config = read_json(where / CONFIG)
    check_config(config, core=part != "model")
    held = _check_weights(where / WEIGHTS)
    if (path / RESULTS).exists():
        _check_hashes(path, where, verify)
    return _guarded(where, lambda: _build(config, where / WEIGHTS, held))


def _check_hashes(path, where, verify):
    """Whether the files of a part are those that results.json was written with, where it says so."""
    try:
        expected = read_results(path).get("files", {})
    except ArtefactError:
        if verify:
            raise
        return  # whoever does not want files checked need not have whole numbers
    for file in (CONFIG, WEIGHTS):
        name = (where / file).relative_to(path).as_posix()
        if expected and expected.get(name) != (here := sha256(where / file)):
            reason = (
                f"{where / file} is not the file that {RESULTS} beside it was written with. "
                f"Expected sha256 {expected.get(name)}. Received: {here}"
            )
            if verify:
                raise IntegrityError(
                    "Restore the file; or, if it was changed on purpose, load it with verify=False, or write its hash "
                    f"by `sslzoo seal {path}`. {reason}"
                )
            warnings.warn(f"Loaded all the same: {reason}", stacklevel=5)


def _read_file(path, part):
    if path.suffix != ".keras":
        raise ArtefactError(f"Expected the folder of a model, or a .keras file. Received: {str(path)!r}")
    if part not in ("encoder", "model"):
        raise MissingPartError(
            f"A .keras file has no other parts than itself. Received: part={part!r} of {str(path)!r}"
        )
    try:
        with zipfile.ZipFile(path) as archive:
            config = json.loads(_unpack(archive, CONFIG, MOST_JSON))
            # Weights hardly compress: a file of them that is much larger than the archive was made to fill memory.
            weights = _unpack(archive, WEIGHTS, 2 * os.path.getsize(path) + MOST_JSON)
    except ArtefactError:
        raise
    except Exception as error:  # a damaged archive has many ways to fail
        raise ArtefactError(f"Not a .keras file, or a damaged one ({error}). Received: {str(path)!r}") from error
    check_config(config, core=part != "model")
    with tempfile.TemporaryDirectory() as scratch:  # Keras loads weights by their path
        unpacked = Path(scratch) / WEIGHTS
        unpacked.write_bytes(weights)
        held = _check_weights(unpacked)
        return _guarded(path, lambda: _build(config, unpacked, held))


def _unpack(archive, name, most):
    """Bytes of one file of an archive, which says beforehand how many they are."""
    claimed = archive.getinfo(name).file_size
    if claimed > most:
        raise ArtefactError(
            f"{name} of a .keras file of this size may have {most:,} bytes. "
            f"Received: {claimed:,} bytes in '{archive.filename}'"
        )
    return archive.read(name)


def _guarded(path, build):
    try:
        model = build()
    except SSLZooError:
        raise
    except Exception as error:  # whatever a damaged file makes Keras stumble over
        reason = str(error).strip().split("\n")[0][:300]
        raise ArtefactError(
            f"Keras {keras.__version__} could not read this model: {type(error).__name__}: {reason}. "
            f"Received: {str(path)!r}"
        ) from error
    if not isinstance(model, keras.Model):
        raise ArtefactError(f"Expected a Keras model. Received: {type(model).__name__} in {str(path)!r}")
    return model


def _check_weights(path):
    """How many numbers a file of weights holds. Raise if it is damaged, or makes HDF5 open other files."""
    elsewhere, seen, held, taken, size = [], set(), 0, 0, os.path.getsize(path)

    def look(name, link):  # h5py garbles errors that are raised here; its own objects are slow, so below them
        nonlocal held, taken
        inside = link.type == h5py.h5l.TYPE_HARD
        if inside and isinstance(item := h5py.h5o.open(file.id, name), h5py.h5d.DatasetID):
            address = h5py.h5o.get_info(item).addr
            how = item.get_create_plist()
            inside = item.shape is not None  # "null": a dataset without room for anything
            inside = inside and how.get_layout() != h5py.h5d.VIRTUAL and how.get_external_count() == 0
            if inside and address not in seen:  # each once, however many names it has
                seen.add(address)
                numbers = math.prod(item.shape)
                # What is compressed, or was never written, can claim any size: as much as `_pack` does, and no more.
                least = numbers * item.dtype.itemsize / (MOST_PACKED if _as_packed(how) else 1)
                inside = item.get_storage_size() >= least
                held += numbers
                taken += least
        if not inside:
            elsewhere.append(name.decode("utf-8", "replace"))

    try:
        with h5py.File(path, "r") as file:
            file.id.links.visit(look, info=True)
    except Exception as error:  # so has a damaged HDF5 file
        raise ArtefactError(
            f"The weights cannot be read; the file is damaged or cut short ({error}). Received: '{path}'"
        ) from error
    if elsewhere or taken > size:
        raise ArtefactError(
            f"Weights must be in the file itself, not elsewhere, and packed at most {MOST_PACKED} times. "
            f"Received: {elsewhere[:3] or f'{taken:,.0f} bytes in a file of {size:,}'} in '{path}'"
        )
    return held


def _as_packed(how):
    """Whether a dataset is compressed as `_pack` does it."""
    filters = [how.get_filter(n)[0] for n in range(how.get_nfilters())]
    return filters == [h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_DEFLATE]


_building = threading.Lock()
_SPARE = 2**16  # numbers that a model may have beside those of its file: metrics, states of random layers


class _Room:
    """While open, the variables that this thread makes are counted, and their initial values not drawn.

    A configuration that claims more numbers than the file of weights holds must not fill the memory. Variables are
    counted where they are made, whoever asks for them: layers have many ways to name a size. And what the weights of
    the file replace at once need not be drawn: that would cost seconds under JAX, one compilation for each shape.

    Args:
        numbers: int, how many there may be.
    """

    def __init__(self, numbers):
        self.left = numbers
        self.refusal = None

    def __enter__(self):
        _building.acquire()
        make, owner = keras.Variable.__init__, threading.get_ident()
        self._own = vars(keras.Variable).get("__init__")

        def counted(variable, initializer, shape=None, *args, **kwargs):
            if threading.get_ident() == owner:
                self.count(np.shape(initializer) if shape is None else shape)
                if isinstance(initializer, (str, keras.initializers.Initializer)):
                    initializer = keras.initializers.Zeros()
            make(variable, initializer, shape, *args, **kwargs)

        keras.Variable.__init__ = counted
        self._from_config = vars(keras.Sequential)["from_config"]
        usual = keras.Sequential.from_config

        def at_once(kind, config, custom_objects=None):
            if threading.get_ident() != owner or kind is not keras.Sequential or not _is_plain_row(config):
                return usual(config, custom_objects)
            return _in_a_row(config, custom_objects)

        keras.Sequential.from_config = classmethod(at_once)

        def claimed(shape):
            if threading.get_ident() == owner:
                self.check(shape)

        initialization._guard = claimed
        return self

    def __exit__(self, *error):
        initialization._guard = None
        keras.Sequential.from_config = self._from_config
        if self._own is None:  # it was inherited
            del keras.Variable.__init__
        else:
            keras.Variable.__init__ = self._own
        _building.release()
        if self.refusal is not None:  # Keras may have wrapped it in an error of its own
            raise self.refusal

    def count(self, shape):
        self.left -= self.check(shape)

    def check(self, shape):
        numbers = math.prod(size for size in shape if size is not None)
        if numbers > self.left:
            self.refusal = ArtefactError(
                f"{CONFIG} must describe the model that the weights are of, and asks for more numbers than their file "
                f"holds. Received: a weight of shape {tuple(shape)}"
            )
            raise self.refusal
        return numbers


def _is_plain_row(config):
    """Whether it is the configuration of a Sequential model as Keras 3 writes it."""
    layers = config.get("layers")
    return bool(layers) and "name" in config and all("module" in layer for layer in layers)


def _in_a_row(config, custom_objects):
    """What `keras.Sequential.from_config` does, which builds the model anew with every layer it adds: hundreds of them
    take minutes."""
    layers = [keras.saving.deserialize_keras_object(layer, custom_objects=custom_objects) for layer in config["layers"]]
    model = keras.Sequential(layers, name=config["name"])
    shape = config.get("build_input_shape")
    if not model.built and shape and isinstance(shape, (tuple, list)):
        model.build(shape)
    return model


def _build(config, weights, held):
    """What `keras.saving.load_model` does, without drawing initial weights. `held`: numbers in the file of weights."""
    config["compile_config"] = None
    with _Room(held + _SPARE):
        model = keras.saving.deserialize_keras_object(config, safe_mode=True)
        if isinstance(model, keras.Model):
            model.load_weights(weights)
    return model
