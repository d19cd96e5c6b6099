"""What ``import manyheads`` offers, imported when something of it is first used."""

from manyheads.algorithms import (
    APFL,
    DSGD,
    L2GD,
    Ditto,
    FedAvg,
    FedMTL,
    FedPer,
    FedProx,
    FedRep,
    FedRepLinear,
    LGFedAvg,
    Local,
    LocalSGD,
    PerFedAvg,
    Scaffold,
)
from manyheads.core.contract import Algorithm, Batch, Cohort, Each, Mean, Round, Update, Uploads
from manyheads.core.errors import UserError
from manyheads.core.optim import SGD, FineTune
from manyheads.core.round_end import RoundEnd
from manyheads.core.rounds import client_round, server_round
from manyheads.core.settings import settings
from manyheads.core.tasks import TASKS, Task
from manyheads.core.trees import Params, State, Tree
from manyheads.data import Federation
from manyheads.engines.engine import Engine
from manyheads.experiments import ComparisonResult, compare
from manyheads.metrics import METRICS, ClosedFormMetric, Contributions, Metric, Predictions, SampleMetric
from manyheads.models import Model
from manyheads.monitors import MONITORS, Monitor
from manyheads.onboarding import personalize
from manyheads.run import Evaluate, Run, load, simulate
from manyheads.run.kinds import register

__all__ = [
    "APFL",
    "DSGD",
    "L2GD",
    "METRICS",
    "MONITORS",
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
    "FedMTL",
    "FedPer",
    "FedProx",
    "FedRep",
    "FedRepLinear",
    "Federation",
    "FineTune",
    "LGFedAvg",
    "Local",
    "LocalSGD",
    "Mean",
    "Metric",
    "Model",
    "Monitor",
    "Params",
    "PerFedAvg",
    "Predictions",
    "Round",
    "RoundEnd",
    "Run",
    "SampleMetric",
    "Scaffold",
    "State",
    "Task",
    "Tree",
    "Update",
    "Uploads",
    "UserError",
    "client_round",
    "compare",
    "load",
    "personalize",
    "register",
    "server_round",
    "settings",
    "simulate",
]
