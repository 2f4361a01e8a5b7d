"""The objectives as pure functions of tensors: no state, no random numbers, no Keras layers.

They take arrays or tensors, of any float dtype. Shapes other than those under "Args" raise `InvalidInputError`, where
they are known (TensorFlow may leave a batch size open while it traces a graph), and so do temperatures and variances
that are not positive, unless they are tensors, as one that is learned is. Examples
assume `import numpy as np` and `from sslzoo import losses`; that of `X_terms` is that of `X`.
"""

import sslzoo.backend  # noqa: F401 - before Keras
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
    dcl,
    dcl_terms,
    info_nce,
    info_nce_terms,
    instance_cross_entropy,
    instance_terms,
    nt_xent,
    nt_xent_terms,
    queue_nce,
    queue_nce_terms,
)
from sslzoo.losses.decorrelation import barlow_twins, barlow_twins_terms, corinfomax_terms, vicreg_terms, w_mse, whiten
from sslzoo.losses.distillation import dino
from sslzoo.losses.elbo import (
    bernoulli_reconstruction,
    gaussian_entropy,
    gaussian_kl,
    gaussian_kl_between,
    gaussian_reconstruction,
    group_prior,
)
from sslzoo.losses.energy import generative_term, log_density, pair_log_density, sgld_step
from sslzoo.losses.information import (
    barber_agakov_bound,
    info_nce_bound,
    nwj_bound,
    tuba_bound,
    vince_bound,
    vince_threshold,
)
from sslzoo.losses.marginal import align_uniform_terms, lejepa_terms, sigreg, view_invariance, visreg_terms
from sslzoo.losses.neighborhood import (
    anneal,
    nearest,
    neighborhood_nce,
    neighborhood_terms,
    noise_contrastive,
    noise_contrastive_terms,
    within,
)
from sslzoo.losses.regression import negative_cosine, normalized_regression
from sslzoo.losses.tensors import unit
from sslzoo.losses.volume import coding_rate, emp_ssl_terms, frossl_terms, mmcr_terms, tico_terms

__all__ = [
    "align_uniform_terms",
    "anneal",
    "barber_agakov_bound",
    "barlow_twins",
    "barlow_twins_terms",
    "bernoulli_reconstruction",
    "cluster_terms",
    "coding_rate",
    "corinfomax_terms",
    "dcl",
    "dcl_terms",
    "dino",
    "emp_ssl_terms",
    "frossl_terms",
    "gaussian_entropy",
    "gaussian_kl",
    "gaussian_kl_between",
    "gaussian_reconstruction",
    "generative_term",
    "group_prior",
    "info_nce",
    "info_nce_bound",
    "info_nce_terms",
    "instance_cross_entropy",
    "instance_terms",
    "lejepa_terms",
    "log_density",
    "mmcr_terms",
    "nearest",
    "negative_cosine",
    "neighborhood_nce",
    "neighborhood_terms",
    "noise_contrastive",
    "noise_contrastive_terms",
    "normalized_regression",
    "nt_xent",
    "nt_xent_terms",
    "nwj_bound",
    "pair_log_density",
    "proto_cpc",
    "proto_cpc_terms",
    "pseudo_label_terms",
    "queue_nce",
    "queue_nce_terms",
    "sgld_step",
    "sigreg",
    "sinkhorn",
    "swapped_prediction",
    "swapped_terms",
    "tico_terms",
    "tuba_bound",
    "unit",
    "vicreg_terms",
    "view_invariance",
    "vince_bound",
    "vince_threshold",
    "visreg_terms",
    "w_mse",
    "whiten",
    "within",
]
