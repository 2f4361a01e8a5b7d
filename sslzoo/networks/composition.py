"""Preprocessing and network as one model of core layers: what is published, and what that may consist of."""

import importlib
import itertools
import json
import math
import re

import keras
import numpy as np

from sslzoo import checks
from sslzoo.augment.geometry import compilable
from sslzoo.errors import ArtifactError, BackendError, InvalidInputError, choose
from sslzoo.networks import blocks
from sslzoo.networks.initialization import give_weights

# Layers that run code from the file, or read files that the file names.
_REFUSED_CLASSES = {
    "Lambda",
    "__lambda__",
    "TFSMLayer",
    "JaxLayer",
    "FlaxLayer",
    "TorchModuleWrapper",
    "TextVectorization",
    "StringLookup",
    "IntegerLookup",
    "IndexLookup",
    "__typespec__",
}
# Building takes time: milliseconds for each call of a layer. Those of a model inside another are called when it is
# built, and again wherever it stands in the other. ResNet-152 has 564 layers.
_MOST_CALLS, _MOST_OBJECTS = 2000, 20_000
# Where Keras keeps what models consist of. Elsewhere it has functions that download, read and write files.
_MODELING = (
    r"keras(\.src)?(\.(activations|constraints|dtype_policies|initializers|layers|losses|metrics|models|ops|optimizers"
    r"|quantizers|random|regularizers)(\.\w+)*)?"
)
# Package -> modules of the layers that it may bring into a published model; results.json then says `requires`. What
# KerasHub has beside layers may read files.
_PACKAGES = {"keras-hub": r"keras_hub\.src\.(models\.\w+|layers\.modeling)\.(?!\w*(tokenizer|preprocess|converter))\w+"}
# An Identity layer of this name stands where the preprocessing of a composed model ends. Models from before there was
# one are known by the names that `Views.preprocessor` gives.
PREPROCESSED = "preprocessed"
IMAGES = "images"  # the input's name: by it a file of another format (ONNX) says that it takes raw images
_STEPS = r"unit_range|step_\d+_\w+"


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

    Example:
        from sslzoo import networks, views

        preprocessor = views.Views("simvae-digits", 2).preprocessor((8, 8, 1))
        encoder = networks.compose(preprocessor, networks.encoder("mlp-small", (8, 8, 1), 10))
        encoder.predict(np.zeros((4, 8, 8, 1), "uint8"), verbose=0).shape  # raw images -> (4, 10)

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
    first, network = _joined(preprocessor, network)
    kept = _output_positions(network, output)

    name_of_input = IMAGES if len(first.input_shape) == 4 else first.inputs[0].name
    raw = keras.Input(first.input_shape[1:], dtype="float32", name=name_of_input)
    copies = Copies({raw.name})
    tensors = [raw]
    if preprocessor is not None:
        tensors = copies.replay(first, raw)
        if all(layer.name != PREPROCESSED for layer in first.layers):
            tensors = [keras.layers.Identity(dtype="float32", name=copies.unused(PREPROCESSED))(tensors[0])]
    tensors = copies.replay(network, tensors[0])
    tensors = [tensors[position] for position in kept]
    if activation is not None:
        labels = [copies.unused(f"{network.output_names[position]}_{activation}") for position in kept]
        tensors = [keras.layers.Activation(activation, dtype="float32", name=n)(t) for n, t in zip(labels, tensors)]
    outputs = tensors[0] if len(tensors) == 1 else tensors
    return check_published(keras.Model(raw, outputs, name=name or network.name))


def _joined(preprocessor, network):
    """The first of both, and the network, as Functional models that can be joined."""
    for role, model in (("preprocessor", preprocessor), ("network", network)):
        if model is not None and len(as_functional(role, model).inputs) != 1:
            raise InvalidInputError(f"{role} must have one input. Received: {role} with {len(model.inputs)} inputs")
    network = as_functional("network", network)
    first = network if preprocessor is None else as_functional("preprocessor", preprocessor)
    if preprocessor is not None and not fits(first.output_shape, network.input_shape):
        raise InvalidInputError(
            "preprocessor must give what the network takes. "
            f"Received: preprocessor -> {first.output_shape}, network of {network.input_shape}"
        )
    return first, network


def fits(given, taken):
    """Whether a tensor of shape `given` is one that a network of the input shape `taken` takes; None is any size."""
    return len(given) == len(taken) and all(side in (None, size) for size, side in zip(given, taken))


def without_preprocessing(model: keras.Model, policy: "keras.DTypePolicy | None" = None) -> keras.Model:
    """The network inside a composed model: what takes views, in the range that their policy gives.

        network = without_preprocessing(sslzoo.load("simvae-mnist"))  # as load(part="network") does
        SimCLR(network, views=Views("simvae-mnist", 2))               # goes on training from it

    Example:
        from sslzoo import networks, views

        encoder = networks.encoder("mlp-small", (8, 8, 1), 10)
        whole = networks.compose(views.Views("simvae-digits", 2).preprocessor((8, 8, 1)), encoder)
        networks.without_preprocessing(whole).input_shape  # (None, 8, 8, 1), of views in 0..1

    Args:
        model: Functional model, raw images -> features, made by `compose`.
        policy: that its layers compute by, but the last, whose features stay float32; None for that of each.

    Returns:
        Functional `keras.Model` of copies: views -> features.

    Raises:
        InvalidInputError: the model does not say where its preprocessing ends.
    """
    model = as_functional("model", model)
    end = preprocessing_end(model)
    if end is None:
        raise InvalidInputError(
            f"Expected a model that says where its preprocessing ends, by a layer {PREPROCESSED!r} or by first layers "
            f"named as those of Views.preprocessor. Received: model={model.name!r} with first layers "
            f"{[layer.name for layer in model.layers[1:4]]}"
        )
    return part_after(model, end, policy)


def preprocessing(model: keras.Model) -> "keras.Model | None":
    """The layers before the network inside a composed model: raw images -> what the network sees. Shares them.

    None where the model does not say where they end, as a decoder.
    """
    end = preprocessing_end(model)
    return None if end is None else keras.Model(model.input, model.get_layer(end).output)


def preprocessing_end(model) -> "str | None":
    """Name of the last layer of the preprocessing inside a model that `compose` made; None where the model does not
    say, or has no graph of layers."""
    layers = model.layers if getattr(model, "inputs", None) else ()
    names = [layer.name for layer in layers if not isinstance(layer, keras.layers.InputLayer)]
    steps = list(itertools.takewhile(lambda name: re.fullmatch(_STEPS, name), names))
    return PREPROCESSED if PREPROCESSED in names else next(reversed(steps), None)


def input_range(model, unsaid=(0.0, 255.0)) -> "tuple[float, float] | None":
    """The values of raw images that a composed model takes for 0 and 1; `unsaid` of one that does not say."""
    for layer in getattr(model, "layers", ()):
        if layer.name == "unit_range":
            ends = (-layer.offset / layer.scale, (1 - layer.offset) / layer.scale)
            return tuple(float(f"{end + 0:.9g}") for end in ends)  # 0, not -0
    return unsaid


def part_after(model: keras.Model, name: str, policy: "keras.DTypePolicy | None" = None) -> keras.Model:
    """The part of a Functional model that comes after the layer of that name, as copies, which compute by a policy."""
    start = model.get_layer(name).output
    views = keras.Input(start.shape[1:], dtype=start.dtype, name="views")
    last = [] if policy is None else [id(model.get_layer(each)) for each in model.output_names]
    outputs = Copies({"views"}, policy, last).replay(keras.Model(start, model.outputs), views)
    return keras.Model(views, outputs[0] if len(outputs) == 1 else outputs, name=model.name)


def logits(decoder: keras.Model) -> keras.Model:
    """A published decoder without the sigmoid at its end: latents (B, L) -> logits, as methods train it. Shares layers.

    Raises:
        InvalidInputError: it ends in something else.
    """
    last = decoder.layers[-1]
    if not isinstance(last, keras.layers.Activation) or last.get_config()["activation"] != "sigmoid":
        raise InvalidInputError(f"decoder must end in a sigmoid. Received: {decoder.name!r}, which ends in {last!r}")
    return keras.Model(decoder.input, last.input, name=decoder.name)


def stretched(model: keras.Model, low: float, high: float) -> keras.Model:
    """A model whose outputs in 0..1 are spread over low..high by one more layer. Shares the others."""
    rescaling = keras.layers.Rescaling(high - low, low, dtype="float32", name="output_range")
    return keras.Model(model.input, rescaling(model.outputs[0]), name=model.name)


def dtype_policy(dtype: "str | keras.DTypePolicy") -> keras.DTypePolicy:
    """Keras' policy of that name; `InvalidInputError` where there is none."""
    try:
        return keras.dtype_policies.get(dtype)
    except (ValueError, TypeError) as error:
        raise InvalidInputError(
            f"dtype must be one of Keras', such as 'float32' or 'mixed_bfloat16'. Received: {dtype=}"
        ) from error


def with_policy(model: keras.Model, policy: keras.DTypePolicy) -> keras.Model:
    """A composed model under another dtype policy, as copies. Preprocessing stays float32: its steps need the range.
    So do outputs, where the policy is a mixed one.

    Args:
        model: Functional model of core layers.
        policy: what `dtype_policy` gives.

    Returns:
        Functional `keras.Model` of one float32 input.
    """
    raw = keras.Input(model.input_shape[1:], dtype="float32", name=model.inputs[0].name)
    fixed = list(getattr(preprocessing(model), "layers", ()))
    if policy.compute_dtype != policy.variable_dtype:  # mixed: what comes out is compared, and stays as it is
        fixed += [model.get_layer(name) for name in model.output_names]
    copies = Copies({raw.name}, policy, map(id, fixed))
    outputs = copies.replay(model, raw)
    return keras.Model(raw, outputs[0] if len(outputs) == 1 else outputs, name=model.name)


class _InputName(str):
    """The name of an input, by which Keras finds it in a dict; its messages print what the input takes instead."""

    def __new__(cls, name, takes=""):
        self = super().__new__(cls, name)
        self.takes = takes
        return self

    def __format__(self, spec):
        return format(self.takes, spec)


def guarded(model: keras.Model) -> keras.Model:
    """A model as `load` gives it: whoever calls it on other shapes is told shape and values that it takes.

    Also by `predict`, but not under JAX. Keras' own check lets other channels through, and a single image. The model
    counts as called, too, or Keras would not write it as ONNX. A `Sequential`, which the zoo does not publish, stays
    as it is. Returns the model itself.
    """
    if isinstance(model, keras.Sequential):
        return model
    if len(model.inputs) == 1:
        ends, shape = input_range(model, None), model.input_shape
        values = f", values {ends[0]:g}..{ends[1]:g}" if ends else ""
        name = model.inputs[0].name
        model.input_spec = keras.InputSpec(shape=shape, name=_InputName(name, f"{name} {shape}{values}"))
    model(model.input)
    for layer in model._flatten_layers():
        compilable(layer)
    return model


def scales_twice(encoder: keras.Model, views: keras.Layer) -> bool:
    """Whether an encoder begins by scaling values 0..255 down, which views did already: white looks black to it."""
    scaling = _first_scaling(encoder)
    if not scaling or not hasattr(views, "prepare"):
        return False
    shape = tuple(side or 32 for side in encoder.input_shape[1:])
    # Views may end by scaling up again, for networks that bring their preprocessing along.
    x = views.prepare(np.stack([np.zeros(shape, "float32"), np.full(shape, 255, "float32")]))
    for layer in scaling:
        x = layer(x)
    black, white = keras.ops.convert_to_numpy(x)
    return float(np.abs(white - black).max()) < 0.1


def _first_scaling(model):
    """The layers of preprocessing that a model, or the first model inside it, begins with."""
    scaling = []
    for layer in getattr(model, "layers", ()):
        if isinstance(layer, (keras.layers.Rescaling, keras.layers.Normalization)):
            scaling.append(layer)
        elif isinstance(layer, keras.Model) and not scaling:
            return _first_scaling(layer)
        elif not isinstance(layer, keras.layers.InputLayer):
            break
    return scaling


def at_size(network: keras.Model, size: tuple[int, int]) -> keras.Model:
    """A network's layers, shared, on images of another size: what it makes of small crops (multi-crop).

    Networks that end in a mean over positions can ("resnet18"); those that flatten their last maps cannot.

    Example:
        network = networks.encoder("resnet18", (32, 32, 3), 64)
        small = networks.at_size(network, (16, 16))
        small(np.zeros((4, 16, 16, 3), "float32")).shape  # (4, 64), by the same weights

    Args:
        network: built Functional or Sequential model, images (N, H, W, C) -> (N, L).
        size: (height, width) of the other images.

    Returns:
        Functional `keras.Model`, images (N, height, width, C) -> (N, L), of the network's own layers; the network
        itself where the size is its own.

    Raises:
        InvalidInputError: layers that cannot take images of that size, or give something else for them.
    """
    shape = network.input_shape[1:]
    if tuple(size) == shape[:2]:
        return network
    images = keras.Input((*size, *shape[2:]), name="resized")
    try:
        resized = keras.models.clone_model(network, input_tensors=images, clone_function=lambda layer: layer)
        reason = None if resized.output_shape == network.output_shape else f"it would give {resized.output_shape}"
    except ValueError as error:
        reason = str(error).partition("\n")[0]
    if reason is not None:
        raise InvalidInputError(
            f"size must be one that the layers of the network can take; this network takes {shape} only ({reason}). "
            f"Received: size={tuple(size)}"
        )
    return resized


def as_network(role: str, model) -> keras.Model:
    """The model, if it is a built Functional or Sequential one; of one batch size its layers, shared, for all sizes.

    A `Sequential` that begins without `keras.Input` is built by its first call, and keeps the size of that batch.
    """
    tensors = getattr(model, "inputs", None)
    if not isinstance(model, keras.Model) or not model.built or not tensors:
        hint = ""
        if isinstance(model, keras.Model) and not isinstance(model, keras.Sequential):
            hint = "; of a subclass take keras.Model(images, network.call(images)), where images = keras.Input(shape)"
        raise InvalidInputError(
            f"{role} must be a built Functional or Sequential model{hint}. Received: {role}={model!r}"
        )
    if len(tensors) > 1:
        raise InvalidInputError(
            f"{role} must take one input. Received: {role}={model.name!r} with {len(tensors)} inputs"
        )
    if isinstance(getattr(model, "output", None), dict):  # Keras sorts its keys: log_var would come before mean
        raise InvalidInputError(
            f"{role} must give its outputs as a list, keras.Model(images, [mean, log_var]), not as a dict. "
            f"Received: {role}={model.name!r} with outputs {', '.join(map(str, model.output))}"
        )
    if all(tensor.shape[0] is None for tensor in tensors):
        return model
    tensors = [keras.Input(tensor.shape[1:], dtype=tensor.dtype, name=tensor.name) for tensor in tensors]
    if isinstance(model, keras.Sequential):
        opened = keras.Sequential([tensors[0], *model.layers], name=model.name)
    else:
        tensors = keras.tree.pack_sequence_as(model.input, tensors)
        opened = keras.models.clone_model(model, tensors, clone_function=lambda layer: layer)
    if any(tensor.shape[0] is not None for tensor in opened.outputs):
        raise InvalidInputError(
            f"{role} must take batches of any size. Received: {role}={model.name!r}, which gives "
            f"{[tuple(tensor.shape) for tensor in model.outputs]}"
        )
    return opened


def as_functional(role, model):
    """The model of `as_network` as a Functional one."""
    model = as_network(role, model)
    if isinstance(model, keras.Sequential):
        model = keras.Model(model.inputs, model.outputs, name=model.name)
    return model


def _output_positions(network, output):
    names = list(network.output_names)
    if output is None:
        return range(len(names))
    if isinstance(output, str):
        return [names.index(choose("output", output, names))]
    if not checks.is_integer(output) or not 0 <= output < len(names):
        raise InvalidInputError(f"output must be one of {names} or their position. Received: output={output!r}")
    return [output]


def _in_policy(config, policy, only_half=False):
    """The configuration of a layer, and of the layers in it, with another dtype policy.

    Args:
        only_half: layers that neither compute nor keep weights in half precision stay as they are.
    """
    if isinstance(config, list):
        return [_in_policy(item, policy, only_half) for item in config]
    if not isinstance(config, dict):
        return config
    config = {key: _in_policy(value, policy, only_half) for key, value in config.items()}
    if {"name", "dtype"} <= config.keys() and "batch_shape" not in config:  # of a layer, but for inputs of a network
        own = keras.dtype_policies.get(config["dtype"])
        if not only_half or {own.compute_dtype, own.variable_dtype} & {"float16", "bfloat16"}:
            config["dtype"] = policy
    return config


class Copies:
    """Runs models again on other tensors, with copies of their layers; models inside models are opened.

    Args:
        names: that layers must not have.
        policy: dtype policy of the copies; None for float32 in place of half precision.
        fixed: ids of layers that keep their own policy.
    """

    def __init__(self, names, policy=None, fixed=()):
        self.names = set(names)
        self.policy, self.fixed = policy, set(fixed)
        self.made = {}

    def unused(self, name):
        candidates = (name if n == 0 else f"{name}_{n}" for n in range(len(self.names) + 1))
        name = next(candidate for candidate in candidates if candidate not in self.names)
        self.names.add(name)
        return name

    def replay(self, model, tensor, training=None):
        """Outputs of `model` on `tensor`, as a flat list.

        Args:
            training: of the call of `model`, which holds for layers in it that were called without it.
        """
        model = as_functional("layer", model)

        def call(operation, *args, **kwargs):
            if training is not None and getattr(operation, "_call_has_training_arg", False):
                kwargs["training"] = training if kwargs.get("training") is None else kwargs["training"]
            return self.apply(operation, *args, **kwargs)

        # Keras' own walk over the graph, which knows of which call of a layer each output is, and which of its outputs.
        graph = keras.Model(model.inputs, model.outputs)
        return graph._run_through_graph([tensor], operation_fn=lambda operation: operation, call_fn=call)

    def apply(self, operation, *args, **kwargs):
        if isinstance(operation, keras.Model):
            training = kwargs.pop("training", None)
            if len(args) != 1 or any(value is not None for value in kwargs.values()):
                raise InvalidInputError(
                    "A model inside a model must be called on one tensor and nothing else. "
                    f"Received: {operation.name!r} called with {len(args)} tensors and {kwargs}"
                )
            outputs = self.replay(operation, args[0], training)
            return outputs[0] if len(outputs) == 1 else outputs
        if id(operation) in self.made:
            return self.made[id(operation)](*args, **kwargs)
        config = operation.get_config()
        if isinstance(operation, keras.Layer):
            config |= {"name": self.unused(operation.name), "trainable": True}
            if self.policy is not None:
                config = config if id(operation) in self.fixed else _in_policy(config, self.policy)
            else:
                config = _in_policy(config, "float32", only_half=True)
            mode = getattr(operation, "quantization_mode", None)
            if mode and keras.dtype_policies.get(config["dtype"]).name != operation.dtype_policy.name:
                raise InvalidInputError(
                    "A quantized layer keeps the dtype policy that it was quantized in: leave dtype out, or quantize "
                    f"the model that has it. Received: {operation.name!r} of quantization_mode={mode!r}"
                )
        else:  # Keras numbers operations through a process: "cast_7"
            config["name"] = self.unused(re.sub(r"_\d+$", "", operation.name))
        try:
            copy = self.made[id(operation)] = self.copy(operation, config)
        except Exception as error:
            raise InvalidInputError(
                f"A published model consists of core Keras layers. Received: {operation.name!r} of type "
                f"{type(operation).__name__}, which cannot be copied: {str(error).splitlines()[0][:200]}"
            ) from error
        value = blocks.apply(copy, *args, **kwargs) if isinstance(copy, keras.Layer) else copy(*args, **kwargs)
        if getattr(operation, "weights", None):
            self.fill(copy, operation.get_weights())
        return value

    def copy(self, operation, config):
        """A new operation of that configuration, which has no weights yet."""
        copy = type(operation).from_config(config)
        return compilable(copy) if isinstance(copy, keras.Layer) else copy

    def fill(self, copy, weights):
        """Gives a copy the weights of the original."""
        give_weights(copy, weights)


def check_published(model, core=True):
    """The model, if `read` will take it back."""
    try:
        check_config(json.loads(model.to_json()), core, tuple(_PACKAGES))
    except ArtifactError as error:
        what = "consists of core Keras layers" if core else "can be loaded in Keras' safe mode"
        raise InvalidInputError(f"A published model {what}. {error}") from error
    return model


def required_packages(*models: keras.Model) -> list[str]:
    """Packages beside Keras whose layers models consist of, as pip names them."""
    modules = {type(layer).__module__.partition(".")[0] for model in models for layer in model._flatten_layers()}
    return [package for package in _PACKAGES if package.replace("-", "_") in modules]


def import_packages(packages) -> None:
    """Imports what a model requires, which registers its layers.

    Raises:
        BackendError: it is not installed.
        ArtifactError: a package that models may not require.
    """
    for package in packages:
        if package not in _PACKAGES:
            raise ArtifactError(f"A model may require {', '.join(_PACKAGES)}. Received: requires={package!r}")
        try:
            importlib.import_module(package.replace("-", "_"))
        except ImportError as error:
            raise BackendError(
                f"This model has layers of {package}: pip install {package} (importing it failed: {error}). "
                f"Received: requires={package!r}"
            ) from error


def check_config(config, core=True, packages=()):
    """Raise if a serialized model asks for more than Keras' own classes and those of `packages` (`core`), for code, for
    other files, or for more layers than can be built in good time."""
    if not isinstance(config, dict) or "class_name" not in config:
        raise ArtifactError(f"config.json must describe a Keras model. Received: {repr(config)[:80]}")
    waiting = [(config | {"compile_config": None}, 0)]  # which is not used; and how often other models call it
    calls = objects = 0
    while waiting:
        node, often = waiting.pop()
        if isinstance(node, list):
            waiting.extend((item, often) for item in node)
        if core and isinstance(node, float) and not math.isfinite(node):
            raise ArtifactError(f"The numbers in config.json must be finite. Received: {node}")
        if not isinstance(node, dict):
            continue
        layers = node.get("layers")
        if node.get("class_name") == "Sequential" and isinstance(node.get("config"), dict):
            row = node["config"].get("layers")
            # Keras builds a Sequential model anew with each layer that it adds.
            often = (often + 1) * max(1, len(row) // 25 if isinstance(row, list) else 1) - 1
        waiting.extend((value, often) for value in node.values() if value is not layers)
        if not isinstance(layers, list):
            waiting.append((layers, often))
            layers = []
        for layer in layers:
            places = layer.get("inbound_nodes") if isinstance(layer, dict) else None
            times = (often + 1) * max(1, len(places) if isinstance(places, list) else 1)
            calls += times
            waiting.append((layer, times))
        if "class_name" not in node:
            continue
        objects += 1
        if calls > _MOST_CALLS or objects > _MOST_OBJECTS:
            raise ArtifactError(
                f"A model may have {_MOST_CALLS:,} layers, those of models inside it counted each time that they are "
                f"called, as Keras takes long to build more. Received: {calls:,} calls, {objects:,} objects so far"
            )
        name, module, registered = (node.get(key) for key in ("class_name", "module", "registered_name"))
        received = f"Received: class_name={name!r}, module={module!r}, registered_name={registered!r}"
        if not isinstance(name, str) or not all(isinstance(value, (str, type(None))) for value in (module, registered)):
            raise ArtifactError(f"Classes must be named by texts. {received[:300]}")
        if name in _REFUSED_CLASSES:
            raise ArtifactError(f"Models with code or files of their own are refused. Received: class_name={name!r}")
        settings = node.get("config")
        if isinstance(settings, dict) and settings.get("stateful"):
            # Its state, of a size that any batch shape sets, is filled before Keras makes the variable.
            raise ArtifactError(
                f"Layers that remember the batch before are refused: features are of the image alone. {received[:300]}"
            )
        if name == "function" and not _is_activation(settings):
            raise ArtifactError(
                f"The only functions allowed are Keras' activations. Received: config={repr(settings)[:100]}"
            )
        keras_own = module is None or re.fullmatch(_MODELING, module) or (name == "function" and module == "builtins")
        own = keras_own and ">" not in (registered or "")
        theirs = any(re.fullmatch(_PACKAGES[package], module or "") for package in packages)
        own = own or (theirs and registered in (name, f"keras_hub>{name}"))
        if not own and (core or re.match(r"keras(\.|$)", module or "") or module == "builtins"):
            raise ArtifactError(f"Only Keras' own classes for models are allowed. {received[:300]}")


def _is_activation(name):
    known = isinstance(name, str) and callable(getattr(keras.activations, name, None))
    return known and name not in ("deserialize", "get", "serialize")
