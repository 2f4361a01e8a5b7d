"""What exported encoders differ by from Keras, and how long one image takes: the tables of docs/export.md.

    python benchmarks/exports.py                                  # four networks, three backends, ten minutes
    python benchmarks/exports.py simvae-digits --backends torch   # prints, and writes nothing
    python benchmarks/exports.py --write                          # puts the tables into docs/export.md

It takes pip install -e ".[tensorflow,jax,torch,export]". Each backend runs in a process of its own: it exports every
format that it can, runs the file by the format's own runtime, and compares features of test images, in one batch and
one by one, with those of Keras: the largest difference of any feature, as a share of the standard deviation of all
features. Milliseconds are the mean over five calls with one image, the best of twenty rounds.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

import sslzoo
from sslzoo.files import module_at, write_beside

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "export.md"
ENTRIES = ("simvae-digits", "simvae-mnist", "simvae-cifar10", "simclr-cifar10")
BACKENDS = ("tensorflow", "jax", "torch")
NAMES = {"tensorflow": "TensorFlow", "jax": "JAX", "torch": "PyTorch"}


# ---------------------------------------------------------------------- runtimes: a file to images -> features


def run_onnx(path):
    import onnxruntime

    session = onnxruntime.InferenceSession(path)
    return lambda images: session.run(None, {"images": images})[0]


def run_openvino(path):
    import openvino

    # Processors with bfloat16 would compute in it, which is faster and differs by hundredths.
    compiled = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    request = compiled.create_infer_request()  # compiled(images) leaves a request bound to the caller's array
    return lambda images: request.infer(images)[0]


def run_litert(path):
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(path)
    place = interpreter.get_input_details()[0]["index"]

    def run(images):
        if interpreter.get_input_details()[0]["shape"][0] != len(images):
            interpreter.resize_tensor_input(place, images.shape)
            interpreter.allocate_tensors()
        interpreter.set_tensor(place, images)
        interpreter.invoke()
        return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])

    interpreter.allocate_tensors()
    return run


def run_saved_model(path):
    import tensorflow as tf

    loaded = tf.saved_model.load(path)  # which holds the variables
    return lambda images: loaded.serve(images).numpy()


def run_torch(path):
    import torch

    module = torch.export.load(path).module()
    return lambda images: module(torch.from_numpy(images)).detach().numpy()


class Format(NamedTuple):
    """What `encoder.export(format=...)` calls it, its file, the backends that write it, and what runs it."""

    name: str
    file: str
    backends: tuple[str, ...]
    package: str
    run: Callable


FORMATS = {
    "SavedModel": Format("tf_saved_model", "saved_model", ("tensorflow", "jax"), "tensorflow", run_saved_model),
    "ONNX": Format("onnx", "encoder.onnx", ("tensorflow", "torch"), "onnxruntime", run_onnx),
    "OpenVINO": Format("openvino", "encoder.xml", ("tensorflow", "torch"), "openvino", run_openvino),
    "LiteRT": Format("litert", "encoder.tflite", ("tensorflow",), "ai_edge_litert", run_litert),
    "torch.export": Format("torch", "encoder.pt2", ("torch",), "torch", run_torch),
}


def exported(encoder, form: Format, folder):
    """The encoder in a format of the active backend: a function, float32 images (B, H, W, C) -> features (B, L)."""
    more = {}
    if form.name == "torch":
        import torch

        more["dynamic_shapes"] = {0: torch.export.Dim("batch")}
    path = os.path.join(folder, form.file)
    encoder.export(path, format=form.name, verbose=False, **more)
    return form.run(path)


# ---------------------------------------------------------------------- what is measured


def difference(found, expected) -> float:
    """Largest difference of any feature, as a share of the spread of all."""
    return float(np.abs(np.asarray(found) - expected).max() / expected.std())


def compiled(encoder, backend):
    """A call of the encoder as the backend runs it fastest."""
    if backend == "tensorflow":
        import tensorflow as tf

        return tf.function(encoder, input_signature=[tf.TensorSpec(encoder.input_shape, "float32")])
    if backend == "jax":
        import jax

        return jax.jit(encoder)
    import torch

    return torch.inference_mode()(encoder)


def milliseconds(function, image, rounds) -> float:
    """Of one call: the mean of five, in the best of so many rounds."""
    means = []
    for _ in range(rounds + 1):  # the first compiles
        began = time.perf_counter()
        for _ in range(5):
            np.asarray(function(image))
        means.append((time.perf_counter() - began) / 5)
    return 1e3 * min(means[1:])


def measure(name, count, rounds, backend):
    """Differences by format and milliseconds by way, of one entry under the active backend."""
    encoder = sslzoo.load(name)
    images = sslzoo.data.load(sslzoo.info(name)["dataset"], "test")[0][:count].astype("float32")
    expected, one = encoder.predict(images, verbose=0), images[:1]
    differences = {}
    fast = compiled(encoder, backend)
    ways = {
        "`encoder.predict(x)`": lambda x: encoder.predict(x, verbose=0),
        "`sslzoo.embed(encoder, x)`": lambda x: sslzoo.embed(encoder, x).features,
        "`encoder(x)`": lambda x: _array(encoder(x)),
        "compiled, as below": lambda x: _array(fast(x)),
    }
    times = {way: milliseconds(function, one, rounds) for way, function in ways.items()}
    for title, form in FORMATS.items():
        if backend not in form.backends:
            continue
        with tempfile.TemporaryDirectory() as folder:
            run = exported(encoder, form, folder)
            singly = np.concatenate([run(images[row : row + 1]) for row in range(min(count, 32))])
            differences[title] = max(difference(run(images), expected), difference(singly, expected[: len(singly)]))
            times[title] = milliseconds(run, one, rounds)
    quantized = sslzoo.load(name)
    quantized.quantize("int8")
    differences['`quantize("int8")`'] = difference(quantized.predict(images, verbose=0), expected)
    return {"differences": differences, "milliseconds": times}


def _array(tensor):
    import keras

    return keras.ops.convert_to_numpy(tensor)


def in_own_process(backend, options):
    words = [sys.executable, "-W", "ignore", __file__, *options.entries, "--images", str(options.images), "--measure"]
    words += ["--rounds", str(options.rounds)]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "KERAS_BACKEND": backend, "PYTHONPATH": path}
    done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"Measuring under {NAMES[backend]} failed; what it said stands above")
    return json.loads(done.stdout.splitlines()[-1])


# ---------------------------------------------------------------------- how it is shown


def rows_of(measured, entries):
    """Lines of both tables. `measured`: backend -> entry -> what `measure` gives."""
    lines = ["| largest difference, as a share of the spread | " + " | ".join(f"`{name}`" for name in entries) + " |"]
    lines.append("|---" + "|---:" * len(entries) + "|")
    for title in (*FORMATS, '`quantize("int8")`'):
        found = {name: [each[name]["differences"].get(title) for each in measured.values()] for name in entries}
        by = [NAMES[b] for b in measured if title in measured[b][entries[0]]["differences"]]
        if by:
            cells = [_small(max(value for value in found[name] if value is not None)) for name in entries]
            lines.append(f"| {title} ({', '.join(by)}) | " + " | ".join(cells) + " |")
    shown = entries if len(entries) < 2 else entries[1:2] + entries[-1:]
    columns = [(name, backend) for name in shown for backend in measured]
    heads = [f"`{name}`, {NAMES[backend]}" for name, backend in columns]
    lines += ["", "| one image, milliseconds | " + " | ".join(heads) + " |", "|---" + "|---:" * len(columns) + "|"]
    for way in dict.fromkeys(way for each in measured.values() for way in each[entries[0]]["milliseconds"]):
        times = [measured[backend][name]["milliseconds"].get(way) for name, backend in columns]
        lines.append(f"| {way} | " + " | ".join(map(_shown, times)) + " |")
    return lines


def _small(value):
    return f"{value:.0e}" if value else "0"


def _shown(time):
    return "–" if time is None else f"{time:.0f}" if time >= 10 else f"{time:.2g}"


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("entries", nargs="*", default=ENTRIES, metavar="NAME", help=f"({' '.join(ENTRIES)})")
    parser.add_argument("--backends", nargs="+", choices=BACKENDS, default=BACKENDS, metavar="B", help="(all three)")
    parser.add_argument("--images", type=int, default=256, help="test images that are compared (256)")
    parser.add_argument("--rounds", type=int, default=20, help="of five calls, of which the best counts (20)")
    parser.add_argument("--write", action="store_true", help="write docs/export.md")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    for name in ("images", "rounds"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be greater than 0. Received: {getattr(options, name)}")
    if options.measure:
        backend = os.environ["KERAS_BACKEND"]
        measured = {name: measure(name, options.images, options.rounds, backend) for name in options.entries}
        print(json.dumps(measured))
        return
    if options.write and (tuple(options.entries), tuple(options.backends)) != (ENTRIES, BACKENDS):
        parser.error(f"--write takes all entries and backends. Received: {options.entries}, {options.backends}")
    for name in options.entries:
        sslzoo.info(name)  # a wrong name is refused before any work
    used = [form.package for form in FORMATS.values() if set(form.backends) & set(options.backends)]
    if missing := [package for package in (*used, *options.backends) if importlib.util.find_spec(package) is None]:
        parser.error(f"It takes pip install {' '.join(missing)}. Received: {', '.join(missing)}, not installed")
    lines = rows_of({backend: in_own_process(backend, options) for backend in options.backends}, list(options.entries))
    print("\n".join(lines))
    if options.write:
        tables = module_at(ROOT / "benchmarks" / "tables.py")
        page = tables.with_rows(PAGE.read_text("utf-8"), lines, "exports")
        write_beside(PAGE, page.encode())


if __name__ == "__main__":
    main()
