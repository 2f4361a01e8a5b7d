"""DeepCluster: images are clustered by their features, and the clusters are what the network learns to classify."""

import math

import keras
import numpy as np
from keras import ops

from sslzoo import checks, processes
from sslzoo.errors import InvalidInputError
from sslzoo.losses import pseudo_label_terms
from sslzoo.losses.tensors import mean_terms
from sslzoo.methods.compiled import predicted
from sslzoo.methods.indexed import Indexed
from sslzoo.methods.kmeans import Clusters, kmeans_labels
from sslzoo.methods.papers import SIMVAE
from sslzoo.methods.state import forget, snapshot, variable
from sslzoo.networks import blocks

UNMADE = (
    "Image i is in cluster i mod `clusters`, and no callback makes others: pass sslzoo.callbacks.Recluster(images) in "
    "`callbacks`, or call `recluster` between epochs."
)


class DeepCluster(Indexed):
    """DeepCluster: k-means on the features of all images gives labels, which augmented views are classified by.

    loss = mean over views of w_i [ -(z . c_k + b_k) + log sum_k' exp(z . c_k' + b_k') ],  k the cluster of image i

    `alignment` pulls images of a cluster to one vector, the center psi of the model's group, and stands for the prior:
    here the group of related data is a cluster of images. `contrast` pushes them from the vectors of other clusters
    and, with k-means cutting the whole set into clusters and w making each of them count the same, stands for the
    reconstruction. Clusters are made outside the training step, by `recluster`, or by the callback `Recluster` before
    each epoch; until then image i is in cluster i mod `clusters`.

    Args:
        encoder, num_images, views: as in `Indexed`. Features and classifier's input are the representation.
        clusters: int in 2..num_images, K. Far more than the expected classes work best in the paper.
        whitened_dim: int >= 1, features are reduced to at most that many principal components, whitened, and set to
            length 1 before they are clustered. 256 in the paper.
        balanced: bool. True: w_i = N / (used clusters x size of the image's cluster), the expectation of the paper's
            sampling. False: w_i = 1, and a large cluster can swallow the rest.
        seed: int, of the classifier's first weights and of k-means.

    Reference:
        Caron et al., "Deep Clustering for Unsupervised Learning of Visual Features", eq. 1-2 and section 3.3; in the
        model of "A Probabilistic Model behind Self-Supervised Learning", section 3.3.
    """

    papers = ("https://arxiv.org/abs/1807.05520", SIMVAE)
    terms = {"alignment": "prior", "contrast": "substitute"}
    remembers = ("features and a label of each training image",)
    without = ("projector",)

    def __init__(self, encoder, num_images, clusters, views=None, whitened_dim=256, balanced=True, seed=0, **kwargs):
        super().__init__(encoder, num_images, None, views, **kwargs)
        self.clusters = self.count_clusters(clusters)
        self.whitened_dim = checks.count(whitened_dim=whitened_dim)
        self.balanced = bool(balanced)
        self.seed = checks.seed(needed=True, seed=seed)
        features = keras.Input((self.embedding_dim,), name="features")
        logits = blocks.dense(features, clusters, "clusters", dtype="float32")
        self.classifier = keras.Model(features, logits, name="classifier")
        self.classifier.set_weights(self._fresh_classifier(epoch=0))
        self.assignments = variable(self, np.arange(num_images, dtype="int32") % clusters, "assignments")
        self.cluster_weights = variable(self, np.ones(clusters, "float32"), "cluster_weights")

    def call(self, inputs, training=False):
        z = super().call(inputs, training)["z"]
        logits = self.classifier(ops.reshape(z, (-1, self.embedding_dim)))
        return {"logits": ops.reshape(logits, (-1, z.shape[1], self.clusters))}

    def objective(self, images, outputs, training):
        index, known = self.places(images)
        labels = ops.take(snapshot(self.assignments), index, axis=0)
        weights = ops.where(known, ops.take(snapshot(self.cluster_weights), labels, axis=0), 0.0)
        logits = outputs["logits"]
        terms = [pseudo_label_terms(logits[:, view], labels, weights) for view in range(logits.shape[1])]
        return self.told(mean_terms(terms), known)

    def recluster(self, images, epoch: int = 0, encoder: keras.Model | None = None) -> dict[str, float]:
        """Assigns every image to a cluster of its features (`kmeans.kmeans_labels`), and starts the classifier anew.

        Args:
            images: array (num_images, H, W, C), raw, in the order of the index; without `views`, as the encoder sees
                them.
            epoch: int, makes k-means and the new classifier repeatable, together with the model's seed.
            encoder: `live_encoder` of this model, if one is at hand, which saves compiling one.

        Returns:
            dict: "cluster_nmi", mutual information (normalized, 0..1) of old and new assignments, and "clusters_used".
        """
        from sklearn.metrics import normalized_mutual_info_score

        self.check_images(images)
        if encoder is None:
            encoder = self.encoder if self.views is None else self.live_encoder(tuple(images.shape[1:]))
        with processes.alone(self):
            features = predicted(encoder, images, 512).astype("float64")
        seed = int(self._random(epoch, 0).integers(2**31))
        labels = kmeans_labels(features, self.clusters, self.whitened_dim, seed).astype("int32")
        labels = processes.array_of_first(labels)  # other machines may round, and so cluster, otherwise
        sizes = np.bincount(labels, minlength=self.clusters)
        used = sizes > 0
        weights = np.ones(self.clusters, "float32")
        if self.balanced:
            weights = np.where(used, self.num_images / (used.sum() * np.maximum(sizes, 1)), 0.0)
        agreement = normalized_mutual_info_score(ops.convert_to_numpy(self.assignments), labels)
        self.assignments.assign(labels)
        self.cluster_weights.assign(weights)
        self.classifier.set_weights(self._fresh_classifier(epoch))
        forget(getattr(self, "optimizer", None), self.classifier.weights)
        return {"cluster_nmi": float(agreement), "clusters_used": float(used.sum())}

    def remark_on(self, callbacks):
        if any(isinstance(each, Clusters) for each in callbacks):
            return None
        first = np.arange(self.num_images) % self.clusters
        return UNMADE if (ops.convert_to_numpy(self.assignments) == first).all() else None

    def _fresh_classifier(self, epoch):
        """Kernel and bias it starts with at that epoch."""
        kernel = self._random(epoch, 1).normal(0.0, 0.01, (self.embedding_dim, self.clusters))
        return [kernel.astype("float32"), np.zeros(self.clusters, "float32")]

    def _random(self, epoch, stream):
        """NumPy generator that is a function of seed and epoch: a resumed run goes on exactly."""
        return np.random.default_rng([self.seed, epoch, stream])

    def chance_level(self, batch_size: int) -> float:
        """Loss when every cluster is as likely as any other: log(clusters), in nats (on average over the set)."""
        return math.log(self.clusters)

    def cluster_probabilities(self, views):
        """The classifier's probabilities for views (N, H, W, C): float tensor (N, clusters), rows sum to 1."""
        return ops.softmax(self.classifier(self.embed(views)), axis=-1)


class Recluster(Clusters):
    """Clusters the images of a `DeepCluster` model anew before epochs 0, every, 2 every ..., and logs as `recluster`.

    Example:
        import numpy as np
        from sslzoo import callbacks

        images = np.zeros((64, 8, 8, 1), "uint8")
        anew = callbacks.Recluster(images)  # then: model.fit(..., callbacks=[anew])

    Args:
        images: array (num_images, H, W, C), raw images in the order of the index.
        every: int >= 1, epochs between two clusterings.
    """

    logged = ("cluster_nmi", "clusters_used")

    def __init__(self, images: np.ndarray, every: int = 1):
        super().__init__(every)
        self.images = images
        self._encoder = None

    def on_train_begin(self, logs=None):
        model = self.model
        if not isinstance(model, DeepCluster):
            raise InvalidInputError(f"Recluster makes the clusters of DeepCluster. Received: {type(model).__name__}")
        model.check_images(self.images)
        if model.views is not None:
            self._encoder = model.live_encoder(tuple(self.images.shape[1:]))

    def cluster(self, epoch):
        return self.model.recluster(self.images, epoch, self._encoder)
