"""J views of each image: the augmentation policies of the papers, and the one layer that applies them.

    views = Views("simvae-mnist", num_views=10, seed=0)
    views(images)                                                # uint8 (B, 28, 28, 1) -> float32 (B, 10, 28, 28, 1)
    dataset.map(views)                                           # the same object inside tf.data, under any backend
    dataset.enumerate().map(lambda i, x: views(x, seed=(0, i)))  # repeatable, and resumable from any i
    views.prepare(images)                                        # (B, 28, 28, 1): what networks see at evaluation

A policy is a list of steps; a step is a Keras layer, of `sslzoo.augment` or any image layer of Keras or KerasCV.
"""

import sslzoo.backend  # noqa: F401 - before Keras

# isort: split
import math
import warnings

import keras
import numpy as np

from sslzoo import augment, checks, constructors
from sslzoo.augment.steps import adopt, apply_step, is_keras_cv
from sslzoo.augment.transform import RandomLayer
from sslzoo.errors import InvalidInputError, choose

__all__ = ["DTYPES", "POLICIES", "Views", "policy"]

# Every number of the named policies. A row lists its steps in the order in which they run; None is a step that the row
# leaves out, and that `policy(name, step=...)` can put there.
#
#   crop       RandomResizedCrop(scale = fractions of the area, ratio = width over height, whole_pixels)
#   shift      RandomShift(pixels), the border reflected
#   turn       True: QuarterTurn; or degrees: Rotation
#   flip       "horizontal", "vertical" or "both", each with probability 1/2. Flips commute with all other steps but the
#              first; second in the row, they are part of the crop and cost nothing
#   jitter     ColorJitter(brightness, contrast, saturation, hue), on a fraction `probability` of the images
#   gray       Grayscale(probability)
#   blur       GaussianBlur(kernel_size, sigma in pixels, probability)
#   solarize   Solarize(probability)
#   threshold  Threshold(value)
#   normalize  Normalize(mean, std)
#   lab        Lab(scaled)
#   noise      GaussianNoise(stddev), in the units of the step before it
_WIDE = {"scale": (0.4, 1.0), "ratio": (0.75, 1.3)}
_TIGHT = {"scale": (0.6, 1.0), "ratio": (0.75, 1.3)}
_STRONG = {"brightness": 0.8, "contrast": 0.8, "saturation": 0.8, "hue": 0.2, "probability": 0.8}
_RARE = {"brightness": 0.4, "contrast": 0.4, "saturation": 0.2, "hue": 0.1, "probability": 0.1}
_EVEN = {"brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.4, "probability": 1.0}
_MILD = {"brightness": 0.4, "contrast": 0.4, "saturation": 0.2, "hue": 0.05, "probability": 0.8}
_SIMCLR_CROP = {"scale": (0.08, 1.0), "ratio": (3 / 4, 4 / 3)}
_BLUR = {"kernel_size": 13, "sigma": (0.1, 2.0), "probability": 0.5}
_SIGNED = {"mean": 0.5, "std": 0.5}  # [0, 1] -> [-1, 1]
_IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}

POLICIES = {
    # SimVAE (arXiv:2402.01399), table 2, but for the flip, which is that of the models of these names. The paper's is
    # upside down in the table and in the released code (`flip="vertical"`; the caption says "vertical/horizontal"), but
    # digits have no mirror symmetry, and natural images have the other one. Only MNIST is made binary, after everything
    # else. The order of steps is SimCLR's, whom the paper follows.
    "simvae-mnist": {"crop": _WIDE, "flip": None, "threshold": 0.5},
    "simvae-fashion-mnist": {"crop": _WIDE, "flip": "horizontal"},
    "simvae-cifar10": {"crop": _TIGHT, "flip": "horizontal", "jitter": _STRONG},
    "simvae-celeba": {"crop": _TIGHT, "flip": "horizontal", "jitter": _STRONG},
    # Ours, for the 8x8 digits in scikit-learn: a mild crop, not of whole pixels, which would leave a few dozen boxes in
    # all; and no flip, which would make it another digit.
    "simvae-digits": {"crop": {**_TIGHT, "whole_pixels": False}, "flip": None},
    # SimCLR (arXiv:2002.05709) as solo-learn's "symmetric" recipe sets it for CIFAR, without mean and std. SimCLR
    # itself does not blur CIFAR: `blur=None`. The kernel reaches 3 sigma.
    "simclr-cifar10": {
        "crop": _SIMCLR_CROP,
        "flip": "horizontal",
        "jitter": _STRONG,
        "gray": 0.2,
        "blur": _BLUR,
        "solarize": None,
    },
    # GEDI, table 9, on images in [-1, 1]; MNIST's row is also that of the addition task. The table leaves two things
    # open: "random crop" is read as in JEM, on whose code GEDI builds (pad 4 by reflection, cut back), and the strength
    # of the jitter is a common mild one.
    "gedi-svhn": {"shift": 4, "flip": None, "jitter": _RARE, "gray": 0.1, "normalize": _SIGNED, "noise": 0.03},
    "gedi-cifar10": {
        "shift": 4,
        "flip": "horizontal",
        "jitter": _RARE,
        "gray": 0.1,
        "normalize": _SIGNED,
        "noise": 0.03,
    },
    "gedi-mnist": {
        "crop": None,
        "shift": 4,
        "flip": None,
        "jitter": _RARE,
        "gray": 0.1,
        "normalize": _SIGNED,
        "noise": 0.2,
    },
    # GEDI, table 7: moons and circles, points (B, 2) in the units of the data.
    "gedi-toy": {"noise": 0.03},
    # EBCLR's released configurations: SimCLR's views with noise, in [-1, 1]. Gray images are cropped only.
    "ebclr-cifar10": {
        "crop": _SIMCLR_CROP,
        "flip": "horizontal",
        "jitter": _STRONG,
        "gray": 0.2,
        "blur": {"kernel_size": 3, "sigma": (0.1, 2.0), "probability": 1.0},
        "noise": 0.03,
        "normalize": _SIGNED,
    },
    "ebclr-mnist": {"crop": _SIMCLR_CROP, "flip": None, "noise": 0.03, "normalize": _SIGNED},
    # On Mutual Information in Contrastive Learning (arXiv:2005.13149), B.3, with the strengths of Local Aggregation,
    # which it follows. The paper enlarges CIFAR-10 to 256 pixels and cuts 224; here images keep their size.
    "mi-cifar10": {
        "crop": _SIMCLR_CROP | {"scale": (0.2, 1.0)},
        "flip": "horizontal",
        "gray": 0.2,
        "jitter": _EVEN,
        "normalize": _IMAGENET,
    },
    # The same for CMC (section B.3): no gray views, and Lab at the end. The code of CMC does not jitter: `jitter=None`.
    "mi-cifar10-lab": {
        "crop": _SIMCLR_CROP | {"scale": (0.2, 1.0)},
        "flip": "horizontal",
        "jitter": _EVEN,
        "lab": True,
    },
    # Ours, by domain, for images of 64 pixels and more, with SimCLR's crops (arXiv:2002.05709, appendix A) where
    # objects are what counts, and milder ones where texture or a small finding does.
    "photos": {"crop": _SIMCLR_CROP, "flip": "horizontal", "jitter": _STRONG, "gray": 0.2, "blur": _BLUR},
    # The large views of SwAV's multi-crop (arXiv:2006.09882): 2 of 224 pixels beside 6 of 96, which recipes make by
    # local_views=6 local_size=96 local_scale=(0.05,0.14).
    "photos-multicrop": {
        "crop": _SIMCLR_CROP | {"scale": (0.14, 1.0)},
        "flip": "horizontal",
        "jitter": _STRONG,
        "gray": 0.2,
        "blur": _BLUR,
    },
    # From above there is no up; the hue of fields, roofs and water is what they are known by.
    "satellite": {
        "crop": _SIMCLR_CROP | {"scale": (0.2, 1.0)},
        "flip": "horizontal",
        "turn": True,
        "jitter": _MILD | {"hue": 0.0},
        "blur": _BLUR,
    },
    # Stains and lamps vary a little, and so does the focus.
    "microscopy": {
        "crop": _SIMCLR_CROP | {"scale": (0.2, 1.0)},
        "flip": "horizontal",
        "turn": True,
        "jitter": _MILD,
        "blur": _BLUR,
    },
    # Hearts lie to the left, so nothing is flipped; patients do not lie straight, and exposures differ.
    "xray": {
        "crop": _SIMCLR_CROP | {"scale": (0.3, 1.0)},
        "flip": None,
        "turn": 10.0,
        "jitter": _MILD | {"saturation": 0.0, "hue": 0.0},
        "blur": None,
    },
    # Channels that are no colors: nothing mixes them.
    "channels": {
        "crop": _SIMCLR_CROP | {"scale": (0.2, 1.0)},
        "flip": "horizontal",
        "turn": None,
        "blur": None,
        "noise": None,
    },
}
POLICIES["gedi-cifar100"] = POLICIES["gedi-cifar10"]

DTYPES = ("uint8", "uint16", "int32", "int64", "float16", "bfloat16", "float32", "float64")


def policy(name: str, size: int | tuple[int, int] | None = None, **changes) -> list[keras.Layer]:
    """The steps of a named policy, new layers at each call.

        policy("simvae-mnist", flip="vertical", crop={"scale": (0.6, 1.0)})

    Args:
        name: str, one of `POLICIES`.
        size: int or (height, width) of the views, or None for the size of the images.
        **changes: other values for steps of the policy, in the form of its row in `POLICIES`. None leaves a step out; a
            dict changes only the settings that it names.

    Returns:
        list of Keras layers.

    Raises:
        UnknownNameError: no such policy, step in this policy, setting or flip; the nearest names are in the message.
        InvalidInputError: a value of the wrong kind or out of range.
    """
    row = dict(POLICIES[choose("policy", name, POLICIES)])
    for step, value in changes.items():
        settings = row[choose(f"step of {name}", step, row)]
        if step in _LAYERS and value is not None:
            if not isinstance(value, dict):
                raise InvalidInputError(f"Expected a dict of settings, or None. Received: {step}={value!r}")
            known = set(constructors.arguments(_LAYERS[step], RandomLayer)) - {"seed"}
            value = (settings or {}) | {choose(f"setting of {step}", key, known): value[key] for key in value}
        row[step] = value
    steps = []
    for step, value in row.items():
        if value is not None:
            steps += [_LAYERS[step](**value)] if step in _LAYERS else _MAKE[step](value)
    return steps if size is None else _fit_size(steps, size)


def _flip(kind):
    flips = {
        "horizontal": [augment.HorizontalFlip],
        "vertical": [augment.VerticalFlip],
        "both": [augment.HorizontalFlip, augment.VerticalFlip],
    }
    return [flip(0.5) for flip in flips[choose("flip", kind, flips)]]


_LAYERS = {  # of the steps that have several settings
    "crop": augment.RandomResizedCrop,
    "jitter": augment.ColorJitter,
    "blur": augment.GaussianBlur,
    "normalize": augment.Normalize,
}
_MAKE = {  # of the others
    "shift": lambda pixels: [augment.RandomShift(pixels)],
    "flip": _flip,
    "turn": lambda degrees: [augment.QuarterTurn() if degrees is True else augment.Rotation(degrees)],
    "gray": lambda probability: [augment.Grayscale(probability)],
    "solarize": lambda probability: [augment.Solarize(probability=probability)],
    "threshold": lambda value: [augment.Threshold(value)],
    "lab": lambda scaled: [augment.Lab(scaled)],
    "noise": lambda stddev: [augment.GaussianNoise(stddev)],
}


def _fit_size(steps, size, replace=False):
    """`steps` that make views of `size`: set in the last crop, if it leaves it open or `replace` says so, else by a
    Resize before all."""
    size = checks.size(size=size)
    for index, step in reversed(list(enumerate(steps))):
        if isinstance(step, (augment.RandomResizedCrop, augment.Resize)):
            if step.size is None or replace:
                sized = type(step).from_config({**step.get_config(), "size": size})
                return [*steps[:index], sized, *steps[index + 1 :]]
            if step.size == size:
                return steps
            raise InvalidInputError(
                f"Expected `size` as in the step {step.name!r}, which makes {step.size}. Received: size={size}"
            )
    return [augment.Resize(size), *steps]


@keras.saving.register_keras_serializable("sslzoo")
class Views(RandomLayer):
    """Makes J views of each image; every image and every view has random numbers of its own.

    Images are scaled to 0..1, those in 0..255 by 1/255, then go through the steps of the policy. The same object works
    in a model on the device, compiled or not, and inside `tf.data` under every backend.

    Example:
        import numpy as np
        from sslzoo import views

        images = np.random.default_rng(0).integers(0, 256, (4, 28, 28, 1)).astype("uint8")
        make = views.Views("simvae-mnist", num_views=10, seed=0)
        make(images).shape          # (4, 10, 28, 28, 1), float32
        make.prepare(images).shape  # (4, 28, 28, 1): what a network sees at evaluation

    Call arguments:
        - `images`: (B, H, W, C), or one image (H, W, C) of at most 4 channels, values 0..255 or in `value_range`,
          integers or floats. Policies of Gaussian noise only also take points (B, D), in their own units.
        - `training`: bool. False draws nothing and gives J equal views, of the deterministic steps alone. None means
          what the model around it says, and True outside of one.
        - `seed`: None to draw from the layer's own random state, which moves on by one at each call and is among the
          variables of a model; a `.keras` file leaves it out, as Keras does of all layers, and `callbacks.Checkpoint`
          keeps it. Or an int or a pair of ints, Python's or tensors: the views are then a function of images and
          seed, and the state stays. Inside `tf.data` only this is repeatable when a map runs in parallel, or
          when reading starts in the middle. The numbers differ between backends; inside `tf.data` they are always
          TensorFlow's.
        - `num_views`: int, in place of the constructor's for this call.

    Returns of a call:
        float32 (B, J, h, w, C), or (J, h, w, C) of one image; range [0, 1] unless the policy normalizes or adds noise.
        `size` is theirs when training, `eval_size` otherwise.

    Steps: any Keras layer from images (B, H, W, C) in [0, 1] to images. Say `value_range=(0, 1)` where a layer asks for
    one. Keras' image layers draw from this layer's seeds too; its RandomCrop, which cuts all images of a batch at the
    same place, is refused, and its RandomGaussianBlur draws one width for all. KerasCV layers need TensorFlow
    (`tf.data` or its backend), draw from TensorFlow's own generators, and are left out when not training. Layers
    without `supports_jit` switch off the compilation of the model around them: a warning says so.

    Args:
        policy: str, a name in `POLICIES`, or a list of steps.
        num_views: int J, at least 1.
        size: int or (height, width) of the views, or None for what the policy makes of the images.
        seed: int in [0, 2**31), or None for a random one.
        eval_size: int or (height, width) of what `prepare` and `preprocessor` make, or None for that of the views.
            Random crops enlarge what they show, so a network of any size that is trained on small views does better
            on larger images (Touvron et al., "Fixing the train-test resolution discrepancy").
        value_range: (low, high), the values of raw images that become 0 and 1 (`sslzoo.data.value_range`). Of another
            range than 0..255 and 0..1, values beyond become 0 and 1, too.

    Raises:
        UnknownNameError: no policy of that name.
        InvalidInputError: an argument out of range, or a step of `keras.layers.RandomCrop`; in a call, images of
            another rank, dtype or number of channels.
    """

    def __init__(
        self,
        policy: str | list[keras.Layer],
        num_views: int,
        size: int | tuple[int, int] | None = None,
        seed: int | None = None,
        eval_size: int | tuple[int, int] | None = None,
        value_range: tuple[float, float] = (0.0, 255.0),
        **kwargs,
    ):
        super().__init__(seed=seed, **kwargs)
        self.value_range = checks.interval(-math.inf, math.inf, value_range=value_range)
        low, high = self.value_range
        if low == high:
            raise InvalidInputError(f"value_range must be (low, high). Received: value_range={value_range!r}")
        self._scale, self._offset = 1 / (high - low), -low / (high - low)
        # A range that was read off images has values beyond, which color steps cut off: so every image's are, always.
        self._clips = self.value_range not in ((0.0, 255.0), (0.0, 1.0))
        self.num_views = checks.count(num_views=num_views)
        self.size = checks.size(size=size)
        self.eval_size = checks.size(eval_size=eval_size)
        steps = _named_steps(policy) if isinstance(policy, str) else policy
        if not isinstance(steps, (list, tuple)) or not all(isinstance(step, keras.Layer) for step in steps):
            raise InvalidInputError(f"policy must be a name or a list of Keras layers. Received: policy={policy!r}")
        self.steps = list(steps) if self.size is None else _fit_size(list(steps), self.size)
        self.eval_steps = self.steps if self.eval_size is None else _fit_size(list(steps), self.eval_size, replace=True)
        self.policy = policy if isinstance(policy, str) else self.steps
        for step in {id(step): step for step in (*self.steps, *self.eval_steps)}.values():
            adopt(step)
        self.generator = keras.random.SeedGenerator(self.seed)
        self._warn_of_steps()
        self.built = True  # nothing here depends on what it is called with

    def _warn_of_steps(self):
        slow = [step.name for step in self.steps if not all(part.supports_jit for part in step._flatten_layers())]
        if slow:
            warnings.warn(
                f"The steps {slow} do not support compilation: a model that contains these views is not compiled "
                "(`jit_compile`). Inside `tf.data` this does not matter.",
                stacklevel=3,
            )

    def _warn_of_own_seeds(self):
        own = [
            part.name
            for step in self.steps
            for part in step._flatten_layers()
            if is_keras_cv(part) or hasattr(part, "seed_generator") or isinstance(part, keras.layers.AugMix)
        ]
        if own:
            warnings.warn(
                f"The steps {own} draw from generators of their own: `seed` does not reach them.", stacklevel=3
            )

    def __call__(self, images, **kwargs):
        # Before Keras converts anything: it would turn a wrong dtype or rank into an error of the backend.
        if not hasattr(images, "shape"):
            images = np.asarray(images)
        self._check_images(images)
        return super().__call__(images, **kwargs)

    def call(self, images, training=None, seed=None, num_views=None):
        nx = self.backend.numpy
        count = self.num_views if num_views is None else checks.count(num_views=num_views)
        rank = len(images.shape)
        batch = self.backend.cast(images, "float32")
        batch = batch if rank == 2 else batch * self._scale
        batch = batch + self._offset if self._offset and rank > 2 else batch
        batch = nx.clip(batch, 0.0, 1.0) if self._clips and rank > 2 else batch
        batch = batch[None] if rank == 3 else batch
        if training is not None and not training:
            batch = self._apply(self.eval_steps, batch, False, None)
            shape = (self.backend.shape(batch)[0], count, *batch.shape[1:])
            batch = nx.broadcast_to(batch[:, None], shape)
        else:
            if seed is not None:
                self._warn_of_own_seeds()
            stream, (crop, flips, steps) = self.stream(seed), self._split_steps()
            if crop:
                # J crops read one image, so nothing is copied, and flip on the way.
                batch = crop(batch, training=True, seed=stream, num_views=count, flips=flips)
            else:
                batch = nx.repeat(batch, count, axis=0)
            batch = self._apply(steps, batch, True, stream)
            batch = nx.reshape(batch, (-1, count, *batch.shape[1:]))
        return batch[0] if rank == 3 else batch

    def _split_steps(self):
        """A first step that makes views by itself, the flips it can take along, and the steps that remain."""
        if not self.steps or not isinstance(self.steps[0], augment.SeparableTransform):
            return None, [], self.steps
        flips, rest = {}, self.steps[1:]
        while rest and isinstance(rest[0], augment.Flip) and rest[0].axis not in flips:
            flips[rest[0].axis], rest = rest[0], rest[1:]
        return self.steps[0], list(flips.values()), rest

    def _apply(self, steps, batch, training, stream):
        for step in steps:
            batch = apply_step(step, batch, training, stream, self.backend)
        return batch

    def prepare(self, images):
        """What a network sees of an image when nothing is random: its single deterministic view.

        Args:
            images: (B, H, W, C), or one image (H, W, C), as in a call.

        Returns:
            float32 (B, h, w, C), or (h, w, C).
        """
        views = self(images, training=False, num_views=1)
        return views[0] if len(views.shape) == 4 else views[:, 0]

    def preprocessor(self, image_shape: tuple[int, int, int]) -> keras.Model:
        """`prepare` as a Functional model of core Keras layers only, which loads without sslzoo.

        Args:
            image_shape: tuple (H, W, C) of raw images.

        Returns:
            keras.Model from float32 (B, H, W, C), values in `value_range`, to `prepare` of it.

        Raises:
            InvalidInputError: a step that is no deterministic core layer changes images at inference, or the image
                shape does not fit the policy.
        """
        image_shape = checks.shape(3, image_shape=image_shape)
        probe = np.random.default_rng(0).uniform(*self.value_range, (2, *image_shape)).astype("float32")
        self.prepare(probe)  # refuses a shape that the policy cannot take

        inputs = outputs = keras.Input(image_shape, dtype="float32", name="images")
        outputs = keras.layers.Rescaling(self._scale, self._offset, dtype="float32", name="unit_range")(outputs)
        if self._clips:
            outputs = keras.layers.ReLU(max_value=1.0, dtype="float32", name="step_0_clip")(outputs)
        for index, step in enumerate(self.eval_steps):
            for layer in self._core_layers(step, tuple(outputs.shape[1:]), f"step_{index}"):
                outputs = layer(outputs)
        return keras.Model(inputs, outputs, name="preprocessor")

    def _core_layers(self, step, shape, name):
        own = getattr(type(step), "core_layers", None)
        if own is not None and own is not augment.ImageTransform.core_layers:
            return step.core_layers(shape, f"{name}_{type(step).__name__.lower()}")
        # Whether another layer does anything at inference shows only when it is asked.
        probe = np.random.default_rng(0).uniform(0, 1, (2, *shape)).astype("float32")
        result = apply_step(step, self.backend.convert_to_tensor(probe), False, None, self.backend)
        result = keras.ops.convert_to_numpy(result)
        if result.shape == probe.shape and np.array_equal(result, probe):
            return []
        draws = getattr(step, "generator", None) is not None or getattr(step, "seed_generator", None) is not None
        if draws or type(step).__module__.partition(".")[0] != "keras":
            raise InvalidInputError(
                "Expected steps that leave images alone at inference, or deterministic core Keras layers, since saved "
                f"models consist of those. Received: step={step.name!r} ({type(step).__name__})"
            )
        return [step]

    def compute_output_spec(self, images, training=None, seed=None, num_views=None):
        return keras.KerasTensor(self.compute_output_shape(images.shape, training, num_views), "float32")

    def compute_output_shape(self, input_shape, training=None, num_views=None):
        """Shape of the views. Sides are None where they are others in training, and `training` does not say which."""
        shape = tuple(input_shape)
        batch, image = (shape[:-3], shape[-3:]) if len(shape) > 2 else (shape[:1], shape[1:])
        trained, seen = (_shape_after(steps, image) for steps in (self.steps, self.eval_steps))
        image = trained if training else seen
        if training is None:
            image = tuple(side if side == other else None for side, other in zip(trained, seen))
        return (*batch, self.num_views if num_views is None else num_views, *image)

    def _check_images(self, images):
        shape = tuple(images.shape)
        try:
            dtype = keras.backend.standardize_dtype(images.dtype)
        except ValueError:
            dtype = str(images.dtype)
        if dtype not in DTYPES:
            raise InvalidInputError(f"Expected images of dtype {', '.join(DTYPES)}. Received: dtype={dtype}")
        if len(shape) == 2 and self.steps and all(isinstance(s, augment.PointwiseTransform) for s in self.steps):
            return
        expected = None
        if len(shape) not in (3, 4):
            expected = "images (B, H, W, C), or one image (H, W, C)"
        elif len(shape) == 3 and (shape[-1] is None or shape[-1] > 4):
            expected = "images (B, H, W, C), or one image (H, W, C) with C <= 4 (gray images have a last axis of 1)"
        elif any(side is None for side in shape[-3:]):
            expected = "images (B, H, W, C) with H, W and C known (use `ensure_shape` inside `tf.data`)"
        if expected:
            raise InvalidInputError(f"Expected {expected}. Received: images.shape={shape}")
        for step in self.steps:
            if isinstance(step, augment.ImageTransform):
                step.check_channels(shape)

    def get_config(self):
        config = super().get_config()
        if "policy" in config and not isinstance(self.policy, str):  # a subclass may choose it itself
            config["policy"] = [keras.saving.serialize_keras_object(step) for step in self.policy]
        return config

    @classmethod
    def from_config(cls, config):
        config = dict(config)
        if not isinstance(config.get("policy", ""), str):
            config["policy"] = [keras.saving.deserialize_keras_object(step) for step in config["policy"]]
        return cls(**config)


def _shape_after(steps, image):
    for step in steps:
        try:
            image = tuple(step.compute_output_shape((None, *image)))[1:]
        except NotImplementedError:  # KerasCV layers do not say, and keep the shape
            continue
    return image


def _named_steps(name):
    return policy(name)
