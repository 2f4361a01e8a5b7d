"""The objectives as pure functions of tensors: no state, no random numbers, no Keras layers."""

from sslzoo.losses.clustering import (
    cluster_terms,
    proto_cpc,
    proto_cpc_terms,
    pseudo_label_terms,
    sinkhorn,
    swapped_prediction,
    swapped_terms,
)
from sslzoo.losses.contrastive import (
    info_nce,
    info_nce_terms,
    instance_cross_entropy,
    instance_terms,
    nt_xent,
    nt_xent_terms,
    queue_nce,
    queue_nce_terms,
)
from sslzoo.losses.decorrelation import (
    barlow_twins,
    barlow_twins_terms,
    corinfomax_terms,
    vicreg_terms,
    w_mse,
    whiten,
)
from sslzoo.losses.elbo import (
    bernoulli_reconstruction,
    gaussian_entropy,
    gaussian_kl,
    gaussian_kl_between,
    gaussian_reconstruction,
    group_prior,
)
from sslzoo.losses.energy import generative_term, log_density, pair_log_density, sgld_step
from sslzoo.losses.regression import negative_cosine, normalized_regression
from sslzoo.losses.tensors import unit

__all__ = [
    "barlow_twins",
    "barlow_twins_terms",
    "bernoulli_reconstruction",
    "cluster_terms",
    "corinfomax_terms",
    "gaussian_entropy",
    "gaussian_kl",
    "gaussian_kl_between",
    "gaussian_reconstruction",
    "generative_term",
    "group_prior",
    "info_nce",
    "info_nce_terms",
    "instance_cross_entropy",
    "instance_terms",
    "log_density",
    "negative_cosine",
    "normalized_regression",
    "nt_xent",
    "nt_xent_terms",
    "pair_log_density",
    "proto_cpc",
    "proto_cpc_terms",
    "pseudo_label_terms",
    "queue_nce",
    "queue_nce_terms",
    "sgld_step",
    "sinkhorn",
    "swapped_prediction",
    "swapped_terms",
    "unit",
    "vicreg_terms",
    "w_mse",
    "whiten",
]
