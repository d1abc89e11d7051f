from __future__ import annotations

import dataclasses

import pytest

from detection_core.errors import ConfigError
from pipeline.run_record import RunRecord
from pipeline.workspace import Workspace, new_run_id

_RECORD = RunRecord(
    run_id="20260101-000000-aaaa",
    pipeline_name="p",
    started="",
    finished="",
    status="running",
    settings_text="",
    workspace="",
    steps=(),
)


def test_a_run_without_a_live_process_was_stopped(tmp_path):
    workspace = Workspace(str(tmp_path))
    workspace.write_record(_RECORD)
    assert workspace.record().status == "stopped"
    with workspace.lock():
        assert workspace.record().status == "running"


def test_the_newest_run_is_the_default(tmp_path):
    workspace = Workspace(str(tmp_path))
    for run_id in ("20260102-000000-aaaa", "20260101-000000-bbbb"):
        workspace.write_record(dataclasses.replace(_RECORD, run_id=run_id, status="succeeded"))
    assert workspace.record().run_id == "20260102-000000-aaaa"
    assert workspace.record("20260101-000000-bbbb").status == "succeeded"
    with pytest.raises(ConfigError, match="expected the run nothing"):
        workspace.record("nothing")


def test_an_empty_workspace_says_so(tmp_path):
    with pytest.raises(ConfigError, match="expected a run, found none"):
        Workspace(str(tmp_path)).record()


def test_run_ids_are_unique():
    assert len({new_run_id() for _ in range(100)}) > 90


def test_a_workspace_s_name_is_no_pattern(tmp_path):
    mine, neighbour = Workspace(str(tmp_path / "w[1]")), Workspace(str(tmp_path / "w1"))
    mine.write_record(dataclasses.replace(_RECORD, status="succeeded"))
    neighbour.write_record(dataclasses.replace(_RECORD, run_id="20270101-000000-aaaa", status="failed"))
    (tmp_path / "w[1]" / "runs" / "without-record").mkdir()
    assert [r.run_id for r in mine.records()] == [_RECORD.run_id]
