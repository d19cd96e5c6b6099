"""Random crops and flips of training images, drawn from addressed generators (:mod:`manyheads.core.randomness`)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["crop_flip", "draw_crops", "no_crops"]

PADDING = 4


def draw_crops(rng: np.random.Generator, samples: int) -> np.ndarray:
    """For each sample: where the crop begins in the padded image (row, column), and whether it is mirrored, [N, 3]."""
    corner = rng.integers(0, 2 * PADDING + 1, (samples, 2))
    return np.concatenate([corner, rng.integers(0, 2, (samples, 1))], axis=1)


def no_crops(samples: int) -> np.ndarray:
    """Crops in the form of :func:`draw_crops` that leave every image unchanged, [N, 3]."""
    return np.tile([PADDING, PADDING, 0], (samples, 1))


def crop_flip(x: Tensor, crops: Tensor) -> Tensor:
    """Pad the images [N, C, H, W], then crop and mirror each of them as its row of ``crops`` says."""
    count, channels, height, width = x.shape
    padded = functional.pad(x, [PADDING] * 4)
    rows = crops[:, :1] + torch.arange(height, device=x.device)
    across = torch.arange(width, device=x.device)
    columns = crops[:, 1:2] + torch.where(crops[:, 2:] == 1, across.flip(0), across)
    sample = torch.arange(count, device=x.device)[:, None, None, None]
    channel = torch.arange(channels, device=x.device)[None, :, None, None]
    return padded[sample, channel, rows[:, None, :, None], columns[:, None, None, :]]
