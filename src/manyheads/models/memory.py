"""What a client remembers of its training samples, and how its nearest ones have a say in a prediction."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["Memory", "WithMemory", "mixed", "nearest"]

SLICE = 1024
"""samples whose distances to all that is remembered are in memory at once"""


class Memory(nn.Module):
    """Features and answers of one client's training samples, mixed into a network's outputs.

    ``weight * kNN(z) + (1 - weight) * h(x)``: kNN is the mean of the answers of the ``neighbours`` samples with the nearest
    features, weighted by exp(-distance / scale). With ``classes``, probabilities are mixed, and the outputs are their logs.
    """

    features: Tensor
    answers: Tensor

    def __init__(
        self, features: Tensor, answers: Tensor, *, neighbours: int, scale: float, weight: float, classes: bool
    ) -> None:
        super().__init__()
        self.register_buffer("features", features)
        self.register_buffer("answers", answers)
        self.neighbours, self.scale, self.weight, self.classes = neighbours, scale, weight, classes

    @property
    def settings(self) -> dict[str, Any]:
        """What it is made with besides features and answers, as plain values."""
        names = ("neighbours", "scale", "weight", "classes")
        return {name: getattr(self, name) for name in names}

    def forward(self, z: Tensor, out: Tensor) -> Tensor:
        """The outputs for samples with features ``z``, from the network's outputs for them."""
        if not self.weight:  # the network's own, to the last bit
            return out
        near = nearest(z, self.features, self.answers, self.neighbours, self.scale)
        return mixed(out, near, self.weight, self.classes)


def nearest(
    z: Tensor, features: Tensor, answers: Tensor, neighbours: int, scale: float, own: Tensor | None = None
) -> Tensor:
    """The mean answer of the nearest samples, [B, O]; ``own`` is the row of each that is not asked, [B].

    Distances are computed in double precision: as differences of large numbers, they would lose theirs.
    """
    z, known = z.double(), features.double()
    squared_BN = z.square().sum(1, keepdim=True) + known.square().sum(1) - 2 * z @ known.T
    if own is not None:
        squared_BN = squared_BN.scatter(1, own[:, None], torch.inf)
    found = squared_BN.clamp_min(0).topk(min(neighbours, len(features) - (own is not None)), largest=False)
    share_BK = (-found.values.sqrt() / scale).softmax(1)
    return (share_BK[..., None] * answers[found.indices]).sum(1).to(answers.dtype)


def mixed(out: Tensor, near: Tensor, weight: float, classes: bool) -> Tensor:
    """A network's outputs and its neighbours' answers: the logs of mixed probabilities, or mixed values."""
    near = near.reshape(out.shape)
    if not classes:
        return weight * near + (1 - weight) * out
    shares = weight * near + (1 - weight) * out.softmax(1)
    return shares.clamp_min(torch.finfo(shares.dtype).tiny).log()


class WithMemory(nn.Module):
    """A network and what its client remembers, as one module. ``head`` names the layer that reads the features.

    Without a name, the features are the inputs.
    """

    def __init__(self, network: nn.Module, head: str, memory: Memory) -> None:
        super().__init__()
        self.network, self.head, self.memory = network, head, memory

    def forward(self, x: Tensor) -> Tensor:
        if not self.head:
            return self.memory(x.flatten(1), self.network(x))
        seen: list[Tensor] = []
        layer = self.network.get_submodule(self.head)
        hook = layer.register_forward_pre_hook(lambda _m, args: seen.append(args[0]))
        try:
            out = self.network(x)
        finally:
            hook.remove()
        return self.memory(seen[0].flatten(1), out)
