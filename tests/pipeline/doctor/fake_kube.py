"""A Kubernetes API server on a real socket with the given answers, for the doctor's checks.

What it answers has the shape that kube-apiserver 1.35 gives; tests/cluster/test_doctor.py makes the same
checks against that server itself.
"""

import json
from typing import Any

from tests.support.kubeconfig import write_kubeconfig
from tests.support.local_server import LocalServer, Request

API = {"": "/api/v1", "apps": "/apis/apps/v1", "networking": "/apis/networking.k8s.io/v1"}


def named(kind: str, name: str, api: str = "", **fields: Any) -> dict[str, Any]:
    """Return an object of the namespace kubeflow at its path."""
    metadata = {"name": name, "namespace": "kubeflow"}
    return {f"{API[api]}/namespaces/kubeflow/{kind}/{name}": {"metadata": metadata, **fields}}


class FakeKube:
    """The server.

    Attributes:
        objects: path to what lies there.
        denied: paths that the account may not read.
        may: what access reviews are answered with: (user, verb, resource) to whether; user "" is the caller.
        broken: status of every answer, where it is not 0.
    """

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {"/version": {"major": "1", "minor": "35", "gitVersion": "v1.35.4"}}
        self.denied: set[str] = set()
        self.may = lambda user, verb, resource: True
        self.broken = 0
        self._server = LocalServer(self._answer)
        self._server.start()
        self.url, self.stop = self._server.url, self._server.stop

    def _answer(self, request: Request) -> tuple[int, str, str]:
        status, found = 401, _status(401, "Unauthorized")
        if request.headers.get("authorization") == "Bearer secret":
            status, found = self.answer(request.method, request.path, json.loads(request.raw or "null"))
        return status, "application/json", json.dumps(found)

    def serve(self, group: str, version: str, *plurals: str) -> None:
        path = f"/apis/{group}/{version}"
        there = self.objects.setdefault(path, {"kind": "APIResourceList", "resources": []})
        there["resources"] += [{"name": name} for name in plurals]

    def kubeconfig(self, folder: Any) -> str:
        return write_kubeconfig(folder / "kubeconfig", self.url, {"token": "secret"})

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        if self.broken:
            return self.broken, _status(self.broken, "Failure")
        if method == "POST":
            spec = body["spec"]
            attributes = spec["resourceAttributes"]
            resource = "/".join(filter(None, (attributes["resource"], attributes.get("subresource", ""))))
            if body["kind"] == "SubjectAccessReview" and path in self.denied:
                return 403, _status(403, "Forbidden")
            allowed = self.may(spec.get("user", ""), attributes["verb"], resource)
            return 201, {**body, "status": {"allowed": allowed}}
        if path in self.denied:
            return 403, _status(403, "Forbidden")
        if path in self.objects:
            return 200, self.objects[path]
        return 404, _status(404, "NotFound")


def _status(code: int, reason: str) -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}
