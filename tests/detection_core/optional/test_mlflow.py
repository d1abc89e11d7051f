"""MLflow, with its own server; `make test-trackers`."""

import re

import numpy as np
import pytest

from detection_core.loggers.base import EVAL, TRAIN, RunIds
from detection_core.optional.mlflow.mlflow_run import MlflowLogger, run_name
from tests.support.cases import cases
from tests.support.local_server import free_port
from tests.support.mlflow_server import mlflow_server, needs_mlflow


@cases(
    ("Loss/total_loss", "Loss/total_loss"),
    ("DetectionBoxes_Precision/mAP@.50IOU", "DetectionBoxes_Precision/mAP_.50IOU"),
    ("AR@100 (large)", "AR_100 _large_"),
    ("class/../../x", "x"),
    ("/", "_"),
    ("a" * 300, "a" * 250),
    ("eval_input_reader[0].shuffle", "eval_input_reader_0_.shuffle"),
)
def test_names_are_such_as_mlflow_takes(*, name, taken):
    assert run_name(name) == taken
    assert re.fullmatch(r"[/\w.\- :]{1,250}", run_name(name))


server = pytest.fixture(scope="module")(mlflow_server)


@pytest.fixture
def options(server):
    return {"tracking_uri": server, "experiment": "digits", "run_name": "first"}


class TestOnAServer:
    pytestmark = needs_mlflow

    def test_a_run_has_what_was_logged(self, options, tmp_path):
        import mlflow

        logger = MlflowLogger(options, RunIds(str(tmp_path)))
        logger.log_parameters({f"train_config.field_{i}": str(i) for i in range(250)})
        logger.log_scalars({"Loss/total_loss": 2.5, "learning_rate": 0.01}, 10, TRAIN)
        logger.log_scalars({f"metric@{i}": float(i) for i in range(250)}, 10, EVAL)
        logger.log_scalars({"Loss/total_loss": 1.5}, 20, TRAIN)
        logger.log_images({"validation/0": np.zeros([8, 8, 3], np.uint8)}, 20, EVAL)
        logger.log_artifact("pipeline.config", b"model {}")
        logger.close("finished")

        client = mlflow.MlflowClient(options["tracking_uri"])
        run = client.get_run(RunIds(str(tmp_path)).find("mlflow"))
        assert (run.info.status, run.info.run_name) == ("FINISHED", "first")
        assert client.get_experiment(run.info.experiment_id).name == "digits"
        assert len(run.data.params) == 250 and run.data.params["train_config.field_249"] == "249"
        history = client.get_metric_history(run.info.run_id, "Loss/total_loss")
        assert [(m.step, m.value) for m in history] == [(10, 2.5), (20, 1.5)]
        assert run.data.metrics["metric_249"] == 249
        names = [found.path for found in client.list_artifacts(run.info.run_id)]
        assert "pipeline.config" in names and "images" in names

    def test_a_resumed_training_goes_on_with_its_run(self, options, tmp_path):
        import mlflow

        client = mlflow.MlflowClient(options["tracking_uri"])
        first = MlflowLogger(options, RunIds(str(tmp_path)))
        first.log_parameters({"a": "1"})
        first.log_scalars({"loss": 2.0}, 10, TRAIN)
        first.close("stopped")
        run_id = RunIds(str(tmp_path)).find("mlflow")
        assert client.get_run(run_id).info.status == "KILLED"
        second = MlflowLogger(options, RunIds(str(tmp_path)))
        second.log_parameters({"a": "2", "b": "3"})
        assert client.get_run(run_id).info.status == "RUNNING"
        second.log_scalars({"loss": 1.0}, 20, TRAIN)
        second.close("finished")
        run = client.get_run(run_id)
        assert (run.info.status, run.data.params) == ("FINISHED", {"a": "1", "b": "3"})
        assert [m.step for m in client.get_metric_history(run_id, "loss")] == [10, 20]

    def test_a_run_that_the_server_has_forgotten_gets_a_new_run(self, options, tmp_path):
        ids = RunIds(str(tmp_path))
        ids.keep("mlflow", "0" * 32)
        logger = MlflowLogger(options, ids)
        logger.log_scalars({"loss": 2.0}, 10, TRAIN)
        logger.close("failed")
        assert ids.find("mlflow") != "0" * 32

    def test_a_run_of_kubeflow_is_taken_once_and_wins_over_the_earlier_one(
        self, options, tmp_path, monkeypatch
    ):
        import mlflow

        client = mlflow.MlflowClient(options["tracking_uri"])
        experiment = client.create_experiment("of Kubeflow")
        given = client.create_run(experiment, run_name="trainer").info.run_id
        ids = RunIds(str(tmp_path))
        ids.keep("mlflow", client.create_run("0").info.run_id)
        monkeypatch.setenv("MLFLOW_RUN_ID", given)
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
        down = {**options, "tracking_uri": f"http://127.0.0.1:{free_port()}"}
        with pytest.raises(mlflow.MlflowException):
            MlflowLogger(down, RunIds(str(tmp_path / "down"))).log_parameters({"a": "0"})
        logger = MlflowLogger(options, ids)
        logger.log_parameters({"a": "1"})
        logger.close("finished")
        run = client.get_run(given)
        assert (run.info.status, run.info.run_name, run.data.params) == ("FINISHED", "trainer", {"a": "1"})
        assert ids.find("mlflow") == given
        assert [r.info.run_id for r in client.search_runs([experiment])] == [given], "one run and not two"
        # The next training of the process, such as that of the quantized detector, has another one.
        second = MlflowLogger(options, RunIds(str(tmp_path / "second")))
        second.log_parameters({"a": "2"})
        second.close("finished")
        assert RunIds(str(tmp_path / "second")).find("mlflow") != given
        assert client.get_run(given).data.params == {"a": "1"}

    def test_a_run_that_kubeflow_names_and_the_server_does_not_know_is_a_new_one(
        self, options, tmp_path, monkeypatch, caplog
    ):
        monkeypatch.setenv("MLFLOW_RUN_ID", "f" * 32)
        logger = MlflowLogger(options, RunIds(str(tmp_path)))
        logger.log_scalars({"loss": 2.0}, 10, TRAIN)
        logger.close("finished")
        assert RunIds(str(tmp_path)).find("mlflow") not in ("", "f" * 32)
        assert f"MLflow knows no run {'f' * 32}" in caplog.text

    def test_a_run_is_in_the_workspace_that_kubeflow_names(self, options, tmp_path, monkeypatch):
        import mlflow

        client = mlflow.MlflowClient(options["tracking_uri"])
        client.create_workspace("team-a")
        monkeypatch.setenv("MLFLOW_WORKSPACE", "team-a")
        logger = MlflowLogger({**options, "experiment": "mine"}, RunIds(str(tmp_path)))
        logger.log_scalars({"loss": 2.0}, 10, TRAIN)
        logger.close("finished")
        run_id = RunIds(str(tmp_path)).find("mlflow")
        found = client.get_experiment_by_name("mine")
        assert [run.info.run_id for run in client.search_runs([found.experiment_id])] == [run_id]
        monkeypatch.delenv("MLFLOW_WORKSPACE")
        assert client.get_experiment_by_name("mine") is None
