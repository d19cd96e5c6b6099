"""Features of classes, the inputs of a model's head: what a cohort tells of them, and a loss on them.

Shapes: C clients, K classes, D features.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

__all__ = ["Align", "ClassFeatures"]


class ClassFeatures(NamedTuple):
    """The features of each client's training samples, class by class."""

    counts: Tensor
    """samples, [C, K]"""
    means: Tensor
    """[C, K, D]; 0 without samples"""
    squares: Tensor
    """mean of the squared norm, [C, K]; 0 without samples"""


class Align(NamedTuple):
    """A pull of features to the centre of their class: adds ``weight[y] mean_d (z_d - centroid[y]_d)^2`` to a sample's loss."""

    weight: Tensor
    """[K], the same for all clients; 0: classes of which nothing is known"""
    centroids: Tensor
    """[K, D]"""

    def losses_and_slopes(self, z: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """What is added to every sample's loss, and its gradient with respect to the features, [..., D]."""
        away, weight = z - self.centroids[labels], self.weight[labels]
        return weight * away.square().mean(dim=-1), away * (2 / z.shape[-1] * weight).unsqueeze(-1)
