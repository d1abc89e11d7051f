"""The push destination: versions, the pointer to the deployed one, rollback.

Layout below the root:
    saved_model/VERSION/   a SavedModel, as TensorFlow Serving's base path expects it
    tflite/VERSION/        the TensorFlow Lite files of the same version
    versions/VERSION.json  what the version is and came from; a version without it does not exist
    rolled_back/VERSION/   SavedModels taken out of service
    current.json           the deployed version, and which versions were rolled back

The SavedModel becomes visible last of a version's pieces, each of which is renamed in whole, and
the pointer after it. `recover` completes or removes what a killed writer left, so a reader that follows the
pointer, and TensorFlow Serving, which follows the folders, never see half a version.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

from detection_core import files
from detection_core.errors import ContractError


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
    """

    number: int
    run_key: str = ""
    fingerprint: str = ""
    baseline_version: str = ""
    push_token: str = ""
    metrics: Mapping[str, float | None] = dataclasses.field(default_factory=dict)


class Overtaken(Exception):
    """Another version is deployed than the one that a model was compared with.

    Attributes:
        current: the deployed version, if any.
    """

    def __init__(self, current: Version | None) -> None:
        super().__init__(str(current.number) if current else "none")
        self.current = current


class PushDestination:
    """Reads and changes a push destination; every change is made under its lock."""

    def __init__(self, root: str) -> None:
        self.root = root

    def _path(self, *parts: str | int) -> str:
        return os.path.join(self.root, *map(str, parts))

    def saved_model_dir(self, version: int) -> str:
        """Return the folder of a version's SavedModel."""
        return self._path("saved_model", version)

    def tflite_dir(self, version: int) -> str:
        """Return the folder of a version's TensorFlow Lite files."""
        return self._path("tflite", version)

    def current(self) -> Version | None:
        """Return the deployed version, or None before the first push."""
        number = self._pointer()["version"]
        return self._read_version(number) if number else None

    def versions(self) -> list[Version]:
        """Return all published versions, oldest first, rolled-back ones included."""
        folder = self._path("versions")
        if not files.is_dir(folder):
            return []
        names = [n.removesuffix(".json") for n in files.list_dir(folder) if n.endswith(".json")]
        return [self._read_version(n) for n in sorted(int(n) for n in names if n.isdigit())]

    def rolled_back(self) -> list[int]:
        """Return the numbers of the versions taken out of service."""
        return list(self._pointer()["rolled_back"])

    def find(self, run_key: str) -> Version | None:
        """Return the newest version in service that a run with this key published."""
        out = self.rolled_back()
        found = [v for v in self.versions() if v.run_key == run_key and v.number not in out]
        return found[-1] if found else None

    def publish(
        self, saved_model: str, tflite: str, version: Version, keep: int, *, onto: str | None = None
    ) -> Version:
        """Add a version and point at it.

        Args:
            saved_model: folder with saved_model.pb.
            tflite: folder of TensorFlow Lite files; "" for none.
            version: what to record; its number is chosen here.
            keep: how many versions to keep, the new one included; 0 keeps all.
            onto: the deployed version that this one may replace, "" for none; None: whichever it is.

        Returns:
            The version as published.

        Raises:
            Overtaken: when another version than `onto` is deployed.
        """
        with self._lock():
            self._recover()
            current = self.current()
            if current and version.fingerprint and current.fingerprint == version.fingerprint:
                return current  # A killed push of the same model, which has just been finished.
            if onto is not None and onto != (str(current.number) if current else ""):
                raise Overtaken(current)
            newest = max([v.number for v in self.versions()], default=0)
            version = dataclasses.replace(version, number=max(int(time.time()), newest + 1))
            if tflite:
                with files.atomic_dir(self.tflite_dir(version.number)) as folder:
                    files.copy_tree(tflite, folder)
            manifest = json.dumps(dataclasses.asdict(version), indent=1, allow_nan=False) + "\n"
            files.write_text(self._path("versions", f"{version.number}.json"), manifest)
            with files.atomic_dir(self.saved_model_dir(version.number)) as folder:
                files.copy_tree(saved_model, folder)
            self._point_at(version.number, self.rolled_back())
            self._prune(keep)
        return version

    def rollback(self, to: int | None = None) -> Version:
        """Take the deployed version out of service, or return to a named one.

        Args:
            to: version to return to, also one that was rolled back before; None: the one before the deployed.

        Returns:
            The version that is deployed now.

        Raises:
            ContractError: when there is no such version.
        """
        with self._lock():
            self._recover()
            current, known = self._pointer()["version"], [v.number for v in self.versions()]
            candidates = [n for n in known if n < (current or 0) and n not in self.rolled_back()]
            target = to if to is not None else (candidates[-1] if candidates else None)
            if target is None or target not in known:
                raise ContractError(
                    f"expected a version to return to, found {known} with {current} deployed; "
                    "name one with --to",
                    where=self.root,
                )
            self._point_at(target, [n for n in known if n > target])
            self._recover()
            return self._read_version(target)

    def _pointer(self) -> dict[str, Any]:
        path = self._path("current.json")
        if not files.exists(path):
            return {"version": None, "rolled_back": []}
        return dict(json.loads(files.read_text(path)))

    def _point_at(self, version: int, rolled_back: list[int]) -> None:
        text = json.dumps({"version": version, "rolled_back": rolled_back}, indent=1) + "\n"
        files.write_text(self._path("current.json"), text)

    def _read_version(self, number: int) -> Version:
        path = self._path("versions", f"{number}.json")
        try:
            return Version(**json.loads(files.read_text(path)))
        except (OSError, ValueError, TypeError) as e:
            raise ContractError(
                f"expected the record of a published version, found {e}; restore the file or push again",
                where=path,
            ) from e

    def _recover(self) -> None:
        """Finish or undo what a killed writer left; the lock is held."""
        pointer = self._pointer()
        for version in self.versions():
            number, out = version.number, version.number in pointer["rolled_back"]
            here = files.is_dir(self.saved_model_dir(number))
            if out and here:
                files.make_dirs(self._path("rolled_back"))
                files.rename(self.saved_model_dir(number), self._path("rolled_back", number))
            elif not out and not here and files.is_dir(self._path("rolled_back", number)):
                files.rename(self._path("rolled_back", number), self.saved_model_dir(number))
            elif not out and not here:
                self._remove(number)
            elif not out and here and number > (pointer["version"] or 0):
                self._point_at(number, pointer["rolled_back"])
                pointer = self._pointer()

    def _remove(self, number: int) -> None:
        files.remove_tree(self.saved_model_dir(number))
        files.remove_tree(self._path("rolled_back", number))
        files.remove_tree(self.tflite_dir(number))
        files.remove_tree(self._path("versions", f"{number}.json"))

    def _prune(self, keep: int) -> None:
        """Remove the oldest versions beyond `keep`, never the deployed one."""
        numbers = [v.number for v in self.versions()]
        current = self._pointer()["version"]
        for number in numbers[: max(0, len(numbers) - keep)] if keep else []:
            if number != current:
                self._remove(number)
        left = {v.number for v in self.versions()}
        self._point_at(current, [n for n in self.rolled_back() if n in left])

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        """Hold the destination for one writer; unique version numbers do where a store has no locks."""
        files.make_dirs(self.root)
        with files.exclusive(self._path(".lock")):
            yield
