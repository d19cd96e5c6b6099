"""Optimizers at work, on tensors that are theirs to change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from manyheads.core.optim import SGD, TorchOptimizer

__all__ = ["Descent", "Pull", "TorchDescent", "gradients"]

Pull = tuple[float | Tensor, Mapping[str, Tensor]]
"""strength, one or a client's each, and anchor of a proximal term"""
Grads = Sequence[Tensor | None]
"""None: the loss does not depend on that parameter, which then does not decay either, as with torch's own optimizers"""


class Descent:
    """SGD with momentum, for one client or a stack of them, optionally with a proximal pull and a gradient correction."""

    def __init__(
        self,
        opt: SGD,
        params: Mapping[str, Tensor],
        prox: Pull | None = None,
        correction: Mapping[str, Tensor] | None = None,
    ) -> None:
        self.opt = opt
        self.params = list(params.values())
        self.decay = [opt.weight_decay * (not name.endswith("bias")) for name in params]
        self.velocity = [torch.zeros_like(p) for p in self.params] if opt.momentum else []
        self.anchor = [prox[1][name] for name in params] if prox else []
        self.mu = [_beside(prox[0], p) for p in self.params] if prox else []
        self.correction = [correction[name] for name in params] if correction is not None else []

    @property
    def unmodified(self) -> bool:
        """The direction is the gradient itself: no pull, no correction, no decay."""
        return not (self.anchor or self.correction or self.opt.weight_decay)

    def narrow(self, clients: int) -> None:
        """From here on, only the first ``clients`` clients of the stack move."""
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
        """Move one parameter in this direction, without pull, correction and decay."""
        if self.velocity:
            grad = self.velocity[place].mul_(self.opt.momentum).add_(grad)
        self.params[place].add_(grad, alpha=-self.opt.lr)

    def move_by_product(self, place: int, left: Tensor, right: Tensor) -> None:
        """The same for a stack of matrices whose gradient is ``left @ right``, which is never formed."""
        if self.velocity:
            self.velocity[place].baddbmm_(left, right, beta=self.opt.momentum)
            self.params[place].add_(self.velocity[place], alpha=-self.opt.lr)
        else:
            self.params[place].baddbmm_(left, right, alpha=-self.opt.lr)


class TorchDescent:
    """An optimizer of torch's own, for one client."""

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
    """A number per client, shaped to multiply a stack."""
    return scale.reshape(-1, *[1] * (value.ndim - 1)) if isinstance(scale, Tensor) and scale.ndim else scale
