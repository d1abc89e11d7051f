import json

import kfp_server_api
import pytest
import urllib3

from pipeline.kubeflow.api_errors import explain, server_message
from pipeline.kubeflow.transport import AnswerTooLargeError


def _refusal(status, body):
    error = kfp_server_api.ApiException(status=status, reason="Reason")
    error.body = json.dumps(body) if isinstance(body, dict) else body
    return error


def _explained(error):
    return explain(error, host="http://h", doing="uploading x", credentials="/token")


_TRACE = "Failed to create: bad name\ngithub.com/kubeflow/pipelines/x.New\n\t/go/a.go:1"
_DETAILS = "no such thing\nmain.main\n\t/go/src/main.go:79\nruntime.goexit"
_LINK = "cron is not supported(https://godoc.org/github.com/robfig/cron). Error: x"


def test_the_sentence_of_a_refusal_is_found_in_every_kind_of_body():
    for body, said in (
        ({"error": "e", "code": 5, "message": "Run 1\n not  found"}, "Run 1 not found"),
        ({"error_message": "m", "error_details": "d"}, "d"),
        (b"plain bytes", "plain bytes"),
        ("<html>x</html>", "Reason"),
        (None, "Reason"),
        ("[1]", "[1]"),
        ({"message": _TRACE}, "Failed to create: bad name"),
        ({"error_details": _DETAILS}, "no such thing"),
        (_LINK, _LINK),
    ):
        assert server_message(_refusal(400, body)) == said, body


# As server 2.17.0 puts it together: `util.Wrap` in front, `resource_manager.go:IsAuthorized` at the end.
_DENIED = (
    "Failed to create a run: Failed to authorize with API: Failed to access resource. Check if you have"
    " access to namespace someone-elses-team-with-a-long-name: Failed to authorize the request:"
    " PermissionDenied: User 'anna@example.com' is not authorized with reason:  (request:"
    " &ResourceAttributes{Namespace:someone-elses-team-with-a-long-name,Verb:create,"
    "Group:pipelines.kubeflow.org,Version:v2beta1,Resource:runs,Subresource:,Name:,FieldSelector:nil,"
    "LabelSelector:nil,}): Unauthorized access"
)


def test_forbidden_names_user_verb_resource_and_namespace_or_the_credentials():
    assert str(_explained(_refusal(403, {"message": _DENIED}))) == (
        "http://h: uploading x: anna@example.com may not create runs in the namespace"
        " someone-elses-team-with-a-long-name (403); check --namespace, or ask for the right"
    )
    message = str(_explained(_refusal(403, "no")))
    assert "the holder of the credentials from /token may not do this" in message


def test_a_long_refusal_keeps_its_cause_and_an_unknown_one_is_still_one_line():
    message = str(_explained(_refusal(400, "Failed to x: " + "y" * 1000 + ": no such claim")))
    assert "Failed to x" in message and message.count("y") < 400 and "no such claim)" in message
    message = str(_explained(OSError("some\nthing odd")))
    assert message == "http://h: uploading x: no answer (some thing odd); check --host and the network"


def test_a_refused_schema_says_which_side_is_older_or_names_both_ways_out():
    only, other = "KFP only supports schema version 2.1.0", ", but the pipeline spec has version"
    kfp = "the kfp that compiled it is"
    upgrade = f"{kfp} newer than the server, or the server older than 2.16; upgrade the server"
    for said, expected in (
        (f"{only}{other} 2.0.0", f"{kfp} older than the server; compile it again with kfp 2.16"),
        (f"{only}{other} 2.10.0", upgrade),
        (only, f"{upgrade}, or compile with its kfp"),
        ('unknown field "x"', upgrade),
        ("InvalidInputError: unknown template format", upgrade),
    ):
        message = str(_explained(_refusal(400, {"message": said})))
        assert "does not understand the pipeline" in message and expected in message


def test_what_may_pass_is_told_from_what_will_not():
    for error, transient, status in (
        (_refusal(500, ""), True, 500),
        (_refusal(499, ""), False, 499),
        (_refusal(429, ""), True, 429),
        (_refusal(404, ""), False, 404),
        (OSError("x"), True, 0),
        (AnswerTooLargeError("1 GiB"), False, 0),
    ):
        explained = _explained(error)
        assert (explained.transient, explained.status) == (transient, status)


def test_a_proxy_is_told_from_a_path_that_names_one():
    path = "/api/v1/namespaces/kubeflow/services/ml-pipeline:http/proxy/apis/v2beta1/healthz"
    for pool, url, said in (
        (urllib3.PoolManager(), f"http://127.0.0.1:1{path}", "nothing listens there"),
        (urllib3.ProxyManager("http://127.0.0.1:1"), "http://far.invalid/", "the proxy did not answer"),
    ):
        with pytest.raises(urllib3.exceptions.HTTPError) as caught:
            pool.request("GET", url, retries=0)
        assert said in str(_explained(caught.value))
