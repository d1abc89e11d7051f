"""The files of a push destination (versions, and the pointer to the deployed one) and pushed.json."""

from __future__ import annotations

import dataclasses
import errno
from collections.abc import Iterable, Mapping

from detection_core.artifacts.json_file import JsonFile
from detection_core.artifacts.json_values import OMIT_DEFAULT
from detection_core.errors import ContractError
from detection_core.storage import files

IN_SERVICE, WITHDRAWN, TFLITE, VERSIONS = "saved_model", "rolled_back", "tflite", "versions"
"""Folders below a destination: SavedModels in service and out of it, TensorFlow Lite files, versions."""

_ENDING = ".json"
_REMEDY = "restore the file, or name the version to return to: `detflow rollback DESTINATION --to VERSION`"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PublishedVersion:
    """A published version.

    Attributes:
        number: seconds since 1970 at publication, made unique; TensorFlow Serving wants an integer.
        run_key: fingerprint of everything the run was asked to do.
        fingerprint: hash of the published weights and files.
        baseline_version: the version it was compared with; "" for none.
        push_token: see `components.run_checker.run`.
        metrics: what the Evaluator measured.
        score_threshold: `EvalReport.score_threshold`.
        files: path below the SavedModel's folder to bytes, which tells a complete one; empty for versions
            that were published before this was recorded.
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
        """Refuse invalid version numbers."""
        wrong = [n for n in (self.version, *self.rolled_back) if n is not None and n <= 0]
        if wrong:
            raise ValueError(f"expected numbers of versions, found {wrong[0]}")

    def pointing_at(self, version: int) -> Deployment:
        """Return the deployment of a version that is in service."""
        return Deployment(version, self.rolled_back)


VERSION = JsonFile(
    name=f"VERSION{_ENDING}",
    content=PublishedVersion,
    writer="Pusher",
    remedy=_REMEDY,
    version_key="format_version",
)
CURRENT = JsonFile(
    name="current.json",
    content=Deployment,
    writer="Pusher",
    remedy=_REMEDY,
    version_key="format_version",
)


def version_file(number: int) -> str:
    """Return the name of a version's file."""
    return f"{number}{_ENDING}"


def versions_among(names: Iterable[str]) -> list[int]:
    """Return the numbers of the versions whose files are among some names, in order."""
    return version_numbers(name.removesuffix(_ENDING) for name in names if name.endswith(_ENDING))


def version_numbers(names: Iterable[str]) -> list[int]:
    """Return the numbers among names of files and folders, as TensorFlow Serving reads them, in order."""
    return sorted(int(name) for name in names if name.isascii() and name.isdigit())


def read_version(path: str, number: int) -> PublishedVersion:
    """Read a version's file.

    Raises:
        FileNotFoundError: when there is none.
        ContractError: when it is damaged, of another version, or of a newer format.
    """
    version = VERSION.parse(_read(path), path)
    if version.number != number:
        raise ContractError(
            f"expected the file of version {number}, found that of {version.number}; {_REMEDY}", where=path
        )
    return version


def write_version(path: str, version: PublishedVersion) -> None:
    """Write a version's file."""
    files.write_text(path, VERSION.format(version))


def read_deployment(root: str) -> Deployment:
    """Read `current.json`; a missing one says that nothing is deployed.

    Args:
        root: of the destination.

    Raises:
        ContractError: when it is damaged or of a newer format.
    """
    path = CURRENT.path(root)
    try:
        deployment = CURRENT.parse(_read(path), path)
    except FileNotFoundError:
        return Deployment(None, ())
    return Deployment(deployment.version, tuple(sorted(deployment.rolled_back)))


def write_deployment(root: str, deployment: Deployment) -> None:
    """Write `current.json`."""
    CURRENT.write(root, Deployment(deployment.version, tuple(sorted(deployment.rolled_back))))


def is_destination(root: str) -> bool:
    """Tell whether a folder is a push destination that something was published to."""
    return files.exists(CURRENT.path(root))


_MOST_BYTES = 1 << 26


def _read(path: str) -> str:
    """Return a file's text.

    Raises:
        FileNotFoundError: when there is none.
        ContractError: when the path is a folder, or the file is not text.
    """
    try:
        return files.read_regular(path, _MOST_BYTES).decode()
    except OSError as e:
        if e.errno not in (errno.EISDIR, errno.ENOTDIR, errno.EINVAL, errno.EFBIG):
            raise
        # A pipe would block for ever, and a device never end.
        found = "a folder, a pipe, a device, or a file where a folder should be"
        raise ContractError(
            f"expected the JSON that Pusher writes, found {found}; {_REMEDY}", where=path
        ) from e
    except UnicodeDecodeError as e:
        raise ContractError(
            f"expected the JSON that Pusher writes, found no text ({e}); {_REMEDY}", where=path
        ) from e


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
