"""The blessing artifact: TFX's marker files and our reasons."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from detection_core import files

BLESSED, NOT_BLESSED = "BLESSED", "NOT_BLESSED"


def write_blessing(folder: str, blessed: bool, reasons: Sequence[str]) -> None:
    """Write the verdict: an empty file named as TFX names it, and reasons.json."""
    files.write_text(
        os.path.join(folder, "reasons.json"),
        json.dumps({"blessed": blessed, "reasons": list(reasons)}, indent=1) + "\n",
    )
    files.write_text(os.path.join(folder, BLESSED if blessed else NOT_BLESSED), "")


def is_blessed(folder: str) -> bool:
    """Tell whether the artifact holds a blessing."""
    return files.exists(os.path.join(folder, BLESSED))


def blessing_reasons(folder: str) -> list[str]:
    """Return why a model was or was not blessed; empty for blessings of others."""
    path = os.path.join(folder, "reasons.json")
    return [str(r) for r in json.loads(files.read_text(path))["reasons"]] if files.exists(path) else []
