"""The Trainer's step on two nodes: real API server, controllers and Kubeflow Trainer, pods as processes."""

import hashlib
import itertools
import json
import signal
import time
from pathlib import Path

import pytest
import yaml

from component_specs.kfp_yaml import FOLDER
from component_specs.trainer import NODES, TrainingNodes
from components.trainer.nodes.worker import progress_reporter
from detection_core.progress import ProgressUpdate
from tests.cluster.conftest import FOLDER as CLUSTER
from tests.cluster.conftest import manifests
from tests.cluster.controllers import controllers
from tests.cluster.kubelet import Kubelet, can_run_pods
from tests.k8s.manifests import addon, build, write_overlay
from tests.support.certificate import self_signed
from tests.support.executor_input import executor_input
from tests.support.local_server import LocalServer
from tests.support.tiny_training import config_text, write_examples

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

NAMESPACE, STEPS = "training", 160
WORK = "/detflow-test-work"
"""Where pods have the claim; the folder is made on this machine, and stays empty there."""
_PATIENCE = 600.0


@pytest.fixture(scope="module")
def node(api_with_kinds, tmp_path_factory):
    """A cluster that runs TrainJobs, with what k8s/ grants a run, and nothing else."""
    if not can_run_pods():
        pytest.skip(
            "no network namespaces for pods here: run as root, outside a container without that right"
        )
    folder = tmp_path_factory.mktemp("node")
    with controllers(api_with_kinds, CLUSTER / "bin", manifests()):
        api_with_kinds.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}])
        for component in ("distributed-training-tfjob", "distributed-training"):
            overlay = write_overlay(folder / component, [component]) / "kustomization.yaml"
            tree = yaml.safe_load(overlay.read_text()) | {"namespace": NAMESPACE}
            overlay.write_text(yaml.safe_dump(tree))
            api_with_kinds.apply(build(overlay.parent))
        with Kubelet(api_with_kinds, folder).running() as kubelet:
            yield kubelet
    Path(WORK).rmdir()


class Step:
    """A Trainer's step as Argo and KFP start it; each try has another pod."""

    def __init__(self, api, node, folder, name, kind="TrainJob", **overrides):
        self.api, self.node, self.name, self.kind = api, node, name, kind
        self.tries = itertools.count()
        self.root = folder / name
        self.pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
        uri = f"minio://mlpipeline/v2/artifacts/{name}"
        write_examples(self.root / f"minio/mlpipeline/v2/artifacts/{name}/examples")
        config = self.root / f"minio/mlpipeline/v2/artifacts/{name}/config"
        config.mkdir()
        (config / "pipeline.config").write_text(config_text(STEPS))
        inputs = {
            key: {"name": "7", "uri": f"{uri}/{place}", "metadata": {}}
            for key, place in (("examples", "examples"), ("pipeline_config", "config"))
        }
        overrides = {"train_config.deterministic": True, "train_config.seed": 7, **overrides}
        parameters = {
            "work_dir": f"{WORK}/{name}",
            "overrides": json.dumps(overrides),
            "checkpoint_minutes": 0.05,
        }
        spec = yaml.safe_load((FOLDER / "trainer.yaml").read_text())
        (body,) = spec["components"].values()
        self.container = spec["deploymentSpec"]["executors"][body["executorLabel"]]["container"]
        call = executor_input(body, parameters, inputs, f"{uri}/trainer", str(self.root / "tmp"))
        self.model = self.root / f"minio/mlpipeline/v2/artifacts/{name}/trainer/model"
        self.arguments = [a.replace("{{$}}", json.dumps(call)) for a in self.container["args"]]
        self.arguments += ["--root", str(self.root)]
        self.model.parent.mkdir(parents=True)
        self.job = f"detflow-{hashlib.sha256(str(self.model).encode()).hexdigest()[:12]}"
        run = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": name}}
        path = f"/apis/argoproj.io/v1alpha1/namespaces/{NAMESPACE}/workflows"
        made = api.call("POST", path, {**run, "spec": {"entrypoint": "x", "templates": []}})
        self.owner = {"uid": made["metadata"]["uid"], "name": name, "kind": "Workflow"}

    def start(self):
        """Create the pod of the next try; return its name."""
        pod = f"{self.name}-{next(self.tries)}"
        field = {"fieldRef": {"fieldPath": "metadata.name"}}
        nodes = TrainingNodes(nodes=2, kind=self.kind, labels={"kueue.x-k8s.io/queue-name": "detectors"})
        container = {
            "name": "main",
            "image": "detflow:tested",
            "command": self.container["command"],
            "args": self.arguments,
            "env": [
                {"name": "KFP_POD_NAME", "valueFrom": field},
                {"name": NODES, "value": nodes.as_text()},
                {"name": "DETFLOW_TOLD", "value": "by the settings"},
            ],
            "volumeMounts": [
                {"name": "detflow-work", "mountPath": WORK},
                {"name": "minio-scratch", "mountPath": f"{WORK}-scratch"},
            ],
        }
        claim = {"claimName": "detflow-work"}
        spec = {
            "hostNetwork": True,
            "restartPolicy": "Never",
            "serviceAccountName": "detflow-runner",
            "containers": [container],
            "volumes": [
                {"name": "detflow-work", "persistentVolumeClaim": claim},
                {"name": "minio-scratch", "emptyDir": {}},
            ],
        }
        owner = {**self.owner, "apiVersion": "argoproj.io/v1alpha1", "controller": True}
        metadata = {"name": pod, "ownerReferences": [owner]}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        self.api.call("POST", self.pods, body)
        wait(lambda: pod in self.node.pods, "the pod of the step to start")
        return pod

    def workers(self):
        """Return the pods that train now, by their place."""
        found = [p for name, p in self.node.pods.items() if name.startswith(self.job)]
        return {p.spec.get("hostname", p.name)[-1]: p for p in found if p.process.poll() is None}

    def wait_for_workers(self, pod):
        """Wait for both nodes of a try."""
        found = self.node.pods[pod]
        wait(lambda: len(self.workers()) == 2 or found.process.poll() is not None, "the nodes to start")
        assert found.process.poll() is None, log_of(found)

    def ends(self, pod):
        """Wait for the end of a try; return its exit code and what it said."""
        found = self.node.pods[pod]
        wait(lambda: found.process.poll() is not None, "the step to end", lambda: log_of(found))
        time.sleep(0.2)
        return found.process.returncode, log_of(found)

    def train_job(self):
        """Return the TrainJob; None where there is none."""
        said = self.api.run("get", "trainjob", self.job, "-n", NAMESPACE, "-o", "json", code=None)
        return json.loads(said) if said.startswith("{") else None


def wait(done, what, tell=lambda: ""):
    end = time.monotonic() + _PATIENCE
    while not done():
        assert time.monotonic() < end, f"waited {_PATIENCE} s for {what}\n{tell()}"
        time.sleep(0.1)


def log_of(pod):
    return pod.log.read_text() if pod.log.exists() else ""


def digests(folder):
    """Return a digest of each file of weights."""
    paths = sorted(
        p for p in folder.rglob("*") if p.is_file() and p.suffix not in (".json", ".pb", ".config")
    )
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in paths}


def test_two_nodes_train_and_a_death_of_one_and_of_the_step_changes_no_bit(api_with_kinds, node, tmp_path):
    calm = Step(api_with_kinds, node, tmp_path, "calm")
    code, log = calm.ends(calm.start())
    assert code == 0, log
    assert f"step {STEPS}/{STEPS}" in log, "the chief's log is that of the step"
    (calm.model / "label_map.pbtxt").exists()
    job = calm.train_job()
    assert job["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "detectors"}
    assert job["metadata"]["ownerReferences"][0]["uid"] == calm.owner["uid"]
    pod = next(p for n, p in node.pods.items() if n.startswith(calm.job))
    variables = {e["name"]: e.get("value") for e in pod.container["env"]}
    assert variables["DETFLOW_TOLD"] == "by the settings" and NODES not in variables
    assert pod.spec["serviceAccountName"] == "detflow-runner" and pod.container["image"] == "detflow:tested"
    assert not list((node.claim("detflow-work") / "calm" / "nodes").rglob(calm.job)), (
        "what was shared is gone"
    )

    older = Step(api_with_kinds, node, tmp_path, "older", kind="TFJob")
    pod = older.start()
    older.wait_for_workers(pod)
    time.sleep(5)
    older.workers()["1"].signal(signal.SIGKILL)
    code, log = older.ends(pod)
    assert code == 0, log
    assert digests(older.model) == digests(calm.model), "of a TFJob, one of whose nodes was killed"

    rough = Step(api_with_kinds, node, tmp_path, "rough")
    first = rough.start()
    work = node.claim("detflow-work") / "rough"
    wait(lambda: list(work.glob("*/checkpoints/*.index")), "a checkpoint", lambda: log_of(node.pods[first]))
    rough.workers()["1"].signal(signal.SIGKILL)
    node.pods[first].signal(signal.SIGKILL)
    assert rough.ends(first)[0] != 0
    code, log = rough.ends(rough.start())
    assert code == 0, log
    assert "going on with it" in log
    assert len([n for n in node.pods if n.startswith(rough.job)]) == 4, "two nodes, and two in their place"
    report = json.loads((rough.model.parent / "model_run" / "train_report.json").read_text())
    assert report["start_step"] > 0, "resumed from a checkpoint"
    assert digests(rough.model) == digests(calm.model)


def test_a_cancelled_step_leaves_no_training_and_a_wrong_config_is_not_tried_again(
    api_with_kinds, node, tmp_path
):
    step = Step(api_with_kinds, node, tmp_path, "cancelled")
    pod = step.start()
    step.wait_for_workers(pod)
    node.pods[pod].signal(signal.SIGTERM)
    code, log = step.ends(pod)
    assert code == 128 + signal.SIGTERM and "deleting it" in log
    wait(lambda: step.train_job() is None and not step.workers(), "the nodes to end")

    step = Step(api_with_kinds, node, tmp_path, "wrong", **{"train_config.batch_size": 3})
    code, log = step.ends(step.start())
    assert code == 2, log
    assert "train_config.batch_size: expected a multiple of the 2 devices" in log, "the log of the chief"
    assert "expected the training on several nodes to succeed, found" in log and "exit code 2" in log
    assert len([n for n in node.pods if n.startswith(step.job)]) == 2, "each node was started once"


def test_kubeflow_trainer_takes_the_progress_that_a_chief_reports(
    api_with_kinds, node, tmp_path, monkeypatch
):
    """Its status server writes what it gets to the TrainJob; the API server checks that by the schema."""
    sent = []
    server = LocalServer(lambda request: (sent.append(request.raw), (200, "application/json", "{}"))[1])
    certificate = self_signed(tmp_path)
    server.start(certificate)
    (tmp_path / "token").write_text("t")
    for name, value in (("URL", server.url), ("TOKEN", tmp_path / "token"), ("CA_CERT", certificate)):
        monkeypatch.setenv(f"KUBEFLOW_TRAINER_SERVER_{name}", str(value))
    report = progress_reporter()
    details = {"loss": 1.5, "lr": 1e-9, "a name that is longer than the sixty-four characters there are": 1.0}
    report(ProgressUpdate(job="train", done=400, total=400, rate=3.0, details={**details, "memory": "1 GB"}))
    server.stop()
    (job,) = addon("distributed-training/train-job.yaml")
    path = f"/apis/{job['apiVersion']}/namespaces/{NAMESPACE}/trainjobs"
    api_with_kinds.call("POST", path, {**job, "spec": {**job["spec"], "suspend": True}})
    path = f"{path}/{job['metadata']['name']}"
    status = {"status": json.loads(sent[0])}
    stored = api_with_kinds.call("PATCH", f"{path}/status", status, "merge-patch+json")
    assert stored["status"]["trainerStatus"] == status["status"]["trainerStatus"]
    assert stored["status"]["trainerStatus"]["progressPercentage"] == 100
    api_with_kinds.call("DELETE", path)
