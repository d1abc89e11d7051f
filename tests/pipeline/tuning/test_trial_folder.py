from pathlib import Path

from detection_core.artifacts.model_run import VALIDATIONS, ValidationLine
from pipeline.tuning.trial_folder import TrialFolder


def test_validations_are_those_of_the_work_folder_and_in_the_end_of_the_model_run(tmp_path):
    folder = TrialFolder(str(tmp_path))
    assert folder.validations() == []
    (tmp_path / "work" / "abc").mkdir(parents=True)
    VALIDATIONS.write(f"{folder.work}/abc", [ValidationLine(step=1, score=0.1)])
    assert [line.step for line in folder.validations()] == [1]
    (tmp_path / "model_run").mkdir()
    VALIDATIONS.write(
        folder.model_run, [ValidationLine(step=1, score=0.1), ValidationLine(step=2, score=0.2)]
    )
    assert [line.step for line in folder.validations()] == [1, 2]


def test_torn_lines_are_left_out_and_last_words_and_jobs_are_read(tmp_path):
    (tmp_path / "work" / "abc").mkdir(parents=True)
    (tmp_path / "work" / "abc" / "validation.jsonl").write_text('{"step": 1, "score": 0.1}\n{"step": 2, "sc')
    folder = TrialFolder(str(tmp_path))
    assert [line.step for line in folder.validations()] == [1]
    assert folder.last_words() == ""
    Path(folder.log).write_text("x" * 9000 + "\nthe reason\n\n")
    assert folder.last_words() == "the reason"
    folder.write_job({"overrides": {"a.b": 1}})
    assert '"a.b": 1' in folder.read_job()


def test_a_trial_that_has_ended_keeps_its_record(tmp_path):
    folder = TrialFolder(str(tmp_path))
    for name in ("work", "model", "model_run"):
        (tmp_path / name).mkdir()
    folder.clear(keep_model=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model", "model_run"]
    folder.clear(keep_model=False)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model_run"]
