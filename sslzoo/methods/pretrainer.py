"""The base class of every method: the only file that meets Keras' trainer.

Keras 3 has three trainers, one per backend, and each of their `train_step`s calls `compute_loss`. So a method writes

    call       images -> views -> encoder -> heads    (what is differentiated)
    objective  outputs -> named loss terms            (the paper)
    update     outputs -> state                       (teachers, queues, banks; after they were used)

and nothing of the trainers again: `compute_loss` below is the objective of each method inside the training step of
each backend. That is why no method overrides `train_step`.

What Keras lacks stands here too: under JAX, before Keras 3.16, `compile(steps_per_execution=K)` calls one compiled step
K times. Here the K steps are one program (`make_train_function`).
"""

import inspect
import itertools
import warnings
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from sslzoo import checks
from sslzoo.data import Stacked
from sslzoo.errors import InvalidInputError
from sslzoo.methods.advice import Advice
from sslzoo.networks.composition import compose, scales_twice


def full_precision(tensor):
    """Float tensors as float32, whatever the dtype policy: losses and stored state live there."""
    if "float" in keras.backend.standardize_dtype(tensor.dtype):
        return ops.cast(tensor, "float32")
    return tensor


def fuses_its_steps():
    """Whether `steps_per_execution` is made one program here: Keras 3.16 does so itself, TensorFlow has its loop."""
    version = tuple(int(number) for number in keras.__version__.split(".")[:2])
    return keras.backend.backend() == "jax" and version < (3, 16)


def _refuse_parts_of_batches():
    """Under PyTorch Keras wraps a model in DistributedDataParallel, whose loss sees what its process was given."""
    import torch

    group = torch.distributed
    count = group.get_world_size() if group.is_available() and group.is_initialized() else 1
    if count > 1 or keras.distribution.distribution() is not None:
        raise InvalidInputError(
            "Under PyTorch Keras hands each process a part of the batch, and losses would compare the images of that "
            "part alone: other negatives and statistics than on one device. KERAS_BACKEND=jax trains on several "
            f"devices and in several processes. Received: {count} process{'es' * (count > 1)}, "
            f"distribution={keras.distribution.distribution()}"
        )


def _fused_steps(model):
    """(state, iterator) -> (logs, state), as Keras' trainer calls it: up to K steps of the model in one program."""
    import jax

    def program(state, x, y):
        def step(state, batch):
            logs, state = model.train_step(state, batch)
            return state, logs

        steps_first = jax.tree.map(lambda stack: jax.numpy.swapaxes(stack, 0, 1), (x, y))
        state, logs = jax.lax.scan(step, state, steps_first)
        return jax.tree.map(lambda log: log[-1], logs), state

    shardings = None
    if keras.distribution.distribution() is not None:
        groups = model.trainable_variables, model.non_trainable_variables
        groups = *groups, model.optimizer.variables, model.metrics_variables
        shardings = None, tuple([variable.value.sharding for variable in group] for group in groups)
    program = jax.jit(program, donate_argnums=0, out_shardings=shardings)

    def run(state, iterator):
        batch = next(iterator)
        if isinstance(batch, Stacked):
            return program(state, *batch)
        batches = [batch, *itertools.islice(iterator, model.steps_per_execution - 1)]
        for _, alike in itertools.groupby(batches, key=lambda batch: keras.tree.map_structure(np.shape, batch)):
            logs, state = program(state, *_stack(list(alike)))
        return logs, state

    return run


def _stack(batches):
    """Batches of one shape as one (x, y), stacked as `data.Batches` would have."""
    batches = [keras.utils.unpack_x_y_sample_weight(batch) for batch in batches]
    if batches[0][2] is not None:
        raise InvalidInputError(
            "Self-supervised losses have no weights of samples. Received: batches of (x, y, sample_weight)"
        )
    stack = np.stack if isinstance(keras.tree.flatten(batches[0])[0], np.ndarray) else ops.stack
    pairs = [(x, y) for x, y, _ in batches]
    return keras.tree.map_structure(lambda *arrays: None if arrays[0] is None else stack(arrays, axis=1), *pairs)


def check_index(index, num_images):
    """Raise unless `index` holds places of training images (batch,), as far as that can be seen."""
    dtype = keras.backend.standardize_dtype(index.dtype)
    if "int" not in dtype or len(index.shape) != 1:
        raise InvalidInputError(
            "index must be an integer tensor (batch,), places in the training set. "
            f"Received: index of dtype={dtype}, shape={tuple(index.shape)}"
        )
    try:
        values = np.asarray(index)
    except (TypeError, ValueError, NotImplementedError):  # traced, or on an accelerator: the loss will tell
        return
    outside = values[(values < 0) | (values >= num_images)]
    if outside.size:
        raise InvalidInputError(
            f"index must hold places of {num_images} training images, 0..{num_images - 1}. "
            f"Received: index={int(outside[0])}"
        )


def check_training_images(images, num_images, role):
    """Raise unless there are as many images as a method has rows or labels for; `role` says what for."""
    if len(images) != num_images:
        raise InvalidInputError(f"images must be the {num_images} that {role}. Received: {len(images)} images")


# What the terms of losses stand for in the latent-variable model of "A Probabilistic Model behind Self-Supervised
# Learning", eq. 3-5: views x of one image have latents z around one centre.
ROLES = {
    "prior": "p(z | centre): pulls the views of an image together",
    "reconstruction": "p(x | z): each view is rebuilt, so images stay apart",
    "substitute": "stands where p(x | z) was: images stay apart without being rebuilt",
    "marginal": "p(z) over all images is held to a shape",
    "entropy": "entropy of q(z | x): posteriors do not shrink to points",
    "density": "p(x) itself, by an energy, from samples",
}


class Picture(NamedTuple):
    """What a method shows of itself, as data: `kind` names the function of `sslzoo.evaluation.pictures` that draws it.

    Attributes:
        name: str, of the file, without suffix.
        kind: str, "samples", "reconstructions" or "views".
        arrays: tuple of arrays that the function takes.
        title: str, or None for its own.
    """

    name: str
    kind: str
    arrays: tuple
    title: str | None = None


class Pretrainer(keras.Model):
    """Trains an encoder on views of unlabelled images with `model.fit`.

    Inputs are raw images (B, H, W, C), values 0..255, of which `views` makes J views each on the device; or views
    made beforehand (B, J, H, W, C), in the range the views' policy gives. Labels in `fit` data are ignored.

    The loss is the sum of its named terms, each of which is reported: `terms` lists the names, and the docstring of a
    method says which of them pulls the views of an image together and which pushes images apart (eq. 5 of "A
    Probabilistic Model behind Self-Supervised Learning").

    Every constructor argument is kept as an attribute of the same name. That makes each method serialisable without
    further code, and makes attribute names part of the file format.

    Example:
        import numpy as np
        from keras import ops
        from sslzoo import methods, networks, views

        class Agreement(methods.Pretrainer):
            terms = ("alignment",)
            view_counts = (2, 2)

            def call(self, images, training=False):
                pairs = self.make_views(images, training)
                return ops.stack([self.embed(pairs[:, view], training) for view in (0, 1)], axis=1)

            def objective(self, images, z, training):
                return {"alignment": ops.mean(ops.square(z[:, 0] - z[:, 1]))}  # nothing pushes: it collapses

        images = np.random.default_rng(0).integers(0, 256, (64, 8, 8, 1)).astype("uint8")
        model = Agreement(networks.encoder("mlp-small", (8, 8, 1), 10), views.Views("simvae-digits", 2))
        model.compile("adam")
        model.fit(images, batch_size=16, verbose=0)

    Args:
        encoder: built Keras model, view (N, H, W, C) -> representation (N, L).
        views: `sslzoo.views.Views`, or None when only ready-made views will be given.
        **kwargs: `name`, `dtype` of `keras.Model`.

    Raises:
        InvalidInputError: an encoder that is not built, or that would scale images again after the views; or another
            number of views than the method takes.
    """

    terms: tuple[str, ...] = ()
    # What each term, in their order, stands for in the model that all methods fit: a key of `ROLES`, or two with ", ".
    roles: tuple[str, ...] = ()
    # What is remembered between steps beside weights and optimizer, in words.
    remembers: tuple[str, ...] = ()
    # What keeps images apart where no term of the loss does, in words.
    apart_by = ""
    # What a card cites: {"title": str, "url": str} each.
    papers: tuple[dict, ...] = ()
    # How many views of an image the method takes: (least, most), None for no limit.
    view_counts: tuple[int, int | None] = (1, None)
    # True for methods that know each image by its place in the training set: their inputs are
    # {"images": (B, H, W, C) or (B, J, H, W, C), "index": int32 (B,)}, as `data.pipeline(with_index=True)` gives them.
    indexed = False
    # What to try against a collapse. A method lists what it has of its own; these, open to all, come after that.
    advice: tuple[Advice, ...] = (
        Advice("another learning rate", "optimizer.learning_rate", ("chance",)),
        Advice(
            "a lower learning rate",
            "optimizer.learning_rate",
            ("not finite", "complete", "prototypes", "dimensional", "cone"),
        ),
        Advice("longer warm-up", against=("not finite", "complete", "prototypes", "cone", "chance")),
        Advice("milder views", against=("dimensional", "chance")),
        Advice("float32", against=("not finite",)),
    )

    def __init__(self, encoder: keras.Model, views: keras.Layer | None = None, **kwargs):
        super().__init__(**kwargs)
        if not getattr(encoder, "built", False):
            raise InvalidInputError(f"encoder must be a built Keras model. Received: encoder={encoder!r}")
        if views is not None and scales_twice(encoder, views):
            raise InvalidInputError(
                "encoder must take what the views give, and this one scales raw images first, which the views have "
                'done. Of a trained encoder take the network alone, sslzoo.load(name, part="network"); or end the '
                f"steps of the views with keras.layers.Rescaling(255.0). Received: encoder={encoder.name!r}"
            )
        if hasattr(views, "num_views"):  # a layer that does not say is asked when it makes them
            self.check_view_count(views.num_views)
        self.encoder = encoder
        self.views = views
        self.term_means = {term: keras.metrics.Mean(name=term) for term in self.terms}
        self.built = True  # constructors create every variable: nothing is left to build on the first batch

    @property
    def compute_dtype(self):
        """That of the variables: the networks inside cast for themselves, under the dtype policy they were made with.

        Keras would otherwise hand `call` each variable rounded to the policy's dtype (though not under JAX), and a
        teacher that is rounded to bfloat16 after each step of one part in a thousand never moves.
        """
        return self.variable_dtype

    def fit(self, x=None, *arguments, **options):
        """`keras.Model.fit`; warns of raw images in 0..1, which all look black."""
        images = x["images"] if isinstance(x, dict) and "images" in x else x
        if len(getattr(images, "shape", ())) == 4 and checks.is_unit_range(images[:1000]):
            warnings.warn(checks.UNIT_RANGE, stacklevel=2)
        return super().fit(x, *arguments, **options)

    def objective(self, images, outputs, training):
        """Named loss terms, scalars, whose sum is the loss."""
        raise NotImplementedError

    def update(self, images, outputs):
        """Assigns state after the objective read it. Called in training only."""

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        outputs = keras.tree.map_structure(full_precision, y_pred)
        losses = self.objective(x, outputs, training)
        if training:
            self.update(x, outputs)
        # Weighted by images, as Keras weighs the loss itself, so that the reported terms sum to the reported loss.
        batch_size = ops.shape(keras.tree.flatten(x)[0])[0]
        for term, mean in self.term_means.items():
            mean.update_state(losses[term], sample_weight=batch_size)
        return sum(losses[term] for term in self.terms)

    def make_train_function(self, force=False):
        """Keras' own; under JAX with `compile(steps_per_execution=K)`, K steps as one program.

        Keras 3.16 does so itself, TensorFlow has its loop, and PyTorch takes no K above 1. Weights and logs are those
        of single steps, and the last program of an epoch takes the steps that are left, however the data come: batch by
        batch, or stacked by `data.Batches(steps_per_execution=K)`, which spares the device K small transfers.

        Raises:
            InvalidInputError: several processes under PyTorch.
        """
        if keras.backend.backend() == "torch":
            _refuse_parts_of_batches()
        if self.optimizer is not None and not self.optimizer.built:
            # Variables made while TensorFlow traces a step cost it two branches each, which it never forgets.
            self.optimizer.build(self.trainable_variables)
        if self.steps_per_execution == 1 or self.run_eagerly or not self.jit_compile or not fuses_its_steps():
            return super().make_train_function(force)
        if self.train_function is None or force:
            self.train_function = _fused_steps(self)

    def split(self, inputs):
        """Inputs of an indexed method -> images, index (B,)."""
        if not isinstance(inputs, dict) or set(inputs) != {"images", "index"}:
            given = sorted(inputs) if isinstance(inputs, dict) else type(inputs).__name__
            raise InvalidInputError(
                f"{type(self).__name__} takes {{'images': images, 'index': their places in the training set}}; "
                f"data.pipeline(with_index=True) and data.Batches(with_index=True) give them. Received: inputs={given}"
            )
        return inputs["images"], inputs["index"]

    def check_batch(self, batch_size: int) -> None:
        """Raise unless a training step can have so many images: what would else be told in the first one.

        Args:
            batch_size: int, images of a step.

        Raises:
            InvalidInputError: they do not fit the method's settings.
        """

    def check_view_count(self, count: int | None) -> None:
        """Raise unless the method takes that many views of an image; None is a number that is not known yet."""
        least, most = self.view_counts
        if count is not None and (count < least or (most is not None and count > most)):
            needed = f"exactly {least}" if most == least else f"at least {least}"
            needed += "" if most in (None, least) else f" and at most {most}"
            raise InvalidInputError(
                f"{type(self).__name__} needs {needed} view{'s' * ((most or least) > 1)} of each image. "
                f"Received: num_views={count}"
            )

    def make_views(self, images, training):
        """Raw images (B, H, W, C) or ready-made views (B, J, H, W, C) -> views (B, J, H, W, C).

        Raises:
            InvalidInputError: a tensor of another rank, images where there is no `views` layer, or another number of
                views than the method takes.
        """
        # TensorFlow traces with an unknown shape once a model has seen two ranks; such a shape has no length.
        rank = images.shape.rank if hasattr(images.shape, "rank") else len(images.shape)
        if rank == 5:
            self.check_view_count(images.shape[1])
            return images
        if rank != 4:
            shape = "unknown" if rank is None else tuple(images.shape)
            raise InvalidInputError(
                "Expected images of shape (batch, height, width, channels) or views of shape "
                f"(batch, views, height, width, channels). Received: shape={shape}"
            )
        if self.views is None:
            raise InvalidInputError(
                "This model was made without `views` and takes ready-made views of shape "
                f"(batch, views, height, width, channels). Received: images of shape={tuple(images.shape)}"
            )
        views = self.views(images, training=training)
        self.check_view_count(views.shape[1])
        return views

    def prepare(self, images):
        """Raw images (B, H, W, C), 0..255 -> what the networks see, without any randomness."""
        if self.views is None:
            return ops.convert_to_tensor(images, dtype="float32")
        return self.views.prepare(images)

    def representation(self, views, training=False):
        """Representations (N, L) of views (N, H, W, C), as the networks see them: what is published and evaluated.

        The encoder's output, where it has no more than one. Also takes a `keras.Input`.
        """
        return self.encoder(views, training=training)

    def encode(self, images):
        """Representations of raw images.

        Args:
            images: array (B, H, W, C), uint8 or float, values 0..255.

        Returns:
            Float tensor (B, L).
        """
        return full_precision(self.representation(self.prepare(images)))

    def embed(self, views, training=False):
        """What the loss compares, of views (N, H, W, C) as the networks see them: float tensor (N, D).

        The representation itself, unless a method has a head. Also takes a `keras.Input`.
        """
        return full_precision(self.representation(views, training))

    def chance_level(self, batch_size: int) -> float | None:
        """Loss of a model that tells nothing apart, on batches of `batch_size` images; None where there is no such."""
        return None

    def cluster_probabilities(self, views):
        """Soft assignments of views (N, H, W, C) to the method's K clusters or prototypes: (N, K); None without any."""
        return None

    def protocols(self) -> tuple[str, ...]:
        """Names of the protocols of `sslzoo.evaluate` that measure what this method alone has."""
        return ()

    def monitors(self, run) -> list:
        """Callbacks that watch what only this method has, for `sslzoo.training.Run`.

        One that ends training carries `ended` and `reason`; one that logs an accuracy by which a schedule may judge the
        run names its key as `accuracy_key`.

        Args:
            run: `sslzoo.training.Run`, with `images`, `labels`, `queries` and `settings`.
        """
        return []

    def pictures(self, images, seed: int) -> "list[Picture]":
        """What to draw of the trained method.

        Args:
            images: array (N, H, W, C), raw, that it was not trained on, if there are such.
            seed: int, of what is random.
        """
        if self.views is None:
            return []
        shown = images[:8]
        made = ops.convert_to_numpy(self.views(shown, training=True, seed=seed, num_views=8))
        return [Picture("views", "views", (shown, made), "Images (left), and views of them")]

    def preprocessor(self, image_shape: tuple[int, int, int]) -> keras.Model:
        """Core-layer model, raw images of `image_shape` (H, W, C) -> what the networks see."""
        if self.views is None:
            raise InvalidInputError(
                "A model made without `views` does not know how raw images become what it sees. Received: views=None"
            )
        return self.views.preprocessor(image_shape)

    def live_encoder(self, image_shape: tuple[int, int, int]) -> keras.Model:
        """Model raw images -> representations (N, L) that shares the variables in training: what monitors look at."""
        images = keras.Input(image_shape)
        return keras.Model(images, self.representation(self.preprocessor(image_shape)(images)))

    def parts(self, image_shape: tuple[int, int, int]) -> dict[str, keras.Model]:
        """What is worth publishing, as it is now: part name -> plain Functional model of core layers (copies).

        Args:
            image_shape: tuple (H, W, C) of the raw images.
        """
        return {"encoder": compose(self.preprocessor(image_shape), self.encoder)}

    def get_config(self):
        config = super().get_config()
        for name in inspect.signature(type(self).__init__).parameters:
            if name not in ("self", "kwargs"):
                config[name] = keras.saving.serialize_keras_object(getattr(self, name))
        return config

    @classmethod
    def from_config(cls, config, custom_objects=None):
        def restore(value):
            if isinstance(value, dict) and "class_name" in value:
                return keras.saving.deserialize_keras_object(value, custom_objects=custom_objects)
            return value

        return cls(**{name: restore(value) for name, value in config.items()})
