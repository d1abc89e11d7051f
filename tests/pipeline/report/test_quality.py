from __future__ import annotations

import json

from detection_core.artifacts.coco_names import MAP, MAP_50
from detection_core.artifacts.parity import FileReport, ParityReport
from pipeline.local.run_record import RunRecord, StepRecord
from pipeline.report.artifacts import RunArtifacts
from pipeline.report.charts import MAX_LINES
from pipeline.report.pictures import PictureBudget
from pipeline.report.quality import evaluations, metric_table


def evaluated_run(tmp_path, classes=2):
    steps = []
    for id_, baseline in (("evaluator", {MAP: 0.4}), ("quantized_evaluator", {MAP: 0.5})):
        folder = tmp_path / id_
        folder.mkdir()
        verdict = {"metric": MAP, "text": f"{MAP} is 0.5000, below 0.6", "passed": False}
        metrics = {"metrics": {MAP: 0.5, MAP_50: 0.7}, "baseline": baseline, "thresholds": [verdict]}
        (folder / "metrics.json").write_text(json.dumps(metrics))
        curve = {"recall": [0, 1], "precision": [1, 0.5], "ap": 0.5, "objects": 3}
        entries = [{**curve, "name": f"class {c}", "ap50": c / classes} for c in range(classes)]
        labels = [*(e["name"] for e in entries), "background"]
        matrix = [[3 * (i == j) for j in range(classes + 1)] for i in range(classes + 1)]
        curves = {"classes": entries, "score_threshold": 0.5}
        curves["confusion"] = {"labels": labels, "matrix": matrix}
        (folder / "curves.json").write_text(json.dumps(curves))
        outputs = {"evaluation": str(folder)}
        steps.append(StepRecord(id=id_, component="evaluator", state="executed", outputs=outputs))
    fields = dict.fromkeys(
        ("run_id", "pipeline_name", "started", "finished", "settings_text", "workspace"), ""
    )
    return RunArtifacts(RunRecord(**fields, status="succeeded", steps=tuple(steps)))


def test_columns_of_the_table(tmp_path):
    evaluated = evaluations(evaluated_run(tmp_path), PictureBudget())
    parity = ParityReport(files=[FileReport(file="m.tflite", metrics={MAP: 0.45})])
    table = metric_table(evaluated, parity)
    assert table is not None
    # The quantized detector's baseline is the float one, so it gets no column of its own.
    assert table["columns"] == ["Float detector", "Deployed baseline", "Quantized detector", "m.tflite"]
    assert table["rows"][0]["values"] == [0.5, 0.4, 0.5, 0.45]
    assert table["rows"][1]["values"] == [0.7, None, 0.7, None]
    assert metric_table([], None) is None


def test_verdicts_lose_the_metric_s_name(tmp_path):
    evaluated = evaluations(evaluated_run(tmp_path), PictureBudget())
    assert evaluated[0]["verdicts"][0].text == "is 0.5000, below 0.6"


def test_of_many_classes_the_weakest_are_drawn(tmp_path):
    entry = evaluations(evaluated_run(tmp_path, classes=40), PictureBudget())[0]
    assert entry["pr_left_out"] == 40 - MAX_LINES
    assert "class 0" in entry["pr_chart"]
    assert "class 39" not in entry["pr_chart"]
    assert len(entry["classes"]) == 40
    assert entry["confusion"] is None  # too large to read


def test_confusion_by_shares_of_a_row(tmp_path):
    confusion = evaluations(evaluated_run(tmp_path), PictureBudget())[0]["confusion"]
    assert [c["share"] for c in confusion["rows"][0]["cells"]] == [100, 0, 0]
    assert [c["right"] for c in confusion["rows"][1]["cells"]] == [False, True, False]
