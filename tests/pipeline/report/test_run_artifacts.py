from detection_core.artifacts.pushed import PUSHED
from pipeline.report.run_artifacts import RunArtifacts, find, read_text
from tests.support.run_records import record, step


def test_outputs_by_component():
    quantized = step("evaluator", "cached", id="quantized_evaluator", outputs={"evaluation": "/b"})
    steps = (step("evaluator", outputs={"evaluation": "/a"}), quantized, step("pusher", "not run"))
    artifacts = RunArtifacts(record(*steps, status="failed"))
    assert [s.id for s in artifacts.steps_of("evaluator")] == ["evaluator", "quantized_evaluator"]
    assert artifacts.folder("evaluator", "evaluation") == "/a"
    assert artifacts.folder("pusher", "pushed_model") == ""


def test_what_is_missing_or_torn_is_not_there(tmp_path, caplog):
    (tmp_path / "pushed.json").write_text('{"pushed": ')
    folder = str(tmp_path)
    assert find(PUSHED, "") is None and find(PUSHED, str(tmp_path / "nowhere")) is None and not caplog.text
    assert find(PUSHED, folder) is None and "pushed.json" in caplog.text
    assert read_text(folder, "pushed.json") == '{"pushed": ' and read_text(folder, "missing") is None
