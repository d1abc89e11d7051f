from detection_core.artifacts.coco_names import MAP, MAP_50
from detection_core.artifacts.evaluation import CURVES, METRICS, ClassCurve, Curves, EvalReport
from detection_core.report.pictures import PictureBudget
from pipeline.report.evaluations import evaluations, metric_columns
from pipeline.report.run_artifacts import RunArtifacts
from tests.support.run_records import record, step


def test_each_evaluator_s_findings_and_the_baseline_of_the_first(tmp_path):
    steps = []
    for id_, baseline in (("evaluator", {MAP: 0.4}), ("quantized_evaluator", {MAP: 0.5})):
        folder = str(tmp_path / id_)
        METRICS.write(folder, EvalReport(metrics={MAP: 0.5, MAP_50: 0.7}, baseline=baseline))
        curve = ClassCurve(name="cat", ap50=0.5, recall=[0, 1], precision=[1, 0.5])
        CURVES.write(folder, Curves(classes=[curve], score_threshold=0.5))
        steps.append(step("evaluator", id=id_, outputs={"evaluation": folder}))
    found = evaluations(RunArtifacts(record(*steps)), PictureBudget())
    assert [e.title for e in found] == ["Float detector", "Quantized detector"]
    assert all(e.chart is not None and e.left_out == 0 for e in found)
    # The quantized detector's baseline is the float one, so it gets no column of its own.
    titles = [title for title, _ in metric_columns(found)]
    assert titles == ["Float detector", "Deployed baseline", "Quantized detector"]
