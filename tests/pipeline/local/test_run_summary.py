from __future__ import annotations

import dataclasses
import json

import pytest

from component_specs.example_gen import SPANS, Spans
from detection_core.artifacts.run_info import RunInfo, StepInfo
from detection_core.storage import files
from pipeline.local.run_summary import summarise


def _record(tmp_path, outputs):
    steps = tuple(
        StepInfo(
            id=i,
            component=i,
            state="executed",
            seconds=1.5,
            outputs={n: str(tmp_path / i / n) for n in names},
        )
        for i, names in outputs.items()
    )
    return RunInfo(
        run_id="r",
        pipeline_name="p",
        started="",
        finished="",
        status="succeeded",
        settings_text="",
        workspace=str(tmp_path),
        steps=steps,
    )


def test_a_full_run(tmp_path):
    metrics = {"DetectionBoxes_Precision/mAP": 0.5, "DetectionBoxes_Precision/mAP@.50IOU": 0.9}
    evaluated = json.dumps({"metrics": metrics, "blessed": True})
    lite = {
        "file": "model_int8.tflite",
        "metrics": metrics,
        "passed": False,
        "size_bytes": 1,
        "latency_ms": 2.0,
    }
    pushed = {"pushed": False, "version": None, "reasons": ["mAP fell by 0.1"]}
    files.write_text(str(tmp_path / "evaluator" / "evaluation" / "metrics.json"), evaluated)
    files.write_text(
        str(tmp_path / "tflite_exporter" / "parity" / "parity.json"), json.dumps({"files": [lite]})
    )
    files.write_text(str(tmp_path / "pusher" / "pushed_model" / "pushed.json"), json.dumps(pushed))
    outputs = {
        "evaluator": ["evaluation"],
        "tflite_exporter": ["parity", "tflite"],
        "pusher": ["pushed_model"],
    }
    summary = summarise(_record(tmp_path, outputs))
    assert [m["map_50"] for m in summary.data["models"]] == [0.9, 0.9]
    assert "not published: mAP fell by 0.1" in str(summary.page)
    assert "refused" in str(summary.page) and "0.900" in str(summary.page)
    assert summary.data["places"]["report"].endswith("runs/r/report.html")


def test_a_run_that_stopped_early(tmp_path):
    summary = summarise(_record(tmp_path, {"example_gen": ["examples"]}))
    assert summary.data["models"] == [] and summary.data["pushed"] is None
    assert "example_gen" in str(summary.page)


def test_the_spans_of_a_run_are_told_where_it_had_any(tmp_path):
    record = _record(tmp_path, {"trainer": []})
    assert "spans:" not in str(summarise(record).page) and summarise(record).data["spans"] == {}
    spans = SPANS.encode(Spans(train=("1", "2"), evaluate=("2",)))
    told = summarise(dataclasses.replace(record, checks={"data_spans": spans}))
    assert "spans: 1, 2 to train on, 2 for the other splits" in str(told.page)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"metrics": []}', '{"metrics": {"a": "b"}, "blessed": true}', '{"files": [1]}']
)
def test_a_damaged_output_is_left_out_by_name(tmp_path, text, caplog):
    names = {"evaluator": "evaluation/metrics.json", "tflite_exporter": "parity/parity.json"}
    for step, name in names.items():
        files.write_text(str(tmp_path / step / name), text)
    outputs = {"evaluator": ["evaluation"], "tflite_exporter": ["parity"], "pusher": ["pushed_model"]}
    summary = summarise(_record(tmp_path, outputs))
    assert "evaluator" in str(summary.page) and summary.data["models"] == []
    assert "is left out" in caplog.text
