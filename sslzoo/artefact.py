"""Trained models as folders: composed, written whole or not at all, checked, and read back.

What such a folder holds, and what its results.json says, is described in `sslzoo.layout`.
"""

import collections
import json
import math
import os
import re
import shutil
import tempfile
import zipfile
from pathlib import Path

import h5py
import keras
import numpy as np

from sslzoo import card as cards
from sslzoo.errors import ArtefactError, InvalidInputError, SSLZooError, choose
from sslzoo.layout import (
    CARD,
    CONFIG,
    METADATA,
    PARTS,
    PICTURE_SUFFIXES,
    PICTURES,
    RESULTS,
    SCHEMA,
    WEIGHTS,
    check_results,
    files,  # noqa: F401  a public name of this room
    part_folder,
    parts,
    read_json,
    read_results,
)
from sslzoo.networks import blocks

_ENTRIES = {CONFIG, METADATA, WEIGHTS, RESULTS, CARD, PICTURES, "assets", ".gitattributes", *PARTS[1:]}
_CAPTIONS = {
    "reconstructions": "Test images and their reconstructions",
    "samples": "Samples",
    "embedding": "Features of test images",
    "curves": "Training curves",
}
# Layers that run code from the file, or read files that the file names.
_REFUSED_CLASSES = {
    "Lambda", "__lambda__", "TFSMLayer", "JaxLayer", "FlaxLayer", "TorchModuleWrapper", "TextVectorization",
    "StringLookup", "IntegerLookup", "IndexLookup", "__typespec__",
}  # fmt: skip
# Where Keras keeps what models consist of. Elsewhere it has functions that download, read and write files.
_MODELLING = (
    r"keras(\.src)?(\.(activations|constraints|dtype_policies|initializers|layers|losses|metrics|models|ops|optimizers"
    r"|quantizers|random|regularizers)(\.\w+)*)?"
)


# ------------------------------------------------------------------ compose


def compose(
    preprocessor: "keras.Model | None",
    network: keras.Model,
    output: "int | str | None" = None,
    activation: str | None = None,
    name: str | None = None,
) -> keras.Model:
    """Joins preprocessing and network into one model that takes raw images.

    The result is a flat Functional model of copies: every layer can be reached by its name, nothing is shared with the
    network that goes on training, every layer is trainable, and all compute in float32 even if training did not.

    Args:
        preprocessor: Functional model of core layers, raw images (B, H, W, C), 0..255 -> what the network sees
            (`Views.preprocessor`); None for a network that takes its input as it is (a decoder).
        network: built Functional or Sequential model of core layers.
        output: position or name of the one output to keep ("mean" of a posterior); None keeps all.
        activation: str, Keras' name of a function to apply to the result ("sigmoid" after a decoder's logits).
        name: str, name of the new model; the network's by default.

    Returns:
        Uncompiled Functional `keras.Model` with one float32 input.

    Raises:
        InvalidInputError: a model that is not Functional or not built, shapes that do not meet, an output that does
            not exist, or a layer that is no core Keras layer.
    """
    for role, model in (("preprocessor", preprocessor), ("network", network)):
        if model is not None and len(_graph(role, model).inputs) != 1:
            raise InvalidInputError(f"{role} must have one input. Received: {role} with {len(model.inputs)} inputs")
    network = _graph("network", network)
    first = network if preprocessor is None else _graph("preprocessor", preprocessor)
    if preprocessor is not None and first.output_shape != network.input_shape:
        raise InvalidInputError(
            "preprocessor must give what the network takes. "
            f"Received: preprocessor -> {first.output_shape}, network of {network.input_shape}"
        )
    kept = _output_positions(network, output)

    raw = keras.Input(batch_shape=first.input_shape, dtype="float32", name=first.inputs[0].name)
    copies = _Copies({raw.name})
    tensors = [raw]
    for model in (network,) if preprocessor is None else (first, network):
        tensors = copies.replay(model, tensors[0])
    tensors = [tensors[position] for position in kept]
    if activation is not None:
        labels = [copies.unused(f"{network.output_names[position]}_{activation}") for position in kept]
        tensors = [keras.layers.Activation(activation, name=n)(t) for n, t in zip(labels, tensors)]
    outputs = tensors[0] if len(tensors) == 1 else tensors
    return _check_published(keras.Model(raw, outputs, name=name or network.name))


def _graph(role, model):
    """The model as a Functional one."""
    if isinstance(model, keras.Sequential) and model.built:
        model = keras.Model(model.inputs, model.outputs, name=model.name)
    if not isinstance(model, keras.Model) or not getattr(model, "output_names", None):
        raise InvalidInputError(f"{role} must be a built Functional or Sequential model. Received: {role}={model!r}")
    return model


def _output_positions(network, output):
    names = list(network.output_names)
    if output is None:
        return range(len(names))
    if isinstance(output, str):
        return [names.index(choose("output", output, names))]
    if isinstance(output, bool) or not isinstance(output, int) or not 0 <= output < len(names):
        raise InvalidInputError(f"output must be one of {names} or their position. Received: output={output!r}")
    return [output]


class _Copies:
    """Runs models again on other tensors, with copies of their layers; models inside models are opened."""

    def __init__(self, names):
        self.names = set(names)
        self.made = {}

    def unused(self, name):
        candidates = (name if n == 0 else f"{name}_{n}" for n in range(len(self.names) + 1))
        name = next(candidate for candidate in candidates if candidate not in self.names)
        self.names.add(name)
        return name

    def replay(self, model, tensor):
        """Outputs of `model` on `tensor`, as a flat list."""
        model = _graph("layer", model)
        values = {layer.name: [tensor] for layer in model.layers if isinstance(layer, keras.layers.InputLayer)}

        def call(operation, *args, **kwargs):
            value = self.apply(operation, *args, **kwargs)
            values[operation.name] = keras.tree.flatten(value)
            return value

        # Keras' own walk over the graph. The model it returns is of no use here: `call` has kept the tensors.
        graph = keras.Model(model.inputs, model.outputs)
        keras.models.clone_model(graph, [tensor], clone_function=lambda operation: operation, call_function=call)
        taken = collections.Counter()
        outputs = []
        for name in model.output_names:  # a model inside a model may stand here several times, once for each output
            outputs.append(values[name][min(taken[name], len(values[name]) - 1)])
            taken[name] += 1
        return outputs

    def apply(self, operation, *args, **kwargs):
        if isinstance(operation, keras.Model):
            if len(args) != 1 or any(value is not None for value in kwargs.values()):
                raise InvalidInputError(
                    "A model inside a model must be called on one tensor and nothing else. "
                    f"Received: {operation.name!r} called with {len(args)} tensors and {kwargs}"
                )
            outputs = self.replay(operation, args[0])
            return outputs[0] if len(outputs) == 1 else outputs
        if id(operation) in self.made:
            return self.made[id(operation)](*args, **kwargs)
        config = operation.get_config()
        if isinstance(operation, keras.Layer):
            config |= {"name": self.unused(operation.name), "trainable": True}
            if {operation.compute_dtype, operation.variable_dtype} & {"float16", "bfloat16"}:
                config["dtype"] = "float32"
        else:  # Keras numbers operations through a process: "cast_7"
            config["name"] = self.unused(re.sub(r"_\d+$", "", operation.name))
        try:
            copy = self.made[id(operation)] = type(operation).from_config(config)
        except Exception as error:
            raise InvalidInputError(
                f"A published model consists of core Keras layers. Received: {operation.name!r} of type "
                f"{type(operation).__name__}, which cannot be copied: {str(error).splitlines()[0][:200]}"
            ) from error
        value = blocks.apply(copy, *args, **kwargs) if isinstance(copy, keras.Layer) else copy(*args, **kwargs)
        if getattr(operation, "weights", None):
            copy.set_weights(operation.get_weights())
        return value


def _check_published(model, core=True):
    """The model, if `read` will take it back."""
    try:
        _check_config(json.loads(model.to_json()), core)
    except ArtefactError as error:
        what = "consists of core Keras layers" if core else "can be loaded in Keras' safe mode"
        raise InvalidInputError(f"A published model {what}. {error}") from error
    return model


# ------------------------------------------------------------------ write


def write(
    folder: "str | os.PathLike",
    parts: dict[str, keras.Model],
    results: dict,
    card: str | None = None,
    pictures: "dict[str, str | os.PathLike] | None" = None,
    float16: bool = False,
    overwrite: bool = False,
) -> Path:
    """Writes a trained model as a folder, whole or not at all.

    Everything is checked first, then written beside the folder and renamed. A process killed on the way leaves the
    folder as it was, and at most a hidden `.<folder>.partial` that the next call clears away.

    Args:
        folder: where to; its parent is made if need be.
        parts: part ("encoder", and "posterior", "decoder", "model") -> model; see `sslzoo.layout` for what
            each takes and gives. Models may be compiled or of mixed precision; what is written is not (a `model`
            keeps its precision).
        results: dict as described in `sslzoo.layout`.
        card: str, Markdown for README.md; by default `card.render` of the completed results.
        pictures: file name ("samples.png") -> image file, copied into `pictures/`. Captions are those in
            `results["pictures"]`, where a file is named as "pictures/samples.png".
        float16: round kernels (arrays of two or more axes) to half precision in the file: half the size. Models are
            still float32 once loaded. Evaluate what `read` gives back, which differs a little from what was trained.
        overwrite: replace a folder that holds another model. A folder with anything else in it is never replaced.

    Returns:
        Path of the folder.

    Raises:
        InvalidInputError: parts, results or pictures that do not fit; the message names the field.
        ArtefactError: the folder exists and may not be replaced.
    """
    folder = Path(os.path.abspath(folder))
    _check_target(folder, overwrite)
    parts = _check_parts(parts)
    sources = _check_pictures(pictures or {})
    results = check_results(_complete(results, parts, sources, float16))
    card = cards.render(results) if card is None else card

    folder.parent.mkdir(parents=True, exist_ok=True)
    partial, former = (folder.with_name(f".{folder.name}.{state}") for state in ("partial", "former"))
    _remove(partial)
    partial.mkdir()
    try:
        for part, model in parts.items():
            _write_model(partial if part == "encoder" else partial / part, model, float16)
        (partial / RESULTS).write_text(_json(results), "utf-8")
        (partial / CARD).write_text(card, "utf-8")
        if sources:
            (partial / PICTURES).mkdir()
        for file, source in sources.items():
            shutil.copyfile(source, partial / PICTURES / file)
        _remove(former)
        if folder.exists():
            os.replace(folder, former)
        try:
            os.replace(partial, folder)
        except BaseException:
            if former.exists():
                os.replace(former, folder)
            raise
        _remove(former)
    finally:
        _remove(partial)
    return folder


def _check_target(folder, overwrite):
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
            checked[part] = _check_published(model, core=False)
            continue
        model = _graph(f"parts[{part!r}]", model)
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
        checked[part] = _check_published(model) if _is_plain(model) else compose(None, model)
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
    model.save(folder, zipped=False)
    config = json.loads((folder / CONFIG).read_text("utf-8"))
    config["compile_config"] = None  # published uncompiled: a torch optimizer in it could not be used elsewhere
    (folder / CONFIG).write_text(json.dumps(config), "utf-8")
    written, rewritten = folder / WEIGHTS, folder / f"{WEIGHTS}.rewritten"
    with h5py.File(written, "r") as source, h5py.File(rewritten, "w") as target:
        _copy_weights(source, target, float16)
    os.replace(rewritten, written)


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
        copy = target.create_dataset(key, data=array)
        for attribute, content in value.attrs.items():
            copy.attrs[attribute] = content


def _half(array):
    """Kernels as float16; vectors (biases, statistics) take no space, and numbers beyond 65504 need float32."""
    if array.dtype != "float32" or array.ndim < 2:
        return array
    with np.errstate(over="ignore"):
        half = array.astype("float16")
    return half if np.isfinite(half).all() else array


def round_weights(model: keras.Model) -> None:
    """Rounds the weights to what `write(float16=True)` stores, so that what is evaluated is what is published."""
    for weight in model.weights:
        weight.assign(_half(keras.ops.convert_to_numpy(weight)).astype("float32"))


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
        verify: also check results.json, if there is one.

    Returns:
        Uncompiled, trainable `keras.Model`.

    Raises:
        UnknownNameError: no such kind of part.
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
        held, inside = parts(path), sorted(child.parent.name for child in path.glob(f"*/{CONFIG}"))
        has = f"The model has the parts {', '.join(held)}" if held else f"A model folder holds {CONFIG} and {WEIGHTS}"
        if inside and not held:
            has += f". There are models in it: {', '.join(inside[:5])}"
        raise ArtefactError(f"{has}. Received: part={part!r} of {str(path)!r}")
    if not (where / WEIGHTS).is_file():
        raise ArtefactError(f"The weights are missing: {where / WEIGHTS}. Received: part={part!r} of {str(path)!r}")
    config = read_json(where / CONFIG)
    _check_config(config, core=part != "model")
    held = _check_weights(where / WEIGHTS)
    if verify and (path / RESULTS).exists():
        read_results(path)
    return _guarded(where, lambda: _build(config, where / WEIGHTS, held))


def _read_file(path, part):
    if path.suffix != ".keras":
        raise ArtefactError(f"Expected the folder of a model, or a .keras file. Received: {str(path)!r}")
    if part not in ("encoder", "model"):
        raise ArtefactError(f"A .keras file has no other parts than itself. Received: part={part!r} of {str(path)!r}")
    try:
        with zipfile.ZipFile(path) as archive:
            config = json.loads(archive.read(CONFIG))
    except Exception as error:  # a damaged archive has many ways to fail
        raise ArtefactError(f"Not a .keras file, or a damaged one ({error}). Received: {str(path)!r}") from error
    _check_config(config, core=part != "model")
    with tempfile.TemporaryDirectory() as scratch:
        weights = Path(scratch) / WEIGHTS
        try:
            with zipfile.ZipFile(path) as archive, archive.open(WEIGHTS) as source, open(weights, "wb") as target:
                shutil.copyfileobj(source, target)
        except Exception as error:
            raise ArtefactError(f"The weights in it cannot be read ({error}). Received: {str(path)!r}") from error
        held = _check_weights(weights)
        return _guarded(path, lambda: _build(config, weights, held))


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


def _check_config(config, core=True):
    """Raise if a serialised model asks for more than Keras' own classes (`core`), for code, or for other files."""
    if not isinstance(config, dict) or "class_name" not in config:
        raise ArtefactError(f"{CONFIG} must describe a Keras model. Received: {repr(config)[:80]}")
    waiting = [config | {"compile_config": None}]  # which is not used
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting.extend(node)
        if core and isinstance(node, float) and not math.isfinite(node):
            raise ArtefactError(f"The numbers in {CONFIG} must be finite. Received: {node}")
        if not isinstance(node, dict):
            continue
        waiting.extend(node.values())
        if "class_name" not in node:
            continue
        name, module, registered = (node.get(key) for key in ("class_name", "module", "registered_name"))
        received = f"Received: class_name={name!r}, module={module!r}, registered_name={registered!r}"
        if not isinstance(name, str) or not all(isinstance(value, (str, type(None))) for value in (module, registered)):
            raise ArtefactError(f"Classes must be named by texts. {received[:300]}")
        if name in _REFUSED_CLASSES:
            raise ArtefactError(f"Models with code or files of their own are refused. Received: class_name={name!r}")
        if name == "function" and not _is_activation(node.get("config")):
            raise ArtefactError(
                f"The only functions allowed are Keras' activations. Received: config={repr(node.get('config'))[:100]}"
            )
        keras_own = module is None or re.fullmatch(_MODELLING, module) or (name == "function" and module == "builtins")
        own = keras_own and ">" not in (registered or "")
        if not own and (core or re.match(r"keras(\.|$)", module or "") or module == "builtins"):
            raise ArtefactError(f"Only Keras' own classes for models are allowed. {received[:300]}")


def _is_activation(name):
    known = isinstance(name, str) and callable(getattr(keras.activations, name, None))
    return known and name not in ("deserialize", "get", "serialize")


def _check_weights(path):
    """How many numbers a file of weights holds. Raise if it is damaged, or makes HDF5 open other files."""
    elsewhere, held = [], 0

    def look(name, link):  # h5py garbles errors that are raised here; its own objects are slow, so below them
        nonlocal held
        inside = link.type == h5py.h5l.TYPE_HARD
        if inside and isinstance(item := h5py.h5o.open(file.id, name), h5py.h5d.DatasetID):
            how = item.get_create_plist()
            inside = how.get_layout() != h5py.h5d.VIRTUAL and how.get_external_count() == 0
            numbers = math.prod(item.shape)
            # What is compressed, or was never written, can claim any size.
            inside = inside and item.get_storage_size() >= numbers * item.dtype.itemsize
            held += numbers
        if not inside:
            elsewhere.append(name.decode("utf-8", "replace"))

    try:
        with h5py.File(path, "r") as file:
            file.id.links.visit(look, info=True)
    except Exception as error:  # so has a damaged HDF5 file
        raise ArtefactError(
            f"The weights cannot be read; the file is damaged or cut short ({error}). Received: '{path}'"
        ) from error
    if elsewhere:
        raise ArtefactError(
            "Weights must be in the file itself, not elsewhere, and uncompressed. "
            f"Received: {elsewhere[:3]} in '{path}'"
        )
    return held


class _Deferred(keras.initializers.Initializer):
    """Zeros instead of a layer's own initial values, which the weights of the file replace at once.

    Drawing those would cost seconds under JAX, one compilation for each shape of kernel. And it keeps count: a
    configuration that claims more numbers than the file of weights holds must not fill the memory.

    Args:
        wanted: dict or str, the initialiser that the layer asks for, and gets back once it is built.
        room: list of one int, how many numbers there may still be; shared by all layers of a model.
    """

    def __init__(self, wanted, room):
        self.wanted, self.room = wanted, room

    def __call__(self, shape, dtype=None):
        self.room[0] -= math.prod(shape)
        if self.room[0] < 0:
            raise ArtefactError(
                f"{CONFIG} must describe the model that the weights are of, and asks for more numbers than their file "
                f"holds. Received: a weight of shape {tuple(shape)}"
            )
        return keras.ops.zeros(shape, dtype)

    def get_config(self):
        return {"wanted": self.wanted, "room": self.room}  # some layers copy initialisers by their configuration

    def __deepcopy__(self, memo):
        return self


def _build(config, weights, held):
    """What `keras.saving.load_model` does, without drawing initial weights. `held`: numbers in the file of weights."""
    config["compile_config"] = None
    room, waiting = [held], [config]
    while waiting:
        node = waiting.pop()
        for key, value in node.items() if isinstance(node, dict) else ():
            if key.endswith("_initializer") and isinstance(value, (dict, str)):
                node[key] = _Deferred(value, room)
        waiting.extend(node.values() if isinstance(node, dict) else node if isinstance(node, list) else ())
    model = keras.saving.deserialize_keras_object(config, safe_mode=True)
    if not isinstance(model, keras.Model):
        return model
    model.load_weights(weights)
    for layer in model._flatten_layers():
        for name, value in list(vars(layer).items()):
            if isinstance(value, _Deferred):
                setattr(layer, name, keras.initializers.get(value.wanted))
    return model
