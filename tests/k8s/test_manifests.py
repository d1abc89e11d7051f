"""The manifests of k8s/: valid for the API, built by kustomize, restricted, and complete."""

import copy
import ipaddress
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from component_specs import JOBS
from component_specs.annotations import job_fields
from detection_core.training.distribution import this_worker
from tests.k8s.kubernetes_models import problems

K8S = Path(__file__).parents[2] / "k8s"
OVERLAYS = sorted(p.name for p in (K8S / "overlays").iterdir())
KUSTOMIZE = {"Kustomization", "Component"}
# What a user, Kubeflow or kustomize's generators bring: named in docs/kubeflow-cluster.md.
BROUGHT = {("ConfigMap", "detflow-pipeline"), ("ConfigMap", "detflow-pipeline-config")}


def documents(path):
    return [d for d in yaml.safe_load_all(path.read_text()) if d]


FILES = sorted(p for folder in ("base", "addons", "overlays") for p in (K8S / folder).rglob("*.yaml"))
MANIFESTS = [
    pytest.param(d, id=f"{p.parent.name}/{d['kind']}/{d['metadata']['name']}")
    for p in FILES
    for d in documents(p)
    if d["kind"] not in KUSTOMIZE
]


def build(folder):
    """Render a folder with kustomize, by itself or inside kubectl."""
    if shutil.which("kustomize"):
        command = ["kustomize", "build"]
    elif shutil.which("kubectl"):
        command = ["kubectl", "kustomize"]
    else:
        pytest.skip("neither kustomize nor kubectl is on PATH; the files themselves are checked above")
    done = subprocess.run([*command, str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [d for d in yaml.safe_load_all(done.stdout) if d]


@pytest.fixture(scope="module", params=OVERLAYS)
def overlay(request):
    return request.param, build(K8S / "overlays" / request.param)


@pytest.mark.parametrize("manifest", MANIFESTS)
def test_every_manifest_is_valid(manifest):
    assert problems(manifest) == []


# Kind to where the templates of its pods lie.
POD_TEMPLATES = {
    "Deployment": lambda spec: [spec["template"]],
    "CronJob": lambda spec: [spec["jobTemplate"]["spec"]["template"]],
    "TFJob": lambda spec: [replica["template"] for replica in spec["tfReplicaSpecs"].values()],
    "TrainingRuntime": lambda spec: [
        job["template"]["spec"]["template"] for job in spec["template"]["spec"]["replicatedJobs"]
    ],
    "InferenceService": lambda spec: [
        {
            "metadata": {"labels": {"serving.kserve.io/inferenceservice": "detector"}},
            "spec": {**spec["predictor"], "containers": [spec["predictor"]["model"]]},
        }
    ],
}


def pod_templates(manifests):
    """Yield (name, template) of everything that makes pods."""
    for m in manifests:
        for template in POD_TEMPLATES.get(m["kind"], lambda spec: [])(m.get("spec", {})):
            yield f"{m['kind']}/{m['metadata']['name']}", template


def pod_specs(manifests):
    """Yield (name, pod spec) of everything that makes pods."""
    for name, template in pod_templates(manifests):
        yield name, template["spec"]


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


def test_a_step_that_a_pod_runs_by_itself_gets_what_its_contract_asks_for():
    """A folder that is mounted for every artifact, as `python -m components.NAME --field value` takes it."""
    runs = [
        (name, spec, container)
        for name, spec in pod_specs([p.values[0] for p in MANIFESTS])
        for container in spec["containers"]
        if container.get("command", [])[:2] == ["python", "-m"]
        and container["command"][2].startswith("components.")
    ]
    assert {name.partition("/")[0] for name, _, _ in runs} >= {"TFJob", "TrainingRuntime"}
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
    manifest = copy.deepcopy(documents(K8S / "addons/serving-tensorflow/deployment.yaml")[0])
    change(manifest)
    assert any(named in p for p in problems(manifest))


def test_an_unrestricted_pod_is_seen():
    (_, spec), *_ = pod_specs(documents(K8S / "addons/serving-tensorflow/deployment.yaml"))
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
    (cronjob,) = documents(K8S / "addons/retraining-cronjob/cronjob.yaml")
    assert cronjob["spec"]["concurrencyPolicy"] == "Forbid"
    assert cronjob["spec"]["jobTemplate"]["spec"]["activeDeadlineSeconds"] < 7 * 86400


def test_who_submits_runs_may_do_so_and_nothing_else():
    path = K8S / "addons/retraining-cronjob/service-account.yaml"
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
    for _, template in pod_templates(manifests):
        yield template["metadata"]["labels"]


def test_services_and_policies_select_pods(overlay):
    _, manifests = overlay
    labels = list(pod_labels(manifests))
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


COMPONENTS = sorted(p.name for p in (K8S / "addons").iterdir())
PRIVATE = [
    ipaddress.ip_network(n)
    for n in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")
]


def policies(manifests):
    return {m["metadata"]["name"]: m["spec"] for m in manifests if m["kind"] == "NetworkPolicy"}


def leaves_private_addresses(spec):
    """Tell whether pods under an egress policy may call addresses of the internet."""
    for rule in spec.get("egress", ()):
        if not rule.get("to"):
            return True
        for block in (ipaddress.ip_network(to["ipBlock"]["cidr"]) for to in rule["to"] if "ipBlock" in to):
            if not any(block.version == p.version and block.subnet_of(p) for p in PRIVATE):
                return True
    return False


def test_only_one_policy_opens_the_internet_and_no_overlay_takes_it(overlay):
    found = {
        name
        for p in FILES
        for name, spec in policies([d for d in documents(p) if d["kind"] not in KUSTOMIZE]).items()
        if leaves_private_addresses(spec)
    }
    assert found == {"allow-https-to-anywhere", "allow-https-to-anywhere-beam"}
    assert not found & policies(overlay[1]).keys()


# What a run of Kubeflow Pipelines 2.17.0 calls in the namespace `kubeflow`: label of the pods and their port.
# `backend/src/v2/cmd/driver/main.go` and `cmd/launcher-v2/main.go` have 8887 and the metadata's 8080 as
# defaults, `objectstore/config.go` the store; the ports are those of the pods in `manifests/kustomize`.
CALLED = {
    (("app", "ml-pipeline"), 8887),
    (("component", "metadata-grpc-server"), 8080),
    (("app", "seaweedfs"), 8333),
    (("app", "minio"), 9000),
}


def test_pods_of_a_run_reach_of_kubeflow_what_they_call_and_nothing_else():
    manifests = documents(K8S / "addons" / "own-namespace" / "network-policies.yaml")
    kubeflow = {"matchLabels": {"kubernetes.io/metadata.name": "kubeflow"}}
    found = set()
    for rule in policies(manifests)["allow-runs"]["egress"]:
        [to] = rule["to"]
        assert to["namespaceSelector"] == kubeflow
        [label] = to["podSelector"]["matchLabels"].items()
        found |= {(label, port["port"]) for port in rule["ports"] if port["protocol"] == "TCP"}
    assert found == CALLED


def test_no_policy_opens_a_namespace_as_a_whole_but_for_named_ports():
    for path in FILES:
        for name, spec in policies([d for d in documents(path) if d["kind"] not in KUSTOMIZE]).items():
            for rule in spec.get("egress", ()):
                whole = [to for to in rule["to"] if "namespaceSelector" in to and "podSelector" not in to]
                assert not whole or rule.get("ports"), name


def test_a_policy_without_destinations_is_seen_as_open():
    assert leaves_private_addresses({"egress": [{"ports": [{"protocol": "TCP", "port": 443}]}]})
    assert leaves_private_addresses({"egress": [{"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}]})
    assert not leaves_private_addresses({"egress": [{"to": [{"podSelector": {}}]}]})


@pytest.mark.parametrize("component", COMPONENTS)
def test_who_may_call_something_by_name_may_ask_for_its_address(component):
    """A policy of its own must hold without own-namespace, too: where one allows pods, it allows DNS."""
    manifests = [d for p in sorted((K8S / "addons" / component).glob("*.yaml")) for d in documents(p)]
    dns = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}
    for name, spec in policies([d for d in manifests if d["kind"] not in KUSTOMIZE]).items():
        # The pods of a run have theirs from allow-dns, or no policy at all.
        if "Ingress" not in spec["policyTypes"] or not spec.get("egress"):
            continue
        assert any(rule["to"] == [dns] and len(rule["ports"]) == 2 for rule in spec["egress"]), name


@pytest.mark.parametrize("component", COMPONENTS)
def test_every_component_can_be_added_to_the_base(component, tmp_path):
    folder = write_overlay(tmp_path, [component])
    manifests = build(folder)
    assert [line for m in manifests for line in problems(m)] == []
    assert len(manifests) > len(build(write_overlay(tmp_path / "bare", [])))


def write_overlay(folder, components):
    """Write an overlay of the base with some components; paths are relative, as kustomize wants them."""
    folder.mkdir(parents=True, exist_ok=True)
    where = os.path.relpath(K8S, folder.resolve())
    tree = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": "detflow",
        "resources": [f"{where}/base"],
        "components": [f"{where}/addons/{c}" for c in components],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(tree))
    return folder


def training_runtime():
    return documents(K8S / "addons/distributed-training/training-runtime.yaml")[0]


def test_workers_of_a_train_job_find_each_other(monkeypatch):
    """JobSet names a pod JOBSET-REPLICATEDJOB-JOBINDEX-PODINDEX.JOBSET (its API, `Network`)."""
    runtime = training_runtime()
    (train_job,) = documents(K8S / "addons/distributed-training/train-job.yaml")
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
    name, nodes = train_job["metadata"]["name"], runtime["spec"]["mlPolicy"]["numNodes"]
    port = container["ports"][0]["containerPort"]
    # Kubernetes puts a variable into another only if it stands before it.
    names = [e["name"] for e in container["env"]]
    assert names.index("JOB_COMPLETION_INDEX") < names.index("TF_CONFIG")
    text = container["env"][names.index("TF_CONFIG")]["value"]
    places = []
    for index in range(nodes):
        monkeypatch.setenv("TF_CONFIG", text.replace("$(JOB_COMPLETION_INDEX)", str(index)))
        places.append(this_worker())
        assert json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"] == [
            f"{name}-{job['name']}-0-{i}.{name}:{port}" for i in range(nodes)
        ]
    assert [(p.index, p.count, p.is_chief) for p in places] == [(i, nodes, i == 0) for i in range(nodes)]


def test_both_ways_of_training_on_several_machines_start_the_same_program():
    (tfjob,) = documents(K8S / "addons/distributed-training-tfjob/tfjob.yaml")
    (old,), (new,) = (
        [spec["containers"][0] for _, spec in pod_specs([m])] for m in (tfjob, training_runtime())
    )
    for key in ("image", "command", "args", "resources", "securityContext", "volumeMounts"):
        assert old[key] == new[key], key
