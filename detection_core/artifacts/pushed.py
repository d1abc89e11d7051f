"""The pushed model artifact: pushed.json, what Pusher decided."""

from __future__ import annotations

import dataclasses

from detection_core.artifacts.json_file import JsonFile
from detection_core.artifacts.json_values import OMIT_DEFAULT


@dataclasses.dataclass(frozen=True, kw_only=True)
class PushReport:
    """What pushed.json holds.

    Attributes:
        pushed: whether the model was published, or is published already by the same run.
        version: that it has at the destination; None where it was not published and is not deployed.
        reasons: why, for people.
        path: of the destination; "" where nothing was published.
    """

    pushed: bool
    version: int | None
    reasons: list[str]
    path: str = dataclasses.field(default="", metadata=OMIT_DEFAULT)


PUSHED = JsonFile(name="pushed.json", content=PushReport, writer="Pusher", remedy="run the workflow again")
