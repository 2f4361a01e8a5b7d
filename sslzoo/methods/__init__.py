"""The methods, one file each. `METHODS` maps the name used by recipes, weights and tests to the class."""

import sslzoo.backend  # noqa: F401 - before Keras

# isort: split
import keras

from sslzoo.methods.align_uniform import AlignUniform
from sslzoo.methods.annulus import Annulus
from sslzoo.methods.ball import Ball
from sslzoo.methods.barlow_twins import BarlowTwins
from sslzoo.methods.byol import BYOL
from sslzoo.methods.cmc import CMC
from sslzoo.methods.corinfomax import CorInfoMax
from sslzoo.methods.cr_vae import CRVAE
from sslzoo.methods.dcl import DCL
from sslzoo.methods.deepcluster import DeepCluster
from sslzoo.methods.dino import DINO
from sslzoo.methods.ebclr import EBCLR
from sslzoo.methods.emp_ssl import EMPSSL
from sslzoo.methods.energy_model import ClusterEnergyModel, EnergyModel
from sslzoo.methods.fastsiam import FastSiam
from sslzoo.methods.frossl import FroSSL
from sslzoo.methods.gedi import GEDI
from sslzoo.methods.indexed import Indexed
from sslzoo.methods.info_nce import InfoNCE
from sslzoo.methods.instance_discrimination import InBatchDiscrimination, InstanceDiscrimination
from sslzoo.methods.jem import JEM
from sslzoo.methods.joint_embedding import JointEmbedding, MultiCrop, TeacherStudent
from sslzoo.methods.lejepa import LeJEPA
from sslzoo.methods.local_aggregation import LocalAggregation
from sslzoo.methods.memory_bank import MemoryBank
from sslzoo.methods.mmcr import MMCR
from sslzoo.methods.moco import MoCo
from sslzoo.methods.nnclr import NNCLR
from sslzoo.methods.parametric_instance_discrimination import ParametricInstanceDiscrimination
from sslzoo.methods.pretrainer import Pretrainer
from sslzoo.methods.protocpc import ProtoCPC
from sslzoo.methods.simclr import SimCLR
from sslzoo.methods.simdino import SimDINO
from sslzoo.methods.simsiam import SimSiam
from sslzoo.methods.simvae import SimVAE
from sslzoo.methods.swav import SwAV
from sslzoo.methods.tico import TiCo
from sslzoo.methods.vae import VAE, BetaVAE
from sslzoo.methods.vicreg import VICReg
from sslzoo.methods.visreg import VISReg
from sslzoo.methods.wmse import WMSE

METHODS = {
    "vae": VAE,
    "beta-vae": BetaVAE,
    "cr-vae": CRVAE,
    "simvae": SimVAE,
    "simclr": SimCLR,
    "dcl": DCL,
    "align-uniform": AlignUniform,
    "moco": MoCo,
    "info-nce": InfoNCE,
    "parametric-instance-discrimination": ParametricInstanceDiscrimination,
    "instance-discrimination": InstanceDiscrimination,
    "ball": Ball,
    "annulus": Annulus,
    "local-aggregation": LocalAggregation,
    "cmc": CMC,
    "vicreg": VICReg,
    "barlow-twins": BarlowTwins,
    "corinfomax": CorInfoMax,
    "wmse": WMSE,
    "byol": BYOL,
    "simsiam": SimSiam,
    "swav": SwAV,
    "protocpc": ProtoCPC,
    "deepcluster": DeepCluster,
    "jem": JEM,
    "gedi": GEDI,
    "ebclr": EBCLR,
    "lejepa": LeJEPA,
    "visreg": VISReg,
    "fastsiam": FastSiam,
    "emp-ssl": EMPSSL,
    "mmcr": MMCR,
    "frossl": FroSSL,
    "nnclr": NNCLR,
    "tico": TiCo,
    "dino": DINO,
    "simdino": SimDINO,
}

_TRAINED = (InBatchDiscrimination, *METHODS.values())
_BASES = (ClusterEnergyModel, EnergyModel, Indexed, JointEmbedding, MemoryBank, MultiCrop, Pretrainer, TeacherStudent)
for _method in _TRAINED:
    keras.saving.register_keras_serializable("sslzoo")(_method)

__all__ = sorted(["METHODS", *(each.__name__ for each in (*_BASES, *_TRAINED))])
