"""The training that a run is at."""

from __future__ import annotations

import dataclasses
import datetime
import os
from pathlib import Path

from detection_core.artifacts.run_info import RunInfo, StepInfo
from pipeline.report.unfinished import unfinished_training

NOON = datetime.datetime(2026, 11, 22, 12, tzinfo=datetime.UTC)


def run(tmp_path: Path, state: str = "running") -> RunInfo:
    step = StepInfo(id="trainer", component="trainer", state=state, started=NOON.isoformat())
    return RunInfo(
        run_id="r",
        pipeline_name="p",
        started="",
        finished="",
        status="running",
        settings_text="",
        workspace=str(tmp_path),
        steps=(step,),
    )


def history(tmp_path: Path, name: str, minutes: int) -> str:
    folder = tmp_path / "work" / name
    folder.mkdir(parents=True)
    (folder / "history.jsonl").write_text("{}\n")
    moment = (NOON + datetime.timedelta(minutes=minutes)).timestamp()
    os.utime(folder / "history.jsonl", (moment, moment))
    return str(folder)


def test_it_is_the_one_that_was_written_to_last(tmp_path: Path) -> None:
    history(tmp_path, "a", 5)
    newest = history(tmp_path, "b", 10)
    (tmp_path / "work" / "c").mkdir()
    assert unfinished_training(run(tmp_path), "trainer") == newest


def test_trainings_of_earlier_runs_are_not_taken_for_it(tmp_path: Path) -> None:
    history(tmp_path, "a", -5)
    assert unfinished_training(run(tmp_path), "trainer") == ""


def test_there_is_none_where_nothing_trains(tmp_path: Path) -> None:
    assert unfinished_training(run(tmp_path), "trainer") == ""
    history(tmp_path, "a", 5)
    assert unfinished_training(run(tmp_path, "not run"), "trainer") == ""
    assert unfinished_training(run(tmp_path), "quantization_rewriter") == ""
    odd = dataclasses.replace(run(tmp_path).steps[0], started="?")
    assert unfinished_training(dataclasses.replace(run(tmp_path), steps=(odd,)), "trainer") != ""
