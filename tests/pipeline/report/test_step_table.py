from __future__ import annotations

import dataclasses

from detection_core.artifacts.run_info import RunInfo, StepInfo
from pipeline.report.step_table import step_summary


def record_with(component, outputs):
    step = StepInfo(id=component, component=component, state="executed", seconds=2.0, outputs=outputs)
    fields = dict.fromkeys(
        ("run_id", "pipeline_name", "started", "finished", "settings_text", "workspace"), ""
    )
    return RunInfo(**fields, status="succeeded", steps=(step,))


def test_bars_are_in_percent_of_the_longest_step():
    record = record_with("trainer", {})
    more = dataclasses.replace(record.steps[0], id="pusher", seconds=0.5, state="cached")
    found = step_summary(dataclasses.replace(record, steps=(*record.steps, more)))
    assert [row["percent"] for row in found["rows"]] == [100, 25]
    assert (found["seconds"], found["executed"], found["cached"]) == (2.5, 1, 1)
