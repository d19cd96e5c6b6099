"""Survival in six regions: from FLamby's files to tables and a federation with its own test part, or without."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from commands import facts_of
from real_data import DATA, real

from manyheads.core.errors import UserError
from manyheads.data import source_of
from manyheads.data.public.hub import fetch, is_there
from manyheads.data.public.tcga import PATIENTS, REGIONS, SPLIT, TcgaBrca


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A folder with files like FLamby's; the last patient is of no region."""
    monkeypatch.delenv("MANYHEADS_DATA", raising=False)
    folder = tmp_path / "tcga-brca"
    folder.mkdir()
    rng = np.random.default_rng(0)
    patients, split = ['pid,age,"carcinoma, NOS",E,T'], ["pid,fold,fold2"]
    for i in range(73):
        patients.append(f"P{i},{rng.integers(30, 80)},{i % 2},{float(i % 3 == 0)},{rng.integers(0, 900)}.0")
        part = "test" if i % 4 == 0 else "train"
        split.append(f"P{i},{part},{part}_{i // 4 % 6}")
    (folder / PATIENTS).write_text("\n".join(patients) + "\n")
    (folder / SPLIT).write_text("\n".join(split[:-1]) + "\n")
    return tmp_path


def test_a_table_of_all_regions(root, capsys):
    assert not is_there("tcga-brca", root)
    facts = facts_of(capsys, "data", "get", "tcga-brca", "--out", root)
    assert [Path(f["file"]).name for f in facts["files"]] == ["regions.csv"]
    assert is_there("tcga-brca", root)
    table = (root / "tcga-brca" / "regions.csv").read_text()
    assert table.splitlines()[0] == 'region,age,"carcinoma, NOS",time,event,fold'
    assert len(table.splitlines()) == 73
    assert "P4" not in table  # patients are not named
    federation = source_of({"name": str(root / "tcga-brca")}).federation(0)
    assert (federation.name, federation.task, federation.own_test) == ("tcga-brca", "survival", True)
    assert sorted(federation.client_names) == sorted(REGIONS)
    assert (federation.test.sizes.tolist(), federation.train.sizes.tolist()) == ([3] * 6, [9] * 6)


def test_without_its_own_split(root):
    fetch("tcga-brca", root)
    mine = TcgaBrca(path=str(root / "tcga-brca"), division="random", test_fraction=0.5).federation(0)
    assert (mine.own_test, mine.test.sizes.tolist()) == (False, [6] * 6)
    assert mine.columns.features == ("age", "carcinoma, NOS")  # the split is no feature


def test_what_is_not_there(root, tmp_path):
    with pytest.raises(UserError, match=r"put regions.csv into .*: manyheads data get tcga-brca"):
        TcgaBrca(path=str(root / "tcga-brca")).federation(0)
    with pytest.raises(UserError, match=r"put brca.csv, train_test_split.csv into .*; they are in FLamby"):
        fetch("tcga-brca", tmp_path / "empty")
    (root / "tcga-brca" / SPLIT).write_text("name,part\nx,1\n")
    with pytest.raises(UserError, match=r"train_test_split.csv is not FLamby's; it has the columns pid, fold2"):
        fetch("tcga-brca", root)


@real("tcga_brca")
def test_the_real_regions(tmp_path, monkeypatch):
    """As FLamby counts them."""
    monkeypatch.setenv("MANYHEADS_DATA", str(DATA))
    fetch("tcga-brca", tmp_path)
    federation = TcgaBrca(path=str(tmp_path / "tcga-brca"), scaling="none").federation(0)
    order = [federation.client_names.index(region) for region in REGIONS]
    assert federation.train.sizes[order].tolist() == [248, 156, 164, 129, 129, 40]
    assert federation.test.sizes[order].tolist() == [63, 40, 42, 33, 33, 11]
    assert federation.sample_shape == (39,)
    assert sum(part.y[:, 1].sum() for part in (federation.train, federation.test)) == 151
    assert federation.train.x.max() == 90  # years, not scaled
