"""A model: any ``nn.Module`` with a named head."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Literal

from torch import Tensor, nn

from manyheads.core.errors import UserError, one_of
from manyheads.core.tasks import task_named
from manyheads.core.trees import Params, Tree
from manyheads.models.copied import copied
from manyheads.models.net import Net, norm_leaves, statistics_of
from manyheads.models.trial import Verdict, try_out
from manyheads.models.tried import TriedModel

__all__ = ["Model"]


class Model:
    """Any ``nn.Module`` with the head named by a prefix of its parameters' names.

    Parameters that do not require a gradient are constants: never trained, never sent. ``head=()`` says that there is
    no head: everything is shared. Without ``head``, a last layer that is ``nn.Linear`` is taken.

    Batch norm keeps running statistics, and what becomes of them must be said: ``norm="average"`` treats them like
    parameters of the body (as FedAvg does), ``norm="local"`` makes the norm layers, statistics and all, part of what
    stays with the client (FedBN; needs a method with personal parameters, such as FedPer). ``buffers`` names other
    buffers that a pass in training changes, such as a running mean of your own; they are treated alike.

    >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    >>> list(Model(net, head="2").params.head)
    ['2.weight', '2.bias']
    """

    def __init__(
        self,
        module: nn.Module,
        head: str | Sequence[str] | None = None,
        norm: Literal["average", "local"] | None = None,
        buffers: Sequence[str] = (),
    ) -> None:
        self.module = module = copied(module)
        trained = {k: p for k, p in module.named_parameters() if p.requires_grad}
        if not trained:
            raise UserError("the model has no trainable parameters")
        norms = list(statistics_of(module))
        statistics = list(dict.fromkeys([*norms, *self._declared(buffers)]))
        if statistics and norm is None:
            kind = "batch norm, whose running statistics" if norms else "buffers that training changes, which"
            raise UserError(
                f"the model has {kind} can be averaged or stay with the client",
                allowed="norm='average' (as FedAvg does), norm='local' (FedBN)",
                fix="or use GroupNorm or LayerNorm, which have none",
            )
        self.statistics = frozenset(statistics)
        """names of the parameters that are running statistics"""
        self.smallest_batch = 2 if norms else 1
        """least samples in a batch: batch norm cannot be trained on a single one"""
        self.norm = norm if statistics else None
        prefixes = self._head_prefixes(trained, head)
        if self.norm == "local":
            prefixes += list(dict.fromkeys(k.rpartition(".")[0] or k for k in statistics))
        leaves = {k: p.detach().clone() for k, p in trained.items()}
        leaves |= {k: module.get_buffer(k).clone() for k in statistics}
        in_head = {k for k in leaves if any(k == p or k.startswith(f"{p}.") for p in prefixes)}
        body, own = Tree(leaves).select(leaves.keys() - in_head), Tree(leaves).select(in_head)
        self.params = Params(body, own, frozenset(norm_leaves(module, leaves)))
        self.net = Net(module, statistics=statistics)
        self._prefixes = prefixes

    def _head_prefixes(self, trained: Mapping[str, Tensor], head: str | Sequence[str] | None) -> list[str]:
        layers = list(dict.fromkeys(k.rpartition(".")[0] or k for k in trained))
        if head is None:
            if isinstance(self.module, nn.Linear):
                return list(trained)
            if not isinstance(self.module.get_submodule(layers[-1]) if layers[-1] not in trained else None, nn.Linear):
                raise UserError(
                    "the model has no clear head",
                    allowed=f"head=... with one of its layers: {', '.join(layers)}",
                    fix="or head=() to share everything",
                )
            return layers[-1:]
        prefixes = [head] if isinstance(head, str) else list(head)
        for prefix in prefixes:
            if not any(k == prefix or k.startswith(f"{prefix}.") for k in trained):
                raise one_of("head", prefix, layers)
        return prefixes

    def _declared(self, buffers: Sequence[str]) -> Sequence[str]:
        known = dict(self.module.named_buffers())
        for name in buffers:
            if name not in known:
                raise one_of("buffer", name, known)
            if not known[name].is_floating_point():
                raise UserError(f"the buffer {name!r} holds no real numbers, so it has no mean over clients")
        return buffers

    @property
    def head_layer(self) -> str:
        """The name of the head, if it is one layer or block; else empty."""
        return self._prefixes[0] if len(self._prefixes) == 1 else ""

    def tried(self, x: Tensor, task: str, outputs: int) -> TriedModel:
        """Find out on a few samples how the model may be run; an error if its output does not fit the labels."""
        head = self.head_layer

        def check_output(out: object, samples: int) -> None:
            task_named(task).check_output(out, samples, outputs)

        verdict = try_out(self.module, self.params, self.statistics, head, x, check_output)
        head_net = None
        if verdict.headed:
            within = [name for name in self.statistics if name.startswith(f"{head}.")]
            head_net = Net(self.module.get_submodule(head), f"{head}.", within)
        chain = verdict.chain and verdict.chain.within(self.module)
        return self._run_by(verdict, Net(self.module, statistics=self.statistics, chain=chain), head_net)

    def untried(self) -> TriedModel:
        """The model without a trial: run in the way that is always right, client after client and batch by batch."""
        return self._run_by(
            Verdict(random=False, mixes=True, unstackable="was not tried", headed=False), self.net, None
        )

    def _run_by(self, verdict: Verdict, net: Net, head_net: Net | None) -> TriedModel:
        drops = any(isinstance(m, nn.modules.dropout._DropoutNd) and m.p > 0 for m in self.module.modules())
        return TriedModel(
            self.module,
            net,
            self.params,
            self.statistics,
            self.norm,
            self.smallest_batch,
            random=drops or verdict.random,
            mixes=verdict.mixes,
            unstackable=verdict.unstackable,
            head_net=head_net,
            convolved=verdict.convolved,
        )

    def module_with(self, params: Mapping[str, Tensor]) -> nn.Module:
        """A copy of the module with these parameters and running statistics, in evaluation mode."""
        self.net.bind(params)
        module = copy.deepcopy(self.module).eval()
        for name, parameter in module.named_parameters():
            parameter.requires_grad_(name in self.params.all)
        return module
