"""The manifests of k8s/: valid for the API, built by kustomize, restricted, and complete."""

import copy
import ipaddress

import pytest

from component_specs import JOBS
from component_specs.annotations import job_fields
from components.trainer.nodes.job_manifest import PORT, WORKERS
from tests.k8s.manifests import (
    COMPONENTS,
    FILES,
    K8S,
    OVERLAYS,
    addon,
    build,
    documents,
    pod_specs,
    pod_templates,
    policies,
    problems,
    write_overlay,
)
from tests.support.cases import cases

# What a user, Kubeflow or kustomize's generators bring: named in docs/kubeflow-cluster.md.
BROUGHT = {("ConfigMap", "detflow-pipeline"), ("ConfigMap", "detflow-pipeline-config")}
MANIFESTS = documents(*FILES)
# Of pods under the standard `restricted`.
_CLAIMS = {"ephemeral", "persistentVolumeClaim"}
VOLUMES = _CLAIMS | {"configMap", "csi", "downwardAPI", "emptyDir", "projected", "secret"}
_NETWORKS = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")
PRIVATE = [ipaddress.ip_network(network) for network in _NETWORKS]
DNS = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}


@pytest.fixture(scope="module")
def overlays():
    return {name: build(K8S / "overlays" / name) for name in OVERLAYS}


def all_problems(manifests):
    return [line for manifest in manifests for line in problems(manifest)]


def test_every_manifest_is_valid_and_holds_no_secret():
    assert len(MANIFESTS) >= 40 and all_problems(MANIFESTS) == []
    # Secrets are named, never held.
    assert not [m for m in MANIFESTS if m["kind"] == "Secret"]


def restricted(spec):
    """Return what the Pod Security standard `restricted` would refuse."""
    found = []
    pod = spec.get("securityContext", {})
    if not pod.get("runAsNonRoot") or pod.get("runAsUser") == 0:
        found.append("runAsNonRoot")
    if pod.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"):
        found.append("seccompProfile")
    found += [k for k in ("hostNetwork", "hostPID", "hostIPC") if spec.get(k)]
    found += [f"volume {v['name']}" for v in spec.get("volumes", []) if not set(v) - {"name"} <= VOLUMES]
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


def train_job_pods():
    """Yield (name, pod spec) of what TrainJobs add to their runtime's pods."""
    for manifest in (m for m in MANIFESTS if m["kind"] == "TrainJob"):
        (patch,) = manifest["spec"]["runtimePatches"]
        (job,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
        spec = job["template"]["spec"]["template"]["spec"]
        containers = [{**container, **manifest["spec"]["trainer"]} for container in spec["containers"]]
        yield f"TrainJob/{manifest['metadata']['name']}", {**spec, "containers": containers}


def test_a_step_that_a_pod_runs_by_itself_gets_what_its_contract_asks_for():
    """A folder that is mounted for every artifact, as `python -m components.NAME --field value` takes it."""
    runs = [
        (name, spec, container)
        for name, spec in (*pod_specs(MANIFESTS), *train_job_pods())
        for container in spec["containers"]
        if container.get("command", [])[:2] == ["python", "-m"]
        and container["command"][2].startswith("components.")
    ]
    assert {name.partition("/")[0] for name, _, _ in runs} >= {"TFJob", "TrainJob"}
    for name, spec, container in runs:
        fields = job_fields(JOBS[container["command"][2].removeprefix("components.")])
        given = dict(argument.removeprefix("--").split("=", 1) for argument in container["args"])
        artifacts = {**fields.inputs, **fields.outputs}
        assert set(given) <= {*artifacts, *fields.parameters}, name
        required = {n for n, i in fields.inputs.items() if not i.optional} | set(fields.outputs)
        required |= {n for n, p in fields.parameters.items() if p.required}
        assert required <= set(given), name
        mounts = {m["mountPath"]: m["name"] for m in container["volumeMounts"]}
        assert set(mounts.values()) <= {volume["name"] for volume in spec["volumes"]}, name
        for field in artifacts.keys() & given.keys():
            assert f"/{given[field].split('/')[1]}" in mounts, f"{name}: {field}"


def test_pods_are_restricted_and_bounded():
    found = dict(pod_specs(MANIFESTS))
    assert len(found) >= 6
    # Those that share a claim share its group.
    contexts = [spec["securityContext"] for spec in found.values()]
    assert {context["fsGroup"] for context in contexts if "fsGroup" in context} == {1000}
    for name, spec in found.items():
        assert restricted(spec) == [], name
        assert spec["automountServiceAccountToken"] is False, name
        assert spec["serviceAccountName"] != "default", name
        for container in spec["containers"]:
            assert container["resources"]["requests"].keys() == {"cpu", "memory"}, name
            assert "memory" in container["resources"]["limits"], name
            image = container.get("image")
            assert image is None or (":" in image and not image.endswith(":latest")), f"{name}: pin {image}"


def test_a_bad_manifest_is_refused():
    good = addon("serving-tensorflow/deployment.yaml")[0]
    for change, named in (
        (lambda d: d["spec"].update(replica=2), "replica: unknown field"),
        (lambda d: d["spec"].update(replicas="2"), "replicas: expected int"),
        (lambda d: d["spec"].update(replicas=True), "replicas: expected int"),
        (lambda d: d["spec"]["template"]["spec"].update(containers={}), "containers: expected list"),
        (lambda d: d["spec"].pop("selector"), "selector: missing"),
        (lambda d: d["spec"]["template"]["spec"]["containers"][0].pop("name"), "containers.0.name: missing"),
        (lambda d: d.update(apiVersion="extensions/v1beta1"), "no such kind"),
    ):
        manifest = copy.deepcopy(good)
        change(manifest)
        assert any(named in p for p in problems(manifest)), named
    # An unrestricted pod is seen.
    spec = good["spec"]["template"]["spec"]
    spec["containers"][0]["securityContext"]["capabilities"] = {}
    spec["volumes"].append({"name": "host", "hostPath": {"path": "/"}})
    assert restricted(spec) == ["volume host", "capabilities"]


def test_rights_are_least_and_who_submits_runs_may_do_nothing_else():
    roles = [m for m in MANIFESTS if m["kind"] in ("Role", "ClusterRole")]
    assert roles and all(r["kind"] == "Role" for r in roles)
    for rule in [rule for role in roles for rule in role["rules"]]:
        assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"]
        if {"secrets", "configmaps"} & set(rule["resources"]):
            assert rule["resourceNames"] and rule["verbs"] == ["get"]
    # Steps may read their workflow, as its scheduled time stands there.
    role = documents(K8S / "base/rbac.yaml")[0]
    (rule,) = [rule for rule in role["rules"] if "workflows" in rule["resources"]]
    assert rule == {"apiGroups": ["argoproj.io"], "resources": ["workflows"], "verbs": ["get"]}
    # A run that hangs does not end retraining.
    (cronjob,) = addon("retraining-cronjob/cronjob.yaml")
    assert cronjob["spec"]["concurrencyPolicy"] == "Forbid"
    assert cronjob["spec"]["jobTemplate"]["spec"]["activeDeadlineSeconds"] < 7 * 86400
    account, role, binding = addon("retraining-cronjob/service-account.yaml")
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert [s["name"] for s in binding["subjects"]] == [account["metadata"]["name"]]
    # What `detflow submit --wait` asks of the API: find or make, start, look.
    rights = {(r, verb) for rule in role["rules"] for r in rule["resources"] for verb in rule["verbs"]}
    assert {(r, v) for r in ("pipelines", "experiments", "runs") for v in ("list", "create", "get")} <= rights
    assert {group for rule in role["rules"] for group in rule["apiGroups"]} == {"pipelines.kubeflow.org"}


@cases(*OVERLAYS)
def test_overlays_are_valid_and_refer_to_what_is_there(overlays, *, name):
    manifests = overlays[name]
    assert all_problems(manifests) == []
    namespaces = {m["metadata"].get("namespace") for m in manifests if m["kind"] != "Namespace"}
    assert len(namespaces) == 1 and None not in namespaces
    there = {(m["kind"], m["metadata"]["name"]) for m in manifests} | BROUGHT
    for where, spec in pod_specs(manifests):
        assert ("ServiceAccount", spec["serviceAccountName"]) in there, where
        volumes = spec.get("volumes", [])
        for volume in volumes:
            if claim := volume.get("persistentVolumeClaim"):
                assert ("PersistentVolumeClaim", claim["claimName"]) in there, where
            if config := volume.get("configMap"):
                assert ("ConfigMap", config["name"]) in there, where
        for container in spec["containers"]:
            mounted = {m["name"] for m in container.get("volumeMounts", [])}
            assert mounted <= {v["name"] for v in volumes}, where
    for binding in (m for m in manifests if m["kind"] == "RoleBinding"):
        assert ("Role", binding["roleRef"]["name"]) in there
        assert all(s["namespace"] in namespaces for s in binding["subjects"])


@cases(*OVERLAYS)
def test_services_and_policies_select_pods_that_the_manifests_or_kubeflow_make(overlays, *, name):
    manifests = overlays[name]
    labels = [{"pipelines.kubeflow.org/v2_component": "true", "workflows.argoproj.io/workflow": "run-1"}]
    labels += [template["metadata"]["labels"] for _, template in pod_templates(manifests)]
    for m in manifests:
        if m["kind"] == "Service":
            expected = m["spec"]["selector"]
        elif m["kind"] in ("NetworkPolicy", "PodDisruptionBudget"):
            selector = m["spec"].get("podSelector", m["spec"].get("selector"))
            expected = selector.get("matchLabels", {})
            keys = {e["key"] for e in selector.get("matchExpressions", ()) if e["operator"] == "Exists"}
            assert len(keys) == len(selector.get("matchExpressions", ())), m["metadata"]["name"]
            expected |= {key: pod[key] for pod in labels for key in keys & pod.keys()}
            assert keys <= expected.keys(), m["metadata"]["name"]
        else:
            continue
        assert any(expected.items() <= pod.items() for pod in labels), m["metadata"]["name"]


def test_a_namespace_of_ours_denies_by_default_and_is_restricted(overlays):
    for name, manifests in overlays.items():
        by_kind = {m["kind"]: m for m in manifests}
        if name == "standalone":
            assert not by_kind.keys() & {"Namespace", "ResourceQuota"}
            continue
        labels = by_kind["Namespace"]["metadata"]["labels"]
        assert labels["pod-security.kubernetes.io/enforce"] == "restricted", name
        assert labels["pipelines.kubeflow.org/enabled"] == "true", name
        deny = policies(manifests)["default-deny"]
        assert deny == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}, name
        assert "ResourceQuota" in by_kind, name


def leaves_private_addresses(spec):
    """Tell whether pods under an egress policy may call addresses of the internet."""
    for rule in spec.get("egress", ()):
        if not rule.get("to"):
            return True
        for block in (ipaddress.ip_network(to["ipBlock"]["cidr"]) for to in rule["to"] if "ipBlock" in to):
            if not any(block.version == p.version and block.subnet_of(p) for p in PRIVATE):
                return True
    return False


def test_only_one_policy_opens_the_internet_and_no_overlay_takes_it(overlays):
    assert leaves_private_addresses({"egress": [{"ports": [{"protocol": "TCP", "port": 443}]}]})
    assert leaves_private_addresses({"egress": [{"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}]})
    assert not leaves_private_addresses({"egress": [{"to": [{"podSelector": {}}]}]})
    found = {n for p in FILES for n, s in policies(documents(p)).items() if leaves_private_addresses(s)}
    assert found == {"allow-https-to-anywhere", "allow-https-to-anywhere-beam"}
    for name, manifests in overlays.items():
        assert not found & policies(manifests).keys(), name


# What a run of Kubeflow Pipelines 2.17.0 calls in the namespace `kubeflow`: label of the pods and their port.
# `backend/src/v2/cmd/driver/main.go` and `cmd/launcher-v2/main.go` have 8887 and the metadata's 8080 as
# defaults, `objectstore/config.go` the store; the ports are those of the pods in `manifests/kustomize`.
CALLED = {
    (("app", "ml-pipeline"), 8887),
    (("component", "metadata-grpc-server"), 8080),
    (("app", "seaweedfs"), 8333),
    (("app", "minio"), 9000),
}


def test_pods_of_a_run_reach_what_they_call_and_policies_open_namespaces_for_named_ports():
    manifests = addon("own-namespace/network-policies.yaml")
    kubeflow = {"matchLabels": {"kubernetes.io/metadata.name": "kubeflow"}}
    found = set()
    for rule in policies(manifests)["allow-runs"]["egress"]:
        [to] = rule["to"]
        assert to["namespaceSelector"] == kubeflow
        [label] = to["podSelector"]["matchLabels"].items()
        found |= {(label, port["port"]) for port in rule["ports"] if port["protocol"] == "TCP"}
    assert found == CALLED
    # Each policy must also hold without own-namespace: if it allows pods, it allows DNS.
    for name, spec in [item for path in FILES for item in policies(documents(path)).items()]:
        for rule in spec.get("egress", ()):
            whole = [to for to in rule["to"] if "namespaceSelector" in to and "podSelector" not in to]
            assert not whole or rule.get("ports"), name
        # The pods of a run have theirs from allow-dns, or no policy at all.
        if "Ingress" in spec["policyTypes"] and spec.get("egress"):
            assert any(rule["to"] == [DNS] and len(rule["ports"]) == 2 for rule in spec["egress"]), name


@cases(*COMPONENTS)
def test_every_component_can_be_added_to_the_base(tmp_path, *, component):
    manifests = build(write_overlay(tmp_path, [component]))
    assert all_problems(manifests) == [] and len(manifests) > len(documents(*(K8S / "base").glob("*.yaml")))


def training_runtime():
    return addon("distributed-training/training-runtime.yaml")[0]


def test_the_pods_of_a_train_job_are_told_their_names_and_start_the_program_of_a_tfjob():
    """What the image reads: components/trainer/nodes/worker.py."""
    runtime = training_runtime()
    (train_job,) = addon("distributed-training/train-job.yaml")
    assert train_job["spec"]["runtimeRef"] == {
        "apiGroup": runtime["apiVersion"].split("/")[0],
        "kind": runtime["kind"],
        "name": runtime["metadata"]["name"],
    }
    (job,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    (container,) = job["template"]["spec"]["template"]["spec"]["containers"]
    # What Kubeflow Trainer goes by: pkg/constants of 2.2.
    assert container["name"] == "node"
    assert job["template"]["metadata"]["labels"] == {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    assert container["ports"][0]["containerPort"] == PORT
    fields = {e["name"]: e["valueFrom"]["fieldRef"]["fieldPath"] for e in container["env"]}
    assert fields == {
        "JOBSET_NAME": "metadata.labels['jobset.sigs.k8s.io/jobset-name']",
        "REPLICATED_JOB_NAME": "metadata.labels['jobset.sigs.k8s.io/replicatedjob-name']",
    }
    trainer = train_job["spec"]["trainer"]
    assert trainer["env"] == [{"name": WORKERS, "value": str(trainer["numNodes"])}]
    (tfjob,) = addon("distributed-training-tfjob/tfjob.yaml")
    (_, old), _ = pod_specs([tfjob, runtime])
    for key in ("image", "command", "args"):
        assert old["containers"][0][key] == trainer[key], key
    for key in ("resources", "securityContext"):
        assert old["containers"][0][key] == container[key], key
