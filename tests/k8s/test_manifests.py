"""The manifests of k8s/: valid for the API, built by kustomize, restricted, and complete."""

import copy
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.k8s.kubernetes_models import problems

K8S = Path(__file__).parents[2] / "k8s"
OVERLAYS = sorted(p.name for p in (K8S / "overlays").iterdir())
KUSTOMIZE = {"Kustomization", "Component"}
# What a user, Kubeflow or kustomize's generators bring: named in docs/kubeflow-cluster.md.
BROUGHT = {("ConfigMap", "detflow-pipeline"), ("ConfigMap", "detflow-pipeline-config")}


def documents(path):
    return [d for d in yaml.safe_load_all(path.read_text()) if d]


FILES = sorted(p for folder in ("base", "components", "overlays") for p in (K8S / folder).rglob("*.yaml"))
MANIFESTS = [
    pytest.param(d, id=f"{p.parent.name}/{d['kind']}/{d['metadata']['name']}")
    for p in FILES
    for d in documents(p)
    if d["kind"] not in KUSTOMIZE
]


def build(overlay):
    """Render an overlay with kustomize, by itself or inside kubectl."""
    if shutil.which("kustomize"):
        command = ["kustomize", "build"]
    elif shutil.which("kubectl"):
        command = ["kubectl", "kustomize"]
    else:
        pytest.skip("neither kustomize nor kubectl is on PATH; the files themselves are checked above")
    done = subprocess.run(
        [*command, str(K8S / "overlays" / overlay)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return [d for d in yaml.safe_load_all(done.stdout) if d]


@pytest.fixture(scope="module", params=OVERLAYS)
def overlay(request):
    return request.param, build(request.param)


@pytest.mark.parametrize("manifest", MANIFESTS)
def test_every_manifest_is_valid(manifest):
    assert problems(manifest) == []


def pod_specs(manifests):
    """Yield (name, pod spec) of everything that makes pods."""
    for m in manifests:
        spec = m.get("spec", {})
        name = f"{m['kind']}/{m['metadata']['name']}"
        if m["kind"] in ("Deployment", "Job"):
            yield name, spec["template"]["spec"]
        elif m["kind"] == "CronJob":
            yield name, spec["jobTemplate"]["spec"]["template"]["spec"]
        elif m["kind"] == "TFJob":
            for replica in spec["tfReplicaSpecs"].values():
                yield name, replica["template"]["spec"]
        elif m["kind"] == "InferenceService":
            yield name, {**spec["predictor"], "containers": [spec["predictor"]["model"]]}


def restricted(spec):
    """Return what the Pod Security standard `restricted` would refuse."""
    found = []
    pod = spec.get("securityContext", {})
    if not pod.get("runAsNonRoot") or pod.get("runAsUser") == 0:
        found.append("runAsNonRoot")
    if pod.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"):
        found.append("seccompProfile")
    found += [k for k in ("hostNetwork", "hostPID", "hostIPC") if spec.get(k)]
    allowed = {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
    found += [f"volume {v['name']}" for v in spec.get("volumes", []) if not set(v) - {"name"} <= allowed]
    for container in [*spec["containers"], *spec.get("initContainers", [])]:
        context = container.get("securityContext", {})
        if context.get("allowPrivilegeEscalation") is not False:
            found.append("allowPrivilegeEscalation")
        if context.get("capabilities", {}).get("drop") != ["ALL"]:
            found.append("capabilities")
        if context.get("privileged"):
            found.append("privileged")
        found += ["hostPort" for port in container.get("ports", []) if "hostPort" in port]
    return found


def test_pods_are_restricted_and_bounded():
    found = dict(pod_specs([p.values[0] for p in MANIFESTS]))
    assert len(found) >= 6
    for name, spec in found.items():
        assert restricted(spec) == [], name
        assert spec["automountServiceAccountToken"] is False, name
        assert spec["serviceAccountName"] != "default", name
        for container in spec["containers"]:
            assert container["resources"]["requests"].keys() == {"cpu", "memory"}, name
            assert "memory" in container["resources"]["limits"], name
            image = container.get("image")
            assert image is None or (":" in image and not image.endswith(":latest")), f"{name}: pin {image}"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda d: d["spec"].update(replica=2), "replica: unknown field"),
        (lambda d: d["spec"].update(replicas="2"), "replicas: expected int"),
        (lambda d: d["spec"].pop("selector"), "selector: missing"),
        (lambda d: d["spec"]["template"]["spec"]["containers"][0].pop("name"), "name: missing"),
        (lambda d: d.update(apiVersion="extensions/v1beta1"), "no such kind"),
    ],
)
def test_a_bad_manifest_is_refused(change, named):
    manifest = copy.deepcopy(documents(K8S / "components/serving-tensorflow/deployment.yaml")[0])
    change(manifest)
    assert any(named in p for p in problems(manifest))


def test_an_unrestricted_pod_is_seen():
    (_, spec), *_ = pod_specs(documents(K8S / "components/serving-tensorflow/deployment.yaml"))
    spec["containers"][0]["securityContext"]["capabilities"] = {}
    spec["volumes"].append({"name": "host", "hostPath": {"path": "/"}})
    assert restricted(spec) == ["volume host", "capabilities"]


def test_rights_are_least():
    roles = [p.values[0] for p in MANIFESTS if p.values[0]["kind"] in ("Role", "ClusterRole")]
    assert roles and all(r["kind"] == "Role" for r in roles)
    for rule in [rule for role in roles for rule in role["rules"]]:
        assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"]
        if {"secrets", "configmaps"} & set(rule["resources"]):
            assert rule["resourceNames"] and rule["verbs"] == ["get"]


def test_steps_may_read_their_workflow_as_its_scheduled_time_stands_there():
    role = documents(K8S / "base/rbac.yaml")[0]
    (rule,) = [rule for rule in role["rules"] if "workflows" in rule["resources"]]
    assert rule == {"apiGroups": ["argoproj.io"], "resources": ["workflows"], "verbs": ["get"]}


def test_a_run_that_hangs_does_not_end_retraining():
    (cronjob,) = documents(K8S / "components/retraining-cronjob/cronjob.yaml")
    assert cronjob["spec"]["concurrencyPolicy"] == "Forbid"
    assert cronjob["spec"]["jobTemplate"]["spec"]["activeDeadlineSeconds"] < 7 * 86400


def test_who_submits_runs_may_do_so_and_nothing_else():
    path = K8S / "components/retraining-cronjob/service-account.yaml"
    account, role, binding = documents(path)
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert [s["name"] for s in binding["subjects"]] == [account["metadata"]["name"]]
    # What `detflow submit --wait` asks of the API: find or make, start, look.
    rights = {(r, verb) for rule in role["rules"] for r in rule["resources"] for verb in rule["verbs"]}
    assert {(r, v) for r in ("pipelines", "experiments", "runs") for v in ("list", "create", "get")} <= rights
    assert {group for rule in role["rules"] for group in rule["apiGroups"]} == {"pipelines.kubeflow.org"}


def test_pods_that_share_a_claim_share_its_group():
    groups = {
        spec["securityContext"]["fsGroup"]
        for _, spec in pod_specs([p.values[0] for p in MANIFESTS])
        if "fsGroup" in spec.get("securityContext", {})
    }
    assert groups == {1000}


def test_secrets_are_named_never_held():
    assert not [p.id for p in MANIFESTS if p.values[0]["kind"] == "Secret"]


def test_overlays_are_valid_and_refer_to_what_is_there(overlay):
    _, manifests = overlay
    assert [line for m in manifests for line in problems(m)] == []
    namespaces = {m["metadata"].get("namespace") for m in manifests if m["kind"] != "Namespace"}
    assert len(namespaces) == 1 and None not in namespaces
    there = {(m["kind"], m["metadata"]["name"]) for m in manifests} | BROUGHT
    for where, spec in pod_specs(manifests):
        assert ("ServiceAccount", spec["serviceAccountName"]) in there, where
        for volume in spec.get("volumes", []):
            if claim := volume.get("persistentVolumeClaim"):
                assert ("PersistentVolumeClaim", claim["claimName"]) in there, where
            if config := volume.get("configMap"):
                assert ("ConfigMap", config["name"]) in there, where
        for container in spec["containers"]:
            mounted = {m["name"] for m in container.get("volumeMounts", [])}
            assert mounted <= {v["name"] for v in spec.get("volumes", [])}, where
    for binding in (m for m in manifests if m["kind"] == "RoleBinding"):
        assert ("Role", binding["roleRef"]["name"]) in there
        assert all(s["namespace"] in namespaces for s in binding["subjects"])


def pod_labels(manifests):
    """Yield the labels of every pod that the manifests, Kubeflow or KServe make."""
    yield {"pipelines.kubeflow.org/v2_component": "true", "workflows.argoproj.io/workflow": "run-1"}
    for m in manifests:
        if m["kind"] == "Deployment":
            yield m["spec"]["template"]["metadata"]["labels"]
        elif m["kind"] == "CronJob":
            yield m["spec"]["jobTemplate"]["spec"]["template"]["metadata"]["labels"]
        elif m["kind"] == "TFJob":
            yield m["spec"]["tfReplicaSpecs"]["Worker"]["template"]["metadata"]["labels"]
        elif m["kind"] == "InferenceService":
            yield {"serving.kserve.io/inferenceservice": m["metadata"]["name"]}


def test_services_and_policies_select_pods(overlay):
    _, manifests = overlay
    labels = list(pod_labels(manifests))
    for m in manifests:
        if m["kind"] == "Service":
            wanted = m["spec"]["selector"]
        elif m["kind"] in ("NetworkPolicy", "PodDisruptionBudget"):
            selector = m["spec"].get("podSelector", m["spec"].get("selector"))
            wanted = selector.get("matchLabels", {})
            keys = {e["key"] for e in selector.get("matchExpressions", ()) if e["operator"] == "Exists"}
            assert len(keys) == len(selector.get("matchExpressions", ())), m["metadata"]["name"]
            wanted |= {key: pod[key] for pod in labels for key in keys & pod.keys()}
            assert keys <= wanted.keys(), m["metadata"]["name"]
        else:
            continue
        assert any(wanted.items() <= pod.items() for pod in labels), m["metadata"]["name"]


def test_a_namespace_of_ours_denies_by_default_and_is_restricted(overlay):
    name, manifests = overlay
    if name == "standalone":
        assert not [m for m in manifests if m["kind"] in ("Namespace", "ResourceQuota")]
        return
    namespace = next(m for m in manifests if m["kind"] == "Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert namespace["metadata"]["labels"]["pipelines.kubeflow.org/enabled"] == "true"
    deny = next(m for m in manifests if m["metadata"]["name"] == "default-deny")
    assert deny["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    assert any(m["kind"] == "ResourceQuota" for m in manifests)
