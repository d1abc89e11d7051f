"""Checkpoints of unfinished training: written atomically, verified when read."""

import itertools
import logging
import os
import re
import time
from collections.abc import Collection
from typing import Any

import tensorflow as tf

from detection_core.errors import ModelError, StorageError
from detection_core.storage import files
from detection_core.storage.scratch_folder import ScratchFolder
from detection_core.training.checkpoint_file import find_damage, first_line, readable
from detection_core.training.distribution import current_worker

_logger = logging.getLogger(__name__)

CHECKPOINT_FORMAT = 1
"""Format version of these checkpoints; raise it when older ones can no longer be resumed."""
DAMAGED = "damaged"
"""Subfolder to which damaged checkpoints are moved."""


class TrainingCheckpoints:
    """Writes `ckpt-STEP` files in a folder and restores the newest intact one.

    TensorFlow writes a checkpoint under temporary names, renames its files, the index last, and stores a
    checksum of every tensor. So a folder may hold leftovers of a killed writer, or a damaged file; reading
    distinguishes both from an intact checkpoint. The folder's listing decides what exists. TensorFlow's
    `checkpoint` file does not, because a kill may leave it out of date.

    Only the bytes themselves count as evidence of damage. A damaged checkpoint is moved to `damaged/`, never
    deleted. Where files cannot be read for another reason, nothing is moved and the error gives the cause.

    For a store that TensorFlow cannot open, a checkpoint is written to the local disk and uploaded, its index
    last.
    """

    def __init__(
        self,
        parts: dict[str, Any],
        directory: str,
        *,
        keep: int = 3,
        keep_every_n_hours: float = 10000.0,
        optional: Collection[str] = (),
    ) -> None:
        """Prepare the folder of the parts' checkpoints; nothing is read yet.

        The `keep` newest stay, and one per `keep_every_n_hours`. Optional parts keep their values where a
        checkpoint lacks them.
        """
        self.directory = directory
        self._parts, self._optional = parts, frozenset(optional)
        self._is_chief = current_worker().is_chief
        files.make_dirs(directory)
        self._checkpoint = tf.train.Checkpoint(**parts)
        # Every worker creates it here: the chief alone, at its first `save`, would wait for the others.
        _ = self._checkpoint.save_counter
        # TensorFlow's manager treats the folder's name as a pattern when it removes checkpoints. It could
        # remove those of another folder, so it removes none here.
        self._scratch = None if files.opened_by_tensorflow(directory) else ScratchFolder()
        self._local = self._scratch.name if self._scratch else directory
        self._manager = tf.train.CheckpointManager(self._checkpoint, self._local, max_to_keep=None)
        self._keep, self._keep_seconds = keep, keep_every_n_hours * 3600
        steps, now = self.steps(), time.monotonic()
        # Older checkpoints that an earlier process left are kept permanently.
        self._kept_for_good = set(steps[: max(0, len(steps) - keep)])
        self._last_kept, self._saved_at = now, dict.fromkeys(steps, now)

    def steps(self) -> list[int]:
        """Return the steps that have a checkpoint, rising."""
        return checkpoint_steps(self.directory)

    def path(self, step: int) -> str:
        """Return the prefix of the checkpoint's files."""
        return files.join(self.directory, f"ckpt-{step}")

    def save(self, step: int) -> str:
        """Write the checkpoint of a step and return its path; with several workers, the chief's is kept."""
        if self._is_chief:
            self._manager.save(checkpoint_number=step)
            self._put(step)
            self._saved_at[step] = time.monotonic()
            self._remove_old()
        else:
            # Reading a variable that every replica mirrors is a reduction, so all workers take part.
            with ScratchFolder() as scratch:
                self._checkpoint.write(files.join(scratch, "ckpt"))
        return self.path(step)

    def _put(self, step: int) -> None:
        """Upload a checkpoint to the store."""
        if self._scratch is None:
            return
        written = files.list_matching(self._local, f"ckpt-{step}.*")  # the index comes after the data
        for path in written:
            files.copy_file(path, files.join(self.directory, os.path.basename(path)))
        for path in written:
            files.remove_tree(path)

    def _fetch(self, step: int) -> str:
        """Download a checkpoint; it stays, because some values are read on demand. Return its prefix."""
        if self._scratch is not None:
            for path in files.list_matching(self.directory, f"ckpt-{step}.*"):
                files.download(path, files.join(self._local, os.path.basename(path)))
        return files.join(self._local, f"ckpt-{step}")

    def _remove_old(self) -> None:
        """Keep the newest checkpoints and one per interval of hours, as TensorFlow would."""
        passing = [step for step in self.steps() if step not in self._kept_for_good]
        for step in passing[: max(0, len(passing) - self._keep)]:
            saved_at = self._saved_at.get(step, self._last_kept)
            if saved_at - self._last_kept >= self._keep_seconds:
                self._kept_for_good.add(step)
                self._last_kept = saved_at
            else:
                self.remove(step)

    def remove(self, step: int) -> None:
        """Remove a checkpoint's files, its index first: without it the others are leftovers."""
        for file in sorted(files.list_matching(self.directory, f"ckpt-{step}.*"), reverse=True):
            files.remove_tree(file)

    def restore_latest(self) -> int:
        """Restore the newest intact checkpoint.

        Damaged ones that are newer are moved away with a warning. So is one that was being written when the
        process ended. When all are damaged, none is moved: the next call fails as well, and training does not
        silently start from zero.

        Returns:
            Its step, or 0 when the folder has none.

        Raises:
            ModelError: when a checkpoint is of another model.
            StorageError: when all are damaged, or one cannot be read for another reason than damage.
        """
        damage: dict[int, str] = {}
        for step in reversed(self.steps()):
            damage[step] = self._restore(step)
            if damage[step] and files.is_dir(self._unfinished(step)):
                self._put_aside(step, damage.pop(step))
            elif not damage[step]:
                for number in reversed(damage):
                    self._put_aside(number, damage[number])
                return step
        if damage:
            raise StorageError(
                f"expected a sound checkpoint, but all {len(damage)} are damaged"
                f" ({next(iter(damage.values()))}). Remove the folder to train from the start.",
                where=self.directory,
            )
        return 0

    def _unfinished(self, step: int) -> str:
        """Return the folder that TensorFlow removes once a checkpoint is complete."""
        return f"{self.path(step)}_temp"

    def restore(self, step: int) -> bool:
        """Restore the checkpoint of a step, and return whether it was; move a damaged one away.

        Raises:
            ModelError: when it is of another model.
            StorageError: when it cannot be read for another reason than damage.
        """
        damage = self._restore(step)
        self._put_aside(step, damage)
        return not damage

    def _restore(self, step: int) -> str:
        """Restore the checkpoint of a step, unless it is damaged; return the damage, or ""."""
        with readable(self.path(step)):
            prefix = self._fetch(step)
            damage = find_damage(prefix)
            if damage:
                return damage
            try:
                self._held_by(prefix).restore(prefix).assert_existing_objects_matched()
            except (AssertionError, ValueError) as error:
                raise ModelError(
                    "expected a checkpoint of this model and optimizer, found one of another. Train in"
                    f" another folder, or remove this one. ({first_line(error)})",
                    where=self.path(step),
                ) from error
        return ""

    def _put_aside(self, step: int, damage: str) -> None:
        """Move a damaged checkpoint away, on the chief only.

        The index goes last, so that after a kill between two files it is still recognised as damaged.
        """
        if not damage or not self._is_chief:
            return
        name = f"ckpt-{step}"
        folders = (files.join(self.directory, DAMAGED, f"{step}-{number}") for number in itertools.count(1))
        folder = next(path for path in folders if not files.exists(files.join(path, f"{name}.index")))
        files.make_dirs(folder)
        for path in files.list_matching(self.directory, f"{name}.*"):
            files.rename(path, files.join(folder, os.path.basename(path)))
        files.remove_tree(self._unfinished(step))
        _logger.warning(
            "checkpoint %s is damaged and is moved to %s; another is used where there is one (%s)",
            self.path(step),
            folder,
            damage,
        )

    def _held_by(self, prefix: str) -> tf.train.Checkpoint:
        """Return a `tf.train.Checkpoint` of the parts that a checkpoint holds."""
        missing = self._optional & self._parts.keys()
        if missing:
            missing -= {name.partition("/")[0] for name, _ in tf.train.list_variables(prefix)}
        held = {name: part for name, part in self._parts.items() if name not in missing}
        return tf.train.Checkpoint(**held) if missing else self._checkpoint


def checkpoint_steps(directory: str) -> list[int]:
    """Return the steps that have a checkpoint in a folder, rising; empty if the folder is missing."""
    paths = map(os.path.basename, files.list_matching(directory, "ckpt-*.index"))
    names = (re.fullmatch(r"ckpt-(\d+)\.index", name) for name in paths)
    return sorted(int(match[1]) for match in names if match)
