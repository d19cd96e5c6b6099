"""Random crops and flips."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from problems import ConvNet, images, ragged, small_net

from manyheads import APFL, DSGD, Engine, FedAvg, FedRep, Model, UserError, simulate
from manyheads.engines.augment import crop_flip, draw_crops, no_crops


def test_crops_are_those_of_the_padded_image():
    x = torch.arange(2 * 3 * 5 * 6, dtype=torch.float32).reshape(2, 3, 5, 6)
    crops = np.array([[1, 6, 0], [4, 4, 1]])
    out = crop_flip(x, torch.from_numpy(crops))
    padded = np.pad(x.numpy(), ((0, 0), (0, 0), (4, 4), (4, 4)))
    np.testing.assert_array_equal(out[0].numpy(), padded[0, :, 1:6, 6:12])
    np.testing.assert_array_equal(out[1].numpy(), x[1].numpy()[:, :, ::-1])
    assert torch.equal(crop_flip(x, torch.from_numpy(no_crops(2))), x)


def test_crops_are_uniform_and_half_are_mirrored():
    crops = draw_crops(np.random.default_rng(0), 20_000)
    assert np.abs(np.bincount(crops[:, 0], minlength=9) / 20_000 - 1 / 9).max() < 0.01
    assert abs(crops[:, 2].mean() - 0.5) < 0.02


@pytest.mark.usefixtures("divided")
@pytest.mark.parametrize(
    "algorithm",
    [FedAvg(epochs=2, batch=5), FedRep(head_epochs=2, batch=5), APFL(batch=5), DSGD(batch=5)],
    ids=lambda a: a.name,
)
def test_augmented_runs_agree_between_modes_and_workers_and_differ_from_plain_ones(algorithm):
    torch.manual_seed(0)
    model = Model(ConvNet(), head="out")
    data = replace(images(), augment=True)
    loop, stacked, two = (
        simulate(algorithm, model, data, rounds=2, engine=e)
        for e in (Engine(mode="loop"), Engine(mode="stacked"), Engine(mode="loop", workers=2))
    )
    assert loop.checksum == two.checksum
    plain = simulate(algorithm, model, images(), rounds=2, engine=Engine(mode="loop"))
    for name, value in next(iter(loop.server.values())).items():
        torch.testing.assert_close(value, next(iter(stacked.server.values()))[name], atol=1e-5, rtol=1e-4)
    assert plain.checksum != loop.checksum


def test_only_images_can_be_augmented():
    with pytest.raises(UserError, match="only images can be cropped"):
        simulate(FedAvg(), small_net(), replace(ragged(), augment=True), rounds=1)
