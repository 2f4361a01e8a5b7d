"""What a decoder makes of latents: reconstruction, classes drawn from Gaussians, likelihood, and Fréchet distances.

    gaussians = ClassGaussians.fit(train_features, train_labels)
    images = decoded(decoder, gaussians.sample(labels, seed=0))         # new images of those classes
    frechet(inception(images), inception(test_images))                  # FID

All sums are NumPy's, in float64; only networks run on the backend.

References:
    Conditional generation: Bizeul, Schölkopf and Allen, arXiv:2402.01399, A.7.
    Importance-weighted likelihood: Burda, Grosse and Salakhutdinov, arXiv:1509.00519, eq. 8.
    Fréchet distance of two Gaussians: Dowson and Landau (1982); of image features: Heusel et al., arXiv:1706.08500.
"""

import dataclasses
import math
from collections.abc import Callable

import keras
import numpy as np
from scipy.special import logsumexp
from threadpoolctl import threadpool_limits

from sslzoo import checks, networks
from sslzoo.data import fit_images
from sslzoo.data.image_files import Fit
from sslzoo.data.labels import check_labels
from sslzoo.errors import InvalidInputError, MissingDataError
from sslzoo.evaluation.features import check_features, features, run
from sslzoo.networks import composition
from sslzoo.networks.backbones import check_channels_last

INCEPTION_SIDE = 299
_PIXELS = 2**25  # floats of images held at a time


def decoded(decoder: keras.Model, latents: np.ndarray, batch_size: int = 500) -> np.ndarray:
    """Images of latents (N, L) by a decoder, `batch_size` at a time, in inference mode: float32 array (N, H, W, C)."""
    return run(decoder, np.asarray(latents, np.float32), batch_size)[0]


def as_seen(encoder: keras.Model, images: np.ndarray) -> np.ndarray:
    """What the network inside an encoder sees of raw images, which is what a decoder rebuilds.

    Args:
        encoder: composed model of the zoo; of another the images themselves are given, in 0..1.
        images: array (N, H, W, C), values 0..255.

    Returns:
        float32 array (N, h, w, C) in 0..1; where preprocessing gives another range, the images themselves.
    """
    if (before := composition.preprocessing(encoder)) is not None:
        [seen] = run(before, images, 500)
        if seen.min() > -1e-3 and seen.max() < 1 + 1e-3:
            return seen
    low, high = composition.input_range(encoder)
    plain = np.array(images[:], np.float32)  # the one copy: it may be of a whole train set
    plain -= low
    plain /= high - low
    return plain


# ---------------------------------------------------------------------- classes


@dataclasses.dataclass(frozen=True)
class ClassGaussians:
    """A Gaussian with full covariance for the features of each class, by maximum likelihood.

    Example:
        import numpy as np
        from sslzoo.evaluation import generation

        rng = np.random.default_rng(0)
        gaussians = generation.ClassGaussians.fit(rng.normal(size=(60, 4)), np.arange(60) % 3)
        gaussians.sample([0, 0, 2], seed=0).shape  # (3, 4): two latents of class 0, one of class 2

    Attributes:
        classes: int array (K,), sorted.
        means: float64 array (K, L).
        covariances: float64 array (K, L, L).
    """

    classes: np.ndarray
    means: np.ndarray
    covariances: np.ndarray

    @classmethod
    def fit(cls, rows: np.ndarray, labels: np.ndarray, ridge: float = 1e-6) -> "ClassGaussians":
        """Fits them to features (N, L) and labels (N,); `ridge` is added to the variances, as scikit-learn does."""
        rows = check_features(rows)
        labels = check_labels(labels, len(rows))
        classes = np.unique(labels)
        groups = [rows[labels == c] for c in classes]
        means = np.stack([group.mean(axis=0) for group in groups])
        eye = ridge * np.eye(rows.shape[1])
        covariances = np.stack([(g - m).T @ (g - m) / len(g) + eye for g, m in zip(groups, means)])
        return cls(classes, means, covariances)

    def sample(self, labels, seed: int = 0) -> np.ndarray:
        """Latents of the classes in `labels` (N,): float64 (N, L)."""
        labels = np.asarray(labels)
        unknown = np.setdiff1d(labels, self.classes)
        if unknown.size:
            raise InvalidInputError(f"labels must be among {self.classes.tolist()}. Received: {unknown[:3].tolist()}")
        rows = np.random.default_rng(seed).standard_normal((len(labels), self.means.shape[1]))
        for label, mean, covariance in zip(self.classes, self.means, self.covariances):
            own = labels == label
            rows[own] = mean + rows[own] @ _root(covariance).T
        return rows


def _root(covariance):
    """A matrix R with R R' = covariance, which rounding may have left with eigenvalues below 0."""
    try:
        return np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(covariance)
        return vectors * np.sqrt(np.clip(values, 0, None))


# ---------------------------------------------------------------------- Fréchet distance


def frechet_distance(mean, covariance, mean_to, covariance_to) -> float:
    """Squared 2-Wasserstein distance of two Gaussians, of means (L,) and covariances (L, L).

    |m - m'|^2 + tr(C + C' - 2 (C^1/2 C' C^1/2)^1/2). The root is taken of a symmetric matrix, so nothing complex
    appears where covariances are singular.

    Raises:
        InvalidInputError: shapes that do not belong together.
    """
    arrays = [np.asarray(array, np.float64) for array in (mean, covariance, mean_to, covariance_to)]
    shapes = [array.shape for array in arrays]
    if shapes != [shapes[0], 2 * shapes[0]] * 2 or len(shapes[0]) != 1:
        raise InvalidInputError(f"Expected means (L,) and covariances (L, L). Received: shapes {shapes}")
    mean, covariance, mean_to, covariance_to = arrays
    with threadpool_limits(1, user_api="blas"):
        values, vectors = np.linalg.eigh(covariance)
        root = (vectors * np.sqrt(np.clip(values, 0, None))) @ vectors.T
        inner = np.linalg.eigvalsh(root @ covariance_to @ root)
    trace = np.trace(covariance) + np.trace(covariance_to) - 2 * np.sum(np.sqrt(np.clip(inner, 0, None)))
    return float(max(0.0, np.sum((mean - mean_to) ** 2) + trace))


def frechet(rows: np.ndarray, rows_to: np.ndarray) -> float:
    """`frechet_distance` of the means and covariances (n - 1) of two sets of features (N, L) and (M, L)."""
    if len(rows) < 2 or len(rows_to) < 2:
        raise InvalidInputError(f"Expected at least two rows each. Received: {len(rows)} and {len(rows_to)} rows")
    return frechet_distance(*_gaussian(rows), *_gaussian(rows_to))


def _gaussian(rows):
    rows = np.asarray(rows, np.float64)
    return rows.mean(axis=0), np.atleast_2d(np.cov(rows.T))


@dataclasses.dataclass(frozen=True)
class Extractor:
    """What turns images into the features that a Fréchet distance compares.

    Example:
        import keras
        import numpy as np
        from sslzoo.evaluation import generation

        pixels = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Flatten()], name="pixels")
        extractor = generation.Extractor.of(pixels)
        extractor.metric, extractor(np.zeros((4, 8, 8, 1))).shape  # ("frechet_pixels", (4, 64))

    Attributes:
        metric: str, "fid" for Keras' InceptionV3, "frechet_<encoder>" for another, so that nobody confuses the two.
        described: str, what it is and how images are brought to its size.
        network: Keras model, (B, H, W, C), 0..255 -> (B, L).
    """

    metric: str
    described: str
    network: keras.Model

    @classmethod
    def of(cls, which: "str | keras.Model" = "inception") -> "Extractor":
        """The extractor "inception", or an encoder: a Keras model, or a name or folder for `sslzoo.load`.

        Raises:
            MissingDataError: InceptionV3's weights are not here and could not be downloaded.
        """
        if isinstance(which, str) and which == "inception":
            return cls(
                "fid",
                "InceptionV3 of Keras (ImageNet), average pooling, 2048 features; gray tiled to color, bilinear to "
                f"{INCEPTION_SIDE} pixels",
                inception(),
            )
        if isinstance(which, keras.Model):
            network, name = which, which.name
        else:
            from sslzoo import zoo

            network, name = zoo.load(which), str(which)
        return cls(f"frechet_{name}", f"features of {name}", network)

    def fitting(self, shape: tuple[int, int, int]) -> str:
        """What is done to images (H, W, C) beyond `described`: "resized to 28 x 28 pixels"; "" for nothing."""
        if self.metric == "fid":
            return ""
        fit = Fit(self.network.input_shape[1:])
        fit(np.zeros(shape, "uint8"))
        return ", ".join(sorted(fit.done))

    def __call__(self, images: np.ndarray, batch_size: int = 100) -> np.ndarray:
        """Features of images (N, H, W, C), values 0..255: float32 (N, L)."""
        if self.metric == "fid":
            images = np.broadcast_to(images, (*images.shape[:3], 3))
        else:
            images, _ = fit_images(images, self.network.input_shape[1:])
            low, high = composition.input_range(self.network)
            if (low, high) != (0, 255):  # an encoder of 12 bits, say
                images = low + np.asarray(images, np.float32) * np.float32((high - low) / 255)
        return features(self.network, images, batch_size)


def inception() -> keras.Model:
    """Keras' InceptionV3 up to its pooled features: images (B, H, W, 3) of any size, 0..255 -> (B, 2048)."""
    check_channels_last("keras:InceptionV3")
    try:
        network = keras.applications.InceptionV3(include_top=False, pooling="avg", weights="imagenet")
    except Exception as error:  # no network, no room, a server's answer
        raise MissingDataError(
            "FID takes the weights of Keras' InceptionV3, which are not in Keras' cache and could not be downloaded "
            f"({str(error).splitlines()[0][:200]}). Name another extractor, such as extractor='simclr-mnist'; its "
            "distance has another name. Received: extractor='inception'"
        ) from error
    images = keras.Input((None, None, 3), dtype="float32")
    resized = keras.layers.Resizing(INCEPTION_SIDE, INCEPTION_SIDE, interpolation="bilinear", dtype="float32")(images)
    return keras.Model(images, network(keras.layers.Rescaling(1 / 127.5, -1, dtype="float32")(resized)))


# ---------------------------------------------------------------------- likelihood


def log_likelihood(
    seen: np.ndarray,
    mean: np.ndarray,
    log_var: np.ndarray,
    decode: Callable[[np.ndarray], np.ndarray],
    samples: int = 64,
    likelihood_variance: float = 1.0,
    prior_variance: float = 1.0,
    likelihood: str = "gaussian",
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> np.ndarray:
    """Importance-weighted estimate of log p(x), every constant of the Gaussians included.

    log 1/K sum_k p(x | z_k) p(z_k) / q(z_k | x),  z_k ~ q(z | x). In expectation a lower bound, which rises with K to
    log p(x); exact for any K where q is the posterior.

    Args:
        seen: float array (N, ...), what the decoder is to give.
        mean, log_var: float arrays (N, L), of q(z | x).
        decode: float array (n, L) -> mean of p(x | z), (n, ...).
        samples: int K >= 1.
        likelihood_variance: float > 0, of a pixel; for "bernoulli", what the cross-entropy is divided by.
        prior_variance: float > 0, p(z) = N(0, prior_variance I).
        likelihood: "gaussian" or "bernoulli".
        seed: int.
        progress: callable (images done, images in all), or None.

    Returns:
        float64 array (N,), nats.
    """
    checks.count(samples=samples)
    checks.positive(likelihood_variance=likelihood_variance, prior_variance=prior_variance)
    seen, mean, log_var = (np.asarray(array, np.float64) for array in (seen, mean, log_var))
    rng, log_p = np.random.default_rng(seed), np.empty(len(seen))
    log_two_pi, pixels = math.log(2 * math.pi), int(np.prod(seen.shape[1:]))
    at_once = max(1, _PIXELS // (pixels * samples))
    for start in range(0, len(seen), at_once):
        rows = slice(start, start + at_once)
        noise = rng.standard_normal((len(seen[rows]), samples, mean.shape[1]))
        z = mean[rows, None] + np.exp(0.5 * log_var[rows, None]) * noise
        decoded_x = np.asarray(decode(z.reshape(-1, z.shape[-1])), np.float64).reshape(*z.shape[:2], pixels)
        x = seen[rows].reshape(-1, 1, pixels)
        if likelihood == "gaussian":
            log_x = -0.5 * (np.sum((x - decoded_x) ** 2, axis=-1) / likelihood_variance)
            log_x -= 0.5 * pixels * (log_two_pi + math.log(likelihood_variance))
        else:
            decoded_x = np.clip(decoded_x, 1e-7, 1 - 1e-7)
            log_x = np.sum(x * np.log(decoded_x) + (1 - x) * np.log1p(-decoded_x), axis=-1) / likelihood_variance
        log_z = -0.5 * np.sum(z**2 / prior_variance + log_two_pi + math.log(prior_variance), axis=-1)
        log_q = -0.5 * np.sum(noise**2 + log_two_pi + log_var[rows, None], axis=-1)
        log_p[rows] = logsumexp(log_x + log_z - log_q, axis=1) - math.log(samples)
        if progress:
            progress(min(start + at_once, len(seen)), len(seen))
    return log_p


# ---------------------------------------------------------------------- decoders for encoders that have none


def fit_decoder(
    rows: np.ndarray,
    seen: np.ndarray,
    network: str = "mlp",
    epochs: int = 10,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
    learning_rate: float = 1e-3,
) -> keras.Model:
    """A decoder of frozen features, by squared error: what they still hold of the image.

    A tenth of the rows is held out; the weights of the epoch with the least error there are kept.

    Args:
        rows: float array (N, L), N >= 2, features.
        seen: float array (N, H, W, C) in 0..1, the images.
        network: name for `sslzoo.networks.decoder`.
        epochs, learning_rate: of Adam, in batches of 128.
        seed: int, of the weights and the order of the rows.
        progress: callable (epochs done, epochs in all), or None.

    Returns:
        Keras model, (B, L) -> (B, H, W, C) in 0..1.
    """
    if len(rows) < 2:
        raise InvalidInputError(f"A decoder is fitted to at least two rows. Received: {len(rows)} rows")
    order = np.random.default_rng(seed).permutation(len(rows))
    validation, training = order[: max(1, len(rows) // 10)], order[max(1, len(rows) // 10) :]
    rows = np.asarray(rows, np.float32)
    middle, spread = rows[training].mean(axis=0), np.maximum(rows[training].std(axis=0).max(), 1e-12)
    logits = networks.decoder(network, tuple(seen.shape[1:]), rows.shape[1], seed=seed)
    model = composition.compose(None, logits, activation="sigmoid", name="decoder")
    model.compile(optimizer=keras.optimizers.Adam(learning_rate), loss="mse")
    least, best = np.inf, None
    x, y = (rows - middle) / spread, np.asarray(seen, np.float32)
    for epoch in range(epochs):
        shuffled = np.random.default_rng((seed, epoch)).permutation(training)
        model.fit(x[shuffled], y[shuffled], batch_size=128, epochs=1, shuffle=False, verbose=0)
        error = np.mean((decoded(model, x[validation]) - y[validation]) ** 2, dtype=np.float64)
        if error <= least:
            least, best = error, model.get_weights()
        if progress:
            progress(epoch + 1, epochs)
    model.set_weights(best)
    latents = keras.Input((rows.shape[1],), dtype="float32")
    scaled = keras.layers.Rescaling(1 / float(spread), (-middle / spread).tolist(), dtype="float32")(latents)
    return keras.Model(latents, model(scaled), name="decoder")
