"""What the cluster has."""

import re
from pathlib import Path

import pytest
import yaml

from detection_core.errors import ConfigError
from pipeline.doctor.cluster import CLUSTER_CHECKS, Cluster
from pipeline.doctor.finding import State, examine
from pipeline.doctor.kube import CALLER_RIGHTS, KINDS, STEP_RIGHTS, ForbiddenError, open_kube
from pipeline.doctor.registry import look_up_image, parse_image
from pipeline.kubeflow.api_errors import ClusterError
from tests.pipeline.doctor.fake_kube import named
from tests.pipeline.kubeflow.clients import connect
from tests.support.cases import refused
from tests.support.local_server import LocalServer, serve_raw

ROOT = Path(__file__).parents[3]
OK, NOTE, PROBLEM = State.OK, State.NOTE, State.PROBLEM
NAMESPACE = "/api/v1/namespaces/kubeflow"
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


def claim(mode, phase="Bound"):
    fields = {"spec": {"accessModes": [mode]}, "status": {"phase": phase}}
    return named("persistentvolumeclaims", "detflow-data", **fields)


def zone(source):
    spec = {"template": {"spec": {"containers": [{"env": [{"name": "CRON_SCHEDULE_TIMEZONE", **source}]}]}}}
    return named("deployments", "ml-pipeline-scheduledworkflow", api="apps", spec=spec)


def retries(defaults):
    return named("configmaps", "workflow-controller-configmap", data={"workflowDefaults": defaults})


def policy(address, port):
    """Our policy for the Kubernetes API, and that API at an address."""
    path = ROOT / "k8s/addons/own-namespace/network-policies.yaml"
    policies = {d["metadata"]["name"]: d["spec"] for d in yaml.safe_load_all(path.read_text())}
    spec = policies["allow-kubernetes-api"]
    items = [{"endpoints": [{"addresses": [address]}], "ports": [{"port": port}]}]
    slices = {"/apis/discovery.k8s.io/v1/namespaces/default/endpointslices": {"items": items}}
    return named("networkpolicies", "allow-kubernetes-api", api="networking", spec=spec) | slices


WELL = {
    NAMESPACE: {"metadata": {"name": "kubeflow"}}, f"{NAMESPACE}/events": {"items": []},
    **named("serviceaccounts", "detflow-runner"),
    **named("configmaps", "kfp-launcher", data={"defaultPipelineRoot": "s3://bucket"}),
    **named("secrets", "mlpipeline-minio-artifact"), **claim("ReadWriteMany"), **zone({"value": "UTC"}),
    **retries("{}"),
}  # fmt: skip
DENIED = "denied"


def fill(kube, changes):
    """Put into a cluster what makes all well, and then some changes; None removes an object."""
    kube.objects = {"/version": {"gitVersion": "v1.35.4"}, **WELL, **changes}
    kube.denied = {path for path, found in changes.items() if found == DENIED}
    kube.objects = {path: found for path, found in kube.objects.items() if found not in (None, DENIED)}
    for kind in KINDS:
        kube.serve(kind.group, kind.version, kind.plural)


@pytest.fixture
def kube(kube_server):
    """A cluster where all is well."""
    fill(kube_server, {})
    return kube_server


@pytest.fixture
def look(kube, server):
    """Examine the cluster; returns the findings of one check, or of all."""

    def examined(check="", **changes):
        fields = {
            "kube": open_kube(), "connect": lambda: connect(server), "account": "detflow-runner",
            "claims": {"detflow-data": ["run_checker", "example_gen"]}, "images": ("detflow:1",),
        }  # fmt: skip
        found = examine(CLUSTER_CHECKS, Cluster(**(fields | changes)))
        return [f for f in found if check in ("", f.check)]

    return examined


def test_where_all_is_well_nothing_is_said_but_that_and_a_missing_kind_names_its_release(look, kube):
    expected = {check.name: OK for check in CLUSTER_CHECKS if check.name != "rights"}
    found = {(f.check, f.state) for f in look()}
    assert found == set((expected | {"images": NOTE}).items()), "the one image is of no registry"
    for path in ("/apis/trainer.kubeflow.org/v1alpha1", "/apis/argoproj.io/v1alpha1"):
        del kube.objects[path]
    found = {f.found.split()[0]: f for f in look("kinds")}
    assert found["workflows.argoproj.io"].state is PROBLEM
    assert found["trainjobs.trainer.kubeflow.org"].state is NOTE
    assert "Kubeflow Trainer (tried with 2.2.0)" in found["trainjobs.trainer.kubeflow.org"].remedy
    assert found["tfjobs.kubeflow.org"].state is OK


def may_all_but_proxy(user, verb, resource):
    return resource != "services/proxy"


def account_may_not(user, verb, resource):
    return user != "system:serviceaccount:kubeflow:detflow-runner" or resource != "workflowtaskresults"


ELSEWHERE = {
    **zone({"valueFrom": {"configMapKeyRef": {"name": "pipeline-install-config", "key": "zone"}}}),
    **named("configmaps", "pipeline-install-config", data={"zone": "Europe/Berlin"}),
}
PULL = {f"{NAMESPACE}/events": {"items": [{"message": 'Failed to pull image "detflow:1": not found'}]}}
BERLIN, RETRIED = {"time_zone": "Europe/Berlin"}, {"retried": ("trainer",)}
CONTROLLER = "/apis/apps/v1/namespaces/kubeflow/deployments/ml-pipeline-scheduledworkflow"
LAUNCHER = f"{NAMESPACE}/configmaps/kfp-launcher"
SECRET = f"{NAMESPACE}/secrets/mlpipeline-minio-artifact"
WORKFLOWS = f"{NAMESPACE}/configmaps/workflow-controller-configmap"
# Check, states of its findings, what is changed first, arguments of the examination, words of each finding.
CASES = (
    ("kubernetes", "problem", {"/version": {"gitVersion": "v1.26.9"}}, {}, "upgrade it to 1.27"),
    ("kubernetes", "ok", {"/version": {"gitVersion": "v1.27.0-gke.1"}}, {}, ""),
    ("kubernetes", "unknown", {"/version": {"gitVersion": ""}}, {}, ""),
    ("namespace", "problem", {NAMESPACE: None}, {}, "kubeflow: there is none"),
    ("rights", "problem", may_all_but_proxy, {"through_kube": True}, "services/proxy"),
    ("account", "problem", account_may_not, {}, "create workflowtaskresults"),
    ("account", "problem", {}, {"account": "other"}, ""),
    ("account", "note", {}, {"account": ""}, ""),
    ("account", "unknown", {REVIEWS: DENIED}, {}, "your account may not"),
    ("claims", "note", claim("ReadWriteOnce"), {}, ""),
    ("claims", "ok", claim("ReadWriteOnce"), {"claims": {"detflow-data": ["trainer"]}}, ""),
    ("claims", "note", claim("ReadWriteMany", "Pending"), {}, ""),
    ("claims", "problem", claim("ReadWriteMany", "Lost"), {}, ""),
    ("claims", "problem", {}, {"claims": {"x": ["trainer"]}}, "mounted by trainer"),
    ("claims", "ok", {}, {"claims": {}}, ""),
    ("claims", "unknown", {}, {"claims": None}, ""),
    ("launcher", "note problem", {LAUNCHER: None, SECRET: None}, {}, ""),
    ("launcher", "note unknown", {LAUNCHER: None, SECRET: DENIED}, {}, ""),
    ("images", "note problem problem", PULL, {"pull_secrets": ("r",)}, "|no secret r|not found"),
    ("images", "unknown", {}, {"images": ()}, "no settings tell"),
    ("time zone", "problem", {CONTROLLER: None}, {}, ""),
    ("time zone", "problem", {}, BERLIN, "schedules fire in UTC here"),
    ("time zone", "ok", ELSEWHERE, BERLIN, ""),
    ("network", "ok", policy("10.1.2.3", 6443), {}, ""),
    ("network", "problem", policy("10.1.2.3", 8443), {}, ""),
    ("network", "problem", policy("34.1.2.3", 443), {}, ""),
    ("retries", "problem", retries(SHIPPED), RETRIED, "not trainer, whatever `retries` says"),
    ("retries", "problem", retries(SHIPPED), RETRIED, "remove templateDefaults from workflowDefaults"),
    ("retries", "problem", retries(SHIPPED.replace("OnE", "OnTransientE")), RETRIED, ""),
    ("retries", "note", retries(SHIPPED), {}, "fine without `retries`"),
    ("retries", "unknown", {WORKFLOWS: None}, RETRIED, ""),
    ("retries", "ok", retries(SHIPPED.replace("OnError", "Always")), RETRIED, ""),
    ("retries", "ok", retries(""), RETRIED, ""),
    ("retries", "unknown", retries("spec: ["), RETRIED, ""),
)


def test_what_is_not_well_is_found_by_its_check(look, kube, subtests):
    for check, states, changes, given, words in CASES:
        fill(kube, {} if callable(changes) else changes)
        kube.may = changes if callable(changes) else lambda *asked: True
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


def test_on_a_server_with_users_every_right_is_asked_for(look, kube, server):
    server.state.multi_user = True
    connected = {"connect": lambda: connect(server, namespace="kubeflow")}
    assert [f.state for f in look("rights", **connected)] == [OK]
    refused = (("create", "jobs"), ("terminate", "runs"))
    kube.may = lambda user, verb, resource: (verb, resource) not in refused
    (finding,) = look("rights", **connected)
    assert finding.state is PROBLEM and "terminate runs (detflow runs cancel and retry)" in finding.found
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


def test_the_page_the_table_and_the_folders_name_what_is_there():
    page = (ROOT / "docs/kubeflow-cluster.md").read_text(encoding="utf-8")
    sources = (ROOT / "tests/cluster/crds.txt").read_text(encoding="utf-8")
    for kind in KINDS:
        assert kind.plural in page and kind.version in page, kind.name
        if kind.project != "Kubeflow Pipelines":
            assert f"{kind.project} {kind.release}" in page, kind.name
            assert re.search(rf"{re.escape(kind.release)} h1:", sources), kind.name
    # A remedy, and what needs a kind, names folders of this repository.
    paths = [path for ending in ("py", "yaml") for path in (ROOT / "pipeline").rglob(f"*.{ending}")]
    texts = [path.read_text(encoding="utf-8") for path in paths]
    named = {name for text in texts for name in re.findall(r"\bk8s/[a-z-]+(?:/[a-z-]+(?:\.yaml)?)*", text)}
    assert {"k8s/addons/serving-kserve", "k8s/overlays/gpu"} <= named
    assert [name for name in sorted(named - {"k8s/pod/logs"}) if not (ROOT / name).exists()] == []
    needed = {name for kind in KINDS for name in re.findall(r"[a-z0-9-]+/[a-z-]+", kind.needed_by)}
    assert all(name.startswith(("addons/", "k8s/", "overlays/")) for name in needed)


def test_what_is_there_is_read_and_a_server_that_cannot_be_asked_is_one_message(kube_server, tmp_path):
    kube = open_kube()
    assert kube.get("/version")["gitVersion"] == "v1.35.4" and kube.get("/api/v1/namespaces/none") is None
    kube_server.denied.add("/api/v1/namespaces/kubeflow")
    refused(ForbiddenError, "your account may not", kube.get, "/api/v1/namespaces/kubeflow")
    refused(ConfigError, "the context other", open_kube, "other")
    kube, config = open_kube(), tmp_path / "kubeconfig"
    config.write_text(config.read_text().replace("token: secret", "token: stale"))
    refused(ClusterError, r"not accepted \(401\)", open_kube().get, "/version")
    config.write_text(config.read_text().replace("token: stale", "token: secret"))
    kube_server.broken = 500
    refused(ClusterError, "answered 500", kube.get, "/version")
    kube_server.stop()
    kube = open_kube()  # not over the connection that is open
    assert refused(ClusterError, "no answer", kube.get, "/version").transient


def test_without_a_usable_kubeconfig_one_message_says_so(tmp_path, monkeypatch, clean_environment):
    path = tmp_path / "config"
    monkeypatch.setenv("KUBECONFIG", str(path))
    hostile = ("[" * 20_000, "clusters: !!int ''", "[a]", "a: &a [*a]", "clusters: [7]")
    for text in (None, "", "[]", "{", "kind: Config", *hostile):
        if text is not None:
            path.write_text(text)
        expected = "expected a kubeconfig with a current context.*name one with KUBECONFIG or --kube-context"
        told = str(refused(ConfigError, expected, open_kube))
        assert "\n" not in told and ("expected a mapping" in told) == (text in ("", "[]", "[a]"))


def test_the_parts_of_a_name():
    for name, parts in {
        "detflow": ("", "detflow", ""),
        "detflow:1.0": ("", "detflow", "1.0"),
        "team/detflow:1.0": ("", "team/detflow", "1.0"),
        "localhost/detflow:1": ("localhost", "detflow", "1"),
        "registry.example:5000/a/b:1": ("registry.example:5000", "a/b", "1"),
        "registry.example/a@sha256:12": ("registry.example", "a", "sha256:12"),
        "registry.example/a:1@sha256:12": ("registry.example", "a", "sha256:12"),
    }.items():
        image = parse_image(name)
        assert (image.registry, image.repository, image.reference) == parts, name


@pytest.fixture
def registry():
    """Answers HEAD of a manifest by its tag: /v2/NAME/manifests/404 with 404."""
    asked = []

    def answer(request):
        asked.append(request.path)
        return int(request.path.rpartition("/")[2]), "text/plain", ""

    server = LocalServer(answer)
    server.start()
    yield server.url.removeprefix("http://"), asked
    server.stop()


def test_the_registry_is_asked(registry):
    host, asked = registry
    for tag, state, words in (
        ("200", State.OK, "has it"),
        ("401", State.NOTE, "credentials"),
        ("403", State.NOTE, "credentials"),
        ("404", State.PROBLEM, "has no detflow 404"),
        ("500", State.UNKNOWN, "answered 500"),
    ):
        finding = look_up_image(f"{host}/detflow:{tag}")
        assert finding.state is state and words in finding.found
        assert asked.pop() == f"/v2/detflow/manifests/{tag}" and not asked


def test_a_registry_that_does_not_answer_is_not_seen_and_a_name_that_moves_is_refused():
    assert look_up_image("127.0.0.1:1/detflow:1").state is State.UNKNOWN
    with serve_raw(lambda connection, request: connection.sendall(b"SSH-2.0\r\n\r\n")) as address:
        finding = look_up_image(f"{address.removeprefix('http://')}/detflow:1")
    assert finding.state is State.UNKNOWN and "does not answer" in finding.found
    for name in ("registry.example/detflow", "registry.example/detflow:latest"):
        assert look_up_image(name).state is State.PROBLEM
    assert look_up_image("detflow:1.0").state is State.NOTE
