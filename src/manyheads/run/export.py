"""A model in the forms of others: ONNX, and torch.export. Nothing is exported that does not give the same outputs."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from manyheads.core.errors import UserError

__all__ = ["FORMATS", "Outputs", "available", "export", "onnx_outputs", "require"]

FORMATS = {"torch": "model.pt2", "onnx": "model.onnx"}
"""the file of each"""
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
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
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
    """The outputs of an ONNX file, by onnxruntime."""
    require("onnx")
    try:
        session = import_module("onnxruntime").InferenceSession(path, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors have no common class
        raise UserError(f"{path} cannot be read: {str(error).splitlines()[0]}") from None
    (given,) = session.get_inputs()
    return lambda x: session.run(None, {given.name: x})[0]


@contextmanager
def _quiet() -> Iterator[None]:
    """The exporters warn of packages that are not needed here, and of their own future."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
