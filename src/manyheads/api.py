"""What ``import manyheads`` offers, imported when something of it is first used."""

from manyheads.algorithms import (
    ANIL,
    APFL,
    DSGD,
    IFCA,
    L2GD,
    MRMTL,
    Ditto,
    FedAvg,
    FedBABU,
    FedBN,
    FedMTL,
    FedPAC,
    FedPer,
    FedProx,
    FedRep,
    FedRepLinear,
    FedRoD,
    KNNPer,
    LGFedAvg,
    Local,
    LocalSGD,
    PerFedAvg,
    PFedMe,
    Reptile,
    Scaffold,
)
from manyheads.core.contract import Algorithm, Batch, Cohort, Each, Mean, Round, Update, Uploads
from manyheads.core.errors import UserError
from manyheads.core.optim import SGD, FineTune
from manyheads.core.round_end import RoundEnd
from manyheads.core.rounds import client_round, first_state, server_round
from manyheads.core.schedule import Schedule
from manyheads.core.server import Server, ServerOptimizer
from manyheads.core.settings import settings
from manyheads.core.tasks import TASKS, Task
from manyheads.core.trees import Params, State, Tree
from manyheads.data import Federation
from manyheads.engines.engine import Engine
from manyheads.experiments import ComparisonResult, TuningResult, compare, tune
from manyheads.metrics import METRICS, ClosedFormMetric, Contributions, Metric, Predictions, SampleMetric
from manyheads.models import Model
from manyheads.monitors import MONITORS, Monitor
from manyheads.onboarding import personalize
from manyheads.run import Evaluate, Run, load, simulate
from manyheads.run.kinds import register

__all__ = [
    "ANIL",
    "APFL",
    "DSGD",
    "IFCA",
    "L2GD",
    "METRICS",
    "MONITORS",
    "MRMTL",
    "SGD",
    "TASKS",
    "Algorithm",
    "Batch",
    "ClosedFormMetric",
    "Cohort",
    "ComparisonResult",
    "Contributions",
    "Ditto",
    "Each",
    "Engine",
    "Evaluate",
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
    "Federation",
    "FineTune",
    "KNNPer",
    "LGFedAvg",
    "Local",
    "LocalSGD",
    "Mean",
    "Metric",
    "Model",
    "Monitor",
    "PFedMe",
    "Params",
    "PerFedAvg",
    "Predictions",
    "Reptile",
    "Round",
    "RoundEnd",
    "Run",
    "SampleMetric",
    "Scaffold",
    "Schedule",
    "Server",
    "ServerOptimizer",
    "State",
    "Task",
    "Tree",
    "TuningResult",
    "Update",
    "Uploads",
    "UserError",
    "client_round",
    "compare",
    "first_state",
    "load",
    "personalize",
    "register",
    "server_round",
    "settings",
    "simulate",
    "tune",
]
