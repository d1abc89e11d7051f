"""When a schedule fires."""

import datetime
import itertools
import zoneinfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_core.errors import ConfigError
from pipeline.schedule.trigger import format_interval, parse_cron, parse_interval, parse_time, require_future
from tests.pipeline.schedule.triggers import trigger
from tests.support.cases import refused

UTC = datetime.UTC
PARIS = zoneinfo.ZoneInfo("Europe/Paris")
BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))  # of minutes to days of the week


def _next(text, moment, count=1):
    cron = parse_cron(text, "cron")
    return list(itertools.accumulate(range(count), lambda time, _: cron.next_after(time), initial=moment))[1:]


def _at(text, zone=UTC):
    return datetime.datetime.fromisoformat(text).replace(tzinfo=zone)


def test_the_next_times():
    for text, after, expected in (
        ("0 0 3 * * *", "2026-11-21T03:00:00", ["2026-11-22T03:00:00", "2026-11-23T03:00:00"]),
        ("0 0 3 * * *", "2026-11-21T02:59:59", ["2026-11-21T03:00:00"]),
        ("15,45 */20 * * * *", "2026-01-01T00:00:15", ["2026-01-01T00:00:45", "2026-01-01T00:20:15"]),
        ("0 5/25 0 * * ?", "2026-01-01T00:00:00", ["2026-01-01T00:05:00", "2026-01-01T00:30:00"]),
        ("0 0 9 ? * MON-FRI", "2026-11-20T10:00:00", ["2026-11-23T09:00:00"]),
        ("0 0 0 1 jan,JUL *", "2026-02-01T00:00:00", ["2026-07-01T00:00:00", "2027-01-01T00:00:00"]),
        ("0 0 0 29 2 ?", "2026-01-01T00:00:00", ["2028-02-29T00:00:00"]),
        ("0 0 0 ? * 0", "2026-11-21T00:00:00", ["2026-11-22T00:00:00"]),
        ("@weekly", "2026-11-21T00:00:00", ["2026-11-22T00:00:00"]),
        ("@hourly", "2026-11-21T23:30:00", ["2026-11-22T00:00:00"]),
        # Both days narrowed: the 1st and every Monday.
        ("0 0 0 1 * 1", "2026-11-29T00:00:00", ["2026-11-30T00:00:00", "2026-12-01T00:00:00"]),
        # A stepped star is a star: odd days that are Mondays.
        ("0 0 0 */2 * 1", "2026-11-01T00:00:00", ["2026-11-09T00:00:00", "2026-11-23T00:00:00"]),
        ("59 59 23 31 12 *", "2026-12-31T23:59:59", ["2027-12-31T23:59:59"]),
    ):
        assert _next(text, _at(after), len(expected)) == [_at(e) for e in expected], text


_FIELD = st.sampled_from(["*", "?", "0", "1", "3", "1-4", "*/2", "2/3", "0-6/2", "1,5", "*/3,1"])


@settings(max_examples=60, deadline=None)
@given(st.tuples(_FIELD, _FIELD, _FIELD, _FIELD, _FIELD), st.integers(0, 400 * 86400))
def test_the_next_time_is_the_first_that_a_slow_loop_finds(fields, offset):
    minute, hour, day, month, weekday = fields
    day, month = day.replace("0", "1"), month.replace("0", "1")
    text = f"0 {minute} {hour} {day} {month} {weekday}"
    moment = _at("2026-01-01T00:00:00") + datetime.timedelta(seconds=offset)
    hours = (moment.replace(minute=0, second=0) + datetime.timedelta(hours=i) for i in range(24 * 366 * 5))
    allowed = [_slow_field(f, *b) for f, b in zip((minute, hour, day, month, weekday), BOUNDS, strict=True)]
    either = not any(f.startswith(("*", "?")) or ",*" in f for f in (day, weekday))
    found = None
    for slot in hours:
        if slot.hour not in allowed[1] or slot.month not in allowed[3]:
            continue
        days = (slot.day in allowed[2], slot.isoweekday() % 7 in allowed[4])
        if not (any(days) if either else all(days)):
            continue
        minutes = [slot.replace(minute=m) for m in sorted(allowed[0])]
        found = next((m for m in minutes if m > moment), None)
        if found:
            break
    assert parse_cron(text, "cron").next_after(moment) == found


def _slow_field(text, low, high):
    numbers = set()
    for part in text.split(","):
        body, _, step = part.partition("/")
        if body in ("*", "?"):
            first, last = low, high
        elif "-" in body:
            first, last = map(int, body.split("-"))
        else:
            first, last = int(body), high if step else int(body)
        numbers |= {n for n in range(first, last + 1) if (n - first) % int(step or 1) == 0}
    return numbers


def test_an_hour_that_the_clocks_leave_out_does_not_fire_and_one_that_they_repeat_fires_once():
    after = _at("2026-03-28T12:00:00", PARIS)
    assert _next("0 30 2 * * *", after) == [_at("2026-03-30T02:30:00", PARIS)]
    times = _next("0 30 2 * * *", _at("2026-10-24T12:00:00", PARIS), 2)
    assert times == [_at("2026-10-25T02:30:00", PARIS), _at("2026-10-26T02:30:00", PARIS)]
    assert times[0].utcoffset() == datetime.timedelta(hours=2)
    second_half_past_two = _at("2026-10-25T02:30:00", PARIS).replace(fold=1)
    [after] = _next("0 */15 * * * *", second_half_past_two)
    assert after.timestamp() > second_half_past_two.timestamp()


def test_what_the_cluster_would_refuse_or_misread_is_refused():
    for text, message in (
        ("0 3 * * *", r"six fields, seconds first, found five.*Write '0 0 3 \* \* \*'"),
        ("*/5 * * * *", r"Write '0 \*/5 \* \* \* \*'"),
        ("0 0 3 *", "expected six fields .* found 4"),
        ("", "found 0"),
        ("0 0 0 3 * * *", "found 7"),
        ("60 0 3 * * *", "seconds: expected 0 to 59, found 60"),
        ("0 60 3 * * *", "minutes: expected 0 to 59, found 60"),
        ("0 0 24 * * *", "hours: expected 0 to 23, found 24"),
        ("0 0 3 0 * *", "day of month: expected 1 to 31, found 0"),
        ("0 0 3 * 13 *", "month: expected 1 to 12, found 13"),
        ("0 0 3 * * 7", "day of week: expected 0 to 6, found 7; Sunday is 0"),
        ("0 0 3 * * mo", "expected a number or a name of sun to sat, found 'mo'"),
        ("0 0 3-1 * * *", "hours: the range 3-1 ends before it begins"),
        ("0 0 */0 * * *", "hours: expected a step above 0"),
        ("0 0 */x * * *", "hours: expected a step above 0"),
        ("0 0/² * * * *", "minutes: expected a step above 0 after the slash, found '0/²'"),
        ("0 0/٢ * * * *", "minutes: expected a step above 0"),
        (f"0 0/{'9' * 5000} * * * *", "minutes: expected a step above 0"),
        ("0 ² * * * *", "minutes: expected a number, found '²'"),
        (f"0 {'0' * 5000} * * * *", "minutes: expected a number, found '0{40}'"),
        ("0 0 1-2-3 * * *", "expected a number, a-b or a-b/n, found '1-2-3'"),
        ("0 0 1/2/3 * * *", "expected a number, a-b or a-b/n"),
        ("0 0 1, * * *", "expected a number, a-b or a-b/n, found ''"),
        ("0 0 -1 * * *", "hours: expected a number"),
        ("0 0 L * * *", "hours: expected a number, found 'L'"),
        ("0 0 0 30 2 ?", "names a day that no month has"),
        ("@every 1h", "for `@every` set an interval"),
        ("@dayly", "expected one of @yearly"),
        ("TZ=Europe/Paris 0 0 3 * * *", "takes no time zone"),
    ):
        caught = refused(ConfigError, message, parse_cron, text, "s.yaml: schedule.cron")
        assert str(caught).startswith("s.yaml: schedule.cron: ")


def test_every_number_of_every_field_is_accepted():
    for position, (low, high) in enumerate([(0, 59), *BOUNDS]):
        for number, form in itertools.product((low, high), ("{}", "{}-{}", "{}/1")):
            fields = ["0", "0", "0", "*", "*", "*"]
            fields[position] = form.format(number, number)
            assert parse_cron(" ".join(fields), "cron")


FUTURE = "2030-01-01T00:00:00Z"
NOW = datetime.datetime(2026, 11, 21, 10, 0, tzinfo=datetime.UTC)


def _hours(times):
    return [(t - NOW).total_seconds() / 3600 for t in times]


def test_cron_fires_in_its_window_and_time_zone_and_an_interval_from_its_start_or_from_now():
    paris = trigger(cron="0 0 3 * * *", time_zone="Europe/Paris")
    [first] = paris.preview(NOW, 1)
    assert first.isoformat() == "2026-11-22T03:00:00+01:00" and paris.describe() == "cron 0 0 3 * * *"
    window = {"start": "2026-11-21T12:00:00Z", "end": "2026-11-21T14:00:00+00:00"}
    assert _hours(trigger(cron="0 0 * * * *", **window).preview(NOW, 5)) == [3, 4]
    assert _hours(trigger(interval="50m", **window).preview(NOW, 5)) == pytest.approx([2 + 5 / 6, 3 + 2 / 3])
    assert trigger(interval="1h", **window).describe() == (
        "every 1h from 2026-11-21T12:00:00+00:00 until 2026-11-21T14:00:00+00:00"
    )
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
        refused(ConfigError, message, trigger, **changes)
    past = trigger(cron="@daily", end="2020-01-01T00:00:00Z")
    refused(ConfigError, "would never fire: its end is past", require_future, past, "s.yaml")
    require_future(trigger(cron="@daily"), "s.yaml")
