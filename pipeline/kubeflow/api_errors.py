"""Server errors, each as one line with a remedy."""

import json
import re
from typing import Any

from detection_core.bounded.plain_yaml import module_table
from detection_core.errors import DetectionError

OLDEST_SERVER = "2.16"


class AnswerTooLargeError(OSError):
    """The answer is longer than any answer of a Kubeflow Pipelines server."""


class ClusterError(DetectionError):
    """The server cannot be reached or refuses a request, or a run failed.

    Attributes:
        status: HTTP status of the refusal; 0 without an answer.
        transient: whether a retry may succeed.
    """

    def __init__(self, message: str, *, where: str = "", status: int = 0, transient: bool = False) -> None:
        super().__init__(message, where=where)
        self.status = status
        self.transient = transient


def explain(error: Exception, *, host: str, doing: str, credentials: str) -> ClusterError:
    """Convert an error of the client or its connection to one line with a remedy.

    It is an `ApiException`, or an error of urllib3 or of the client. Messages name the attempted action,
    `doing`, and the source of the credentials, "" for none.
    """
    status = int(getattr(error, "status", None) or 0)
    if status:
        message = _refused(status, server_message(error), doing, credentials)
    elif isinstance(error, AnswerTooLargeError):
        message = f"{doing}: {error}; check that --host is the pipelines API"
    else:
        message = _unreachable(error, doing)
    transient = (status == 0 and not isinstance(error, AnswerTooLargeError)) or status == 429 or status >= 500
    return ClusterError(message, where=host, status=status, transient=transient)


def server_message(error: Any) -> str:
    """Return the message in the body of a refused request, without status codes and stack frames."""
    body = getattr(error, "body", None) or ""
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else str(body)
    try:
        tree = json.loads(text)
    except ValueError:
        tree = None
    if isinstance(tree, dict):
        # The gateway uses `message`, the upload service `error_message` and `error_details`.
        keys = ("message", "error_details", "error_message", "error")
        text = next((str(tree[k]) for k in keys if tree.get(k)), "")
    elif text.lstrip().startswith("<"):
        text = ""
    text = " ".join(_STACK.split(text, maxsplit=1)[0].split())
    return text or str(getattr(error, "reason", "") or "no reason given")


def _shortened(said: str) -> str:
    """Cut the middle out of a long message: the server puts the operation first and the cause last."""
    return said if len(said) <= 400 else f"{said[:200]} ... {said[-200:]}"


# The start of a Go stack trace: a package such as github.com/kubeflow/pipelines/..., or a file and line.
_STACK = re.compile(
    r"\s(?:(?:github\.com|google\.golang\.org|golang\.org|go\.\w+\.\w+|gopkg\.in|(?:sigs\.)?k8s\.io)/\S"
    r"|\S+\s+/\S+\.go:\d)"
)


# The server's message for a denied request (`resource_manager.go:IsAuthorized`).
_DENIED = re.compile(
    r"User '([^']*)' is not authorized.*?ResourceAttributes\{Namespace:([^,]*),Verb:([^,]*),Group:[^,]*,"
    r"Version:[^,]*,Resource:([^,]*),Subresource:([^,]*),Name:([^,]*),"
)
# `template/v2_template.go:NewV2SpecTemplate`: a server accepts one version only.
_OTHER_SCHEMA = re.compile(r"only supports schema version ([\d.]*\d), but .*? has version ([\d.]*\d)")


def _refused(status: int, said: str, doing: str, credentials: str) -> str:
    short = _shortened(said)
    if re.search(r"schema ?version|unknown field|unmarshal|unknown template format", said, re.IGNORECASE):
        found = f"the server does not understand the pipeline ({short}): {_way_out(said)}"
    elif status == 401 and credentials:
        found = f"the credentials from {credentials} were not accepted (401); get fresh ones"
    elif status == 401:
        found = (
            "the server wants credentials (401) and none were given; name a file with --token-file or a "
            "variable with --token-env"
        )
    elif status == 403:
        found = _forbidden(said, credentials)
    elif status >= 500:
        found = f"the server failed ({status}: {short}); try again, then look at the log of ml-pipeline"
    else:
        remedy = _REMEDIES.get(status, "correct what it names")
        found = f"refused ({status}: {short}); {remedy}"
    return f"{doing}: {found}"


def _forbidden(said: str, credentials: str) -> str:
    denied = _DENIED.search(said)
    if denied:
        user, namespace, verb, resource, part, name = denied.groups()
        what = " ".join(filter(None, (verb, f"{resource}/{part}" if part else resource, name)))
        return (
            f"{user} may not {what} in the namespace {namespace or '(none)'} (403); check --namespace, or"
            " ask for the right"
        )
    holder = f"the holder of the credentials from {credentials}" if credentials else "anonymous access"
    return (
        f"{holder} may not do this (403: {_shortened(said)}); check --namespace, or ask for the rights in it"
    )


def _way_out(said: str) -> str:
    """Say whether server or pipeline is older, with a remedy."""
    schemas = _OTHER_SCHEMA.search(said)
    supported, found = (tuple(map(int, v.split("."))) for v in schemas.groups()) if schemas else ((), ())
    if found < supported:
        return (
            f"the kfp that compiled it is older than the server; compile it again with kfp {OLDEST_SERVER}"
            " or newer"
        )
    return (
        f"the kfp that compiled it is newer than the server, or the server older than {OLDEST_SERVER};"
        " upgrade the server, or compile with its kfp"
    )


_REMEDIES = {404: "check the id, the namespace and the host", 409: "it exists already: choose another name"}


def _unreachable(error: Exception, doing: str) -> str:
    """Describe an error below HTTP: name, port, time limit, certificate."""
    text = f"{type(error).__name__} {error} {getattr(error, 'reason', '')}"
    for pattern, found in module_table(__file__).items():
        if re.search(pattern, text, re.IGNORECASE):
            return f"{doing}: {found}"
    return f"{doing}: no answer ({' '.join(str(error).split())[:200]}); check --host and the network"
