"""Exports of a model to ONNX and torch.export, each checked to give the same outputs."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from manyheads.core.errors import UserError, first_line

__all__ = ["FORMATS", "Outputs", "available", "export", "onnx_outputs", "require"]

FORMATS = {"torch": "model.pt2", "onnx": "model.onnx"}
"""file names"""
NEEDED = {"torch": (), "onnx": ("onnx", "onnxscript", "onnxruntime")}
TOLERANCE = 1e-4
"""largest difference to the model's own outputs, relative to the largest of these (or 1)"""
Outputs = Callable[[np.ndarray], np.ndarray]


def available() -> list[str]:
    """The formats whose packages are installed."""
    return [name for name, packages in NEEDED.items() if all(find_spec(p) for p in packages)]


def require(kind: str) -> None:
    """Refuse a format whose packages are not installed."""
    if kind not in available():
        needs = ", ".join(NEEDED[kind])
        raise UserError(f"{kind} needs packages that are not installed: {needs}", fix='pip install "manyheads[export]"')


def export(module: nn.Module, kind: str, folder: Path, x: Tensor) -> float:
    """Write a module in eval mode to ``folder``, for batches of any size; gives the largest difference of its outputs.

    ``x`` are samples to try it on: one by one, and together.
    """
    require(kind)
    path = folder / FORMATS[kind]
    try:
        with torch.no_grad(), _quiet():
            expected, one = module(x), module(x[:1])
            # an example of two samples: torch takes a size of 1 for one that never varies
            batch = torch.export.Dim("batch")
            program = torch.export.export(module, (x[:1].repeat_interleave(2, 0),), dynamic_shapes=({0: batch},))
            written = (_write_torch if kind == "torch" else _write_onnx)(program, path)
            got = [(written(x.numpy()), expected.numpy()), (written(x[:1].numpy()), one.numpy())]
    except Exception as error:  # the exporters raise errors of many kinds
        reason = first_line(error)
        if "Constraints violated" in reason:
            reason = "a part of it works for one batch size only"
        raise UserError(f"the model cannot be exported: {reason}", where="export", given=kind) from error
    difference = max(float(np.abs(a - b).max()) for a, b in got)
    if not difference <= TOLERANCE * max(1.0, float(expected.abs().max())):
        raise UserError(
            "the exported model gives other outputs", where="export", given=kind, allowed=f"differences up to {TOLERANCE}",
            fix="leave this export out",
        )  # fmt: skip
    return difference


def _write_torch(program: torch.export.ExportedProgram, path: Path) -> Outputs:
    torch.export.save(program, path)
    module = torch.export.load(path).module()  # it unpickles: safe here, since the file is our own
    return lambda x: module(torch.from_numpy(x)).numpy()


def _write_onnx(program: torch.export.ExportedProgram, path: Path) -> Outputs:
    made = torch.onnx.export(
        program, input_names=["x"], output_names=["output"], dynamic_shapes=({0: "batch"},), dynamo=True, verbose=False
    )
    assert made is not None
    made.save(path, external_data=False)
    return onnx_outputs(path)


def onnx_outputs(path: Path) -> Outputs:
    """The outputs of an ONNX file, by onnxruntime.

    Files may come from anywhere: one that could compute without end, or read other files, is refused.
    """
    require("onnx")
    with _one_line(path, "cannot be read"):
        model = import_module("onnx").load(path, load_external_data=False)
        _refuse_loops(path, model)
        session = import_module("onnxruntime").InferenceSession(
            model.SerializeToString(), providers=["CPUExecutionProvider"]
        )
        names = [given.name for given in session.get_inputs()]
        if len(names) != 1 or len(session.get_outputs()) != 1:
            raise UserError(f"{path} is no model of ours: it has other than one input and one output")

    def outputs(x: np.ndarray) -> np.ndarray:
        with _one_line(path, "cannot be run"):
            found = session.run(None, {names[0]: x})[0]
            if not isinstance(found, np.ndarray) or found.dtype.kind != "f" or len(found) != len(x):
                raise UserError(f"{path} is no model of ours: it does not give numbers for every sample")
            return found

    return outputs


@contextmanager
def _one_line(path: Path, what: str) -> Iterator[None]:
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # the errors of onnx and onnxruntime have no common class
        raise UserError(f"{path} {what}: {first_line(error)}", fix="personalize again") from None


def _refuse_loops(path: Path, model: Any) -> None:
    """Refuse what our exports never hold: loops, functions (which may call each other), custom operators, other files."""
    graphs = [model.graph]
    while graphs:
        graph = graphs.pop()
        for node in graph.node:
            if node.domain not in ("", "ai.onnx") or node.op_type in ("Loop", "Scan", "SequenceMap"):
                raise UserError(
                    f"{path} is refused: it holds the operator {node.domain}.{node.op_type}".replace(" .", " ")
                )
            for attribute in node.attribute:
                graphs += [attribute.g, *attribute.graphs]
        if any(tensor.external_data for tensor in graph.initializer):
            raise UserError(f"{path} is refused: it reads other files")
    if model.functions:
        raise UserError(f"{path} is refused: it holds functions of its own")


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporters' warnings about optional packages and deprecations."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
