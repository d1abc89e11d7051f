"""A real kube-apiserver with etcd on this machine: by itself it validates and stores."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tests.support.kubeconfig import write_kubeconfig
from tests.support.local_server import free_port

PATIENCE = 120  # seconds for the server to be ready on a busy machine


class ApiServer:
    """The server, and ways to speak to it; `kubectl` is of its version."""

    def __init__(self, bin_folder: Path, folder: Path) -> None:
        self._bin, self.folder = bin_folder, folder
        self.kubectl = str(bin_folder / "kubectl")
        self._port = free_port()
        self.url = f"https://127.0.0.1:{self._port}"
        self._tokens = {name: secrets.token_hex(16) for name in ("admin", "nobody", "user")}

    @contextlib.contextmanager
    def running(self) -> Iterator[ApiServer]:
        """Run etcd and the server, and stop both."""
        etcd, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        urls = {"listen-client": etcd, "advertise-client": etcd, "listen-peer": peer}
        options = [f"--{name}-urls={url}" for name, url in urls.items()]
        options += [f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}"]
        program = shutil.which("etcd") or "etcd"
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.process(program, f"--data-dir={self.folder / 'etcd'}", *options))
            stack.enter_context(self.process(str(self._bin / "kube-apiserver"), *self._options(etcd)))
            self._wait()
            yield self

    def _options(self, etcd: str) -> list[str]:
        key, tokens = self.folder / "accounts.key", self.folder / "tokens.csv"
        subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
        groups = {"admin": "system:masters", "nobody": "", "user": ""}
        tokens.write_text("".join(f'{t},{n},{n},"{groups[n]}"\n' for n, t in self._tokens.items()))
        tokens.chmod(0o600)
        return [
            f"--etcd-servers={etcd}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            # No address of a loopback may stand in the endpoints of the service `kubernetes`.
            "--endpoint-reconciler-type=none",
            f"--secure-port={self._port}",
            f"--cert-dir={self.folder / 'certificates'}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=RBAC",
            # Debian's etcd 3.4 lacks the progress notifications that a cache of watches relies on.
            "--watch-cache=false",
        ]

    @contextlib.contextmanager
    def process(self, *command: str) -> Iterator[None]:
        """Run a program beside the server; what it says is in a log of its name."""
        log = self.folder / f"{Path(command[0]).name}.log"
        with log.open("wb") as sink:
            process = subprocess.Popen(command, stdout=sink, stderr=subprocess.STDOUT, cwd=self.folder)
        try:
            time.sleep(0.2)
            assert process.poll() is None, log.read_text()[-3000:]
            yield
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()

    def _wait(self) -> None:
        end = time.monotonic() + PATIENCE
        context = ssl._create_unverified_context()
        while time.monotonic() < end:
            with contextlib.suppress(OSError, urllib.error.URLError):
                headers = {"Authorization": f"Bearer {self._tokens['admin']}"}
                request = urllib.request.Request(f"{self.url}/readyz", headers=headers)
                with urllib.request.urlopen(request, timeout=5, context=context) as answer:
                    if answer.read() == b"ok":
                        return
            time.sleep(0.5)
        log = (self.folder / "kube-apiserver.log").read_text()[-3000:]
        raise AssertionError(f"the API server is not ready after {PATIENCE} s:\n{log}")

    def call(self, method: str, path: str, body: dict | None = None, kind: str = "json") -> dict:
        """Send a request as the administrator; `kind` is that of a patch: json, merge-patch+json."""
        context = ssl.create_default_context(cafile=self.certificate)
        headers = {"Authorization": f"Bearer {self._tokens['admin']}", "Content-Type": f"application/{kind}"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data=data, headers=headers, method=method)
        with urllib.request.urlopen(request, timeout=30, context=context) as answer:
            return json.load(answer)

    @property
    def certificate(self) -> str:
        """The file with the server's certificate."""
        return str(self.folder / "certificates" / "apiserver.crt")

    def kubeconfig(self, user: str = "admin") -> str:
        """Write a kubeconfig for one of the server's users: admin, nobody, user."""
        cluster = {"certificate-authority": self.certificate}
        cluster["tls-server-name"] = "kubernetes.default.svc"
        path, token = self.folder / f"{user}.kubeconfig", {"token": self._tokens[user]}
        return write_kubeconfig(path, self.url, token, "test", **cluster)

    def run(self, *arguments: str, given: str = "", code: int | None = 0) -> str:
        """Run kubectl as the administrator and return what it says; None takes any exit code."""
        environment = {**os.environ, "KUBECONFIG": self.kubeconfig(), "HOME": str(self.folder)}
        command = [self.kubectl, *arguments]
        piped = {"input": given, "capture_output": True, "text": True}
        done = subprocess.run(command, **piped, check=False, env=environment)
        assert code in (None, done.returncode), done.stdout[-2000:] + done.stderr[-4000:]
        return done.stdout + done.stderr

    def apply(self, manifests: list[dict], *flags: str, code: int = 0) -> str:
        """Apply manifests on the server's side, where an unknown field is an error."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
        strict = ("--server-side", "--validate=strict", "--force-conflicts", "-f", "-")
        return self.run("apply", *strict, *flags, given=text, code=code)
