import datetime

import pytest

from detection_core.errors import ConfigError
from pipeline.schedule.trigger import format_interval, parse_interval, parse_time, require_future
from tests.pipeline.schedule.triggers import trigger
from tests.support.cases import refused

FUTURE = "2030-01-01T00:00:00Z"
NOW = datetime.datetime(2026, 11, 21, 10, 0, tzinfo=datetime.UTC)


def _hours(times):
    return [(t - NOW).total_seconds() / 3600 for t in times]


def test_a_cron_expression_is_read_in_the_time_zone_and_fires_in_its_window():
    paris = trigger(cron="0 0 3 * * *", time_zone="Europe/Paris")
    [first] = paris.preview(NOW, 1)
    assert first.isoformat() == "2026-11-22T03:00:00+01:00"
    assert paris.describe() == "cron 0 0 3 * * *"
    window = {"start": "2026-11-21T12:00:00Z", "end": "2026-11-21T14:00:00+00:00"}
    assert _hours(trigger(cron="0 0 * * * *", **window).preview(NOW, 5)) == [3, 4]
    assert _hours(trigger(interval="50m", **window).preview(NOW, 5)) == pytest.approx([2 + 5 / 6, 3 + 2 / 3])
    assert trigger(interval="1h", **window).describe() == (
        "every 1h from 2026-11-21T12:00:00+00:00 until 2026-11-21T14:00:00+00:00"
    )


def test_an_interval_counts_from_the_start_or_from_now_where_it_is_over():
    assert _hours(trigger(interval="6h").preview(NOW, 3)) == [6, 12, 18]
    since = trigger(interval="6h", start="2026-11-20T01:00:00Z")
    assert _hours(since.preview(NOW, 2)) == [3, 9]
    future = trigger(cron="@daily", start=FUTURE)
    assert _hours(since.without_past_start(NOW).preview(NOW, 2)) == [6, 12]
    assert future.without_past_start(NOW) == future


def test_intervals_and_times_with_a_zone():
    for text, seconds in {"45s": 45, "90m": 5400, "1h30m": 5400, "1d": 86400, "@every 2h": 7200}.items():
        assert parse_interval(text, "x") == seconds
        assert parse_interval(format_interval(seconds), "x") == seconds
    for text in ("6", "0s", "-1h", "1.5h", "1w", "h", "6h x"):
        refused(ConfigError, "expected a time such as 90m, 6h or 1d", parse_interval, text, "x")
    assert parse_time("2030-01-31t03:00:00z", "x").hour == 3
    assert parse_time("2030-01-31 03:00:00+01:00", "x").utcoffset() == datetime.timedelta(hours=1)
    with pytest.raises(ConfigError, match=r"expected a time with a zone .*add Z or \+01:00"):
        parse_time("2030-01-31T03:00:00", "x")
    for text in ("2030-01-31", "tomorrow", "2030-13-31T03:00:00Z"):
        refused(ConfigError, "expected an RFC 3339 time such as", parse_time, text, "x")


def test_a_schedule_that_cannot_be_or_is_over_is_refused():
    turned = {"start": "2030-01-02T00:00:00Z", "end": "2030-01-01T00:00:00Z"}
    for changes, message in (
        ({}, "expected one of schedule.cron .* and schedule.interval, found neither"),
        ({"cron": "@daily", "interval": "1h"}, "found both"),
        ({"cron": "@daily", "time_zone": "Paris"}, "expected a name such as Europe/Paris, found 'Paris'"),
        ({"cron": "@daily", **turned}, "expected an end after the start"),
        ({"cron": "@daily", "start": FUTURE, "end": FUTURE}, "expected an end after the start"),
        ({"cron": "0 3 * * *"}, "^schedule.cron: expected six fields"),
        ({"interval": "x"}, "^schedule.interval: expected"),
        ({"cron": "@daily", "start": "x"}, "^schedule.start: expected"),
        ({"cron": "@daily", "end": "x"}, "^schedule.end: expected"),
    ):
        with pytest.raises(ConfigError, match=message):
            trigger(**changes)
    past = trigger(cron="@daily", end="2020-01-01T00:00:00Z")
    refused(ConfigError, "would never fire: its end is past", require_future, past, "s.yaml")
    require_future(trigger(cron="@daily"), "s.yaml")
