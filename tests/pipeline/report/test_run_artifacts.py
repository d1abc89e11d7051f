from __future__ import annotations

from detection_core.artifacts.pushed import PUSHED
from detection_core.artifacts.run_info import RunInfo, StepInfo
from pipeline.report.run_artifacts import RunArtifacts, find, read_text


def test_outputs_by_component():
    steps = (
        StepInfo(id="evaluator", component="evaluator", state="executed", outputs={"evaluation": "/a"}),
        StepInfo(
            id="quantized_evaluator", component="evaluator", state="cached", outputs={"evaluation": "/b"}
        ),
        StepInfo(id="pusher", component="pusher", state="not run"),
    )
    fields = dict.fromkeys(
        ("run_id", "pipeline_name", "started", "finished", "settings_text", "workspace"), ""
    )
    artifacts = RunArtifacts(RunInfo(**fields, status="failed", steps=steps))
    assert [s.id for s in artifacts.steps_of("evaluator")] == ["evaluator", "quantized_evaluator"]
    assert artifacts.folder("evaluator", "evaluation") == "/a"
    assert artifacts.folder("pusher", "pushed_model") == ""


def test_what_is_missing_or_torn_is_not_there(tmp_path, caplog):
    (tmp_path / "pushed.json").write_text('{"pushed": ')
    folder = str(tmp_path)
    assert find(PUSHED, "") is None and find(PUSHED, str(tmp_path / "nowhere")) is None and not caplog.text
    assert find(PUSHED, folder) is None and "pushed.json" in caplog.text
    assert read_text(folder, "pushed.json") == '{"pushed": ' and read_text(folder, "missing") is None
