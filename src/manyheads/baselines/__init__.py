"""What a client can do alone, without a network: scikit-learn's models, each tuned on the client's own samples."""

from manyheads.baselines.baseline import BASELINES, Baseline, Predict
from manyheads.baselines.inputs import flat_inputs
from manyheads.baselines.linear import Linear
from manyheads.baselines.majority import Majority
from manyheads.baselines.trees import Trees
from manyheads.baselines.tuning import Fold, inner_folds, losses

__all__ = [
    "BASELINES",
    "Baseline",
    "Fold",
    "Linear",
    "Majority",
    "Predict",
    "Trees",
    "flat_inputs",
    "inner_folds",
    "losses",
]
