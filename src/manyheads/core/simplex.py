"""Weights on the simplex: nonnegative numbers that add up to one."""

from __future__ import annotations

import numpy as np

__all__ = ["combinations"]


def combinations(variances: np.ndarray, points: np.ndarray) -> np.ndarray:
    """For every i the weights on the simplex with the least ``sum_j a_j^2 v_j + |x_i - sum_j a_j x_j|^2``, [N, N].

    ``variances`` v are [N], ``points`` x are [N, F]. That is a quadratic programme, solved by nonnegative least squares:
    ``|A b|^2 + (sum_j b_j - 1)^2`` with b = s a is ``s^2 q(a) + (s - 1)^2``, whose least value ``q / (1 + q)`` grows with
    ``q(a)``. So the direction of the best b is that of the best a.

    >>> combinations(np.array([1.0, 3.0]), np.zeros((2, 5))).round(3).tolist()
    [[0.75, 0.25], [0.75, 0.25]]
    """
    from scipy.optimize import nnls  # slow to import
    from threadpoolctl import threadpool_limits

    count, found = len(variances), np.eye(len(variances))
    with threadpool_limits(limits=1):  # small problems: with more threads they take longer, and differ in the last bit
        _, within = np.linalg.qr(points.T)  # the same distances, in no more than N coordinates
        target = np.append(np.zeros(count + len(within)), 1.0)
        for own in np.flatnonzero(variances > 0):  # without variance, nothing is better than one's own
            scale = variances[own] ** 0.5  # q is at most 1 in this unit, that of one's own alone
            rows = np.concatenate([np.diag(variances**0.5), within[:, [own]] - within]) / scale
            found[own], _ = nnls(np.concatenate([rows, np.ones((1, count))]), target)
    return found / found.sum(axis=1, keepdims=True)
