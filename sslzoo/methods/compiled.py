"""Functions as models, so that `predict_on_batch` and `predict` compile them, once, on every backend."""

import functools
import inspect

import keras
import numpy as np
from keras import ops

from sslzoo.errors import InvalidInputError


class Compiled(keras.Model):
    """Calls a function of tensors.

    Args:
        owner: layer or model whose variables the function reads.
        function: callable, tensors -> tensors, batch in front.
    """

    def __init__(self, owner, function):
        super().__init__(name="compiled", dtype="float32")
        self.owner = owner
        self.function = function
        self.built = True

    def call(self, inputs):
        return self.function(inputs)


def predicted(model: keras.Model, images, most: int = 1024) -> np.ndarray:
    """`model.predict` in whole batches of a power of two: one program, and they can be shared out to several devices.

    Args:
        model: with one output.
        images: array or `StreamedImages` (N, ...), N > 0.
        most: int, images of a batch, a power of two.
    """
    size = min(most, 1 << (len(images) - 1).bit_length())

    def predict(part):
        whole = part if len(part) == size else np.resize(part, (size, *part.shape[1:]))
        return model.predict(whole, batch_size=size, verbose=0)

    return np.concatenate([predict(images[n : n + size]) for n in range(0, len(images), size)])[: len(images)]


def check_watched(images) -> None:
    """Raise InvalidInputError unless these are images, or ready-made views, that a callback can watch a model with."""
    if np.ndim(images) not in (4, 5) or len(images) < 2:
        raise InvalidInputError(
            "images must be at least two raw images (N, H, W, C), or ready-made views (N, J, H, W, C) of as many. "
            f"Received: images of shape {np.shape(images)}"
        )


def watched_views(model, images, seed: int) -> list:
    """First and second views of such images, as a method's networks see them: (N, H, W, C) each; or the first alone."""
    views, images = model.views, np.asarray(images)
    if images.ndim == 4:
        if views is None:
            raise InvalidInputError(
                "A model made without `views` needs ready-made views (N, J, H, W, C) here too. "
                f"Received: images of shape {images.shape}"
            )
        accepted = inspect.signature(views.call).parameters
        arguments = {"training": True, "seed": seed, "num_views": 2}
        if "seed" not in accepted:  # a layer of the user's own: a copy has its own random state
            views = type(views).from_config(views.get_config())
        draw = functools.partial(views, **{name: value for name, value in arguments.items() if name in accepted})
        before = [(variable, ops.copy(variable.value)) for variable in views.variables]
        images = Compiled(views, draw).predict_on_batch(images)
        for variable, value in before:  # a step with a generator of its own draws from it, whatever the seed
            variable.assign(value)
    return [images[:, view] for view in range(min(2, images.shape[1]))]
