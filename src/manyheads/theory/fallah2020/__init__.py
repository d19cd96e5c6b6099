"""Fallah et al. 2020: what the theory of Per-FedAvg says of a run, and what the run does."""

from manyheads.theory.fallah2020.paper import Fallah2020

__all__ = ["Fallah2020"]
