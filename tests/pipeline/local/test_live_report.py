import threading
import types
from unittest import mock

import pytest

from pipeline.local import live_report
from pipeline.local.live_report import LiveReport


class Waits:
    """Stands for the event that ends the writing: notes the waits, and ends after some of them."""

    def __init__(self, count):
        self.seconds, self._count = [], count
        self._over = threading.Event()

    def wait(self, seconds):
        self.seconds.append(seconds)
        if len(self.seconds) > self._count:
            self._over.set()
        return self._over.is_set()

    def set(self):
        assert self._over.wait(10)


def _waits(write, count):
    """Let a page be written some times; return how long was waited before each and after the last."""
    page, waits = LiveReport(write, seconds=8.0), Waits(count)
    page._ended = waits
    with page:
        pass
    assert not page._thread.is_alive()
    return waits.seconds


def test_the_page_is_written_again_and_again_and_less_often_where_it_takes_long(monkeypatch):
    written = []
    assert _waits(lambda: written.append(1), 3) == [2.0, 8.0, 8.0, 8.0]
    assert len(written) == 3
    # Writing may take a twentieth of the time: 3 s every 60 s.
    moments = iter((0.0, 3.0, 100.0, 100.1))
    monkeypatch.setattr(live_report, "time", types.SimpleNamespace(monotonic=lambda: next(moments)))
    assert _waits(lambda: None, 2) == [2.0, pytest.approx(60.0), 8.0]


def test_a_page_that_cannot_be_written_ends_the_writing_and_a_run_that_fails_is_not_held_up(caplog):
    write = mock.Mock(side_effect=OSError("No space left on device"))
    with LiveReport(write, seconds=0.0) as page:
        page._thread.join(10)
    write.assert_called_once()
    assert "it is written when the run has ended" in caplog.text
    with pytest.raises(ValueError, match="early"), LiveReport(lambda: pytest.fail("written"), seconds=100.0):
        raise ValueError("early")
