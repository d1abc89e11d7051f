"""Kubernetes API client of the cluster checks, and the permissions and kinds that they look for."""

import dataclasses
import json
import os
from collections.abc import Sequence
from typing import Any

from detection_core.bounded.plain_yaml import module_table, read_yaml
from detection_core.errors import ConfigError
from pipeline.extras import require
from pipeline.kubeflow.api_errors import ClusterError

_LIMITS = (5, 15)  # seconds to connect and to answer


class ForbiddenError(ClusterError):
    """The account may not read something."""


class Kube:
    """A Kubernetes API server."""

    def __init__(self, api_client: Any) -> None:
        self._client = api_client
        self.host: str = api_client.configuration.host

    def get(self, path: str, **query: str) -> dict[str, Any] | None:
        """Read an object or a list; None if it does not exist (404).

        Raises:
            ForbiddenError: when the account may not read it.
            ClusterError: when the server does not answer or fails.
        """
        return self._call("GET", path, query=list(query.items()))

    def may(self, **attributes: str) -> bool:
        """Tell whether the current account may do something.

        The attributes are those of a SelfSubjectAccessReview: namespace, verb, group, resource, subresource,
        name.
        """
        return self._review("SelfSubjectAccessReview", {"resourceAttributes": attributes})

    def account_may(self, user: str, groups: list[str], **attributes: str) -> bool:
        """Tell whether another account may do something.

        The user has its name on the server, such as `system:serviceaccount:NAMESPACE:NAME`. The attributes
        are those of a SubjectAccessReview.

        Raises:
            ForbiddenError: when the current account may not ask this.
        """
        spec = {"user": user, "groups": groups, "resourceAttributes": attributes}
        return self._review("SubjectAccessReview", spec)

    def _review(self, kind: str, spec: dict[str, Any]) -> bool:
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
        answer = self._call("POST", f"/apis/authorization.k8s.io/v1/{kind.lower()}s", body=body) or {}
        return bool(answer.get("status", {}).get("allowed"))

    def _call(self, method: str, path: str, query: Any = (), body: Any = None) -> dict[str, Any] | None:
        import urllib3
        from kubernetes.client import ApiException

        doing = f"asking the Kubernetes API for {path}"
        try:
            answer = self._client.call_api(
                path,
                method,
                query_params=list(query),
                header_params={"Accept": "application/json", "Content-Type": "application/json"},
                body=body,
                auth_settings=["BearerToken"],
                _preload_content=False,
                _return_http_data_only=True,
                _request_timeout=_LIMITS,
            )
            return dict(json.loads(answer.data))
        except ApiException as e:
            if e.status == 404:
                return None
            raise self._refused(e, doing) from e
        except (urllib3.exceptions.HTTPError, OSError) as e:
            reason = " ".join(str(e).split())[-160:]
            raise ClusterError(
                f"{doing}: no answer (...{reason}); check the context of the kubeconfig and the network",
                where=self.host,
                transient=True,
            ) from e
        except (ValueError, TypeError) as e:
            raise ClusterError(
                f"{doing}: expected JSON, found another answer; check the address in the kubeconfig",
                where=self.host,
            ) from e

    def _refused(self, error: Any, doing: str) -> ClusterError:
        status = int(error.status or 0)
        if status == 403:
            return ForbiddenError(f"{doing}: your account may not", where=self.host, status=status)
        text = f"the server answered {status}; try again, then look at its log"
        if status == 401:
            text = "the credentials were not accepted (401); sign in again, or choose another --kube-context"
        return ClusterError(f"{doing}: {text}", where=self.host, status=status)


def open_kube(context: str = "") -> Kube:
    """Connect like kubectl, or with the account of the current pod.

    Without a context: the current one of the kubeconfig, or the pod's account without a kubeconfig.

    Raises:
        ConfigError: when there is neither.
    """
    require("cluster", "detflow doctor --cluster")
    import urllib3
    from kubernetes import config
    from kubernetes.client import ApiClient, Configuration
    from kubernetes.config import ConfigException

    try:
        # Read the variable now: the package keeps its value from import time.
        file = os.environ.get("KUBECONFIG") or None
        paths = (file or os.path.expanduser("~/.kube/config")).split(os.pathsep)
        # Refuse what the package's parser would expand without end, or fail on with a traceback.
        for path in filter(os.path.exists, paths):
            if not isinstance(read_yaml(path, what="kubeconfig"), dict):
                raise ConfigError("expected a mapping, found none", where=path)
        client = config.new_client_from_config(file, context or None)
    except (ConfigException, ConfigError, OSError, ValueError, TypeError, LookupError, AttributeError) as e:
        if context or "KUBERNETES_SERVICE_HOST" not in os.environ:
            raise ConfigError(
                f"expected a kubeconfig with {f'the context {context}' if context else 'a current context'},"
                f" found {' '.join(str(e).split())[:200]}; name one with KUBECONFIG or --kube-context",
                where="kubeconfig",
            ) from e
        configuration = Configuration()
        config.load_incluster_config(client_configuration=configuration)
        client = ApiClient(configuration)
    client.rest_client.pool_manager.connection_pool_kw["retries"] = urllib3.Retry(total=1, redirect=2)
    return Kube(client)


@dataclasses.dataclass(frozen=True)
class Right:
    """A permission that an account may need.

    Attributes:
        group: API group; empty for Kubernetes' core.
        resource: plural name, with a subresource after a slash.
        verbs: Kubernetes verbs.
        purpose: feature that needs it.
        name: name of the only object; empty: any.
    """

    group: str
    resource: str
    verbs: Sequence[str]
    purpose: str
    name: str = ""

    def attributes(self, verb: str, namespace: str) -> dict[str, str]:
        """Return the attributes of an access review."""
        resource, _, subresource = self.resource.partition("/")
        found = {"namespace": namespace, "verb": verb, "group": self.group, "resource": resource}
        found |= {"subresource": subresource} if subresource else {}
        return found | ({"name": self.name} if self.name else {})


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind that may be missing on a cluster.

    Attributes:
        plural: plural name in the API.
        release: release of the project that the manifests are tested with.
        needed_by: feature that needs it.
        always: whether every run needs it.
    """

    group: str
    version: str
    plural: str
    project: str
    release: str
    needed_by: str
    always: bool = False

    @property
    def name(self) -> str:
        """Name of its CustomResourceDefinition."""
        return f"{self.plural}.{self.group}"


_TABLE = module_table(__file__)
CALLER_RIGHTS = tuple(Right(**entry) for entry in _TABLE["caller_rights"])
STEP_RIGHTS = tuple(Right(**entry) for entry in _TABLE["step_rights"])
KINDS = tuple(Kind(**entry) for entry in _TABLE["kinds"])
