"""The connection to a Kubeflow Pipelines server: address, credentials, time limits."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import re
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from detection_core.errors import ConfigError
from pipeline.cluster.errors import OLDEST_SERVER, ClusterError, explain
from pipeline.cluster.options import VARIABLES, ConnectionOptions, check_options

if TYPE_CHECKING:
    import kfp

_Answer = TypeVar("_Answer")

# Where the kubelet projects a token for the pipelines API, and where the API answers inside a cluster.
IN_CLUSTER_TOKEN = "/var/run/secrets/kubeflow/pipelines/token"
POD_NAMESPACE = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
IN_CLUSTER_HOST = "http://ml-pipeline.kubeflow.svc.cluster.local:8888"


class Connection:
    """A server that answered its health check.

    Attributes:
        client: the `kfp.Client`.
        host: address in use.
        namespace: the user's namespace; None on a single-user server.
        server_version: as the server names it; empty where it does not.
    """

    def __init__(self, client: kfp.Client, options: ConnectionOptions, credentials: str) -> None:
        self.client = client
        self.api_client = client.runs.api_client
        self.host: str = self.api_client.configuration.host
        self._ui_host = (options.ui_host or self.host).rstrip("/")
        self._credentials = credentials
        self.namespace: str | None = options.namespace or client.get_user_namespace() or None
        self.server_version = self._check_health()

    def call(self, doing: str, function: Callable[..., _Answer], *args: Any, **kwargs: Any) -> _Answer:
        """Call the client; what it prints is dropped, what it raises becomes one line.

        Raises:
            ClusterError: saying what was being done, what went wrong and what to do.
        """
        import kfp_server_api
        import urllib3

        # kfp prints links to standard output, where the result of `--json` goes.
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return function(*args, **kwargs)
            except (kfp_server_api.ApiException, urllib3.exceptions.HTTPError, OSError) as e:
                raise self._explained(e, doing) from e
            except AttributeError as e:
                # The generated client decodes the body of an answer that never came (a TLS failure).
                if not isinstance(e.__context__, kfp_server_api.ApiException):
                    raise
                raise self._explained(e.__context__, doing) from e

    def _explained(self, error: Exception, doing: str) -> ClusterError:
        return explain(error, host=self.host, doing=doing, credentials=self._credentials)

    def link(self, place: str) -> str:
        """Return the address of a page of the user interface, such as `runs/details/ID`."""
        return f"{self._ui_host}/#/{place}"

    def is_at_least(self, version: str) -> bool:
        """Tell whether the server is known to have a version, such as 2.17, or a newer one."""
        numbers = _numbers(self.server_version)
        return numbers is not None and numbers >= tuple(map(int, version.split(".")))

    def get_text(self, doing: str, path: str) -> str:
        """Read an address of the server that the client has no function for."""
        answer = self.call(
            doing,
            self.api_client.call_api,
            path,
            "GET",
            header_params={"Accept": "*/*"},
            auth_settings=["Bearer"],
            _return_http_data_only=True,
            _preload_content=False,
        )
        return str(answer.data.decode("utf-8", "replace"))

    def _check_health(self) -> str:
        text = self.get_text("asking for the server's health", "/apis/v2beta1/healthz")
        try:
            health = json.loads(text)
            multi_user = bool(health.get("multi_user"))
        except (ValueError, AttributeError) as e:
            raise ClusterError(
                "expected the pipelines API, found a page (perhaps a login); check --host (on full Kubeflow "
                "it ends in /pipeline), and give --token-file, --token-env or --cookie-env",
                where=self.host,
            ) from e
        # The user interface answers for the API, under names of its own.
        if health.get("apiServerReady") is False:
            raise ClusterError(
                "the user interface answers, but not the pipelines API behind it; try again, then look at the"
                " log of ml-pipeline",
                where=self.host,
                transient=True,
            )
        if not multi_user:
            # Settings may name one, which a server without users refuses; the client would fill it in, too.
            self.namespace = None
            self.client._context_setting["namespace"] = ""
        elif not self.namespace:
            self.namespace = _pod_namespace()
        if multi_user and not self.namespace:
            raise ClusterError(
                "the server has users with namespaces of their own, and none is chosen; give --namespace",
                where=self.host,
            )
        version = str(health.get("tag_name") or health.get("apiServerTagName") or "")
        numbers = _numbers(version)
        if numbers and numbers < tuple(map(int, OLDEST_SERVER.split("."))):
            raise ClusterError(
                f"expected a server {OLDEST_SERVER} or newer, found {version}; upgrade it: older ones do not "
                "run what kfp compiles today",
                where=self.host,
            )
        return version


def connect(options: ConnectionOptions) -> Connection:
    """Connect to a server.

    Raises:
        ConfigError: for an option that cannot be used.
        ClusterError: when the server cannot be reached or refuses.
    """
    check_options(options)
    if not options.host and "KUBERNETES_SERVICE_HOST" in os.environ:
        options = dataclasses.replace(options, host=IN_CLUSTER_HOST)
    _require_kfp()
    credentials, arguments = _credentials(options)
    client = _build_client(options, arguments)
    if not options.host and client.runs.api_client.configuration.host == "http://localhost":
        found = f"no context {options.kube_context} in the kubeconfig" if options.kube_context else "none"
        raise ConfigError(
            f"expected the address of a Kubeflow Pipelines server, found {found}; give --host, "
            f"set {VARIABLES['host']} or kubeflow.host",
            where="host",
        )
    return Connection(client, options, credentials)


def _require_kfp() -> None:
    try:
        import kfp  # noqa: F401
    except ImportError as e:
        raise ConfigError(
            f"expected the package kfp, found {e}; install it with `pip install 'detflow[cluster]'`"
        ) from e


def _credentials(options: ConnectionOptions) -> tuple[str, dict[str, Any]]:
    """Return where the credentials come from, and the client's arguments for them."""
    if options.token_file:
        _read_token(options.token_file)
        from kfp.client.set_volume_credentials import ServiceAccountTokenVolumeCredentials

        return options.token_file, {"credentials": ServiceAccountTokenVolumeCredentials(options.token_file)}
    if options.token_env:
        return f"${options.token_env}", {"existing_token": _variable(options.token_env, "token_env")}
    if options.cookie_env:
        return f"${options.cookie_env}", {"cookies": _variable(options.cookie_env, "cookie_env")}
    if options.iap_client_id:
        return "the Identity-Aware Proxy", {"client_id": options.iap_client_id}
    if os.path.isfile(IN_CLUSTER_TOKEN):
        return _credentials(dataclasses.replace(options, token_file=IN_CLUSTER_TOKEN))
    return "", {}


def _read_token(path: str) -> None:
    try:
        with open(path, encoding="utf-8") as f:
            empty = not f.read().strip()
    except (OSError, UnicodeDecodeError) as e:
        raise ConfigError(f"cannot read the token ({e}); check path and rights", where="token_file") from e
    if empty:
        raise ConfigError(f"{path} is empty; write a token into it", where="token_file")


def _variable(name: str, where: str) -> str:
    value = os.environ.get(name, "").strip()
    if not value:
        raise ConfigError(f"the environment variable {name} is not set; set it to the secret", where=where)
    return value


def _build_client(options: ConnectionOptions, arguments: dict[str, Any]) -> kfp.Client:
    import kfp
    import kfp_server_api

    class Client(kfp.Client):
        """A client that sends nothing while it is made: its own check waits without limit, five times."""

        def get_kfp_healthz(self, sleep_duration: int = 5) -> Any:
            return kfp_server_api.V2beta1GetHealthzResponse(multi_user=False)

    class BoundedRest(kfp_server_api.rest.RESTClientObject):
        """Requests with a time limit."""

        def request(self, *args: Any, _request_timeout: Any = None, **kwargs: Any) -> Any:
            limits = _request_timeout or (min(10, options.timeout), options.timeout)
            return super().request(*args, _request_timeout=limits, **kwargs)

    silent = contextlib.redirect_stdout(io.StringIO())
    try:
        with silent, warnings.catch_warnings(), _no_endpoint_variables():
            warnings.simplefilter("ignore")
            client = Client(
                host=options.host.rstrip("/") or None,
                # Without a host kfp reads `namespace` as the one that the server runs in.
                namespace=(options.host and options.namespace) or "kubeflow",
                ssl_ca_cert=options.ca_file or None,
                verify_ssl=options.verify_tls,
                kube_context=options.kube_context or None,
                ui_host=options.ui_host or None,
                proxy=_proxy(options.host),
                **arguments,
            )
    except Exception as e:
        # Only signing in at the Identity-Aware Proxy, and unreadable certificates, get here.
        raise explain(e, host=options.host, doing="preparing the connection", credentials="") from e
    api_client = client.runs.api_client
    _keep_host(api_client.configuration)
    # One more try where the connection itself failed; a request that may have arrived is not repeated.
    api_client.configuration.retries = _retries()
    api_client.rest_client = BoundedRest(api_client.configuration)
    return client


def _pod_namespace() -> str | None:
    """Return the namespace of the pod that this runs in; None outside a cluster."""
    try:
        with open(POD_NAMESPACE, encoding="utf-8") as f:
            return f.read().strip() or None
    except OSError:
        return None


def _keep_host(configuration: Any) -> None:
    """Keep the address while a kube context renews its token, which would cut the path to the server off.

    kubernetes' loader runs its hook before every request, and each time it sets the API server's own address
    and its own hook again: the address is kept inside the hook, and so is the hook.
    """
    # kfp ends the path through a kube context with a slash, and begins that of a request with one.
    configuration.host = configuration.host.rstrip("/")
    renew, host = configuration.refresh_api_key_hook, configuration.host
    if renew is None:
        return

    def renew_and_keep(renewed: Any) -> None:
        renew(renewed)
        renewed.host = host
        renewed.refresh_api_key_hook = renew_and_keep

    configuration.refresh_api_key_hook = renew_and_keep


def _retries() -> Any:
    import urllib3

    return urllib3.Retry(total=1, redirect=3, backoff_factor=0.2)


@contextlib.contextmanager
def _no_endpoint_variables() -> Iterator[None]:
    """Hide kfp's variables: they were read, and a flag must win over them."""
    hidden = {n: os.environ.pop(n) for n in VARIABLES.values() if n in os.environ}
    try:
        yield
    finally:
        os.environ.update(hidden)


def _proxy(host: str) -> str | None:
    """Return the proxy that the environment names for a host."""
    import urllib.request

    scheme, _, rest = host.partition("://")
    name = rest.partition("/")[0]
    if not host or urllib.request.proxy_bypass(name):
        return None
    return urllib.request.getproxies().get(scheme)


def _numbers(version: str) -> tuple[int, ...] | None:
    """Return the first two numbers of a version; None for one that has none, such as that of a branch."""
    numbers = re.match(r"v?(\d+)\.(\d+)", version)
    return tuple(map(int, numbers.groups())) if numbers else None
