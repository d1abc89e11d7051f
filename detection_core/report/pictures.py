"""Embedded pictures of an evaluation, within a byte budget."""

from __future__ import annotations

import base64
import dataclasses

from detection_core.artifacts.pictures import KINDS, PictureEntry, list_pictures

BUDGET_BYTES = 2_200_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Picture:
    """A picture with its caption.

    Attributes:
        source_id: id of the image.
        caption: description of the picture.
        data: the picture as a data URI.
    """

    source_id: str
    caption: str
    data: str


class PictureBudget:
    """Embeds pictures until the budget is spent; the others stay in the artifact.

    Args:
        left: bytes that pictures may take.
    """

    def __init__(self, left: int = BUDGET_BYTES) -> None:
        self._left = left

    def embed(self, evaluation_dir: str, limits: dict[str, int]) -> dict[str, list[Picture]]:
        """Return the pictures of an evaluation's `pictures/index.json` by kind; `limits` are per kind."""
        found: dict[str, list[Picture]] = {kind: [] for kind in KINDS}
        for entry in list_pictures(evaluation_dir):
            shown = found.get(entry.kind)
            if shown is not None and len(shown) < limits.get(entry.kind, 0):
                picture = self.embed_one(entry)
                if picture is not None:
                    shown.append(picture)
        return found

    def embed_one(self, entry: PictureEntry) -> Picture | None:
        """Return a picture; None if it is empty or exceeds the budget."""
        text = base64.b64encode(entry.read()).decode()
        if not text or len(text) > self._left:
            return None
        self._left -= len(text)
        return Picture(
            source_id=entry.source_id, caption=entry.caption, data=f"data:image/jpeg;base64,{text}"
        )
