"""The example that mails: a run's notification through its server to a mail server on this machine."""

import email
import email.policy
import re
import runpy
import shlex
import socketserver
import threading
from pathlib import Path

import pytest
import requests

from components.notifier import notification
from components.notifier.notification import Notification, notify

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "kubeflow.md").read_text(encoding="utf-8")
SECTION = PAGE.split("## Be notified")[1].split("\n## ")[0]
MESSAGE = Notification(
    pipeline="digits", run_id="r-1", verdict="refused", map=0.5, map_change=-0.25, reasons=("mAP fell: ä",)
)


class _Smtp(socketserver.StreamRequestHandler):
    """RFC 5321 as far as smtplib needs it."""

    def handle(self):
        self._say("220 here")
        for line in self.rfile:
            verb = line.split()[0].upper() if line.split() else b""
            if verb == b"DATA":
                self._say("354 go on")
                lines = iter(self.rfile.readline, b".\r\n")
                self.server.mails.append(b"".join(lines))
            self._say("221 bye" if verb == b"QUIT" else "250 fine")

    def _say(self, text):
        self.wfile.write(f"{text}\r\n".encode())


def _serving(server):
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    return server


@pytest.fixture
def mails():
    server = _serving(socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Smtp))
    server.daemon_threads, server.mails = True, []
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def receiver(mails, monkeypatch):
    example = runpy.run_path(str(ROOT / "examples" / "notifications" / "mail.py"))
    words = ["--port", "0", "--smtp", f"127.0.0.1:{mails.server_address[1]}"]
    options = example["parse"](
        [*words, "--sender", "detflow@example", "--to", "a@example", "--to", "b@example"]
    )
    server = _serving(example["serve"](options))
    monkeypatch.setenv("HOOK", f"http://127.0.0.1:{server.server_port}/")
    monkeypatch.setattr(notification, "_WAIT_SECONDS", 0.01)
    yield server
    server.shutdown()
    server.server_close()


def test_a_notification_is_mailed_whole(receiver, mails, caplog):
    notify(MESSAGE, "HOOK", "generic", ["refused"])
    (sent,) = mails.mails
    mail = email.message_from_bytes(sent, policy=email.policy.default)
    assert (mail["Subject"], mail["To"]) == ("digits r-1: refused", "a@example, b@example")
    assert mail.get_content().splitlines()[:2] == [
        "mAP 0.500, -0.250 against the deployed one",
        "mAP fell: ä",
    ]
    assert not caplog.records


def test_a_bad_request_is_refused_and_a_dead_mail_server_is_a_reason_to_try_again(receiver, mails, caplog):
    address = f"http://127.0.0.1:{receiver.server_port}/"
    for body in (b"", b"[]", b"{", b'{"pipeline": 1}', b"x" * 1_000_001):
        assert requests.post(address, body, timeout=5).status_code == 400
    mails.shutdown()
    mails.server_close()
    notify(MESSAGE, "HOOK", "generic", ["refused"])
    assert not mails.mails and "it answers 503" in caplog.text


def test_the_options_of_the_page_are_those_of_the_example():
    (command,) = re.findall(r"^python examples/notifications/mail\.py (.*)$", SECTION, re.MULTILINE)
    example = runpy.run_path(str(ROOT / "examples" / "notifications" / "mail.py"))
    assert example["parse"](shlex.split(command)).to == ["team@example.org"]
