"""What the discriminative methods share: views go through an encoder and a head, and a loss compares what comes out."""

import keras
from keras import ops

from sslzoo.errors import InvalidInputError
from sslzoo.methods.pretrainer import Pretrainer, full_precision
from sslzoo.networks.composition import compose


class JointEmbedding(Pretrainer):
    """Base of methods whose loss compares embeddings of views: `z` (B, J, P), after the projection head, if any.

    The representation that is published and evaluated comes before the head. Without a projector the loss is applied
    to the representation itself, as in the tables of the SimVAE papers.

    Args:
        encoder: built model of one output, view (N, H, W, C) -> representation (N, L).
        projector: built model, (N, L) -> (N, P) (`sslzoo.networks.projector`), or None.
        views: `sslzoo.views.Views`, or None for ready-made views (B, J, H, W, C).

    Raises:
        InvalidInputError: an encoder of more than one output, a projector that does not fit it, or another number of
            views than the method compares.
    """

    # How many views of an image the method compares: (least, most), None for no limit.
    view_counts: tuple[int, int | None] = (2, 2)
    # True: batch normalisation sees all views of the batch at once. False: one view of each image at a time.
    joint_statistics = True

    def __init__(
        self,
        encoder: keras.Model,
        projector: keras.Model | None = None,
        views: keras.Layer | None = None,
        **kwargs,
    ):
        super().__init__(encoder, views, **kwargs)
        self.projector = projector
        if len(encoder.outputs) != 1 or len(encoder.outputs[0].shape) != 2:
            raise InvalidInputError(
                "encoder must have one output of shape (batch, features); see networks.encoder. "
                f"Received: encoder outputs of shapes {[tuple(o.shape) for o in encoder.outputs]}"
            )
        if projector is not None:
            if not getattr(projector, "built", False):
                raise InvalidInputError(f"projector must be a built Keras model. Received: projector={projector!r}")
            if projector.input_shape != encoder.output_shape or len(projector.output_shape) != 2:
                raise InvalidInputError(
                    f"projector must map the encoder's {encoder.output_shape} to (batch, features). "
                    f"Received: projector {projector.input_shape} -> {projector.output_shape}"
                )
        if views is not None:
            self.check_view_count(views.num_views)

    @property
    def embedding_dim(self) -> int:
        """Size P of what the loss compares."""
        return (self.projector or self.encoder).output_shape[-1]

    def check_view_count(self, count: int) -> None:
        """Raise unless the method can compare that many views of an image."""
        least, most = self.view_counts
        if count < least or (most is not None and count > most):
            needed = f"exactly {least}" if most == least else f"at least {least}"
            raise InvalidInputError(
                f"{type(self).__name__} needs {needed} view{'s' * (least > 1)} of each image. "
                f"Received: num_views={count}"
            )

    def make_views(self, images, training):
        views = super().make_views(images, training)
        self.check_view_count(views.shape[1])
        return views

    def embed(self, views, training=False):
        """Embeddings of views (N, H, W, C): float tensor (N, P), what the loss compares."""
        features = self.encoder(views, training=training)
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

    def parts(self, image_shape: tuple[int, int, int]) -> dict[str, keras.Model]:
        encoder = compose(self.preprocessor(image_shape), self.encoder, name="encoder")
        if self.projector is None:
            return {"encoder": encoder}
        return {"encoder": encoder, "projection": compose(encoder, self.projector, name="projection")}
