"""A strict Kubeflow Pipelines server on a real socket: routes, faults and the log of what was asked."""

import email
import json
import re
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from tests.pipeline.kubeflow.kfp_state import KfpState, RefusalError
from tests.pipeline.kubeflow.strict_bodies import BadBodyError, check_body
from tests.support.local_server import LocalServer, Request

ID = "([^/:]+)"

# 2.18 keeps the architecture of 2.17 (kubeflow/pipelines#13141: "release-2.18 retains the previous
# architecture"); master at 7b70c7b95f stands for it. 3.0 is kubeflow/pipelines#13986 at 6585b5143d.
VERSIONS = ("2.16.1", "2.17.0", "2.18.0", "3.0.0")


class KfpServer:
    """The server.

    Attributes:
        state: what it keeps.
        token: bearer token that it wants, or a function that gives the one of the moment; empty: none.
        cookie: cookie that it wants; empty: none.
        version: as its health check names it.
        logs: id of a run to the logs of its nodes, by full name; see `write_log`.
        pods_gone: whether Kubernetes has removed the pods of what has ended.
        kube_proxy: path under which a Kubernetes API server hands requests on; empty: none.
        behind_ui: whether the address is that of the user interface, which hands on `/apis/v2beta1` only.
        api_ready: whether the user interface reaches the API.
        requests: method and path of every request, in order.
    """

    def __init__(self, version: str = "2.17.0") -> None:
        self.state = KfpState()
        self.become(version)
        self.token: str | Callable[[], str] = ""
        self.cookie = self.kube_proxy = ""
        self.behind_ui, self.api_ready, self.pods_gone = False, True, False
        self.logs: dict[str, dict[str, str]] = {}
        self.requests: list[str] = []
        self._faults: list[list[Any]] = []
        self._lock, self._over = threading.Lock(), threading.Event()
        self._server = LocalServer(self.answer)
        self.start = self._server.start

    def become(self, version: str) -> None:
        """Behave as a version from now on; one without a number is as 2.17."""
        self.version = version
        self.state.retried = version != "2.16.1"
        self.state.keeps_tasks = version.startswith("3.")

    def stop(self) -> None:
        self._over.set()
        self._server.stop()

    @property
    def url(self) -> str:
        return self._server.url

    def misbehave(self, request: str, what: Any, times: int = 1) -> None:
        """Answer the next requests that match in another way.

        Args:
            request: pattern of method and path, such as `POST .*/runs`.
            what: a status; a status and a message; `close`; `html`. A number of seconds, as a float, or a
                function to call first: the answer is then the right one.
            times: how many requests.
        """
        self._faults.append([re.compile(request), what, times])

    def forget_faults(self) -> None:
        """Answer as the real server again."""
        self._faults.clear()

    def write_log(self, run_id: str, task: str, log: str, **which: Any) -> None:
        """Let a task have written a log, or `driver=True` its driver, in its last `attempt` or another."""
        node = self.state.workflow(self.state.runs[run_id]).node_of(task, **which)
        self.logs.setdefault(run_id, {})[node] = log

    def count(self, request: str) -> int:
        """Return how many requests matched a pattern."""
        return sum(bool(re.fullmatch(request, r)) for r in self.requests)

    def answer(self, request: Request) -> tuple[int, str, str] | None:
        """Return status, type and text; None: close the connection."""
        line = f"{request.method} {request.path}"
        self.requests.append(line)
        fault = self._fault(line)
        if isinstance(fault, float):
            self._over.wait(fault)
        elif callable(fault):
            fault()
        elif fault is not None:
            return self._misbehaved(fault)
        if not request.path.startswith(self.kube_proxy):
            return 404, "text/plain", "404 page not found\n"
        request.path = request.path.removeprefix(self.kube_proxy)
        try:
            self._authorise(request)
            with self._lock:
                found = self._route(request)
        except RefusalError as e:
            return e.status, "application/json", _error(e.status, str(e), upload="upload" in request.path)
        except BadBodyError as e:
            return 400, "application/json", _error(400, str(e))
        if isinstance(found, str):
            return 200, "text/plain", found
        return 200, "application/json", json.dumps(found if found is not None else {})

    def _misbehaved(self, fault: Any) -> tuple[int, str, str] | None:
        if fault == "close":
            return None
        if fault == "html":
            return 200, "text/html", "<html><title>Log in</title></html>"
        status, message = fault if isinstance(fault, tuple) else (fault, "it is broken")
        return status, "application/json", _error(status, message)

    def _fault(self, line: str) -> Any:
        for fault in self._faults:
            if fault[2] and fault[0].fullmatch(line):
                fault[2] -= 1
                return fault[1]
        return None

    def _authorise(self, request: Request) -> None:
        token = self.token() if callable(self.token) else self.token
        if token and request.headers.get("authorization") != f"Bearer {token}":
            raise RefusalError(401, "Request header error: there is no user identity header.")
        if self.cookie and request.headers.get("cookie") != self.cookie:
            raise RefusalError(401, "no session")

    def _route(self, request: Request) -> Any:
        hidden = "/apis/v1alpha1/" if self.behind_ui else "/k8s/"
        for method, pattern, kind, function in _ROUTES if not request.path.startswith(hidden) else ():
            match = re.fullmatch(pattern, request.path)
            if match and method == request.method:
                found = function(self, request, *map(unquote, match.groups()))
                if kind:
                    check_body(f"V2beta1{kind}", found, "answer", newest=self.state.keeps_tasks)
                return found
        raise RefusalError(404, f"Not Found: {request.method} {request.path}")


def _body(request: Request) -> Any:
    try:
        return json.loads(request.raw)
    except ValueError as e:
        raise BadBodyError(f"proto: syntax error: {e}") from e


def _file(request: Request) -> bytes:
    header = f"Content-Type: {request.headers['content-type']}\r\n\r\n".encode()
    [part] = email.message_from_bytes(header + request.raw).get_payload()
    if part.get_param("name", header="content-disposition") != "uploadfile":
        raise RefusalError(400, "Failed to read pipeline from file")
    return part.get_payload(decode=True)


Route = Callable[..., Any]
_V2 = "/apis/v2beta1"


def _lists(kept: str, field: str) -> Route:
    """List what the state keeps under a name."""
    return lambda s, r, **equal: s.state.listed(getattr(s.state, kept), field, r.query, **equal)


def _finds(kept: str, what: str) -> Route:
    return lambda s, r, *ids: s.state.find(getattr(s.state, kept), ids[-1], what)


def _upload(s: KfpServer, r: Request) -> Any:
    return s.state.upload_version(r.query.get("name", ""), r.query.get("pipelineid", ""), _file(r))


def _list_versions(s: KfpServer, r: Request, i: str) -> Any:
    return s.state.listed(s.state.versions, "pipeline_versions", r.query, pipeline_id=i)


def _delete_recurring(s: KfpServer, r: Request, i: str) -> Any:
    return s.state.delete_recurring(i, r.query.get("propagation_policy", ""))


# Method, path, model of the answer (the test server may not invent a field either), what is done.
_VERSIONS, _RUN, _RECURRING = f"pipelines/{ID}/versions", f"runs/{ID}", f"recurringruns/{ID}"
_V2_ROUTES: tuple[tuple[str, str, str, Route], ...] = (
    ("GET", "healthz", "", lambda s, r: _health(s)),
    ("GET", "pipelines", "ListPipelinesResponse", _lists("pipelines", "pipelines")),
    ("POST", "pipelines", "Pipeline", lambda s, r: s.state.create_pipeline(_body(r))),
    ("POST", "pipelines/upload_version", "PipelineVersion", _upload),
    ("GET", _VERSIONS, "ListPipelineVersionsResponse", _list_versions),
    ("GET", f"{_VERSIONS}/{ID}", "PipelineVersion", _finds("versions", "PipelineVersion")),
    ("GET", "experiments", "ListExperimentsResponse", _lists("experiments", "experiments")),
    ("POST", "experiments", "Experiment", lambda s, r: s.state.create_experiment(_body(r))),
    ("GET", "runs", "ListRunsResponse", _lists("runs", "runs")),
    ("POST", "runs", "Run", lambda s, r: s.state.create_run(_body(r))),
    ("GET", _RUN, "Run", lambda s, r, i: s.state.read_run(i)),
    ("GET", f"{_RUN}/tasks", "ListTasksResponse", lambda s, r, i: s.state.list_tasks(i, r.query)),
    ("POST", f"{_RUN}:terminate", "", lambda s, r, i: s.state.terminate(i)),
    ("POST", f"{_RUN}:retry", "", lambda s, r, i: s.state.retry(i)),
    ("GET", "recurringruns", "ListRecurringRunsResponse", _lists("recurring", "recurringRuns")),
    ("POST", "recurringruns", "RecurringRun", lambda s, r: s.state.create_recurring(_body(r))),
    ("GET", _RECURRING, "RecurringRun", _finds("recurring", "Recurring run")),
    ("POST", f"{_RECURRING}:enable", "", lambda s, r, i: s.state.set_mode(i, True)),
    ("POST", f"{_RECURRING}:disable", "", lambda s, r, i: s.state.set_mode(i, False)),
    ("DELETE", _RECURRING, "", _delete_recurring),
)
_ROUTES = (
    *((method, f"{_V2}/{path}", kind, function) for method, path, kind, function in _V2_ROUTES),
    ("GET", f"/apis/v1alpha1/runs/{ID}/nodes/{ID}/log", "", lambda s, r, i, node: _log_of(s, i, node)),
    ("GET", "/k8s/pod/logs", "", lambda s, r: _log_through_ui(s, r.query)),
)


def _health(server: KfpServer) -> dict[str, Any]:
    state = {"multi_user": server.state.multi_user}
    if server.behind_ui:
        if not server.api_ready:
            return {"frontendTagName": server.version, "apiServerReady": False}
        return {**state, "apiServerTagName": server.version, "apiServerReady": True}
    return {**state, "commit_sha": "x", "tag_name": server.version, "pipeline_store": "database"}


def _log_of(server: KfpServer, run_id: str, asked: str) -> Any:
    """Give a log: of a pod by its name while it is there, else from the archive, by the id of the node.

    Without users the server asks for the pod in no namespace and so finds none (2.17.0,
    `resource_manager.go:ReadLog`).
    Where there is neither, the answer has begun as a log already, and so the status is 200
    (`backend/src/apiserver/server/run_log_server.go`).
    """
    workflow = server.state.workflow(server.state.find(server.state.runs, run_id, "Run"))
    for name, log in server.logs.get(run_id, {}).items():
        there = server.state.multi_user and not server.pods_gone and workflow.pods()[name] == asked
        if there or (workflow.id(name) == asked and workflow.nodes[name].phase != "Running"):
            return log
    said = f'failed to read the logs of {asked}: pods "{asked}" not found'
    return json.dumps({"error_message": said, "error_details": f"{said}\ngithub.com/kubeflow/pipelines/x.go"})


def _log_through_ui(server: KfpServer, query: dict[str, str]) -> str:
    """Give a log through the user interface, which goes by the pod's name alone (`frontend/server`)."""
    if server.state.multi_user and "podnamespace" not in query:
        raise RefusalError(422, "podnamespace argument is required")
    workflow = server.state.workflow(server.state.find(server.state.runs, query["runid"], "Run"))
    for name, log in server.logs.get(query["runid"], {}).items():
        if workflow.pods()[name] == query["podname"]:
            return log
    raise RefusalError(500, "Could not get main container logs: Error: Unable to retrieve workflow status")


def _error(status: int, message: str, upload: bool = False) -> str:
    if upload:
        stack = "github.com/kubeflow/pipelines/backend/src/common/util.New\n\t/go/src/util/error.go:142"
        return json.dumps({"error_message": message, "error_details": f"{message}\n{stack}\nmain.main"})
    return json.dumps({"error": message, "code": status, "message": message, "details": []})
