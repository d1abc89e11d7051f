from __future__ import annotations

from pipeline.report import trainings as page
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
    assert training["validation_chart"] is None


def test_validations_are_drawn_with_the_metrics_that_people_know(tmp_path, monkeypatch):
    (tmp_path / "history.jsonl").write_text('{"step": 1, "loss": 2.0}\n')
    (tmp_path / "validation.jsonl").write_text(
        '{"step": 1, "score": 0.5, "metrics": {"DetectionBoxes_Precision/mAP": 0.25}}\n'
        '{"step": 2, "score": null, "metrics": {"DetectionBoxes_Precision/mAP": null}}\n'
    )
    drawn = {}
    monkeypatch.setattr(page, "line_chart", lambda lines, options: drawn.setdefault(options.title, lines))
    trainings(RunArtifacts(record_with("trainer", {"model_run": str(tmp_path)})))
    lines = drawn["Training: validation"]
    assert [(line.label, list(line.x), list(line.y)) for line in lines] == [
        ("score", [1], [0.5]),
        ("mAP", [1], [0.25]),
    ]
