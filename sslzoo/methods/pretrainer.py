"""The base class of every method: the only file that meets Keras' trainer.

Keras 3 has three trainers, one per backend, and each of their `train_step`s calls `compute_loss`. So a method writes

    call       images -> views -> encoder -> heads    (what is differentiated)
    objective  outputs -> named loss terms            (the paper)
    update     outputs -> state                       (teachers, queues, banks; after they were used)

and nothing of the trainers again: `compute_loss` is the objective inside the training step of each backend.
"""

import inspect
import warnings
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from sslzoo import checks
from sslzoo.data import Batches
from sslzoo.errors import InvalidInputError, choose
from sslzoo.methods.advice import Advice
from sslzoo.methods.fusing import fused_steps, fuses_its_steps, refuse_parts_of_batches
from sslzoo.methods.state import is_moved_by_hand
from sslzoo.networks.composition import compose, scales_twice


def full_precision(tensor):
    """Float tensors as float32, whatever the dtype policy: losses and stored state live there."""
    if "float" in keras.backend.standardize_dtype(tensor.dtype):
        return ops.cast(tensor, "float32")
    return tensor


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


_STARRED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _parameters(cls):
    """What the constructor of a class takes by name, without what it hands up."""
    parameters = inspect.signature(cls.__init__).parameters
    return {name: each for name, each in parameters.items() if name != "self" and each.kind not in _STARRED}


def _takes(cls, kind):
    """Whether the constructor of a class takes arguments of that kind."""
    return any(parameter.kind == kind for parameter in inspect.signature(cls.__init__).parameters.values())


def _equal(value, default):
    return value is default or (isinstance(value, (int, float, str, tuple)) and value == default)


def _all_but(variables, excluded):
    excluded = {id(variable) for variable in excluded}
    return [variable for variable in variables if id(variable) not in excluded]


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

    Every constructor argument is an attribute of the same name, so each method can be saved without further code, and
    attribute names are part of the file format. A subclass writes its own arguments, and hands on the rest as
    `**kwargs`; what it decides itself it names in `without`.

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
    # The fewest images that a training step can tell apart, or take statistics of.
    least_batch = 1
    # Arguments of the base classes that the constructor decides itself, or has no use for.
    without: tuple[str, ...] = ()
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

    def __new__(cls, *args, **kwargs):
        cls._check_arguments(kwargs.keys() & {name for base in cls.__mro__ for name in vars(base).get("without", ())})
        model = super().__new__(cls, *args, **kwargs)
        object.__setattr__(model, "_given", frozenset(kwargs))  # Keras is not ready to track attributes
        return model

    def __init__(self, encoder: keras.Model, views: keras.Layer | None = None, **kwargs):
        self._check_arguments(kwargs)
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

    @property
    def trainable_variables(self):
        """As in Keras, but for teachers: `model.trainable = True` would hand them to the optimizer."""
        return [variable for variable in super().trainable_variables if not is_moved_by_hand(variable)]

    @property
    def non_trainable_variables(self):
        return _all_but(self.variables, self.trainable_variables)

    @property
    def trainable_weights(self):
        return [variable for variable in super().trainable_weights if not is_moved_by_hand(variable)]

    @property
    def non_trainable_weights(self):
        return _all_but(self.weights, self.trainable_weights)

    def fit(self, x=None, y=None, batch_size=None, *arguments, **options):
        """`keras.Model.fit`; warns of raw images in 0..1, which all look black.

        Raises:
            InvalidInputError: a batch, or what is left over at the end of an epoch, that the method cannot take
                (`check_batch`), before the first step.
        """
        images = x["images"] if isinstance(x, dict) and "images" in x else x
        if len(getattr(images, "shape", ())) >= 4:
            if len(images.shape) == 4 and checks.is_unit_range(images[:1000]):
                warnings.warn(checks.UNIT_RANGE, stacklevel=2)
            if options.get("steps_per_epoch") is None:
                share = 1.0 - options.get("validation_split", 0.0)
                self._check_batches(int(len(images) * share), batch_size or 32)
        elif isinstance(x, Batches):
            self._check_batches(x.images_per_epoch, x.batch_size)
        return super().fit(x, y, batch_size, *arguments, **options)

    def _check_batches(self, count, batch_size):
        """Raise unless a pass over so many images can be cut into batches; the last may be smaller."""
        if count >= batch_size:
            self.check_batch(batch_size)
        if count % batch_size:
            try:
                self.check_batch(count % batch_size)
            except InvalidInputError as error:
                raise InvalidInputError(
                    f"The last batch of an epoch must be one that {type(self).__name__} can take: drop "
                    f"{count % batch_size} of {count} images, or take another batch_size. {error}"
                ) from None

    def objective(self, images, outputs, training):
        """Named loss terms, scalars, whose sum is the loss."""
        raise NotImplementedError

    def update(self, images, outputs):
        """Assigns state after the objective read it. Called in training only."""

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        outputs = keras.tree.map_structure(full_precision, y_pred)
        images = keras.tree.flatten(x)[0]
        if training and images.shape[0] is not None:
            self.check_batch(images.shape[0])
        losses = self.objective(x, outputs, training)
        if training:
            self.update(x, outputs)
        # Weighted by images, as Keras weighs the loss itself, so that the reported terms sum to the reported loss.
        batch_size = ops.shape(images)[0]
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
            refuse_parts_of_batches()
        if self.optimizer is not None and not self.optimizer.built:
            # Variables made while TensorFlow traces a step cost it two branches each, which it never forgets.
            self.optimizer.build(self.trainable_variables)
        if self.steps_per_execution == 1 or self.run_eagerly or not self.jit_compile or not fuses_its_steps():
            return super().make_train_function(force)
        if self.train_function is None or force:
            self.train_function = fused_steps(self)

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
            InvalidInputError: they do not fit the method's settings, or are fewer than `least_batch`.
        """
        if batch_size < self.least_batch:
            raise InvalidInputError(
                f"{type(self).__name__} tells images of a batch apart and needs at least {self.least_batch} of them in "
                f"every batch: drop a remainder of {batch_size}. Received: a batch of {batch_size} image"
            )

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

    @classmethod
    def arguments(cls) -> dict[str, inspect.Parameter]:
        """Arguments of the constructor, those that it hands up to its bases included, by name."""
        known, left_out = {}, set()
        for base in cls.__mro__[: cls.__mro__.index(Pretrainer) + 1]:
            if "__init__" in vars(base):
                own = {name: parameter for name, parameter in _parameters(base).items() if name not in left_out}
                known = own | known
                if not _takes(base, inspect.Parameter.VAR_KEYWORD):
                    break  # nothing is handed up
            left_out.update(vars(base).get("without", ()))
        return known

    @classmethod
    def _check_arguments(cls, names):
        known = {*cls.arguments(), *inspect.signature(keras.Layer.__init__).parameters} - {"self", "kwargs"}
        for name in names:
            choose(f"argument of {cls.__name__}", name, known)

    def get_config(self):
        own, given = _parameters(type(self)), _takes(type(self), inspect.Parameter.VAR_POSITIONAL)
        config = super().get_config()
        for name, parameter in self.arguments().items():
            value = getattr(self, name)
            # What is neither given nor left at its default, a subclass has decided, and decides again.
            if given or name in own or name in self._given or _equal(value, parameter.default):
                config[name] = keras.saving.serialize_keras_object(value)
        return config

    @classmethod
    def from_config(cls, config, custom_objects=None):
        def restore(value):
            if isinstance(value, dict) and "class_name" in value:
                return keras.saving.deserialize_keras_object(value, custom_objects=custom_objects)
            return value

        config = {name: restore(value) for name, value in config.items()}
        try:
            return cls(**config)
        except TypeError:  # a subclass may decide an argument to be what it is by default, too
            own, known = _parameters(cls), cls.arguments()
            needed = {
                name: value
                for name, value in config.items()
                if name in own or name not in known or not _equal(value, known[name].default)
            }
            if len(needed) == len(config):
                raise
            return cls(**needed)
