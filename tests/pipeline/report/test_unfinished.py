import datetime
import os

from pipeline.report.unfinished import unfinished_training
from tests.support.run_records import record, step

NOON = datetime.datetime(2026, 11, 22, 12, tzinfo=datetime.UTC)


def _training(tmp_path, state="running", started=str(NOON), component="trainer"):
    run = record(step("trainer", state, started=started), status="running", workspace=str(tmp_path))
    return unfinished_training(run, component)


def _history(tmp_path, name, minutes):
    folder = tmp_path / "work" / name
    folder.mkdir(parents=True)
    (folder / "history.jsonl").write_text("{}\n")
    moment = (NOON + datetime.timedelta(minutes=minutes)).timestamp()
    os.utime(folder / "history.jsonl", (moment, moment))
    return str(folder)


def test_it_is_the_one_that_was_written_to_last_since_the_step_began_and_none_where_nothing_trains(tmp_path):
    assert _training(tmp_path) == ""
    _history(tmp_path, "earlier", -5)
    assert _training(tmp_path) == ""
    older = _history(tmp_path, "a", 5)
    assert _training(tmp_path) == older
    newest = _history(tmp_path, "b", 10)
    (tmp_path / "work" / "c").mkdir()
    assert _training(tmp_path) == newest
    assert _training(tmp_path, state="not run") == ""
    assert _training(tmp_path, component="quantization_rewriter") == ""
    assert _training(tmp_path, started="?") == newest
