"""Checks of a cluster: requirements of `submit` and `schedule` on Kubernetes and Kubeflow Pipelines."""

import dataclasses
import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from detection_core.bounded.plain_yaml import parse_yaml_documents
from detection_core.errors import DetectionError
from pipeline.doctor.finding import Check, Finding, note, ok, problem, unknown
from pipeline.doctor.kube import CALLER_RIGHTS, KINDS, STEP_RIGHTS, ForbiddenError, Kube
from pipeline.doctor.registry import look_up_image
from pipeline.kubeflow.connection import Connection

# The manifests of k8s/ need a CronJob's time zone, which Kubernetes has since 1.27.
OLDEST_KUBERNETES = (1, 27)
SYSTEM_NAMESPACE = "kubeflow"
_ASK = "ask who runs the cluster"


@dataclasses.dataclass(kw_only=True)
class Cluster:
    """A cluster under examination.

    Attributes:
        kube: Kubernetes API.
        connect: function that connects to the Kubeflow Pipelines API.
        namespace: namespace of the runs; empty: that of the connection, else Kubeflow's.
        account: service account of the steps; empty: the server's default.
        claims: persistent volume claim to the steps that mount it; None without settings.
        retried: steps with retries in the settings.
        through_kube: whether the pipelines API is reached through the Kubernetes API.
    """

    kube: Kube
    connect: Callable[[], Connection]
    namespace: str = ""
    account: str = ""
    claims: dict[str, list[str]] | None = None
    images: tuple[str, ...] = ()
    pull_secrets: tuple[str, ...] = ()
    time_zone: str = "UTC"
    retried: tuple[str, ...] = ()
    through_kube: bool = False
    multi_user: bool | None = None

    def object(
        self, kind: str, name: str, api: str = "/api/v1", namespace: str = ""
    ) -> dict[str, Any] | None:
        """Read an object of the runs' namespace, or of another one."""
        return self.kube.get(f"{api}/namespaces/{namespace or self.namespace}/{kind}/{name}")


def visible(look: Callable[[Cluster], Iterable[Finding]]) -> Callable[[Cluster], Iterator[Finding]]:
    """Turn missing permissions into a finding."""

    def careful(cluster: Cluster) -> Iterator[Finding]:
        try:
            yield from look(cluster)
        except ForbiddenError as e:
            yield unknown(str(e), f"{_ASK}, or look with an account that may")

    return careful


def check_pipelines(cluster: Cluster) -> Iterator[Finding]:
    """Connect to Kubeflow Pipelines, and set the namespace."""
    try:
        connection = cluster.connect()
    except DetectionError as e:
        cluster.namespace = cluster.namespace or SYSTEM_NAMESPACE
        yield problem(str(e), "docs/kubeflow.md has the ways to reach a server and to sign in")
        return
    cluster.multi_user = connection.namespace is not None
    cluster.namespace = connection.namespace or cluster.namespace or SYSTEM_NAMESPACE
    version = connection.server_version or "a version that it does not tell"
    users = "with users" if cluster.multi_user else "without users: anyone who can reach it has full access"
    yield ok(f"Kubeflow Pipelines {version} at {connection.host}, {users}; runs are in {cluster.namespace}")


def check_kubernetes(cluster: Cluster) -> Iterator[Finding]:
    """Compare the Kubernetes version with the one that the manifests need."""
    version = str((cluster.kube.get("/version") or {}).get("gitVersion", ""))
    numbers = tuple(map(int, re.findall(r"\d+", version)[:2]))
    oldest = ".".join(map(str, OLDEST_KUBERNETES))
    if not numbers:
        yield unknown(
            f"{cluster.kube.host} does not tell its version", f"{_ASK} whether it is {oldest} or newer"
        )
    elif numbers < OLDEST_KUBERNETES:
        yield problem(f"Kubernetes {version}", f"upgrade it to {oldest} or newer, which k8s/ is written for")
    else:
        yield ok(f"Kubernetes {version} at {cluster.kube.host}")


@visible
def check_namespace(cluster: Cluster) -> Iterator[Finding]:
    """Check the namespace of the runs."""
    if cluster.kube.get(f"/api/v1/namespaces/{cluster.namespace}") is None:
        yield problem(
            f"{cluster.namespace}: there is none",
            "choose another with --namespace, or make it (a profile; or kubectl apply -k k8s/overlays/...)",
        )
    else:
        yield ok(cluster.namespace)


def check_kinds(cluster: Cluster) -> Iterator[Finding]:
    """Check the kinds that runs, schedules and the manifests of k8s/ need."""
    for kind in KINDS:
        answer = cluster.kube.get(f"/apis/{kind.group}/{kind.version}") or {}
        what = f"{kind.name} {kind.version}"
        if any(r.get("name") == kind.plural for r in answer.get("resources", ())):
            yield ok(what)
            continue
        missing = problem if kind.always else note
        yield missing(
            f"{what}: missing; needed by {kind.needed_by}",
            f"install {kind.project} (tried with {kind.release})"
            + ("" if kind.always else ", or leave that component out"),
        )


def check_rights(cluster: Cluster) -> Iterator[Finding]:
    """Check the permissions of the kubeconfig's account."""
    if cluster.through_kube:
        proxy = {"verb": "get", "resource": "services", "subresource": "proxy", "name": "ml-pipeline:http"}
        if cluster.kube.may(namespace=SYSTEM_NAMESPACE, **proxy):
            yield ok("may reach the pipelines API through the Kubernetes API")
        else:
            yield problem(
                "may not reach the pipelines API through the Kubernetes API (get services/proxy in kubeflow)",
                f"give --host, or {_ASK} for the right",
            )
    if cluster.multi_user is False:
        return
    lacking = [
        f"{verb} {right.resource} ({right.purpose})"
        for right in CALLER_RIGHTS
        for verb in right.verbs
        if not cluster.kube.may(**right.attributes(verb, cluster.namespace))
    ]
    if lacking:
        yield problem(
            f"in {cluster.namespace} you may not: {', '.join(lacking)}",
            f"{_ASK} for the role kubeflow-edit, or the rules of k8s/addons/retraining-cronjob",
        )
    else:
        yield ok(f"you may submit, watch, cancel and schedule runs in {cluster.namespace}")


@visible
def check_account(cluster: Cluster) -> Iterator[Finding]:
    """Check the account of the steps and its permissions."""
    if not cluster.account:
        yield note(
            "kubeflow.service_account names none, so steps run as the server's default, a wide one",
            "name detflow-runner of k8s/base, which may do what a run needs and no more",
        )
        return
    if cluster.object("serviceaccounts", cluster.account) is None:
        yield problem(
            f"{cluster.namespace} has no service account {cluster.account}",
            "kubectl apply -k an overlay of k8s/, or correct kubeflow.service_account",
        )
        return
    user = f"system:serviceaccount:{cluster.namespace}:{cluster.account}"
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{cluster.namespace}", "system:authenticated"]
    lacking = [
        f"{verb} {right.resource} {right.name}".strip() + f" ({right.purpose})"
        for right in STEP_RIGHTS
        for verb in right.verbs
        if not cluster.kube.account_may(user, groups, **right.attributes(verb, cluster.namespace))
    ]
    if lacking:
        yield problem(
            f"{cluster.account} may not: {', '.join(lacking)}",
            "kubectl apply -k an overlay of k8s/: base/rbac.yaml has the rules",
        )
    else:
        yield ok(f"{cluster.account} may do what the pods of a run do")


@visible
def check_claims(cluster: Cluster) -> Iterator[Finding]:
    """Check the claims that the steps mount."""
    if cluster.claims is None:
        yield unknown("no settings tell which are needed", "name them with --settings FILE")
    elif not cluster.claims:
        yield ok("the settings mount none")
    for name, steps in (cluster.claims or {}).items():
        found = cluster.object("persistentvolumeclaims", name)
        if found is None:
            yield problem(
                f"{name}: {cluster.namespace} has no claim of this name; mounted by {', '.join(steps)}",
                "kubectl apply -k an overlay of k8s/, or correct the pvcs of kubeflow.steps",
            )
            continue
        modes = found.get("spec", {}).get("accessModes", [])
        phase = found.get("status", {}).get("phase", "Pending")
        what = f"{name}: {phase}, {', '.join(modes)}"
        if phase == "Lost":
            yield problem(what, "its volume is gone: restore it, or create the claim again")
        elif phase != "Bound":
            yield note(
                what,
                f"fine where the storage class waits for the first pod; else kubectl -n {cluster.namespace}"
                f" describe pvc {name} says why",
            )
        elif "ReadWriteMany" not in modes and len(steps) > 1:
            yield note(
                f"{what}; mounted by {', '.join(steps)}",
                "pods on two nodes cannot share it: take ReadWriteMany on a cluster of more than one node",
            )
        else:
            yield ok(what)


@visible
def check_launcher(cluster: Cluster) -> Iterator[Finding]:
    """Check the configuration of Kubeflow's launcher in each pod: artifact root and credentials."""
    config = cluster.object("configmaps", "kfp-launcher")
    root = ((config or {}).get("data") or {}).get("defaultPipelineRoot", "")
    if config is None:
        yield note(
            f"{cluster.namespace} has no ConfigMap kfp-launcher: artifacts go to Kubeflow's own store",
            "fine where that is meant; else make it with defaultPipelineRoot and providers",
        )
    else:
        yield ok(f"artifacts go to {root or 'the store of Kubeflow Pipelines'}")
    if cluster.object("secrets", "mlpipeline-minio-artifact") is None:
        yield problem(
            f"{cluster.namespace} has no Secret mlpipeline-minio-artifact, without which the launcher cannot"
            " reach the artifact store",
            "label the namespace pipelines.kubeflow.org/enabled=true, so that Kubeflow makes it; or, for"
            " another store, name its secret under providers in kfp-launcher",
        )
    else:
        yield ok("the credentials of the artifact store are there")


@visible
def check_images(cluster: Cluster) -> Iterator[Finding]:
    """Check the images, their pull secrets, and pods that failed to pull."""
    if not cluster.images:
        yield unknown("no settings tell which are needed", "name them with --settings FILE")
    for name in cluster.images:
        yield look_up_image(name)
    for secret in cluster.pull_secrets:
        if cluster.object("secrets", secret) is None:
            yield problem(
                f"{cluster.namespace} has no secret {secret} of kubeflow.image_pull_secrets",
                f"kubectl -n {cluster.namespace} create secret docker-registry {secret} ...",
            )
    path = f"/api/v1/namespaces/{cluster.namespace}/events"
    events = (cluster.kube.get(path, fieldSelector="reason=Failed") or {}).get("items", [])
    messages = [str(e.get("message", "")) for e in events]
    failed = [m for m in messages if "pull" in m and any(i in m for i in cluster.images)]
    if failed:
        yield problem(
            f"a pod could not get its image within the last hour: {' '.join(failed[-1].split())[:200]}",
            "push the image under that name, or name a secret with the registry's credentials",
        )


@visible
def check_time_zone(cluster: Cluster) -> Iterator[Finding]:
    """Compare the time zone of the schedule controller with the schedule's."""
    deployment = cluster.object(
        "deployments", "ml-pipeline-scheduledworkflow", api="/apis/apps/v1", namespace=SYSTEM_NAMESPACE
    )
    if deployment is None:
        yield problem(
            f"{SYSTEM_NAMESPACE} has no ml-pipeline-scheduledworkflow, so no schedule fires",
            "install it with Kubeflow Pipelines; without it, k8s/addons/retraining-cronjob starts runs",
        )
        return
    containers = deployment.get("spec", {}).get("template", {}).get("spec", {}).get("containers", [])
    variables = [v for c in containers for v in c.get("env", ()) if v.get("name") == "CRON_SCHEDULE_TIMEZONE"]
    zone = _value(cluster, variables[0]) if variables else ""
    if (zone or "UTC") == cluster.time_zone:
        yield ok(f"schedules fire in {zone or 'UTC'}")
    else:
        yield problem(
            f"schedules fire in {zone or 'UTC'} here, and schedule.time_zone is {cluster.time_zone}",
            f"write the schedule for {zone or 'UTC'} and set schedule.time_zone to it; the cluster's own is"
            " cronScheduleTimezone in the ConfigMap pipeline-install-config",
        )


def _value(cluster: Cluster, variable: dict[str, Any]) -> str:
    reference = variable.get("valueFrom", {}).get("configMapKeyRef")
    if not reference:
        return str(variable.get("value", ""))
    config = cluster.object("configmaps", reference["name"], namespace=SYSTEM_NAMESPACE)
    return str(((config or {}).get("data") or {}).get(reference["key"], ""))


@visible
def check_retries(cluster: Cluster) -> Iterator[Finding]:
    """Check how Argo's configuration treats `retries`; see docs/kubeflow.md."""
    name = "workflow-controller-configmap"
    config = cluster.object("configmaps", name, namespace=SYSTEM_NAMESPACE)
    if config is None:
        yield unknown(
            f"{SYSTEM_NAMESPACE} has no ConfigMap {name}", f"{_ASK} whether Argo retries what fails"
        )
        return
    try:
        documents = parse_yaml_documents((config.get("data") or {}).get("workflowDefaults", ""), name)
    except DetectionError as e:
        yield unknown(str(e), "correct workflowDefaults in it")
        return
    tree = documents[0] if documents else None
    for key in ("spec", "templateDefaults", "retryStrategy", "retryPolicy"):
        tree = tree.get(key) if isinstance(tree, dict) else None
    if tree not in ("OnError", "OnTransientError"):
        yield ok("Argo retries a step that fails as often as the settings say")
        return
    found = f"Argo's default retryPolicy is {tree}, and a container that fails is not retried"
    remedy = f"remove templateDefaults from workflowDefaults in the ConfigMap {name} of {SYSTEM_NAMESPACE}"
    if cluster.retried:
        yield problem(f"{found}: not {', '.join(cluster.retried)}, whatever `retries` says", remedy)
    else:
        yield note(found, f"fine without `retries`; else {remedy}")


@visible
def check_network(cluster: Cluster) -> Iterator[Finding]:
    """Check that our network policy for the Kubernetes API, if applied, allows its addresses."""
    policy = cluster.object("networkpolicies", "allow-kubernetes-api", api="/apis/networking.k8s.io/v1")
    if policy is None:
        yield ok(f"{cluster.namespace} has no policy of ours")
        return
    slices = cluster.kube.get(
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
        labelSelector="kubernetes.io/service-name=kubernetes",
    )
    items = (slices or {}).get("items", [])
    addresses = [a for item in items for e in item.get("endpoints") or () for a in e.get("addresses", ())]
    ports = [p.get("port") for item in items for p in item.get("ports") or ()]
    shut = [a for a in addresses if not any(_lets_through(policy, a, port) for port in ports)]
    where = ", ".join(f"{a}:{p}" for a, p in zip(addresses, ports, strict=False)) or "nowhere"
    if shut:
        yield problem(
            f"the Kubernetes API is at {where}, and allow-kubernetes-api does not let pods of a run reach it",
            "add an ipBlock with its address, and its port, to that policy in your overlay",
        )
    else:
        yield ok(f"pods of a run may reach the Kubernetes API at {where}")


def _lets_through(policy: dict[str, Any], address: str, port: Any) -> bool:
    for rule in policy.get("spec", {}).get("egress", ()):
        blocks = [ipaddress.ip_network(to["ipBlock"]["cidr"]) for to in rule.get("to", ()) if "ipBlock" in to]
        if port in [p.get("port") for p in rule.get("ports", ())] and any(
            ipaddress.ip_address(address) in block for block in blocks
        ):
            return True
    return False


# The first two set the connection and the namespace for the others.
CLUSTER_CHECKS: tuple[Check[Cluster], ...] = (
    Check("kubernetes", check_kubernetes, essential=True),
    Check("pipelines", check_pipelines),
    Check("namespace", check_namespace),
    Check("kinds", check_kinds),
    Check("rights", check_rights),
    Check("account", check_account),
    Check("claims", check_claims),
    Check("launcher", check_launcher),
    Check("images", check_images),
    Check("time zone", check_time_zone),
    Check("retries", check_retries),
    Check("network", check_network),
)
