"""The checks of a cluster, against a fake Kubernetes API and a strict pipelines server."""

import re
from functools import partial
from pathlib import Path

import pytest
import yaml

from detection_core.errors import ConfigError
from pipeline.doctor.cluster import CLUSTER_CHECKS, Cluster
from pipeline.doctor.custom_resources import KINDS
from pipeline.doctor.finding import State, examine
from pipeline.doctor.kube import open_kube
from pipeline.doctor.rights import CALLER_RIGHTS, STEP_RIGHTS
from tests.pipeline.kubeflow.clients import connect

ROOT = Path(__file__).parents[3]
OK, NOTE, PROBLEM = State.OK, State.NOTE, State.PROBLEM
NAMESPACE = "/api/v1/namespaces/kubeflow"
SECRET = f"{NAMESPACE}/secrets/mlpipeline-minio-artifact"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
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


def fill(kube):
    """Put into a cluster what makes all well."""
    kube.objects[NAMESPACE] = {"metadata": {"name": "kubeflow"}}
    for kind in KINDS:
        kube.serve(kind.group, kind.version, kind.plural)
    kube.put("serviceaccounts", "detflow-runner")
    put_claim("ReadWriteMany", "Bound", kube)
    kube.put("configmaps", "kfp-launcher", data={"defaultPipelineRoot": "s3://bucket"})
    kube.put("secrets", "mlpipeline-minio-artifact")
    kube.objects[f"{NAMESPACE}/events"] = {"items": []}
    set_zone({"value": "UTC"}, kube)
    set_retries("{}", kube)


def put_claim(mode, phase, kube):
    fields = {"spec": {"accessModes": [mode]}, "status": {"phase": phase}}
    kube.put("persistentvolumeclaims", "detflow-data", **fields)


def set_version(version, kube):
    kube.objects["/version"] = {"gitVersion": version}


def set_zone(source, kube):
    variable = {"name": "CRON_SCHEDULE_TIMEZONE", **source}
    spec = {"template": {"spec": {"containers": [{"env": [variable]}]}}}
    kube.put("deployments", "ml-pipeline-scheduledworkflow", api="apps", spec=spec)


def set_zone_elsewhere(kube):
    set_zone({"valueFrom": {"configMapKeyRef": {"name": "pipeline-install-config", "key": "zone"}}}, kube)
    kube.put("configmaps", "pipeline-install-config", data={"zone": "Europe/Berlin"})


def set_retries(defaults, kube):
    kube.put("configmaps", "workflow-controller-configmap", data={"workflowDefaults": defaults})


def remove(path, kube):
    del kube.objects[path]


def remove_launcher(kube):
    remove(f"{NAMESPACE}/configmaps/kfp-launcher", kube)
    remove(SECRET, kube)


def hide_launcher(kube):
    remove_launcher(kube)
    deny(SECRET, kube)


def deny(path, kube):
    kube.denied.add(path)


def refuse_account(kube):
    account = "system:serviceaccount:kubeflow:detflow-runner"
    kube.may = lambda user, verb, resource: not (user == account and resource == "workflowtaskresults")


def refuse_proxy(kube):
    kube.may = lambda user, verb, resource: resource != "services/proxy"


def fail_to_pull(kube):
    message = 'Failed to pull image "detflow:1": not found'
    kube.objects[f"{NAMESPACE}/events"] = {"items": [{"message": message}]}


def put_policy(address, port, kube):
    """Put our policy for the Kubernetes API there, and the API at an address."""
    path = ROOT / "k8s/addons/own-namespace/network-policies.yaml"
    policies = {d["metadata"]["name"]: d["spec"] for d in yaml.safe_load_all(path.read_text())}
    spec = policies["allow-kubernetes-api"]
    kube.put("networkpolicies", "allow-kubernetes-api", api="networking", spec=spec)
    items = [{"endpoints": [{"addresses": [address]}], "ports": [{"port": port}]}]
    kube.objects["/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"] = {"items": items}


@pytest.fixture
def kube(kube_server):
    """A cluster where all is well."""
    fill(kube_server)
    return kube_server


@pytest.fixture
def look(kube, server):
    """Examine the cluster; returns the findings of one check, or of all."""

    def examined(check="", **changes):
        fields = {
            "kube": open_kube(),
            "connect": lambda: connect(server),
            "account": "detflow-runner",
            "claims": {"detflow-data": ["run_checker", "example_gen"]},
            "images": ("detflow:1",),
        }
        found = examine(CLUSTER_CHECKS, Cluster(**(fields | changes)))
        return [f for f in found if check in ("", f.check)]

    return examined


def test_where_all_is_well_nothing_is_said_but_that(look):
    states: dict[str, set[State]] = {check.name: set() for check in CLUSTER_CHECKS}
    for finding in look():
        states[finding.check].add(finding.state)
    # The one image is of no registry.
    expected = {check.name: {OK} for check in CLUSTER_CHECKS} | {"images": {NOTE}, "rights": set()}
    assert states == expected


BERLIN, RETRIED = {"time_zone": "Europe/Berlin"}, {"retried": ("trainer",)}
CONTROLLER = "/apis/apps/v1/namespaces/kubeflow/deployments/ml-pipeline-scheduledworkflow"
# Check, states of its findings, what is changed first, arguments of the examination, words of each finding.
CASES = (
    ("kubernetes", "problem", partial(set_version, "v1.26.9"), {}, "upgrade it to 1.27"),
    ("kubernetes", "ok", partial(set_version, "v1.27.0-gke.1"), {}, ""),
    ("kubernetes", "unknown", partial(set_version, ""), {}, ""),
    ("namespace", "problem", partial(remove, NAMESPACE), {}, "kubeflow: there is none"),
    ("rights", "problem", refuse_proxy, {"through_kube": True}, "services/proxy"),
    ("account", "problem", refuse_account, {}, "create workflowtaskresults"),
    ("account", "problem", None, {"account": "other"}, ""),
    ("account", "note", None, {"account": ""}, ""),
    ("account", "unknown", partial(deny, REVIEWS), {}, "your account may not"),
    ("claims", "note", partial(put_claim, "ReadWriteOnce", "Bound"), {}, ""),
    (
        "claims",
        "ok",
        partial(put_claim, "ReadWriteOnce", "Bound"),
        {"claims": {"detflow-data": ["trainer"]}},
        "",
    ),
    ("claims", "note", partial(put_claim, "ReadWriteMany", "Pending"), {}, ""),
    ("claims", "problem", partial(put_claim, "ReadWriteMany", "Lost"), {}, ""),
    ("claims", "problem", None, {"claims": {"x": ["trainer"]}}, "mounted by trainer"),
    ("claims", "ok", None, {"claims": {}}, ""),
    ("claims", "unknown", None, {"claims": None}, ""),
    ("launcher", "note problem", remove_launcher, {}, ""),
    ("launcher", "note unknown", hide_launcher, {}, ""),
    ("images", "note problem problem", fail_to_pull, {"pull_secrets": ("r",)}, "|no secret r|not found"),
    ("images", "unknown", None, {"images": ()}, "no settings tell"),
    ("time zone", "problem", partial(remove, CONTROLLER), {}, ""),
    ("time zone", "problem", None, BERLIN, "schedules fire in UTC here"),
    ("time zone", "ok", set_zone_elsewhere, BERLIN, ""),
    ("network", "ok", partial(put_policy, "10.1.2.3", 6443), {}, ""),
    ("network", "problem", partial(put_policy, "10.1.2.3", 8443), {}, ""),
    ("network", "problem", partial(put_policy, "34.1.2.3", 443), {}, ""),
    ("retries", "problem", partial(set_retries, SHIPPED), RETRIED, "not trainer, whatever `retries` says"),
    ("retries", "problem", partial(set_retries, SHIPPED), RETRIED, "remove templateDefaults from workflowDe"),
    ("retries", "problem", partial(set_retries, SHIPPED.replace("OnE", "OnTransientE")), RETRIED, ""),
    ("retries", "note", partial(set_retries, SHIPPED), {}, "fine without `retries`"),
    (
        "retries",
        "unknown",
        partial(remove, f"{NAMESPACE}/configmaps/workflow-controller-configmap"),
        RETRIED,
        "",
    ),
    ("retries", "ok", partial(set_retries, SHIPPED.replace("OnError", "Always")), RETRIED, ""),
    ("retries", "ok", partial(set_retries, ""), RETRIED, ""),
    ("retries", "unknown", partial(set_retries, "spec: ["), RETRIED, ""),
)


def test_what_is_not_well_is_found_by_its_check(look, kube, subtests):
    version = kube.objects["/version"]
    for check, states, change, given, words in CASES:
        kube.objects, kube.denied, kube.may = {"/version": version}, set(), lambda *asked: True
        fill(kube)
        if change:
            change(kube)
        with subtests.test(check, states=states, given=given):
            found = look(check, **given)
            assert [f.state.value for f in found] == states.split()
            for finding, said in zip(found, words.split("|"), strict=False):
                assert said in f"{finding.found}; {finding.remedy}"


def test_a_server_that_cannot_be_used_is_told_and_the_rest_goes_on(look, kube, server):
    def refuse():
        raise ConfigError("nobody there", where="host")

    (finding,) = look("pipelines", connect=refuse)
    assert finding.state is PROBLEM and "nobody there" in finding.found
    assert [f.state for f in look("namespace", connect=refuse)] == [OK]
    server.version = "2.3.0"
    (finding,) = look("pipelines")
    assert finding.state is PROBLEM and "2.16" in finding.found
    kube.broken = 503
    assert [(f.check, f.state) for f in look()] == [("kubernetes", PROBLEM)], "nothing else can be asked"


def test_a_missing_kind_names_release_and_who_needs_it(look, kube):
    for path in ("/apis/trainer.kubeflow.org/v1alpha1", "/apis/argoproj.io/v1alpha1"):
        remove(path, kube)
    found = {f.found.split()[0]: f for f in look("kinds")}
    assert found["workflows.argoproj.io"].state is PROBLEM
    assert found["trainjobs.trainer.kubeflow.org"].state is NOTE
    assert "Kubeflow Trainer (tried with 2.2.0)" in found["trainjobs.trainer.kubeflow.org"].remedy
    assert found["tfjobs.kubeflow.org"].state is OK


def test_on_a_server_with_users_every_right_is_asked_for(look, kube, server):
    server.state.multi_user = True
    connected = {"connect": lambda: connect(server, namespace="kubeflow")}
    assert [f.state for f in look("rights", **connected)] == [OK]
    refused = (("create", "jobs"), ("terminate", "runs"))
    kube.may = lambda user, verb, resource: (verb, resource) not in refused
    (finding,) = look("rights", **connected)
    assert finding.state is PROBLEM
    assert "terminate runs (detflow runs cancel and retry)" in finding.found
    assert "create jobs (detflow schedule)" in finding.found and "get runs" not in finding.found


def test_the_rights_of_steps_and_callers_are_those_of_the_manifests():
    def rules(path):
        documents = yaml.safe_load_all((ROOT / path).read_text())
        return next(d for d in documents if d["kind"] == "Role")["rules"]

    granted = {
        (group, resource, verb, name)
        for rule in rules("k8s/base/rbac.yaml")
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }
    assert {(r.group, r.resource, verb, r.name) for r in STEP_RIGHTS for verb in r.verbs} == granted
    asked = {(r.resource, verb) for r in CALLER_RIGHTS for verb in r.verbs} | {("runs", "readLog")}
    cronjob = rules("k8s/addons/retraining-cronjob/service-account.yaml")
    assert {(r, v) for rule in cronjob for r in rule["resources"] for v in rule["verbs"]} <= asked


def test_the_page_and_the_table_name_the_same_releases():
    page = (ROOT / "docs/kubeflow-cluster.md").read_text(encoding="utf-8")
    sources = (ROOT / "tests/cluster/crds.txt").read_text(encoding="utf-8")
    for kind in KINDS:
        assert kind.plural in page and kind.version in page, kind.name
        if kind.project != "Kubeflow Pipelines":
            assert f"{kind.project} {kind.release}" in page, kind.name
            assert re.search(rf"{re.escape(kind.release)} h1:", sources), kind.name


def test_every_folder_that_is_named_is_there():
    """A remedy, and what needs a kind, names folders of this repository."""
    texts = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "pipeline").rglob("*.py"))]
    named = {name for text in texts for name in re.findall(r"\bk8s/[a-z-]+(?:/[a-z-]+(?:\.yaml)?)*", text)}
    assert {"k8s/addons/serving-kserve", "k8s/overlays/gpu"} <= named
    assert [name for name in sorted(named - {"k8s/pod/logs"}) if not (ROOT / name).exists()] == []
    needed = {name for kind in KINDS for name in re.findall(r"[a-z0-9-]+/[a-z-]+", kind.needed_by)}
    assert all(name.startswith(("addons/", "k8s/", "overlays/")) for name in needed)
