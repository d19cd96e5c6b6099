"""A module that computes with parameters given from outside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from torch import Tensor, nn
from torch.func import functional_call, vmap

from manyheads.core.errors import UserError
from manyheads.models.chain import Chain

__all__ = ["Net", "is_tied", "norm_leaves", "statistics_of"]


class Net:
    """A model's module, or its head alone with the head's name as ``prefix`` of its parameters' names."""

    def __init__(
        self, module: nn.Module, prefix: str = "", statistics: Iterable[str] = (), chain: Chain | None = None
    ) -> None:
        self.module, self.prefix = module, prefix
        self._own = {prefix + name: p for name, p in module.named_parameters()}
        self._statistics = {name: _owner(module, name.removeprefix(prefix)) for name in statistics}
        self.chain = chain or Chain.of(module, prefix)
        """its layers, if it is a plain chain"""

    def bind(self, params: Mapping[str, Tensor], train: Iterable[str] = ()) -> dict[str, Tensor]:
        """Make the module use these tensors (not copies of them); returns those named in ``train``, as leaves."""
        chosen = set(train)
        for name, own in self._own.items():
            if name in params:
                own.data = params[name]
                own.requires_grad_(name in chosen)
        for name, (layer, buffer) in self._statistics.items():
            if name in params:  # clone those not in ``train``: a training pass changes them in place
                layer._buffers[buffer] = params[name] if name in chosen else params[name].clone()
        return {name: own for name, own in self._own.items() if name in chosen}

    @property
    def statistics(self) -> dict[str, Tensor]:
        """The running statistics after the last pass, read from the layers since some replace the tensors."""
        return {name: layer.get_buffer(buffer).detach() for name, (layer, buffer) in self._statistics.items()}

    def __call__(self, x: Tensor) -> Tensor:
        out: Tensor = self.module(x.clone())  # a forward that writes into its input must not reach the samples
        return out

    def stacked(self, params: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """Outputs [C, B, ...] of C models for inputs [C, B, ...]; ``params`` are [C, ...], others the module's own."""
        if self.chain is not None and x.ndim == 3:
            return self.chain.stacked(params, x)  # faster than vmap on small models
        own = {k.removeprefix(self.prefix): v for k, v in params.items()}
        outputs: Tensor = vmap(lambda p, v: functional_call(self.module, p, (v,)))(own, x)
        return outputs


def is_tied(module: nn.Module) -> bool:
    """Whether a parameter has several names (tied weights)."""
    return len(list(module.named_parameters(remove_duplicate=False))) != len(list(module.parameters()))


def statistics_of(module: nn.Module) -> Iterator[str]:
    """The names of the running statistics of norm layers."""
    for name, layer in module.named_modules():
        if isinstance(layer, nn.modules.batchnorm._NormBase) and layer.track_running_stats:
            if layer.momentum is None:
                raise UserError(
                    f"the norm layer {name!r} counts its batches, and clients that average cannot share a count",
                    given="momentum=None",
                    fix="give it a momentum, such as 0.1",
                )
            yield from (f"{name}.{buffer}".lstrip(".") for buffer in ("running_mean", "running_var"))


def norm_leaves(module: nn.Module, leaves: Iterable[str]) -> Iterator[str]:
    """Those parameters and buffers that belong to norm layers."""
    norms = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)
    layers = {name for name, layer in module.named_modules() if isinstance(layer, norms)}
    yield from (leaf for leaf in leaves if leaf.rpartition(".")[0] in layers)


def _owner(module: nn.Module, name: str) -> tuple[nn.Module, str]:
    layer, _, buffer = name.rpartition(".")
    return module.get_submodule(layer), buffer
