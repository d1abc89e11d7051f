"""The page is kept up to date, and costs the run nothing."""

from __future__ import annotations

import logging
import threading
import time

import pytest

from pipeline.local.live_report import LiveReport


def test_the_page_is_written_again_and_again_until_the_run_has_ended() -> None:
    written = threading.Semaphore(0)
    with LiveReport(written.release, seconds=0.02):
        assert all(written.acquire(timeout=10) for _ in range(3))
    time.sleep(0.1)
    while written.acquire(blocking=False):
        pass
    time.sleep(0.2)
    assert not written.acquire(blocking=False), "the last page is the run's own"


def test_a_page_that_cannot_be_written_ends_the_writing_not_the_run(caplog: pytest.LogCaptureFixture) -> None:
    tried = threading.Semaphore(0)

    def write() -> None:
        tried.release()
        raise OSError("No space left on device")

    with caplog.at_level(logging.ERROR), LiveReport(write, seconds=0.02):
        assert tried.acquire(timeout=10)
        time.sleep(0.3)
    assert not tried.acquire(blocking=False)
    assert "it is written when the run has ended" in caplog.text


def test_a_page_that_takes_long_is_written_less_often() -> None:
    began: list[float] = []

    def write() -> None:
        began.append(time.monotonic())
        time.sleep(0.1)

    with LiveReport(write, seconds=0.02):
        time.sleep(1.5)
    assert len(began) == 1, "each takes a twentieth of the time at most"


def test_a_run_that_fails_at_once_is_not_held_up() -> None:
    start = time.monotonic()
    with pytest.raises(ValueError, match="early"), LiveReport(lambda: time.sleep(60), seconds=100.0):
        raise ValueError("early")
    assert time.monotonic() - start < 5
