"""Pictures of an evaluation inside the page, within a budget of bytes."""

from __future__ import annotations

import base64
import dataclasses

from detection_core.artifacts.pictures import KINDS, PictureFile, list_pictures

BUDGET_BYTES = 2_200_000


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
        found: dict[str, list[Picture]] = {kind: [] for kind in KINDS}
        for entry in list_pictures(evaluation_dir):
            shown = found.get(entry.kind)
            if shown is not None and len(shown) < limits.get(entry.kind, 0):
                picture = self.embed_one(entry)
                if picture is not None:
                    shown.append(picture)
        return found

    def embed_one(self, entry: PictureFile) -> Picture | None:
        """Return a picture; None where it cannot be shown, or the page is large enough."""
        text = base64.b64encode(entry.read()).decode()
        if not text or len(text) > self._left:
            return None
        self._left -= len(text)
        return Picture(
            source_id=entry.source_id, caption=entry.caption, data=f"data:image/jpeg;base64,{text}"
        )
