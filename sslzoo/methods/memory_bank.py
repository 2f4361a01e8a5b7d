"""What the methods with a memory bank share: one vector remembered of each image, and neighborhoods among them.

The family is one loss (`losses.neighborhood_nce`) with other candidates and other sets:

    method                    candidates                          left out of the negatives    also positive
    InstanceDiscrimination    all of the bank, or some drawn      -                            -
    Ball                      the nearest of the bank             -                            -
    Annulus                   the nearest of the bank             those in the same cluster    -
    LocalAggregation          the nearest of the bank             -                            those in the same cluster
    CMC                       any of the first three, in the bank of the image's other modality
"""

import math
import time
import warnings

import keras
import numpy as np
from keras import ops

from sslzoo import checks, processes
from sslzoo.errors import InvalidInputError, TrainingError, choose
from sslzoo.losses import anneal, nearest, neighborhood_terms, unit, within
from sslzoo.losses.neighborhood import BLOCK, CURVES
from sslzoo.losses.tensors import softmax_terms
from sslzoo.methods.advice import LOWER_TEMPERATURE
from sslzoo.methods.indexed import Indexed
from sslzoo.methods.kmeans import Clusters, mini_batch_kmeans
from sslzoo.methods.state import counter, refresh_rows, snapshot, variable, without_gradients
from sslzoo.methods.steps import Monitor
from sslzoo.networks.initialization import unit_rows

ALONE = (
    "Each image is alone in its cluster, and no callback makes others: pass sslzoo.callbacks.ClusterBank() in "
    "`callbacks`, or call `cluster_bank` between epochs."
)


class Bank(keras.layers.Layer):
    """What is remembered of each training image: `rows`, float32 (N, D), and the clusters it is in, `labels`, int32
    (C, N), or None without clusterings. Until clusters are made, each image is alone in its own; rows start as random
    points on the sphere, drawn by NumPy, equal on every backend.
    """

    def __init__(self, num_images: int, size: int, clusterings: int = 0, seed: int = 0, **kwargs):
        super().__init__(**kwargs)
        self.rows = variable(self, unit_rows(num_images, size, seed), "rows")
        alone = np.arange(num_images, dtype="int32")
        self.labels = variable(self, np.tile(alone, (clusterings, 1)), "labels") if clusterings else None
        self.built = True

    def close(self, places, index):
        """Which of the images at `places`, int (B or 1, K), share a cluster with image `index`, int (B,): bool."""
        shared = None
        for labels in ops.unstack(snapshot(self.labels), axis=0):
            same = ops.take(labels, places, axis=0) == ops.take(labels, index, axis=0)[:, None]
            shared = same if shared is None else ops.logical_or(shared, same)
        return shared


class MemoryBank(Indexed):
    """Base of the methods that compare a view with what is remembered of all images.

    loss = mean over views of [ -log sum over positives of exp(v . M_j / T)
                                + log sum over positives and negatives of exp(v . M_j / T) ]

    with v the view's embedding and M the bank, both of length 1; image i itself is always positive. `alignment` pulls a
    view towards what is remembered of its image, the mean of earlier views of it, which is the center psi_i of the
    model's group, and stands for the prior; `contrast` pushes it from other images and stands for the reconstruction.
    Gradients flow through v alone. After a step M_i <- unit(momentum M_i + (1 - momentum) v), with the mean of several
    views. The bank starts with random rows, as in the papers, or by `fill_bank` with useful ones.

    Example:
        import numpy as np
        from sslzoo import callbacks, methods, networks, views

        images = np.random.default_rng(0).integers(0, 256, (64, 8, 8, 1)).astype("uint8")
        encoder = networks.encoder("mlp-small", (8, 8, 1), 10)
        model = methods.Annulus(encoder, 64, views=views.Views("simvae-digits", 1), neighbors=32, clusters=8)
        model.compile(optimizer="sgd")
        given = {"images": images, "index": np.arange(64)}
        model.fit(given, batch_size=16, epochs=2, verbose=0, callbacks=[callbacks.ClusterBank()])

    Args:
        encoder, projector, views, num_images: as in `Indexed`. The paper's embeddings have 128 numbers.
        negatives: int >= 1, candidates drawn uniformly for each step where there is no ball; None for all images.
        neighbors: int >= 1, how many images of the bank nearest to the view form the ball; None for no ball.
        anneal_steps: int >= 0. The ball begins as the whole bank and has shrunk to `neighbors` after so many steps.
        curve: "linear", "exponential" or "step" (the whole bank until then), how it shrinks.
        clusters: int >= 2, clusters of each clustering of the bank; None for none. See `ClusterBank`.
        clusterings: int >= 1, how many there are.
        inner: float from 0 to 1: instead of clusters, the nearest `inner` of the ball are close; None for none.
        temperature: float > 0, T.
        momentum: float from 0 to 1, of the bank.
        seed: int, of the bank's first rows, of drawn negatives and of k-means.
    """

    terms = {"alignment": "prior", "contrast": "substitute"}
    remembers = ("an embedding of each training image",)
    advice = (LOWER_TEMPERATURE,)

    def __init__(
        self,
        encoder: keras.Model,
        num_images: int,
        projector: keras.Model | None = None,
        views: keras.Layer | None = None,
        negatives: int | None = None,
        neighbors: int | None = None,
        anneal_steps: int = 0,
        curve: str = "linear",
        clusters: int | None = None,
        clusterings: int = 10,
        inner: float | None = None,
        temperature: float = 0.07,
        momentum: float = 0.5,
        seed: int = 0,
        **kwargs,
    ):
        super().__init__(encoder, num_images, projector, views, **kwargs)
        self.negatives = None if negatives is None else checks.count(negatives=negatives)
        self.neighbors = None if neighbors is None else checks.count(neighbors=neighbors)
        self.anneal_steps = checks.count(0, anneal_steps=anneal_steps)
        self.curve = choose("curve", curve, CURVES)
        self.clusters = None if clusters is None else self.count_clusters(clusters)
        self.clusterings = checks.count(clusterings=clusterings)
        self.inner = None if inner is None else checks.fraction(inner=inner)
        if inner is not None and clusters is not None:
            raise InvalidInputError(f"Pass either `clusters` or `inner`, not both. Received: {clusters=}, {inner=}")
        self.temperature = checks.positive(temperature=temperature)
        self.momentum = checks.fraction(momentum=momentum)
        self.seed = checks.seed(needed=True, seed=seed)
        if anneal_steps:
            self.step = counter(self, "step")
        if negatives is not None:
            self.random = keras.random.SeedGenerator(self.seed)
        self.make_banks()

    def make_banks(self) -> None:
        """Makes what `banks` lists: one bank of embeddings."""
        self.bank = self.make_bank(self.embedding_dim, self.seed)

    def make_bank(self, size: int, seed: int, name: str = "bank") -> Bank:
        """A bank of all training images, of vectors of `size` numbers."""
        return Bank(self.num_images, size, self.clusterings if self.clusters else 0, seed, name=name)

    # ------------------------------------------------------------------ what a method says of itself

    def banks(self) -> list:
        """[(slice of the embedding, the bank that remembers it)]."""
        return [(slice(None), self.bank)]

    def compared(self) -> list:
        """[(slice of the embedding, the bank it is compared with)]: a loss each, which are added."""
        return self.banks()

    def sets(self, cosines, places, index, bank):
        """Which candidates are positives and negatives, in two bool masks (B, K); the image itself is seen to.

        None in place of the first: the image itself is the only positive. `cosines` and `places` are of the candidates;
        `index`, int (B,), is the image of each view.
        """
        ball = self.ball(cosines)
        if self.clusters is not None:
            ball = ops.logical_and(ball, ops.logical_not(bank.close(places, index)))
        elif self.inner is not None:
            ball = ops.logical_and(ball, ops.logical_not(self.ball(cosines, self.inner)))
        return None, ball

    # ------------------------------------------------------------------ a step

    def call(self, inputs, training=False):
        outputs = super().call(inputs, training)
        if self.draws:
            # One draw for all views of a step: the expectation is that of a draw for each, and instead of looking up
            # thousands of rows for every view there is one matrix product.
            shape = (self.negatives,)
            seed = self.random if training else self.seed  # the same ones outside training, where nothing moves
            outputs["drawn"] = keras.random.randint(shape, 0, self.num_images, dtype="int32", seed=seed)
        return outputs

    def objective(self, images, outputs, training):
        index, known = self.places(images)
        index = ops.repeat(index, outputs["z"].shape[1])
        z = ops.reshape(outputs["z"], (-1, self.embedding_dim))
        drawn = ops.cast(outputs["drawn"], "int32") if self.draws else None
        parts = [self.compare(unit(z[:, part]), bank, index, drawn) for part, bank in self.compared()]
        return self.told({term: sum(one[term] for one in parts) for term in self.terms}, known)

    def compare(self, v, bank, index, drawn):
        """The terms of unit vectors (B, D), views of the images `index`, against a bank, or the rows `drawn` of it."""
        rows = snapshot(bank.rows)
        own = ops.sum(v * ops.take(rows, index, axis=0), axis=1, keepdims=True)
        cosines, places = self.candidates(v, rows, drawn)
        positive, negative = self.sets(cosines, places, index, bank)
        itself = places == index[:, None]  # in every neighborhood
        has_place = not (self.draws or self.searches)  # among all images; otherwise it gets a column of its own
        if not has_place:
            cosines = ops.concatenate([own, cosines], axis=1)

        def with_itself(mask):
            if has_place:
                return ops.logical_or(mask, itself)
            others = ops.logical_and(mask, ops.logical_not(itself))
            return ops.concatenate([ops.ones_like(own, dtype="bool"), others], axis=1)

        if positive is None:
            counted = ops.where(with_itself(negative), cosines, -float("inf"))
            return softmax_terms(own / self.temperature, counted / self.temperature)
        return neighborhood_terms(cosines / self.temperature, with_itself(positive), with_itself(negative))

    def candidates(self, v, rows, drawn):
        """Cosines (B, K) of unit vectors (B, D) with images that may be neighbors, and their places (B or 1, K)."""
        if self.searches:
            return nearest(v, rows, min(self.neighbors, self.num_images))
        if drawn is not None:
            return ops.matmul(v, ops.transpose(ops.take(rows, drawn, axis=0))), drawn[None]
        return ops.matmul(v, ops.transpose(rows)), ops.arange(self.num_images, dtype="int32")[None]

    @property
    def searches(self) -> bool:
        """Whether the ball is looked up, nearest first, instead of being marked among all images.

        A large bank is looked up in blocks, so that no step holds a cosine for each of its rows. PyTorch selects rows
        in less time than it takes to compare all of them twice; XLA puts them in order, which takes several times that.
        """
        if self.neighbors is None or self.anneal_steps:
            return False
        return self.num_images > BLOCK or keras.backend.backend() == "torch"

    @property
    def draws(self) -> bool:
        """Whether negatives are drawn: there is no ball, and the bank has more images than are wanted."""
        return self.neighbors is None and self.negatives is not None and self.negatives < self.num_images - 1

    def ball(self, cosines, share: float = 1.0):
        """Which candidates lie within `share` of the ball, by number: bool (B, K)."""
        if self.neighbors is None:
            return ops.ones_like(cosines, dtype="bool")
        if not self.searches:
            return within(cosines, ops.round(share * self.radius()))
        ranks = ops.arange(cosines.shape[1], dtype="int32")[None]  # the nearest come first
        return ops.logical_and(ranks < round(share * cosines.shape[1]), ops.ones_like(cosines, dtype="bool"))

    def radius(self):
        """How many images the ball holds at this step: float32 scalar tensor."""
        end = min(self.neighbors, self.num_images)
        if not self.anneal_steps:
            return ops.convert_to_tensor(end, dtype="float32")
        return anneal(self.steps_taken(), self.num_images, end, self.anneal_steps, self.curve)

    def update(self, images, outputs):
        _, index = self.split(images)
        for part, bank in self.banks():
            seen = unit(ops.mean(unit(outputs["z"][:, :, part]), axis=1))
            refresh_rows(bank.rows, index, seen, self.momentum)
        if self.anneal_steps:
            self.step.assign(snapshot(self.step) + 1)

    def chance_level(self, batch_size: int) -> float | None:
        """Loss when all vectors are equal: the log of the number of candidates; None where clusters decide on it."""
        if self.clusters is not None or self.inner is not None:
            return None
        others = self.num_images - 1
        if self.neighbors is not None and not self.anneal_steps:
            others = min(self.neighbors, others)
        elif self.draws:
            others = self.negatives
        return len(self.compared()) * math.log(1 + others)

    # ------------------------------------------------------------------ between epochs

    def remark_on(self, callbacks):
        if self.clusters is None or any(isinstance(each, Clusters) for each in callbacks):
            return None
        return ALONE if self.is_alone() else None

    def is_alone(self) -> bool:
        """Whether each image is alone in its cluster, as in the beginning."""
        labels = ops.convert_to_numpy(self.banks()[0][1].labels)
        return bool((labels == np.arange(self.num_images)).all())

    def cluster_bank(self, epoch: int = 0, progress=None) -> dict[str, float]:
        """Clusters what is remembered anew, `clusterings` times from other random numbers, which `epoch` and the seed
        give.

        `progress` is called with the number of clusterings made so far. Returns "cluster_nmi", the normalized mutual
        information (0..1) of old and new clusters, mean over clusterings.
        """
        from sklearn.metrics import normalized_mutual_info_score

        if self.clusters is None:
            raise InvalidInputError(f"This {type(self).__name__} has no clusters to make. Received: clusters=None")
        agreement = []
        for number, (_, bank) in enumerate(self.banks()):
            rows, before = ops.convert_to_numpy(bank.rows), ops.convert_to_numpy(bank.labels)
            if not np.isfinite(rows).all():
                raise TrainingError(
                    f"The bank must be finite to be clustered. Received: NaN or infinity, epoch={epoch}"
                )
            after = before.copy()
            for clustering in range(self.clusterings):
                seeds = np.random.default_rng([self.seed, epoch, number, clustering])
                after[clustering] = mini_batch_kmeans(rows, self.clusters, int(seeds.integers(2**31)))
                agreement.append(normalized_mutual_info_score(before[clustering], after[clustering]))
                if progress is not None:
                    progress(len(agreement))
            bank.labels.assign(processes.array_of_first(after))  # other machines may round, and so cluster, otherwise
        return {"cluster_nmi": float(np.mean(agreement))}

    # ------------------------------------------------------------------ what the bank is good for

    def protocols(self) -> tuple[str, ...]:
        return ("bank",)

    def fill_bank(self, images, batch_size: int = 500) -> None:
        """Writes what the networks make of each training image now over the random points that the bank starts with.

        A random row says nothing to a view: through the first epoch the best answer to rows of noise is one vector for
        all images. Where that epoch is long and no batch normalization keeps images apart, the encoder has collapsed by
        its end, and the bank with it. `images` are all training images, in the order of the index.
        """
        z = self.embed_all(images, batch_size)
        for part, bank in self.banks():
            bank.rows.assign(ops.convert_to_numpy(unit(z[:, part])))

    def monitors(self, run) -> list:
        if run.queries is None or not self.banks():
            return super().monitors(run)
        images, labels, places = run.queries
        return [BankMonitor(images, labels, run.labels, run.settings["monitor_every"], index=places)]

    def remembered(self, images, batch_size: int = 500, index=None) -> np.ndarray:
        """The training image that each raw image (N, H, W, C) is nearest to, by the bank: int64 (N,) places.

        `index`, int (N,), are the places of the images if they are training images: none then finds itself. Raises
        InvalidInputError for an index that is no such array.
        """
        if index is not None:
            index = checks.array(index)
            self._check_index(index)
            if len(index) != len(images):
                raise InvalidInputError(
                    f"index must be one place for each of {len(images)} images. Received: {len(index)} places"
                )
        rows = [(part, ops.convert_to_tensor(bank.rows)) for part, bank in self.banks()]
        places = []
        for start in range(0, len(images), batch_size):
            with without_gradients():
                z = self.embed(self.prepare(images[start : start + batch_size]), training=False)
            cosines = sum(ops.matmul(unit(z[:, part]), ops.transpose(bank)) for part, bank in rows)
            if index is not None:
                own = ops.convert_to_tensor(index[start : start + batch_size], dtype="int32")
                everyone = ops.arange(self.num_images, dtype="int32")
                cosines = ops.where(everyone[None] == own[:, None], -float("inf"), cosines)
            places.append(ops.convert_to_numpy(ops.argmax(cosines, axis=1)))
        return np.concatenate(places).astype("int64")


class ClusterBank(Clusters):
    """Makes the clusters of a memory bank anew before epochs start, start + every, ...

    Logs their agreement with the clusters before as `cluster_nmi`, and the time they took as `cluster_seconds`.

    Example:
        from sslzoo import callbacks

        anew = callbacks.ClusterBank(every=2)  # then: model.fit(..., callbacks=[anew])

    Args:
        every: int >= 1, epochs between two clusterings.
        start: int >= 0, the first epoch with clusters. Before it each image is alone in its own, so that `Annulus` and
            `LocalAggregation` are `Ball`; a bank that no epoch has written is random.
    """

    logged = ("cluster_nmi", "cluster_seconds")

    def __init__(self, every: int = 1, start: int = 1):
        super().__init__(every, start)

    def on_train_begin(self, logs=None):
        if not isinstance(self.model, MemoryBank) or self.model.clusters is None:
            raise InvalidInputError(
                "ClusterBank makes the clusters of a method with a memory bank, whose `clusters` say how many. "
                f"Received: {type(self.model).__name__}, clusters={getattr(self.model, 'clusters', None)}"
            )
        if self.params["epochs"] <= self.start and self.model.is_alone():
            warnings.warn(
                f"Clusters are first made before epoch {self.start + 1}, and this `fit` ends before: each image stays "
                "alone in its own. Pass more epochs, initial_epoch=N to go on, or ClusterBank(start=0).",
                stacklevel=2,
            )

    def cluster(self, epoch):
        model, began = self.model, time.perf_counter()
        bar = None
        if self.params.get("verbose") == 1:
            bar = keras.utils.Progbar(model.clusterings * len(model.banks()), unit_name="clustering").update
        return model.cluster_bank(epoch, bar) | {"cluster_seconds": time.perf_counter() - began}


class BankMonitor(Monitor):
    """Accuracy of the nearest image in the bank, as `bank_accuracy` in the logs: the paper's measure while it trains.

    Args:
        images, labels: array (N, H, W, C), raw, and int array (N,): what is classified.
        train_labels: int array (num_images,), labels in the order of the index.
        every: int >= 1, epochs between two looks; the last of all `epochs` is always looked at.
        index: int array (N,), if they are training images: their places, so that none finds itself; or None.
    """

    accuracy_key = "bank_accuracy"

    def __init__(self, images: np.ndarray, labels: np.ndarray, train_labels: np.ndarray, every: int = 1, index=None):
        super().__init__(every)
        self.images, self.labels, self.train_labels = images, labels, train_labels
        self.index = index

    def measure(self):
        predicted = self.train_labels[self.model.remembered(self.images, index=self.index)]
        return {"bank_accuracy": float(np.mean(predicted == self.labels))}
