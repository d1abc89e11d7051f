from __future__ import annotations

import json

import kfp_server_api
import pytest
import urllib3

from pipeline.kubeflow.api_errors import explain, server_message


def _refusal(status, body):
    error = kfp_server_api.ApiException(status=status, reason="Reason")
    error.body = body
    return error


def _explained(error, credentials=""):
    return explain(error, host="http://h", doing="uploading x", credentials=credentials)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (json.dumps({"error": "e", "code": 5, "message": "Run 1\n not  found"}), "Run 1 not found"),
        (json.dumps({"error_message": "m", "error_details": "d"}), "d"),
        (b"plain bytes", "plain bytes"),
        ("<html>x</html>", "Reason"),
        (None, "Reason"),
        ("[1]", "[1]"),
        (
            json.dumps(
                {"message": "Failed to create: bad name\ngithub.com/kubeflow/pipelines/x.New\n\t/go/a.go:1"}
            ),
            "Failed to create: bad name",
        ),
        (
            json.dumps({"error_details": "no such thing\nmain.main\n\t/go/src/main.go:79\nruntime.goexit"}),
            "no such thing",
        ),
        (
            "cron is not supported(https://godoc.org/github.com/robfig/cron). Error: x",
            "cron is not supported(https://godoc.org/github.com/robfig/cron). Error: x",
        ),
    ],
)
def test_the_sentence_of_a_refusal_is_found_in_every_kind_of_body(body, said):
    assert server_message(_refusal(400, body)) == said


# As server 2.17.0 puts it together: `util.Wrap` in front, `resource_manager.go:IsAuthorized` at the end.
_DENIED = (
    "Failed to create a run: Failed to authorize with API: Failed to access resource. Check if you have"
    " access to namespace someone-elses-team-with-a-long-name: Failed to authorize the request:"
    " PermissionDenied: User 'anna@example.com' is not authorized with reason:  (request:"
    " &ResourceAttributes{Namespace:someone-elses-team-with-a-long-name,Verb:create,"
    "Group:pipelines.kubeflow.org,Version:v2beta1,Resource:runs,Subresource:,Name:,FieldSelector:nil,"
    "LabelSelector:nil,}): Unauthorized access"
)


def test_forbidden_names_user_verb_resource_and_namespace():
    message = str(_explained(_refusal(403, json.dumps({"message": _DENIED})), credentials="/token"))
    assert message == (
        "http://h: uploading x: anna@example.com may not create runs in the namespace"
        " someone-elses-team-with-a-long-name (403); check --namespace, or ask for the right"
    )


def test_a_long_refusal_keeps_its_cause():
    message = str(_explained(_refusal(400, "Failed to x: " + "y" * 1000 + ": no such claim")))
    assert "Failed to x" in message and message.count("y") < 400 and "no such claim)" in message


@pytest.mark.parametrize(
    ("found", "older"), [("2.0.0", "the kfp that compiled it is older"), ("2.10.0", "newer than the server")]
)
def test_a_refused_schema_says_which_side_is_older(found, older):
    said = f"KFP only supports schema version 2.1.0, but the pipeline spec has version {found}"
    message = str(_explained(_refusal(400, json.dumps({"message": said}))))
    assert older in message and ("upgrade the server" in message) == ("newer" in older)


@pytest.mark.parametrize(
    "said",
    [
        "KFP only supports schema version 2.1.0",
        'unknown field "x"',
        "InvalidInputError: unknown template format",
    ],
)
def test_a_refused_schema_names_both_ways_out(said):
    message = str(_explained(_refusal(400, json.dumps({"message": said}))))
    assert "does not understand the pipeline" in message
    assert "upgrade the server, or compile with its kfp" in message


def test_what_may_pass_is_told_from_what_will_not():
    assert _explained(_refusal(503, "")).transient
    assert _explained(OSError("x")).transient
    assert not _explained(_refusal(404, "")).transient
    assert _explained(_refusal(409, "")).status == 409


def test_an_unknown_trouble_of_the_network_is_still_one_line():
    message = str(_explained(OSError("some\nthing odd")))
    assert message == "http://h: uploading x: no answer (some thing odd); check --host and the network"


def test_a_proxy_is_told_from_a_path_that_names_one():
    path = "/api/v1/namespaces/kubeflow/services/ml-pipeline:http/proxy/apis/v2beta1/healthz"
    with pytest.raises(urllib3.exceptions.HTTPError) as caught:
        urllib3.PoolManager().request("GET", f"http://127.0.0.1:1{path}", retries=0)
    assert "nothing listens there" in str(_explained(caught.value))
    with pytest.raises(urllib3.exceptions.HTTPError) as caught:
        urllib3.ProxyManager("http://127.0.0.1:1").request("GET", "http://far.invalid/", retries=0)
    assert "the proxy did not answer" in str(_explained(caught.value))


def test_forbidden_names_where_the_credentials_came_from():
    message = str(_explained(_refusal(403, "no"), credentials="/token"))
    assert "the holder of the credentials from /token may not do this" in message
