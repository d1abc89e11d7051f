from __future__ import annotations

from pipeline.local.run_record import RunRecord, StepRecord
from pipeline.report.artifacts import RunArtifacts, read_json, read_lines, read_text


def test_outputs_by_component():
    steps = (
        StepRecord(id="evaluator", component="evaluator", state="executed", outputs={"evaluation": "/a"}),
        StepRecord(
            id="quantized_evaluator", component="evaluator", state="cached", outputs={"evaluation": "/b"}
        ),
        StepRecord(id="pusher", component="pusher", state="not run"),
    )
    fields = dict.fromkeys(
        ("run_id", "pipeline_name", "started", "finished", "settings_text", "workspace"), ""
    )
    artifacts = RunArtifacts(RunRecord(**fields, status="failed", steps=steps))
    assert [s.id for s in artifacts.steps_of("evaluator")] == ["evaluator", "quantized_evaluator"]
    assert artifacts.folder("evaluator", "evaluation") == "/a"
    assert artifacts.folder("pusher", "pushed_model") == ""
    assert artifacts.json_of("pusher", "pushed_model", "pushed.json") is None


def test_what_is_missing_or_torn_is_not_there(tmp_path, caplog):
    (tmp_path / "torn.json").write_text('{"a": ')
    (tmp_path / "lines.jsonl").write_text('{"a": 1}\n[2]\n{"a": 3}\n{"a"')
    folder = str(tmp_path)
    assert read_json(folder, "missing.json") is None
    assert read_json("", "missing.json") is None
    assert read_json(folder, "torn.json") is None
    assert "torn.json is left out" in caplog.text
    assert read_lines(folder, "lines.jsonl") == [{"a": 1}, {"a": 3}]
    assert read_lines(folder, "missing.jsonl") == []
    assert read_text(folder, "torn.json") == '{"a": '
