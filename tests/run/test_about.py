"""Whose data a run is trained on, as its folder tells."""

from __future__ import annotations

import json

import numpy as np

from manyheads import FedAvg, Federation, load, simulate
from manyheads.core.sealed import write_json
from manyheads.run.about import About
from manyheads.run.directory import RunDirectory

RNG = np.random.default_rng(0)
CLIENTS = [(RNG.normal(size=(n, 2)).astype(np.float32), RNG.integers(0, 2, n)) for n in (10, 20)]
FEDERATION = Federation.from_clients(CLIENTS, test_fraction=0.2, name="heart", client_names=["Basel", "Zürich"])


def test_a_run_and_its_copy_tell_whose_data_it_is(tmp_path):
    run = simulate(FedAvg(), "mlp", FEDERATION.with_validation(0.25, 0), rounds=1, out=tmp_path / "run")
    copy = load(run.save(tmp_path / "copy"))
    told = About(name="heart", clients=2, names=("Basel", "Zürich"), train=18, validation=6, test=6)
    assert run.directory.about() == copy.directory.about() == told
    assert [told.site(0), About(clients=2).site(1)] == ["Basel", "client 1"]


def test_a_folder_of_an_earlier_version_tells_its_warnings(tmp_path):
    folder = tmp_path / "run"
    simulate(FedAvg(), "mlp", FEDERATION, rounds=1, out=folder)
    directory = RunDirectory(folder)
    facts = {k: v for k, v in json.loads((folder / "data.json").read_text()).items() if k not in ("about", "seal")}
    write_json(folder / "data.json", facts | {"warnings": ["few rows"]}, of=directory.settings)
    assert directory.about() == About(warnings=("few rows",))
    assert load(folder).warnings == ("few rows",)
    (folder / "data.json").unlink()
    assert directory.about() == About()
