from __future__ import annotations

import datetime
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from detection_core.errors import ConfigError
from pipeline.local.workspace import Workspace
from pipeline.schedule import local_scheduler
from pipeline.schedule.local_scheduler import LocalSchedule
from pipeline.schedule.trigger import make_trigger

ROOT = Path(__file__).parents[3]
NOTE = "import sys; open(sys.argv[1], 'a').write('run\\n'); sys.exit(int(sys.argv[2]))"


@pytest.fixture(autouse=True)
def short_naps(monkeypatch):
    monkeypatch.setattr(local_scheduler, "_NAP_SECONDS", 0.01)


@pytest.fixture
def never_late(monkeypatch):
    """On a fast clock every slot is noticed late."""
    monkeypatch.setattr(local_scheduler, "_LATEST_SECONDS", float("inf"))


def _trigger(**given):
    texts = {"cron": "", "interval": "", "start": "", "end": "", "time_zone": "UTC"}
    return make_trigger(**{**texts, **given})


def _note(path, code=0):
    return [sys.executable, "-S", "-c", NOTE, str(path), str(code)]


class FastClock:
    """A clock on which an hour takes a few milliseconds."""

    def __init__(self, speed=1e6):
        self.begun, self.speed = time.monotonic(), speed
        self.start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)

    def __call__(self):
        return self.start + datetime.timedelta(seconds=(time.monotonic() - self.begun) * self.speed)


def test_every_run_waits_for_its_slot_and_none_is_made_up_for(never_late, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    clock = FastClock()
    command, workspace = _note(tmp_path / "notes"), Workspace(str(tmp_path))
    schedule = LocalSchedule(_trigger(cron="@hourly"), command, workspace, clock)
    assert schedule.serve(max_runs=3) == 3
    assert (tmp_path / "notes").read_text() == "run\n" * 3
    slots = [r.getMessage() for r in caplog.records if "next run" in r.getMessage()]
    assert len(slots) == len(set(slots)) == 3


def test_a_run_is_told_its_slot(never_late, tmp_path):
    tell = "import sys; open(sys.argv[1], 'a').write(' '.join(sys.argv[2:]) + '\\n')"
    clock = FastClock(speed=1e5)
    clock.start = datetime.datetime(2026, 1, 1, 2, 30, tzinfo=datetime.UTC)
    command = [sys.executable, "-S", "-c", tell, str(tmp_path / "notes")]
    trigger = _trigger(cron="@hourly", time_zone="Europe/Paris")
    LocalSchedule(trigger, command, Workspace(str(tmp_path)), clock).serve(max_runs=1)
    assert (tmp_path / "notes").read_text() == "--scheduled-time 2026-01-01T03:00:00Z\n"


def test_a_slot_that_the_machine_slept_through_is_left_out(tmp_path, caplog):
    days = ["01T02:59:00", "01T02:59:30", "01T08:00:00", "01T08:00:00", "01T08:00:00", "02T03:00:20"]
    times = [datetime.datetime.fromisoformat(f"2026-01-{day}+00:00") for day in days]
    trigger = _trigger(cron="0 0 3 * * *")

    def clock():
        return times.pop(0) if len(times) > 1 else times[0]

    tell = "import sys; open(sys.argv[1], 'a').write(' '.join(sys.argv[2:]) + '\\n')"
    command = [sys.executable, "-S", "-c", tell, str(tmp_path / "notes")]
    assert LocalSchedule(trigger, command, Workspace(str(tmp_path)), clock).serve(max_runs=1) == 1
    assert "slot 2026-01-01T03:00:00+00:00 left out: it is over by 18000 s; the machine slept" in caplog.text
    assert (tmp_path / "notes").read_text() == "--scheduled-time 2026-01-02T03:00:00Z\n"


def test_a_failed_run_does_not_end_the_schedule(never_late, tmp_path, caplog):
    clock = FastClock()
    command = _note(tmp_path / "notes", code=2)
    LocalSchedule(_trigger(interval="1h"), command, Workspace(str(tmp_path)), clock).serve(max_runs=2)
    assert (tmp_path / "notes").read_text() == "run\n" * 2
    assert "run failed with exit code 2; the next slot tries again" in caplog.text


def test_the_end_of_the_window_ends_it(tmp_path):
    trigger = _trigger(interval="1h", end="2026-01-01T02:30:00Z", start="2026-01-01T00:00:00Z")
    clock = FastClock(speed=1.0)
    clock.start = datetime.datetime(2026, 1, 1, 2, 30, tzinfo=datetime.UTC)
    assert LocalSchedule(trigger, _note(tmp_path / "n"), Workspace(str(tmp_path)), clock).serve() == 0


def test_a_slot_is_left_out_while_somebody_elses_run_is_under_way(never_late, tmp_path, caplog):
    workspace = Workspace(str(tmp_path))
    release = threading.Event()
    trigger = _trigger(interval="1h")

    def hold():
        with workspace.lock():
            held.set()
            release.wait(5)

    held = threading.Event()
    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(5)
    threading.Timer(0.2, release.set).start()
    LocalSchedule(trigger, _note(tmp_path / "notes"), workspace, FastClock(speed=1e5)).serve(max_runs=1)
    holder.join()
    assert "left out: a run is under way" in caplog.text
    assert (tmp_path / "notes").read_text() == "run\n"


def test_a_second_scheduler_is_refused(tmp_path):
    first = LocalSchedule(_trigger(interval="1h"), _note(tmp_path / "n"), Workspace(str(tmp_path)))
    second = LocalSchedule(_trigger(interval="1h"), _note(tmp_path / "n"), Workspace(str(tmp_path)))
    with first.exclusive(), pytest.raises(ConfigError, match="expected no other scheduler here, found one"):
        second.serve()


SERVE = """
import sys
from pipeline.schedule.local_scheduler import LocalSchedule
from pipeline.schedule.trigger import make_trigger
from pipeline.local.workspace import Workspace
trigger = make_trigger(cron="", interval=sys.argv[2], start="", end="", time_zone="UTC")
command = [sys.executable, "-S", "-c", sys.argv[3], sys.argv[1]]
print(LocalSchedule(trigger, command, Workspace(sys.argv[1])).serve())
"""
SLEEPER = """
import pathlib, sys, time
folder = pathlib.Path(sys.argv[1])
(folder / "begun").touch()
try:
    time.sleep(30)
except KeyboardInterrupt:
    (folder / "ended in order").touch()
    sys.exit(130)
"""


def _serve(folder, interval, run):
    return subprocess.Popen(
        [sys.executable, "-c", SERVE, str(folder), interval, run],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def _until(path):
    deadline = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < deadline, f"no {path.name}"
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_interrupts_the_run_and_stops(tmp_path, number):
    process = _serve(tmp_path, "1s", SLEEPER)
    _until(tmp_path / "begun")
    process.send_signal(number)
    assert process.communicate(timeout=20)[0] == "1\n"
    assert process.returncode == 0
    assert (tmp_path / "ended in order").exists()
    with LocalSchedule(_trigger(interval="1h"), [], Workspace(str(tmp_path))).exclusive():
        pass


def test_a_second_signal_kills_a_run_that_does_not_end(tmp_path):
    stubborn = SLEEPER.replace('(folder / "ended in order").touch()', "time.sleep(30)")
    process = _serve(tmp_path, "1s", stubborn)
    _until(tmp_path / "begun")
    process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=10) == 0
    process.stdout.close()


def test_a_signal_ends_the_waiting_at_once(tmp_path):
    process = _serve(tmp_path, "1h", SLEEPER)
    _until(tmp_path / ".schedule.lock")
    time.sleep(0.3)
    process.terminate()
    assert process.communicate(timeout=10)[0] == "0\n"
