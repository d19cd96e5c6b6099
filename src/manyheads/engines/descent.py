"""Optimizers that update parameter tensors in place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from manyheads.core.optim import SGD, TorchOptimizer, decays

__all__ = ["Descent", "Pull", "Terms", "TorchDescent", "gradients"]

Pull = tuple[float | Tensor, Mapping[str, Tensor]]
"""strength (one number, or one for each client) and anchor of a proximal term"""
Grads = Sequence[Tensor | None]
"""None where the loss does not depend on a parameter; as in torch.optim, such a parameter does not decay either"""


class Descent:
    """SGD with momentum, for one client or a stack, optionally with a proximal term and a gradient correction.

    What a step adds to the gradient, ``mu (w - anchor) + correction + weight_decay w``, is ``shrink w + constant``: a
    factor of the weight, and a constant that is computed once. Both are applied in place.
    """

    def __init__(
        self,
        opt: SGD,
        params: Mapping[str, Tensor],
        prox: Pull | None = None,
        correction: Mapping[str, Tensor] | None = None,
    ) -> None:
        self.opt = opt
        self.params = list(params.values())
        self.velocity = [torch.zeros_like(p) for p in self.params] if opt.momentum else []
        terms = [Terms.of(opt, name, p.ndim, prox, correction) for name, p in params.items()]
        self.shrink, self.constant = [of.shrink for of in terms], [of.constant for of in terms]
        self._pulled = bool(prox) or correction is not None

    def narrow(self, clients: int) -> None:
        """Restrict all further steps to the first ``clients`` clients of the stack."""
        whole = [p.ndim for p in self.params]
        self.params, self.velocity = ([v[:clients] for v in group] for group in (self.params, self.velocity))
        self.shrink = [s[:clients] if isinstance(s, Tensor) and s.ndim else s for s in self.shrink]
        self.constant = [
            c[:clients] if c is not None and c.ndim == n else c for c, n in zip(self.constant, whole, strict=True)
        ]

    @torch.no_grad()
    def step(self, grads: Grads) -> None:
        for place, grad in enumerate(grads):
            if grad is not None:
                self.move(place, grad)
            elif self._pulled:
                self.move(place, torch.zeros_like(self.params[place]))

    def move(self, place: int, grad: Tensor) -> None:
        """Update the parameter at index ``place``, given the gradient of the loss."""
        if self.velocity:
            self.velocity[place].mul_(self.opt.momentum).add_(grad)
            self._follow(place)
            return
        shrink = self.shrink[place]
        if isinstance(shrink, Tensor) or shrink:
            self.params[place].mul_(1 - self.opt.lr * shrink)
        self.params[place].add_(grad, alpha=-self.opt.lr)
        self._drift(place)

    def move_by_product(self, place: int, left: Tensor, right: Tensor) -> None:
        """As :meth:`move`, for stacked matrices whose gradient is ``left @ right``; the product is never stored."""
        if self.velocity:
            self.velocity[place].baddbmm_(left, right, beta=self.opt.momentum)
            self._follow(place)
            return
        kept = 1 - self.opt.lr * self.shrink[place]
        if isinstance(kept, Tensor):
            self.params[place].mul_(kept)
            kept = 1.0
        self.params[place].baddbmm_(left, right, beta=kept, alpha=-self.opt.lr)
        self._drift(place)

    def _follow(self, place: int) -> None:
        """Add the other terms to the velocity, which has the gradient already, and move the parameter by it."""
        velocity, param = self.velocity[place], self.params[place]
        shrink, constant = self.shrink[place], self.constant[place]
        if isinstance(shrink, Tensor):
            velocity.addcmul_(param, shrink)
        elif shrink:
            velocity.add_(param, alpha=shrink)
        if constant is not None:
            velocity.add_(constant)
        param.add_(velocity, alpha=-self.opt.lr)

    def _drift(self, place: int) -> None:
        constant = self.constant[place]
        if constant is not None:
            self.params[place].add_(constant, alpha=-self.opt.lr)


class Terms(NamedTuple):
    """What a step adds to the gradient of one parameter, ``shrink w + constant``."""

    shrink: float | Tensor
    """one number, or one for each client, with as many dimensions as the parameter"""
    constant: Tensor | None
    """of each client, or one for all"""

    @classmethod
    def of(cls, opt: SGD, name: str, ndim: int, prox: Pull | None, correction: Mapping[str, Tensor] | None) -> Terms:
        """The terms of a parameter of this name, with so many dimensions, that of clients included."""
        decay = opt.weight_decay * decays(name)
        constant = None if correction is None else correction[name]
        if prox is None:
            return cls(decay, constant)
        strength, anchor = prox[0], prox[1][name]
        each = isinstance(strength, Tensor) and strength.ndim == 1
        mu = torch.as_tensor(strength).reshape(-1, *[1] * (ndim - 1)) if each else float(strength)
        pull = -mu * anchor
        return cls(mu + decay, pull if constant is None else pull + constant)


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
