"""Survival data with known answers, for several tests."""

from __future__ import annotations

import numpy as np

from manyheads import Federation

TRUE = np.array([1.0, -0.5, 0.0])
"""the log hazard ratio of each feature"""
REMISSION = np.array(
    [(6, 1), (6, 1), (6, 1), (6, 0), (7, 1), (9, 0), (10, 1), (10, 0), (11, 0), (13, 1), (16, 1), (17, 0), (19, 0),
     (20, 0), (22, 1), (23, 1), (25, 0), (32, 0), (32, 0), (34, 0), (35, 0)], float
)  # fmt: skip
"""weeks of remission and whether it ended, of 21 patients with 6-mercaptopurine (Freireich et al. 1963)"""
PLACEBO = np.array([(t, 1) for t in (1, 1, 2, 2, 3, 4, 4, 5, 5, 8, 8, 8, 8, 11, 11, 12, 12, 15, 17, 22, 23)], float)
"""the same of 21 patients without"""


def subjects(rng: np.random.Generator, count: int, scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Features and (time, event): the hazard is ``exp(x b) / scale``; about a third is censored."""
    x = rng.normal(size=(count, len(TRUE)))
    time, censored = rng.exponential(scale * np.exp(-x @ TRUE)), rng.exponential(2 * scale, size=count)
    return x, np.stack([np.minimum(time, censored), time <= censored], axis=1)


def sites(sizes: tuple[int, ...], test_fraction: float = 0.2) -> Federation:
    """Sites with one set of hazard ratios, and baseline hazards that differ tenfold."""
    rng = np.random.default_rng(0)
    clients = [subjects(rng, n, scale=10.0**i) for i, n in enumerate(sizes)]
    return Federation.from_clients(clients, task="survival", test_fraction=test_fraction, name="trial")
