"""The first linear layer of a chain, trained by SGD as coefficients of the client's own samples.

Shapes: C clients, B samples of a batch, T steps, N samples of a client, I inputs and O outputs of the layer.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from manyheads.core.optim import SGD
from manyheads.engines.descent import Descent, Pull, Terms
from manyheads.engines.layers import Start, Steps, first_of, product

__all__ = ["Dual"]


class Dual:
    """The first layer, with its weight expressed by coefficients of the client's own samples.

    All steps add multiples of the samples to the rows of W, of W itself (a pull, decay) and of a constant K (a pull's
    anchor, a correction). So ``W = p W_0 + q K - A^T X`` with A [N, O] and two numbers, and the layer's outputs are
    ``X W^T = p X W_0^T + q X K^T - (X X^T) A``. While N is well below the number of inputs, A is much smaller than W.
    """

    def __init__(
        self,
        start: Start,
        opt: SGD,
        steps: Steps,
        prox: Pull | None = None,
        correction: Mapping[str, Tensor] | None = None,
    ) -> None:
        own = np.arange(int(steps.sizes.max()))
        rows_CN = steps.starts[:, None] + np.where(own < steps.sizes[:, None], own, 0)
        self._x = steps.x[torch.from_numpy(rows_CN).to(steps.x.device)].flatten(2)
        self._start, self._opt = start, opt
        self._bias = start.copied("bias", start.bias)
        bias = {"bias": start.into["bias"]} if "bias" in start.into else {}
        self._descent = Descent(opt, bias, prox, correction)
        self._shrink, self._constant = Terms.of(opt, "weight", 3, prox, correction)
        self._share = Share(opt, self._shrink)
        self._outputs = product(self._x, start.weight.mT).flatten(0, 1)
        constant = self._constant
        self._constant_outputs = None if constant is None else product(self._x, constant.mT).flatten(0, 1)
        self._gram = torch.bmm(self._x, self._x.transpose(1, 2)).flatten(0, 1)
        self._a = torch.zeros_like(self._outputs).view(*self._x.shape[:2], -1)
        self._velocity = torch.zeros_like(self._a) if opt.momentum else None

    def rows(self, steps: Steps) -> Tensor:
        """The rows of the steps, as numbers into the clients' padded samples [C * N]."""
        places = np.arange(len(steps.starts)) * self._a.shape[1]
        start_C1, place_C1 = (torch.from_numpy(v).to(self._a.device)[:, None] for v in (steps.starts, places))
        return (steps.rows_TCB - start_C1).clamp_(min=0) + place_C1  # padding may be any row: its weight is 0

    def forward(self, h: Tensor) -> Tensor:
        self._rows = h
        out = self._outputs[h]
        if self._shrinks:
            out.mul_(self._share.start)
        if self._constant_outputs is not None:
            _add(out, self._constant_outputs[h], self._share.constant)
        out.baddbmm_(self._gram[h], self._a, alpha=-1)
        return out if self._bias is None else out.add_(self._bias.unsqueeze(-2))

    def down(self, slope: Tensor) -> Tensor:
        raise NotImplementedError("nothing is trained below the first layer")

    def move(self, slope: Tensor) -> None:
        if self._descent.params:
            self._descent.move(0, slope.sum(dim=1))
        self._share.step()
        rows, slopes = self._rows.flatten(), slope.flatten(0, 1)
        if self._velocity is None:
            if self._shrinks:
                self._a.mul_(1 - self._opt.lr * self._shrink)
            self._a.flatten(0, 1).index_add_(0, rows, slopes, alpha=self._opt.lr)
            return
        self._velocity.mul_(self._opt.momentum)
        if self._shrinks:
            _add(self._velocity, self._a, -self._shrink)
        self._velocity.flatten(0, 1).index_add_(0, rows, slopes)
        self._a.add_(self._velocity, alpha=self._opt.lr)

    @property
    def _shrinks(self) -> bool:
        return isinstance(self._shrink, Tensor) or self._shrink != 0

    def narrow(self, clients: int) -> None:
        self._write_trained(slice(clients, len(self._a)))
        self._descent.narrow(clients)
        self._bias = first_of(clients, self._bias, 2)
        self._a, self._x = self._a[:clients], self._x[:clients]
        self._velocity = None if self._velocity is None else self._velocity[:clients]
        self._constant = first_of(clients, self._constant, 3)
        self._shrink = self._shrink[:clients] if isinstance(self._shrink, Tensor) else self._shrink
        self._share.narrow(clients)

    def _write_trained(self, leaving: slice) -> None:
        """Write the weights of these clients to the memory for trained values."""
        weight, constant = self._start.weight, self._constant
        weight = weight[leaving] if weight.ndim == 3 else weight
        kept, share = (v[leaving] if isinstance(v, Tensor) else v for v in (self._share.start, self._share.constant))
        into = self._start.into["weight"][leaving]
        beta = 1.0 if isinstance(kept, Tensor) else kept
        weight = weight * kept if isinstance(kept, Tensor) else weight
        torch.baddbmm(weight, self._a[leaving].mT, self._x[leaving], beta=beta, alpha=-1, out=into)
        if constant is not None:
            _add(into, constant[leaving] if constant.ndim == 3 else constant, share)


class Share:
    """How much of its start and of the constant K a weight and its velocity consist of, beside the samples.

    ``W = p W_0 + q K + ...`` and ``V = r W_0 + s K + ...``; a step takes ``V <- m V + shrink W + K`` and
    ``W <- W - lr V``. Numbers, or tensors [C, 1, 1] if the shrinkage differs between clients.
    """

    def __init__(self, opt: SGD, shrink: float | Tensor) -> None:
        self._opt, self._shrink = opt, shrink
        zero = 0 * shrink
        self.start, self.constant = 1 + zero, zero
        self._velocity = zero, zero

    def step(self) -> None:
        p, q, (r, s), m = self.start, self.constant, self._velocity, self._opt.momentum
        self._velocity = m * r + self._shrink * p, m * s + self._shrink * q + 1
        self.start, self.constant = (w - self._opt.lr * v for w, v in zip((p, q), self._velocity, strict=True))

    def narrow(self, clients: int) -> None:
        p, q, (r, s) = self.start, self.constant, self._velocity
        self._shrink, self.start, self.constant, r, s = (
            v[:clients] if isinstance(v, Tensor) else v for v in (self._shrink, p, q, r, s)
        )
        self._velocity = r, s


def _add(value: Tensor, term: Tensor, scale: float | Tensor) -> None:
    """Add a multiple, in place."""
    if isinstance(scale, Tensor):
        value.addcmul_(term, scale)
    else:
        value.add_(term, alpha=scale)
