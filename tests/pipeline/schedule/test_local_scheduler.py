"""Runs on a schedule on this machine."""

import datetime
import logging
import os
import shutil
import signal
import subprocess
import sys
from unittest import mock

import pytest

from detection_core.errors import ConfigError
from pipeline.local.workspace import Workspace
from pipeline.schedule import local_scheduler
from pipeline.schedule.local_scheduler import LocalSchedule
from pipeline.schedule.systemd import calendar_events, systemd_units
from pipeline.schedule.trigger import parse_cron
from tests.pipeline.schedule.triggers import trigger

NOTE = "import sys; open(sys.argv[1], 'a').write(' '.join(sys.argv[3:]) + '\\n'); sys.exit(int(sys.argv[2]))"


@pytest.fixture(autouse=True)
def no_naps(monkeypatch):
    monkeypatch.setattr(local_scheduler, "_NAP_SECONDS", 0.0)


@pytest.fixture
def notes(tmp_path):
    """What the runs were called with."""
    (tmp_path / "notes").write_text("")
    return lambda: (tmp_path / "notes").read_text().splitlines()


def clock(*moments, step=20):
    """Give some moments of 2026, the last of which goes on by some seconds with each look."""
    times = [datetime.datetime.fromisoformat(f"2026-01-{moment}+00:00") for moment in moments]

    def now():
        if len(times) > 1:
            return times.pop(0)
        times[0] += datetime.timedelta(seconds=step)
        return times[0]

    return now


def schedule(folder, fires, now, *, command=(), code=0):
    noting = [sys.executable, "-S", "-c", NOTE, str(folder / "notes"), str(code)]
    return LocalSchedule(fires, command or noting, str(folder), Workspace(str(folder)).is_locked, now)


def test_every_run_waits_for_its_slot_and_is_told_it(tmp_path, notes, caplog):
    caplog.set_level(logging.INFO)
    fires = trigger(cron="@hourly", time_zone="Europe/Paris")
    assert schedule(tmp_path, fires, clock("01T02:30:00")).serve(max_runs=3) == 3
    assert notes() == [f"--scheduled-time 2026-01-01T0{hour}:00:00Z" for hour in (3, 4, 5)]
    slots = [message for message in caplog.messages if "next run" in message]
    assert slots == [f"schedule | next run 2026-01-01T0{hour}:00:00+01:00" for hour in (4, 5, 6)]
    assert sum("run done in 0 s" in message for message in caplog.messages) == 3


def test_a_slot_slept_through_is_left_out_and_one_a_minute_late_is_kept(tmp_path, notes, caplog):
    now = clock("01T02:59:00", "01T02:59:30", "01T08:00:00", "01T08:00:00", "01T08:00:00", "02T03:00:00")
    assert schedule(tmp_path, trigger(cron="0 0 3 * * *"), now).serve(max_runs=1) == 1
    assert "slot 2026-01-01T03:00:00+00:00 left out: it is over by 18000 s; the machine slept" in caplog.text
    assert notes() == ["--scheduled-time 2026-01-02T03:00:00Z"]
    for late, made in (("01T03:01:00", ["--scheduled-time 2026-01-01T03:00:00Z"]), ("01T03:01:01", [])):
        (tmp_path / "notes").write_text("")
        fires = trigger(cron="0 0 3 * * *", end="2026-01-01T04:00:00Z")
        schedule(tmp_path, fires, clock("01T02:59:00", late, late, "01T05:00:00")).serve()
        assert notes() == made


def test_a_failed_run_does_not_end_the_schedule_but_the_end_of_its_window_does(tmp_path, notes, caplog):
    schedule(tmp_path, trigger(interval="1h"), clock("01T00:00:00"), code=2).serve(max_runs=2)
    assert len(notes()) == 2 and "run failed with exit code 2; the next slot tries again" in caplog.text
    (tmp_path / "notes").write_text("")
    fires = trigger(interval="1h", end="2026-01-01T02:30:00Z", start="2026-01-01T00:00:00Z")
    assert schedule(tmp_path, fires, clock("01T02:29:30")).serve() == 0
    # On the machine's own clock, too.
    assert LocalSchedule(fires, ["false"], str(tmp_path), lambda: False).serve() == 0 and notes() == []


def test_a_slot_during_a_run_is_left_out_and_a_second_scheduler_refused(tmp_path, notes, caplog, monkeypatch):
    monkeypatch.setattr(Workspace, "is_locked", mock.Mock(side_effect=(True, False)))  # at the first slot
    schedule(tmp_path, trigger(interval="1h"), clock("01T00:00:00")).serve(max_runs=1)
    assert "slot 2026-01-01T01:00:20+00:00 left out: a run is under way" in caplog.text and len(notes()) == 1
    first, second = (schedule(tmp_path, trigger(interval="1h"), clock("01T00:00:00")) for _ in range(2))
    with first.exclusive(), pytest.raises(ConfigError, match="expected no other scheduler here, found one"):
        second.serve()


# A run that has its scheduler stopped, by the signal of its first argument, and says how it ended itself.
SLEEPER = """
import os, pathlib, sys, time
number, folder, patience = int(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3] == "patient"
try:
    os.kill(os.getppid(), number)
    time.sleep(30)
except KeyboardInterrupt:
    (folder / "interrupted").touch()
    if patience:
        os.kill(os.getppid(), number)
        time.sleep(30)
    (folder / "ended in order").touch()
    sys.exit(130)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_interrupts_the_run_and_a_second_one_kills_it(tmp_path, caplog, number):
    handlers = [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)]
    for patience, left in (("no", {"interrupted", "ended in order"}), ("patient", {"interrupted"})):
        folder = tmp_path / patience
        folder.mkdir()
        command = [sys.executable, "-S", "-c", SLEEPER, str(int(number)), str(folder), patience]
        served = schedule(folder, trigger(interval="1h"), clock("01T00:00:00"), command=command)
        with caplog.at_level(logging.INFO):
            assert served.serve() == 1
        assert {path.name for path in folder.iterdir()} - {".schedule.lock"} == left
        assert "run stopped after" in caplog.text
    assert [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)] == handlers
    with schedule(tmp_path, trigger(interval="1h"), clock("01T00:00:00")).exclusive():
        pass


def test_a_signal_ends_the_waiting_at_once(tmp_path, notes, monkeypatch):
    monkeypatch.setattr(local_scheduler, "_NAP_SECONDS", 60.0)
    looks = []

    def now():
        looks.append(len(looks))
        if len(looks) == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)

    assert schedule(tmp_path, trigger(interval="1h"), now).serve() == 0 and looks == [0, 1] and notes() == []


COMMAND = ["/opt/v env/bin/detflow", "run", "/data/50%/settings.yaml"]


def test_a_service_and_a_timer_with_its_calendar_events():
    text = systemd_units("digits", trigger(cron="0 0 3 * * mon-fri", time_zone="Europe/Paris"), COMMAND, "/w")
    assert "OnCalendar=Mon,Tue,Wed,Thu,Fri *-*-* 3:0:0 Europe/Paris\n" in text
    assert "ExecStart='/opt/v env/bin/detflow' run /data/50%%/settings.yaml\n" in text
    assert "Persistent=false" in text and "# digits.service" in text and "# digits.timer" in text
    text = systemd_units("digits", trigger(interval="6h"), COMMAND, "/w")
    assert "OnActiveSec=21600\nOnUnitActiveSec=21600\n" in text
    with pytest.raises(ConfigError, match="a systemd timer has no beginning and end"):
        systemd_units("x", trigger(interval="6h", end="2036-01-01T00:00:00Z"), COMMAND, "/w")
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
