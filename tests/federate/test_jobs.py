"""Jobs of a study's server, with sites in this process."""

from __future__ import annotations

import pytest
from federations import Here, agents, study, tables

from manyheads.core.errors import UserError
from manyheads.federate.jobs import Job, Order, conducted, new_job
from manyheads.federate.study import StudyFolder


@pytest.fixture
def folder(tmp_path) -> StudyFolder:
    made = StudyFolder(tmp_path / "study")
    made.path.mkdir()
    made.write(study())
    return made


def ordered(folder: StudyFolder, tmp_path, carrier: Here) -> Job:
    job = new_job(folder, Order(kind="run", out=str(tmp_path / "out")))
    conducted(job, lambda nodes: carrier)
    return job


def test_a_job_may_be_given_an_empty_folder_and_no_other(folder, tmp_path):
    carrier = Here(agents(tables(tmp_path / "data"), tmp_path))
    (tmp_path / "out").mkdir()
    last = list(ordered(folder, tmp_path, carrier).events())[-1]
    assert (last["event"], last["rounds"]) == ("done", 2)
    asked = carrier.count
    with pytest.raises(UserError, match="out exists already"):
        ordered(folder, tmp_path, carrier)
    assert carrier.count == asked
