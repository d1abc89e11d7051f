"""k8s/ as a real Kubernetes API server takes it, with the kinds that docs/kubeflow-cluster.md names."""

import json
import re

import pytest

from pipeline.doctor.kube import KINDS
from tests.cluster.conftest import crds
from tests.k8s.manifests import COMPONENTS, K8S, OVERLAYS, addon, build, write_overlay
from tests.support.cases import cases

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
TRAININGS = [*addon("distributed-training/train-job.yaml"), *addon("distributed-training-tfjob/tfjob.yaml")]


@pytest.fixture(scope="module")
def ready(api_with_kinds):
    names = ("detflow", "kubeflow")
    api_with_kinds.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": n}} for n in names])
    return api_with_kinds


def test_the_kinds_have_the_versions_that_are_named(api_with_kinds):
    served = {
        (c["spec"]["group"], v["name"], c["spec"]["names"]["plural"])
        for c in crds()
        for v in c["spec"]["versions"]
        if v["served"]
    }
    # Kubeflow Pipelines is no Go module, so that its kind cannot be had this way.
    expected = {(k.group, k.version, k.plural) for k in KINDS if k.project != "Kubeflow Pipelines"}
    assert expected <= served and len(crds()) >= 12


@cases(*OVERLAYS)
def test_an_overlay_is_taken_whole_and_twice(ready, *, overlay):
    manifests = build(K8S / "overlays" / overlay)
    dry = ready.apply(manifests, "--dry-run=server")
    assert dry.count("serverside-applied") == len(manifests)
    assert ready.apply(manifests).count("serverside-applied") == len(manifests)
    stored = what_is_stored(ready, manifests)
    ready.apply(manifests)
    assert what_is_stored(ready, manifests) == stored, "a second time changes something"


def what_is_stored(api, manifests):
    """Return what the server keeps of the manifests, without its book-keeping."""
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
    items = json.loads(api.run("get", "-f", "-", "-o", "json", given=text))["items"]
    for item in items:
        item["metadata"].pop("resourceVersion")
    return items


@cases(*COMPONENTS)
def test_a_component_alone_is_taken(ready, tmp_path, *, component):
    manifests = build(write_overlay(tmp_path, [component]))
    said = ready.apply(manifests, "--dry-run=server")
    assert said.count("serverside-applied") == len(manifests)
    assert not re.search("(?i)warning: .*(would violate|deprecated)", said), said


def test_the_server_refuses_a_field_that_it_does_not_know(ready):
    found = [m for overlay in OVERLAYS for m in build(K8S / "overlays" / overlay)]
    found += [{**m, "metadata": {**m["metadata"], "namespace": "detflow"}} for m in TRAININGS]
    assert ready.apply(found[-len(TRAININGS) :], "--dry-run=server").count("serverside-applied") == 2
    by_kind = {manifest["kind"]: manifest for manifest in reversed(found)}
    for kind in ("Deployment", "TrainingRuntime", "TrainJob", "TFJob", "InferenceService", "CronJob"):
        by_kind[kind]["spec"]["replicaz"] = 2
        assert "replicaz" in ready.apply([by_kind[kind]], "--dry-run=server", code=1), kind


def test_the_pods_of_a_run_may_do_what_a_run_needs_and_no_more(ready):
    ready.apply(build(K8S / "overlays" / "multi-user"))

    def may(verb, resource, account="detflow-runner"):
        user = f"system:serviceaccount:detflow:{account}"
        arguments = ("auth", "can-i", verb, resource, "-n", "detflow", "--as", user)
        return ready.run(*arguments, code=None).splitlines()[-1].endswith("yes")

    assert may("create", "workflowtaskresults.argoproj.io")
    assert may("get", "configmaps/kfp-launcher")
    assert may("get", "secrets/mlpipeline-minio-artifact")
    assert not may("get", "secrets/another")
    assert not may("create", "pods")
    ready.apply(build(K8S / "overlays" / "gpu"))
    for verb in ("create", "get", "delete"):
        assert may(verb, "trainjobs.trainer.kubeflow.org"), verb
    assert may("get", "pods/log") and may("list", "pods")
    assert not may("update", "trainjobs.trainer.kubeflow.org") and not may("delete", "pods")
    assert not may("get", "pods", account="detflow-workload")
