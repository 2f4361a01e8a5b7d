"""The shape of a transform: its random numbers, and what it is at training, at inference and in a saved model."""

import keras
import numpy as np

from sslzoo import checks, constructors
from sslzoo.errors import InvalidInputError

# The one private import from Keras. `DataLayer` is what lets Keras' own preprocessing layers run inside `tf.data`
# under every backend (inside a TensorFlow graph its `self.backend` becomes TensorFlow's), and Keras does not export it.
# Should it move one day: `Rescaling` derives from it directly.
try:
    from keras.src.layers.preprocessing.data_layer import DataLayer
except ImportError:
    DataLayer = keras.layers.Rescaling.__base__


class Stream(keras.random.SeedGenerator):
    """Seeds that are a function of one pair of integers: the n-th is made of the pair and n, and nothing is stored.

    Equal pairs give equal draws, whatever was drawn before: what makes a `tf.data` pipeline resumable from any step.

    Args:
        pair: integer tensor (2,) of the backend's seed type.
        backend: the Keras backend that holds it.
    """

    def __init__(self, pair, backend):
        # The parent's constructor would create the state variable that a stream exists to avoid.
        self.pair, self.backend, self.draws = pair, backend, 0
        # PyTorch's generators take a number: it is fetched once, so that Python does not wait for a GPU at each draw.
        self.fetched = getattr(getattr(pair, "device", None), "type", "cpu") not in ("cpu", "meta")
        if self.fetched:
            self.pair = pair.cpu()

    def next(self, ordered=True):
        # PyTorch seeds with the sum of a pair, so (0, 1) and (1, 0) are one seed there: odd multipliers keep calls and
        # draws apart. Both fit the int32 that PyTorch multiplies, and wraps, in.
        self.draws += 1
        scale = np.array([1_540_483_477, 1])
        shift = np.array([self.draws * 668_265_263 % checks.SEED_LIMIT, 0])
        if self.fetched:  # beside the pair, wherever other tensors go
            return self.pair * self.pair.new_tensor(scale) + self.pair.new_tensor(shift)
        dtype = self.backend.random_seed_dtype()
        scale, shift = (self.backend.convert_to_tensor(x, dtype=dtype) for x in (scale, shift))
        return self.pair * scale + shift


class RandomLayer(DataLayer):
    """Base of random layers, in float32: one seed, a pair of integers, decides all that a call draws.

    Args:
        seed: int in [0, 2**31), or None for a random one.
    """

    generator = None

    def __new__(cls, *args, **kwargs):
        layer = super().__new__(cls, *args, **kwargs)
        object.__setattr__(layer, "_given", frozenset(kwargs))  # Keras is not ready to track attributes
        return layer

    def __init__(self, seed=None, **kwargs):
        kwargs["dtype"] = "float32"  # pixels need more than bfloat16's 8 bits, whatever the model's policy
        super().__init__(**kwargs)
        self.seed = checks.seed(seed=seed)

    def __call__(self, images, **kwargs):
        seed = kwargs.get("seed")
        if seed is not None and not isinstance(seed, Stream):
            kwargs["seed"] = lambda: seed  # Keras refuses arguments that mix tensors and numbers, as (0, step) does
        return super().__call__(images, **kwargs)

    def stream(self, seed=None):
        """The random numbers of one call: from `seed` if given, else from the layer's generator, which moves on by one.

        Args:
            seed: None, a `Stream`, an int or a pair of ints. An int may be a scalar tensor, a pair a tensor (2,).
        """
        seed = seed() if callable(seed) else seed
        if isinstance(seed, Stream):
            return seed
        if seed is None:
            if self.generator is None:
                raise InvalidInputError(
                    f"Expected `seed=` in the call: {self.name!r} is a step of a `Views`, which draws for it, and has "
                    "no random state of its own. Received: seed=None"
                )
            return Stream(self._get_seed_generator(self.backend.name).next(), self.backend)
        return Stream(self._seed_pair(seed), self.backend)

    def _seed_pair(self, seed):
        dtype = self.backend.random_seed_dtype()
        parts = list(seed) if isinstance(seed, (tuple, list)) else [seed]
        for part in parts:
            if isinstance(part, (bool, float, str)) or "int" not in str(getattr(part, "dtype", "int")):
                raise InvalidInputError(f"Expected integer seeds. Received: seed={seed!r}")
            if isinstance(part, int):
                checks.seed(seed=part)
        parts = [self.backend.cast(self.backend.convert_to_tensor(part), dtype) for part in parts]
        shapes = [tuple(part.shape) for part in parts]
        if shapes == [(2,)]:
            return parts[0]
        if shapes not in ([()], [(), ()]):
            raise InvalidInputError(f"Expected a seed of one or two integers. Received: seed={seed!r}")
        if len(parts) == 1:
            parts.append(self.backend.numpy.zeros_like(parts[0]))
        return self.backend.numpy.stack(parts)

    def get_config(self):
        """Arguments that the class names itself, or was given, each of which is an attribute of the same name."""
        names = constructors.kept(self, RandomLayer, self._given)
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}


class ImageTransform(RandomLayer):
    """Base of the transforms: `get_random_transformation` draws a row per image, `transform_images` is the mathematics.

    Example:
        import numpy as np
        from sslzoo import augment

        class Fade(augment.ImageTransform):
            def get_random_transformation(self, images, training=True, seed=None):
                return {"light": self.backend.random.uniform((self.backend.shape(images)[0], 1, 1, 1), seed=seed)}

            def transform_images(self, images, transformation, training=True):
                return images * transformation["light"]

        images = np.random.default_rng(0).uniform(size=(4, 8, 8, 3)).astype("float32")
        Fade(seed=0)(images).shape  # (4, 8, 8, 3), each image darkened by an amount of its own

    Call arguments:
        - `images`: (B, H, W, C) or (H, W, C), values in [0, 1].
        - `training`: bool. False draws nothing; None means True, as in Keras' own augmentation layers.
        - `seed`: what to draw from instead of the layer's own random state; see `RandomLayer.stream`.

    Args:
        seed: int in [0, 2**31), or None for a random one. Used when the layer is called without one.
    """

    # Deterministic transforms (False) act at inference too; random ones leave images as they are then.
    random = True
    # Color means gray (one channel, nothing to do) or RGB (three).
    color = False

    def build(self, input_shape):
        if self.random:
            self.generator = keras.random.SeedGenerator(self.seed)

    def call(self, images, training=None, seed=None):
        single = self._check(images)
        images = self.backend.cast(images, "float32")
        images = self.transform_batch(images[None] if single else images, training, seed)
        return images[0] if single else images

    def transform_batch(self, images, training, seed):
        if not self.random:
            return self.transform_images(images, None)
        if training is not None and not training:
            return self.inference(images)
        return self.transform_images(images, self.get_random_transformation(images, seed=self.stream(seed)))

    def get_random_transformation(self, images, training=True, seed=None):
        """What `transform_images` needs to know: a dict of tensors with one row per image, or None."""
        return None

    def transform_images(self, images, transformation, training=True):
        """The transform itself, on a float32 batch."""
        raise NotImplementedError

    def inference(self, images):
        """What a random transform does without randomness."""
        return images

    def core_layers(self, image_shape, name):
        """What the layer does at inference, as a list of core Keras layers: saved models consist of nothing else.

        Args:
            image_shape: tuple (H, W, C) of the input.
            name: str, unique; the names of the layers start with it.
        """
        return []

    def compute_output_shape(self, input_shape):
        return tuple(input_shape)

    def _check(self, images):
        shape = images.shape
        if len(shape) not in (3, 4) or any(side is None for side in tuple(shape)[-3:]):
            raise InvalidInputError(
                "Expected images (B, H, W, C), or one image (H, W, C), with H, W and C known. "
                f"Received: images.shape={tuple(shape)}"
            )
        self.check_channels(shape)
        return len(shape) == 3

    def check_channels(self, shape):
        if self.color and shape[-1] not in (1, 3):
            raise InvalidInputError(
                f"Expected 1 (gray) or 3 (RGB) channels for {type(self).__name__}; "
                f"the policy 'channels' takes any number. Received: images.shape={tuple(shape)}"
            )

    def _uniform(self, shape, seed, low=0.0, high=1.0):
        return self.backend.random.uniform(shape, low, high, dtype="float32", seed=seed)

    def _batch_size(self, images):
        return self.backend.shape(images)[0]


def serializable(transform):
    return keras.saving.register_keras_serializable("sslzoo")(transform)


def per_image(values):
    """(B,) -> (B, 1, 1, 1), to meet a batch of images."""
    return values[:, None, None, None]


class PointwiseTransform(ImageTransform):
    """Base of what takes each number by itself, and so tensors (B, ...) of any shape, points (B, D) included.

    Example:
        import numpy as np
        from sslzoo import augment

        class Square(augment.PointwiseTransform):
            random = False

            def transform_images(self, images, transformation, training=True):
                return images * images

        Square()(np.ones((4, 2), "float32")).shape  # (4, 2): points, too
    """

    def call(self, images, training=None, seed=None):
        self.check_channels(images.shape)
        return self.transform_batch(self.backend.cast(images, "float32"), training, seed)
