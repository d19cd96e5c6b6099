"""manyheads: personalized federated learning. One shared body, many personal heads."""

from manyheads.algorithms import DSGD, FedAvg, FedRep, Local
from manyheads.core.contract import Algorithm, Cohort, Round, Update, Uploads, register
from manyheads.core.errors import UserError
from manyheads.core.optim import SGD
from manyheads.core.settings import settings
from manyheads.core.trees import Params, State, Tree
from manyheads.data import Federation
from manyheads.engines.pool import Engine
from manyheads.models import Model
from manyheads.run import Evaluate, Run, load, simulate

__version__ = "0.1.0"

__all__ = [
    "DSGD",
    "SGD",
    "Algorithm",
    "Cohort",
    "Engine",
    "Evaluate",
    "FedAvg",
    "FedRep",
    "Federation",
    "Local",
    "Model",
    "Params",
    "Round",
    "Run",
    "State",
    "Tree",
    "Update",
    "Uploads",
    "UserError",
    "load",
    "register",
    "settings",
    "simulate",
]
