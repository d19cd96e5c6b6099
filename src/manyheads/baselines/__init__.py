"""What a client can do alone, without a network: scikit-learn's models, each tuned on the client's own samples."""

from manyheads.baselines.baseline import BASELINES, Baseline, Predict
from manyheads.baselines.inputs import flat_inputs
from manyheads.baselines.linear import Linear
from manyheads.baselines.majority import Majority
from manyheads.baselines.trees import Trees

__all__ = ["BASELINES", "Baseline", "Linear", "Majority", "Predict", "Trees", "flat_inputs"]
