"""A copy of the user's module to train; refuses modules of which a copy would behave differently."""

from __future__ import annotations

import copy
import types

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from manyheads.core.errors import UserError, first_line

__all__ = ["TORCH_OWN", "copied"]

TORCH_OWN = frozenset(vars(nn.Module()))
"""attributes that every module has"""
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def copied(module: nn.Module) -> nn.Module:
    """A copy of a module, so that the user's own is never changed."""
    for name, layer in module.named_modules():
        where = f"layer {name!r}" if name else "the model"
        if any(is_lazy(p) for p in layer.parameters(recurse=False)):
            raise UserError(f"{where} is lazy and has no weights yet", fix="call the model once on a few samples first")
        if any(getattr(layer, kind, None) for kind in _HOOKS):
            raise UserError(
                f"{where} has hooks, which may do or keep anything",
                fix="do it in forward(); instead of torch.nn.utils.weight_norm and spectral_norm use those of "
                "torch.nn.utils.parametrizations",
            )
        if isinstance(layer, torch.jit.ScriptModule):
            raise UserError(
                f"{where} was compiled to a script, whose parameters cannot be lent", fix="give the module itself"
            )
        if "forward" in vars(layer):
            raise UserError(f"the forward of {where} was replaced", fix="make it a method of a class of your own")
        for attribute, value in vars(layer).items():
            if attribute not in TORCH_OWN and _reaches_outside(value):
                raise UserError(
                    f"{where} keeps a function, {attribute!r}, that holds a module or a tensor: a copy would share it",
                    fix="make it a method",
                )
    for name, parameter in module.named_parameters():
        if parameter._backward_hooks:
            raise UserError(f"the parameter {name!r} has hooks, which a copy would lose", fix="do it in forward()")
    try:
        return copy.deepcopy(module)
    except Exception as error:
        raise UserError(f"the model cannot be copied: {first_line(error)}") from error


def _reaches_outside(value: object) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_reaches_outside, value))
    if isinstance(value, dict):
        return any(map(_reaches_outside, value.values()))
    if not isinstance(value, types.FunctionType):
        return False
    return any(isinstance(_content(cell), nn.Module | Tensor) for cell in value.__closure__ or ())


def _content(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # the cell is empty
        return None
