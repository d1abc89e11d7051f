"""The real controllers: of Kubernetes, JobSet, Kubeflow Trainer and the training operator."""

import base64
import contextlib
from collections.abc import Iterator
from pathlib import Path

import yaml

from tests.cluster.apiserver import ApiServer
from tests.support.certificate import self_signed
from tests.support.local_server import free_port, wait_for_port

# What trainings need: Jobs and their pods, and the end of what belongs to something that is gone.
_OF_KUBERNETES = "job-controller,garbage-collector-controller,serviceaccount-controller,namespace-controller"
_CERTIFICATES = Path("/tmp/k8s-webhook-server/serving-certs")
"""Where controller-runtime looks for the certificate of webhooks."""


_SECRET = {"name": "training-operator-webhook-cert", "namespace": "kubeflow"}
_FOR_THE_OPERATOR = (
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kubeflow"}},
    {"apiVersion": "v1", "kind": "Secret", "metadata": _SECRET},
    {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "validator.training-operator.kubeflow.org"},
    },
)
"""What it waits for (its pkg/cert/cert.go); its webhooks are not asked."""


@contextlib.contextmanager
def controllers(api: ApiServer, bin_folder: Path, manifests: list[dict]) -> Iterator[None]:
    """Run them, with the webhooks among the manifests, which are asked at this machine's addresses."""
    certificate, ports = _certificate(), {name: free_port() for name in ("trainer", "jobset")}
    kubeconfig = api.kubeconfig()
    for name, port in ports.items():
        (api.folder / f"{name}.yaml").write_text(yaml.safe_dump(_settings(name, port)))
    with contextlib.ExitStack() as stack:
        run = str(bin_folder / "kube-controller-manager")
        accounts = f"--service-account-private-key-file={api.folder / 'accounts.key'}"
        root = f"--root-ca-file={api.certificate}"
        flags = ["--leader-elect=false", f"--controllers={_OF_KUBERNETES}", f"--secure-port={free_port()}"]
        command = (run, f"--kubeconfig={kubeconfig}", accounts, root, *flags)
        stack.enter_context(api.process(*command))
        for name, program in (("trainer", "trainer-controller-manager"), ("jobset", "jobset-controller")):
            run, settings = str(bin_folder / program), api.folder / f"{name}.yaml"
            stack.enter_context(api.process(run, f"--kubeconfig={kubeconfig}", f"--config={settings}"))
        api.apply(list(_FOR_THE_OPERATOR))
        addresses = [f"--{name}-bind-address=127.0.0.1:{free_port()}" for name in ("metrics", "health-probe")]
        flags = ["--enable-scheme=tfjob", f"--webhook-server-port={free_port()}", *addresses]
        stack.enter_context(
            api.process(str(bin_folder / "training-operator"), f"--kubeconfig={kubeconfig}", *flags)
        )
        found = [m for m in manifests if m["kind"].endswith("WebhookConfiguration")]
        api.apply([_here(webhooks, ports, certificate) for webhooks in found])
        for port in ports.values():
            wait_for_port(port)
        yield


def _settings(name: str, port: int) -> dict:
    group = {"trainer": "config.trainer.kubeflow.org/v1alpha1", "jobset": "config.jobset.x-k8s.io/v1alpha1"}
    given = {
        "apiVersion": group[name],
        "kind": "Configuration",
        "webhook": {"port": port},
        "leaderElection": {"leaderElect": False},
        "metrics": {"bindAddress": f"127.0.0.1:{free_port()}"},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{free_port()}"},
    }
    return given | {"certManagement" if name == "trainer" else "internalCertManagement": {"enable": False}}


def _certificate() -> str:
    _CERTIFICATES.mkdir(parents=True, exist_ok=True)
    content = Path(self_signed(_CERTIFICATES)).read_bytes()
    for name in ("tls.key", "tls.crt"):
        (_CERTIFICATES / name).write_bytes(content)
    return base64.b64encode(content[content.index(b"-----BEGIN CERTIFICATE") :]).decode()


def _here(webhooks: dict, ports: dict[str, int], certificate: str) -> dict:
    """Direct webhooks to this machine; those of pods are for placement by topology, which no test uses."""
    kept = [w for w in webhooks["webhooks"] if "-pod" not in w["clientConfig"]["service"]["path"]]
    name = "jobset" if "jobset" in str(kept) else "trainer"
    for webhook in kept:
        path = webhook["clientConfig"]["service"]["path"]
        webhook["clientConfig"] = {"url": f"https://127.0.0.1:{ports[name]}{path}", "caBundle": certificate}
    metadata = {"name": f"{name}-{webhooks['metadata']['name']}"}
    return {**webhooks, "metadata": metadata, "webhooks": kept}
