"""A model: any ``nn.Module`` with a named head."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from manyheads.core.errors import UserError, one_of
from manyheads.core.trees import Params, Tree
from manyheads.models.stacked import is_plain, stacked_forward

__all__ = ["Model", "Net"]

Task = Literal["classification", "regression"]


class Net:
    """A module, or its head alone, whose parameters are lent to it for each computation."""

    def __init__(self, module: nn.Module, prefix: str = "") -> None:
        self.module = module
        self._own = {prefix + name: p for name, p in module.named_parameters()}
        self._statistics = {prefix + name: place for name, place in statistics_of(module).items()}
        self._prefix = prefix
        self._plain = is_plain(module)

    def bind(self, params: Mapping[str, Tensor], train: Iterable[str] = ()) -> dict[str, Tensor]:
        """Let the module compute with these tensors (not copies of them); gives those to ``train``, as leaves."""
        chosen = set(train)
        for name, own in self._own.items():
            if name in params:
                own.data = params[name]
                own.requires_grad_(name in chosen)
        for name, (layer, buffer) in self._statistics.items():
            if name in params:  # a pass in training changes them in place: only those that are to be trained
                layer._buffers[buffer] = params[name] if name in chosen else params[name].clone()
        return {name: own for name, own in self._own.items() if name in chosen}

    def __call__(self, x: Tensor) -> Tensor:
        out: Tensor = self.module(x)
        return out

    def stacked(self, params: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """Outputs of many clients' models at once; see :func:`stacked_forward`."""
        own = {k.removeprefix(self._prefix): v for k, v in params.items()}
        return stacked_forward(self.module, own, x, self._plain)


class Model:
    """Any ``nn.Module`` with the head named by a prefix of its parameters' names.

    Parameters that do not require a gradient are constants: never trained, never sent. ``head=()`` says that there is
    no head: everything is shared. Without ``head``, a last layer that is ``nn.Linear`` is taken.

    Batch norm keeps running statistics, and what becomes of them must be said: ``norm="average"`` treats them like
    parameters of the body (as FedAvg does), ``norm="local"`` makes the norm layers, statistics and all, part of what
    stays with the client (FedBN; needs a method with personal parameters, such as FedPer).

    >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    >>> list(Model(net, head="2").params.head)
    ['2.weight', '2.bias']
    """

    def __init__(
        self,
        module: nn.Module,
        head: str | Sequence[str] | None = None,
        norm: Literal["average", "local"] | None = None,
    ) -> None:
        self.module = module = copy.deepcopy(module)
        trained = {k: p for k, p in module.named_parameters() if p.requires_grad}
        if not trained:
            raise UserError("the model has no trainable parameters")
        statistics = statistics_of(module)
        if statistics and norm is None:
            raise UserError(
                "the model has batch norm, whose running statistics can be averaged or stay with the client",
                allowed="norm='average' (as FedAvg does), norm='local' (FedBN)",
                fix="or use GroupNorm or LayerNorm, which have none",
            )
        self.statistics = frozenset(statistics)
        """names of running statistics among the parameters"""
        self.norm = norm if statistics else None
        prefixes = self._head_prefixes(trained, head)
        if self.norm == "local":
            prefixes += list(dict.fromkeys(k.rpartition(".")[0] for k in statistics))
        leaves = {k: p.detach().clone() for k, p in trained.items()}
        leaves |= {k: layer.get_buffer(buffer).clone() for k, (layer, buffer) in statistics.items()}
        in_head = {k for k in leaves if any(k == p or k.startswith(f"{p}.") for p in prefixes)}
        self.params = Params(Tree(leaves).select(leaves.keys() - in_head), Tree(leaves).select(in_head))
        self.random = any(isinstance(m, nn.modules.dropout._DropoutNd) and m.p > 0 for m in module.modules())
        """a forward pass in training draws random numbers"""
        self.stackable = False
        """several clients' models can be computed at once; found out by :meth:`check`"""
        self.net = Net(module)
        self.head_net: Net | None = None
        """the head alone, if the model's output is the head applied to features"""
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

    def check(self, x: Tensor, task: Task, outputs: int) -> None:
        """Try the model on a few samples: its output must fit the labels. Learns whether features can be kept."""
        self.net.bind(self.params.all.clone())
        head = self._head_module()
        calls: list[tuple[tuple[object, ...], Tensor, Tensor]] = []
        hook = head.register_forward_hook(lambda _m, args, o: calls.append((args, o, o.clone()))) if head else None
        try:
            with torch.no_grad(), torch.random.fork_rng(devices=[]):
                self.module.train(not self.statistics)  # batch norm may refuse so few
                before = torch.get_rng_state()
                self.net(x)
                self.random = self.random or not torch.equal(before, torch.get_rng_state())
                self.module.eval()
                calls.clear()
                out = self.net(x)
        except (RuntimeError, TypeError, ValueError, IndexError, AttributeError) as error:
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise UserError(
                f"the model cannot read the data: {first}", given=f"samples of shape {tuple(x.shape[1:])}"
            ) from None
        finally:
            if hook is not None:
                hook.remove()
        self._check_output(out, len(x), task, outputs)
        self.stackable = self._try_stacked(x, out)
        # the head comes last, once, with one input, and nothing happens to its output
        if (
            head is not None
            and len(calls) == 1
            and len(calls[0][0]) == 1
            and calls[0][1] is out
            and torch.equal(calls[0][2], out)
        ):
            self.head_net = Net(head, f"{self._prefixes[0]}.")

    def _try_stacked(self, x: Tensor, out: Tensor) -> bool:
        """Whether a stack of two gives what the module gives, so that an exotic one is looped over instead."""
        tied = len(list(self.module.named_parameters(remove_duplicate=False))) != len(list(self.module.parameters()))
        if tied or self.statistics:
            return (
                False  # torch.func does not put the parameters of a layer used twice back; statistics change in place
            )
        try:
            with torch.no_grad():
                two = {k: torch.stack([v, v]) for k, v in self.params.all.items()}
                stacked = self.net.stacked(two, torch.stack([x, x]))
        except (RuntimeError, NotImplementedError, TypeError, ValueError):
            return False
        return stacked.shape == (2, *out.shape) and torch.allclose(stacked[1], out, rtol=1e-4, atol=1e-5)

    def _head_module(self) -> nn.Module | None:
        named = dict(self.module.named_modules())
        return named.get(self._prefixes[0]) if len(self._prefixes) == 1 and self._prefixes[0] else None

    @staticmethod
    def _check_output(out: object, samples: int, task: Task, outputs: int) -> None:
        shape = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
        if shape != (samples, outputs) and not (task == "regression" and outputs == 1 and shape == (samples,)):
            kind = f"{outputs} {'classes' if task == 'classification' else 'targets'}"
            raise UserError(
                "the model's output does not fit the labels",
                given=f"outputs of shape {shape[1:]}" if isinstance(shape, tuple) else shape,
                allowed=f"({outputs},) for {task} with {kind}",
            )

    def features(self, body: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """What the head gets to see: its input, with this body."""
        assert self.head_net is not None
        seen: list[Tensor] = []
        hook = self.head_net.module.register_forward_pre_hook(lambda _m, args: seen.append(args[0]))
        self.net.bind(body)
        with torch.no_grad():
            self.net(x)
        hook.remove()
        return seen[0].detach()


def statistics_of(module: nn.Module) -> dict[str, tuple[nn.Module, str]]:
    """Running statistics of norm layers: their names, and where they are."""
    found: dict[str, tuple[nn.Module, str]] = {}
    for name, layer in module.named_modules():
        if isinstance(layer, nn.modules.batchnorm._NormBase) and layer.track_running_stats:
            found |= {f"{name}.{b}".lstrip("."): (layer, b) for b in ("running_mean", "running_var")}
    return found


def losses(task: Task, outputs: Tensor, labels: Tensor) -> Tensor:
    """The loss of every sample: cross entropy, or half the squared error (summed over targets)."""
    if task == "classification":
        return functional.cross_entropy(outputs, labels, reduction="none")
    return 0.5 * (outputs.reshape(len(labels), -1) - labels.reshape(len(labels), -1)).square().sum(dim=1)
