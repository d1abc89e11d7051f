"""The push destination: versions, the pointer to the deployed one, rollback.

Layout below the root:
    saved_model/VERSION/   a SavedModel, as TensorFlow Serving's base path expects it
    tflite/VERSION/        the TensorFlow Lite files of the same version
    versions/VERSION.json  record of the version and its origin; a version without it does not exist
    rolled_back/VERSION/   SavedModels taken out of service
    current.json           the deployed version, and which versions were rolled back

Each piece of a version appears by one rename: the SavedModel last, and the pointer after it. A rollback puts
its target into service, writes the pointer, and then takes the other versions out. Every writer first
completes or undoes the work of a killed one. So neither a reader of the pointer nor TensorFlow Serving, which
reads the folders, ever sees half a version.
"""

import contextlib
import dataclasses
import logging
import os
import time
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType

from components.publishing.folders import VersionFolders
from detection_core.artifacts.detector import EXTRA
from detection_core.artifacts.published import (
    CURRENT,
    IN_SERVICE,
    TFLITE,
    VERSION,
    WITHDRAWN,
    Deployment,
    PublishedVersion,
    read_deployment,
)
from detection_core.artifacts.signature import check_signature
from detection_core.errors import ContractError
from detection_core.storage import files

_logger = logging.getLogger(__name__)


class BaselineReplaced(Exception):
    """The deployed version, `current`, is not the one that the model was compared with."""

    def __init__(self, current: PublishedVersion | None) -> None:
        super().__init__(str(current.number) if current else "none")
        self.current = current


class RolledBack(Exception):
    """The same model was published before and rolled back."""

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
        """Return the deployed version, None before the first push; ContractError for invalid files."""
        while True:
            number = read_deployment(self.root).version
            if number is None:
                return None
            try:
                return self._folders.read(number)
            except FileNotFoundError as e:
                # Pruned, if another version was deployed in the meantime.
                if read_deployment(self.root).version == number:
                    raise ContractError(
                        "expected the file of the deployed version, found none; restore it, or return"
                        " to another version: `detflow rollback DESTINATION --to VERSION`",
                        where=self._folders.version_path(number),
                    ) from e

    def versions(self) -> list[PublishedVersion]:
        """Return all published versions, oldest first, including rolled-back ones.

        Versions with a damaged file are skipped with a warning.
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
        """Return the numbers of the rolled-back versions."""
        return list(read_deployment(self.root).rolled_back)

    def find(self, run_key: str) -> PublishedVersion | None:
        """Return the newest version in service that a run with this key published."""
        out = self.rolled_back()
        found = [v for v in self.versions() if v.run_key == run_key and v.number not in out]
        return found[-1] if found else None

    def find_rolled_back(self, fingerprint: str) -> PublishedVersion | None:
        """Return the last version that a model was published as, if it was rolled back."""
        found = [v for v in self.versions() if v.fingerprint == fingerprint and fingerprint]
        return found[-1] if found and found[-1].number in self.rolled_back() else None

    def fetch(self, number: int, folder: str) -> PublishedVersion:
        """Copy a version's SavedModel, or if it has been removed the deployed one's, into an empty folder.

        Raises:
            ContractError: when neither exists, or the key of DETFLOW_PUBLIC_KEY did not sign it.
        """
        chosen = number
        while True:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                version = self._folders.read(chosen)
                files.copy_tree(self.saved_model_dir(chosen), folder)
                copied = files.sizes(folder)
                if all(copied.get(name) == size for name, size in version.files.items()):
                    check_signature(folder)
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
        sign: Callable[[str], None] = lambda folder: None,
    ) -> PublishedVersion:
        """Add a version and deploy it.

        Args:
            saved_model: folder with saved_model.pb.
            tflite: folder of TensorFlow Lite files; "" for none.
            version: record of the version; its number is assigned here.
            keep: number of versions to keep, including the new one; 0 keeps all. The rollback target is
                always kept.
            onto: the deployed version that this one may replace, "" for none; None: any.
            again: also publish a model that was rolled back.
            extras: file name to a file that is published in the SavedModel's `assets.extra/detflow`.
            sign: called with each complete folder before it appears, to add its signature.

        Returns:
            The published version.

        Raises:
            RolledBack: when the model was rolled back and `again` is False.
            BaselineReplaced: when another version than `onto` is deployed.
        """
        with self._locked() as confirm:
            deployment = self._recover(read_deployment(self.root))
            current = self.current()
            if current and version.fingerprint and current.fingerprint == version.fingerprint:
                if self._folders.is_complete(IN_SERVICE, current.number):
                    return current  # `_recover` has completed a killed push of the same model.
                onto = None
            before = None if again else self.find_rolled_back(version.fingerprint)
            if before:
                raise RolledBack(before)
            if onto is not None and onto != (str(current.number) if current else ""):
                raise BaselineReplaced(current)
            version = self._add((saved_model, tflite, extras), version, deployment, sign, confirm)
            deployment = dataclasses.replace(deployment, version=version.number)
            CURRENT.write(self.root, deployment)
            for number in versions_to_prune(deployment, self._folders.complete(), keep):
                self._folders.remove(number, keep_file=number in deployment.rolled_back)
        return version

    def rollback(self, to: int | None = None, public_key: str = "") -> PublishedVersion:
        """Take the deployed version out of service, or return to a given one; return the deployed one.

        `to` may have been rolled back before; None: the newest earlier version that was not rolled back.

        Raises:
            ContractError: when the version does not exist, its SavedModel is incomplete, or a given key did
                not sign its files, see `check_signature`.
        """
        with self._locked() as confirm:
            deployment = self._recover(read_deployment(self.root) if to is None else self._read_or_rebuild())
            if to is None:
                self.current()  # raises if its file is damaged
            complete = self._folders.complete()
            target = to if to is not None else predecessor(deployment, complete)
            if target is None or target not in complete:
                raise ContractError(
                    f"expected a version to return to, found {complete} with {deployment.version} deployed"
                    f" and {list(deployment.rolled_back)} rolled back; name one that is there with --to",
                    where=self.root,
                )
            version = self._folders.read(target)
            for folder in (self._folders.path(name, target) for name in (IN_SERVICE, WITHDRAWN, TFLITE)):
                if files.is_dir(folder):
                    check_signature(folder, public_key)
            # Even without its file the deployed version must leave `saved_model/`.
            known = {*self._folders.numbers(), deployment.version or target}
            deployment = returned_to(deployment, target, known)
            confirm()
            self._folders.move(target, out=False)
            CURRENT.write(self.root, deployment)
            self._settle(deployment)
            return version

    def _read_or_rebuild(self) -> Deployment:
        """Return the deployment in the pointer file; if damaged, reconstruct it from the folders."""
        try:
            return read_deployment(self.root)
        except ContractError as e:
            _logger.warning("push | current.json is rebuilt from the folders: %s", e)
            in_service = [n for n in self._folders.numbers() if self._folders.is_complete(IN_SERVICE, n)]
            out = [n for n in self._folders.numbers() if n not in in_service]
            return Deployment(max(in_service, default=None), tuple(out))

    def _add(
        self,
        pieces: tuple[str, str, Mapping[str, str]],
        version: PublishedVersion,
        deployment: Deployment,
        sign: Callable[[str], None],
        confirm: Callable[[], None],
    ) -> PublishedVersion:
        saved_model, tflite, extras = pieces
        # If a version's file was lost, only the deployment may know it; its number is not reused.
        used = (self._folders.newest_number(), deployment.version or 0, *deployment.rolled_back)
        number = max(int(time.time()), max(used) + 1)
        with files.atomic_dir(self.saved_model_dir(number)) as folder:
            files.copy_tree(saved_model, folder)
            for name, path in extras.items():
                files.copy_file(path, os.path.join(folder, EXTRA, name))
            sign(folder)
            version = dataclasses.replace(version, number=number, files=files.sizes(folder))
            if tflite:
                with files.atomic_dir(self.tflite_dir(number)) as beside:
                    files.copy_tree(tflite, beside)
                    sign(beside)
            files.write_text(self._folders.version_path(number), VERSION.format(version))
            confirm()
        return version

    def _recover(self, deployment: Deployment) -> Deployment:
        """Complete or undo a killed writer's work, under the lock. Return the resulting deployment."""
        self._folders.tidy()
        for number in self._folders.numbers():
            if number in deployment.rolled_back or not self._folders.find(number):
                continue
            complete = self._folders.is_complete(IN_SERVICE, number)
            if number > (deployment.version or 0):
                if complete:
                    deployment = dataclasses.replace(deployment, version=number)
                    CURRENT.write(self.root, deployment)
                else:
                    self._folders.remove(number)
            elif (
                number != deployment.version
                and not complete
                and files.is_dir(self.saved_model_dir(number))
                and not self._folders.is_complete(WITHDRAWN, number)
            ):
                _logger.warning("push | version %d is not complete, and removed", number)
                self._folders.remove(number)
        self._settle(deployment)
        return deployment

    def _settle(self, deployment: Deployment) -> None:
        """Move every SavedModel to the folder that the deployment requires, oldest first.

        So TensorFlow Serving never falls back to a version that is to be removed. Rolled-back versions count
        even without a file.
        """
        for number in sorted({*self._folders.numbers(), *deployment.rolled_back}):
            self._folders.move(number, out=number in deployment.rolled_back)

    def _locked(self) -> contextlib.AbstractContextManager[Callable[[], None]]:
        """Lock the destination; a store without locks relies on unique version numbers."""
        files.make_dirs(self.root)
        return files.exclusive(os.path.join(self.root, ".lock"))


def predecessor(deployment: Deployment, complete: Collection[int]) -> int | None:
    """Return the target of a rollback: the newest version in service before the deployed one.

    `complete` has the numbers of the versions with a complete SavedModel.
    """
    earlier = [n for n in complete if n < (deployment.version or 0) and n not in deployment.rolled_back]
    return max(earlier, default=None)


def returned_to(deployment: Deployment, target: int, known: Collection[int]) -> Deployment:
    """Return the deployment after a return to a version.

    All later versions are taken out of service, because TensorFlow Serving serves the largest number. Other
    rolled-back versions stay rolled back, whatever their number. `known` has the numbers of all versions.
    """
    later = {n for n in known if n > target}
    return Deployment(target, tuple((later | {*deployment.rolled_back}) - {target}))


def versions_to_prune(deployment: Deployment, complete: Collection[int], keep: int) -> list[int]:
    """Return the versions to remove, so that `keep` remain: rolled-back ones first, then the oldest.

    The deployed version and the rollback target are never removed. `complete` has the numbers of versions
    with a complete SavedModel, including rolled-back ones; a `keep` of 0 keeps all.
    """
    needed = (deployment.version, predecessor(deployment, complete))
    order = sorted(complete, key=lambda n: (n not in deployment.rolled_back, n))
    beyond = len(order) - keep if keep else 0
    return [n for n in order if n not in needed][: max(0, beyond)]
