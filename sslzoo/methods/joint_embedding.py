"""What the discriminative methods share: views go through an encoder and a head, and a loss compares what comes out."""

import warnings

import keras
from keras import ops

from sslzoo import checks
from sslzoo.errors import InvalidInputError
from sslzoo.methods.advice import Advice
from sslzoo.methods.pretrainer import HELD_OUT_SEED, Pretrainer, full_precision, views_of
from sslzoo.methods.state import ema_update, freeze_alike, make_teacher
from sslzoo.networks.composition import as_network, at_size, compose
from sslzoo.views import Views


class JointEmbedding(Pretrainer):
    """Base of methods whose loss compares embeddings of views: `z` (B, J, P), after the projection head, if any.

    The representation that is published and evaluated comes before the head. Without a projector the loss is applied
    to the representation itself, as in the tables of the SimVAE papers. Losses see the whole batch, on however many
    devices it lies. A method says what it compares in `criterion`, and weighs a term by an argument "<term>_weight".

    Example:
        import numpy as np
        from sslzoo import losses, methods, networks, views

        class Cosine(methods.JointEmbedding):
            terms = {"alignment": "prior"}

            def criterion(self, z):
                return {"alignment": losses.negative_cosine(z[:, 0], z[:, 1])}

        images = np.random.default_rng(0).integers(0, 256, (64, 8, 8, 1)).astype("uint8")
        model = Cosine(networks.encoder("mlp-small", (8, 8, 1), 10), views=views.Views("simvae-digits", 2))
        model.compile("adam")
        model.fit(images, batch_size=16, verbose=0)

    Args:
        encoder: built model of one output, view (N, H, W, C) -> representation (N, L).
        projector: built model, (N, L) -> (N, P) (`sslzoo.networks.projector`), or None.
        views: `sslzoo.views.Views`, or None for ready-made views (B, J, H, W, C).

    Raises:
        InvalidInputError: an encoder of more than one output, a projector that does not fit it, or another number of
            views than the method compares.
    """

    view_counts = (2, 2)
    # True: batch normalization sees all views of the batch at once. False: one view of each image at a time.
    joint_statistics = True
    advice = (Advice("batch normalization in the head", "has_plain_head", ("complete", "cone", "chance")),)

    def __init__(
        self, encoder: keras.Model, projector: keras.Model | None = None, views: keras.Layer | None = None, **kwargs
    ):
        super().__init__(encoder, views, **kwargs)
        encoder = self.encoder
        if len(encoder.outputs) != 1 or len(encoder.outputs[0].shape) != 2:
            raise InvalidInputError(
                "encoder must have one output of shape (batch, features); see networks.encoder. "
                f"Received: encoder outputs of shapes {[tuple(o.shape) for o in encoder.outputs]}"
            )
        self.projector = self.checked_head("projector", projector, encoder)

    def checked_head(self, name: str, head: keras.Model | None, network: keras.Model) -> keras.Model | None:
        """A head as it is kept, `as_network`; None without.

        Raises:
            InvalidInputError: it is no built model from a network's features to (batch, numbers).
        """
        if head is None:
            return None
        head = as_network(name, head)
        if head.input_shape != network.output_shape or len(head.output_shape) != 2:
            raise InvalidInputError(
                f"{name} must be a built model from {network.output_shape} to (batch, features). "
                f"Received: {name} {head.input_shape} -> {head.output_shape}"
            )
        return head

    @property
    def embedding_dim(self) -> int:
        """Size P of what the loss compares."""
        return (self.projector or self.encoder).output_shape[-1]

    @property
    def has_plain_head(self) -> bool | None:
        """True if there is a projector, without any batch normalization; None otherwise."""
        layers = [] if self.projector is None else self.projector._flatten_layers()
        normalized = any(isinstance(layer, keras.layers.BatchNormalization) for layer in layers)
        return True if layers and not normalized else None

    def embed(self, views, training=False):
        """Embeddings of views (N, H, W, C): float tensor (N, P), what the loss compares."""
        features = self.representation(views, training)
        return full_precision(features if self.projector is None else self.projector(features, training=training))

    def embed_groups(self, views, training):
        """Embeddings of grouped views (B, J, H, W, C): float tensor (B, J, P)."""
        count = views.shape[1]
        if self.joint_statistics:
            z = self.embed(ops.reshape(views, (-1, *views.shape[2:])), training)
            return ops.reshape(z, (-1, count, self.embedding_dim))
        return ops.stack([self.embed(views[:, view], training) for view in range(count)], axis=1)

    def call(self, images, training=False):
        return {"z": self.embed_groups(self.make_views(images, training), training)}

    def criterion(self, z) -> dict:
        """Loss terms of embeddings (B, J, P), before their weights."""
        raise NotImplementedError

    def objective(self, images, outputs, training):
        return self.weigh(self.criterion(outputs["z"]))

    def parts(self, image_shape: tuple[int, int, int]) -> dict[str, keras.Model]:
        encoder = compose(self.preprocessor(image_shape), self.encoder, name="encoder")
        if self.projector is None:
            return {"encoder": encoder}
        return {"encoder": encoder, "projection": compose(encoder, self.projector, name="projection")}


class TeacherStudent(JointEmbedding):
    """Base of methods with a teacher: a copy of encoder and heads that follows them as an exponential moving average.

    A method names what its teacher has copies of (`taught`), makes them at the end of its constructor, and moves them
    at the beginning of each training step, before it asks them anything; `tico.py` is a short one. The copies are
    `teacher_encoder`, `teacher_projector` ...: variables of the model that the optimizer never sees, whatever
    `trainable` says, so part of every checkpoint, but not of `parts`. Batch normalization in a teacher has statistics
    of its own, and is frozen where the student's is.

    Args:
        encoder, projector, views: as in `JointEmbedding`, with the weights that training begins with: the teacher
            copies them here (BYOL's once more in its first step), and none that are given later.
        momentum: float in [0, 1], of the teacher: 1 never moves it, 0 copies the student.
    """

    taught = ("encoder", "projector")
    advice = (Advice("a slower teacher, with momentum nearer 1", "momentum", ("complete", "cone")),)

    def __init__(
        self,
        encoder: keras.Model,
        projector: keras.Model | None = None,
        views: keras.Layer | None = None,
        momentum: float = 0.99,
        **kwargs,
    ):
        super().__init__(encoder, projector, views, **kwargs)
        self.momentum = checks.fraction(momentum=momentum)

    def make_teacher(self) -> None:
        """Copies each network of `taught` to an attribute teacher_<name>; a head that is None has none."""
        for name in self.taught:
            student = getattr(self, name)
            setattr(self, f"teacher_{name}", None if student is None else make_teacher(student))

    def make_train_function(self, force=False):
        """`Pretrainer`'s, of teachers whose layers are frozen where the student's are: `trainable` was set since."""
        for name in self.taught:
            if getattr(self, name) is not None:
                freeze_alike(getattr(self, f"teacher_{name}"), getattr(self, name))
        super().make_train_function(force)

    def move_teacher(self, momentum, first=None) -> None:
        """teacher <- momentum teacher + (1 - momentum) student, with a float or scalar tensor in [0, 1].

        Where `first`, a bool scalar tensor or None, statistics of batch normalization are copied, too.

        Where several batches make a step, each moves the teacher by its share: the student stands still meanwhile, so
        that momentum^(1/n) of n batches is momentum.
        """
        if self.batches_per_step > 1:
            momentum = momentum ** (1.0 / self.batches_per_step)
        for name in self.taught:
            if getattr(self, name) is not None:
                ema_update(getattr(self, f"teacher_{name}"), getattr(self, name), momentum, first)

    def teach(self, views, training=False):
        """The teacher's embeddings of views (N, H, W, C): float tensor (N, P), constants."""
        z = self.teacher_encoder(views, training=training)
        if self.teacher_projector is not None:
            z = self.teacher_projector(z, training=training)
        return ops.stop_gradient(full_precision(z))

    def teach_groups(self, views, training=False):
        """The teacher's embeddings of grouped views (B, J, H, W, C), one view of each image at a time: (B, J, P)."""
        return ops.stack([self.teach(views[:, view], training) for view in range(views.shape[1])], axis=1)


class MultiCrop(JointEmbedding):
    """Base of methods that also see smaller, local views of each image, beside the global ones that `views` makes.

    Local views go through the same encoder at their own size, and through the same projector: `local` (B, J', P) in
    the outputs. `lejepa.py` is a short one of them.

    Args:
        encoder, projector, views: as in `JointEmbedding`; two global views or more.
        local_views: `sslzoo.views.Views` of a size that the encoder can take, and of another seed than `views`; or None
            without.

    Raises:
        InvalidInputError: an encoder that cannot take local views of that size, or ready-made views given to a model
            that makes local ones.
    """

    view_counts = (2, None)

    def __init__(
        self,
        encoder: keras.Model,
        projector: keras.Model | None = None,
        views: keras.Layer | None = None,
        local_views: keras.Layer | None = None,
        **kwargs,
    ):
        super().__init__(encoder, projector, views, **kwargs)
        self.local_views = local_views
        self.local_encoder = None
        if local_views is not None:
            self.local_encoder = at_size(self.encoder, self._local_size())
            seed = getattr(local_views, "seed", None)
            if isinstance(seed, int) and seed == getattr(views, "seed", None):
                warnings.warn(
                    "Local views need another seed than the global ones, or both draw the same places, flips and "
                    f"colors. Received: seed={seed} of both",
                    stacklevel=2,
                )

    def _local_size(self):
        """(height, width) of the local views: what they were told, what their steps make, or the images' own."""
        shape = self.encoder.input_shape[1:]
        size = getattr(self.local_views, "size", None)
        if size is None and isinstance(self.local_views, Views) and None not in shape:
            size = self.local_views.compute_output_shape((None, *shape))[-3:-1]
        return size or shape[:2]

    @property
    def takes_more_than_views(self) -> bool:
        return self.local_views is not None

    def make_views(self, images, training):
        views = super().make_views(images, training)
        if self.local_views is not None and views is images:
            raise InvalidInputError(
                "Multi-crop makes global and local views of raw images (batch, height, width, channels); ready-made "
                f"views hold one size only. Received: views of shape={tuple(images.shape)}"
            )
        return views

    def call(self, images, training=False):
        return self.embed_crops(images, self.make_views(images, training), training)

    def embed_crops(self, images, views, training):
        """`z` of global views (B, J, H, W, C), and `local` of local ones that are made of their images, if any."""
        outputs = {"z": self.embed_groups(views, training)}
        if self.local_views is not None:
            crops = views_of(images, self.local_views, training, HELD_OUT_SEED + 1)
            local = self.local_encoder(ops.reshape(crops, (-1, *crops.shape[2:])), training=training)
            local = local if self.projector is None else self.projector(local, training=training)
            outputs["local"] = full_precision(ops.reshape(local, (-1, crops.shape[1], self.embedding_dim)))
        return outputs

    def every_view(self, outputs):
        """Embeddings of all views, the global ones first: float tensor (B, J + J', P)."""
        return ops.concatenate([outputs["z"], outputs["local"]], axis=1) if "local" in outputs else outputs["z"]
