"""Deng et al. 2022: what the theory of Local SGD on deep ReLU networks says of a run, and what the run does."""

from manyheads.theory.deng2022.paper import Deng2022

__all__ = ["Deng2022"]
