from __future__ import annotations

from pipeline.report.run_artifacts import RunArtifacts
from pipeline.report.trainings import trainings
from tests.pipeline.report.test_step_table import record_with


def test_a_training_without_history_or_report_is_left_out(tmp_path):
    artifacts = RunArtifacts(record_with("trainer", {"model_run": str(tmp_path)}))
    assert trainings(artifacts) == trainings(RunArtifacts(record_with("trainer", {}))) == []
    (tmp_path / "history.jsonl").write_text('{"step": 1, "loss": 2.0}\n')
    (training,) = trainings(artifacts)
    assert training["loss_chart"].data.startswith("data:image/svg+xml;base64,")
    assert training["rate_chart"] is None  # no learning rate in the history
