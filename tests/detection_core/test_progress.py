"""Progress lines, rates and where they go."""

import io
import logging

import pytest

from detection_core import progress as module
from detection_core.progress import Progress, ProgressUpdate, RateMeter, default_reporter, log_reporter
from tests.support.cases import cases


@cases(
    (ProgressUpdate(job="ingest", done=7, total=0, unit="image"), "ingest | image 7"),
    (ProgressUpdate(job="train", done=0, total=9), "train | step 0/9"),
    (ProgressUpdate(job="train", done=9, total=9, rate=0.25), "train | step 9/9 | 0.25 steps/s"),
    (
        ProgressUpdate(job="ingest", done=50, total=36050, unit="image", rate=1000.0),
        "ingest | image 50/36050 | 1000 images/s | ETA 0:36",
    ),
    (
        ProgressUpdate(job="t", done=0, total=1, details={"a": 0.0, "b": 2e-6, "c": 12.34, "d": 1234.5}),
        "t | step 0/1 | a 0 | b 2.00e-06 | c 12.3 | d 1234",
    ),
    (
        ProgressUpdate(job="train", done=120, total=500, rate=8.4, details={"loss": 1.834, "lr": 0.004}),
        "train | step 120/500 | 8.4 steps/s | ETA 0:45 | loss 1.83 | lr 0.0040",
    ),
)
def test_the_line_has_what_is_known(*, update, line):
    assert module.format_progress(update) == line


def test_durations_are_clocks_and_the_rate_forgets_what_is_long_ago():
    found = [module.format_duration(seconds) for seconds in (0, 9.6, 75, 3600, 7325)]
    assert found == ["0:00", "0:10", "1:15", "1:00:00", "2:02:05"]
    now = [0.0]
    meter = RateMeter(window=2, clock=lambda: now[0])
    assert meter.mark(0) == 0.0
    for seconds, done, rate in ((10.0, 10, 1.0), (11.0, 20, 20 / 11), (12.0, 30, 10.0)):
        now[0] = seconds
        assert meter.mark(done) == pytest.approx(rate)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_lines_go_to_a_terminal_or_a_log(caplog):
    terminal = Terminal()
    reporter = default_reporter(terminal)
    assert isinstance(reporter, module.TerminalReporter)
    reporter(ProgressUpdate(job="train", done=1, total=2))
    reporter(ProgressUpdate(job="train", done=2, total=2))
    assert terminal.getvalue() == "\r\x1b[Ktrain | step 1/2\r\x1b[Ktrain | step 2/2\n"
    assert default_reporter(io.StringIO()) is log_reporter
    with caplog.at_level(logging.INFO):
        log_reporter(ProgressUpdate(job="train", done=1, total=2))
    assert caplog.messages == ["train | step 1/2"]


def test_progress_reports_by_time_and_at_the_end():
    now, seen = [0.0], []
    with Progress("x", total=10, every_seconds=3.0, reporter=seen.append, clock=lambda: now[0]) as progress:
        for _ in range(10):
            now[0] += 1.0
            progress.advance()
    assert [u.done for u in seen] == [3, 6, 9, 10]
    assert seen[-1].rate == pytest.approx(1.0)
    seen = []
    with Progress("x", unit="image", every_seconds=1e9, reporter=seen.append) as progress:
        progress.advance(4)
    assert [(u.done, u.total, u.finished) for u in seen] == [(4, 4, True)]
    with pytest.raises(KeyError), Progress("x", every_seconds=1e9, reporter=seen.append) as progress:
        progress.advance()
        raise KeyError
    assert len(seen) == 1
