"""SimSiam: each view predicts the other, and only the predicting side learns."""

from keras import ops

from sslzoo.errors import InvalidInputError
from sslzoo.losses import negative_cosine
from sslzoo.methods.joint_embedding import JointEmbedding
from sslzoo.methods.pretrainer import full_precision
from sslzoo.networks.composition import as_network


class SimSiam(JointEmbedding):
    """SimSiam: a predictor turns the embedding of one view into that of the other, which is held constant.

    loss = mean over images of [ -cos(p_1, stop z_2) - cos(p_2, stop z_1) ] / 2,   p = predictor(z)

    `alignment` pulls the views of an image together and stands for the prior. No term pushes images apart: equal
    embeddings of all images are an optimum, -1. What keeps training away from it is outside the loss: the stopped
    gradient, the predictor, and batch normalization in the heads. So the loss cannot tell learning from collapse; the
    spread of the normalized embeddings can, about 1 / sqrt(P) in each coordinate, 0 after collapse.

    Args:
        encoder, projector, views: as in `JointEmbedding`. The paper's projector for features of size
            D is `networks.projector(D, (2048, 2048, 2048), output_batch_norm=True)`, without the first 2048 for
            CIFAR-10. Batch normalization of a batch of one image makes all its embeddings equal.
        predictor: built model (N, P) -> (N, P), P the size of embeddings; the paper's is
            `networks.predictor(P, P // 4)`. Training and `load` of a whole model use it, published parts do not.

    Reference:
        Chen and He, "Exploring Simple Siamese Representation Learning", eq. 1-4 and algorithm 1.
    """

    papers = ("https://arxiv.org/abs/2011.10566",)
    terms = {"alignment": "prior"}
    apart_by = "predictor and stop-gradient"
    joint_statistics = False

    def __init__(self, encoder, projector, predictor, views=None, **kwargs):
        super().__init__(encoder, projector, views, **kwargs)
        self.predictor, embeddings = as_network("predictor", predictor), (None, self.embedding_dim)
        if not self.predictor.input_shape == self.predictor.output_shape == embeddings:
            raise InvalidInputError(
                f"predictor must be a built model from embeddings {embeddings} to embeddings. "
                f"Received: predictor {self.predictor.input_shape} -> {self.predictor.output_shape}"
            )

    def predict_groups(self, z, training):
        """Predictions from grouped embeddings: float tensor (B, J, P), one view of each image at a time."""
        views = [self.predictor(z[:, view], training=training) for view in range(z.shape[1])]
        return full_precision(ops.stack(views, axis=1))

    def call(self, images, training=False):
        z = self.embed_groups(self.make_views(images, training), training)
        return {"prediction": self.predict_groups(z, training), "target": z}

    def objective(self, images, outputs, training):
        first, second = self.directions(negative_cosine, outputs)
        return {"alignment": 0.5 * (first + second)}

    def directions(self, loss, outputs):
        """`loss` of the first view predicting the second, and of the second predicting the first."""
        prediction, target = outputs["prediction"], ops.stop_gradient(outputs["target"])
        return loss(prediction[:, 0], target[:, 1]), loss(prediction[:, 1], target[:, 0])
