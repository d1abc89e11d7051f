import logging

from detection_core.progress import ProgressUpdate, log_reporter
from detflow.shown_progress import shown_progress

UPDATE = ProgressUpdate(job="train", done=1, total=2)


def test_progress_is_printed_where_no_log_shows_it_and_warnings_go_where_they_went(capsys, caplog):
    with shown_progress():
        log_reporter(UPDATE)
        with shown_progress():
            log_reporter(UPDATE)
    assert capsys.readouterr().out == "train | step 1/2\n" * 2
    log_reporter(UPDATE)
    assert capsys.readouterr().out == "" and logging.getLogger("detection_core").propagate
    with shown_progress():
        logging.getLogger("detflow.any").warning("without effect")
    assert caplog.messages == ["without effect"] and capsys.readouterr().out == ""
    with caplog.at_level(logging.INFO, "detection_core"), shown_progress():
        log_reporter(UPDATE)
    assert caplog.messages[1:] == ["train | step 1/2"] and capsys.readouterr().out == ""
