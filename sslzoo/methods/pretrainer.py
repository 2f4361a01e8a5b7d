"""The base class of every method: the only file that meets Keras' trainer.

Keras 3 has three trainers, one per backend, and each of their `train_step`s calls `compute_loss`. So a method writes

    call       images -> views -> encoder -> heads    (what is differentiated)
    objective  outputs -> named loss terms            (the paper)
    update     outputs -> state                       (teachers, queues, banks; after they were used)

and nothing of the trainers again: `compute_loss` is the objective inside the training step of each backend.
"""

import inspect
import itertools
import sys
import warnings
from typing import NamedTuple

import keras
from keras import ops

from sslzoo import checks, constructors
from sslzoo.errors import InvalidInputError, choose
from sslzoo.methods import inputs
from sslzoo.methods.advice import Advice
from sslzoo.methods.fusing import fused_steps, fuses_its_steps, program_sizes, refuse_parts_of_batches, refuse_replicas
from sslzoo.methods.state import giving_back, is_moved_by_hand, snapshot
from sslzoo.networks.composition import as_network, compose, scales_twice
from sslzoo.views import Views

HELD_OUT_SEED = 0  # of the views of `evaluate` and `validation_data`; of local ones beside them, the next


def full_precision(tensor):
    """Float tensors as float32, whatever the dtype policy: losses and stored state live there."""
    if "float" in keras.backend.standardize_dtype(tensor.dtype):
        return ops.cast(tensor, "float32")
    return tensor


# What the terms of losses stand for in the latent-variable model of "A Probabilistic Model behind Self-Supervised
# Learning", eq. 3-5: views x of one image have latents z around one center.
ROLES = {
    "prior": "p(z | center): pulls the views of an image together",
    "reconstruction": "p(x | z): each view is rebuilt, so images stay apart",
    "substitute": "stands where p(x | z) was: images stay apart without being rebuilt",
    "marginal": "p(z) over all images is held to a shape",
    "entropy": "entropy of q(z | x): posteriors do not shrink to points",
    "density": "p(x) itself, by an energy, from samples",
}


def _all_but(variables, excluded):
    excluded = {id(variable) for variable in excluded}
    return [variable for variable in variables if id(variable) not in excluded]


def views_of(images, views: keras.Layer, training, seed: int = HELD_OUT_SEED):
    """Random views, outside training too: a loss of held-out images compares views that differ, the same at every look.

    Layers other than `Views`, which have no seed for a call, decide by `training` themselves.
    """
    if training or not isinstance(views, Views):
        return views(images, training=training)
    return views(images, training=True, seed=seed)


class Picture(NamedTuple):
    """What a method shows of itself, as data: the function `kind` of `sslzoo.evaluation.pictures` draws `arrays`
    ("samples", "reconstructions" or "views") to the file `name`, under `title` or its own.
    """

    name: str
    kind: str
    arrays: tuple
    title: str | None = None


class Pretrainer(keras.Model):
    """Trains an encoder on views of unlabeled images with `model.fit`.

    Inputs are raw images (B, H, W, C), values 0..255, of which `views` makes J views each on the device; or views
    made beforehand (B, J, H, W, C), in the range the views' policy gives. Labels in `fit` data are ignored. The loss is
    the sum of its named terms, each of which is reported.

    Every constructor argument is an attribute of the same name, so each method can be saved without further code, and
    attribute names are part of the file format. A subclass writes its own arguments, and hands on the rest as
    `**kwargs`; what it decides itself it names in `without`.

    Example:
        import numpy as np
        from keras import ops
        from sslzoo import methods, networks, views

        class Agreement(methods.Pretrainer):
            terms = {"alignment": "prior"}
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
        encoder: built Functional or Sequential model, view (N, H, W, C) -> representation (N, L).
        views: `sslzoo.views.Views`, or None when only ready-made views will be given.
        **kwargs: `name`, `dtype` of `keras.Model`.

    Raises:
        InvalidInputError: an encoder that is not built, is a subclass of `keras.Model`, or would scale images again
            after the views; or another number of views than the method takes.
    """

    # Name of each loss term -> what it stands for in the model that all methods fit: of `ROLES`, or two with ", ".
    terms: dict[str, str] = {}
    # What is remembered between steps beside weights and optimizer, in words.
    remembers: tuple[str, ...] = ()
    # What keeps images apart where no term of the loss does, in words.
    apart_by = ""
    # Addresses of what a card cites (`sslzoo.methods.papers`).
    papers: tuple[str, ...] = ()
    # How many views of an image the method takes: (least, most), None for no limit.
    view_counts: tuple[int, int | None] = (1, None)
    # The fewest images that a training step can tell apart, or take statistics of.
    least_batch = 1
    # Every batch, of training or not, holds a multiple of so many images.
    batch_multiple = 1
    # The most images that a training step can have: what queues and buffers take in; None for any number.
    most_batch: int | None = None
    # Arguments of the base classes that the constructor decides itself, or has no use for.
    without: tuple[str, ...] = ()
    # Steps of each program, where several are one (`fused_steps`); of data outside `fit` as many as there are.
    program_sizes = itertools.repeat(sys.maxsize)
    # True for methods that know each image by its place in the training set: their inputs are
    # {"images": (B, H, W, C) or (B, J, H, W, C), "index": int32 (B,)}, as `data.pipeline(with_index=True)` gives them.
    indexed = False
    # True where a step takes more of an image than `views` makes of it: itself, or local views.
    takes_more_than_views = False
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
        cls._check_arguments(kwargs.keys() & set(cls.without))
        model = super().__new__(cls, *args, **kwargs)
        object.__setattr__(model, "_given", frozenset(kwargs))  # Keras is not ready to track attributes
        return model

    def __init__(self, encoder: keras.Model, views: keras.Layer | None = None, **kwargs):
        self._check_arguments(kwargs)
        super().__init__(**kwargs)
        encoder = as_network("encoder", encoder)
        taken = keras.backend.standardize_dtype(encoder.inputs[0].dtype)
        if not keras.backend.is_float_dtype(taken):
            raise InvalidInputError(
                "encoder must take floats, as views are: pixels of 0..1 would be 0 as integers. Leave dtype out of its "
                f"keras.Input. Received: encoder={encoder.name!r} of dtype={taken!r}"
            )
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
    def input_dtype(self):
        """Float images stay whole under a policy of half precision: pixels need more than bfloat16's 8 bits."""
        return "float32" if self.variable_dtype in ("float16", "bfloat16") else self.variable_dtype

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

    def compile(self, optimizer="rmsprop", loss=None, loss_weights=None, metrics=None, weighted_metrics=None, **kwargs):
        """`keras.Model.compile`, with neither a loss nor metrics, which raise `InvalidInputError`.

        The loss is scaled where any network computes in float16; Keras asks the policy of the whole model alone.
        """
        inputs.refuse_parts(loss=loss, loss_weights=loss_weights, metrics=metrics, weighted_metrics=weighted_metrics)
        making = (self.views, getattr(self, "local_views", None))  # which have nothing that a checkpoint keeps
        if unbuilt := [layer.name for layer in self.layers if not layer.built and layer not in making]:
            warnings.warn(
                "A method builds its layers in its constructor (layer.build(shape)), or no checkpoint and no .keras "
                f"file of it can be read. Received: {type(self).__name__} with {', '.join(unbuilt)}, not built yet",
                stacklevel=2,
            )
        if lost := [name for name in constructors.kept(self, Pretrainer, self._given) if not hasattr(self, name)]:
            warnings.warn(
                "A method keeps each argument of its constructor as an attribute of that name, or it cannot be saved. "
                f"Received: {type(self).__name__} without {', '.join(lost)}",
                stacklevel=2,
            )
        in_half = any(layer.compute_dtype == "float16" for layer in self._flatten_layers())
        if in_half and kwargs.get("auto_scale_loss", True):
            optimizer = keras.optimizers.get(optimizer)
            if not isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
                optimizer = keras.optimizers.LossScaleOptimizer(optimizer, name="loss_scale_optimizer")
        super().compile(optimizer, **kwargs)

    def compile_from_config(self, config):
        """Compiles a model that is read, as Keras does where `compile` is its own."""
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)

    def fit(
        self,
        x=None,
        y=None,
        batch_size=None,
        epochs=1,
        verbose="auto",
        callbacks=None,
        validation_split=0.0,
        validation_data=None,
        shuffle=True,
        class_weight=None,
        sample_weight=None,
        initial_epoch=0,
        steps_per_epoch=None,
        validation_steps=None,
        validation_batch_size=None,
        validation_freq=1,
    ):
        """`keras.Model.fit`; warns of raw images in 0..1, which all look black.

        Raises:
            InvalidInputError: before the first step: values that the views do not take, a batch or what is left over at
                the end of an epoch that the method cannot take (`check_batch`), those of validation likewise,
                `sample_weight` or `class_weight`; with it: weights in the batches.
        """
        inputs.refuse_weights(sample_weight, class_weight)
        inputs.check_values(self, x)
        checks.fraction(validation_split=validation_split or 0.0)
        # Keras goes on where an epoch of so many steps ended, so that a later one meets the remainder.
        steps, validated = (each and each * (epochs - initial_epoch) for each in (steps_per_epoch, validation_steps))
        inputs.check_stacked(self, x, self._fuses, steps_per_epoch if epochs - initial_epoch > 1 else None)
        x = inputs.check_batches(self, x, batch_size, 1.0 - (validation_split or 0.0), steps)
        size = validation_batch_size or batch_size
        if validation_data is not None:
            validation_data = inputs.check_validation(self, validation_data, size, validated)
        elif validation_split:
            inputs.check_least(self, x, size, "validation_split", validation_split, validated)
        given = keras.tree.flatten(getattr(callbacks, "callbacks", callbacks))
        if (remark := self.remark_on(given)) is not None:
            warnings.warn(remark, stacklevel=2)
        self.program_sizes = program_sizes(steps_per_epoch, self.steps_per_execution)
        try:
            return super().fit(
                *(x, y, batch_size, epochs, verbose, callbacks, validation_split, validation_data, shuffle),
                initial_epoch=initial_epoch,
                steps_per_epoch=steps_per_epoch,
                validation_steps=validation_steps,
                validation_batch_size=validation_batch_size,
                validation_freq=validation_freq,
            )
        except BaseException:
            # Keras calls no `on_train_end` now: a process that lives on gets its signals back, a service its run's end.
            for callback in given:
                if hasattr(callback, "release"):
                    callback.release()
            raise

    def evaluate(
        self,
        x=None,
        y=None,
        batch_size=None,
        verbose="auto",
        sample_weight=None,
        steps=None,
        callbacks=None,
        return_dict=False,
        **kwargs,
    ):
        """`keras.Model.evaluate`: the loss and its terms, of random views drawn with one seed for every batch.

        Raises:
            InvalidInputError: as `fit`; of the sizes of batches only what its loss needs (`least_batch`,
                `batch_multiple`).
        """
        refuse_replicas(self)
        inputs.refuse_weights(sample_weight)
        inputs.check_values(self, x)
        inputs.check_stacked(self, x)
        x = inputs.check_least(self, x, batch_size, steps=steps)
        try:
            return super().evaluate(x, y, batch_size, verbose, None, steps, callbacks, return_dict, **kwargs)
        except BaseException:
            if keras.backend.backend() == "jax":
                self.jax_state_sync()  # as Keras' `fit` does, between two batches
            raise

    def remark_on(self, callbacks: list) -> str | None:
        """What `fit` warns of before it trains with these callbacks."""
        return None

    def objective(self, images, outputs, training):
        """Named loss terms, scalars, whose sum is the loss."""
        raise NotImplementedError

    def weigh(self, losses: dict) -> dict:
        """Each term times the setting "<term>_weight", where the method has one."""
        return {term: getattr(self, f"{term}_weight", 1.0) * loss for term, loss in losses.items()}

    @property
    def batches_per_step(self) -> int:
        """Batches whose gradients make a training step: `gradient_accumulation_steps` of the optimizer, or 1."""
        optimizer = getattr(self, "optimizer", None)
        optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # that of mixed_float16 scales losses around it
        return getattr(optimizer, "gradient_accumulation_steps", None) or 1

    def steps_taken(self):
        """Training steps before this batch, of a method whose `step` counts batches: int32 scalar, a constant."""
        step = snapshot(self.step)
        return step if self.batches_per_step == 1 else ops.floor_divide(step, self.batches_per_step)

    def update(self, images, outputs):
        """Assigns state after the objective read it. Called in training only."""

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        inputs.refuse_weights(sample_weight)
        outputs = keras.tree.map_structure(full_precision, y_pred)
        images = keras.tree.flatten(x)[0]
        if images.shape[0] is not None:
            self.check_batch(images.shape[0], training)
        losses = self.objective(x, outputs, training)
        if not losses or {*losses} != {*self.terms}:  # one that is left out would not be trained
            raise InvalidInputError(
                f"objective of {type(self).__name__} must give its class' terms: {', '.join(self.terms)}. "
                f"Received: {', '.join(losses)}"
            )
        if shaped := [f"{term} of shape {tuple(loss.shape)}" for term, loss in losses.items() if ops.ndim(loss)]:
            # TensorFlow would train on the sum of its numbers, and report their mean.
            raise InvalidInputError(
                f"objective of {type(self).__name__} must give scalars, such as means over images. "
                f"Received: {', '.join(shaped)}"
            )
        if training:
            self.update(x, outputs)
        # Weighted by images, as Keras weighs the loss itself, so that the reported terms sum to the reported loss.
        batch_size = ops.shape(images)[0]
        for term, mean in self.term_means.items():
            mean.update_state(losses[term], sample_weight=batch_size)
        # After them what layers ask for: weights' regularizers and `add_loss`.
        return sum([*losses.values(), *(full_precision(extra) for extra in self.losses)])

    @property
    def _fuses(self):
        """Whether a program makes several steps."""
        return self.steps_per_execution > 1 and not self.run_eagerly and self.jit_compile and fuses_its_steps()

    def make_train_function(self, force=False):
        """Keras' own; under JAX with `compile(steps_per_execution=K)`, K steps as one program.

        Weights and logs are those of single steps, and the last program of an epoch takes the steps that are left,
        however the data come: batch by batch, or stacked by `data.Batches(steps_per_execution=K)`.

        Raises:
            InvalidInputError: several processes under PyTorch, several replicas under TensorFlow.
        """
        refuse_replicas(self)
        if keras.backend.backend() == "torch":
            refuse_parts_of_batches()
        if self.optimizer is not None and not self.optimizer.built:
            # Variables made while TensorFlow traces a step cost it two branches each, which it never forgets.
            self.optimizer.build(self.trainable_variables)
        if self.train_function is not None and not force:
            return
        if self._fuses:
            self.train_function = fused_steps(self)
        else:
            super().make_train_function(force)
        self.train_function = giving_back(self, self.train_function, "trainable non_trainable optimizer metrics")

    def make_test_function(self, force=False):
        if self.test_function is None or force:
            super().make_test_function(force)
            self.test_function = giving_back(self, self.test_function, "trainable non_trainable metrics")
        return self.test_function

    def make_predict_function(self, force=False):
        if self.predict_function is None or force:
            super().make_predict_function(force)
            self.predict_function = giving_back(self, self.predict_function, "trainable non_trainable")
        return self.predict_function

    def check_batch(self, batch_size: int, training: bool = True) -> None:
        """Raise InvalidInputError unless a step, of training or not, can have so many images."""
        inputs.batch_sizes(self, training).check(batch_size)

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

        `evaluate`, `validation_data` and `predict` see random views too, drawn with one seed for every batch.

        Raises:
            InvalidInputError: a tensor of another rank, images without `views`, or another number of views.
        """
        if not hasattr(images, "shape"):
            raise InvalidInputError(
                f"{type(self).__name__} takes one array of images, without an index. "
                f"Received: a {type(images).__name__}"
            )
        # TensorFlow traces with an unknown shape once a model has seen two ranks; such a shape has no length.
        rank = images.shape.rank if hasattr(images.shape, "rank") else len(images.shape)
        if rank == 5:
            self.check_view_count(images.shape[1])
            if self.views is not None and keras.backend.is_int_dtype(images.dtype):
                raise InvalidInputError(
                    "Ready-made views must be floats, in the range that `views` gives, and not raw values 0..255. "
                    f"Received: views of dtype={keras.backend.standardize_dtype(images.dtype)!r}"
                )
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
        views = views_of(images, self.views, training)
        if len(views.shape) != 5:
            raise InvalidInputError(
                "`views` must give views of shape (batch, views, height, width, channels), as sslzoo.views.Views does. "
                f"Received: {self.views.name} -> {tuple(views.shape)}"
            )
        self.check_view_count(views.shape[1])
        return views

    def prepare(self, images):
        """Raw images (B, H, W, C), 0..255 -> what the networks see, without any randomness."""
        if self.views is None:
            return ops.convert_to_tensor(images, dtype="float32")
        return self._of_views("prepare")(images)

    def _of_views(self, name):
        """That function of `views`; a layer of one's own can train without."""
        if not hasattr(self.views, name):
            raise InvalidInputError(
                "What is encoded or published goes through the views' functions `prepare` and `preprocessor`, as "
                f"sslzoo.views.Views has them. Received: views={self.views.name!r} ({type(self.views).__name__})"
            )
        return getattr(self.views, name)

    def representation(self, views, training=False):
        """Representations (N, L) of views (N, H, W, C), as the networks see them: what is published and evaluated.

        The encoder's output, where it has no more than one. Also takes a `keras.Input`.
        """
        return self.encoder(views, training=training)

    def encode(self, images):
        """Representations (B, L) of raw images (B, H, W, C), uint8 or float, 0..255."""
        return full_precision(self.representation(self.prepare(images)))

    def embed(self, views, training=False):
        """What the loss compares, of views (N, H, W, C) as the networks see them: float tensor (N, D).

        The representation itself, unless a method has a head. Also takes a `keras.Input`.
        """
        return full_precision(self.representation(views, training))

    def chance_level(self, batch_size: int) -> float | None:
        """Loss of a model that distinguishes nothing, on batches of `batch_size` images; None where there is none."""
        return None

    def cluster_probabilities(self, views):
        """Soft assignments of views (N, H, W, C) to the method's K clusters or prototypes: (N, K); None without any."""
        return None

    def protocols(self) -> tuple[str, ...]:
        """Names of the protocols of `sslzoo.evaluate` that measure what this method alone has."""
        return ()

    def monitors(self, run) -> list:
        """Callbacks that watch what only this method has, for a `sslzoo.training.Run`.

        One that ends training carries `ended` and `reason`; one that logs an accuracy by which a schedule may judge the
        run names its key as `accuracy_key`.
        """
        return []

    def pictures(self, images, seed: int) -> "list[Picture]":
        """What to draw of the trained method on raw images (N, H, W, C); `seed` is of what is random."""
        if self.views is None:
            return []
        shown = images[:: max(1, len(images) // 8)][:8]  # which may be sorted by class
        made = ops.convert_to_numpy(self.views(shown, training=True, seed=seed, num_views=8))
        return [Picture("views", "views", (shown, made), "Images (left), and views of them")]

    def preprocessor(self, image_shape: tuple[int, int, int]) -> keras.Model:
        """Core-layer model, raw images of `image_shape` (H, W, C) -> what the networks see."""
        if self.views is None:
            raise InvalidInputError(
                "A model made without `views` does not know how raw images become what it sees. Received: views=None"
            )
        return self._of_views("preprocessor")(image_shape)

    def live_encoder(self, image_shape: tuple[int, int, int]) -> keras.Model:
        """Model raw images -> representations (N, L) that shares the variables in training: what monitors look at."""
        images = keras.Input(image_shape)
        return keras.Model(images, self.representation(self.preprocessor(image_shape)(images)))

    def parts(self, image_shape: tuple[int, int, int]) -> dict[str, keras.Model]:
        """What is worth publishing, as it is now: part name -> plain Functional model of core layers (copies), which
        take raw images of `image_shape` (H, W, C).
        """
        return {"encoder": compose(self.preprocessor(image_shape), self.encoder)}

    def export(self, filepath, *args, input_signature=None, **kwargs):
        """`keras.Model.export`, which exports what the loss compares, and needs `input_signature` to know images by."""
        if input_signature is None:
            raise InvalidInputError(
                'Expected the encoder alone, model.parts((H, W, C))["encoder"].export(filepath); or an input_signature '
                'such as [keras.InputSpec("float32", (None, H, W, C))]. Received: input_signature=None'
            )
        super().export(filepath, *args, input_signature=input_signature, **kwargs)

    def quantize(self, mode=None, **kwargs):
        """Refused: a method trains, and what is quantized does not."""
        raise InvalidInputError(
            'Quantize the encoder alone: model.parts((H, W, C))["encoder"].quantize(...). '
            f"Received: {type(self).__name__}.quantize({mode!r})"
        )

    @classmethod
    def arguments(cls) -> dict[str, inspect.Parameter]:
        """Arguments of the constructor, those that it hands up to its bases included, by name."""
        return constructors.arguments(cls, Pretrainer)

    @classmethod
    def _check_arguments(cls, names):
        for name in names:
            choose(f"argument of {cls.__name__}", name, {*cls.arguments(), "name", "dtype", "trainable"})

    def get_config(self):
        """Arguments that the class names itself, or was given; what is left, it decides again as it did."""
        names = constructors.kept(self, Pretrainer, self._given)
        own = {name: keras.saving.serialize_keras_object(getattr(self, name)) for name in names}
        return {**super().get_config(), **own}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        def restore(value):
            if isinstance(value, dict) and "class_name" in value:
                return keras.saving.deserialize_keras_object(value, custom_objects=custom_objects)
            if isinstance(value, dict):
                return {key: restore(each) for key, each in value.items()}
            return type(value)(map(restore, value)) if isinstance(value, (list, tuple)) else value

        return cls(**restore(constructors.accepted(cls, config)))
