"""Which runs of tracking servers a training belongs to, so that a resumed one goes on with them."""

from detection_core.loggers.run_ids import NAME, RunIds


def test_ids_outlive_the_process_that_made_them_and_a_damaged_file_costs_new_runs(tmp_path):
    ids = RunIds(str(tmp_path))
    assert ids.find("mlflow") == ""
    ids.keep("mlflow", "abc")
    ids.keep("wandb", "def")
    again = RunIds(str(tmp_path))
    assert (again.find("mlflow"), again.find("wandb")) == ("abc", "def")
    (tmp_path / NAME).write_text('{"mlflow": "a')
    ids = RunIds(str(tmp_path))
    assert ids.find("mlflow") == ""
    ids.keep("mlflow", "new")
    assert ids.find("mlflow") == "new"
