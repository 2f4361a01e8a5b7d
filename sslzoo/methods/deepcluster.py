"""DeepCluster: images are clustered by their features, and the clusters are what the network learns to classify."""

import math

import keras
import numpy as np
from keras import ops

from sslzoo import checks, processes
from sslzoo.errors import InvalidInputError
from sslzoo.losses import pseudo_label_terms
from sslzoo.losses.tensors import mean_terms
from sslzoo.methods.joint_embedding import JointEmbedding
from sslzoo.methods.kmeans import kmeans_labels
from sslzoo.methods.state import forget, snapshot, variable
from sslzoo.networks import blocks


@keras.saving.register_keras_serializable("sslzoo")
class DeepCluster(JointEmbedding):
    """DeepCluster: k-means on the features of all images gives labels, which augmented views are classified by.

    loss = mean over views of w_i [ -(z . c_k + b_k) + log sum_k' exp(z . c_k' + b_k') ],  k the cluster of image i

    `alignment` pulls images of a cluster to one vector, the centre psi of the model's group, and stands for the prior:
    here the group of related data is a cluster of images. `contrast` pushes them from the vectors of other clusters
    and, with k-means cutting the whole set into clusters and w making each of them count the same, stands for the
    reconstruction.

    Clusters are made outside the training step, by `recluster`, or by the callback `Recluster` before each epoch (fewer
    times where an epoch is short: the classifier starts anew with the clusters and must learn them first). Until then
    image i is in cluster i mod `clusters`. The assignments are variables of the model, so part of every
    checkpoint, but the optimizer never sees them.

    Inputs are {"images": images, "index": int (B,)}, the place of each image in the training set
    (`data.pipeline(with_index=True)`, `data.Batches(with_index=True)`). An index outside it makes the loss NaN.

    Example:
        import numpy as np
        from sslzoo import methods, networks, views
        from sslzoo.methods.deepcluster import Recluster

        images = np.random.default_rng(0).integers(0, 256, (64, 8, 8, 1)).astype("uint8")
        encoder = networks.encoder("mlp-small", (8, 8, 1), 10)
        model = methods.DeepCluster(encoder, 64, clusters=8, views=views.Views("simvae-digits", 2))
        model.compile("adam")
        given = {"images": images, "index": np.arange(64)}
        model.fit(given, batch_size=16, verbose=0, callbacks=[Recluster(images)])

    Args:
        encoder: as in `JointEmbedding`. Features and classifier's input are its representation; the paper's network
            has a ReLU between the two.
        num_images: int, size of the training set.
        clusters: int in 2..num_images, K. Far more than the expected classes work best in the paper.
        views: `sslzoo.views.Views` with any number of views, each classified on its own, or None.
        whitened_dim: int >= 1, features are reduced to at most that many principal components, whitened, and set to
            length 1 before they are clustered. 256 in the paper.
        balanced: bool. True: w_i = N / (used clusters x size of the image's cluster), the expectation of the paper's
            sampling, which draws clusters uniformly. False: w_i = 1, and a large cluster can swallow the rest.
        seed: int, of the classifier's first weights and of k-means.

    Raises:
        InvalidInputError: more clusters than images, or a setting out of range.

    Reference:
        Caron et al., "Deep Clustering for Unsupervised Learning of Visual Features", eq. 1-2 and section 3.3; in the
        model of "A Probabilistic Model behind Self-Supervised Learning", section 3.3.
    """

    papers = (
        {
            "title": "Deep Clustering for Unsupervised Learning of Visual Features",
            "url": "https://arxiv.org/abs/1807.05520",
        },
        {"title": "A Probabilistic Model behind Self-Supervised Learning", "url": "https://arxiv.org/abs/2402.01399"},
    )
    terms = ("alignment", "contrast")
    roles = ("prior", "substitute")
    remembers = ("features and a label of each training image",)
    indexed = True
    view_counts = (1, None)

    def __init__(
        self,
        encoder: keras.Model,
        num_images: int,
        clusters: int,
        views: keras.Layer | None = None,
        whitened_dim: int = 256,
        balanced: bool = True,
        seed: int = 0,
        **kwargs,
    ):
        super().__init__(encoder, None, views, **kwargs)
        checks.count(2, num_images=num_images, clusters=clusters)
        checks.count(1, whitened_dim=whitened_dim)
        if clusters > num_images:
            raise InvalidInputError(
                f"clusters must be at most the number of images, {num_images}. Received: clusters={clusters}"
            )
        self.num_images = num_images
        self.clusters = clusters
        self.whitened_dim = whitened_dim
        self.balanced = bool(balanced)
        self.seed = checks.seed(needed=True, seed=seed)
        features = keras.Input((self.embedding_dim,), name="features")
        logits = blocks.dense(features, clusters, "clusters", dtype="float32")
        self.classifier = keras.Model(features, logits, name="classifier")
        self.classifier.set_weights(self._fresh_classifier(epoch=0))
        self.assignments = variable(self, np.arange(num_images, dtype="int32") % clusters, "assignments")
        self.cluster_weights = variable(self, np.ones(clusters, "float32"), "cluster_weights")

    def call(self, inputs, training=False):
        images, _ = self.split(inputs)
        z = self.embed_groups(self.make_views(images, training), training)
        logits = self.classifier(ops.reshape(z, (-1, self.embedding_dim)))
        return {"logits": ops.reshape(logits, (-1, z.shape[1], self.clusters))}

    def objective(self, images, outputs, training):
        _, index = self.split(images)
        known = ops.logical_and(index >= 0, index < self.num_images)
        labels = ops.take(snapshot(self.assignments), ops.where(known, index, 0), axis=0)
        weights = ops.where(known, ops.take(snapshot(self.cluster_weights), labels, axis=0), float("nan"))
        logits = outputs["logits"]
        each = [pseudo_label_terms(logits[:, view], labels, weights) for view in range(logits.shape[1])]
        return mean_terms(each)

    def recluster(self, images, epoch: int = 0, encoder: keras.Model | None = None) -> dict[str, float]:
        """Assigns every image to a cluster of features as they are now, and starts the classifier anew.

        Features are those of images without augmentation, clustered by `kmeans.kmeans_labels`; with fewer different
        images than clusters, the last ones stay unused, which is no harm. The optimizer's memory of the old classifier
        is cleared.

        Args:
            images: array (num_images, H, W, C), raw, 0..255, in the order of the index; without `views`, as the
                encoder sees them.
            epoch: int, makes k-means and the new classifier repeatable, together with the model's seed.
            encoder: `live_encoder` of this model, if one is at hand, which saves compiling one.

        Returns:
            dict: "cluster_nmi", mutual information (normalised, 0..1) of old and new assignments, which grows as they
            settle; "clusters_used", how many clusters have images.

        Raises:
            InvalidInputError: another number of images than num_images.
            TrainingError: features are not finite.
        """
        from sklearn.metrics import normalized_mutual_info_score

        self.check_images(images)
        if encoder is None:
            encoder = self.encoder if self.views is None else self.live_encoder(tuple(images.shape[1:]))
        with processes.alone(self):
            features = np.asarray(encoder.predict(images, batch_size=500, verbose=0), "float64")
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

    def check_images(self, images):
        """Raise unless these can be the images that the index counts."""
        if len(images) != self.num_images:
            raise InvalidInputError(
                f"Clusters are made of all {self.num_images} training images, in the order of their index. "
                f"Received: {len(images)} images"
            )

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


class Recluster(keras.callbacks.Callback):
    """Clusters the images of a `DeepCluster` model anew before epochs 0, every, 2 every ...

    Agreement with the clusters before and their number stand in the logs as `cluster_nmi` and `clusters_used`. Which
    epochs do so, and with what random numbers, depends on the epoch alone: a run resumed from a checkpoint has the
    clusters it would have had.

    Example:
        import numpy as np
        from sslzoo import methods, networks, views
        from sslzoo.methods.deepcluster import Recluster

        images = np.random.default_rng(0).integers(0, 256, (64, 8, 8, 1)).astype("uint8")
        encoder = networks.encoder("mlp-small", (8, 8, 1), 10)
        model = methods.DeepCluster(encoder, 64, clusters=8, views=views.Views("simvae-digits", 2))
        model.compile("adam")
        given = {"images": images, "index": np.arange(64)}
        model.fit(given, batch_size=16, verbose=0, callbacks=[Recluster(images, every=5)])

    Args:
        images: array (num_images, H, W, C), raw images in the order of the index.
        every: int >= 1, epochs between two clusterings.

    Raises:
        InvalidInputError: at the start of training, if the images are not as many as the model knows.
    """

    def __init__(self, images: np.ndarray, every: int = 1):
        super().__init__()
        checks.count(1, every=every)
        self.images = images
        self.every = every
        self._encoder = None
        self._agreement = {}

    def resume(self, rows):
        """Takes up what a run had found before it was interrupted, from the rows of its history."""
        if rows:
            self._agreement = {key: rows[-1][key] for key in ("cluster_nmi", "clusters_used") if key in rows[-1]}

    def on_train_begin(self, logs=None):
        model = self.model
        if not isinstance(model, DeepCluster):
            raise InvalidInputError(f"Recluster makes the clusters of DeepCluster. Received: {type(model).__name__}")
        model.check_images(self.images)
        if model.views is not None:
            self._encoder = model.live_encoder(tuple(self.images.shape[1:]))

    def on_epoch_begin(self, epoch, logs=None):
        if epoch % self.every == 0:
            # Under JAX, asking for `self.model` brings its variables up to date, and what is assigned to them before
            # the first step of the epoch is what that step starts from.
            self._agreement = self.model.recluster(self.images, epoch, self._encoder)

    def on_epoch_end(self, epoch, logs=None):
        if logs is not None:
            logs.update(self._agreement)
