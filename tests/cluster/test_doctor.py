"""`detflow doctor --cluster` against a real Kubernetes API server; tests/pipeline/doctor has a fake one."""

import json
from pathlib import Path

import pytest
import yaml

from pipeline.cli import parser
from tests.k8s.manifests import K8S, build

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

SETTINGS = str(K8S.parent / "examples" / "kubeflow" / "settings.yaml")
# Kubeflow Pipelines is no Go module: its kind and its controller are stood in for by their names.
_PLACE = Path(__file__).with_name("data") / "scheduled_workflows.yaml"
SCHEDULED_WORKFLOWS, CONTROLLER = yaml.safe_load_all(_PLACE.read_text())


def named(kind, name, namespace, **fields):
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    api = fields.pop("apiVersion", "v1")
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **fields}


@pytest.fixture
def doctor(api, server, monkeypatch, capsys, clean_environment):
    """Examine the cluster as one of its users; returns exit code and findings by check."""
    server.state.multi_user = True

    def examine(user, *arguments):
        monkeypatch.setenv("KUBECONFIG", api.kubeconfig(user))
        where = ["--host", server.url, "--namespace", "detflow"]
        code = parser.main(["doctor", "--cluster", *where, "--json", *arguments])
        found = {}
        for finding in json.loads(capsys.readouterr().out)["findings"]:
            found.setdefault(finding["check"], []).append(finding)
        return code, found

    return examine


def states(found, check):
    return [f["state"] for f in found[check]]


def test_an_empty_cluster_lacks_what_it_lacks(api, doctor):
    api.run("delete", "namespace", "detflow", "kubeflow", "--ignore-not-found", "--wait=false")
    code, found = doctor("admin", "--settings", SETTINGS)
    assert code == 2
    assert found["kubernetes"][0]["found"].startswith("Kubernetes v1.35")
    assert states(found, "rights") == ["ok"]  # the administrator may do everything
    assert states(found, "time zone") == ["problem"]


def test_a_cluster_that_was_set_up_is_well(api, api_with_kinds, doctor):
    api.apply([SCHEDULED_WORKFLOWS])
    api.run("wait", "--for=condition=established", "--timeout=60s", "crd/scheduledworkflows.kubeflow.org")
    api.apply([named("Namespace", name, "") for name in ("detflow", "kubeflow")])
    api.apply(build(K8S / "overlays" / "multi-user"))
    ports = {"ports": [{"name": "https", "port": 6443, "protocol": "TCP"}], "addressType": "IPv4"}
    slices = {"apiVersion": "discovery.k8s.io/v1", "endpoints": [{"addresses": ["10.0.0.1"]}], **ports}
    labelled = named("EndpointSlice", "kubernetes", "default", **slices)
    labelled["metadata"]["labels"] = {"kubernetes.io/service-name": "kubernetes"}
    api.apply(
        [
            CONTROLLER,
            labelled,
            named("ConfigMap", "pipeline-install-config", "kubeflow", data={"cronScheduleTimezone": "UTC"}),
            named("ConfigMap", "kfp-launcher", "detflow", data={"defaultPipelineRoot": "minio://bucket"}),
            named("Secret", "mlpipeline-minio-artifact", "detflow"),
        ]
    )
    code, found = doctor("admin", "--settings", SETTINGS)
    assert code == 0, found
    well = {check for check in found if set(states(found, check)) == {"ok"}}
    assert {"kubernetes", "pipelines", "namespace", "kinds", "rights", "account"} <= well, found
    assert {"launcher", "time zone", "network"} <= well, found
    # Nothing binds a claim here, and the image of the example names no registry.
    assert set(states(found, "claims")) == set(states(found, "images")) == {"note"}


def test_who_may_nothing_is_told_what_and_what_cannot_be_seen(api_with_kinds, doctor):
    api_with_kinds.apply([named("Namespace", name, "") for name in ("detflow", "kubeflow")])
    code, found = doctor("nobody", "--settings", SETTINGS)
    assert code == 2
    assert "create runs (detflow submit and runs)" in found["rights"][0]["found"]
    for check in ("namespace", "account", "claims", "launcher", "time zone", "network"):
        assert states(found, check) == ["unknown"], found[check]
    assert states(found, "kubernetes") == ["ok"] and "ok" in states(found, "kinds")


def test_the_role_of_the_cronjob_and_what_it_leaves_out(api_with_kinds, doctor):
    api_with_kinds.apply([named("Namespace", "detflow", "")])
    path = K8S / "addons" / "retraining-cronjob" / "service-account.yaml"
    role = next(d for d in yaml.safe_load_all(path.read_text()) if d["kind"] == "Role")
    role["metadata"]["namespace"] = "detflow"
    group = "rbac.authorization.k8s.io"
    binding = named("RoleBinding", "user", "detflow", apiVersion=f"{group}/v1")
    binding["roleRef"] = {"apiGroup": group, "kind": "Role", "name": role["metadata"]["name"]}
    binding["subjects"] = [{"kind": "User", "name": "user", "apiGroup": group}]
    api_with_kinds.apply([role, binding])
    _, found = doctor("user")
    (finding,) = found["rights"]
    assert finding["state"] == "problem" and "(detflow schedule)" in finding["found"]
    assert "(detflow submit)" not in finding["found"]


def test_a_token_that_is_wrong_is_the_only_finding(api, doctor, monkeypatch):
    tree = yaml.safe_load(Path(api.kubeconfig("nobody")).read_text())
    tree["users"][0]["user"]["token"] = "stale"
    path = api.folder / "stale.kubeconfig"
    path.write_text(yaml.safe_dump(tree))
    monkeypatch.setattr(api, "kubeconfig", lambda user="admin": str(path))
    code, found = doctor("nobody")
    assert code == 2 and list(found) == ["kubernetes"] and "401" in found["kubernetes"][0]["found"]
