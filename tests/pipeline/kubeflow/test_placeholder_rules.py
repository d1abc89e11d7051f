from __future__ import annotations

import copy

import pytest
import yaml

from detection_core.errors import ConfigError
from pipeline.kubeflow.connection import Connection
from pipeline.kubeflow.package import read_package
from pipeline.kubeflow.placeholder_rules import (
    check_placeholders,
    check_schedule_time,
    filled_parameters,
    schedule_timed,
)
from pipeline.settings.connection_settings import ConnectionOptions
from tests.pipeline.golden import GOLDEN
from tests.pipeline.kubeflow.conftest import write_package

FILLED = {"data_path", "span", "thresholds", "push_destination", "work_dir"}


@pytest.fixture(scope="module")
def spec():
    return next(yaml.safe_load_all(GOLDEN.read_text(encoding="utf-8")))


def test_what_run_checker_fills_is_read_from_the_package(spec):
    assert filled_parameters(spec) == FILLED == read_package(str(GOLDEN)).filled
    assert filled_parameters({"pipeline_spec": spec, "platform_spec": {}}) == FILLED


def test_a_text_that_reaches_a_step_beside_run_checker_is_not_filled(spec):
    changed = copy.deepcopy(spec)
    evaluator = changed["root"]["dag"]["tasks"]["evaluator"]["inputs"]["parameters"]
    evaluator["thresholds"] = {"componentInputParameter": "thresholds"}
    assert filled_parameters(changed) == FILLED - {"thresholds"}


def test_a_pipeline_whose_checks_are_told_no_time_fills_nothing(spec):
    changed = copy.deepcopy(spec)
    del changed["root"]["dag"]["tasks"]["run-checker"]["inputs"]["parameters"]["scheduled_time"]
    assert filled_parameters(changed) == frozenset()
    with pytest.raises(ConfigError, match=r"s\.yaml: a: expected no placeholder.*fills them in no parameter"):
        check_placeholders({"a": "[[ScheduledTime]]"}, filled_parameters(changed), "s.yaml")


def test_what_would_reach_a_step_as_it_is_is_refused():
    check_placeholders({"data_path": "x-[[ScheduledTime.2006-01-02]]", "n": 1, "c": "[[1]]"}, FILLED, "s")
    with pytest.raises(ConfigError, match=r"s: image: expected no placeholder.* in data_path, push_dest"):
        check_placeholders({"image": "app:[[ScheduledTime]]"}, FILLED, "s")
    with pytest.raises(ConfigError, match=r"s: data_path: \[\[Index\]\] cannot be filled"):
        check_placeholders({"data_path": "[[Index]]"}, FILLED, "s")
    with pytest.raises(ConfigError, match=r"did you mean \[\[ScheduledTime\]\]\?"):
        check_placeholders({"data_path": "[[ScheduleTime]]"}, FILLED, "s")


def test_somebody_elses_pipeline_fills_nothing(tmp_path):
    assert read_package(write_package(tmp_path, fills=False)).filled == frozenset()


def test_a_default_or_a_constant_that_asks_for_the_scheduled_time_is_found(spec):
    assert schedule_timed(spec) == frozenset()
    changed = copy.deepcopy(spec)
    changed["root"]["inputDefinitions"]["parameters"]["data_path"]["defaultValue"] = "/d/[[ScheduledTime]]"
    assert schedule_timed(changed) == {"data_path"}
    checks = changed["root"]["dag"]["tasks"]["run-checker"]["inputs"]["parameters"]
    checks["request"] = {"runtimeValue": {"constant": "[[ScheduledTime.2006]]"}}
    assert schedule_timed({"pipeline_spec": changed}) == {"data_path", ""}


@pytest.mark.parametrize(
    ("version", "refused"), [("2.16.0", True), ("2.16.1", True), ("2.17.0", False), ("master", False)]
)
def test_the_scheduled_time_is_refused_for_servers_that_never_set_it(server, version, refused):
    server.version = version
    connection = Connection.open(ConnectionOptions(host=server.url, timeout=5))
    check_schedule_time(connection, {"data_path": "[[CurrentTime]]"}, (), "s.yaml")
    check_schedule_time(connection, {"data_path": "/d"}, {"data_path"}, "s.yaml")
    for values, timed in (({"data_path": "[[ScheduledTime]]"}, ()), ({}, {"data_path"})):
        try:
            check_schedule_time(connection, values, timed, "s.yaml")
        except ConfigError as e:
            assert refused and "s.yaml: data_path: expected a server 2.17 or newer for [[Sch" in str(e)
            assert f"found {version}, which gives no run its time" in str(e)
        else:
            assert not refused
