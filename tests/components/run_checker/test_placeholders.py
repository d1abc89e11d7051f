import dataclasses
import datetime

from components.run_checker.placeholders import (
    RunValues,
    asks_for_value,
    check_placeholders,
    fill_placeholders,
    has_placeholder,
)
from detection_core.errors import ConfigError
from tests.support.cases import cases, refused

VALUES = RunValues(
    scheduled_time="2026-11-21T03:00:00Z",
    current_time=datetime.datetime(2026, 11, 21, 5, 0, tzinfo=datetime.timezone(datetime.timedelta(hours=1))),
    run_id="11ef-22",
)


def test_times_and_the_run_are_filled_in_utc():
    text = "/d/[[ScheduledTime]]/[[CurrentTime]]/[[ScheduledTime.2006-01-02]]/[[RunUUID]]"
    assert fill_placeholders(text, VALUES, "p") == "/d/20261121030000/20261121040000/2026-11-21/11ef-22"
    assert fill_placeholders("/d/{SPAN} [[1, 2]]", VALUES, "p") == "/d/{SPAN} [[1, 2]]"

    for moment in ("2026-11-21T04:00:00+01:00", "2026-11-21T03:00:00.25Z", "2026-11-21T03:00:00"):
        values = dataclasses.replace(VALUES, scheduled_time=moment)
        assert fill_placeholders("[[ScheduledTime]]", values, "p") == "20261121030000"


@cases(("{{$.pipeline_job_schedule_time_utc}}", "{{$.pipeline_job_uuid}}"), ("", ""))
def test_what_a_server_left_as_it_is_or_empty_stops_a_run_that_needs_it_and_no_other(*, time, run):
    values = dataclasses.replace(VALUES, scheduled_time=time, run_id=run)
    assert fill_placeholders("/d/[[CurrentTime.2006]]", values, "p") == "/d/2026"
    told = r"data_path: expected a value for .* from the server, .* 2\.17 or newer"
    for placeholder in ("[[ScheduledTime]]", "[[RunUUID]]"):
        refused(ConfigError, told, fill_placeholders, placeholder, values, "data_path")
    values = dataclasses.replace(VALUES, scheduled_time="soon")
    told = "expected the scheduled time as RFC 3339"
    refused(ConfigError, told, fill_placeholders, "[[ScheduledTime]]", values, "p")


@cases(
    ("[[ScheduleTime]]", r"a: no placeholder \[\[ScheduleTime\]\]; did you mean \[\[ScheduledTime\]\]\?"),
    ("[[Zzz]]", "there are ScheduledTime, CurrentTime, RunUUID"),
    ("[[RunUUID.2006]]", r"no placeholder \[\[RunUUID.2006\]\]"),
    ("x [[Index]]", r"\[\[Index\]\] cannot be filled, as no step is given the number of its run"),
)
def test_what_cannot_be_filled_is_refused(*, value, message):
    assert has_placeholder(value) and not has_placeholder("[[1]]")
    assert asks_for_value(value) == ("Index" in value or "UUID" in value)
    refused(ConfigError, message, check_placeholders, value, "a")
