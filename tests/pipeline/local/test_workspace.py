import dataclasses

import pytest

from detection_core.artifacts.run_info import RUN
from detection_core.errors import ConfigError, StorageError
from detection_core.storage import files
from pipeline.local.workspace import Workspace, new_run_id
from tests.support.cases import refused
from tests.support.run_records import record

_RECORD = record(run_id="20260101-000000-aaaa", pipeline_name="p", status="running")


def test_what_killed_runs_left_is_removed_and_they_were_stopped(tmp_path):
    workspace = Workspace(str(tmp_path))
    workspace.write_info(_RECORD)
    assert workspace.run().status == "stopped"
    with workspace.lock():
        assert workspace.run().status == "running"
    files.remove_tree(str(tmp_path / "runs"))
    lost = ["runs/a/.run.json.0123abcd.partial", "artifacts/t/model/.5.0123abcd.partial/x"]
    for name in lost:
        files.write_text(str(tmp_path / name), "x")
    files.write_text(str(tmp_path / "artifacts" / "t" / "model" / "4" / "kept"), "x")
    with Workspace(str(tmp_path)).lock():
        assert files.sizes(str(tmp_path)) == {".lock": 0, "artifacts/t/model/4/kept": 1}


def test_the_newest_run_is_the_default_and_stays_it_when_the_clock_is_set_back(tmp_path):
    workspace = Workspace(str(tmp_path))
    for run_id in ("20260102-000000-aaaa", "20260101-000000-bbbb"):
        workspace.write_info(dataclasses.replace(_RECORD, run_id=run_id, status="succeeded"))
    assert workspace.run().run_id == "20260102-000000-aaaa"
    assert workspace.run("20260101-000000-bbbb").status == "succeeded"
    refused(ConfigError, "expected the run nothing", workspace.run, "nothing")
    future = dataclasses.replace(_RECORD, run_id="29991231-235959-ffff", status="succeeded")
    workspace.write_info(future)
    run_id = workspace.new_run_id()
    assert run_id > future.run_id and run_id.startswith("30000101-000000-")
    empty = Workspace(str(tmp_path / "empty"))
    assert empty.new_run_id() < future.run_id
    refused(ConfigError, "expected a run, found none", empty.run)
    assert len({new_run_id() for _ in range(100)}) > 90


def test_a_workspace_s_name_is_no_pattern(tmp_path):
    mine, neighbour = Workspace(str(tmp_path / "w[1]")), Workspace(str(tmp_path / "w1"))
    mine.write_info(dataclasses.replace(_RECORD, status="succeeded"))
    neighbour.write_info(dataclasses.replace(_RECORD, run_id="20270101-000000-aaaa", status="failed"))
    (tmp_path / "w[1]" / "runs" / "without-record").mkdir()
    assert [r.run_id for r in mine.runs()] == [_RECORD.run_id]


def test_a_damaged_run_is_left_out_by_name_and_the_others_stay(tmp_path, caplog):
    workspace = Workspace(str(tmp_path))
    workspace.write_info(dataclasses.replace(_RECORD, status="succeeded"))
    texts = [b"", b"{", b"[]", b"\xff", b'{"run_id": "../../escaped"}', b"[" * 99999]
    for name, text in enumerate(texts):
        files.write_bytes(str(tmp_path / "runs" / str(name) / "run.json"), text)
    other = RUN.format(dataclasses.replace(_RECORD, run_id="../../escaped"))
    files.write_text(str(tmp_path / "runs" / "g" / "run.json"), other)
    (tmp_path / "runs" / "a file").write_text("x")
    assert [r.run_id for r in workspace.runs()] == [_RECORD.run_id]
    for name in (*range(len(texts)), "g"):
        assert f"runs/{name}/run.json is left out" in caplog.text
    assert workspace.run().run_id == _RECORD.run_id


def test_a_lock_that_is_a_link_is_refused_and_its_target_left_alone(tmp_path):
    (tmp_path / "precious").write_text("precious")
    (tmp_path / ".lock").symlink_to(tmp_path / "precious")
    with pytest.raises(StorageError, match="found a link"), Workspace(str(tmp_path)).lock():
        pass
    assert (tmp_path / "precious").read_text() == "precious"
