"""Which parameters RunChecker fills, and which placeholders are refused."""

import pytest

from detection_core.errors import ConfigError
from pipeline.kubeflow.package import read_package
from pipeline.kubeflow.placeholder_rules import (
    check_placeholders,
    check_schedule_time,
    filled_parameters,
    schedule_timed,
)
from tests.pipeline.golden import GOLDEN
from tests.pipeline.kubeflow.clients import connect
from tests.pipeline.kubeflow.conftest import write_package
from tests.support.compiled import documents

FILLED = {"data_path", "span", "thresholds", "push_destination", "work_dir"}


@pytest.fixture
def spec():
    return documents()[0]


def _parameters(spec, task="run-checker"):
    return spec["root"]["dag"]["tasks"][task]["inputs"]["parameters"]


def test_what_run_checker_fills_is_read_from_the_package(spec, tmp_path):
    assert filled_parameters(spec) == FILLED == read_package(str(GOLDEN)).filled
    assert filled_parameters({"pipeline_spec": spec, "platform_spec": {}}) == FILLED
    # A text that reaches a step beside RunChecker is not filled, nor is anything in somebody else's pipeline.
    _parameters(spec, "evaluator")["thresholds"] = {"componentInputParameter": "thresholds"}
    assert filled_parameters(spec) == FILLED - {"thresholds"}
    assert read_package(write_package(tmp_path, fills=False)).filled == frozenset()
    # Checks that are told no time fill nothing.
    del _parameters(spec)["scheduled_time"]
    assert filled_parameters(spec) == frozenset()
    with pytest.raises(ConfigError, match=r"s\.yaml: a: expected no placeholder.*fills them in no parameter"):
        check_placeholders({"a": "[[ScheduledTime]]"}, filled_parameters(spec), "s.yaml")


def test_what_would_reach_a_step_as_it_is_is_refused():
    check_placeholders({"data_path": "x-[[ScheduledTime.2006-01-02]]", "n": 1, "c": "[[1]]"}, FILLED, "s")
    for name, text, message in (
        ("image", "app:[[ScheduledTime]]", r"s: image: expected no placeholder.* in data_path, push_dest"),
        ("data_path", "[[Index]]", r"s: data_path: \[\[Index\]\] cannot be filled"),
        ("data_path", "[[ScheduleTime]]", r"did you mean \[\[ScheduledTime\]\]\?"),
    ):
        with pytest.raises(ConfigError, match=message):
            check_placeholders({name: text}, FILLED, "s")


def test_a_default_or_a_constant_that_asks_for_the_scheduled_time_is_found(spec):
    assert schedule_timed(spec) == frozenset()
    spec["root"]["inputDefinitions"]["parameters"]["data_path"]["defaultValue"] = "/d/[[ScheduledTime]]"
    assert schedule_timed(spec) == {"data_path"}
    _parameters(spec)["request"] = {"runtimeValue": {"constant": "[[ScheduledTime.2006]]"}}
    assert schedule_timed({"pipeline_spec": spec}) == {"data_path", ""}


def test_the_scheduled_time_is_refused_for_servers_that_never_set_it(server):
    for version in ("2.16.0", "2.16.1", "2.17.0", "master"):
        server.version = version
        connection = connect(server)
        check_schedule_time(connection, {"data_path": "[[CurrentTime]]"}, (), "s.yaml")
        check_schedule_time(connection, {"data_path": "/d"}, {"data_path"}, "s.yaml")
        for values, timed in (({"data_path": "[[ScheduledTime]]"}, ()), ({}, {"data_path"})):
            if not version.startswith("2.16"):
                check_schedule_time(connection, values, timed, "s.yaml")
                continue
            expected = "s.yaml: data_path: expected a server 2.17 or newer for .*"
            with pytest.raises(ConfigError, match=f"{expected}found {version}, which gives no run its time"):
                check_schedule_time(connection, values, timed, "s.yaml")
