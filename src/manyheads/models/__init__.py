"""Models: named ones, and any module of the user's."""

from manyheads.models.model import Model, Net, losses
from manyheads.models.zoo import MLP, MODELS, LinearRepresentation, build_model, model_named

__all__ = ["MLP", "MODELS", "LinearRepresentation", "Model", "Net", "build_model", "losses", "model_named"]
