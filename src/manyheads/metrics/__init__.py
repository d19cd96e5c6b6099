"""Measures of results."""

from manyheads.metrics.fairness import spread
from manyheads.metrics.heterogeneity import total_variation, wasserstein1
from manyheads.metrics.representation import (
    LinearCKA,
    class_cosine_similarity,
    layer_distances,
    linear_cka,
    principal_angle_distance,
)

__all__ = [
    "LinearCKA",
    "class_cosine_similarity",
    "layer_distances",
    "linear_cka",
    "principal_angle_distance",
    "spread",
    "total_variation",
    "wasserstein1",
]
