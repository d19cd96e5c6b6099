"""The trial of a model before a run: finds out on a few samples how it may be run, or refuses it.

The engines move parameters between workers, stack clients, pool their samples and keep a frozen body's features. All of
that is right only for a model whose output is a function of its parameters, its declared statistics, the sample and
torch's random numbers, and of nothing else. So a copy of the model is run, in double precision where that is possible,
with parameters that differ from its own, in training and in evaluation mode, and compared with a plain loop.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from manyheads.core.errors import UserError, first_line
from manyheads.core.trees import Params
from manyheads.models.chain import Chain
from manyheads.models.convolved import convolved
from manyheads.models.net import Net, is_tied
from manyheads.models.probe import Probe, noise
from manyheads.models.seen import chain_seen
from manyheads.models.side_effects import changes, generators_restored, snapshot

__all__ = ["Verdict", "try_out"]

CheckOutput = Callable[[object, int], None]
"""called with an output and its number of samples; raises an error if the output does not fit the labels"""


class Verdict(NamedTuple):
    """How a model may be run."""

    random: bool
    """whether a pass in training draws from torch's generator"""
    mixes: bool
    """whether, in training, the output for a sample depends on the others of its batch"""
    unstackable: str
    """why several clients' models cannot be computed at once; empty if they can"""
    headed: bool
    """whether the output is that of the head, applied to features that do not depend on the head"""
    chain: Chain | None = None
    """the layers, of the tried copy, if the model was found to be a plain chain"""
    convolved: float = 0.0
    """floating-point operations of its convolutions for one sample, divided by the number of its layers"""


def try_out(
    module: nn.Module,
    params: Params,
    statistics: frozenset[str],
    head: str,
    x: Tensor,
    check_output: CheckOutput,
) -> Verdict:
    """Try a model on a few samples; an error if no engine can run it. ``head`` names the submodule to try as head."""
    own = next(iter(params.all.values())).dtype
    with generators_restored():
        for dtype in dict.fromkeys((torch.float64, own)):
            try:
                return _verdict(Probe(module, params.all, statistics, x, dtype), params, head, check_output)
            except UserError:
                raise
            except Exception as error:
                if dtype == own:  # some models are written for single precision only
                    raise UserError(
                        f"the model cannot read the data: {first_line(error)}",
                        given=f"samples of shape {tuple(x.shape[1:])}",
                    ) from error
    raise AssertionError


def _verdict(probe: Probe, params: Params, head: str, check_output: CheckOutput) -> Verdict:
    out, draws = _repeatable_pass(probe, train=False)
    check_output(out, len(probe.x))
    if draws:
        raise UserError(
            "the model draws random numbers in evaluation too",
            fix="draw in training only, as nn.Dropout does: functional.dropout(x, training=self.training)",
        )
    _check_each_sample_alone(probe, out, check_output)
    _, random = _repeatable_pass(probe, train=True)
    mixes = bool(probe.statistics) or _mixes(probe)
    unstackable = _why_not_stacked(probe, random, mixes)
    headed = _is_headed(probe, params, head, train=not random and not mixes)
    chain = None if unstackable else _chain(probe)
    return Verdict(random, mixes, unstackable, headed, chain, 0.0 if unstackable else convolved(probe))


# -- side effects of a pass --------------------------------------------------------------------------------------------


def _repeatable_pass(probe: Probe, train: bool) -> tuple[Tensor, bool]:
    """The output of a pass, and whether it drew random numbers; an error if it has side effects or varies."""
    params, seen = probe.sets[0], []
    allowed = _batch_counters(probe.module) | (probe.statistics if train else frozenset())
    drawn = []
    for _ in range(2):
        probe.net.bind(params.clone(), train=params)
        before = snapshot(probe.module)
        seen.append(probe.forward(params, probe.x, train))
        found = set(changes(before, snapshot(probe.module)))
        drawn.append({changed for changed in found if changed.kind == "generator"})
        for changed in found - drawn[-1]:
            if changed.kind != "buffer" or changed.name not in allowed:
                raise changed.refusal(train)
    for changed in drawn[0] & drawn[1]:  # in one pass alone, it may have been another thread
        raise changed.refusal(train)
    (out, draws), (again, _) = seen
    if isinstance(out, Tensor) and not _equal(again, out):
        raise UserError(
            "two passes of the model with the same weights, samples and seed differ",
            fix="what it computes may depend on its parameters, its buffers and torch's random numbers only",
        )
    return out, draws


def _batch_counters(module: nn.Module) -> frozenset[str]:
    """The names of the buffers in which batch norm counts batches; no output depends on them."""
    return frozenset(
        f"{name}.num_batches_tracked".lstrip(".")
        for name, layer in module.named_modules()
        if isinstance(layer, nn.modules.batchnorm._NormBase)
    )


def _check_each_sample_alone(probe: Probe, out: Tensor, check_output: CheckOutput) -> None:
    """Check that, in evaluation, a sample's output does not depend on the other samples of the batch."""
    for row in range(len(probe.x)):
        try:
            alone, _ = probe.forward(probe.sets[0], probe.x[row : row + 1], train=False)
        except Exception as error:
            raise UserError(f"the model cannot predict for a single sample: {first_line(error)}") from error
        check_output(alone, 1)
        if not probe.close(alone.reshape(out[row].shape), out[row]):
            raise UserError(
                "what the model gives for a sample depends on the others of its batch, in evaluation too",
                fix="a score would depend on who is tested together: use LayerNorm, GroupNorm, or statistics that "
                "are kept (BatchNorm with track_running_stats)",
            )


# -- batches and stacks ------------------------------------------------------------------------------------------------


def _mixes(probe: Probe) -> bool:
    """Whether a batch gives other outputs or gradients than its samples one by one, with dropout layers off."""
    params, x = probe.sets[0], probe.x
    dropout = [m for m in probe.module.modules() if isinstance(m, nn.modules.dropout._DropoutNd) and m.p]
    rates = [layer.p for layer in dropout]
    for layer in dropout:
        layer.p = 0.0
    try:
        out, draws = probe.forward(params, x, train=True)
        if draws:  # random outputs cannot be compared
            return True
        slope = noise(1, out.reshape(len(out), -1))
        together, gradient = probe.gradient(params, x, slope)
        outputs: list[Tensor] = []
        added: dict[str, Tensor] = {}
        for i in range(len(x)):  # added up at once: a gradient of a large model takes a lot of memory
            alone, own = probe.gradient(params, x[i : i + 1], slope[i : i + 1])
            outputs.append(alone)
            for name, value in own.items():
                added[name] = added[name] + value if name in added else value
            del own
    finally:
        for layer, rate in zip(dropout, rates, strict=True):
            layer.p = rate
    return not (probe.close(torch.cat(outputs), together) and probe.all_close(added, gradient))


def _why_not_stacked(probe: Probe, random: bool, mixes: bool) -> str:
    if random:
        return "draws random numbers (dropout)"
    if mixes:
        return "mixes the samples of a batch"
    if is_tied(probe.module):
        return "uses a parameter under two names"  # torch.func does not put it back under both
    for layer in probe.module.modules():  # vmap ignores padding_idx silently, which a few samples may not reveal
        if getattr(layer, "padding_idx", None) is not None:
            return "has an embedding with padding_idx"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # vmap warns where it falls back to a slow loop
            agrees = _stack_agrees(probe, probe.net.stacked)
    except Exception as error:
        return f"does not go through torch.func.vmap ({first_line(error)})"
    return "" if agrees else "gives other numbers under torch.func.vmap"


def _chain(probe: Probe) -> Chain | None:
    """The layers, if the model is a plain chain: as seen in one pass, and then verified."""
    if probe.net.chain is not None:
        return probe.net.chain
    probe.net.bind(probe.sets[0].clone())
    chain = chain_seen(probe.module.eval(), probe.x.clone())
    if chain is None or not chain.reads(probe.x):
        return None
    return chain if _stack_agrees(probe, lambda params, x: chain.stacked(params, x.flatten(2))) else None


def _stack_agrees(probe: Probe, stacked: Callable[[dict[str, Tensor], Tensor], Tensor]) -> bool:
    """Whether two clients, each with its own parameters and samples, give the same stacked as one after the other."""
    xs = [probe.x, probe.x.flip(0)]
    for train in (False, True):
        probe.module.train(train)
        out, slope, found = _stacked_gradient(probe, stacked, torch.stack(xs))
        for client, (params, x) in enumerate(zip(probe.sets, xs, strict=True)):
            alone, gradient = probe.gradient(params, x, slope[client])
            here = {k: g[client] for k, g in found.items()}
            if not (probe.close(out[client], alone) and probe.all_close(here, gradient)):
                return False
            del gradient, here
    return True


def _stacked_gradient(
    probe: Probe, stacked: Callable[[dict[str, Tensor], Tensor], Tensor], x: Tensor
) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Outputs of two clients' models, stacked, noise of their shape, and the gradient of the inner product of the two."""
    two = {k: torch.stack([params[k] for params in probe.sets]).requires_grad_() for k in probe.sets[0]}
    out = stacked(two, x).reshape(2, len(probe.x), -1)
    slope = noise(1, out)
    found = torch.autograd.grad((out * slope).sum(), list(two.values()), materialize_grads=True)
    return out.detach(), slope, dict(zip(two, found, strict=True))


# -- the head ----------------------------------------------------------------------------------------------------------


def _is_headed(probe: Probe, params: Params, name: str, train: bool) -> bool:
    """Whether the head is called once, last, on one input that does not depend on it; also in training if ``train``."""
    module = dict(probe.module.named_modules()).get(name) if name else None
    if module is None or not _has_parameters_of_its_own(probe.module, module, f"{name}."):
        return False
    head = Net(module, f"{name}.", [n for n in probe.statistics if n.startswith(f"{name}.")])
    one, other = probe.sets
    for training in (False, True) if train else (False,):
        seen: list[tuple[tuple[Any, ...], Tensor, Tensor]] = []
        hook = module.register_forward_hook(
            lambda _m, args, o, seen=seen: seen.append((copy.deepcopy(args), o, o.clone()))
        )
        try:
            probe.forward(one | other.select(params.head), probe.x, training)  # with another head
            out, _ = probe.forward(one, probe.x, training)
        finally:
            hook.remove()
        if len(seen) != 2 or len(seen[0][0]) != 1 or not isinstance(seen[0][0][0], Tensor):
            return False
        (features,), _, _ = seen[0]
        if seen[1][1] is not out or not torch.equal(seen[1][2], out):
            return False  # the output is not the head's output, unchanged
        head.bind(one.clone())
        with torch.no_grad():
            if not probe.close(head(features), out):
                return False
    return True


def _has_parameters_of_its_own(whole: nn.Module, head: nn.Module, prefix: str) -> bool:
    """Whether all of the head's parameters have names with the head's prefix, so that none is tied to the body's."""
    named = {id(p): name for name, p in whole.named_parameters()}
    return all(named[id(p)].startswith(prefix) for p in head.parameters())


def _equal(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.allclose(a, b, rtol=0, atol=0, equal_nan=True)
