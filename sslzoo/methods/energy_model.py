"""What energy models share: chains of Langevin dynamics that start from a replay buffer, inside the training step."""

import itertools
import math
from collections.abc import Callable, Iterator

import keras
import numpy as np
from keras import ops

from sslzoo import checks, processes
from sslzoo.errors import InvalidInputError
from sslzoo.losses import generative_term, log_density, sgld_step
from sslzoo.methods.compiled import Compiled
from sslzoo.methods.energy_monitors import DivergenceGuard, EnergyHealth
from sslzoo.methods.joint_embedding import JointEmbedding
from sslzoo.methods.pretrainer import Picture, full_precision
from sslzoo.methods.state import input_gradient, variable
from sslzoo.networks import initialize, standardize
from sslzoo.networks.composition import compose

PIECE = 10  # steps of a long chain that are compiled into one program


def langevin(model: keras.Layer, function: Callable, x, draws, step_size: float = 1.0, noise=0.01, clip=None):
    """Chains of Langevin dynamics uphill on a density, one for each row.

    Steps are written out, one after the other: in a loop of XLA's a training step on a CPU took 12 times the time.

    Args:
        model: layer or model whose variables `function` reads; nothing of it changes.
        function: callable, x (B, ...) -> f(x) (B,), each row on its own: networks in inference mode.
        x: float32 tensor (B, ...), where the chains start.
        draws: float32 tensor (steps, B, ...), standard normal numbers.
        step_size, noise, clip: as in `losses.sgld_step`.

    Returns:
        Float32 tensor (B, ...), a constant to whatever is differentiated around it.
    """
    x = ops.stop_gradient(x)
    for draw in range(draws.shape[0]):
        x = sgld_step(x, input_gradient(model, function, x), draws[draw], step_size, noise, clip)
    return ops.stop_gradient(x)


def long_chains(
    model: keras.Layer,
    function: Callable,
    start: np.ndarray,
    steps: int = 500,
    step_size: float = 1.0,
    noise: float = 0.01,
    clip: float | None = None,
    seed: int = 0,
    verbose: bool = True,
) -> np.ndarray:
    """`langevin` of any number of steps outside of training, compiled: float32 array like `start`.

    Also for a published model, of whose part "projection" f is the log-sum-exp:

        head = sslzoo.load("gedi-mnist", "projection")  # logits of raw images
        noise = np.random.default_rng(0).uniform(-1, 1, (16, 28, 28, 1))
        images = long_chains(head, lambda x: ops.logsumexp(head(127.5 * (x + 1)), axis=1), noise)

    Args:
        model, function, step_size, noise, clip: as in `langevin`.
        start: array (N, ...).
        steps: int >= 0.
        seed: int, of the noise, which NumPy draws: chains are equal on every backend but for rounding.
        verbose: bool, show a progress bar.
    """
    checks.count(0, steps=steps)
    x, rng = np.asarray(start, "float32"), np.random.default_rng(seed)

    def piece(inputs):
        x = inputs["x"]
        for step in range(PIECE):
            slope = input_gradient(model, function, x)
            moved = sgld_step(x, slope, inputs["draws"][:, step], step_size, noise, clip)
            going = ops.reshape(inputs["going"][:, step], (-1, *[1] * (len(x.shape) - 1)))
            x = ops.where(going > 0, moved, x)
        return x

    chains = Compiled(model, piece)
    bar = keras.utils.Progbar(steps, unit_name="step") if verbose and steps else None
    for done in range(0, steps, PIECE):
        # Every piece is of one length, so that one program serves them all; the last may go on less far.
        going = (np.arange(PIECE) < steps - done).astype("float32")
        going = np.broadcast_to(going, (len(x), PIECE))  # Keras wants the batch in front
        draws = rng.standard_normal((len(x), PIECE, *x.shape[1:]), "float32")
        x = np.asarray(ops.convert_to_numpy(chains.predict_on_batch({"x": x, "draws": draws, "going": going})))
        if bar:
            bar.update(min(done + PIECE, steps))
    return x


class EnergyModel(JointEmbedding):
    """Base of methods that learn f(x) = log p(x) + constant, and draw from p(x) to learn it.

    The likelihood's gradient needs samples of the model (`losses.generative_term`). They come from chains of Langevin
    dynamics that go on from step to step: each takes up an image of the replay buffer, goes `sgld_steps` uphill, with
    the network as it is and in inference mode, and is written back before the optimizer moves. A method says what f is,
    calls `draw` in its `call`, and `write_back` in its `update`.

    Networks without batch normalization serve best (as in the papers): the loss sees data and samples in one batch,
    whose statistics are those of neither. Smooth activations (silu, leaky ReLU) keep slopes alive.

    Example:
        import numpy as np
        from sslzoo import methods, networks, views

        images = np.random.default_rng(0).integers(0, 256, (32, 8, 8, 1), "uint8")
        encoder = networks.encoder("resnet8-gedi", (8, 8, 1), None, width=8)
        model = methods.GEDI(encoder, clusters=10, views=views.Views("gedi-mnist", num_views=1), sgld_steps=2)
        model.compile(optimizer="adam")
        model.fit(images, batch_size=16, verbose=0)
        samples, clusters = model.sample(4, steps=10, verbose=False), model.predict_clusters(images)

    Args:
        encoder, projector, views: as in `JointEmbedding`; views in [-1, 1] for the settings below.
        sgld_steps: int >= 1, steps of a chain in each training step.
        step_size: float > 0, of `losses.sgld_step`.
        noise: float >= 0, of `losses.sgld_step`: colder than true Langevin dynamics, which is explained there.
        buffer_size: int >= 1, images in the buffer, at least as many as a batch; float32, part of every checkpoint.
        restart: float in 0..1, share of the chains that start anew, from uniform noise.
        sample_range: (float, float), where that noise lies.
        clip: float > 0, the largest slope that counts in each coordinate; None, as in the papers of JEM and GEDI: any.
        seed: int, of buffer, chains and new weights.
    """

    remembers = ("a buffer of samples",)
    view_counts = (1, None)
    buffer = None  # where nothing is generated

    def __init__(
        self,
        encoder: keras.Model,
        projector: keras.Model | None = None,
        views: keras.Layer | None = None,
        sgld_steps: int = 20,
        step_size: float = 1.0,
        noise: float = 0.01,
        buffer_size: int = 10_000,
        restart: float = 0.05,
        sample_range: tuple[float, float] = (-1.0, 1.0),
        clip: float | None = None,
        seed: int = 0,
        **kwargs,
    ):
        super().__init__(encoder, projector, views, **kwargs)
        if None in self.sample_shape:
            raise InvalidInputError(
                "Samples are of one size: expected an encoder of images of a fixed one. "
                f"Received: encoder of images {self.sample_shape}"
            )
        self.sgld_steps, self.buffer_size = checks.count(sgld_steps=sgld_steps, buffer_size=buffer_size)
        self.step_size = checks.positive(step_size=step_size)
        self.noise = checks.number(0, noise=noise)
        self.restart = checks.fraction(restart=restart)
        self.sample_range = checks.interval(-math.inf, math.inf, sample_range=sample_range)
        self.clip = None if clip is None else checks.positive(clip=clip)
        self.seed = checks.seed(needed=True, seed=seed)
        self.random = keras.random.SeedGenerator(self.seed)

    @property
    def sample_shape(self) -> tuple:
        """Shape of one view, and of one sample."""
        return self.encoder.input_shape[1:]

    def make_buffer(self) -> None:
        """Makes the replay buffer (buffer_size, ...), full of uniform noise."""
        noise = np.random.default_rng(self.seed).uniform(*self.sample_range, (self.buffer_size, *self.sample_shape))
        self.buffer = variable(self, noise.astype("float32"), "buffer")

    def seeds(self, training=True) -> Iterator:
        """A seed for each draw of a step; outside training the same for every batch, so that nothing moves there."""
        return itertools.repeat(self.random) if training else itertools.count(self.seed)

    def slots(self, count, seeds=None):
        """Places in the buffer for `count` chains, int32 (count,): uniform, and no two alike.

        One of each of `count` equal stretches of a ring that starts anywhere. The papers draw with replacement; but
        then two chains may be written to one place, and which of them stays is up to the backend.
        """
        seeds = seeds or self.seeds()
        width = self.buffer_size // count
        stretch = ops.cast(width, "float32")
        within = ops.cast(ops.floor(keras.random.uniform((count,), seed=next(seeds)) * stretch), "int32")
        first = ops.cast(ops.floor(keras.random.uniform((1,), seed=next(seeds)) * self.buffer_size), "int32")
        # A number just below 1 may be rounded up to the next stretch.
        return (first + ops.arange(count, dtype="int32") * width + ops.minimum(within, width - 1)) % self.buffer_size

    @property
    def generates(self) -> bool:
        """Whether training draws samples."""
        return self.buffer is not None

    @property
    def most_batch(self) -> int | None:
        return self.buffer_size if self.generates else None

    def draw(self, function: Callable, count, training=True):
        """Samples of the model, of `function` x (B, ...) -> f(x) (B,): chains taken up from the buffer, some started
        anew.

        Returns:
            (float32 tensor (count, ...), int32 tensor (count,)): samples, constants; and where they belong.
        """
        seeds = self.seeds(training)
        slots = self.slots(count, seeds)
        # No `snapshot`: a gather is a copy already, and of the rows in question only.
        x = ops.take(ops.convert_to_tensor(self.buffer), slots, axis=0)
        anew = keras.random.uniform((count, *[1] * len(self.sample_shape)), seed=next(seeds)) < self.restart
        x = ops.where(anew, keras.random.uniform(ops.shape(x), *self.sample_range, seed=next(seeds)), x)
        draws = keras.random.normal((self.sgld_steps, *ops.shape(x)), seed=next(seeds))
        return langevin(self, function, x, draws, self.step_size, self.noise, self.clip), slots

    def write_back(self, slots, samples):
        """Puts samples (B, ...) to their places in the buffer."""
        rows = ops.stop_gradient(ops.cast(samples, "float32"))
        self.buffer.assign(ops.scatter_update(ops.convert_to_tensor(self.buffer), slots[:, None], rows))

    def sample(
        self, n: int, steps: int = 500, start: np.ndarray | None = None, seed: int = 0, verbose: bool = True
    ) -> np.ndarray:
        """Samples of the model by chains of their own; the replay buffer is left alone.

        Args:
            n: int >= 1, how many.
            steps: int >= 0, of each chain. 500 in the papers' pictures; in training a chain of the buffer has gone
                `sgld_steps` / `restart` on average, 400.
            start: array (n, ...) as the networks see images, or None for uniform noise.
            seed: int, of start and chains.
            verbose: bool, show a progress bar.

        Returns:
            float32 array (n, ...) as the networks see images, in [-1, 1] or a little outside, since nothing is clipped.
        """
        return self._sampled(self.log_density_of_views, n, steps, start, seed, verbose)

    def _sampled(self, function, n, steps, start, seed, verbose):
        """Chains uphill on `function`, with the settings of training."""
        checks.count(n=n)
        if start is None:
            start = np.random.default_rng([seed, 1]).uniform(*self.sample_range, (n, *self.sample_shape))
        elif np.shape(start) != (n, *self.sample_shape):
            raise InvalidInputError(
                f"start must be as the networks see images, {(n, *self.sample_shape)}. Received: {np.shape(start)}"
            )
        return long_chains(self, function, start, steps, self.step_size, self.noise, self.clip, seed, verbose)

    def log_density_of_views(self, views):
        """f of views (N, ...) as the networks see them, in inference mode: float32 tensor (N,)."""
        raise NotImplementedError

    def log_density(self, images):
        """log p(x) + an unknown constant, of raw images (N, H, W, C), 0..255: float32 tensor (N,), in nats.

        Differences between images mean something; the number of one image does not.
        """
        return self.log_density_of_views(self.prepare(images))

    def monitors(self, run) -> list:
        return [DivergenceGuard(), EnergyHealth(run.some_images(512)), *super().monitors(run)]

    def pictures(self, images, seed: int) -> list[Picture]:
        pictures = super().pictures(images, seed)
        if not self.generates:
            return pictures
        low, high = self.sample_range
        samples = (np.clip(self._samples(images, seed), low, high) - low) / (high - low)
        return [Picture("samples", "samples", (samples,), "Samples: 500 Langevin steps from noise"), *pictures]

    def _samples(self, images, seed):
        """Fifty samples for a picture."""
        return self.sample(50, seed=seed)


def cluster_head(input_dim: int, clusters: int, temperature: float, seed: int) -> keras.Model:
    """Embeddings (N, P) -> float32 logits (N, K): inner products with K trained vectors, over the temperature."""
    embedding = keras.Input((input_dim,), name="embedding")
    logits = keras.layers.Dense(clusters, use_bias=False, dtype="float32", name="clusters")(embedding)
    if temperature != 1:
        logits = keras.layers.Rescaling(1 / temperature, dtype="float32", name="temperature")(logits)
    return initialize(keras.Model(embedding, logits, name="cluster_head"), seed)


class ClusterEnergyModel(EnergyModel):
    """An energy model that is a classifier without labels: f(x) = log sum_y exp t_y(x), p(y | x) = softmax(t(x))_y.

    Args:
        encoder, projector, views: as in `EnergyModel`.
        clusters: int >= 1, K, number of logits t_y = u_y . g(x) / temperature, of encoder and projector g.
        temperature: float > 0, of the logits.
        energy_decay: float >= 0, weight of mean f(x)^2 + mean f(x_q)^2 in the generative term: 0.1 is the usual remedy
            for a run whose densities of data and samples part. 0 in the papers.
        **kwargs: as in `EnergyModel`.
    """

    def __init__(self, encoder, clusters, projector=None, views=None, temperature=1.0, energy_decay=0.0, **kwargs):
        super().__init__(encoder, projector, views, **kwargs)
        self.clusters = checks.count(clusters=clusters)
        self.temperature = checks.positive(temperature=temperature)
        self.energy_decay = checks.number(0, energy_decay=energy_decay)
        self.cluster_head = cluster_head((projector or encoder).output_shape[-1], clusters, temperature, self.seed)

    def standardize(self, images):
        """`networks.standardize` of encoder and projector on raw images (N, H, W, C), 0..255: before training, once."""
        networks = [network for network in (self.encoder, self.projector) if network is not None]
        with processes.alone(self):
            outputs = self.prepare(images)
            for network in networks:
                outputs = standardize(network, outputs)(outputs)
            weights = [network.get_weights() for network in networks]
        for network, standardized in zip(networks, weights):
            network.set_weights(standardized)  # several processes forget what is assigned when each is alone

    @property
    def embedding_dim(self) -> int:
        return self.clusters

    def embed(self, views, training=False):
        """Logits of views (N, H, W, C): float32 tensor (N, clusters), what the loss sees."""
        return full_precision(self.cluster_head(super().embed(views, training)))

    def call(self, images, training=False):
        views = full_precision(self.make_views(images, training))
        outputs = {}
        if self.generates:
            samples, slots = self.draw(self.log_density_of_views, ops.shape(views)[0], training)
            views = ops.concatenate([views, samples[:, None]], axis=1)
            outputs = {"samples": samples, "slots": slots}
        return {"logits": self.embed_groups(views, training), **outputs}

    def generative_term(self, outputs, data_views=None):
        """mean f(samples) - mean f(data), of the first `data_views` views or all, and `energy_decay`: scalar."""
        f = log_density(outputs["logits"])
        data, samples = f[:, :-1][:, :data_views], f[:, -1]
        squares = ops.mean(ops.square(data)) + ops.mean(ops.square(samples))
        return generative_term(data, samples) + self.energy_decay * squares

    def update(self, images, outputs):
        if self.generates:
            self.write_back(outputs["slots"], outputs["samples"])

    def log_density_of_views(self, views):
        return log_density(self.embed(views, training=False))

    def cluster_probabilities(self, views):
        """p(y | x) of views (N, H, W, C): float32 tensor (N, clusters), rows sum to 1."""
        return ops.softmax(self.embed(views), axis=-1)

    def protocols(self) -> tuple[str, ...]:
        return ("clusters",)

    def predict_clusters(self, images):
        """The cluster of each raw image (N, H, W, C), 0..255: int tensor (N,), 0..clusters - 1."""
        return ops.argmax(self.embed(self.prepare(images)), axis=-1)

    def head(self) -> keras.Model:
        """Projector and cluster head as one model of their own layers, features (N, L) -> logits (N, clusters)."""
        features = keras.Input(self.encoder.output_shape[1:], name="features")
        projected = features if self.projector is None else self.projector(features)
        return keras.Model(features, self.cluster_head(projected))

    def parts(self, image_shape: tuple[int, int, int]) -> dict[str, keras.Model]:
        """The encoder; and as "projection" the logits of raw images: their argmax is the cluster, their log-sum-exp the
        density, its gradient the outlier score, and chains along it are samples."""
        encoder = compose(self.preprocessor(image_shape), self.encoder, name="encoder")
        return {"encoder": encoder, "projection": compose(encoder, self.head(), name="projection")}
