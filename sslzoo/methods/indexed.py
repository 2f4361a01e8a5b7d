"""What methods share that know each training image by its place in the training set."""

import keras
import numpy as np
from keras import ops

from sslzoo import checks, processes
from sslzoo.errors import InvalidInputError
from sslzoo.losses import unit
from sslzoo.methods.joint_embedding import JointEmbedding
from sslzoo.methods.state import without_gradients


class Indexed(JointEmbedding):
    """Base of methods that remember something of each training image.

    Inputs are {"images": (B, H, W, C) or (B, J, H, W, C), "index": int (B,)}, the place of each image in the training
    set, as `data.pipeline(with_index=True)` and `data.Batches(with_index=True)` give them. Views are embedded one by
    one, however many there are.

    Args:
        encoder, projector, views: as in `JointEmbedding`.
        num_images: int >= 2, N, size of the training set.

    Raises:
        InvalidInputError: an index outside 0..num_images - 1, where values can be looked at (PyTorch on the CPU, or
            eager execution). In a compiled step the loss becomes NaN, and what is remembered stays.
    """

    indexed = True
    view_counts = (1, None)

    def __init__(
        self,
        encoder: keras.Model,
        num_images: int,
        projector: keras.Model | None = None,
        views: keras.Layer | None = None,
        **kwargs,
    ):
        super().__init__(encoder, projector, views, **kwargs)
        self.num_images = checks.count(2, num_images=num_images)

    def split(self, inputs):
        """Inputs -> images, index (B,)."""
        if not isinstance(inputs, dict) or set(inputs) != {"images", "index"}:
            given = sorted(inputs) if isinstance(inputs, dict) else type(inputs).__name__
            raise InvalidInputError(
                f"{type(self).__name__} takes {{'images': images, 'index': their places in the training set}}; "
                f"data.pipeline(with_index=True) and data.Batches(with_index=True) give them. Received: inputs={given}"
            )
        return inputs["images"], inputs["index"]

    def call(self, inputs, training=False):
        images, index = self.split(inputs)
        self._check_index(index)
        return {"z": self.embed_groups(self.make_views(images, training), training)}

    def places(self, inputs):
        """The index of inputs, int32 (B,), with 0 where it is outside the training set; and where it is not: bool."""
        _, index = self.split(inputs)
        known = ops.logical_and(index >= 0, index < self.num_images)
        return ops.cast(ops.where(known, index, 0), "int32"), known

    @staticmethod
    def told(terms, known):
        """The terms, with an alignment of NaN unless all indices are `known`: by a constant, so no gradient has it."""
        return terms | {"alignment": terms["alignment"] + ops.where(ops.all(known), 0.0, float("nan"))}

    def count_clusters(self, clusters) -> int:
        """`clusters` as they are kept: at least 2, and at most the number of images."""
        count = checks.count(2, clusters=clusters)
        if count > self.num_images:
            raise InvalidInputError(
                f"clusters must be at most the number of images, {self.num_images}. Received: clusters={clusters}"
            )
        return count

    def _check_index(self, index):
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
        outside = values[(values < 0) | (values >= self.num_images)]
        if outside.size:
            raise InvalidInputError(
                f"index must hold places of {self.num_images} training images, 0..{self.num_images - 1}. "
                f"Received: index={int(outside[0])}"
            )

    def check_images(self, images) -> None:
        """Raise InvalidInputError unless there are as many images as the index counts."""
        if len(images) != self.num_images:
            raise InvalidInputError(
                f"images must be all {self.num_images} training images, in the order of the index. "
                f"Received: {len(images)} images"
            )

    def embed_all(self, images, batch_size: int = 500) -> np.ndarray:
        """Unit embeddings of all training images (num_images, H, W, C), raw, seen without augmentation: float32."""
        self.check_images(images)
        with processes.alone(self), without_gradients():
            batches = (images[start : start + batch_size] for start in range(0, len(images), batch_size))
            found = [ops.convert_to_numpy(self.embed(self.prepare(batch), training=False)) for batch in batches]
        return ops.convert_to_numpy(unit(np.concatenate(found)))
