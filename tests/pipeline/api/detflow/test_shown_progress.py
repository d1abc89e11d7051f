"""Progress that is shown whatever logging is set to."""

import logging

import pytest

from detection_core.progress import ProgressUpdate, log_reporter
from detflow.shown_progress import shown_progress

UPDATE = ProgressUpdate(job="train", done=1, total=2)


def test_progress_is_printed_where_no_log_shows_it(capsys: pytest.CaptureFixture[str]) -> None:
    with shown_progress():
        log_reporter(UPDATE)
        with shown_progress():
            log_reporter(UPDATE)
    assert capsys.readouterr().out == "train | step 1/2\n" * 2
    log_reporter(UPDATE)
    assert capsys.readouterr().out == "" and logging.getLogger("detection_core").propagate


def test_warnings_go_where_they_went(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with shown_progress():
        logging.getLogger("detflow.any").warning("without effect")
    assert caplog.messages == ["without effect"] and capsys.readouterr().out == ""


def test_a_log_that_shows_it_is_enough(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.INFO, "detection_core"), shown_progress():
        log_reporter(UPDATE)
    assert caplog.messages == ["train | step 1/2"] and capsys.readouterr().out == ""
