"""The connection to a Kubeflow Pipelines server: address, credentials, limits of time and size, retries."""

from __future__ import annotations

import collections
import contextlib
import io
import json
import os
import re
import time
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from detection_core.errors import ConfigError
from detection_core.redaction import hide
from pipeline.extras import require
from pipeline.kubeflow import connection_options
from pipeline.kubeflow.api_errors import OLDEST_SERVER, AnswerTooLargeError, ClusterError, explain
from pipeline.settings.kubeflow_settings import ConnectionOptions

if TYPE_CHECKING:
    import kfp

_Answer = TypeVar("_Answer")

# File with a pod's namespace, and the address of the pipelines API inside a cluster.
POD_NAMESPACE = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
IN_CLUSTER_HOST = "http://ml-pipeline.kubeflow.svc.cluster.local:8888"


class Connection:
    """A server that passed its health check; created by `open`.

    Attributes:
        namespace: the user's namespace; None on a single-user server.
        server_version: version that the server reports; empty if none.
    """

    def __init__(self, client: kfp.Client, options: ConnectionOptions, credentials: str) -> None:
        self.client = client
        self.api_client = client.runs.api_client
        self.host: str = self.api_client.configuration.host
        self._ui_host = (options.ui_host or self.host).rstrip("/")
        self._credentials = credentials
        self.namespace: str | None = options.namespace or client.get_user_namespace() or None
        self.server_version = ""

    @classmethod
    def open(cls, options: ConnectionOptions) -> Connection:
        """Connect to a server.

        Raises:
            ConfigError: for an invalid option or secret.
            ClusterError: when the server cannot be reached or refuses.
        """
        connection_options.refuse_unusable_options(options)
        require("cluster", "a connection to Kubeflow Pipelines")
        if not options.host and "KUBERNETES_SERVICE_HOST" in os.environ:
            options = options.model_copy(update={"host": IN_CLUSTER_HOST})
        credentials = connection_options.read_credentials(options)
        client = _build_client(options, credentials)
        if not options.host and client.runs.api_client.configuration.host == "http://localhost":
            found = f"no context {options.kube_context} in the kubeconfig" if options.kube_context else "none"
            raise ConfigError(
                f"expected the address of a Kubeflow Pipelines server, found {found}; give --host, "
                f"set {connection_options.VARIABLES['host']} or kubeflow.host",
                where="host",
            )
        # Without a host kfp signs in as the user of the kubeconfig's context.
        source = credentials.source or ("" if options.host else "the kubeconfig")
        connection = cls(client, options, source)
        connection._check_health()
        return connection

    def call(self, doing: str, function: Callable[..., _Answer], *args: Any, **kwargs: Any) -> _Answer:
        """Call the client without its printed output; ClusterError names action, cause and remedy."""
        import kfp_server_api
        import urllib3

        # kfp prints links to standard output, which belongs to `--json`.
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return function(*args, **kwargs)
            except (kfp_server_api.ApiException, urllib3.exceptions.HTTPError, OSError) as e:
                raise self._explained(e, doing) from e
            except AttributeError as e:
                # The generated client decodes the body even without an answer (a TLS failure).
                if not isinstance(e.__context__, kfp_server_api.ApiException):
                    raise
                raise self._explained(e.__context__, doing) from e

    def _explained(self, error: Exception, doing: str) -> ClusterError:
        return explain(error, host=self.host, doing=doing, credentials=self._credentials)

    def link(self, page: str) -> str:
        """Return the address of a page of the user interface, such as `runs/details/ID`."""
        return f"{self._ui_host}/#/{page}"

    def is_before(self, version: str) -> bool:
        """Tell whether the server is known to be older than a version, such as 2.17."""
        found = re.match(r"v?(\d+)\.(\d+)", self.server_version)  # a branch's name has no numbers
        return found is not None and list(map(int, found.groups())) < list(map(int, version.split(".")))

    def get_text(self, doing: str, path: str, *, end_only: bool = False) -> str:
        """Read a URL that the client has no function for.

        With `end_only` a too long text is truncated to its end, instead of refused. Messages name the action,
        `doing`.
        """
        pool = self.api_client.rest_client.pool_manager
        pool.end_only = end_only
        try:
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
        finally:
            pool.end_only = False
        return str(answer.data.decode("utf-8", "replace"))

    def _check_health(self) -> None:
        """Check the server's health; read its version and whether it is multi-user."""
        text = self.get_text("asking for the server's health", "/apis/v2beta1/healthz")
        try:
            health = json.loads(text)
            multi_user = bool(health.get("multi_user"))
        except (ValueError, AttributeError) as e:
            raise ClusterError(
                "expected the pipelines API, found a page (perhaps a login); check --host (full Kubeflow:"
                " .../pipeline), and give --token-file, --token-env or --cookie-env",
                where=self.host,
            ) from e
        # The user interface answers for the API, with other keys.
        if health.get("apiServerReady") is False:
            raise ClusterError(
                "the user interface answers, but not the pipelines API behind it; try again, then look at the"
                " log of ml-pipeline",
                where=self.host,
                transient=True,
            )
        if not multi_user:
            # A single-user server refuses the settings' namespace, which the client would also add.
            self.namespace = None
            forget_namespace(self.client)
        elif not self.namespace:
            with contextlib.suppress(OSError), open(POD_NAMESPACE, encoding="utf-8") as file:
                self.namespace = file.read().strip() or None
        if multi_user and not self.namespace:
            raise ClusterError(
                "expected a namespace, as each user of this server has one, found none; give --namespace",
                where=self.host,
            )
        self.server_version = str(health.get("tag_name") or health.get("apiServerTagName") or "")
        if self.is_before(OLDEST_SERVER):
            raise ClusterError(
                f"expected a server {OLDEST_SERVER} or newer, found {self.server_version}; upgrade it: older"
                " ones do not run what kfp compiles today",
                where=self.host,
            )


def forget_namespace(client: kfp.Client) -> None:
    """Keep a client from adding a namespace to requests.

    `set_user_namespace` would also write a user file that other programs read. This sets its variable
    instead: `_context_setting` in kfp 2.17, which is pinned.
    """
    client._context_setting["namespace"] = ""


def _build_client(options: ConnectionOptions, credentials: connection_options.Credentials) -> kfp.Client:
    import kfp
    import kfp_server_api
    import urllib3

    class Client(kfp.Client):
        """A client without the health check of kfp's constructor, which has no timeout."""

        def get_kfp_healthz(self, sleep_duration: int = 5) -> Any:
            return kfp_server_api.V2beta1GetHealthzResponse(multi_user=False)

    silent = contextlib.redirect_stdout(io.StringIO())
    try:
        with silent, warnings.catch_warnings(), no_endpoint_variables():
            warnings.simplefilter("ignore")
            client = Client(
                host=options.host.rstrip("/") or None,
                # Without a host kfp reads `namespace` as the server's namespace.
                namespace=(options.host and options.namespace) or "kubeflow",
                ssl_ca_cert=options.ca_file or None,
                verify_ssl=options.verify_tls,
                kube_context=options.kube_context or None,
                ui_host=options.ui_host or None,
                proxy=proxy_of(options.host),
                **credentials.arguments,
            )
    except Exception as e:
        # Reached only by sign-in at the Identity-Aware Proxy, and by unreadable certificates.
        raise explain(e, host=options.host, doing="preparing the connection", credentials="") from e
    api_client = client.runs.api_client
    keep_host(api_client.configuration)
    if "credentials" not in credentials.arguments:  # kfp later reads them from the file
        hide_token(api_client.configuration)
    hide(api_client.cookie or "")
    # Retry a failed connection once, but no request that may have arrived.
    api_client.configuration.retries = urllib3.Retry(total=1, redirect=3, backoff_factor=0.2)
    api_client.rest_client = bounded_rest(api_client.configuration, options.timeout)
    return client


ANSWER_MIB = 64
"""Maximum size of an answer in bytes. A run of a thousand steps takes about 2 MiB."""

_CHUNK = 1 << 16
# Python refuses to convert thousands of digits.
_SIZE = re.compile(r"\d{1,18}", re.ASCII)


def bounded_rest(configuration: Any, timeout: int) -> Any:
    """Return the client's transport with bounded requests; `timeout` is in seconds for a whole answer."""
    import kfp_server_api

    rest = kfp_server_api.rest.RESTClientObject(configuration)
    rest.pool_manager = _BoundedPool(rest.pool_manager, timeout)
    return rest


class _BoundedPool:
    """A connection pool that reads answers in chunks, within the limits.

    With `end_only` the end of a longer answer, such as a log, is kept instead of refusing it.
    """

    def __init__(self, pool: Any, timeout: int) -> None:
        self._pool = pool
        self._timeout = timeout
        self.end_only = False

    def request(self, method: str, url: str, **more: Any) -> Any:
        """Send a request and return its answer, completely read."""
        import urllib3

        limits = urllib3.Timeout(connect=min(10, self._timeout), read=self._timeout)
        answer = self._pool.request(method, url, **{**more, "preload_content": False, "timeout": limits})
        try:
            body = self._read(answer, url)
        finally:
            answer.release_conn()
        return urllib3.HTTPResponse(
            body=body,
            headers=answer.headers,
            status=answer.status,
            reason=answer.reason,
            decode_content=False,
        )

    def _read(self, answer: Any, url: str) -> bytes:
        import urllib3

        most, until = ANSWER_MIB << 20, time.monotonic() + self._timeout
        announced = answer.headers.get("Content-Length", "")
        if _SIZE.fullmatch(announced) and int(announced) > most and not self.end_only:
            answer.close()
            raise _too_large(f"{int(announced) / (1 << 20):,.0f} MiB")
        pieces: collections.deque[bytes] = collections.deque()
        size = 0
        while piece := answer.read1(_CHUNK):
            pieces.append(piece)
            size += len(piece)
            if size > most and not self.end_only:
                answer.close()
                raise _too_large(f"more than {ANSWER_MIB} MiB")
            while size > most:
                size -= len(pieces.popleft())
            if time.monotonic() > until:
                answer.close()
                raise urllib3.exceptions.ReadTimeoutError(self._pool, url, "Read timed out.")
        return b"".join(pieces)


def _too_large(size: str) -> AnswerTooLargeError:
    return AnswerTooLargeError(f"an answer of {size}, where {ANSWER_MIB} MiB are read at most")


def keep_host(configuration: Any) -> None:
    """Keep the host when a kube context renews its token, which would remove the path to the server.

    Before every request, kubernetes' loader calls its hook, which resets host and hook. The hook set here
    restores both.
    """
    # With a kube context kfp ends the host with a slash, and a request's path begins with one.
    configuration.host = configuration.host.rstrip("/")
    renew, host = configuration.refresh_api_key_hook, configuration.host
    if renew is None:
        return

    def renew_and_keep(renewed: Any) -> None:
        renew(renewed)
        renewed.host = host
        renewed.refresh_api_key_hook = renew_and_keep
        hide_token(renewed)

    configuration.refresh_api_key_hook = renew_and_keep


def hide_token(configuration: Any) -> None:
    """Register the token of a client's configuration for redaction."""
    hide(str(configuration.api_key.get("authorization") or "").removeprefix("Bearer "))


@contextlib.contextmanager
def no_endpoint_variables() -> Iterator[None]:
    """Hide kfp's environment variables, which were read before, so that flags override them."""
    hidden = {n: os.environ.pop(n) for n in connection_options.VARIABLES.values() if n in os.environ}
    try:
        yield
    finally:
        os.environ.update(hidden)


def proxy_of(host: str) -> str | None:
    """Return the proxy of the environment for a host."""
    scheme, _, rest = host.partition("://")
    name = rest.partition("/")[0]
    if not host or urllib.request.proxy_bypass(name):
        return None
    return urllib.request.getproxies().get(scheme)
