"""Parametric instance discrimination: a softmax classifier with one class, and one weight vector, per image."""

import math

from keras import ops

from sslzoo import checks
from sslzoo.losses import instance_terms, unit
from sslzoo.methods.advice import LOWER_TEMPERATURE
from sslzoo.methods.indexed import Indexed
from sslzoo.methods.papers import NON_PARAMETRIC, SIMVAE
from sslzoo.methods.state import variable
from sslzoo.networks.initialization import unit_rows

# Length of the class vectors before training. Short vectors turn quickly towards the representations of their images;
# vectors of length 1 would first draw the encoder to the random places where they stand.
INITIAL_LENGTH = 0.01


class ParametricInstanceDiscrimination(Indexed):
    """Instance discrimination by a classifier: each training image, with all its views, is a class of its own.

    loss = mean over views of [ -z . w_i + log sum_j exp z . w_j ],  w_i the weight vector of the view's image i

    `alignment` pulls all views of an image towards its vector, the center psi_i of the model's group, and stands for
    the prior; `contrast` pushes them from the vectors of all other images, which raises the entropy of z, and stands
    for the reconstruction. The centers are parameters, which contrastive methods replace by a second view: memory and
    time of a step grow with the number of training images.

    Args:
        encoder, num_images, projector, views: as in `Indexed`.
        temperature: float > 0: scores are cosine similarities / temperature. None: scores are inner products, a plain
            softmax layer without bias.
        seed: int, of the class vectors' random directions; drawn by NumPy, equal on every backend.

    Reference:
        "A Probabilistic Model behind Self-Supervised Learning", section 3.3 and eq. 6-7. Dosovitskiy et al.,
        "Discriminative Unsupervised Feature Learning with Convolutional Neural Networks"; Wu et al., "Unsupervised
        Feature Learning via Non-Parametric Instance Discrimination", eq. 1 (this, the parametric classifier).
    """

    papers = ("https://arxiv.org/abs/1406.6909", NON_PARAMETRIC, SIMVAE)
    terms = {"alignment": "prior", "contrast": "substitute"}
    advice = (LOWER_TEMPERATURE,)

    def __init__(self, encoder, num_images, projector=None, views=None, temperature=None, seed=0, **kwargs):
        super().__init__(encoder, num_images, projector, views, **kwargs)
        self.temperature = None if temperature is None else checks.positive(temperature=temperature)
        self.seed = checks.seed(needed=True, seed=seed)
        initial = INITIAL_LENGTH * unit_rows(num_images, self.embedding_dim, seed)
        self.class_vectors = variable(self, initial, "class_vectors", trainable=True)

    def scores(self, z):
        """Scores of embeddings (N, P) against every training image: float tensor (N, num_images)."""
        vectors = ops.convert_to_tensor(self.class_vectors)
        if self.temperature is None:
            return ops.matmul(z, ops.transpose(vectors))
        return ops.matmul(unit(z), ops.transpose(unit(vectors))) / self.temperature

    def fill_class_vectors(self, images, batch_size: int = 500) -> None:
        """Puts each image's class vector where the networks see the image now, at length 1, in place of random ones.

        Where there are many images, Adam moves short random vectors all to one side before their own image has come,
        and an encoder without batch normalization collapses in the first epoch. Long ones that stand at their images
        keep their places. `images` are all training images, in the order of the index.
        """
        self.class_vectors.assign(self.embed_all(images, batch_size))

    def objective(self, images, outputs, training):
        _, index = self.split(images)
        views = outputs["z"].shape[1]
        z = ops.reshape(outputs["z"], (-1, self.embedding_dim))
        return instance_terms(self.scores(z), ops.repeat(index, views))

    def chance_level(self, batch_size: int) -> float:
        """Loss when all images look alike: log(num_images), in nats."""
        return math.log(self.num_images)
