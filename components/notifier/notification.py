"""Tell people by a webhook that a run failed, that its model was refused, or that a version was published.

The webhook's address is a secret: it comes from an environment variable only. Redirects are not followed, as
they would carry the message elsewhere.
"""

import dataclasses
import html
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from detection_core.artifacts.evaluation import MAP, METRICS
from detection_core.artifacts.published import PUSHED
from detection_core.redaction import clean, hide, hide_credentials

_logger = logging.getLogger(__name__)

_ATTEMPTS, _WAIT_SECONDS, _TIMEOUT_SECONDS = 3, 1.0, 10
_LONGEST_SECONDS = 30.0
"""Limit of all attempts together, also for a server that answers byte by byte."""
_TEMPORARY = (408, 425, 429, 500, 502, 503, 504)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Notification:
    """What became of a run; its fields are the generic JSON.

    Attributes:
        pipeline: name of the workflow.
        run_id: id of the run; "" if it could not begin.
        verdict: `failed`, `refused` or `published`; "" if nothing changed.
        version: number of the published version.
        map: COCO's mAP of the new model; None if it was not measured.
        map_change: its difference from the deployed model's; None without one.
        reasons: reasons as readable text.
        report: path or address of the run's report; "" if unknown.
    """

    pipeline: str
    run_id: str
    verdict: str = ""
    version: int | None = None
    map: float | None = None
    map_change: float | None = None
    reasons: tuple[str, ...] = ()
    report: str = ""

    def with_outcome(self, pushed_dir: str, evaluation_dir: str) -> "Notification":
        """Return it with Pusher's verdict and Evaluator's metrics; ContractError for damaged files."""
        pushed, measured = PUSHED.read(pushed_dir), METRICS.read(evaluation_dir)
        value, before = measured.metrics.get(MAP), (measured.baseline or {}).get(MAP)
        refused = "refused" if pushed.version is None else ""  # or the same model is deployed
        return dataclasses.replace(
            self,
            verdict="published" if pushed.pushed else refused,
            version=pushed.version,
            map=value,
            map_change=None if value is None or before is None else value - before,
            reasons=tuple(pushed.reasons),
        )

    def text(self) -> str:
        """Return it as text of a few lines."""
        lines = [f"{self.pipeline} {self.run_id}: {self.verdict}"]
        if self.map is not None:
            change = "" if self.map_change is None else f" ({self.map_change:+.3f} against the deployed one)"
            lines.append(f"mAP {self.map:.3f}{change}")
        return "\n".join([*lines, *self.reasons, self.report]).strip()


_BODIES: Mapping[str, Callable[[Notification], Any]] = {
    # https://docs.slack.dev/messaging/formatting-message-text: the same three characters as in HTML.
    "slack": lambda notification: {"text": html.escape(notification.text(), quote=False)},
    "generic": dataclasses.asdict,
}


def notify(notification: Notification, webhook_env: str, kind: str, events: list[str]) -> None:
    """Send a notification if its verdict is one of the events; a failure is one warning.

    `webhook_env` is the environment variable with the address, `kind` is `slack` or `generic`.
    """
    if notification.verdict not in events:
        return
    address, faults = os.environ.get(webhook_env, "").strip(), []
    if address.startswith(("http://", "https://")):
        hide_credentials(address)
        for secret in (address, f"/{address.split('/', 3)[-1]}"):  # errors of packages have the path alone
            hide(secret)
        body = clean(json.dumps(_BODIES[kind](notification))).encode()
        # A daemon thread keeps no process from its end.
        thread = threading.Thread(target=lambda: faults.append(_post(address, body)), daemon=True)
        thread.start()
        thread.join(_LONGEST_SECONDS)
    else:
        faults.append("expected an address that starts with http:// or https://, found none")
    fault = faults[0] if faults else "no answer in time"
    if fault:
        _logger.warning("notify | no message reached the webhook in %s: %s", webhook_env, fault)


def _post(address: str, body: bytes) -> str:
    """Return why a webhook did not take a message; "" if it did."""
    import requests

    fault, headers = "", {"Content-Type": "application/json", "User-Agent": "detflow"}
    for attempt in range(_ATTEMPTS):
        time.sleep(_WAIT_SECONDS * attempt)
        try:
            # The answer's body is not read.
            with requests.post(
                address, body, headers=headers, timeout=_TIMEOUT_SECONDS, allow_redirects=False, stream=True
            ) as answer:
                fault = "" if answer.status_code // 100 == 2 else f"it answers {answer.status_code}"
            if answer.status_code not in _TEMPORARY:
                break
        except (requests.RequestException, ValueError) as error:
            fault = f"the connection fails ({type(error).__name__})"  # the error's text has the address
    return fault
