"""MLflow with its own server, and Weights & Biases offline; `make test-trackers`."""

import json
import os
import re
import socket
import struct
import subprocess
import sys
import time
import urllib.request

import numpy as np
import pytest

from detection_core.loggers.base import EVAL, TRAIN, Histogram, RunIds
from detection_core.optional.mlflow.mlflow_run import MlflowLogger, run_name
from detection_core.optional.wandb.wandb_run import WandbLogger
from tests.support.cases import cases

needs_trackers = pytest.mark.skipif(
    not os.environ.get("DETFLOW_TRACKERS"), reason="DETFLOW_TRACKERS is not set: no tracker here"
)
WITH_TRACKERS = [pytest.mark.trackers, needs_trackers]


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


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Address of MLflow's server, started for the tests."""
    folder = tmp_path_factory.mktemp("mlflow")
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    store = f"sqlite:///{folder}/store.db"
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--backend-store-uri", store, "--artifacts-destination", str(folder / "artifacts")]
    command += ["--workers", "1"]
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, start_new_session=True)
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(f"{address}/health", timeout=1).read()
                break
            except OSError:
                assert process.poll() is None, (folder / "log").read_text()
                time.sleep(0.5)
        yield address
    finally:
        os.killpg(process.pid, 15)
        process.wait(30)


@pytest.fixture
def options(server):
    return {"tracking_uri": server, "experiment": "digits", "run_name": "first"}


class TestOnAServer:
    pytestmark = WITH_TRACKERS

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


BLOCK, FULL, LAST = 32768, 1, 4


def records(folder):
    """Every record of the one file that `wandb sync` would upload."""
    from wandb.proto import wandb_internal_pb2

    (path,) = folder.glob("wandb/offline-run-*/run-*.wandb")
    found = []
    for data in entries(path.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        found.append(record)
    return found


def entries(data):
    """Entries of a log of LevelDB, as its doc/log_format.md describes it, behind 7 bytes of wandb's own."""
    at, whole = 7, b""
    while at + 7 <= len(data):
        left = BLOCK - at % BLOCK
        if left < 7:
            at += left  # no header fits, and zeros fill the block
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (FULL, LAST):
            yield whole
            whole = b""


@pytest.mark.trackers
@needs_trackers
def test_an_offline_run_has_what_was_logged(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    ids = RunIds(str(tmp_path))
    logger = WandbLogger({"project": "digits", "entity": "", "run_name": "first"}, ids, str(tmp_path))
    logger.log_parameters({"train_config.batch_size": "8"})
    logger.log_scalars({"Loss/total_loss": 2.5}, 10, TRAIN)
    logger.log_scalars({"mAP@.50IOU": 0.5}, 10, EVAL)
    logger.log_scalars({"Loss/total_loss": 2.0}, 5, TRAIN)  # a resumed training goes back
    logger.log_images({"0": np.zeros([8, 8, 3], np.uint8)}, 10, EVAL)
    logger.log_histograms({"w": Histogram(edges=np.array([0.0, 1.0, 2.0]), counts=np.array([3, 4]))}, 10)
    logger.log_artifact("pipeline.config", b"model {}")
    logger.close("finished")

    found = records(tmp_path)
    (run,) = [r.run for r in found if r.WhichOneof("record_type") == "run"][:1]
    assert (run.run_id, run.project, run.display_name) == (ids.find("wandb"), "digits", "first")
    rows = [
        {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in r.history.item}
        for r in found
        if r.WhichOneof("record_type") == "history"
    ]
    losses = [(row["step"], row["Loss/total_loss"]) for row in rows if "Loss/total_loss" in row]
    assert losses == [(10, 2.5), (5, 2.0)]
    assert any(row.get("mAP@.50IOU") == 0.5 for row in rows)
    assert any("eval/0" in key for row in rows for key in row)
    assert any(key.startswith("w") for row in rows for key in row)
    (config,) = tmp_path.glob("wandb/offline-run-*/files/pipeline.config")
    assert config.read_bytes() == b"model {}"
