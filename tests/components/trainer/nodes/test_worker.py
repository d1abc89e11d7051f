import json
import os
import subprocess
import sys

import pytest

from component_specs import TrainerJob
from components.trainer.nodes import worker
from components.trainer.nodes.job_manifest import WORKERS
from detection_core.artifacts.detector import holds_saved_model
from detection_core.artifacts.model_run import TRAIN_REPORT
from detection_core.progress import ProgressUpdate
from detection_core.storage import files
from detection_core.training.distribution import this_worker
from tests.support.cases import cases
from tests.support.certificate import self_signed
from tests.support.local_server import LocalServer, free_port
from tests.support.object_store import s3_server
from tests.support.tiny_training import config_text, write_examples

JOBSET = {
    "JOBSET_NAME": "detflow-1",
    "REPLICATED_JOB_NAME": "node",
    WORKERS: "3",
    "JOB_COMPLETION_INDEX": "1",
}


@pytest.fixture
def pod(monkeypatch):
    """The variables of a pod of a TrainJob."""
    monkeypatch.delenv("TF_CONFIG", raising=False)
    for name, value in JOBSET.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TF_CONFIG", "")
    monkeypatch.delenv("TF_CONFIG")
    return monkeypatch


def test_a_pod_of_a_train_job_finds_its_place_and_the_others(pod):
    pod.setenv("TF_CONFIG", "of the training operator")
    worker.set_tf_config()
    assert worker.os.environ["TF_CONFIG"] == "of the training operator"
    pod.delenv("TF_CONFIG")
    worker.set_tf_config()
    found = json.loads(worker.os.environ["TF_CONFIG"])
    assert found["cluster"]["worker"] == [f"detflow-1-node-0-{place}.detflow-1:2222" for place in range(3)]
    assert (this_worker().index, this_worker().count) == (1, 3)
    pod.delenv("TF_CONFIG")
    pod.delenv("JOBSET_NAME")
    worker.set_tf_config()
    assert "TF_CONFIG" not in worker.os.environ


def update(done, job="train", **details):
    return ProgressUpdate(job=job, done=done, total=400, rate=10.0, details=details)


def test_the_chief_tells_kubeflow_trainer_how_far_it_is_and_training_goes_on_without_it(
    pod, tmp_path, caplog
):
    """The body is what its status server takes: pkg/statusserver/server.go and trainjob_types.go of 2.2."""
    asked = []

    def answer(request):
        asked.append(request)
        return 200, "application/json", "{}"

    server = LocalServer(answer)
    certificate = self_signed(tmp_path)
    server.start(certificate)
    (tmp_path / "token").write_text("renewed\n")
    assert worker.progress_reporter() is None
    pod.setenv("KUBEFLOW_TRAINER_SERVER_URL", f"{server.url}/status")
    pod.setenv("KUBEFLOW_TRAINER_SERVER_TOKEN", str(tmp_path / "token"))
    pod.setenv("KUBEFLOW_TRAINER_SERVER_CA_CERT", certificate)
    worker.set_tf_config()
    assert worker.progress_reporter() is None, "worker 1 is not the chief"
    pod.setenv("JOB_COMPLETION_INDEX", "0")
    pod.delenv("TF_CONFIG")
    worker.set_tf_config()
    report = worker.progress_reporter()
    report(update(100, loss=0.123456789, memory="1.8 GB"))
    report(update(110))  # too early
    report(update(400, job="validate"))
    report(update(400, loss=0.1))
    server.stop()
    first, last = (json.loads(request.raw)["trainerStatus"] for request in asked)
    moment = first.pop("lastUpdatedTime")
    assert moment.endswith("Z") and len(moment) == 20
    assert first == {
        "progressPercentage": 25,
        "estimatedRemainingSeconds": 30,
        "metrics": [{"name": "loss", "value": "0.123457"}],
    }
    assert last["progressPercentage"] == 100
    assert {r.headers["authorization"] for r in asked} == {"Bearer renewed"}
    assert {r.method for r in asked} == {"POST"}


@cases((0, ["model", "model_run"]), (1, []))
def test_the_chief_copies_results_to_an_object_store(pod, tmp_path, *, place, copied):
    def run(job, progress):
        assert progress is None and not files.is_remote(job.model)
        for folder in (job.model, job.model_run):
            files.write_text(files.join(folder, "made"), "by TensorFlow")
        return {"steps": 7}

    pod.setattr(worker, "run", run)
    pod.setenv("JOB_COMPLETION_INDEX", str(place))
    pod.delenv("TF_CONFIG", raising=False)
    worker.set_tf_config()
    with s3_server() as bucket:
        folders = {name: f"{bucket}/{name}" for name in ("model", "model_run")}
        job = TrainerJob(examples="e", pipeline_config="c", work_dir="w", **folders)
        assert worker.train_in_pod(job) == {"steps": 7}
        assert [name for name in folders if files.exists(f"{bucket}/{name}/made")] == copied


def test_a_status_server_that_is_gone_costs_a_warning(pod, tmp_path, caplog):
    certificate = self_signed(tmp_path)
    (tmp_path / "token").write_text("t")
    pod.setenv("KUBEFLOW_TRAINER_SERVER_URL", "https://127.0.0.1:9/status")
    pod.setenv("KUBEFLOW_TRAINER_SERVER_TOKEN", str(tmp_path / "token"))
    pod.setenv("KUBEFLOW_TRAINER_SERVER_CA_CERT", certificate)
    report = worker.progress_reporter()
    report(update(400))
    assert "Kubeflow Trainer cannot be reached" in caplog.text


@pytest.mark.slow
def test_two_workers_train_with_inputs_and_results_on_an_object_store(tmp_path):
    write_examples(tmp_path / "examples")
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "pipeline.config").write_text(config_text(4))
    addresses = [f"localhost:{free_port()}" for _ in range(2)]
    with s3_server() as bucket:
        for name in ("examples", "config"):
            files.copy_tree(str(tmp_path / name), f"{bucket}/{name}")
        paths = {"examples": "examples", "pipeline_config": "config", "work_dir": "work"}
        paths |= {"model": "model", "model_run": "model_run"}
        command = [sys.executable, "-m", "components.trainer"]
        command += [f"--{name}={bucket}/{path}" for name, path in paths.items()]
        running = []
        for place in range(2):
            task = {"type": "worker", "index": place}
            config = json.dumps({"cluster": {"worker": addresses}, "task": task})
            piped = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
            running.append(subprocess.Popen(command, env={**os.environ, "TF_CONFIG": config}, **piped))
        printed = [process.communicate(timeout=300)[0] for process in running]
        assert [process.returncode for process in running] == [0, 0], printed
        assert all("INFO:tensorflow" not in text and "all_reduce" not in text for text in printed)
        files.copy_tree(f"{bucket}/model", str(tmp_path / "model"))
        files.copy_tree(f"{bucket}/model_run", str(tmp_path / "model_run"))
    assert holds_saved_model(str(tmp_path / "model"))
    assert TRAIN_REPORT.read(str(tmp_path / "model_run")).steps == 4
