"""Side effects of a forward pass: changes of parameters, buffers, attributes and random generators."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from manyheads.core.errors import UserError
from manyheads.models.copied import TORCH_OWN

__all__ = ["Changed", "changes", "generators_restored", "snapshot"]


class Changed(NamedTuple):
    """Something that a pass can change."""

    kind: str
    """parameter, buffer, attribute or generator"""
    name: str

    def refusal(self, train: bool) -> UserError:
        """The error for a pass that changed this although it may not."""
        when = "training" if train else "evaluation"
        if self.kind == "buffer" and train:
            return UserError(
                f"a pass in training changes the buffer {self.name!r}, and what becomes of it must be said",
                allowed=f"Model(module, norm='average', buffers=[{self.name!r}]), or norm='local'",
            )
        if self.kind == "generator":
            return UserError(f"the model draws from {self.name} generator", fix="draw from torch's, which a run seeds")
        fix = "a model may remember things in training only, in buffers: register_buffer()"
        if self.kind == "parameter":
            fix = "leave that out (max_norm of an embedding, ...): only training may change them"
        return UserError(f"a pass in {when} changes the {self.kind} {self.name!r}", fix=fix)


Snapshot = dict[Changed, object]


def snapshot(module: nn.Module) -> Snapshot:
    """Everything that a forward pass could change, as comparable values."""
    return dict(_values(module))


def changes(before: Snapshot, after: Snapshot) -> Iterator[Changed]:
    for entry in before.keys() | after.keys():
        if before.get(entry) != after.get(entry):
            yield entry


def _values(module: nn.Module) -> Iterator[tuple[Changed, object]]:
    for name, parameter in module.named_parameters():
        yield Changed("parameter", name), _bytes(parameter)
    for name, buffer in module.named_buffers():
        yield Changed("buffer", name), _bytes(buffer)
    for name, layer in module.named_modules():
        kind = type(layer)
        shared = {} if kind.__module__.startswith("torch.") else vars(kind)
        for attribute, value in {**shared, **vars(layer)}.items():
            if attribute not in TORCH_OWN and not attribute.startswith("__") and not callable(value):
                yield Changed("attribute", f"{name}.{attribute}".lstrip(".")), _frozen(value)
    yield Changed("generator", "numpy's"), pickle.dumps(np.random.get_state())  # noqa: NPY002 (to see who uses it)
    yield Changed("generator", "Python's"), random.getstate()


@contextmanager
def generators_restored() -> Iterator[None]:
    """Restore the states of the generators of torch, numpy and Python at the end of the block."""
    ours, theirs = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        np.random.set_state(ours)  # noqa: NPY002
        random.setstate(theirs)


def _bytes(value: Tensor) -> bytes:
    return value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def _frozen(value: object) -> object:
    """A copy that can be compared; for a value that cannot be copied, its identity."""
    if isinstance(value, Tensor):
        return value.shape, _bytes(value)
    if isinstance(value, list | tuple | set | dict):
        parts = value.items() if isinstance(value, dict) else value
        return [_frozen(part) for part in parts]
    try:
        return pickle.dumps(value)
    except Exception:
        return id(value)
