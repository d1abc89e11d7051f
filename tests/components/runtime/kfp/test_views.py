import json
import types

import pytest

from component_specs.kfp_outputs import KFP_OUTPUTS
from components.runtime.kfp import views
from components.runtime.kfp.views import MATRIX_LABELS, draw_view

_CLASS = {"objects": 2, "found": 1, "misses": 1, "false_positives": 0, "ap": 0.4, "ap50": 0.5}
_EMPTY = {**_CLASS, "name": "none", "ap": None, "ap50": None, "recall": [], "precision": [], "scores": []}


def _curves(labels=("a", "none", "background")):
    measured = {"recall": [0.0, 1.0], "precision": [1.0, 0.5], "scores": [0.9, 0.2]}
    other = {"recall": [0.0, 1.0], "precision": [0.5, 0.0], "scores": [0.7, 0.0]}
    matrix = [[1] * len(labels)] * len(labels)
    return {
        "score_threshold": 0.3,
        "classes": [{**_CLASS, "name": "a", **measured}, {**_CLASS, "name": "b", **other}, _EMPTY],
        "confusion": {"labels": list(labels), "matrix": matrix},
    }


@pytest.fixture
def evaluation(tmp_path):
    nothing = {"small": -1.0, "voc": None}
    content = {"metrics": {"mAP": 0.5, **nothing}, "baseline": {"mAP": 0.4, **nothing}}
    content |= {"blessed": True, "reasons": ["mAP <0.5>"], "images": 3, "split": "test"}
    (tmp_path / "metrics.json").write_text(json.dumps(content))
    (tmp_path / "curves.json").write_text(json.dumps(_curves()))
    return types.SimpleNamespace(evaluation=str(tmp_path))


def test_metrics_are_what_was_measured(evaluation):
    view = draw_view("evaluator", "metrics", evaluation, {})
    assert view.metadata == {"mAP": 0.5} == json.loads(view.content)
    expected = {(component, view) for component, given in KFP_OUTPUTS.items() for view in given.views}
    assert expected == set(views._VIEWS)


def test_the_curve_is_the_mean_of_the_classes_that_have_one(evaluation, tmp_path):
    view = draw_view("evaluator", "curves", evaluation, {})
    assert view.metadata["confidenceMetrics"] == [
        {"confidenceThreshold": pytest.approx(0.8), "falsePositiveRate": 0.25, "recall": 0.0},
        {"confidenceThreshold": pytest.approx(0.1), "falsePositiveRate": 0.75, "recall": 1.0},
    ]
    matrix = view.metadata["confusionMatrix"]
    assert [a["displayName"] for a in matrix["annotationSpecs"]] == ["a", "none", "background"]
    assert matrix["rows"] == [{"row": [1, 1, 1]}] * 3
    (tmp_path / "curves.json").write_text(json.dumps({**_curves(), "classes": [_EMPTY]}))
    assert set(draw_view("evaluator", "curves", evaluation, {}).metadata) == {"confusionMatrix"}
    # A matrix of very many classes stays in the file.
    labels = [str(i) for i in range(MATRIX_LABELS + 1)]
    (tmp_path / "curves.json").write_text(json.dumps(_curves(labels)))
    view = draw_view("evaluator", "curves", evaluation, {})
    assert "confusionMatrix" not in view.metadata
    assert json.loads(view.content)["confusion"]["labels"] == labels


def test_the_report_is_one_file(evaluation, tmp_path):
    (tmp_path / "pictures").mkdir()
    entries = [
        {"kind": "side_by_side", "file": "1.jpg", "caption": "a & b"},
        {"kind": "miss", "file": "2.jpg", "caption": "left out"},
    ]
    (tmp_path / "pictures" / "index.json").write_text(json.dumps(entries))
    for entry in entries:
        (tmp_path / "pictures" / entry["file"]).write_bytes(b"\xff\xd8\xff jpeg")
    page = draw_view("evaluator", "report", evaluation, {}).content
    assert page.count("data:image/jpeg;base64,") == 1 and "a &amp; b" in page
    assert "mAP &lt;0.5&gt;" in page and page.count("<polyline") == 2 and "0.400" in page


def test_numbers_of_what_run_returned(evaluation):
    report = {"steps": 3, "loss": 0.5, "blessed": True, "started_from": "x"}
    assert draw_view("trainer", "metrics", None, report).metadata == {"steps": 3, "loss": 0.5}
    assert draw_view("quantization_rewriter", "metrics", None, report).metadata["steps"] == 3


def test_parity(tmp_path):
    file = {"format": "int8", "drop": 0.01, "size_bytes": 9, "latency_ms": {"1": 2.5}}
    file["metrics"] = {"m": 0.5, "s": -1.0}
    (tmp_path / "parity.json").write_text(json.dumps({"files": [file]}))
    view = draw_view("tflite_exporter", "metrics", types.SimpleNamespace(parity=str(tmp_path)), {})
    measured = {"drop of mAP@.50": 0.01, "bytes": 9, "ms with 1 threads": 2.5, "m": 0.5}
    assert view.metadata == {f"int8 {name}": value for name, value in measured.items()}


def test_the_data_are_shown_by_the_page_that_data_validator_made(tmp_path):
    (tmp_path / "index.html").write_text("<!doctype html><p>the data")
    job = types.SimpleNamespace(anomalies=str(tmp_path))
    drawn = draw_view("data_validator", "report", job, {})
    assert drawn.content == "<!doctype html><p>the data" and drawn.metadata == {}
