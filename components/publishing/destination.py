"""The push destination: versions, the pointer to the deployed one, rollback.

Layout below the root:
    saved_model/VERSION/   a SavedModel, as TensorFlow Serving's base path expects it
    tflite/VERSION/        the TensorFlow Lite files of the same version
    versions/VERSION.json  what the version is and came from; a version without it does not exist
    rolled_back/VERSION/   SavedModels taken out of service
    current.json           the deployed version, and which versions were rolled back

The SavedModel becomes visible last of a version's pieces, each of which appears by one rename, and
the pointer after it. A rollback writes the pointer when its target is in service, and then takes the others
out. Every writer begins with completing or undoing what a killed one left, so a reader that follows the
pointer, and TensorFlow Serving, which follows the folders, never see half a version.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from types import MappingProxyType

from components.publishing.folders import VersionFolders
from detection_core.artifacts.detector import EXTRA
from detection_core.artifacts.published import (
    IN_SERVICE,
    TFLITE,
    WITHDRAWN,
    Deployment,
    PublishedVersion,
    read_deployment,
    write_deployment,
    write_version,
)
from detection_core.errors import ContractError
from detection_core.storage import files

_logger = logging.getLogger(__name__)


class Overtaken(Exception):
    """The deployed version is not the one that a model was compared with.

    Attributes:
        current: the deployed version, if any.
    """

    def __init__(self, current: PublishedVersion | None) -> None:
        super().__init__(str(current.number) if current else "none")
        self.current = current


class RolledBack(Exception):
    """The same model was published before and rolled back.

    Attributes:
        version: as which version.
    """

    def __init__(self, version: PublishedVersion) -> None:
        super().__init__(str(version.number))
        self.version = version


class PushDestination:
    """A push destination; every change is made under its lock."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._folders = VersionFolders(root)

    def saved_model_dir(self, version: int) -> str:
        """Return the folder of a version's SavedModel."""
        return self._folders.path(IN_SERVICE, version)

    def tflite_dir(self, version: int) -> str:
        """Return the folder of a version's TensorFlow Lite files."""
        return self._folders.path(TFLITE, version)

    def current(self) -> PublishedVersion | None:
        """Return the deployed version, or None before the first push.

        Raises:
            ContractError: when the pointer or the version's file cannot be used.
        """
        while True:
            number = self._deployment().version
            if number is None:
                return None
            try:
                return self._folders.read(number)
            except FileNotFoundError as e:
                # Pruned, if another version was deployed in the meantime.
                if self._deployment().version == number:
                    raise ContractError(
                        "expected the file of the deployed version, found none; restore the file, or name"
                        " the version to return to: `detflow rollback DESTINATION --to VERSION`",
                        where=self._folders.version_path(number),
                    ) from e

    def versions(self) -> list[PublishedVersion]:
        """Return all published versions, oldest first, rolled-back ones included.

        Those whose file is damaged are left out, with a warning.
        """
        found = []
        for number in self._folders.numbers():
            try:
                found.append(self._folders.read(number))
            except FileNotFoundError:
                continue  # pruned since the listing
            except ContractError as e:
                _logger.warning("push | version %d is left out: %s", number, e)
        return found

    def rolled_back(self) -> list[int]:
        """Return the numbers of the versions taken out of service."""
        return list(self._deployment().rolled_back)

    def find(self, run_key: str) -> PublishedVersion | None:
        """Return the newest version in service that a run with this key published."""
        out = self.rolled_back()
        found = [v for v in self.versions() if v.run_key == run_key and v.number not in out]
        return found[-1] if found else None

    def find_rolled_back(self, fingerprint: str) -> PublishedVersion | None:
        """Return the version as which a model was published at last, if that one was rolled back."""
        found = [v for v in self.versions() if v.fingerprint == fingerprint and fingerprint]
        return found[-1] if found and found[-1].number in self.rolled_back() else None

    def fetch(self, number: int, folder: str) -> PublishedVersion:
        """Copy a version's SavedModel, or the deployed one's where that version is gone or goes meanwhile.

        Args:
            number: of the version.
            folder: to copy to; it has nothing in it.

        Returns:
            The version that was copied.

        Raises:
            ContractError: when neither is there.
        """
        chosen = number
        while True:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                version = self._folders.read(chosen)
                files.copy_tree(self.saved_model_dir(chosen), folder)
                copied = files.sizes(folder)
                if all(copied.get(name) == size for name, size in version.files.items()):
                    return version
            files.remove_tree(folder)
            current = self.current()
            if current is None or current.number == chosen:
                raise ContractError(
                    f"expected version {number} at the push destination, found no complete SavedModel of it,"
                    f" and {'no version' if current is None else 'nothing else'} deployed; publish again",
                    where=self.saved_model_dir(chosen),
                )
            _logger.warning("push | version %d is gone; taking version %d", chosen, current.number)
            chosen = current.number

    def publish(
        self,
        saved_model: str,
        tflite: str,
        version: PublishedVersion,
        keep: int,
        *,
        onto: str | None = None,
        again: bool = True,
        extras: Mapping[str, str] = MappingProxyType({}),
    ) -> PublishedVersion:
        """Add a version and point at it.

        Args:
            saved_model: folder with saved_model.pb.
            tflite: folder of TensorFlow Lite files; "" for none.
            version: what to record; its number is chosen here.
            keep: how many versions to keep, the new one included; 0 keeps all. The one that a rollback
                would return to is kept in any case.
            onto: the deployed version that this one may replace, "" for none; None: whichever it is.
            again: also a model that was rolled back.
            extras: file name to a file that is published in the SavedModel's `assets.extra/detflow`.

        Returns:
            The version as published.

        Raises:
            RolledBack: when the model was rolled back and `again` is False.
            Overtaken: when another version than `onto` is deployed.
        """
        with self._locked() as confirm:
            deployment = self._recover(self._deployment())
            current = self.current()
            if current and version.fingerprint and current.fingerprint == version.fingerprint:
                if self._folders.is_complete(IN_SERVICE, current.number):
                    return current  # A killed push of the same model, which has just been finished.
                onto = None
            before = None if again else self.find_rolled_back(version.fingerprint)
            if before:
                raise RolledBack(before)
            if onto is not None and onto != (str(current.number) if current else ""):
                raise Overtaken(current)
            version = self._add((saved_model, tflite, extras), version, confirm)
            deployment = deployment.pointing_at(version.number)
            write_deployment(self.root, deployment)
            for number in superfluous(deployment, self._folders.complete(), keep):
                self._folders.remove(number, keep_file=number in deployment.rolled_back)
        return version

    def rollback(self, to: int | None = None) -> PublishedVersion:
        """Take the deployed version out of service, or return to a named one.

        Args:
            to: version to return to, also one that was rolled back before; None: the one before the deployed
                that was not rolled back.

        Returns:
            The version that is deployed now.

        Raises:
            ContractError: when there is no such version, or its SavedModel is not complete.
        """
        with self._locked() as confirm:
            deployment = self._recover(self._deployment() if to is None else self._deployment_or_rebuilt())
            if to is None:
                self.current()  # raises where its file is damaged
            complete = self._folders.complete()
            target = to if to is not None else predecessor(deployment, complete)
            if target is None or target not in complete:
                raise ContractError(
                    f"expected a version to return to, found {complete} with {deployment.version} deployed"
                    f" and {list(deployment.rolled_back)} rolled back; name one that is there with --to",
                    where=self.root,
                )
            version = self._folders.read(target)
            deployment = returned_to(deployment, target, self._folders.numbers())
            confirm()
            self._folders.move(target, out=False)
            write_deployment(self.root, deployment)
            self._settle(deployment)
            return version

    def _deployment(self) -> Deployment:
        return read_deployment(self.root)

    def _deployment_or_rebuilt(self) -> Deployment:
        """Return the deployment of the pointer file, reconstructed from the folders if it is damaged."""
        try:
            return self._deployment()
        except ContractError as e:
            _logger.warning("push | the pointer is made anew: %s", e)
            in_service = [n for n in self._folders.numbers() if self._folders.is_complete(IN_SERVICE, n)]
            out = [n for n in self._folders.numbers() if n not in in_service]
            return Deployment(max(in_service, default=None), tuple(out))

    def _add(
        self,
        pieces: tuple[str, str, Mapping[str, str]],
        version: PublishedVersion,
        confirm: Callable[[], None],
    ) -> PublishedVersion:
        """Write a new version's pieces, the SavedModel last."""
        saved_model, tflite, extras = pieces
        number = max(int(time.time()), self._folders.newest_number() + 1, 1)
        with files.atomic_dir(self.saved_model_dir(number)) as folder:
            files.copy_tree(saved_model, folder)
            for name, path in extras.items():
                files.copy_file(path, os.path.join(folder, EXTRA, name))
            version = dataclasses.replace(version, number=number, files=files.sizes(folder))
            if tflite:
                with files.atomic_dir(self.tflite_dir(number)) as beside:
                    files.copy_tree(tflite, beside)
            write_version(self._folders.version_path(number), version)
            confirm()
        return version

    def _recover(self, deployment: Deployment) -> Deployment:
        """Complete or undo a killed writer's work, under the lock. Returns the resulting deployment."""
        self._folders.tidy()
        for number in self._folders.numbers():
            if number in deployment.rolled_back or not self._folders.is_readable(number):
                continue
            complete = self._folders.is_complete(IN_SERVICE, number)
            if number > (deployment.version or 0):
                if complete:
                    deployment = deployment.pointing_at(number)
                    write_deployment(self.root, deployment)
                else:
                    self._folders.remove(number)
            elif number != deployment.version and not complete and self._is_half(number):
                _logger.warning("push | version %d is not complete, and removed", number)
                self._folders.remove(number)
        self._settle(deployment)
        return deployment

    def _is_half(self, number: int) -> bool:
        """Tell whether a version's SavedModel exists in part only."""
        here = files.is_dir(self.saved_model_dir(number))
        return here and not self._folders.is_complete(WITHDRAWN, number)

    def _settle(self, deployment: Deployment) -> None:
        """Move every SavedModel to the folder that the deployment requires.

        The oldest first: what TensorFlow Serving falls back to is there, and what lies between is gone, when
        the newest leaves.
        """
        for number in self._folders.numbers():
            self._folders.move(number, out=number in deployment.rolled_back)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[Callable[[], None]]:
        """Lock the destination; a store without locks relies on unique version numbers."""
        files.make_dirs(self.root)
        with files.exclusive(os.path.join(self.root, ".lock")) as confirm:
            yield confirm


def predecessor(deployment: Deployment, complete: Collection[int]) -> int | None:
    """Return the version that a rollback returns to: the newest before the deployed one that is in service.

    Args:
        deployment: what is deployed.
        complete: numbers of the versions whose SavedModel is complete.
    """
    earlier = [n for n in complete if n < (deployment.version or 0) and n not in deployment.rolled_back]
    return max(earlier, default=None)


def returned_to(deployment: Deployment, target: int, known: Collection[int]) -> Deployment:
    """Return the deployment after a return to a version.

    Every later version is taken out of service, as TensorFlow Serving serves the one with the largest number.
    What was rolled back before stays so, whatever number it has: only the target itself comes back.

    Args:
        deployment: what is deployed.
        target: the version to return to.
        known: numbers of all versions.
    """
    later = {n for n in known if n > target}
    return Deployment(target, tuple(sorted((later | {*deployment.rolled_back}) - {target})))


def superfluous(deployment: Deployment, complete: Collection[int], keep: int) -> list[int]:
    """Return the versions to remove, so that `keep` are left: those rolled back first, then the oldest.

    Never the deployed one, and never the one that a rollback would return to.

    Args:
        deployment: what is deployed.
        complete: numbers of the versions whose SavedModel is there, rolled-back ones included.
        keep: how many to keep; 0: all.
    """
    needed = (deployment.version, predecessor(deployment, complete))
    order = sorted(complete, key=lambda n: (n not in deployment.rolled_back, n))
    beyond = len(order) - keep if keep else 0
    return [n for n in order if n not in needed][: max(0, beyond)]
