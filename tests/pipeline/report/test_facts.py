from __future__ import annotations

import dataclasses
import json

import pytest

from pipeline.local.run_record import RunRecord, StepRecord
from pipeline.report import facts
from pipeline.report.artifacts import RunArtifacts


def record_with(component, outputs):
    step = StepRecord(id=component, component=component, state="executed", seconds=2.0, outputs=outputs)
    fields = dict.fromkeys(
        ("run_id", "pipeline_name", "started", "finished", "settings_text", "workspace"), ""
    )
    return RunRecord(**fields, status="succeeded", steps=(step,))


def artifacts_with(folder, component, output, name, content):
    (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return RunArtifacts(record_with(component, {output: str(folder)}))


def test_steps_share_the_time_of_the_longest():
    record = record_with("trainer", {})
    more = dataclasses.replace(record.steps[0], id="pusher", seconds=0.5, state="cached")
    found = facts.steps(dataclasses.replace(record, steps=(*record.steps, more)))
    assert [row["share"] for row in found["rows"]] == [100, 25]
    assert (found["seconds"], found["executed"], found["cached"]) == (2.5, 1, 1)


@pytest.mark.parametrize("coverage", [0.75, {"fraction": 0.75, "convolutions": 4}])
def test_coverage_as_a_number_or_in_detail(tmp_path, coverage):
    record = {"quantized": [{"layer": "a", "kind": "weights"}] * 2, "coverage": coverage}
    artifacts = artifacts_with(tmp_path, "quantization_rewriter", "quantization", "quantization.json", record)
    found = facts.quantization(artifacts)
    assert found is not None
    assert found["coverage"]["fraction"] == 0.75
    assert (found["kinds"], found["quantized"], found["not_quantized"]) == ({"weights": 2}, 2, [])


def test_many_quarantined_records_are_counted(tmp_path):
    (tmp_path / "quarantine.jsonl").write_text('{"split": "train"}\n' * 60)
    artifacts = artifacts_with(tmp_path, "example_gen", "examples", "dataset_card.json", {"classes": []})
    found = facts.dataset(artifacts)
    assert found is not None
    assert (len(found["quarantined"]), found["quarantined_more"], found["most_objects"]) == (50, 10, 1)


def test_a_training_without_history_or_report_is_left_out(tmp_path):
    assert facts.trainings(RunArtifacts(record_with("trainer", {"model_run": str(tmp_path)}))) == []
    artifacts = artifacts_with(
        tmp_path, "trainer", "model_run", "history.jsonl", '{"step": 1, "loss": 2.0}\n'
    )
    (training,) = facts.trainings(artifacts)
    assert training["loss_chart"].startswith("<svg")
    assert training["rate_chart"] == ""  # no learning rate in the history


def test_nothing_there():
    empty = RunArtifacts(record_with("trainer", {}))
    assert facts.trainings(empty) == []
    found = [f(empty) for f in (facts.dataset, facts.quantization)]
    assert found == [None] * 2
