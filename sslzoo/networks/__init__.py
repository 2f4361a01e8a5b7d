"""Networks by name: Functional Keras models of core layers only, built at once.

Encoders and decoders see what `sslzoo.views.Views` makes, not raw images; `sslzoo.artefact.compose` joins an encoder
and the preprocessing of its views when it is saved.
"""

from sslzoo.networks.decoders import DECODERS, decoder
from sslzoo.networks.encoders import ENCODERS, encoder
from sslzoo.networks.heads import predictor, projector
from sslzoo.networks.initialization import initialize

__all__ = ["DECODERS", "ENCODERS", "decoder", "encoder", "initialize", "predictor", "projector"]
