"""The trial of a model before a run: what it does on a few samples decides how it may be run, or that it may not be.

The engines move parameters between workers, stack clients, pool their samples and keep a frozen body's features. All of
that is right only for a model whose output is a function of its parameters, its declared statistics, the sample and
torch's random numbers, and of nothing else. So a copy of the model is run, in double precision where it lets itself, with
parameters unlike its own, in training and in evaluation, and compared with what a plain loop would do.
"""

from __future__ import annotations

import copy
import pickle
import random
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from manyheads.core.errors import UserError, first_line
from manyheads.core.trees import Params, Tree
from manyheads.models.copied import TORCH_OWN
from manyheads.models.net import Net, is_tied

__all__ = ["Verdict", "try_out"]


class Verdict(NamedTuple):
    """How a model may be run."""

    random: bool
    """a pass in training draws from torch's generator"""
    mixes: bool
    """in training, what becomes of a sample depends on the others of its batch"""
    unstackable: str
    """why several clients' models cannot be computed at once; empty if they can"""
    headed: bool
    """the output is the head, applied to features that do not depend on it"""


def try_out(
    module: nn.Module,
    params: Params,
    statistics: frozenset[str],
    head: str,
    x: Tensor,
    check_output: Callable[[object, int], None],
) -> Verdict:
    """Try a model on a few samples. ``head`` names a module that may be the head; refuses what no engine can run."""
    own = next(iter(params.all.values())).dtype
    with _no_trace():
        for dtype in dict.fromkeys((torch.float64, own)):
            try:
                return _Trial(module, params, statistics, head, x, dtype).verdict(check_output)
            except UserError:
                raise
            except Exception as error:
                if dtype == own:  # some models are written for single precision only
                    raise UserError(
                        f"the model cannot read the data: {first_line(error)}",
                        given=f"samples of shape {tuple(x.shape[1:])}",
                    ) from error
    raise AssertionError


class _Trial:
    """A copy of a model, its samples, and two sets of parameters that are not its own."""

    def __init__(
        self, module: nn.Module, params: Params, statistics: frozenset[str], head: str, x: Tensor, dtype: torch.dtype
    ) -> None:
        self.module = copy.deepcopy(module).to(dtype)
        self.net = Net(self.module, statistics=statistics)
        self.statistics, self.dtype = statistics, dtype
        self.x = x.to(dtype) if x.is_floating_point() else x
        self.head_names = set(params.head)
        self.head = dict(self.module.named_modules()).get(head) if head else None
        self.head_prefix = f"{head}."
        self.sets = [self._unlike(params.all, seed) for seed in (0, 1)]
        self.counters = {
            f"{name}.num_batches_tracked".lstrip(".")
            for name, layer in module.named_modules()
            if isinstance(layer, nn.modules.batchnorm._NormBase)
        }

    def _unlike(self, params: Tree, seed: int) -> Tree:
        def moved(name: str, value: Tensor) -> Tensor:
            value = value.to(self.x.device, self.dtype if value.is_floating_point() else None)
            noise = _noise(seed, value)
            if name in self.statistics:
                return value * (1 + 0.1 * noise.abs())  # a variance stays positive
            return value + 0.05 * noise * (1 + value.abs())

        return Tree({name: moved(name, value) for name, value in params.items()})

    def verdict(self, check_output: Callable[[object, int], None]) -> Verdict:
        out, draws = self._watched(train=False)
        check_output(out, len(self.x))
        if draws:
            raise UserError(
                "the model draws random numbers in evaluation too",
                fix="draw in training only, as nn.Dropout does: functional.dropout(x, training=self.training)",
            )
        self._alone_as_among_others(out, check_output)
        _, random = self._watched(train=True)
        mixes = bool(self.statistics) or self._mixes()
        unstackable = self._why_not_stacked(random, mixes)
        return Verdict(random, mixes, unstackable, self._headed(trained=not random and not mixes))

    # -- passes ---------------------------------------------------------------------------------------------------------

    def _pass(self, params: Tree, x: Tensor, train: bool) -> tuple[Tensor, bool]:
        """One pass from fresh memory and the same seed: its output, and whether it drew random numbers."""
        self.module.train(train)
        self.net.bind(params.clone(), train=params)
        torch.manual_seed(0)
        before = torch.get_rng_state()
        with torch.no_grad():
            out = self.net(x)
        return out, not torch.equal(before, torch.get_rng_state())

    def _watched(self, train: bool) -> tuple[Tensor, bool]:
        """A pass, which must leave nothing behind but what it may, and give the same again."""
        params, seen = self.sets[0], []
        for _ in range(2):
            self.net.bind(params.clone(), train=params)
            before = dict(self._traces())
            seen.append(self._pass(params, self.x, train))
            after = dict(self._traces())
            allowed = self.counters | (set(self.statistics) if train else set())
            for kind, name in before.keys() | after.keys():
                if before.get((kind, name)) != after.get((kind, name)) and not (kind == "buffer" and name in allowed):
                    raise _leaves_a_trace(kind, name, train)
        (out, draws), (again, _) = seen
        if isinstance(out, Tensor) and not _equal(again, out):
            raise UserError(
                "two passes of the model with the same weights, samples and seed differ",
                fix="what it computes may depend on its parameters, its buffers and torch's random numbers only",
            )
        return out, draws

    def _traces(self) -> Iterator[tuple[tuple[str, str], object]]:
        """All that a pass could change, as values that can be compared."""
        for name, parameter in self.module.named_parameters():
            yield ("parameter", name), _bytes(parameter)
        for name, buffer in self.module.named_buffers():
            yield ("buffer", name), _bytes(buffer)
        for name, layer in self.module.named_modules():
            kind = type(layer)
            shared = {} if kind.__module__.startswith("torch.") else vars(kind)
            for attribute, value in {**shared, **vars(layer)}.items():
                if attribute not in TORCH_OWN and not attribute.startswith("__") and not callable(value):
                    yield ("attribute", f"{name}.{attribute}".lstrip(".")), _frozen(value)
        yield ("generator", "numpy's"), pickle.dumps(np.random.get_state())  # noqa: NPY002 (to see who uses it)
        yield ("generator", "Python's"), random.getstate()

    def _alone_as_among_others(self, out: Tensor, check_output: Callable[[object, int], None]) -> None:
        for row in range(len(self.x)):
            try:
                alone, _ = self._pass(self.sets[0], self.x[row : row + 1], train=False)
            except Exception as error:
                raise UserError(f"the model cannot predict for a single sample: {first_line(error)}") from error
            check_output(alone, 1)
            if not self._close(alone.reshape(out[row].shape), out[row]):
                raise UserError(
                    "what the model gives for a sample depends on the others of its batch, in evaluation too",
                    fix="a score would depend on who is tested together: use LayerNorm, GroupNorm, or statistics that "
                    "are kept (BatchNorm with track_running_stats)",
                )

    # -- gradients ------------------------------------------------------------------------------------------------------

    def _gradient(self, params: Tree, x: Tensor, slope: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Outputs, and the gradient of their product with ``slope``, as the loop computes it."""
        leaves = self.net.bind(params.clone(), train=params)
        out = self.net(x).reshape(len(x), -1)
        found = torch.autograd.grad((out * slope).sum(), list(leaves.values()), materialize_grads=True)
        for name, gradient in zip(leaves, found, strict=True):
            if gradient.layout != torch.strided:
                raise UserError(f"the gradient of {name} is sparse", fix="use Embedding(sparse=False)")
        return out.detach(), dict(zip(leaves, found, strict=True))

    def _mixes(self) -> bool:
        """Whether samples together give another output, or another gradient, than one by one; dropout layers are off."""
        dropout = [m for m in self.module.modules() if isinstance(m, nn.modules.dropout._DropoutNd) and m.p]
        places = [layer.p for layer in dropout]
        for layer in dropout:
            layer.p = 0.0
        try:
            out, draws = self._pass(self.sets[0], self.x, train=True)
            if draws:  # cannot be compared
                return True
            slope = _noise(1, out.reshape(len(out), -1))
            together, gradient = self._gradient(self.sets[0], self.x, slope)
            alone = [self._gradient(self.sets[0], self.x[i : i + 1], slope[i : i + 1]) for i in range(len(self.x))]
        finally:
            for layer, p in zip(dropout, places, strict=True):
                layer.p = p
        added = {k: torch.stack([g[k] for _, g in alone]).sum(dim=0) for k in gradient}
        return not (self._close(torch.cat([o for o, _ in alone]), together) and self._all_close(added, gradient))

    def _why_not_stacked(self, random: bool, mixes: bool) -> str:
        if random:
            return "draws random numbers (dropout)"
        if mixes:
            return "mixes the samples of a batch"
        if is_tied(self.module):
            return "uses a parameter under two names"  # torch.func does not put it back under both
        for layer in self.module.modules():  # vmap forgets it without a word, and few samples need not show that
            if getattr(layer, "padding_idx", None) is not None:
                return "has an embedding with padding_idx"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # what vmap does by a loop of its own, it warns of
                agrees = self._stack_agrees()
        except Exception as error:
            return f"does not go through torch.func.vmap ({first_line(error)})"
        return "" if agrees else "gives other numbers under torch.func.vmap"

    def _stack_agrees(self) -> bool:
        """Two clients with parameters and samples of their own, stacked, against one after the other."""
        xs = [self.x, self.x.flip(0)]
        two = {k: torch.stack([params[k] for params in self.sets]).requires_grad_() for k in self.sets[0]}
        for train in (False, True):
            self.module.train(train)
            out = self.net.stacked(two, torch.stack(xs)).reshape(2, len(self.x), -1)
            slope = _noise(1, out)
            found = torch.autograd.grad((out * slope).sum(), list(two.values()), materialize_grads=True)
            for client, (params, x) in enumerate(zip(self.sets, xs, strict=True)):
                alone, gradient = self._gradient(params, x, slope[client])
                here = {k: g[client] for k, g in zip(two, found, strict=True)}
                if not (self._close(out[client].detach(), alone) and self._all_close(here, gradient)):
                    return False
        return True

    # -- the head -------------------------------------------------------------------------------------------------------

    def _headed(self, trained: bool) -> bool:
        """The head comes last, once, with one input, and what it gets to see does not depend on it."""
        if self.head is None or not self._head_is_its_own():
            return False
        head = Net(self.head, self.head_prefix, [n for n in self.statistics if n.startswith(self.head_prefix)])
        one, other = self.sets
        for train in (False, True) if trained else (False,):
            seen: list[tuple[tuple[Any, ...], Tensor, Tensor]] = []
            hook = self.head.register_forward_hook(
                lambda _m, args, o, seen=seen: seen.append((copy.deepcopy(args), o, o.clone()))
            )
            try:
                self._pass(one | other.select(self.head_names), self.x, train)  # with another head
                out, _ = self._pass(one, self.x, train)
            finally:
                hook.remove()
            if len(seen) != 2 or len(seen[0][0]) != 1 or not isinstance(seen[0][0][0], Tensor):
                return False
            (features,), _, _ = seen[0]
            if seen[1][1] is not out or not torch.equal(seen[1][2], out):
                return False  # something happens to its output
            head.bind(one.clone())
            with torch.no_grad():
                if not self._close(head(features), out):
                    return False
        return True

    def _head_is_its_own(self) -> bool:
        """All of the head's parameters have the head's name, so that none is tied to the body's."""
        assert self.head is not None
        named = {id(p): name for name, p in self.module.named_parameters()}
        return all(named[id(p)].startswith(self.head_prefix) for p in self.head.parameters())

    # -- comparisons ----------------------------------------------------------------------------------------------------

    def _close(self, a: Tensor, b: Tensor) -> bool:
        if a.shape != b.shape:
            return False
        finite = b[b.isfinite()]
        largest = float(finite.abs().max()) if finite.numel() else 0.0
        tolerance = 1e-7 if self.dtype == torch.float64 else 1e-3
        return torch.allclose(a, b, rtol=0, atol=tolerance * largest + 1e-12, equal_nan=True)

    def _all_close(self, a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> bool:
        return all(self._close(a[k], b[k]) for k in b)


@contextmanager
def _no_trace() -> Iterator[None]:
    """Whatever is drawn within, from whichever generator, nobody outside notices."""
    ours, theirs = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        np.random.set_state(ours)  # noqa: NPY002
        random.setstate(theirs)


def _noise(seed: int, like: Tensor) -> Tensor:
    draws = torch.Generator().manual_seed(seed)
    return torch.randn(like.shape, generator=draws, dtype=torch.float64).to(like)


def _leaves_a_trace(kind: str, name: str, train: bool) -> UserError:
    when = "training" if train else "evaluation"
    if kind == "buffer" and train:
        return UserError(
            f"a pass in training changes the buffer {name!r}, and what becomes of it must be said",
            allowed=f"Model(module, norm='average', buffers=[{name!r}]), or norm='local'",
        )
    if kind == "generator":
        return UserError(f"the model draws from {name} generator", fix="draw from torch's, which a run seeds")
    fix = "a model may remember things in training only, in buffers: register_buffer()"
    if kind == "parameter":
        fix = "leave that out (max_norm of an embedding, ...): only training may change them"
    return UserError(f"a pass in {when} changes the {kind} {name!r}", fix=fix)


def _bytes(value: Tensor) -> bytes:
    return value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def _frozen(value: object) -> object:
    """A copy that can be compared; of what cannot be copied, its identity."""
    if isinstance(value, Tensor):
        return value.shape, _bytes(value)
    if isinstance(value, list | tuple | set | dict):
        parts = value.items() if isinstance(value, dict) else value
        return [_frozen(part) for part in parts]
    try:
        return pickle.dumps(value)
    except Exception:
        return id(value)


def _equal(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.allclose(a, b, rtol=0, atol=0, equal_nan=True)
