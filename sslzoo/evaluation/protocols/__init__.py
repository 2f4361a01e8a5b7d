"""The protocols of `evaluate`, a file and a class each. One more is one more of `_CLASSES`, in the order of reports."""

from sslzoo.evaluation.protocols.attributes import Attributes
from sslzoo.evaluation.protocols.bank import Bank
from sslzoo.evaluation.protocols.clusters import Clusters
from sslzoo.evaluation.protocols.few_shot import FewShot
from sslzoo.evaluation.protocols.generation import Generation
from sslzoo.evaluation.protocols.gmm import GMM
from sslzoo.evaluation.protocols.knn import KNN
from sslzoo.evaluation.protocols.likelihood import Likelihood
from sslzoo.evaluation.protocols.linear import Linear
from sslzoo.evaluation.protocols.mlp import MLP
from sslzoo.evaluation.protocols.outliers import Outliers
from sslzoo.evaluation.protocols.protocol import DoesNotApply, Number, Protocol, Result
from sslzoo.evaluation.protocols.reconstruction import Reconstruction
from sslzoo.evaluation.protocols.style import Style
from sslzoo.evaluation.protocols.views import Views

_CLASSES = (Linear, MLP, KNN, GMM, FewShot, Style, Reconstruction, Generation, Likelihood, Outliers, Attributes)
_CLASSES += (Clusters, Bank, Views)  # of a trained method

REGISTRY: dict[str, type[Protocol]] = {protocol.name: protocol for protocol in _CLASSES}

__all__ = ["GMM", "REGISTRY", "DoesNotApply", "Number", "Protocol", "Result"]
