"""The blessing artifact: the verdict as TFX's marker file and reasons.json."""

import dataclasses
import os
from collections.abc import Sequence

from detection_core.artifacts.json_file import JsonFile
from detection_core.errors import ContractError
from detection_core.storage import files

BLESSED, NOT_BLESSED = "BLESSED", "NOT_BLESSED"


@dataclasses.dataclass(frozen=True, kw_only=True)
class BlessingReasons:
    """The content of reasons.json.

    Attributes:
        blessed: same verdict as the marker file.
        reasons: reasons as readable text.
    """

    blessed: bool
    reasons: list[str]


REASONS = JsonFile(
    name="reasons.json", content=BlessingReasons, writer="a gate", remedy="evaluate the detector again"
)


def write_blessing(folder: str, blessed: bool, reasons: Sequence[str]) -> None:
    """Write TFX's empty marker file and reasons.json.

    Remove an older verdict first, so that a killed writer leaves none.
    """
    for name in (BLESSED, NOT_BLESSED):
        files.remove_tree(os.path.join(folder, name))
    REASONS.write(folder, BlessingReasons(blessed=blessed, reasons=list(reasons)))
    files.write_text(os.path.join(folder, BLESSED if blessed else NOT_BLESSED), "")


def read_verdict(folder: str) -> BlessingReasons:
    """Read a verdict; a model is not blessed if marker and reasons disagree; the reasons then name that.

    TFX's Evaluator writes only a marker, so its verdict has no reasons.
    """
    markers = [n for n in (BLESSED, NOT_BLESSED) if files.exists(os.path.join(folder, n))]
    if len(markers) != 1:
        found = " and ".join(markers) or "neither"
        return _refused(folder, f"expected one of {BLESSED} and {NOT_BLESSED}, found {found}")
    verdict = BlessingReasons(blessed=markers == [BLESSED], reasons=[])
    try:
        said = REASONS.find(folder) or verdict
    except ContractError as error:
        return BlessingReasons(blessed=False, reasons=[str(error)])
    if said.blessed is not verdict.blessed:
        return _refused(folder, f"expected {REASONS.name} to agree with {markers[0]}, found the contrary")
    return said


def _refused(folder: str, what: str) -> BlessingReasons:
    return BlessingReasons(blessed=False, reasons=[f"{folder}: {what}; evaluate again"])
