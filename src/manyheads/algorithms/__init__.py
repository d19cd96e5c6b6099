"""The methods, one file each. Importing this package registers them."""

from manyheads.algorithms.dsgd import DSGD
from manyheads.algorithms.fedavg import FedAvg
from manyheads.algorithms.fedrep import FedRep
from manyheads.algorithms.local import Local

__all__ = ["DSGD", "FedAvg", "FedRep", "Local"]
