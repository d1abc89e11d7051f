import datetime
import itertools
import shutil
import subprocess

import pytest

from detection_core.errors import ConfigError
from pipeline.schedule.cron import parse_cron
from pipeline.schedule.systemd import calendar_events, crontab_line, five_fields, systemd_units
from tests.pipeline.schedule.triggers import trigger
from tests.support.cases import refused

COMMAND = ["/opt/v env/bin/detflow", "run", "/data/50%/settings.yaml"]


def test_a_service_and_a_timer():
    text = systemd_units("digits", trigger(cron="0 0 3 * * mon-fri", time_zone="Europe/Paris"), COMMAND, "/w")
    assert "OnCalendar=Mon,Tue,Wed,Thu,Fri *-*-* 3:0:0 Europe/Paris\n" in text
    assert "ExecStart='/opt/v env/bin/detflow' run /data/50%%/settings.yaml\n" in text
    assert "Persistent=false" in text and "# digits.service" in text and "# digits.timer" in text
    text = systemd_units("digits", trigger(interval="6h"), COMMAND, "/w")
    assert "OnActiveSec=21600\nOnUnitActiveSec=21600\n" in text
    with pytest.raises(ConfigError, match="a systemd timer has no beginning and end"):
        systemd_units("x", trigger(interval="6h", end="2036-01-01T00:00:00Z"), COMMAND, "/w")


def test_calendar_events():
    for cron, events in (
        ("0 0 3 * * *", ["*-*-* 3:0:0"]),
        ("*/30 0-5 * 1 1,6 ?", ["*-1,6-1 *:0..5:0,30"]),
        ("0 0 0 1,15 * 1", ["*-*-1,15 0:0:0", "Mon *-*-* 0:0:0"]),
        ("0 0 0 */10 * 1", ["Mon *-*-1,11,21,31 0:0:0"]),
        ("0 0 0 1 * 0-6", ["*-*-* 0:0:0"]),
        ("* * * * * *", ["*-*-* *:*:*"]),
        ("0 0 1-3,7,8 * * *", ["*-*-* 1..3,7,8:0:0"]),
    ):
        assert calendar_events(parse_cron(cron, "x")) == events


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
def test_systemd_reads_the_events_as_we_do():
    base = datetime.datetime(2026, 11, 21, tzinfo=datetime.UTC)
    read = ["systemd-analyze", "calendar", "--base-time=2026-11-21 00:00:00 UTC"]
    for cron in ("0 0 3 * * *", "*/30 0-5 * 1 1,6 ?", "15 */20 1-4/3 ? jan-mar sun,sat"):
        parsed = parse_cron(cron, "x")
        [event] = calendar_events(parsed)
        env = {"TZ": "UTC", "PATH": "/usr/bin:/bin"}
        done = subprocess.run([*read, f"{event} UTC"], capture_output=True, text=True, check=True, env=env)
        assert f"{parsed.next_after(base):%Y-%m-%d %H:%M:%S}" in done.stdout


def test_a_crontab_line_keeps_runs_apart_and_takes_an_interval_that_divides_the_day():
    text = crontab_line(trigger(cron="0 30 3 * * ?"), COMMAND, "/my files", "/w/.cron.lock")
    comment, line = text.splitlines()
    assert comment.startswith("#") and "UTC" in comment
    assert line == (
        "30 3 * * * cd '/my files' && mkdir -p /w && "
        r"flock --nonblock /w/.cron.lock '/opt/v env/bin/detflow' run /data/50\%/settings.yaml"
    )
    for interval, fields in (
        ("15m", "*/15 * * * *"),
        ("30m", "*/30 * * * *"),
        ("1h", "0 * * * *"),
        ("6h", "0 */6 * * *"),
        ("12h", "0 */12 * * *"),
        ("1d", "0 0 * * *"),
    ):
        line = crontab_line(trigger(interval=interval), COMMAND, "/", "/w/l").splitlines()[1]
        assert line.startswith(f"{fields} cd ")


def test_five_fields_mean_the_same_as_the_six():
    for cron, fields in {
        "0 0 3 * * *": "0 3 * * *",
        "0 */15 * ? * mon-fri": "0,15,30,45 * * * 1-5",
        "0 5/25 0 1,15 * 1": "5,30,55 0 1,15 * 1",
        "0 0 0 */10 * *": "0 0 1,11,21,31 * *",
        "0 0 0 1-31 * 1": "0 0 1-31 * 1",
        "@monthly": "0 0 1 * *",
    }.items():
        assert five_fields(parse_cron(cron, "x")) == fields
    # Of every mix of day fields that is written, the days are those of the six fields.
    written = 0
    for day, weekday in itertools.product(("*", "1", "1-31", "*/2", "3,9"), ("?", "1", "0-6", "*/2", "1-5")):
        six = parse_cron(f"0 0 0 {day} * {weekday}", "x")
        try:
            five = five_fields(six)
        except ConfigError:
            continue
        written += 1
        again = parse_cron(f"0 {five}", "x")
        moment = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
        for _ in range(40):
            expected = six.next_after(moment)
            assert again.next_after(moment) == expected, (day, weekday, five)
            moment = expected
    assert written > 15


def test_what_a_crontab_cannot_say_is_refused():
    for given, message in (
        ({"cron": "30 0 3 * * *"}, "a crontab knows no seconds, found '30 0 3"),
        ({"cron": "0 0 3 */2 * 1"}, "cannot ask for both days"),
        ({"interval": "45m"}, "a crontab cannot repeat every 2700 s"),
        ({"interval": "30s"}, "a crontab cannot repeat every 30 s"),
        ({"interval": "2d"}, "a crontab cannot repeat"),
        ({"interval": "6h", "start": "2026-01-01T00:00:00Z"}, "a crontab has no beginning and end"),
    ):
        caught = refused(ConfigError, message, crontab_line, trigger(**given), COMMAND, "/", "/w/l")
        assert "run it with `detflow schedule run-local`" in str(caught)
