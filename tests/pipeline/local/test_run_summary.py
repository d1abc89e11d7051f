import json

from component_specs.example_gen import SPANS, Spans
from detection_core.storage import files
from pipeline.local.run_summary import summarise
from tests.support.run_records import record, step


def _record(tmp_path, outputs, **fields):
    steps = [
        step(i, seconds=1.5, outputs={n: str(tmp_path / i / n) for n in names})
        for i, names in outputs.items()
    ]
    return record(*steps, run_id="r", workspace=str(tmp_path), **fields)


def test_a_full_run(tmp_path):
    metrics = {"DetectionBoxes_Precision/mAP": 0.5, "DetectionBoxes_Precision/mAP@.50IOU": 0.9}
    lite = {"file": "model_int8.tflite", "metrics": metrics, "passed": False, "size_bytes": 1}
    written = {
        "evaluator/evaluation/metrics": {"metrics": metrics, "blessed": True},
        "tflite_exporter/parity/parity": {"files": [lite | {"latency_ms": 2.0}]},
        "pusher/pushed_model/pushed": {"pushed": False, "version": None, "reasons": ["mAP fell by 0.1"]},
    }
    for name, tree in written.items():
        files.write_text(str(tmp_path / f"{name}.json"), json.dumps(tree))
    outputs = {"evaluator": ["evaluation"], "tflite_exporter": ["parity"], "pusher": ["pushed_model"]}
    summary = summarise(_record(tmp_path, outputs))
    assert [m["map_50"] for m in summary.data["models"]] == [0.9, 0.9]
    assert "not published: mAP fell by 0.1" in str(summary.page)
    assert "refused" in str(summary.page) and "0.900" in str(summary.page)
    assert summary.data["places"]["report"].endswith("runs/r/report.html")


def test_a_run_that_stopped_early_and_the_spans_of_one_that_had_any(tmp_path):
    summary = summarise(_record(tmp_path, {"example_gen": ["examples"]}))
    assert summary.data["models"] == [] and summary.data["pushed"] is None
    assert "example_gen" in str(summary.page)
    without = summarise(_record(tmp_path, {"trainer": []}))
    assert "spans:" not in str(without.page) and without.data["spans"] == {}
    spans = SPANS.encode(Spans(train=("1", "2"), evaluate=("2",)))
    told = summarise(_record(tmp_path, {"trainer": []}, checks={"data_spans": spans}))
    assert "spans: 1, 2 to train on, 2 for the other splits" in str(told.page)


def test_a_damaged_output_is_left_out_by_name(tmp_path, caplog):
    names = {"evaluator": "evaluation/metrics.json", "tflite_exporter": "parity/parity.json"}
    outputs = {"evaluator": ["evaluation"], "tflite_exporter": ["parity"], "pusher": ["pushed_model"]}
    wrong = '{"metrics": {"a": "b"}, "blessed": true}'
    for text in ("", "{", "[]", '{"metrics": []}', wrong, '{"files": [1]}'):
        caplog.clear()
        for name, file in names.items():
            files.write_text(str(tmp_path / name / file), text)
        summary = summarise(_record(tmp_path, outputs))
        assert "evaluator" in str(summary.page) and summary.data["models"] == []
        assert "is left out" in caplog.text, text
