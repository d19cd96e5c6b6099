"""Optimizers that update parameter tensors in place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from manyheads.core.optim import SGD, TorchOptimizer, decays

__all__ = ["Descent", "Pull", "TorchDescent", "gradients"]

Pull = tuple[float | Tensor, Mapping[str, Tensor]]
"""strength (one number, or one for each client) and anchor of a proximal term"""
Grads = Sequence[Tensor | None]
"""None where the loss does not depend on a parameter; as in torch.optim, such a parameter does not decay either"""


class Descent:
    """SGD with momentum, for one client or a stack, optionally with a proximal term and a gradient correction."""

    def __init__(
        self,
        opt: SGD,
        params: Mapping[str, Tensor],
        prox: Pull | None = None,
        correction: Mapping[str, Tensor] | None = None,
    ) -> None:
        self.opt = opt
        self.params = list(params.values())
        self.decay = [opt.weight_decay * decays(name) for name in params]
        self.velocity = [torch.zeros_like(p) for p in self.params] if opt.momentum else []
        self.anchor = [prox[1][name] for name in params] if prox else []
        self.mu = [_beside(prox[0], p) for p in self.params] if prox else []
        self.correction = [correction[name] for name in params] if correction is not None else []

    @property
    def unmodified(self) -> bool:
        """Whether the gradient is used as it is: no proximal term, no correction, no weight decay."""
        return not (self.anchor or self.correction or self.opt.weight_decay)

    def narrow(self, clients: int) -> None:
        """Restrict all further steps to the first ``clients`` clients of the stack."""
        self.params, self.velocity, self.anchor, self.correction = (
            [v[:clients] for v in group] for group in (self.params, self.velocity, self.anchor, self.correction)
        )
        self.mu = [m[:clients] if isinstance(m, Tensor) and m.ndim else m for m in self.mu]

    @torch.no_grad()
    def step(self, found: Grads) -> None:
        grads = [torch.zeros_like(p) if g is None else g for g, p in zip(found, self.params, strict=True)]
        if self.anchor:
            terms = zip(grads, self.mu, self.params, self.anchor, strict=True)
            grads = [g + m * (p - a) for g, m, p, a in terms]
        if self.correction:
            grads = [g + c for g, c in zip(grads, self.correction, strict=True)]
        if self.opt.weight_decay:
            pulled = bool(self.anchor or self.correction)
            decay = [d if g is not None or pulled else 0.0 for d, g in zip(self.decay, found, strict=True)]
            grads = [g + d * p if d else g for g, d, p in zip(grads, decay, self.params, strict=True)]
        for place, direction in enumerate(grads):
            self.move(place, direction)

    def move(self, place: int, grad: Tensor) -> None:
        """Update the parameter at index ``place`` by ``grad``, without proximal term, correction and decay."""
        if self.velocity:
            grad = self.velocity[place].mul_(self.opt.momentum).add_(grad)
        self.params[place].add_(grad, alpha=-self.opt.lr)

    def move_by_product(self, place: int, left: Tensor, right: Tensor) -> None:
        """As :meth:`move`, for stacked matrices whose gradient is ``left @ right``; the product is never stored."""
        if self.velocity:
            self.velocity[place].baddbmm_(left, right, beta=self.opt.momentum)
            self.params[place].add_(self.velocity[place], alpha=-self.opt.lr)
        else:
            self.params[place].baddbmm_(left, right, alpha=-self.opt.lr)


class TorchDescent:
    """An optimizer of ``torch.optim``, for one client."""

    _CLASSES = {
        "adam": torch.optim.Adam,
        "adamw": torch.optim.AdamW,
        "rmsprop": torch.optim.RMSprop,
        "adagrad": torch.optim.Adagrad,
    }

    def __init__(self, opt: TorchOptimizer, params: Iterable[Tensor]) -> None:
        self.params = list(params)
        self._optimizer = self._CLASSES[opt.name](self.params, lr=opt.lr, weight_decay=opt.weight_decay)

    def step(self, grads: Grads) -> None:
        for p, g in zip(self.params, grads, strict=True):
            p.grad = g
        self._optimizer.step()
        for p in self.params:
            p.grad = None


def gradients(loss: Tensor, params: Sequence[Tensor]) -> Grads:
    """The gradient with respect to each parameter; None where the loss does not depend on it."""
    if not loss.requires_grad:
        return [None] * len(params)
    return torch.autograd.grad(loss, params, allow_unused=True)


def _beside(scale: float | Tensor, value: Tensor) -> float | Tensor:
    """The scale, reshaped to multiply ``value`` client by client if it holds one number per client."""
    return scale.reshape(-1, *[1] * (value.ndim - 1)) if isinstance(scale, Tensor) and scale.ndim else scale
