import numpy as np

from detection_core.artifacts.model_run import ValidationLine
from detection_core.training.validation_pictures import PictureFiles, ValidationPicture
from pipeline.report import trainings as page
from pipeline.report.run_artifacts import RunArtifacts
from pipeline.report.trainings import trainings
from tests.support.run_records import record, step


def _artifacts(**outputs):
    return RunArtifacts(record(step("trainer", outputs={name: str(path) for name, path in outputs.items()})))


def test_a_training_without_history_or_report_is_left_out(tmp_path):
    artifacts = _artifacts(model_run=tmp_path)
    assert trainings(artifacts) == trainings(_artifacts()) == []
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
    trainings(_artifacts(model_run=tmp_path))
    lines = drawn["Training: validation"]
    found = [(line.label, list(line.x), list(line.y)) for line in lines]
    assert found == [("score", [1], [0.5]), ("mAP", [1], [0.25])]


def test_the_same_images_are_shown_at_the_first_the_last_and_a_step_between(tmp_path):
    (tmp_path / "history.jsonl").write_text('{"step": 1, "loss": 2.0}\n')
    image = np.zeros([8, 16, 3], np.uint8)
    pictures = [ValidationPicture(number=i, source_id=f"image {i}", image=image) for i in range(2)]
    action = PictureFiles(str(tmp_path), lambda: pictures)
    action.start(0)
    for number in (10, 20, 30, 40, 50):
        action.validated(ValidationLine(step=number))
    (training,) = trainings(_artifacts(model_run=tmp_path))
    shown = [(p.source_id, p.caption) for p in training["pictures"]]
    assert shown == [(f"image {i}", f"step {step}") for i in range(2) for step in (10, 30, 50)]
    assert all(p.data.startswith("data:image/jpeg;base64,") for p in training["pictures"])
