"""The records of a push destination: what a version is, and which one is deployed."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import Any

from detection_core.errors import ContractError
from detection_core.storage import files

FORMAT_VERSION = 1

_KINDS: dict[str, type] = {
    "run_key": str,
    "fingerprint": str,
    "baseline_version": str,
    "push_token": str,
    "metrics": dict,
    "files": dict,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Version:
    """A published version.

    Attributes:
        number: seconds since 1970 at publication, made unique; TensorFlow Serving wants an integer.
        run_key: fingerprint of everything the run was asked to do.
        fingerprint: hash of the published weights and files.
        baseline_version: the version it was compared with; "" for none.
        push_token: see `components.run_checker.run`.
        metrics: what the Evaluator measured.
        files: path below the SavedModel's folder to bytes, which tells a whole one; empty for versions that
        were
            published before this was recorded.
        format_version: of the record.
    """

    number: int
    run_key: str = ""
    fingerprint: str = ""
    baseline_version: str = ""
    push_token: str = ""
    metrics: Mapping[str, float | None] = dataclasses.field(default_factory=dict)
    files: Mapping[str, int] = dataclasses.field(default_factory=dict)
    format_version: int = FORMAT_VERSION


@dataclasses.dataclass(frozen=True)
class Deployment:
    """Which version is deployed.

    Attributes:
        version: its number; None before the first push.
        rolled_back: versions taken out of service, in the order of their numbers.
    """

    version: int | None
    rolled_back: tuple[int, ...] = ()

    def pointing_at(self, version: int) -> Deployment:
        """Return the deployment of a version that is in service."""
        return Deployment(version, self.rolled_back)


def read_version(path: str, number: int) -> Version:
    """Read `versions/NUMBER.json`; fields of later versions that are not known here are passed over.

    Raises:
        FileNotFoundError: when there is none.
        ContractError: when it is damaged, of another version, or of a newer format.
    """
    data = _read_object(path, "the record of a published version")
    values = {f.name: data[f.name] for f in dataclasses.fields(Version) if f.name in data}
    wrong = [name for name, kind in _KINDS.items() if not isinstance(values.get(name, kind()), kind)]
    if wrong or values.get("number") != number:
        raise _damaged(path, f"the record of version {number}", f"a wrong {', '.join(wrong) or 'number'}")
    return Version(**values)


def write_version(path: str, version: Version) -> None:
    """Write `versions/NUMBER.json`."""
    files.write_text(path, json.dumps(dataclasses.asdict(version), indent=1, allow_nan=False) + "\n")


def read_deployment(path: str) -> Deployment:
    """Read `current.json`; a missing one says that nothing is deployed.

    Raises:
        ContractError: when it is damaged or of a newer format.
    """
    try:
        data = _read_object(path, "the pointer to the deployed version")
    except FileNotFoundError:
        return Deployment(None)
    version, rolled_back = data.get("version", False), data.get("rolled_back")
    numbers: list[Any] = rolled_back if isinstance(rolled_back, list) else [None]
    if not all(map(_is_number, numbers)) or not (version is None or _is_number(version)):
        wanted = 'the pointer {"version": NUMBER, "rolled_back": [NUMBER, ...]}'
        raise _damaged(path, wanted, "something else")
    return Deployment(version, tuple(sorted(numbers)))


def write_deployment(path: str, deployment: Deployment) -> None:
    """Write `current.json`."""
    data = {
        "version": deployment.version,
        "rolled_back": sorted(deployment.rolled_back),
        "format_version": FORMAT_VERSION,
    }
    files.write_text(path, json.dumps(data, indent=1) + "\n")


def version_numbers(names: Iterable[str]) -> list[int]:
    """Return the numbers among names of files and folders, as TensorFlow Serving reads them, in order."""
    return sorted(int(name) for name in names if name.isascii() and name.isdigit())


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _read_object(path: str, what: str) -> dict[str, Any]:
    try:
        data = json.loads(files.read_text(path))
    except (ValueError, RecursionError) as e:
        raise _damaged(path, what, str(e)) from e
    except (IsADirectoryError, NotADirectoryError) as e:
        raise _damaged(path, what, "a folder, or a file where a folder should be") from e
    if not isinstance(data, dict):
        raise _damaged(path, what, f"the JSON of a {type(data).__name__}")
    known = data.get("format_version", FORMAT_VERSION)
    if not isinstance(known, int) or known > FORMAT_VERSION:
        raise ContractError(
            f"expected format_version {FORMAT_VERSION} or less, found {known!r}:"
            " a newer detflow has written this; "
            "use that or a later version",
            where=path,
        )
    return data


def _damaged(path: str, expected: str, found: str) -> ContractError:
    return ContractError(
        f"expected {expected}, found {found}; restore the file, or name the version to return to:"
        " `detflow rollback DESTINATION --to VERSION`",
        where=path,
    )
