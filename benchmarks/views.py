"""Views per second and core: each policy on the device and inside tf.data, beside KerasCV layers and beside Pillow.

    KERAS_BACKEND=jax python benchmarks/views.py
    KERAS_BACKEND=jax python benchmarks/views.py --policies simvae-mnist simclr-cifar10 --seconds 3

Four ways to make the same views of the same random images, one after the other in one process:

    device    `Views` compiled by the active backend (JAX: jit, TensorFlow: tf.function, PyTorch: eager)
    tf.data   the same object inside `Dataset.map`
    KerasCV   the same policy out of KerasCV layers inside `Dataset.map` (their brightness is additive, at the same
              cost; skipped with a remark where keras-cv is missing)
    Pillow    one image at a time, as torchvision works on Pillow's images

The rate is views per second of processor time, all threads counted: a busy machine changes it little, and an added core
flatters no one. On a GPU the device column is per second of wall time, and marked with *.
"""

import argparse
import importlib.util
import json
import os
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--policies", nargs="+", default=None, help="names of policies (default: all that take images)")
parser.add_argument("--batch-size", type=int, default=64, help="images per batch")
parser.add_argument("--num-views", type=int, default=4, help="views per image")
parser.add_argument("--seconds", type=float, default=2.0, help="processor time to spend on each figure, at least")
parser.add_argument("--image-size", type=int, help="pixels of a side (default: those of the policy's data set)")
parser.add_argument("--only", choices=("device",), help="the first of the four alone")
parser.add_argument("--json", metavar="FILE", help="add the rate on the device to this file, as an object a line")
parser.add_argument("--cores", type=int, default=1, help="cores the process may use (Linux)")


def limit_cores(cores):
    """Before any framework starts its threads: more threads than cores cost time and make nothing faster."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-cores:])
    os.environ.setdefault("OMP_NUM_THREADS", str(cores))
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", str(cores))
    os.environ.setdefault("TF_NUM_INTEROP_THREADS", str(cores))
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def image_shape(name):
    if "digits" in name:
        return 8, 8, 1
    if "mnist" in name:
        return 28, 28, 1
    return (64, 64, 3) if "celeba" in name else (32, 32, 3)


def rate(step, views, seconds, clock=time.process_time):
    """Views per second of `clock`, after one call to compile and warm up."""
    step()
    start, calls = clock(), 0
    while clock() - start < seconds:
        step()
        calls += 1
    return calls * views / (clock() - start)


# ----------------------------------------------------------------------------------------------------------------------
# Views


def device_step(views, images):
    """A function without arguments that makes one batch of views on the device and waits for it."""
    import keras

    backend = keras.backend.backend()
    batch = keras.ops.convert_to_tensor(images)
    if backend == "jax":
        import jax

        compiled = jax.jit(lambda x, step: views(x, training=True, seed=step))
        counter = iter(range(10**9))
        return lambda: compiled(batch, next(counter)).block_until_ready()
    if backend == "tensorflow":
        import tensorflow as tf

        compiled = tf.function(lambda x: views(x, training=True), jit_compile=on_gpu())  # as `fit` does
        return lambda: compiled(batch).numpy()

    def step():
        out = views(batch, training=True)
        return out[0, 0, 0, 0, 0].item()  # waits for a GPU

    return step


def dataset_step(images, make_views):
    """A function without arguments that takes one batch out of a dataset that makes views."""
    import tensorflow as tf

    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    options.threading.max_intra_op_parallelism = 1
    dataset = tf.data.Dataset.from_tensors(images).repeat().enumerate().map(make_views).with_options(options)
    iterator = iter(dataset)
    return lambda: next(iterator)


# ----------------------------------------------------------------------------------------------------------------------
# The same policies out of KerasCV layers


def keras_cv_views(row, shape, num_views):
    import keras
    import keras_cv
    import tensorflow as tf

    layers, height, width = keras_cv.layers, *shape[:2]
    steps = []
    for name, value in row.items():
        if value is None:
            continue
        if name == "crop":
            factors = {"crop_area_factor": value["scale"], "aspect_ratio_factor": value["ratio"]}
            steps.append(layers.RandomCropAndResize((height, width), **factors))
        elif name == "shift":
            steps.append(lambda x, p=value: tf.pad(x, [[0, 0], [p, p], [p, p], [0, 0]], mode="REFLECT"))
            steps.append(layers.RandomCrop(height, width))
        elif name == "jitter" and shape[-1] == 1:
            jitter = [
                layers.RandomBrightness(value["brightness"], value_range=(0, 1)),
                layers.RandomContrast(value_range=(0, 1), factor=value["contrast"]),
            ]
            steps += [layers.RandomApply(layer, rate=value["probability"]) for layer in jitter]
        elif name == "jitter":
            factors = {f"{key}_factor": value[key] for key in ("brightness", "contrast", "saturation", "hue")}
            jitter = layers.RandomColorJitter(value_range=(0, 1), **factors)
            steps.append(jitter if value["probability"] == 1 else layers.RandomApply(jitter, rate=value["probability"]))
        elif name == "gray" and shape[-1] == 3:
            steps.append(layers.RandomApply(layers.Grayscale(output_channels=3), rate=value))
        elif name == "blur":
            blur = layers.RandomGaussianBlur(kernel_size=value["kernel_size"], factor=value["sigma"])
            steps.append(layers.RandomApply(blur, rate=value["probability"]))
        elif name == "flip":
            steps.append(layers.RandomFlip(value, rate=0.5))
        elif name == "threshold":
            steps.append(lambda x, t=value: tf.cast(x > t, "float32"))
        elif name == "normalize":
            steps.append(lambda x, v=value: (x - v["mean"]) / v["std"])
        elif name == "noise":
            steps.append(lambda x, s=value: x + tf.random.normal(tf.shape(x), stddev=s))

    def make_views(_, images):
        x = tf.repeat(tf.cast(images, "float32") / 255, num_views, axis=0)
        for step in steps:
            x = step(x, training=True) if isinstance(step, keras.Layer) and takes_training(step) else step(x)
        return tf.reshape(x, (-1, num_views, *shape))

    return make_views


def takes_training(layer):
    import inspect

    return "training" in inspect.signature(layer.call).parameters


# ----------------------------------------------------------------------------------------------------------------------
# The same policies with Pillow, one image at a time


def pillow_view(row, image, rng):
    """One view of a PIL image, as torchvision's transforms make it on Pillow images -> float32 (H, W, C)."""
    import numpy as np
    from PIL import Image, ImageEnhance, ImageFilter, ImageOps

    array = None
    for name, value in row.items():
        if value is None:
            continue
        if name == "crop":
            image = image.resize(image.size, Image.BILINEAR, box=crop_box(image.size, value, rng))
        elif name == "shift":
            padded = Image.fromarray(
                np.pad(np.asarray(image), [(value, value)] * 2 + [(0, 0)] * (image.mode == "RGB"), "reflect")
            )
            left, top = rng.integers(0, 2 * value + 1, 2)
            image = padded.crop((left, top, left + image.width, top + image.height))
        elif name == "jitter" and rng.uniform() < value["probability"]:
            for operation in rng.permutation(("brightness", "contrast", "saturation", "hue")):
                strength = value[operation]
                if operation == "hue" and image.mode == "RGB":
                    hue, saturation, brightness = image.convert("HSV").split()
                    turn = np.uint8(int(rng.uniform(-strength, strength) * 255) % 256)
                    hue = Image.fromarray(np.asarray(hue) + turn)
                    image = Image.merge("HSV", (hue, saturation, brightness)).convert("RGB")
                elif operation != "hue":
                    kinds = {"brightness": "Brightness", "contrast": "Contrast", "saturation": "Color"}
                    factor = rng.uniform(max(0, 1 - strength), 1 + strength)
                    image = getattr(ImageEnhance, kinds[operation])(image).enhance(factor)
        elif name == "gray" and image.mode == "RGB" and rng.uniform() < value:
            image = image.convert("L").convert("RGB")
        elif name == "blur" and rng.uniform() < value["probability"]:
            image = image.filter(ImageFilter.GaussianBlur(rng.uniform(*value["sigma"])))
        elif name == "flip" and rng.uniform() < 0.5:
            image = ImageOps.mirror(image) if value == "horizontal" else ImageOps.flip(image)
        elif name in ("threshold", "normalize", "noise"):
            array = to_array(image) if array is None else array
            if name == "threshold":
                array = (array > value).astype("float32")
            elif name == "normalize":
                array = (array - np.float32(value["mean"])) / np.float32(value["std"])
            else:
                array = array + rng.normal(0, value, array.shape).astype("float32")
    return to_array(image) if array is None else array


def crop_box(size, value, rng):
    import math

    width, height = size
    for _ in range(10):
        area = rng.uniform(*value["scale"]) * width * height
        ratio = math.exp(rng.uniform(*map(math.log, value["ratio"])))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            left, top = rng.integers(0, width - w + 1), rng.integers(0, height - h + 1)
            return (left, top, left + w, top + h)
    return (0, 0, width, height)


def to_array(image):
    import numpy as np

    array = np.asarray(image, dtype="float32") / 255
    return array[..., None] if array.ndim == 2 else array


def pillow_step(row, images, num_views):
    import numpy as np
    from PIL import Image

    rng = np.random.default_rng(0)
    pictures = [Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image) for image in images]
    return lambda: np.stack([pillow_view(row, picture, rng) for picture in pictures for _ in range(num_views)])


# ----------------------------------------------------------------------------------------------------------------------


def on_gpu():
    import keras

    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        return jax.default_backend() != "cpu"
    if backend == "torch":
        import torch

        return torch.cuda.is_available()
    import tensorflow as tf

    return bool(tf.config.list_physical_devices("GPU"))


def clock():
    """Of processor time, all threads counted, which other work on the machine changes little; on a GPU of wall time."""
    return time.perf_counter if on_gpu() else time.process_time


def main(flags):
    import keras
    import numpy as np

    from sslzoo.views import POLICIES, Views

    names = flags.policies or [name for name in POLICIES if name != "gedi-toy"]
    have_tensorflow = flags.only is None and importlib.util.find_spec("tensorflow") is not None
    have_keras_cv = have_tensorflow
    if have_keras_cv:
        try:
            import keras_cv
        except Exception as error:
            have_keras_cv = False
            print(f"KerasCV rows are skipped: import keras_cv -> {type(error).__name__}: {error}")
    if not have_tensorflow and flags.only is None:
        print("tf.data columns are skipped: TensorFlow is not installed")
    gpu = on_gpu()

    print(
        f"views per second and core, backend {keras.backend.backend()}, {flags.batch_size} images x "
        f"{flags.num_views} views, keras {keras.__version__}"
        + (f", keras-cv {keras_cv.__version__}" if have_keras_cv else "")
    )
    print(
        f"{'policy':22}{'image':>10}{'device':>11}{'tf.data':>11}{'KerasCV':>11}{'Pillow':>11}"
        f"{'device/Pillow':>15}{'tf.data/Pillow':>16}{'tf.data/KerasCV':>17}"
    )
    for name in names:
        shape, row, count = image_shape(name), POLICIES[name], flags.batch_size * flags.num_views
        shape = (flags.image_size, flags.image_size, shape[-1]) if flags.image_size else shape
        images = np.random.default_rng(0).integers(0, 256, (flags.batch_size, *shape)).astype("uint8")
        rates = dict.fromkeys(("device", "tf.data", "KerasCV", "Pillow"))
        step = device_step(Views(name, flags.num_views, seed=0), images)
        rates["device"] = rate(step, count, flags.seconds, clock())
        if flags.json:
            measured = {"batch_size": flags.batch_size, "num_views": flags.num_views, "side": shape[0]}
            measured |= {"backend": keras.backend.backend(), "precision": "float32", "device": "GPU" if gpu else "cpu"}
            with open(flags.json, "a") as file:
                file.write(json.dumps({"what": name, "views_per_second": rates["device"], **measured}) + "\n")
        if have_tensorflow:
            views = Views(name, flags.num_views, seed=0)
            step = dataset_step(images, lambda i, x, views=views: views(x, training=True, seed=(0, i)))
            rates["tf.data"] = rate(step, count, flags.seconds)
        if have_keras_cv:
            rates["KerasCV"] = rate(
                dataset_step(images, keras_cv_views(row, shape, flags.num_views)), count, flags.seconds
            )
        if flags.only is None:
            rates["Pillow"] = rate(pillow_step(row, images, flags.num_views), count, flags.seconds)

        def ratio(a, b, rates=rates):
            return f"{rates[a] / rates[b]:.1f} x" if rates[a] and rates[b] else "-"

        cells = [f"{value:,.0f}" if value else "-" for value in rates.values()]
        cells[0] += "*" if gpu else ""
        print(
            f"{name:22}{'x'.join(map(str, shape)):>10}"
            + "".join(f"{cell:>11}" for cell in cells)
            + f"{ratio('device', 'Pillow'):>15}{ratio('tf.data', 'Pillow'):>16}{ratio('tf.data', 'KerasCV'):>17}",
            flush=True,
        )


if __name__ == "__main__":
    arguments = parser.parse_args()
    limit_cores(arguments.cores)
    main(arguments)
