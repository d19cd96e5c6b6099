"""Data as they come: rare labels, a site with one class, a site with eight rows, outliers, a constant column."""

from __future__ import annotations

import numpy as np
import pytest

from manyheads import UserError, compare
from manyheads.data import source_of

FEW = {"methods": ["fedavg"], "rounds": 10, "seeds": 1, "folds": 3, "rates": [0.1], "pooled": False}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Five sites: two with 5 % of the label, one with a single label, one with eight rows, one with outliers."""
    place = tmp_path_factory.mktemp("hard")
    rng = np.random.default_rng(0)
    for name, rows in {"rare 1": 120, "rare 2": 120, "single": 30, "tiny": 8, "wild": 60}.items():
        x = rng.normal(size=(rows, 2))
        y = np.zeros(rows, int) if name == "single" else np.argsort(np.argsort(-x[:, 0])) < max(2, rows // 20)
        if name == "wild":
            x[::7, 1] = 1e6
        lines = [f"{a:.4f},{b:.4f},7,{int(label)}" for (a, b), label in zip(x, y, strict=True)]
        (place / f"{name}.csv").write_text("\n".join(["signal,noise,constant,label", *lines]))
    return place


def test_they_get_a_sensible_answer(folder):
    federation = source_of({"name": str(folder)}).federation(0)
    found = compare(federation, **FEW)
    assert found.score == "auc"
    assert "'1'" in found.reason
    sites = {site.name: site for site in found.sites}
    assert list(sites) == ["rare 1", "rare 2", "single", "tiny", "wild"]
    assert sites["single"].verdict == "unclear"
    assert (
        sites["single"].text == "Nothing can be said: AUC is not defined for its test samples, which are of one kind."
    )
    assert sites["rare 1"].alone > 0.8  # the signal is found at 5 % of a label, where accuracy would be 95 % without
    assert sites["rare 1"].alone_model != "majority"
    for site in ("tiny", "wild"):
        assert np.isfinite(sites[site].gain)
        assert sites[site].interval[0] <= sites[site].gain <= sites[site].interval[1]
    assert found["majority"].metrics["accuracy"].mean > 0.85  # which is why accuracy does not decide
    assert any("one value in all sites: dropped" in words for words in found.data.warnings)
    assert any("only the label '0'" in words for words in found.data.warnings)


def test_one_site_alone_is_one_clear_line(folder, tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "a.csv").write_text((folder / "tiny.csv").read_text())
    with pytest.raises(UserError, match="nothing to federate, there is only a"):
        compare(source_of({"name": str(tmp_path / "one")}).federation(0), **FEW)
