"""Collins et al. 2021: FedRep learns the shared linear representation at a linear rate, from few samples per client."""

from manyheads.theory.collins2021.paper import Collins2021

__all__ = ["Collins2021"]
