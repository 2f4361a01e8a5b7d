"""The objectives as pure functions of tensors: no state, no random numbers, no Keras layers."""

from sslzoo.losses.elbo import (
    bernoulli_reconstruction,
    gaussian_entropy,
    gaussian_kl,
    gaussian_kl_between,
    gaussian_reconstruction,
    group_prior,
)

__all__ = [
    "bernoulli_reconstruction",
    "gaussian_entropy",
    "gaussian_kl",
    "gaussian_kl_between",
    "gaussian_reconstruction",
    "group_prior",
]
