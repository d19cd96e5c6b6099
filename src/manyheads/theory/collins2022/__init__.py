"""Collins et al. 2022: FedAvg with at least two local steps learns the shared representation, D-GD does not."""

from manyheads.theory.collins2022.paper import Collins2022

__all__ = ["Collins2022"]
