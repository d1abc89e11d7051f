"""DataValidator's findings for a page."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Sequence

from detection_core.artifacts.data_findings import FINDINGS, DataFindings, Finding, FoundExample
from detection_core.report.pictures import Picture
from detection_core.storage import files

_ROWS = 5
_BUDGET_BYTES = 1_500_000
_PICTURES = "pictures"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShownFinding:
    """A finding with its pictures.

    Attributes:
        finding: from findings.json.
        pictures: of its examples.
    """

    finding: Finding
    pictures: Sequence[Picture]

    @property
    def rows(self) -> Sequence[FoundExample]:
        """The listed examples."""
        return self.finding.examples[:_ROWS]


@dataclasses.dataclass(frozen=True, kw_only=True)
class FindingsSummary:
    """The findings' section of a page.

    Attributes:
        found: content of findings.json.
        folder: with findings.json and the pictures.
    """

    found: DataFindings
    folder: str

    @property
    def shown(self) -> list[ShownFinding]:
        """The findings with their pictures, within the byte budget."""
        left, shown = _BUDGET_BYTES, []
        for finding in self.found.findings:
            pictures = []
            for example in finding.examples:
                data = self._read(example)
                if data and len(data) <= left:
                    left -= len(data)
                    pictures.append(Picture(source_id=_ids(example), caption=example.note, data=data))
            shown.append(ShownFinding(finding=finding, pictures=pictures))
        return shown

    @property
    def not_made(self) -> dict[str, str]:
        """Skipped checks, each with the reason."""
        made = ("passed", "warn", "stop")
        return {name: how for name, how in self.found.checks.items() if how not in made}

    @property
    def list(self) -> str:
        """Path of the complete list."""
        return FINDINGS.path(self.folder)

    def _read(self, example: FoundExample) -> str:
        # Only a file name, never a path: the file may come from elsewhere.
        name = example.picture
        if not name or "/" in name or "\\" in name or name.startswith("."):
            return ""
        path = files.join(self.folder, _PICTURES, name)
        if not files.exists(path):
            return ""
        data = files.read_bytes(path)
        is_jpeg = data.startswith(b"\xff\xd8\xff")
        return f"data:image/jpeg;base64,{base64.b64encode(data).decode()}" if is_jpeg else ""


def _ids(example: FoundExample) -> str:
    other = example.other
    here = f"{example.split}: {example.source_id}"
    return f"{here} | {other.split}: {other.source_id}" if other else here
