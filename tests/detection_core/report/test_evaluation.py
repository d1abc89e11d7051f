from detection_core.artifacts.coco_names import MAP, MAP_50
from detection_core.artifacts.evaluation import ClassCurve, Confusion, Curves, EvalReport, ThresholdVerdict
from detection_core.report.charts import MAX_LINES
from detection_core.report.evaluation import EvaluationSummary, curve_chart, metric_table


def curves_of(classes):
    curve = {"recall": [0, 1], "precision": [1, 0.5]}
    entries = [ClassCurve(name=f"class {c}", ap50=c / classes, **curve) for c in range(classes)]
    labels = [*(e.name for e in entries), "background"]
    matrix = [[3 * (i == j) for j in range(classes + 1)] for i in range(classes + 1)]
    return Curves(classes=entries, score_threshold=0.5, confusion=Confusion(labels=labels, matrix=matrix))


def summary_of(classes=2):
    verdict = ThresholdVerdict(metric=MAP, text=f"{MAP} is 0.5000, below 0.6", passed=False)
    report = EvalReport(metrics={MAP: 0.5}, thresholds=(verdict,))
    return EvaluationSummary(id="e", title="Float", report=report, pictures={}, curves=curves_of(classes))


def test_tables_curves_and_confusion_show_what_can_be_read():
    table = metric_table([("a", {MAP: 0.5, MAP_50: 0.7}), ("b", {MAP: 0.4})])
    assert table["columns"] == ["a", "b"] and len(table["rows"]) == 12
    assert table["rows"][0]["values"] == [0.5, 0.4] and table["rows"][1]["values"] == [0.7, None]
    (row,) = metric_table([("a", {"own": 1.0})], ["own"])["rows"]
    assert row == {"name": "own", "words": "own", "values": [1.0]}
    chart, left_out = curve_chart(curves_of(40), "Float")
    assert chart is not None and left_out == 40 - MAX_LINES
    assert curve_chart(Curves(classes=[], score_threshold=0.5), "Float") == (None, 0)
    assert summary_of(40).confusion is None  # too large to read
    confusion = summary_of().confusion
    assert [c["percent"] for c in confusion["rows"][0]["cells"]] == [100, 0, 0]
    assert [c["right"] for c in confusion["rows"][1]["cells"]] == [False, True, False]
    assert summary_of().verdicts[0].text == "is 0.5000, below 0.6"
