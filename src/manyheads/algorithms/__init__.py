"""The methods, one file each. Importing this package registers them."""

from manyheads.algorithms.anil import ANIL
from manyheads.algorithms.apfl import APFL
from manyheads.algorithms.ditto import Ditto
from manyheads.algorithms.dsgd import DSGD
from manyheads.algorithms.fedavg import FedAvg
from manyheads.algorithms.fedbabu import FedBABU
from manyheads.algorithms.fedbn import FedBN
from manyheads.algorithms.fedmtl import FedMTL
from manyheads.algorithms.fedpac import FedPAC
from manyheads.algorithms.fedper import FedPer
from manyheads.algorithms.fedprox import FedProx
from manyheads.algorithms.fedrep import FedRep
from manyheads.algorithms.fedrep_linear import FedRepLinear
from manyheads.algorithms.fedrod import FedRoD
from manyheads.algorithms.ifca import IFCA
from manyheads.algorithms.knnper import KNNPer
from manyheads.algorithms.l2gd import L2GD
from manyheads.algorithms.lgfedavg import LGFedAvg
from manyheads.algorithms.local import Local
from manyheads.algorithms.local_sgd import LocalSGD
from manyheads.algorithms.mrmtl import MRMTL
from manyheads.algorithms.perfedavg import PerFedAvg
from manyheads.algorithms.pfedme import PFedMe
from manyheads.algorithms.reptile import Reptile
from manyheads.algorithms.scaffold import Scaffold

__all__ = [
    "ANIL",
    "APFL",
    "DSGD",
    "IFCA",
    "L2GD",
    "MRMTL",
    "Ditto",
    "FedAvg",
    "FedBABU",
    "FedBN",
    "FedMTL",
    "FedPAC",
    "FedPer",
    "FedProx",
    "FedRep",
    "FedRepLinear",
    "FedRoD",
    "KNNPer",
    "LGFedAvg",
    "Local",
    "LocalSGD",
    "PFedMe",
    "PerFedAvg",
    "Reptile",
    "Scaffold",
]
