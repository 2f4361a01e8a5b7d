"""Terms of the evidence lower bound, for single images and for groups of views.

Everything here is a pure function of tensors, in nats, to be *minimized* unless its name says otherwise.
Shapes: B images, J views of each, L latent dimensions. Constants that depend on nothing learned are left out,
except in the entropy, which is a quantity people read. Inputs of any float dtype are taken to float32 first; what is
returned is float32.

References:
    SimVAE: Bizeul, Schoelkopf and Allen, "A Probabilistic Model behind Self-Supervised Learning", eq. 3-5, 9.
    VAE: Kingma and Welling, "Auto-Encoding Variational Bayes", appendix B.
    CR-VAE: Sinha and Dieng, "Consistency Regularization for Variational Auto-Encoders", eq. 4.
"""

import math

from keras import ops

from sslzoo.losses.tensors import check_alike, check_positive, float32, grouped


def gaussian_kl(mean, log_var):
    """KL(N(mean, exp(log_var)) || N(0, I)), summed over the latent dimensions.

    Example:
        mean, log_var = np.random.default_rng(0).normal(size=(2, 32, 8))
        losses.gaussian_kl(mean, log_var)  # (32,)

    Args:
        mean: float tensor (..., L).
        log_var: float tensor (..., L), natural log of the variances.

    Returns:
        Float32 tensor (...,), >= 0.
    """
    mean, log_var = float32(mean), float32(log_var)
    check_alike("tensors (..., latents)", mean=mean, log_var=log_var)
    return 0.5 * ops.sum(ops.square(mean) + ops.exp(log_var) - log_var - 1.0, axis=-1)


def gaussian_kl_between(mean, log_var, mean_to, log_var_to):
    """KL(N(mean, exp(log_var)) || N(mean_to, exp(log_var_to))), summed over the latent dimensions.

    The first pair is the distribution the expectation is taken in; the divergence is not symmetric.

    Example:
        mean, log_var, mean_to, log_var_to = np.random.default_rng(0).normal(size=(4, 32, 8))
        losses.gaussian_kl_between(mean, log_var, mean_to, log_var_to)  # (32,)

    Args:
        mean, log_var: float tensors (..., L), the distribution measured.
        mean_to, log_var_to: float tensors (..., L), the distribution measured against.

    Returns:
        Float32 tensor (...,), >= 0.
    """
    mean, log_var, mean_to, log_var_to = map(float32, (mean, log_var, mean_to, log_var_to))
    check_alike("tensors (..., latents)", mean=mean, log_var=log_var, mean_to=mean_to, log_var_to=log_var_to)
    # exp(a - b) rather than exp(a) / exp(b): finite where the quotient would be inf / inf.
    variance_ratio = ops.exp(log_var - log_var_to)
    squared_distance = ops.square(mean - mean_to) * ops.exp(-log_var_to)
    return 0.5 * ops.sum(log_var_to - log_var - 1.0 + variance_ratio + squared_distance, axis=-1)


def gaussian_entropy(log_var):
    """Differential entropy of N(., exp(log_var)), summed over the latent dimensions.

    It *enters a minimized loss with a minus sign*. Algorithm 1 of both SimVAE papers adds it, which has no lower
    bound; their eq. 4 and their code subtract it.

    Example:
        losses.gaussian_entropy(np.zeros((32, 8)))  # (32,), of unit variances

    Args:
        log_var: float tensor (..., L).

    Returns:
        Float32 tensor (...,), in nats; negative for narrow posteriors.
    """
    return 0.5 * ops.sum(float32(log_var) + math.log(2.0 * math.pi * math.e), axis=-1)


def group_prior(z, variance: float, center_variance: float | None = None):
    """Negative log prior of groups of latents that share an unknown center, up to a constant.

    z_j ~ N(psi, variance I) for the J views of one image, with the center psi integrated out exactly:
    uniform psi gives sum_j |z_j - z_bar|^2 / (2 variance); psi ~ N(0, center_variance I) adds
    J |z_bar|^2 / (2 (variance + J center_variance)). With J = 1 the first is 0 and the second is a VAE's prior
    of variance `variance + center_variance`.

    Example:
        z = np.random.default_rng(0).normal(size=(32, 4, 8))  # four views of each image
        losses.group_prior(z, variance=0.15)  # (32,)

    Args:
        z: float tensor (B, J, L), latents grouped by image.
        variance: float > 0, variance of views around their center (the paper's Var(z|y) = 0.15).
        center_variance: float > 0, variance of the centers around 0, or None for a uniform center.

    Returns:
        Float32 tensor (B,), >= 0. Invariant to the order of the views; with a uniform center also to z + a.

    Reference:
        SimVAE, eq. 9 (uniform center) and appendix A.4 (the marginal, with the sign of its cross terms mended).
    """
    check_positive(variance=variance)
    z = grouped(z)
    center = ops.mean(z, axis=1, keepdims=True)
    prior = ops.sum(ops.square(z - center), axis=(1, 2)) / (2.0 * variance)
    if center_variance is None:
        return prior
    check_positive(center_variance=center_variance)
    views = ops.cast(ops.shape(z)[1], "float32")
    return prior + views * ops.sum(ops.square(center), axis=(1, 2)) / (2.0 * (variance + views * center_variance))


def gaussian_reconstruction(x, x_hat, variance: float):
    """-log N(x; x_hat, variance I) without its constant: squared error summed over pixels / (2 variance).

    Example:
        x, x_hat = np.random.default_rng(0).uniform(size=(2, 32, 8, 8, 1))
        losses.gaussian_reconstruction(x, x_hat, variance=0.01)  # (32,)

    Args:
        x, x_hat: float tensors (N, H, W, C).
        variance: float > 0. The papers' "0.02" is 2 x variance, so 0.01 here.

    Returns:
        Float32 tensor (N,), >= 0.
    """
    check_positive(variance=variance)
    x, x_hat = float32(x), float32(x_hat)
    check_alike("images (N, H, W, C)", 4, x=x, x_hat=x_hat)
    return ops.sum(ops.square(x - x_hat), axis=(1, 2, 3)) / (2.0 * variance)


def bernoulli_reconstruction(x, logits):
    """-log Bernoulli(x; sigmoid(logits)) summed over pixels.

    Example:
        x, logits = np.random.default_rng(0).uniform(size=(2, 32, 8, 8, 1))
        losses.bernoulli_reconstruction(x, logits)  # (32,)

    Args:
        x: float tensor (N, H, W, C) with values in [0, 1].
        logits: float tensor (N, H, W, C).

    Returns:
        Float32 tensor (N,), >= 0, finite for logits of any size.
    """
    x, logits = float32(x), float32(logits)
    check_alike("images (N, H, W, C)", 4, x=x, logits=logits)
    return ops.sum(ops.softplus(logits) - logits * x, axis=(1, 2, 3))
