"""Pictures of an evaluation inside the page, within a budget of bytes."""

from __future__ import annotations

import base64
import dataclasses
import os
from typing import Any

from detection_core import files
from pipeline.report.artifacts import read_json

BUDGET_BYTES = 2_200_000
KINDS = ("side_by_side", "false_positive", "miss")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Picture:
    """A picture and what it shows.

    Attributes:
        source_id: id of the image.
        caption: what is to be seen.
        data: the picture as a data URI.
    """

    source_id: str
    caption: str
    data: str


class PictureBudget:
    """Hands out pictures until the page is large enough; the rest stay where they are, in the artifact.

    Args:
        left: bytes that pictures may take.
    """

    def __init__(self, left: int = BUDGET_BYTES) -> None:
        self._left = left

    def embed(self, evaluation_dir: str, limits: dict[str, int]) -> dict[str, list[Picture]]:
        """Return the pictures of an evaluation by kind.

        Args:
            evaluation_dir: has `pictures/index.json`.
            limits: kind to how many to show at most.
        """
        folder = files.join(evaluation_dir, "pictures")
        found: dict[str, list[Picture]] = {kind: [] for kind in KINDS}
        for entry in read_json(folder, "index.json") or []:
            shown = found.get(entry.get("kind", ""))
            if shown is not None and len(shown) < limits.get(entry["kind"], 0):
                picture = self._embed(folder, entry)
                if picture is not None:
                    shown.append(picture)
        return found

    def _embed(self, folder: str, entry: dict[str, Any]) -> Picture | None:
        name = str(entry.get("file", ""))
        path = files.join(folder, name)
        # The list came with the artifact: it names pictures beside it, and nothing else of this machine.
        if os.path.basename(name) != name or not files.exists(path):
            return None
        text = base64.b64encode(files.read_bytes(path)).decode()
        if len(text) > self._left:
            return None
        self._left -= len(text)
        return Picture(
            source_id=str(entry.get("source_id", "")),
            caption=str(entry.get("caption", "")),
            data=f"data:image/jpeg;base64,{text}",
        )
