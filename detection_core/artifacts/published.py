"""The files of a push destination (versions, and the pointer to the deployed one) and pushed.json."""

import dataclasses
from collections.abc import Iterable, Mapping

from detection_core.artifacts.json_file import JsonFile
from detection_core.artifacts.json_values import OMIT_DEFAULT
from detection_core.errors import ContractError
from detection_core.storage import files

IN_SERVICE, WITHDRAWN, TFLITE, VERSIONS = "saved_model", "rolled_back", "tflite", "versions"
"""Subfolders of a destination: SavedModels in service, withdrawn SavedModels, TensorFlow Lite files,
versions.
"""

_ENDING = ".json"
_REMEDY = "restore the file, or name the version to return to: `detflow rollback DESTINATION --to VERSION`"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PublishedVersion:
    """A published version.

    Attributes:
        number: seconds since 1970 at publication, made unique; TensorFlow Serving needs an integer.
        run_key: fingerprint of all inputs of the run.
        fingerprint: hash of the published weights and files.
        baseline_version: version that it was compared with; "" for none.
        push_token: see `components.run_checker.run`.
        metrics: the Evaluator's metrics.
        score_threshold: `EvalReport.score_threshold`.
        files: path in the SavedModel's folder to size in bytes, to recognise a complete copy; empty for early
            versions.
    """

    number: int
    run_key: str = ""
    fingerprint: str = ""
    baseline_version: str = ""
    push_token: str = ""
    metrics: Mapping[str, float | None] = dataclasses.field(default_factory=dict)
    score_threshold: float = 0.0
    files: Mapping[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Deployment:
    """Which version is deployed.

    Attributes:
        version: its number; None before the first push.
        rolled_back: versions taken out of service, in the order of their numbers.
    """

    version: int | None
    rolled_back: tuple[int, ...]

    def __post_init__(self) -> None:
        wrong = [n for n in (self.version, *self.rolled_back) if n is not None and n <= 0]
        if wrong:
            raise ValueError(f"expected numbers of versions, found {wrong[0]}")
        object.__setattr__(self, "rolled_back", tuple(sorted(self.rolled_back)))


VERSION = JsonFile(
    name=f"VERSION{_ENDING}",
    content=PublishedVersion,
    writer="Pusher",
    remedy=_REMEDY,
    version_key="format_version",
)
CURRENT = JsonFile(
    name="current.json", content=Deployment, writer="Pusher", remedy=_REMEDY, version_key="format_version"
)


def version_file(number: int) -> str:
    """Return the file name of a version."""
    return f"{number}{_ENDING}"


def versions_among(names: Iterable[str]) -> list[int]:
    """Return the sorted numbers of the version files among `names`."""
    return version_numbers(name.removesuffix(_ENDING) for name in names if name.endswith(_ENDING))


def version_numbers(names: Iterable[str]) -> list[int]:
    """Return the sorted numbers among file and folder names, as TensorFlow Serving reads them."""
    return sorted(int(name) for name in names if name.isascii() and name.isdigit())


def read_version(path: str, number: int) -> PublishedVersion:
    """Read a version's file.

    Raises:
        FileNotFoundError: when it is missing.
        ContractError: when it is damaged, for another version, or in a newer format.
    """
    version = VERSION.read_file(path)
    if version.number != number:
        raise ContractError(
            f"expected the file of version {number}, found that of {version.number}; {_REMEDY}", where=path
        )
    return version


def read_deployment(root: str) -> Deployment:
    """Read `current.json`, empty if missing; ContractError when damaged or in a newer format."""
    return CURRENT.find(root) or Deployment(None, ())


def is_destination(root: str) -> bool:
    """Return whether a folder is a push destination with a published version."""
    return files.exists(CURRENT.path(root))


@dataclasses.dataclass(frozen=True, kw_only=True)
class PushReport:
    """The content of pushed.json.

    Attributes:
        pushed: whether this call or an earlier one of the same run published the model.
        version: its version at the destination; None if it is neither published nor deployed.
        reasons: reasons as readable text.
        path: of the destination; "" if nothing was published.
    """

    pushed: bool
    version: int | None
    reasons: list[str]
    path: str = dataclasses.field(default="", metadata=OMIT_DEFAULT)


PUSHED = JsonFile(name="pushed.json", content=PushReport, writer="Pusher", remedy="run the workflow again")
