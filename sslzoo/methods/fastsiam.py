"""FastSiam: SimSiam with more views, each of which predicts the mean of the others."""

from keras import ops

from sslzoo.losses import negative_cosine
from sslzoo.methods.simsiam import SimSiam


class FastSiam(SimSiam):
    """FastSiam: a predictor turns the embedding of each view into the mean of all others', which is held constant.

    loss = mean over images and views of -cos(p_v, stop mean_{u != v} z_u),   p = predictor(z)

    `alignment` pulls the views of an image together and stands for the prior; as in SimSiam, nothing pushes images
    apart. The mean of several views is a steadier target than one, so that small batches and few epochs suffice. Two
    views make it SimSiam.

    Args:
        encoder, projector, predictor, views: as in `SimSiam`, with two views or more; the paper has four, and 32 images
            a step.

    Reference:
        Pototzky, Sultan and Schmidt-Thieme, "FastSiam: Resource-Efficient Self-Supervised Learning on a Single GPU",
        eq. 3.
    """

    papers = ("https://doi.org/10.1007/978-3-031-16788-1_4",)
    view_counts = (2, None)

    def objective(self, images, outputs, training):
        prediction, z = outputs["prediction"], ops.stop_gradient(outputs["target"])
        others = (ops.sum(z, axis=1, keepdims=True) - z) / (z.shape[1] - 1)
        rows = (-1, self.embedding_dim)
        return {"alignment": negative_cosine(ops.reshape(prediction, rows), ops.reshape(others, rows))}
