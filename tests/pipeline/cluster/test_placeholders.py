from __future__ import annotations

import datetime

import pytest

from detection_core.errors import ConfigError
from pipeline.cluster.placeholders import check_placeholders, fill_placeholders

NOW = datetime.datetime(2026, 11, 21, 4, 0, tzinfo=datetime.timezone(datetime.timedelta(hours=1)))


def test_known_placeholders_pass_and_numbers_are_no_texts():
    check_placeholders({"a": "x-[[ScheduledTime.2006-01-02]]-[[Index]]", "b": 1, "c": "[[RunUUID]]"}, "s")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("[[ScheduleTime]]", r"a: no placeholder \[\[ScheduleTime\]\]; did you mean \[\[ScheduledTime\]\]\?"),
        ("[[Zzz]]", "there are ScheduledTime, CurrentTime, Index, RunUUID"),
        ("[[Index.2006]]", r"no placeholder \[\[Index.2006\]\]"),
    ],
)
def test_what_the_cluster_would_leave_as_it_is_is_refused(value, message):
    with pytest.raises(ConfigError, match=message):
        check_placeholders({"a": value}, "s")


def test_times_are_filled_in_utc_and_the_rest_must_be_given():
    assert fill_placeholders({"a": "d/[[ScheduledTime]]", "n": 3}, NOW) == {"a": "d/20261121030000", "n": 3}
    for value in ("[[Index]]", "[[ScheduledTime.2006]]"):
        with pytest.raises(ConfigError, match="give --param a=VALUE"):
            fill_placeholders({"a": value}, NOW)
