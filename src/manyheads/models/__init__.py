"""Models: named ones, and any module of the user's."""

from manyheads.models.cnn import CifarCNN, CifarCNN100, SixLayerCNN
from manyheads.models.linear import LinearRepresentation
from manyheads.models.lstm import LSTM
from manyheads.models.mlp import MLP, EluMLP, FemnistMLP
from manyheads.models.model import Model
from manyheads.models.net import Net
from manyheads.models.relu import ReluNet
from manyheads.models.tried import TriedModel
from manyheads.models.zoo import MODELS, ModelSpec, build_model

__all__ = [
    "LSTM", "MLP", "MODELS", "CifarCNN", "CifarCNN100", "EluMLP", "FemnistMLP", "LinearRepresentation", "Model", "ModelSpec", "Net", "ReluNet",
    "SixLayerCNN", "TriedModel", "build_model",
]  # fmt: skip
