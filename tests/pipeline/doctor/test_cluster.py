from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from detection_core.errors import ConfigError
from pipeline.doctor.cluster import CLUSTER_CHECKS, Cluster
from pipeline.doctor.custom_resources import KINDS
from pipeline.doctor.finding import State, examine
from pipeline.doctor.kube import open_kube
from pipeline.doctor.rights import CALLER_RIGHTS, STEP_RIGHTS
from pipeline.kubeflow.connection import Connection
from pipeline.settings.connection_settings import ConnectionOptions

ROOT = Path(__file__).parents[3]


@pytest.fixture
def kube(kube_server):
    """A cluster where all is well."""
    kube_server.objects["/api/v1/namespaces/kubeflow"] = {"metadata": {"name": "kubeflow"}}
    for kind in KINDS:
        kube_server.serve(kind.group, kind.version, kind.plural)
    kube_server.put("serviceaccounts", "detflow-runner")
    claim = {"spec": {"accessModes": ["ReadWriteMany"]}, "status": {"phase": "Bound"}}
    kube_server.put("persistentvolumeclaims", "detflow-data", **claim)
    kube_server.put("configmaps", "kfp-launcher", data={"defaultPipelineRoot": "s3://bucket"})
    kube_server.put("secrets", "mlpipeline-minio-artifact")
    kube_server.objects["/api/v1/namespaces/kubeflow/events"] = {"items": []}
    set_zone(kube_server, {"value": "UTC"})
    set_retries(kube_server, "{}")
    return kube_server


def set_zone(kube_server, source):
    variable = {"name": "CRON_SCHEDULE_TIMEZONE", **source}
    spec = {"template": {"spec": {"containers": [{"env": [variable]}]}}}
    kube_server.put("deployments", "ml-pipeline-scheduledworkflow", api="apps", spec=spec)


# As 2.17.0 ships it (`third-party/argo/base/workflow-controller-configmap-patch.yaml`).
SHIPPED = """\
spec:
  ttlStrategy:
    secondsAfterCompletion: 3600
  templateDefaults:
    retryStrategy:
      limit: '2'
      retryPolicy: OnError
"""


def set_retries(kube_server, defaults):
    kube_server.put("configmaps", "workflow-controller-configmap", data={"workflowDefaults": defaults})


@pytest.fixture
def look(kube, server):
    """Examine the cluster; returns the findings of one check."""

    def examined(check, **changes):
        fields = {
            "kube": open_kube(),
            "connect": lambda: Connection.open(ConnectionOptions(host=server.url, timeout=5)),
            "account": "detflow-runner",
            "claims": {"detflow-data": ["run_checker", "example_gen"]},
            "images": ("detflow:1",),
        }
        cluster = Cluster(**(fields | changes))
        return [f for f in examine(CLUSTER_CHECKS, cluster) if f.check == check]

    return examined


def test_where_all_is_well_nothing_is_said_but_that(look, kube, server):
    for check in CLUSTER_CHECKS:
        states = {f.state for f in look(check.name)}
        # The one image is of no registry.
        assert states == (
            {State.NOTE} if check.name == "images" else set() if check.name == "rights" else {State.OK}
        )


@pytest.mark.parametrize(
    ("version", "state"), [("v1.26.9", State.PROBLEM), ("v1.27.0-gke.1", State.OK), ("", State.UNKNOWN)]
)
def test_the_version_of_kubernetes(look, kube, version, state):
    kube.objects["/version"] = {"gitVersion": version}
    assert [f.state for f in look("kubernetes")] == [state]


def test_a_kubernetes_that_does_not_answer_is_the_only_line(look, kube):
    kube.broken = 503
    assert len(look("kubernetes")) == 1 and look("namespace") == []


def test_a_pipelines_server_that_cannot_be_used_is_told_and_the_rest_goes_on(look):
    def refuse():
        raise ConfigError("nobody there", where="host")

    (finding,) = look("pipelines", connect=refuse)
    assert finding.state is State.PROBLEM and "nobody there" in finding.found
    assert [f.state for f in look("namespace", connect=refuse)] == [State.OK]


def test_an_old_pipelines_server_is_told(look, server):
    server.version = "2.3.0"
    (finding,) = look("pipelines")
    assert finding.state is State.PROBLEM and "2.16" in finding.found


def test_a_missing_kind_names_release_and_who_needs_it(look, kube):
    del kube.objects["/apis/trainer.kubeflow.org/v1alpha1"]
    del kube.objects["/apis/argoproj.io/v1alpha1"]
    found = {f.found.split()[0]: f for f in look("kinds")}
    assert found["workflows.argoproj.io"].state is State.PROBLEM
    assert found["trainjobs.trainer.kubeflow.org"].state is State.NOTE
    assert "Kubeflow Trainer (tried with 2.2.0)" in found["trainjobs.trainer.kubeflow.org"].remedy
    assert found["tfjobs.kubeflow.org"].state is State.OK


def test_on_a_server_with_users_every_right_is_asked_for(look, kube, server):
    server.state.multi_user = True
    connected = {"connect": lambda: Connection.open(ConnectionOptions(host=server.url, namespace="kubeflow"))}
    assert [f.state for f in look("rights", **connected)] == [State.OK]
    kube.may = lambda user, verb, resource: (
        (verb, resource) not in (("create", "jobs"), ("terminate", "runs"))
    )
    (finding,) = look("rights", **connected)
    assert finding.state is State.PROBLEM
    assert "terminate runs (detflow runs cancel and retry)" in finding.found
    assert "create jobs (detflow schedule)" in finding.found and "get runs" not in finding.found


def test_without_a_host_the_way_through_kubernetes_is_a_right(look, kube):
    kube.may = lambda user, verb, resource: resource != "services/proxy"
    (finding,) = look("rights", through_kube=True)
    assert finding.state is State.PROBLEM and "services/proxy" in finding.found


def test_what_the_account_of_the_steps_may_not_do_is_listed(look, kube):
    account = "system:serviceaccount:kubeflow:detflow-runner"
    kube.may = lambda user, verb, resource: not (user == account and resource == "workflowtaskresults")
    (finding,) = look("account")
    assert finding.state is State.PROBLEM and "create workflowtaskresults" in finding.found
    assert look("account", account="other")[0].state is State.PROBLEM
    assert look("account", account="")[0].state is State.NOTE


def test_what_cannot_be_asked_is_not_claimed(look, kube):
    kube.denied.add("/apis/authorization.k8s.io/v1/subjectaccessreviews")
    (finding,) = look("account")
    assert finding.state is State.UNKNOWN and "your account may not" in finding.found


@pytest.mark.parametrize(
    ("mode", "phase", "state"),
    [
        ("ReadWriteMany", "Bound", State.OK),
        ("ReadWriteOnce", "Bound", State.NOTE),
        ("ReadWriteMany", "Pending", State.NOTE),
        ("ReadWriteMany", "Lost", State.PROBLEM),
    ],
)
def test_claims(look, kube, mode, phase, state):
    fields = {"spec": {"accessModes": [mode]}, "status": {"phase": phase}}
    kube.put("persistentvolumeclaims", "detflow-data", **fields)
    assert [f.state for f in look("claims")] == [state]


def test_a_claim_that_is_missing_names_the_steps(look):
    (finding,) = look("claims", claims={"detflow-work": ["trainer"]})
    assert finding.state is State.PROBLEM and "mounted by trainer" in finding.found
    assert look("claims", claims={})[0].state is State.OK
    assert look("claims", claims=None)[0].state is State.UNKNOWN


def test_the_launcher_without_credentials_or_configuration(look, kube):
    del kube.objects["/api/v1/namespaces/kubeflow/configmaps/kfp-launcher"]
    del kube.objects["/api/v1/namespaces/kubeflow/secrets/mlpipeline-minio-artifact"]
    assert [f.state for f in look("launcher")] == [State.NOTE, State.PROBLEM]
    kube.denied.add("/api/v1/namespaces/kubeflow/secrets/mlpipeline-minio-artifact")
    assert [f.state for f in look("launcher")] == [State.NOTE, State.UNKNOWN]


def test_a_pod_that_could_not_pull_and_a_secret_that_is_missing(look, kube):
    message = 'Failed to pull image "detflow:1": not found'
    kube.objects["/api/v1/namespaces/kubeflow/events"] = {"items": [{"message": message}]}
    found = look("images", pull_secrets=("registry",))
    assert [f.state for f in found] == [State.NOTE, State.PROBLEM, State.PROBLEM]
    assert "no secret registry" in found[1].found and "not found" in found[2].found


def test_the_zone_of_schedules_is_that_of_the_controller(look, kube):
    assert look("time zone")[0].state is State.OK
    (finding,) = look("time zone", time_zone="Europe/Berlin")
    assert finding.state is State.PROBLEM and "schedules fire in UTC here" in finding.found
    set_zone(kube, {"valueFrom": {"configMapKeyRef": {"name": "pipeline-install-config", "key": "zone"}}})
    kube.put("configmaps", "pipeline-install-config", data={"zone": "Europe/Berlin"})
    assert look("time zone", time_zone="Europe/Berlin")[0].state is State.OK


def test_an_api_server_that_our_policy_shuts_off(look, kube):
    (policy,) = [
        d
        for d in yaml.safe_load_all((ROOT / "k8s/addons/own-namespace/network-policies.yaml").read_text())
        if d["metadata"]["name"] == "allow-kubernetes-api"
    ]
    kube.put("networkpolicies", "allow-kubernetes-api", api="networking", spec=policy["spec"])
    path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"

    def at(address, port):
        items = [{"endpoints": [{"addresses": [address]}], "ports": [{"port": port}]}]
        kube.objects[path] = {"items": items}
        return look("network")[0].state

    assert at("10.1.2.3", 6443) is State.OK
    assert at("10.1.2.3", 8443) is State.PROBLEM
    assert at("34.1.2.3", 443) is State.PROBLEM


def test_the_rights_of_the_steps_are_those_of_the_manifests():
    role = next(
        d for d in yaml.safe_load_all((ROOT / "k8s/base/rbac.yaml").read_text()) if d["kind"] == "Role"
    )
    granted = {
        (group, resource, verb, name)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }
    assert {(r.group, r.resource, verb, r.name) for r in STEP_RIGHTS for verb in r.verbs} == granted


def test_the_rights_of_the_cronjob_are_among_those_of_a_caller():
    path = ROOT / "k8s/addons/retraining-cronjob/service-account.yaml"
    role = next(d for d in yaml.safe_load_all(path.read_text()) if d["kind"] == "Role")
    asked = {(r.resource, verb) for r in CALLER_RIGHTS for verb in r.verbs} | {("runs", "readLog")}
    assert {(r, v) for rule in role["rules"] for r in rule["resources"] for v in rule["verbs"]} <= asked


def test_the_page_and_the_table_name_the_same_releases():
    page = (ROOT / "docs/kubeflow-cluster.md").read_text(encoding="utf-8")
    sources = (ROOT / "tests/cluster/crds.txt").read_text(encoding="utf-8")
    for kind in KINDS:
        assert kind.plural in page and kind.version in page, kind.name
        if kind.project != "Kubeflow Pipelines":
            assert f"{kind.project} {kind.release}" in page, kind.name
            assert re.search(rf"{re.escape(kind.release)} h1:", sources), kind.name


@pytest.mark.parametrize(
    ("defaults", "retried", "state"),
    [
        (SHIPPED, ("trainer",), State.PROBLEM),
        (SHIPPED, (), State.NOTE),
        (SHIPPED.replace("OnError", "Always"), ("trainer",), State.OK),
        ("", ("trainer",), State.OK),
        ("spec: [", ("trainer",), State.UNKNOWN),
    ],
)
def test_what_argo_makes_of_retries(look, kube, defaults, retried, state):
    set_retries(kube, defaults)
    [finding] = look("retries", retried=retried)
    assert finding.state is state
    if state is State.PROBLEM:
        assert "not trainer, whatever `retries` says" in finding.found
        assert "remove templateDefaults from workflowDefaults" in finding.remedy


def test_every_folder_that_is_named_is_there():
    """A remedy, and what needs a kind, names folders of this repository."""
    texts = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "pipeline").rglob("*.py"))]
    named = {name for text in texts for name in re.findall(r"\bk8s/[a-z-]+(?:/[a-z-]+(?:\.yaml)?)*", text)}
    assert {"k8s/addons/serving-kserve", "k8s/overlays/gpu"} <= named
    assert [name for name in sorted(named - {"k8s/pod/logs"}) if not (ROOT / name).exists()] == []
    needed = {name for kind in KINDS for name in re.findall(r"[a-z0-9-]+/[a-z-]+", kind.needed_by)}
    assert all(name.startswith(("addons/", "k8s/", "overlays/")) for name in needed)
