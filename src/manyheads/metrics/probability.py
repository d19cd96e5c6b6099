"""How good predicted probabilities are."""

from __future__ import annotations

import numpy as np

from manyheads.metrics.contributions import Contributions
from manyheads.metrics.metric import METRICS, ClosedFormMetric, ManyClients, SampleMetric
from manyheads.metrics.predictions import Predictions

__all__ = ["Brier", "CalibrationError", "LogLoss"]

BINS = 15
"""bins of the calibration error, as in Guo et al. 2017"""


@METRICS.register
class LogLoss(SampleMetric):
    """The negative log probability of the label: for classification the reported loss, here for any task with classes."""

    name = "log_loss"
    title = "log loss"
    meaning = "the mean negative logarithm of the probability that was given to the label"
    higher_is_better = False
    needs_classes = True

    def each(self, predictions: Predictions) -> np.ndarray:
        outputs = predictions.outputs.astype(float)
        right = np.take_along_axis(outputs, predictions.labels[:, None], axis=1)[:, 0]
        return np.logaddexp.reduce(outputs, axis=1) - right


@METRICS.register
class Brier(SampleMetric):
    """The squared error of the probabilities: of the second class if there are two, else summed over all classes."""

    name = "brier"
    title = "Brier score"
    meaning = "the mean squared error of the predicted probabilities"
    higher_is_better = False
    needs_classes = True

    def each(self, predictions: Predictions) -> np.ndarray:
        classes = predictions.outputs.shape[1]
        error = predictions.probabilities - np.eye(classes)[predictions.labels]
        return np.square(error).sum(axis=1) / (2 if classes == 2 else 1)


@METRICS.register
class CalibrationError(ManyClients, ClosedFormMetric):
    """The expected calibration error of Guo et al. 2017.

    Samples are divided by the probability of the predicted class into 15 bins of equal width. In each, the mean
    probability should be the share that is classified right; the error is their distance, averaged over samples.
    """

    name = "calibration_error"
    title = "calibration error"
    meaning = "how far the probability of the predicted class is from the share of samples that have it"
    unit = "%"
    higher_is_better = False
    needs_classes = True

    def contributions(self, own: Predictions, fold: np.ndarray) -> Contributions | None:
        """A sample's is how far the model is too sure of it, with the sign that the sum over its bin has."""
        surplus, bins = _surplus(own)
        return Contributions.of_mean(np.sign(np.bincount(bins, surplus))[bins] * surplus)

    def together(self, predictions: Predictions) -> np.ndarray:
        surplus, bins = _surplus(predictions)
        sums = np.bincount(predictions.owner * BINS + bins, surplus, minlength=BINS * len(predictions))
        return np.asarray(np.abs(sums.reshape(-1, BINS)).sum(axis=1) / predictions.sizes)


def _surplus(predictions: Predictions) -> tuple[np.ndarray, np.ndarray]:
    """How far the model is too sure of each sample, and the sample's bin."""
    probability = predictions.probabilities.max(axis=1)
    surplus = probability - (predictions.predicted == predictions.labels)
    return surplus, np.minimum((probability * BINS).astype(int), BINS - 1)
