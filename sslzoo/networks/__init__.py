"""Networks by name: Functional Keras models of core layers only, built at once.

Encoders and decoders see what `sslzoo.views.Views` makes, not raw images; `compose` joins an encoder and
the preprocessing of its views when it is saved. Examples assume `import numpy as np` and
`from sslzoo import networks`.
"""

import sslzoo.backend  # noqa: F401 - before Keras
from sslzoo.networks.backbones import backbone
from sslzoo.networks.center_of_mass import center_of_mass_encoder
from sslzoo.networks.composition import at_size, compose, without_preprocessing
from sslzoo.networks.critics import BilinearCritic, GaussianCritic
from sslzoo.networks.decoders import DECODERS, decoder
from sslzoo.networks.encoders import ENCODERS, encoder, on_part
from sslzoo.networks.heads import predictor, projector, prototype_head
from sslzoo.networks.initialization import initialize, standardize

__all__ = [
    "DECODERS",
    "ENCODERS",
    "BilinearCritic",
    "GaussianCritic",
    "at_size",
    "backbone",
    "center_of_mass_encoder",
    "compose",
    "decoder",
    "encoder",
    "initialize",
    "on_part",
    "predictor",
    "projector",
    "prototype_head",
    "standardize",
    "without_preprocessing",
]
