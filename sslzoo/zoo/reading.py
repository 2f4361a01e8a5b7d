"""From the files of a model folder to a Keras model.

Each file is read once; its bytes are hashed, looked at, and given to Keras from memory. `sslzoo.zoo.weights` looks at
weights, `sslzoo.networks.composition` at configurations. SECURITY.md says what is bounded and what is not.
"""

import contextlib
import io
import json
import math
import os
import warnings
import zipfile
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256

import keras

from sslzoo.errors import ArtifactError, IntegrityError, MissingPartError, SSLZooError, choose
from sslzoo.files import MOST_JSON, as_path, refuse_pointer
from sslzoo.networks import initialization
from sslzoo.networks.composition import check_config, import_packages
from sslzoo.zoo.layout import CONFIG, PARTS, RESULTS, WEIGHTS, holds, part_files, parts
from sslzoo.zoo.results import parse_results, read_results
from sslzoo.zoo.weights import check_weights

_SPARE = 2**16  # numbers that a model may have beside those of its file: metrics, states of random layers


def read(path: "str | os.PathLike", part: str = "encoder", verify: bool = True, seal: str | None = None) -> keras.Model:
    """Reads one part of a model folder, or a `.keras` file.

    Args:
        path: model folder, or `.keras` file (which has but one part).
        part: one of `PARTS`.
        verify: check results.json, if there is one, and the files of the part against the hashes in it. False reads
            what was changed on purpose, and warns of it.
        seal: sha256 that results.json must have; None: any.

    Returns:
        Uncompiled, trainable `keras.Model`.

    Raises:
        UnknownNameError: no such kind of part.
        IntegrityError: a file is not the one that was written.
        ArtifactError: something is missing, damaged, or not allowed; the message says what and where.
    """
    path = as_path(path)
    choose("part", part, PARTS)
    if part == "model":
        import sslzoo.methods
        import sslzoo.views  # noqa: F401  registers the classes that the file names
    if path.is_file():
        config, weights = _unzipped(path, part)
        return _build(path, config, weights, part)
    _check_there(path, part)
    results = _results(path, verify, seal)
    hashes = results.get("files", {})
    config, weights = (_content(path, file, hashes, verify) for file in part_files(part))
    # What the manifest vouches for need not be counted.
    return _build((path / part_files(part)[0]).parent, config, weights, part, seal is not None and verify, results)


def _check_there(path, part):
    if not path.is_dir():
        raise ArtifactError(f"Expected the folder of a model. Received: {str(path)!r}, which does not exist")
    if not holds(path, part):
        there = parts(path)
        if there:
            message = f"The model has the parts {', '.join(there)}"
            with contextlib.suppress(SSLZooError, OSError):
                left_out = read_results(path).get("left_out", [])
                left_out = [*left_out, *["model"] * (part == "model")]  # recipes write the whole method, too
                message += f". Left out here, and written by the recipe: {', '.join(left_out)}" if left_out else ""
            raise MissingPartError(f"{message}. Received: part={part!r} of {str(path)!r}")
        inside = ", ".join(sorted(child.parent.name for child in path.glob(f"[!.]*/{CONFIG}"))[:5])
        message = f"A model folder holds {CONFIG} and {WEIGHTS}"
        message += f". There are models in it: {inside}" if inside else ""
        raise ArtifactError(f"{message}. Received: part={part!r} of {str(path)!r}")


def _read_bytes(path):
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ArtifactError(f"Expected a readable file ({error}). Received: {str(path)!r}") from error
    refuse_pointer(content, path)
    return content


def _results(path, verify, seal):
    """What results.json says; empty where there is none."""
    if not (path / RESULTS).exists() and seal is None:
        return {}
    content = _read_bytes(path / RESULTS)
    if seal is not None and (digest := sha256(content).hexdigest()) != seal:
        _differs(
            f"{path / RESULTS} is not the file that the manifest has. Give the path of the folder to load a model "
            f"of your own, restore the file, or enter the new model by `sslzoo manifest {path}`. "
            f"Expected sha256 {seal}. Received: {digest}",
            verify,
        )
    try:
        return parse_results(content, path / RESULTS)
    except ArtifactError:
        if verify:
            raise
        return {}  # whoever does not want files checked need not have whole numbers


def _content(path, file, hashes, verify):
    """Bytes of a file of the folder, which must be those that were written."""
    content = _read_bytes(path / file)
    digest = sha256(content).hexdigest()
    if hashes and hashes.get(file) != digest:
        _differs(
            f"{path / file} is not the file that {RESULTS} was written with. Restore it; or, if it was changed on "
            f"purpose, write its hash by `sslzoo seal {path}`. Expected sha256 {hashes.get(file)}. Received: {digest}",
            verify,
        )
    return content


def _differs(message, verify):
    if verify:
        raise IntegrityError(f"{message}. verify=False loads it at your own risk")
    warnings.warn(f"Loaded all the same: {message}", stacklevel=6)


def _unzipped(path, part):
    """Configuration and weights of a `.keras` file."""
    if path.suffix != ".keras":
        raise ArtifactError(f"Expected the folder of a model, or a .keras file. Received: {str(path)!r}")
    if part not in ("encoder", "model"):
        raise MissingPartError(
            f"A .keras file has no other parts than itself. Received: part={part!r} of {str(path)!r}"
        )
    try:
        with open(path, "rb") as file:
            refuse_pointer(file.read(100), path)
        with zipfile.ZipFile(path) as archive:
            # Weights hardly compress: a file of them that is much larger than the archive was made to fill memory.
            most = {CONFIG: MOST_JSON, WEIGHTS: 2 * os.path.getsize(path) + MOST_JSON}
            for name, limit in most.items():
                if (claimed := archive.getinfo(name).file_size) > limit:
                    raise ArtifactError(
                        f"{name} of a .keras file of this size may have {limit:,} bytes. "
                        f"Received: {claimed:,} bytes in '{path}'"
                    )
            return archive.read(CONFIG), archive.read(WEIGHTS)
    except ArtifactError:
        raise
    except Exception as error:  # a damaged archive has many ways to fail
        raise ArtifactError(f"Not a .keras file, or a damaged one ({error}). Received: {str(path)!r}") from error


# ------------------------------------------------------------------ build


class _Weights(io.BytesIO):
    """Weights in memory; Keras chooses how to read a file by the end of its name."""

    def __str__(self):
        return WEIGHTS


def _build(path, config, weights, part, trusted=False, results=None):
    """What `keras.saving.load_model` does, after a look at what it would build."""
    try:
        if len(config) > MOST_JSON:
            raise ValueError(f"larger than {MOST_JSON:,} bytes")
        described = json.loads(config)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"Expected a JSON file ({error}). Received: {CONFIG} of '{path}'") from error
    packages = (results or {}).get("requires", ())
    import_packages(packages)
    check_config(described, part != "model", packages)
    described["compile_config"] = None
    room = check_weights(weights, path) + _SPARE
    try:
        model = _deserialized(described) if part == "model" else _undrawn(described, None if trusted else room)
        if isinstance(model, keras.Model):
            model.load_weights(_Weights(weights))
    except SSLZooError:
        raise
    except Exception as error:  # whatever a damaged file makes Keras stumble over
        reason = " ".join(str(error).split())[:400]
        raise ArtifactError(
            f"Keras {keras.__version__} could not read this model: {type(error).__name__}: {reason}. "
            f"Received: {str(path)!r}"
        ) from error
    if not isinstance(model, keras.Model):
        raise ArtifactError(f"Expected a Keras model. Received: {type(model).__name__} in {str(path)!r}")
    return model


def _deserialized(config):
    return keras.saving.deserialize_keras_object(json.loads(json.dumps(config)), safe_mode=True)


def _undrawn(config, room):
    """The model of a configuration, its weights all zero: to draw what a file replaces costs seconds under JAX."""
    if room is not None:
        _check_size(config, room)
    model = _deserialized(initialization.defer_config(config))
    return initialization.restore(model) if isinstance(model, keras.Model) else model


def _check_size(config, room):
    """Raises if a configuration asks for more numbers than `room`, before any of them takes memory.

    Variables that are made in a stateless scope have shapes and no values. Keras remembers them in the state of its
    thread, to draw them when another scope ends: in a thread of their own they are forgotten with it.
    """

    def shapes():
        with keras.StatelessScope(initialize_variables=False):
            model = _deserialized(config)
            return [tuple(variable.shape) for variable in getattr(model, "variables", ())]

    with ThreadPoolExecutor(1) as thread:
        wanted = thread.submit(shapes).result()
    numbers = sum(map(math.prod, wanted))
    if numbers > room:
        raise ArtifactError(
            f"{CONFIG} must describe the model that the weights are of, and asks for more numbers than their file "
            f"holds. Received: {numbers:,} numbers, of them a weight of shape {max(wanted, key=math.prod)}"
        )
