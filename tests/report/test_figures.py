"""Charts as image files."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from comparisons import made
from PIL import Image

from manyheads.core.errors import UserError
from manyheads.report.figures import write_figures


@pytest.fixture
def folders(tmp_path):
    """Folders of made-up comparisons, by task."""
    found = {task: tmp_path / task for task in ("classification", "survival", "regression")}
    for task, folder in found.items():
        folder.mkdir()
        made(task).write(folder)
    return found


def test_figures_without_a_browser(folders, tmp_path):
    made = write_figures([folders["classification"]], tmp_path / "a", ["svg"])
    names = {"methods", "gains", "rounds", "bytes", "fairness", "spread", "data", "roc", "calibration"}
    assert {p.stem for p in made} >= names
    for path in made:
        root = ET.parse(path).getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        texts = {e.text for e in root.iter("{http://www.w3.org/2000/svg}text")}
        assert len(texts) > 3
        if path.stem in ("methods", "rounds"):  # rows of the one, legend of the other
            assert {"FedRep", "FedAvg + fine-tuning", "Network alone"} <= texts
        if path.stem in ("calibration", "gain-by-total-variation"):  # every site is named
            assert {"cleveland", "hungarian", "switzerland", "va"} <= texts
    with pytest.raises(UserError, match=r"unknown kind of figure.*'gif'.*png, svg"):
        write_figures([folders["classification"]], tmp_path, ["gif"])


@pytest.mark.parametrize("task", ["survival", "regression"])
def test_figures_of_other_tasks(folders, tmp_path, task):
    for path in write_figures([folders[task]], tmp_path / "b", ["png"]):
        with Image.open(path) as image:
            assert image.width > 1000
            assert len(image.convert("RGB").getcolors(1 << 24)) > 20


def test_figures_of_runs(trained, tmp_path):
    made = write_figures(list(trained.values()), tmp_path / "c", ["svg"])
    assert {p.stem for p in made} >= {"training-loss", "rounds", "bytes", "sites", "loss"}
    texts = {e.text for e in ET.parse(tmp_path / "c" / "sites.svg").getroot().iter("{http://www.w3.org/2000/svg}text")}
    assert "client 7" in texts
