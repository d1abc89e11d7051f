from __future__ import annotations

import json
import subprocess
import sys

import pytest

from pipeline.run_record import RunRecord, StepRecord


def make_record(status: str = "succeeded") -> RunRecord:
    steps = (
        StepRecord(id="ExampleGen", component="example_gen", state="cached", outputs={"examples": "/a/b"}),
        StepRecord(id="Trainer", component="trainer", state="failed", seconds=1.5, error="disk full"),
        StepRecord(id="Pusher", component="pusher", state="not run"),
    )
    return RunRecord(
        run_id="r1",
        pipeline_name="digits",
        started="2026-01-01T10:00:00",
        finished="2026-01-01T10:05:00",
        status=status,
        settings_text="name: digits\n",
        workspace="/w",
        steps=steps,
    )


def test_json_round_trip():
    record = make_record()
    assert RunRecord.from_json(record.to_json()) == record


def test_reader_passes_over_fields_of_later_versions():
    data = json.loads(make_record().to_json())
    data["new_field"] = 1
    data["steps"][0]["new_field"] = 1
    assert RunRecord.from_json(json.dumps(data)) == make_record()


@pytest.mark.parametrize("text", ["[]", "{}", "not json", '{"steps": [{}]}'])
def test_something_else_is_refused(text):
    with pytest.raises(ValueError, match="run record"):
        RunRecord.from_json(text)


def test_unknown_status_and_state_are_refused():
    with pytest.raises(ValueError, match="status of run r1"):
        make_record(status="done")
    with pytest.raises(ValueError, match="state of step Trainer"):
        StepRecord(id="Trainer", component="trainer", state="ok")


def test_imports_nothing_heavy():
    code = "import sys, pipeline.run_record; print([m for m in ('tensorflow','numpy','yaml') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
