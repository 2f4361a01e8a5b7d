"""The zoo: load a trained model by name or path, and list what there is.

A name stands for an entry of the manifest (`sslzoo.zoo.index`); `load` says where it is looked for. Wherever the files
come from, the manifest has the hash of results.json, and results.json has those of the others: they are checked before
Keras opens them.
"""

import copy
import math
import os
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from sslzoo import checks
from sslzoo.environment import check_backend
from sslzoo.errors import ArtifactError, HubError, InvalidInputError, MissingPartError, SSLZooError, choose, plain
from sslzoo.files import as_path, is_named, is_path
from sslzoo.zoo import index, layout
from sslzoo.zoo.listing import Model, Models
from sslzoo.zoo.results import read_results, tag_of

if TYPE_CHECKING:
    import keras

# ------------------------------------------------------------------ load


def load(
    name_or_path: "str | os.PathLike",
    part: str = "encoder",
    revision: str | None = None,
    verify: bool = True,
    *,
    name: str | None = None,
    dtype: "str | keras.DTypePolicy | None" = None,
    output_range: tuple[float, float] = (0, 1),
) -> "keras.Model":
    """Loads a trained model: a plain Keras model that takes raw images.

        encoder = sslzoo.load("simvae-mnist")
        features = encoder.predict(images)  # uint8 (B, 28, 28, 1) -> float32 (B, 10)
        decoder = sslzoo.load("simvae-mnist", part="decoder", output_range=(0, 255))
        encoder.predict(decoder.predict(features))  # there and back again

    Images must have values 0..255. With `images / 255` all images look black, and get nearly the same features.

        sslzoo.load("runs/mine")                     # a model folder, the folder of a run, or a .keras file
        sslzoo.load("hf://someone/their-model")      # anyone's repository on the Hugging Face Hub, newest commit
        sslzoo.load("hf://someone/their-model@v1")   # a tag, branch or commit of it

    A model folder, a run's folder with one model in it, or a `.keras` file of that path comes first; then a name is
    looked for in the folder that the environment variable SSLZOO_WEIGHTS names, among the encoders that an installed
    package carries (in `weights/` of a checkout), in the cache of the Hugging Face Hub, and on the Hub, at the commit
    that the manifest pins. Only the files of that part are downloaded. What the cache holds is used without asking the
    Hub, except for a branch or tag, which may have moved; HF_HUB_OFFLINE=1 keeps from asking even then.

    Args:
        name_or_path: model folder, `.keras` file, name such as "simvae-mnist", or "hf://organization/name[@revision]".
        part: "encoder": raw images (B, H, W, C), values 0..255, uint8 or float -> (B, L);
            "posterior": the same -> [mean, log_var]; "projection": the same -> (B, P), after the projection head;
            "decoder": (B, L) -> images in `output_range`; "network": the encoder without its preprocessing, views (B,
            H, W, C) as `Views` makes them -> (B, L), to go on training; "model": the whole training method.
        revision: commit, tag or branch of the Hub repository, instead of the one that the manifest pins.
        verify: check files before use: those of a name against the manifest, those of a repository against what the
            Hub says of them, those of a folder against its results.json. A cached file that fails is downloaded again,
            once. False loads what was changed on purpose, and warns of it.
        name: of the Keras model; None for that of `name_or_path`, and of the part ("simvae-mnist-decoder").
        dtype: policy that the layers compute in, such as "mixed_bfloat16", which leaves preprocessing and outputs in
            float32; None for the one that it was saved with.
        output_range: (low, high), finite, low < high: the values that a decoder gives to black and white.

    Returns:
        `keras.Model`, uncompiled and trainable, on the active backend. All but "model" consist of core Keras layers.

    Raises:
        UnknownNameError: no model or part of that name; the nearest names are given.
        ArtifactError: the model lacks that part, or its files are missing or damaged.
        IntegrityError: a file is not the one that was published.
        HubError: the Hub could not be reached, refused, or has no such model; the message says what to do.
        ManifestError: the manifest is damaged.
        InvalidInputError: `revision` of what is not on the Hub, or two revisions that differ; a `name` that Keras
            refuses; an `output_range` that is no interval, or of another part than a decoder.
    """
    choose("part", part, (*layout.PARTS, "network"))
    if name is not None and (not isinstance(name, str) or not name or "/" in name):
        raise InvalidInputError(f"name must be a text without '/'. Received: name={name!r}")
    if dtype is not None and part == "model":
        raise InvalidInputError(f"A whole method keeps its precision; leave dtype out. Received: dtype={dtype!r}")
    low, high = checks.interval(-math.inf, math.inf, output_range=output_range)
    if low == high:
        raise InvalidInputError(f"output_range must be (low, high), low < high. Received: {output_range=}")
    if (low, high) != (0, 1) and part != "decoder":
        raise InvalidInputError(f"Only a decoder has an output_range. Received: {output_range=}, {part=}")
    stored = "encoder" if part == "network" else part
    path, seal = _find(name_or_path, stored, revision, verify)
    check_backend()
    from sslzoo.networks import composition
    from sslzoo.zoo import reading

    policy = None if dtype is None else composition.dtype_policy(dtype)
    model = reading.read(path, stored, verify, seal)
    if part == "network":
        model, policy = composition.without_preprocessing(model, policy), None
    if (low, high) != (0, 1):
        model = composition.stretched(model, low, high)
    if policy is not None:
        model = composition.with_policy(model, policy)
    model.name = name or _model_name(name_or_path, path) + ("" if part == "encoder" else f"-{part}")
    return model if part == "model" else composition.guarded(model)


def _model_name(name_or_path, path):
    """What a loaded model is called: as the zoo does, or as its results, its repository or its file do."""
    text = str(name_or_path)
    if _is_address(text):
        text = text.partition("@")[0].rpartition("/")[2]
    elif as_path(name_or_path) in (path, path.parent):
        try:
            text = read_results(path)["name"]
        except (SSLZooError, OSError):
            text = path.resolve().stem
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", str(text)).strip("-.") or "encoder"


def _find(name_or_path, part, revision, verify):
    """Path of a folder or file on this machine that holds the part, and the sha256 of its results.json, if known."""
    if _is_address(name_or_path):
        return _fetch(*_repository(name_or_path, revision), part, verify), None
    folder, entry = _look_up(name_or_path)
    if entry is None:
        _refuse_revision(revision, folder)
        return folder, None
    is_pinned = revision in (None, entry["revision"])
    if folder is not None and is_pinned and (layout.holds(folder, part) or part not in entry["parts"]):
        return folder, entry["sha256"]
    if entry["revision"] is None and revision is None:
        _refuse_unpublished(name_or_path, folder, part, entry)
    if entry["repository"] is None:
        _refuse_revision(revision, name_or_path)
    if is_pinned and part not in entry["parts"]:
        raise MissingPartError(
            f"The model has the parts {', '.join(entry['parts'])}. Received: part={part!r} of {name_or_path!r}"
        )
    seal = entry["sha256"] if is_pinned else None
    return _fetch(entry["repository"], revision or entry["revision"], part, verify, seal), seal


def _is_address(name_or_path):
    return isinstance(name_or_path, str) and name_or_path.startswith(index.SCHEME)


def _repository(where, revision):
    """Repository and revision of an address; raises if it names another one."""
    from sslzoo.zoo import hub

    repository, stated = hub.parse(where)
    if stated and revision and stated != revision:
        raise InvalidInputError(
            f"The path and the argument must name one revision. Received: {where!r}, revision={revision!r}"
        )
    return repository, stated or revision


def _refuse_unpublished(name, local, part, entry):
    searched = " or ".join(map(str, weight_folders()))
    what = name if local is None else f"part {part!r} of {name}"
    train = f", or train it: {entry['recipe']}" if "recipe" in entry else ""
    raise HubError(
        f"{what} is not published yet, and there is no copy of it in {searched}. Set SSLZOO_WEIGHTS to the folder "
        f"weights/ of a checkout, which holds weights/{name}{train}. Received: name_or_path={name!r}, part={part!r}"
    )


def _fetch(repository, revision, part, verify, seal=None):
    """Folder of the cache that holds a part of a repository: first results.json, which has the hashes of the others."""
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    from sslzoo.zoo import hub

    folder = _fetch_results(repository, revision, verify, seal)
    hashes = read_results(folder).get("files") if folder is not None and verify else None
    try:
        revision = revision if folder is None else folder.name
        return hub.fetch(repository, revision, layout.part_files(part), hashes, verify=verify)
    except HubError as error:
        why = error.__cause__
        if part != "encoder" and isinstance(why, EntryNotFoundError) and not isinstance(why, LocalEntryNotFoundError):
            raise MissingPartError(str(error)) from error
        raise


def _fetch_results(repository, revision, verify=True, seal=None):
    """Folder of the cache that holds results.json of a repository; None where that has none and no seal asks for it."""
    from sslzoo.zoo import hub

    sealed = {layout.RESULTS: seal} if seal else None
    return hub.fetch(repository, revision, [layout.RESULTS], sealed, optional=seal is None, verify=verify)


def _refuse_revision(revision, path):
    if revision is not None:
        raise InvalidInputError(
            f"Only Hub repositories have revisions. Received: revision={revision!r} of {str(path)!r}"
        )


# ------------------------------------------------------------------ find


def _look_up(name_or_path):
    """Folder or file on this machine, and entry of the manifest; None where there is none.

    A path that exists comes first, and has no entry. Raises unless there is at least one of the two.
    """
    path = _find_path(name_or_path)
    if path is not None:
        return path, None
    name, local, entries = str(name_or_path), local_models(), index.read()
    known = {*entries, *local}
    if not known:
        searched = " or ".join(str(folder) for folder in weight_folders())
        raise ArtifactError(
            f"No models found in {searched}. Give the path of a model folder, or set SSLZOO_WEIGHTS to the folder "
            f"that holds them. Received: name_or_path={name!r}"
        )
    choose("model", name, known, "the folder of a model (sslzoo list shows the names)")
    return local.get(name), entries.get(name)


def _find_path(name_or_path):
    """The path, if it is one that exists and no name stands for a model instead; None for what can only be a name."""
    if not is_named(name_or_path) or not os.fspath(name_or_path):
        raise InvalidInputError(f"Expected a name or a path. Received: name_or_path={name_or_path!r}")
    path, name = as_path(name_or_path), str(name_or_path)
    if os.path.exists(path):  # which, unlike Path.exists, says no to a name that no file can have
        found = path if path.is_file() and path.suffix == ".keras" else layout.model_in(path)
        if found is not None:
            return found
        # A folder or file that holds no model does not hide the model of its name.
        return None if isinstance(name_or_path, str) and name in {*local_models(), *index.read()} else path
    if is_path(name_or_path):
        beside = [] if path.parent == Path() else list(_models_in(path.parent))
        hint = f" Models there: {checks.few(beside)}." if beside else index.hint(name)
        raise ArtifactError(f"No such folder or file.{hint} Received: name_or_path={os.fspath(name_or_path)!r}")
    return None


def _models_in(folder):
    """Models right in a folder, those being written (hidden) left out: path, such as that of a run -> model folder."""
    paths = sorted(folder.glob("[!.]*")) if os.path.isdir(folder) else ()  # which takes names that no folder can have
    models = {path: layout.model_in(path) for path in paths}
    return {path: model for path, model in models.items() if model is not None}


def local_models() -> dict[str, Path]:
    """Models on this machine that `load` knows by name, the Hub's cache left out: name -> folder."""
    models = {}
    for folder in weight_folders():
        here = {}
        for model in _models_in(folder).values():
            if here.setdefault(model.name, model) != model:
                warnings.warn(
                    f"Of two models of one name the second is known by its path only. Received: '{here[model.name]}', "
                    f"'{model}'",
                    stacklevel=3,
                )
        models = here | models
    return models


def weight_folders() -> list[Path]:
    """Where models lie by name, first come first served."""
    named = os.environ.get("SSLZOO_WEIGHTS")
    if named and not as_path(named).is_dir():
        warnings.warn(f"SSLZOO_WEIGHTS names no folder. Received: SSLZOO_WEIGHTS={named!r}", stacklevel=3)
    return [*([as_path(named)] if named else []), index.beside("weights")]


# ------------------------------------------------------------------ list


def list_models(method: str | None = None, dataset: str | None = None, tag: str | None = None) -> list[dict]:
    """The models of the zoo, and those in the folder that SSLZOO_WEIGHTS names.

    Args:
        method: keep those of this method ("SimVAE"; case, "-" and " " do not count).
        dataset: keep those trained on this data set ("fashion_mnist"; likewise).
        tag: keep those of this tag, the end of a name ("long", "small"; likewise), or of none ("default").

    Returns:
        list of dicts, which notebooks show as a table, sorted by name: what the manifest says (`sslzoo.zoo.index`; null
        where it says nothing), and name, tag (the end of the name; null: none), local (bool, whether the encoder loads
        without a network).

    Raises:
        UnknownNameError: no model is of that method, data set or tag.
        ManifestError: the manifest is damaged.
    """
    local, entries = local_models(), index.read()
    every = [_described(name, entry, name in local or _cached(entry)) for name, entry in entries.items()]
    for name, folder in local.items():
        if name not in entries:
            try:
                every.append(_of_folder(folder, name=name))
            except ArtifactError as error:
                warnings.warn(f"Not listed: {error}", stacklevel=2)
    models = every = sorted(every, key=lambda model: model["name"])
    for field, wanted in (("method", method), ("dataset", dataset), ("tag", tag)):
        if wanted is not None:
            known = {plain(model[field] or "default"): model[field] or "default" for model in every}
            chosen = known.get(plain(wanted)) or choose(field, wanted, set(known.values()))
            models = [model for model in models if (model[field] or "default") == chosen]
    return Models(models)


def address(name: str, revision: str) -> str:
    """Where a model, which `load` has found there, is at a revision of the Hub: its other parts are there, too."""
    repository = name.removeprefix(index.SCHEME).partition("@")[0] if _is_address(name) else info(name)["repository"]
    return f"{index.SCHEME}{repository}@{revision}"


def info(name: "str | os.PathLike", revision: str | None = None) -> dict:
    """What is known about one model: as `list_models` gives it, and all of its results.json where that is at hand.

    Args:
        name: of a model in the manifest or on this machine; a model folder or the folder of a run; or
            "hf://organization/name[@revision]", of which the encoder is downloaded.
        revision: commit, tag or branch of the Hub repository.

    Raises:
        UnknownNameError: no model of that name; the nearest names are given.
        ArtifactError, HubError, ...: as `load`.
    """
    if _is_address(name):
        folder, _ = _find(name, "encoder", revision, True)
        model = _of_folder(folder, name.removeprefix(index.SCHEME).partition("@")[0], folder.name)
    else:
        folder, entry = _look_up(name)
        if entry is not None and revision not in (None, entry["revision"]):
            folder, _ = _find(name, "encoder", revision, True)
            model = _of_folder(folder, entry["repository"], folder.name)
        else:
            if entry is None:
                _refuse_revision(revision, name)
            folder = folder or _cached(entry)
            if entry is None:
                model = _of_folder(folder, name=None if _find_path(name) else str(name))
            else:
                model = _described(name, entry, folder, _results(folder))
    model.where = str(name) if revision is None else address(str(name), revision)
    return model


def _of_folder(folder, repository=None, revision=None, name=None):
    """What a folder says of the model in it, which may be known by another name than it was given."""
    if not layout.parts(folder):
        raise ArtifactError(f"Expected a model folder, or that of a run with one model. Received: '{folder}'")
    results = read_results(folder)
    return _described(name or results["name"], index.entry(folder, repository, revision), True, results)


def _results(folder):
    return read_results(folder) if folder is not None and (folder / layout.RESULTS).is_file() else {}


def results_of(name_or_path: "str | os.PathLike", revision: str | None = None) -> dict:
    """What results.json says of a model; empty where there is none, or it is on the Hub alone and was not loaded yet.

    Args:
        name_or_path: as in `load`. Of a Hub address results.json is downloaded, or taken from the cache.
        revision: as in `load`.

    Raises:
        UnknownNameError: no model of that name; the nearest names are given.
        ArtifactError, HubError, ...: no such folder, or results.json is damaged; of an address, as `load`.
    """
    if _is_address(name_or_path):
        return _results(_fetch_results(*_repository(name_or_path, revision)))
    folder, entry = _look_up(name_or_path)
    if entry is not None and revision not in (None, entry["revision"]):
        return _results(_fetch_results(entry["repository"], revision))
    return _results(_cached(entry) if folder is None else folder)


def _described(name, entry, local, results=None):
    known = copy.deepcopy({**dict.fromkeys(index.SHARED), **(results or {}), **entry})
    if results:
        known["metrics"] = copy.deepcopy(results.get("metrics", []))
    return Model(known | {"name": name, "tag": tag_of(name), "local": bool(local)})


def _cached(entry):
    """Folder of the Hub's cache that holds the encoder of an entry, or None."""
    if entry["revision"] is None:
        return None
    from sslzoo.zoo import hub

    return hub.cached(entry["repository"], entry["revision"], layout.part_files("encoder"))
