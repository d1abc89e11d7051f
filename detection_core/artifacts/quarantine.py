"""The quarantine: quarantine.jsonl, one line for each rejected image or annotation."""

from __future__ import annotations

import dataclasses

from detection_core.artifacts.json_file import JsonLines


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuarantinedEntry:
    """A rejected image or annotation.

    Attributes:
        split: that it belongs to.
        file: image or annotation file, relative to its folder.
        record: id of the image or annotation; "" where there is none.
        reason: a key of `detection_core.datasets.annotated_images.REASONS`.
        detail: what was found.
    """

    split: str = ""
    file: str = ""
    record: str = ""
    reason: str = ""
    detail: str = ""


QUARANTINE = JsonLines(
    name="quarantine.jsonl",
    content=QuarantinedEntry,
    writer="ExampleGen",
    remedy="make the examples again",
)
