"""The few requests to the Kubernetes API that a step makes, with the service account of its pod.

Five kinds of requests don't pay for Kubernetes' client library, which the image of the steps lacks.
"""

import contextlib
import json
import os
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any

from detection_core.errors import DetectionError, one_line

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Folder of a pod with its account's token, namespace and the API's certificate."""

_WAITS = (1, 2, 5, 10, 30, 60, 60, 60)
"""Seconds before each retry: an upgrade of the control plane must not end a training."""
_SECONDS = 30.0
_SILENCE = 60.0


class KubernetesError(DetectionError):
    """The Kubernetes API can't be reached or refuses a request."""


class KubernetesApi:
    """Requests in the namespace of this pod; see the Kubernetes API reference for paths and objects."""

    def __init__(self) -> None:
        """Read where the API is; KubernetesError outside a pod with a service account."""
        host, port = (os.environ.get(f"KUBERNETES_SERVICE_{part}", "") for part in ("HOST", "PORT"))
        try:
            self.namespace = (ACCOUNT / "namespace").read_text().strip()
            self._context = ssl.create_default_context(cafile=ACCOUNT / "ca.crt")
        except OSError as e:
            raise KubernetesError(
                "expected a pod with the token of a service account, found none; let Kubernetes mount it"
                " (automountServiceAccountToken)",
                where=str(ACCOUNT),
            ) from e
        self._url = f"https://{f'[{host}]' if ':' in host else host}:{port}"

    def get(self, path: str, query: Mapping[str, str] | None = None) -> dict[str, Any] | None:
        """Return an object, or a list of objects; None where there is none."""
        return self._object("GET", path, query)

    def create(self, path: str, body: Mapping[str, Any]) -> bool:
        """Create an object; False where one of its name exists."""
        try:
            if self._object("POST", path, body=body) is None:
                raise KubernetesError(
                    f"expected the kind {body['kind']} of {body['apiVersion']}, found a cluster without it;"
                    " install its operator, or choose another job_kind",
                    where=path,
                )
        except urllib.error.HTTPError as e:
            if e.code != 409:
                raise _refused(e, path) from e
            return False
        return True

    def delete(self, path: str) -> None:
        """Delete an object, and with it what belongs to it; nothing happens where there is none."""
        self._object("DELETE", path)

    def lines(self, path: str, query: Mapping[str, str]) -> Iterator[str]:
        """Yield lines as they come, until the stream ends or nothing comes for a minute."""
        try:
            with self._open("GET", path, query, seconds=_SILENCE) as answer:
                for line in answer:
                    yield line.decode(errors="replace").rstrip("\n")
        # What is lacking is read by the next request.
        except (OSError, HTTPException):
            return

    def _object(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> dict[str, Any] | None:
        for wait in (*_WAITS, None):
            try:
                with self._open(method, path, query, body) as answer:
                    return dict(json.load(answer))
            except urllib.error.HTTPError as e:
                if e.code == 404:
                    return None
                if e.code == 409:
                    raise
                if wait is None or (e.code < 500 and e.code != 429):
                    raise _refused(e, path) from e
            except (OSError, HTTPException, ValueError) as e:
                if wait is None:
                    raise KubernetesError(
                        f"expected an answer of the Kubernetes API, found none ({one_line(str(e), 200)});"
                        " check the cluster, then retry the step: what is trained is kept",
                        where=self._url,
                    ) from e
            time.sleep(wait)
        raise AssertionError("the last try returns or raises")

    def _open(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        seconds: float = _SECONDS,
    ) -> HTTPResponse:
        # Kubernetes renews the token in its file.
        token = (ACCOUNT / "token").read_text().strip()
        request = urllib.request.Request(
            f"{self._url}{path}?{urllib.parse.urlencode(query or {})}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        answer: HTTPResponse = urllib.request.urlopen(request, timeout=seconds, context=self._context)
        return answer


def _refused(error: urllib.error.HTTPError, path: str) -> KubernetesError:
    text = error.read().decode(errors="replace")
    with contextlib.suppress(ValueError, KeyError, TypeError):
        text = str(json.loads(text)["message"])
    remedy = "correct the settings of the step's pod in kubeflow.steps.trainer"
    if error.code in (401, 403):
        remedy = "give the runs' service account the rights of k8s/addons/distributed-training"
    return KubernetesError(
        f"expected the Kubernetes API to accept it, found {error.code}: {one_line(text, 400)}; {remedy}",
        where=path,
    )
