"""Webhooks: what they get, and how little a bad one can do."""

import json
import logging
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.notifier import notification
from components.notifier.notification import Notification, notify
from detection_core.artifacts.evaluation import MAP, METRICS, EvalReport
from detection_core.artifacts.published import PUSHED, PushReport
from detection_core.errors import ContractError
from tests.support.cases import cases, refused
from tests.support.local_server import LocalServer, endless, free_port, serve_raw

SECRET = "/services/T0SENTINEL/B0SENTINEL"
MESSAGE = Notification(
    pipeline="digits",
    run_id="r-1",
    verdict="published",
    version=7,
    map=0.5,
    map_change=-0.0125,
    reasons=("every gate blessed it",),
    report="/w/runs/r-1/report.html",
)


@pytest.fixture
def hook(monkeypatch):
    """A webhook that answers with `answers`, the last one again and again."""
    asked, answers = [], [200]

    def answer(request):
        asked.append(request)
        return (answers.pop(0) if len(answers) > 1 else answers[0]), "text/plain", "ok"

    server = LocalServer(answer)
    server.start()
    server.asked, server.answers = asked, answers
    monkeypatch.setenv("HOOK", f"{server.url}{SECRET}?key=SENTINELxyz")
    monkeypatch.setattr(notification, "_WAIT_SECONDS", 0.01)
    yield server
    server.stop()


def _send(message=MESSAGE, kind="generic"):
    notify(message, "HOOK", kind, ["failed", "refused", "published"])


def test_a_webhook_gets_every_field_or_a_text_and_only_of_the_events_asked_for(hook):
    _send()
    _send(kind="slack")
    notify(MESSAGE, "HOOK", "slack", ["failed"])
    generic, slack = hook.asked
    assert (generic.method, generic.path, generic.query) == ("POST", SECRET, {"key": "SENTINELxyz"})
    assert generic.headers["content-type"] == slack.headers["content-type"] == "application/json"
    assert json.loads(generic.raw) == {
        "pipeline": "digits", "run_id": "r-1", "verdict": "published", "version": 7, "map": 0.5,
        "map_change": -0.0125, "reasons": ["every gate blessed it"], "report": "/w/runs/r-1/report.html",
    }  # fmt: skip
    assert json.loads(slack.raw) == {
        "text": "digits r-1: published\nmAP 0.500 (-0.013 against the deployed one)\nevery gate blessed it\n"
        "/w/runs/r-1/report.html"
    }


@given(reason=st.text(), link=st.text(), kind=st.sampled_from(["slack", "generic"]))
@settings(max_examples=200, deadline=None)
def test_any_text_becomes_json_and_none_formats_a_slack_message(reason, link, kind):
    sent = []
    message = Notification(pipeline="p", run_id="r", verdict="failed", reasons=(reason,), report=link)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOOK", "http://127.0.0.1:1/hook")
        patch.setattr(notification, "_post", lambda address, body: sent.append(body) or "")
        _send(message, kind)
    found = json.loads(sent[0])
    if kind == "slack":
        plain = found["text"].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
        assert not set(found["text"]) & set("<>") and found["text"].count("&") == plain.count("&") + sum(
            plain.count(c) for c in "<>"
        )
    else:
        assert set(found) == set(Notification.__dataclass_fields__)


@cases(
    ([503, 429, 204], 3, ""),
    ([500], 3, "it answers 500"),
    ([404], 1, "it answers 404"),
    ([302], 1, "it answers 302"),
)
def test_temporary_errors_are_tried_again_and_the_others_and_redirects_are_one_warning(
    hook, caplog, *, answers, calls, fault
):
    hook.asked.clear()
    hook.answers[:] = answers
    _send()
    assert len(hook.asked) == calls
    warnings = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert warnings == ([f"notify | no message reached the webhook in HOOK: {fault}"] if fault else [])


@cases("", "file:///etc/passwd", "nonsense", f"http://127.0.0.1:{free_port()}{SECRET}", f"http://[{SECRET}")
def test_an_address_that_leads_nowhere_is_one_warning_without_it(monkeypatch, caplog, *, address):
    monkeypatch.setenv("HOOK", address)
    monkeypatch.setattr(notification, "_WAIT_SECONDS", 0.01)
    _send()
    (warning,) = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert "no message reached the webhook in HOOK: " in warning
    assert "SENTINEL" not in caplog.text and "passwd" not in caplog.text


@pytest.mark.parametrize("head", [b"HTTP/1.1 2", b""])
def test_a_webhook_that_never_answers_takes_a_bounded_time(monkeypatch, caplog, head):
    monkeypatch.setattr(notification, "_LONGEST_SECONDS", 0.3)
    with serve_raw(endless(head, b"0", pause=0.05)) as address:
        monkeypatch.setenv("HOOK", address)
        began = time.monotonic()
        _send()
    assert time.monotonic() - began < 5 and "no answer in time" in caplog.text


def test_a_secret_in_a_message_is_masked(hook, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "sEcReT-SENTINEL/abc+def")
    _send(Notification(pipeline="p", run_id="r", verdict="failed", reasons=("no sEcReT-SENTINEL/abc+def",)))
    _send(Notification(pipeline="p", run_id="r", verdict="failed", reasons=(f"no {hook.url}{SECRET}",)))
    assert len(hook.asked) == 2 and not any(b"SENTINEL" in asked.raw for asked in hook.asked)


@cases(
    ((True, 7), {MAP: 0.25}, ("published", 7, 0.5, 0.25)),
    ((True, 7), None, ("published", 7, 0.5, None)),
    ((False, None), {MAP: None}, ("refused", None, 0.5, None)),
    ((False, 6), {}, ("", 6, 0.5, None)),  # the same model is deployed
)
def test_the_verdict_is_pushers_and_the_change_that_of_the_evaluation(tmp_path, *, pushed, baseline, found):
    report = PushReport(pushed=pushed[0], version=pushed[1], reasons=["why"])
    PUSHED.write(str(tmp_path), report)
    METRICS.write(str(tmp_path), EvalReport(metrics={MAP: 0.5}, baseline=baseline))
    told = Notification(pipeline="p", run_id="r").with_outcome(str(tmp_path), str(tmp_path))
    assert (told.verdict, told.version, told.map, told.map_change) == found and told.reasons == ("why",)
    (tmp_path / PUSHED.name).write_text("{")
    refused(ContractError, "", told.with_outcome, str(tmp_path), str(tmp_path))
