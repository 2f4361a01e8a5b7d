"""W-MSE: views agree after whitening, which leaves embeddings no room to collapse."""

import keras
from keras import ops

from sslzoo import checks
from sslzoo.errors import InvalidInputError
from sslzoo.losses import w_mse
from sslzoo.methods.joint_embedding import JointEmbedding
from sslzoo.methods.papers import SIMVAE


class WMSE(JointEmbedding):
    """W-MSE: views of an image agree once the embeddings of the batch were whitened.

    loss = mean over images and pairs of views of 2 - 2 cos(w(z), w(z')),  w(z) = L^-1 (z - mean),  L L^T = Cov(z)

    Its one term, `invariance`, pulls the views of an image together and stands for the prior. What stands for the
    reconstruction is a constraint in place of a term: whitened embeddings have unit variance in every direction, so
    images are as far apart as they can be, whatever the encoder does. A loss of 2 says that views do not agree at all.

    Covariances of few embeddings are rough, those of many change little from step to step. The paper therefore whitens
    `whitening_size` embeddings at a time, another random split of the batch at each step.

    Args:
        encoder, projector, views: as in `JointEmbedding`; two views or more.
        whitening_size: int, embeddings whitened together: more than their size D (the paper has 2 D), and a divisor of
            the batch size. None for the whole batch.
        iterations: int >= 1, random splits per step, over which the loss is averaged.
        normalize: bool. True: compare directions. False: squared differences, per coordinate.
        seed: int, for the splits.

    Reference:
        Ermolov et al., "Whitening for Self-Supervised Representation Learning", section 3. The GEDI paper (arXiv
        2401.00873), appendix I, writes the sum of the cosines: the same up to scale and a constant.
    """

    papers = ("https://arxiv.org/abs/2007.06346", SIMVAE)
    terms = {"invariance": "prior"}
    apart_by = "whitening"
    view_counts = (2, None)
    joint_statistics = False

    def __init__(
        self, encoder, projector=None, views=None, whitening_size=None, iterations=1, normalize=True, seed=0, **kwargs
    ):
        super().__init__(encoder, projector, views, **kwargs)
        if whitening_size is not None and checks.count(whitening_size=whitening_size) <= self.embedding_dim:
            raise InvalidInputError(
                f"whitening_size must be larger than the {self.embedding_dim} features of an embedding. "
                f"Received: whitening_size={whitening_size!r}"
            )
        self.whitening_size = whitening_size
        self.least_batch = self.embedding_dim + 1 if whitening_size is None else whitening_size
        self.batch_multiple = whitening_size or 1
        self.iterations = checks.count(iterations=iterations)
        self.normalize = normalize
        self.seed = checks.seed(needed=True, seed=seed)
        self.random = keras.random.SeedGenerator(self.seed)

    def objective(self, images, outputs, training):
        z, size = outputs["z"], self.whitening_size
        if size is not None:
            # Evaluation draws nothing: it takes the batch as it comes.
            splits = [self._shuffled(z) for _ in range(self.iterations)] if training else [z]
            z = ops.concatenate([ops.reshape(split, (-1, size, *z.shape[1:])) for split in splits], axis=0)
        return {"invariance": w_mse(z, self.normalize)}

    def _shuffled(self, z):
        """Embeddings (B, J, D) in a random order of images: the ranks of random numbers are a permutation."""
        order = ops.argsort(keras.random.normal((ops.shape(z)[0],), seed=self.random))
        return ops.take(z, order, axis=0)
