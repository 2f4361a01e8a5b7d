"""Energy-based models: densities known but for a constant, what trains them, and one step of sampling from them.

f(x) = log p(x) + constant. Its gradient by the parameters becomes that of the likelihood when its mean over samples of
the model is taken off its mean over data (`generative_term`); its gradient by x is all that sampling needs
(`sgld_step`).

Inputs of any float dtype are taken to float32 first.

References:
    JEM: Grathwohl et al., "Your Classifier is Secretly an Energy Based Model and You Should Treat it Like One",
        eq. 2-4.
    GEDI: Sansone and Manhaeve, "Unifying Self-Supervised Clustering and Energy-Based Models" (arXiv 2401.00873),
        eq. 6-7.
    EBCLR: Kim and Ye, "Energy-Based Contrastive Learning of Visual Representations" (arXiv 2202.04933).
"""

from keras import ops

from sslzoo.errors import InvalidInputError
from sslzoo.losses.tensors import check_positive, differ, float32, static_shape, unit


def log_density(logits):
    """f(x) = log sum_y exp(logits_y): a classifier read as a density of its inputs.

    Example:
        logits = np.random.default_rng(0).normal(size=(32, 5))
        losses.log_density(logits)  # (32,)

    Args:
        logits: float tensor (..., K).

    Returns:
        Float32 tensor (...). A constant added to all logits adds to f, which changes neither the classifier nor, the
        constant of normalization being open, the density.
    """
    return ops.logsumexp(float32(logits), axis=-1)


def pair_log_density(z, z_other, temperature: float):
    """f(x) = log sum_j exp(-|z - z'_j|^2 / temperature): the density of x, summed over what it may be a view of.

    EBCLR takes exp(-|z - z'|^2 / temperature) for the joint density of two views of an image, up to a constant, so that
    of one view is its sum over the other.

    Example:
        z, z_other = np.random.default_rng(0).normal(size=(2, 32, 8))
        losses.pair_log_density(z, z_other, temperature=0.1)  # (32,)

    Args:
        z: float tensor (B, D), embeddings of x; normalized here.
        z_other: float tensor (B', D), embeddings of views of images; normalized here.
        temperature: float > 0.

    Returns:
        Float32 tensor (B,), from log B' - 4 / temperature to log B'.
    """
    check_positive(temperature=temperature)
    z, z_other = unit(z), unit(z_other)
    shape, other = static_shape(z), static_shape(z_other)
    if len(shape) != 2 or len(other) != 2 or differ(shape[1], other[1]):
        raise InvalidInputError(
            "z and z_other must be matrices (batch, size) with rows of one length. "
            f"Received: z.shape={shape}, z_other.shape={other}"
        )
    squared = 2.0 - 2.0 * ops.matmul(z, ops.transpose(z_other))
    return ops.logsumexp(-squared / temperature, axis=1)


def generative_term(log_density_data, log_density_samples):
    """mean f(x_q) - mean f(x), whose gradient is that of minus the mean log-likelihood of the data.

    The constant of normalization falls out of the gradient: d log Z = mean over samples of d f. Its value is no
    likelihood and has no lower bound; it is 0 where samples and data are alike.

    Example:
        data, samples = np.random.default_rng(0).normal(size=(2, 32))
        losses.generative_term(data, samples)

    Args:
        log_density_data: float tensor of any shape, f of data.
        log_density_samples: float tensor of any shape, f of samples x_q, which are constants.

    Returns:
        Float32 scalar.
    """
    return ops.mean(float32(log_density_samples)) - ops.mean(float32(log_density_data))


def sgld_step(x, slope, draw, step_size: float = 1.0, noise=0.01, clip: float | None = None):
    """One step of stochastic gradient Langevin dynamics, uphill on f: x + step_size slope + noise draw.

    With noise = sqrt(2 step_size) the chain samples p(x) as steps shrink. The settings that energy models of images are
    trained with, step_size = 1 and noise = 0.01, are far colder than that: a quadratic f = -x^2 / 2 then has a
    stationary variance of noise^2 / (step_size (2 - step_size)) = 1e-4 in place of 1. It is deliberate: twenty true
    Langevin steps would not come anywhere, and what is learned is a sampler that finds images in twenty steps. Nothing
    is clipped to the range of images: at its border the chain would stick.

    Example:
        x, slope, draw = np.random.default_rng(0).normal(size=(3, 4, 8, 8, 1))
        losses.sgld_step(x, slope, draw, noise=0.01)  # (4, 8, 8, 1)

    Args:
        x: float tensor.
        slope: tensor like `x`, df/dx.
        draw: tensor like `x`, standard normal numbers.
        step_size: float > 0.
        noise: float >= 0, or a tensor that broadcasts to `x`.
        clip: float > 0, the largest slope that counts in each coordinate (EBCLR), or None.

    Returns:
        Float32 tensor like `x`.
    """
    x, slope, draw, noise = map(float32, (x, slope, draw, noise))
    if clip is not None:
        slope = ops.clip(slope, -clip, clip)
    return x + step_size * slope + noise * draw
