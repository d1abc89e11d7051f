"""A stand-in for a node: it starts pods as processes of this machine, and tells the API server of them.

What it does as a kubelet does, by Kubernetes' documentation:
- Pods: a pod that is bound to the node runs; it succeeds or fails with its container ("Pod Lifecycle"). A
  deleted one gets SIGTERM, after its grace period SIGKILL, and is removed then.
- Downward API: `fieldRef` of labels, annotations, name, uid and namespace become variables.
- Volumes: a claim is a folder of this machine, `emptyDir` a new one; the token of a service account is asked
  of the API server, and lies with its certificate and namespace in one folder.
- Networks: each pod has an address, and pods with hostname and subdomain have names ("DNS for
  Services and Pods"), as have those of a headless Service with the pod's name, which the training operator
  makes. Pods with `hostNetwork` use this machine's.
- Restarts: with `restartPolicy` OnFailure a container that fails is started again.
- Logs: the API server asks the node for them at `/containerLogs/NAMESPACE/POD/CONTAINER`.

It binds pods to itself, as there is no scheduler. Images are not pulled: a command runs in this checkout.
Users, resources and security contexts are not enforced.
"""

import contextlib
import datetime
import functools
import http.server
import os
import shlex
import signal
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from tests.cluster.apiserver import ApiServer
from tests.support.certificate import self_signed
from tests.support.local_server import free_port
from tests.support.scripts import ROOT

NODE = "here"
_SWITCH, _BRIDGE, _NETWORK = "detflow-switch", "pods", "10.213.77"
"""The network of the pods is a namespace with a bridge: rules of this machine's own do not hold there."""
_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_POLL = 0.3


def can_run_pods() -> bool:
    """Return whether this machine lets us make network namespaces."""
    made = subprocess.run(["ip", "netns", "add", "detflow-probe"], capture_output=True, check=False)
    subprocess.run(["ip", "netns", "del", "detflow-probe"], capture_output=True, check=False)
    return made.returncode == 0


class _Pod:
    """A pod that runs here."""

    def __init__(self, kubelet: "Kubelet", pod: dict[str, Any], number: int) -> None:
        metadata, self.spec = pod["metadata"], pod["spec"]
        self.namespace, self.name = metadata["namespace"], metadata["name"]
        self.path = f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"
        (self.container,) = self.spec["containers"]
        self.folder = kubelet.folder / self.name
        self.folder.mkdir()
        self.log = self.folder / "log"
        self.address, self.network = f"{_NETWORK}.{number}", f"detflow-{number}"
        self.deleted_at = 0.0
        self.started = _now()
        if not self.spec.get("hostNetwork"):
            kubelet.join(self)
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", str(ROOT))}
        environment |= {"HOME": "/tmp", "TF_CPP_MIN_LOG_LEVEL": "2", **kubelet.service}
        environment |= {e["name"]: _value(e, pod) for e in self.container.get("env", [])}
        script = [f"mkdir -p {at} && mount --bind {here} {at}" for here, at in self._mounts(kubelet, pod)]
        command = [*self.container["command"], *self.container.get("args", [])]
        command[0] = sys.executable if command[0] == "python" else command[0]
        script.append(f"exec {shlex.join(command)}")
        enter = ["unshare", "-m"] if self.spec.get("hostNetwork") else ["ip", "netns", "exec", self.network]
        self._command, self._environment = [*enter, "sh", "-c", " && ".join(script)], environment
        self.restarts = -1
        self.start()

    def start(self) -> None:
        """Start the container, or start it again."""
        self.restarts += 1
        piped = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "start_new_session": True}
        self.process = subprocess.Popen(self._command, cwd=ROOT, env=self._environment, **piped)
        threading.Thread(target=self._keep_log, args=(self.process.stdout,), daemon=True).start()

    def _mounts(self, kubelet: "Kubelet", pod: dict[str, Any]) -> Iterator[tuple[Path, str]]:
        """Yield folders of this machine and where the container has them; those that hide /tmp come last."""
        volumes = {v["name"]: v for v in self.spec.get("volumes", [])}
        for mount in sorted(self.container.get("volumeMounts", []), key=lambda m: m["mountPath"] == "/tmp"):
            volume = volumes[mount["name"]]
            here = self.folder / mount["name"]
            if claim := volume.get("persistentVolumeClaim"):
                here = kubelet.claim(claim["claimName"])
            here.mkdir(exist_ok=True, parents=True)
            if mount["mountPath"] == _ACCOUNT:
                kubelet.write_account(here, pod)
            yield here, mount["mountPath"]

    def _keep_log(self, output: IO[bytes]) -> None:
        # As the container runtime keeps it: each line with its time.
        with self.log.open("a") as log:
            for line in output:
                log.write(f"{_now(digits=True)} {line.decode(errors='replace').rstrip()}\n")
                log.flush()

    def status(self) -> dict[str, Any]:
        """Return its status, as the API server has it."""
        code = self.process.poll()
        state: dict[str, Any] = {"running": {"startedAt": self.started}}
        phase = "Running"
        if code is not None:
            code = 128 - code if code < 0 else code
            phase, reason = ("Failed", "Error") if code else ("Succeeded", "Completed")
            ended = {"exitCode": code, "reason": reason, "startedAt": self.started, "finishedAt": _now()}
            state = {"terminated": ended}
        ready = {"type": "Ready", "status": "True" if phase == "Running" else "False"}
        container = {
            "name": self.container["name"], "image": self.container["image"], "imageID": "", "state": state,
            "ready": phase == "Running", "restartCount": self.restarts, "started": phase == "Running",
        }  # fmt: skip
        return {
            "phase": phase, "podIP": self.address, "podIPs": [{"ip": self.address}], "hostIP": "127.0.0.1",
            "startTime": self.started, "conditions": [ready], "containerStatuses": [container],
        }  # fmt: skip

    def signal(self, number: int) -> None:
        """Send a signal to the container's processes."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


class Kubelet:
    """The node; `pods` are those that run or ran on it, by name."""

    def __init__(self, api: ApiServer, folder: Path) -> None:
        self._api, self.folder = api, folder
        self.pods: dict[str, _Pod] = {}
        self._written: dict[str, tuple[int, int | None]] = {}
        self._hosts = folder / "hosts"
        self._hosts.write_text("127.0.0.1 localhost\n")
        self._number = 1
        self._ended = threading.Event()
        address = urllib.parse.urlparse(api.url)
        self.service = {
            "KUBERNETES_SERVICE_HOST": str(address.hostname),
            "KUBERNETES_SERVICE_PORT": str(address.port),
        }

    @contextlib.contextmanager
    def running(self) -> Iterator["Kubelet"]:
        """Run the node until the block ends; then no process and no network of it is left."""
        self._network("add")
        server = self._log_server()
        self._register(server.server_address[1])
        threads = [threading.Thread(target=server.serve_forever), threading.Thread(target=self._sync)]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._ended.set()
            server.shutdown()
            for thread in threads:
                thread.join()
            for pod in self.pods.values():
                pod.signal(signal.SIGKILL)
                pod.process.wait()
            self._network("del")

    def claim(self, name: str) -> Path:
        """Return the folder of a persistent volume claim."""
        return self.folder / "claims" / name

    def write_account(self, folder: Path, pod: dict[str, Any]) -> None:
        """Write token, certificate and namespace of a pod's service account."""
        namespace, account = pod["metadata"]["namespace"], pod["spec"].get("serviceAccountName", "default")
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600},
        }
        (folder / "token").write_text(self._api.call("POST", path, body)["status"]["token"])
        (folder / "ca.crt").write_text(Path(self._api.certificate).read_text())
        (folder / "namespace").write_text(namespace)

    def join(self, pod: _Pod) -> None:
        """Give a pod its network; its name is known to all pods from then on."""
        pair = (f"dfh{pod.address.rpartition('.')[2]}", f"dfp{pod.address.rpartition('.')[2]}")
        inside, switch = ["ip", "-n", pod.network], ["ip", "-n", _SWITCH]
        for command in (
            ["ip", "netns", "add", pod.network],
            [*switch, "link", "add", pair[0], "type", "veth", "peer", "name", pair[1], "netns", pod.network],
            [*switch, "link", "set", pair[0], "master", _BRIDGE, "up"],
            [*inside, "addr", "add", f"{pod.address}/24", "dev", pair[1]],
            [*inside, "link", "set", pair[1], "up"],
            [*inside, "link", "set", "lo", "up"],
        ):
            subprocess.run(command, check=True, capture_output=True)
        names = [pod.spec.get("hostname", pod.name), f"{pod.name}.{pod.namespace}.svc"]
        if pod.spec.get("subdomain"):
            names = [f"{names[0]}.{pod.spec['subdomain']}", *names]
        # `ip netns exec` puts this file in the place of /etc/hosts; a later pod of a name takes it over.
        kept = [line for line in self._hosts.read_text().splitlines() if not set(names) & set(line.split())]
        with self._hosts.open("r+") as hosts:
            hosts.write("".join(f"{line}\n" for line in [*kept, f"{pod.address} {' '.join(names)}"]))
            hosts.truncate()
        etc = Path("/etc/netns") / pod.network
        etc.mkdir(parents=True, exist_ok=True)
        (etc / "hosts").unlink(missing_ok=True)
        (etc / "hosts").symlink_to(self._hosts)

    def _network(self, action: str) -> None:
        if action == "add":
            for command in (
                ["ip", "netns", "add", _SWITCH],
                ["ip", "-n", _SWITCH, "link", "add", _BRIDGE, "type", "bridge"],
                ["ip", "-n", _SWITCH, "link", "set", _BRIDGE, "up"],
            ):
                subprocess.run(command, check=True, capture_output=True)
            return
        for pod in self.pods.values():
            subprocess.run(["ip", "netns", "del", pod.network], check=False, capture_output=True)
            (Path("/etc/netns") / pod.network / "hosts").unlink(missing_ok=True)
        subprocess.run(["ip", "netns", "del", _SWITCH], check=False, capture_output=True)

    def _register(self, port: int) -> None:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
        self._api.call("POST", "/api/v1/nodes", node)
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        self._api.call("PATCH", f"/api/v1/nodes/{NODE}/status", {"status": status}, "merge-patch+json")

    def _sync(self) -> None:
        while not self._ended.is_set():
            for pod in self._api.call("GET", "/api/v1/pods")["items"]:
                # Another writer may have changed or removed it; the next round sees that.
                with contextlib.suppress(urllib.error.HTTPError):
                    self._sync_pod(pod)
            self._ended.wait(_POLL)

    def _sync_pod(self, pod: dict[str, Any]) -> None:
        name, metadata = pod["metadata"]["name"], pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{name}"
        if "deletionTimestamp" in metadata:
            self._end(self.pods.get(name), path, pod)
        elif "nodeName" not in pod["spec"] and not pod["spec"].get("schedulingGates"):
            target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
            binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
            self._api.call("POST", f"{path}/binding", binding)
        elif "nodeName" in pod["spec"] and name not in self.pods:
            self._number += 1
            self.pods[name] = _Pod(self, pod, self._number)
        if name in self.pods:
            running = self.pods[name]
            if running.process.poll() and running.spec.get("restartPolicy") == "OnFailure":
                running.start()
            status, now = running.status(), (running.restarts, running.process.poll())
            if self._written.get(name) != now:
                self._api.call("PATCH", f"{path}/status", {"status": status}, "merge-patch+json")
                self._written[name] = now

    def _end(self, running: _Pod | None, path: str, pod: dict[str, Any]) -> None:
        if running is not None and running.process.poll() is None:
            if not running.deleted_at:
                running.deleted_at = time.monotonic()
                running.signal(signal.SIGTERM)
            grace = pod["metadata"].get("deletionGracePeriodSeconds", 30)
            if time.monotonic() - running.deleted_at < grace:
                return
            running.signal(signal.SIGKILL)
        self._api.call("DELETE", path, {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0})

    def _log_server(self) -> http.server.ThreadingHTTPServer:
        handler = functools.partial(_LogHandler, self)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", free_port()), handler)
        server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self_signed(self.folder))
        server.socket = context.wrap_socket(server.socket, server_side=True)
        return server


class _LogHandler(http.server.BaseHTTPRequestHandler):
    """Answers the API server's requests for a container's log."""

    def __init__(self, kubelet: Kubelet, *arguments: Any) -> None:
        self._kubelet = kubelet
        super().__init__(*arguments)

    def do_GET(self) -> None:
        url = urllib.parse.urlparse(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        pod = self._kubelet.pods[url.path.split("/")[3]]
        self.send_response(200)
        self.end_headers()
        since, sent = query.get("sinceTime", ""), 0
        while True:
            ended = pod.process.poll() is not None
            lines = pod.log.read_text().splitlines(keepends=True)[sent:] if pod.log.exists() else []
            whole = [line for line in lines if line.endswith("\n")]
            sent += len(whole)
            for line in whole:
                moment, _, text = line.partition(" ")
                if moment[:19] >= since[:19]:
                    self.wfile.write((line if query.get("timestamps") == "true" else text).encode())
            self.wfile.flush()
            if ended or query.get("follow") != "true":
                return
            time.sleep(_POLL)

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


def _now(*, digits: bool = False) -> str:
    form = "%Y-%m-%dT%H:%M:%S.%fZ" if digits else "%Y-%m-%dT%H:%M:%SZ"
    return datetime.datetime.now(datetime.UTC).strftime(form)


def _value(variable: dict[str, Any], pod: dict[str, Any]) -> str:
    """Return the value of a container's variable."""
    if "value" in variable or "valueFrom" not in variable:
        return str(variable.get("value", ""))
    place: Any = pod
    path = variable["valueFrom"]["fieldRef"]["fieldPath"]
    field, _, key = path.removesuffix("']").partition("['")
    for part in field.split("."):
        place = place.get(part, {})
    return str(place[key] if key else place)
