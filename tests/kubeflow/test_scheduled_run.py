"""Placeholders in the parameters of a schedule: every step of a run gets their values, as on one machine."""

from __future__ import annotations

import dataclasses
import json

import pytest
import yaml

from component_specs.kfp_outputs import encode_results
from pipeline.run_checks import run_checks
from pipeline.settings.settings_file import load_settings
from tests.kubeflow.compiled_run import run_compiled
from tests.pipeline.golden import GOLDEN, SETTINGS
from tests.support.dataset_files import Coco

SPLITS = '{"train": 1.0}'


@pytest.fixture
def parameters(tmp_path):
    day = tmp_path / "data" / "2026-11-21"
    Coco(day, images=4).write("annotations.json")
    return {
        "data_path": f"{tmp_path}/data/[[ScheduledTime.2006-01-02]]",
        "push_destination": f"{tmp_path}/pushed/[[ScheduledTime]]",
        "work_dir": f"{tmp_path}/work/[[RunUUID]]",
        "thresholds": '{"mAP": {"lower_bound": 0.[[ScheduledTime.02]]}}',
    }


def _spec(*tasks):
    """Return the example's pipeline cut down to some tasks, its splits to one."""
    spec = next(yaml.safe_load_all(GOLDEN.read_text(encoding="utf-8")))
    kept = {name: spec["root"]["dag"]["tasks"][name] for name in tasks}
    for task in kept.values():
        task["inputs"]["parameters"]["splits"] = {"runtimeValue": {"constant": SPLITS}}
    return {**spec, "root": {**spec["root"], "dag": {"tasks": kept}}}


def _checks(**given):
    return run_checks(load_settings(str(SETTINGS), check_files=False), splits=json.loads(SPLITS), **given)


def test_every_step_gets_the_values_of_the_slot_and_so_it_is_on_one_machine(cluster, parameters, tmp_path):
    done = run_compiled(cluster, _spec("run-checker", "example-gen", "baseline-resolver"), **parameters)
    found = done["run-checker"].parameters
    assert found["resolved_data_path"] == f"{tmp_path}/data/2026-11-21"
    assert found["resolved_push_destination"] == f"{tmp_path}/pushed/20261121030000"
    assert found["resolved_work_dir"] == f"{tmp_path}/work/{cluster.run_id}"
    assert json.loads(found["resolved_thresholds"]) == {"mAP": {"lower_bound": 0.21}}
    assert "4 images" in done["example-gen"].folder["card"].read_text()
    assert done["baseline-resolver"].artifacts["baseline"]["metadata"]["absent"] == 1

    here = _checks(**parameters, scheduled_time=cluster.scheduled_time, run_id=cluster.run_id)
    same = [name for name in found if name.startswith("resolved_")]
    assert len(same) == 4
    carried = encode_results("run_checker", here)
    for name in (*same, "data_fingerprint", "data_spans"):
        assert carried[name] == found[name]


def test_another_slot_is_the_same_run_unless_the_run_asks_for_its_time(parameters, tmp_path):
    slots = ("2026-11-21T03:00:00Z", "2026-12-24T03:00:00Z")
    timed = {**parameters, "data_path": f"{tmp_path}/data/2026-11-21", "work_dir": "/work"}
    plain = {**timed, "thresholds": "{}"}
    assert len({_checks(**plain, scheduled_time=slot, run_id=slot)["run_key"] for slot in slots}) == 1
    assert len({_checks(**timed, scheduled_time=slot)["run_key"] for slot in slots}) == 2


# 2.16.0 and 2.16.1 put an empty text there: their driver's options have the field, which nothing sets.
@pytest.mark.parametrize("given", ["{{$.pipeline_job_schedule_time_utc}}", ""])
def test_a_server_that_fills_nothing_stops_the_run_that_needs_it(cluster, parameters, given):
    older = dataclasses.replace(cluster, scheduled_time=given)
    with pytest.raises(AssertionError, match=r"expected a value for \[\[ScheduledTime"):
        run_compiled(older, _spec("run-checker"), **parameters)
