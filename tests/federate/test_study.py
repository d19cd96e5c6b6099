"""The file of a study."""

from __future__ import annotations

from federations import COMPARED, study

from manyheads.core.schedule import Schedule
from manyheads.federate.study import StudyFolder
from manyheads.run.protocol import Evaluate
from manyheads.run.training import Training


def test_a_study_is_written_by_what_differs_from_the_usual_settings_and_read_as_it_was(tmp_path):
    folder = StudyFolder(tmp_path)
    training = Training(rounds=7, schedule=Schedule(kind="step", every=2), evaluate=Evaluate(every=3))
    made = study(training=training, compare=COMPARED, data={"label": "label"})
    folder.write(made)
    assert folder.read() == made
    text = folder.file.read_text()
    assert "[training.evaluate]\nevery = 3\n" in text
    assert "checkpoint_seconds" not in text
