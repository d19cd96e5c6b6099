"""docs/extending.md: its files, outside the package, through run, compare and report, each in a process of its own."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from own_code import write_files

import manyheads

PAGE = (Path(__file__).parent.parent / "docs" / "extending.md").read_text()
SOURCE = Path(manyheads.__file__).parent.parent
OWN = ["--algorithm", "my_method:FedAvgM", "--data", "my_data:Rings", "--model", "my_model:Gated"]
WATCHED = ["--metric", "my_metric:Discrimination", "--monitor", "my_monitor:ServerNorm"]


class Place:
    """A folder with the files of the page; programs run in it, and know the package only as one that is installed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def python(self, *arguments: object, path: str = "") -> subprocess.CompletedProcess[str]:
        words = [sys.executable, *map(str, arguments)]
        environment = {"PYTHONPATH": f"{SOURCE}:{path}", "PATH": "", "COLUMNS": "160"}
        return subprocess.run(words, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)

    def __call__(self, *arguments: object, path: str = "") -> str:
        done = self.python("-m", "manyheads", *arguments, path=path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def error(self, *arguments: object) -> str:
        done = self.python("-m", "manyheads", *arguments)
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1, done.stderr
        return done.stderr


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("elsewhere")
    assert len(write_files(PAGE, folder)) == 6
    found = Place(folder)
    found("run", *OWN, *WATCHED, "--rounds", 3, "--workers", 1, "--out", "own")
    return found


def test_the_history_of_a_run_has_the_metric_and_the_monitor(place):
    lines = (place.folder / "own" / "history.jsonl").read_text().splitlines()
    for record in map(json.loads, lines):
        assert -0.1 < record["evaluation"]["discrimination"] <= 1
        assert len(record["evaluation"]["per_client"]["discrimination"]) == 8
        assert record["monitors"]["server_norm"] > 0


def test_the_report_of_a_run_has_them_and_needs_no_class(place):
    (place.folder / "alone").mkdir(exist_ok=True)
    shutil.copytree(place.folder / "own", place.folder / "alone" / "own", dirs_exist_ok=True)
    alone = Place(place.folder / "alone")
    alone("report", "own")
    page = (alone.folder / "own" / "report.html").read_text()
    assert "discrimination" in page
    assert "server norm" in page
    assert "fedavgm" in page


def test_a_run_goes_on_when_its_classes_are_named(place):
    said = place.error("run", "--resume", "--out", "own", "--rounds", 4)
    assert " ".join(["--data my_data:Rings --model my_model:Gated --algorithm my_method:FedAvgM"]) in said
    told = re.search(r"on the command line: (.*)", said)[1].split()
    summary = json.loads(place("run", "--resume", "--out", "own", "--rounds", 4, *told, "--json"))
    assert summary["rounds"] == 4
    assert list(summary["metrics"])[-1] == "discrimination"


def test_a_comparison_has_them_in_its_results_table_and_report(place):
    methods = ["--methods", "fedavg,my_method:FedAvgM,my_method:FedAvgM+ft", "--seeds", 1, "--rates", 0.1]
    few = ["--rounds", 3, "--folds", 2, "--baselines", "majority", "--pooled", "false", "--local-rounds", 3]
    watched = ["--metrics", *WATCHED[1:]]
    words = ["compare", "my_data:Rings", *OWN[4:], *watched, *methods, *few, "--out", "compared"]
    table = place(*words, "--workers", 2, "--engine.start-method", "spawn")  # in processes that have imported nothing
    assert "discrimination" in table
    assert "fedavgm+ft" in table
    facts = json.loads((place.folder / "compared" / "compare.json").read_text())
    assert facts["methods"]["fedavgm"]["metrics"]["discrimination"]["mean"] > 0
    page = (place.folder / "compared" / "report.html").read_text()
    assert "Coefficient of discrimination (%)" in page
    assert "norm of the server" in page
    (place.folder / "compared" / "report.html").unlink()
    (place.folder / "alone").mkdir(exist_ok=True)
    shutil.move(place.folder / "compared", place.folder / "alone" / "compared")
    Place(place.folder / "alone")("report", "compared")
    page = (place.folder / "alone" / "compared" / "report.html").read_text()
    assert "fedavgm" in page
    assert "Discrimination" in page


def test_its_python_example_runs(place):
    example = next(code for code in re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL) if "mh.simulate" in code)
    (place.folder / "use.py").write_text(example)
    done = place.python("use.py")
    assert done.returncode == 0, done.stderr
    discrimination, norm = map(float, done.stdout.split())
    assert discrimination > 0
    assert norm > 0


def test_its_entry_points_make_names_known(place, tmp_path):
    """The package that the page's pyproject would make: its files and its declared entry points on the path."""
    declared = re.search(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL)[1]
    text = re.sub(r'\[project\.entry-points\."(.*)"\]', r"[\1]", declared).replace('"', "")
    facts = tmp_path / "my_things-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: my-things\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(text)
    write_files(PAGE, tmp_path)
    elsewhere = Place(place.folder / "own")  # none of the files is here
    assert "Hsu et al. 2019" in elsewhere("algorithms", path=str(tmp_path))
    assert "rings" in elsewhere("data", "list", path=str(tmp_path))
    words = [
        "--algorithm",
        "fedavgm",
        "--data",
        "rings",
        "--model",
        "gated",
        "--metric",
        "discrimination",
        "--monitor",
        "server_norm",
    ]
    out = place.folder / "by-name"
    facts = json.loads(
        elsewhere("run", *words, "--rounds", 2, "--workers", 1, "--out", out, "--json", path=str(tmp_path))
    )
    assert facts["metrics"]["discrimination"] > 0
    again = elsewhere("run", "--resume", "--out", out, "--rounds", 3, "--json", path=str(tmp_path))
    assert json.loads(again)["rounds"] == 3


def test_the_task_is_trained(place):
    program = """
import my_task, numpy as np, manyheads as mh
from torch import nn
rng = np.random.default_rng(0)
clients = [(x, rng.poisson(np.exp(x[:, 0]))) for x in rng.normal(size=(3, 40, 2)).astype("float32")]
federation = mh.Federation.from_clients(clients, task="poisson")
run = mh.simulate(mh.FedAvg(), nn.Linear(2, 1), federation, rounds=5)
losses = [value for _, value in run.history.column("loss")]
assert losses[-1] < losses[0]
print(run.protocol)
"""
    done = place.python("-c", program)
    assert done.stdout.strip().endswith("loss: Poisson loss"), done.stderr
