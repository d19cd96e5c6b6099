"""Folders of personal models: predicted with."""

from __future__ import annotations

from fuzz.bases import ONNX
from fuzz.damaged import Damaged, Use, printed

__all__ = ["MODELS"]

PREDICT = ["predict", "model", "new.csv", "--json"]
MODELS = Damaged(
    "models",
    "model",
    ("new.csv",),
    (
        Use("predict", PREDICT, printed),
        *([Use("predict by onnx", [*PREDICT, "--engine", "onnx"], printed)] if ONNX else []),
    ),
)
