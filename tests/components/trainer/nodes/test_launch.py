"""The step that starts a training on several pods; `make test-cluster` does it with the real programs."""

import dataclasses
import os
import signal
from pathlib import Path

import pytest

from component_specs import TrainerJob
from component_specs.trainer import TrainingNodes
from components.runtime.bind import bind_arguments
from components.trainer.nodes import launch
from components.trainer.nodes.kubernetes_api import KubernetesError
from detection_core.artifacts.model_run import TRAIN_REPORT, TrainReport
from detection_core.errors import ModelError
from tests.support.cases import cases, refused

REPORT = TrainReport(steps=7, parameters=3, started_from="random", loss=1.5, learning_rate=0.1)
POD = {"metadata": {"name": "step-0"}, "spec": {"containers": [{"name": "main", "image": "detflow:1"}]}}
PODS = "/api/v1/namespaces/runs/pods"


def condition(kind, **more):
    return {"status": {"conditions": [{"type": kind, "status": "True", **more}]}}


class Cluster:
    """Keeps TrainJobs; the pods of one write their results when the job is asked for a second time."""

    namespace = "runs"

    def __init__(self, **end):
        self.objects, self.asked, self.created, self.deleted, self.given = {}, 0, [], [], None
        self.end = end or condition("Complete")
        self.pods, self.log = [], []
        self.at_poll = lambda: None

    def get(self, path, query=None):
        if path == PODS:
            return {"items": self.pods if "index=0" in query["labelSelector"] else self.pods * 2}
        if path == f"{PODS}/step-0":
            return POD
        found = self.objects.get(path)
        if found is None:
            return None
        self.asked += 1
        self.at_poll()
        if self.asked > 1:
            found |= self.end
            if "Complete" in str(self.end):
                self.train(found)
        return found

    def create(self, folder, body):
        path = f"{folder}/{body['metadata']['name']}"
        if path in self.objects:
            return False
        self.objects[path] = dict(body)
        self.created.append(path)
        return True

    def delete(self, path):
        self.deleted.append(path)
        self.objects.pop(path, None)

    def lines(self, path, query):
        since = query.get("sinceTime", "")
        return [line for line in self.log if line[:19] >= since[:19]]

    def train(self, manifest):
        job = self.given = bind_arguments(TrainerJob, manifest["spec"]["trainer"]["args"])
        Path(job.model).mkdir(exist_ok=True)
        (Path(job.model) / "weights").write_text(Path(job.examples, "shard").read_text())
        Path(job.model_run).mkdir(exist_ok=True)
        TRAIN_REPORT.write(job.model_run, REPORT)


@pytest.fixture
def job(tmp_path, monkeypatch):
    monkeypatch.setattr(launch, "_POLL_SECONDS", 0.0)
    monkeypatch.setenv("KFP_POD_NAME", "step-0")
    for name in ("examples", "config"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "shard").write_text("records")
    folders = {name: str(tmp_path / "out" / name) for name in ("model", "model_run")}
    return TrainerJob(
        examples=str(tmp_path / "examples"),
        pipeline_config=str(tmp_path / "config"),
        work_dir=str(tmp_path / "work"),
        overrides={"train_config.num_steps": 7},
        checkpoint_minutes=0.5,
        **folders,
    )


@pytest.fixture
def cluster(monkeypatch):
    """Set the cluster that the step finds."""

    def there_is(found):
        monkeypatch.setattr(launch, "KubernetesApi", lambda: found)
        return found

    return there_is


def train(job):
    return launch.train_on_nodes(job, TrainingNodes(nodes=2))


def nodes_folder(job):
    return Path(job.work_dir, "nodes", "runs", "trainjobs")


def test_pods_read_copies_and_what_they_write_is_the_step_s_result(job, cluster, capsys):
    api = cluster(Cluster())
    api.pods = [{"metadata": {"name": "p", "creationTimestamp": "1"}, "status": {"phase": "Running"}}]
    api.log = ["2026-11-29T10:00:00.1Z one", "2026-11-29T10:00:00.2Z two"]
    assert train(job) == {"steps": 7, "parameters": 3, "started_from": "random"}
    assert Path(job.model, "weights").read_text() == "records"
    assert TRAIN_REPORT.read(job.model_run) == REPORT
    assert not os.listdir(nodes_folder(job)), "the copies are gone"
    assert capsys.readouterr().err.splitlines() == ["one", "two"], "each line of the chief once"
    (path,) = api.created
    shared = nodes_folder(job) / path.rpartition("/")[2]
    folders = ("examples", "pipeline_config", "model", "model_run")
    assert api.given == dataclasses.replace(job, **{name: str(shared / name) for name in folders})


def test_copies_of_trainings_that_are_gone_are_removed(job, cluster):
    api = cluster(Cluster())
    for name, files in {
        "runs-on": ("READY",),
        "gone": ("READY", "shard"),
        "being-copied": ("shard",),
    }.items():
        (nodes_folder(job) / name).mkdir(parents=True)
        for file in files:
            (nodes_folder(job) / name / file).touch()
    api.objects["/apis/trainer.kubeflow.org/v1alpha1/namespaces/runs/trainjobs/runs-on"] = {}
    train(job)
    assert sorted(os.listdir(nodes_folder(job))) == ["being-copied", "runs-on"]


def test_a_retry_goes_on_with_the_job_and_another_run_makes_another(job, cluster):
    api = cluster(Cluster())
    api.at_poll = lambda: (_ for _ in ()).throw(KubernetesError("no answer"))
    refused(KubernetesError, "no answer", train, job)
    assert not api.deleted, "the training goes on while the API is away"
    api.at_poll = lambda: None
    train(job)
    assert len(api.created) == 1
    train(dataclasses.replace(job, model=f"{job.model}-of-another-run"))
    assert len(api.created) == 2


def test_a_failure_is_told_with_its_pods_and_made_again_by_a_retry(job, cluster):
    api = cluster(Cluster(**condition("Failed", reason="FailedJobs", message="jobset failed")))
    ended = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    status = {"phase": "Failed", "containerStatuses": [{"name": "node", "state": ended}]}
    api.pods = [{"metadata": {"name": "p-1", "creationTimestamp": "1"}, "status": status}]
    refused(ModelError, "FailedJobs: jobset failed .*p-1: OOMKilled, exit code 137", train, job)
    refused(ModelError, "FailedJobs", train, job)
    assert len(api.created) == 2 and len(api.deleted) == 1


@cases(signal.SIGTERM, signal.SIGINT)
def test_a_stopped_step_deletes_the_job_and_keeps_the_copies(job, cluster, *, number):
    api = cluster(Cluster())
    api.at_poll = lambda: os.kill(os.getpid(), number)
    with pytest.raises((SystemExit, KeyboardInterrupt)):
        train(job)
    assert api.deleted == api.created


def test_a_job_that_is_deleted_and_a_pod_that_is_not_there_are_told(job, cluster, monkeypatch, caplog):
    api = cluster(Cluster())
    monkeypatch.setattr(launch, "_WAITING_SECONDS", 0.0)
    api.at_poll = api.objects.clear
    refused(ModelError, "found it deleted; retry the step", train, job)
    assert "its chief does not run yet (no condition)" in caplog.text
    monkeypatch.setenv("KFP_POD_NAME", "step-9")
    refused(KubernetesError, "step-9: expected the pod of this step", train, job)
